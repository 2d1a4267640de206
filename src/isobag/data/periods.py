"""Times as periods of the calendar, and as sessions.

A time is a whole number of microseconds since 1970-01-01 in UTC. Days and weeks are those of a time zone: a day on
which clocks change has 23 or 25 hours, and a week starts on Monday. Periods shorter than a day are all of the same
length: where clocks change, an hour is left out of the local day, or comes twice and is two periods.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from isobag.backends.arrays import Array, Ints
from isobag.data.params import EVERY, LENGTH, TIME_ZONE

_SECOND = 1_000_000
_QUARTER, _DAY = 900 * _SECOND, 86_400 * _SECOND
_WEEK = 7 * _DAY
_UNITS = {"s": _SECOND, "m": 60 * _SECOND, "h": 3600 * _SECOND, "d": _DAY, "w": _WEEK}
_FIRST_MONDAY = 3
"""1970-01-01 was a Thursday: three days more than whole weeks."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ALIGNED = np.array([946_684_800 * _SECOND])
"""The year 2000."""


def length_of(text: Any, name: str) -> int:
    """A length of time such as "15m", "1h", "1d" or "1w" in microseconds."""
    match = LENGTH.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"{name}={text!r}; {EVERY.need}.")
    return int(match[1]) * _UNITS[match[2]]


def zone_of(name: str | None) -> ZoneInfo:
    """A time zone by its name, such as "Europe/Berlin"; None is UTC."""
    try:
        return ZoneInfo("UTC" if name is None else name)
    except (OSError, ValueError, TypeError, LookupError):
        raise ValueError(f"time_zone={name!r}; {TIME_ZONE.need}.") from None


@dataclass(frozen=True)
class Calendar:
    """Periods of equal length, by the calendar of a time zone; they have numbers that rise with time."""

    every: str
    time_zone: str | None = None

    @cached_property
    def length(self) -> int:
        """Length in microseconds; of days and weeks, on which no clock changes."""
        return length_of(self.every, "every")

    @cached_property
    def zone(self) -> ZoneInfo:
        """The time zone."""
        return zone_of(self.time_zone)

    @cached_property
    def _shift(self) -> int:
        """By how much periods shorter than a day are shifted, so that they begin where local hours do."""
        return int(offsets(_ALIGNED, self.zone)[0]) % self.length

    @property
    def _counts_days(self) -> bool:
        return self.length % _DAY == 0

    def numbers(self, times: Ints) -> Ints:
        """The number of the period of each time: (n,) -> (n,)."""
        if not self._counts_days:
            return (times + self._shift) // self.length
        days = self.local(times) // _DAY
        n_days = self.length // _DAY
        return (days + (_FIRST_MONDAY if n_days % 7 == 0 else 0)) // n_days

    def starts(self, numbers: Ints) -> Ints:
        """When periods start, as times: (n,) -> (n,)."""
        numbers = np.asarray(numbers, dtype=np.int64)
        if not self._counts_days:
            return numbers * self.length - self._shift
        n_days = self.length // _DAY
        days = numbers * n_days - (_FIRST_MONDAY if n_days % 7 == 0 else 0)
        return self.of_clocks(days * _DAY)

    def dates(self, numbers: Ints) -> Array:
        """When periods start, as the clock shows it there: (n,) datetime64[us]."""
        return self.local(self.starts(numbers)).view("datetime64[us]")

    def local(self, times: Ints) -> Ints:
        """What clocks of the zone show, as if it were UTC: (n,) -> (n,)."""
        return times + offsets(times, self.zone)

    def of_clocks(self, shown: Ints) -> Ints:
        """When clocks of the zone show something, the first time if twice, as if it were UTC: (n,) -> (n,)."""
        return shown - offsets(shown, self.zone, by_clocks=True)

    @property
    def _cycles(self) -> list[int]:
        return [one for one in (_WEEK, _DAY) if one % self.length == 0 and one > self.length]

    @property
    def cycle_lengths(self) -> list[int]:
        """Number of periods of a week, and of a day, where these are several periods long."""
        return [one // self.length for one in self._cycles]

    def phases(self, numbers: Ints) -> list[Ints]:
        """The place of periods in the week, and in the day, as in ``cycle_lengths``: (n,) each."""
        local = self.local(self.starts(numbers)) + _FIRST_MONDAY * _DAY
        return [local % cycle // self.length for cycle in self._cycles]


def offsets(times: Ints, zone: ZoneInfo, by_clocks: bool = False) -> Ints:
    """By how many microseconds clocks of a zone are ahead of UTC, at times or when clocks show these: (n,) -> (n,)."""
    if zone.key == "UTC":
        return np.zeros_like(times)
    quarters, places = np.unique(times // _QUARTER, return_inverse=True)  # clocks change at whole quarters
    moments = (_EPOCH + timedelta(seconds=900 * quarter) for quarter in quarters.tolist())
    clocks = (one.replace(tzinfo=zone) if by_clocks else one.astimezone(zone) for one in moments)
    ahead = [(clock.utcoffset() or timedelta()) // timedelta(microseconds=1) for clock in clocks]
    return np.array(ahead, dtype=np.int64)[places].reshape(times.shape)


def number_sessions(ids: Ints, times: Ints, gap: str) -> Ints:
    """Sessions of each label, numbered by label and then by time: a pause longer than ``gap`` ends one: (n,) -> (n,).

    ids (n,): the number of each row's label, from 0.
    """
    longest = length_of(gap, "sessions")
    order = np.lexsort((times, ids))
    owners, when = ids[order], times[order]
    begins = np.ones(len(ids), dtype=bool)
    begins[1:] = (owners[1:] != owners[:-1]) | (when[1:] - when[:-1] > longest)
    sessions = np.empty(len(ids), dtype=np.int64)
    sessions[order] = np.cumsum(begins) - 1
    return sessions
