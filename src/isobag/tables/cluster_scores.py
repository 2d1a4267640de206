"""Rows and groups of Dask and Spark frames, scored where they lie.

Rows of a group come together by a hash of its label, or where it has many, their counts.
"""

import pickle
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from isobag.backends.arrays import Floats, Ints
from isobag.data.groups import Groups
from isobag.data.rows import ArrayRows, spans
from isobag.engines import Frames, Partitions, merged
from isobag.models.counted import Counter, GroupCounts, Piece, join_pieces, merge_group_counts
from isobag.models.thresholds import ScoreCounts, add_counts, count_scores
from isobag.tables.clusters import Reader, as_arrow, check_rows, hash_of, is_among, learn_groups
from isobag.tables.encode import Encoding
from isobag.tables.judgement import Judged, judge_new, judge_own
from isobag.tables.learn import Table
from isobag.tables.ranking import MOST_EXPLAINED, RESULT_TYPES, check_fdr, check_labels
from isobag.tables.reading import ReadOptions
from isobag.tables.reasons import reasons_of_groups, reasons_of_rows
from isobag.tables.summary import FEATURE, ColumnSummary
from isobag.tables.units import places_among, spread

N_BUCKETS = 256
LARGE_ROWS = 1024
"""From so many rows of a group in one piece on, their counts take less room than the rows."""
COUNTED_ROWS, PARCEL_BYTES = 1 << 15, 1 << 24
"""Rows whose counts are in memory at once, and bytes of rows and counts of groups."""
MOST_GATHERED = 1 << 20
"""Groups are explained, the oddest first, as long as they have no more rows than this together."""
_PARCELS = pa.schema({"bucket": pa.int64(), "parcel": pa.binary()})


class Ranks(NamedTuple):
    """What the scores of all say of one; pickles.

    counts : of scores, or where ``level`` is set of p-values.
    threshold, level : the score, or the p-value if set, below which is flagged.
    """

    counts: ScoreCounts
    threshold: float = 0.0
    level: float | None = None

    def columns(self, scores: Floats, p_values: Floats | None) -> dict[str, Any]:
        """Columns of a result: (n,) each. All scores of a step have one rank."""
        if self.level is not None and p_values is not None:
            return {"flagged": p_values < self.level}
        ranks, shares = self.counts.ranks(scores)
        return {"rank": ranks, "rank_share": shares, "flagged": scores < self.threshold}


@dataclass(frozen=True, kw_only=True)
class Scorer:
    """Makes the results of rows or groups where they are; pickles.

    schema : of the results.
    is_new : whether the detector has not learned from the table.
    ranks : None if not known yet.
    """

    detector: Any
    reader: Reader
    schema: pa.Schema
    is_new: bool
    ranks: Ranks | None = None

    def judge(self, data: Any) -> Judged:
        """Scores of rows or groups, and what follows from them."""
        if self.is_new and self.detector.model_.calibration is not None:
            return judge_new(self.detector, data, self.detector.offset_)
        model = self.detector.model_
        scores = model.scores(data, self.detector.compute) if len(data) else np.empty(0)
        return Judged(model, scores, self.is_new, self.detector.offset_)

    def result(self, judged: Judged, places: Ints | None, **columns: Any) -> pa.Table:
        """The result of units, of which some take part."""
        scores = spread(judged.scores, places)
        evidence = {name: spread(values, places) for name, values in judged.evidence.items()}
        columns |= {"score": scores, "flagged": scores < judged.threshold, **evidence}
        columns |= {} if self.ranks is None else self.ranks.columns(scores, evidence.get("p_value"))
        return table_of(columns, self.schema)


class RowScorer(Scorer):
    """Makes the results of rows."""

    def __call__(self, number: int, frames: Frames) -> Iterator[pa.Table]:
        """A table for each frame of a partition."""
        rows = self.reader.rows(number)
        for frame in frames:
            made = map(self._score, self.reader.tables(rows, iter([frame])))
            yield pa.concat_tables([self.schema.empty_table(), *made])

    def score(self, partitions: Partitions) -> Partitions:
        """What is to be counted."""
        schema = schema_of(["p_value" if self.is_new else "score"])
        return partitions.map(replace(self, schema=schema), schema, keeps=False)

    def finish(self, partitions: Partitions, scored: Partitions, ranks: Ranks) -> Any:
        """Rows are scored again, as their columns are to stand beside the results."""
        return partitions.map(replace(self, ranks=ranks), self.schema).frame

    def _score(self, table: Table) -> pa.Table:
        judged, places = self.judge(table.rows), places_among(table.takes_part)
        scores = spread(judged.scores, places)
        gaps = np.zeros(len(scores), dtype=np.int64) if table.gaps is None else table.gaps
        return self.result(judged, places, n_missing=gaps, reasons=self._reasons(table, scores, places))

    def _reasons(self, table: Table, scores: Floats, places: Ints | None) -> Any:
        """Reasons for those of these rows that are among the oddest of all, "" for the others: (n,)."""
        reasons = np.full(len(scores), "", dtype=object)
        if self.ranks is None or "reasons" not in self.schema.names:
            return reasons
        counts = self.ranks.counts
        n_steps = max(1, int(np.searchsorted(np.cumsum(counts.counts), MOST_EXPLAINED["row"], side="right")))
        odd = np.flatnonzero(scores < np.append(counts.values, np.inf)[n_steps])
        if len(odd):
            chosen = odd if places is None else places[odd]
            model, cells = self.detector.model_, table.cells.take(chosen)
            explanation = model.explain(ArrayRows(table.rows.take(chosen)), self.detector.compute)
            reasons[odd] = reasons_of_rows(model.reference, self.reader.encoding, cells, explanation)
        return reasons


@dataclass(frozen=True, kw_only=True)
class GroupScorer(Scorer):
    """Makes the results of groups, whose parts come together in buckets; ``types`` of the columns of labels."""

    types: pa.Schema
    min_size: int

    def __call__(self, number: int, frames: Frames) -> Iterator[pa.Table]:
        """A table for the groups of a partition, whose rows are sorted by bucket."""
        rows = (row for frame in frames for row in nw.from_native(frame, eager_only=True).iter_rows())
        waiting: list[bytes] = []
        for _, bucket in groupby(rows, key=itemgetter(0)):
            waiting += [parcel for _, parcel in bucket]
            if sum(map(len, waiting)) >= PARCEL_BYTES:
                yield from self._score(waiting)
                waiting = []
        yield from self._score(waiting)

    def score(self, partitions: Partitions) -> Partitions:
        """All results but ranks and reasons."""
        counters = self.detector.model_.counters(self.detector.compute)
        buckets = partitions.exchange(partial(pack_pieces, self.reader, counters), _PARCELS)
        schema = pa.schema([one for one in self.schema if one.name not in ("rank", "rank_share", "reasons")])
        return buckets.map(replace(self, schema=schema), schema, keeps=False)

    def finish(self, partitions: Partitions, scored: Partitions, ranks: Ranks) -> Any:
        """Ranks beside what was scored, and the reasons of the oddest."""
        schema, types = self.schema, self.types
        reasons = self._reasons(partitions, scored) if "reasons" in schema.names else {}

        def complete(number: int, frames: Frames) -> Iterator[pa.Table]:
            for table in map(as_arrow, frames):
                columns = dict(zip(table.column_names, table.columns, strict=True))
                p_values = columns["p_value"].to_numpy() if "p_value" in columns else None
                columns |= ranks.columns(columns["score"].to_numpy(), p_values)
                labels = labels_of(table, types) if reasons else ()
                yield table_of(columns | {"reasons": [reasons.get(label, "") for label in labels]}, schema)

        return scored.map(complete, schema, keeps=False).frame

    def _score(self, parcels: list[bytes]) -> Iterator[pa.Table]:
        counters = self.detector.model_.counters(self.detector.compute)
        rows = ArrayRows(np.empty((0, self.detector.model_.views.n_features)))
        for counted in count_groups([part for parcel in parcels for part in pickle.loads(parcel)], counters):
            takes_part = counted.sizes >= self.min_size
            groups = counted.part(np.flatnonzero(takes_part)).groups(rows, [counter.key for counter in counters])
            labels = [(label,) for label in counted.labels] if len(self.types) == 1 else counted.labels.tolist()
            columns: dict[str, Any] = {one.name: [own[j] for own in labels] for j, one in enumerate(self.types)}
            columns |= {"n_points": np.where(takes_part, counted.sizes, 0), "n_missing": counted.n_gaps}
            yield self.result(self.judge(groups), places_among(takes_part), **columns)

    def _reasons(self, partitions: Partitions, scored: Partitions) -> dict[Any, str]:
        """Reasons for the oddest groups, whose rows come here, as long as these are not too many."""
        schema, reader = schema_of(["score", "n_points"], self.types), self.reader

        def find(number: int, frames: Frames) -> pa.Table | None:
            tables = (as_arrow(frame).select(schema.names).cast(schema) for frame in frames)
            return merged(oddest_of, map(oddest_of, tables))

        oddest = scored.reduce(find, oddest_of)
        assert oddest is not None
        n_gathered = np.searchsorted(np.cumsum(oddest["n_points"].to_numpy()), MOST_GATHERED, side="right")
        chosen = set(labels_of(oddest, self.types)[: int(n_gathered)])
        if not chosen:
            return {}

        def gather(number: int, frames: Frames) -> dict[int, list[Piece]]:
            return {number: [*reader.parts(chosen, number, frames)]}

        gathered = partitions.reduce(gather, dict.__or__) or {}
        piece = join_pieces([piece for number in sorted(gathered) for piece in gathered[number]])
        labels, model = piece.groups.labels, self.detector.model_
        groups = Groups(ArrayRows(piece.X, reader.encoding.names), piece.ids, labels)
        explanation = model.explain(groups, self.detector.compute)
        return dict(zip(labels.tolist(), reasons_of_groups(reader.encoding, groups, explanation, model), strict=True))


def pack_pieces(reader: Reader, counters: list[Counter], number: int, frames: Frames) -> Iterator[pa.Table]:
    """All groups of a partition by bucket: the rows of those with few, the counts of those with many."""
    for piece in reader.pieces(number, frames):
        buckets = np.array([hash_of(label) % N_BUCKETS for label in piece.groups.labels.tolist()], dtype=np.int64)
        is_large, parcels = piece.groups.sizes >= LARGE_ROWS, []
        for bucket in np.unique(buckets):
            inside = buckets == bucket
            parcel: list[Piece | GroupCounts] = [piece.part(inside & ~is_large)]
            parcel += [piece.part(inside & is_large).counted(counters)] if (inside & is_large).any() else []
            parcels.append(pickle.dumps(parcel))
        yield pa.table([pa.array(np.unique(buckets)), pa.array(parcels, pa.binary())], schema=_PARCELS)


def count_groups(parts: list[Piece | GroupCounts], counters: list[Counter]) -> Iterator[GroupCounts]:
    """The groups of some buckets, counted, some at a time."""
    if not parts:
        return
    rest = join_pieces([part for part in parts if isinstance(part, Piece)])
    many = [part for part in parts if isinstance(part, GroupCounts)]
    if many:
        is_large = is_among({label for part in many for label in part.labels.tolist()}, rest.groups.labels)
        yield merge_group_counts([rest.part(is_large).counted(counters), *many])
        rest = rest.part(~is_large)
    for first, stop in spans(np.cumsum(rest.groups.sizes), COUNTED_ROWS):
        places = np.arange(len(rest.groups.labels))
        yield rest.part((first <= places) & (places < stop)).counted(counters)


def oddest_of(*tables: pa.Table) -> pa.Table:
    """The oddest groups of some tables, by score and label."""
    table = pa.concat_tables(tables)
    names = ["score", *(name for name in table.column_names if name not in RESULT_TYPES)]
    scored = table.filter(pc.is_finite(table["score"]))
    return scored.sort_by([(name, "ascending") for name in names])[: MOST_EXPLAINED["group"]]


def detect_partitions(partitions: Partitions, table: Table, detector: Any, min_size: int) -> Any:
    """Fit to a sample of the rows or to some groups, and score all: a frame of the engine with the results.

    Those of rows stand beside their columns; of groups there is a row for each.
    """
    if table.by:
        learn_groups(partitions, table, detector, min_size)
    else:
        detector.fit(table.rows)
        detector.table_ = table.encoding.to_text()
    reader = Reader(table.encoding, table.options)
    scorer = _scorer(partitions, detector, reader, table.summary.columns, False, min_size)
    judge = partial(judge_own, detector, np.empty(0))
    return _ranked(partitions, scorer, "score", lambda counts: Ranks(counts, judge(counts).threshold))


def score_partitions(
    partitions: Partitions, detector: Any, encoding: Encoding, options: ReadOptions, fdr: float | None
) -> Any:
    """The same of new rows or groups: with p-values, lazily but for one look at all rows, and another for ``fdr``."""
    check_fdr(fdr, detector.model_.calibration is not None)
    summaries, reader = check_rows(partitions, encoding, options), Reader(encoding, options)
    scorer = _scorer(partitions, detector, reader, summaries, True, 1)
    if fdr is not None:
        return _ranked(partitions, scorer, "p_value", lambda counts: Ranks(counts, level=counts.level(fdr)))
    return (scorer.score(partitions) if options.by else partitions.map(scorer, scorer.schema)).frame


def _ranked(
    partitions: Partitions, scorer: RowScorer | GroupScorer, name: str, ranks_of: Callable[[ScoreCounts], Ranks]
) -> Any:
    """All results, once scores or p-values have been counted."""
    scored = scorer.score(partitions)
    scored = scored.persisted() if scorer.reader.options.by else scored

    def count(number: int, frames: Frames) -> ScoreCounts | None:
        columns = (as_arrow(frame)[name].drop_null().to_numpy() for frame in frames)
        return merged(add_counts, (count_scores(own[~np.isnan(own)]) for own in columns if not np.isnan(own).all()))

    counts = scored.reduce(count, add_counts)
    if counts is None:
        raise ValueError("Nothing takes part: values are missing in all rows, or all groups are too small.")
    return scorer.finish(partitions, scored, ranks_of(counts))


def _scorer(
    partitions: Partitions,
    detector: Any,
    reader: Reader,
    columns: Sequence[ColumnSummary],
    is_new: bool,
    least: int = 1,
) -> RowScorer | GroupScorer:
    """What makes the results of the rows of a table, or of its groups with the least size and more."""
    model, by = detector.model_, reader.options.by
    names = {"score", "flagged"} | (set() if is_new else {"rank", "rank_share", "reasons"})
    names |= {"n_missing"} if any(one.n_missing for one in columns if one.role == FEATURE) else set()
    names |= {"p_value", "extrapolated"} if is_new and model.calibration is not None else set()
    names |= {"n_points"} if by else set()
    names |= {"p_shape", "p_size"} if by and "p_value" in names and model.size is not None else set()
    types = label_types(partitions, reader.options) if by else pa.schema([])
    check_labels(types.names if by else partitions.schema.names)
    how = {"detector": detector, "reader": reader, "schema": schema_of(names, types), "is_new": is_new}
    return GroupScorer(**how, types=types, min_size=least) if by else RowScorer(**how)


def label_types(partitions: Partitions, options: ReadOptions) -> pa.Schema:
    """Arrow types of the columns of labels."""
    kinds = {name: partitions.schema.field(name).type for name in options.by}
    kinds |= {} if options.bags is None else {options.bags.name: pa.timestamp("us")}
    return pa.schema({name: pa.string() if pa.types.is_null(kind) else kind for name, kind in kinds.items()})


def schema_of(names: Container[str], labels: Iterable[pa.Field] = ()) -> pa.Schema:
    """Columns of a result behind those of labels."""
    return pa.schema([*labels, *(pa.field(name, kind) for name, kind in RESULT_TYPES.items() if name in names)])


def table_of(columns: dict[str, Any], schema: pa.Schema) -> pa.Table:
    """Columns of a schema; those that are not there are null."""
    nulls = pa.nulls(len(columns["score"]))
    return pa.table({name: columns.get(name, nulls) for name in schema.names}).cast(schema)


def labels_of(table: pa.Table, types: pa.Schema) -> list[Any]:
    """The label of each group in a table of results."""
    columns = [table[one.name].cast(one.type).to_pylist() for one in types]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
