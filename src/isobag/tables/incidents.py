"""What a watch has found: incidents in words and numbers, and every bag that was judged."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from os import PathLike
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from isobag.data.periods import Calendar
from isobag.models.watch import Details, JudgedPeriod
from isobag.models.watch_bags import MISSING, MIX, ROWS, SHAPE, SPREAD, VALUE, BagSummary
from isobag.tables.reasons import number_in_words

NEW, GOING_ON, OVER = "new", "going on", "over"
_WIDTH = 1.64
"""Errors to both sides of what is expected that are usual."""
_FEW_CHANGED = 5


class Naming(NamedTuple):
    """Names for numbers: of entities (E,), and what the summaries are of."""

    by: tuple[str, ...]
    entities: Any
    summaries: tuple[BagSummary, ...]
    calendar: Calendar
    fdr: float


class Incident(NamedTuple):
    """One incident: entity, its first and last period, state, and what is odd about it."""

    entity: int
    since: int
    last: int
    state: str
    p_value: float
    what: str
    reason: str
    n_points: int
    bound: float = 0.0


@dataclass(frozen=True, eq=False)
class Incidents:
    """Incidents of the periods that an update judged: new ones first, then those that go on, then those over.

    judged : the periods. notes : sentences on what was left out, recognised or common to all.
    """

    judged: Sequence[JudgedPeriod]
    naming: Naming
    notes: tuple[str, ...]
    library: Any = "pyarrow"

    def __len__(self) -> int:
        return len(self.listed)

    def __repr__(self) -> str:
        names = (*self.naming.by, "state", "what", "reason")
        return "\n".join(
            [*("  ".join(str(row[name]) for name in names) for row in self.rows()[:20]), *self.sentences()]
        )

    @cached_property
    def listed(self) -> tuple[Incident, ...]:
        """The incidents, in order."""
        places: dict[tuple[int, int], list[tuple[Details, int]]] = {}
        for judged in self.judged:
            for k, key in enumerate(
                zip(judged.details.incidents.entity.tolist(), judged.details.incidents.since.tolist(), strict=True)
            ):
                places.setdefault(key, []).append((judged.details, k))
        newest, incidents = self.judged[-1].period if self.judged else -1, []
        for (entity, since), of_incident in places.items():
            now, k = of_incident[-1]
            state = OVER if now.is_over[k] else NEW if since == newest else GOING_ON
            what, reason = self._reason(*of_incident[0 if state == OVER else -1])
            reason += f"; {int(now.incidents.periods[k])} periods" if state == GOING_ON else ""
            own, bound = now.incidents, float(now.bound[k])
            numbers = float(own.p[k]), what, reason, int(own.points[k]), bound
            incidents.append(Incident(entity, since, int(own.last[k]), state, *numbers))
        order = (NEW, GOING_ON, OVER)
        return tuple(sorted(incidents, key=lambda a: (order.index(a.state), a.p_value, -a.n_points, a.entity)))

    def columns(self) -> dict[str, Any]:
        """One line an incident, as columns."""
        table: dict[str, Any] = {name: [getattr(one, name) for one in self.listed] for name in Incident._fields[:-1]}
        labels = self._labels(table.pop("entity"))
        for name in ("since", "last"):
            table[name] = self.naming.calendar.dates(np.array(table[name], dtype=np.int64))
        return {**labels, **table, "n_points": np.array(table["n_points"], dtype=np.int64)}

    def to_frame(self) -> Any:
        """One line an incident: the column of ``by``, since, last, state, p_value, what, reason, n_points."""
        return nw.from_dict(self.columns(), backend=self.library).to_native()

    def bags(self) -> Any:
        """One line a judged bag: the column of ``by``, period, n_points, p_value, flagged, what."""
        return nw.from_dict(self.bag_columns(), backend=self.library).to_native()

    def bag_columns(self) -> dict[str, Any]:
        """One line a judged bag, as columns: flagged while in an open incident."""
        parts: list[Any] = [[np.empty(0, kind) for kind in (*(np.int64,) * 3, np.float64, bool, object)]]
        for one in self.judged:
            at, what = np.flatnonzero(~np.isnan(one.p_value)), np.full(len(one.rows), "", dtype=object)
            for k, entity in enumerate(one.details.incidents.entity.tolist()):
                what[entity] = self._reason(one.details, k)[0] if one.inside[entity] else ""
            columns = one.rows, one.p_value, one.inside, what
            parts.append([at, np.full(len(at), one.period), *(column[at] for column in columns)])
        entities, periods, *rest = (np.concatenate(column) for column in zip(*parts, strict=True))
        names = ("n_points", "p_value", "flagged", "what")
        dates = self.naming.calendar.dates(periods)
        return {**self._labels(entities.tolist()), "period": dates, **dict(zip(names, rest, strict=True))}

    def rows(self) -> list[dict[str, Any]]:
        """One mapping an incident, in plain Python."""
        columns = self.columns()
        shown = {name: [self.shown(getattr(one, name)) for one in self.listed] for name in ("since", "last")}
        lists = {name: shown.get(name) or np.asarray(own, dtype=object).tolist() for name, own in columns.items()}
        return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]

    def table(self, top: int) -> dict[str, list[Any]]:
        """The first incidents as a terminal shows them: short reasons."""
        rows, listed = self.rows()[:top], self.listed[:top]
        table = {name: [row[name] for row in rows] for name in (*self.naming.by, "since", "state")}
        table["p_value"] = [p_in_words(one.p_value, one.bound) for one in listed]
        return {**table, "what": [row["what"] for row in rows], "reasons": [row["reason"] for row in rows]}

    def report(self, path: str | PathLike[str], *, source: str = "", command: str = "") -> None:
        """Write a page to look at, one HTML file."""
        import_module("isobag.report.watch").write_watch_report(self, path, source=source, command=command)

    def sentences(self) -> list[str]:
        """What there is to say about all."""
        states = [one.state for one in self.listed]
        counts = ", ".join(f"{states.count(state)} {state}" for state in (NEW, GOING_ON, OVER) if state in states)
        counts_of = {one.period: int((~np.isnan(one.p_value)).sum()) for one in self.judged}
        periods, n_judged = [period for period, n in counts_of.items() if n], sum(counts_of.values())
        if not n_judged:
            has_few = ["Nothing is judged yet: there are too few past periods to compare with."]
            return list(self.notes) or has_few
        per = "days" if self.naming.calendar.length < 86_400_000_000 else "periods"
        first, last = self.shown(periods[0]), self.shown(periods[-1])
        days = first if first == last else f"{first} to {last}"
        n_incidents = f"{len(states)} incident{'s' * (len(states) != 1)}" + (f" ({counts})" if counts else "")
        judged = f"{n_judged:,} bags of {days} judged, {n_incidents}."
        chance = f"Where nothing is wrong, up to about {100 * self.naming.fdr:.3g} % of {per} have a false incident."
        return [judged, chance, *self.common_changes(), *self.notes]

    def common_changes(self) -> list[str]:
        """Periods in which most entities changed together."""
        result = []
        for judged in self.judged:
            n_judged, n_changed = int((~np.isnan(judged.p_value)).sum()), judged.n_changed
            j = int(n_changed.argmax())
            if n_judged and n_changed[j] >= max(_FEW_CHANGED, n_judged / 2):
                counts = f"{n_changed[j]:,} of {n_judged:,} entities changed ({self.naming.summaries[j].what})"
                result.append(f"{self.shown(judged.period)}: {counts}.")
        return result

    def shown(self, period: int) -> str:
        """The start of a period, as short as it can be."""
        return shown_period(self.naming.calendar, period)

    def _labels(self, entities: list[int]) -> dict[str, Any]:
        labels = [self.naming.entities[k] for k in entities]
        if len(self.naming.by) == 1:
            return {self.naming.by[0]: labels}
        return {name: [label[j] for label in labels] for j, name in enumerate(self.naming.by)}

    def _reason(self, details: Details, k: int) -> tuple[str, str]:
        """What is odd about an incident, in one word and in numbers: the two columns that say most."""
        summaries, size = self.naming.summaries, np.abs(details.incidents.direction[k])
        largest, new_level = summaries[int(size.argmax())].what, details.incidents.level[k]
        if largest == ROWS and np.rint(np.exp(new_level[0]) - 0.5) <= 0:
            return "silence", f"no rows, usually {self._range(details, k, 0)}"
        chosen: dict[tuple[str, int], int] = {}
        for j in np.argsort(-size, kind="stable").tolist():
            what = VALUE if summaries[j].what == SPREAD else summaries[j].what
            if size[j] >= size.max() / 2 and size[j] > 0:
                chosen.setdefault((what, summaries[j].column), j)
        picked = list(chosen.values())[:2]
        return summaries[picked[0]].what if picked else "", "; ".join(self._words(details, k, j) for j in picked)

    def _words(self, details: Details, k: int, j: int) -> str:
        summary, is_constant = self.naming.summaries[j], details.error[k, j] == 0
        value = summary.before + self._value(j, details.incidents.level[k, j])
        if is_constant:
            return f"{value}, always {self._value(j, details.expected[k, j])} before"
        return f"{value}{summary.after}, usually {self._range(details, k, j)}"

    def _range(self, details: Details, k: int, j: int) -> str:
        expected, error = details.expected[k, j], details.error[k, j]
        low, high = self._value(j, expected - _WIDTH * error), self._value(j, expected + _WIDTH * error)
        return low if low == high else f"{low} to {high}"

    def _value(self, j: int, x: float) -> str:
        """A summary in words."""
        what = self.naming.summaries[j].what
        if what == ROWS:
            return f"{max(0.0, np.exp(x) - 0.5):.0f}"
        if what in (MIX, MISSING):
            return f"{np.sin(np.clip(x, 0, np.pi / 2)) ** 2:.0%}".replace("%", " %")
        inverse = {SHAPE: np.tanh, SPREAD: np.exp}.get(what, float)
        return number_in_words(float(f"{inverse(x):.3g}"))


def p_in_words(p: float, bound: float) -> str:
    """A p-value, or the bound that it is below."""
    return f"< {bound:.0e}" if p <= 1.5 * bound else f"{p:.2g}"


def shown_period(calendar: Calendar, period: int) -> str:
    """The start of a period, as short as it can be."""
    text = str(calendar.dates(np.array([period]))[0].astype("datetime64[m]")).replace("T", " ")
    return text.removesuffix(" 00:00") if calendar.length >= 86_400_000_000 else text


def library_of(frame: Any) -> str:
    """The library that results for a frame come in: its own, or Arrow where it is none of whole frames."""
    native = nw.from_native(frame)
    return str(native.implementation) if isinstance(native, nw.DataFrame) else "pyarrow"
