"""Rows against their own group: found by the definition in loops, alike on all backends, kept in files."""

import datetime
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import roc_auc_score

import isobag
from isobag import IDKPointDetector
from isobag.backends import Compute
from isobag.backends.arrays import OUTSIDE
from isobag.data import labelled
from isobag.data import rows as rows_room
from isobag.data.labelled import LabelledRows
from isobag.data.rows import ArrayRows
from isobag.data.scaling import fit_scaling
from isobag.models.calibration import discoveries
from isobag.models.point_fit import fit_rows
from isobag.partitionings import MECHANISMS

N_GROUPS = 30


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
    params = {"n_estimators": 12, "random_state": 0, "backend": "numpy", **params}
    return IDKPointDetector(**params)


def cells_in_loops(views, x):
    """The cell of one row in each partitioning of each level of each view."""
    for view in views.members:
        scaled = view.scaling.apply(x[None])
        balls = view.partitionings
        for level, psi in enumerate(balls.levels):
            cells = []
            for i in range(len(balls)):
                sq_dists = ((scaled - balls.centers[i, :psi]) ** 2).sum(axis=1)
                nearest = int(sq_dists.argmin())
                cells.append(nearest if sq_dists[nearest] <= balls.sq_radii[level, i, nearest] else OUTSIDE)
            yield psi, cells


def paths_in_loops(model, X, owners, rows, new, new_owners):
    """Scores at each level of each view in the mixed maps, row by row; ``rows``: numbers of the training rows."""
    known = [list(cells_in_loops(model.views, x)) for x in X]
    baseline = model.baseline
    found = []
    for k, (x, own) in enumerate(zip(new, new_owners, strict=True)):
        mates = [j for j in np.flatnonzero(owners == own) if rows is None or j != rows[k]]
        shares = []
        for segment, (_, cells) in enumerate(cells_in_loops(model.views, x)):

            def share(others, segment=segment, cells=cells):
                hits = [
                    sum(a == b != OUTSIDE for a, b in zip(cells, known[j][segment][1], strict=True)) for j in others
                ]
                return sum(hits) / max(len(hits), 1) / len(cells)

            q, gain = baseline.ratios.ravel()[segment], baseline.gains.ravel()[segment]
            weight = q * len(mates) / (1 + q * len(mates))
            mixed = weight * share(mates) + (1 - weight) * share(range(len(X)))
            shares.append(mixed / (weight * gain + 1 - weight))
        found.append(shares)
    return np.array(found)


def averaged(model, shares, X):
    """The score from scores at each level, with what is stored of how far out rows are."""
    n_views = len(model.views.members)
    far = [own for _, own in model.divide(model.sum_at(Compute("numpy", None, None))(X))]
    return model.average.apply(list(zip(np.split(shares, n_views, axis=1), far, strict=True)))


def ratio_in_loops(values, owners):
    """Variance between groups over the variance within, of the normal scores of one column."""
    scores = fit_scaling(values[:, None], "normal").apply(values[:, None])[:, 0]
    parts = [scores[owners == g] for g in np.unique(owners)]
    n = np.array([len(part) for part in parts])
    within = sum(((part - part.mean()) ** 2).sum() for part in parts) / (n.sum() - len(n))
    spread = sum(len(part) * (part.mean() - scores.mean()) ** 2 for part in parts) / (len(n) - 1)
    between = (spread - within) / ((n.sum() - (n**2).sum() / n.sum()) / (len(n) - 1))
    return max(between, 0) / within


def residuals_in_loops(X, owners, new, new_owners):
    """Residuals of the rows of ``fit``, each without itself, and of new rows, column by column."""
    found, of_new = np.zeros(X.shape), np.zeros(new.shape)
    for j, (column, fresh) in enumerate(zip(X.T, new.T, strict=True)):

        def shrunk(others, of_all, q, n, power):
            rest = 1 / (1 + q * max(n, 0)) ** power
            return (1 - rest) * (np.median(others) if len(others) else 0) + rest * of_all

        others = [np.flatnonzero((owners == own) & (np.arange(len(X)) != k)) for k, own in enumerate(owners)]
        q = ratio_in_loops(column, owners)
        center = np.median(column)
        apart = np.array([x - shrunk(column[o], center, q, len(o), 4) for x, o in zip(column, others, strict=True)])
        far = np.abs(apart)
        q_far = ratio_in_loops(far, owners)
        spread = np.median(far)
        found[:, j] = [a / shrunk(far[o], spread, q_far, len(o) - 1, 1) for a, o in zip(apart, others, strict=True)]
        for k, (x, own) in enumerate(zip(fresh, new_owners, strict=True)):
            mates = np.flatnonzero(owners == own)
            own_center = shrunk(column[mates], center, q, len(mates), 4)
            of_new[k, j] = (x - own_center) / shrunk(far[mates], spread, q_far, len(mates) - 1, 1)
    return found, of_new


def test_residuals_are_those_of_the_definition_in_loops():
    X, owners, new, new_owners, _ = accounts(4, n_groups=7, sizes=(1, 9))
    model = small(calibrate=False)
    scores = model.fit_scores(X, baseline=owners)
    expected, of_new = residuals_in_loops(X, owners, new, new_owners)
    residuals = model.model_.residuals
    numbers, new_numbers = (model.labelled(*given).owners for given in ((X, owners), (new, new_owners)))
    rows = LabelledRows(ArrayRows(new), new_numbers, 7)
    assert_allclose(residuals.of(rows).whole, of_new, 1e-9)
    alone = small(n_estimators=6, calibrate=False)
    bare, left = fit_rows(LabelledRows(ArrayRows(expected), numbers, 7), alone.params, Compute("numpy", None, None))
    assert_allclose(residuals.model.reference, bare.reference, 1e-9)
    assert_array_equal(residuals.model.baseline.counts[0].toarray(), bare.baseline.counts[0].toarray())
    of_rows = replace(model.model_, residuals=None)
    _, plain = fit_rows(LabelledRows(ArrayRows(X), numbers, 7), model.params, Compute("numpy", None, None))
    assert_allclose(np.log(residuals.factor), np.median(np.log(plain)) - np.median(np.log(left)), 1e-9)
    assert_allclose(scores, np.minimum(plain, left * residuals.factor), 1e-9)
    own, own_left = (
        of_rows.scores(rows, Compute()),
        bare.scores(LabelledRows(ArrayRows(of_new), new_numbers, 7), Compute()),
    )
    combined = model.score_samples(new, baseline=new_owners)
    assert_allclose(combined, np.minimum(own, own_left * residuals.factor), 1e-9)
    unseen = new_owners + 100
    assert_array_equal(
        model.score_samples(new, baseline=unseen), of_rows.scores(model.labelled(new, unseen), Compute())
    )


def test_scores_are_those_of_the_definition_in_loops():
    X, owners, new, new_owners, _ = accounts(0, n_groups=6, sizes=(3, 12))
    model = small(calibrate=False).fit(X, baseline=owners)
    some = np.arange(0, len(new), 5)
    expected = paths_in_loops(model.model_, X, owners, None, new[some], new_owners[some])
    alone = replace(model.model_, residuals=None)
    scores = alone.scores(model.labelled(new[some], new_owners[some]), Compute())
    assert_allclose(scores, averaged(model.model_, expected, new[some]), 1e-12)


def test_rows_of_fit_do_not_find_themselves():
    X, owners, *_ = accounts(1, n_groups=6, sizes=(1, 8))
    model = small(calibrate=False)
    scores = model.fit_scores(X, baseline=owners)
    alone, some = replace(model.model_, residuals=None), np.arange(len(X))
    expected = paths_in_loops(alone, X, owners, some, X, owners)
    _, own = fit_rows(LabelledRows(ArrayRows(X), owners, 6), model.params, Compute("numpy", None, None))
    assert_allclose(own, averaged(alone, expected, X), 1e-12)
    assert (scores <= own).all()
    assert model.offset_ == model.threshold(scores)
    assert not np.array_equal(scores, model.score_samples(X, baseline=owners))


def test_one_psi_is_the_papers_share_in_the_mixed_map():
    X, owners, new, new_owners, _ = accounts(2, n_groups=6, sizes=(3, 12))
    model = small(max_samples=8, calibrate=False).fit(X, baseline=owners)
    assert model.model_.baseline.ratios.shape == (1, 1)
    whole = replace(model.model_, views=model.model_.views.at(-1))
    expected = paths_in_loops(whole, X, owners, None, new[:9], new_owners[:9])[:, 0]
    assert_allclose(model.score_samples(new[:9], baseline=new_owners[:9]), expected, 1e-12)
    assert_allclose(
        model.explain(new[:9], baseline=new_owners[:9]).sum(axis=1).argsort(), np.argsort(-expected, kind="stable")
    )


def test_the_ratio_is_that_of_the_variances_of_the_maps():
    """One-way analysis of variance, with dense mean maps."""
    X, owners, *_ = accounts(3, n_groups=8, sizes=(5, 15))
    model = small(max_samples=16, calibrate=False).fit(X, baseline=owners).model_
    features = np.zeros((len(X), len(model.views), 16))
    for k, x in enumerate(X):
        ((_, cells),) = cells_in_loops(model.views.at(-1), x)
        for i, cell in enumerate(cells):
            if cell != OUTSIDE:
                features[k, i, cell] = 1
    features = features.reshape(len(X), -1)
    n = np.bincount(owners)
    means = np.array([features[owners == g].mean(axis=0) for g in range(8)])
    within = sum(((features[owners == g] - means[g]) ** 2).sum() for g in range(8)) / (len(X) - 8)
    spread = (n * ((means - features.mean(axis=0)) ** 2).sum(axis=1)).sum() / 7
    between = (spread - within) / ((len(X) - (n**2).sum() / len(X)) / 7)
    assert_allclose(model.baseline.ratios, between / within, 1e-9)


@pytest.mark.parametrize("d", [2, 5])
def test_what_is_ordinary_for_all_but_odd_for_its_group_is_found_by_one_model(d):
    aucs = []
    for seed in range(3):
        X, owners, new, new_owners, is_odd = accounts(seed, d, spread=10.0)
        pooled = IDKPointDetector(random_state=0, calibrate=False).fit(X).score_samples(new)
        model = IDKPointDetector(random_state=0, calibrate=False).fit(X, baseline=owners)
        scores = model.score_samples(new, baseline=new_owners)
        aucs.append([roc_auc_score(~is_odd, own) for own in (pooled, scores)])
    pooled, own = np.mean(aucs, axis=0)
    assert pooled < 0.65
    assert own > 0.95


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


@pytest.mark.parametrize(("size", "least"), [(3, 0.93), (10, 0.97), (30, 0.97)])
def test_groups_that_differ_in_one_of_five_columns_are_told_apart(size, least):
    X, owners, new, is_odd = few_of_many(0, size)
    pooled = IDKPointDetector(random_state=0, calibrate=False).fit(X).score_samples(new)
    model = IDKPointDetector(random_state=0, calibrate=False).fit(X, baseline=owners)
    assert roc_auc_score(~is_odd, pooled) < 0.6
    assert roc_auc_score(~is_odd, model.score_samples(new, baseline=owners)) > least
    lacks = model.explain(new[is_odd][:40], baseline=owners[is_odd][:40])
    assert (lacks.argmax(axis=1) == 0).mean() > 0.9


def test_p_values_of_residuals_hold_where_groups_have_few_rows():
    """Shares of ordinary rows below alpha over 4 draws of 810 or 900 rows: the standard error at .05 is .004."""
    small_ones = {alpha: [] for alpha in (0.01, 0.05, 0.1)}
    for seed, size in ((0, 3), (1, 3), (0, 10), (1, 10)):
        X, owners, *_ = few_of_many(seed, size)
        fresh = np.random.default_rng(100 + seed).normal(size=X.shape)
        fresh[:, 0] += np.random.default_rng(seed).permutation(90)[owners] * 10.0  # the levels of few_of_many
        model = IDKPointDetector(n_estimators=40, random_state=seed).fit(X, baseline=owners)
        assert model.model_.residuals is not None
        p_values = model.p_values(fresh, baseline=owners)
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
    model = IDKPointDetector(random_state=0).fit(X, baseline=owners)
    assert (model.predict(new, baseline=alone) == -1).mean() < 0.1
    assert (model.p_values(new, baseline=alone) < 0.01).mean() < 0.1
    assert (model.predict(new, baseline=np.full(50, 3)) == -1).all()  # the same rows, of another account
    assert (model.predict(rng.normal(size=(50, 2)), baseline=alone) == -1).mean() > 0.9
    assert (IDKPointDetector(random_state=0).fit(X).p_values(new) < 0.1).mean() > 0.5


@pytest.mark.slow
def test_groups_that_do_not_differ_change_nothing():
    X, _, new, _, _ = accounts(0)
    X = X[:500]  # of more rows all together have psi above 256, and rows of groups have not
    pooled = small().fit(X)
    alone = small().fit(X, baseline=["all"] * len(X))
    assert_array_equal(alone.score_samples(new, baseline=["all"] * len(new)), pooled.score_samples(new))
    rng = np.random.default_rng(5)
    same, labels = rng.normal(size=(2000, 3)), rng.integers(0, 40, 2000)
    new = np.vstack([rng.normal(size=(1000, 3)), rng.uniform(-5, 5, (50, 3))])
    truth, whose = np.arange(1050) < 1000, rng.integers(0, 40, 1050)
    auc = roc_auc_score(truth, small(n_estimators=100).fit(same, baseline=labels).score_samples(new, baseline=whose))
    assert abs(auc - roc_auc_score(truth, small(n_estimators=100).fit(same).score_samples(new))) < 0.01


def test_p_values_hold_for_rows_of_known_groups_and_of_new_ones():
    """Shares of ordinary rows below alpha over 6 draws of 1,800 rows: the standard error at .05 is .002."""
    small_ones = {alpha: [] for alpha in (0.01, 0.05, 0.1)}
    for seed in range(6):
        X, owners, new, new_owners, _ = accounts(seed, share=0.0)
        model = IDKPointDetector(n_estimators=40, random_state=seed).fit(X, baseline=owners)
        known, unseen = model.p_values(new, baseline=new_owners), model.p_values(new, baseline=new_owners + 1000)
        for alpha, shares in small_ones.items():
            shares.append([(known <= alpha).mean(), (unseen <= alpha).mean()])
    for alpha, shares in small_ones.items():
        assert (np.mean(shares, axis=0) <= 1.15 * alpha + 0.002).all()
        assert (np.mean(shares, axis=0) >= 0.2 * alpha).all()


def test_rows_of_new_groups_are_compared_with_all_and_not_alarming_for_that():
    X, owners, new, *_ = accounts(0, spread=10.0, share=0.0)
    model = IDKPointDetector(random_state=0, calibrate=False).fit(X, baseline=owners)
    unseen = np.full(len(new), "a new account", dtype=object)
    assert (model.predict(new, baseline=unseen) == -1).mean() < 0.15
    far = np.array([[200.0, 0.0], [400.0, 0.0]])
    scores = model.score_samples(far, baseline=["new", "new"])
    assert scores[0] > scores[1]  # still ranked by how far out they are
    assert (model.predict(far, baseline=["new", "new"]) == -1).all()


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("params", [{}, {"max_samples": 8}, {"scaling": "minmax"}])
def test_all_backends_agree_to_the_bit(mechanism, params):
    X, owners, new, new_owners, _ = accounts(0, d=4, n_groups=8, sizes=(5, 40))
    results = []
    for backend in ("numpy", "numba", "torch"):
        if backend == "torch":
            pytest.importorskip("torch")
        device = {"device": "cpu"} if backend == "torch" else {}
        model = small(mechanism=mechanism, **{**params, "backend": backend, **device})
        scores = model.fit_scores(X, baseline=owners)
        asked = {"baseline": np.where(new_owners == 3, 999, new_owners)}
        results.append(
            [
                scores,
                model.score_samples(new, **asked),
                model.p_values(new, **asked),
                model.explain(new[:20], asked["baseline"][:20]),
            ]
        )
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert_array_equal(a, b)


def test_scores_do_not_depend_on_blocks_nor_on_the_rest_of_the_batch(monkeypatch):
    X, owners, new, new_owners, _ = accounts(0, n_groups=8, sizes=(20, 80))
    model = small()
    scores = model.fit_scores(X, baseline=owners)
    expected = model.score_samples(new, baseline=new_owners)
    assert_array_equal(model.score_samples(new[7:8], baseline=new_owners[7:8]), expected[7:8])
    monkeypatch.setattr(rows_room, "GROUPED_ROWS", 45)  # groups of more rows are cut
    monkeypatch.setattr(rows_room, "BLOCK_ROWS", 100)
    monkeypatch.setattr(labelled, "_OWNED_ROWS", 30)
    again = small()
    assert_array_equal(again.fit_scores(X, baseline=owners), scores)
    assert_array_equal(again.score_samples(new, baseline=new_owners), expected)
    assert_array_equal(again.p_values(new, baseline=new_owners), model.p_values(new, baseline=new_owners))


def test_reasons_sum_to_the_lack_and_name_the_feature_that_is_odd_for_the_group():
    X, owners, new, new_owners, _ = accounts(0, d=3, spread=8.0, share=0.0)
    model = IDKPointDetector(random_state=0, calibrate=False).fit(X, baseline=owners)
    rows, whose = new[::9].copy(), new_owners[::9]
    rows[:, 1] = np.where(rows[:, 1] > 0, rows[:, 1] - 8, rows[:, 1] + 8)
    lacks = model.explain(rows, baseline=whose)
    assert (lacks.argmax(axis=1) == 1).mean() > 0.7
    scores = np.log(model.score_samples(rows, baseline=whose))
    assert_allclose(lacks.sum(axis=1) + scores, np.full(len(rows), (lacks.sum(axis=1) + scores)[0]), atol=1e-9)


@pytest.mark.parametrize(
    "name",
    [
        lambda k: k,
        lambda k: f"account {k}",
        lambda k: float(k) / 2,
        lambda k: (k, "x"),
        lambda k: datetime.date(2024, 1, 1 + k % 28),
        lambda k: k if k % 2 else str(k),
    ],
)
def test_the_file_keeps_labels_of_any_type_and_scores_the_same(name, tmp_path):
    X, owners, new, new_owners, _ = accounts(0, n_groups=28, sizes=(5, 12))
    labels, asked = [name(k) for k in owners.tolist()], [name(k) for k in new_owners.tolist()]
    model = small().fit(X, baseline=labels)
    isobag.save(model, tmp_path / "model")
    again = isobag.load(tmp_path / "model")
    assert_array_equal(again.score_samples(new, baseline=asked), model.score_samples(new, baseline=asked))
    assert_array_equal(again.p_values(new, baseline=asked), model.p_values(new, baseline=asked))
    assert_array_equal(again.explain(new[:3], baseline=asked[:3]), model.explain(new[:3], baseline=asked[:3]))
    assert model.score_samples(new[:1], baseline=asked[:1]) != model.score_samples(new[:1], baseline=["unseen"])


def test_a_file_whose_groups_do_not_fit_is_refused(tmp_path):
    X, owners, *_ = accounts(0)
    model = small().fit(X, baseline=owners)
    model.baseline_labels_ = model.baseline_labels_[1:]
    with pytest.raises(isobag.ModelFileError, match="baseline_labels_"):
        isobag.save(model, tmp_path / "model")
    model = small().fit(X, baseline=owners)
    whole = model.model_
    for wrong, message in (
        (replace(whole.residuals, centers=whole.residuals.centers[1:]), "centers has shape"),
        (
            replace(whole.residuals, model=replace(whole.residuals.model, baseline=None)),
            "no counts of groups",
        ),
    ):
        model.model_ = replace(whole, residuals=wrong)
        with pytest.raises(isobag.ModelFileError, match=message):
            isobag.save(model, tmp_path / "model")


def test_labels_must_be_there_for_both_or_for_none():
    X, owners, *_ = accounts(0)
    plain, own = small(calibrate=False).fit(X), small(calibrate=False).fit(X, baseline=owners)
    with pytest.raises(ValueError, match="fitted without baseline"):
        plain.score_samples(X, baseline=owners)
    for method in ("score_samples", "predict", "decision_function", "p_values", "explain"):
        with pytest.raises(ValueError, match="fitted with baseline; pass baseline"):
            getattr(own, method)(X)
    with pytest.raises(ValueError, match="has no path"):
        own.score_path(X)
    with pytest.raises(ValueError, match=r"baseline has 3 labels and X has \d+ rows"):
        own.predict(X, baseline=[1, 2, 3])
    with pytest.raises(ValueError, match="baseline has no label in row 4: None"):
        small().fit(X, baseline=[None if k == 4 else 1 for k in range(len(X))])
    with pytest.raises(ValueError, match="method='norm' counts no rows"):
        small(method="norm").fit(X, baseline=owners)
    again = own.fit(X)
    assert not hasattr(again, "baseline_labels_")
    assert_array_equal(again.score_samples(X), plain.score_samples(X))


@pytest.mark.parametrize(("n", "d"), [(300, 3), (5000, 2), (5000, 6), (300, 120)])  # one of each search
def test_cells_of_all_levels_come_from_one_search(n, d, rng):
    X = rng.normal(size=(n, d))
    views = IDKPointDetector(6, random_state=0, calibrate=False, backend="numba").fit(X).views_
    for view in views.members:
        expected = [
            view.partitionings.at(k).assign(view.scaling.apply(X), Compute("numpy", None, None)).T
            for k in range(len(views.levels))
        ]
        for backend in ("numpy", "numba"):
            compute = Compute(backend, None, None)
            assert_array_equal(view.partitionings.assign_levels(view.prepare(X, compute), compute), expected)


def test_verdicts_follow_from_scores():
    X, owners, new, new_owners, _ = accounts(0, n_groups=8, sizes=(20, 80))
    model = small()
    verdicts = model.fit_predict(X, baseline=owners)
    assert_array_equal(verdicts, np.where(small().fit_scores(X, baseline=owners) < model.offset_, -1, 1))
    scores = model.score_samples(new, baseline=new_owners)
    assert_array_equal(model.decision_function(new, baseline=new_owners), scores - model.offset_)
    assert_array_equal(model.predict(new, baseline=new_owners), np.where(scores < model.offset_, -1, 1))
    p_values = model.p_values(new, baseline=new_owners)
    assert_array_equal(model.predict(new, fdr=0.9, baseline=new_owners), discoveries(p_values, 0.9))
    assert (model.predict(new, fdr=0.9, baseline=new_owners) == -1).any()
