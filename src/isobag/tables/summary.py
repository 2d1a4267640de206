"""Every column accounted for: what it is, what is in it, whether it is used, and if not, why."""

import warnings
from dataclasses import asdict, dataclass
from typing import Any

from isobag.tables.terminal import escape_for_terminal

FEATURE, ID, GROUP, LEFT_OUT = "feature", "id", "group", "left out"
TIMES = "time"
FILE = "file"
"""The column of results that says which of several files a row is from."""
EXCLUDED = "excluded"
CONSTANT = "the same in every row"
COPY = "a copy of"
RELAXED = "--numbers relaxed"
EXCLUDE = "--exclude"
"""As the command spells them in reasons."""


@dataclass(frozen=True)
class ColumnSummary:
    """One column of a table.

    role : FEATURE, ID, GROUP, TIMES or LEFT_OUT.
    kind : number, bool, time, text, other (lists, objects, bytes) or empty.
    n_numbers, n_times, n_texts, n_missing : how many of its cells are what; a bad cell that is taken for a missing
        value still counts among the texts.
    reason : why it is left out, or what else there is to say; "" for nothing.
    """

    name: str
    role: str
    kind: str
    n_numbers: int
    n_times: int
    n_texts: int
    n_missing: int
    reason: str = ""


@dataclass(frozen=True)
class TableSummary:
    """A table as it was read: where from, how many rows, what there is to note, and every column.

    n_dropped : rows that take no part; n_unlabelled : those of them without the label of a group.
    """

    files: tuple[str, ...]
    n_rows: int
    n_dropped: int
    columns: tuple[ColumnSummary, ...]
    notes: tuple[str, ...] = ()
    n_unlabelled: int = 0

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @property
    def left_out(self) -> tuple[ColumnSummary, ...]:
        """The columns that are left out."""
        return tuple(column for column in self.columns if column.role == LEFT_OUT)

    def warn(self, chosen_by_us: bool) -> None:
        """Warn of columns that were left out, unless the user chose them, and of rows without a group."""
        unused = [one for one in self.left_out if one.reason != EXCLUDED]
        if chosen_by_us and unused:
            names = ", ".join(f"{one.name!r} ({one.reason})" for one in unused)
            sentence = f"Left out: {names}; name the columns to use with features=."
            warnings.warn(sentence.replace(RELAXED, "numbers='relaxed'"), stacklevel=4)
        if self.n_unlabelled:
            warnings.warn(self.rows_left_out()[0], stacklevel=4)

    def warn_of_remarks(self) -> None:
        """Warn of columns that are used and have a remark, except constants and copies, which are harmless."""
        for column in self.columns:
            if column.role == FEATURE and column.reason and not column.reason.startswith((CONSTANT, COPY)):
                reason = column.reason.replace(f"{EXCLUDE} {column.name}", f"exclude=[{column.name!r}]")
                warnings.warn(f"{column.name}: {reason}.", stacklevel=4)

    def rows_left_out(self) -> list[str]:
        """How many rows take no part, and why."""
        n_gaps = self.n_dropped - self.n_unlabelled
        reasons = {"have no group label": self.n_unlabelled, "have missing values": n_gaps}
        return [f"{n:,} of {self.n_rows:,} rows {why} and were skipped." for why, n in reasons.items() if n]

    def sentences(self) -> list[str]:
        """Notes, columns left out, and remarks on those used; for the command and the report."""
        sentences = [*self.notes, *self.rows_left_out()]
        by_reason: dict[str, list[str]] = {}
        for column in self.left_out:
            by_reason.setdefault(column.reason, []).append(escape_for_terminal(column.name))
        sentences += [f"Left out: {', '.join(names)} ({reason})." for reason, names in by_reason.items()]
        remarks = [column for column in self.columns if column.role == FEATURE and column.reason]
        return [*sentences, *(f"{escape_for_terminal(column.name)}: {column.reason}." for column in remarks)]
