"""Input that cannot be used: one line with the value, its place and the bound."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array

from isobag import IDKPointDetector, IsolationKernel
from isobag.backends import RULES
from isobag.data.rows import ArrayRows
from isobag.data.scaling import SCALINGS
from isobag.partitionings import MECHANISMS

USES = {
    IsolationKernel: ["fit", "transform", "assign_cells", "similarity", "embed", "gram"],
    IDKPointDetector: ["fit", "score_samples", "predict", "decision_function", "score_path", "p_values", "explain"],
}
DOORS = [(cls, use) for cls, uses in USES.items() for use in uses]


def good_points():
    return np.random.default_rng(1).normal(size=(9, 2))


def through(cls, use, X):
    """Send X through one method: fit, or a method of an estimator fitted on good data."""
    model = cls(5, 4, random_state=0)
    if use != "fit":
        model.fit(np.random.default_rng(0).normal(size=(12, 2)))
    return getattr(model, use)(X)


def refuse(facts, function, *args, **how):
    """An error of one line, in which all the facts stand."""
    with pytest.raises((ValueError, TypeError)) as error:
        function(*args, **how)
    message = str(error.value)
    assert "\n" not in message.strip() and len(message) < 300
    for fact in facts:
        assert re.search(fact, message, re.IGNORECASE), f"{fact!r} is missing from: {message}"


def with_entries(dtype, places):
    X = good_points().astype(dtype)
    for place, value in places.items():
        X[place] = value
    return X


MISSING = with_entries(float, {(7, 1): np.nan, (8, 0): np.nan}), [r"\bnan\b", r"\brow 7\b", r"\bcolumn 1\b"]
BAD = {
    "inf": (with_entries(np.float32, {(7, 1): np.inf}), [r"\binf\b", r"\brow 7\b", r"\bcolumn 1\b"]),
    "-inf": (with_entries(float, {(7, 1): -np.inf}), ["-inf", r"\brow 7\b", r"\bcolumn 1\b"]),
    "text": (with_entries(object, {(4, 1): "blue"}), ["'blue'", r"\brow 4\b", r"\bcolumn 1\b"]),
    "no text": (with_entries(object, {(4, 1): ""}), ["''", r"\brow 4\b", r"\bcolumn 1\b"]),
    "number as text": (with_entries(object, {(4, 1): "3.5"}), ["'3.5'", r"\brow 4\b", r"\bcolumn 1\b"]),
    "complex": (with_entries(complex, {(4, 1): 1 + 2j}), ["complex", "2j", r"\brow 4\b", r"\bcolumn 1\b"]),
    "no rows": (np.empty((0, 2)), [r"\b0\b"]),
    "no features": (np.empty((9, 0)), [r"\b0\b"]),
}


@pytest.mark.parametrize(("cls", "use"), DOORS)
def test_every_method_names_the_value_and_its_place(cls, use):
    for X, facts in [*BAD.values(), *([MISSING] if cls is IsolationKernel else [])]:
        if not (use in ("embed", "gram") and X.size == 0):  # a list of nothing, see below
            refuse(facts, through, cls, use, X)
    if use != "fit":
        for width in (1, 3):
            refuse([rf"\b{width} feature", r"\b2 feature", cls.__name__], through, cls, use, np.ones((5, width)))


@pytest.mark.parametrize("frame_of", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("cls", USES)
def test_a_frame_is_answered_with_the_name_of_the_column(cls, frame_of):
    X = good_points()
    X[7, 1] = np.inf
    fit = cls(5, 4).fit
    refuse(["inf", r"\brow 7\b", "weight"], fit, frame_of({"height": X[:, 0], "weight": X[:, 1]}))
    refuse(["blue", r"\brow 0\b", "colour"], fit, frame_of({"height": X[:, 0], "colour": ["blue"] * 9}))


@pytest.mark.parametrize("missing", [None, pd.NA, pd.NaT])
def test_a_missing_value_in_an_object_column_is_named(missing):
    frame = pd.DataFrame({"height": range(9), "weight": [1.5] * 8 + [missing]}, dtype=object)
    refuse([r"\brow 8\b", "weight"], IsolationKernel(5, 4).fit, frame)


@pytest.mark.parametrize("kind", [np.ndarray.tolist, pd.DataFrame])
def test_a_complex_number_in_lists_or_a_frame_is_named_too(kind):
    X, facts = BAD["complex"]
    refuse([*facts[:3], r"\bcolumn '?1\b"], through, IDKPointDetector, "fit", kind(X))


@pytest.mark.parametrize("cls", USES)
def test_input_that_is_no_table_and_a_single_row_are_refused(cls):
    for X in ([1.0, 2.0, 3.0], 5.0, [[[1.0]]]):
        with pytest.raises(ValueError, match=r"2D|2-D|dim"):
            cls(5, 2).fit(X)
    refuse([r"\b1\b", r"\b2\b"], cls(5, 2).fit, [[1.0, 2.0]])


@pytest.mark.parametrize("cls", USES)
def test_parameters_are_named_with_what_they_may_be(cls):
    wrong = [("max_samples", value, [r"\b2\b"]) for value in (1, 0, -3, 2.5, "many", None, [4], np.nan)]
    wrong += [("max_samples", 10, [r"\b9\b"])]
    wrong += [("n_estimators", value, [r"\b1\b"]) for value in (0, -1, 2.5, "ten", None)]
    wrong += [("pool_size", value, []) for value in (0, -1, 1.5, "many")]
    names = {"mechanism": MECHANISMS, "rule": RULES, "scaling": SCALINGS, "backend": ("numpy", "numba", "auto")}
    wrong += [
        (name, value, [f"{one}" for one in names[name]])
        for name in names.keys() & cls().get_params()
        for value in ("no such thing", 3)
    ]
    for name, value, facts in wrong:
        refuse([name, re.escape(str(value)), *facts], cls(5, 4).set_params(**{name: value}).fit, good_points())


@pytest.fixture
def kernel():
    return IsolationKernel(5, 4, random_state=0).fit(good_points())


def test_groups_are_named(kernel):
    bad = good_points()
    bad[3, 1] = np.inf
    for method in (kernel.embed, kernel.gram):
        refuse([r"group 1\b"], method, [good_points(), np.empty((0, 2)), good_points()])
        refuse(["inf", r"group 2\b", r"\brow 3\b", r"\bcolumn 1\b"], method, [good_points(), good_points(), bad])
        refuse([r"\b8\b", r"\b9\b", "group"], method, good_points(), ["a"] * 8)
        refuse(["group"], method, [])


@pytest.mark.parametrize("other", [np.empty((0, 2)), np.ones((3, 5)), np.full((3, 2), np.nan)])
def test_both_sides_of_a_similarity_are_checked(kernel, other):
    refuse([], kernel.similarity, good_points(), other)
    refuse([], kernel.similarity, other, good_points())


@pytest.mark.parametrize(("value", "name"), [(-np.inf, "-inf"), (1e200, "1e\\+200")])
@pytest.mark.parametrize("use", USES[IDKPointDetector])
def test_a_bad_number_in_a_sparse_matrix_is_named_with_row_and_column(use, value, name):
    X = good_points()
    X[7, 1] = value
    refuse([name, r"\brow 7\b", r"\bcolumn 1\b"], through, IDKPointDetector, use, csr_array(X))


def test_so_is_one_of_so_many_features_that_few_rows_are_made_dense_at_once():
    X = csr_array(([np.inf], ([7], [1])), shape=(9, 1 << 22))
    refuse(["inf", r"\brow 7\b", r"\bcolumn 1\b"], IDKPointDetector().fit, X)


def test_rows_in_blocks_are_checked_for_their_width_number_and_names():
    for width in (1, 3):
        X = ArrayRows(np.ones((5, width)))
        refuse([rf"\b{width} feature", r"\b2 feature"], through, IDKPointDetector, "score_samples", X)
    refuse([r"\b1 row", r"\b2\b"], IDKPointDetector(5, 2).fit, ArrayRows(np.ones((1, 2))))
    model = IDKPointDetector(5, 4, random_state=0).fit(ArrayRows(good_points(), ["height", "weight"]))
    assert list(model.feature_names_in_) == ["height", "weight"]
    expected = model.score_samples(ArrayRows(good_points(), ["height", "weight"]))
    assert (model.score_samples(ArrayRows(good_points())) == expected).all()
    for names in (["weight", "height"], ["height", "age"]):
        refuse([", ".join(names), "height, weight"], model.score_samples, ArrayRows(good_points(), names))
