"""Odd rows and odd groups of a frame: ``detect_points`` and ``detect_groups``."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa

from isobag.backends.arrays import Ints
from isobag.data.params import FLAG, at_least, check_params
from isobag.estimators import IDKGroupDetector, IDKPointDetector
from isobag.tables.framesource import FrameSource
from isobag.tables.rank import Ranking, rank_groups, rank_rows
from isobag.tables.read import ReadTable, read_table


def detect_points(
    frame: Any,
    *,
    features: Iterable[Any] | str | None = None,
    id_column: Any = None,
    missing: str = "error",
    bad_cells: str = "error",
    p_values: bool = True,
    random_state: Any = None,
    **options: Any,
) -> Any:
    """Rank the rows of a frame, the oddest first.

    Parameters
    ----------
    frame : frame or array
        Of pandas, polars (lazy too), Arrow or DuckDB, or an array (n, d).
    features : list of column names, optional
        Columns to look at; by default all columns of numbers and of true and false, but for identifiers, which are
        left out with a warning. A column of text becomes an indicator for each of its frequent texts and one for all
        others; times become seconds, and circles for the time of day and the day of the week.
    id_column : column name, optional
        A column to name rows by, which is no feature.
    missing : {"error", "drop", "median"}
        "drop" leaves out rows with missing values, which then stand last, without a score; "median" puts in the
        column's median, or its most frequent text.
    bad_cells : {"error", "missing", "text"}
        What to do with cells that are no numbers in a column of objects most of which are.
    p_values : bool
        Whether to add the column of p-values.
    random_state : int, RandomState or None
        With an integer the result is always the same.
    **options
        Parameters of IDKPointDetector.

    Returns
    -------
    frame
        Of the same library, Arrow for arrays: ``id_column`` (if given), ``row`` (position in the input, from 0),
        ``score`` (higher = more normal), ``rank`` (1 = oddest; equal scores have one rank), ``p_value`` (share of the
        rows that score no higher, itself counted: a row drawn like the others has one of at most alpha with a
        probability of at most alpha), ``flagged`` (score below the threshold of the detector), ``n_missing`` (if values
        are missing) and ``reasons`` (for the 1,000 oddest rows, else empty): the columns that make a row odd, its
        values there, and whether they are in the upper or lower quarter of the data. A pandas frame keeps its index.

    Examples
    --------
    >>> import pandas as pd
    >>> from isobag import detect_points
    >>> frame = pd.DataFrame({"height": [170 + i % 7 for i in range(50)], "weight": [70 + i % 5 for i in range(50)]})
    >>> frame.loc[50] = [171, 150]
    >>> detect_points(frame, random_state=0).head(1)[["row", "rank", "flagged", "reasons"]]
        row  rank  flagged            reasons
    50   50     1     True  weight 150 (high)
    """
    given, ranking = rank_points_of(
        frame,
        features=features,
        id_column=id_column,
        missing=missing,
        bad_cells=bad_cells,
        p_values=p_values,
        random_state=random_state,
        **options,
    )
    ranked = _ranked_frame(given, ranking, [] if id_column is None else [id_column])
    index = nw.maybe_get_index(given)
    if index is not None:
        ranked.index = index[ranking.order]
    return ranked


def detect_groups(
    frame: Any,
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
    """Rank the groups of the rows of a frame, the oddest first.

    Parameters
    ----------
    frame : frame
        Of pandas, polars (lazy too), Arrow or DuckDB.
    by : column name, or list of them
        The column with the label of each row's group, or several that make one.
    features, missing, bad_cells, p_values, random_state
        As in ``detect_points``. A group whose rows are all left out stands last, without a score; with missing="drop"
        rows without a label are left out too.
    min_size : int
        Groups with fewer rows are not looked at; they stand last, without a score.
    **options
        Parameters of IDKGroupDetector.

    Returns
    -------
    frame
        Of the same library: the label (called as the column ``by``), ``n_points``, ``score`` (higher = more normal),
        ``rank``, ``p_value``, ``flagged``, ``n_missing`` (rows with missing values, if there are any) and ``reasons``
        (for the 200 oddest groups, else empty): the features that set the points of which the group has too many apart
        from all points, the median of these points, and whether it is high or low.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from isobag import detect_groups
    >>> rng = np.random.default_rng(0)
    >>> spread = np.repeat([1.0] * 40 + [0.1], 30)  # of the 41 accounts the last has all its points in the middle
    >>> frame = pd.DataFrame({"account": np.repeat(np.arange(41), 30), "amount": rng.normal(size=1230) * spread})
    >>> detect_groups(frame, by="account", random_state=0).head(1)[["account", "n_points", "rank"]]
       account  n_points  rank
    0       40        30     1
    """
    given, ranking = rank_groups_of(
        frame,
        by,
        features=features,
        missing=missing,
        bad_cells=bad_cells,
        min_size=min_size,
        p_values=p_values,
        random_state=random_state,
        **options,
    )
    ranked = nw.from_native(_ranked_frame(given, ranking, _listed(by)), eager_only=True)
    return nw.maybe_reset_index(ranked).to_native()


def rank_points_of(
    frame: Any, *, id_column: Any = None, p_values: bool = True, random_state: Any = None, **options: Any
) -> tuple[nw.DataFrame[Any], Ranking]:
    """The frame, opened, and its rows, ranked; with the options of ``detect_points``."""
    check_params({"p_values": p_values}, {"p_values": FLAG})
    reading = _reading_options(options)
    detector = IDKPointDetector(**options, random_state=random_state, calibrate=False)
    detector.check_params()
    given = open_frame(frame)
    own_id = None if id_column is None else _column(given, id_column, "id_column")
    return given, rank_rows(_read(given, id_column=own_id, **reading), detector, p_values=p_values)


def rank_groups_of(
    frame: Any, by: Any, *, min_size: int = 1, p_values: bool = True, random_state: Any = None, **options: Any
) -> tuple[nw.DataFrame[Any], Ranking]:
    """The frame, opened, and its groups, ranked; with the options of ``detect_groups``."""
    check_params(
        {"p_values": p_values, "min_size": min_size},
        {"p_values": FLAG, "min_size": at_least(1, "a group has at least one row")},
    )
    reading = _reading_options(options)
    detector = IDKGroupDetector(**options, random_state=random_state, calibrate=False)
    detector.check_params()
    given = open_frame(frame)
    table = _read(given, by=[_column(given, one, "by") for one in _listed(by)], **reading)
    return given, rank_groups(table, detector, p_values=p_values, min_size=min_size)


def open_frame(frame: Any) -> nw.DataFrame[Any]:
    """The frame, in memory, if it is one with columns to tell apart; of an array, one with columns x0, x1, ..."""
    if isinstance(frame, np.ndarray):
        if frame.ndim != 2:
            raise ValueError(f"The array has {frame.ndim} axes; need rows and columns.")
        frame = pa.table({f"x{j}": column for j, column in enumerate(frame.T)})
    try:
        found: Any = nw.from_native(frame)
        if isinstance(found, nw.LazyFrame):
            found = found.collect()
        found.schema  # noqa: B018, this is where names are looked at
    except nw.exceptions.DuplicateError:
        names = Counter(str(name) for name in getattr(frame, "columns", getattr(frame, "column_names", [])))
        twice = ", ".join(repr(name) for name, count in names.items() if count > 1)
        raise ValueError(f"Two columns are called {twice or 'alike'}; rename one: reasons go by names.") from None
    except TypeError:
        raise TypeError(
            f"The table is of type {type(frame).__name__}; need a frame of pandas, polars, Arrow or DuckDB, or an "
            "array."
        ) from None
    opened: nw.DataFrame[Any] = found
    return opened


def _reading_options(options: dict[str, Any]) -> dict[str, Any]:
    """Those of the options that are about reading; the others stay."""
    return {name: options.pop(name) for name in ("features", "missing", "bad_cells") if name in options}


def _read(
    given: nw.DataFrame[Any],
    *,
    features: Iterable[Any] | str | None = None,
    missing: str = "error",
    bad_cells: str = "error",
    by: Sequence[Any] | None = None,
    id_column: Any = None,
) -> ReadTable:
    chosen = [features] if isinstance(features, str) else None if features is None else [str(one) for one in features]
    table = read_table(
        FrameSource(given),
        features=chosen,
        by=None if by is None else [str(name) for name in by],
        id=None if id_column is None else str(id_column),
        missing=missing,
        bad_cells=bad_cells,
    )
    table.summary.warn(features is None)
    return table


def _listed(by: Any) -> list[Any]:
    return list(by) if isinstance(by, list | tuple) else [by]


def _column(given: nw.DataFrame[Any], name: Any, option: str) -> Any:
    if name not in given.columns:
        known = ", ".join(map(repr, given.columns)) or "none"
        raise ValueError(f"{option}={name!r}; the table has no such column (columns: {known}).")
    return name


def _ranked_frame(given: nw.DataFrame[Any], ranking: Ranking, apart: Sequence[Any]) -> Any:
    """The ranked table as a frame of the library of the given one; before the results, the labels as they were."""
    columns = {name: own for name, own in ranking.columns(0, len(ranking)).items() if name not in map(str, apart)}
    if not apart:
        return nw.from_dict(columns, backend=given.implementation).to_native()
    rows: Ints = ranking.rows_of(ranking.order.astype(np.int64))
    series = [nw.new_series(name, values, backend=given.implementation) for name, values in columns.items()]
    return given.select(*apart)[rows].with_columns(*series).to_native()
