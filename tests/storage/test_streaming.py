"""Rows that do not fit into memory: the very numbers of rows that do."""

import errno
import io
import tempfile

import narwhals as nw
import numpy as np
import pandas as pd
import pytest

from isobag import IDKPointDetector, streaming
from isobag.estimators.checked import fit_to_rows, p_values_of_rows, score_rows
from isobag.data.rows import BLOCK_ROWS
from isobag.streaming import SpooledNumbers, StreamedRows, read_batches
from isobag.tables.encoding import open_frame
from isobag.tables.points import find_points
from isobag.tables.table import read_frame

pa = pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def big():
    """More than two blocks of rows, with gaps and texts."""
    rng = np.random.default_rng(0)
    n = 2 * BLOCK_ROWS + 12_345
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.integers(0, 50, n), "c": rng.exponential(size=n)})
    frame["kind"] = rng.choice(["x", "y", "z"], n, p=[0.9, 0.09, 0.01])
    return frame


def in_odd_batches(frame, sizes=(1, 7, 30_001, 65_536, 99)):
    def batches(columns):
        start, turn = 0, 0
        while start < len(frame):
            stop = start + sizes[turn % len(sizes)]
            yield pa.Table.from_pandas(frame.iloc[start:stop][columns], preserve_index=False)
            start, turn = stop, turn + 1

    return batches


def streamed(frame, **options):
    schema = dict(nw.from_native(pa.Table.from_pandas(frame, preserve_index=False), eager_only=True).schema)
    return read_batches(in_odd_batches(frame), schema, kept_bytes=0, **options)


@pytest.mark.parametrize("max_samples", ["auto", 8])
def test_a_streamed_fit_is_that_of_the_array_bit_for_bit(big, max_samples):
    table = streamed(big[["a", "b", "c"]])
    assert isinstance(table.rows, StreamedRows)
    X = big[["a", "b", "c"]]
    options = {"n_estimators": 6, "max_samples": max_samples, "random_state": 0}
    plain = IDKPointDetector(**options).fit(X)
    detector = IDKPointDetector(**options)
    scores = fit_to_rows(detector, table.rows, table.encoding.names)
    assert np.array_equal(scores, plain.score_samples(X))
    assert detector.offset_ == plain.offset_
    assert np.array_equal(detector.feature_names_in_, plain.feature_names_in_)
    assert detector.n_features_in_ == plain.n_features_in_
    assert np.array_equal(score_rows(detector, table.rows), scores)
    assert np.array_equal(p_values_of_rows(detector, table.rows), plain.p_values(X))
    assert np.array_equal(detector.score_samples(X[:50]), plain.score_samples(X[:50]))


@pytest.mark.parametrize("scaling", ["standard", "robust", None])
def test_every_scaling_is_learned_alike(big, scaling):
    X = big[["a", "c"]]
    options = {"n_estimators": 3, "max_samples": 4, "scaling": scaling, "random_state": 0, "calibrate": False}
    table = streamed(X)
    scores = fit_to_rows(IDKPointDetector(**options), table.rows, ["a", "c"])
    assert np.array_equal(scores, IDKPointDetector(**options).fit(X).score_samples(X))


@pytest.mark.parametrize("missing", ["drop", "median"])
def test_gaps_and_texts_are_treated_as_in_memory(big, missing):
    frame = big.copy()
    frame.loc[::1001, "a"] = np.nan
    frame.loc[5::2003, "kind"] = None
    options = {"features": ["a", "b", "kind"], "missing": missing}
    found, expected = (
        find_points(table, IDKPointDetector(3, 8, random_state=0, calibrate=False), True, most_reasons=20)
        for table in (streamed(frame, **options), read_frame(open_frame(frame), **options))
    )
    for start in (0, 1000, len(frame) - 200):
        ours, theirs = (result.columns(start, start + 150) for result in (found, expected))
        assert ours.keys() == theirs.keys()
        for name in ours:
            assert np.array_equal(
                np.asarray(ours[name]), np.asarray(theirs[name]), equal_nan=name in ("score", "p_value")
            )


def test_a_bad_number_is_named_with_its_row_in_the_file(big):
    frame = big[["a", "c"]].copy()
    frame.loc[70_000, "c"] = np.inf
    with pytest.raises(ValueError, match=r"infinity: inf in row 70000, column 'c'"):
        streamed(frame)


def test_gaps_are_counted_over_all_batches(big):
    frame = big[["a", "c"]].copy()
    frame.loc[::40_000, "a"] = np.nan
    with pytest.raises(ValueError, match=r"missing in 'a' \(4\) of 143,417 rows"):
        streamed(frame)


def test_few_rows_stay_in_memory_and_many_do_not():
    numbers = SpooledNumbers(2, kept_bytes=100)
    numbers.append(np.ones((3, 2)))
    assert numbers.is_in_memory
    numbers.append(np.full((4, 2), 2.0))
    numbers.append(np.full((1, 2), 3.0))
    assert not numbers.is_in_memory
    assert len(numbers) == 8
    assert numbers.read(2, 100)[:, 0].tolist() == [1, 2, 2, 2, 2, 3]
    assert numbers.take(np.array([0, 4, 7]))[:, 1].tolist() == [1, 2, 3]
    assert numbers.column(1).tolist() == [1, 1, 1, 2, 2, 2, 2, 3]


def test_a_full_disk_is_named(monkeypatch):
    class Full(io.BytesIO):
        def write(self, content):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **options: Full())
    with pytest.raises(OSError, match="the disk is full; set TMPDIR"):
        streaming.SpooledNumbers(2, kept_bytes=0).append(np.ones((3, 2)))
