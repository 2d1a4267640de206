"""Rows that do not fit into memory: the very numbers of rows that do."""

import errno
import io
import tempfile

import numpy as np
import pytest

from isobag import IDKGroupDetector, IDKPointDetector
from isobag.data import spool
from isobag.data.groups import Groups
from isobag.data.rows import ArrayRows
from isobag.data.spool import Spool, SpooledRows


@pytest.fixture(scope="module")
def X():
    """Several blocks of rows."""
    rng = np.random.default_rng(0)
    return np.column_stack([rng.normal(size=9_000), rng.integers(0, 50, 9_000), rng.exponential(size=9_000)])


def streamed(X, monkeypatch, sizes=(1, 7, 3_001, 99)):
    """The rows on disk, written in parts of odd sizes and read in blocks of 1,000 rows."""
    monkeypatch.setattr(spool, "BLOCK_BYTES", 8 * X.shape[1] * 1_000)
    kept, start, turn = Spool(X.shape[1], kept_bytes=0), 0, 0
    while start < len(X):
        kept.append(X[start : start + sizes[turn % len(sizes)]])
        start, turn = start + sizes[turn % len(sizes)], turn + 1
    assert not kept.is_in_memory
    return SpooledRows(kept, [f"x{j}" for j in range(X.shape[1])], lambda entries: entries)


@pytest.mark.parametrize("scaling", ["auto", "minmax", "standard", "robust", "asinh", "normal", None])
@pytest.mark.parametrize("max_samples", ["auto", 8])
def test_a_streamed_fit_is_that_of_the_array_bit_for_bit(X, monkeypatch, scaling, max_samples):
    rows = streamed(X, monkeypatch)
    options = {"n_estimators": 6, "max_samples": max_samples, "scaling": scaling, "random_state": 0}
    plain, detector = IDKPointDetector(**options), IDKPointDetector(**options)
    assert np.array_equal(detector.fit_scores(rows), plain.fit_scores(ArrayRows(X)))
    assert detector.offset_ == plain.offset_ and detector.n_features_in_ == plain.n_features_in_
    assert np.array_equal(detector.score_samples(rows), plain.score_samples(X))
    assert np.array_equal(detector.p_values(rows), plain.p_values(X))
    assert np.array_equal(detector.explain(rows), plain.explain(X))


def test_streamed_groups_are_those_of_the_array_bit_for_bit(X, monkeypatch):
    ids = np.arange(len(X)) % 90
    options = {"n_estimators": 5, "random_state": 0}
    plain = IDKGroupDetector(**options).fit(Groups(ArrayRows(X), ids, np.arange(90)))
    found = IDKGroupDetector(**options).fit(Groups(streamed(X, monkeypatch), ids, np.arange(90)))
    assert np.array_equal(found.scores_, plain.scores_) and found.offset_ == plain.offset_


def test_few_rows_stay_in_memory_and_many_do_not():
    numbers = Spool(2, kept_bytes=100)
    numbers.append(np.ones((3, 2)))
    assert numbers.is_in_memory
    numbers.append(np.full((4, 2), 2.0))
    numbers.append(np.full((1, 2), 3.0))
    assert not numbers.is_in_memory
    assert len(numbers) == 8
    assert numbers.read(2, 100)[:, 0].tolist() == [1, 2, 2, 2, 2, 3]
    assert numbers.take(np.array([0, 4, 7]))[:, 1].tolist() == [1, 2, 3]
    assert numbers.column(1).tolist() == [1, 1, 1, 2, 2, 2, 2, 3]


def test_how_much_stays_in_memory_is_asked_when_a_spool_is_made(monkeypatch):
    monkeypatch.setattr(spool, "KEPT_BYTES", 10)
    numbers = Spool(2)
    numbers.append(np.ones((3, 2)))
    assert not numbers.is_in_memory


def test_a_full_disk_is_named(monkeypatch):
    class Full(io.BytesIO):
        def write(self, content):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **options: Full())
    with pytest.raises(OSError, match="the disk is full; set TMPDIR"):
        Spool(2, kept_bytes=0).append(np.ones((3, 2)))


def test_a_temporary_file_that_ends_too_early_is_an_error():
    numbers = Spool(1, kept_bytes=0)
    numbers.append(np.ones((3, 1)))
    numbers._file.truncate(8)
    with pytest.raises(OSError, match="ends too early"):
        numbers.read(0, 3)


def test_rows_to_learn_from_stay_in_memory_longer_while_they_make_one_block(monkeypatch):
    monkeypatch.setattr(spool, "BLOCK_ROWS", 10)
    for n_columns, is_learned, n_kept in ((2, False, 6), (2, True, 10), (4, True, 6), (1, True, 12)):
        numbers, X = Spool(n_columns, kept_bytes=100, is_learned=is_learned), np.arange(20.0 * n_columns)
        stayed = []
        for row in X.reshape(20, n_columns):
            numbers.append(row[None])
            stayed.append(numbers.is_in_memory)
        assert stayed == [True] * n_kept + [False] * (20 - n_kept)
        assert np.array_equal(numbers.read(0, 20).ravel(), X)
