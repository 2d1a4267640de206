"""Is anything in a table odder than the tail of its bulk explains?"""

import numpy as np
import pytest

from isobag import IDKPointDetector
from isobag.models.thresholds import add_counts, count_scores, counts_of, gap_of, threshold_beyond_bulk


def flagged(X, seed):
    return IDKPointDetector(random_state=seed).fit_predict(X) == -1


NULLS = {
    "normal": lambda rng: rng.normal(size=(1000, 3)),
    "t3": lambda rng: rng.standard_t(3, size=(1000, 3)),
    "lognormal": lambda rng: rng.lognormal(size=(1000, 3)),
    "counts": lambda rng: rng.poisson(2, size=(1000, 3)).astype(float),
}


@pytest.mark.parametrize("kind", NULLS)
def test_clean_tables_flag_nothing_most_of_the_time(kind):
    n_alarmed = sum(flagged(NULLS[kind](np.random.default_rng(seed)), seed).any() for seed in range(10))
    assert n_alarmed <= 3  # of 10 at .1: more in 13 of 1,000


@pytest.mark.parametrize("n_gross", [1, 3, 12, 50])
@pytest.mark.parametrize(("kind", "value"), [("normal", 50.0), ("counts", 1000.0)])
def test_equal_gross_rows_are_flagged_and_do_not_hide_each_other(kind, value, n_gross):
    for seed in range(3):
        X = NULLS[kind](np.random.default_rng(seed))
        X[:n_gross] = value
        odd = flagged(X, seed)
        assert odd[:n_gross].all() and odd[n_gross:].sum() <= 2 + n_gross / 10


@pytest.mark.parametrize("n_gross", [2, 12, 35])
def test_rows_at_8_standard_deviations_in_one_column_of_three_are_flagged(n_gross):
    n_all = 0
    for seed in range(5):
        X = NULLS["normal"](np.random.default_rng(seed))
        X[:n_gross, 1] = 8
        n_all += flagged(X, seed)[:n_gross].all()
    assert n_all >= 4


@pytest.mark.parametrize("n_gross", [3, 40])
def test_a_few_gross_rows_of_many_are_flagged(n_gross):
    X = np.random.default_rng(0).normal(size=(40_000, 4))
    X[100 : 100 + n_gross] = 50
    odd = flagged(X, 0)
    assert odd[100 : 100 + n_gross].all() and odd.sum() <= 1.3 * n_gross + 2


def test_gross_rows_are_not_learned_from():
    X = NULLS["normal"](np.random.default_rng(0))
    X[:20] = 50
    detector = IDKPointDetector(random_state=0).fit(X)
    assert detector.model_.n_rows == 980
    np.testing.assert_array_equal(detector.scores_, detector.score_samples(X))


def test_a_rare_value_of_a_column_is_no_gross_row():
    for seed in range(5):
        X = NULLS["normal"](np.random.default_rng(seed))
        X[:, 2] = np.arange(1000) % 33 == 0
        assert flagged(X, seed).sum() <= 2


def test_the_verdict_on_rows_is_the_same_on_every_road():
    X = NULLS["t3"](np.random.default_rng(3))
    X[:5, 0] = 500
    detector = IDKPointDetector(random_state=0)
    verdicts = detector.fit_predict(X)
    np.testing.assert_array_equal(detector.predict(X), verdicts)
    np.testing.assert_array_equal(detector.decision_function(X) < 0, verdicts == -1)
    assert detector.offset_ == pytest.approx(detector.threshold(counts_of(detector.scores_)))
    assert (verdicts[:5] == -1).all()


def test_the_threshold_is_for_as_many_rows_as_fit_was_given():
    X = np.random.default_rng(0).normal(size=(6000, 3))
    few, all_rows = (IDKPointDetector(max_rows=1000, random_state=0).fit(X[:n]) for n in (1001, 6000))
    limits = [model.p_values(np.zeros((1, 3))) is not None and model.model_.calibration for model in (few, all_rows)]
    for model, n in ((few, 1001), (all_rows, 6000)):
        assert model.model_.calibration.score_at(0.1 / n) == model.offset_
    assert limits[0].score_at(0.1 / 6000) < few.offset_


@pytest.mark.parametrize("scores", [np.full(1000, 0.5), np.linspace(0.1, 1, 21), np.array([0.1, 0.2]), np.zeros(500)])
def test_where_there_is_no_tail_nobody_knows_what_is_beyond_it(scores):
    assert threshold_beyond_bulk(count_scores(scores), 0.1) is None


def test_exponential_lacks_have_no_alarm_more_often_than_the_level_says(rng):
    tables = [np.exp(-rng.exponential(size=n)) for n in (22, 50, 300, 3000) for _ in range(100)]
    thresholds = [threshold_beyond_bulk(count_scores(scores), 0.1) for scores in tables]
    n_alarmed = sum(scores.min() < threshold for scores, threshold in zip(tables, thresholds, strict=True))
    assert min(thresholds) > 0
    assert 0.01 < n_alarmed / len(tables) <= 0.1  # .04 is seen


def test_the_lowest_scores_lie_apart_where_the_gap_is_wide(rng):
    scores = np.sort(np.exp(-rng.exponential(size=1000)))
    assert gap_of(np.exp(-np.linspace(0, 1, 1000))) == 0
    for j in (1, 7, 50):
        lower = np.append(scores[:j] * 1e-6, scores[j:])
        assert lower[j - 1] < gap_of(rng.permutation(lower)) < lower[j]


def test_the_decision_is_the_same_from_parts_in_any_order(rng):
    scores = np.exp(-rng.exponential(size=3000))
    scores[:3] = 1e-9
    whole = threshold_beyond_bulk(count_scores(scores), 0.1)
    parts = [count_scores(part) for part in np.array_split(rng.permutation(scores), 7)]
    merged = parts[0]
    for part in parts[1:]:
        merged = add_counts(merged, part)
    assert threshold_beyond_bulk(merged, 0.1) == whole
    assert (scores < whole).sum() == 3
