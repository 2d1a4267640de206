"""``fit``, ``score``, ``detect_points`` and ``detect_groups`` of tables in partitions, whatever engine holds them.

An engine is ``Partitions`` that can also make tables where the rows are. What is learned and scored is that of the same
rows in memory, bit for bit; rows never come to one place, but for samples and those that are explained.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from isobag.backends.arrays import Ints
from isobag.data.params import FLAG, at_least, check_params
from isobag.data.partitioned_groups import PartitionedGroups
from isobag.data.partitions import Combine, Frames, PartitionedRows, Partitions, Work
from isobag.engines.scored import PointColumns, ScoreNew, ScoreOwn
from isobag.estimators import IDKGroupDetector, IDKPointDetector
from isobag.models.thresholds import counts_of
from isobag.tables.encode import Encoding, encoding_by_names
from isobag.tables.partitions import LearnedTable, PartitionReader, count_all_rows, find_free, learn_table
from isobag.tables.rank import MOST_EXPLAINED, RESULTS, judge_new, judge_own
from isobag.tables.reasons import reasons_of_groups
from isobag.tables.summary import Spelling, in_python

MOST_GATHERED = 1 << 20
"""Groups are explained, the oddest first, as long as they have no more rows than this together."""


class Engine(Protocol):
    """Partitions of an engine, which can also make tables of them."""

    n_partitions: int
    columns: Sequence[str]

    def run(self, work: Work[Any], combine: Combine[Any], which: Ints | None = None) -> Any:
        """See ``Partitions``."""
        ...

    @property
    def objects(self) -> Sequence[str]:
        """Columns of Python objects."""
        ...

    def map(self, work: Callable[[int, Frames], Iterator[pa.Table]], schema: pa.Schema) -> Any:
        """A lazy collection of the tables that are made of each partition, in order."""
        ...

    def give(self, table: pa.Table) -> Any:
        """A small table as a collection."""
        ...

    def types(self, names: Sequence[str]) -> list[pa.DataType]:
        """Arrow types of some columns."""
        ...


def fit(
    engine: Any,
    *,
    by: Any = None,
    features: Iterable[Any] | str | None = None,
    missing: str = "error",
    bad_cells: str = "error",
    min_size: int = 1,
    random_state: Any = None,
    **options: Any,
) -> Any:
    """A detector of the rows, or of groups of them, fitted; it keeps how columns become features."""
    learner: type[Any] = IDKPointDetector if by is None else IDKGroupDetector
    detector = learner(**options, random_state=random_state)
    if by is None:
        _fit_rows(engine, detector, None, features, missing, bad_cells)
    else:
        _fit_groups(engine, detector, by, features, missing, bad_cells, min_size)
    return detector


def score(model: Any, engine: Any, *, by: Any = None, id_column: Any = None, p_values: bool = True) -> Any:
    """Rows scored by a fitted model, lazily and in order; or groups, the oddest first."""
    check_params({"p_values": p_values}, {"p_values": FLAG})
    names = _listed(by)
    reader = PartitionReader(_encoding_of(model, engine.columns, names), tuple(names), _text(id_column), frozenset())
    reader = _with_free(reader, engine)
    if isinstance(model, IDKGroupDetector):
        if by is None:
            raise ValueError("The model scores groups; name the column of their labels with by=.")
        groups = _count_groups(engine, reader, model.feature_names)[0].groups
        return engine.give(_group_table(names, groups, judge_new(model, groups, p_values), []))
    with_p_values = p_values and model.model_.calibration is not None
    kind = PointColumns(engine, reader, p_values=with_p_values)
    work = ScoreNew(reader, _starts(count_all_rows(engine)), model, with_p_values, kind.schema)
    return engine.map(work, kind.schema)


def detect_points(
    engine: Any,
    *,
    features: Iterable[Any] | str | None = None,
    id_column: Any = None,
    missing: str = "error",
    bad_cells: str = "error",
    random_state: Any = None,
    **options: Any,
) -> Any:
    """Rows scored by how similar they are to all, lazily and in order."""
    detector = IDKPointDetector(**options, random_state=random_state, calibrate=False)
    asked: dict[str, Any] = {"features": features, "id_column": id_column, "missing": missing, "bad_cells": bad_cells}
    _, score = learn_rows(engine, detector, **asked)
    return engine.map(score, score.schema)


def learn_rows(
    engine: Any,
    detector: IDKPointDetector,
    *,
    features: Iterable[Any] | str | None,
    id_column: Any,
    missing: str,
    bad_cells: str,
    spelling: Spelling = in_python,
    counts_gaps: bool = False,
) -> tuple[LearnedTable, ScoreOwn]:
    """Fit a detector to the rows; and the work that scores a partition of them, if need be with n_missing of each."""
    learned, scores = _fit_rows(engine, detector, id_column, features, missing, bad_cells, spelling)
    counts = counts_of(scores)
    last = int(np.searchsorted(np.cumsum(counts.counts), MOST_EXPLAINED["row"]))
    # Beyond the step that holds the last of the oddest.
    cut = counts.values[last + 1] if last + 1 < len(counts.counts) else np.inf
    kind = PointColumns(engine, learned.reader, n_missing=counts_gaps and learned.has_gaps, reasons=True)
    return learned, ScoreOwn(learned.reader, _starts(learned.sizes), detector, float(cut), kind.schema)


def detect_groups(
    engine: Any,
    by: Any,
    *,
    features: Iterable[Any] | str | None = None,
    missing: str = "error",
    bad_cells: str = "error",
    min_size: int = 1,
    p_values: bool = True,
    random_state: Any = None,
    **options: Any,
) -> Any:
    """Groups of rows ranked, the oddest first."""
    detector = IDKGroupDetector(**options, random_state=random_state, calibrate=False)
    asked: dict[str, Any] = {"features": features, "missing": missing, "bad_cells": bad_cells}
    return engine.give(rank_groups(engine, detector, by, **asked, min_size=min_size, p_values=p_values)[1])


def rank_groups(
    engine: Any,
    detector: IDKGroupDetector,
    by: Any,
    *,
    features: Iterable[Any] | str | None,
    missing: str,
    bad_cells: str,
    min_size: int,
    p_values: bool,
    spelling: Spelling = in_python,
) -> tuple[LearnedTable, pa.Table]:
    """Fit a detector to the groups of the rows; and the groups ranked, the oddest first."""
    check_params({"p_values": p_values}, {"p_values": FLAG})
    learned, counted = _fit_groups(engine, detector, by, features, missing, bad_cells, min_size, spelling)
    judged = judge_own(detector, detector.scores_, p_values)
    groups, order = counted.groups, np.argsort(judged.scores, kind="stable")
    top = order[: MOST_EXPLAINED["group"]]
    top = top[: int(np.searchsorted(np.cumsum(groups.sizes[top]), MOST_GATHERED, side="right"))]
    reasons = []
    if len(top):
        some = groups.gather(top)
        reasons = reasons_of_groups(learned.reader.encoding, some, judged.model.explain(some, detector.compute))
    return learned, _group_table(_listed(by), groups, judged, reasons, counted)


def _fit_rows(
    engine: Any,
    detector: Any,
    id_column: Any,
    features: Any,
    missing: str,
    bad_cells: str,
    spelling: Spelling = in_python,
) -> tuple[LearnedTable, Any]:
    detector.check_params()
    learned = _learn(engine, features, missing, bad_cells, spelling, id=_text(id_column))
    rows = PartitionedRows(engine, learned.reader, learned.kept_sizes, learned.reader.encoding.names)
    scores = detector.fit_scores(rows)
    detector.table_ = learned.reader.encoding.to_text()
    return learned, scores


def _fit_groups(
    engine: Any,
    detector: Any,
    by: Any,
    features: Any,
    missing: str,
    bad_cells: str,
    min_size: int,
    spelling: Spelling = in_python,
) -> tuple[LearnedTable, "_Counted"]:
    check_params({"min_size": min_size}, {"min_size": at_least(1, "a group has at least one row")})
    detector.check_params()
    learned = _learn(engine, features, missing, bad_cells, spelling, by=_listed(by))
    counted, largest = _count_groups(engine, learned.reader, learned.reader.encoding.names, min_size)
    if not len(counted.groups):
        raise ValueError(f"No group has {min_size} or more rows; the largest has {largest:,}.")
    detector.fit(counted.groups)
    detector.table_ = learned.reader.encoding.to_text()
    return learned, counted


def _learn(
    engine: Partitions, features: Any, missing: str, bad_cells: str, spelling: Spelling, **apart: Any
) -> LearnedTable:
    for name in (*apart.get("by", ()), apart.get("id")):
        if name in RESULTS:
            raise ValueError(f"The result has a column {name!r} of its own; rename the column of that name first.")
    chosen = [features] if isinstance(features, str) else None if features is None else [str(one) for one in features]
    asked: dict[str, Any] = {"features": chosen, "missing": missing, "bad_cells": bad_cells}
    learned = learn_table(engine, **asked, spelling=spelling, **apart)
    if spelling is in_python:  # a command has sentences of its own
        learned.summary.warn(features is None)
    return learned


@dataclass(frozen=True)
class _Counted:
    """Groups that take part, and those that do not; of all, rows with missing values, None if there are none."""

    groups: PartitionedGroups
    rest: list[Hashable]
    n_missing: dict[Hashable, int] | None


def _count_groups(
    engine: Any, reader: PartitionReader, names: Sequence[str], min_size: int = 1
) -> tuple[_Counted, int]:
    """The groups of a table; and the number of rows of the largest."""
    counts, lengths, _ = engine.run(_CountGroups(reader), _add_groups)
    takes_part = [label for label, (n_kept, _) in counts.items() if n_kept]
    sizes = np.array([counts[label][0] for label in takes_part], dtype=np.int64)
    numbers = {label: number for number, label in enumerate(takes_part)}
    groups = PartitionedGroups(engine, reader, numbers, sizes, np.array(lengths, dtype=np.int64), names)
    here = np.flatnonzero(sizes >= min_size)
    if len(here) < len(sizes):
        groups = groups.part(here)
    rest = [label for label in counts if label not in groups.numbers]
    n_missing = {label: n_gaps for label, (_, n_gaps) in counts.items()}
    return _Counted(groups, rest, n_missing if any(n_missing.values()) else None), int(sizes.max(initial=0))


@dataclass(frozen=True)
class _CountGroups:
    """Rows of each label in a partition: those that take part, and those with missing values."""

    reader: PartitionReader

    def __call__(self, number: int, frames: Frames) -> "_LabelCounts":
        counts: dict[Hashable, tuple[int, int]] = {}
        n_rows, types = 0, {}
        for block in self.reader.blocks(number, frames):
            for name in self.reader.by:
                kind = block.labels[name].type
                if not pa.types.is_null(kind):
                    types[name] = _kind_of_label(kind), f"partition {number}, column {name!r} is of type {kind}"
            labels, takes_part = self.reader.group_labels(number, block)
            has_gaps = np.zeros(len(labels), dtype=bool) if block.gaps is None else block.gaps > 0
            n_rows += int(np.count_nonzero(takes_part))
            for label, is_kept, is_lacking in zip(labels.tolist(), takes_part.tolist(), has_gaps.tolist(), strict=True):
                if label is not None:
                    n_kept, n_gaps = counts.get(label, (0, 0))
                    counts[label] = (n_kept + is_kept, n_gaps + is_lacking)
        return _LabelCounts(counts, [n_rows], types)


class _LabelCounts(NamedTuple):
    """Rows of each label; rows of each partition that take part; of each column of labels its kind, and where it is."""

    counts: dict[Hashable, tuple[int, int]]
    lengths: list[int]
    types: dict[str, tuple[str, str]]


def _add_groups(first: _LabelCounts, later: _LabelCounts) -> _LabelCounts:
    for name in first.types.keys() & later.types.keys():
        (kind, place), (later_kind, later_place) = first.types[name], later.types[name]
        if kind != later_kind:  # 7 and "7" would be two groups
            raise ValueError(f"{later_place}, but {place}; need one type.")
    counts = dict(first.counts)
    for label, (n_kept, n_gaps) in later.counts.items():
        own = counts.get(label, (0, 0))
        counts[label] = (own[0] + n_kept, own[1] + n_gaps)
    return _LabelCounts(counts, first.lengths + later.lengths, later.types | first.types)


def _kind_of_label(kind: pa.DataType) -> str:
    """Types whose equal values are one label."""
    types = pa.types
    if types.is_dictionary(kind):
        return _kind_of_label(kind.value_type)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    return "text" if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind) else str(kind)


def _group_table(
    names: Sequence[str], groups: PartitionedGroups, judged: Any, reasons: list[str], counted: _Counted | None = None
) -> pa.Table:
    """One row for each group, the oddest first, and at the end those that were left out."""
    rest = [] if counted is None else counted.rest
    order = np.argsort(judged.scores, kind="stable")
    labels = [*groups.labels[order].tolist(), *rest]
    n_rest, nothing = len(rest), np.full(len(rest), np.nan)
    scores = judged.scores[order]
    columns: dict[str, Any] = {
        name: [label[j] if len(names) > 1 else label for label in labels] for j, name in enumerate(names)
    }
    columns["n_points"] = np.concatenate([groups.sizes[order], np.zeros(n_rest, dtype=np.int64)])
    columns["score"] = np.concatenate([scores, nothing])
    ranks = np.searchsorted(scores, scores, side="left") + 1
    columns["rank"] = np.concatenate([ranks, np.full(n_rest, len(scores) + 1)])
    if judged.p_values is not None:
        columns["p_value"] = np.concatenate([judged.p_values[order], nothing])
    columns["flagged"] = np.concatenate([scores < judged.threshold, np.zeros(n_rest, dtype=bool)])
    if counted is not None and counted.n_missing is not None:
        columns["n_missing"] = [counted.n_missing[label] for label in labels]
    if counted is not None:
        columns["reasons"] = reasons + [""] * (len(labels) - len(reasons))
    return pa.table(columns)


def _starts(sizes: Ints) -> Ints:
    """Number of the first row of each partition: (p,)."""
    return np.cumsum(sizes) - sizes


def _encoding_of(model: Any, columns: Sequence[str], apart: Sequence[str]) -> Encoding:
    if hasattr(model, "table_"):
        return Encoding.of_model(model)
    return encoding_by_names(getattr(model, "feature_names_in_", None), model.n_features_in_, columns, apart)


def _with_free(reader: PartitionReader, engine: Any) -> PartitionReader:
    """The same reader, which knows the columns of mixed objects."""
    objects = set(engine.objects)
    names = [name for name in (*(column.name for column in reader.encoding.columns), *reader.apart) if name in objects]
    free = find_free(engine, names) if names else frozenset()
    return PartitionReader(reader.encoding, reader.by, reader.id, free)


def _listed(by: Any) -> list[str]:
    return [] if by is None else [str(one) for one in by] if isinstance(by, list | tuple) else [str(by)]


def _text(name: Any) -> str | None:
    return None if name is None else str(name)
