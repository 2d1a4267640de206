"""A query over files as a source of rows: DuckDB answers it, and every column has the type that the query gives it.

Files that declare their types are read by DuckDB itself. Text is read by our own reader first, so that a cell means the
same in a query as without one: numbers, times, or text where a column is anything else.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from isobag.tables.batch import Batch, Source, names_of_files
from isobag.tables.cells import NUMBER, TIME, is_text
from isobag.tables.notation import Notation
from isobag.tables.openers import STDIN, is_pipe
from isobag.tables.scan import INEXACT, ColumnScan, entry_kind
from isobag.tables.sources import FilesSource, matching_files, notes_on_folders
from isobag.tables.tablefile import FileFormat, kind_of_file

BATCH_ROWS = 1 << 16
VIEW = "data"
"""Name of the given files in SQL."""
_PARQUET = (".parquet", ".pq")
_UNORDERED = ("JOIN", "GROUP", "AGGREGATE", "DISTINCT", "UNION", "WINDOW")
"""Steps of a plan whose rows come as threads finish."""


class QuerySource(Source):
    """The rows of a query, in its order."""

    def __init__(self, sql: str, paths: Sequence[str], notation: Notation | None = None, **reading: Any) -> None:
        self._notation = notation or Notation()
        self._typed: frozenset[str] | None = None
        self._connection = duckdb.connect(":memory:", config={"autoinstall_known_extensions": "false"})
        self._connection.execute("SET preserve_insertion_order = true")
        self._connection.execute("SET enable_progress_bar = false")
        # Five literals or more after IN would become a join, which keeps no order.
        self._connection.execute("SET disabled_optimizers = 'in_clause'")
        self.files = tuple(paths)
        if paths:
            self._open(paths, reading)
        # In parentheses only a query is understood, so that no other statement is ever run.
        self._query = f"({sql.rstrip().rstrip(';')}\n)"
        with _one_sentence():
            answer = self._connection.sql(f"FROM {self._query} LIMIT 0")
            plan = str(self._connection.execute(f"EXPLAIN FROM {self._query}").fetchall()).upper()
            if any(step in plan for step in _UNORDERED):  # answered once, by one thread, as rows are read again
                self._connection.execute("SET threads = 1")
                self._connection.execute(f"CREATE TABLE _answer AS FROM {self._query}")
                self._query = "_answer"
            self._names = tuple(answer.columns)
            kinds = dict(zip(answer.columns, map(str, answer.types), strict=True))
        self.columns = self._names
        # What the query leaves as the text of a file is still to be understood, by the same rule as without a query.
        typed = kinds if self._typed is None else self._typed
        self._free = frozenset(name for name, kind in kinds.items() if kind == "VARCHAR" and name not in typed)

    def frames(self) -> Iterator[Batch]:
        """The rows in order."""
        start = 0
        with _one_sentence():
            # A cursor of its own: an open result keeps any other query from its connection.
            for part in self._connection.cursor().sql(f"FROM {self._query}").to_arrow_reader(BATCH_ROWS):
                columns = dict(zip(self._names, part.columns, strict=True))
                yield Batch("the query", start, None, columns, part.num_rows, is_typed=True, free=self._free)
                start += part.num_rows

    def _open(self, paths: Sequence[str], reading: dict[str, Any]) -> None:
        files = [file for path in paths for file in matching_files(path)]
        self.notes = notes_on_folders(files)
        if all(file != STDIN and not is_pipe(file) and kind_of_file(file) in _PARQUET for file in files):
            FileFormat(**reading).check(_PARQUET[0], names_of_files(files))
            listed = ", ".join("'" + file.replace("'", "''") + "'" for file in files)
            with _one_sentence():
                self._connection.execute(
                    f"CREATE VIEW {VIEW} AS FROM read_parquet([{listed}], hive_partitioning = false)"
                )
            return
        source = FilesSource(paths, **reading)
        table = as_arrow(source, self._notation)
        self.notes = source.notes
        self._typed = frozenset(field.name for field in table.schema if not is_text(field.type))
        self._connection.register("_table", table)
        self._connection.execute(f"CREATE TABLE {VIEW} AS FROM _table")


def as_arrow(source: FilesSource, notation: Notation) -> pa.Table:
    """All columns of a source in memory, each as what all of its cells are: numbers, times, or text."""
    batches = list(source.frames())
    names = source.columns or dict.fromkeys(name for batch in batches for name in batch.columns)
    return pa.table({name: _as_column(name, batches, notation) for name in names})


def _as_column(name: str, batches: Sequence[Batch], notation: Notation) -> pa.Array | pa.ChunkedArray:
    scan = ColumnScan(name, notation=notation)
    entries = [scan.read(batch) for batch in batches]
    is_one = scan.n_texts == 0 and scan.is_kept_as(entry_kind(scan.kind)) and len(scan.units) < 2
    if scan.kind in (NUMBER, TIME) and is_one and INEXACT not in scan.first:
        return _typed(np.concatenate(entries), scan)
    cells = [batch.columns.get(name, pa.nulls(batch.n_rows, pa.string())) for batch in batches]
    return pa.chunked_array(cells, None if cells else pa.string())


def _typed(values: Any, scan: ColumnScan) -> pa.Array:
    if scan.kind == TIME:
        gaps = np.isnan(values)
        moments = np.where(gaps, 0, np.rint(values * 1e6)).astype(np.int64)
        return pa.array(moments, pa.timestamp("us"), mask=gaps)
    column = pa.array(values, from_pandas=True)
    return column.cast(pa.int64()) if scan.is_whole and max(abs(scan.low), abs(scan.high)) < 2**53 else column


@contextmanager
def _one_sentence() -> Iterator[None]:
    """Errors of DuckDB, which run over many lines, in one."""
    try:
        yield
    except (duckdb.Error, pa.ArrowInvalid) as error:
        raise ValueError(" ".join(str(error).strip().split("\n\n")[0].split())) from None
