"""Expected numbers of rows, and how odd others are; p-values by rank among the scores of others."""

from types import SimpleNamespace

import numpy as np
from scipy.stats import nbinom

from isobag.models.bags import FLAGGED, MISSING, ORDINARY
from isobag.models.ranks import combine_p_values, rank_p_values, rank_within, recent_scores
from isobag.models.timeline import n_begun
from isobag.models.volume import Cycles, Forecast, choose_periods, nearby_periods, run_scores, volume_scores


def test_scores_are_the_smaller_tail_of_a_negative_binomial():
    sizes, mu, dispersion = np.array([0, 3, 40, 90, 200]), np.full(5, 40.0), np.full(5, 0.05)
    law = nbinom(20, 20 / 60)
    tails = np.minimum(law.cdf(sizes), law.sf(sizes - 1))
    expected = -np.log(np.minimum(2 * tails, 1))
    np.testing.assert_allclose(volume_scores(sizes, mu, dispersion), expected, rtol=1e-6, atol=1e-12)


def test_lines_of_which_nothing_is_expected_have_no_score():
    assert volume_scores(np.array([5]), np.array([-1.0]), np.array([0.1])).tolist() == [MISSING]


class Lines(SimpleNamespace):
    """What is asked of the lines of a period before."""

    def __len__(self):
        return len(self.entities)

    def places(self, wanted):
        return np.where(wanted < len(self), wanted, -1)

    @property
    def flagged(self):
        return self.status == FLAGGED


def lines(sizes, expected, status=ORDINARY):
    return Lines(
        entities=np.arange(len(sizes)),
        sizes=np.array(sizes),
        expected=np.array(expected),
        status=np.full(len(sizes), status, dtype=np.int8),
    )


def test_two_periods_with_too_few_rows_are_rarer_than_one():
    usual = Forecast(np.full(5, 40.0), np.full(5, 0.05), np.ones(5))
    sizes, entities = np.array([15, 15, 15, 90, 15]), np.arange(5)
    alone = volume_scores(sizes, *usual) - np.log(2)
    before = lines([12, 60, 40, 80, 12], [30.0, 30.0, 30.0, 30.0, -1.0])
    scores = run_scores(sizes, usual, before, entities)
    together = nbinom(1 / (0.05 * 2500 / 4900), 1 / (1 + 0.05 * 2500 / 4900 * 70))
    np.testing.assert_allclose(scores[0], -np.log(4 * together.cdf(27)), rtol=1e-6)
    np.testing.assert_allclose(scores[3], -np.log(4 * together.sf(169)), rtol=1e-6)
    assert scores[0] > alone[0] and scores[3] > alone[3]
    np.testing.assert_allclose(scores[[1, 2, 4]], alone[[1, 2, 4]])  # the other side, and nothing expected
    flagged = lines([12, 60, 40, 80, 12], [30.0] * 5, FLAGGED)
    for last in (None, flagged, lines([], [])):
        np.testing.assert_allclose(run_scores(sizes, usual, last, entities), alone)


def test_probabilities_of_runs_hold():
    """Where all is known, at most alpha of all lines have exp(-score) <= alpha: 200,000 lines of each mean."""
    rng = np.random.default_rng(0)
    for mu in (2.0, 20.0, 80.0):
        sizes, earlier = rng.negative_binomial(20, 20 / (20 + mu), (2, 200_000))
        usual = Forecast(np.full(len(sizes), mu), np.full(len(sizes), 0.05), np.ones(len(sizes)))
        last = lines(earlier, np.full(len(sizes), mu))
        found = np.exp(-run_scores(sizes, usual, last, np.arange(len(sizes))))
        for alpha in (0.1, 0.01, 0.001):
            assert (found <= alpha).mean() <= alpha


def test_a_run_of_flagged_periods_earns_level_once():
    def period(*flagged):
        status = np.where(np.isin(np.arange(5), flagged), FLAGGED, ORDINARY)
        return Lines(entities=np.arange(5), status=status)

    assert n_begun([period(), period(1), period(1), period(1, 2), period(), period(1)]) == 3
    assert n_begun([period(1), period(1)]) == 0  # begun before


def test_a_season_counts_once_it_has_come_three_times():
    for n_periods, length in ((21, 0), (22, 7), (400, 7)):
        phases = np.arange(n_periods) % 7
        chosen = choose_periods(n_periods - 1, Cycles([phases], [7]))
        assert chosen.cycle == (length if chosen.same.sum() >= 3 else 0) == length
        assert len(chosen.places) <= 84 and chosen.recent.all()
        assert not length or (phases[chosen.places][chosen.same] == phases[-1]).all()


def test_a_long_past_of_hours_counts_by_its_latest_weeks_and_by_the_same_hour_of_the_week():
    phases = np.arange(20 * 168 + 1) % 168
    cycles = Cycles([phases, phases % 24], [168, 24])
    chosen = choose_periods(20 * 168, cycles)
    assert chosen.cycle == 168 and chosen.recent.sum() == 504 and chosen.same.sum() == 12
    assert len(chosen.places) == 504 + 9 and (phases[chosen.places[~chosen.recent]] == phases[-1]).all()
    near = np.flatnonzero(nearby_periods(20 * 168, cycles))
    assert len(near) == 168 + 19 and near[-168:].tolist() == list(range(19 * 168, 20 * 168))
    assert (phases[near[:-168]] == phases[-1]).all()


def test_an_entity_is_not_measured_by_its_own_scores():
    rng = np.random.default_rng(0)
    usual, odd = rng.exponential(size=500), np.full(30, 50.0)
    owners = np.concatenate([np.arange(500) % 20 + 1, np.zeros(30, dtype=int)])
    references = recent_scores([(np.concatenate([usual, odd]), owners)])
    own, other = rank_p_values(np.array([49.0, 49.0]), np.array([0, 1]), references)
    assert own < 1e-4 and other > 0.05


def test_ranks_are_uniform_among_scores_of_the_same_law():
    rng = np.random.default_rng(1)
    p_values = []
    for _ in range(200):
        references = recent_scores([(rng.exponential(size=300), np.arange(300))])
        p_values.append(rank_p_values(rng.exponential(size=20), np.arange(1000, 1020), references))
    p = np.concatenate(p_values)
    for level in (0.3, 0.1, 0.01, 0.001):
        assert abs(np.mean(p <= level) - level) < 4 * np.sqrt(level / len(p)) + 0.1 * level


def test_too_few_references_give_no_p_value():
    references = recent_scores([(np.arange(19.0), np.arange(19))])
    assert np.isnan(rank_p_values(np.array([3.0]), np.array([50]), references)).all()


def test_equal_references_leave_the_tail_to_the_probability_that_scores_stand_for():
    references = recent_scores([(np.full(999, 8.0), np.arange(999))])
    p_values = [rank_p_values(np.array([15.0]), np.array([5000]), references, is_log)[0] for is_log in (False, True)]
    np.testing.assert_allclose(p_values, [1e-3, 1e-3 * np.exp(-7)])


def test_what_is_probable_is_not_rare_where_all_else_is_more_so():
    references = recent_scores([(np.zeros(999), np.arange(999))])
    p_values = [rank_p_values(np.array([0.7]), np.array([5000]), references, is_log)[0] for is_log in (False, True)]
    np.testing.assert_allclose(p_values, [1e-3, np.exp(-0.7)])


def test_numbers_that_vary_less_than_those_of_a_poisson_law_are_compared_as_more():
    sizes, mu, none = np.array([0, 4]), np.full(2, 5.0), np.full(2, 1e-4)
    usual, thin = volume_scores(sizes, mu, none), volume_scores(sizes, mu, none, 0.1)
    np.testing.assert_allclose(usual[0], 5 - np.log(2), rtol=0.01)
    np.testing.assert_allclose(thin[0], 50 - np.log(2), rtol=0.01)
    assert thin[1] < 2


def test_missing_scores_have_no_rank():
    p_values = rank_within(np.array([1.0, MISSING, 3.0]))
    assert p_values[2] == 0.5 and np.isnan(p_values[1]) and p_values[0] == 1.0


def test_weights_of_missing_p_values_go_to_the_others():
    parts = {"a": np.array([0.01, 0.01, np.nan]), "b": np.array([0.5, np.nan, np.nan])}
    p_value, weighted = combine_p_values(parts, {"a": 0.25, "b": 0.75})
    np.testing.assert_allclose(p_value, [0.04, 0.01, np.nan])
    assert weighted["b"].tolist()[1:] == [np.inf, np.inf]
