"""``Watch``: entities that are unlike their own past, period after period, from frames or files."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Bools
from isobag.backends.learned import Learned, demand
from isobag.data.params import FDR, check_params
from isobag.data.periods import Calendar, length_of
from isobag.models.watch import ACCEPT, DISMISS, RETIRE
from isobag.models.watch_bags import BagRows, learn_schema
from isobag.models.watch_run import History, digests_of, empty_history, judge_open, rules_of
from isobag.storage.modelfile import save
from isobag.tables.batch import Source
from isobag.tables.detect import open_frame
from isobag.tables.framesource import FrameSource
from isobag.tables.incidents import Incidents, Naming, library_of, shown_period
from isobag.tables.reading import ReadOptions, names_of
from isobag.tables.times import bags_of, moment_of
from isobag.tables.watch_rows import MOST_VALUES, Log, are_repeated, far_beyond, number_entities, read_log, rows_of

Names = Iterable[Any] | str | None


@dataclass
class Watch(Learned):
    """Entities over time: accounts, machines or shops that are unlike their own past.

    Rows are put together by entity and period. Each period is judged by those before it: its number of rows, and of
    each column values, spread, missing values and mix, against the entity's level and its weekly or daily rhythm, with
    what all entities have in common allowed for. A lasting deviation is one incident; it stays open until it is over.

    Parameters
    ----------
    by : column name, or list of them
        The entity of a row.
    time : column name
        The time of a row.
    every : str
        Length of a period: "15m", "1h", "1d", "1w".
    fdr : float
        Share of new incidents of a period that may be false. Where nothing is wrong, up to about this share of periods
        has a false incident; of days, where periods are shorter than a day.
    late : int
        So many periods before the newest stay open: late rows are added to them, and they are judged again.
    features, exclude : column names, optional
        Columns to look at, or to leave out; default: all but identifiers, and texts of more than 50 values.
    time_zone, time_unit, decimal, thousands, numbers, dates
        As in ``detect``.

    Examples
    --------
    >>> import numpy as np, pandas as pd, isobag
    >>> rng = np.random.default_rng(0)
    >>> days = pd.date_range("2026-01-01", periods=40).repeat(200)
    >>> frame = pd.DataFrame({"time": days, "shop": rng.integers(10, size=8000), "amount": rng.gamma(4, 5, 8000)})
    >>> frame.loc[(frame.shop == 3) & (frame.time == "2026-02-09"), "amount"] *= 3
    >>> monitor = isobag.Watch(by="shop", time="time")
    >>> incidents = monitor.update(frame)
    >>> incidents.to_frame()[["shop", "since", "state", "what"]]
       shop      since state   what
    0     3 2026-02-09   new  value
    1     4 2026-01-25  over  value
    """

    by: tuple[str, ...]
    time: str
    every: str = "1d"
    fdr: float = 0.1
    late: int = 2
    features: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    time_zone: str | None = None
    time_unit: str | None = None
    decimal: str = "."
    thousands: str = ""
    numbers: str = "strict"
    dates: str = ""
    history_: History | None = None
    entities_: npt.NDArray[Any] | None = None
    numbers_: tuple[str, ...] = ()
    texts_: tuple[tuple[str, tuple[str, ...]], ...] = ()
    library_: str = "pyarrow"

    def __post_init__(self) -> None:
        self.by = names_of(self.by)
        self.exclude = names_of(self.exclude)
        self.features = None if self.features is None else names_of(self.features)
        check_params({"fdr": self.fdr}, {"fdr": FDR})
        length_of(self.every, "every")
        if not self.by:
            raise ValueError("by= names no column; need the column of entities.")
        if isinstance(self.late, bool) or not isinstance(self.late, int) or not 0 <= self.late <= 1000:
            raise ValueError(f"late={self.late!r}; need a number of periods, 0 or more.")

    def validate(self) -> None:
        """Names for all entities and columns."""
        if self.history_ is not None:
            columns, n_entities = self.history_.rows, len(self.history_.begun)
            demand(self.entities_ is not None and len(self.entities_) == n_entities, "entities lack names")
            demand(columns.numbers.shape[1] == len(self.numbers_), "columns of numbers lack names")
            demand(columns.texts.shape[1] == len(self.texts_), "columns of texts lack names")

    def __repr__(self) -> str:
        by = self.by[0] if len(self.by) == 1 else list(self.by)
        return f"Watch(by={by!r}, time={self.time!r}, every={self.every!r})"

    @property
    def calendar(self) -> Calendar:
        """Its periods."""
        return Calendar(self.every, self.time_zone)

    @property
    def read_options(self) -> ReadOptions:
        """How tables are read."""
        bags = bags_of(self.time, self.every, None, self.time_zone, self.time_unit, self.by)
        how = {name: getattr(self, name) for name in ("decimal", "thousands", "numbers", "dates", "exclude")}
        return ReadOptions.of(by=self.by, bags=bags, features=self.features, **how)

    def update(self, frame: Any, *, replace: bool = False, since: Any = None) -> Incidents:
        """Add the rows of a frame, and judge the periods that are open.

        Rows added before are skipped, so a frame may be passed again, or with more rows.

        Parameters
        ----------
        frame : frame
            Of pandas, polars, Arrow or DuckDB.
        replace : bool
            Whether its periods replace those added before, for a corrected export.
        since : time, optional
            Incidents and bags of periods before this time are not listed.
        """
        self.library_ = library_of(frame)
        return self.update_from(FrameSource(open_frame(frame)), replace=replace, since=since)

    def update_from(self, source: Source, *, replace: bool = False, since: Any = None) -> Incidents:
        """``update`` with the rows of files or of a query."""
        log, before, notes = read_log(source, self.read_options, self.calendar), self.history_, []
        if log.n_unlabelled:
            notes.append(f"{log.n_unlabelled:,} rows have no {' or '.join((*self.by, self.time))} and were skipped.")
        if not len(log):
            raise ValueError(f"Nothing can be judged: {' '.join(notes)}")
        period = log.period
        is_far = far_beyond(period, before)
        for number in np.unique(period[is_far]).tolist():
            n = int((period == number).sum())
            notes.append(f"{n:,} row{'s' * (n > 1)} of {self._shown(number)}, far from the rest, set aside.")
        is_late = ~is_far & (period <= (period.min() - 1 if before is None else before.closed))
        history, rows = self._with_columns_of(log, ~is_far & ~is_late, notes)
        del log, period
        n_again = self._note_late(history, rows.take(is_late), notes) if is_late.any() else 0
        rows = rows.take(~is_far & ~is_late)
        if not len(rows) and not n_again:
            raise ValueError(f"Nothing can be judged: {' '.join(notes)}")
        merged = self._merged(history, rows, replace, notes)
        self.history_ = _with_rows(history, merged, max(history.newest, int(merged.period[-1])))
        start = self.history_.first if before is None or before.schema is None else before.newest + 1
        return self._judge(notes, start if since is None else self._number_of(since, "since"))

    def accept(self, entity: Any) -> None:
        """Treat what an entity does in its open incident as its new normal."""
        self._record(ACCEPT, entity, None)

    def dismiss(self, entity: Any, period: Any = None) -> None:
        """Dismiss the incident of an entity, in a period (default: the newest); a silence until rows come."""
        self._record(DISMISS, entity, period)

    def retire(self, entity: Any) -> None:
        """Stop watching an entity until rows of it come again."""
        self._record(RETIRE, entity, None)

    def forget(self, period: Any) -> None:
        """Remove the rows of an open period."""
        history, number = self._history(), self._number_of(period)
        rest = history.rows.take(history.rows.period != number)
        if len(rest) == len(history.rows):
            raise ValueError(f"period={period!r}; there are open rows of {self._open_periods()} only.")
        if not len(rest):
            raise ValueError(f"period={period!r} is the only open one; begin anew instead.")
        feedback = history.feedback[history.feedback[:, 2] != number]
        history = _with_rows(history, rest, int(rest.period[-1]))
        self.history_ = dataclasses.replace(history, feedback=feedback)

    def judge(self) -> Incidents:
        """The open incidents of the newest period, judged again after ``accept``, ``dismiss`` or ``retire``."""
        return self._judge([], self._history().newest)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the state to a file that ``isobag.load`` and ``isobag watch`` read."""
        save(self, path)

    def _judge(self, notes: list[str], since: int) -> Incidents:
        history, rules, judged = self._history(), rules_of(None, self.calendar), []
        n_periods, rows, schema = history.newest - history.first + 1, history.rows, history.schema
        if schema is None and n_periods <= rules.warm_up:
            notes.append(f"Learning: {n_periods} of {rules.warm_up + 1} periods are there; what comes later is judged.")
        elif schema is None:
            of_warm_up = rows.take(slice(np.searchsorted(rows.period, history.first + rules.warm_up)))
            schema, left_out = learn_schema(of_warm_up, self.numbers_, self.texts_, self.features is not None)
            notes += [f"Columns not used: {', '.join(left_out)}."] if left_out else []
        if schema is not None:
            rules = rules_of(schema, self.calendar, self.fdr)
            self.history_, judged = judge_open(history, schema, rules, self.calendar, self.late)
        listed = [one for one in judged if one.period >= since] or judged[-1:]
        naming = Naming(self.by, self.entities_, () if schema is None else schema.summaries, self.calendar, self.fdr)
        return Incidents(listed, naming, tuple(notes), self.library_)

    def _with_columns_of(self, log: Log, counts: Bools, notes: list[str]) -> tuple[History, BagRows]:
        """What is known, with the entities and columns of a log; and its rows in these columns.

        counts (n,) : rows that make entities known.
        """
        history = self.history_ or empty_history(int(log.period[counts].min(initial=np.iinfo(np.int64).max)))
        numbers, texts = dict.fromkeys(self.numbers_), {name: list(values) for name, values in self.texts_}
        for name, is_text in [*((name, False) for name in log.numbers), *((name, True) for name in log.texts)]:
            if name in (numbers if is_text else texts):
                kinds = ("text", "numbers") if is_text else ("numbers", "text")
                raise ValueError(f"{log.files or 'frame'}: column {name!r} has {kinds[0]}; need {kinds[1]} as before.")
        new = [name for name in (*log.numbers, *log.texts) if name not in numbers and name not in texts]
        if history.schema is None:
            numbers |= dict.fromkeys(name for name in new if name in log.numbers)
            texts |= {name: [] for name in new if name in log.texts}
        elif new:
            notes.append(f"Columns not used, as the first table had none of them: {', '.join(new)}.")
        for name in texts:
            values = dict.fromkeys([*texts[name], *log.texts.get(name, ((), ()))[1]])
            texts[name] = list(values)[:MOST_VALUES]
        self.numbers_, self.texts_ = tuple(numbers), tuple((name, tuple(values)) for name, values in texts.items())
        labels = [] if self.entities_ is None else self.entities_.tolist()
        ids, begun = number_entities(labels, history.begun, log, counts)
        self.entities_ = np.empty(len(labels), dtype=object)
        self.entities_[:] = labels
        old, rows = history.rows, rows_of(log, ids, self.numbers_, texts)
        wide = np.pad(old.numbers, ((0, 0), (0, len(numbers) - old.numbers.shape[1])), constant_values=np.nan)
        codes = np.pad(old.texts, ((0, 0), (0, len(texts) - old.texts.shape[1])), constant_values=-1)
        return dataclasses.replace(history, rows=dataclasses.replace(old, numbers=wide, texts=codes), begun=begun), rows

    def _merged(self, history: History, rows: BagRows, is_replaced: bool, notes: list[str]) -> BagRows:
        """Open rows with those of a log, each once."""
        old = history.rows
        if is_replaced and len(rows):
            old = old.take(~np.isin(old.period, np.unique(rows.period)))
        if len(old):
            is_again, is_there = are_repeated(old, rows)
            if is_again.any():
                notes.append(f"{int(is_again.sum()):,} rows were added before and are skipped.")
            parts = rows.period[~is_again], old.period[~is_there], rows.period[is_again]
            for period in np.unique(parts[0]).tolist():
                n_new, n_lacking, n_again = (int((own == period).sum()) for own in parts)
                if n_lacking and (n_again or 2 * n_new >= n_lacking):
                    text = f"{self._shown(period)}: {n_new:,} rows are added to {n_lacking:,} that this table lacks;"
                    notes.append(f"{text} to correct these, give it with replace=True.")
            rows = old.and_also(rows.take(~is_again))
        return rows.in_order()

    def _note_late(self, history: History, rows: BagRows, notes: list[str]) -> int:
        """Name rows of closed periods: how many were added before, which is the result, and how many come too late."""
        sizes, digests = digests_of(rows.in_order())
        n_again = int(sizes[np.isin(digests, history.bags)].sum())
        n_late = len(rows) - n_again
        notes += [f"{n_again:,} rows of closed periods were added before and are skipped."] if n_again else []
        if n_late:
            days = " to ".join(dict.fromkeys(self._shown(int(day)) for day in (rows.period.min(), rows.period.max())))
            notes.append(f"{n_late:,} rows of {days} come too late and were skipped: these periods are closed.")
        return n_again

    def _record(self, what: int, entity: Any, period: Any) -> None:
        history = self._history()
        assert self.entities_ is not None
        label = tuple(entity) if isinstance(entity, list | tuple) else entity
        at = [k for k, own in enumerate(self.entities_.tolist()) if own == label or _as_text(own) == _as_text(label)]
        if not at:
            raise ValueError(f"There is no entity {entity!r}.")
        number = history.newest if period is None else self._number_of(period)
        if number <= history.closed or number > history.newest:
            raise ValueError(f"period={period!r} is not open; open are {self._open_periods()}.")
        others = history.feedback[(history.feedback[:, 1:] != (at[0], number)).any(axis=1)]
        self.history_ = dataclasses.replace(history, feedback=np.vstack([others, [what, at[0], number]]))

    def _number_of(self, time: Any, name: str = "period") -> int:
        return int(self.calendar.numbers(np.array([moment_of(time, name, self.time_zone)]))[0])

    def _open_periods(self) -> str:
        periods = np.unique(self._history().rows.period).tolist()
        return self._shown(periods[0]) + (f" to {self._shown(periods[-1])}" if len(periods) > 1 else "")

    def _shown(self, period: int) -> str:
        return shown_period(self.calendar, period)

    def _history(self) -> History:
        if self.history_ is None:
            raise ValueError("The watch has no data yet; call update first.")
        return self.history_


def _as_text(label: Any) -> Any:
    return tuple(map(str, label)) if isinstance(label, tuple) else str(label)


def watch(
    frame: Any, by: Names, time: str, every: str = "1d", *, fdr: float = 0.1, late: int = 2, features: Names = None,
    exclude: Names = (), time_zone: str | None = None, time_unit: str | None = None,
) -> Incidents:  # fmt: skip
    """Incidents of a frame: the first update of a ``Watch`` with these parameters."""
    options: Any = {"features": features, "exclude": exclude, "time_zone": time_zone, "time_unit": time_unit}
    return Watch(names_of(by), time, every, fdr, late, **options).update(frame)


def _with_rows(history: History, rows: BagRows, newest: int) -> History:
    """The same with other open rows, in order; what was not learned yet begins with these."""
    first = int(rows.period[0]) if history.schema is None else history.first
    return dataclasses.replace(history, rows=rows, newest=newest, first=first)
