"""Spark Structured Streaming: the state of a stream, kept up micro-batch by micro-batch, each counted once."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from isobag.estimators.stream import IDKStreamDetector
from isobag.storage.streamfile import load_stream, save_stream

OnAlarms = Callable[[pa.Table, int], None]


class StreamUpdate:
    """A function for ``writeStream.foreachBatch`` that judges and learns the rows of each micro-batch exactly once.

    The state is a file, written whole or not at all, with the number of the last micro-batch in it. Spark gives a
    micro-batch that was not committed to its checkpoint once more, with the same number; if the state has it already,
    it is skipped. A number that cannot follow means that state and checkpoint are not of the same stream: an error.

    Parameters
    ----------
    path : str or path
        The state, on storage that outlives the driver. If the file is there, the stream goes on from it.
    features : sequence of str
        Columns with numbers.
    detector : IDKStreamDetector, optional
        Parameters of a stream that begins.
    order_by : str, optional
        Column that rows of a micro-batch are sorted by. Without it they come as Spark gives them.
    on_alarms : callable, optional
        Called with a table of the rows that raise an alarm (their columns, ``score`` and ``p_value``) and the number of
        the micro-batch, before the state is written: after a failure once more, with the same.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        features: Sequence[str],
        detector: IDKStreamDetector | None = None,
        order_by: str | None = None,
        on_alarms: OnAlarms | None = None,
    ) -> None:
        self.path, self.features, self.order_by = path, tuple(features), order_by
        self.detector = IDKStreamDetector() if detector is None else detector
        self.on_alarms = on_alarms
        self._state: tuple[IDKStreamDetector, dict[str, Any]] | None = None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Judge and learn a micro-batch, unless the state has it already."""
        detector, notes = self._state or self._open()
        self._state = None  # what fails on the way is loaded again
        last = notes.get("batch")
        if last is not None and batch_id not in (last, last + 1):
            raise ValueError(
                f"micro-batch {batch_id} cannot follow {last}, the last one of {os.fspath(self.path)!r}: state and "
                "checkpoint are not of the same stream. Delete the state to begin anew, or use its checkpoint."
            )
        if batch_id != last:
            self._learn(detector, batch, batch_id)
            notes = {"batch": batch_id, "features": list(self.features)}
            if hasattr(detector, "stream_"):
                save_stream(detector, self.path, notes)
        self._state = detector, notes

    def _open(self) -> tuple[IDKStreamDetector, dict[str, Any]]:
        if not os.path.exists(self.path):
            return IDKStreamDetector(**self.detector.get_params(deep=False)), {}
        detector, notes = load_stream(self.path)
        if notes.get("features") != list(self.features):
            raise ValueError(f"features are {list(self.features)}; those of the state are {notes.get('features')}.")
        return detector.set_params(backend=self.detector.backend, n_jobs=self.detector.n_jobs), notes

    def _learn(self, detector: IDKStreamDetector, batch: DataFrame, batch_id: int) -> None:
        table: pa.Table = (batch if self.order_by is None else batch.orderBy(self.order_by)).toArrow()
        missing = [name for name in self.features if name not in table.column_names]
        if missing:
            raise ValueError(f"no column {missing[0]!r}; there are {table.column_names}.")
        if not table.num_rows:
            return
        columns = [table.column(name).cast(pa.float64()).to_numpy() for name in self.features]
        followed = detector.follow(np.column_stack(columns))
        is_judged = np.isfinite(followed.scores)
        is_odd = np.zeros(table.num_rows, dtype=bool)
        is_odd[is_judged] = detector.alarms(followed.p_values[is_judged]) == -1
        if self.on_alarms is not None and is_odd.any():
            judged = table.append_column("score", pa.array(followed.scores))
            self.on_alarms(
                judged.append_column("p_value", pa.array(followed.p_values)).filter(pa.array(is_odd)), batch_id
            )

    def __getstate__(self) -> dict[str, Any]:
        """All but the state, which is in its file."""
        return {**vars(self), "_state": None}
