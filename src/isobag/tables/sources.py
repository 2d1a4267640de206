"""Where tables come from: files by name, several of them, globs, packed ones, and standard input."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from isobag.data.local import Source
from isobag.data.params import Option, ParameterError
from isobag.tables.batch import Batch
from isobag.tables.cells import BLANKS
from isobag.tables.csvfile import CsvFile
from isobag.tables.jsonfile import JsonFile
from isobag.tables.openers import PACKED, STDIN, Opener, check_encoding, is_stdin
from isobag.tables.terminal import escape_for_terminal

TEXT = (".csv", ".tsv", ".txt")
JSON = (".jsonl", ".ndjson", ".json")
TYPED = {".parquet": "parquet", ".pq": "parquet", ".arrow": "ipc", ".feather": "ipc", ".ipc": "ipc"}
EXCEL = (".xlsx", ".xlsm")
KINDS = (*TEXT, *JSON, *TYPED, *EXCEL)


@dataclass(frozen=True)
class Written:
    """How files are written, as far as they do not say it themselves.

    header, divider : of CSV; see ``CsvFile``.
    form : the ending that says how standard input is written; None: by its first bytes.
    na : texts that stand for a missing value too, in every column of text and JSON.
    skip : lines before the header of CSV, or rows of a sheet.
    encoding : of text and JSON; None for UTF-8.
    sheet : of workbooks; None for the first.
    decimal : sign that numbers of workbooks and JSON get, which may stand among texts.
    """

    header: bool | None = None
    divider: str | None = None
    form: str | None = None
    na: Sequence[str] = ()
    skip: int = 0
    encoding: str | None = None
    sheet: str | None = None
    decimal: str = "."

    def __post_init__(self) -> None:
        check_encoding(self.encoding)

    def check(self, kind: str, name: str) -> None:
        """Refuse what a file of this kind does not have."""
        if self.skip and kind not in (*TEXT, *EXCEL):
            raise ParameterError(Option("skip", self.skip), f": {name} has no lines before a header; leave it out.")
        if self.encoding is not None and kind not in (*TEXT, *JSON):
            raise ParameterError(Option("encoding", self.encoding), f": {name} is not a file of text; leave it out.")
        if self.sheet is not None and kind not in EXCEL:
            raise ParameterError(Option("sheet", self.sheet), f": {name} has no sheets; leave it out.")


class FilesSource(Source):
    """The rows of several files, one file after another; all have the same columns, in any order.

    paths : names of files, globs, or "-" for standard input.
    written : see ``Written``.
    """

    def __init__(self, paths: str | Sequence[str], **written: Any) -> None:
        how = Written(**written)
        self._na = tuple(how.na)
        names = [paths] if isinstance(paths, str) else list(paths)
        self.files = tuple(file for name in names for file in matching_files(name))
        self._openers = [Opener(file, how.encoding) for file in self.files]
        self._parts = [_open(opener, how) for opener in self._openers]
        self._turn = 0
        self.columns = self._common_names()

    @property
    def notes(self) -> tuple[str, ...]:  # type: ignore[override]  # what there is to note is known after a pass
        """Remarks about the files, and how many empty lines were skipped in the last pass."""
        notes = [note for part in self._parts for note in part.notes]
        n_empty = sum(part.n_empty_lines for part in self._parts)
        empty = (f"{n_empty:,} empty lines are skipped.",) if n_empty else ()
        return (*notes_on_folders(self.files), *notes, *empty)

    def frames(self, number: int = 0) -> Iterator[Batch]:
        """The rows of all files in order."""
        sizes = [0] * len(self._parts)
        for self._turn, part in enumerate(self._parts):  # noqa: B020, progress asks whose turn it is
            for batch in part.batches():
                sizes[self._turn] += batch.n_rows
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

    def expected_rows(self, n_read: int) -> int | None:
        """Of files that say it, their number of rows; of text, by the share of the bytes that is read."""
        known = [part.n_rows for part in self._parts]
        if all(n_rows is None for n_rows in known):
            before, now = self._openers[: self._turn], self._openers[self._turn]
            n_done = sum(one.n_bytes for one in before) + now.n_read
            return n_read * sum(one.n_bytes for one in self._openers) // n_done if n_done else None
        return None if None in known else sum(known)

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


def _open(opener: Opener, how: Written) -> Any:
    if opener.is_piped:
        kind = how.form or opener.guessed_kind()
        if kind not in KINDS:
            raise ParameterError(Option("format", kind.lstrip(".")), f"; choose one of {', '.join(KINDS)}.")
    else:
        kind = kind_of_file(opener.file)
    name = opener.name
    how.check(kind, name)
    if kind in TYPED:
        from isobag.tables.typedfile import TypedFile  # noqa: PLC0415, slow to load, and not always needed

        return TypedFile(opener.unpacked() if opener.is_piped else opener.file, name, TYPED[kind])
    if kind in EXCEL:
        from isobag.tables.excelfile import ExcelFile  # noqa: PLC0415, seldom needed

        return ExcelFile(opener, name, how.header, how.skip, how.sheet, how.decimal)
    if kind in JSON:
        return JsonFile(opener, name, how.decimal)
    return CsvFile(opener, name, how.header, "\t" if how.divider is None and kind == ".tsv" else how.divider, how.skip)


def kind_of_file(file: str) -> str:
    """Ending of a file's name that says how it is written, leaving aside that it is packed."""
    endings = [ending.lower() for ending in Path(file).suffixes]
    is_packed = bool(endings) and endings[-1] in PACKED
    kind = (endings[-2] if len(endings) > 1 else "") if is_packed else endings[-1] if endings else ""
    if kind in (*TEXT, *JSON) or (kind in KINDS and not is_packed):
        return kind
    known = ", ".join(KINDS)
    raise ValueError(f"{file!r} has no known ending; need one of {known}; text and JSON also with {', '.join(PACKED)}.")
