"""Frames of Dask and Spark: facts of all rows, a sample to learn from, and scores made where the rows lie."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar
from zlib import crc32

import narwhals as nw
import numpy as np
import pyarrow as pa

from isobag.backends.arrays import Floats, Ints
from isobag.data.rows import MOST_LEARNED, ArrayRows, sample_of
from isobag.data.spool import Spool
from isobag.engines import Frames, Partitions
from isobag.models.thresholds import ScoreCounts, add_counts, count_scores
from isobag.tables.choose import check_names
from isobag.tables.encode import Encoding
from isobag.tables.framesource import FrameSource
from isobag.tables.judgement import Judged, judge_new, judge_own
from isobag.tables.learn import Table, learn_table
from isobag.tables.ranking import MOST_EXPLAINED, RESULT_TYPES, check_fdr, check_labels, result_columns
from isobag.tables.reading import ReadOptions
from isobag.tables.reasons import reasons_of_rows
from isobag.tables.scan import ColumnScan
from isobag.tables.summary import FEATURE
from isobag.tables.units import places_among, spread

T = TypeVar("T")
FACT_TEXTS = 1 << 12
"""Different texts of a column that are told apart in all rows; where there are more, those of the sample count."""
PIECE_ROWS = 1 << 17
"""Rows of a partition that are turned into features at once."""
_NEED_ONE_PLACE = ("decimal", "thousands", "numbers", "dates")


class PartitionMark(NamedTuple):
    """A partition: its number of rows, and a checksum of the first and the last."""

    n_rows: int
    checksum: int


class Facts(NamedTuple):
    """What is known of all rows of some partitions."""

    scans: dict[str, ColumnScan]
    parts: dict[int, PartitionMark]

    def merge(self, other: "Facts") -> "Facts":
        """Of these partitions and others."""
        scans = {name: scan.merge(other.scans[name]) for name, scan in self.scans.items()}
        return Facts(scans, self.parts | other.parts)


class Picked(NamedTuple):
    """Rows of some partitions, each with the number of its partition."""

    tables: dict[int, pa.Table]
    parts: dict[int, PartitionMark]

    def merge(self, other: "Picked") -> "Picked":
        """Of these partitions and others."""
        return Picked(self.tables | other.tables, self.parts | other.parts)


@dataclass(frozen=True)
class FrameOnly:
    """The result for a frame of Dask or Spark, which stays there, lazy: all there is of it is ``to_frame()``."""

    frame: Any

    def to_frame(self) -> Any:
        """The input with the results beside it, or a row for each group: a lazy frame of the same library."""
        return self.frame

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"{name!r} needs a table in memory; a frame of a cluster has to_frame().")


class Watched:
    """Some columns of the rows of a partition on their way; what part they make is known in the end."""

    def __init__(self, number: int, frames: Frames, names: tuple[str, ...], n_rows: int = 0) -> None:
        self._number, self._frames, self._names = number, frames, names
        self.n_rows, self._ends = n_rows, [b"", b""]

    def pieces(self) -> Iterator[nw.DataFrame[Any]]:
        """At most PIECE_ROWS rows at a time; ``n_rows`` is the number of the first of them."""
        for native in self._frames:
            frame: nw.DataFrame[Any] = nw.from_native(native, eager_only=True)
            by_text = {str(name): name for name in frame.columns}  # they need not be texts
            for name in self._names:
                if name not in by_text:
                    listed = ", ".join(map(repr, by_text)) or "none"
                    raise ValueError(f"partition {self._number} has no column {name!r} (columns: {listed}).")
            frame = frame.select([by_text[name] for name in self._names])
            for start in range(0, len(frame), PIECE_ROWS):
                piece = frame[start : start + PIECE_ROWS]
                yield piece
                self._ends = [self._ends[0] or _bytes_of(piece, 0), _bytes_of(piece, -1)]
                self.n_rows += len(piece)

    def sources(self) -> Iterator[FrameSource]:
        """The same, to be scanned."""
        return (FrameSource(piece, f"partition {self._number}", self.n_rows) for piece in self.pieces())

    @property
    def part(self) -> PartitionMark:
        """What all pieces make."""
        return PartitionMark(self.n_rows, crc32(b"".join(self._ends)))


def _bytes_of(frame: nw.DataFrame[Any], row: int) -> bytes:
    return repr(frame[[row % len(frame)]].rows()).encode()


def look_at(names: tuple[str, ...], scanned: tuple[str, ...], number: int, frames: Frames) -> Facts:
    """What is known of some columns of a partition; ``names``: of all that will be picked."""
    scans = {name: ColumnScan(name, most_texts=FACT_TEXTS) for name in scanned}
    watched = Watched(number, frames, names)
    for source in watched.sources():
        for batch in source.frames():
            for scan in scans.values():
                scan.read(batch)
    return Facts(scans, {number: watched.part})


def pick_rows(names: tuple[str, ...], chosen: dict[int, Ints], number: int, frames: Frames) -> Picked:
    """Rows of a partition by their numbers in it, which ascend."""
    watched = Watched(number, frames, names)
    rows, tables = chosen.get(number, np.empty(0, dtype=np.int64)), []
    for piece in watched.pieces():
        first, stop = np.searchsorted(rows, (watched.n_rows, watched.n_rows + len(piece)))
        if stop > first:
            picked = piece[(rows[first:stop] - watched.n_rows).tolist()]
            tables.append(pa.table({str(name): picked.get_column(name).to_arrow() for name in picked.columns}))
    return Picked({number: pa.concat_tables(tables)} if tables else {}, {number: watched.part})


def learn_partitions(partitions: Partitions, options: ReadOptions, random_state: Any, max_rows: Any = "auto") -> Table:
    """Facts of all rows, and a table of a sample of them, as a detector draws it from a frame in memory."""
    for name in _NEED_ONE_PLACE:
        if getattr(options, name) != getattr(ReadOptions, name):
            raise ValueError(f"{name}={getattr(options, name)!r} reads text; cast the columns to numbers first.")
    if options.baseline:
        raise ValueError(f"within={','.join(options.baseline)!r} needs all rows of a label in one place.")
    check_names(partitions.schema.names, options)
    names = tuple(name for name in partitions.schema.names if options.may_use(name) or name in options.apart)
    scanned = tuple(name for name in names if options.may_use(name) or name in options.by)
    facts = partitions.reduce(partial(look_at, names, scanned), Facts.merge)
    numbers = sorted(facts.parts)
    sizes = np.array([facts.parts[number].n_rows for number in numbers], dtype=np.int64)
    n_rows = int(sizes.sum())
    if not n_rows:
        raise ValueError("The table has no rows.")
    most = MOST_LEARNED if max_rows == "auto" else n_rows if max_rows is None else int(max_rows)
    rows = np.arange(n_rows) if n_rows <= most else sample_of(n_rows, most, random_state)
    ends = np.cumsum(sizes)
    cuts = np.searchsorted(rows, ends)[:-1]
    chosen = {
        n: rows_of_part - start
        for n, rows_of_part, start in zip(numbers, np.split(rows, cuts), ends - sizes, strict=True)
    }
    picked = partitions.reduce(partial(pick_rows, names, chosen), Picked.merge)
    changed = [number for number in numbers if picked.parts.get(number) != facts.parts[number]]
    if changed:
        warnings.warn(
            f"partition {changed[0]} and {len(changed) - 1:,} more had other rows when they were read again, so the "
            "result is not repeatable; persist or sort the table first.",
            stacklevel=4,
        )
    sample = pa.concat_tables([picked.tables[n] for n in sorted(picked.tables)], promote_options="permissive")
    source = FrameSource(nw.from_native(sample))
    return learn_table(source, options, facts=facts.scans)


@dataclass(frozen=True)
class ScoreRows:
    """Makes the results of rows where they are; pickles.

    judged_own : what follows from the scores if the detector was fitted to the table; None for new rows.
    counts : of the scores of all rows, for ranks; None if not asked for.
    level : the p-value below which rows are flagged; None where the score decides.
    """

    detector: Any
    encoding: Encoding
    options: ReadOptions
    schema: pa.Schema
    judged_own: Judged | None = None
    counts: ScoreCounts | None = None
    level: float | None = None

    def __call__(self, number: int, frames: Frames) -> Iterator[pa.Table]:
        """A table for each frame of a partition."""
        n_rows = 0
        for frame in frames:
            parts = [self._result(table, judged) for table, judged in self._judge(number, iter([frame]), n_rows)]
            made = pa.concat_tables([self.schema.empty_table(), *parts])
            n_rows += len(made)
            yield made

    def count(self, number: int, frames: Frames) -> ScoreCounts | None:
        """Scores of a partition counted by steps, or p-values if these decide; None if it has no rows."""
        total = None
        for _, judged in self._judge(number, frames, 0):
            values = judged.scores if self.judged_own is not None else np.asarray(judged.evidence["p_value"])
            total = add_if_any(total, count_scores(values) if len(values) else None)
        return total

    def _judge(self, number: int, frames: Frames, n_rows: int) -> Iterator[tuple[Table, Judged]]:
        names = tuple(column.name for column in self.encoding.columns)
        for source in Watched(number, frames, names, n_rows).sources():
            table = learn_table(source, self.options, encoding=self.encoding, spool=in_memory)
            if self.judged_own is None:
                yield table, judge_new(self.detector, table.rows, self.detector.offset_)
            else:
                yield table, replace(self.judged_own, scores=self._scores(table))

    def _scores(self, table: Table) -> Floats:
        return self.detector.score_samples(table.rows) if len(table.rows) else np.empty(0)

    def _result(self, table: Table, judged: Judged) -> pa.Table:
        places = places_among(table.takes_part)
        scores = spread(judged.scores, places)
        flagged = scores < judged.threshold
        if self.level is not None:
            flagged = spread(judged.evidence["p_value"], places) < self.level
        ranks, shares = (None, None) if self.counts is None else ranks_by_steps(scores, self.counts)
        columns = result_columns(
            {},
            score=scores,
            rank=ranks,
            rank_share=shares,
            **{name: spread(values, places) for name, values in judged.evidence.items()},
            flagged=flagged,
            n_missing=np.zeros(len(scores), dtype=np.int64) if table.gaps is None else table.gaps,
            reasons=self._reasons(table, judged, scores, places) if "reasons" in self.schema.names else None,
        )
        return pa.table([pa.array(columns[one.name], one.type) for one in self.schema], schema=self.schema)

    def _reasons(self, table: Table, judged: Judged, scores: Floats, places: Ints | None) -> Any:
        """Reasons for those of these rows that are among the oddest of all, "" for the others: (n,)."""
        assert self.counts is not None
        n_steps = max(1, int(np.searchsorted(np.cumsum(self.counts.counts), MOST_EXPLAINED["row"], side="right")))
        odd = np.flatnonzero(scores < np.append(self.counts.values, np.inf)[n_steps])
        reasons = np.full(len(scores), "", dtype=object)
        if len(odd):
            chosen = odd if places is None else places[odd]
            explanation = judged.model.explain(ArrayRows(table.rows.take(chosen)), self.detector.compute)
            cells = table.cells.take(chosen)
            reasons[odd] = reasons_of_rows(judged.model.reference, self.encoding, cells, explanation)
        return reasons


def merge_if_any(merge: Callable[[T, T], T], a: T | None, b: T | None) -> T | None:
    """What is counted in both, of which some partitions have none."""
    return merge(a, b) if a is not None and b is not None else a if b is None else b


add_if_any: Callable[[ScoreCounts | None, ScoreCounts | None], ScoreCounts | None] = partial(merge_if_any, add_counts)


def ranks_by_steps(scores: Floats, counts: ScoreCounts) -> tuple[Ints, Floats]:
    """Ranks, one for all scores of a step, and shares of all scores that are of no higher step: (n,) each."""
    step = np.clip(np.searchsorted(counts.values, scores, side="right") - 1, 0, len(counts.counts) - 1)
    to, is_scored = np.cumsum(counts.counts), ~np.isnan(scores)
    ranks = np.where(is_scored, 1 + (to - counts.counts)[step], 1 + counts.n)
    return ranks, np.where(is_scored, to[step] / counts.n, np.nan)


def level_of(counts: ScoreCounts, n_rows: int, fdr: float) -> float:
    """Below which p-value Benjamini and Hochberg's procedure rejects; 0 for none. Those of a step count as its end."""
    ends = counts.values * (1 + 2.0**-12)
    passing = np.flatnonzero(ends * n_rows / np.cumsum(counts.counts) <= fdr)
    return float(ends[passing[-1]]) if len(passing) else 0.0


def detect_rows(partitions: Partitions, table: Table, detector: Any) -> Any:
    """Fit to a sample of the rows, and score all where they are: a frame of the engine with the results beside."""
    check_labels(partitions.schema.names)
    detector.fit(table.rows)
    detector.table_ = table.encoding.to_text()
    has_gaps = any(column.n_missing for column in table.summary.columns if column.role == FEATURE)
    names = ["score", "rank", "rank_share", "flagged", *(["n_missing"] if has_gaps else [])]
    judged_own = Judged(detector.model_, np.empty(0), False, 0.0)
    score = ScoreRows(detector, table.encoding, table.options, schema_of([*names, "reasons"]), judged_own)
    counts = partitions.reduce(score.count, add_if_any)
    if counts is None:
        raise ValueError("No row takes part: values are missing in all of them.")
    return partitions.map(
        replace(score, judged_own=judge_own(detector, np.empty(0), counts), counts=counts), score.schema
    )


def score_rows(
    partitions: Partitions, detector: Any, encoding: Encoding, options: ReadOptions, fdr: float | None
) -> Any:
    """Score new rows where they are: a frame of the engine with the results beside, lazily but for ``fdr``."""
    check_labels(partitions.schema.names)
    names = ("score", "p_value", "extrapolated", "flagged") if detector.model_.calibration else ("score", "flagged")
    score = ScoreRows(detector, encoding, options, schema_of(names))
    if fdr is not None:
        check_fdr(fdr, "p_value" in names)
        counts = partitions.reduce(score.count, add_if_any)
        score = replace(score, level=0.0 if counts is None else level_of(counts, counts.n, fdr))
    return partitions.map(score, score.schema)


def schema_of(names: Iterable[str], labels: Iterable[pa.Field] = ()) -> pa.Schema:
    """Columns of a result behind those of labels."""
    return pa.schema([*labels, *(pa.field(name, RESULT_TYPES[name]) for name in names)])


in_memory = partial(Spool, kept_bytes=1 << 62)
