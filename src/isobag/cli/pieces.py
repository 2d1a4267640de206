"""Parquet files in pieces that workers read: some row groups of a file each, in the order of the table."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import parquet

from isobag.tables.openers import STDIN
from isobag.tables.sources import TYPED, FilesSource, kind_of_file, matching_files

PIECE_BYTES = 1 << 26
"""Row groups are read together up to so many bytes, unpacked, ..."""
MANY_PIECES = 64
"""... and fewer if there would not be so many pieces: all workers are to have something to do."""
_PARQUET = tuple(ending for ending, kind in TYPED.items() if kind == "parquet")


class Piece(NamedTuple):
    """Row groups from ``first`` to ``stop`` of a file."""

    file: str
    first: int
    stop: int


def files_of(names: Sequence[str]) -> list[str]:
    """Parquet files by name, by glob, or all in a folder, in the order of their names."""
    if not names:
        raise ValueError("Dask reads files; name Parquet files, or a folder of them.")
    files = [
        file for name in names for file in (_files_in(Path(name)) if Path(name).is_dir() else matching_files(name))
    ]
    for file in files:
        if file == STDIN or kind_of_file(file) not in _PARQUET:
            what = "Standard input" if file == STDIN else f"{file!r}"
            raise ValueError(
                f"{what} is not a Parquet file; Dask workers read no other format. Convert it first, for example by "
                "pyarrow.parquet.write_table(pyarrow.csv.read_csv('t.csv'), 't.parquet')."
            )
    return files


def pieces_of(files: Sequence[str]) -> tuple[list[Piece], pa.Schema, list[int]]:
    """All pieces in order, the columns of the first file, which the others have too, and the rows of each file."""
    FilesSource(list(files))  # refuses files whose columns differ
    sizes: list[tuple[str, list[int]]] = []
    n_rows = []
    schema: Any = None
    for file in files:
        with parquet.ParquetFile(file) as opened:
            about = opened.metadata
            schema = schema or opened.schema_arrow
        own = [about.row_group(number).total_byte_size for number in range(about.num_row_groups)]
        sizes.append((str(Path(file).resolve()), own))
        n_rows.append(about.num_rows)
    most = min(PIECE_BYTES, max(sum(sum(own) for _, own in sizes), PIECE_BYTES) // MANY_PIECES)
    return [piece for path, own in sizes for piece in _cut(path, own, most)], schema, n_rows


def _cut(path: str, sizes: Sequence[int], most: int) -> list[Piece]:
    pieces, first, n_bytes = [], 0, 0
    for number, size in enumerate(sizes):
        if number > first and n_bytes + size > most:
            pieces.append(Piece(path, first, number))
            first, n_bytes = number, 0
        n_bytes += size
    return [*pieces, Piece(path, first, len(sizes))]


@dataclass(frozen=True)
class ReadPiece:
    """Reads a piece where it is needed, with the types that the file declares.

    columns : those that are read; others are there by name alone.
    """

    columns: frozenset[str]

    def __call__(self, piece: Piece) -> Any:
        """A frame of pandas that holds Arrow's columns."""
        try:
            with parquet.ParquetFile(piece.file) as opened:
                schema = opened.schema_arrow
                if piece.first == piece.stop:
                    return self.empty(schema)
                groups = list(range(piece.first, piece.stop))
                table = opened.read_row_groups(groups, [name for name in schema.names if name in self.columns])
                return self._as_frame(table, schema.names)
        except (pa.ArrowInvalid, OSError) as error:
            said = " ".join(str(error).split()).rstrip(".")
            raise ValueError(f"{piece.file} cannot be read by a worker: {said}.") from None

    def empty(self, schema: pa.Schema) -> Any:
        """A frame without rows."""
        return self._as_frame(schema.empty_table(), schema.names)

    def _as_frame(self, table: pa.Table, names: Sequence[str]) -> Any:
        import pandas as pd  # noqa: PLC0415, not needed by any other command

        columns = [_plain(table[name]) if name in self.columns else pa.nulls(len(table)) for name in names]
        # Made anew, without pandas' own notes, by which columns become an index.
        return pa.table(columns, names=names).to_pandas(types_mapper=pd.ArrowDtype)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column without a dictionary, which may differ from piece to piece."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _files_in(folder: Path) -> list[str]:
    files = sorted(str(one) for ending in _PARQUET for one in folder.rglob(f"*{ending}") if one.name[0] not in "_.")
    if not files:
        raise FileNotFoundError(f"{str(folder)!r} has no Parquet files.")
    keys = [part for file in files for part in Path(file).relative_to(folder).parts[:-1] if "=" in part]
    if keys:
        raise ValueError(
            f"{str(folder)!r} keeps a column in the names of its folders ({keys[0]!r}), which is not read; to do "
            f"without it, name the files: {str(folder / '**' / '*.parquet')!r}."
        )
    return files
