"""The torch backend returns the integers of the NumPy backend: in host memory, by Triton's interpreter, and a GPU."""

import importlib.util
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from oracle.hard_data import KINDS, queries

from isobag import IDKGroupDetector, IDKPointDetector, IsolationDistributionalKernel, IsolationKernel
from isobag.backends import Compute
from isobag.backends import numpy as definition
from isobag.backends.arrays import OCTAVE, Balls, octaves
from isobag.backends.counts import self_dots as self_dots_of
from isobag.data.scaling import SCALINGS, fit_scaling
from isobag.partitionings.base import distinct_points
from isobag.partitionings.counts import MeanMaps

if importlib.util.find_spec("torch") is None:
    pytest.skip('torch is not installed: pip install "isobag[gpu]" to run these tests', allow_module_level=True)
import torch

HAS_GPU = torch.cuda.is_available()
WAYS = [("hypersphere", "nearest"), ("hypersphere", "covering"), ("hypersphere", "smallest"), ("voronoi", "nearest")]
INTERPRETS = os.environ.get("TRITON_INTERPRET") == "1"
gpu = [pytest.mark.gpu, pytest.mark.skipif(not HAS_GPU, reason="no NVIDIA GPU that torch can use")]
DEVICES = ["cpu", pytest.param("cuda", marks=gpu)]


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


@pytest.fixture
def verbs(device):
    from isobag.backends import torch as backend

    return backend.on(device)


def balls_of(rng, X, t, levels, bounded=True):
    points, names = distinct_points(np.asarray(X, dtype=float))
    slots = names[np.stack([rng.permutation(len(X))[: levels[-1]] for _ in range(t)])].astype(np.int32)
    radii = definition.sq_radii(points, slots, levels)
    return Balls(points, slots, levels, radii if bounded else np.full_like(radii, np.inf))


def limits_of(rng, balls):
    """Octaves of a typical squared radius, for some of the levels; far below it for one of them."""
    radii = balls.sq_radii[np.isfinite(balls.sq_radii) & (balls.sq_radii > 0)]
    typical = octaves(np.array([np.median(radii) if len(radii) else 1.0]))[0]
    limits = np.where(rng.random(len(balls.levels)) < 0.5, typical, -1)
    limits[-1], limits[0] = typical, typical - 5 * OCTAVE
    return limits


def check_rows(verbs, rng, X, Q, t, levels, bounded=True):
    """All verbs of rows."""
    balls = balls_of(rng, X, t, levels, bounded)
    q = verbs.prepare(Q)
    tables = rng.integers(0, 1000, balls.sq_radii.shape)
    if bounded:
        assert_array_equal(verbs.sq_radii(balls.points, balls.slots, levels), balls.sq_radii)
    for rule in ("nearest", "covering", "smallest"):
        assert_array_equal(verbs.fetch(verbs.assign_cells(q, balls, rule)), definition.assign_cells(Q, balls, rule))
        expected = definition.sum_at_cells(Q, balls, tables, rule)
        assert_array_equal(verbs.fetch(verbs.sum_at_cells(q, balls, tables, rule)), expected)
    counts = definition.count_cells(Q, balls)
    assert_array_equal(verbs.count_cells(q, balls), counts)
    for only_last in (False, True):
        found = verbs.count_and_sum(q, balls, only_last)
        for own, other in zip(found, definition.count_and_sum(Q, balls, only_last), strict=True):
            assert_array_equal(verbs.fetch(own), other)
    limits = limits_of(rng, balls)
    for rule in ("nearest", "covering"):
        expected = definition.sum_at_cells(Q, balls, tables, rule, limits)
        assert_array_equal(verbs.fetch(verbs.sum_at_cells(q, balls, tables, rule, limits)), expected)
    for own, other in zip(
        verbs.count_and_sum(q, balls, limits=limits), definition.count_and_sum(Q, balls, limits=limits), strict=True
    ):
        assert_array_equal(verbs.fetch(own), other)
    last = verbs.count_and_sum(q, balls, True, limits[-1:])[1]
    assert_array_equal(verbs.fetch(last), definition.count_and_sum(Q, balls, True, limits[-1:])[1])


@pytest.mark.parametrize("d", [1, 2, 5, 13, 40])
@pytest.mark.parametrize("kind", KINDS)
def test_all_verbs_agree_with_numpy(rng, verbs, kind, d):
    X = KINDS[kind](rng, 80, d).astype(float)
    Q = queries(rng, X)
    for levels in ((2, 4, 8, 11), (50,)):
        check_rows(verbs, rng, X, Q, 3, levels)
    check_rows(verbs, rng, X, Q[::5], 2, (2, 7), bounded=False)


@pytest.mark.gpu
@pytest.mark.skipif(not HAS_GPU, reason="no NVIDIA GPU that torch can use")
@pytest.mark.parametrize("d", [2, 10, 32, 33, 300])
@pytest.mark.parametrize("kind", KINDS)
def test_all_verbs_agree_with_many_centers_on_a_gpu(rng, kind, d):
    from isobag.backends import torch as backend

    X = KINDS[kind](rng, 1200, d).astype(float)
    for levels in ((2, 4, 8, 16, 32, 64, 128, 256), (1000,)):
        check_rows(backend.on("cuda"), rng, X, queries(rng, X)[:: 3 if d <= 10 else d], 3, levels)


@pytest.mark.skipif(not INTERPRETS, reason="runs in a process of its own, with TRITON_INTERPRET=1")
@pytest.mark.parametrize("d", [1, 2, 3, 35])
@pytest.mark.parametrize("kind", ["normal", "integer grid", "90 % duplicates", "tiny differences", "1e8 offset"])
def test_kernels_agree_with_numpy_when_interpreted(rng, monkeypatch, kind, d):
    from isobag.backends import torch as backend
    from isobag.backends.torch import groups

    monkeypatch.setattr(groups, "uses_kernels", lambda device: True)
    X = KINDS[kind](rng, 20, d).astype(float)
    check_rows(backend.on("cpu"), rng, X, queries(rng, X)[::5], 2, (2, 4, 7))
    if d == 2:  # so many centers are taken in chunks
        X = KINDS[kind](rng, 600, d).astype(float)
        balls, Q = balls_of(rng, X, 1, (520,)), queries(rng, X)[::40]
        found = backend.on("cpu").assign_cells(backend.on("cpu").prepare(Q), balls, "nearest")
        assert_array_equal(found, definition.assign_cells(Q, balls, "nearest"))


@pytest.mark.skipif(not INTERPRETS, reason="runs in a process of its own, with TRITON_INTERPRET=1")
def test_group_kernels_agree_with_numpy_when_interpreted(rng, monkeypatch):
    from isobag.backends.torch import groups

    monkeypatch.setattr(groups, "uses_kernels", lambda device: True)
    check_group_verbs(rng, "cpu")


@pytest.mark.slow
@pytest.mark.skipif(INTERPRETS, reason="this is the process that interprets")
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed: pip install triton")
def test_kernels_pass_by_the_interpreter_of_triton():
    command = [sys.executable, "-m", "pytest", "-q", "-k", "interpreted", __file__]
    done = subprocess.run(
        command, env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.parametrize("name", SCALINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_scalings_of_tensors_have_the_bits_of_numpy(rng, device, kind, name):
    X = KINDS[kind](rng, 3000, 4).astype(float)
    Q = np.concatenate([X, queries(rng, X), X * 1e9, [[0.0, -0.0, 1e150, -1e150]]])
    scaling = fit_scaling(X, name)
    found = scaling.apply(torch.from_numpy(Q).to(device), Compute("torch", device=device)).cpu().numpy()
    assert_array_equal(found.view(np.int64), scaling.apply(Q).view(np.int64))


def check_group_verbs(rng, device):
    from isobag.backends import torch as backend

    verbs = backend.on(device)
    for sizes in (np.full(30, 12), rng.integers(1, 300, 30)):
        starts = np.concatenate([[0], sizes.cumsum()])
        cells = rng.integers(-1, 6, (starts[-1], 4)).astype(np.int32)
        for n_columns in (6, 7):
            expected = definition.count_group_cells(cells, starts, 6, n_columns)
            counts = verbs.count_group_cells(cells, starts, 6, n_columns)
            assert_array_equal(counts.tocsr().toarray(), expected.toarray())
            assert_array_equal(counts.self_dots(), self_dots_of(expected))
            own, there = MeanMaps(counts, sizes), MeanMaps(expected, sizes)
            weights = rng.integers(0, 1 << 40, max(expected.shape))
            assert_array_equal(own.total(weights[: len(sizes)]), there.total(weights[: len(sizes)]))
            assert_array_equal(own.dot(weights[: expected.shape[1]]), there.dot(weights[: expected.shape[1]]))
        chosen = np.sort(rng.permutation(30)[:20])
        dots = verbs.dot_counts(counts, counts[chosen])
        assert_array_equal(dots.cpu().numpy(), definition.dot_counts(expected, expected[chosen]))
        assert_array_equal(verbs.dot_counts(expected, counts[chosen]).cpu().numpy(), dots.cpu().numpy())
        levels, slots = (2, 5, 8), np.stack([rng.permutation(20)[:8] for _ in range(3)]).astype(np.int32)
        self_dots, unit = self_dots_of(expected), int(np.gcd.reduce(sizes[chosen]))
        host = dots.cpu().numpy().astype(np.int64)
        common = (self_dots[chosen], sizes[chosen], unit, slots, levels)
        radii = definition.group_sq_radii(host, chosen, *common)
        assert_array_equal(verbs.group_sq_radii(dots, chosen, *common), radii)
        found = verbs.assign_groups(dots, self_dots, sizes, *common, radii)
        assert_array_equal(verbs.fetch(found), definition.assign_groups(host, self_dots, sizes, *common, radii))


def test_group_verbs_agree_with_numpy(rng, device):
    check_group_verbs(rng, device)


@pytest.mark.parametrize(
    "options",
    [{}, {"max_samples": 32}, {"method": "norm", "max_samples": 16}, {"mechanism": "voronoi"}, {"mechanism": "tree"}],
)
def test_point_detectors_agree_and_tensors_give_tensors(rng, device, options):
    X, Q = rng.normal(size=(400, 3)), 2 * rng.normal(size=(150, 3))
    expected = IDKPointDetector(20, random_state=0, **options).fit(X)
    own = IDKPointDetector(20, random_state=0, backend="torch", device=device, **options).fit(X)
    by_tensor = IDKPointDetector(20, random_state=0, backend="torch", device=device, **options)
    by_tensor.fit(torch.from_numpy(X).to(device))
    assert own.offset_ == by_tensor.offset_ == expected.offset_
    for name in ("score_samples", "p_values", "explain", "score_path", "predict", "decision_function"):
        there = getattr(expected, name)(Q)
        assert_array_equal(getattr(own, name)(Q), there)
        found = getattr(by_tensor, name)(torch.from_numpy(Q).to(device))
        assert isinstance(found, torch.Tensor) and found.device.type == device
        assert_array_equal(found.cpu().numpy(), there)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_samples": 16, "group_max_samples": 8},
        {"max_samples": 8, "count_outside": True, "group_mechanism": "voronoi"},
        {"point_mechanism": "tree", "group_mechanism": "tree"},
    ],
)
def test_group_detectors_agree(rng, device, options):
    X, ids = rng.normal(size=(600, 2)), rng.integers(0, 40, 600)
    expected = IDKGroupDetector(10, random_state=0, **options).fit(X, groups=ids)
    for data in (X, torch.from_numpy(X).to(device)):
        own = IDKGroupDetector(10, random_state=0, backend="torch", device=device, **options).fit(data, groups=ids)
        assert_array_equal(own.scores_, expected.scores_)
        assert_array_equal(own.population_, expected.population_)
        found = own.p_values(data[:200], groups=ids[:200])
        assert_array_equal(
            found.cpu() if isinstance(found, torch.Tensor) else found, expected.p_values(X[:200], groups=ids[:200])
        )
        again = pickle.loads(pickle.dumps(own))
        assert_array_equal(again.score_samples(X, groups=ids), expected.score_samples(X, groups=ids))


@pytest.mark.parametrize(("mechanism", "rule"), WAYS)
def test_kernels_of_points_agree(rng, device, mechanism, rule):
    X = rng.normal(size=(200, 4))
    options = {"mechanism": mechanism, "rule": rule, "random_state": 0}
    own = IsolationKernel(9, 16, backend="torch", device=device, **options).fit(X)
    assert_array_equal(own.assign_cells(X), IsolationKernel(9, 16, **options).fit(X).assign_cells(X))


def test_mean_maps_are_computed_where_tensors_are(rng, device):
    X, ids = rng.normal(size=(300, 3)), rng.integers(0, 9, 300)
    there = torch.from_numpy(X).to(device)
    own, other = (IsolationDistributionalKernel(9, 8, backend=name, random_state=0) for name in ("torch", "numba"))
    assert_array_equal(own.fit(there).embed(there, ids).toarray(), other.fit(X).embed(X, ids).toarray())


@pytest.mark.gpu
@pytest.mark.skipif(not HAS_GPU, reason="no NVIDIA GPU that torch can use")
def test_labels_and_lists_on_a_gpu(rng):
    X, ids = rng.normal(size=(600, 2)), rng.integers(5, 45, 600)
    expected = IDKGroupDetector(10, random_state=0).fit(X, groups=ids)
    own = IDKGroupDetector(10, random_state=0).fit(torch.from_numpy(X).cuda(), groups=torch.from_numpy(ids).cuda())
    assert_array_equal(own.labels_, expected.labels_)
    assert_array_equal(own.scores_, expected.scores_)
    parts = [X[ids == label] for label in expected.labels_]
    by_parts = IDKGroupDetector(10, random_state=0).fit([torch.from_numpy(part).cuda() for part in parts])
    assert_array_equal(by_parts.scores_, IDKGroupDetector(10, random_state=0).fit(parts).scores_)


def test_what_is_wrong_is_said_in_one_sentence(rng):
    X = rng.normal(size=(20, 2))
    with pytest.raises(ValueError, match='use backend="torch", or device=None'):
        IDKPointDetector(backend="numba", device="cuda").fit(X)
    with pytest.raises(ValueError, match="device='gpu'; choose one of"):
        IDKPointDetector(device="gpu").fit(X)
    if not HAS_GPU:
        with pytest.raises(RuntimeError, match=r"device='cuda': .*or use device=\"cpu\""):
            IDKPointDetector(device="cuda").fit(X)
        with pytest.raises(RuntimeError, match="device='cuda'"):
            IDKPointDetector(backend="torch").fit(X)
    bad = torch.from_numpy(X.copy())
    bad[3, 1] = float("nan")
    with pytest.raises(ValueError, match="NaN: nan in row 3, column 1"):
        IDKPointDetector(backend="torch", device="cpu").fit(bad)
    with pytest.raises(ValueError, match="works in host memory"):
        Compute("numba").beside("cuda:0")
    assert Compute(device="cuda").name == "torch"
    assert Compute().beside("cuda:0") == Compute("torch", device="cuda:0")
    assert Compute().name == Compute(device="cpu").name == "numba"


def test_torch_is_imported_only_when_asked_for():
    code = (
        "import isobag, sys; isobag.IDKPointDetector(5).fit([[0.0], [1.0], [3.0]]); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
