"""What once went wrong, or easily could: extreme numbers, threads side by side, other people's pipelines."""

import os
import subprocess
import sys
from threading import Thread

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM
from threadpoolctl import threadpool_info, threadpool_limits

from isobag import IDKGroupDetector, IDKPointDetector, IsolationDistributionalKernel, IsolationKernel
from isobag.datasets import make_card_accounts


@pytest.mark.parametrize("mechanism", ["hypersphere", "voronoi"])
@pytest.mark.parametrize("spread", [1e-160, 1e-310])
def test_rows_absurdly_far_out_are_scored_alike_by_both_backends(mechanism, spread, rng):
    X = np.column_stack([rng.random(500) * spread, rng.random(500)])
    queries = np.vstack([X[:40], np.column_stack([np.ones(200), rng.random(200)])])
    fast, slow = (
        IDKPointDetector(20, 16, mechanism=mechanism, random_state=0, backend=backend).fit(X).score_samples(queries)
        for backend in ("numba", "numpy")
    )
    assert np.array_equal(fast, slow)
    if mechanism == "hypersphere":
        assert not fast[40:].any()


def test_overlapping_fits_agree_and_leave_the_threads_of_blas_alone(rng):
    X = rng.normal(size=(3000, 60))
    with threadpool_limits(2, "blas"):
        found, expected = overlapping_fits(X)
        assert {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"} == {2}
    assert all(np.array_equal(scores, expected) for scores in found.values())


def overlapping_fits(X):
    expected = IDKPointDetector(20, 16, random_state=0).fit(X).score_samples(X)
    found = {}

    def work(name):
        found[name] = IDKPointDetector(20, 16, random_state=0, n_jobs=2).fit(X).score_samples(X)

    threads = [Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found, expected


@pytest.mark.parametrize("settings", [{"n_jobs": 2}, {"backend": "loky", "n_jobs": 2}, {"prefer": "processes"}])
def test_joblib_contexts_change_nothing(settings, rng):
    X = rng.normal(size=(300, 3))
    expected = IDKPointDetector(20, 16, random_state=0).fit(X).score_samples(X)
    with joblib.parallel_config(**settings):
        assert np.array_equal(IDKPointDetector(20, 16, random_state=0).fit(X).score_samples(X), expected)
        assert np.array_equal(IDKPointDetector(20, 16, random_state=0, n_jobs=2).fit(X).score_samples(X), expected)


def test_a_folder_that_cannot_be_written_to_only_costs_time(tmp_path):
    """Without a place for compiled code Numba refuses to keep it; the library then compiles in every process."""
    code = (
        "import numba.core.caching as caching\n"
        "caching.CacheImpl._locator_classes = []\n"
        "import numpy as np\n"
        "from isobag.backends.numba.compiled.float64_distances import padded\n"
        "print(padded(5))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ}, check=False)
    assert done.stdout.strip() == "8", done.stderr


def test_feature_maps_and_mean_maps_can_be_given_to_a_support_vector_machine(X):
    features = IsolationKernel(10, 8, random_state=0).fit_transform(X)
    assert OneClassSVM(kernel="linear").fit(features).score_samples(features).shape == (len(X),)
    maps = IsolationDistributionalKernel(10, 8, random_state=0).fit(X).embed(X, np.arange(len(X)) % 6)
    assert OneClassSVM(kernel="linear").fit(maps).score_samples(maps).shape == (6,)


def test_groups_go_through_a_pipeline():
    X, _, labels, _ = make_card_accounts(40, 2, random_state=0)
    pipeline = make_pipeline(StandardScaler(), IDKGroupDetector(20, random_state=0))
    scores = pipeline.fit(X, idkgroupdetector__groups=labels)[-1].scores_
    expected = IDKGroupDetector(20, random_state=0).fit(StandardScaler().fit_transform(X), groups=labels).scores_
    assert np.array_equal(scores, expected)


def test_labels_passed_as_y_are_not_ignored(X):
    with pytest.raises(ValueError, match="pass the labels as groups="):
        IDKGroupDetector(5, 4, 2).fit(X, np.arange(len(X)) % 5)


def test_similarity_of_more_than_two_sets_is_refused(X):
    kernel = IsolationDistributionalKernel(10, 8, random_state=0).fit(X)
    with pytest.raises(ValueError, match=r"takes two sets, not 2 and 1"):
        kernel.similarity([X[:10], X[10:]], X)


def test_text_that_speaks_of_rows_does_not_mislead_the_error(X):
    table = X.astype(object)
    table[3, 1] = "see row 299"
    with pytest.raises(ValueError, match=r"^Group 3: X has 'see row 299' in row 3, column 1"):
        IDKGroupDetector(5, 4, 2).fit(table, groups=np.arange(len(X)))


def test_frames_of_numbers_are_taken_as_they_are_and_dates_are_not(X):
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(c=1, d=True)
    assert IsolationKernel(5, 4, random_state=0).fit(frame).centers_.shape == (5, 4, 4)
    with pytest.raises(ValueError, match=r"in row 0, column 'when', which is a date, not a number"):
        IsolationKernel(5, 4).fit(frame.assign(when=pd.Timestamp("2024-05-01")))
