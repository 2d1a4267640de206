"""A pass over the cells of a table: what is known of its columns, and their entries, kept on the way."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.data.spool import Spool
from isobag.tables.batch import Batch, Source
from isobag.tables.cells import TEXT
from isobag.tables.choose import check_names, kinds_of
from isobag.tables.encode import EncodedColumn, Encoding
from isobag.tables.labels import Labels
from isobag.tables.notation import Notation
from isobag.tables.reading import ReadOptions
from isobag.tables.scan import ColumnScan, entry_kind

BLOCK_ROWS = 1 << 16
NewSpool = Callable[[int], Spool]
"""Called with the number of columns, for what keeps the entries."""


class Pass:
    """One pass over a table that is read in this process.

    scans, n_rows : what is known of each column, and the number of rows.
    names : columns whose entries are in ``spool``, in order; settled by the first batch.
    labels : columns set apart or carried along.
    is_complete : whether all columns were there in the first batch; else no more is kept, and the table is read again.

    encoding : of a model; None if the columns are to be judged.
    only_rows : numbers of rows, ascending; all others are passed over.
    kinds : how each column is kept, if known from an earlier pass.
    """

    def __init__(
        self,
        source: Source,
        options: ReadOptions,
        new_spool: NewSpool,
        encoding: Encoding | None = None,
        only_rows: Ints | None = None,
        kinds: Mapping[str, str | None] | None = None,
    ) -> None:
        self._new_spool, self._options, self._kinds = new_spool, options, kinds
        self._learned = {} if encoding is None else {column.name: column for column in encoding.columns}
        self.scans = {name: self._new_scan(name) for name in kinds or source.columns or ()}
        self.n_rows, self.is_complete = 0, True
        for batch in _batches(source, only_rows):
            for name in batch.columns:
                if name not in self.scans:
                    self.scans[name] = self._new_scan(name)
                    self.scans[name].skip(self.n_rows)
            entries = {name: scan.read(batch) for name, scan in self.scans.items()}
            if not self.n_rows:
                self._settle(list(entries))
                n_columns = len(entries)
            self.is_complete = self.is_complete and len(entries) == n_columns
            if self.is_complete:
                empty = np.empty((batch.n_rows, 0))
                self.spool.append(np.stack([entries[name] for name in self.names], axis=1) if self.names else empty)
                self.labels.add(batch)
            self.n_rows += batch.n_rows
        if not self.n_rows:
            self._settle([*self.scans])

    def median_of(self, name: str) -> float:
        """The median of the entries of a column."""
        entries = self.spool.numbers[:, self.names.index(name)]
        entries = entries[~np.isnan(entries)]
        return float(np.median(entries)) if len(entries) else 0.0  # a sample may have none, of very few

    def count_gaps(self, used: Ints) -> Ints:
        """Missing values of each row in some of the columns: (n,)."""
        return np.concatenate([np.isnan(block[:, used]).sum(axis=1) for block in self._blocks()])

    def only(self, chosen: Bools) -> Spool:
        """The entries of some rows: (n,)."""
        rest, start = self._new_spool(len(self.names)), 0
        for block in self._blocks():
            rest.append(block[chosen[start : start + len(block)]])
            start += len(block)
        return rest

    def find_copies(self) -> dict[str, str]:
        """Columns whose entries equal those of an earlier one in every row, by name, and the first that each equals."""
        numbers, first, copies = self.spool.numbers, dict[bytes, int](), dict[str, str]()
        for j, name in enumerate(self.names):
            i = first.setdefault(numbers[:BLOCK_ROWS, j].tobytes(), j)
            if i < j and np.array_equal(numbers[:, i], numbers[:, j], equal_nan=True):
                copies[name] = self.names[i]
        return copies

    def _blocks(self) -> Iterator[Floats]:
        """The entries of all rows in order."""
        numbers = self.spool.numbers
        return (numbers[start : start + BLOCK_ROWS] for start in range(0, max(len(numbers), 1), BLOCK_ROWS))

    def _settle(self, columns: list[str]) -> None:
        """What is kept, by the columns of the first batch."""
        options = self._options
        wanted = columns if options.features is None else options.features
        self.names = [name for name in wanted if name in columns and name not in options.apart]
        self.spool = self._new_spool(len(self.names))
        self.labels = Labels(tuple(options.apart), columns if options.carry is None else options.carry)

    def _new_scan(self, name: str) -> ColumnScan:
        return scan_of(name, self._options.notation, self._learned.get(name), (self._kinds or {}).get(name))


def scan_of(name: str, notation: Notation, column: EncodedColumn | None, kind: str | None = None) -> ColumnScan:
    """What reads a column: as it was learned, if it was; ``kind``: how it is kept, if known."""
    if column is None:
        return ColumnScan(name, kind, notation=notation)
    categories = column.categories if column.kind == TEXT else None
    return ColumnScan(name, entry_kind(column.kind), categories, notation, learns=False)


def scan_source(
    source: Source,
    options: ReadOptions,
    spool: NewSpool,
    encoding: Encoding | None = None,
    only_rows: Ints | None = None,
) -> Pass:
    """One pass over a source, and one more with all types known if some column was not what it first seemed to be."""
    if source.columns is not None:
        check_names(source.columns, options, encoding is not None)
    first = Pass(source, options, spool, encoding, only_rows)
    if source.columns is None:
        check_names(list(first.scans), options, encoding is not None)
    kinds = kinds_of(first.scans, options)
    used = [scan for name, scan in first.scans.items() if encoding is None and options.may_use(name)]
    if first.is_complete and all(scan.is_kept_as(kinds[scan.name]) for scan in used):
        return first
    return Pass(source, options, spool, encoding, only_rows, kinds)


def _batches(source: Source, only_rows: Ints | None) -> Iterator[Batch]:
    start = 0
    for batch in source.read():
        if only_rows is None:
            yield batch
            continue
        inside = only_rows[(only_rows >= start) & (only_rows < start + batch.n_rows)] - start
        yield from (batch.only(int(i)) for i in inside)
        start += batch.n_rows
