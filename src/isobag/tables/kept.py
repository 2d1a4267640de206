"""Entries and labels of a table that is read in this process, kept while it is scanned."""

from collections.abc import Callable, Sequence

import numpy as np

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.data.spool import Spool
from isobag.tables.batch import Batch
from isobag.tables.choose import ReadOptions
from isobag.tables.labels import Labels

BLOCK_ROWS = 1 << 16


class Kept:
    """What is kept of a table.

    names : columns whose entries are in ``spool``, in order; settled by the first batch.
    labels : columns set apart or carried along.
    is_complete : whether all columns were there in the first batch, and so are in the spool.
    """

    def __init__(
        self, options: ReadOptions, new_spool: Callable[[int], Spool], count: Callable[[int], None] | None = None
    ) -> None:
        self._options, self._new_spool, self._count = options, new_spool, count
        self.names: list[str] = []
        self.spool = new_spool(0)
        self.labels = Labels(tuple(options.apart), options.carry or ())
        self.is_complete = True
        self._n_columns: int | None = None

    def add(self, batch: Batch, entries: dict[str, Floats], columns: Sequence[str], n_before: int) -> None:
        """The next rows; ``columns``: all that are known so far."""
        options = self._options
        if self._n_columns is None:
            self._n_columns = len(columns)
            wanted = entries if options.features is None else options.features
            self.names = [name for name in wanted if name in entries and name not in options.apart]
            self.spool = self._new_spool(len(self.names))
        self.is_complete = self.is_complete and len(columns) == self._n_columns
        if self.is_complete:
            empty = np.empty((batch.n_rows, 0))
            self.spool.append(np.stack([entries[name] for name in self.names], axis=1) if self.names else empty)
        self.labels.add(batch, n_before, columns if options.carry is None else ())
        if self._count is not None:
            self._count(n_before + batch.n_rows)

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
