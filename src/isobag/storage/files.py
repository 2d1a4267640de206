"""Tables into files: CSV, JSON Lines, Parquet, Arrow; written whole or not at all."""

import errno
import gzip
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.ipc as pa_ipc

from isobag.storage.atomic import writing

BATCH_ROWS = 1 << 16
STDOUT = "-"


def write_table(paths: str | Path | Sequence[str | Path], batches: Iterable[dict[str, Any]]) -> None:
    """Write columns, some rows at a time, to .parquet, .csv, .jsonl or .arrow: the whole file or none; - is stdout.

    paths : one file, or several that get the same.
    """
    targets = [paths] if isinstance(paths, str | Path) else list(paths)
    kinds = [check_output(path) for path in targets]
    with ExitStack() as stack:
        opened = [stack.enter_context(_opened(path)) for path in targets]
        files = list(map(_Target, targets, kinds, opened))
        for columns in batches:
            table = pa.table({name: _as_column(values) for name, values in columns.items()})
            for file in files:
                file.write(table)
        for file in files:
            file.close()


class _Target:
    """A file that is being written."""

    def __init__(self, path: str | Path, kind: str, file: IO[bytes]) -> None:
        self._kind, self._file = kind, file
        self._writer: Any = None
        self._naming = naming_stdout if str(path) == STDOUT else nullcontext  # files on disk name themselves

    def write(self, table: pa.Table) -> None:
        with self._naming():
            self._writer = self._writer or _WRITERS[self._kind](self._file, table.schema)
            self._writer.write_table(table)

    def close(self) -> None:
        with self._naming():
            if self._writer is not None:
                self._writer.close()
            self._file.flush()


@contextmanager
def naming_stdout() -> Iterator[None]:
    """A context in which a failed write that names no file is an error of standard output."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None or error.errno == errno.EPIPE:
            raise
        raise OSError(error.errno, os.strerror(error.errno), "standard output") from None


def check_output(path: str | Path) -> str:
    """The kind of a file to be written, by its name; standard output gets CSV."""
    if str(path) == STDOUT:
        return ".csv"
    name = str(path).lower().removesuffix(".gz")
    kind = Path(name).suffix
    if kind not in _WRITERS or (name != str(path).lower() and kind not in _TEXT):
        endings = ", ".join((*_WRITERS, *(f"{kind}.gz" for kind in _TEXT)))
        raise ValueError(f"{str(path)!r} has no known ending; choose one of {endings}.")
    return kind


@contextmanager
def _opened(path: str | Path) -> Iterator[IO[bytes]]:
    if str(path) == STDOUT:
        yield sys.stdout.buffer
        return
    with writing(path) as file:
        if not str(path).lower().endswith(".gz"):
            yield file
            return
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
            yield packed  # type: ignore[misc]  # to be written to like any other


def _as_column(values: Any) -> Any:
    """An Arrow column, in which NaN is nothing."""
    return values if isinstance(values, pa.ChunkedArray | pa.Array) else pa.array(values, from_pandas=True)


class _JsonWriter:
    """Writes tables as JSON Lines, with the methods of Arrow's writers."""

    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        self._file = file

    def write_table(self, table: pa.Table) -> None:
        rows = (json.dumps(row, ensure_ascii=False, default=str) for row in table.to_pylist())
        self._file.writelines(f"{row}\n".encode() for row in rows)

    def close(self) -> None:
        """The file is closed by whoever opened it."""


def _parquet_writer(file: IO[bytes], schema: pa.Schema) -> Any:
    from pyarrow.parquet import ParquetWriter  # noqa: PLC0415, slow to load, and seldom needed

    return ParquetWriter(file, schema)


_TEXT = (".csv", ".jsonl")
_WRITERS: dict[str, Callable[[IO[bytes], pa.Schema], Any]] = {
    ".parquet": _parquet_writer,
    ".csv": pa_csv.CSVWriter,
    ".jsonl": _JsonWriter,
    ".arrow": pa_ipc.new_file,
    ".feather": pa_ipc.new_file,
}
