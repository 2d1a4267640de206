"""The oddest rows of a table that is elsewhere: found in its parts, and merged."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from isobag.tables.partitions import LearnedTable
from isobag.tables.rank import MOST_EXPLAINED
from isobag.tables.summary import TableSummary


@dataclass(frozen=True)
class Oddest:
    """The oddest of some rows, and what has to be known of all to rank them.

    rows : at most ``top``, and at least one if there are any; the lowest score first, equal ones in order, and those
        without a score last.
    n_last : how many of all rows score like the last of these; ``n_first``, like the first.
    n_flagged : how many of all rows are flagged.
    """

    rows: pa.Table
    top: int
    n_last: int
    n_first: int
    n_flagged: int

    @classmethod
    def of(cls, rows: pa.Table, top: int) -> "Oddest":
        """Of all rows of a table."""
        top = max(top, 1)
        scores = rows["score"].to_numpy()
        order = np.argsort(scores, kind="stable")[:top]
        n_first, n_last = (int(np.count_nonzero(scores == scores[i])) for i in order[[0, -1]]) if len(order) else (0, 0)
        return cls(rows.take(pa.array(order)), top, n_last, n_first, int(np.count_nonzero(rows["flagged"].to_numpy())))

    def merge(self, later: "Oddest") -> "Oddest":
        """Of these rows and others that follow them."""
        both = Oddest.of(concatenate(self.rows, later.rows), self.top)
        if not both.rows.num_rows:
            return both
        first, last = (both.rows["score"][i].as_py() for i in (0, both.rows.num_rows - 1))
        n_first = self.n_like(first) + later.n_like(first)
        return Oddest(
            both.rows, self.top, self.n_like(last) + later.n_like(last), n_first, self.n_flagged + later.n_flagged
        )

    def with_all(self, tables: Iterable[pa.Table]) -> "Oddest":
        """Of these rows and all of some tables that follow them."""
        found = self
        for table in tables:
            found = found.merge(Oddest.of(table, self.top))
        return found

    def n_like(self, score: float) -> int:
        """How many of all rows have a score, which is no higher than the last of these if some are not among these."""
        scores = self.rows["score"].to_numpy()
        if len(scores) and scores[-1] == score:
            return self.n_last
        return int(np.count_nonzero(scores == score))


@dataclass(frozen=True)
class RankedElsewhere:
    """What a command prints of a table's own rows or groups, as ``Ranking`` has it."""

    unit: str
    top: dict[str, Any]
    n: int
    n_ranked: int
    n_flagged: int
    n_tied: int
    threshold: float
    looked_at: list[str]
    summary: TableSummary
    is_new: bool = False
    fdr: float | None = None
    n_expected: float | None = None

    @classmethod
    def of_rows(cls, oddest: Oddest, learned: LearnedTable, threshold: float, p_values: bool) -> "RankedElsewhere":
        """Rows: ranks and p-values of the oddest follow from how many score no higher."""
        rows, n_ranked = oddest.rows, int(learned.kept_sizes.sum())
        scores = rows["score"].to_numpy()
        has_score = ~np.isnan(scores)
        ranked = scores[has_score]
        n_below = np.searchsorted(ranked, ranked, side="left")
        n_to = np.searchsorted(ranked, ranked, side="right")
        if len(ranked) == len(scores):  # of rows that score like the last, some may not be among these
            n_to[n_below == n_below[-1:]] = n_below[-1:] + oddest.n_last
        columns: dict[str, Any] = {}
        for name in rows.column_names:
            columns[name] = rows[name].to_pylist()
            if name == "score":
                columns["rank"] = np.append(n_below, np.full(len(scores) - len(ranked), n_ranked)) + 1
                if p_values:
                    columns["p_value"] = np.append(n_to / n_ranked, np.full(len(scores) - len(ranked), np.nan))
        explained = min(MOST_EXPLAINED["row"], n_ranked)
        columns["reasons"][explained:] = [""] * len(columns["reasons"][explained:])
        n, counts = int(learned.sizes.sum()), (oddest.n_flagged, oddest.n_first)
        return cls("row", columns, n, n_ranked, *counts, threshold, _names(learned), learned.summary)

    @classmethod
    def of_groups(cls, table: pa.Table, learned: LearnedTable, threshold: float) -> "RankedElsewhere":
        """Groups, all of which are here."""
        scores = table["score"].to_numpy()
        n_ranked = int(np.count_nonzero(~np.isnan(scores)))
        counts = int(np.count_nonzero(table["flagged"].to_numpy())), int(np.count_nonzero(scores == scores[0]))
        columns = {name: table[name] for name in table.column_names}
        return cls("group", columns, len(scores), n_ranked, *counts, threshold, _names(learned), learned.summary)

    def __len__(self) -> int:
        """Number of rows or groups."""
        return self.n

    @property
    def rule(self) -> str:
        """By which some are flagged."""
        return f"score below {self.threshold:.4g}"

    def columns(self, start: int, stop: int) -> dict[str, Any]:
        """Columns of the ranked table, from place start + 1 to place stop."""
        return {name: values[start:stop] for name, values in self.top.items()}


@dataclass(frozen=True)
class FindOddest:
    """The oddest rows of a partition."""

    score: Any
    top: int

    def __call__(self, number: int, frames: Any) -> Oddest:
        """Found where the partition is."""
        return Oddest.of(self.score.schema.empty_table(), self.top).with_all(self.score(number, frames))


@dataclass(frozen=True)
class Collect:
    """All rows of a partition, scored."""

    score: Any

    def __call__(self, number: int, frames: Any) -> pa.Table:
        """Made where the partition is."""
        return pa.concat_tables([self.score.schema.empty_table(), *self.score(number, frames)])


def concatenate(first: pa.Table, later: pa.Table) -> pa.Table:
    """Rows, and others that follow them."""
    return pa.concat_tables([first, later])


def _names(learned: LearnedTable) -> list[str]:
    return [column.name for column in learned.reader.encoding.columns]


def own_version() -> str:
    """The version of isobag where this is called."""
    from isobag import __version__  # noqa: PLC0415

    return __version__
