"""Alarms one row at a time: the definition, and what it promises over time."""

import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from isobag.models.online import Lord


def lord_in_loops(p_values, fdr, total):
    """LORD++ by its definition."""

    def g(t):
        return math.log(max(t, 2)) / (t * math.exp(math.sqrt(math.log(t)))) / total

    alarms, thresholds = [], []
    for t, p in enumerate(p_values, 1):
        level = fdr / 2 * g(t)
        for j, alarm in enumerate(alarms):
            level += (fdr / 2 if j == 0 else fdr) * g(t - alarm)
        thresholds.append(p <= level)
        if thresholds[-1]:
            alarms.append(t)
    return thresholds


def total_of_shares():
    """c of g_t, from the level before anything was seen: w_0 g_1 = fdr / 2 log(2) / total."""
    return math.log(2) / (Lord(1.0).level * 2)


@pytest.mark.parametrize("seed", range(4))
def test_alarms_are_those_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    p_values = np.where(rng.random(600) < 0.05, 10.0 ** -rng.uniform(2, 7, 600), rng.random(600))
    _, actual = Lord(0.1).alarms_of(p_values)
    assert_array_equal(actual, lord_in_loops(p_values, 0.1, total_of_shares()))
    assert actual.any()


def test_shares_add_up_to_one_at_most():
    t = np.arange(1, 3_000_000)
    shares = np.log(np.maximum(t, 2)) / (t * np.exp(np.sqrt(np.log(t)))) / total_of_shares()
    assert 0.5 < shares.sum() < 1


def test_a_stream_may_be_cut_anywhere(rng):
    p_values = rng.random(300) ** 6
    whole, actual = Lord(0.2).alarms_of(p_values)
    state, parts = Lord(0.2), []
    for part in np.split(p_values, [1, 40, 41, 200]):
        state, alarms_of_part = state.alarms_of(part)
        parts.append(alarms_of_part)
    assert state == whole
    assert_array_equal(np.concatenate(parts), actual)
    assert actual.sum() > 5


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.002, 0.02])
def test_of_all_alarms_over_time_no_more_are_false_than_promised(share):
    false_shares = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        is_odd = rng.random(3000) < share
        p_values = np.where(is_odd, 10.0 ** -rng.uniform(3, 8, 3000), rng.random(3000))
        _, alarms = Lord(0.1).alarms_of(p_values)
        false_shares.append(alarms[~is_odd].sum() / max(1, alarms.sum()))
    assert np.mean(false_shares) <= 0.1 + 2 * np.std(false_shares) / math.sqrt(40)


def test_silence_lowers_the_level_no_further_than_it_may():
    silent, _ = Lord(0.1, least=1e-4).alarms_of(np.full(20_000, 0.5))
    assert silent.level == 1e-4 > Lord(0.1, n_seen=20_000).level
    assert silent.after(9e-5)[1] and not silent.after(2e-4)[1]
    assert silent.after(9e-5)[0].level > 1e-4  # an alarm earns level, as without
