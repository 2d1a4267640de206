"""Estimators among other people's: frames, pipelines, threads side by side, numbers absurdly far out."""

import os
import subprocess
import sys
from threading import Thread

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

from isobag import IDKGroupDetector, IDKPointDetector, IsolationKernel
from isobag.backends import HOST_BACKENDS
from isobag.datasets import make_card_accounts
from isobag.estimators.base import Computing

METHODS = {
    IsolationKernel: ["transform", "assign_cells", "similarity", "embed"],
    IDKPointDetector: ["score_samples", "decision_function", "predict", "score_path"],
}


def dense(values):
    return values.toarray() if hasattr(values, "toarray") else values


@pytest.mark.parametrize("frame_of", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("cls", METHODS)
def test_frames_give_the_answers_of_their_arrays_and_keep_their_names(X, cls, frame_of):
    frame = frame_of({"height": X[:, 0], "weight": X[:, 1]})
    model, plain = (cls(7, 5, random_state=3).fit(data) for data in (frame, X))
    assert list(model.feature_names_in_) == ["height", "weight"]
    assert model.n_features_in_ == 2 and not hasattr(plain, "feature_names_in_")
    for method in METHODS[cls]:
        assert_array_equal(dense(getattr(model, method)(frame)), dense(getattr(plain, method)(X)))
    with pytest.raises(ValueError, match="feature names"):
        getattr(model, METHODS[cls][0])(frame[["weight", "height"]])


def test_the_kernel_is_a_step_before_a_linear_model(rng):
    X = rng.normal(size=(200, 2))
    inside = (X**2).sum(1) < 1
    model = make_pipeline(StandardScaler(), IsolationKernel(50, 16, random_state=0), LogisticRegression())
    assert model.fit(X, inside).score(X, inside) > 0.9
    assert LogisticRegression().fit(X, inside).score(X, inside) < 0.8
    search = GridSearchCV(model, {"isolationkernel__max_samples": [2, 16]}, cv=3).fit(X, inside)
    assert search.best_score_ > 0.8


def test_feature_maps_and_mean_maps_can_be_given_to_a_support_vector_machine(X):
    kernel = IsolationKernel(10, 8, random_state=0).fit(X)
    for features in (kernel.transform(X), kernel.embed(X, np.arange(len(X)) % 6)):
        assert OneClassSVM(kernel="linear").fit(features).score_samples(features).shape == (features.shape[0],)


def test_detectors_end_a_pipeline(X):
    pipeline = make_pipeline(StandardScaler(), IDKPointDetector(100, 8, contamination=0.05, random_state=0))
    labels = pipeline.fit_predict(X)
    assert_array_equal(labels, pipeline.predict(X))
    assert_array_equal(np.flatnonzero(labels == -1), [57, 58, 59])
    X, _, labels, _ = make_card_accounts(40, 2, random_state=0)
    pipeline = make_pipeline(StandardScaler(), IDKGroupDetector(20, random_state=0))
    scores = pipeline.fit(X, idkgroupdetector__groups=labels)[-1].scores_
    expected = IDKGroupDetector(20, random_state=0).fit(StandardScaler().fit_transform(X), groups=labels).scores_
    assert_array_equal(scores, expected)


def test_labels_passed_as_y_are_not_ignored(X):
    with pytest.raises(ValueError, match="groups="):
        IDKGroupDetector(5, 4, 2).fit(X, np.arange(len(X)) % 5)


@pytest.mark.parametrize("spread", [1e-160, 1e-310])
def test_rows_absurdly_far_out_are_scored_alike_by_both_backends(spread, rng, monkeypatch):
    X = np.column_stack([rng.random(500) * spread, rng.random(500)])
    queries, scores = np.vstack([X[:40], np.column_stack([np.ones(200), rng.random(200)])]), []
    for backend in HOST_BACKENDS:
        monkeypatch.setattr(Computing, "backend", backend)
        scores.append(IDKPointDetector(20, 16, random_state=0).fit(X).score_samples(queries))
    assert_array_equal(*scores)
    assert not scores[0][40:].any() and scores[0][:40].any()


@pytest.mark.parametrize("settings", [{"n_jobs": 2}, {"backend": "loky", "n_jobs": 2}, {"prefer": "processes"}])
def test_joblib_contexts_and_fits_side_by_side_change_nothing(settings, rng):
    X, results = rng.normal(size=(300, 3)), []

    def work(n_jobs):
        results.append(IDKPointDetector(20, 16, random_state=0, n_jobs=n_jobs).fit(X).score_samples(X))

    work(None)
    with joblib.parallel_config(**settings):
        work(None)
        threads = [Thread(target=work, args=(2,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(results) == 6
    for scores in results:
        assert_array_equal(scores, results[0])


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_to_only_costs_time():
    """Without a place for compiled code Numba refuses to keep it; the library then compiles in every process."""
    code = (
        "import numba.core.caching as caching\n"
        "caching.CacheImpl._locator_classes = []\n"
        "import numpy as np\n"
        "from isobag import IsolationKernel\n"
        "print(IsolationKernel(3, 4, random_state=0).fit(np.eye(9)).assign_cells(np.eye(9)).shape)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ}, check=False)
    assert done.stdout.strip() == "(9, 3)", done.stderr
