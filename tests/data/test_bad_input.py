import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array

from isobag import IDKPointDetector, IsolationDistributionalKernel, IsolationKernel
from isobag.data import rows

USES = {
    IsolationKernel: ["transform", "assign_cells", "similarity"],
    IsolationDistributionalKernel: ["embed"],
    IDKPointDetector: ["score_samples", "predict", "decision_function", "score_path"],
}
ESTIMATORS = list(USES)
EVERY_DOOR = [(cls, use) for cls, uses in USES.items() for use in ["fit", *uses]]
ONE_DOOR = (IDKPointDetector, "fit")


def through(cls, use, X, n_features=2):
    """Send X through one method: fit, or a method of an estimator fitted on good data."""
    model = cls(5, 4, random_state=0)
    if use != "fit":
        model.fit(np.random.default_rng(0).normal(size=(12, n_features)))
    return getattr(model, use)(X)


def assert_one_clear_sentence(error, *facts):
    message = str(error.value)
    assert "\n" not in message.strip()
    assert len(message) < 300
    for fact in facts:
        assert re.search(fact, message, re.IGNORECASE), f"{fact!r} is missing from: {message}"


def good_points():
    return np.random.default_rng(1).normal(size=(9, 2))


def with_entries(dtype, places):
    X = good_points().astype(dtype)
    for place, value in places.items():
        X[place] = value
    return X


BAD = {
    "nan": (with_entries(float, {(7, 1): np.nan, (8, 0): np.nan}), [r"\bnan\b", r"\brow 7\b", r"\bcolumn 1\b"]),
    "inf": (with_entries(np.float32, {(7, 1): np.inf}), [r"\binf\b", r"\brow 7\b", r"\bcolumn 1\b"]),
    "-inf": (with_entries(float, {(7, 1): -np.inf}), ["-inf", r"\brow 7\b", r"\bcolumn 1\b"]),
    "text": (with_entries(object, {(4, 1): "blue"}), ["'blue'", r"\brow 4\b", r"\bcolumn 1\b"]),
    "no text": (with_entries(object, {(4, 1): ""}), ["''", r"\brow 4\b", r"\bcolumn 1\b"]),
    "number as text": (with_entries(object, {(4, 1): "3.5"}), ["'3.5'", r"\brow 4\b", r"\bcolumn 1\b"]),
    "complex": (with_entries(complex, {(4, 1): 1 + 2j}), ["complex", "2j", r"\brow 4\b", r"\bcolumn 1\b"]),
    "no rows": (np.empty((0, 2)), [r"\b0 (sample|row)"]),
    "no features": (np.empty((9, 0)), [r"\b0 feature"]),
}


@pytest.mark.parametrize(("cls", "use"), EVERY_DOOR)
def test_every_method_names_the_value_and_its_place(cls, use):
    for X, facts in BAD.values():
        with pytest.raises((ValueError, TypeError)) as error:
            through(cls, use, X)
        assert_one_clear_sentence(error, *facts)


@pytest.mark.parametrize("frame_of", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("cls", ESTIMATORS)
def test_a_frame_is_answered_with_the_name_of_the_column(cls, frame_of):
    X = good_points()
    X[7, 1] = np.nan
    with pytest.raises(ValueError) as error:
        cls(5, 4).fit(frame_of({"height": X[:, 0], "weight": X[:, 1]}))
    assert_one_clear_sentence(error, "nan", r"\brow 7\b", "column '?\"?weight")


@pytest.mark.parametrize("missing", [None, pd.NA, pd.NaT])
def test_a_missing_value_in_an_object_column_is_named(missing):
    cls = IDKPointDetector
    frame = pd.DataFrame({"height": range(9), "weight": [1.5] * 8 + [missing]}, dtype=object)
    with pytest.raises((ValueError, TypeError)) as error:
        cls(5, 4).fit(frame)
    assert_one_clear_sentence(error, r"\brow 8\b", "column '?\"?weight")


@pytest.mark.parametrize("frame_of", [pd.DataFrame, pl.DataFrame])
def test_a_column_of_strings_is_named(frame_of):
    cls = IDKPointDetector
    with pytest.raises((ValueError, TypeError)) as error:
        cls(5, 4).fit(frame_of({"height": np.arange(9.0), "colour": ["blue"] * 9}))
    assert_one_clear_sentence(error, "blue", r"\brow 0\b", "column '?\"?colour")


@pytest.mark.parametrize("given", [np.ndarray.tolist, pd.DataFrame], ids=["lists", "frame"])
def test_a_complex_number_in_lists_or_a_frame_is_named_too(given):
    X, facts = BAD["complex"]
    with pytest.raises((ValueError, TypeError)) as error:
        through(*ONE_DOOR, given(X))
    assert_one_clear_sentence(error, *facts[:3], r"\bcolumn '?1\b")


@pytest.mark.parametrize(("cls", "use"), [(cls, use) for cls, use in EVERY_DOOR if use != "fit"])
def test_a_wrong_number_of_features_is_named_beside_the_right_one(cls, use):
    for width in (1, 3):
        with pytest.raises(ValueError) as error:
            through(cls, use, np.ones((5, width)))
        assert_one_clear_sentence(error, rf"\b{width} feature", r"\b2 feature", cls.__name__)


@pytest.mark.parametrize("X", [[1.0, 2.0, 3.0], 5.0, [[[1.0]]]])
@pytest.mark.parametrize("cls", [IDKPointDetector, IsolationKernel])
def test_input_that_is_no_table_says_so(cls, X):
    with pytest.raises(ValueError) as error:
        cls(5, 2).fit(X)
    assert re.search(r"2D|2-D|dim|Reshape", str(error.value))


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_one_row_cannot_be_fitted(cls):
    with pytest.raises(ValueError) as error:
        cls(5, 2).fit([[1.0, 2.0]])
    assert_one_clear_sentence(error, r"\b1 (sample|row)|(sample|row)s?\D{0,4}1\b", r"\b2\b")


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_numbers_out_of_range_are_named_with_their_bound(cls):
    wrong = [("max_samples", value, r"\b2\b") for value in (1, 0, -3, 2.5, "many", None, [4], np.nan)]
    wrong += [("n_estimators", value, r"\b1\b") for value in (0, -1, 2.5, "ten", None)]
    for name, value, bound in [*wrong, ("max_samples", 10, r"\b9\b")]:
        with pytest.raises(ValueError) as error:
            cls(5, 4).set_params(**{name: value}).fit(good_points())
        assert_one_clear_sentence(error, name, re.escape(str(value)), bound)


@pytest.mark.parametrize(("cls", "option", "known"), [
    *[(cls, "backend", ["numpy", "numba", "auto"]) for cls in ESTIMATORS],
    *[(cls, "mechanism", ["hypersphere", "voronoi"]) for cls in ESTIMATORS[:3]],
    *[(cls, "rule", ["nearest", "covering", "smallest"]) for cls in ESTIMATORS[:2]],
    (IDKPointDetector, "method", ["similarity", "norm"]),
    (IDKPointDetector, "scaling", ["minmax", "standard", "robust", "None"]),
])  # fmt: skip
def test_an_unknown_name_is_answered_with_the_known_ones(cls, option, known):
    for value in ("no such thing", 3):
        with pytest.raises(ValueError) as error:
            cls(5, 4, **{option: value}).fit(good_points())
        assert_one_clear_sentence(error, option, str(value), *known)


@pytest.fixture
def idk():
    return IsolationDistributionalKernel(5, 4, random_state=0).fit(good_points())


@pytest.mark.parametrize("method", ["embed", "gram"])
def test_an_empty_group_is_named(idk, method):
    with pytest.raises(ValueError) as error:
        getattr(idk, method)([good_points(), np.empty((0, 2)), good_points()])
    assert_one_clear_sentence(error, r"group 1\b", "empty|no (row|sample|point)|0 (row|sample|point)")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_bad_number_in_a_list_of_groups_is_named_with_its_group(idk, value):
    bad = good_points()
    bad[3, 1] = value
    with pytest.raises(ValueError) as error:
        idk.embed([good_points(), good_points(), bad])
    assert_one_clear_sentence(error, str(value), r"group 2\b", r"\brow 3\b", r"\bcolumn 1\b")


@pytest.mark.parametrize("method", ["embed", "gram"])
def test_labels_of_the_wrong_length_are_named_beside_the_right_one(idk, method):
    with pytest.raises(ValueError) as error:
        getattr(idk, method)(good_points(), ["a"] * 8)
    assert_one_clear_sentence(error, r"\b8\b", r"\b9\b", "group")


def test_an_empty_list_of_groups_is_an_error(idk):
    with pytest.raises(ValueError) as error:
        idk.embed([])
    assert_one_clear_sentence(error, "group|empty|0 sample")


@pytest.mark.parametrize("other", [np.empty((0, 2)), np.ones((3, 5)), np.full((3, 2), np.nan)])
def test_both_sides_of_a_similarity_are_checked(idk, other):
    with pytest.raises(ValueError):
        idk.similarity(good_points(), other)
    with pytest.raises(ValueError):
        idk.similarity(other, good_points())
    with pytest.raises(ValueError):
        IsolationKernel(5, 4).fit(good_points()).similarity(good_points(), other)


@pytest.mark.parametrize("block_rows", [1 << 20, 3])
@pytest.mark.parametrize(("value", "name"), [(np.nan, "nan"), (-np.inf, "-inf"), (1e200, "1e\\+200")])
@pytest.mark.parametrize("use", ["fit", "score_samples", "score_path", "p_values", "explain"])
def test_a_bad_number_in_a_sparse_matrix_is_named_with_row_and_column(use, value, name, block_rows, monkeypatch):
    monkeypatch.setattr(rows, "BLOCK_ROWS", block_rows)
    X = good_points()
    X[7, 1] = value
    with pytest.raises(ValueError) as error:
        through(IDKPointDetector, use, csr_array(X))
    assert_one_clear_sentence(error, name, r"\brow 7\b", r"\bcolumn 1\b")


@pytest.mark.parametrize("width", [1, 3])
def test_rows_that_are_in_blocks_already_are_checked_for_their_width(width):
    with pytest.raises(ValueError) as error:
        through(IDKPointDetector, "score_samples", rows.ArrayRows(np.ones((5, width))))
    assert_one_clear_sentence(error, rf"\b{width} feature", r"\b2 feature", "IDKPointDetector")
    with pytest.raises(ValueError) as error:
        IDKPointDetector(5, 2).fit(rows.ArrayRows(np.ones((1, width))))
    assert_one_clear_sentence(error, r"\b1 row", r"\b2\b")


def test_rows_with_other_names_than_those_of_fit_are_refused():
    model = IDKPointDetector(5, 4, random_state=0).fit(rows.ArrayRows(good_points(), ["height", "weight"]))
    assert list(model.feature_names_in_) == ["height", "weight"]
    expected = model.score_samples(rows.ArrayRows(good_points(), ["height", "weight"]))
    assert (model.score_samples(rows.ArrayRows(good_points())) == expected).all()
    for names in (["weight", "height"], ["height", "age"]):
        with pytest.raises(ValueError) as error:
            model.score_samples(rows.ArrayRows(good_points(), names))
        assert_one_clear_sentence(error, "feature names", ", ".join(names), "height, weight")
