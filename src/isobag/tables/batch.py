"""Rows on their way from a file or a frame: a part of its columns, and where each row stands."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from isobag.backends.arrays import Ints
from isobag.data.spool import Tick
from isobag.tables.terminal import escape_for_terminal


class Place(NamedTuple):
    """Where a cell stands: its file, its row there (from 0), its line (from 1; None where there are no lines)."""

    file: str
    row: int
    line: int | None

    def __str__(self) -> str:
        """The place before a colon: cards.csv, row 5 (line 7)."""
        line = "" if self.line is None else f" (line {self.line})"
        return f"{self.file}, row {self.row}{line}" if self.file else f"row {self.row}{line}"

    @property
    def in_words(self) -> str:
        """The place within a sentence: row 5 (line 7 of cards.csv)."""
        if not self.file:
            return f"row {self.row}"
        return f"row {self.row}" + (f" of {self.file}" if self.line is None else f" (line {self.line} of {self.file})")


class Batch(NamedTuple):
    """Some rows of a file, one after another.

    file : its name.
    first_row : number of the first of these rows in the file, from 0.
    lines : (m,), the line that each row begins on, from 1; None where there are no lines.
    columns : an Arrow array (m,) for each column: text as it stands, or a type that the file declares.
    n_rows : m.
    nested : columns in which some cells hold lists or objects, as text.
    is_typed : whether the types of the columns are declared; else all are text that is still to be understood.
    free : columns of such text among those with types.
    kinds : of JSON, for each column the kinds of its values, and the first of these rows with each.
    """

    file: str
    first_row: int
    lines: Ints | None
    columns: dict[str, Any]
    n_rows: int
    nested: frozenset[str] = frozenset()
    is_typed: bool = False
    free: frozenset[str] = frozenset()
    kinds: Mapping[str, Mapping[str, int]] = MappingProxyType({})

    def place(self, i: int) -> Place:
        """Where row i of these stands."""
        return Place(self.file, self.first_row + i, None if self.lines is None else int(self.lines[i]))

    def only(self, i: int) -> "Batch":
        """Row i of these alone."""
        columns = {name: column.slice(i, 1) for name, column in self.columns.items()}
        lines = None if self.lines is None else self.lines[i : i + 1]
        return self._replace(first_row=self.first_row + i, lines=lines, columns=columns, n_rows=1, kinds={})


class Source(ABC):
    """A table that is read in this process, from the start as often as needed: a frame, files or a query.

    columns : names of the columns, in order; None if every row names its own.
    files, notes : names of the files that the rows come from, and remarks about them.
    file_sizes : rows of each of several files, known after a pass over all; nothing where rows come from one place.
    tick : called with the number of rows that are read, for a progress bar.
    first_row, is_part : number of the first row, and whether others are read elsewhere: labels stay as they are.
    """

    columns: Sequence[str] | None
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    file_sizes: Sequence[int] = ()
    tick: Tick | None = None
    first_row: int = 0
    is_part: bool = False

    @abstractmethod
    def frames(self) -> Iterator[Batch]:
        """The rows in order."""

    def read(self) -> Iterator[Batch]:
        """The rows in order, counted for the progress bar."""
        n_rows = 0
        for batch in self.frames():
            yield batch
            n_rows += batch.n_rows
            if self.tick is not None:
                self.tick("reading", n_rows, None)


def names_of_files(files: Sequence[str]) -> str:
    """Several files in few words."""
    shown = ", ".join(map(escape_for_terminal, files[:3]))
    return shown + (f" and {len(files) - 3:,} more" if len(files) > 3 else "")
