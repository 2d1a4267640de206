"""Tables in files: CSV, TSV, JSON Lines, Parquet, Arrow; read by DuckDB in batches, written whole or not at all."""

import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from typing import IO, Any

import duckdb
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.ipc as pa_ipc

from isobag.storage.atomic import writing

BATCH_ROWS = 1 << 16
NO_VALUE = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
"""What stands for a missing value in CSV and TSV."""
VIEW = "data"
"""Name of the given file in SQL."""

_SCANS = {
    ".csv": "read_csv({path}, {dialect})",
    ".tsv": "read_csv({path}, {dialect})",
    ".txt": "read_csv({path}, {dialect})",
    ".jsonl": "read_json({path}, format='newline_delimited')",
    ".ndjson": "read_json({path}, format='newline_delimited')",
    ".json": "read_json({path})",
    ".parquet": "read_parquet({path})",
    ".pq": "read_parquet({path})",
}
_TEXT = (".csv", ".tsv", ".txt")
_ARROW = (".arrow", ".feather", ".ipc")
_PACKED = (".gz", ".zst")


class FileTable:
    """The rows of files or of a query, in the order of the files, to be read in batches as often as needed."""

    def __init__(self, path: str | None, sql: str | None = None) -> None:
        if path is None and sql is None:
            raise ValueError("Neither a file nor a query is given; name a file, or pass sql=.")
        self._connection = duckdb.connect(":memory:", config={"autoinstall_known_extensions": "false"})
        self._connection.execute("SET preserve_insertion_order = true")
        self._connection.execute("SET enable_progress_bar = false")
        self._arrow: Any = None
        if path is not None:
            self._open(path)
        # In parentheses only a query is understood, so that no other statement is ever run.
        self._from = VIEW if sql is None else f"({sql.rstrip().rstrip(';')}\n)"
        with _one_sentence():
            self.schema: pa.Schema = self._connection.sql(f"FROM {self._from} LIMIT 0").to_arrow_table().schema

    def batches(self, columns: Iterable[str] | None = None) -> Iterator[pa.Table]:
        """The rows in order, about BATCH_ROWS at a time; only some columns if asked for."""
        names = "*" if columns is None else ", ".join(_quoted_name(name) for name in columns)
        # A connection of its own: an open result keeps any other query from its connection.
        with _one_sentence(), self._connection.cursor() as cursor:
            if self._arrow is not None:
                cursor.register(VIEW, self._arrow)
            for batch in cursor.sql(f"SELECT {names} FROM {self._from}").to_arrow_reader(BATCH_ROWS):
                yield pa.Table.from_batches([batch])

    def read(self, columns: Iterable[str] | None = None) -> pa.Table:
        """All rows, in memory."""
        names = None if columns is None else list(columns)
        schema = self.schema if names is None else pa.schema([self.schema.field(name) for name in names])
        parts = list(self.batches(names))
        return pa.concat_tables(parts) if parts else schema.empty_table()

    def _open(self, path: str) -> None:
        kind = _kind(path)
        files = sorted(glob(path, recursive=True)) or [one for one in (path,) if Path(one).exists()]
        if not files:
            raise FileNotFoundError(f"No file matches {path!r}.")
        if kind in _ARROW:
            # DuckDB has no reader for these files of its own, and one of pyarrow's reads only what is asked for.
            import pyarrow.dataset as pa_dataset  # noqa: PLC0415, slow to load, and seldom needed

            with _one_sentence():
                self._arrow = pa_dataset.dataset(files, format="ipc")
                self._connection.register(VIEW, self._arrow)
            return
        dialect = _dialect(files[0], kind) if kind in _TEXT else ""
        with _one_sentence():
            first: list[str] = []
            for file in files if len(files) > 1 else []:
                scan = _SCANS[kind].format(path=_quoted_text(file), dialect=dialect)
                names = self._connection.sql(f"FROM {scan} LIMIT 0").columns
                first = first or names
                if sorted(names) != sorted(first):
                    odd = ", ".join(map(repr, sorted(set(names) ^ set(first))))
                    raise ValueError(f"{file!r} and {files[0]!r} do not have the same columns; they differ in {odd}.")
            scan = _SCANS[kind].format(path=_quoted_text(path), dialect=dialect)
            self._connection.execute(f"CREATE VIEW {VIEW} AS FROM {scan}")


def write_table(path: str | Path, batches: Iterable[dict[str, Any]]) -> None:
    """Write columns, some rows at a time, to .parquet, .csv, .jsonl or .arrow: the whole file or none."""
    kind = check_output(path)
    with writing(path) as file:
        writer = None
        for columns in batches:
            table = pa.table({name: _as_column(values) for name, values in columns.items()})
            writer = writer or _WRITERS[kind](file, table.schema)
            writer(table)
        if writer is not None:
            writer(None)


def check_output(path: str | Path) -> str:
    """The kind of a file to be written, by its name."""
    kind = Path(path).suffix.lower()
    if kind not in _WRITERS:
        raise ValueError(f"{str(path)!r} has no known ending; choose one of {', '.join(_WRITERS)}.")
    return kind


def _as_column(values: Any) -> Any:
    """An Arrow column, in which NaN is nothing."""
    return values if isinstance(values, pa.ChunkedArray) else pa.array(values, from_pandas=True)


def _write_parquet(file: IO[bytes], schema: pa.Schema) -> Callable[[pa.Table | None], None]:
    from pyarrow.parquet import ParquetWriter  # noqa: PLC0415, slow to load, and seldom needed

    writer = ParquetWriter(file, schema)
    return lambda table: writer.close() if table is None else writer.write_table(table)


def _write_csv(file: IO[bytes], schema: pa.Schema) -> Callable[[pa.Table | None], None]:
    writer = pa_csv.CSVWriter(file, schema)
    return lambda table: writer.close() if table is None else writer.write_table(table)


def _write_arrow(file: IO[bytes], schema: pa.Schema) -> Callable[[pa.Table | None], None]:
    writer = pa_ipc.new_file(file, schema)
    return lambda table: writer.close() if table is None else writer.write_table(table)


def _write_jsonl(file: IO[bytes], schema: pa.Schema) -> Callable[[pa.Table | None], None]:
    def write(table: pa.Table | None) -> None:
        if table is not None:
            rows = (json.dumps(row, ensure_ascii=False, default=str) for row in table.to_pylist())
            file.writelines(f"{row}\n".encode() for row in rows)

    return write


_WRITERS = {
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".jsonl": _write_jsonl,
    ".arrow": _write_arrow,
    ".feather": _write_arrow,
}


def _kind(path: str) -> str:
    """Ending of a file's name that says how it is written, leaving aside that it is packed."""
    if Path(path).is_dir():
        raise ValueError(f"{path!r} is a folder; name its files, for example {str(Path(path) / '*.parquet')!r}.")
    endings = [ending.lower() for ending in Path(path).suffixes]
    kind = endings[-2] if len(endings) > 1 and endings[-1] in _PACKED else endings[-1] if endings else ""
    if kind not in (*_SCANS, *_ARROW):
        known = ", ".join((*_SCANS, *_ARROW))
        raise ValueError(f"{path!r} has no known ending; rename it or choose one of {known}, also with {_PACKED[0]}.")
    return kind


def _dialect(file: str, kind: str) -> str:
    """How a text file is to be read: the first line names the columns and says what divides them; no line is skipped.

    Left to guess, DuckDB drops lines that do not fit, and the names with them.
    """
    head = ["", ""]
    if not file.lower().endswith(".zst"):
        opened = gzip.open if file.lower().endswith(".gz") else open
        with opened(file, "rt", encoding="utf-8", errors="replace") as lines:
            head = [lines.readline(), lines.readline()]
        if not head[0].strip():
            raise ValueError(f"{file!r} is empty; the first line must name the columns.")
    divider = "\t" if kind == ".tsv" else max(",;|\t", key=head[0].count)
    decimal = "," if divider != "," and re.search(r"\d,\d", head[1]) else "."
    form = f"delim='{divider}', quote='\"', escape='\"', decimal_separator='{decimal}'"
    strict = "header=true, skip=0, strict_mode=true, null_padding=false, ignore_errors=false"
    return f"{form}, {strict}, nullstr={[*NO_VALUE]}"


@contextmanager
def _one_sentence() -> Iterator[None]:
    """Errors of DuckDB and Arrow, which run over many lines, in one."""
    try:
        yield
    except (duckdb.Error, pa.ArrowInvalid, OSError) as error:
        # What goes wrong in DuckDB while Arrow reads from it comes as an error of the system without a number.
        if isinstance(error, OSError) and (error.errno is not None or isinstance(error, FileNotFoundError)):
            raise
        said = str(error).strip().split("\n\n")[0]
        if "sniffing file" in said:
            name = said.split('sniffing file "')[-1].split('"')[0]
            said = f"{name!r} cannot be read: some lines have more or fewer fields than the first."
        raise ValueError(" ".join(said.split())) from None


def _quoted_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _quoted_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
