"""``detect_points``, ``detect_groups`` and ``rank_frame``: a frame is answered by a ranked frame of its library."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa

from isobag.backends.arrays import Ints
from isobag.data.frames import own_name
from isobag.data.params import FLAG, check_params
from isobag.engines import partitions_of
from isobag.estimators import IDKGroupDetector, IDKPointDetector
from isobag.tables.buckets import detect_in_buckets
from isobag.tables.cluster_groups import learn_groups
from isobag.tables.clusters import detect_rows, learn_partitions
from isobag.tables.encode import Encoding, encoding_by_names
from isobag.tables.framesource import FrameSource
from isobag.tables.learn import Table, learn_table
from isobag.tables.ranking import Ranking, check_labels, fit_data, rank
from isobag.tables.reading import ReadOptions, listed, names_of
from isobag.tables.times import bags_of
from isobag.tables.units import units_of

NOTATION = ("decimal", "thousands", "numbers", "dates")
"""Options that say how text writes numbers and dates."""


def detect_points(
    frame: Any,
    *,
    features: Iterable[Any] | str | None = None,
    id_column: Any = None,
    baseline_by: Any = None,
    missing: str = "auto",
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
    baseline_by : column name, list of them, or array of labels, optional
        The column with the label of a group, such as an account, whose rows a row is compared with before all others.
        It is no feature. See IDKPointDetector. Or the labels themselves: an array or a Series, one for each row.
    missing : {"auto", "error", "drop", "median"}
        "auto" puts in the column's median, or its most frequent text, with a warning; where a twentieth or more of a
        column is missing, one more feature says where. "drop" leaves out rows with missing values, which then stand
        last, without a score; "median" puts in the same without a word, and learns medians of all columns.
    bad_cells : {"error", "missing", "text"}
        What to do with cells that are not numbers in a column of objects most of which are.
    p_values : bool
        Whether to add the column ``rank_share``.
    random_state : int, RandomState or None
        With an integer the result is always the same.
    **options
        Parameters of IDKPointDetector; and how text writes numbers: ``decimal`` ("." or ","), ``thousands`` (the sign
        between them), ``numbers`` ("relaxed" reads currency, percent and units); ``dates``, a format in which text
        writes dates beside ISO 8601 ("%d.%m.%Y"). ``exclude`` names columns to leave
        out, or patterns of them (``temp_*``).

    Returns
    -------
    frame
        Of the same library, Arrow for arrays: ``id_column`` and ``baseline_by`` (if given), ``row`` (position in the
        input, from 0), ``score`` (higher = more normal), ``rank`` (1 = oddest; equal scores have one rank),
        ``rank_share`` (share of the rows that score no higher, itself counted: it only ranks), ``flagged`` (beyond what
        the tail of the bulk explains, so in a table without anomalies none most of the time; with a number as
        ``contamination``, so large a share), ``n_missing`` (if values are missing) and ``reasons`` (for the 1,000
        oddest rows, else empty): the columns that make a row odd, its values there, whether they are in the upper or
        lower quarter of the data, and between what values nine in ten lie; with ``baseline_by``, of its own group. A
        pandas frame keeps its index.

    Examples
    --------
    >>> import pandas as pd
    >>> from isobag import detect_points
    >>> frame = pd.DataFrame({"height": [170 + i % 7 for i in range(50)], "weight": [70 + i % 5 for i in range(50)]})
    >>> frame.loc[50] = [171, 150]
    >>> detect_points(frame, random_state=0).head(1)[["row", "rank", "flagged", "reasons"]]
        row  rank  flagged                              reasons
    50   50     1     True  weight 150 (high, usually 70 to 74)
    """
    frame, baseline_by = _with_labels(frame, baseline_by, "baseline_by")
    apart = [] if baseline_by is None else listed(baseline_by)
    given, table, detector = _prepare(
        frame,
        IDKPointDetector,
        {"features": features, "id": id_column, "baseline": apart, "missing": missing, "bad_cells": bad_cells},
        {**options, "random_state": random_state},
        p_values,
    )
    detector.calibrates = False
    if not isinstance(given, nw.DataFrame):
        return detect_rows(given, table, detector, p_values)
    ranking = rank(table, detector, p_values=p_values)
    ranked = ranked_frame(given, ranking, list(dict.fromkeys([*([] if id_column is None else [id_column]), *apart])))
    index = nw.maybe_get_index(given)
    if index is not None:
        ranked.index = index[ranking.order]
    return ranked


def detect_groups(
    frame: Any,
    by: Any,
    *,
    time: Any = None,
    every: str | None = None,
    sessions: str | None = None,
    features: Iterable[Any] | str | None = None,
    missing: str = "auto",
    bad_cells: str = "error",
    min_size: int = 1,
    p_values: bool = True,
    random_state: Any = None,
    time_zone: str | None = None,
    time_unit: str | None = None,
    **options: Any,
) -> Any:
    """Rank the groups of the rows of a frame, the oddest first.

    Parameters
    ----------
    frame : frame or array
        Of pandas, polars (lazy too), Arrow or DuckDB, or an array (n, d) if ``by`` is one too.
    by : column name, list of them, or array of labels
        The column with the label of each row's group, or several that make one. Or the labels themselves: an array or a
        Series, one for each row, in the order of the rows; the result calls them by the name of the Series, or "group".
    time : column name, optional
        Times of the rows, which divide the rows of a label into groups, by ``every`` or ``sessions``: times, dates,
        texts as ISO 8601 writes them, or numbers of a ``time_unit`` ("s", "ms", "us", "ns").
    every : str
        Length of a period, "15m", "1h", "1d", "1w". Days begin at midnight and weeks on Monday in ``time_zone`` (None:
        UTC), and a row at midnight belongs to the new day. The first and the last period may be cut short.
    sessions : str
        A session of a label ends where it has no row for longer than this, such as "30m".
    features, missing, bad_cells, p_values, random_state
        As in ``detect_points``. A group whose rows are all left out stands last, without a score; with missing="drop"
        rows without a label are left out too.
    min_size : int
        Groups with fewer rows are not looked at; they stand last, without a score.
    **options
        Parameters of IDKGroupDetector; and ``decimal``, ``thousands``, ``numbers``, ``dates``, ``exclude`` as
        in ``detect_points``.

    Returns
    -------
    frame
        Of the same library: the label (called as the column ``by``), ``period`` or ``session`` (when it starts, as
        clocks of the zone show it, if rows are divided by time), ``n_points``, ``score`` (higher = more normal),
        ``rank``, ``rank_share``, ``flagged`` (as in ``detect_points``), ``n_missing`` (rows with
        missing values, if there are any) and ``reasons`` (for the 200 oddest groups, else empty): the number of points,
        if it is unusual, and the features that set the points of which the group has too many apart from all points:
        the medians of the group and of all, or the quartiles where it is narrower or wider, or shares of rows.

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
    frame, by = _with_labels(frame, by, "by")
    bags = bags_of(time, every, sessions, time_zone, time_unit, names_of(listed(by)))
    given, table, detector = _prepare(
        frame,
        IDKGroupDetector,
        {"features": features, "by": listed(by), "missing": missing, "bad_cells": bad_cells, "bags": bags},
        {**options, "random_state": random_state},
        p_values,
    )
    detector.calibrates = False
    if not isinstance(given, nw.DataFrame):
        return detect_in_buckets(given, table, detector, min_size, p_values)
    ranking = rank(table, detector, min_size=min_size, p_values=p_values)
    ranked = nw.from_native(ranked_frame(given, ranking, listed(by)), eager_only=True)
    return nw.maybe_reset_index(ranked).to_native()


def fit(
    data: Any,
    *,
    by: Any = None,
    baseline_by: Any = None,
    features: Iterable[Any] | str | None = None,
    missing: str = "auto",
    bad_cells: str = "error",
    min_size: int = 1,
    **options: Any,
) -> Any:
    """A detector fitted to the rows of data, or with ``by`` to groups of them; it keeps how columns become features."""
    kind: type[Any] = IDKPointDetector if by is None else IDKGroupDetector
    reading = {"features": features, "by": by, "baseline": baseline_by, "missing": missing, "bad_cells": bad_cells}
    given, table, detector = _prepare(data, kind, reading, options)
    if by is not None and not isinstance(given, nw.DataFrame):
        learn_groups(given, table, detector, min_size)
        return detector
    fit_table(table, detector, min_size)
    if not isinstance(given, nw.DataFrame) and len(table.rows) < table.n_rows:
        del detector.scores_  # of a sample alone
    return detector


def read_for(model: Any, data: Any, by: Any, id_column: Any) -> tuple[Any, Table]:
    """The frame, and the table as a fitted model reads it; ``by`` counts if the model is of groups."""
    is_grouped = isinstance(model, IDKGroupDetector)
    if is_grouped and by is None:
        raise ValueError("The model scores groups; name the column of their labels with by=.")
    options = ReadOptions.of(by=by if is_grouped else None, id=id_column)
    given = open_frame(data)
    source = FrameSource(given)
    table = learn_table(source, options, encoding=encoding_of(model, source.columns, [*options.apart]))
    table.summary.warn_of_remarks()
    return given, table


def rank_frame(frame: Any, **options: Any) -> Ranking:
    """The rows of a frame, ranked, or its groups, if ``by`` is given, to look at: in a notebook, or by ``plot()``.

    Options as in ``detect_points`` and ``detect_groups``; ``keep``: columns to carry along beside the result.

    Returns
    -------
    Ranking
        Shows itself in notebooks as a table of the oddest, with reasons, and a strip of all scores; ``plot(ax=None)``
        draws scores by rank with matplotlib and returns the Axes; ``isobag.report.write_report`` makes a page of it.
        ``columns(0, 10)`` has what ``detect_points`` returns, of the ten oddest.

    Examples
    --------
    >>> import numpy as np
    >>> from isobag import rank_frame
    >>> X = np.vstack([np.random.default_rng(0).normal(size=(200, 2)), [[9.0, 9.0]]])
    >>> ranking = rank_frame(X, random_state=0)
    >>> ranking.n_flagged, int(ranking.order[0])
    (1, 200)
    """
    names = ("features", "by", "missing", "bad_cells")
    reading: dict[str, Any] = {name: options.pop(name) for name in names if name in options}
    ranking = {name: options.pop(name) for name in ("p_values", "min_size") if name in options}
    kind: type[Any] = IDKGroupDetector if "by" in reading else IDKPointDetector
    reading |= {"id": options.pop("id_column", None), "carry": options.pop("keep", ())}
    _, table, detector = _prepare(open_frame(frame), kind, reading, options, ranking.get("p_values", True))
    detector.calibrates = False
    return rank(table, detector, **ranking)


def fit_table(table: Table, detector: Any, min_size: int = 1) -> Any:
    """Fit a detector to the rows of a table, or to its groups; it keeps how columns become features."""
    units = units_of(table, min_size)
    fit_data(detector, units.data, units.baseline)
    detector.table_ = table.encoding.to_text()
    return detector


def encoding_of(model: Any, columns: Sequence[str] | None, apart: Sequence[str]) -> Encoding:
    """How tables become the features of a model: as it was learned, or by the names of its features."""
    if hasattr(model, "table_"):
        return Encoding.of_model(model)
    return encoding_by_names(getattr(model, "feature_names_in_", None), model.n_features_in_, columns, apart)


def open_frame(frame: Any) -> nw.DataFrame[Any]:
    """The frame, in memory, if it is one with columns to tell apart; of an array, one with columns x0, x1, ..."""
    if isinstance(frame, np.ndarray):
        if frame.ndim != 2:
            raise ValueError(f"The array has shape {frame.shape}; need (rows, columns).")
        frame = pa.table({f"x{j}": column for j, column in enumerate(frame.T)})
    if partitions_of(frame) is not None:
        raise TypeError(f"The table is a {type(frame).__name__} in partitions; need a frame in memory.")
    try:
        opened: Any = nw.from_native(frame)
        if isinstance(opened, nw.LazyFrame):
            opened = opened.collect()
        opened.schema  # noqa: B018, this is where names are looked at
    except nw.exceptions.DuplicateError:
        names = Counter(str(name) for name in getattr(frame, "columns", getattr(frame, "column_names", [])))
        twice = ", ".join(repr(name) for name, count in names.items() if count > 1)
        raise ValueError(f"Two columns are called {twice or 'alike'}; rename one: reasons go by names.") from None
    except TypeError:
        raise TypeError(
            f"The table is of type {type(frame).__name__}; need a frame of pandas, polars, Arrow or DuckDB, or an "
            "array."
        ) from None
    in_memory: nw.DataFrame[Any] = opened
    return in_memory


def _prepare(
    data: Any, kind: type[Any], how: dict[str, Any], options: dict[str, Any], p_values: bool = True
) -> tuple[Any, Table, Any]:
    """The frame, the table, and a detector, checked before any row is read.

    how : options of reading; those of text and ``exclude`` are still among the ``options`` of the detector.
    """
    check_params({"p_values": p_values}, {"p_values": FLAG})
    how |= {name: options.pop(name) for name in (*NOTATION, "exclude") if name in options}
    reading = ReadOptions.of(**how)
    detector = kind(**options)
    detector.check_params()
    check_labels([*reading.apart])
    given: Any = partitions_of(data) or open_frame(data)
    names = [str(name) for name in (given.columns if isinstance(given, nw.DataFrame) else given.schema.names)]
    named = [(one, "by") for one in reading.by] + [(one, "baseline_by") for one in reading.baseline]
    for name, option in named + ([] if reading.id is None else [(reading.id, "id_column")]):
        if name not in names:
            columns = ", ".join(map(repr, names)) or "none"
            raise ValueError(f"{option}={name!r}; the table has no such column (columns: {columns}).")
    if isinstance(given, nw.DataFrame):
        table = learn_table(FrameSource(given), reading)
    else:
        table = learn_partitions(given, reading, detector.random_state, vars(detector).get("max_rows", "auto"))
    table.summary.warn(reading.features is None)
    table.summary.warn_of_remarks()
    return given, table, detector


def _with_labels(frame: Any, labels: Any, option: str) -> tuple[Any, Any]:
    """The frame with a column of the labels, and its name, if they are given as an array; else both as they are."""
    if not isinstance(labels, np.ndarray | pa.Array | pa.ChunkedArray):
        series = nw.from_native(labels, series_only=True, pass_through=True)
        if not isinstance(series, nw.Series):
            return frame, labels
        name, values = None if series.name == "" else series.name, series.to_list()
    else:
        name, values = None, labels.tolist()
    given = open_frame(frame)
    if getattr(labels, "ndim", 1) != 1 or len(values) != len(given):
        shape = getattr(labels, "shape", (len(values),))
        raise ValueError(
            f"{option}= is an array of shape {tuple(shape)}; need one label for each of the {len(given):,} rows."
        )
    if name in given.columns:
        if given.get_column(name).to_list() == values:
            return frame, name
        raise ValueError(
            f"{option}= is a Series called {name!r}, and the table has another column of that name; rename one."
        )
    name = own_name("group", list(map(str, given.columns))) if name is None else name
    column = nw.new_series(str(name), values, backend=given.implementation)
    return given.with_columns(column).to_native(), str(name)


def ranked_frame(given: nw.DataFrame[Any], ranking: Ranking, apart: Sequence[Any]) -> Any:
    """The ranked table as a frame of the library of the given one; before the results, the labels as they were."""
    columns = {name: own for name, own in ranking.columns(0, len(ranking)).items() if name not in map(str, apart)}
    if not apart:
        return nw.from_dict(columns, backend=given.implementation).to_native()
    rows: Ints = ranking.rows_of(ranking.order.astype(np.int64))
    series = [nw.new_series(name, values, backend=given.implementation) for name, values in columns.items()]
    return given.select(*apart)[rows].with_columns(*series).to_native()
