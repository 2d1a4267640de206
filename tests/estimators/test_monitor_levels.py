"""P-values of clean entities are as rare as they say, from the first periods on; common changes do not last."""

import numpy as np
import pytest

from isobag import EntityMonitor
from tests.estimators.test_monitor import START, Log, monitor

LEVELS = (0.1, 0.01, 0.001)


def clean(kind, seed, n_entities, n_days):
    """Rows, entities and days: levels and mixes of values differ, and weekends are unlike other days."""
    rng = np.random.default_rng(seed)
    day = np.arange(n_days)
    is_weekend = day % 7 >= 5
    mean = {"discrete": 4, "few rows": 3, "rows": 30}[kind]
    level = np.exp(rng.normal(np.log(mean), 0.5, n_entities))
    week = np.where(is_weekend, 1.6, 1.0)
    sizes = rng.negative_binomial(20, 20 / (20 + level[:, None] * week))
    which = np.repeat(np.arange(sizes.size), sizes.ravel())
    entity, at = which // n_days, which % n_days
    shift = rng.normal(size=(n_entities, 2))[entity] * is_weekend[at, None]
    X = rng.normal(size=(len(which), 2)) + shift + np.column_stack([entity % 4, entity % 3])
    return (np.floor(X) if kind == "discrete" else X), entity, at


def shares(kind, seeds, n_entities, n_days):
    """Parts of the p-values that are at most each level, their number, and the part that is flagged, by past."""
    p_values, flagged, days = [], [], []
    for seed in seeds:
        X, entity, day = clean(kind, seed, n_entities, n_days)
        lines = EntityMonitor(random_state=seed).update(X, entity, START + day)
        p_values.append(lines.p_value)
        flagged.append(lines.flagged)
        days.append((lines.period - START) // np.timedelta64(1, "D"))
    p, day = np.concatenate(p_values), np.concatenate(days)
    for first, last in ((0, 21), (21, 35), (35, 60), (60, n_days)):
        own = p[(day >= first) & (day < last) & ~np.isnan(p)]
        if len(own):
            yield (first, last), len(own), [float(np.mean(own <= level)) for level in LEVELS]
    assert np.concatenate(flagged).mean() <= 0.001


def check(kind, seeds, n_entities, n_days):
    for part, number, found in shares(kind, seeds, n_entities, n_days):
        for level, share in zip(LEVELS, found, strict=True):
            # Three standard errors: there are twelve comparisons, and lines of one entity hang together a little.
            assert share <= level + 3 * np.sqrt(level * (1 - level) / number), (part, level, share)


@pytest.mark.parametrize("kind", ["rows", "discrete"])
def test_p_values_of_clean_entities_are_no_smaller_than_they_say(kind):
    check(kind, (0,), 60, 56)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rows", "few rows", "discrete"])
def test_p_values_of_many_clean_entities_are_no_smaller_than_they_say(kind):
    check(kind, range(3), 90, 160)


@pytest.mark.parametrize("lasts", [1, 40])
def test_a_common_change_ends_and_hides_no_later_fault(lasts):
    log = Log(n_entities=40, n_days=60)
    log.X[(log.day >= 38) & (log.day < 38 + lasts)] += 1.5
    log.X[log.of(9, 55)] += 3
    lines = log.update(monitor(), since=START + 30)
    days = [(one.period - START) // np.timedelta64(1, "D") for one in lines.common_changes]
    assert days == list(range(38, 38 + min(lasts, len(days)))) and 1 <= len(days) <= 7
    assert lines.entity[lines.flagged & (lines.period == START + 55)].tolist() == ["shop 9"]


def test_what_changes_a_little_every_day_adds_up_over_a_week():
    log = Log(n_entities=30, n_days=95, mean=40)
    slowly = 0.02 * np.maximum(log.day - 60, 0)
    own = log.labels == "shop 5"
    log.X[own, 2] += slowly[own]
    lines = log.update(monitor(), since=START + 60)
    odd = lines.flagged & (lines.entity == "shop 5")
    assert odd.any() and lines.flagged.sum() - odd.sum() <= 2
    assert "unlike its first 28 periods" in lines.reasons[odd][0]
