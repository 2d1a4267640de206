"""Groups from time: rows of a label within one period, or within one session.

Periods are those of the calendar (see ``isobag.data.periods``): each begins at its start and ends right before the next
one does, so a row at midnight belongs to the new day. The first and the last period of a table may be cut short. A
session ends where its label has no row for longer than the gap; a pause of just that length does not end it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from isobag.data.groups import number_labels
from isobag.data.params import Option, ParameterError
from isobag.data.periods import Calendar, length_of, number_sessions
from isobag.tables.labels import label_rows
from isobag.tables.times import read_moments

PERIOD, SESSION = "period", "session"


@dataclass(frozen=True)
class Bags:
    """How the rows of a label are divided by time: into periods (``every``), or into sessions (the gap between them).

    time : the column of times; unit : what numbers in it count; time_zone : whose days and weeks count.
    """

    time: str
    every: str | None = None
    sessions: str | None = None
    time_zone: str | None = None
    unit: str | None = None

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
            named = label_rows([labels[name] for name in by])
            known = ~moments.missing & np.array([one is not None for one in named.tolist()], dtype=bool)
            times = moments.values[known]
            ids, _ = number_labels(named[known])
            sessions = number_sessions(ids, times, self.sessions)
            first = np.full(int(sessions.max(initial=-1)) + 1, np.iinfo(np.int64).max)
            np.minimum.at(first, sessions, times)
            begun = np.zeros(len(known), dtype=np.int64)
            begun[known] = first[sessions]
            shown = calendar.local(begun).view("datetime64[us]")
        return pa.array(shown, pa.timestamp("us"), mask=moments.missing)


def bags_of(
    time: Any, every: str | None, sessions: str | None, time_zone: str | None, time_unit: str | None, by: Sequence[str]
) -> Bags | None:
    """What is asked for, if anything is; None where labels alone make groups."""
    given = {"every": every, "sessions": sessions, "time_zone": time_zone, "time_unit": time_unit}
    if time is None:
        for name, value in given.items():
            if value is not None:
                raise ParameterError(
                    Option(name, value), " needs a column of times; name it with ", Option("time"), "."
                )
        return None
    if (every is None) == (sessions is None):
        raise ParameterError(
            Option("time", time),
            " needs either ",
            Option("every", "1h"),
            " (periods of the calendar) or ",
            Option("sessions", "30m"),
            " (a gap ends a session).",
        )
    bags = Bags(str(time), every, sessions, time_zone, time_unit)
    length_of(every or sessions, "every" if sessions is None else "sessions")
    if not by:
        raise ParameterError(
            Option("time", time), " divides groups; name the column of their labels with ", Option("by"), "."
        )
    if bags.name in by:
        raise ValueError(f"The result has a column {bags.name!r} of its own; rename the column of that name first.")
    if bags.time in by:
        raise ValueError(f"The column {bags.time!r} is named twice: labels and times need their own.")
    return bags
