"""All groups of a Dask or Spark frame, scored in buckets: their rows come together, or of large ones their counts."""

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.sparse import csr_array

from isobag.backends.arrays import Floats, Ints
from isobag.data.groups import Groups
from isobag.data.rows import ArrayRows, group_rows, spans
from isobag.engines import Frames, Partitions, partitions_of
from isobag.models.counted import CountedGroups, Counter, GroupCounts, merge_group_counts
from isobag.models.thresholds import ScoreCounts, count_scores
from isobag.partitionings.counts import merge_counts
from isobag.tables.choose import check_names
from isobag.tables.cluster_groups import GroupReader, count_piece, hash_of, learn_groups
from isobag.tables.clusters import add_if_any, level_of, ranks_by_steps, schema_of
from isobag.tables.encode import Encoding
from isobag.tables.judgement import Judged, judge_new, judge_own
from isobag.tables.learn import Table
from isobag.tables.ranking import MOST_EXPLAINED, check_fdr, check_labels, result_columns
from isobag.tables.reading import ReadOptions
from isobag.tables.reasons import reasons_of_groups
from isobag.tables.summary import FEATURE
from isobag.tables.units import places_among, spread

N_BUCKETS = 256
LARGE_ROWS = 1024
"""From so many rows of a group in one piece on, their counts take less room than the rows."""
COUNTED_ROWS = 1 << 15
"""Rows whose counts are in memory at once."""
MOST_GATHERED = 1 << 20
"""Groups are explained, the oddest first, as long as they have no more rows than this together."""
_PARCELS = pa.schema({"bucket": pa.int64(), "parcel": pa.binary()})


class Parcel(NamedTuple):
    """Groups of a piece on their way: all without counts, counts of those with many rows, rows of the others."""

    groups: GroupCounts
    large: GroupCounts | None
    X: Floats
    ids: Ints


def pack_pieces(reader: GroupReader, counters: list[Counter], number: int, frames: Frames) -> Iterator[pa.Table]:
    """All groups of a partition, by bucket."""
    for piece in reader.pieces(number, frames):
        buckets = np.array([hash_of(label) % N_BUCKETS for label in piece.labels.tolist()], dtype=np.int64)
        is_large, parcels = piece.sizes >= LARGE_ROWS, []
        numbers = np.unique(buckets)
        for bucket in numbers:
            of_bucket = buckets == bucket
            rows = (of_bucket & ~is_large)[piece.ids]
            large = count_piece(piece, of_bucket & is_large, counters) if (of_bucket & is_large).any() else None
            places = (np.cumsum(of_bucket) - 1)[piece.ids[rows]]
            parcels.append(pickle.dumps(Parcel(count_piece(piece, of_bucket, []), large, piece.X[rows], places)))
        yield pa.table([pa.array(numbers), pa.array(parcels, pa.binary())], schema=_PARCELS)


def unpack_parcels(parcels: list[Parcel], counters: list[Counter]) -> Iterator[GroupCounts]:
    """The groups of some buckets, counted, some at a time."""
    merged = merge_group_counts([parcel.groups for parcel in parcels])
    numbers = {label: place for place, label in enumerate(merged.labels.tolist())}
    ids = [
        np.array([numbers[label] for label in numbers_of_large.groups.labels.tolist()])[numbers_of_large.ids]
        for numbers_of_large in parcels
    ]
    X, owners = np.concatenate([parcel.X for parcel in parcels]), np.concatenate(ids)
    order = np.argsort(owners, kind="stable")
    ends = np.cumsum(np.bincount(owners, minlength=len(numbers)))
    large = [parcel.large for parcel in parcels if parcel.large is not None]
    of_large = merge_group_counts(large) if large else None
    for first, stop in spans(ends, COUNTED_ROWS):
        rows = order[int(ends[first - 1]) if first else 0 : int(ends[stop - 1])]
        block = group_rows(X[rows], owners[rows] - first)
        counts = tuple(counter.counts(block, stop - first) for counter in counters)
        if of_large is not None:
            numbers_of_large = np.array([numbers[label] - first for label in of_large.labels.tolist()], dtype=np.int64)
            inside = np.flatnonzero((numbers_of_large >= 0) & (numbers_of_large < stop - first))
            more = (merge_counts([many[inside]], numbers_of_large[inside], stop - first) for many in of_large.counts)
            counts = tuple(csr_array(few + many) for few, many in zip(counts, more, strict=True))
        yield replace(merged.part(np.arange(first, stop)), counts=counts)


@dataclass(frozen=True)
class ScoreGroups:
    """Makes the results of groups in buckets; pickles.

    types : Arrow types of the columns of labels.
    is_new : whether the detector has not learned from the table.
    """

    detector: Any
    types: pa.Schema
    schema: pa.Schema
    min_size: int
    is_new: bool

    def __call__(self, number: int, frames: Frames) -> Iterator[pa.Table]:
        """A table for the groups of a partition, whose rows are sorted by bucket."""
        counters = self.detector.model_.counters(self.detector.compute)
        rows = (row for frame in frames for row in nw.from_native(frame, eager_only=True).iter_rows())
        waiting: list[Parcel] = []
        for _, bucket in groupby(rows, key=lambda row: row[0]):
            waiting += [pickle.loads(parcel) for _, parcel in bucket]
            if sum(len(parcel.X) for parcel in waiting) >= COUNTED_ROWS:
                yield from self._results(waiting, counters)
                waiting = []
        if waiting:
            yield from self._results(waiting, counters)

    def _results(self, parcels: list[Parcel], counters: list[Counter]) -> Iterator[pa.Table]:
        for counted in unpack_parcels(parcels, counters):
            yield self._result(counted, [counter.key for counter in counters])

    def _result(self, counted: GroupCounts, keys: list[Any]) -> pa.Table:
        takes_part = counted.sizes >= self.min_size
        rows = ArrayRows(np.empty((0, self.detector.model_.views.n_features)))
        judged = self._judge(counted.part(np.flatnonzero(takes_part)).groups(rows, keys))
        places = places_among(takes_part)
        columns = result_columns(
            labels_as_columns(counted.labels, self.types),
            n_points=np.where(takes_part, counted.sizes, 0),
            score=spread(judged.scores, places),
            **{name: spread(values, places) for name, values in judged.evidence.items()},
            flagged=spread(judged.scores, places) < judged.threshold,
            n_missing=counted.n_gaps,
        )
        arrays = [pa.array(columns.get(one.name, [None] * len(takes_part)), one.type) for one in self.schema]
        return pa.table(arrays, schema=self.schema)

    def _judge(self, groups: CountedGroups) -> Judged:
        if self.is_new and self.detector.model_.calibration is not None:
            return judge_new(self.detector, groups, threshold=self.detector.offset_)
        scores = self.detector.model_.scores(groups, self.detector.compute) if len(groups) else np.empty(0)
        return Judged(self.detector.model_, scores, self.is_new, self.detector.offset_)


def labels_as_columns(labels: npt.NDArray[Any], types: pa.Schema) -> dict[str, Any]:
    """Columns of labels as they were in the table."""
    parts = [(label,) for label in labels.tolist()] if len(types) == 1 else labels.tolist()
    return {one.name: pa.array([own[j] for own in parts], one.type) for j, one in enumerate(types)}


@dataclass(frozen=True)
class RankGroups:
    """Completes the results of groups by what is known of all of them; pickles.

    level : the p-value below which groups are flagged; None where the score decides.
    """

    schema: pa.Schema
    types: pa.Schema
    counts: ScoreCounts
    threshold: float
    level: float | None
    reasons: dict[Any, str]

    def __call__(self, number: int, frames: Frames) -> Iterator[pa.Table]:
        """The groups of a partition."""
        for table in map(_as_table, frames):
            scores = table["score"].to_numpy()
            ranks, shares = ranks_by_steps(scores, self.counts)
            odd = table["p_value"].to_numpy() < self.level if self.level is not None else scores < self.threshold
            reasons = [self.reasons.get(label, "") for label in _labels_of(table, self.types)]
            columns = {**dict(zip(table.column_names, table.columns, strict=True)), "rank": ranks, "flagged": odd}
            columns |= {"rank_share": shares, "reasons": reasons}
            yield pa.table([_as_type(columns[one.name], one.type) for one in self.schema], schema=self.schema)


def detect_in_buckets(partitions: Partitions, table: Table, detector: Any, min_size: int) -> Any:
    """Fit to some groups, and score all: a frame of the engine with a row for each group."""
    learn_groups(partitions, table, detector, min_size)
    reader = GroupReader(table.encoding, table.options)
    has_gaps = any(column.n_missing for column in table.summary.columns if column.role == FEATURE)
    scored = _scored(partitions, detector, reader, min_size, is_new=False).persisted()
    counts = _counts_of(scored, "score")
    types = label_types(partitions, table.options)
    judged = judge_own(detector, np.empty(0), counts)
    reasons = _reasons(partitions, scored, detector, reader, types)
    more = ["rank_share", "flagged", *(["n_missing"] if has_gaps else []), "reasons"]
    schema = schema_of(["n_points", "score", "rank", *more], types)
    return scored.map(RankGroups(schema, types, counts, judged.threshold, None, reasons), schema, keeps=False)


def score_in_buckets(
    partitions: Partitions, detector: Any, encoding: Encoding, options: ReadOptions, fdr: float | None
) -> Any:
    """Score new groups: a frame of the engine with a row for each, lazily but for ``fdr``."""
    check_names(partitions.schema.names, options, is_learned=True)
    scored = _scored(partitions, detector, GroupReader(encoding, options), 1, is_new=True)
    if fdr is None:
        return scored.frame
    check_fdr(fdr, detector.model_.calibration is not None)
    scored = scored.persisted()
    counts = _counts_of(scored, "p_value")
    level = level_of(counts, counts.n, fdr)
    work = RankGroups(scored.schema, label_types(partitions, options), counts, 0.0, level, {})
    return scored.map(work, scored.schema, keeps=False)


def label_types(partitions: Partitions, options: ReadOptions) -> pa.Schema:
    """Arrow types of the columns of labels."""
    fields = [partitions.schema.field(name) for name in options.by]
    fields = [pa.field(one.name, pa.string()) if pa.types.is_null(one.type) else one for one in fields]
    return pa.schema(fields if options.bags is None else [*fields, pa.field(options.bags.name, pa.timestamp("us"))])


def _scored(partitions: Partitions, detector: Any, reader: GroupReader, min_size: int, is_new: bool) -> Partitions:
    types = label_types(partitions, reader.options)
    check_labels(types.names)
    evidence: list[str] = []
    if is_new and detector.model_.calibration is not None:
        evidence = ["p_value", "extrapolated", *(["p_shape", "p_size"] if detector.model_.size is not None else [])]
    schema = schema_of(["n_points", "score", *evidence, "flagged", "n_missing"], types)
    counters = detector.model_.counters(detector.compute)
    buckets = partitions.exchange(partial(pack_pieces, reader, counters), _PARCELS)
    scored = buckets.map(ScoreGroups(detector, types, schema, min_size, is_new), schema, keeps=False)
    opened = partitions_of(scored)
    assert opened is not None
    return opened


def _reasons(
    partitions: Partitions, scored: Partitions, detector: Any, reader: GroupReader, types: pa.Schema
) -> dict[Any, str]:
    """Reasons for the oddest groups, whose rows come here, as long as these are not too many."""
    oddest = scored.reduce(partial(_oddest, types), _merge_oddest)
    ends = np.cumsum([size for _, size, _ in oddest])
    labels = [label for _, _, label in oddest[: int(np.searchsorted(ends, MOST_GATHERED, side="right"))]]
    if not labels:
        return {}
    numbers = {label: number for number, label in enumerate(labels)}
    gathered = partitions.reduce(partial(_gather, reader, numbers), dict.__or__)
    parts = [part for number in sorted(gathered) for part in gathered[number]]
    X, ids = (np.concatenate(own) for own in zip(*parts, strict=True))
    names = np.empty(len(labels), dtype=object)
    names[:] = labels
    groups = Groups(ArrayRows(X, reader.encoding.names), ids, names)
    explanation = detector.model_.explain(groups, detector.compute)
    return dict(zip(labels, reasons_of_groups(reader.encoding, groups, explanation, detector.model_), strict=True))


def _gather(
    reader: GroupReader, numbers: dict[Any, int], number: int, frames: Frames
) -> dict[int, list[tuple[Floats, Ints]]]:
    """Rows of some groups of a partition, and the numbers of these."""
    parts = []
    for piece in reader.pieces(number, frames):
        row_numbers = np.array([numbers.get(label, -1) for label in piece.labels.tolist()], dtype=np.int64)[piece.ids]
        parts.append((piece.X[row_numbers >= 0], row_numbers[row_numbers >= 0]))
    return {number: parts}


def _oddest(types: pa.Schema, number: int, frames: Frames) -> list[tuple[float, int, Any]]:
    """Score, size and label of the oddest groups of a partition."""
    total: list[tuple[float, int, Any]] = []
    for table in map(_as_table, frames):
        results = zip(table["score"].to_pylist(), table["n_points"].to_pylist(), _labels_of(table, types), strict=True)
        total = _merge_oddest(total, [one for one in results if one[0] is not None and one[0] == one[0]])
    return total


def _merge_oddest(a: list[tuple[float, int, Any]], b: list[tuple[float, int, Any]]) -> list[tuple[float, int, Any]]:
    return sorted(a + b, key=lambda group: (group[0], hash_of(group[2])))[: MOST_EXPLAINED["group"]]


def _counts_of(scored: Partitions, name: str) -> ScoreCounts:
    counts = scored.reduce(partial(_count_column, name), add_if_any)
    if counts is None:
        raise ValueError("No group takes part: all are too small, or values are missing in all of their rows.")
    return counts


def _count_column(name: str, number: int, frames: Frames) -> ScoreCounts | None:
    total = None
    for table in map(_as_table, frames):
        values = table[name].to_numpy()
        values = values[~np.isnan(values)]
        total = add_if_any(total, count_scores(values) if len(values) else None)
    return total


def _as_table(frame: Any) -> pa.Table:
    opened: nw.DataFrame[Any] = nw.from_native(frame, eager_only=True)
    return pa.table({name: opened.get_column(name).to_arrow() for name in opened.columns})


def _labels_of(table: pa.Table, types: pa.Schema) -> list[Any]:
    columns = [table[name].cast(types.field(name).type).to_pylist() for name in types.names]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def _as_type(values: Any, kind: pa.DataType) -> Any:
    return values.cast(kind) if isinstance(values, pa.ChunkedArray | pa.Array) else pa.array(values, kind)
