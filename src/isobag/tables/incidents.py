"""What a watch has found: incidents in words and numbers, and every bag that was judged."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from os import PathLike
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from isobag.backends.arrays import Ints
from isobag.data.periods import Calendar
from isobag.models.watch import Details, JudgedPeriod
from isobag.models.watch_bags import (
    HOURS,
    MEAN,
    MISSING,
    PAIR,
    PARTS_OF_DAY,
    QUANTILE,
    QUANTILES,
    ROWS,
    SHARE,
    SPREAD,
    Schema,
)
from isobag.tables.reasons import number_in_words

NEW, GOING_ON, OVER = "new", "going on", "over"
_WIDTH = 1.64
"""Errors to both sides of what is expected that are usual."""
_FEW_CHANGED = 5
_WHAT = {ROWS: "volume", MEAN: "value", QUANTILE: "value", SHARE: "mix", PAIR: "shape"}


class Naming(NamedTuple):
    """Names for numbers: of what is judged, entities (E,), columns of numbers, columns of texts and their values."""

    by: tuple[str, ...]
    entities: Any
    numbers: tuple[str, ...]
    texts: tuple[tuple[str, tuple[str, ...]], ...]
    schema: Schema | None
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
        lines = [f"{self._label(one.entity)}  {one.state}  {one.what}  {one.reason}" for one in self.listed[:20]]
        return "\n".join([*lines, *self.sentences()])

    @cached_property
    def listed(self) -> tuple[Incident, ...]:
        """The incidents, in order."""
        latest: dict[tuple[int, int], tuple[JudgedPeriod, int]] = {}
        first: dict[tuple[int, int], tuple[JudgedPeriod, int]] = {}
        for judged in self.judged:
            details = judged.details
            for k, key in enumerate(zip(details.entity.tolist(), details.since.tolist(), strict=True)):
                latest[key] = judged, k
                first.setdefault(key, (judged, k))
        newest = self.judged[-1].period if self.judged else -1
        incidents = []
        for (entity, since), (judged, k) in latest.items():
            details = judged.details
            state = OVER if details.is_over[k] else NEW if since == newest else GOING_ON
            at, row = first[entity, since] if state == OVER else (judged, k)
            what, reason = self._reason(at.details, row)
            if state == GOING_ON:
                reason += f"; {int(details.periods[k])} periods"
            numbers = (
                int(details.last[k]),
                state,
                float(details.p[k]),
                what,
                reason,
                int(details.points[k]),
                float(details.bound[k]),
            )
            incidents.append(Incident(entity, since, *numbers))
        order = {NEW: 0, GOING_ON: 1, OVER: 2}
        return tuple(
            sorted(incidents, key=lambda judged: (order[judged.state], judged.p_value, -judged.n_points, judged.entity))
        )

    def columns(self) -> dict[str, Any]:
        """One line an incident, as columns."""
        dates = self.naming.calendar.dates
        since, last = (
            dates(np.array([getattr(one, name) for one in self.listed], np.int64)) for name in ("since", "last")
        )
        rest = {name: [getattr(one, name) for one in self.listed] for name in ("state", "p_value", "what", "reason")}
        labels = self._labels(np.array([one.entity for one in self.listed], dtype=np.int64))
        n_points = np.array([one.n_points for one in self.listed], dtype=np.int64)
        return {**labels, "since": since, "last": last, **rest, "n_points": n_points}

    def to_frame(self) -> Any:
        """One line an incident: the column of ``by``, since, last, state, p_value, what, reason, n_points."""
        return nw.from_dict(self.columns(), backend=self.library).to_native()

    def bags(self) -> Any:
        """One line a judged bag: the column of ``by``, period, n_points, p_value, flagged, what."""
        return nw.from_dict(self.bag_columns(), backend=self.library).to_native()

    def bag_columns(self) -> dict[str, Any]:
        """One line a judged bag, as columns: flagged while in an open incident."""
        at = [np.flatnonzero(~np.isnan(one.p_value)) for one in self.judged]
        entity = np.concatenate([np.empty(0, np.int64), *at])
        periods = np.repeat([one.period for one in self.judged], [len(rows) for rows in at]).astype(np.int64)

        def of(values: Sequence[Any], kind: type) -> Any:
            return np.concatenate(
                [np.empty(0, kind), *(details[rows] for details, rows in zip(values, at, strict=True))]
            )

        flagged = of([one.inside for one in self.judged], bool)
        what = np.full(len(entity), "", dtype=object)
        ends = np.cumsum([len(rows) for rows in at])
        for row in np.flatnonzero(flagged).tolist():
            details = self.judged[int(np.searchsorted(ends, row, side="right"))].details
            what[row] = self._reason(details, int(np.searchsorted(details.entity, entity[row])))[0]
        numbers = {"n_points": of([one.rows for one in self.judged], np.int64)}
        p_value = of([one.p_value for one in self.judged], np.float64)
        dates = self.naming.calendar.dates(periods)
        return {
            **self._labels(entity),
            "period": dates,
            **numbers,
            "p_value": p_value,
            "flagged": flagged,
            "what": what,
        }

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
            return list(self.notes)
        per = "days" if self.naming.calendar.length < 86_400_000_000 else "periods"
        first, last = self.shown(periods[0]), self.shown(periods[-1])
        days = first if first == last else f"{first} to {last}"
        n_incidents = f"{len(states)} incident{'s' * (len(states) != 1)}" + (f" ({counts})" if counts else "")
        return [
            f"{n_judged:,} bags of {days} judged, {n_incidents}.",
            f"Where nothing is wrong, up to about {100 * self.naming.fdr:.3g} % of {per} have a false incident.",
            *self.common_changes(),
            *self.notes,
        ]

    def common_changes(self) -> list[str]:
        """Periods in which most entities changed together."""
        result = []
        for judged in self.judged:
            n_judged, n_changed = int((~np.isnan(judged.p_value)).sum()), judged.n_changed
            j = int(n_changed.argmax())
            if n_judged and n_changed[j] >= max(_FEW_CHANGED, n_judged / 2):
                what = self._what(j)
                result.append(
                    f"{self.shown(judged.period)}: {n_changed[j]:,} of {n_judged:,} entities changed ({what})."
                )
        return result

    def shown(self, period: int) -> str:
        """The start of a period, as short as it can be."""
        return shown_period(self.naming.calendar, period)

    def _labels(self, entity: Ints) -> dict[str, Any]:
        labels = [self.naming.entities[k] for k in entity.tolist()]
        if len(self.naming.by) == 1:
            return {self.naming.by[0]: labels}
        return {name: [label[j] for label in labels] for j, name in enumerate(self.naming.by)}

    def _label(self, entity: int) -> str:
        return " ".join(str(one[0]) for one in self._labels(np.array([entity])).values())

    def _what(self, j: int) -> str:
        kind = self._schema.summaries[j].kind
        return _WHAT.get(kind, kind)

    @property
    def _schema(self) -> Schema:
        assert self.naming.schema is not None
        return self.naming.schema

    def _reason(self, details: Details, k: int) -> tuple[str, str]:
        """What is odd about an incident, in one word and in numbers: the two columns that say most."""
        summaries, size = self._schema.summaries, np.abs(details.direction[k])
        if np.rint(np.exp(details.new_level[k, 0]) - 0.5) <= 0 and summaries[int(size.argmax())].kind == ROWS:
            return "silence", f"no rows, usually {self._range(details, k, 0)}"
        chosen: dict[tuple[str, int], int] = {}
        for j in np.argsort(-size, kind="stable").tolist():
            kind = "value" if summaries[j].kind in (MEAN, QUANTILE, SPREAD) else summaries[j].kind
            if size[j] >= size.max() / 2 and size[j] > 0:
                chosen.setdefault((kind, summaries[j].column), j)
        picked = list(chosen.values())[:2]
        return self._what(picked[0]) if picked else "", "; ".join(self._words(details, k, j) for j in picked)

    def _words(self, details: Details, k: int, j: int) -> str:
        summary = self._schema.summaries[j]
        value = self._value(j, float(details.new_level[k, j]))
        usual = f"usually {self._range(details, k, j)}"
        if details.error[k, j] == 0:
            usual = f"always {self._value(j, float(details.expected[k, j]))} before"
        if summary.kind == ROWS:
            return f"{value} rows, {usual}"
        if summary.kind == HOURS:
            hours = 24 // PARTS_OF_DAY
            return f"{value} of rows from {summary.part * hours} to {(summary.part + 1) * hours} h, {usual}"
        if summary.kind == SHARE:
            name, values = self.naming.texts[self._schema.texts[summary.column]]
            codes = self._schema.values[summary.column]
            of = [*(f"={values[code]}" for code in codes), " of other values", " missing"][summary.part]
            return f"{name}{of} in {value} of rows, {usual}"
        name = self.naming.numbers[self._schema.numbers[summary.column]]
        if summary.kind == PAIR:
            other = self.naming.numbers[self._schema.numbers[summary.part]]
            return f"correlation of {name} and {other} {value}, {usual}"
        if summary.kind == MEAN:
            return f"{name} {value}{'' if details.error[k, j] == 0 else ' a row'}, {usual}"
        if summary.kind == QUANTILE:
            return f"{name} {value} ({QUANTILES[summary.part]:.0%} quantile), {usual}"
        is_spread = summary.kind == SPREAD
        return f"spread of {name} {value}, {usual}" if is_spread else f"{name} missing in {value} of rows, {usual}"

    def _range(self, details: Details, k: int, j: int) -> str:
        expected, error = (float(values[k, j]) for values in (details.expected, details.error))
        low, high = self._value(j, expected - _WIDTH * error), self._value(j, expected + _WIDTH * error)
        return low if low == high else f"{low} to {high}"

    def _value(self, j: int, x: float) -> str:
        """A summary in words."""
        kind = self._schema.summaries[j].kind
        if kind == ROWS:
            return f"{max(0.0, np.exp(x) - 0.5):.0f}"
        if kind in (SHARE, MISSING, HOURS):
            return f"{np.sin(min(max(x, 0.0), np.pi / 2)) ** 2:.0%}".replace("%", " %")
        if kind == PAIR:
            return f"{np.tanh(x):.2g}"
        return number_in_words(float(f"{np.exp(x) if kind == SPREAD else x:.3g}"))


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
