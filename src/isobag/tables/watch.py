"""``watch``: a log of rows, each with an entity and a time, judged period by period."""

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from isobag.backends.arrays import Bools, Ints
from isobag.data.log import Log, LogBlock, hash_cohorts, log_of_block, make_block
from isobag.data.periods import Calendar
from isobag.estimators import EntityMonitor
from isobag.estimators.findings import Findings, shown_time
from isobag.estimators.monitor import AUTO
from isobag.tables.cells import EXACT
from isobag.tables.detect import NOTATION, open_frame
from isobag.tables.encode import Encoding
from isobag.tables.framesource import FrameSource
from isobag.tables.labels import first_rows_of, number_rows
from isobag.tables.learn import Table, learn_table
from isobag.tables.reading import ReadOptions, listed, names_of
from isobag.tables.times import moment_of, read_moments

COLUMNS = ("n_points", "score", "p_value", "p_past", "p_peers", "p_volume", "kind", "flagged", "reasons")
"""What is said of each entity and period, after the label and the ``period``."""
_TYPES = {
    "period": pa.timestamp("us"),
    "n_points": pa.int64(),
    "kind": pa.string(),
    "flagged": pa.bool_(),
    "reasons": pa.string(),
}
"""Of columns that are no numbers with a point."""


@dataclass(frozen=True)
class LogColumns:
    """Which columns of a log make the entity of a row, its time, and the cohort of the entity.

    peers : a column, AUTO where cohorts are found, or None.
    unit : what numbers in the column of times count; None where it has times.
    """

    by: tuple[str, ...]
    time: str
    peers: str | None = None
    unit: str | None = None

    def __post_init__(self) -> None:
        named = [*self.by, self.time, *([] if self.peer_column is None else [self.peer_column])]
        if not self.by:
            raise ValueError("by= names no column; need the one that holds the entities.")
        for name in named:
            if named.count(name) > 1:
                raise ValueError(f"The column {name!r} is named twice: entities, times and cohorts need their own.")
        for name in self.by:
            if name in ("period", *COLUMNS):
                raise ValueError(f"The result has a column {name!r} of its own; rename the column of that name first.")

    @property
    def peer_column(self) -> str | None:
        """The column of cohorts; None where all are peers, or cohorts are found."""
        return None if self.peers == AUTO else self.peers

    @classmethod
    def of_model(cls, monitor: Any) -> "LogColumns":
        """The columns that a monitor was taught with."""
        content = json.loads(monitor.table_).get("log")
        if not isinstance(content, dict):
            raise ValueError("The monitor was not taught by a table; its state has no names of columns.")
        return cls(tuple(content["by"]), content["time"], content["peers"], content["unit"])

    def keep_in(self, monitor: Any, encoding: Encoding) -> None:
        """Let a monitor keep these, and how the other columns become features."""
        monitor.table_ = json.dumps({**json.loads(encoding.to_text()), "log": asdict(self)})

    def reading(self, options: ReadOptions) -> ReadOptions:
        """The same options, with these columns set apart."""
        return replace(options, by=self.by, time=self.time, peers=self.peer_column)


def watch(
    frame: Any,
    by: Any,
    time: Any,
    every: str = "1d",
    *,
    since: Any = None,
    fdr: float = 0.1,
    features: Iterable[Any] | str | None = None,
    exclude: Any = None,
    peers: Any = None,
    time_zone: str | None = None,
    time_unit: str | None = None,
    keep: int | str | None = None,
    missing: str = "auto",
    bad_cells: str = "error",
    random_state: Any = 0,
    **options: Any,
) -> Any:
    """Judge every period of every entity by its own past, by its peers and by its number of rows.

    Parameters
    ----------
    frame : frame
        Of pandas, polars (lazy too), Arrow or DuckDB: a row for each event or measurement, in any order.
    by : column name, or list of them
        The column with the entity of each row (an account, a machine, a shop), or several that make one.
    time : column name
        Times, dates, texts as ISO 8601 writes them, or numbers of a ``time_unit``.
    every : str
        Length of a period: "15m", "1h", "1d", "1w". Days begin at midnight and weeks on Monday in ``time_zone``.
    since : time, optional
        Periods before that of ``since`` are past only, and have no line. By default all periods are judged for which
        enough of a past is known.
    fdr : float
        Share of flagged lines that may be false.
    features, exclude, missing, bad_cells
        As in ``detect_points``. With missing="drop" rows without an entity or a time are left out too.
    peers : column name or "auto", optional
        Entities with the same value in this column are each other's peers; by default all are. With "auto" cohorts of
        entities that are alike are found, or one of all where none are clear; a column of that name is not looked at.
    time_zone : str, optional
        Time zone of days and weeks, and of times that name none: "Europe/Berlin"; None is UTC.
    time_unit : {"s", "ms", "us", "ns"}, optional
        What numbers in the column ``time`` count since 1970.
    keep : int or str, optional
        How much of the past counts, a number of periods or a length such as "90d"; by default all of it.
    random_state : int, RandomState or None
        With an integer the result is always the same.
    **options
        Parameters of EntityMonitor; and ``decimal``, ``thousands``, ``numbers`` as in ``detect_points``.

    Returns
    -------
    frame
        Of the same library, a line for each entity and period that was judged, silent ones included, in the order of
        periods and within one the oddest first: the label (called as the column ``by``), ``period`` (its start, as
        clocks of the time zone show it), ``n_points``, ``score`` (higher = more normal), ``p_value``, ``p_past``,
        ``p_peers``, ``p_volume`` (missing where there is nothing to compare with), ``kind``, ``flagged`` and
        ``reasons`` (of flagged lines). Gaps and periods in which most entities changed at once are said in warnings.

    Examples
    --------
    >>> import numpy as np, pandas as pd, isobag
    >>> rng = np.random.default_rng(0)
    >>> counts = rng.poisson(30, size=(40, 60))
    >>> counts[3, 59] = 0  # shop 3 is silent on the last day
    >>> shop, day = (np.repeat(one.ravel(), counts.ravel()) for one in np.indices(counts.shape))
    >>> frame = pd.DataFrame({"shop": shop, "amount": rng.normal(shop % 4, 1.0)})
    >>> frame["ts"] = np.datetime64("2026-01-01") + day
    >>> lines = isobag.watch(frame, by="shop", time="ts", since="2026-03-01")
    >>> lines.head(1)[["shop", "period", "n_points", "kind", "reasons"]]
       shop     period  n_points    kind                     reasons
    0     3 2026-03-01         0  silent  silent, expected 29.6 rows
    """
    how = {name: options.pop(name) for name in NOTATION if name in options}
    chosen = ReadOptions.of(features=features, exclude=exclude, missing=missing, bad_cells=bad_cells, **how)
    columns = LogColumns(names_of(by), str(time), None if peers is None else str(peers), time_unit)
    monitor = EntityMonitor(every, time_zone, fdr, keep=keep, random_state=random_state, **options)
    monitor.check_params()
    first = None if since is None else moment_of(since, "since", time_zone)
    given = open_frame(frame)
    table = learn_table(FrameSource(given), columns.reading(chosen))
    table.summary.warn(features is None)
    findings = monitor.follow(read_log(table, columns, monitor.calendar), since=first)
    for sentence in (*(f"{change}." for change in findings.common_changes), *findings.notes):
        warnings.warn(sentence, stacklevel=2)
    order = oddest_first(findings)
    codes, names = number_entities(table.labels, columns)
    rows_of = dict(zip(names.tolist(), first_rows_of(codes, len(names)).tolist(), strict=True))
    rows = np.array([rows_of[label] for label in findings.entity[order].tolist()], dtype=np.int64)
    labels = given.select(*listed(by))[rows]
    lines = findings_columns(findings, order)
    series = [nw.new_series(name, values, backend=given.implementation) for name, values in lines.items()]
    return nw.maybe_reset_index(labels).with_columns(*series).to_native()


def read_log(table: Table, columns: LogColumns, calendar: Calendar) -> Log:
    """The rows of a table that have an entity and a time, as a log."""
    block = _log_block(table, columns, calendar)
    return log_of_block(block, table.rows.names, columns.peers == AUTO)


def _log_block(table: Table, columns: LogColumns, calendar: Calendar) -> LogBlock:
    """The rows of a table that have an entity and a time."""
    labels, options = table.labels, table.options
    moments = read_moments(labels[columns.time], columns.time, columns.unit, calendar.time_zone, options.dates)
    codes, names = number_entities(labels, columns)
    kept = np.ones(table.n_rows, dtype=bool) if table.kept is None else table.kept
    for lacking, name, what in (
        (kept & (codes < 0), ", ".join(columns.by), "label"),
        (kept & moments.missing, columns.time, "time"),
    ):
        if lacking.any() and options.missing != "drop":
            _refuse_missing(lacking, name, what)
    n_untimed = int(np.count_nonzero(kept & (codes >= 0) & moments.missing))
    takes_part = kept & (codes >= 0) & ~moments.missing
    cohorts = None
    if columns.peer_column is not None:
        places, known = number_rows([_as_text(labels[columns.peer_column])])
        cohorts = hash_cohorts(places[takes_part], np.array([*known.tolist(), ""], dtype=object))  # -1 is the last
    X, inside = table.X, takes_part[kept]
    X, codes = X if inside.all() else X[inside], codes if takes_part.all() else codes[takes_part]
    return make_block(X, moments.values[takes_part], calendar, codes, names, cohorts, n_untimed)


def number_entities(labels: Mapping[str, Any], columns: LogColumns) -> tuple[Ints, npt.NDArray[Any]]:
    """The entity of each row (n,), -1 without, and the entities: a text for each, or a tuple of texts."""
    return number_rows([_as_text(labels[name]) for name in columns.by])


def oddest_first(findings: Findings) -> Ints:
    """Lines by period, and within one from the oddest to those of which nothing is known: (lines,)."""
    score = np.where(np.isnan(findings.score), np.inf, findings.score)
    return np.lexsort((score, findings.period))


def findings_columns(findings: Findings, order: Ints) -> dict[str, Any]:
    """Lines in an order, as columns without their labels."""
    named = {"period": findings.period, **{name: getattr(findings, name) for name in COLUMNS}}
    return {name: values[order] for name, values in named.items()}


def findings_table(findings: Findings, order: Ints, by: Sequence[str]) -> pa.Table:
    """Lines in an order, with the labels as texts; null where nothing is known."""
    labels = findings.entity[order].tolist()
    parts = [(label,) for label in labels] if len(by) == 1 else labels
    columns = {name: pa.array([one[j] for one in parts], pa.string()) for j, name in enumerate(by)}
    for name, values in findings_columns(findings, order).items():
        columns[name] = pa.array(values, _TYPES.get(name, pa.float64()), from_pandas=True)
    return pa.table(columns)


def period_of(monitor: EntityMonitor, given: Any, option: str) -> str:
    """When the period of a time starts, as clocks of the time zone show it."""
    calendar = monitor.calendar
    number = calendar.number_at(moment_of(given, option, monitor.time_zone))
    return shown_time(calendar.dates(np.array([number]))[0])


def _refuse_missing(lacking: Bools, name: str, what: str) -> None:
    n, row = int(np.count_nonzero(lacking)), int(np.argmax(lacking))
    raise ValueError(
        f"{name}: row {row:,} has no {what}, one of {n:,} such rows of {len(lacking):,}; pass missing='drop' to leave "
        "them out."
    )


def _as_text(column: Any) -> Any:
    """A column as texts, packed: the same whether it has 7, "7" or 7.0; null where it has no value: (n,)."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    values = encoded.dictionary
    texts = values.cast(pa.string())
    if pa.types.is_floating(values.type):
        none = pa.scalar(None, values.type)
        is_whole = pc.and_(pc.equal(values, pc.floor(values)), pc.less(pc.abs(values), EXACT))
        texts = pc.if_else(pc.is_nan(values), pa.scalar(None, pa.string()), texts)
        texts = pc.coalesce(pc.if_else(is_whole, values, none).cast(pa.int64()).cast(pa.string()), texts)
    return pa.DictionaryArray.from_arrays(encoded.indices, texts)
