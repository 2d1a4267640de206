"""Rows or groups of a table, ranked once: one order, one threshold, reasons computed once. Others only show it.

The columns of every result are made here, by ``result_columns``.
"""

import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.data.labelled import UNSEEN, LabelledRows
from isobag.data.params import FDR, check_params
from isobag.data.rows import ArrayRows, Rows
from isobag.estimators import IDKPointDetector
from isobag.models.calibration import discoveries
from isobag.tables.encode import Encoding
from isobag.tables.judgement import Judged, judge_new, judge_own
from isobag.tables.learn import Table
from isobag.tables.notebook import html_of, plot_scores
from isobag.tables.reasons import reasons_of_groups, reasons_of_rows
from isobag.tables.summary import TableSummary
from isobag.tables.units import Units, files_at, spread, units_of

MOST_EXPLAINED = {"row": 1_000, "group": 200}
"""How many of the oddest rows or groups get reasons."""
RESULT_TYPES: dict[str, Any] = {
    "row": pa.int64(),
    "n_points": pa.int64(),
    "score": pa.float64(),
    "rank": pa.int64(),
    "rank_share": pa.float64(),
    "p_value": pa.float64(),
    "extrapolated": pa.bool_(),
    "p_shape": pa.float64(),
    "p_size": pa.float64(),
    "flagged": pa.bool_(),
    "n_missing": pa.int64(),
    "reasons": pa.string(),
}
"""Columns of a result, in order."""


def result_columns(labels: dict[str, Any], **values: Any) -> dict[str, Any]:
    """The columns of a result in order: labels, then those of RESULT_TYPES that are given and not None."""
    return {**labels, **{name: values[name] for name in RESULT_TYPES if values.get(name) is not None}}


def check_labels(names: Sequence[str]) -> None:
    """Refuse labels that are called like a column of the result."""
    for name in names:
        if name in RESULT_TYPES:
            raise ValueError(f"{name!r} is a column of the result; rename your column {name!r}.")


@dataclass(kw_only=True)
class Ranking:
    """The n rows or groups of a table, the oddest first.

    judged : what the scores come from.
    rule : in words, by which some are flagged; ``fdr`` or ``budget``, the false discovery rate or the number of false
        alarms that it is about, if it is.
    n_expected : as in ``Judged``; with ``fdr`` how many of those flagged would be false.
    units : what is ranked, and which of it takes part.
    order : (n,), numbers of the rows of the table, or of groups by first appearance; the lowest score comes first, what
        has no score last.
    scores : (n,), NaN for what was left out.
    evidence : columns that say how rare a score is: (n,) each, as ``Judged`` has them.
    flagged : (n,).
    explanation : of the first of ``order``: (k, d) what each feature contributes to a row being odd, or a
        GroupExplanation; ``reasons`` are the same in words; both None if not asked for.
    frame : what was ranked, opened; None for files.
    """

    table: Table
    detector: Any
    judged: Judged
    rule: str
    fdr: float | None = None
    budget: float | None = None
    n_expected: float | None = None
    units: Units
    order: Ints
    scores: Floats
    evidence: dict[str, Any]
    flagged: Bools
    explanation: Any
    reasons: list[str] | None
    frame: Any = None

    @property
    def unit(self) -> str:
        """What is ranked: "row" or "group"."""
        return "group" if self.table.by else "row"

    @property
    def encoding(self) -> Encoding:
        """How columns became features."""
        return self.table.encoding

    @property
    def summary(self) -> TableSummary:
        """Every column of the table, accounted for."""
        return self.table.summary

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def n_ranked(self) -> int:
        """Number of those with a score."""
        return len(self.units.data)

    @property
    def n_flagged(self) -> int:
        """Number of those flagged."""
        return int(np.count_nonzero(self.flagged))

    @property
    def n_tied(self) -> int:
        """How many share the lowest score."""
        lowest = self.scores[self.order[0]] if len(self) else np.nan
        return int(np.count_nonzero(self.scores == lowest))

    def rows_of(self, chosen: Ints) -> Ints:
        """The rows of the table that name some rows or groups."""
        return chosen if self.units.first_rows is None else self.units.first_rows[chosen]

    def places_of(self, chosen: Ints) -> Ints:
        """Where some rows or groups stand among those that take part."""
        return chosen if self.units.positions is None else self.units.positions[chosen]

    def columns(self, start: int, stop: int) -> dict[str, Any]:
        """Columns of the ranked table, from place start + 1 to place stop; equal scores have one rank."""
        chosen = self.order[start:stop]
        reasons = None
        if self.reasons is not None:
            reasons = self.reasons[start:stop] + [""] * max(0, len(chosen) - max(0, len(self.reasons) - start))
        numbers, n_missing = pa.array(chosen), self.units.n_missing
        ranks, shares = self._ranks(start, self.scores[chosen])
        return result_columns(
            {name: own.take(numbers) for name, own in self.units.labels.items()} | self._files(chosen),
            row=chosen if self.unit == "row" else None,
            n_points=self._sizes(chosen) if self.unit == "group" else None,
            score=self.scores[chosen],
            rank=ranks,
            rank_share=None if self.judged.is_new else shares,
            **{name: values[chosen] for name, values in self.evidence.items()},
            flagged=self.flagged[chosen],
            n_missing=None if n_missing is None else n_missing[chosen].astype(np.int64),
            reasons=reasons,
        )

    def parts(self, n_rows: int) -> Iterator[dict[str, Any]]:
        """Columns of the whole ranked table with those carried along, so many rows at a time: what is written."""
        for start in range(0, len(self), n_rows):
            columns, carried = self.columns(start, start + n_rows), self.carried(start, start + n_rows)
            twice = [name for name in carried if name in columns]
            if twice:
                raise ValueError(f"{twice[0]!r} is a column of the result; rename your column {twice[0]!r}.")
            yield {**columns, **carried}

    def carried(self, start: int, stop: int) -> dict[str, Any]:
        """Columns carried along, from place start + 1 to place stop; of a group, those of its first row."""
        rows = pa.array(self.rows_of(self.order[start:stop]))
        return {name: own.take(rows) for name, own in self.table.carried.items() if name not in self.units.labels}

    def __repr__(self) -> str:
        """How many are ranked and flagged."""
        return f"Ranking({len(self):,} {self.unit}s, {self.n_flagged:,} flagged)"

    def to_frame(self) -> Any:
        """All of it, the oddest first: a frame of the library that came in, or of Arrow for arrays and files.

        Columns: labels, ``id_column`` and ``within`` as they were; ``period`` or ``session``, when it starts; ``row``
        (position in the input, from 0) or ``n_points``; ``score``, ``rank``, ``rank_share`` or ``p_value``, ``flagged``
        and ``reasons``, of the 1,000 oddest rows or 200 oddest groups; ``n_missing``, if values are missing; then
        those of ``keep``. Rows of pandas keep their index.
        """
        (columns,) = list(self.parts(max(1, len(self)))) or [self.columns(0, 0)]
        if self.frame is None:
            return pa.table(columns)
        backend, by_text = self.frame.implementation, {str(name): name for name in self.frame.columns}
        rows: Ints = self.rows_of(self.order)
        inputs = [name for name in columns if name in self.table.options.apart or name in self.table.carried]
        new = [nw.new_series(name, own, backend=backend) for name, own in columns.items() if name not in inputs]
        ranked = new[0].to_frame().with_columns(*new[1:])
        if inputs:
            ranked = self.frame.select([by_text[name] for name in inputs])[rows].with_columns(*new)
            ranked = ranked.select([by_text[name] if name in inputs else name for name in columns])
        index = nw.maybe_get_index(self.frame) if self.unit == "row" else None
        if index is None:
            return nw.maybe_reset_index(ranked).to_native()
        native = ranked.to_native()
        native.index = index[rows]
        return native

    def report(self, path: str | os.PathLike[str], *, source: str = "") -> None:
        """Write a page to look at, one HTML file that works offline; ``source`` says where the data come from."""
        import_module("isobag.report").write_report(self, path, source=source)  # needs jinja2

    def _repr_html_(self) -> str:
        """The oddest, as a notebook shows them."""
        return html_of(self)

    def plot(self, ax: Any = None, n_labels: int = 5) -> Any:
        """Draw the scores by rank, with the threshold and the names of the oddest; needs matplotlib.

        ax : Axes to draw on, by default new ones; they are returned.
        """
        return plot_scores(self, ax, n_labels)

    def _files(self, chosen: Ints) -> dict[str, Any]:
        """The column that says which file each row is from, or each group, where several were read: (k,)."""
        first, last = (chosen, chosen) if self.units.ends is None else (rows[chosen] for rows in self.units.ends)
        return files_at(self.table, first, last)

    def _sizes(self, chosen: Ints) -> Ints:
        places = self.places_of(chosen)
        return np.where(places >= 0, self.units.data.sizes[places], 0)

    def _ranks(self, start: int, scores: Floats) -> tuple[Ints, Floats]:
        """Ranks and shares of rank of those from place ``start`` + 1 on, which have these scores: (k,) each."""
        n = int(np.count_nonzero(~np.isnan(scores)))
        n_lower, n_to = start, start + n
        if n:  # others of the first score may stand before these, and others of the last score behind
            score_of = self.scores.__getitem__
            n_lower = bisect_left(self.order[: start + 1], scores[0], key=score_of)
            n_to = bisect_right(self.order[: self.n_ranked], scores[n - 1], n_to, key=score_of)
        return ranks_and_shares(scores, start, n_lower, n_to, self.n_ranked)


def ranks_and_shares(scores: Floats, start: int, n_lower: int, n_to: int, n_ranked: int) -> tuple[Ints, Floats]:
    """Ranks of ascending scores, one for equal scores, and shares of all scores that are no higher: (k,) each.

    What has no score, NaN, stands last, behind all ``n_ranked``.

    start : how many stand before these.
    n_lower, n_to : how many of all scores are lower than the first of these, and no higher than the last.
    """
    scored = scores[~np.isnan(scores)]
    n_rest = len(scores) - len(scored)
    below, to = (start + np.searchsorted(scored, scored, side) for side in ("left", "right"))
    below[scored == scored[:1]], to[scored == scored[-1:]] = n_lower, n_to
    ranks = np.append(below, np.full(n_rest, n_ranked)) + 1
    return ranks, np.append(to / max(n_ranked, 1), np.full(n_rest, np.nan))


def rank(
    table: Table,
    detector: Any,
    *,
    is_fitted: bool = False,
    fdr: float | None = None,
    budget: float | None = None,
    min_size: int = 1,
    explains: bool = True,
    frame: Any = None,
    stage: Callable[[str], None] = lambda _: None,
) -> Ranking:
    """Rank the rows or groups of a table by a detector fitted to them, or before (``is_fitted``).

    budget : how many of new data may be flagged if all are like the training data, on average.
    stage : called with the name of each pass when it begins: learning, scoring, explaining.
    """
    check_labels([*table.by, *table.options.baseline, *([] if table.options.id is None else [table.options.id])])
    units = units_of(table, min_size)
    data, places = units.data, units.positions
    if is_fitted:
        data = with_baseline(detector, data, units.baseline)
        stage("scoring")
        judged = judge_new(detector, data)
    else:
        stage("learning")
        judged = judge_own(detector, fit_data(detector, data, units.baseline))
        data = with_baseline(detector, data, units.baseline)
        detector.table_ = table.encoding.to_text()
    n_expected = judged.n_expected
    flagged, rule = judged.scores < judged.threshold, rule_of(judged)
    if fdr is not None:
        p_values = judged.evidence.get("p_value")
        check_fdr(fdr, p_values is not None)
        flagged, rule = discoveries(np.asarray(p_values), fdr) < 0, f"false discovery rate of at most {fdr:g}"
        n_expected = float(fdr * np.count_nonzero(flagged))
    elif budget is not None:
        level = budget / max(len(data), 1)
        flagged, rule = np.asarray(judged.evidence["p_value"]) <= level, f"p-value of at most {level:.3g}"
        n_expected = min(budget, len(data))
    scores = spread(judged.scores, places)
    order = np.argsort(scores, kind="stable")
    explanation: Any = None
    reasons: list[str] | None = None
    if explains:
        top = order[: min(MOST_EXPLAINED["group" if table.by else "row"], len(data))]
        stage("explaining")
        explanation, reasons = _explain(judged, data, top if places is None else places[top], table, detector)
    return Ranking(
        table=table,
        detector=detector,
        judged=judged,
        units=units,
        order=order,
        scores=scores,
        evidence={name: spread(values, places) for name, values in judged.evidence.items()},
        flagged=spread(flagged, places),
        rule=rule,
        fdr=fdr,
        budget=budget,
        n_expected=n_expected,
        explanation=explanation,
        reasons=reasons,
        frame=frame,
    )


def rule_of(judged: Judged) -> str:
    """What is flagged, in words."""
    return f"score below {judged.threshold:.4g}" if judged.threshold else "no score is low enough"


def check_fdr(fdr: float | None, is_new: bool) -> None:
    """Refuse a false discovery rate for data that the model has learned from."""
    if fdr is None:
        return
    if not is_new:
        raise ValueError(
            f"fdr={fdr!r} needs data that the model has not learned from: in every table some rows are the oddest. "
            "Fit a model to data known to be normal, and score these with it."
        )
    check_params({"fdr": fdr}, {"fdr": FDR})


def fit_data(detector: Any, data: Any, baseline: Any = None) -> Any:
    """Fit a detector to rows or groups; their scores (n,); ``baseline``: labels of rows."""
    if not isinstance(data, Rows):
        return detector.fit(data).scores_
    detector.fit(data, within=baseline)
    return detector.scores_ if hasattr(detector, "scores_") else detector.score_samples(data)


def with_baseline(detector: Any, data: Any, baseline: Any) -> Any:
    """Rows with the groups of a fitted detector that they are compared with; else the data as they are."""
    return detector.labelled(data, baseline) if isinstance(detector, IDKPointDetector) else data


def _explain(judged: Judged, data: Any, chosen: Ints, table: Table, detector: Any) -> tuple[Any, list[str]]:
    """Why some rows or groups score low, in numbers and in words."""
    model = judged.model
    if isinstance(data, LabelledRows):
        return _explain_owned(judged, data, chosen, table, detector)
    if isinstance(data, Rows):
        explanation = model.explain(ArrayRows(data.take(chosen)), detector.compute)
        return explanation, reasons_of_rows(model.reference, table.encoding, table.cells.take(chosen), explanation)
    if not len(chosen):
        return None, []
    part = data.part(chosen)
    explanation = model.explain(part, detector.compute)
    return explanation, reasons_of_groups(table.encoding, part, explanation, model)


def _explain_owned(
    judged: Judged, rows: LabelledRows, chosen: Ints, table: Table, detector: Any
) -> tuple[Any, list[str]]:
    """Rows within their groups: reasons tell what is usual in the row's own group, or that it is new."""
    explained = LabelledRows(ArrayRows(rows.take(chosen)), rows.owners[chosen], rows.n_groups)
    model, cells, reasons = judged.model, table.cells.take(chosen), [""] * len(explained)
    explanation = model.explain(explained, detector.compute)
    for owner in np.unique(explained.owners).tolist():
        of_owner = np.flatnonzero(explained.owners == owner)
        usual = model.reference if model.residuals is None else model.residuals.usual(owner)
        for k, reason in zip(
            of_owner, reasons_of_rows(usual, table.encoding, cells[of_owner], explanation[of_owner]), strict=True
        ):
            is_new = owner == UNSEEN
            reasons[k] = f"{reason}; {','.join(table.options.baseline)} not in the model" if is_new else reason
    return explanation, reasons
