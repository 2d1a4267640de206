import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone, is_outlier_detector
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from isobag import IDKPointDetector, IsolationDistributionalKernel, IsolationKernel

KERNELS = [IsolationKernel, IsolationDistributionalKernel]
METHODS = {
    IsolationKernel: ["transform", "assign_cells", "similarity"],
    IsolationDistributionalKernel: ["embed"],
    IDKPointDetector: ["score_samples", "decision_function", "predict", "score_path"],
}


@pytest.mark.parametrize("cls", METHODS)
def test_a_parameter_set_after_a_clone_counts(X, cls):
    copy = clone(cls(7, 5, random_state=3).fit(X))
    assert copy.set_params(max_samples=6).fit(X).max_samples_ == 6


@pytest.mark.parametrize("frame_of", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("cls", METHODS)
def test_frames_give_the_answers_of_their_arrays_and_keep_their_names(X, cls, frame_of):
    frame = frame_of({"height": X[:, 0], "weight": X[:, 1]})
    model, plain = (cls(7, 5, random_state=3).fit(data) for data in (frame, X))
    assert list(model.feature_names_in_) == ["height", "weight"]
    assert model.n_features_in_ == 2 and not hasattr(plain, "feature_names_in_")
    for method in METHODS[cls]:
        results = [getattr(model, method)(frame), getattr(plain, method)(X)]
        assert_array_equal(*[r.toarray() if hasattr(r, "toarray") else r for r in results])


@pytest.mark.parametrize("cls", METHODS)
def test_swapped_columns_of_a_frame_are_an_error(X, cls):
    frame = pd.DataFrame(X, columns=["height", "weight"])
    with pytest.raises(ValueError, match="feature names"):
        getattr(cls(7, 5).fit(frame), METHODS[cls][0])(frame[["weight", "height"]])


def test_the_kernel_is_a_step_before_a_linear_model(rng):
    X = rng.normal(size=(200, 2))
    inside = (X**2).sum(1) < 1
    model = make_pipeline(StandardScaler(), IsolationKernel(50, 16, random_state=0), LogisticRegression())
    assert model.fit(X, inside).score(X, inside) > 0.9
    assert LogisticRegression().fit(X, inside).score(X, inside) < 0.8
    search = GridSearchCV(model, {"isolationkernel__max_samples": [2, 16]}, cv=3).fit(X, inside)
    assert search.best_score_ > 0.8


def test_a_detector_ends_a_pipeline(X):
    pipeline = make_pipeline(StandardScaler(), IDKPointDetector(100, 8, contamination=0.05, random_state=0))
    labels = pipeline.fit_predict(X)
    assert_array_equal(labels, pipeline.predict(X))
    assert_array_equal(np.flatnonzero(labels == -1), [57, 58, 59])
    assert is_outlier_detector(pipeline)
    assert pipeline.score_samples(X).shape == (len(X),)


@pytest.mark.parametrize("cls", KERNELS)
def test_cells_ignore_n_jobs_and_joblib_contexts(rng, cls):
    X = rng.normal(size=(2000, 3))
    expected = cls(20, 16, random_state=0, n_jobs=1).fit(X)
    method = METHODS[cls][0]
    for n_jobs in (2, -1, None):
        with joblib.parallel_config(backend="threading", n_jobs=2):
            model = cls(20, 16, random_state=0, n_jobs=n_jobs).fit(X)
            assert_array_equal(getattr(model, method)(X).toarray(), getattr(expected, method)(X).toarray())


def loaded_after(statement, modules):
    code = f"import sys; {statement}; print(*[m for m in {modules} if m in sys.modules])"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_importing_isobag_loads_nothing_heavy():
    heavy = ["numba", "torch", "pandas", "polars", "dask", "matplotlib", "sklearn"]
    assert loaded_after("import isobag", heavy) == []


def test_numba_is_loaded_by_its_backend_alone():
    # scikit-learn loads pandas where it is installed, so estimators are asked about numba and torch only.
    fit = "from isobag import IDKPointDetector; IDKPointDetector(backend='{}').fit([[i, i % 7] for i in range(30)])"
    assert loaded_after("from isobag import IDKPointDetector; IDKPointDetector()", ["numba", "torch"]) == []
    assert loaded_after(fit.format("numpy"), ["numba", "torch"]) == []
    assert loaded_after(fit.format("numba"), ["numba", "torch"]) == ["numba"]


def test_every_public_name_can_be_imported_and_is_listed():
    import isobag

    assert {"IsolationKernel", "IsolationDistributionalKernel", "IDKPointDetector"} <= set(dir(isobag))
    for name in isobag.__all__:
        assert getattr(isobag, name) is not None
    with pytest.raises(AttributeError, match="Isolationkernel"):
        isobag.Isolationkernel  # noqa: B018
