"""Rows that stay in their partitions: scored where they are, and the oddest of all found by merging."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from operator import add
from typing import Any

import numpy as np
import pyarrow as pa

from isobag.backends.arrays import Floats, Ints
from isobag.data.partitions import Frames
from isobag.data.rows import ArrayRows
from isobag.models.thresholds import counts_of
from isobag.tables.judgement import Judged, judge_new, judge_own
from isobag.tables.learn import PartitionedTable, PartitionReader
from isobag.tables.ranking import (
    MOST_EXPLAINED,
    RESULT_TYPES,
    Ranked,
    Ranking,
    check_labels,
    fit_data,
    ranks_and_shares,
    result_columns,
    rule_of,
    spread_out,
)
from isobag.tables.reasons import reasons_of_rows
from isobag.tables.units import files_at, places_among, spread

WINDOW_ROWS = 1 << 22
"""Scored rows that are brought here at a time, to be written."""


@dataclass(frozen=True)
class ScoreRows:
    """Scores the rows of a partition, as tables.

    starts : (p,), number of the first row of each partition.
    own : what is known of the scores if the detector has learned from the rows; None for new rows.
    cut : scores below it get reasons, if ``schema`` has a column for them.
    """

    reader: PartitionReader
    starts: Ints
    detector: Any
    own: Judged | None
    schema: pa.Schema
    cut: float = -np.inf

    def __call__(self, number: int, frames: Frames) -> Iterator[pa.Table]:
        """The rows of a partition in order."""
        names, compute = set(self.schema.names), self.detector.compute
        for block in self.reader.blocks(number, frames):
            rows = ArrayRows(block.X, self.reader.encoding.names)
            if self.own is None:
                judged = judge_new(self.detector, rows, "p_value" in names)
            else:
                judged = replace(self.own, scores=self.own.model.scores(rows, compute) if len(rows) else np.empty(0))
            places = places_among(block.kept)
            scores = spread(judged.scores, places)
            first = int(self.starts[number]) + block.first_row
            n_missing = np.zeros(block.n_rows, dtype=np.int64) if block.gaps is None else block.gaps
            columns = result_columns(
                block.labels,
                row=np.arange(first, first + block.n_rows),
                score=scores,
                **{name: spread_out(values, places) for name, values in judged.evidence.items()},
                flagged=scores < judged.threshold,
                n_missing=n_missing,
                reasons=self._reasons(judged.model, rows, scores, places) if "reasons" in names else None,
            )
            yield pa.table([_as_type(columns[one.name], one.type) for one in self.schema], schema=self.schema)

    def _reasons(self, model: Any, rows: ArrayRows, scores: Any, places: Ints | None) -> Any:
        """Reasons for the oddest of these rows, "" for the others: (n,)."""
        odd = np.flatnonzero(scores < self.cut)
        odd = odd[np.argsort(scores[odd], kind="stable")[: MOST_EXPLAINED["row"]]]
        points = rows.X[odd if places is None else places[odd]]
        explanation = model.explain(ArrayRows(points), self.detector.compute) if len(odd) else np.empty((0, 0))
        reasons = np.full(len(scores), "", dtype=object)
        reasons[odd] = reasons_of_rows(model.reference, self.reader.encoding, points, explanation)
        return reasons


def score_new_rows(table: PartitionedTable, detector: Any, p_values: bool) -> ScoreRows:
    """The work that scores rows by a model fitted to others."""
    has_p_values = p_values and detector.model_.calibration is not None
    names = ("row", "score", *(("p_value", "extrapolated") if has_p_values else ()), "flagged")
    return ScoreRows(table.reader, _starts(table), detector, None, _schema(table, *names))


def learn_rows(table: PartitionedTable, detector: Any, counts_gaps: bool = False) -> ScoreRows:
    """Fit a detector to the rows; the work that scores them, with reasons for about the oddest MOST_EXPLAINED."""
    check_labels([] if table.options.id is None else [table.options.id])
    counts = counts_of(fit_data(detector, table.rows))
    detector.table_ = table.encoding.to_text()
    last = int(np.searchsorted(np.cumsum(counts.counts), MOST_EXPLAINED["row"]))
    # Beyond the step that holds the last of the oddest.
    cut = counts.values[last + 1] if last + 1 < len(counts.counts) else np.inf
    names = ["row", "score", "flagged", *(["n_missing"] if counts_gaps and table.has_gaps else []), "reasons"]
    own = judge_own(detector, np.empty(0), counts)
    return ScoreRows(table.reader, _starts(table), detector, own, _schema(table, *names), float(cut))


def _schema(table: PartitionedTable, *names: str) -> pa.Schema:
    id_column = table.options.id
    fields = [] if id_column is None else [pa.field(id_column, table.partitions.types([id_column])[0])]
    return pa.schema([*fields, *(pa.field(name, RESULT_TYPES[name]) for name in names)])


def _starts(table: PartitionedTable) -> Ints:
    return np.cumsum(table.sizes) - table.sizes


def _as_type(values: Any, kind: pa.DataType) -> Any:
    return values.cast(kind) if isinstance(values, pa.Array) else pa.array(values, kind)


@dataclass(frozen=True)
class Oddest:
    """The oddest of some rows, and what has to be known of all to rank them.

    rows : at most ``top``, and at least one if there are any; the lowest score first, equal ones in order, and those
        without a score last.
    n_last : how many of all rows score like the last of these.
    n_flagged : how many of all rows are flagged.
    """

    rows: pa.Table
    top: int
    n_last: int
    n_flagged: int

    @classmethod
    def of(cls, rows: pa.Table, top: int) -> "Oddest":
        """Of all rows of a table."""
        top = max(top, 1)
        scores = rows["score"].to_numpy()
        order = np.argsort(scores, kind="stable")[:top]
        n_last = int(np.count_nonzero(scores == scores[order[-1]])) if len(order) else 0
        return cls(rows.take(pa.array(order)), top, n_last, int(np.count_nonzero(rows["flagged"].to_numpy())))

    def merge(self, later: "Oddest") -> "Oddest":
        """Of these rows and others that follow them."""
        both = Oddest.of(pa.concat_tables([self.rows, later.rows]), self.top)
        return replace(
            both,
            n_last=sum(self.n_like(last) + later.n_like(last) for last in both.scores[-1:]),
            n_flagged=self.n_flagged + later.n_flagged,
        )

    def with_all(self, tables: Iterable[pa.Table]) -> "Oddest":
        """Of these rows and all of some tables that follow them."""
        oddest = self
        for table in tables:
            oddest = oddest.merge(Oddest.of(table, self.top))
        return oddest

    @property
    def scores(self) -> Floats:
        """Of the oddest: (k,)."""
        return self.rows["score"].to_numpy()  # type: ignore[no-any-return]

    def n_like(self, score: float) -> int:
        """How many of all rows have a score, which is no higher than the last of these if some are not among these."""
        return self.n_last if score in self.scores[-1:] else int(np.count_nonzero(self.scores == score))


@dataclass(kw_only=True)
class DistributedRanking(Ranked):
    """The rows of a table in partitions, of which only the ``top`` oddest come here."""

    table: PartitionedTable
    score: ScoreRows
    top: int
    p_values: bool
    _oddest: Oddest | None = None

    @classmethod
    def of(cls, table: PartitionedTable, detector: Any, top: int, p_values: bool) -> "DistributedRanking":
        """The rows, ranked by a detector that is fitted to them."""
        score = learn_rows(table, detector, counts_gaps=True)
        assert score.own is not None
        rule = rule_of(score.own)
        return cls(table=table, detector=detector, judged=score.own, rule=rule, score=score, top=top, p_values=p_values)

    @property
    def oddest(self) -> Oddest:
        """The oddest rows, found by one pass over all unless these were written before."""
        if self._oddest is None:
            none, score = self._none, self.score
            self._oddest = self.table.partitions.run(lambda *part: none.with_all(score(*part)), Oddest.merge)
        return self._oddest

    @property
    def _none(self) -> Oddest:
        return Oddest.of(self.score.schema.empty_table(), self.top)

    def __len__(self) -> int:
        return self.table.n_rows

    @property
    def n_ranked(self) -> int:
        """Number of those with a score."""
        return int(self.table.kept_sizes.sum())

    @property
    def n_flagged(self) -> int:
        """Number of those flagged."""
        return self.oddest.n_flagged

    @property
    def n_tied(self) -> int:
        """How many share the lowest score."""
        return sum(self.oddest.n_like(lowest) for lowest in self.oddest.scores[:1])

    def columns(self, start: int, stop: int) -> dict[str, Any]:
        """Columns of the ranked table, from place start + 1 to place stop, which is ``top`` at most.

        Ranks and shares of rank of the oddest follow from how many score no higher.
        """
        rows, scores = self.oddest.rows, self.oddest.scores
        own = {name: rows[name].to_pylist() for name in rows.column_names}
        n = int(np.count_nonzero(~np.isnan(scores)))
        n_to = n
        if n and n == len(scores):  # of rows that score like the last, some may not be among these
            n_to = int(np.searchsorted(scores, scores[-1])) + self.oddest.n_last
        own["rank"], shares = ranks_and_shares(scores, 0, 0, n_to, self.n_ranked)
        own["rank_share"] = shares if self.p_values else None
        n_explained = min(MOST_EXPLAINED["row"], self.n_ranked)
        own["reasons"][n_explained:] = [""] * len(own["reasons"][n_explained:])
        labels = {name: own.pop(name) for name in [self.table.options.id] if name is not None}
        labels |= {name: files.to_pylist() for name, files in self._files(rows).items()}
        return {name: values[start:stop] for name, values in result_columns(labels, **own).items()}

    def parts(self, n_rows: int) -> Iterator[dict[str, Any]]:
        """All rows, scored, in the order of the table, without rank and its share; the oddest are kept on the way."""
        window = np.cumsum(self.table.sizes) // WINDOW_ROWS
        oddest, score = self._none, self.score

        def collect(number: int, frames: Frames) -> list[pa.Table]:
            return list(score(number, frames))

        for number in np.unique(window):
            which = np.flatnonzero(window == number)
            table = pa.concat_tables([score.schema.empty_table(), *self.table.partitions.run(collect, add, which)])
            oddest = oddest.with_all([table])
            columns = {name: table[name].to_numpy() if name == "score" else table[name] for name in table.column_names}
            labels = {name: columns.pop(name) for name in [self.table.options.id] if name is not None}
            yield {**labels, **self._files(table), **columns}
        self._oddest = oddest

    def _files(self, rows: pa.Table) -> dict[str, Any]:
        numbers = rows["row"].to_numpy()
        return files_at(self.table, numbers, numbers)


AnyRanking = Ranking | DistributedRanking
