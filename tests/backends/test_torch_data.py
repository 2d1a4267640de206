"""Rows on a device stay there, and rows in host memory go to it block by block: the same scores in any case."""

import importlib.util

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array

from isobag import IDKGroupDetector, IDKPointDetector, IsolationKernel

if importlib.util.find_spec("torch") is None:
    pytest.skip('torch is not installed: pip install "isobag[gpu]" to run these tests', allow_module_level=True)
import torch

from isobag.data.device import DeviceRows, lives_on_gpu

gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU that torch can use")]
DEVICES = ["cpu", pytest.param("cuda", marks=gpu)]
on_gpu = pytest.mark.parametrize("device", [pytest.param("cuda", marks=gpu)])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_rows_of_a_tensor_are_its_numbers(rng, device, dtype):
    X = torch.from_numpy(rng.normal(size=(50, 3))).to(device, dtype)
    rows, expected = DeviceRows(X), X.double().cpu().numpy()
    assert_array_equal(rows.take(np.array([4, 1])), expected[[4, 1]])
    assert_array_equal(rows.part(np.array([1, 4])).on_host.take(np.arange(2)), expected[[1, 4]])
    assert_array_equal(torch.cat(list(rows.blocks())).cpu(), X.cpu())
    assert_array_equal(rows.extremes(), [expected.min(axis=0), expected.max(axis=0)])
    blocks = list(rows.grouped_blocks(np.arange(50) % 3, stops=np.array([1, 3])))
    assert [block.numbers.tolist() for block in blocks] == [[0], [1, 2]]
    assert_array_equal(blocks[1].X.double().cpu(), np.concatenate([expected[1::3], expected[2::3]]))
    assert rows.first_bad is None


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -1e200])
def test_the_first_bad_row_is_known(rng, device, bad):
    X = rng.normal(size=(50, 3))
    X[[30, 40], 1] = bad
    assert DeviceRows(torch.from_numpy(X).to(device)).first_bad == 30


def test_a_tensor_in_host_memory_is_an_array(rng):
    X = rng.normal(size=(300, 3))
    there = torch.from_numpy(X)
    assert not lives_on_gpu(there)
    scores = IDKPointDetector(random_state=0).fit(there).score_samples(there)
    assert isinstance(scores, np.ndarray)
    assert_array_equal(scores, IDKPointDetector(random_state=0).fit(X).score_samples(X))


@on_gpu
def test_arrays_in_host_memory_go_to_the_gpu_that_is_named(rng, device):
    X = rng.normal(size=(3_000_000, 2))  # more than a block
    on_gpu = IDKPointDetector(9, random_state=0, device=device).fit(X)
    expected = IDKPointDetector(9, random_state=0, n_jobs=-1).fit(X)
    assert torch.cuda.max_memory_allocated() > 0
    assert on_gpu.offset_ == expected.offset_
    assert_array_equal(on_gpu.score_samples(X), expected.score_samples(X))
    ids = np.arange(60_000) % 500
    groups = [IDKGroupDetector(9, random_state=0, device=name).fit(X[:60_000], groups=ids) for name in (device, None)]
    assert_array_equal(groups[0].scores_, groups[1].scores_)


@on_gpu
def test_sparse_rows_of_many_features_need_bounded_memory(rng, device):
    X = csr_array((rng.normal(size=30_000), (rng.integers(0, 600, 30_000), rng.integers(0, 100_000, 30_000))))
    kernel = IsolationKernel(10, 16, random_state=0).fit(X)
    torch.cuda.reset_peak_memory_stats()
    compute = kernel.compute.beside("cuda")
    (view,) = kernel.views_.members
    scaled = view.scaling.apply(compute.place(X[:80].toarray()), compute)
    cells = compute.fetch(view.balls.assign(scaled, compute)[0])
    assert torch.cuda.max_memory_allocated() < 1 << 30
    assert_array_equal(np.where(cells < 0, -1, cells % 16).T, kernel.assign_cells(X[:80]))


@on_gpu
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cupy_arrays_in_give_cupy_arrays_out(rng, device, dtype):
    cupy = pytest.importorskip("cupy")
    X = rng.normal(size=(500, 3)).astype(dtype)
    expected = IDKPointDetector(20, random_state=0).fit(X)
    of_cupy = IDKPointDetector(20, random_state=0).fit(cupy.asarray(X))
    assert of_cupy.offset_ == expected.offset_
    for name in ("score_samples", "p_values", "predict", "decision_function"):
        actual = getattr(of_cupy, name)(cupy.asarray(X))
        assert isinstance(actual, cupy.ndarray)
        assert_array_equal(cupy.asnumpy(actual), getattr(expected, name)(X))
    ids = rng.integers(0, 25, 500)
    groups = IDKGroupDetector(10, random_state=0).fit(X, groups=ids)
    there = IDKGroupDetector(10, random_state=0).fit(cupy.asarray(X), groups=cupy.asarray(ids))
    assert_array_equal(there.labels_, groups.labels_)
    assert_array_equal(there.scores_, groups.scores_)


@on_gpu
def test_bad_rows_on_a_gpu_are_named(rng, device):
    X = rng.normal(size=(500, 3))
    X[499, 1] = np.inf
    with pytest.raises(ValueError, match="row 499, column 1"):
        IDKPointDetector().fit(torch.from_numpy(X).to(device))
