"""Columns of times as moments, whole microseconds since 1970-01-01 in UTC; and groups made of them.

A time with a zone is taken as written. One without is what clocks of the time zone show, UTC by default; where clocks
are set back an hour comes twice, and the first of the two is meant. Numbers are times only if their unit
is named.

A group is the rows of a label within one period, or within one session. Periods are those of the calendar (see
``isobag.data.periods``): each begins at its start and ends right before the next one does, so a row at midnight belongs
to the new day. The first and the last period of a table may be cut short. A session ends where its label has no row for
longer than the gap; a pause of just that length does not end it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.backends.learned import Learned
from isobag.data.params import check_params, one_of
from isobag.data.periods import Calendar, length_of, number_sessions, offsets, zone_of
from isobag.tables.cells import NUMBER, TEXT, TIME, read_declared, read_numbers, read_times
from isobag.tables.labels import number_rows

PERIOD, SESSION = "period", "session"
UNITS = {"s": 1_000_000.0, "ms": 1_000.0, "us": 1.0, "ns": 0.001}
"""Microseconds of a unit."""
UNIT = one_of((None, *UNITS))
_FARTHEST = 2.0**53
_PLAUSIBLE = 315_532_800e6, 4_102_444_800e6
"""From 1980 to 2100, in microseconds."""


class Moments(NamedTuple):
    """Times of rows: ``values`` (n,), and ``missing`` (n,) where there is none, and 0 in its place."""

    values: Ints
    missing: Bools


def read_moments(
    column: Any, name: str, unit: str | None = None, time_zone: str | None = None, dates: str = ""
) -> Moments:
    """Times, dates, texts as ISO 8601 or the format ``dates`` writes them, or numbers of a unit, of an array (n,)."""
    check_params({"time_unit": unit}, {"time_unit": UNIT})
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    typed = read_declared(column)
    if typed.kind == TIME and typed.numbers is not None:
        seconds, missing, _, zoned = typed.numbers
    elif typed.kind == NUMBER and typed.numbers is not None and not typed.is_empty:
        return _of_numbers(typed.numbers.values, typed.numbers.missing | typed.numbers.bad, name, unit)
    elif typed.kind == TEXT:
        numbers = read_numbers(typed.texts)
        if not numbers.bad.any() and not numbers.missing.all():
            return _of_numbers(numbers.values, numbers.missing, name, unit)
        seconds, missing, bad, zoned = read_times(typed.texts, dates)
        _refuse_bad(bad, column, name, dates)
    else:
        raise ValueError(f"{name}: the column is of type {column.type}; need times, dates or texts such as 2026-03-04.")
    micros = np.rint(np.where(missing, 0.0, seconds) * 1e6)
    _refuse_bad(np.abs(micros) > _FARTHEST, column, name)
    values = micros.astype(np.int64)
    plain = np.logical_not(zoned) & ~missing
    values[plain] -= offsets(values[plain], zone_of(time_zone), by_clocks=True)
    return Moments(values, missing)


def moment_of(value: Any, option: str, time_zone: str | None = None) -> int:
    """One time, such as "2026-03-04", a date, or a datetime, as a moment."""
    try:
        moments = read_moments(pa.array([value]), option, None, time_zone)
        if moments.missing[0]:
            raise ValueError
    except (ValueError, pa.ArrowInvalid, pa.ArrowTypeError):
        raise ValueError(f"{option}={value!r}; need a time, such as '2026-03-04' or '2026-03-04 12:00'.") from None
    return int(moments.values[0])


def _of_numbers(values: Floats, missing: Bools, name: str, unit: str | None) -> Moments:
    if unit is None:
        (first,) = values[~missing][:1]
        guess = next((one for one, size in UNITS.items() if _PLAUSIBLE[0] <= first * size <= _PLAUSIBLE[1]), None)
        shown = "." if guess is None else f": {first:.0f} would be {_shown(first * UNITS[guess])}."
        raise ValueError(
            f"{name}: the times are numbers; say what they count since 1970 (s, ms, us or ns), such as "
            f"time_unit={guess or 's'!r}{shown}"
        )
    micros = np.rint(np.where(missing, 0.0, values) * UNITS[unit])
    if (np.abs(micros) > _FARTHEST).any():
        first = float(values[np.abs(micros) > _FARTHEST][0])
        raise ValueError(f"{name}: {first:g} is not a time with time_unit={unit!r}; choose another unit.")
    return Moments(micros.astype(np.int64), missing)


def _refuse_bad(bad: Bools, column: Any, name: str, dates: str = "") -> None:
    if bad.any():
        row = int(np.argmax(bad))
        more = "" if bad.sum() == 1 else f", one of {np.count_nonzero(bad):,} such rows of {len(bad):,}"
        raise ValueError(
            f"{name}: row {row:,} has {column[row].as_py()!r}, which is not a time{more}; need times as ISO 8601 "
            "writes them, such as 2026-03-04 or 2026-03-04T12:30:00+01:00"
            + (f", or as {dates!r} says." if dates else ".")
        )


def _shown(micros: float) -> str:
    return str(np.datetime64(int(micros), "us").astype("datetime64[s]")).replace("T", " ")


@dataclass(frozen=True)
class Bags(Learned):
    """How the rows of a label are divided by time: into periods (``every``), or into sessions (the gap between them).

    time : the column of times; unit : what numbers in it count; time_zone : whose days and weeks count.
    """

    time: str
    every: str | None = None
    sessions: str | None = None
    time_zone: str | None = None
    unit: str | None = None

    def validate(self) -> None:
        """Raise a ValueError where a length, a zone or a unit is none."""
        if (self.every is None) == (self.sessions is None):
            raise ValueError(
                f"time={self.time!r} needs either every='1h' (periods of the calendar) or sessions='30m' (a gap ends a "
                "session)."
            )
        length_of(self.every or self.sessions, "every" if self.sessions is None else "sessions")
        zone_of(self.time_zone)
        check_params({"time_unit": self.unit}, {"time_unit": UNIT})

    @property
    def name(self) -> str:
        """What the column of starts is called."""
        return PERIOD if self.sessions is None else SESSION

    def starts(self, labels: Mapping[str, Any], by: Sequence[str], dates: str = "") -> Any:
        """When the period or session of each row starts, as clocks of the zone show it; null without a time: (n,)."""
        moments = read_moments(labels[self.time], self.time, self.unit, self.time_zone, dates)
        calendar = Calendar(self.every or "1d", self.time_zone)
        if self.sessions is None:
            shown = calendar.dates(calendar.numbers(moments.values))
        else:
            owners, _ = number_rows([labels[name] for name in by])
            in_session = ~moments.missing & (owners >= 0)
            times = moments.values[in_session]
            sessions = number_sessions(owners[in_session], times, self.sessions)
            first = np.full(int(sessions.max(initial=-1)) + 1, np.iinfo(np.int64).max)
            np.minimum.at(first, sessions, times)
            begun = np.zeros(len(in_session), dtype=np.int64)
            begun[in_session] = first[sessions]
            shown = calendar.local(begun).view("datetime64[us]")
        return pa.array(shown, pa.timestamp("us"), mask=moments.missing)


def bags_of(
    time: Any, every: str | None, sessions: str | None, time_zone: str | None, time_unit: str | None, by: Sequence[str]
) -> Bags | None:
    """What is asked for, if anything is; None where labels alone make groups."""
    options = {"every": every, "sessions": sessions, "time_zone": time_zone, "time_unit": time_unit}
    if time is None:
        for name, value in options.items():
            if value is not None:
                raise ValueError(f"{name}={value!r} needs a column of times; name it with time=.")
        return None
    bags = Bags(str(time), every, sessions, time_zone, time_unit)
    bags.validate()
    if not by:
        raise ValueError(f"time={time!r} divides groups; name the column of their labels with by=.")
    if bags.name in by:
        raise ValueError(f"{bags.name!r} is a column of the result; rename your column {bags.name!r}.")
    if bags.time in by:
        raise ValueError(f"The column {bags.time!r} is named twice: labels and times need their own.")
    return bags
