"""Is anything in a table odder than the tail of its bulk explains?"""

import numpy as np
import pytest

from isobag import IDKPointDetector
from isobag.models import thresholds
from isobag.models.thresholds import add_counts, count_scores, counts_of, threshold_beyond_bulk


def flagged(X, seed):
    scores = IDKPointDetector(calibrate=False, random_state=seed).fit_scores(X)
    return scores < threshold_beyond_bulk(count_scores(scores), 0.1)


NULLS = {
    "normal": lambda rng: rng.normal(size=(1000, 3)),
    "t3": lambda rng: rng.standard_t(3, size=(1000, 3)),
    "Cauchy": lambda rng: rng.standard_cauchy(size=(1000, 3)),
    "lognormal": lambda rng: rng.lognormal(size=(1000, 3)),
    "counts": lambda rng: rng.poisson(2, size=(1000, 3)).astype(float),
}


@pytest.mark.parametrize("kind", NULLS)
def test_clean_tables_flag_nothing_most_of_the_time(kind):
    n_alarmed = sum(flagged(NULLS[kind](np.random.default_rng(seed)), seed).any() for seed in range(10))
    assert n_alarmed <= 3  # of 10 at .1: more in 13 of 1,000


@pytest.mark.parametrize("kind", ["normal", "counts"])
@pytest.mark.parametrize("n_gross", [1, 2, 10])
def test_gross_rows_are_flagged_and_do_not_hide_each_other(kind, n_gross):
    for seed in range(4):
        X = NULLS[kind](np.random.default_rng(seed))
        X[:n_gross] = 1000 * (1 + np.arange(n_gross)[:, None])
        found = flagged(X, seed)
        assert found[:n_gross].all() and found[n_gross:].sum() <= 2


def test_rows_beyond_are_5_of_100_too_and_one_that_is_far_in_one_column_of_four():
    n_found = n_false = n_lone = 0
    for seed in range(8):
        X = np.random.default_rng(seed).normal(size=(500, 4))
        X[:25] += 20 * np.random.default_rng(seed + 100).choice([-1, 1], size=(25, 4))
        found = flagged(X, seed)
        n_found, n_false = n_found + found[:25].sum(), n_false + found[25:].sum()
        X = np.random.default_rng(seed).normal(size=(500, 4))
        X[0, 0] = 20
        n_lone += flagged(X, seed)[0]
    assert n_found >= 0.9 * 8 * 25 and n_false <= 8 and n_lone >= 5


@pytest.mark.parametrize("scores", [np.full(1000, 0.5), np.linspace(0.1, 1, 21), np.array([0.1, 0.2]), np.zeros(500)])
def test_where_there_is_no_tail_nobody_knows_what_is_beyond_it(scores):
    assert threshold_beyond_bulk(count_scores(scores), 0.1) is None


def test_exponential_lacks_have_no_alarm_more_often_than_the_level_says(rng):
    tables = [np.exp(-rng.exponential(size=n)) for n in (22, 50, 300, 3000) for _ in range(100)]
    n_alarmed = sum(threshold_beyond_bulk(count_scores(scores), 0.1) > 0 for scores in tables)
    assert 0.01 < n_alarmed / len(tables) <= 0.1  # .04 is seen


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


def test_counts_of_scores_do_not_depend_on_how_many_are_counted_at_once(monkeypatch):
    scores = np.random.default_rng(0).random(1_000) ** 4
    whole = counts_of(scores)
    monkeypatch.setattr(thresholds, "_BLOCK_SCORES", 37)
    parts = counts_of(scores)
    assert whole.n == 1_000 and (whole.low, whole.high) == (parts.low, parts.high)
    assert np.array_equal(whole.steps, parts.steps) and np.array_equal(whole.counts, parts.counts)
