"""Isolation trees: leaves that hold one row drawn or equal ones, splits that separate, files that hang together."""

from dataclasses import replace

import numpy as np
import pytest
from isobag.storage.modelfile.schema import kind_of_subclasses
from numpy.testing import assert_array_equal
from oracle.hard_data import KINDS, queries

import isobag
from isobag import IDKGroupDetector, IDKPointDetector, ModelFileError
from isobag.backends import HOST_BACKENDS, Compute
from isobag.data.groups import Groups
from isobag.data.rows import ArrayRows
from isobag.models.views import Plan, draw_views
from isobag.partitionings import Partitionings, draw_from_groups, draw_from_rows, draw_rows, draw_seeds
from isobag.partitionings.counts import GroupQueries
from isobag.storage.modelfile import container

LEVELS = (2, 5, 16)
T = 4
HARD = ["normal", "integer grid", "90 % duplicates", "tiny differences", "one far row", "rare values"]


def drawn_from(X, levels=LEVELS, seed=0, compute=None):
    return draw_from_rows(ArrayRows(X), T, levels, "tree", seed, compute or Compute())


def rows_drawn(X, psi, seed=0):
    """The rows of each partitioning: (t, psi, d)."""
    return X[draw_rows(len(X), draw_seeds(T, seed), psi)]


def leaves(drawn, Q, level, compute=None):
    compute = compute or Compute()
    one = drawn.at(level)
    return one.assign(one.prepare(Q, compute), compute)


def go_down(columns, thresholds, children, x):
    """The leaf of x in one tree, a step at a time."""
    node, steps = 0, 0
    while node >= 0:
        node = children[node][1 if x[columns[node]] >= thresholds[node] else 0]
        steps += 1
        assert steps <= len(columns)
    return -1 - node


@pytest.mark.parametrize("d", [1, 3, 13])
@pytest.mark.parametrize("kind", HARD)
def test_every_row_drawn_is_alone_in_its_leaf_or_with_its_equals(rng, kind, d):
    X = KINDS[kind](rng, 50, d).astype(float)
    drawn = drawn_from(X)
    for level, psi in enumerate(LEVELS):
        own = rows_drawn(X, psi)
        for i in range(T):
            cells = leaves(drawn, own[i], level)[:, i]
            for a in range(psi):
                for b in range(psi):
                    assert (cells[a] == cells[b]) == bool((own[i, a] == own[i, b]).all())
            n_different = len({tuple(row) for row in own[i].tolist()})
            assert set(cells) == set(range(n_different))  # numbered without gaps, psi of them where rows differ


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("kind", HARD)
def test_a_row_goes_left_where_its_feature_is_below_the_threshold(rng, kind, backend):
    X = KINDS[kind](rng, 60, 3).astype(float)
    Q = queries(rng, X).astype(float)
    drawn = drawn_from(X, compute=Compute(backend))
    for level in range(len(LEVELS)):
        found = leaves(drawn, Q, level, Compute(backend))
        for i in range(T):
            tree = (drawn.columns[level, i], drawn.thresholds[level, i], drawn.children[level, i].tolist())
            assert found[:, i].tolist() == [go_down(*tree, x) for x in Q]


@pytest.mark.parametrize("kind", HARD)
def test_every_split_leaves_rows_drawn_on_both_sides_and_lies_in_their_range(rng, kind):
    X = KINDS[kind](rng, 50, 3).astype(float)
    drawn = drawn_from(X)
    for level, psi in enumerate(LEVELS):
        for i, own in enumerate(rows_drawn(X, psi)):
            columns, thresholds, children = (
                part[level, i] for part in (drawn.columns, drawn.thresholds, drawn.children)
            )
            waiting, n_splits = [(0, own)], 0
            while waiting and len({tuple(row) for row in own.tolist()}) > 1:
                node, rows = waiting.pop()
                values = rows[:, columns[node]]
                is_right = values >= thresholds[node]
                assert is_right.any() and not is_right.all()
                assert values.min() < thresholds[node] <= values.max()
                n_splits += 1
                for child, part in zip(children[node], (rows[~is_right], rows[is_right]), strict=True):
                    if child >= 0:
                        waiting.append((child, part))
                    else:
                        assert (part == part[0]).all()
                        assert (drawn.points[drawn.slots[level, i, -1 - child]] == part[0]).all()
            assert n_splits == len({tuple(row) for row in own.tolist()}) - 1


def test_features_and_thresholds_are_drawn_evenly(rng):
    X = rng.uniform(size=(2, 3))
    drawn = draw_from_rows(ArrayRows(X), 3000, (2,), "tree", 0, Compute())
    first = drawn.columns[0, :, 0]
    # Shares of 3,000 draws: three standard errors are .026 and .016.
    assert np.abs(np.bincount(first, minlength=3) / 3000 - 1 / 3).max() < 0.03
    low, high = X.min(axis=0)[first], X.max(axis=0)[first]
    shares = (drawn.thresholds[0, :, 0] - low) / (high - low)
    assert ((shares > 0) & (shares <= 1)).all()
    assert abs(shares.mean() - 0.5) < 0.02


@pytest.mark.parametrize("psi", LEVELS)
def test_a_level_is_a_detector_with_that_psi_and_seed(rng, psi):
    X, Q = rng.normal(size=(80, 3)), rng.normal(size=(40, 3))
    level = LEVELS.index(psi)
    assert_array_equal(leaves(drawn_from(X), Q, level), leaves(drawn_from(X, (psi,)), Q, 0))
    long, alone = (IDKPointDetector(9, one, mechanism="tree", random_state=3).fit(X) for one in (16, psi))
    if psi in long.path_:
        assert_array_equal(long.score_path(Q)[:, long.path_.index(psi)], alone.score_samples(Q))


def group_maps(rng):
    sizes = rng.integers(1, 9, 40)
    rows = ArrayRows(rng.normal(size=(sizes.sum(), 2)))
    views, _ = draw_views(rows, 5, [Plan("minmax", (6,))], "tree", 0, Compute())
    return views.mean_maps(Groups(rows, np.repeat(np.arange(40), sizes), np.arange(40)), Compute())


def test_a_level_of_groups_is_drawn_alone_too_and_splits_their_mean_maps(rng):
    maps = group_maps(rng)
    drawn = draw_from_groups(GroupQueries(maps), T, LEVELS, "tree", 0, Compute())
    assert drawn.of_groups and drawn.problem() is None
    dense = maps.shares.toarray()
    for level, psi in enumerate(LEVELS):
        alone = draw_from_groups(GroupQueries(maps), T, (psi,), "tree", 0, Compute())
        found = leaves(drawn, maps, level)
        assert_array_equal(found, leaves(alone, maps, 0))
        for i in range(T):
            tree = (drawn.columns[level, i], drawn.thresholds[level, i], drawn.children[level, i].tolist())
            assert found[:, i].tolist() == [go_down(*tree, x) for x in dense]


def test_trees_serve_both_levels_of_a_detector(rng):
    parts = [rng.normal(size=(20, 2)) for _ in range(60)]
    parts[7] = parts[7] / 20
    model = IDKGroupDetector(point_mechanism="tree", random_state=0).fit(parts)
    assert model.scores_.argmin() == 7
    model = IDKGroupDetector(20, 16, 16, point_mechanism="tree", group_mechanism="tree", random_state=0).fit(parts)
    assert_array_equal(model.score_samples(parts), model.scores_)
    assert len(set(model.scores_)) > 20


def changed(array, place, value):
    array = array.copy()
    array[place] = value
    return array


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        ("children", lambda a: changed(a, (2, 0, 1, 0), 1), "neither a leaf nor a later node"),  # itself
        ("children", lambda a: changed(a, (2, 0, 3, 1), 0), "neither a leaf nor a later node"),  # back to the root
        ("children", lambda a: changed(a, (2, 0, 3, 1), 16), "neither a leaf nor a later node"),
        ("children", lambda a: changed(a, (0, 0, 0, 1), -3), "neither a leaf nor a later node"),  # of two leaves
        ("children", lambda a: a[..., :1], "neither a leaf nor a later node"),
        ("columns", lambda a: changed(a, (2, 1, 0), 3), "beyond the last feature"),
        ("slots", lambda a: changed(a, (2, 1, 0), 10_000), "beyond the last point"),
        ("thresholds", lambda a: a[:, :, :-1], "not of shape"),
        ("children", lambda a: a[:2], "not of shape"),
        ("levels", lambda a: (2, 5), "not of shape"),
    ],
)
def test_trees_that_do_not_hang_together_are_named(rng, name, change, problem):
    drawn = drawn_from(rng.normal(size=(60, 3)))
    assert drawn.problem() is None
    assert problem in replace(drawn, **{name: change(getattr(drawn, name))}).problem()


@pytest.mark.parametrize("what", ["columns", "children", "slots"])
def test_a_forged_file_of_trees_is_refused(rng, tmp_path, what, monkeypatch):
    model = IDKPointDetector(3, 4, mechanism="tree", calibrate=False, random_state=0).fit(rng.normal(size=(30, 2)))
    write = container.write_container

    def forge(path, document, tensors):
        (name,) = (key for key in tensors if key.endswith(f"partitionings.{what}"))
        tensors[name] = changed(tensors[name], (-1,) * tensors[name].ndim, {"children": 0}.get(what, 99))
        write(path, document, tensors)

    isobag.save(model, tmp_path / "good")
    isobag.load(tmp_path / "good")
    for room in (container, isobag.storage.modelfile):
        if hasattr(room, "write_container"):
            monkeypatch.setattr(room, "write_container", forge)
    isobag.save(model, tmp_path / "forged")
    with pytest.raises(ModelFileError):
        isobag.load(tmp_path / "forged")


def test_a_file_can_name_no_kind_of_partitionings_that_cannot_be_made():
    kinds = kind_of_subclasses(Partitionings).classes
    assert set(kinds) == {"RowBalls", "GroupBalls", "RowTrees", "GroupTrees"}
