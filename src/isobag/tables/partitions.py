"""Tables that stay in their partitions: what ``read_table`` learns, learned where the rows are, and applied there.

Every partition is scanned by itself, and what is known of neighbours merges: the encoding is that of the whole table,
however it is cut. An error says where the cell stands: row 17 of partition 3.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import add
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.data.partitions import Frames, Labels, Partitions
from isobag.tables.choose import Wishes, check_names, kinds_of, learn_encoding, n_missing_of
from isobag.tables.declared import NUMBER, TIME
from isobag.tables.encode import Encoding
from isobag.tables.framesource import FrameSource
from isobag.tables.read import check_options, label_rows, read_labels, read_table, set_apart
from isobag.tables.scan import ColumnScan
from isobag.tables.selection import SHIFTS, Bracket, KeyCounts
from isobag.tables.summary import GROUP, UNKNOWN, Spelling, TableSummary, in_python

BLOCK_ROWS = 1 << 18
"""Most rows of a frame that are turned into features at once."""


class Block(NamedTuple):
    """Some rows of a partition, one after another.

    X : (m, d), features of the rows that take part.
    kept : (n,), which of the rows take part; None if all do.
    gaps : (n,), missing values of each row in the columns used; None if there are none.
    labels : the columns set apart, as Arrow arrays (n,), null where no value stands.
    first_row : number of the first of these rows in the partition.
    n_rows : n.
    """

    X: Floats
    kept: Bools | None
    gaps: Ints | None
    labels: dict[str, Any]
    first_row: int
    n_rows: int


@dataclass(frozen=True)
class PartitionReader:
    """How the rows of a partition become features; may be sent to where the partition is.

    by : columns that make the label of a row's group.
    id : a column that names rows.
    free : columns of mixed objects, each cell of which is text to be understood.
    spelling : how errors write options.
    """

    encoding: Encoding
    by: tuple[str, ...] = ()
    id: str | None = None
    free: frozenset[str] = frozenset()
    spelling: Spelling = in_python

    @property
    def apart(self) -> tuple[str, ...]:
        """Columns that are no features, but labels."""
        return self.by if self.id is None else (*self.by, self.id)

    def blocks(self, number: int, frames: Frames) -> Iterator[Block]:
        """All rows of a partition in order."""
        names = [column.name for column in self.encoding.columns]
        for first_row, frame in cut_frames(number, frames, [*names, *self.apart]):
            source = FrameSource(frame.select(_own(frame, names)), _called(number), first_row, self.free)
            table = read_table(source, encoding=self.encoding, spelling=self.spelling)
            labels = {}
            if self.apart:
                source = FrameSource(frame.select(_own(frame, self.apart)), _called(number), first_row, self.free)
                labels = read_labels(source, self.apart, as_numbers=False)
            X = table.rows.take(np.arange(len(table.rows))) if table.rows.whole is None else table.rows.whole
            yield Block(X, table.kept, table.gaps, labels, first_row, table.n_rows)

    def __call__(self, number: int, frames: Frames) -> Iterator[tuple[Floats, Labels | None]]:
        """The rows of a partition that take part, in order: features (m, d) and, if there are groups, labels (m,)."""
        for block in self.blocks(number, frames):
            if not self.by:
                yield block.X, None
                continue
            labels, takes_part = self.group_labels(number, block)
            own = takes_part if block.kept is None else takes_part[block.kept]
            yield block.X if own.all() else block.X[own], labels[takes_part]

    def group_labels(self, number: int, block: Block) -> tuple[Labels, Bools]:
        """The label of each row's group, None where there is none, and which rows take part: (n,), (n,)."""
        labels = label_rows([block.labels[name] for name in self.by])
        is_labelled = np.array([label is not None for label in labels.tolist()], dtype=bool)
        if not is_labelled.all() and self.encoding.missing != "drop":
            row = block.first_row + int(np.argmin(is_labelled))
            raise ValueError(
                f"{', '.join(self.by)}: row {row:,} of {_called(number)} has no label; pass "
                f"{self.spelling('missing', 'drop')} to leave such rows out."
            )
        return labels, is_labelled if block.kept is None else is_labelled & block.kept


@dataclass(frozen=True)
class LearnedTable:
    """What is learned of a table in partitions before any of its rows is measured.

    sizes : (p,), rows of each partition; ``kept_sizes`` (p,), those of them that take part.
    has_gaps : whether a value is missing in a column that is used.
    """

    reader: PartitionReader
    summary: TableSummary
    sizes: Ints
    kept_sizes: Ints
    has_gaps: bool


def learn_table(
    partitions: Partitions,
    *,
    features: Sequence[str] | str | None = None,
    id: str | None = None,
    by: Sequence[str] | str | None = None,
    missing: str = "error",
    bad_cells: str = "error",
    spelling: Spelling = in_python,
) -> LearnedTable:
    """Learn how the columns become features, exactly as ``read_table`` does of the same rows in memory."""
    check_options(spelling, missing=missing, bad_cells=bad_cells)
    apart = set_apart(by, id)
    chosen = None if features is None else ((features,) if isinstance(features, str) else tuple(features))
    wishes = Wishes(chosen, apart, missing, bad_cells, spelling)
    check_names([*partitions.columns], wishes)
    scan = _Scan(tuple(partitions.columns), wishes)
    seen = partitions.run(scan, _merge)
    free = frozenset(name for name, own in seen.scans.items() if own.is_partly_free)
    if free:
        scan = replace(scan, free=free)
        seen = partitions.run(scan, _merge)
    kinds = kinds_of(seen.scans, wishes)
    if not all(own.is_kept_as(kinds[name]) for name, own in seen.scans.items()):
        scan = replace(scan, kinds=kinds)
        seen = partitions.run(scan, _merge)
    sizes = np.array(seen.sizes, dtype=np.int64)
    if not sizes.sum():
        raise ValueError("The table has no rows.")
    free = scan.free | {name for name, own in seen.scans.items() if own.is_free}
    medians = _Medians(partitions, replace(scan, kinds=kinds), kinds)
    encoding, summaries = learn_encoding(seen.scans, wishes, ".", medians)
    by = tuple(name for name, role in apart.items() if role == GROUP)
    reader = PartitionReader(encoding, by, id, frozenset(free), spelling)
    kept_sizes = sizes
    has_gaps = any(n_missing_of(seen.scans[column.name], wishes) for column in encoding.columns)
    if missing == "drop" and has_gaps:
        kept_sizes = np.array(partitions.run(_CountKept(reader), add), dtype=np.int64)
    scanned = set(scan.scanned)
    columns = tuple(one if one.name in scanned else replace(one, kind=UNKNOWN) for one in summaries)
    summary = TableSummary((), int(sizes.sum()), int(sizes.sum() - kept_sizes.sum()), columns)
    return LearnedTable(reader, summary, sizes, kept_sizes, has_gaps)


def find_free(partitions: Partitions, names: Sequence[str]) -> frozenset[str]:
    """Which of some columns hold mixed objects in any partition, so that their cells are text to be understood."""
    seen = partitions.run(_Scan(tuple(names), Wishes(tuple(names), {}, "error", "error", in_python)), _merge)
    return frozenset(name for name, own in seen.scans.items() if own.is_free)


def count_all_rows(partitions: Partitions) -> Ints:
    """Rows of each partition: (p,)."""
    return np.array(partitions.run(_count_frames, add), dtype=np.int64)


def cut_frames(number: int, frames: Frames, names: Sequence[str]) -> Iterator[tuple[int, nw.DataFrame[Any]]]:
    """The frames of a partition in pieces of at most BLOCK_ROWS rows, each with the number of its first row."""
    first_row = 0
    for given in frames:
        frame: nw.DataFrame[Any] = nw.from_native(given, eager_only=True)
        lacking = [name for name in names if name not in map(str, frame.columns)]
        if lacking:
            known = ", ".join(repr(str(name)) for name in frame.columns) or "none"
            raise ValueError(f"{_called(number)} has no column {lacking[0]!r} (columns: {known}).")
        for start in range(0, len(frame), BLOCK_ROWS):
            yield first_row + start, frame[start : start + BLOCK_ROWS]
        first_row += len(frame)


def _count_frames(number: int, frames: Frames) -> list[int]:
    return [sum(len(nw.from_native(frame, eager_only=True)) for frame in frames)]


class _Seen(NamedTuple):
    """What is known of partitions that follow one another."""

    scans: dict[str, ColumnScan]
    sizes: list[int]


def _merge(first: _Seen, later: _Seen) -> _Seen:
    scans = {name: own.merge(later.scans[name]) for name, own in first.scans.items()}
    return _Seen(scans, first.sizes + later.sizes)


@dataclass(frozen=True)
class _Scan:
    """Scans a partition: the columns that may become features."""

    names: tuple[str, ...]
    wishes: Wishes
    kinds: Mapping[str, str | None] | None = None
    free: frozenset[str] = frozenset()

    @property
    def scanned(self) -> list[str]:
        """Names of the columns to look at."""
        wanted = self.names if self.wishes.features is None else self.wishes.features
        return [name for name in wanted if name not in self.wishes.apart]

    def __call__(self, number: int, frames: Frames) -> _Seen:
        scans = self.new_scans()
        n_rows = 0
        for batch_rows in self.entries(number, frames, {name: scans[name] for name in self.scanned}):
            n_rows += batch_rows[0]
        return _Seen(scans, [n_rows])

    def new_scans(self) -> dict[str, ColumnScan]:
        """Of every column, those that are not looked at too."""
        return {name: ColumnScan(name, None if self.kinds is None else self.kinds[name]) for name in self.names}

    def entries(
        self, number: int, frames: Frames, scans: Mapping[str, ColumnScan]
    ) -> Iterator[tuple[int, dict[str, Floats]]]:
        """Entries of some columns, a batch at a time, with the number of its rows."""
        for first_row, frame in cut_frames(number, frames, self.names):
            source = FrameSource(frame.select(_own(frame, list(scans))), _called(number), first_row, self.free)
            for batch in source.batches():
                yield batch.n_rows, {name: scan.read(batch) for name, scan in scans.items()}


class _Medians:
    """Medians of columns, found when first asked for: of all columns of numbers and times at once."""

    def __init__(self, partitions: Partitions, scan: _Scan, kinds: Mapping[str, str | None]) -> None:
        self._partitions, self._scan = partitions, scan
        self._names = [name for name in scan.scanned if kinds[name] in (NUMBER, TIME)]
        self._found: dict[str, float] = {}

    def __call__(self, name: str) -> float:
        if not self._found:
            brackets = {name: Bracket() for name in self._names}
            for _ in SHIFTS:
                counted = self._partitions.run(_CountKeys(self._scan, brackets), _merge_counts)
                brackets = {name: own.narrow(counted[name]) for name, own in brackets.items()}
            self._found = {name: own.median for name, own in brackets.items()}
        return self._found[name]


@dataclass(frozen=True)
class _CountKeys:
    scan: _Scan
    brackets: Mapping[str, Bracket]

    def __call__(self, number: int, frames: Frames) -> dict[str, KeyCounts]:
        new_scans = self.scan.new_scans()
        scans = {name: new_scans[name] for name in self.brackets}
        counted = {name: own.count_keys(np.empty(0)) for name, own in self.brackets.items()}
        for _, entries in self.scan.entries(number, frames, scans):
            counted = {name: own.merge(self.brackets[name].count_keys(entries[name])) for name, own in counted.items()}
        return counted


def _merge_counts(first: dict[str, KeyCounts], later: dict[str, KeyCounts]) -> dict[str, KeyCounts]:
    return {name: own.merge(later[name]) for name, own in first.items()}


@dataclass(frozen=True)
class _CountKept:
    reader: PartitionReader

    def __call__(self, number: int, frames: Frames) -> list[int]:
        return [sum(len(block.X) for block in self.reader.blocks(number, frames))]


def _own(frame: nw.DataFrame[Any], names: Sequence[str]) -> list[Any]:
    """The names of a frame that are written so: they need not be texts."""
    by_text = {str(name): name for name in frame.columns}
    return [by_text[name] for name in names]


def _called(number: int) -> str:
    return f"partition {number}"
