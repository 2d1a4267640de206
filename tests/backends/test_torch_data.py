"""Data that live on a GPU stay there, and data that are larger than it stream through: the same scores in any case."""

import importlib.util

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from isobag import IDKGroupDetector, IDKPointDetector, IDKStreamDetector

if importlib.util.find_spec("torch") is None:
    pytest.skip('torch is not installed: pip install "isobag[gpu]" to run these tests', allow_module_level=True)
import torch

from isobag.backends import Compute
from isobag.data import device as device_room
from isobag.data.device import StreamedRows
from isobag.models.point import PointParams
from isobag.models.stream import Stream

HAS_GPU = torch.cuda.is_available()
gpu = [pytest.mark.gpu, pytest.mark.skipif(not HAS_GPU, reason="no NVIDIA GPU that torch can use")]
DEVICES = ["cpu", pytest.param("cuda", marks=gpu)]
on_gpu = pytest.mark.parametrize("device", [pytest.param("cuda", marks=gpu)])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("block_rows", [1, 64, 100, 1000])
def test_blocks_that_stream_are_the_rows_in_order(rng, device, block_rows):
    X = rng.normal(size=(300, 3)).astype(np.float32)
    blocks = list(StreamedRows(X, device, block_rows).blocks())
    assert all(block.dtype == torch.float64 and block.device.type == device for block in blocks)
    assert_array_equal(torch.cat(blocks).cpu().numpy(), X.astype(float))
    assert max(map(len, blocks)) <= block_rows


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("options", [{}, {"max_samples": 32}, {"method": "norm", "max_samples": 16}])
def test_rows_that_stream_have_the_scores_of_rows_in_memory(rng, device, options):
    X = rng.normal(size=(700, 3)).astype(np.float32)
    expected = IDKPointDetector(20, random_state=0, **options).fit(X.astype(float))
    own = IDKPointDetector(20, random_state=0, backend="torch", device=device, **options)
    own.fit(StreamedRows(X, device, 128))
    assert own.offset_ == expected.offset_
    for name in ("score_samples", "p_values", "explain", "predict"):
        assert_array_equal(getattr(own, name)(StreamedRows(X, device, 100)), getattr(expected, name)(X.astype(float)))


@pytest.mark.parametrize("device", DEVICES)
def test_groups_that_stream_have_the_scores_of_groups_in_memory(rng, device):
    X, ids = rng.normal(size=(600, 2)), rng.integers(0, 40, 600)
    ids[:40] = np.arange(40)
    expected = IDKGroupDetector(10, random_state=0).fit(X, groups=ids)
    from isobag.data.groups import Groups

    streamed = Groups(StreamedRows(X, device, 64), ids, np.arange(40))
    own = IDKGroupDetector(10, random_state=0, backend="torch", device=device).fit(streamed)
    assert_array_equal(own.scores_, expected.scores_)
    assert_array_equal(own.score_samples(streamed), expected.score_samples(X, groups=ids))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("max_samples", ["auto", 16])
def test_a_window_that_moves_has_the_scores_of_the_definition(rng, device, max_samples):
    X = rng.normal(size=(500, 3))
    params = PointParams(7, max_samples, "similarity", "auto", "hypersphere", False, 3)
    expected = Stream(params, 150, 3).follow(X, Compute("numpy"))
    stream, compute = Stream(params, 150, 3), Compute("torch", device=device)
    own = [stream.follow(part, compute) for part in np.split(X, [250])]
    assert_array_equal(np.concatenate([part.scores for part in own]), expected.scores)
    assert_array_equal(np.concatenate([part.p_values for part in own]), expected.p_values)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("max_samples", ["auto", 16])
def test_a_stream_of_tensors_has_the_bits_of_a_stream_of_arrays(rng, device, max_samples):
    X = rng.normal(size=(420, 3))
    batches = [X[:50], X[50:51], X[51:300], X[300:]]
    expected = IDKStreamDetector(150, 7, max_samples, random_state=3, backend="numpy")
    own = IDKStreamDetector(150, 7, max_samples, random_state=3, backend="torch")
    for batch in batches:
        on_device = torch.tensor(batch, device=device)
        if hasattr(own, "stream_"):
            for name in ("score_samples", "p_values", "predict"):
                found = getattr(own, name)(on_device)
                assert isinstance(found, torch.Tensor)
                assert found.device.type == device
                assert_array_equal(found.cpu().numpy(), getattr(expected, name)(batch))
        own.partial_fit(on_device)
        expected.partial_fit(batch)
    for table, other in zip(own.model_.tables, expected.model_.tables, strict=True):
        assert_array_equal(table, other)
    assert_array_equal(own.window_, expected.window_)
    followed, others = own.follow(torch.tensor(X[:90], device=device)), expected.follow(X[:90])
    assert_array_equal(followed.scores.cpu().numpy(), others.scores)
    assert_array_equal(followed.p_values.cpu().numpy(), others.p_values)
    assert_array_equal(own.explain(torch.tensor(X[:5], device=device)).cpu().numpy(), expected.explain(X[:5]))


def test_a_tensor_that_changed_after_it_was_scored_is_scored_again(rng):
    X = torch.tensor(rng.normal(size=(300, 3)))
    detector = IDKStreamDetector(150, 7, random_state=3, backend="torch").partial_fit(X)
    some = X[:10].clone()
    before = detector.score_samples(some).clone()
    some += 5
    assert (detector.score_samples(some) < before).all()


@on_gpu
def test_a_stream_of_cupy_arrays_answers_in_cupy_arrays(rng, device):
    cupy = pytest.importorskip("cupy")
    X = rng.normal(size=(400, 3))
    own = IDKStreamDetector(150, 7, random_state=3).partial_fit(cupy.asarray(X))
    found = own.score_samples(cupy.asarray(X[:20]))
    assert isinstance(found, cupy.ndarray)
    assert_array_equal(found.get(), IDKStreamDetector(150, 7, random_state=3).partial_fit(X).score_samples(X[:20]))
    with pytest.raises(ValueError, match="works in host memory"):
        IDKStreamDetector(backend="numba").partial_fit(cupy.asarray(X))


@on_gpu
def test_arrays_larger_than_the_memory_of_a_gpu_stream(rng, monkeypatch, device):
    X = rng.normal(size=(2_000_000, 8)).astype(np.float32)
    expected = IDKPointDetector(9, random_state=0, n_jobs=-1).fit_scores(X)
    seen = []
    blocks = StreamedRows.blocks

    def watched(self):
        for block in blocks(self):
            seen.append(len(block))
            yield block

    monkeypatch.setattr(StreamedRows, "blocks", watched)
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + (1 << 30)) / total)
    try:
        found = IDKPointDetector(9, random_state=0, backend="torch").fit_scores(X)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert max(seen) < len(X) / 3  # in blocks, not at once
    assert isinstance(found, np.ndarray)
    assert_array_equal(found, expected)
    bad = X.copy()
    bad[1_999_999, 3] = np.nan
    monkeypatch.setattr(device_room, "ROOM_FOR_ONE", 1 << 15)
    with pytest.raises(ValueError, match="NaN: nan in row 1999999, column 3"):
        IDKPointDetector(backend="torch").fit(bad)


@on_gpu
def test_copies_to_a_gpu_do_not_wait_for_the_work_there(rng, device):
    rows = StreamedRows(rng.normal(size=(4_000_000, 8)).astype(np.float32), device, 500_000)
    assert sum(1 for _ in rows.blocks()) == 8
    torch.cuda.synchronize()
    torch.cuda._sleep(8_000_000_000)  # cycles: some seconds of work on the current stream
    worked = torch.cuda.Event()
    worked.record()
    blocks = rows.blocks()
    for _ in range(4):
        next(blocks)
    assert not worked.query()
    torch.cuda.synchronize()


@on_gpu
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cupy_arrays_in_give_cupy_arrays_out(rng, device, dtype):
    cupy = pytest.importorskip("cupy")
    X = rng.normal(size=(500, 3)).astype(dtype)
    expected = IDKPointDetector(20, random_state=0).fit(X)
    own = IDKPointDetector(20, random_state=0).fit(cupy.asarray(X))
    assert own.offset_ == expected.offset_
    for name in ("score_samples", "p_values", "predict", "decision_function"):
        found = getattr(own, name)(cupy.asarray(X))
        assert isinstance(found, cupy.ndarray)
        assert_array_equal(cupy.asnumpy(found), getattr(expected, name)(X))
    ids = rng.integers(0, 25, 500)
    groups = IDKGroupDetector(10, random_state=0).fit(X, groups=ids)
    on_device = IDKGroupDetector(10, random_state=0).fit(cupy.asarray(X), groups=cupy.asarray(ids))
    assert_array_equal(on_device.labels_, groups.labels_)
    assert_array_equal(on_device.scores_, groups.scores_)
    found = on_device.score_samples(cupy.asarray(X), groups=cupy.asarray(ids))
    assert isinstance(found, cupy.ndarray)
    assert_array_equal(cupy.asnumpy(found), groups.score_samples(X, groups=ids))
