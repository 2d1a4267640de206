"""isobag on Dask: ``fit``, ``score``, ``detect_points``, ``detect_groups`` and ``watch`` of Dask dataframes and arrays.

Rows stay in their partitions. Work travels to them as one node of the graph, which every worker fetches once, and what
is made of neighbours is merged on the workers. Partitions are dealt with some at a time, and forgotten, so that
scheduler and client need not hold more for more of them.
"""

from typing import Any

from isobag.engines.dask.partitions import DaskPartitions
from isobag.tables import detect
from isobag.tables import watch as watching

__all__ = ["detect_groups", "detect_points", "fit", "score", "watch"]


def fit(data: Any, *, client: Any = None, **options: Any) -> Any:
    """Learn what the rows of a Dask dataframe or array are like, or with ``by`` its groups of rows.

    Parameters
    ----------
    data : dask.dataframe.DataFrame or dask.array.Array
        Looked at several times: ``persist`` it if it is expensive to compute and fits the memory of the workers.
    client : distributed.Client, optional
        Without one the active one, and if there is none, threads of this process.
    by, features, missing, bad_cells, min_size, random_state
        As in ``isobag.detect_points`` and ``isobag.detect_groups``.
    **options
        Parameters of IDKPointDetector, or with ``by`` of IDKGroupDetector.

    Returns
    -------
    detector
        The same as that of the rows in memory, bit for bit; ``isobag.save`` keeps it with how columns become features.
    """
    return detect.fit(DaskPartitions(data, client), **options)


def score(model: Any, data: Any, *, client: Any = None, **options: Any) -> Any:
    """Score new rows, or with ``by`` new groups, by a fitted model; ``client`` as in ``fit``.

    Returns
    -------
    dask.dataframe.DataFrame
        Of rows, in the order of the input, made when it is asked for: ``id_column`` (if given), ``row`` (position in
        the input, from 0), ``score`` (higher = more normal), ``p_value`` and ``extrapolated`` (whether it is
        below what ranks can tell), if the model was calibrated, and ``flagged``. Of groups, the oddest first: the
        label, ``n_points`` and the same, with ``p_shape`` and ``p_size`` if sizes are evidence.
    """
    return detect.score(model, DaskPartitions(data, client), **options)


def detect_points(data: Any, *, client: Any = None, **options: Any) -> Any:
    """Score the rows of a Dask dataframe or array by how similar they are to all; options as in ``fit``.

    Returns
    -------
    dask.dataframe.DataFrame
        In the order of the input, made when it is asked for: ``id_column`` (if given), ``row`` (position in the input,
        from 0), ``score`` (higher = more normal), ``flagged`` and ``reasons`` (of about the 1,000 oddest rows, else
        empty). ``.nsmallest(20, "score")`` has the oddest. Scores are those of ``isobag.detect_points``, bit for bit;
        ranks would need all of them in one place.
    """
    return detect.detect_points(DaskPartitions(data, client), **options)


def detect_groups(data: Any, by: Any, *, client: Any = None, **options: Any) -> Any:
    """Rank the groups of the rows of a Dask dataframe, the oddest first; options as in ``isobag.detect_groups``.

    Returns
    -------
    dask.dataframe.DataFrame
        Of one partition, with the columns of ``isobag.detect_groups``. A group may lie in any number of partitions;
        its rows stay there.
    """
    return detect.detect_groups(DaskPartitions(data, client), by, **options)


def watch(data: Any, by: Any, time: Any, every: str = "1d", *, client: Any = None, **options: Any) -> Any:
    """Judge every period of every entity in the rows of a Dask dataframe; options as in ``isobag.watch``.

    Returns
    -------
    dask.dataframe.DataFrame
        Of one partition, with the lines of ``isobag.watch``, bit for bit. The rows of an entity may lie in any
        partitions, in any order; those of an entity in one period are brought together on a worker.
    """
    return watching.watch(DaskPartitions(data, client), by, time, every, **options)
