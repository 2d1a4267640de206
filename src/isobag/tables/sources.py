"""Where tables come from: files by name, several of them, globs, packed ones, and standard input."""

import bz2
import gzip
import io
import lzma
import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from glob import glob, has_magic
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from isobag.data.local import Source
from isobag.tables.batch import Batch
from isobag.tables.cells import BLANKS
from isobag.tables.csvfile import CsvFile
from isobag.tables.jsonfile import JsonFile
from isobag.tables.terminal import escape_for_terminal

STDIN = "-"
TEXT = (".csv", ".tsv", ".txt")
JSON = (".jsonl", ".ndjson", ".json")
TYPED = {".parquet": "parquet", ".pq": "parquet", ".arrow": "ipc", ".feather": "ipc", ".ipc": "ipc"}
PACKED = (".gz", ".bz2", ".xz", ".zst")


class FilesSource(Source):
    """The rows of several files, one file after another; all have the same columns, in any order.

    paths : names of files, globs, or "-" for standard input.
    header, divider : of CSV; see ``CsvFile``.
    form : the ending that says how standard input is written; without it, ".csv".
    na : texts that stand for a missing value too, in every column of text and JSON.
    """

    def __init__(
        self,
        paths: str | Sequence[str],
        header: bool | None = None,
        divider: str | None = None,
        form: str | None = None,
        na: Sequence[str] = (),
    ) -> None:
        self._na = tuple(na)
        names = [paths] if isinstance(paths, str) else list(paths)
        self.files = tuple(file for name in names for file in matching_files(name))
        self._openers = [_Piped(sys.stdin.buffer) if file == STDIN else _Opener(file) for file in self.files]
        self._parts = [
            _open(file, opened, header, divider, form) for file, opened in zip(self.files, self._openers, strict=True)
        ]
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
        for self._turn, part in enumerate(self._parts):  # noqa: B020, progress asks whose turn it is
            yield from map(self._with_gaps, part.batches()) if self._na else part.batches()

    def _with_gaps(self, batch: Batch) -> Batch:
        """The rows, with null where a text stands that is to count as missing."""
        if batch.is_typed:
            return batch
        texts, null = pa.array(self._na, pa.string()), pa.scalar(None, pa.string())
        columns = {
            name: pc.if_else(pc.is_in(pc.utf8_trim(cells, BLANKS), value_set=texts), null, cells)
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
    if name == STDIN:
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


def _open(file: str, opened: Callable[[], Any], header: bool | None, divider: str | None, form: str | None) -> Any:
    if file == STDIN:
        name, kind = "standard input", form or ".csv"
        if kind in TYPED:
            raise ValueError(f"Standard input cannot be {kind}; need CSV or JSON Lines.")
    else:
        name, kind = escape_for_terminal(file), kind_of_file(file)
    if kind in TYPED:
        from isobag.tables.typedfile import TypedFile  # noqa: PLC0415, slow to load, and not always needed

        return TypedFile(file, name, TYPED[kind])
    if kind in JSON:
        return JsonFile(opened, name)
    return CsvFile(opened, name, header, "\t" if divider is None and kind == ".tsv" else divider)


def kind_of_file(file: str) -> str:
    """Ending of a file's name that says how it is written, leaving aside that it is packed."""
    endings = [ending.lower() for ending in Path(file).suffixes]
    is_packed = bool(endings) and endings[-1] in PACKED
    kind = (endings[-2] if len(endings) > 1 else "") if is_packed else endings[-1] if endings else ""
    if kind in (*TEXT, *JSON) or (kind in TYPED and not is_packed):
        return kind
    known = ", ".join((*TEXT, *JSON, *TYPED))
    raise ValueError(f"{file!r} has no known ending; need one of {known}; text and JSON also with {', '.join(PACKED)}.")


_UNPACK: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": lambda raw: gzip.GzipFile(fileobj=raw),
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
    ".zst": lambda raw: pa.CompressedInputStream(raw, "zstd"),
}


class _Opener:
    """Opens a file at its start as often as asked, and knows how many of its bytes are read."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._raw: Any = None
        self.n_bytes = os.path.getsize(file)

    def __call__(self) -> IO[bytes]:
        ending = Path(self._file).suffix.lower()
        self._raw = pa.OSFile(self._file) if ending == ".zst" else open(self._file, "rb")  # noqa: SIM115, see below
        unpack = _UNPACK.get(ending)  # who reads the stream closes it
        return (
            self._raw
            if unpack is None
            else io.BufferedReader(_Unpacked(unpack(self._raw), self._file, self._raw), 1 << 20)
        )

    @property
    def n_read(self) -> int:
        return 0 if self._raw is None else self.n_bytes if self._raw.closed else int(self._raw.tell())


class _Piped:
    """What can be read once, kept in a temporary file without a name so that it can be read again."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._kept = tempfile.TemporaryFile(prefix="isobag-")  # noqa: SIM115, open while in use
        weakref.finalize(self, self._kept.close)
        shutil.copyfileobj(stream, self._kept, 1 << 20)
        self.n_bytes = self._kept.tell()

    def __call__(self) -> IO[bytes]:
        self._kept.seek(0)
        return open(os.dup(self._kept.fileno()), "rb")

    @property
    def n_read(self) -> int:
        return os.lseek(self._kept.fileno(), 0, os.SEEK_CUR)


class _Unpacked(io.RawIOBase):
    """A packed file; what is wrong with it is said in one sentence."""

    def __init__(self, stream: Any, file: str, raw: Any) -> None:
        self._stream, self._file, self._raw = stream, file, raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            return int(self._stream.readinto(buffer))
        except (OSError, EOFError, lzma.LZMAError, pa.ArrowInvalid) as error:
            said = " ".join(str(error).split())
            raise ValueError(f"{escape_for_terminal(self._file)} cannot be unpacked: {said}") from None

    def close(self) -> None:
        self._stream.close()
        self._raw.close()
        super().close()
