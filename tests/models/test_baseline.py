"""Rows against their own group: found by the definition in loops, alike on all backends, kept in files."""

import datetime
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracle import points as oracle
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

import isobag
from isobag import IDKPointDetector
from isobag.backends import Compute
from isobag.data.labelled import LabelledRows
from isobag.data.rows import ArrayRows
from isobag.data.scaling import fit_scaling
from isobag.models.calibration import discoveries
from isobag.models.point_fit import fit_point_model, fit_rows

N_GROUPS = 30
PLAIN = Compute("numpy")


def accounts(seed, d=2, spread=6.0, n_groups=N_GROUPS, sizes=(20, 120), share=0.05):
    """Rows of accounts with levels of their own, and new rows, some of which are at the level of another account."""
    rng = np.random.default_rng(seed)
    n = rng.integers(*sizes, n_groups)
    levels = rng.uniform(-spread, spread, (n_groups, d))
    owners = np.repeat(np.arange(n_groups), n)
    X, new = (levels[owners] + rng.normal(size=(len(owners), d)) for _ in range(2))
    is_odd = rng.random(len(owners)) < share
    others = (owners + rng.integers(1, n_groups, len(owners))) % n_groups
    new[is_odd] += (levels[others] - levels[owners])[is_odd]
    order = rng.permutation(len(owners))
    return X[order], owners[order], new, owners, is_odd


def small(**params):
    return IDKPointDetector(**{"n_estimators": 12, "random_state": 0, **params})


def cells_in_loops(views, X):
    """The cells of rows (n, t) at each level of each view."""
    for view in views.members:
        balls, scaled = view.balls, view.scaling.apply(X)
        for psi in balls.levels:
            drawn = oracle.partitionings(balls.pool, balls.slots, balls.levels, psi)
            yield np.array(oracle.assign_cells(scaled, drawn))


def paths_in_loops(model, X, owners, rows, new, new_owners):
    """Scores at each level of each view in the mixed maps, row by row; ``rows``: numbers of the training rows."""
    baseline, columns = model.baseline, []
    qs, gains = baseline.ratios.ravel(), baseline.gains.ravel()
    for learned, cells, q, gain in zip(
        cells_in_loops(model.views, X), cells_in_loops(model.views, new), qs, gains, strict=True
    ):
        shares = []
        for k, owner in enumerate(new_owners):
            hits = ((learned == cells[k]) & (cells[k] != oracle.OUTSIDE)).mean(axis=1)
            is_mate = owners == owner
            if rows is not None:
                is_mate[rows[k]] = False
            weight = q * is_mate.sum() / (1 + q * is_mate.sum())
            mixed = (weight * hits[is_mate].mean() if is_mate.any() else 0) + (1 - weight) * hits.mean()
            shares.append(mixed / (weight * gain + 1 - weight))
        columns.append(shares)
    return np.array(columns).T


def averaged(model, shares, X):
    """The score from scores at each level, with what is stored of how far out rows are."""
    n_views = len(model.views.members)
    far = [own for _, own in model.divide(model.sum_at(PLAIN)(X))]
    return model.average.apply(list(zip(np.split(shares, n_views, axis=1), far, strict=True)))


def ratio_in_loops(values, owners):
    """Variance between groups over the variance within, of the normal scores of one column."""
    scores = fit_scaling(values[:, None], "normal").apply(values[:, None])[:, 0].astype(float)
    parts = [scores[owners == g] for g in np.unique(owners)]
    n = np.array([len(part) for part in parts])
    within = sum(((part - part.mean()) ** 2).sum() for part in parts) / (n.sum() - len(n))
    spread = sum(len(part) * (part.mean() - scores.mean()) ** 2 for part in parts) / (len(n) - 1)
    between = (spread - within) / ((n.sum() - (n**2).sum() / n.sum()) / (len(n) - 1))
    return max(between, 0) / within


def residuals_in_loops(X, owners, new, new_owners):
    """Residuals of the rows of ``fit``, each without itself, and of new rows, column by column."""
    actual, of_new = np.zeros(X.shape), np.zeros(new.shape)
    for j, (column, fresh) in enumerate(zip(X.T, new.T, strict=True)):

        def shrunk(others, of_all, q, n, power):
            rest = 1 / (1 + q * max(n, 0)) ** power
            return (1 - rest) * (np.median(others) if len(others) else 0) + rest * of_all

        others = [np.flatnonzero((owners == owner) & (np.arange(len(X)) != k)) for k, owner in enumerate(owners)]
        q = ratio_in_loops(column, owners)
        center = np.median(column)
        apart = np.array([x - shrunk(column[o], center, q, len(o), 4) for x, o in zip(column, others, strict=True)])
        far = np.abs(apart)
        q_far = ratio_in_loops(far, owners)
        spread = np.median(far)
        actual[:, j] = [a / shrunk(far[o], spread, q_far, len(o) - 1, 1) for a, o in zip(apart, others, strict=True)]
        for k, (x, owner) in enumerate(zip(fresh, new_owners, strict=True)):
            mates = np.flatnonzero(owners == owner)
            own_center = shrunk(column[mates], center, q, len(mates), 4)
            of_new[k, j] = (x - own_center) / shrunk(far[mates], spread, q_far, len(mates) - 1, 1)
    return actual, of_new


def test_residuals_are_those_of_the_definition_in_loops():
    X, owners, new, new_owners, _ = accounts(4, n_groups=7, sizes=(1, 9))
    learned, fresh = LabelledRows(ArrayRows(X), owners, 7), LabelledRows(ArrayRows(new), new_owners, 7)
    model, scores = fit_point_model(learned, small().params, PLAIN)
    expected, of_new = residuals_in_loops(X, owners, new, new_owners)
    residuals, of_rows = model.residuals, replace(model, residuals=None)
    assert_allclose(residuals.of(fresh).whole, of_new, 1e-6)
    bare, left = fit_rows(ArrayRows(expected), small().params, PLAIN)
    assert_allclose(residuals.model.reference, bare.reference, 1e-6)
    for ours, theirs in zip(residuals.model.tables, bare.tables, strict=True):
        assert_array_equal(ours, theirs)
    assert_allclose(residuals.usual(2), residuals.centers[2] + residuals.spreads[2] * bare.reference, 1e-6)
    _, plain = fit_rows(learned, small().params, PLAIN)
    assert_allclose(np.log(residuals.factor), np.median(np.log(plain)) - np.median(np.log(left)), 1e-6)
    assert_allclose(scores, np.minimum(plain, left * residuals.factor), 1e-6)
    row_scores, residual_scores = of_rows.scores(fresh, PLAIN), bare.scores(ArrayRows(of_new), PLAIN)
    assert_allclose(model.scores(fresh, PLAIN), np.minimum(row_scores, residual_scores * residuals.factor), 1e-6)
    assert_array_equal(model.scores(fresh.as_unseen(), PLAIN), of_rows.scores(fresh.as_unseen(), PLAIN))


def test_scores_are_those_of_the_definition_in_loops():
    X, owners, new, new_owners, _ = accounts(0, n_groups=6, sizes=(3, 12))
    model = small().fit(X, within=owners)
    chosen = np.arange(0, len(new), 5)
    expected = paths_in_loops(model.model_, X, owners, None, new[chosen], new_owners[chosen])
    alone = replace(model.model_, residuals=None)
    scores = alone.scores(model.labelled(new[chosen], new_owners[chosen]), Compute())
    assert_allclose(scores, averaged(model.model_, expected, new[chosen]), 1e-12)


def test_rows_of_fit_do_not_find_themselves():
    X, owners, *_ = accounts(1, n_groups=6, sizes=(1, 8))
    rows = LabelledRows(ArrayRows(X), owners, 6)
    model, scores = fit_point_model(rows, small().params, PLAIN)
    alone, rows_of_fit = replace(model, residuals=None), np.arange(len(X))
    expected = paths_in_loops(alone, X, owners, rows_of_fit, X, owners)
    _, fit_scores = fit_rows(rows, small().params, PLAIN)
    assert_allclose(fit_scores, averaged(alone, expected, X), 1e-12)
    assert (scores <= fit_scores).all() and (scores != model.scores(rows, PLAIN)).any()


def test_one_psi_is_the_papers_share_in_the_mixed_map():
    X, owners, new, new_owners, _ = accounts(2, n_groups=6, sizes=(3, 12))
    model = small(max_samples=8).fit(X, within=owners)
    assert model.model_.baseline.ratios.shape == (1, 1)
    whole = replace(model.model_, views=model.model_.views.largest)
    expected = paths_in_loops(whole, X, owners, None, new[:9], new_owners[:9])[:, 0]
    assert_allclose(model.score_samples(new[:9], within=new_owners[:9]), expected, 1e-12)
    contributions = model.explain(new[:9], within=new_owners[:9]).sum(axis=1)
    assert (
        spearmanr(contributions, -expected).statistic > 0.99
    )  # below a thousandth of the mean all scores lack as much


def test_the_ratio_is_that_of_the_variances_of_the_maps():
    """One-way analysis of variance, with dense mean maps."""
    X, owners, *_ = accounts(3, n_groups=8, sizes=(5, 15))
    model = small(max_samples=16).fit(X, within=owners).model_
    (cells,) = cells_in_loops(model.views.largest, X)
    features = (cells[:, :, None] == np.arange(16)).astype(float).reshape(len(X), -1)
    n = np.bincount(owners)
    means = np.array([features[owners == g].mean(axis=0) for g in range(8)])
    within = sum(((features[owners == g] - means[g]) ** 2).sum() for g in range(8)) / (len(X) - 8)
    spread = (n * ((means - features.mean(axis=0)) ** 2).sum(axis=1)).sum() / 7
    between = (spread - within) / ((len(X) - (n**2).sum() / len(X)) / 7)
    assert_allclose(model.baseline.ratios, between / within, 1e-9)


@pytest.mark.parametrize("d", [2, 5])
def test_what_is_ordinary_for_all_but_odd_for_its_group_is_found_by_one_model(d):
    aucs = []
    for seed in range(2):
        X, owners, new, new_owners, is_odd = accounts(seed, d, spread=10.0, sizes=(20, 60))
        pooled = IDKPointDetector(random_state=0).fit(X).score_samples(new)
        model = IDKPointDetector(random_state=0).fit(X, within=owners)
        scores = model.score_samples(new, within=new_owners)
        aucs.append([roc_auc_score(~is_odd, within) for within in (pooled, scores)])
    pooled, within = np.mean(aucs, axis=0)
    assert pooled < 0.65
    assert within > 0.95


def few_of_many(seed, size, n_groups=90, d=5):
    """Levels ten deviations apart in one of five columns; a tenth of the new rows are at the level of another group."""
    rng = np.random.default_rng(seed)
    level = rng.permutation(n_groups) * 10.0
    owners = np.repeat(np.arange(n_groups), size)
    X, new = rng.normal(size=(2, len(owners), d))
    is_odd = rng.random(len(owners)) < 0.1
    X[:, 0] += level[owners]
    new[:, 0] += level[np.where(is_odd, (owners + rng.integers(1, n_groups, len(owners))) % n_groups, owners)]
    return X, owners, new, is_odd


@pytest.mark.parametrize(("size", "least"), [(3, 0.93), (10, 0.97)])
def test_groups_that_differ_in_one_of_five_columns_are_told_apart(size, least):
    X, owners, new, is_odd = few_of_many(0, size)
    pooled = IDKPointDetector(random_state=0).fit(X).score_samples(new)
    model = IDKPointDetector(random_state=0).fit(X, within=owners)
    assert roc_auc_score(~is_odd, pooled) < 0.6
    assert roc_auc_score(~is_odd, model.score_samples(new, within=owners)) > least
    contributions = model.explain(new[is_odd][:40], within=owners[is_odd][:40])
    assert (contributions.argmax(axis=1) == 0).mean() > 0.9


@pytest.mark.slow
def test_p_values_of_residuals_hold_where_groups_have_few_rows():
    """Shares of ordinary rows below alpha over 4 draws of 810 or 900 rows: the standard error at .05 is .004."""
    small_ones = {alpha: [] for alpha in (0.01, 0.05, 0.1)}
    for seed, size in ((0, 3), (1, 3), (0, 10), (1, 10)):
        X, owners, *_ = few_of_many(seed, size)
        fresh = np.random.default_rng(100 + seed).normal(size=X.shape)
        fresh[:, 0] += np.random.default_rng(seed).permutation(90)[owners] * 10.0  # the levels of few_of_many
        model = IDKPointDetector(n_estimators=40, random_state=seed).fit(X, within=owners)
        assert model.model_.residuals is not None
        p_values = model.p_values(fresh, within=owners)
        for alpha, shares in small_ones.items():
            shares.append((p_values <= alpha).mean())
    for alpha, shares in small_ones.items():
        assert np.mean(shares) <= 1.15 * alpha + 0.008


def test_what_is_odd_for_all_but_usual_for_its_group_is_not_flagged():
    rng = np.random.default_rng(0)
    owners = np.repeat(np.arange(20), 60)
    X = rng.normal(size=(1200, 2))
    X[owners == 7] += 9  # one account lives far from all others
    new, alone = rng.normal(9, 1, (50, 2)), np.full(50, 7)
    model = IDKPointDetector(random_state=0).fit(X, within=owners)
    assert (model.predict(new, within=alone) == -1).mean() < 0.1
    assert (model.p_values(new, within=alone) < 0.01).mean() < 0.1
    assert (model.predict(new, within=np.full(50, 3)) == -1).all()  # the same rows, of another account
    assert (model.predict(rng.normal(size=(50, 2)), within=alone) == -1).mean() > 0.9
    assert (IDKPointDetector(random_state=0).fit(X).p_values(new) < 0.1).mean() > 0.5


@pytest.mark.slow
def test_groups_that_do_not_differ_change_nothing():
    X, _, new, _, _ = accounts(0)
    X = X[:500]  # of more rows all together have psi above 256, and rows of groups have not
    pooled = small().fit(X)
    alone = small().fit(X, within=["all"] * len(X))
    assert_array_equal(alone.score_samples(new, within=["all"] * len(new)), pooled.score_samples(new))
    rng = np.random.default_rng(5)
    same, labels = rng.normal(size=(2000, 3)), rng.integers(0, 40, 2000)
    new = np.vstack([rng.normal(size=(1000, 3)), rng.uniform(-5, 5, (50, 3))])
    truth, whose = np.arange(1050) < 1000, rng.integers(0, 40, 1050)
    auc = roc_auc_score(truth, small(n_estimators=100).fit(same, within=labels).score_samples(new, within=whose))
    assert abs(auc - roc_auc_score(truth, small(n_estimators=100).fit(same).score_samples(new))) < 0.01


def test_p_values_hold_for_rows_of_known_groups_and_of_new_ones():
    """Shares of ordinary rows below alpha over 3 draws of 1,800 rows: the standard error at .05 is .003."""
    small_ones = {alpha: [] for alpha in (0.01, 0.05, 0.1)}
    for seed in range(3):
        X, owners, new, new_owners, _ = accounts(seed, share=0.0)
        model = IDKPointDetector(n_estimators=40, random_state=seed).fit(X, within=owners)
        seen, unseen = model.p_values(new, within=new_owners), model.p_values(new, within=new_owners + 1000)
        for alpha, shares in small_ones.items():
            shares.append([(seen <= alpha).mean(), (unseen <= alpha).mean()])
    for alpha, shares in small_ones.items():
        assert (np.mean(shares, axis=0) <= 1.15 * alpha + 0.004).all()
        assert (np.mean(shares, axis=0) >= 0.2 * alpha).all()


def test_rows_of_new_groups_are_compared_with_all_and_not_alarming_for_that():
    X, owners, new, *_ = accounts(0, spread=10.0, share=0.0)
    model = IDKPointDetector(random_state=0).fit(X, within=owners)
    unseen = np.full(len(new), "a new account", dtype=object)
    assert (model.predict(new, within=unseen) == -1).mean() < 0.15
    far = np.array([[200.0, 0.0], [400.0, 0.0]])
    scores = model.score_samples(far, within=["new", "new"])
    assert scores[0] > scores[1]  # still ranked by how far out they are
    assert (model.predict(far, within=["new", "new"]) == -1).all()


@pytest.mark.parametrize("params", [{}, {"max_samples": 8}], ids=str)
def test_neither_backend_nor_blocks_nor_the_rest_of_the_batch_change_a_bit(params):
    X, owners, new, new_owners, _ = accounts(0, d=4, n_groups=8, sizes=(5, 20))
    asked = np.where(new_owners == 3, 999, new_owners)
    model = small(**params).fit(X, within=owners)
    scores, p_values = model.score_samples(new, within=asked), model.p_values(new, within=asked)
    assert_array_equal(model.score_samples(new[7:8], within=asked[7:8]), scores[7:8])
    rows, numbers = model.labelled(new, asked), model.labelled(X, owners).owners
    for compute, block_rows in ((PLAIN, 1000), (Compute("numba", 2), 1000), (PLAIN, 15)):
        learned = LabelledRows(ArrayRows(X, block_rows=block_rows), numbers, 8)  # groups of more rows are cut
        again, of_fit = fit_point_model(learned, model.params, compute, calibrated=True)
        assert_array_equal(of_fit, model.scores_)
        assert_array_equal(again.scores(rows, compute), scores)
        assert_array_equal(again.p_values(rows, compute), p_values)
        assert_array_equal(again.explain(rows, compute), model.explain(new, within=asked))


def test_contributions_sum_to_the_logarithm_and_name_the_feature_that_is_odd_for_the_group():
    X, owners, new, new_owners, _ = accounts(0, d=3, spread=8.0, share=0.0)
    model = IDKPointDetector(random_state=0).fit(X, within=owners)
    rows, whose = new[::9].copy(), new_owners[::9]
    rows[:, 1] = np.where(rows[:, 1] > 0, rows[:, 1] - 8, rows[:, 1] + 8)
    contributions = model.explain(rows, within=whose)
    assert (contributions.argmax(axis=1) == 1).mean() > 0.7
    scores = np.log(model.score_samples(rows, within=whose))
    assert_allclose(
        contributions.sum(axis=1) + scores, np.full(len(rows), (contributions.sum(axis=1) + scores)[0]), atol=1e-9
    )


def test_the_file_keeps_labels_of_any_type_and_scores_the_same(tmp_path):
    X, owners, new, new_owners, _ = accounts(0, n_groups=28, sizes=(5, 12))

    def label(k):
        return [k, f"account {k}", k + 0.5, (k, "x"), datetime.date(2024, 1, 1 + k), str(k)][k % 6]

    labels, asked = [label(k) for k in owners.tolist()], {"within": [label(k) for k in new_owners.tolist()]}
    model = small().fit(X, within=labels)
    isobag.save(model, tmp_path / "model")
    again = isobag.load(tmp_path / "model")
    for method in ("score_samples", "p_values", "explain"):
        assert_array_equal(getattr(again, method)(new, **asked), getattr(model, method)(new, **asked))
    assert model.score_samples(new[:1], within=asked["within"][:1]) != model.score_samples(new[:1], within=["unseen"])


def test_a_file_whose_groups_do_not_fit_is_refused(tmp_path):
    X, owners, *_ = accounts(0)
    model = small().fit(X, within=owners)
    model.within_labels_ = model.within_labels_[1:]
    with pytest.raises(isobag.ModelFileError, match="within_labels_"):
        isobag.save(model, tmp_path / "model")
    model = small().fit(X, within=owners)
    whole = model.model_
    for wrong, name in (
        (replace(whole.residuals, centers=whole.residuals.centers[1:]), "centers"),
        (replace(whole.residuals, model=replace(whole.residuals.model, baseline=whole.baseline)), "counts of groups"),
        (replace(whole.residuals, sizes=whole.residuals.sizes[:-1], centers=whole.residuals.centers[:-1]), "spreads"),
    ):
        model.model_ = replace(whole, residuals=wrong)
        with pytest.raises(isobag.ModelFileError, match=name):
            isobag.save(model, tmp_path / "model")


def test_labels_must_be_there_for_both_or_for_none():
    X, owners, *_ = accounts(0)
    plain, labelled = small().fit(X), small().fit(X, within=owners)
    with pytest.raises(ValueError, match="without within"):
        plain.score_samples(X, within=owners)
    for method in ("score_samples", "predict", "decision_function", "p_values", "explain"):
        with pytest.raises(ValueError, match="with within"):
            getattr(labelled, method)(X)
    with pytest.raises(ValueError, match="no path"):
        labelled.score_path(X)
    with pytest.raises(ValueError, match=rf"within.*\b3\b.*\b{len(X)}\b"):
        labelled.predict(X, within=[1, 2, 3])
    with pytest.raises(ValueError, match=r"within.*row 4: None"):
        small().fit(X, within=[None if k == 4 else 1 for k in range(len(X))])
    again = labelled.fit(X)
    assert not hasattr(again, "within_labels_")
    assert_array_equal(again.score_samples(X), plain.score_samples(X))


def test_verdicts_follow_from_scores():
    X, owners, new, new_owners, _ = accounts(0, n_groups=8, sizes=(20, 80))
    model = small()
    assert_array_equal(model.fit_predict(X, within=owners), np.where(model.scores_ < model.offset_, -1, 1))
    scores, p_values = (getattr(model, method)(new, within=new_owners) for method in ("score_samples", "p_values"))
    assert_array_equal(model.decision_function(new, within=new_owners), scores - model.offset_)
    assert_array_equal(model.predict(new, within=new_owners), np.where(scores < model.offset_, -1, 1))
    assert_array_equal(model.predict(new, fdr=0.9, within=new_owners), discoveries(p_values, 0.9))
    assert (model.predict(new, fdr=0.9, within=new_owners) == -1).any()


def test_rows_odd_for_their_account_are_flagged_and_hardly_any_other():
    rng = np.random.default_rng(0)
    owners = np.repeat(np.arange(100), rng.integers(20, 80, 100))
    level, odd = rng.lognormal(4, 1, 100)[owners], rng.choice(len(owners), 40, replace=False)
    X = np.column_stack([level * rng.normal(1, 0.15, len(owners)), rng.normal(13, 3, len(owners))])
    X[odd, 0] = level[odd] * (1 + 0.15 * rng.choice([-1, 1], 40) * rng.uniform(6, 12, 40))
    flagged = np.flatnonzero(IDKPointDetector(random_state=0).fit_predict(X, within=owners) == -1)
    assert len(np.intersect1d(flagged, odd)) >= 38 and len(flagged) <= 50
