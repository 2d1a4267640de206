"""Spark: ``fit``, ``score``, ``detect_*`` and ``watch`` of DataFrames, an estimator for Spark ML, and streams.

Rows stay in their partitions. Work travels to them once to each machine, and what is made of neighbours is merged on
the executors. Every pass runs the query of the DataFrame again, so ``persist`` it if it is expensive to compute; where
it would give other rows, or the same in another order, as after a shuffle, that is an error.
"""

from typing import Any

from pyspark.sql import DataFrame

from isobag.engines.spark.ml import IDKPointEstimator, IDKPointModel
from isobag.engines.spark.partitions import SparkPartitions
from isobag.engines.spark.streaming import StreamUpdate
from isobag.tables import detect
from isobag.tables import watch as watching
from isobag.tables.reading import names_of

__all__ = [
    "IDKPointEstimator",
    "IDKPointModel",
    "StreamUpdate",
    "detect_groups",
    "detect_points",
    "fit",
    "score",
    "watch",
]


_NAMED = ("by", "time", "peers", "id_column")


def fit(data: DataFrame, **options: Any) -> Any:
    """Learn what the rows of a DataFrame are like, or with ``by`` its groups of rows.

    Parameters
    ----------
    data : pyspark.sql.DataFrame
        Looked at several times.
    by, features, missing, bad_cells, min_size, random_state
        As in ``isobag.detect_points`` and ``isobag.detect_groups``.
    **options
        Parameters of IDKPointDetector, or with ``by`` of IDKGroupDetector.

    Returns
    -------
    detector
        The same as that of the rows in memory, bit for bit; ``isobag.save`` keeps it with how columns become features.
    """
    return detect.fit(_partitions(data, options), **options)


def score(model: Any, data: DataFrame, **options: Any) -> DataFrame:
    """Score new rows, or with ``by`` new groups, by a fitted model.

    Returns
    -------
    pyspark.sql.DataFrame
        With the columns of ``isobag.engines.dask.score``: of rows in the order of the input, made when it is asked
        for; of groups the oddest first.
    """
    scored: DataFrame = detect.score(model, SparkPartitions(data), **options)
    return scored


def detect_points(data: DataFrame, **options: Any) -> DataFrame:
    """Score the rows of a DataFrame by how similar they are to all; options as in ``fit``, and ``id_column``.

    Returns
    -------
    pyspark.sql.DataFrame
        With the columns of ``isobag.engines.dask.detect_points``, in the order of the input, made when it is asked for.
        ``.orderBy("score").limit(20)`` has the oddest.
    """
    scored: DataFrame = detect.detect_points(_partitions(data, options), **options)
    return scored


def detect_groups(data: DataFrame, by: Any, **options: Any) -> DataFrame:
    """Rank the groups of the rows of a DataFrame, the oddest first; options as in ``isobag.detect_groups``.

    Returns
    -------
    pyspark.sql.DataFrame
        With the columns of ``isobag.detect_groups``. A group may lie in any number of partitions; its rows stay there.
    """
    ranked: DataFrame = detect.detect_groups(_partitions(data, {**options, "by": by}), by, **options)
    return ranked


def watch(data: DataFrame, by: Any, time: Any, every: str = "1d", **options: Any) -> DataFrame:
    """Judge every period of every entity in the rows of a DataFrame; options as in ``isobag.watch``.

    Returns
    -------
    pyspark.sql.DataFrame
        The lines of ``isobag.watch``, bit for bit. The rows of an entity may lie in any partitions, in any order; those
        of an entity in one period are brought together on an executor.
    """
    partitions = _partitions(data, {**options, "by": by, "time": time})
    lines: DataFrame = watching.watch(partitions, by, time, every, **options)
    return lines


def _partitions(data: DataFrame, options: dict[str, Any]) -> SparkPartitions:
    """The columns that are named, if features are: no other is read."""
    partitions = SparkPartitions(data)
    features = options.get("features")
    if features is None:
        return partitions
    named = [*names_of(features), *(name for one in _NAMED for name in names_of(options.get(one)))]
    if not set(named) <= set(data.columns):
        return partitions  # whose error says which are there
    return SparkPartitions(data.select(*dict.fromkeys(f"`{name}`" for name in named)))
