"""Frames of Dask and Spark: facts of all rows, a sample to learn from, and groups counted where their rows lie.

Groups may have rows in any number of partitions. A few thousand, drawn by a hash of their labels, are learned from.
"""

import warnings
from collections.abc import Container, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar
from zlib import crc32

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn.utils import check_random_state

from isobag.backends.arrays import Bools, Ints
from isobag.data.params import MIN_SIZE, check_params
from isobag.data.rows import MOST_LEARNED, ArrayRows, Rows, sample_of
from isobag.data.spool import Spool
from isobag.engines import Frames, Partitions, merged
from isobag.models.calibration import draw_folds
from isobag.models.counted import GroupCounts, Piece, merge_group_counts
from isobag.models.group import CALIBRATION_GROUPS, LEARNED_GROUPS, draw_level1
from isobag.models.neighbours import MOST_REFERENCES
from isobag.tables.choose import check_names, follow_encoding
from isobag.tables.encode import Encoding
from isobag.tables.framesource import FrameSource
from isobag.tables.labels import first_rows_of, number_rows
from isobag.tables.learn import Table, learn_table
from isobag.tables.passes import scan_of
from isobag.tables.reading import ReadOptions
from isobag.tables.scan import ColumnScan
from isobag.tables.summary import ColumnSummary, TableSummary

T = TypeVar("T")
Scans = dict[str, ColumnScan]
FACT_TEXTS = 1 << 12
"""Different texts of a column that are told apart in all rows; where there are more, those of the sample count."""
PIECE_ROWS = 1 << 17
"""Rows of a partition that are turned into features at once."""
_ROW_BITS = 40
_OF_TEXT = ("decimal", "thousands", "numbers", "dates")


class PartitionMark(NamedTuple):
    """A partition: its number of rows, and a checksum of the first and the last."""

    n_rows: int
    checksum: int


class Facts(NamedTuple):
    """What is known of all rows of some partitions."""

    scans: Scans
    parts: dict[int, PartitionMark]

    def merge(self, other: "Facts") -> "Facts":
        """Of these partitions and others."""
        scans = {name: scan.merge(other.scans[name]) for name, scan in self.scans.items()}
        return Facts(scans, self.parts | other.parts)


@dataclass(frozen=True)
class FrameOnly:
    """The result for a frame of Dask or Spark, which stays there, lazy: all there is of it is ``to_frame()``."""

    frame: Any

    def to_frame(self) -> Any:
        """The input with the results beside it, or a row for each group: a lazy frame of the same library."""
        return self.frame

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"{name!r} needs a table in memory; a frame of a cluster has to_frame().")


class PartitionRows:
    """Some columns of the rows of a partition on their way, ``n_rows`` so far; in the end their mark is known."""

    def __init__(self, number: int, names: Sequence[str]) -> None:
        self._number, self._names = number, names
        self.n_rows, self._ends = 0, [b"", b""]

    def pieces(self, frames: Frames) -> Iterator[nw.DataFrame[Any]]:
        """The next rows, at most PIECE_ROWS at a time; ``n_rows`` is the number of the first of them."""
        for native in frames:
            frame: nw.DataFrame[Any] = nw.from_native(native, eager_only=True)
            by_text = {str(name): name for name in frame.columns}  # they need not be texts
            for name in self._names:
                if name not in by_text:
                    listed = ", ".join(map(repr, by_text)) or "none"
                    raise ValueError(f"partition {self._number} has no column {name!r} (columns: {listed}).")
            frame = frame.select([by_text[name] for name in self._names])
            for start in range(0, len(frame), PIECE_ROWS):
                piece = frame[start : start + PIECE_ROWS]
                yield piece
                self._ends = [self._ends[0] or _bytes_of(piece, 0), _bytes_of(piece, -1)]
                self.n_rows += len(piece)

    def sources(self, frames: Frames) -> Iterator[FrameSource]:
        """The same, to be scanned."""
        return (FrameSource(piece, f"partition {self._number}", self.n_rows) for piece in self.pieces(frames))

    @property
    def mark(self) -> PartitionMark:
        """What all pieces make."""
        return PartitionMark(self.n_rows, crc32(b"".join(self._ends)))


def _bytes_of(frame: nw.DataFrame[Any], row: int) -> bytes:
    return repr(frame[[row % len(frame)]].rows()).encode()


def look_at(names: tuple[str, ...], scans: Scans, number: int, frames: Frames) -> Facts:
    """Facts of a partition by empty scans of columns, which are among those that its mark is made of."""
    scans, rows = deepcopy(scans), PartitionRows(number, names)
    for source in rows.sources(frames):
        for batch in source.frames():
            for scan in scans.values():
                scan.read(batch)
    return Facts(scans, {number: rows.mark})


def pick_rows(
    names: tuple[str, ...], chosen: dict[int, Ints], number: int, frames: Frames
) -> dict[int, tuple[PartitionMark, list[pa.Table]]]:
    """Rows of a partition by their numbers in it, which ascend, and its mark."""
    rows, tables = PartitionRows(number, names), []
    places = chosen.get(number, np.empty(0, dtype=np.int64))
    for piece in rows.pieces(frames):
        first, stop = np.searchsorted(places, (rows.n_rows, rows.n_rows + len(piece)))
        if stop > first:
            tables.append(as_arrow(piece[(places[first:stop] - rows.n_rows).tolist()]))
    return {number: (rows.mark, tables)}


def as_arrow(frame: Any) -> pa.Table:
    """A frame of an engine as one of Arrow."""
    opened: nw.DataFrame[Any] = nw.from_native(frame, eager_only=True)
    return pa.table({str(name): opened.get_column(name).to_arrow() for name in opened.columns})


def learn_partitions(partitions: Partitions, options: ReadOptions, random_state: Any, max_rows: Any = "auto") -> Table:
    """Facts of all rows, and a table of a sample of them, as a detector draws it from a frame in memory."""
    for name in _OF_TEXT:
        if getattr(options, name) != getattr(ReadOptions, name):
            raise ValueError(f"{name}={getattr(options, name)!r} reads text; cast the columns to numbers first.")
    check_options(partitions, options)
    names = tuple(name for name in partitions.schema.names if options.may_use(name) or name in options.apart)
    scanned = [name for name in names if options.may_use(name) or name in options.by]
    scans = {name: ColumnScan(name, most_texts=FACT_TEXTS) for name in scanned}
    facts = _look_at_all(partitions, names, scans)
    numbers = sorted(facts.parts)
    starts = np.cumsum([0, *(facts.parts[number].n_rows for number in numbers)])
    n_rows = int(starts[-1])
    if not n_rows:
        raise ValueError("The table has no rows.")
    most = MOST_LEARNED if max_rows == "auto" else n_rows if max_rows is None else int(max_rows)
    rows = np.arange(n_rows) if n_rows <= most else sample_of(n_rows, most, random_state)
    by_part = np.split(rows, np.searchsorted(rows, starts[1:-1]))
    chosen = {number: own - start for number, own, start in zip(numbers, by_part, starts, strict=False)}
    picked = partitions.reduce(partial(pick_rows, names, chosen), dict.__or__) or {}
    changed = [number for number in numbers if picked[number][0] != facts.parts[number]]
    if changed:
        warnings.warn(
            f"partition {changed[0]} and {len(changed) - 1:,} more had other rows when they were read again, so the "
            "result is not repeatable; persist or sort the table first.",
            stacklevel=4,
        )
    tables = [table for number in numbers for table in picked[number][1]]
    source = FrameSource(nw.from_native(pa.concat_tables(tables, promote_options="permissive")))
    return learn_table(source, options, facts=facts.scans)


def _look_at_all(partitions: Partitions, names: tuple[str, ...], scans: Scans) -> Facts:
    return partitions.reduce(partial(look_at, names, scans), Facts.merge) or Facts(scans, {})


def check_options(partitions: Partitions, options: ReadOptions, is_learned: bool = False) -> None:
    """Refuse names that the table does not have, and what needs all rows of a label in one place."""
    check_names(partitions.schema.names, options, is_learned)
    if options.baseline:
        raise ValueError(f"within={','.join(options.baseline)!r} needs all rows of a label in one place.")
    if options.bags is not None and options.bags.sessions is not None:
        raise ValueError(f"sessions={options.bags.sessions!r} needs all rows of a label in one place; choose every=.")
    if options.by and options.carry:
        raise ValueError(f"keep={','.join(options.carry)!r} needs all rows of a group in one place; join it later.")


def check_rows(partitions: Partitions, encoding: Encoding, options: ReadOptions) -> tuple[ColumnSummary, ...]:
    """Warn of what a model has not seen before, or refuse it, as of a frame in memory: by a look at all rows."""
    options = options.following(encoding)
    check_options(partitions, options, is_learned=True)
    scans = {column.name: scan_of(column.name, options.notation, column) for column in encoding.columns}
    scans |= {name: ColumnScan(name, most_texts=FACT_TEXTS) for name in options.by}
    columns = tuple(follow_encoding(encoding, _look_at_all(partitions, tuple(scans), scans).scans, options))
    TableSummary((), 0, 0, columns).warn_of_remarks()
    return columns


@dataclass(frozen=True)
class Reader:
    """Reads the rows of a partition, and the groups that they belong to; pickles."""

    encoding: Encoding
    options: ReadOptions

    def rows(self, number: int) -> PartitionRows:
        """Those columns of a partition that are needed."""
        return PartitionRows(number, [*(column.name for column in self.encoding.columns), *self.options.apart])

    def tables(self, rows: PartitionRows, frames: Frames) -> Iterator[Table]:
        """Some rows of a partition at a time."""
        spool = partial(Spool, kept_bytes=1 << 62)
        read = partial(learn_table, options=self.options, encoding=self.encoding, spool=spool)
        return map(read, rows.sources(frames))

    def pieces(self, number: int, frames: Frames) -> Iterator[Piece]:
        """The same by group."""
        rows = self.rows(number)
        return (piece_of(table, rows.n_rows + (number << _ROW_BITS)) for table in self.tables(rows, frames))

    def parts(self, chosen: set[Any], number: int, frames: Frames) -> Iterator[Piece]:
        """What these have of some groups."""
        parts = (piece.part(is_among(chosen, piece.groups.labels)) for piece in self.pieces(number, frames))
        return (part for part in parts if len(part.groups.labels))


def piece_of(table: Table, first_row: int) -> Piece:
    """The groups of a table; ``first_row``: number of the first row."""
    codes, labels = number_rows([table.labels[name] for name in table.by])
    codes = codes.astype(np.int64)
    inside = codes if table.takes_part is None else codes[table.takes_part]
    lacking = codes[:0] if table.gaps is None else codes[(table.gaps > 0) & (codes >= 0)]
    sizes, n_gaps = (np.bincount(own, minlength=len(labels)) for own in (inside, lacking))
    first = first_rows_of(codes, len(labels)) + first_row
    return Piece(GroupCounts(labels, sizes, n_gaps, first, ()), table.X, inside)


def hash_of(label: Any) -> int:
    """62 bits of a label, the same in every process."""
    parts = label if isinstance(label, tuple) else (label,)
    parts = tuple(int(one) if isinstance(one, float) and one.is_integer() else one for one in parts)
    text = "\0".join(f"{type(one).__name__} {one!r}" for one in parts)
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") >> 2


def lowest(most: int, groups: GroupCounts) -> GroupCounts:
    """The groups whose labels have the lowest hashes. These are so wherever they have rows, so sizes are of all."""
    order = np.argsort([hash_of(label) for label in groups.labels.tolist()], kind="stable")
    return groups.part(np.sort(order[:most]))


def learn_groups(partitions: Partitions, table: Table, detector: Any, min_size: int) -> None:
    """Fit a detector to a few thousand groups of a table, of whose rows some were sampled."""
    check_params({"min_size": min_size}, {"min_size": MIN_SIZE})
    seed = detector.random_state
    if not isinstance(seed, int):
        seed = int(check_random_state(seed).randint(2**31 - 1))
    detector.set_params(random_state=seed)
    reader, most = Reader(table.encoding, table.options), MOST_REFERENCES * (1 if min_size == 1 else 4)

    def merge(a: GroupCounts, b: GroupCounts) -> GroupCounts:
        return lowest(most, merge_group_counts([a, b]))

    def find(number: int, frames: Frames) -> GroupCounts | None:
        return merged(merge, (lowest(most, piece.groups) for piece in reader.pieces(number, frames)))

    groups = partitions.reduce(find, merge)
    sizes = np.zeros(1, dtype=np.int64) if groups is None else groups.sizes
    if groups is None or sizes.max() < min_size:
        raise ValueError(f"No group has {min_size} or more rows; the largest has {sizes.max():,}.")
    small = set(groups.labels[sizes < min_size].tolist())
    chosen = lowest(MOST_REFERENCES, groups.part(np.flatnonzero(sizes >= min_size))).labels.tolist()
    drawn = draw_all(table, detector, chosen, small)
    counters = [counter for own in drawn.values() for counter in own.counters(detector.compute)]

    def add(a: GroupCounts, b: GroupCounts) -> GroupCounts:
        return merge_group_counts([a, b])

    def count(number: int, frames: Frames) -> GroupCounts | None:
        parts = reader.parts(set(chosen), number, frames)
        return merged(add, (part.counted(counters) for part in parts))

    counts = partitions.reduce(count, add)
    assert counts is not None
    learned = counts.groups(table.rows, [counter.key for counter in counters])
    learned.drawn.update(drawn)
    detector.fit(learned)
    detector.table_ = table.encoding.to_text()


def is_among(chosen: Container[Any], labels: npt.NDArray[Any]) -> Bools:
    """Which labels are chosen: (k,)."""
    return np.array([label in chosen for label in labels.tolist()], dtype=bool)


def draw_all(table: Table, detector: Any, chosen: list[Any], small: set[Any]) -> dict[int, Any]:
    """By random state, what is drawn for the model and for those of its folds.

    No row of a group that a fold sets aside is among those that it draws from, nor is one of ``small`` groups.
    """
    params, compute, sample = detector.params, detector.compute, piece_of(table, 0)

    def rows_without(groups: set[Any]) -> Rows:
        learned = ~is_among(groups, sample.groups.labels)[sample.ids]
        if not learned.any():
            raise ValueError("The sample has no rows of groups to learn from: fit on more rows.")
        return table.rows if learned.all() else ArrayRows(sample.X[learned], table.rows.names)

    drawn = {params.random_state: draw_level1(rows_without(small), params, compute)}
    if not detector.calibrates:
        return drawn
    folds = draw_folds(len(chosen), CALIBRATION_GROUPS, LEARNED_GROUPS, params.random_state)
    for fold in folds:
        aside = {chosen[place] for place in fold.aside.tolist()}
        fold_params = params.of_part(fold.seed, len(folds))
        drawn[fold.seed] = draw_level1(rows_without(small | aside), fold_params, compute)
    return drawn
