import importlib

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from oracle import points as oracle

from isobag import IsolationDistributionalKernel, IsolationKernel

RULES = ["nearest", "covering", "smallest"]
MECHANISMS = ["hypersphere", "voronoi"]


def fitted(X, t=6, psi=5, **options):
    return IsolationKernel(t, psi, **{"random_state": 0, **options}).fit(X)


def fitted_idk(X, t=6, psi=5, **options):
    return IsolationDistributionalKernel(t, psi, **{"random_state": 0, **options}).fit(X)


def queries(X, rng):
    """The points themselves, points of a grid of halves (ties, if X is on a grid), and points far from all."""
    return np.vstack([X, rng.integers(0, 9, (40, X.shape[1])) / 2, X[:5] * 10 + 100])


def test_centers_of_a_partitioning_are_distinct_rows_of_the_data(X):
    kernel = fitted(X, t=20, psi=7)
    assert kernel.centers_.shape == (20, 7, 2)
    assert kernel.sq_radii_.shape == (20, 7)
    assert (kernel.max_samples_, kernel.n_features_in_) == (7, 2)
    rows = {tuple(x) for x in X}
    for centers in kernel.centers_:
        drawn = {tuple(c) for c in centers}
        assert drawn <= rows
        assert len(drawn) == 7


def test_every_row_is_drawn_when_max_samples_is_the_number_of_rows(X):
    for centers in fitted(X, t=3, psi=len(X)).centers_:
        assert sorted(map(tuple, centers)) == sorted(map(tuple, X))


def test_every_row_is_drawn_equally_often(rng):
    X = np.arange(10.0)[:, None]
    counts = np.bincount(fitted(X, t=4000, psi=3).centers_.ravel().astype(int), minlength=10)
    # Each row is in 30 % of 4000 draws: mean 1200, standard deviation 29.
    assert np.abs(counts - 1200).max() < 6 * 29


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_sq_radii_reach_to_the_nearest_different_center(X, grid, backend):
    for data, compare in [(grid, assert_array_equal), (X, lambda a, b: assert_allclose(a, b, rtol=1e-12))]:
        kernel = fitted(data, t=10, psi=9, backend=backend)
        compare(kernel.sq_radii_, [[float(r) for r in oracle.sq_radii(c)] for c in kernel.centers_])


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_radius_is_zero_when_all_centers_are_equal(backend):
    kernel = fitted(np.full((8, 3), 2.5), backend=backend)
    assert_array_equal(kernel.sq_radii_, 0)
    assert_array_equal(kernel.assign_cells([[2.5, 2.5, 2.5], [2.5, 2.5, 2.6]]), [[0] * 6, [oracle.OUTSIDE] * 6])


def test_voronoi_radii_are_infinite_so_nobody_is_outside(X):
    kernel = fitted(X, mechanism="voronoi")
    assert np.isposinf(kernel.sq_radii_).all()
    assert (kernel.assign_cells(X * 1e6) >= 0).all()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_both_mechanisms_draw_the_same_centers(X, mechanism):
    assert_array_equal(fitted(X, mechanism=mechanism).centers_, fitted(X).centers_)


@pytest.mark.parametrize("psi", [2, 5, 40])
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_cells_are_those_of_the_definition(X, grid, rng, psi, mechanism, rule, backend):
    for data in (X, grid):
        kernel = fitted(data, t=3, psi=psi, mechanism=mechanism, rule=rule, backend=backend)
        Q = queries(data, rng)
        cells = kernel.assign_cells(Q)
        assert cells.dtype == np.int32
        assert_array_equal(cells, oracle.assign_cells(Q, kernel.centers_, rule, mechanism))


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
def test_def1_isolation_kernel_is_the_share_of_partitionings_with_a_common_cell(X, rule):
    kernel = fitted(X, t=9, rule=rule)
    cells = oracle.assign_cells(X, kernel.centers_, rule)
    expected = [[oracle.isolation_kernel(a, b) for b in cells[:7]] for a in cells]
    assert_allclose(kernel.similarity(X, X[:7]), expected, rtol=0, atol=1e-15)
    assert_array_equal(kernel.similarity(X), kernel.similarity(X, X))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_def2_feature_map_is_one_hot_per_partitioning(X, mechanism):
    kernel = fitted(X, t=9, mechanism=mechanism)
    features = kernel.transform(X)
    cells = oracle.assign_cells(X, kernel.centers_, mechanism=mechanism)
    assert scipy.sparse.issparse(features)
    assert features.format == "csr"
    assert features.shape == (len(X), 9 * 5)
    assert features.has_sorted_indices
    assert_array_equal(features.toarray(), [oracle.feature_map(c, 5) for c in cells])
    assert_array_equal(features.data, 1)
    assert features.nnz == sum(c != oracle.OUTSIDE for row in cells for c in row)
    assert np.diff(features.indptr).max() <= 9


def test_def2_kernel_is_the_dot_product_of_feature_maps(X):
    kernel = fitted(X, t=9)
    features = kernel.transform(X)
    assert_allclose((features @ features.T).toarray() / 9, kernel.similarity(X), atol=1e-15)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_def3_idk_is_mean_pairwise_isolation_kernel(X, mechanism):
    kernel = fitted_idk(X, t=9, mechanism=mechanism)
    S, T = X[:13], X[25:]
    S_cells, T_cells = (oracle.assign_cells(A, kernel.centers_, mechanism=mechanism) for A in (S, T))
    similarity = kernel.similarity(S, T)
    assert isinstance(similarity, float)
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
        assert gram.min() >= 0
        assert gram.max() <= 1
        assert (gram <= np.sqrt(np.outer(gram.diagonal(), gram.diagonal())) + 1e-12).all()


def test_self_similarity_is_the_share_of_partitionings_that_cover_the_point(X, rng):
    kernel = fitted(X, t=20)
    Q = queries(X, rng)
    shares = [oracle.norm_score(c) for c in oracle.assign_cells(Q, kernel.centers_)]
    assert 0 in shares
    assert len(set(shares)) > 5
    assert_allclose(kernel.similarity(Q).diagonal(), shares, atol=1e-15)


def test_two_far_points_share_no_cell_although_both_are_outside(X):
    far = np.array([[1e6, 0.0], [1e6, 0.0]])
    assert_array_equal(fitted(X).similarity(far), 0)
    assert fitted_idk(X).similarity(far, far) == 0


EXACT_MOVES = {
    "shift": lambda X: X + np.arange(1, X.shape[1] + 1) * 1000,
    "scaling": lambda X: X * 2.0**-20,
    "signed permutation": lambda X: X[:, ::-1] * [(-1) ** k for k in range(X.shape[1])],
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("backend", ["numpy", "numba"])
@pytest.mark.parametrize("move", EXACT_MOVES)
def test_cells_survive_rotation_shift_and_scaling(rng, move, rule, backend):
    for d in (1, 2, 3, 12):
        X = rng.integers(0, 4, (50, d)).astype(float)
        Q = np.vstack([X, rng.integers(-9, 9, (50, d)) / 2])
        options = {"t": 8, "psi": 6, "rule": rule, "backend": backend}
        moved = fitted(EXACT_MOVES[move](X), **options).assign_cells(EXACT_MOVES[move](Q))
        assert_array_equal(moved, fitted(X, **options).assign_cells(Q))


@pytest.mark.parametrize("rule", RULES)
def test_cells_survive_any_rotation_of_points_in_general_position(rng, rule):
    X, Q = rng.normal(size=(80, 4)), rng.normal(size=(200, 4))
    rotation = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    assert_array_equal(fitted(X @ rotation, rule=rule).assign_cells(Q @ rotation), fitted(X, rule=rule).assign_cells(Q))


@pytest.mark.parametrize("seed", range(8))
def test_theorem1_sparser_data_make_the_same_pair_more_similar(seed):
    # The region E = [0, 1]^2 holds 1/9 of the mass of D and 4/9 of that of D'.
    rng = np.random.default_rng(seed)
    D = rng.uniform(-1, 2, (3000, 2))
    D_dense = np.vstack([rng.uniform(-1, 2, (1875, 2)), rng.uniform(0, 1, (1125, 2))])
    x = rng.uniform(0.3, 0.7, (25, 2))
    angle = rng.uniform(0, 2 * np.pi, 25)
    y = x + 0.1 * np.column_stack([np.cos(angle), np.sin(angle)])
    sparse = fitted(D, t=400, psi=64, random_state=seed).similarity(x, y).diagonal()
    dense = fitted(D_dense, t=400, psi=64, random_state=seed).similarity(x, y).diagonal()
    assert sparse.mean() > dense.mean() + 0.05
    assert (sparse > dense).mean() > 0.9


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_first_rows_of_a_draw_are_the_draw_for_fewer_samples(mechanism):
    X = np.arange(500.0)[:, None]
    large = fitted(X, t=7, psi=500, mechanism=mechanism).centers_
    for psi in (2, 3, 8, 31, 64, 65, 130, 499):
        assert_array_equal(fitted(X, t=7, psi=psi, mechanism=mechanism).centers_, large[:, :psi])


def test_the_draw_follows_random_state(X):
    assert_array_equal(fitted(X, random_state=3).centers_, fitted(X, random_state=3).centers_)
    assert_array_equal(
        fitted(X, random_state=np.random.RandomState(3)).centers_,
        fitted(X, random_state=np.random.RandomState(3)).centers_,
    )
    assert (fitted(X, random_state=3).centers_ != fitted(X, random_state=4).centers_).any()


def test_a_cell_never_depends_on_the_rest_of_its_batch(X, rng):
    Q = np.vstack([queries(X, rng), rng.normal(2, 3, (3000, 2))])
    kernel = fitted(X, psi=20)
    cells = kernel.assign_cells(Q)
    for rows in (slice(0, 1), slice(5, 6), slice(17, 90), slice(None, None, -7), slice(1000, 2025)):
        assert_array_equal(kernel.assign_cells(Q[rows]), cells[rows])


def test_fitting_leaves_the_data_and_later_changes_to_it_leave_the_model(X):
    before = X.copy()
    kernel = fitted(X)
    cells = kernel.assign_cells(X)
    assert_array_equal(X, before)
    X += 100
    assert_array_equal(kernel.assign_cells(before), cells)


def test_feature_names_out_name_partitioning_and_cell_once_each(X):
    kernel = fitted(X, t=3, psi=4)
    names = kernel.get_feature_names_out()
    assert len(names) == len(set(names)) == 12
    assert all(isinstance(name, str) for name in names)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output_gives_a_frame_with_those_names(X, library):
    frame = importlib.import_module(library).DataFrame({"a": X[:, 0], "b": X[:, 1]})
    kernel = fitted(X, t=3, psi=4)
    out = IsolationKernel(3, 4, random_state=0).set_output(transform=library).fit(frame).transform(frame)
    assert type(out).__module__.split(".")[0] == library
    assert list(out.columns) == list(kernel.get_feature_names_out())
    assert_array_equal(out.to_numpy(), kernel.transform(X).toarray())


LABELS = ["b", "a", "c"]


def labelled(X):
    """Shuffled group labels whose order of first appearance is b, a, c."""
    return np.array([LABELS[i] for i in [0, 1, 0, 2, *np.random.default_rng(1).integers(0, 3, len(X) - 4)]])


@pytest.mark.parametrize("as_labels", [np.array, list, lambda g: np.array(g, dtype=object), lambda g: 7 - (g == "a")])
def test_embed_gives_the_mean_map_of_every_group_in_order_of_first_appearance(X, as_labels):
    kernel = fitted_idk(X)
    groups = as_labels(labelled(X))
    order = list(dict.fromkeys(list(groups)))
    cells = oracle.assign_cells(X, kernel.centers_)
    expected = [oracle.mean_map([c for c, g in zip(cells, groups, strict=True) if g == o], 5) for o in order]
    embedding = kernel.embed(X, groups=groups)
    assert embedding.format == "csr"
    assert embedding.shape == (len(order), 6 * 5)
    assert_allclose(embedding.toarray(), expected, rtol=1e-12, atol=0)


def test_embed_of_a_list_of_arrays_keeps_its_order(X):
    kernel, groups = fitted_idk(X), labelled(X)
    arrays = [X[groups == label] for label in LABELS]
    assert_array_equal(kernel.embed(arrays).toarray(), kernel.embed(X, groups=groups).toarray())
    assert_array_equal(kernel.embed(arrays[::-1]).toarray(), kernel.embed(X, groups=groups).toarray()[::-1])


def test_embed_of_one_point_is_its_feature_map(X):
    features = fitted(X).transform(X).toarray()
    assert_array_equal(fitted_idk(X).embed(X, groups=np.arange(len(X))).toarray(), features)


def test_gram_holds_the_similarity_of_every_pair_of_groups(X):
    kernel, groups = fitted_idk(X), labelled(X)
    arrays = [X[groups == label] for label in LABELS]
    gram = kernel.gram(X, groups)
    assert isinstance(gram, np.ndarray)
    assert_allclose(gram, [[kernel.similarity(A, B) for B in arrays] for A in arrays], rtol=1e-12)
    assert_array_equal(gram, gram.T)
    assert np.linalg.eigvalsh(gram).min() > -1e-12
    assert_array_equal(kernel.gram(arrays), gram)
