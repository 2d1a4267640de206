"""Missing values: what stands for them, what their surprise is, and that without any nothing changes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array

import isobag
from isobag import IDKGroupDetector, IDKPointDetector, IDKStreamDetector
from isobag.backends.arrays import FARTHEST
from isobag.data.gaps import learn_gaps
from isobag.data.rows import ArrayRows


@pytest.fixture
def X(rng):
    return rng.normal(size=(400, 4))


def with_gaps(X, rng, share):
    return np.where(rng.random(X.shape) < share, np.nan, X)


def test_gaps_become_medians_and_a_sum_of_squared_surprises_as_defined():
    nan = np.nan
    X = np.array([[1.0, nan, 5, nan], [2, 1, 6, nan], [nan, 2, 7, nan], [4, 3, 8, nan]])
    gaps = learn_gaps(ArrayRows(X))
    filled = gaps.fill(X)
    assert_allclose(filled[2, :4], [2, 2, 7, 0], atol=1e-12)
    assert_array_equal(filled[:, 4], [4, 0, 4, 0])
    assert_array_equal(gaps.where(filled), np.isnan(X))
    assert_array_equal(gaps.shares(), [0.25, 0.25, 0, 1])
    assert gaps.fill(np.array([[1.0, 2, nan, 3]]))[0, 2] == FARTHEST
    parts = gaps.hand_back(np.arange(10.0).reshape(2, 5), filled[[0, 1]])
    assert_allclose(parts.sum(axis=1), [10, 35])
    assert_allclose(parts[0], [0, 5, 2, 3])


def test_without_gaps_in_fit_nothing_changes_and_a_new_gap_is_the_oddest_row(X, rng):
    detector = IDKPointDetector(random_state=0).fit(X)
    assert detector.model_.views.n_features == 4
    new = rng.normal(size=(100, 4))
    plain = detector.score_samples(new)
    new[7, 2] = np.nan
    scores = detector.score_samples(new)
    assert_array_equal(np.delete(scores, 7), np.delete(plain, 7))
    assert scores.argmin() == 7 and detector.explain(new)[7].argmax() == 2
    assert detector.predict(new, fdr=0.1)[7] == -1


def test_scores_of_rows_with_gaps_are_those_of_each_row_alone_of_sparse_rows_and_of_the_file(X, rng, tmp_path):
    gaps = with_gaps(X, rng, 0.2)
    gaps[3] = np.nan
    detector = IDKPointDetector(random_state=0).fit(gaps)
    scores = detector.score_samples(gaps)
    assert np.isfinite(scores).all() and scores[3] < detector.score_samples(np.nanmedian(gaps, axis=0)[None])[0]
    assert_array_equal(detector.score_samples(gaps[:1]), scores[:1])
    assert_array_equal(detector.score_samples(csr_array(gaps)), scores)
    isobag.save(detector, tmp_path / "m.isobag")
    assert_array_equal(isobag.load(tmp_path / "m.isobag").score_samples(gaps), scores)
    explanation = detector.explain(gaps)
    assert explanation.shape == gaps.shape


def test_gaps_in_odd_rows_alone_are_found_by_points_and_groups(X, rng):
    X[:20, 1] = np.nan
    detector = IDKPointDetector(random_state=0).fit(X)
    assert len(np.intersect1d(np.argsort(detector.score_samples(X))[:20], np.arange(20))) >= 18
    groups = np.repeat(np.arange(20), 20)
    assert IDKGroupDetector(random_state=0).fit(X, groups=groups).scores_.argmin() == 0


def test_a_stream_goes_on_at_gaps_and_learns_that_they_come(rng):
    rows = rng.normal(size=(3000, 3))
    rows[1000, 1] = np.nan
    rows[1500:] = with_gaps(rows[1500:], rng, 0.05)
    followed = IDKStreamDetector(random_state=0, window=500).follow(rows)
    assert followed.p_values[600:1500].argmin() == 400 and followed.p_values[1000] < 1e-6
    late = np.isnan(rows[2500:]).any(axis=1)
    assert (followed.p_values[2500:][late] < 0.01).mean() < 0.2


@pytest.mark.parametrize("detector", [IDKPointDetector, IDKStreamDetector])
def test_infinity_is_an_error_that_names_row_and_column(detector, X):
    X[2, 0], X[5, 3] = np.nan, np.inf
    with pytest.raises(ValueError, match="inf in row 5, column 3"):
        detector().fit(X)
