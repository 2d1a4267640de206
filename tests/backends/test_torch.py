"""The torch backend returns NumPy's integers: by torch on a processor, by Triton interpreted, and on a GPU."""

import importlib.util
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from oracle.hard_data import KINDS, queries

from isobag import IDKGroupDetector, IDKPointDetector, IsolationKernel
from isobag.backends import Compute
from isobag.backends import numpy as definition
from isobag.backends.arrays import Deviations, Term, Terms
from isobag.backends.counts import self_dots as self_dots_of
from isobag.backends.samples import Cut
from isobag.data.groups import Groups
from isobag.data.scaling import SCALINGS, fit_scaling
from isobag.partitionings import balls_around, cut_pool, nested_levels
from isobag.partitionings.counts import MeanMaps

if importlib.util.find_spec("torch") is None:
    pytest.skip('torch is not installed: pip install "isobag[gpu]" to run these tests', allow_module_level=True)
import torch

from isobag.backends import torch as backend
from isobag.backends.torch import rows as on_device
from isobag.data.device import DeviceRows

HAS_GPU = torch.cuda.is_available()
INTERPRETS = os.environ.get("TRITON_INTERPRET") == "1"
gpu = [pytest.mark.gpu, pytest.mark.skipif(not HAS_GPU, reason="no NVIDIA GPU that torch can use")]
DEVICES = ["cpu", pytest.param("cuda", marks=gpu)]
CUTS = [(2, 4, 8, 16, 32, 40), (2, 4, 7), (5,), (16, 32, 64), (2, 4, 8, 16, 32, 64, 100)]


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def balls_of(rng, X, levels, n_blocks, mechanism="hypersphere"):
    slots = cut_pool(len(X), levels[-1], n_blocks, rng)
    return balls_around(X.astype(np.float32), slots, levels, mechanism, Compute("numpy"))


def assert_rows_agree(rng, device, balls, Q):
    """All functions of rows, with the bits of distances."""
    functions, there = backend.on(device), torch.from_numpy(Q).to(device)
    if np.isfinite(balls.sq_radii).all():
        assert_array_equal(functions.sq_radii(balls.pool, balls.slots, balls.levels), balls.sq_radii)
    sq_dists = on_device.sq_distances(there, torch.from_numpy(balls.pool).to(device)).cpu().numpy()
    assert_array_equal(sq_dists.view(np.int32), definition.sq_distances(Q, balls.pool).view(np.int32))
    for limits in (None, balls.far_limits()):
        cells, far = functions.assign_cells(there, balls, limits)
        expected, expected_far = definition.assign_cells(Q, balls, limits)
        assert_array_equal(functions.fetch(cells), expected)
        assert_array_equal(functions.fetch(far), expected_far)
        for most in (1 << 32, 1 << 8):  # sums that need 64 bits, and 32
            tables = rng.integers(0, most, balls.sq_radii.shape)
            sums = definition.sum_at_cells(Q, balls, tables, limits)
            assert_array_equal(functions.fetch(functions.sum_at_cells(there, balls, tables, limits)), sums)
            assert_array_equal(functions.fetch(functions.sum_cells(cells, balls.cut, tables)), sums[:, :-1])
    counts = definition.count_cells(expected, balls.cut)
    assert_array_equal(functions.count_cells(cells, balls.cut), counts)
    assert_array_equal(functions.count_at_cells(there, balls), counts)
    starts = np.array([0, len(Q) // 3, len(Q) // 3, len(Q)])
    of_groups = functions.count_groups(cells, balls.cut, starts).tocsr()
    assert_array_equal(of_groups.toarray(), definition.count_groups(expected, balls.cut, starts).toarray())


@pytest.mark.parametrize(("d", "levels"), list(zip((1, 2, 3, 70, 10), CUTS, strict=True)))
@pytest.mark.parametrize("kind", KINDS)
def test_cells_sums_and_counts_are_those_of_numpy(rng, device, kind, d, levels):
    X = KINDS[kind](rng, 110, d).astype(np.float32)
    Q = np.vstack([queries(rng, X)[::3], X[:9] * 1e5]).astype(np.float32)
    assert_rows_agree(rng, device, balls_of(rng, X, levels, 3), Q)


def test_voronoi_cells_are_those_of_numpy(rng, device):
    X = rng.normal(size=(110, 2)).astype(np.float32)
    assert_rows_agree(rng, device, balls_of(rng, X, (16, 32, 64), 2, "voronoi"), 3 * X)


@pytest.mark.parametrize("d", [1, 2, 3, 10, 32, 33, 50, 300, 784])
@pytest.mark.parametrize("kind", ["normal", "integer grid", "90 % duplicates", "1e8 offset"])
@pytest.mark.parametrize("device", [pytest.param("cuda", marks=gpu)])
def test_many_centers_and_features_are_those_of_numpy(rng, device, kind, d):
    X = KINDS[kind](rng, 700, d).astype(np.float32)
    Q = queries(rng, X)[:: 3 if d <= 10 else 19].astype(np.float32)
    assert_rows_agree(rng, device, balls_of(rng, X, nested_levels(512), 4), Q)


@pytest.mark.skipif(not INTERPRETS, reason="runs in a process of its own, with TRITON_INTERPRET=1")
@pytest.mark.parametrize(("d", "levels"), list(zip((1, 2, 3, 33, 2), CUTS, strict=True)))
@pytest.mark.parametrize("kind", ["normal", "integer grid", "90 % duplicates"])
def test_kernels_interpreted_are_those_of_numpy(rng, kind, d, levels):
    X = KINDS[kind](rng, 110, d).astype(np.float32)
    assert_rows_agree(rng, "cpu", balls_of(rng, X, levels, 2), queries(rng, X)[::9].astype(np.float32))


@pytest.mark.skipif(not INTERPRETS, reason="runs in a process of its own, with TRITON_INTERPRET=1")
def test_kernels_of_scales_and_groups_interpreted_are_those_of_numpy(rng):
    with np.errstate(all="ignore"):
        for kind in KINDS:
            assert_scales_agree(rng, "cpu", kind, 100)
    assert_groups_agree(rng, "cpu")


@pytest.mark.slow
@pytest.mark.skipif(INTERPRETS, reason="this is the process that interprets")
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed: pip install triton")
def test_kernels_pass_by_the_interpreter_of_triton():
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-k", "interpreted_are", __file__]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "16 passed" in done.stdout


def assert_scales_agree(rng, device, kind, n):
    X = KINDS[kind](rng, n, 4).astype(float)
    Q = np.concatenate([X, queries(rng, X), X * 1e9, [[0.0, -0.0, 1e150, -1e150]]])
    for name in SCALINGS:
        scaling = fit_scaling(X, name)
        actual = scaling.apply(torch.from_numpy(Q).to(device), Compute("torch", device=device)).cpu().numpy()
        assert_array_equal(np.ascontiguousarray(actual).view(np.int32), scaling.apply(Q).view(np.int32), err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_scaled_rows_have_the_bits_of_numpy(rng, device, kind):
    assert_scales_agree(rng, device, kind, 3000)


def assert_groups_agree(rng, device):
    functions = backend.on(device)
    for sizes in (np.full(30, 12), rng.integers(1, 300, 30)):
        starts, cut = np.concatenate([[0], sizes.cumsum()]), Cut((2, 4, 6), 12)
        psi = np.repeat(cut.levels, cut.counts)[:, None]
        cells = rng.integers(-1, psi, (len(psi), starts[-1]))
        cells = np.where(cells < 0, -1, cells + np.concatenate(cut.starts)[:, None]).astype(np.int32)
        expected, counts = definition.count_groups(cells, cut, starts), functions.count_groups(cells, cut, starts)
        assert_array_equal(counts.tocsr().toarray(), expected.toarray())
        on_device, there = MeanMaps(counts, sizes), MeanMaps(expected, sizes)
        weights = rng.integers(0, 1 << 40, max(expected.shape))
        assert_array_equal(on_device.self_dots, there.self_dots)
        assert_array_equal(on_device.total(weights[: len(sizes)]), there.total(weights[: len(sizes)]))
        assert_array_equal(on_device.dot(weights[: expected.shape[1]]), there.dot(weights[: expected.shape[1]]))
        chosen = np.sort(rng.permutation(30)[:20])
        dots, host = functions.dot_counts(counts, counts[chosen]), definition.dot_counts(expected, expected[chosen])
        assert_array_equal(dots.cpu().numpy(), host)
        assert_array_equal(functions.dot_counts(expected, counts[chosen]).cpu().numpy(), host)
        levels, slots = (2, 5, 8), np.stack([rng.permutation(20)[:8] for _ in range(3)]).astype(np.int32)
        self_dots, unit = self_dots_of(expected), int(np.gcd.reduce(sizes[chosen]))
        centers = (self_dots[chosen], sizes[chosen], unit)
        radii = definition.group_sq_radii(host[chosen], *centers, slots, levels)
        expected = definition.assign_groups(host, self_dots, sizes, *centers, slots, levels, radii)
        assert_array_equal(functions.assign_groups(dots, self_dots, sizes, *centers, slots, levels, radii), expected)
        groups = Deviations(*rng.random((3, 30)), self_dots, sizes.astype(float))
        others = Deviations(*(values[chosen] for values in groups))
        for ranks in ((3, 5, 9), (1, 1, 1)):
            near = definition.near_and_far(host, groups, others, 0.7, ranks)
            assert_array_equal(functions.near_and_far(dots, groups, others, 0.7, ranks), near)


def test_verbs_of_groups_are_those_of_numpy(rng, device):
    assert_groups_agree(rng, device)


def test_sums_of_logarithms_have_the_bits_of_numpy(rng, device):
    sums = [rng.integers(0, most, (5000, 3)) for most in (900, 900_000)]
    terms = [Term(view, column, 77, 0.3 + column, 1e-3) for view in (0, 1) for column in (0, 1)]
    terms = Terms((*terms, Term(0, 2, 4096, 0.2, None), Term(1, 2, 4096, 0.1, None)), 3)
    for rows in (slice(0, 4000), slice(4000, 5000), slice(0, 0)):  # looked up, then fewer rows than numbers
        there = backend.on(device).add_terms([each[rows] for each in sums], terms)
        for actual, expected in zip(there, definition.add_terms([each[rows] for each in sums], terms), strict=True):
            assert_array_equal(actual.cpu().numpy(), expected)


@pytest.mark.parametrize("options", [{}, {"max_samples": 32}, {"max_samples": 16, "pool_size": None}])
def test_point_detectors_agree_and_tensors_give_tensors(rng, device, options):
    X, Q = rng.normal(size=(9000, 3)), 2 * rng.normal(size=(150, 3))
    expected = IDKPointDetector(20, random_state=0, **options).fit(X)
    of_tensors = IDKPointDetector(20, random_state=0, **options).fit(DeviceRows(torch.from_numpy(X).to(device)))
    assert of_tensors.offset_ == expected.offset_
    for name in ("score_samples", "p_values", "explain", "predict", "decision_function"):
        actual = getattr(of_tensors, name)(DeviceRows(torch.from_numpy(Q).to(device)))
        assert isinstance(actual, torch.Tensor) and actual.device.type == device
        assert_array_equal(actual.cpu().numpy(), getattr(expected, name)(Q))


@pytest.mark.parametrize("options", [{}, {"max_samples": 16, "group_max_samples": 8, "pool_size": None}])
def test_group_detectors_agree(rng, device, options):
    X, ids = rng.normal(size=(600, 2)), np.append(np.arange(40), rng.integers(0, 40, 560))
    expected = IDKGroupDetector(10, random_state=0, **options).fit(X, groups=ids)
    of_tensors = IDKGroupDetector(10, random_state=0, **options)
    of_tensors.fit(Groups(DeviceRows(torch.from_numpy(X).to(device)), ids, np.arange(40)))
    assert_array_equal(of_tensors.scores_, expected.scores_)
    assert_array_equal(of_tensors.p_values(X, groups=ids), expected.p_values(X, groups=ids))
    assert_array_equal(pickle.loads(pickle.dumps(of_tensors)).score_samples(X, groups=ids), expected.scores_)


def test_kernels_and_mean_maps_agree(rng, device):
    X, ids = rng.normal(size=(200, 4)), np.arange(200) % 9
    rows = DeviceRows(torch.from_numpy(X).to(device))
    of_tensors, other = (IsolationKernel(9, 16, random_state=0).fit(data) for data in (rows, X))
    assert_array_equal(of_tensors.assign_cells(rows), other.assign_cells(X))
    assert_array_equal(of_tensors.embed(Groups(rows, ids, np.arange(9))).toarray(), other.embed(X, ids).toarray())


@pytest.mark.parametrize("device", [pytest.param("cuda", marks=gpu)])
def test_labels_and_lists_on_a_gpu(rng, device):
    X, ids = rng.normal(size=(600, 2)), rng.integers(5, 45, 600)
    expected = IDKGroupDetector(10, random_state=0).fit(X, groups=ids)
    on_gpu = torch.from_numpy(X).to(device), torch.from_numpy(ids).to(device)
    of_tensors = IDKGroupDetector(10, random_state=0).fit(on_gpu[0], groups=on_gpu[1])
    assert_array_equal(of_tensors.labels_, expected.labels_)
    assert_array_equal(of_tensors.scores_, expected.scores_)
    parts = [X[ids == label] for label in expected.labels_]
    by_parts = IDKGroupDetector(10, random_state=0).fit([torch.from_numpy(part).to(device) for part in parts])
    assert_array_equal(by_parts.scores_, IDKGroupDetector(10, random_state=0).fit(parts).scores_)
