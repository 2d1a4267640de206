"""IDKGroupDetector: its two levels against the definition, what leaves a score alone, and what it takes as groups."""

import datetime
import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from oracle import groups as group_oracle
from oracle import points as oracle
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from isobag import IDKGroupDetector, IDKPointDetector
from isobag.datasets import make_card_accounts

BACKENDS = ["numpy", "numba"]


def small_groups(n_groups=30, seed=0):
    """Groups of 1 to 9 points in the plane, each around a middle of its own."""
    rng = np.random.default_rng(seed)
    return [rng.normal(rng.normal(size=2), 1, (size, 2)) for size in rng.integers(1, 10, n_groups)]


def grid_groups(n_groups=30, seed=0):
    """Groups of 1 to 4 points on a 3 x 3 integer grid: equal groups, equal mean maps and equal distances."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 3, (size, 2)).astype(float) for size in rng.integers(1, 5, n_groups)]


def multiplied_groups(n_groups=20, seed=0):
    """Half of the groups are other groups with every point 2, 3, 5 or 7 times."""
    half = grid_groups(n_groups // 2, seed)
    return half + [np.repeat(part, (2, 3, 5, 7)[i % 4], axis=0) for i, part in enumerate(half)]


def even_groups(n_groups=20, seed=0):
    """Groups of 6, 12 or 18 points on the grid: their sizes have a common divisor."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 3, (size, 2)).astype(float) for size in rng.choice([6, 12, 18], n_groups)]


DATA = {"small": small_groups, "grid": grid_groups, "multiplied": multiplied_groups, "even": even_groups}


def rows_and_labels(parts):
    return np.concatenate(parts), np.repeat([f"group {i}" for i in range(len(parts))], [len(part) for part in parts])


def fitted_by(backend, parts, *parameters, **how):
    """The paper's detector, with every sample drawn from all points."""
    detector = IDKGroupDetector(*parameters, pool_size=None, **how)
    detector.backend = backend
    return detector.fit(parts)


def oracle_mean_maps(detector, parts):
    (view,) = detector.point_views_.members
    psi = detector.max_samples_
    centers = view.balls.pool[view.partitionings.slots].reshape(-1, psi, view.balls.pool.shape[1])
    maps = []
    for part in parts:
        cells = oracle.assign_cells(view.scaling.apply(np.asarray(part)), centers)
        maps.append(group_oracle.mean_map(cells, psi))
    return maps


def center_maps(detector):
    """The mean maps that the detector drew as centers, partitioning by partitioning."""
    drawn = detector.level2_.partitionings
    sizes = drawn.centers.sizes.tolist()
    counts = drawn.centers.counts.toarray().tolist()
    maps = [[Fraction(count, size) for count in row] for row, size in zip(counts, sizes, strict=True)]
    return [[maps[slot] for slot in slots] for slots in drawn.slots]


def oracle_scores(detector, fit_maps, new_maps=()):
    """Scores of the groups of fit and of new groups, one list after the other."""
    cells = group_oracle.assign_cells([*fit_maps, *new_maps], center_maps(detector))
    return [group_oracle.score(own, cells[: len(fit_maps)]) for own in cells]


@pytest.fixture
def parts():
    return small_groups(60)


@pytest.fixture
def detector(parts):
    return IDKGroupDetector(20, 8, 8, random_state=0).fit(parts)


@pytest.mark.parametrize("data", DATA)
def test_both_levels_follow_the_definition(data):
    parts, new = DATA[data](), DATA[data](n_groups=12, seed=1)
    new += [part[: 1 + i % 4] for i, part in enumerate(new)]
    detectors = [fitted_by(backend, parts, 6, 4, 5, random_state=3) for backend in BACKENDS]
    detector = detectors[0]
    fit_maps, new_maps = oracle_mean_maps(detector, parts), oracle_mean_maps(detector, new)
    partitionings = center_maps(detector)
    assert all(center in fit_maps for centers in partitionings for center in centers)
    radii = [group_oracle.sq_radii(centers) for centers in partitionings]
    expected = oracle_scores(detector, fit_maps, new_maps)
    for model in detectors:
        assert center_maps(model) == partitionings
        assert np.array_equal(model.level2_.partitionings.sq_radii[-1], np.array(radii, dtype=float))
        assert [*model.scores_, *model.score_samples(new)] == expected
    assert data != "grid" or group_oracle.count_ties(fit_maps, partitionings) > 0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (101, 103, 107), (1009, 1013, 1019)])
def test_ties_between_groups_are_exact_whatever_their_sizes(sizes, backend):
    patterns = [np.array(pattern, dtype=float)[:, None] for pattern in ([0, 1, 1], [0, 0, 1], [0, 1])]
    parts = [np.repeat(pattern, size, axis=0) for pattern, size in zip(patterns, sizes, strict=True)]
    detector = fitted_by(backend, parts, 20, 2, 2, random_state=0)
    maps = oracle_mean_maps(detector, patterns)
    assert group_oracle.count_ties(maps, center_maps(detector)) > 0
    assert detector.scores_.tolist() == oracle_scores(detector, maps)


@pytest.mark.parametrize("psi", [16, "auto"])
def test_backends_and_threads_change_nothing(psi):
    parts, new = small_groups(300), small_groups(100, seed=1)

    def results(backend, n_jobs):
        model = fitted_by(backend, parts, 30, psi, 32, random_state=0, n_jobs=n_jobs)
        drawn = model.level2_.partitionings
        radii = (model.point_views_.members[0].balls.sq_radii, drawn.sq_radii)
        return *radii, drawn.centers.counts.toarray(), model.scores_, model.score_samples(new), model.offset_

    first = results("numpy", None)
    for backend, n_jobs in [("numpy", 2), ("numba", None), ("numba", 1), ("numba", 2), ("auto", -1)]:
        assert all(map(np.array_equal, first, results(backend, n_jobs)))


def test_order_of_points_changes_nothing_but_the_order_of_groups(detector, parts, rng):
    assert np.array_equal(detector.score_samples([rng.permutation(part) for part in parts]), detector.scores_)
    X, labels = rows_and_labels(parts)
    expected = dict(zip(dict.fromkeys(labels), detector.scores_, strict=True))
    order = rng.permutation(len(X))
    scores = detector.score_samples(X[order], groups=labels[order])
    assert scores.tolist() == [expected[label] for label in dict.fromkeys(labels[order])]


def test_scores_move_with_their_groups(detector, parts, rng):
    order = rng.permutation(len(parts))
    assert np.array_equal(detector.score_samples([parts[g] for g in order]), detector.scores_[order])


def test_relabelling_changes_nothing_but_the_labels(detector, parts):
    X, labels = rows_and_labels(parts)
    renamed = [label[::-1] for label in labels]
    again = clone(detector).fit(X, groups=renamed)
    assert np.array_equal(again.scores_, detector.scores_)
    assert again.offset_ == detector.offset_
    assert list(again.labels_) == list(dict.fromkeys(renamed))


@pytest.mark.parametrize("times", [2, 3])
@pytest.mark.parametrize("data", DATA)
def test_duplicating_every_point_of_a_group_leaves_its_score(data, times):
    parts = DATA[data]()
    detector = IDKGroupDetector(20, 4, 8, random_state=0).fit(parts)
    assert np.array_equal(detector.score_samples([np.tile(part, (times, 1)) for part in parts]), detector.scores_)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_group_alone_has_the_score_it_has_among_many(detector, backend):
    detector.backend = backend
    many = small_groups(500, seed=2)
    among = detector.score_samples(many)
    alone = [detector.score_samples([part])[0] for part in many[:50]]
    assert alone == among[:50].tolist()


def test_groups_are_scored_against_those_of_fit(detector, parts):
    before = detector.scores_.copy()
    assert np.array_equal(detector.score_samples(parts), before)
    detector.score_samples([part + 100 for part in parts])
    assert np.array_equal(detector.score_samples(parts), before)
    assert np.all((before >= 0) & (before <= 1))


LABELS = {
    "strings": lambda i: f"acct-{i % 7}",
    "integers": lambda i: 7 - i % 7,
    "floats": lambda i: -(i % 7) / 2,
    "dates": lambda i: datetime.date(2024, 1, 28 - i % 7),
    "tuples": lambda i: ("shop", 7 - i % 7),
    "mixed": lambda i: [3, "three", (3,), 0, False + 9, datetime.date(2024, 1, 1), 2.5][i % 7],
}
CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "object array": lambda labels: pd.Series(labels, dtype=object).to_numpy(),
    "pandas": pd.Series,
    "categorical": lambda labels: pd.Series(labels, dtype=object).astype("category"),
    "index": lambda labels: pd.Index(labels, tupleize_cols=False),
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("kind", LABELS)
def test_any_hashable_is_a_label_and_first_appearance_is_the_order(kind, container, X):
    labels = [LABELS[kind](i) for i in range(len(X))]
    detector = IDKGroupDetector(10, 4, 3, random_state=0)
    expected = detector.fit(X, groups=np.arange(len(X)) % 7).scores_.copy()
    detector.fit(X, groups=CONTAINERS[container](labels))
    assert list(detector.labels_) == labels[:7]
    assert np.array_equal(detector.scores_, expected)


@pytest.mark.parametrize("unit", ["D", "us", "ns"])
def test_numpy_dates_stay_dates(unit, X):
    days = np.datetime64("2024-03-09", unit) - (np.arange(len(X)) % 7) * np.timedelta64(1, "D")
    detector = IDKGroupDetector(10, 4, 3, random_state=0).fit(X, groups=days)
    assert np.array_equal(detector.labels_, days[:7])
    assert detector.labels_.dtype.kind == "M"


def test_a_list_of_arrays_equals_rows_with_labels(detector, parts):
    X, labels = rows_and_labels(parts)
    again = clone(detector).fit(X, groups=labels)
    assert np.array_equal(again.scores_, detector.scores_)
    assert np.array_equal(again.score_samples(parts), detector.score_samples(X, groups=labels))
    assert list(detector.labels_) == list(range(60))


@pytest.mark.parametrize("frame_of", [pd.DataFrame, pl.DataFrame])
def test_a_frame_with_the_name_of_a_column_keeps_feature_names(detector, parts, frame_of):
    X, labels = rows_and_labels(parts)
    frame = frame_of({"amount": X[:, 0], "account": labels, "hour": X[:, 1]})
    again = clone(detector).fit(frame, groups="account")
    assert list(again.feature_names_in_) == ["amount", "hour"]
    assert list(again.labels_) == list(dict.fromkeys(labels))
    assert np.array_equal(again.scores_, detector.scores_)
    assert np.array_equal(again.score_samples(frame, groups="account"), detector.scores_)
    assert np.array_equal(again.score_samples(frame[["amount", "hour"]], groups=frame["account"]), detector.scores_)


@pytest.mark.parametrize("contamination", ["auto", 0.05, 0.3])
def test_verdicts_follow_from_scores_and_offset(parts, contamination):
    X, labels = rows_and_labels(parts)
    detector = IDKGroupDetector(20, 8, 8, contamination=contamination, random_state=0)
    verdicts = detector.fit_predict(X, groups=labels)
    if contamination != "auto":
        assert detector.offset_ == np.quantile(detector.scores_, contamination)
    assert np.array_equal(verdicts, np.where(detector.scores_ < detector.offset_, -1, 1))
    assert np.array_equal(detector.predict(X, groups=labels), verdicts)
    assert np.array_equal(detector.decision_function(X, groups=labels), detector.scores_ - detector.offset_)


def test_rank_lists_labels_and_scores_oddest_first(detector, parts):
    X, labels = rows_and_labels(parts)
    ranked = detector.rank(X, groups=labels)
    expected = dict(zip(dict.fromkeys(labels), detector.scores_, strict=True))
    assert len(ranked) == len(expected)
    assert dict(ranked) == expected
    assert [score for _, score in ranked] == sorted(expected.values())


def test_the_seed_decides_everything(detector, parts):
    again = clone(detector).fit(parts)
    assert np.array_equal(again.scores_, detector.scores_)
    pools = [one.point_views_.members[0].balls.pool for one in (again, detector)]
    assert np.array_equal(*pools)
    assert not np.array_equal(clone(detector).set_params(random_state=1).fit(parts).scores_, detector.scores_)
    from_state = clone(detector).set_params(random_state=np.random.RandomState(0)).fit(parts)
    assert np.array_equal(from_state.scores_, detector.scores_)


def test_a_pickled_detector_scores_as_before(detector, parts):
    copy = pickle.loads(pickle.dumps(detector))
    new = small_groups(40, seed=9)
    assert np.array_equal(copy.score_samples(new), detector.score_samples(new))
    assert np.array_equal(copy.predict(parts), detector.predict(parts))


@pytest.mark.parametrize("backend", BACKENDS)
def test_level_1_keeps_sparse_counts_of_points(parts, backend):
    model = fitted_by(backend, parts, 20, 50, 8, random_state=0)
    counts, sizes = model.level2_.partitionings.centers.counts, model.level2_.partitionings.centers.sizes
    assert issparse(counts)
    assert counts.dtype.kind == "i"
    assert counts.shape[1] == 20 * 50
    assert counts.nnz <= sizes.sum() * 20
    in_cells = counts.sum(axis=1)
    assert np.all(in_cells <= sizes * 20)


def test_a_huge_group_stands_next_to_groups_of_one_point(rng):
    parts = [rng.normal(size=(100_000, 2)), *rng.normal(size=(30, 1, 2))]
    models = [fitted_by(backend, parts, 10, 8, 8, random_state=0) for backend in BACKENDS]
    assert np.array_equal(models[0].scores_, models[1].scores_)
    assert models[1].score_samples(parts[:1])[0] == models[1].scores_[0]
    assert np.array_equal(models[1].score_samples(parts[1:]), models[1].scores_[1:])


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, 4))])
def test_accounts_odd_only_as_a_whole_are_found_by_groups_and_missed_by_points(seed):
    X, _, accounts, odd = make_card_accounts(random_state=seed)
    how = {"random_state": seed}
    by_group = IDKGroupDetector(max_samples=16, group_max_samples=16, pool_size=None, **how).fit(X, groups=accounts)
    ids = np.unique(accounts, return_inverse=True)[1]
    of_points = IDKPointDetector(**how).fit(X).score_samples(X)
    assert roc_auc_score(odd, -by_group.scores_) > 0.9
    assert roc_auc_score(odd, -np.bincount(ids, of_points) / np.bincount(ids)) < 0.75
