"""Isolation trees: leaves that hold one row drawn or equal ones, splits that separate, files that hang together."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracle.hard_data import KINDS, queries

import isobag
from isobag import IsolationKernel, ModelFileError
from isobag.backends import HOST_BACKENDS, Compute
from isobag.partitionings.trees import grow_trees

T, PSI = 4, 16
HARD = [*KINDS]


def grown(rng, kind, d, psi=PSI, t=T):
    """Trees on t samples of psi rows, and the samples: (t, psi, d)."""
    pool = KINDS[kind](rng, 60, d).astype(np.float32)
    slots = np.concatenate([rng.permutation(60)[:psi] for _ in range(t)]).astype(np.int32)
    return grow_trees(pool, slots, psi, 0), pool[slots].reshape(t, psi, d)


def leaves(trees, X):
    """Leaf of every row in every tree: (n, t)."""
    cells, far = trees.assign(X, Compute())
    assert not far.any()
    firsts = np.arange(len(cells)) * trees.levels[-1]
    return (cells - firsts[:, None]).T


def n_different(rows):
    return len({tuple(row) for row in (rows + 0.0).tolist()})


def go_down(columns, thresholds, children, x):
    """The leaf of x in one tree, a step at a time."""
    node, steps = 0, 0
    while node >= 0:
        node = children[node][1 if x[columns[node]] > thresholds[node] else 0]
        steps += 1
        assert steps <= len(columns)
    return -1 - node


@pytest.mark.parametrize("psi", [2, 5, PSI])
@pytest.mark.parametrize("d", [1, 3, 13])
@pytest.mark.parametrize("kind", HARD)
def test_every_row_drawn_is_alone_in_its_leaf_or_with_its_equals(rng, kind, d, psi):
    trees, samples = grown(rng, kind, d, psi, t=20)
    for i, rows in enumerate(samples):
        cells = leaves(trees, rows)[:, i]
        for a in range(psi):
            for b in range(psi):
                assert (cells[a] == cells[b]) == bool((rows[a] == rows[b]).all())
        assert set(cells) == set(range(n_different(rows)))  # numbered without gaps, psi of them where rows differ


@pytest.mark.parametrize("kind", HARD)
def test_a_row_goes_right_where_its_feature_is_above_the_threshold(rng, kind):
    trees, samples = grown(rng, kind, 3)
    Q = queries(rng, samples[0].astype(float)).astype(np.float32)
    cells = leaves(trees, Q)
    for i in range(T):
        tree = (trees.columns[i], trees.thresholds[i], trees.children[i].tolist())
        assert cells[:, i].tolist() == [go_down(*tree, x) for x in Q]


@pytest.mark.parametrize("kind", HARD)
def test_every_split_leaves_rows_drawn_on_both_sides_and_lies_in_their_range(rng, kind):
    trees, samples = grown(rng, kind, 3)
    for i, sample in enumerate(samples):
        waiting, n_splits = [(0, sample)] if n_different(sample) > 1 else [], 0
        while waiting:
            node, rows = waiting.pop()
            values, threshold = rows[:, trees.columns[i, node]], trees.thresholds[i, node]
            assert values.min() <= threshold < values.max()
            is_right = values > threshold
            n_splits += 1
            for child, part in zip(trees.children[i, node], (rows[~is_right], rows[is_right]), strict=True):
                if child >= 0:
                    waiting.append((child, part))
                else:
                    assert (part == part[0]).all()
        assert n_splits == n_different(sample) - 1


def test_features_and_thresholds_are_drawn_evenly(rng):
    pool = rng.uniform(size=(2, 3)).astype(np.float32)
    trees = grow_trees(pool, np.tile([0, 1], 3000).astype(np.int32), 2, 0)
    first = trees.columns[:, 0]
    # Shares of 3,000 draws: three standard errors are .026 and .016.
    assert np.abs(np.bincount(first, minlength=3) / 3000 - 1 / 3).max() < 0.03
    low, high = pool.min(axis=0)[first], pool.max(axis=0)[first]
    shares = (trees.thresholds[:, 0] - low) / (high - low)
    assert ((shares >= 0) & (shares < 1)).all()
    assert abs(shares.mean() - 0.5) < 0.02


def test_sparser_data_make_the_same_pair_more_similar(rng):
    """What the Isolation Kernel is for: a pair in a sparse cluster, and one as far apart in a dense one."""
    X = np.vstack([rng.normal(0, 0.1, (500, 2)), rng.normal(5, 1, (100, 2))])
    kernel = IsolationKernel(500, 32, mechanism="tree", random_state=0).fit(X)
    dense, sparse = (kernel.similarity([[at, at]], [[at + 0.3, at]])[0, 0] for at in (0.0, 5.0))
    assert sparse > dense + 0.1


@pytest.mark.parametrize("backend", HOST_BACKENDS)
def test_mean_maps_are_the_shares_of_points_in_the_leaves(rng, backend):
    X, ids = rng.normal(size=(90, 2)), np.repeat(np.arange(9), 10)
    kernel = IsolationKernel(5, 8, mechanism="tree", random_state=0, backend=backend).fit(X)
    cells, maps = kernel.assign_cells(X), kernel.embed(X, ids).toarray().reshape(9, 5, 8)
    assert cells.min() == 0 and cells.max() == 7
    for g in range(9):
        for i in range(5):
            assert_allclose(maps[g, i], np.bincount(cells[ids == g, i], minlength=8) / 10)
    assert_array_equal(kernel.transform(X).toarray().reshape(90, 5, 8).argmax(axis=2), cells)


def changed(array, place, value):
    array = array.copy()
    array[place] = value
    return array


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        ("children", lambda a: changed(a, (0, 1, 0), 1), "neither a leaf nor later"),  # itself
        ("children", lambda a: changed(a, (0, 3, 1), 0), "neither a leaf nor later"),  # back to the root
        ("children", lambda a: changed(a, (0, 3, 1), 16), "children"),
        ("children", lambda a: changed(a, (0, 0, 1), -17), "children"),
        ("children", lambda a: a[..., :1], "children"),
        ("columns", lambda a: changed(a, (1, 0), 3), "columns"),
        ("columns", lambda a: changed(a, (1, 0), -1), "columns"),
        ("thresholds", lambda a: a[:, :-1], "thresholds"),
        ("thresholds", lambda a: changed(a, (0, 0), np.nan), "thresholds"),
        ("levels", lambda a: (2, 16), "one psi"),
        ("levels", lambda a: (8,), "shape"),
    ],
)
def test_trees_that_do_not_hang_together_are_refused(rng, tmp_path, name, change, problem):
    kernel = IsolationKernel(T, PSI, mechanism="tree", random_state=0).fit(rng.normal(size=(60, 3)))
    (view,) = kernel.views_.members
    view.partitionings.validate()
    forged = replace(view.partitionings, **{name: change(getattr(view.partitionings, name))})
    with pytest.raises(ValueError, match=problem):
        forged.validate()
    kernel.views_ = replace(kernel.views_, members=(replace(view, partitionings=forged),))
    with pytest.raises(ModelFileError):
        isobag.save(kernel, tmp_path / "forged")


def test_a_saved_kernel_has_the_same_cells(rng, tmp_path):
    X = rng.normal(size=(60, 3))
    kernel = IsolationKernel(T, PSI, mechanism="tree", random_state=0).fit(X)
    isobag.save(kernel, tmp_path / "kernel")
    assert_array_equal(isobag.load(tmp_path / "kernel").assign_cells(X), kernel.assign_cells(X))


def test_trees_have_no_centers(X):
    kernel = IsolationKernel(T, mechanism="tree").fit(X)
    assert not hasattr(kernel, "centers_")
    assert not hasattr(kernel, "sq_radii_")
