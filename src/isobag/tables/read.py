"""A table, read: from files or frames to features, every cell by the same rule, in memory or larger than it.

The table is read once if its columns stay what they first seemed to be, else twice. Entries go to a spool as float64;
features are made of them chunk by chunk. A table in memory and one on disk differ in the spool alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.data.rows import ArrayRows, Rows
from isobag.data.spool import Spool, SpooledRows, Tick
from isobag.tables.batch import Batch, names_of_files
from isobag.tables.cells import NO_VALUE
from isobag.tables.choose import (
    Wishes,
    check_against,
    check_missing,
    check_names,
    kinds_of,
    learn_encoding,
    n_missing_of,
)
from isobag.tables.declared import TEXT
from isobag.tables.encode import BAD_CELLS, MISSING, BoundEncoding, Encoding
from isobag.tables.scan import ColumnScan, entry_kind
from isobag.tables.summary import FEATURE, GROUP, ID, LEFT_OUT, ColumnSummary, Spelling, TableSummary, in_python

BLOCK_ROWS = 1 << 16
_CHOICES = {"missing": MISSING, "bad_cells": BAD_CELLS, "decimal": (".", ",")}
_PLAIN_DECIMAL = r"^-?(0|[1-9][0-9]{0,7})(\.[0-9]{1,7})?$"
"""No leading zeros, which may mean something, and no more digits than float64 keeps."""


class TableSource(Protocol):
    """Where a table comes from, to be read as often as needed."""

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files, if it comes from any."""
        ...

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the columns; None where every row names its own."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say about the input."""
        ...

    @property
    def n_empty_lines(self) -> int:
        """Empty lines that were skipped in the last pass."""
        ...

    def batches(self) -> Iterator[Batch]:
        """The rows in order."""
        ...

    def expected_rows(self, n_read: int) -> int | None:
        """About how many rows there will be in all, when so many are read; None if there is no telling."""
        ...


@dataclass(frozen=True)
class ReadTable:
    """A table, read.

    encoding : how its columns become features; for the model file.
    summary : every column accounted for.
    n_rows : rows of the table.
    kept : (n,), which rows take part; None if all do.
    gaps : (n,), missing values of each row in the columns used; None if there are none.
    labels : the columns set apart, as Arrow arrays (n,), null where no value stands.
    carried : the columns to be carried along, likewise.
    rows : features of the rows that take part.
    """

    encoding: Encoding
    summary: TableSummary
    n_rows: int
    kept: Bools | None
    gaps: Ints | None
    labels: dict[str, Any]
    carried: dict[str, Any]
    rows: Rows


def _rows(spool: Spool, used: Ints, bound: BoundEncoding) -> Rows:
    names = bound.encoding.names

    def make(entries: Floats) -> Floats:
        is_all = len(used) == entries.shape[1]
        return bound.apply(entries if is_all else np.ascontiguousarray(entries[:, used]))

    if spool.is_in_memory:
        return ArrayRows(make(spool.read(0, len(spool))), names)
    return SpooledRows(spool, names, make)


def read_table(
    source: TableSource,
    *,
    features: Sequence[str] | str | None = None,
    id: str | None = None,
    by: Sequence[str] | str | None = None,
    missing: str = "error",
    bad_cells: str = "error",
    decimal: str = ".",
    encoding: Encoding | None = None,
    carry: Sequence[str] | None = (),
    only_rows: Ints | None = None,
    spool: Callable[[int], Spool] = Spool,
    spelling: Spelling = in_python,
    tick: Tick | None = None,
) -> ReadTable:
    """Read a table to its features.

    source : files (``FilesSource``) or a frame (``FrameSource``).
    features : columns to use; by default all of numbers and of true and false, but for identifiers.
    id, by : columns that name rows, or groups of rows; they are no features.
    missing : missing values are an "error", their rows are "drop"ped, or the "median" stands for them.
    bad_cells : cells that are no numbers among numbers are an "error", "missing", or make the column one of "text".
    decimal : the decimal sign, "." or ",".
    encoding : what a model learned; then it says which columns are used and how. Its ways to deal with missing values
        and bad cells hold unless others than "error" are given.
    carry : columns to keep beside the labels as they are, features or not; None for all.
    only_rows : numbers of rows, ascending; all others are passed over, whatever stands in them.
    spool : made with the number of columns to keep entries in.
    """
    check_options(spelling, missing=missing, bad_cells=bad_cells, decimal=decimal)
    if encoding is not None:
        missing = encoding.missing if missing == "error" else missing
        bad_cells = encoding.bad_cells if bad_cells == "error" else bad_cells
        decimal = encoding.decimal
        features = [column.name for column in encoding.columns]
    apart = set_apart(by, id)
    chosen = None if features is None else ((features,) if isinstance(features, str) else tuple(features))
    wishes = Wishes(chosen, apart, missing, bad_cells, spelling)
    found = _scan_twice(_Pass(source, wishes, decimal, encoding, carry, only_rows, spool, tick))
    if only_rows is not None and found.n_rows < len(only_rows):
        raise ValueError(f"There is no row {only_rows[-1]:,}: the table ends before it.")
    if not found.n_rows:
        raise ValueError(f"{names_of_files(source.files) or 'The table'} has no rows.")
    if encoding is None:
        encoding, summaries = learn_encoding(found.scans, wishes, decimal, found.median_of)
        used_scans = [found.scans[column.name] for column in encoding.columns]
    else:
        for column in encoding.columns:
            check_against(column, found.scans[column.name], wishes)
        summaries = [_summary_by(encoding, scan, wishes) for scan in found.scans.values()]
        used_scans = [found.scans[column.name] for column in encoding.columns]
        check_missing(used_scans, wishes)
        if missing == "median":
            _check_fills(encoding, used_scans, wishes)
    used = np.array([found.spooled.index(scan.name) for scan in used_scans], dtype=np.int64)
    bound = encoding.bind([scan.codes for scan in used_scans])
    kept, gaps, entries = _drop_rows(found.spool, used, used_scans, wishes, spool)
    n_empty = source.n_empty_lines
    notes = (*source.notes, *((f"{n_empty:,} empty lines are skipped.",) if n_empty else ()))
    n_dropped = 0 if kept is None else int(np.count_nonzero(~kept))
    summary = TableSummary(source.files, found.n_rows, n_dropped, tuple(summaries), notes)
    rows = _rows(entries, used, bound)
    labels = {name: found.labels[name] for name in apart}
    carried = {name: _as_numbers(own) for name, own in found.labels.items() if carry is None or name in carry}
    return ReadTable(encoding, summary, found.n_rows, kept, gaps, labels, carried, rows)


def check_options(spelling: Spelling, **options: str) -> None:
    """Refuse ways to read a table that there are not."""
    for option, value in options.items():
        known = _CHOICES[option]
        if value not in known:
            raise ValueError(f"{spelling(option, str(value))}; choose one of {', '.join(map(repr, known))}.")


def set_apart(by: Sequence[str] | str | None, id: str | None) -> dict[str, str]:
    """Columns that are no features, with their role."""
    return {name: GROUP for name in ([by] if isinstance(by, str) else by or ())} | ({} if id is None else {id: ID})


def read_labels(source: TableSource, names: Sequence[str], as_numbers: bool = True) -> dict[str, Any]:
    """Some columns as they are, as Arrow arrays (n,), whatever stands in the others.

    as_numbers : whether texts that are all whole numbers become such numbers.
    """
    parts: dict[str, list[Any]] = {name: [] for name in names}
    for batch in source.batches():
        for name in names:
            if name not in (batch.columns if source.names is None else source.names):
                known = ", ".join(map(repr, source.names or batch.columns))
                raise ValueError(f"The table has no column {name!r} (columns: {known}).")
            parts[name].append(_label_part(batch, name))
    if not as_numbers:
        return {name: pa.chunked_array(own).combine_chunks() for name, own in parts.items()}
    return {name: _joined(own) for name, own in parts.items()}


def label_rows(columns: Sequence[Any]) -> npt.NDArray[Any]:
    """One label for each row, a tuple if several columns make one; None where a part of it is missing: (n,)."""
    parts = [column.to_pylist() for column in columns]
    labels = np.empty(len(parts[0]), dtype=object)
    if len(parts) == 1:
        labels[:] = [None if _is_gap(one) else one for one in parts[0]]
    else:
        labels[:] = [None if any(map(_is_gap, row)) else row for row in zip(*parts, strict=True)]
    return labels


def _is_gap(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, float) and isnan(value))


class _Scanned(NamedTuple):
    scans: dict[str, ColumnScan]
    spooled: list[str]
    spool: Spool
    labels: dict[str, Any]
    n_rows: int
    is_complete: bool

    def median_of(self, name: str) -> float:
        """The median of the entries of a column."""
        entries = self.spool.column(self.spooled.index(name))
        return float(np.median(entries[~np.isnan(entries)]))


class _Pass(NamedTuple):
    """What a pass over the rows needs to know."""

    source: TableSource
    wishes: Wishes
    decimal: str
    encoding: Encoding | None
    carry: Sequence[str] | None
    only_rows: Ints | None
    spool: Callable[[int], Spool]
    tick: Tick | None

    def run(self, kinds: dict[str, str | None] | None) -> _Scanned:
        """Read all rows; ``kinds``: how each column is kept, if known from an earlier pass."""
        wishes = self.wishes
        names = list(kinds) if kinds is not None else None if self.source.names is None else list(self.source.names)
        scans: dict[str, ColumnScan] = {}
        spooled: list[str] = []
        spool = None
        labels: dict[str, list[Any]] = {name: [] for name in wishes.apart}
        n_rows, is_complete = 0, True
        if names is not None:
            check_names([*names], wishes, self.carry or ())
        for batch in self._batches():
            for name in names if names is not None and not scans else batch.columns:
                if name not in scans:
                    scans[name] = self._new_scan(name, kinds)
                    scans[name].skip(n_rows)
                    is_complete = is_complete and spool is None
            if spool is None:
                wanted = scans if wishes.features is None else wishes.features
                spooled = [name for name in wanted if name in scans and name not in wishes.apart]
                spool = self.spool(len(spooled))
            entries = {name: scan.read(batch) for name, scan in scans.items()}
            if is_complete:
                empty = np.empty((batch.n_rows, 0))
                spool.append(np.stack([entries[name] for name in spooled], axis=1) if spooled else empty)
            for name in dict.fromkeys([*wishes.apart, *(scans if self.carry is None else self.carry)]):
                parts = labels.setdefault(name, [pa.nulls(n_rows, pa.string())] if n_rows else [])
                parts.append(_label_part(batch, name))
            n_rows += batch.n_rows
            if self.tick is not None:
                self.tick("reading", n_rows, self.source.expected_rows(n_rows))
        if names is None or not scans:
            for name in names or ():
                scans[name] = self._new_scan(name, kinds)
            check_names(list(scans), wishes, self.carry or ())
        found = {name: _joined(parts) for name, parts in labels.items()}
        is_complete = is_complete and (wishes.features is None or set(wishes.features) <= set(spooled) or not n_rows)
        return _Scanned(scans, spooled, self.spool(0) if spool is None else spool, found, n_rows, is_complete)

    def _batches(self) -> Iterator[Batch]:
        if self.only_rows is None:
            yield from self.source.batches()
            return
        start = 0
        for batch in self.source.batches():
            inside = self.only_rows[(self.only_rows >= start) & (self.only_rows < start + batch.n_rows)] - start
            yield from (batch.only(int(i)) for i in inside)
            start += batch.n_rows

    def _new_scan(self, name: str, kinds: dict[str, str | None] | None) -> ColumnScan:
        for column in () if self.encoding is None else self.encoding.columns:
            if column.name == name:
                categories = column.categories if column.kind == TEXT else None
                return ColumnScan(name, entry_kind(column.kind), categories, self.decimal, learns=False)
        return ColumnScan(name, None if kinds is None else kinds[name], decimal=self.decimal)


def _scan_twice(reading: _Pass) -> _Scanned:
    """One pass, and one more with all types known if some column was not what it first seemed to be."""
    found = reading.run(None)
    kinds = kinds_of(found.scans, reading.wishes)
    is_right = all(found.scans[name].is_kept_as(kinds[name]) for name in found.spooled)
    return found if found.is_complete and (is_right or reading.encoding is not None) else reading.run(kinds)


def _check_fills(encoding: Encoding, scans: Sequence[ColumnScan], wishes: Wishes) -> None:
    for column, scan in zip(encoding.columns, scans, strict=True):
        if np.isnan(column.fill) and n_missing_of(scan, wishes):
            option = wishes.spelling("missing", "median")
            raise ValueError(
                f"{scan.shown_name}: the model was fitted without {option}, so it has no median to put in."
            )


def _summary_by(encoding: Encoding, scan: ColumnScan, wishes: Wishes) -> ColumnSummary:
    used = {column.name: column.kind for column in encoding.columns}
    role = FEATURE if scan.name in used else wishes.apart.get(scan.name, LEFT_OUT)
    reason = dict(encoding.left_out).get(scan.name, "not known to the model") if role == LEFT_OUT else ""
    kind = used.get(scan.name, scan.kind)
    return ColumnSummary(scan.name, role, kind, scan.n_numbers, scan.n_times, scan.n_texts, scan.n_missing, reason)


def _drop_rows(
    spool: Spool, used: Ints, scans: Sequence[ColumnScan], wishes: Wishes, new_spool: Callable[[int], Spool]
) -> tuple[Bools | None, Ints | None, Spool]:
    """Which rows take part, how many values each lacks, and the entries of those that do."""
    if not any(n_missing_of(scan, wishes) for scan in scans):
        return None, None, spool
    starts = range(0, len(spool), BLOCK_ROWS)
    gaps = np.concatenate([np.isnan(spool.read(start, BLOCK_ROWS)[:, used]).sum(axis=1) for start in starts])
    if wishes.missing != "drop":
        return None, gaps, spool
    kept = gaps == 0
    rest = new_spool(spool.read(0, 1).shape[1])
    for start in starts:
        rest.append(spool.read(start, BLOCK_ROWS)[kept[start : start + BLOCK_ROWS]])
    return kept, gaps, rest


def _label_part(batch: Batch, name: str) -> Any:
    column = batch.columns.get(name)
    if column is None:
        return pa.nulls(batch.n_rows, pa.string())
    if batch.is_typed and name not in batch.free:
        return column
    is_gap = pc.is_in(column, value_set=pa.array(NO_VALUE))
    return pc.replace_with_mask(column, is_gap, pa.scalar(None, column.type))


def _as_numbers(column: Any) -> Any:
    """A column of text as float64 if every cell is a plain decimal number that says no more than its value."""
    if not pa.types.is_string(column.type) or column.null_count == len(column):
        return column
    are_plain = pc.all(pc.match_substring_regex(column, _PLAIN_DECIMAL)).as_py()
    return pc.cast(column, pa.float64()) if are_plain else column


def _joined(parts: Sequence[Any]) -> Any:
    """Labels in one piece; texts that are all whole numbers, written as Python would, as such numbers."""
    if not parts:
        return pa.nulls(0, pa.string())
    whole = pa.chunked_array(parts).combine_chunks()
    if not pa.types.is_string(whole.type):
        return whole
    try:
        numbers = pc.cast(whole, pa.int64())
    except pa.ArrowInvalid:
        return whole
    return numbers if numbers.null_count < len(numbers) and numbers.cast(pa.string()).equals(whole) else whole
