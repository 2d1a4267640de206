"""What a monitor says of each entity and period, and why, in words."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Array, Bools, Floats, Ints
from isobag.data.periods import Calendar
from isobag.estimators.histories import MOST_HISTORIES, History, history_of
from isobag.models.bags import PeriodLines
from isobag.models.entities import N_FIRST
from isobag.models.ranks import combine_p_values
from isobag.models.timeline import WEIGHTS, Timeline, Verdict

KINDS = ("unlike its past", "unlike its peers", "more rows", "fewer rows", "silent", "new entity")
_MOST_REASONS = 3
_LEAST_DEVIATION = 3.0
_MOST_PAST = 84
_QUARTILES = 1.349
"""Interquartile range of a normal number, in standard deviations."""


class CommonChange(NamedTuple):
    """A period in which most entities changed at once: its start, how many changed, and of how many."""

    period: np.datetime64
    n_changed: int
    n_entities: int

    def __str__(self) -> str:
        """One sentence."""
        return f"{self.n_changed} of {self.n_entities} entities changed on {shown_time(self.period)}"


@dataclass(frozen=True, eq=False)
class Findings:
    """A line for each entity and period that was judged, in the order of time: arrays of one length.

    entity : labels.
    period : start of the period, as clocks of the time zone show it: datetime64[us].
    start : the same as a moment, in microseconds since 1970 UTC.
    n_points, expected : number of rows, and the number that was expected; NaN if unknown.
    score : logarithm of the p-value before it is limited to 1: higher = more normal; NaN if unknown.
    p_value : of everything together; p_past, p_peers, p_volume of its parts; NaN if there is nothing to compare with.
    kind : any of KINDS, joined by ", ".
    flagged : whether the line is an alarm.
    odd_since : start of the first of the unbroken run of flagged periods that a flagged line is part of; NaT elsewhere.
    reasons : of flagged lines, in words; empty elsewhere.
    common_changes : periods in which most entities changed at once.
    notes : sentences about the rows: those that came before or too late, and gaps.
    histories : by the number of a line, what its clearest feature was before; of the oddest flagged lines of a period.
    """

    entity: npt.NDArray[Any]
    period: Array
    start: Ints
    n_points: Ints
    expected: Floats
    score: Floats
    p_value: Floats
    p_past: Floats
    p_peers: Floats
    p_volume: Floats
    kind: npt.NDArray[np.object_]
    flagged: Bools
    odd_since: Array
    reasons: npt.NDArray[np.object_]
    common_changes: tuple[CommonChange, ...] = ()
    notes: tuple[str, ...] = ()
    histories: dict[int, History] = field(default_factory=dict)

    def __len__(self) -> int:
        """Number of lines."""
        return len(self.entity)

    def columns(self) -> dict[str, Any]:
        """The arrays by name."""
        others = ("common_changes", "notes", "histories")
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name not in others}


def join_findings(parts: list[Findings], labels: npt.NDArray[Any], notes: Sequence[str]) -> Findings:
    """The lines of several periods, which are given up: no column of them is kept twice for long."""
    if not parts:
        return _no_lines(labels, tuple(notes))
    changes = tuple(change for one in parts for change in one.common_changes)
    starts = np.cumsum([0, *map(len, parts)]).tolist()
    histories = {
        start + line: own for one, start in zip(parts, starts, strict=False) for line, own in one.histories.items()
    }
    columns = [one.columns() for one in parts]
    parts.clear()
    joined = {name: np.concatenate([own.pop(name) for own in columns]) for name in list(columns[0])}
    return Findings(**joined, common_changes=changes, notes=tuple(notes), histories=histories)


def findings_of(
    lines: PeriodLines,
    verdict: Verdict,
    before: Timeline,
    labels: npt.NDArray[Any],
    names: Sequence[str],
    calendar: Calendar,
) -> Findings:
    """What is said of a period, with what was known before it."""
    (date,), (start,) = calendar.dates(np.array([lines.number])), calendar.starts(np.array([lines.number]))
    n_lines = len(lines)
    kind, reasons = np.empty(n_lines, dtype=object), np.empty(n_lines, dtype=object)
    kind[:], reasons[:] = "", ""
    is_new = (lines.ages == 0) & (lines.sizes > 0) & (lines.expected < 0)
    kind[is_new] = "new entity"
    odd_since = np.full(n_lines, np.datetime64("NaT", "us"))
    flagged = np.flatnonzero(verdict.flagged)
    since = _odd_since(lines, flagged, before.periods)
    odd_since[flagged] = calendar.dates(since)
    describe = _Words(lines, verdict, before, names, calendar)
    for line, first in zip(flagged.tolist(), odd_since[flagged], strict=True):
        kind[line], reasons[line] = describe(line, bool(is_new[line]), first, date)
    parts = verdict.p_values
    _, weighted = combine_p_values(parts, WEIGHTS)
    least = np.minimum.reduce(list(weighted.values()))
    score = np.where(np.isinf(least), np.nan, np.log(np.maximum(least, np.finfo(float).tiny)))
    change = () if not verdict.changed else (CommonChange(date, verdict.changed, int(np.isfinite(least).sum())),)
    oddest = flagged[np.argsort(least[flagged], kind="stable")][:MOST_HISTORIES].tolist()
    latest = before.periods[-_MOST_PAST:]
    drawn = {line: history_of(line, lines, verdict.flagged, latest, before.cohorts, names, calendar) for line in oddest}
    p_past, _ = combine_p_values({name: parts[name] for name in ("past", "first")}, WEIGHTS)
    return Findings(
        labels[lines.entities],
        np.broadcast_to(date, n_lines),
        np.broadcast_to(start, n_lines),
        lines.sizes,
        np.where(lines.expected >= 0, lines.expected, np.nan),
        score,
        verdict.p_value,
        p_past,
        parts["peers"],
        parts["volume"],
        kind,
        verdict.flagged,
        odd_since,
        reasons,
        change,
        histories={line: one for line, one in drawn.items() if one is not None},
    )


def shown_time(moment: np.datetime64) -> str:
    """A date, and the time where it is not midnight."""
    text = str(moment.astype("datetime64[s]"))
    date, _, time = text.partition("T")
    return date if time == "00:00:00" else f"{date} {time.removesuffix(':00')}"


def _odd_since(lines: PeriodLines, flagged: Ints, periods: Sequence[PeriodLines]) -> Ints:
    """The number of the first period of each flagged line's unbroken run: (k,) -> (k,)."""
    since = np.full(len(flagged), lines.number)
    running = np.arange(len(flagged))
    for period in periods[::-1]:
        places = period.places(lines.entities[flagged[running]])
        running = running[(places >= 0) & period.flagged[places]] if len(period) else running[:0]
        if not len(running):
            break
        since[running] = period.number
    return since


class _Words:
    """Kinds and reasons of flagged lines of one period."""

    def __init__(
        self,
        lines: PeriodLines,
        verdict: Verdict,
        before: Timeline,
        names: Sequence[str],
        calendar: Calendar,
    ) -> None:
        self.lines, self.verdict, self.names = lines, verdict, names
        self.cohorts, periods = before.cohorts[lines.entities], before.periods
        numbers = np.array([*(one.number for one in periods), lines.number])
        phases = calendar.phases(numbers)
        self.same_phase = phases[0][:-1] == phases[0][-1] if phases else np.zeros(len(periods), dtype=bool)
        self.periods = periods

    def __call__(self, line: int, is_new: bool, first: np.datetime64, now: np.datetime64) -> tuple[str, str]:
        """Kind and reasons of a line."""
        odd = {name for name, p in self.verdict.weighted.items() if p[line] <= self.verdict.levels[line]}
        kinds, reasons = [], []
        rows = [(period, place) for period, place, _ in self._own_lines(line) if period.sizes[place] > 0]
        if "past" in odd or "first" in odd:
            kinds.append("unlike its past")
            reasons += self._columns(
                line, [period.means[k] for period, k in rows], [p.spreads[k] for p, k in rows], "usually"
            )
            if "past" not in odd:
                reasons.append(f"unlike its first {N_FIRST} periods")
        if "peers" in odd:
            kinds.append("unlike its peers")
            is_peer = (self.cohorts == self.cohorts[line]) & (np.arange(len(self.lines)) != line)
            others = np.flatnonzero((self.lines.sizes > 0) & is_peer)
            reasons += self._columns(line, self.lines.means[others], self.lines.spreads[others], "its peers")
        if "volume" in odd:
            kind, reason = self._volume(line)
            kinds.append(kind)
            reasons.append(reason)
        if is_new:
            kinds.append("new entity")
        if first < now:
            reasons.append(f"odd since {shown_time(first)}")
        return ", ".join(kinds), "; ".join(dict.fromkeys(reasons))

    def _own_lines(self, line: int) -> list[tuple[PeriodLines, int, bool]]:
        """The joined lines of the same entity in the latest periods, and whether these have the present phase."""
        entity = self.lines.entities[line : line + 1]
        latest = list(zip(self.periods, self.same_phase.tolist(), strict=True))[-_MOST_PAST:]
        places = ((period, int(period.places(entity)[0]), is_same) for period, is_same in latest)
        return [one for one in places if one[1] >= 0 and one[0].joined[one[1]]]

    def _volume(self, line: int) -> tuple[str, str]:
        n, expected = int(self.lines.sizes[line]), float(self.lines.expected[line])
        if n == 0:
            shown = _number(expected)
            return "silent", f"silent, expected {shown} row{'' if shown == '1' else 's'}"
        known = [(int(period.sizes[place]), is_same) for period, place, is_same in self._own_lines(line)]
        same = [size for size, is_same in known if is_same]
        usual = same if len(same) >= 3 else [size for size, _ in known]
        kind = "more rows" if n > expected else "fewer rows"
        rows = "1 row" if n == 1 else f"{n:,} rows"
        low, high = np.quantile(usual, [0.1, 0.9]) if usual else (expected, expected)
        return kind, f"{rows}, usually {_number(low)} to {_number(high)}"

    def _columns(self, line: int, means: Any, spreads: Any, word: str) -> list[str]:
        """What single columns say, the strongest first."""
        if len(means) < 3:
            return [f"no single column, but their combination ({word})"]
        found = []
        own_means, own_spreads = self.lines.means[line], self.lines.spreads[line]
        tables = np.asarray(means, dtype=np.float64), np.asarray(spreads, dtype=np.float64)
        is_share = _are_shares(np.vstack([own_means, tables[0]]), np.vstack([own_spreads, tables[1]]))
        for what, own, table in (("", own_means, tables[0]), ("spread of ", own_spreads, tables[1])):
            low, first, middle, third, high = np.quantile(table, [0.1, 0.25, 0.5, 0.75, 0.9], axis=0)
            scale = np.maximum((third - first) / _QUARTILES, 1e-9 * np.maximum(np.abs(middle), 1e-9))
            is_odd = np.abs(own - middle) >= _LEAST_DEVIATION * scale
            for column in np.flatnonzero(is_odd & ~(is_share & bool(what))).tolist():
                deviation = abs(float(own[column]) - middle[column]) / scale[column]
                number = _share if is_share[column] else _number
                usual = f"{number(low[column])} to {number(high[column])}"
                text = f"{what}{self.names[column]} {number(float(own[column]))}, {word} {usual}"
                found.append((deviation, text))
        found.sort(key=lambda one: -one[0])
        return [text for _, text in found[:_MOST_REASONS]] or [f"no single column, but their combination ({word})"]


def _are_shares(means: Floats, spreads: Floats) -> Bools:
    """Which features are 0 or 1 in all rows, so that their spreads say what their means say: (bags, d) -> (d,)."""
    shares: Bools = np.all(np.abs(spreads**2 - means * (1 - means)) < 1e-4, axis=0)
    return shares


def _share(value: float) -> str:
    """A share of rows."""
    return f"{100 * value:.0f} %"


def _number(value: float) -> str:
    """A number with three digits, or all of a large one."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _no_lines(labels: npt.NDArray[Any], notes: tuple[str, ...]) -> Findings:
    nothing, words = np.empty(0), np.empty(0, dtype=object)
    dates, whole = np.empty(0, dtype="datetime64[us]"), np.empty(0, dtype=np.int64)
    none = np.zeros(0, dtype=bool)
    return Findings(
        labels[:0], dates, whole, whole, nothing, nothing, nothing, nothing, nothing, nothing, words, none, dates,
        words, (), notes,
    )  # fmt: skip
