"""Rows that do not fit into memory: the very numbers of rows that do."""

import errno
import io
import tempfile

import numpy as np
import pytest

from isobag import IDKGroupDetector, IDKPointDetector
from isobag.data.groups import Groups
from isobag.data.rows import ArrayRows
from isobag.data.scaling import SCALINGS
from isobag.data.spool import Spool, SpooledRows


@pytest.fixture(scope="module")
def X():
    """Several blocks of rows."""
    rng = np.random.default_rng(0)
    return np.column_stack([rng.normal(size=9_000), rng.integers(0, 50, 9_000), rng.exponential(size=9_000)])


def streamed(X, sizes=(1, 7, 3_001, 99)):
    """The rows on disk, written in parts of odd sizes and read in blocks of 1,000 rows."""
    written, start, turn = Spool(X.shape[1], kept_bytes=0), 0, 0
    while start < len(X):
        written.append(X[start : start + sizes[turn % len(sizes)]])
        start, turn = start + sizes[turn % len(sizes)], turn + 1
    assert not written.is_in_memory
    return SpooledRows(written, [f"x{j}" for j in range(X.shape[1])], lambda numbers: numbers, block_rows=1_000)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_a_spooled_fit_is_that_of_the_array_bit_for_bit(X, scaling):
    rows = streamed(X)
    for how in ({"max_samples": 8, "scaling": scaling}, {"scaling": "auto", "max_rows": 5_000}):
        plain, detector = (IDKPointDetector(6, random_state=0, **how).fit(data) for data in (ArrayRows(X), rows))
        assert detector.offset_ == plain.offset_ and detector.n_features_in_ == plain.n_features_in_
        for method in ("score_samples", "p_values"):
            assert np.array_equal(getattr(detector, method)(rows), getattr(plain, method)(X))
    assert np.array_equal(detector.explain(rows)[:99], plain.explain(X)[:99])


def test_spooled_groups_are_those_of_the_array_bit_for_bit(X, monkeypatch):
    monkeypatch.setattr("isobag.data.spool.KEPT_BYTES", 1 << 15)  # sorted by group in several files
    ids = np.arange(len(X)) % 90
    plain, actual = (
        IDKGroupDetector(5, random_state=0).fit(Groups(rows, ids, np.arange(90)))
        for rows in (ArrayRows(X), streamed(X))
    )
    assert np.array_equal(actual.scores_, plain.scores_) and actual.offset_ == plain.offset_


def test_few_rows_stay_in_memory_and_many_do_not():
    numbers = Spool(2, kept_bytes=100)
    numbers.append(np.ones((3, 2)))
    assert numbers.is_in_memory
    numbers.append(np.full((4, 2), 2.0))
    numbers.append(np.full((1, 2), 3.0))
    assert not numbers.is_in_memory
    assert len(numbers) == 8
    assert numbers.numbers[2:, 0].tolist() == [1, 2, 2, 2, 2, 3]
    assert numbers.numbers[[0, 4, 7], 1].tolist() == [1, 2, 3]


def test_a_full_disk_is_named(monkeypatch):
    class Full(io.BytesIO):
        def write(self, content):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **options: Full())
    with pytest.raises(OSError, match="TMPDIR"):
        Spool(2, kept_bytes=0).append(np.ones((3, 2)))
