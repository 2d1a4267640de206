"""Drift of a window from a reference: level, power, and the row where it began."""

import numpy as np
import pytest

from isobag.backends import Compute
from isobag.models.drift import measure_drift


def test_a_change_is_seen_and_the_row_named():
    rng = np.random.default_rng(0)
    reference, window = rng.normal(size=(1000, 3)), rng.normal(size=(1000, 3))
    window[613:, 1] += 2
    drift = measure_drift(reference, window, 0, Compute())
    assert drift.p_value == drift.change_p_value == 0.001
    assert abs(drift.began - 613) <= 10


def test_a_window_that_is_all_different_differs_from_its_first_row_on():
    rng = np.random.default_rng(0)
    drift = measure_drift(rng.normal(size=(700, 2)), 3 + rng.normal(size=(300, 2)), 0, Compute())
    assert drift.began == 0
    assert drift.p_value == 0.001


@pytest.mark.slow
def test_where_nothing_changed_p_values_are_valid():
    rng = np.random.default_rng(2)
    drifts = [measure_drift(rng.normal(size=(200, 2)), rng.normal(size=(200, 2)), k, Compute()) for k in range(200)]
    for p_values in ([one.p_value for one in drifts], [one.change_p_value for one in drifts]):
        for alpha in (0.05, 0.2, 0.5):
            share = np.mean(np.array(p_values) <= alpha)
            assert share == pytest.approx(alpha, abs=3.5 * np.sqrt(alpha * (1 - alpha) / 200))


def test_every_backend_says_the_same():
    rng = np.random.default_rng(0)
    reference, window = rng.normal(size=(90, 2)), rng.normal(size=(64, 2)) * 1.5
    assert measure_drift(reference, window, 1, Compute("numpy")) == measure_drift(reference, window, 1, Compute())
