"""One contract for all estimators, of points and of groups, our own."""

import inspect
import pickle
import re
import subprocess
import sys
from itertools import product

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_outlier_detector
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from isobag import IDKGroupDetector, IDKPointDetector
from isobag.backends import HOST_BACKENDS
from isobag.data.params import CONTAMINATION
from isobag.estimators import DETECTORS, STORABLE
from isobag.estimators.base import Computing, Modelled

RNG = np.random.default_rng(0)
X = np.vstack([RNG.normal(size=(58, 2)), [[9.0, -9.0], [8.0, 8.0]]])
IDS = np.repeat(np.arange(12), 5)
NEW = RNG.normal(size=(20, 2))
NEW_IDS = np.arange(20) % 4

OURS = {name: lambda cls=cls, **how: cls(7, random_state=0, **how) for name, cls in STORABLE.items()}
KERNELS = {name: make for name, make in OURS.items() if STORABLE[name] not in DETECTORS.values()}
POINTS = {
    "IDKPointDetector": OURS["IDKPointDetector"],
    "IDKPointDetector of the paper": lambda **how: IDKPointDetector(
        7, 8, pool_size=None, max_rows=None, random_state=0, **how
    ),
}
GROUPS = {
    "IDKGroupDetector": OURS["IDKGroupDetector"],
    "IDKGroupDetector of the paper": lambda **how: IDKGroupDetector(7, 4, 3, pool_size=None, random_state=0, **how),
}
MAKE = {**KERNELS, **POINTS, **GROUPS}


CLEAN = "rows are flagged that the tail of the bulk does not explain, and in clean blobs there are none"


@parametrize_with_checks(
    [one() for one in STORABLE.values() if one is not DETECTORS["groups"]],  # which takes groups, not rows
    expected_failed_checks=lambda estimator: (
        dict.fromkeys(("check_outliers_train", "check_outliers_fit_predict"), CLEAN)
        if isinstance(estimator, IDKPointDetector)
        else {}
    ),
)
def test_all_promises_of_scikit_learn_are_kept(estimator, check, monkeypatch):
    monkeypatch.setattr(Modelled, "calibrates", False)  # scikit-learn asks for no p-values
    check(estimator)


def fitted(name, **how):
    return MAKE[name](**how).fit(*data_of(name))


def data_of(name):
    return (X, None, IDS) if name in GROUPS else (X,)


def new_data_of(name):
    return (NEW, NEW_IDS) if name in GROUPS else (NEW,)


def methods_of(model):
    """Public methods that take data and need a fit."""
    wanted = ["score_samples", "decision_function", "predict", "p_values", "score_path", "explain", "rank"]
    return [one for one in [*wanted, "assign_cells", "transform", "similarity", "embed", "gram"] if hasattr(model, one)]


def answer(model, method, *data):
    result = getattr(model, method)(*data)
    if method == "rank":
        return [np.array(result, dtype=float)]
    if isinstance(result, tuple):
        return [np.asarray(part) for part in result]
    return [result.toarray() if hasattr(result, "toarray") else np.asarray(result)]


def answers(model, name):
    data = new_data_of(name)
    results = []
    for method in methods_of(model):
        results += answer(model, method, *data)
    return results


def assert_same_answers(model, other, name):
    for ours, theirs in zip(answers(model, name), answers(other, name), strict=True):
        assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", MAKE)
def test_parameters_are_kept_as_given_and_a_clone_has_them_and_nothing_else(name):
    model = fitted(name)
    assert {one for one in vars(MAKE[name]())} == set(inspect.signature(type(model).__init__).parameters) - {"self"}
    copy = clone(model)
    assert str(copy.get_params()) == str(model.get_params()) == str(MAKE[name]().get_params())
    assert set(vars(copy)) == set(model.get_params(deep=False))
    assert_same_answers(copy.fit(*data_of(name)), model, name)


@pytest.mark.parametrize("name", MAKE)
def test_a_fit_forgets_the_one_before(name):
    model = MAKE[name]()
    other = (NEW[:, :1], None, NEW_IDS) if name in GROUPS else (NEW[:, :1],)
    model.fit(*other).fit(*data_of(name))
    assert_same_answers(model, fitted(name), name)
    assert set(vars(model)) == set(vars(fitted(name)))


@pytest.mark.parametrize("name", MAKE)
def test_a_pickled_copy_answers_the_same(name):
    model = fitted(name)
    assert_same_answers(pickle.loads(pickle.dumps(model)), model, name)


@pytest.mark.parametrize("name", MAKE)
def test_without_fit_there_are_no_fitted_attributes_and_every_method_says_so(name):
    model = MAKE[name]()
    promised = [one for one in dir(type(model)) if one.endswith("_") and not one.startswith("_")]
    for attribute in promised:
        assert not hasattr(model, attribute), attribute
    for method in methods_of(model):
        with pytest.raises(NotFittedError, match=type(model).__name__):
            answer(model, method, *new_data_of(name))


@pytest.mark.parametrize("name", MAKE)
def test_fitted_attributes_are_there_and_answering_changes_none(name):
    model = fitted(name)
    assert model.n_features_in_ == 2
    before = pickle.dumps(model)
    answers(model, name)
    assert pickle.dumps(model) == before
    if name in POINTS or name in GROUPS:
        assert isinstance(model.offset_, float)
    if name in GROUPS:
        assert model.labels_.tolist() == list(range(12)) and model.scores_.shape == (12,)


@pytest.mark.parametrize("name", [*POINTS, *GROUPS])
def test_verdicts_follow_from_scores(name):
    model, new = fitted(name, contamination=0.2), new_data_of(name)
    assert is_outlier_detector(model)
    decisions = model.decision_function(*new)
    assert_array_equal(decisions, model.score_samples(*new) - model.offset_)
    assert_array_equal(model.predict(*new), np.where(decisions < 0, -1, 1))
    data = data_of(name)
    scores = model.score_samples(data[0], data[2]) if name in GROUPS else model.score_samples(X)
    if name in GROUPS:
        assert_allclose(model.scores_, scores, rtol=1e-10)
    assert model.offset_ == pytest.approx(np.quantile(scores, 0.2), rel=1e-10)
    assert_array_equal(clone(model).fit_predict(*data), np.where(scores < model.offset_ - 1e-12, -1, 1))


@pytest.mark.parametrize("name", MAKE)
def test_threads_set_after_fit_reach_everything_and_change_nothing(name, monkeypatch):
    model = fitted(name, n_jobs=1)
    expected = answers(model, name)
    asked, effective = [], joblib.effective_n_jobs

    def record(n_jobs=-1):
        asked.append(n_jobs)
        return effective(n_jobs)

    monkeypatch.setattr(joblib, "effective_n_jobs", record)
    model.set_params(n_jobs=3)
    data = new_data_of(name)
    for method in methods_of(model):
        asked.clear()
        answer(model, method, *data)
        assert set(asked) == {3}, method
    for ours, theirs in zip(answers(model, name), expected, strict=True):
        assert_array_equal(ours, theirs)
    asked.clear()
    model.fit(*data_of(name))
    assert set(asked) == {3}


@pytest.mark.parametrize("name", MAKE)
def test_every_backend_says_the_same(name, monkeypatch):
    expected = answers(fitted(name), name)
    for backend in HOST_BACKENDS:
        monkeypatch.setattr(Computing, "backend", backend)
        model = fitted(name, backend=backend) if name in KERNELS else fitted(name)
        for ours, theirs in zip(answers(model, name), expected, strict=True):
            assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", [*KERNELS, *POINTS])
def test_a_row_says_alone_what_it_says_in_a_batch(name):
    model = fitted(name)
    for method in methods_of(model):
        if method in ("similarity", "embed", "gram"):
            continue
        (whole,) = answer(model, method, NEW)
        for rows in (slice(0, 1), slice(7, 8), slice(3, 15), slice(None, None, -1)):
            (part,) = answer(model, method, NEW[rows])
            if method == "explain":  # the parts of features are summed by NumPy, in blocks
                assert_allclose(part, whole[rows], rtol=1e-9, atol=1e-12)
            else:
                assert_array_equal(part, whole[rows], err_msg=method)


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_says_alone_what_it_says_among_others_in_whatever_order(name):
    model, order = fitted(name), np.random.default_rng(1).permutation(len(NEW))
    shuffled, labels = NEW[order], list(dict.fromkeys(NEW_IDS[order].tolist()))
    for method in ("score_samples", "predict", "p_values", "p_shape", "decision_function"):
        whole = getattr(model, method)(NEW, NEW_IDS)
        for g in range(4):
            assert getattr(model, method)([NEW[g == NEW_IDS]])[0] == whole[g]
        assert_array_equal(getattr(model, method)(shuffled, NEW_IDS[order]), whole[labels])


def roads_of(name):
    return [one for one in ("fit", "fit_predict", "fit_transform") if hasattr(MAKE[name](), one)]


@pytest.mark.parametrize("name", MAKE)
def test_nonsense_is_refused_by_name_on_every_road_and_nothing_is_learned(name):
    for param in type(MAKE[name]()).parameters:
        for value, road in product(("no such thing", -2.5, [3], object), roads_of(name)):
            model = MAKE[name]().set_params(**{param: value})
            data = data_of(name) if road in ("fit", "fit_predict") else (X,)
            with pytest.raises(ValueError, match=re.escape(f"{param}={value!r}; ")) as error:
                getattr(model, road)(*data)
            assert str(error.value).endswith(".") and "\n" not in str(error.value)
            assert set(vars(model)) == set(model.get_params(deep=False))


def test_contamination_is_auto_or_a_share_of_at_most_a_half():
    for value in (0, 0.0, 0.9, 1, -0.1, 0.51, np.nan, None, True, "most"):
        assert not CONTAMINATION.holds(value), value
    for value in ("auto", 0.5, 1e-300, np.float32(0.25)):
        assert CONTAMINATION.holds(value), value
    for name in (*POINTS, *GROUPS):
        assert type(MAKE[name]()).parameters["contamination"] is CONTAMINATION


@pytest.mark.parametrize("cls", STORABLE.values(), ids=STORABLE)
def test_every_parameter_of_the_signature_is_described_and_its_default_allowed(cls):
    signature = inspect.signature(cls).parameters
    assert set(cls.parameters) == set(signature)
    for name, parameter in cls.parameters.items():
        assert parameter.holds(signature[name].default), name


@pytest.mark.parametrize("cls", STORABLE.values(), ids=STORABLE)
def test_the_docstring_of_a_class_describes_every_parameter_with_its_default(cls):
    section = cls.__doc__.split("Parameters\n")[1].split("Attributes\n")[0]
    described = dict(re.findall(r"^    (\w+) : .*default=(\S+)$", section, re.MULTILINE))
    defaults = {name: one.default for name, one in inspect.signature(cls).parameters.items()}
    assert described == {name: f'"{own}"' if isinstance(own, str) else str(own) for name, own in defaults.items()}


def test_numbers_of_numpy_are_numbers():
    for name in (*KERNELS, "IDKPointDetector"):
        how = {"max_samples": np.int32(8), "n_estimators": np.int64(7), "n_jobs": np.int8(1)}
        assert_same_answers(fitted(name).set_params(**how).fit(X), fitted(name).set_params(max_samples=8).fit(X), name)


def loaded_after(statement, modules):
    code = f"import sys; {statement}; print(*[m for m in {modules} if m in sys.modules])"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_importing_isobag_loads_nothing_heavy():
    heavy = ["numba", "torch", "pandas", "polars", "dask", "matplotlib", "sklearn"]
    assert loaded_after("import isobag", heavy) == []


def test_numba_is_loaded_by_its_backend_alone():
    # scikit-learn loads pandas where it is installed, so estimators are asked about numba and torch only.
    fit = "from isobag import IsolationKernel; IsolationKernel(backend='{}').fit([[i, i % 7] for i in range(30)])"
    assert loaded_after("from isobag import IDKPointDetector; IDKPointDetector()", ["numba", "torch"]) == []
    assert loaded_after(fit.format("numpy"), ["numba", "torch"]) == []
    assert loaded_after(fit.format("numba"), ["numba", "torch"]) == ["numba"]


def test_every_public_name_can_be_imported_and_is_listed():
    import isobag

    assert set(STORABLE) <= set(dir(isobag))
    for name in isobag.__all__:
        assert getattr(isobag, name) is not None
    with pytest.raises(AttributeError, match="Isolationkernel"):
        isobag.Isolationkernel  # noqa: B018
