"""The point detector as an estimator of Spark ML, for pipelines."""

import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.ml import Estimator, Model
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasInputCols
from pyspark.ml.util import (
    DefaultParamsReadable,
    DefaultParamsReader,
    DefaultParamsWritable,
    DefaultParamsWriter,
    MLReadable,
    MLReader,
    MLWritable,
    MLWriter,
)
from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType, DoubleType, StructField, StructType

from isobag.backends.arrays import Bools
from isobag.data.partitions import Frames
from isobag.data.rows import ArrayRows
from isobag.engines.spark import tasks
from isobag.engines.spark.partitions import SparkPartitions
from isobag.engines.spark.tasks import send
from isobag.engines.versions import own_version
from isobag.estimators import IDKPointDetector
from isobag.storage.modelfile import load, save
from isobag.tables import detect
from isobag.tables.encode import Encoding
from isobag.tables.judgement import judge_new
from isobag.tables.learn import PartitionReader
from isobag.tables.reading import ReadOptions

_OPTIONS = {
    "nEstimators": "n_estimators",
    "maxSamples": "max_samples",
    "method": "method",
    "scaling": "scaling",
    "contamination": "contamination",
    "calibrate": "calibrate",
    "mechanism": "mechanism",
    "seed": "random_state",
    "missing": "missing",
    "badCells": "bad_cells",
}
"""Parameters of ours, and what they are called elsewhere."""
_DEFAULTS = {name: one.default for name, one in signature(IDKPointDetector).parameters.items()} | {
    "random_state": 0,
    "missing": ReadOptions.missing,
    "bad_cells": ReadOptions.bad_cells,
}
_RESULTS = {
    "score": ("scoreCol", DoubleType()),
    "p_value": ("pValueCol", DoubleType()),
    "extrapolated": ("extrapolatedCol", BooleanType()),
    "flagged": ("flaggedCol", BooleanType()),
}
"""Columns that are added, in order: the parameters that name them, and their types."""
_MODEL_FILE = "model"


def _auto_or(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: value if value == "auto" else convert(value)


def _text_or_none(value: Any) -> Any:
    return None if value is None else TypeConverters.toString(value)


def _param(name: str, doc: str, convert: Callable[[Any], Any] = TypeConverters.toString) -> Any:
    return Param(Params._dummy(), name, doc, typeConverter=convert)  # noqa: SLF001, the way of every class of Spark ML


class _PointParams(HasInputCols):
    """Parameters of the estimator and its model; see ``isobag.IDKPointDetector`` and ``isobag.detect_points``."""

    nEstimators = _param("nEstimators", "number of partitionings, t", TypeConverters.toInt)  # noqa: N815
    maxSamples = _param("maxSamples", "psi, or 'auto'", _auto_or(TypeConverters.toInt))  # noqa: N815
    method = _param("method", "'similarity' or 'norm'")
    scaling = _param("scaling", "how features are scaled", _text_or_none)
    contamination = _param("contamination", "share of anomalies, or 'auto'", _auto_or(TypeConverters.toFloat))
    calibrate = _param("calibrate", "whether the model gives p-values", TypeConverters.toBoolean)
    mechanism = _param("mechanism", "how drawn rows become cells")
    seed = _param("seed", "with the same the result is the same", TypeConverters.toInt)
    missing = _param("missing", "missing values: 'error', 'drop' or 'median'")
    badCells = _param("badCells", "cells that are not numbers: 'error', 'missing' or 'text'")  # noqa: N815
    scoreCol = _param("scoreCol", "column for the score; higher = more normal")  # noqa: N815
    pValueCol = _param("pValueCol", "column for the p-value, if the model is calibrated")  # noqa: N815
    extrapolatedCol = _param("extrapolatedCol", "column for whether the p-value is extrapolated")  # noqa: N815
    flaggedCol = _param("flaggedCol", "column for whether the score is below the threshold")  # noqa: N815

    def __init__(self, **params: Any) -> None:
        super().__init__()
        self._setDefault(scoreCol="score", pValueCol="p_value", extrapolatedCol="extrapolated", flaggedCol="flagged")
        self._setDefault(**{name: _DEFAULTS[ours] for name, ours in _OPTIONS.items()})
        self.setParams(**params)

    def setParams(self, **params: Any) -> Any:  # noqa: N802, as in Spark ML
        """Set some of them by name."""
        return self._set(**params)


class IDKPointEstimator(_PointParams, Estimator, DefaultParamsReadable, DefaultParamsWritable):
    """Learns what the rows of a DataFrame are like; ``IDKPointDetector`` for pipelines of Spark ML.

    Parameters are given by name: inputCols (by default all columns of numbers), nEstimators, maxSamples, method,
    scaling, contamination, calibrate, mechanism, seed, missing, badCells; scoreCol, pValueCol, extrapolatedCol,
    flaggedCol.

    Examples
    --------
    >>> model = IDKPointEstimator(inputCols=["height", "weight"], seed=0).fit(frame)  # doctest: +SKIP
    >>> model.transform(frame).orderBy("score").show(5)  # doctest: +SKIP
    """

    def _fit(self, dataset: DataFrame) -> "IDKPointModel":
        columns = self.getInputCols() if self.isDefined(self.inputCols) else None
        options = {ours: self.getOrDefault(name) for name, ours in _OPTIONS.items()}
        partitions = SparkPartitions(dataset if columns is None else dataset.select(*columns))
        model: IDKPointModel = self._copyValues(IDKPointModel(detect.fit(partitions, features=columns, **options)))
        return model


class IDKPointModel(_PointParams, Model, MLReadable, MLWritable):
    """Scores rows: adds columns to a DataFrame, lazily: scoreCol, flaggedCol; if calibrated pValueCol, extrapolatedCol.

    detector : the fitted ``isobag.IDKPointDetector``.
    """

    def __init__(self, detector: Any = None) -> None:
        super().__init__()
        self.detector = detector

    def _transform(self, dataset: DataFrame) -> DataFrame:
        is_calibrated = self.detector.model_.calibration is not None
        chosen = [one for one in _RESULTS if is_calibrated or one in ("score", "flagged")]
        names = {one: self.getOrDefault(_RESULTS[one][0]) for one in chosen}
        for name in names.values():
            if name in dataset.columns:
                raise ValueError(f"The DataFrame has a column {name!r} already; name another for the result.")
        added = [StructField(name, _RESULTS[one][1]) for one, name in names.items()]
        work = _Scores(PartitionReader(Encoding.of_model(self.detector), ReadOptions()), self.detector, names)
        sent = send(dataset, (work, own_version()))
        schema = StructType([*dataset.schema.fields, *added])
        return dataset.mapInArrow(lambda batches: tasks.add_columns(batches, sent), schema)

    def write(self) -> MLWriter:
        """What saves it."""
        return _Writer(self)

    @classmethod
    def read(cls) -> "MLReader[IDKPointModel]":
        """What loads it."""
        return _Reader()


@dataclass(frozen=True)
class _Scores:
    """Adds what a detector says of rows to them."""

    reader: PartitionReader
    detector: Any
    names: dict[str, str]

    def __call__(self, number: int, frames: Frames) -> Iterator[pa.Table]:
        passed: deque[pa.Table] = deque()

        def remembered() -> Frames:
            for frame in frames:
                passed.append(frame)
                yield frame

        for block in self.reader.blocks(number, remembered()):
            judged = judge_new(self.detector, ArrayRows(block.X, self.reader.encoding.names), "p_value" in self.names)
            results = {"score": judged.scores, **judged.evidence, "flagged": judged.scores < judged.threshold}
            table = passed.popleft()
            for one, name in self.names.items():
                table = table.append_column(name, _spread(results[one], block.kept))
            yield table


def _spread(values: Any, kept: Bools | None) -> Any:
    """Values of the rows that take part, null for the others: (m,) -> (n,)."""
    if kept is None:
        return pa.array(values)
    places = np.cumsum(kept) - 1
    return pa.array(values).take(pa.array(places, mask=~kept))


class _Writer(MLWriter):
    """Saves parameters as Spark ML does, and the model file as the one cell of a table, wherever Spark can write."""

    def __init__(self, model: IDKPointModel) -> None:
        super().__init__()
        self._model = model

    def saveImpl(self, path: str) -> None:  # noqa: N802, as in Spark ML
        """Write both into a folder."""
        DefaultParamsWriter.saveMetadata(self._model, path, self.sparkSession)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.isobag"
            save(self._model.detector, file)
            content = file.read_bytes()
        table = self.sparkSession.createDataFrame([(bytearray(content),)], "content binary")
        table.coalesce(1).write.parquet(f"{path}/{_MODEL_FILE}")


class _Reader(MLReader[IDKPointModel]):
    """Loads what was saved."""

    def load(self, path: str) -> IDKPointModel:
        """Read both from a folder."""
        metadata = DefaultParamsReader.loadMetadata(path, self.sparkSession)
        row = self.sparkSession.read.parquet(f"{path}/{_MODEL_FILE}").first()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.isobag"
            file.write_bytes(b"" if row is None else row["content"])
            model = IDKPointModel(load(file))
        model._resetUid(metadata["uid"])  # noqa: SLF001, the way of every class of Spark ML
        DefaultParamsReader.getAndSetParams(model, metadata)
        return model
