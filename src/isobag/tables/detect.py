"""``detect``: a frame comes in, its rows or groups come out ranked."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa

from isobag.data.frames import own_name
from isobag.data.params import MIN_SIZE, check_params
from isobag.engines import partitions_of
from isobag.estimators import IDKGroupDetector, IDKPointDetector
from isobag.tables.cells import NUMBER
from isobag.tables.cluster_scores import detect_partitions
from isobag.tables.clusters import FrameOnly, learn_partitions
from isobag.tables.encode import EncodedColumn, Encoding
from isobag.tables.framesource import FrameSource
from isobag.tables.learn import Table, learn_table
from isobag.tables.ranking import check_labels, fit_data, rank
from isobag.tables.reading import ReadOptions, names_of
from isobag.tables.times import bags_of
from isobag.tables.units import units_of

Names = Iterable[Any] | str | None
OF_DETECTOR = ("n_estimators", "max_samples", "contamination", "random_state", "n_jobs")


def detect(
    frame: Any,
    by: Any = None,
    *,
    within: Any = None,
    time: Any = None,
    every: str | None = None,
    sessions: str | None = None,
    time_zone: str | None = None,
    time_unit: str | None = None,
    features: Names = None,
    exclude: Names = None,
    id_column: Any = None,
    keep: Names = (),
    missing: str = "auto",
    bad_cells: str = "error",
    decimal: str = ".",
    thousands: str = "",
    numbers: str = "strict",
    dates: str = "",
    min_size: int = 1,
    contamination: float | str = "auto",
    n_estimators: int = 100,
    max_samples: int | str = "auto",
    random_state: Any = None,
    n_jobs: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Rank the rows of a frame, or with ``by`` groups of them, the oddest first.

    Parameters
    ----------
    frame : frame or array
        Of pandas, polars (lazy too), Arrow, DuckDB, Dask or Spark, or an array (n, d).
    by : column name, list of them, or array of labels, optional
        What is judged: the column whose values say which rows belong together, such as an account, or several
        columns that do so together, or the labels themselves, one for each row. Without it, rows are judged.
    within : column name, list of them, or array of labels, optional
        What a row is compared with: the rows of its group, such as an account, before all others. See
        ``IDKPointDetector.fit``.
    time, every, sessions : column name, "1h" or "1d", "30m"
        Divide the rows of a label by time: each period (``every`` 15m, 1h, 1d, 1w) of each label is judged, or each
        session, which a gap longer than ``sessions`` ends. Days begin at midnight and weeks on Monday.
    time_zone, time_unit : str, optional
        Whose midnight, such as "Europe/Berlin" (UTC); and what numbers count since 1970: "s", "ms", "us" or "ns".
    features, exclude : list of column names, optional
        Columns to look at, or to leave out (``temp_*`` too). By default all columns of numbers, of true
        and false and of text that repeats; identifiers, times and free text are left out with a warning. Texts become
        one feature, how rare they are, or with ``by`` an indicator for each frequent one; times become seconds, and
        circles for the time of day and the day of the week.
    id_column, keep : column name; list of column names
        A column to name rows by, and columns to carry into the result. Only ``keep`` may also be features.
    missing : {"auto", "error", "drop"}
        With "auto" gaps take part, and one feature says how surprising those of a row are. "drop" leaves out rows
        with missing values or labels, which then stand last, without a score.
    bad_cells : {"error", "missing", "text"}
        What to do with cells that are not numbers in a column of objects most of which are.
    decimal, thousands, numbers, dates : str
        How text writes numbers and dates: "," for 3,5; the sign between thousands; "relaxed" for currency, percent
        and units; a format such as "%d.%m.%Y".
    min_size : int
        Groups with fewer rows stand last, without a score.
    contamination, n_estimators, max_samples, random_state, n_jobs
        As in ``IDKPointDetector`` and ``IDKGroupDetector``; with an integer ``random_state`` the result is always the
        same.
    options : dict, optional
        Further parameters of the detector, such as ``{"size": "ignore"}`` or ``{"device": "cuda"}``.

    Returns
    -------
    Ranking
        ``to_frame()`` is the result as a frame of the same library; ``plot()`` and ``report("page.html")`` show it, and
        a notebook shows the oddest. See docs/scores.md for what score, p-value and flag mean.

    Examples
    --------
    >>> import pandas as pd, isobag
    >>> frame = pd.DataFrame({"height": [170 + i % 7 for i in range(50)], "weight": [70 + i % 5 for i in range(50)]})
    >>> frame.loc[50] = [171, 150]
    >>> isobag.detect(frame, random_state=0).to_frame().head(1)[["row", "rank", "flagged", "reasons"]]
        row  rank  flagged                              reasons
    50   50     1     True  weight 150 (high, usually 70 to 74)
    """
    table_frame, table, detector = prepare(**locals())
    detector.calibrates = False
    if not isinstance(table_frame, nw.DataFrame):
        return FrameOnly(detect_partitions(table_frame, table, detector, min_size))
    return rank(table, detector, min_size=min_size, frame=table_frame)


def prepare(
    frame: Any,
    by: Any,
    *,
    within: Any,
    time: Any,
    every: str | None,
    sessions: str | None,
    time_zone: str | None,
    time_unit: str | None,
    id_column: Any,
    keep: Names,
    options: Mapping[str, Any] | None,
    min_size: int,
    **more: Any,
) -> tuple[Any, Table, Any]:
    """The frame, the table, and a detector, all checked before any row is read; parameters as of ``detect``."""
    check_params({"min_size": min_size}, {"min_size": MIN_SIZE})
    frame, by = with_labels(frame, by, "by")
    frame, within = with_labels(frame, within, "within")
    names = names_of(by)
    bags = bags_of(time, every, sessions, time_zone, time_unit, names)
    params = {name: more.pop(name) for name in OF_DETECTOR}
    asked = ReadOptions.of(by=by, baseline=within, id=id_column, carry=keep, bags=bags, **more)
    detector = detector_of(IDKGroupDetector if names else IDKPointDetector, params, options or {})
    check_labels([*asked.apart])
    opened: Any = partitions_of(frame) or open_frame(frame)
    columns = [str(name) for name in (opened.columns if isinstance(opened, nw.DataFrame) else opened.schema.names)]
    named = {"by": asked.by, "within": asked.baseline, "id_column": names_of(asked.id), "keep": asked.carry or ()}
    for option, wanted in named.items():
        for name in wanted:
            if name not in columns:
                listed_names = ", ".join(map(repr, columns)) or "none"
                raise ValueError(f"{option}={name!r}; the table has no such column (columns: {listed_names}).")
    if isinstance(opened, nw.DataFrame):
        table = learn_table(FrameSource(opened), asked)
    else:
        table = learn_partitions(opened, asked, detector.random_state, vars(detector).get("max_rows", "auto"))
    table.summary.warn(asked.features is None)
    table.summary.warn_of_remarks()
    return opened, table, detector


def detector_of(kind: type[Any], params: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """A detector with these parameters, and further ones that were named in ``options``."""
    allowed = sorted(kind().get_params().keys() - params.keys())
    for name in options:
        if name not in allowed:
            raise ValueError(f"options has {name!r}; need parameters of {kind.__name__}: {', '.join(allowed)}.")
    detector = kind(**params, **options)
    detector.check_params()
    return detector


def fit_table(table: Table, detector: Any, min_size: int = 1) -> Any:
    """Fit a detector to the rows of a table, or to its groups; it keeps how columns become features."""
    units = units_of(table, min_size)
    fit_data(detector, units.data, units.baseline)
    detector.table_ = table.encoding.to_text()
    return detector


def encoding_of(model: Any, columns: Sequence[str] | None, apart: Sequence[str]) -> Encoding:
    """How tables become the features of a model: as it was learned, or by its features, which are then numbers.

    A model of nameless rows takes the columns in their order, but for those set apart.
    """
    if hasattr(model, "table_"):
        return Encoding.of_model(model)
    names = list(getattr(model, "feature_names_in_", [name for name in columns or () if name not in apart]))
    if len(names) != model.n_features_in_:
        raise ValueError(
            f"The model was fitted to {model.n_features_in_} features without names, and the table has {len(names)} "
            "columns; choose them with --sql."
        )
    for name in names:
        if columns is not None and name not in columns:
            listed = ", ".join(map(repr, columns)) or "none"
            raise ValueError(f"The model needs the column {name!r}; the table has no such column (columns: {listed}).")
    return Encoding(tuple(EncodedColumn(str(name), NUMBER) for name in names))


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


def with_labels(frame: Any, labels: Any, option: str) -> tuple[Any, Any]:
    """The frame with a column of the labels, and its name, if they are given as an array; else both as they are."""
    if not isinstance(labels, np.ndarray | pa.Array | pa.ChunkedArray):
        series = nw.from_native(labels, series_only=True, pass_through=True)
        if not isinstance(series, nw.Series):
            return frame, labels
        name, values = None if series.name == "" else series.name, series.to_list()
    else:
        name, values = None, labels.tolist()
    opened = open_frame(frame)
    if getattr(labels, "ndim", 1) != 1 or len(values) != len(opened):
        shape = getattr(labels, "shape", (len(values),))
        raise ValueError(
            f"{option}= is an array of shape {tuple(shape)}; need one label for each of the {len(opened):,} rows."
        )
    index: Any = nw.maybe_get_index(opened)
    of_labels: Any = getattr(labels, "index", None)
    if index is not None and hasattr(of_labels, "equals") and not of_labels.equals(index):
        raise ValueError(f"{option}= is a Series with another index than the table; align it, or pass an array.")
    if name in opened.columns:
        if opened.get_column(name).to_list() == values:
            return frame, name
        raise ValueError(
            f"{option}= is a Series called {name!r}, and the table has another column of that name; rename one."
        )
    name = own_name("group", list(map(str, opened.columns))) if name is None else name
    column = nw.new_series(str(name), values, backend=opened.implementation)
    return opened.with_columns(column).to_native(), str(name)
