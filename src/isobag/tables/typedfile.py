"""Parquet and Arrow files, whose columns have declared types: numbers, texts, times, read batch by batch."""

import weakref
from collections.abc import Iterator
from typing import IO, Any

import pyarrow as pa
import pyarrow.dataset as pa_dataset
from pyarrow.fs import LocalFileSystem
from pyarrow.parquet import ParquetFile

from isobag.tables.batch import Batch
from isobag.tables.tablefile import TableFile, check_names_differ

BATCH_ROWS = 1 << 16
BUFFER_BYTES = 1 << 20
"""Of every column, so much of a Parquet file is read at a time."""


class TypedFile(TableFile):
    """One Parquet or Arrow file (``form``: "parquet" or "ipc"); ``source``: its path, or a stream that can seek."""

    def __init__(self, source: str | IO[bytes], file: str, form: str) -> None:
        self._source, self._file, self._form = source, file, form
        if not isinstance(source, str):
            weakref.finalize(self, source.close)
        written = pa_dataset.ParquetFileFormat() if form == "parquet" else pa_dataset.IpcFileFormat()
        try:
            self._fragment = written.make_fragment(source, LocalFileSystem() if isinstance(source, str) else None)
            schema = self._fragment.physical_schema
        except (pa.ArrowInvalid, OSError) as error:
            raise ValueError(f"{file} cannot be read: {_one_line(error)}") from None
        self.names = tuple(schema.names)
        check_names_differ(self.names, file)
        self._nested = frozenset(field.name for field in schema if pa.types.is_nested(field.type))

    def batches(self) -> Iterator[Batch]:
        """The rows in order, with the types of the file."""
        row = 0
        try:
            for part in self._parts():
                if part.num_rows:
                    columns = dict(zip(part.schema.names, part.columns, strict=True))
                    yield Batch(self._file, row, None, columns, part.num_rows, self._nested, is_typed=True)
                row += part.num_rows
        except (pa.ArrowInvalid, OSError) as error:
            raise ValueError(f"{self._file}, after row {row:,}: {_one_line(error)}") from None

    def _parts(self) -> Iterator[Any]:
        if self._form != "parquet":
            yield from self._fragment.to_batches(batch_size=BATCH_ROWS)
            return
        # A dataset would read ahead, and hold more of the file than memory may have.
        with ParquetFile(self._source, pre_buffer=False, buffer_size=BUFFER_BYTES) as opened:
            yield from opened.iter_batches(BATCH_ROWS)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
