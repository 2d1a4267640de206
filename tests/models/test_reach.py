"""What p-values can flag: told before, and true after."""

import numpy as np
import pytest

from isobag import IDKGroupDetector, IDKPointDetector
from isobag.models.calibration import discoveries
from isobag.models.reach import (
    alarms_sentence,
    dependence_sentence,
    least_detectable,
    needed_for_one,
    reach_of,
    reach_sentence,
)


@pytest.mark.parametrize("fdr", [0.01, 0.05, 0.1, 0.3])
@pytest.mark.parametrize(("n", "batch"), [(9, 5), (19, 20), (99, 1000), (999, 100), (9_999, 10_000), (1234, 777)])
def test_as_many_anomalies_are_flagged_and_not_one_fewer(n, batch, fdr):
    least = least_detectable(n, batch, fdr)
    for k in {least - 1, least, least + 1} & set(range(1, batch + 1)):
        p_values = np.ones(batch)
        p_values[:k] = 1 / (n + 1)
        assert (discoveries(p_values, fdr) == -1).sum() == (k if k >= least else 0)


@pytest.mark.parametrize(("batch", "fdr"), [(10, 0.1), (1000, 0.05), (12345, 0.1)])
def test_one_anomaly_can_be_flagged_with_as_many_rows_and_not_with_one_fewer(batch, fdr):
    n = needed_for_one(batch, fdr)
    assert (least_detectable(n, batch, fdr), least_detectable(n - 1, batch, fdr)) == (1, 2)


def test_sentences_say_what_cannot_be_flagged_and_the_way_out(rng):
    few = IDKGroupDetector(4, random_state=0).fit([*rng.normal(size=(12, 3, 1))]).model_.calibration
    said = reach_sentence(reach_of(few, 100, 0.05), "extrapolate", "group")
    assert said == "With 12 groups to compare with, nothing can be flagged at 0.05; learn from 1,999 groups or more."
    many = IDKPointDetector(4, random_state=0).fit(rng.normal(size=(500, 2))).model_.calibration
    assert "fewer than 20 anomalies among 1,000 rows cannot" in reach_sentence(reach_of(many, 1000, 0.1), "exact")
    assert "only by extrapolated p-values" in reach_sentence(reach_of(many, 1000, 0.1), "extrapolate")
    assert reach_sentence(reach_of(many, 50, 0.1), "exact") == ""


def test_a_lone_row_is_flagged_below_the_score_that_was_told_and_not_above(rng):
    calibration = IDKPointDetector(random_state=0).fit(rng.normal(size=(1000, 2))).model_.calibration
    score = reach_of(calibration, 2000, 0.1).score_of_one
    thresholds = np.exp(-calibration.tails[0].thresholds)
    for factor, is_flagged in ((0.999, True), (1.001, False)):
        lone = thresholds * (factor * score / np.exp(np.log(thresholds).mean()))
        others = np.ones((1999, len(lone)))
        p_values = calibration.compare(np.vstack([lone, others]), np.zeros((2000, 2)), "extrapolate").p_values
        assert (discoveries(p_values, 0.1)[0] == -1) == is_flagged


@pytest.mark.parametrize("n_flagged", [0, 1, 7, 40])
def test_no_sentence_speaks_of_zero_or_fewer(n_flagged):
    said = alarms_sentence(n_flagged, 0, 0.1)
    assert " 0 or fewer" not in said and ("No row" in said) == (n_flagged == 0)


def test_rows_that_hang_together_in_time_are_noticed_and_others_are_not(rng):
    steps = rng.normal(size=(2000, 2))
    walk = np.zeros_like(steps)
    for i in range(1, len(steps)):
        walk[i] = 0.99 * walk[i - 1] + steps[i]
    for X, is_said in ((walk, True), (rng.permutation(walk), False), (steps, False)):
        calibration = IDKPointDetector(20, random_state=0).fit(X).model_.calibration
        assert ("calibrate='blocks'" in dependence_sentence(calibration)) == is_said
