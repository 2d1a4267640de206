"""A pass over the cells of a table: what is known of its columns, and their entries, kept on the way."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.data.spool import Spool
from isobag.tables.batch import Batch, Source
from isobag.tables.cells import TEXT
from isobag.tables.choose import check_names, kinds_of
from isobag.tables.encode import Encoding
from isobag.tables.labels import Labels
from isobag.tables.reading import ReadOptions
from isobag.tables.scan import ColumnScan, entry_kind

BLOCK_ROWS = 1 << 16


class Seen(NamedTuple):
    """What is known of each column of a table, and its number of rows."""

    scans: dict[str, ColumnScan]
    n_rows: int

    def completed(self, sample: Mapping[str, ColumnScan]) -> dict[str, ColumnScan]:
        """What is known of each column of a sample of the rows, from all rows where that is known."""
        return {**sample, **{name: scan.with_texts_of(sample[name]) for name, scan in self.scans.items()}}


class StoredEntries:
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
        entries = entries[~np.isnan(entries)]
        return float(np.median(entries)) if len(entries) else 0.0  # a sample may have none, of very few

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

    def find_copies(self) -> dict[str, str]:
        """Columns whose entries equal those of an earlier one in every row, by name, and the first that each equals."""
        head, first, copies = self.spool.read(0, BLOCK_ROWS), dict[bytes, int](), dict[str, str]()
        for j, name in enumerate(self.names):
            i = first.setdefault(head[:, j].tobytes(), j)
            if i < j and np.array_equal(self.spool.column(i), self.spool.column(j), equal_nan=True):
                copies[name] = self.names[i]
        return copies


@dataclass(frozen=True)
class Scan:
    """How a table is scanned.

    encoding : of a model; None if the columns are to be judged.
    only_rows : numbers of rows, ascending; all others are passed over.
    kinds : how each column is kept, if known from an earlier pass.
    """

    options: ReadOptions
    encoding: Encoding | None = None
    only_rows: Ints | None = None
    kinds: Mapping[str, str | None] | None = None

    def __call__(self, source: Source, stored: StoredEntries) -> Seen:
        """What is known after a pass over a table, whose entries are kept."""
        scans = {name: self._new_scan(name) for name in self.kinds or source.columns or ()}
        n_rows = 0
        for batch in self._batches(source):
            for name in batch.columns:
                if name not in scans:
                    scans[name] = self._new_scan(name)
                    scans[name].skip(n_rows)
            stored.add(batch, {name: scan.read(batch) for name, scan in scans.items()}, list(scans))
            n_rows += batch.n_rows
        return Seen(scans, n_rows)

    def is_right(self, seen: Seen, kinds: Mapping[str, str | None]) -> bool:
        """Whether the entries of all columns that may become features were kept as what these turned out to be."""
        return all(scan.is_kept_as(kinds[name]) for name, scan in seen.scans.items() if self.options.may_use(name))

    def _batches(self, source: Source) -> Iterator[Batch]:
        start = 0
        for batch in source.read():
            if self.only_rows is None:
                yield batch
                continue
            inside = self.only_rows[(self.only_rows >= start) & (self.only_rows < start + batch.n_rows)] - start
            yield from (batch.only(int(i)) for i in inside)
            start += batch.n_rows

    def _new_scan(self, name: str) -> ColumnScan:
        for column in () if self.encoding is None else self.encoding.columns:
            if column.name == name:
                categories = column.categories if column.kind == TEXT else None
                return ColumnScan(name, entry_kind(column.kind), categories, self.options.notation, learns=False)
        return ColumnScan(name, None if self.kinds is None else self.kinds[name], notation=self.options.notation)


def scan_source(source: Source, scan: Scan, spool: Callable[[int], Spool]) -> tuple[Seen, StoredEntries]:
    """One pass over a source, and one more with all types known if some column was not what it first seemed to be."""
    options = scan.options

    def look(scan: Scan) -> tuple[Seen, StoredEntries]:
        if source.columns is not None:
            check_names(source.columns, options)
        stored = StoredEntries(options, spool)
        seen = scan(source, stored)
        if source.columns is None:
            check_names(list(seen.scans), options)
        return seen, stored

    seen, stored = look(scan)
    kinds = kinds_of(seen.scans, options)
    if stored.is_complete and (scan.encoding is not None or scan.is_right(seen, kinds)):
        return seen, stored
    return look(replace(scan, kinds=kinds))
