"""Where tables come from: files by name, several of them, globs, packed ones, and standard input."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from isobag.tables.batch import Batch, Source
from isobag.tables.cells import BLANKS
from isobag.tables.csvfile import CsvFile
from isobag.tables.jsonfile import JsonFile
from isobag.tables.openers import STDIN, Opener, is_stdin
from isobag.tables.tablefile import EXCEL, JSON, KINDS, TYPED, FileFormat, TableFile, kind_of_file
from isobag.tables.terminal import escape_for_terminal


class FilesSource(Source):
    """The rows of several files, one file after another; all have the same columns, in any order.

    paths : names of files, globs, or "-" for standard input.
    how : fields of ``FileFormat``.
    """

    def __init__(self, paths: str | Sequence[str], **how: Any) -> None:
        written = FileFormat(**how)
        self._na = tuple(written.na)
        names = [paths] if isinstance(paths, str) else list(paths)
        self.files = tuple(file for name in names for file in matching_files(name))
        self._parts = [_open(Opener(file, written.encoding), written) for file in self.files]
        self.columns = self._common_names()

    @property
    def notes(self) -> tuple[str, ...]:  # type: ignore[override]  # what there is to note is known after a pass
        """Remarks about the files, and how many empty lines were skipped in the last pass."""
        notes = [note for part in self._parts for note in part.notes]
        n_empty = sum(part.n_empty_lines for part in self._parts)
        empty = (f"{n_empty:,} empty lines are skipped.",) if n_empty else ()
        return (*notes_on_folders(self.files), *notes, *empty)

    def frames(self) -> Iterator[Batch]:
        """The rows of all files in order."""
        sizes = [0] * len(self._parts)
        for number, part in enumerate(self._parts):
            for batch in part.batches():
                sizes[number] += batch.n_rows
                yield self._with_gaps(batch) if self._na else batch
        self.file_sizes = sizes if len(sizes) > 1 else ()

    def _with_gaps(self, batch: Batch) -> Batch:
        """The rows, with null where a text stands that is to count as missing."""
        texts, null = pa.array(self._na, pa.string()), pa.scalar(None, pa.string())
        columns = {
            name: pc.if_else(pc.is_in(pc.utf8_trim(cells, BLANKS), value_set=texts), null, cells)
            if not batch.is_typed or name in batch.free
            else cells
            for name, cells in batch.columns.items()
        }
        return batch._replace(columns=columns)

    def _common_names(self) -> tuple[str, ...] | None:
        """Names of the columns; None for JSON, where every row names its own."""
        common: tuple[str, ...] | None = None
        for file, part in zip(self.files, self._parts, strict=True):
            if part.names is None:
                continue
            common = common or part.names
            if set(part.names) != set(common):
                odd = ", ".join(map(repr, sorted(set(part.names) ^ set(common))))
                first = escape_for_terminal(self.files[0])
                raise ValueError(
                    f"{escape_for_terminal(file)} and {first} do not have the same columns; they differ in {odd}."
                )
        return common


def matching_files(name: str) -> list[str]:
    """Files of a name, a glob, or "-"."""
    if is_stdin(name):
        return [STDIN]
    if Path(name).is_dir():
        raise ValueError(f"{name!r} is a folder; name its files, for example {str(Path(name) / '*.parquet')!r}.")
    if Path(name).exists():
        return [name]
    files = sorted(one for one in glob(name, recursive=True) if Path(one).is_file()) if has_magic(name) else []
    if not files:
        raise FileNotFoundError(f"No file matches {name!r}.")
    return files


def notes_on_folders(files: Sequence[str]) -> tuple[str, ...]:
    """A remark if folders are called like day=5: such columns are not read, by any engine or query."""
    keys = dict.fromkeys(part.split("=")[0] for file in files for part in Path(file).parts[:-1] if "=" in part)
    names = ", ".join(escape_for_terminal(repr(key)) for key in keys)
    return (f"Not read: {names}, which stands in the names of folders alone; write it into the files.",) if keys else ()


def _open(opener: Opener, how: FileFormat) -> TableFile:
    if opener.is_piped:
        kind = f".{how.format.lstrip('.').lower()}" if how.format else opener.guessed_kind()
        if kind not in KINDS:
            raise ValueError(f"format={kind.lstrip('.')!r}; choose one of {', '.join(KINDS)}.")
    elif how.format:
        raise ValueError(f"format={how.format!r}: the ending of {opener.name} says what it is; leave it out.")
    else:
        kind = kind_of_file(opener.file)
    how.check(kind, opener.name)
    if kind in TYPED:
        from isobag.tables.typedfile import TypedFile  # noqa: PLC0415, slow to load, and not always needed

        return TypedFile(opener.unpacked() if opener.is_piped else opener.file, opener.name, TYPED[kind])
    if kind in EXCEL:
        from isobag.tables.excelfile import ExcelFile  # noqa: PLC0415, seldom needed

        return ExcelFile(opener, opener.name, how)
    if kind in JSON:
        return JsonFile(opener, opener.name, how)
    return CsvFile(opener, opener.name, replace(how, delimiter="\t") if kind == ".tsv" and not how.delimiter else how)
