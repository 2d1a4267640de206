"""The rows of a partition scored where they are, as tables."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.data.partitions import Frames
from isobag.data.rows import ArrayRows
from isobag.tables.partitions import Block, PartitionReader
from isobag.tables.rank import MOST_EXPLAINED, judge_new
from isobag.tables.reasons import reasons_of_rows


class PointColumns:
    """The columns of a table of scored rows."""

    def __init__(
        self,
        engine: Any,
        reader: PartitionReader,
        p_values: bool = False,
        n_missing: bool = False,
        reasons: bool = False,
    ) -> None:
        fields = [] if reader.id is None else [pa.field(reader.id, engine.types([reader.id])[0])]
        fields += [pa.field("row", pa.int64()), pa.field("score", pa.float64())]
        fields += [pa.field("p_value", pa.float64())] if p_values else []
        fields += [pa.field("flagged", pa.bool_())]
        fields += [pa.field("n_missing", pa.int64())] if n_missing else []
        fields += [pa.field("reasons", pa.string())] if reasons else []
        self.schema = pa.schema(fields)


@dataclass(frozen=True)
class ScoreNew:
    """Scores rows by a model that has not learned from them."""

    reader: PartitionReader
    starts: Ints
    detector: Any
    p_values: bool
    schema: pa.Schema

    def __call__(self, number: int, frames: Frames) -> Iterator[pa.Table]:
        """The rows of a partition, scored."""
        for block in self.reader.blocks(number, frames):
            judged = judge_new(self.detector, ArrayRows(block.X, self.reader.encoding.names), self.p_values)
            own = {} if judged.p_values is None else {"p_value": _spread(judged.p_values, block.kept)}
            yield _point_table(block, self, number, judged.scores, judged.threshold, own)


@dataclass(frozen=True)
class ScoreOwn:
    """Scores rows that the detector has learned from, with reasons for scores below a cut."""

    reader: PartitionReader
    starts: Ints
    detector: Any
    cut: float
    schema: pa.Schema

    def __call__(self, number: int, frames: Frames) -> Iterator[pa.Table]:
        """The rows of a partition, scored."""
        model, compute = self.detector.model_, self.detector.compute
        for block in self.reader.blocks(number, frames):
            scores = model.scores(ArrayRows(block.X), compute)
            odd = np.flatnonzero(scores < self.cut)
            odd = odd[np.argsort(scores[odd], kind="stable")[: MOST_EXPLAINED["row"]]]
            explanation = model.explain(ArrayRows(block.X[odd]), compute) if len(odd) else np.empty((0, 0))
            words = reasons_of_rows(model.reference, self.reader.encoding, block.X[odd], explanation)
            reasons = np.full(block.n_rows, "", dtype=object)
            places = np.arange(block.n_rows) if block.kept is None else np.flatnonzero(block.kept)
            reasons[places[odd]] = words
            n_missing = np.zeros(block.n_rows, dtype=np.int64) if block.gaps is None else block.gaps
            own = {"n_missing": n_missing, "reasons": reasons}
            yield _point_table(block, self, number, scores, self.detector.offset_, own)


def _point_table(
    block: Block, work: "ScoreNew | ScoreOwn", number: int, scores: Floats, threshold: float, own: dict[str, Any]
) -> pa.Table:
    first = int(work.starts[number]) + block.first_row
    own_scores = _spread(scores, block.kept)
    columns: dict[str, Any] = dict(block.labels)
    columns |= {
        "row": np.arange(first, first + block.n_rows),
        "score": own_scores,
        "flagged": own_scores < threshold,
    } | own
    arrays = [_as_type(columns[field.name], field.type) for field in work.schema]
    return pa.table(arrays, schema=work.schema)


def _as_type(values: Any, kind: pa.DataType) -> Any:
    return values.cast(kind) if isinstance(values, pa.Array) else pa.array(values, kind)


def _spread(values: Floats, kept: Bools | None) -> Floats:
    """Values of the rows that take part, NaN for the others: (m,) -> (n,)."""
    if kept is None:
        return values
    spread = np.full(len(kept), np.nan)
    spread[kept] = values
    return spread
