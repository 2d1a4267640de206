"""What single columns and the number of points say of a group: definitions in loops, and what must be found."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracle import groups as oracle
from sklearn.metrics import roc_auc_score

from isobag import IDKGroupDetector
from isobag.backends import Compute
from isobag.data.groups import Groups
from isobag.data.rows import ArrayRows
from isobag.models import columns
from isobag.models.columns import fit_columns, statistics_of
from isobag.models.sizes import fit_size_evidence

N_ODD = 5


def as_groups(parts):
    ids = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return Groups(ArrayRows(np.vstack(parts)), ids, np.arange(len(parts)))


def normal_groups(rng, d, n_groups=100, n=100):
    return [rng.normal(0.3 * rng.normal(size=d), 1, (n, d)) for _ in range(n_groups)]


def test_sums_are_those_of_the_values_of_bins(rng):
    parts = [rng.normal(size=(n, 3)).round(1) for n in (1, 2, 7, 40)]
    groups = as_groups(parts)
    model, _ = fit_columns(groups, Compute())
    maps = columns._sums_of(groups, model.edges, model.values, Compute())
    sums = columns._unpacked(maps, len(model.edges))
    edges, values = model.edges.tolist(), model.values.tolist()
    for own, part in zip(sums.tolist(), parts, strict=True):
        assert own == oracle.column_sums(part.tolist(), edges, values)


def test_statistics_are_moments_of_the_values_in_the_group(rng):
    values = rng.integers(-30, 30, 50)
    sums = np.array([[[int((values**k).sum()) for k in range(1, 5)]]])
    found = statistics_of(sums, np.array([50])).values[0, 0]
    v = values / 16
    away = v - v.mean()
    expected = [v.mean(), v.std(ddof=1), (away**3).mean() / v.var() ** 1.5, (away**4).mean() / v.var() ** 2]
    assert_allclose(found, expected, rtol=1e-9)


def test_the_order_of_groups_and_rows_and_sums_that_are_not_kept_change_not_a_bit(rng, monkeypatch):
    parts = [rng.normal(size=(n, 5)) for n in rng.integers(1, 30, 60)]
    for part in parts:
        part[:, 4] = np.arange(len(part)) == 0
    model, scores = fit_columns(as_groups(parts), Compute())
    order = rng.permutation(60)
    monkeypatch.setattr(columns, "_KEPT_BYTES", 0)
    again, found = fit_columns(as_groups([rng.permutation(parts[k]) for k in order]), Compute())
    assert_array_equal(found, scores[order])
    for name in ("edges", "values", "centers", "ratios", "scales"):
        assert_array_equal(getattr(again, name), getattr(model, name))
    assert again.line == model.line
    assert_array_equal(model.scores(as_groups(parts), Compute()), scores)


@pytest.mark.parametrize("d", [6, 20])
def test_one_narrow_column_of_many_is_found_and_named(rng, d):
    parts = normal_groups(rng, d)
    for part in parts[:N_ODD]:
        part[:, 2] = part[:, 2].mean() + 0.3 * (part[:, 2] - part[:, 2].mean())
    model = IDKGroupDetector(random_state=0, calibrate=False).fit(parts)
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
    model = IDKGroupDetector(random_state=0, calibrate=False).fit(parts)
    assert roc_auc_score(np.arange(100) >= N_ODD, model.scores_) > 0.95
    assert all(own[0].columns == (2,) for own in model.explain(parts[:N_ODD]).reasons)


def test_a_moved_column_is_named_with_both_medians(rng):
    parts = normal_groups(rng, 6)
    for part in parts[:N_ODD]:
        part[:, 4] += 2
    model = IDKGroupDetector(random_state=0, calibrate=False).fit(parts)
    for part, (first, *_) in zip(parts, model.explain(parts[:N_ODD]).reasons, strict=False):
        assert (first.kind, first.columns) == ("mean", (4,)) and first.deviation > 3
        assert first.value == pytest.approx(np.median(part[:, 4])) and abs(first.usual) < 0.2


def test_two_columns_that_move_together_as_usually_not_are_named(rng):
    parts = normal_groups(rng, 6)
    for part in parts[:N_ODD]:
        part[:, 1] = 0.95 * part[:, 3] + 0.3 * part[:, 1]
    model = IDKGroupDetector(random_state=0, calibrate=False).fit(parts)
    firsts = [own[0] for own in model.explain(parts[:N_ODD]).reasons]
    assert sum((one.kind, one.columns) == ("relation", (1, 3)) for one in firsts) >= 4
    assert all(one.value > 0.8 and abs(one.usual) < 0.2 for one in firsts if one.kind == "relation")


def test_constant_columns_and_single_points_are_no_evidence(rng):
    parts = [np.column_stack([np.ones(n), rng.normal(size=n)]) for n in [*[1] * 20, *rng.integers(2, 9, 60)]]
    groups = as_groups(parts)
    model, scores = fit_columns(groups, Compute())
    assert np.isfinite(scores).all()
    z = model.deviations(statistics_of(model.sums_of(groups, Compute()), groups.sizes), groups.sizes)
    assert_array_equal(z[:, 0], 0)
    assert_array_equal(z[:20, :, 1:], 0)


@pytest.mark.parametrize("value", [0.0, 2.0])
def test_a_value_never_seen_in_a_constant_column_is_odd(rng, value):
    parts = [np.column_stack([np.ones(n), rng.normal(size=n)]) for n in rng.integers(20, 90, 100)]
    model, scores = fit_columns(as_groups(parts), Compute())
    other = parts[0].copy()
    other[3, 0] = value
    assert model.scores(as_groups([other]), Compute())[0] < 0.5 * scores.min()


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
    model = IDKGroupDetector(random_state=0, calibrate=False).fit(parts)
    is_normal = np.isin(np.arange(200), odd, invert=True)
    assert roc_auc_score(is_normal, model.scores_) > 0.97
    reasons = [own[0] for own in model.explain([parts[k] for k in odd]).reasons]
    assert all((one.kind, one.columns, one.usual) == ("count", (1,), 1.0) for one in reasons)
    assert [one.value for one in reasons] == [0.0] * 10 + [2.0] and reasons[0].deviation < 0 < reasons[-1].deviation
    ignoring = IDKGroupDetector(random_state=0, calibrate=False, size="ignore").fit(parts)
    assert ignoring.model_.columns.counts is None
    assert roc_auc_score(is_normal, ignoring.scores_) < 0.9


def test_counts_are_those_of_the_rarer_value(rng):
    parts = sessions(rng, 60)
    groups = as_groups(parts)
    model, _ = fit_columns(groups, Compute())
    assert model.counts.columns.tolist() == [0, 1, 2] and model.counts.usual.tolist() == [1, 1, 2]
    counts = model.counts.counts(model.sums_of(groups, Compute())[:, :, 0], groups.sizes)
    expected = [[part[:, 0].sum(), part[:, 1].sum(), (1 - part[:, 2]).sum()] for part in parts]
    assert_array_equal(counts, expected)


def test_counts_that_differ_or_of_few_groups_or_of_many_values_are_no_evidence(rng):
    poisson = [(rng.random((n, 1)) < 1 / n).astype(float) for n in rng.integers(10, 300, 200)]
    assert fit_columns(as_groups(poisson), Compute())[0].counts is None
    assert fit_columns(as_groups(sessions(rng, 29)), Compute())[0].counts is None
    three = [np.column_stack([part[:, :1] + 2 * part[:, 1:2], part[:, 3]]) for part in sessions(rng, 60)]
    assert fit_columns(as_groups(three), Compute())[0].counts is None


def test_where_most_groups_have_some_count_of_their_own_none_is_odd_for_it(rng):
    """Each of twelve events happens once, but one in five sessions lacks it."""
    parts = []
    for n in rng.integers(30, 200, 300):
        events = np.concatenate([np.flatnonzero(rng.random(12) < 0.8), np.full(n, 12)])
        parts.append(np.eye(13)[events])
    counts = fit_columns(as_groups(parts), Compute())[0].counts
    assert len(counts.columns) >= 10 and counts.location > 0 and counts.scale >= 1
    groups = as_groups(parts)
    model, _ = fit_columns(groups, Compute())
    assert np.mean(counts.oddness(model.sums_of(groups, Compute())[:, :, 0], groups.sizes) > 3) < 0.02


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
    assert fit_size_evidence(sizes).oddness(sizes).max() < 2


def test_p_values_of_sizes_are_valid_for_new_groups():
    shares = []
    for seed in range(200):
        sizes = np.random.default_rng(seed).poisson(20, 140) + 1
        shares.append(np.mean(fit_size_evidence(sizes[:100]).p_values(sizes[100:]) <= 0.1))
    assert np.mean(shares) < 0.105


def test_one_reading_less_than_all_others_have_is_hardly_odd():
    evidence = fit_size_evidence(np.full(100, 96))
    assert evidence.oddness(np.array([96, 95, 92]))[2] < 1 and evidence.oddness(np.array([20]))[0] > 5


@pytest.mark.parametrize("columns", [[], [1, 0, 2], [0, 1, 4]])
def test_columns_of_counts_that_no_fit_makes_are_refused(rng, columns):
    model = fit_columns(as_groups(sessions(rng, 60)), Compute())[0]
    counts = model.counts
    counts.validate()
    model = replace(model, counts=replace(counts, columns=np.array(columns, dtype=np.int64)))
    with pytest.raises(ValueError, match="column"):
        (model if 4 in columns else model.counts).validate()
