import importlib

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from oracle import points as oracle

from isobag import IsolationKernel
from isobag.backends import HOST_BACKENDS, RULES

MECHANISMS = ["hypersphere", "voronoi"]


def fitted(X, t=6, psi=5, **options):
    return IsolationKernel(t, psi, **{"random_state": 0, **options}).fit(X)


def drawn(kernel):
    """The centers of every partitioning, on the scale of float32."""
    balls = kernel.views_.members[0].partitionings
    return oracle.partitionings(balls.pool, balls.slots, balls.levels, kernel.max_samples_)


def cells_of(kernel, X, Q):
    """The cells of rows by the definition."""
    scaled = np.float32(oracle.scale(Q, X, None))
    return oracle.assign_cells(scaled, drawn(kernel), kernel.rule, kernel.mechanism)


def queries(X, rng):
    """The points themselves, points of a grid of halves (ties, if X is on a grid), and points far from all."""
    return np.vstack([X, rng.integers(0, 9, (40, X.shape[1])) / 2, X[:5] * 10 + 100])


def test_centers_of_a_partitioning_are_different_rows_of_the_data(X, grid):
    kernel = fitted(X, t=20, psi=7)
    assert kernel.centers_.shape == (20, 7, 2) and kernel.sq_radii_.shape == (20, 7)
    assert (kernel.max_samples_, kernel.n_features_in_) == (7, 2)
    rows = {tuple(x) for x in np.float32(oracle.scale(X, X, None))}
    for centers in drawn(kernel):
        assert len({tuple(center) for center in centers} & rows) == 7
    assert_allclose(oracle.scale(kernel.centers_.reshape(-1, 2), X, None), np.reshape(drawn(kernel), (-1, 2)))
    rows = sorted(map(tuple, grid))
    for centers in fitted(grid, t=3, psi=len(grid)).centers_:  # every row, with its copies
        assert sorted(map(tuple, centers)) == rows


@pytest.mark.parametrize("pool_size", [None, 10])
def test_every_row_is_drawn_equally_often(pool_size):
    X = np.arange(10.0)[:, None]
    kernel = fitted(X, t=4000, psi=3, pool_size=pool_size)
    counts = np.bincount(kernel.centers_.round().ravel().astype(int), minlength=10)
    # Each row is in 30 % of 4000 draws: mean 1200, standard deviation 29.
    assert np.abs(counts - 1200).max() < 6 * 29


def test_samples_of_a_pool_are_disjoint_and_of_its_rows_alone():
    X = np.arange(1000.0)[:, None]
    centers = fitted(X, t=8, psi=16, pool_size=128).centers_.round().ravel()
    assert len(np.unique(centers)) == 128
    again = fitted(X, t=20, psi=16, pool_size=128).centers_.round().ravel()
    assert len(np.unique(again)) == 128


@pytest.mark.parametrize("backend", HOST_BACKENDS)
def test_sq_radii_reach_to_the_nearest_different_center(X, grid, backend):
    for data in (X, grid):
        kernel = fitted(data, t=10, psi=9, backend=backend)
        unit = kernel.views_.members[0].scaling.spread[0] ** 2
        assert_array_equal(kernel.sq_radii_ / unit, [oracle.sq_radii(centers) for centers in drawn(kernel)])
    equal = fitted(np.full((8, 3), 2.5), backend=backend)
    assert_array_equal(equal.sq_radii_, 0)
    assert_array_equal(equal.assign_cells([[2.5, 2.5, 2.5], [2.5, 2.5, 2.6]]), [[0] * 6, [oracle.OUTSIDE] * 6])


def test_voronoi_cells_have_the_same_centers_and_nobody_is_outside(X):
    kernel = fitted(X, mechanism="voronoi")
    assert np.isposinf(kernel.sq_radii_).all()
    assert (kernel.assign_cells(X * 1e6) >= 0).all()
    assert_array_equal(kernel.centers_, fitted(X).centers_)


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("rule", RULES)
def test_cells_are_those_of_the_definition(X, grid, rng, rule, backend):
    for data in (X, grid):
        Q = queries(data, rng)
        for psi, mechanism, pool_size in [(2, "voronoi", None), (5, "hypersphere", 20), (40, "hypersphere", None)]:
            kernel = fitted(data, 3, psi, mechanism=mechanism, rule=rule, backend=backend, pool_size=pool_size)
            cells = kernel.assign_cells(Q)
            assert cells.dtype == np.int32
            assert_array_equal(cells, cells_of(kernel, data, Q))


@pytest.mark.parametrize(
    ("rule", "expected"),
    [("nearest", [12, None, -10, None, 12]), ("covering", [12, 0, -10, None, 12]), ("smallest", [0, 0, -10, None, 12])],
)
def test_each_rule_picks_its_own_ball_where_several_overlap(rule, expected):
    # Radii: -10 -> 3, -7 -> 3, 0 -> 7, 12 -> 12. The balls of 0 and 12 cover 6.5, which is nearer to 12; -3.75 is
    # nearest to -7, whose ball ends at -4, and the ball of 0 covers it. The boundaries -13 and 24 are inside.
    X = np.array([[-10.0], [-7.0], [0.0], [12.0]])
    kernel = fitted(X, t=1, psi=4, rule=rule)
    values = [*kernel.centers_[0, :, 0], None]
    assert [values[c] for c in kernel.assign_cells([[6.5], [-3.75], [-13.0], [24.5], [24.0]])[:, 0]] == expected


@pytest.mark.parametrize("rule", RULES)
def test_def1_isolation_kernel_is_the_share_of_partitionings_with_a_common_cell(X, rng, rule):
    kernel = fitted(X, t=9, rule=rule)
    cells = cells_of(kernel, X, X)
    expected = [[oracle.isolation_kernel(a, b) for b in cells[:7]] for a in cells]
    assert_allclose(kernel.similarity(X, X[:7]), expected, rtol=0, atol=1e-15)
    assert_array_equal(kernel.similarity(X), kernel.similarity(X, X))
    Q = queries(X, rng)
    shares = [np.mean([cell != oracle.OUTSIDE for cell in own]) for own in cells_of(kernel, X, Q)]
    assert 0 in shares and len(set(shares)) > 4
    assert_allclose(kernel.similarity(Q).diagonal(), shares, atol=1e-15)  # of those that cover the point


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_def2_feature_map_is_one_hot_per_partitioning_and_the_kernel_its_dot_product(X, mechanism):
    kernel = fitted(X, t=9, mechanism=mechanism)
    features = kernel.transform(X)
    cells = cells_of(kernel, X, X)
    assert scipy.sparse.issparse(features) and features.format == "csr" and features.has_sorted_indices
    assert_array_equal(features.toarray(), [oracle.feature_map(own, 5) for own in cells])
    assert features.nnz == sum(cell != oracle.OUTSIDE for own in cells for cell in own)
    assert_allclose((features @ features.T).toarray() / 9, kernel.similarity(X), atol=1e-15)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_def3_idk_is_mean_pairwise_isolation_kernel(X, mechanism):
    kernel = fitted(X, t=9, mechanism=mechanism)
    S, T = X[:13], X[25:]
    S_cells, T_cells = (cells_of(kernel, X, A) for A in (S, T))
    similarity = kernel.gram([S, T])[0, 1]
    assert similarity == pytest.approx(oracle.idk(S_cells, T_cells), rel=1e-12)
    dot = sum(a * b for a, b in zip(oracle.mean_map(S_cells, 5), oracle.mean_map(T_cells, 5), strict=True))
    assert similarity == pytest.approx(dot / 9, rel=1e-12)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kernel_is_symmetric_positive_semidefinite_and_within_0_and_1(X, grid, rule, mechanism):
    for data in (X, grid):
        gram = fitted(data, t=20, rule=rule, mechanism=mechanism).similarity(data)
        assert_array_equal(gram, gram.T)
        assert np.linalg.eigvalsh(gram).min() > -1e-9
        assert gram.min() >= 0 and gram.max() <= 1
        assert (gram <= np.sqrt(np.outer(gram.diagonal(), gram.diagonal())) + 1e-12).all()


def test_two_far_points_share_no_cell_although_both_are_outside(X):
    far = np.array([[1e6, 0.0], [1e6, 0.0]])
    assert_array_equal(fitted(X).similarity(far), 0)
    assert_array_equal(fitted(X).gram([far, far]), 0)


EXACT_MOVES = {
    "shift": lambda X: X + np.arange(1, X.shape[1] + 1) * 1e8,
    "scaling": lambda X: X * 2.0**-200,
    "signed permutation": lambda X: X[:, ::-1] * [(-1) ** k for k in range(X.shape[1])],
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("move", EXACT_MOVES)
def test_cells_survive_rotation_shift_and_scaling(rng, move, rule):
    for d in (1, 2, 3, 12):
        X = rng.integers(0, 4, (50, d)).astype(float)
        Q = np.vstack([X, rng.integers(-9, 9, (50, d)) / 2])
        options = {"t": 8, "psi": 6, "rule": rule}
        moved = fitted(EXACT_MOVES[move](X), **options).assign_cells(EXACT_MOVES[move](Q))
        assert_array_equal(moved, fitted(X, **options).assign_cells(Q))


@pytest.mark.parametrize("rule", RULES)
def test_cells_survive_any_rotation_of_points_in_general_position(rng, rule):
    X, Q = rng.normal(size=(80, 4)), rng.normal(size=(200, 4))
    rotation = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    assert_array_equal(fitted(X @ rotation, rule=rule).assign_cells(Q @ rotation), fitted(X, rule=rule).assign_cells(Q))


@pytest.mark.parametrize("pool_size", [None, "auto"])
@pytest.mark.parametrize("seed", range(3))
def test_theorem1_sparser_data_make_the_same_pair_more_similar(seed, pool_size):
    # The region E = [0, 1]^2 holds 1/9 of the mass of D and 4/9 of that of D'.
    rng = np.random.default_rng(seed)
    D = rng.uniform(-1, 2, (3000, 2))
    D_dense = np.vstack([rng.uniform(-1, 2, (1875, 2)), rng.uniform(0, 1, (1125, 2))])
    x = rng.uniform(0.3, 0.7, (25, 2))
    angle = rng.uniform(0, 2 * np.pi, 25)
    y = x + 0.1 * np.column_stack([np.cos(angle), np.sin(angle)])
    sparse, dense = (
        fitted(data, t=400, psi=64, random_state=seed, pool_size=pool_size).similarity(x, y).diagonal()
        for data in (D, D_dense)
    )
    assert sparse.mean() > dense.mean() + 0.05
    assert (sparse > dense).mean() > 0.85


def test_the_draw_follows_random_state(X):
    first = fitted(X, random_state=3).centers_
    assert_array_equal(fitted(X, random_state=np.random.RandomState(3)).centers_, first)
    assert (fitted(X, random_state=4).centers_ != first).any()


def test_a_cell_never_depends_on_the_rest_of_its_batch(X, rng):
    Q = np.vstack([queries(X, rng), rng.normal(2, 3, (3000, 2))])
    kernel = fitted(X, psi=20)
    cells = kernel.assign_cells(Q)
    for rows in (slice(0, 1), slice(17, 90), slice(None, None, -7)):
        assert_array_equal(kernel.assign_cells(Q[rows]), cells[rows])


def test_fitting_leaves_the_data_and_later_changes_to_it_leave_the_model(X):
    before = X.copy()
    kernel = fitted(X)
    cells = kernel.assign_cells(X)
    assert_array_equal(X, before)
    X += 100
    assert_array_equal(kernel.assign_cells(before), cells)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output_gives_a_frame_whose_columns_name_partitioning_and_cell_once_each(X, library):
    frame = importlib.import_module(library).DataFrame({"a": X[:, 0], "b": X[:, 1]})
    kernel = fitted(X, t=3, psi=4)
    names = list(kernel.get_feature_names_out())
    assert len(set(names)) == 12 and all(isinstance(name, str) for name in names)
    out = IsolationKernel(3, 4, random_state=0).set_output(transform=library).fit(frame).transform(frame)
    assert type(out).__module__.split(".")[0] == library
    assert list(out.columns) == names
    assert_array_equal(out.to_numpy(), kernel.transform(X).toarray())


LABELS = ["b", "a", "c"]


def labelled(X):
    """Shuffled group labels whose order of first appearance is b, a, c."""
    return np.array([LABELS[i] for i in [0, 1, 0, 2, *np.random.default_rng(1).integers(0, 3, len(X) - 4)]])


@pytest.mark.parametrize("as_labels", [np.array, list, lambda g: np.array(g, dtype=object), lambda g: 7 - (g == "a")])
def test_embed_gives_the_mean_map_of_every_group_in_order_of_first_appearance(X, as_labels):
    kernel = fitted(X)
    groups = as_labels(labelled(X))
    order = list(dict.fromkeys(list(groups)))
    cells = cells_of(kernel, X, X)
    expected = [oracle.mean_map([c for c, g in zip(cells, groups, strict=True) if g == o], 5) for o in order]
    embedding = kernel.embed(X, groups=groups)
    assert embedding.format == "csr"
    assert_allclose(embedding.toarray(), expected, rtol=1e-12, atol=0)


def test_sets_may_be_a_list_of_arrays_one_array_or_single_points(X):
    kernel, groups = fitted(X), labelled(X)
    parts = [X[groups == label] for label in LABELS]
    by_label = kernel.embed(X, groups=groups).toarray()
    assert_array_equal(kernel.embed(parts[::-1]).toarray(), by_label[::-1])
    assert_array_equal(kernel.embed(parts[0]).toarray(), by_label[:1])
    assert_array_equal(kernel.embed(X, groups=np.arange(len(X))).toarray(), kernel.transform(X).toarray())


def test_gram_is_the_kernel_of_every_pair_of_groups(X):
    kernel, groups = fitted(X), labelled(X)
    parts = [X[groups == label] for label in LABELS]
    gram, cells = kernel.gram(X, groups), [cells_of(kernel, X, part) for part in parts]
    assert_allclose(gram, [[oracle.idk(a, b) for b in cells] for a in cells], rtol=1e-12)
    assert_array_equal(gram, gram.T)
    assert np.linalg.eigvalsh(gram).min() > -1e-12
    assert_array_equal(kernel.gram(parts), gram)
