"""What columns and the number of points say of a group: definitions in loops, and what must be found."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracle import groups as oracle
from sklearn.metrics import roc_auc_score

from isobag import IDKGroupDetector
from isobag.backends import Compute
from isobag.data.groups import Groups
from isobag.data.rows import ArrayRows
from isobag.models.point import PointParams
from isobag.models.sizes import SizeEvidence
from isobag.models.summaries import fit_column_scores, fit_summaries

N_ODD = 5


def as_groups(parts):
    ids = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return Groups(ArrayRows(np.vstack(parts)), ids, np.arange(len(parts)))


def fitted(parts, has_counts=True):
    """Summaries of groups, and the oddness of these."""
    groups, params = as_groups(parts), PointParams(30, "auto", "auto", "auto", 0)
    return fit_summaries(groups, fit_column_scores(groups.rows), has_counts, params, Compute())


def sums_of(model, parts):
    """Sums of scores and of their squares: (g, 2 d)."""
    return model.scores.sums_of(as_groups(parts), Compute()).counts.toarray()


def normal_groups(rng, d, n_groups=100, n=100):
    return [rng.normal(0.3 * rng.normal(size=d), 1, (n, d)) for _ in range(n_groups)]


def test_sums_are_those_of_normal_scores_in_sixteenths(rng):
    parts = [rng.normal(size=(n, 3)).round(1) for n in (1, 2, 7, 40)]
    model, _ = fitted(parts)
    ranked = np.sort(np.vstack(parts), axis=0)
    for sums_of_group, part in zip(sums_of(model, parts).tolist(), parts, strict=True):
        assert sums_of_group == oracle.score_sums(part.tolist(), ranked.T.tolist())


def test_statistics_are_moments_of_the_scores_in_the_group_and_roots_of_counts(rng):
    parts = [np.column_stack([rng.normal(size=n), rng.random(n) < 0.2]) for n in rng.integers(2, 50, 40)]
    model, _ = fitted(parts)
    groups = as_groups(parts)
    statistics = model.statistics(sums_of(model, parts), groups.sizes)
    for row, part in zip(statistics, parts, strict=True):
        v = model.scores.of(part, Compute()) / 16
        assert_allclose(row, [*v.mean(axis=0), *v.std(axis=0, ddof=1), 2 * np.sqrt(part[:, 1].sum() + 0.375)])


def test_the_order_of_groups_and_of_rows_changes_not_a_bit_of_summaries(rng):
    parts = [rng.normal(size=(n, 5)) for n in rng.integers(1, 30, 60)]
    model, oddness = fitted(parts)
    order = rng.permutation(60)
    again, shuffled = fitted([rng.permutation(parts[k]) for k in order])
    assert_array_equal(shuffled, oddness[order])
    for name in ("centers", "ratios", "scales"):
        assert_array_equal(getattr(again, name), getattr(model, name))
    assert again.line == model.line and again.witness is None


@pytest.mark.parametrize("d", [6, 20])
def test_one_narrow_column_of_many_is_found_and_named(rng, d):
    parts = normal_groups(rng, d)
    for part in parts[:N_ODD]:
        part[:, 2] = part[:, 2].mean() + 0.3 * (part[:, 2] - part[:, 2].mean())
    model = IDKGroupDetector(random_state=0).fit(parts)
    assert roc_auc_score(np.arange(100) >= N_ODD, model.scores_) > 0.95
    for part, (first, *_) in zip(parts, model.explain(parts[:N_ODD]).reasons, strict=False):
        assert (first.kind, first.columns) == ("spread", (2,)) and first.deviation < -3
        low, high = np.quantile(part[:, 2], [0.25, 0.75])
        assert first.value == pytest.approx(high - low) and first.usual > 2 * first.value


def test_heavy_tails_of_one_column_of_many_are_found_and_named(rng):
    parts = normal_groups(rng, 20)
    for part in parts[:N_ODD]:
        far = rng.random(100) < 0.2
        part[far, 2] = 3 * rng.choice([-1, 1], far.sum())
    model = IDKGroupDetector(random_state=0).fit(parts)
    assert roc_auc_score(np.arange(100) >= N_ODD, model.scores_) > 0.95
    assert all(own[0].columns == (2,) for own in model.explain(parts[:N_ODD]).reasons)


def test_a_moved_column_is_named_with_both_medians(rng):
    parts = normal_groups(rng, 6)
    for part in parts[:N_ODD]:
        part[:, 4] += 2
    model = IDKGroupDetector(random_state=0).fit(parts)
    for part, (first, *_) in zip(parts, model.explain(parts[:N_ODD]).reasons, strict=False):
        assert (first.kind, first.columns) == ("mean", (4,)) and first.deviation > 3
        assert first.value == pytest.approx(np.median(part[:, 4])) and abs(first.usual) < 0.2


def test_two_columns_that_move_together_as_usually_not_are_named(rng):
    parts = normal_groups(rng, 6)
    for part in parts[:N_ODD]:
        part[:, 1] = 0.95 * part[:, 3] + 0.3 * part[:, 1]
    model = IDKGroupDetector(random_state=0).fit(parts)
    firsts = [own[0] for own in model.explain(parts[:N_ODD]).reasons]
    assert sum((one.kind, one.columns) == ("relation", (1, 3)) for one in firsts) >= 4
    assert all(one.value > 0.8 and abs(one.usual) < 0.2 for one in firsts if one.kind == "relation")


def test_constant_columns_and_single_points_are_no_evidence(rng):
    parts = [np.column_stack([np.ones(n), rng.normal(size=n)]) for n in [*[1] * 20, *rng.integers(2, 9, 60)]]
    groups = as_groups(parts)
    model, oddness = fitted(parts)
    assert np.isfinite(oddness).all() and model.constants.tolist() == [0]
    z = model.deviations(model.statistics(sums_of(model, parts), groups.sizes), groups.sizes)
    assert_array_equal(z[:, [0, 2]], 0)
    assert_array_equal(z[:20, 2:], 0)


@pytest.mark.parametrize("n_features", [2, 10])
@pytest.mark.parametrize("value", [-1.0, 1.0])
def test_a_value_never_seen_in_a_constant_column_is_odder_than_all_else_and_named(rng, value, n_features):
    parts = [rng.normal(size=(n, n_features)) for n in rng.integers(20, 90, 100)]
    for part in parts:
        part[:, 1] = 0
    model = IDKGroupDetector(random_state=0).fit(parts)
    new = [part.copy() for part in parts[:40]]
    new[3][0, 1] = value
    new[4] += 50 * (np.arange(n_features) != 1)  # far out in all other columns
    assert model.score_samples(new).argmin() == 3
    first = model.explain(new[3:4]).reasons[0][0]
    assert (first.kind, first.columns, first.value, first.usual) == ("unseen", (1,), value, 0.0)
    assert np.sign(first.deviation) == np.sign(value)


def test_a_column_with_one_other_value_beyond_the_sample_is_not_constant(rng):
    parts = [np.column_stack([np.zeros(40), rng.normal(size=40)]) for _ in range(1000)]
    parts[77][5, 0] = 1  # one of 40,000 points, of which bins see 16,384
    model, _ = fitted(parts)
    assert len(model.constants) == 0


def sessions(rng, n_groups=200):
    """One opening and one closing event each, and as many others as it comes: columns open, close, other, noise."""
    parts = []
    for n in rng.integers(10, 300, n_groups):
        events = np.full(n, 2)
        events[[0, -1]] = 0, 1
        parts.append(np.column_stack([np.eye(3)[events], rng.normal(size=n)]))
    return parts


def test_an_event_that_happens_once_however_long_the_session_is_missed_and_named(rng):
    parts = sessions(rng)
    odd = [*range(10), 20]
    for k in range(10):
        parts[k] = parts[k][:-1]
    parts[20] = np.vstack([parts[20], parts[20][-1:]])
    model = IDKGroupDetector(random_state=0).fit(parts)
    is_normal = np.isin(np.arange(200), odd, invert=True)
    assert roc_auc_score(is_normal, model.scores_) > 0.97
    reasons = [own[0] for own in model.explain([parts[k] for k in odd]).reasons]
    assert all((one.kind, one.columns, one.usual) == ("count", (1,), 1.0) for one in reasons)
    assert [one.value for one in reasons] == [0.0] * 10 + [2.0] and reasons[0].deviation < 0 < reasons[-1].deviation
    ignoring = IDKGroupDetector(random_state=0, size="ignore").fit(parts)
    assert len(ignoring.model_.summaries.counted) == 0
    assert roc_auc_score(is_normal, ignoring.scores_) < roc_auc_score(is_normal, model.scores_)


def test_counts_are_those_of_the_rarer_value(rng):
    parts = sessions(rng, 60)
    model, _ = fitted(parts)
    assert model.counted.tolist() == [0, 1, 2] and model.usual_counts.tolist() == [1, 1, 2]
    counts = model.counts(sums_of(model, parts), as_groups(parts).sizes)
    assert_array_equal(counts, [[part[:, 0].sum(), part[:, 1].sum(), (1 - part[:, 2]).sum()] for part in parts])


def test_few_groups_or_columns_mostly_of_many_values_have_no_witness(rng):
    assert fitted(sessions(rng, 60))[0].witness is not None  # three of four columns have two values
    assert fitted(sessions(rng, 29))[0].witness is None
    one_of_four = [np.column_stack([part[:, :1], rng.normal(size=(len(part), 3))]) for part in sessions(rng, 60)]
    assert fitted(one_of_four)[0].witness is None


def test_sessions_with_a_rare_mixture_of_common_events_are_found(rng):
    """Events in pairs; odd sessions have the first of one pair and the second of another: no share or count is odd."""
    parts = []
    for k in range(300):
        pairs = [(0, 1), (2, 3)] if k >= 6 else [(0, 3)]
        first, second = pairs[rng.integers(len(pairs))]
        parts.append(np.eye(4)[np.repeat([first, second], rng.integers(5, 20, 2))])
    scores = IDKGroupDetector(random_state=0).fit(parts).scores_
    assert roc_auc_score(np.arange(300) >= 6, scores) > 0.99


def test_a_group_with_far_fewer_or_far_more_points_is_odd_unless_size_is_ignored(rng):
    parts = [rng.normal(size=(n, 2)) for n in rng.integers(80, 120, 200)]
    parts[0], parts[1] = parts[0][:6], rng.normal(size=(2000, 2))
    model = IDKGroupDetector(random_state=0).fit(parts)
    assert set(np.argsort(model.scores_)[:2]) == {0, 1}
    p_size, p_shape = model.p_size(parts), model.p_shape(parts)
    assert p_size[0] == p_size[1] == pytest.approx(4 / 201) and (p_size[2:] > p_size[0]).all()
    assert (p_shape >= model.p_values(parts)).all()
    ignoring = IDKGroupDetector(random_state=0, size="ignore").fit(parts)
    assert ignoring.model_.size is None and ignoring.p_size(parts) is None
    assert ignoring.scores_[0] > 10 * model.scores_[0]


def test_where_sizes_extend_over_decades_no_size_is_odd(rng):
    sizes = np.exp(rng.uniform(np.log(5), np.log(5000), 400)).astype(int)
    assert SizeEvidence(np.sort(sizes)).oddness(sizes).max() < 2


def test_p_values_of_sizes_are_valid_for_new_groups():
    shares = []
    for seed in range(200):
        sizes = np.random.default_rng(seed).poisson(20, 140) + 1
        shares.append(np.mean(SizeEvidence(np.sort(sizes[:100])).p_values(sizes[100:]) <= 0.1))
    assert np.mean(shares) < 0.105


def test_one_reading_less_than_all_others_have_is_hardly_odd():
    evidence = SizeEvidence(np.full(100, 96))
    assert evidence.oddness(np.array([96, 95, 92]))[2] < 1 and evidence.oddness(np.array([20]))[0] > 5
