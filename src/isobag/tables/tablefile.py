"""What the readers of all kinds of files have in common: their shape, what a user may say about a file, names."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isobag.tables.batch import Batch
from isobag.tables.cells import is_missing, number_of
from isobag.tables.openers import PACKED, check_encoding

TEXT = (".csv", ".tsv", ".txt")
JSON = (".jsonl", ".ndjson", ".json")
TYPED = {".parquet": "parquet", ".pq": "parquet", ".arrow": "ipc", ".feather": "ipc", ".ipc": "ipc"}
EXCEL = (".xlsx", ".xlsm")
KINDS = (*TEXT, *JSON, *TYPED, *EXCEL)
BOM = b"\xef\xbb\xbf"
"""The byte order mark, which some programs write before UTF-8."""


@dataclass(frozen=True)
class FileFormat:
    """How files are written, as far as they do not say it themselves.

    header : of CSV and sheets: True if the first row names the columns, False if it is data; None: data if it holds
        numbers only.
    delimiter : what stands between cells of CSV, "tab" for one; None for the most frequent of some in the first line.
    format : the ending that says how standard input is written; None: by its first bytes.
    na : texts that stand for a missing value too, in every column of text and JSON.
    skip : lines before the header of CSV, or rows of a sheet, which are not looked at.
    encoding : of text and JSON; None for UTF-8.
    sheet : of workbooks; None for the first.
    decimal : sign that numbers of workbooks and JSON get, which may stand among texts.
    """

    header: bool | None = None
    delimiter: str | None = None
    format: str | None = None
    na: Sequence[str] = ()
    skip: int = 0
    encoding: str | None = None
    sheet: str | None = None
    decimal: str = "."

    def __post_init__(self) -> None:
        check_encoding(self.encoding)
        sign = {"tab": "\t", "\\t": "\t"}.get(self.delimiter or "", self.delimiter)
        if sign is not None and (len(sign) != 1 or sign in '"\r\n'):
            raise ValueError(f"delimiter={sign!r}: need one character that divides cells, or tab.")
        object.__setattr__(self, "delimiter", sign)

    def check(self, kind: str, name: str) -> None:
        """Refuse what a file of this kind does not have."""
        if self.skip and kind not in (*TEXT, *EXCEL):
            raise ValueError(f"skip={self.skip}: {name} has no lines before a header; leave it out.")
        if self.encoding is not None and kind not in (*TEXT, *JSON):
            raise ValueError(f"encoding={self.encoding!r}: {name} is not a file of text; leave it out.")
        if self.sheet is not None and kind not in EXCEL:
            raise ValueError(f"sheet={self.sheet!r}: {name} has no sheets; leave it out.")


class TableFile(ABC):
    """One file, read from the start with every call of ``batches``.

    opened : called for a new binary stream.
    file : its name, for errors.
    names : of the columns; None if every row names its own.
    notes : remarks on the file.
    n_empty_lines : how many were skipped in the last pass.
    """

    names: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    n_empty_lines = 0

    def __init__(self, opened: Callable[[], Any], file: str, how: FileFormat) -> None:
        self._opened, self._file, self._how = opened, file, how

    @abstractmethod
    def batches(self) -> Iterator[Batch]:
        """The rows in order."""


def kind_of_file(file: str) -> str:
    """Ending of a file's name that says how it is written, leaving aside that it is packed."""
    endings = [ending.lower() for ending in Path(file).suffixes]
    is_packed = bool(endings) and endings[-1] in PACKED
    kind = "".join(endings[-2:-1] if is_packed else endings[-1:])
    if kind in (*TEXT, *JSON) or (kind in KINDS and not is_packed):
        return kind
    kinds = ", ".join(KINDS)
    raise ValueError(f"{file!r} has no known ending; need one of {kinds}; text and JSON also with {', '.join(PACKED)}.")


def name_columns(first: Sequence[str], header: bool | None, file: str) -> tuple[tuple[str, ...], bool, list[str]]:
    """Names of the columns by the first row, whether that is data, and notes on it."""
    numbers = [cell for cell in first if number_of(cell) is not None]
    is_data, notes = header is False, []
    if header is None and numbers:
        is_data = all(number_of(cell) is not None or is_missing(cell) for cell in first)
        shown = ", ".join(map(repr, numbers[:3]))
        notes.append(
            f"The first row of {file} holds numbers only: it is read as data, and columns are numbered."
            if is_data
            else f"The first row of {file} is read as names, although some are numbers ({shown})."
        )
    names = [f"column{j}" for j in range(1, len(first) + 1)] if is_data else list(first)
    for j, name in enumerate(names):
        if not name:
            names[j] = f"column{j + 1}"
            notes.append(f"Column {j + 1} of {file} has no name; it is called {names[j]!r}.")
    check_names_differ(names, file)
    return tuple(names), is_data, notes


def check_names_differ(names: Sequence[str], file: str) -> None:
    """Refuse two columns of one name."""
    for j, name in enumerate(names):
        if name in names[:j]:
            where = f"columns {names.index(name) + 1} and {j + 1}"
            raise ValueError(f"{file}: two columns are called {name!r} ({where}); rename one.")


def not_utf8(place: str, byte: int) -> ValueError:
    """The error of text in another encoding."""
    return ValueError(
        f"{place}: byte 0x{byte:02X} is not UTF-8; say what the file is written in, such as encoding='latin-1'."
    )
