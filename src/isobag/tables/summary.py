"""Every column accounted for: what it is, what is in it, whether it is used, and if not, why."""

import warnings
from dataclasses import asdict, dataclass
from typing import Any

from isobag.tables.terminal import escape_for_terminal

FEATURE, ID, GROUP, LEFT_OUT = "feature", "id", "group", "left out"
UNKNOWN = "unknown"


@dataclass(frozen=True)
class ColumnSummary:
    """One column of a table.

    role : FEATURE, ID, GROUP or LEFT_OUT.
    kind : number, bool, time, text, other (lists, objects, bytes) or empty; unknown if no cell was looked at, as of
        columns that are no features of a table in partitions.
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

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class TableSummary:
    """A table as it was read: where from, how many rows, what there is to note, and every column."""

    files: tuple[str, ...]
    n_rows: int
    n_dropped: int
    columns: tuple[ColumnSummary, ...]
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @property
    def left_out(self) -> tuple[ColumnSummary, ...]:
        """The columns that are left out."""
        return tuple(column for column in self.columns if column.role == LEFT_OUT)

    def warn(self, chosen_by_us: bool) -> None:
        """Warn of columns that were left out though they might have been used, if nobody chose the columns."""
        unused = [one for one in self.left_out if one.kind in ("number", "bool")]
        if chosen_by_us and unused:
            names = ", ".join(f"{one.name!r} ({one.reason})" for one in unused)
            warnings.warn(f"Left out: {names}; name the columns to use with features=.", stacklevel=4)

    def sentences(self) -> list[str]:
        """All that is not plain: notes, columns left out, and remarks on those used; for the command and the report."""
        sentences = list(self.notes)
        if self.n_dropped:
            sentences.append(f"{self.n_dropped:,} of {self.n_rows:,} rows are left out: values are missing in them.")
        by_reason: dict[str, list[str]] = {}
        for column in self.left_out:
            by_reason.setdefault(column.reason, []).append(escape_for_terminal(column.name))
        sentences += [f"Left out: {', '.join(names)} ({reason})." for reason, names in by_reason.items()]
        remarks = [column for column in self.columns if column.role == FEATURE and column.reason]
        return [*sentences, *(f"{escape_for_terminal(column.name)}: {column.reason}." for column in remarks)]
