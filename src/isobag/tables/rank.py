"""Rows or groups of a table, ranked once: one order, one threshold, reasons computed once. Others only show it."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.data.groups import Groups, number_labels
from isobag.data.params import FDR, check_params
from isobag.data.rows import ArrayRows
from isobag.estimators import IDKGroupDetector, IDKPointDetector
from isobag.models.calibration import discoveries, own_p_values
from isobag.tables.read import ReadTable, label_rows
from isobag.tables.reasons import reasons_of_groups, reasons_of_rows
from isobag.tables.summary import Spelling, TableSummary, in_python

MOST_EXPLAINED = {"row": 1_000, "group": 200}
"""How many of the oddest rows or groups get reasons."""

RESULTS = ("row", "n_points", "score", "rank", "p_value", "flagged", "n_missing", "reasons")
"""Names of the columns of a result."""
Stage = Callable[[str], AbstractContextManager[Any]]
"""A context for a pass by its name: learning, scoring or explaining."""


@dataclass(frozen=True)
class Ranking:
    """The n rows or groups of a table, the oddest first.

    unit : "row" or "group".
    order : (n,), numbers of the rows of the table, or of groups by first appearance; the lowest score comes first, what
        has no score last.
    scores, p_values : (n,), NaN for what was left out; p_values may be None.
    is_new : whether p-values compare with data set aside when the model was fitted; else with the table itself.
    model : what the scores come from.
    threshold, flagged : (n,), and ``rule``, in words, by which these are flagged.
    fdr : the false discovery rate that the rule is about, if it is.
    n_expected : how many would be flagged if all were like the data that the model was fitted to, or with ``fdr`` how
        many of those flagged would be false; None if unknown.
    data : what takes part, and ``places`` (n,), where each row or group stands in it, -1 for what was left out.
    first_rows : (n,), the row of the table in which each first appears.
    n_missing : (n,), missing values of a row, or rows with missing values of a group; None if there are none.
    explanation : of the first of ``order``: (k, d) what each feature adds to a row's lack of similarity, or a
        GroupExplanation; ``reasons`` are the same in words.
    """

    unit: str
    table: ReadTable
    detector: Any
    model: Any
    order: npt.NDArray[np.int32] | Ints
    scores: Floats
    p_values: Floats | None
    is_new: bool
    threshold: float
    flagged: Bools
    rule: str
    fdr: float | None
    n_expected: float | None
    data: Any
    places: Ints | None
    first_rows: Ints | None
    n_missing: Ints | None
    explanation: Any
    reasons: list[str]

    def __len__(self) -> int:
        """Number of rows or groups."""
        return len(self.scores)

    @property
    def n_ranked(self) -> int:
        """Number of those with a score."""
        return len(self.data)

    @property
    def n_flagged(self) -> int:
        """Number of those flagged."""
        return int(np.count_nonzero(self.flagged))

    @property
    def n_tied(self) -> int:
        """How many share the lowest score."""
        lowest = self.scores[self.order[0]] if len(self) else np.nan
        return int(np.count_nonzero(self.scores == lowest))

    @property
    def looked_at(self) -> list[str]:
        """Names of the columns that are used."""
        return [column.name for column in self.table.encoding.columns]

    @property
    def summary(self) -> TableSummary:
        """Every column of the table, accounted for."""
        return self.table.summary

    def rows_of(self, chosen: Ints) -> Ints:
        """The rows of the table that name some rows or groups."""
        return chosen if self.first_rows is None else self.first_rows[chosen]

    def places_of(self, chosen: Ints) -> Ints:
        """Where some rows or groups stand in ``data``."""
        return chosen if self.places is None else self.places[chosen]

    def columns(self, start: int, stop: int) -> dict[str, Any]:
        """Columns of the ranked table, from place start + 1 to place stop; equal scores have one rank."""
        chosen = self.order[start:stop].astype(np.int64)
        found: dict[str, Any] = self._labels(chosen)
        if self.unit == "row":
            found["row"] = chosen
        else:
            found["n_points"] = self._sizes(chosen)
        found["score"] = self.scores[chosen]
        found["rank"] = self._ranks(chosen)
        if self.p_values is not None:
            found["p_value"] = self.p_values[chosen]
        found["flagged"] = self.flagged[chosen]
        if self.n_missing is not None:
            found["n_missing"] = self.n_missing[chosen].astype(np.int64)
        reasons = self.reasons[start:stop]
        found["reasons"] = reasons + [""] * (len(chosen) - len(reasons))
        return found

    def carried(self, start: int, stop: int) -> dict[str, Any]:
        """Columns of the table that are carried along, in ranked order."""
        rows = pa.array(self.rows_of(self.order[start:stop].astype(np.int64)))
        return {name: own.take(rows) for name, own in self.table.carried.items() if name not in self.table.labels}

    def _labels(self, chosen: Ints) -> dict[str, Any]:
        rows = pa.array(self.rows_of(chosen))
        return {name: labels.take(rows) for name, labels in self.table.labels.items()}

    def _sizes(self, chosen: Ints) -> Ints:
        places = self.places_of(chosen)
        return np.where(places >= 0, self.data.sizes[places], 0)

    def _ranks(self, chosen: Ints) -> Ints:
        if not len(chosen):
            return np.empty(0, dtype=np.int64)
        ranked = self._ranked_scores
        scores = self.scores[chosen]
        return np.searchsorted(ranked, np.where(np.isnan(scores), np.inf, scores), side="left") + 1

    @property
    def _ranked_scores(self) -> Floats:
        return self.scores[self.order[: self.n_ranked]]


@dataclass(frozen=True)
class Judged:
    """Scores of what takes part, and what follows from them."""

    model: Any
    scores: Floats
    p_values: Floats | None
    is_new: bool
    threshold: float
    n_expected: float | None


def rank_rows(
    table: ReadTable,
    detector: IDKPointDetector,
    *,
    is_fitted: bool = False,
    p_values: bool = True,
    fdr: float | None = None,
    spelling: Spelling = in_python,
    stage: Stage = nullcontext,
) -> Ranking:
    """Rank the rows of a table by a detector fitted to them, or by one that was fitted before."""
    _check_labels(table)
    rows = table.rows
    if is_fitted:
        with stage("scoring"):
            judged = judge_new(detector, rows, p_values)
    else:
        with stage("learning"):
            judged = judge_own(detector, detector.fit_scores(rows), p_values)
    places = None
    if table.kept is not None:
        places = np.where(table.kept, np.cumsum(table.kept) - 1, -1)
    with stage("explaining"):
        return _ranking("row", table, detector, judged, rows, places, None, table.gaps, fdr, spelling)


def rank_groups(
    table: ReadTable,
    detector: IDKGroupDetector,
    *,
    is_fitted: bool = False,
    p_values: bool = True,
    fdr: float | None = None,
    min_size: int = 1,
    spelling: Spelling = in_python,
    stage: Stage = nullcontext,
) -> Ranking:
    """Rank the groups of a table, by its columns set apart for them."""
    _check_labels(table)
    groups, places, first_rows, n_missing = groups_of(table, min_size, spelling)
    if is_fitted:
        with stage("scoring"):
            judged = judge_new(detector, groups, p_values)
    else:
        with stage("learning"):
            detector.fit(groups)
        judged = judge_own(detector, detector.scores_, p_values)
    with stage("explaining"):
        return _ranking("group", table, detector, judged, groups, places, first_rows, n_missing, fdr, spelling)


def groups_of(
    table: ReadTable, min_size: int = 1, spelling: Spelling = in_python
) -> tuple[Groups, Ints, Ints, Ints | None]:
    """The groups of a table that take part; for all of them their places among these, first rows and rows with gaps."""
    labels = label_rows(list(table.labels.values()))
    names = ", ".join(table.labels)
    is_labelled = np.array([label is not None for label in labels], dtype=bool)
    if not is_labelled.all() and table.encoding.missing != "drop":
        row = int(np.argmin(is_labelled))
        raise ValueError(
            f"{names}: row {row:,} has no label, one of {np.count_nonzero(~is_labelled):,} such rows; pass "
            f"{spelling('missing', 'drop')} to leave them out."
        )
    ids = np.full(len(labels), -1)
    ids[is_labelled], known = number_labels(labels[is_labelled])
    n_groups = len(known)
    rows = np.flatnonzero(is_labelled)
    _, first = np.unique(ids[rows], return_index=True)
    first_rows = rows[first]
    takes_part = is_labelled if table.kept is None else is_labelled & table.kept
    sizes = np.bincount(ids[takes_part], minlength=n_groups)
    here = np.flatnonzero(sizes >= max(1, min_size))
    if not len(here):
        raise ValueError(f"No group has {min_size} or more rows; the largest has {sizes.max(initial=0):,}.")
    places = np.full(n_groups, -1)
    places[here] = np.arange(len(here))
    takes_part &= np.where(is_labelled, places[ids], -1) >= 0
    inside = takes_part if table.kept is None else takes_part[table.kept]
    data = table.rows if inside.all() else table.rows.part(np.flatnonzero(inside))
    n_missing = None
    if table.gaps is not None:
        n_missing = np.bincount(ids[rows], weights=table.gaps[rows] > 0, minlength=n_groups).astype(np.int64)
    return Groups(data, places[ids[takes_part]], known[here]), places, first_rows, n_missing


def _check_labels(table: ReadTable) -> None:
    for name in table.labels:
        if name in RESULTS:
            raise ValueError(f"The result has a column {name!r} of its own; rename the column of that name first.")


def check_fdr(fdr: float | None, is_new: bool, spelling: Spelling = in_python) -> None:
    """Refuse a false discovery rate for data that the model has learned from."""
    if fdr is None:
        return
    if not is_new:
        raise ValueError(
            f"{spelling('fdr', str(fdr))} needs data that the model has not learned from: among their own kind some "
            "are always the oddest. Fit a model to data known to be normal, and score these with it."
        )
    check_params({"fdr": fdr}, {"fdr": FDR})


def judge_own(detector: Any, scores: Floats, p_values: bool) -> Judged:
    """Scores of the data that the detector learned from, and what follows from them."""
    own = own_p_values(scores) if p_values else None
    return Judged(detector.model_, scores, own, False, detector.offset_, None)


def judge_new(detector: Any, data: Any, p_values: bool = True) -> Judged:
    """Scores by the models that p-values rest on, if there are any: so that both have nearly one order."""
    calibration = detector.model_.calibration
    if calibration is None or not p_values:
        return Judged(detector.model_, detector.score_samples(data), None, True, detector.offset_, None)
    judgement = calibration.judge(data, detector.compute, detector.tail)
    threshold = detector.threshold(calibration.scores) if len(calibration.scores) else detector.offset_
    expected = None
    if len(calibration.scores):
        expected = float(np.mean(calibration.scores < threshold)) * len(judgement.scores)
    return Judged(detector.model_, judgement.scores, judgement.p_values, True, threshold, expected)


def _ranking(
    unit: str,
    table: ReadTable,
    detector: Any,
    judged: Judged,
    data: Any,
    places: Ints | None,
    first_rows: Ints | None,
    n_missing: Ints | None,
    fdr: float | None,
    spelling: Spelling,
) -> Ranking:
    flagged, rule = judged.scores < judged.threshold, f"score below {judged.threshold:.4g}"
    n_expected = judged.n_expected
    if fdr is not None:
        own = judged.p_values if judged.is_new else None
        check_fdr(fdr, own is not None, spelling)
        flagged, rule = discoveries(np.asarray(own), fdr) < 0, f"false discovery rate of at most {fdr:g}"
        n_expected = float(fdr * np.count_nonzero(flagged))
    scores, p_values = _spread(judged.scores, places), _spread(judged.p_values, places)
    order = np.argsort(scores, kind="stable")
    top = order[: min(MOST_EXPLAINED[unit], len(data))].astype(np.int64)
    chosen = top if places is None else places[top]
    explanation: Any
    if unit == "row":
        points = data.take(chosen)
        explanation = judged.model.explain(ArrayRows(points), detector.compute)
        reasons = reasons_of_rows(judged.model.reference, table.encoding, points, explanation)
    else:
        part = data.part(chosen)
        explanation = judged.model.explain(part, detector.compute)
        reasons = reasons_of_groups(table.encoding, part, explanation)
    return Ranking(
        unit,
        table,
        detector,
        judged.model,
        order.astype(np.int32) if len(order) < 2**31 else order,
        scores,
        p_values,
        judged.is_new,
        judged.threshold,
        np.zeros(len(scores), dtype=bool) | (_spread(flagged.astype(float), places) > 0),
        rule,
        fdr,
        n_expected,
        data,
        places,
        first_rows,
        n_missing,
        explanation,
        reasons,
    )


def _spread(values: Any, places: Ints | None) -> Any:
    """Values of what takes part, NaN for all else: (m,) -> (n,)."""
    if places is None or values is None:
        return values
    return np.where(places >= 0, np.asarray(values, dtype=np.float64)[places], np.nan)
