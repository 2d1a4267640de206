"""Passes over the cells of a table, partition by partition: what is known of its columns, merged.

Medians are of values that are never in one place: three passes count numbers as 64-bit keys in the same order, by ever
more of their leading bits. The first counts the upper 24 bits of all keys, the others the next 20 bits of those keys
alone that agree with a middle one so far: few counts, which merge in any order.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.data.local import Source
from isobag.data.partitions import Frames, Partitions
from isobag.data.spool import Spool
from isobag.models.thresholds import add_values
from isobag.tables.batch import Batch
from isobag.tables.cells import TEXT
from isobag.tables.choose import check_names, kinds_of
from isobag.tables.encode import Encoding
from isobag.tables.framesource import FrameSource
from isobag.tables.labels import Labels
from isobag.tables.reading import ReadOptions
from isobag.tables.scan import ColumnScan, entry_kind

PARTITION_ROWS = 1 << 18
"""Most rows of a partition that are turned into features at once."""
BLOCK_ROWS = 1 << 16
SHIFTS = (40, 20, 0)
"""Bits that each pass leaves aside."""
_SIGN = np.uint64(1 << 63)
Keys = npt.NDArray[np.uint64]
KeyCounts = tuple[Keys, Ints]
"""Leading bits (k,), ascending, and how many values have them (k,)."""
Entries = Callable[[int, Frames, Sequence[str]], Iterator[dict[str, Floats]]]
"""Entries of some columns of a partition, some rows at a time."""


class Seen(NamedTuple):
    """What is known of partitions that follow one another: of each column, and the rows of each."""

    scans: dict[str, ColumnScan]
    sizes: list[int]

    @property
    def n_rows(self) -> int:
        """Rows of all these partitions."""
        return sum(self.sizes)

    def merge(self, later: "Seen") -> "Seen":
        """What is known of these and of later ones."""
        scans = {name: own.merge(later.scans[name]) for name, own in self.scans.items()}
        return Seen(scans, self.sizes + later.sizes)


class Kept:
    """Entries and labels of a table that is read in this process, kept while it is scanned.

    names : columns whose entries are in ``spool``, in order; settled by the first batch.
    labels : columns set apart or carried along.
    is_complete : whether all columns were there in the first batch; else no more is kept, and the table is read again.
    """

    def __init__(self, options: ReadOptions, new_spool: Callable[[int], Spool]) -> None:
        self._options, self._new_spool = options, new_spool
        self.names: list[str] = []
        self.spool = new_spool(0)
        self.labels = Labels(())
        self.is_complete = True
        self._n_columns: int | None = None

    def add(self, batch: Batch, entries: dict[str, Floats], columns: Sequence[str]) -> None:
        """The next rows; ``columns``: all that are known so far."""
        options = self._options
        if self._n_columns is None:
            self._n_columns = len(columns)
            wanted = entries if options.features is None else options.features
            self.names = [name for name in wanted if name in entries and name not in options.apart]
            self.spool = self._new_spool(len(self.names))
            self.labels = Labels(tuple(options.apart), columns if options.carry is None else options.carry)
        self.is_complete = self.is_complete and len(columns) == self._n_columns
        if self.is_complete:
            empty = np.empty((batch.n_rows, 0))
            self.spool.append(np.stack([entries[name] for name in self.names], axis=1) if self.names else empty)
            self.labels.add(batch)

    def median_of(self, name: str) -> float:
        """The median of the entries of a column."""
        entries = self.spool.column(self.names.index(name))
        return float(np.median(entries[~np.isnan(entries)]))

    def count_gaps(self, used: Ints) -> Ints:
        """Missing values of each row in some of the columns: (n,)."""
        starts = range(0, len(self.spool), BLOCK_ROWS)
        return np.concatenate([np.isnan(self.spool.read(start, BLOCK_ROWS)[:, used]).sum(axis=1) for start in starts])

    def only(self, chosen: Bools) -> Spool:
        """The entries of some rows: (n,)."""
        rest = self._new_spool(len(self.names))
        for start in range(0, len(self.spool), BLOCK_ROWS):
            rest.append(self.spool.read(start, BLOCK_ROWS)[chosen[start : start + BLOCK_ROWS]])
        return rest


@dataclass(frozen=True)
class Scan:
    """Scans a partition.

    names : of the columns; None if every row names its own.
    kinds : how each column is kept, if known from an earlier pass.
    reads_all : whether to look at all columns; else only at those that may become features.
    keep : where the entries go that are kept in this process.
    """

    names: tuple[str, ...] | None
    options: ReadOptions
    encoding: Encoding | None = None
    kinds: Mapping[str, str | None] | None = None
    free: frozenset[str] = frozenset()
    only_rows: Ints | None = None
    reads_all: bool = False
    keep: Kept | None = None

    def __call__(self, number: int, frames: Frames) -> Seen:
        """What is known of a partition."""
        scans = {name: self._new_scan(name, number) for name in self.names or ()}
        n_rows = 0
        for batch in self._batches(number, frames):
            for name in batch.columns:
                if name not in scans:
                    scans[name] = self._new_scan(name, number)
                    scans[name].skip(n_rows)
            entries = {name: scan.read(batch) for name, scan in scans.items() if self.reads(name)}
            if self.keep is not None:
                self.keep.add(batch, entries, list(scans))
            n_rows += batch.n_rows
        return Seen(scans, [n_rows])

    def reads(self, name: str) -> bool:
        """Whether a column is looked at."""
        return self.reads_all or self.may_be_feature(name)

    def may_be_feature(self, name: str) -> bool:
        """Whether a column is asked for, or none is."""
        if self.options.excludes(name):
            return False
        return name not in self.options.apart and (self.options.features is None or name in self.options.features)

    def is_right(self, seen: Seen, kinds: Mapping[str, str | None]) -> bool:
        """Whether the entries of all columns that may become features were kept as what these turned out to be."""
        return all(own.is_kept_as(kinds[name]) for name, own in seen.scans.items() if self.may_be_feature(name))

    def entries(self, number: int, frames: Frames, names: Sequence[str]) -> Iterator[dict[str, Floats]]:
        """Entries of some columns, a batch at a time."""
        scans = {name: self._new_scan(name) for name in names}
        for batch in self._batches(number, frames):
            yield {name: scan.read(batch) for name, scan in scans.items()}

    def _batches(self, number: int, frames: Frames) -> Iterator[Batch]:
        """The rows of a partition; a table that is read in this process comes in batches already."""
        if self.keep is None:
            wanted = [name for name in self.names or () if self.reads(name)]
            sources = sources_of(number, frames, wanted, self.free, self.names or ())
            frames = (batch for source in sources for batch in source.frames(0))
        start = 0
        for batch in frames:
            if self.only_rows is None:
                yield batch
                continue
            inside = self.only_rows[(self.only_rows >= start) & (self.only_rows < start + batch.n_rows)] - start
            yield from (batch.only(int(i)) for i in inside)
            start += batch.n_rows

    def _new_scan(self, name: str, part: int = 0) -> ColumnScan:
        for column in () if self.encoding is None else self.encoding.columns:
            if column.name == name:
                categories = column.categories if column.kind == TEXT else None
                return ColumnScan(name, entry_kind(column.kind), categories, self.options.notation, learns=False)
        kept_as = None if self.kinds is None else self.kinds[name]
        return ColumnScan(name, kept_as, notation=self.options.notation, part=part)


def scan_source(source: Source, scan: Scan, spool: Callable[[int], Spool]) -> tuple[Seen, Kept]:
    """One pass over a source, and one more with all types known if some column was not what it first seemed to be."""
    options = scan.options

    def look(scan: Scan) -> tuple[Seen, Kept]:
        if scan.names is not None:
            check_names(scan.names, options)
        kept = Kept(options, spool)
        seen = source.run(replace(scan, keep=kept), Seen.merge)
        if scan.names is None:
            check_names(list(seen.scans), options)
        return seen, kept

    seen, kept = look(scan)
    kinds = kinds_of(seen.scans, options)
    if kept.is_complete and (scan.encoding is not None or scan.is_right(seen, kinds)):
        return seen, kept
    return look(replace(scan, names=tuple(kinds), kinds=kinds))


def sources_of(
    number: int, frames: Frames, wanted: Sequence[str], free: frozenset[str], names: Sequence[str] = ()
) -> Iterator[FrameSource]:
    """Some columns of a partition, in pieces of at most PARTITION_ROWS rows; all of ``names`` must be there too."""
    first_row = 0
    for given in frames:
        frame: nw.DataFrame[Any] = nw.from_native(given, eager_only=True)
        by_text = {str(name): name for name in frame.columns}  # they need not be texts
        lacking = [name for name in (*wanted, *names) if name not in by_text]
        if lacking:
            known = ", ".join(map(repr, by_text)) or "none"
            raise ValueError(f"partition {number} has no column {lacking[0]!r} (columns: {known}).")
        frame = frame.select([by_text[name] for name in wanted])
        for start in range(0, len(frame), PARTITION_ROWS):
            piece = frame[start : start + PARTITION_ROWS]
            yield FrameSource(piece, f"partition {number}", first_row + start, free)
        first_row += len(frame)


class Bracket(NamedTuple):
    """What is known of the two middle values: their leading bits, and how many values come before those bits.

    Of an odd number of values there is one.
    """

    keys: tuple[int, ...] = ()
    ranks: tuple[int, ...] = ()
    turn: int = 0

    def count_keys(self, values: Floats) -> KeyCounts:
        """The next bits of those values, NaN aside, that agree with a middle one so far: (m,)."""
        keys = ordered_keys(values[~np.isnan(values)])
        if self.turn:
            keys = keys[np.isin(keys >> np.uint64(SHIFTS[self.turn - 1]), np.array(self.keys, dtype=np.uint64))]
        return np.unique(keys >> np.uint64(SHIFTS[self.turn]), return_counts=True)

    def narrow(self, counted: KeyCounts) -> "Bracket":
        """What is known after a pass over all values."""
        keys, counts = counted
        total = int(counts.sum())
        middle, rests = [], []
        for i, rank in enumerate(self.ranks if self.turn else sorted({(total - 1) // 2, total // 2})):
            own, numbers = keys, counts
            if self.turn:
                is_own = keys >> np.uint64(SHIFTS[self.turn - 1] - SHIFTS[self.turn]) == np.uint64(self.keys[i])
                own, numbers = keys[is_own], counts[is_own]
            place = int(np.searchsorted(np.cumsum(numbers), rank, side="right"))
            middle.append(int(own[place]))
            rests.append(rank - int(numbers[:place].sum()))
        return Bracket(tuple(middle), tuple(rests), self.turn + 1)

    @property
    def median(self) -> float:
        """The mean of the two middle values, when all bits are known."""
        return float(np.median(values_of(np.array(self.keys, dtype=np.uint64))))


def medians_of(partitions: Partitions, entries: Entries, names: Sequence[str]) -> dict[str, float]:
    """Medians of some columns of a table in partitions, of which ``entries`` gives the values; NaN does not count."""
    brackets = {name: Bracket() for name in names}
    for _ in SHIFTS:
        counted = partitions.run(partial(_count_keys, entries, brackets), _merge)
        brackets = {name: own.narrow(counted[name]) for name, own in brackets.items()}
    return {name: own.median for name, own in brackets.items()}


def _count_keys(entries: Entries, brackets: dict[str, Bracket], number: int, frames: Frames) -> dict[str, KeyCounts]:
    parts = entries(number, frames, list(brackets))
    none = {name: own.count_keys(np.empty(0)) for name, own in brackets.items()}
    counted = ({name: own.count_keys(values[name]) for name, own in brackets.items()} for values in parts)
    return reduce(_merge, counted, none)


def _merge(first: dict[str, KeyCounts], later: dict[str, KeyCounts]) -> dict[str, KeyCounts]:
    return {name: add_values(own, later[name]) for name, own in first.items()}


def ordered_keys(values: Floats) -> Keys:
    """Keys in the order of the values, none of which is NaN: (m,)."""
    bits = (values + 0.0).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def values_of(keys: Keys) -> Floats:
    """The values that have these keys."""
    return np.where(keys & _SIGN, keys ^ _SIGN, ~keys).view(np.float64)
