"""Learning a model of points, and of what they are less the location of their own group."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from isobag.backends import Compute
from isobag.backends.arrays import Floats, Ints
from isobag.data.labelled import LabelledRows
from isobag.data.rows import RangedRows, Rows, spread_rows
from isobag.models.baseline import fit_baseline
from isobag.models.calibration import Calibration, calibrate, calibration_of
from isobag.models.point import (
    AVERAGED_ROWS,
    CALIBRATION_ROWS,
    FEW_SAMPLES,
    LEARNED_OF_GROUP,
    LEARNED_ROWS,
    REFERENCE_ROWS,
    PointModel,
    PointParams,
    finish_point_model,
)
from isobag.models.residuals import fit_residuals, residuals_of
from isobag.models.tally import Tally
from isobag.models.thresholds import MOST_GROSS, OWN_LEVEL, TRIMMED, counts_of, gap_of
from isobag.models.units import blocks_of, copies_of
from isobag.models.views import Limits, Located, Sums, Views, draw_views

FOLDED_ROWS = 4096
"""So many rows are calibrated by folds: half of them would make no pool."""
LOOK_ROWS = 2048
"""Rows that the models of the first look learn from."""
LOOKS = 2
VETTED_ROWS = 12_288
"""Rows that the first look scores, if more are located; pools are drawn from those of them that are not apart."""
LOCATED_ROWS = 1 << 16
"""Rows whose cells are kept between counting and scoring."""
_NONE = np.empty(0, dtype=np.int64)


def fit_to_bulk(
    rows: Rows, params: PointParams, compute: Compute, units: Ints | str | None, n_rows: int
) -> tuple[PointModel, Floats, float]:
    """A model of the rows but for those beyond their bulk; scores of all rows (n,), and the threshold below which.

    Gross rows hide one another: they are neighbours, widen scales, and make the tail of the scores heavy. So a first
    look sets apart those that a model of the other rows would not expect, and a model of the rest says what lies apart
    from its bulk. These rows have no part in it, unless they come back: their p-values must be as small as n_rows rows
    demand, the rule for all rows, old and new, and more: j rows were chosen together, so they may have
    .1 sqrt(j) / n_rows, not .1 j / n_rows. P-values of new rows count them, since they are of ``fit``. The paper's
    detector, of one psi, learns from all rows.
    """
    is_located = not isinstance(rows, LabelledRows) and rows.whole is not None and len(rows) <= LOCATED_ROWS
    draws_of_part = is_located and params.averages and params.pool_size == "auto"  # others may draw any row
    vetted = spread_rows(len(rows), VETTED_ROWS if draws_of_part else len(rows))
    apart = vetted[_gross_rows(_part(rows, vetted), params, compute)] if params.averages else _NONE
    fit = (_FitLocated if is_located else _FitAgain)(rows, params, compute, units)
    if isinstance(fit, _FitLocated):
        fit.draw_from(np.setdiff1d(vetted, apart, assume_unique=True))
        if len(vetted) < len(rows):
            apart = beyond_bulk(fit.without(apart).scores)
    model, scores = fit.calibrated_without(apart)
    calibration = model.calibration
    assert calibration is not None
    if len(apart):
        n_apart = max(1.0, len(apart) * n_rows / len(rows))
        strict = calibration.score_at(OWN_LEVEL * n_apart**0.5 / n_rows)
        still = apart[scores[apart] < strict]
        if len(still) < len(apart):
            if isinstance(fit, _FitLocated) and len(vetted) == len(rows):
                fit.draw_from(_all_but(len(rows), still))
            model, scores = fit.calibrated_without(still)
            calibration = model.calibration
            assert calibration is not None
        model = replace(model, calibration=replace(calibration, apart=scores[still]))
    return model, scores, calibration.threshold(counts_of(scores), OWN_LEVEL, n_rows, model.least)


class _FitAgain:
    """Models of all rows but some, each learned anew."""

    def __init__(self, rows: Rows, params: PointParams, compute: Compute, units: Ints | str | None) -> None:
        self.rows, self.params, self.compute, self.units = rows, params, compute, units

    def calibrated_without(self, apart: Ints) -> tuple[PointModel, Floats]:
        """A model of the other rows, and the scores of all: (n,)."""
        rows, bulk = self.rows, _all_but(len(self.rows), apart)
        units = self.units[bulk] if isinstance(self.units, np.ndarray) else self.units
        model, of_bulk = fit_point_model(_part(rows, bulk), self.params, self.compute, units, calibrated=True)
        scores = np.empty(len(rows))
        scores[bulk] = of_bulk
        if len(apart):
            scores[apart] = model.scores(rows.part(apart), self.compute)
        return model, scores


class _FitLocated(_FitAgain):
    """Models of all rows but some, whose cells in views drawn once are kept: rows are taken out of counts."""

    drawn: "Drawn"
    counted: tuple[Ints, "Counted | None"]

    def draw_from(self, numbers: Ints) -> None:
        """Draw views of some rows, and locate all in them."""
        self.drawn, self.counted = draw(self.rows, self.params, self.compute, numbers), (_NONE, None)

    def without(self, apart: Ints) -> "Counted":
        """The other rows, counted."""
        before, counted = self.counted
        if counted is None or not np.array_equal(apart, before):
            counted = count(self.drawn, self.rows, self.params, self.compute, apart)
            self.counted = apart, counted
        return counted

    def calibrated_without(self, apart: Ints) -> tuple[PointModel, Floats]:
        """A model of the other rows, and the scores of all: (n,)."""
        counted = self.without(apart)
        calibration = _calibrate(self.drawn, counted, self.rows, self.params, self.compute, self.units, apart)
        return replace(counted.model, calibration=calibration), counted.scores


def _all_but(n: int, apart: Ints) -> Ints:
    return np.setdiff1d(np.arange(n), apart, assume_unique=True) if len(apart) else np.arange(n)


def _gross_rows(rows: Rows, params: PointParams, compute: Compute) -> Ints:
    """Numbers of rows that lie apart from the bulk at first sight: after two models of the nine tenths that score best.

    The models learn from some rows, and all are scored: a few gross ones of many are in no sample. Rows within groups
    are looked at less the location of their group, which is a median and so not theirs.
    """
    if isinstance(rows, LabelledRows):
        located = residuals_of(rows)
        rows = rows.plain if located is None else located[2]
    seen = rows if len(rows) <= LOOK_ROWS else _part(rows, spread_rows(len(rows), LOOK_ROWS))
    n_left = len(seen) - int(TRIMMED * len(seen))
    model, scores = fit_point_model(seen, params, compute)
    for left in range(LOOKS)[::-1]:
        best = np.sort(np.argsort(-scores, kind="stable")[:n_left])
        model, _ = fit_point_model(_part(seen, best), params, compute)
        scores = model.scores(seen if left else rows, compute)
    return beyond_bulk(scores)


def beyond_bulk(scores: Floats) -> Ints:
    """Numbers of the rows that lie apart, none where they are too many: scores (n,)."""
    beyond = np.flatnonzero(scores < gap_of(scores))
    return beyond if len(beyond) <= MOST_GROSS * len(scores) else _NONE


def _part(rows: Rows, numbers: Ints) -> Rows:
    """Some of the rows, with the ranges of all: a feature that is constant among them need not be so."""
    if isinstance(rows, LabelledRows):
        return LabelledRows(_part(rows.plain, numbers), rows.owners[numbers], rows.n_groups)
    is_all = len(numbers) == len(rows)
    return RangedRows(rows if is_all else rows.part(numbers), *rows.extremes(), rows.of_rows if is_all else rows)


def fit_point_model(
    rows: Rows, params: PointParams, compute: Compute, units: Ints | str | None = None, calibrated: bool = False
) -> tuple[PointModel, Floats]:
    """A model of the rows, and of their residuals where groups differ; also the scores of the rows: (n,).

    ``units`` (n,): which rows belong together, for calibration, or "blocks" of time; found out where None is given.
    """
    if isinstance(rows, LabelledRows):
        params = replace(params, largest=FEW_SAMPLES)  # counts of every group are kept at every psi
    model, scores = fit_rows(rows, params, compute, units, calibrated)
    if isinstance(rows, LabelledRows) and params.averages:
        residuals, scores = fit_residuals(rows, scores, lambda left: fit_rows(left, params, compute))
        model = replace(model, residuals=residuals)
    return model, scores


class Drawn(NamedTuple):
    """Views of rows, the rows in their pools, where all rows are in them and their counts, None if that is not kept."""

    views: Views
    pooled: Ints
    limits: Limits | None
    located: Located | None
    tally: Tally | None


class Counted(NamedTuple):
    """A model of rows, scores of all (n,), and the sums that these are made of, None where rows are not located."""

    model: PointModel
    scores: Floats
    sums: Sums | None
    covered: Sums | None


def fit_rows(
    rows: Rows, params: PointParams, compute: Compute, units: Ints | str | None = None, calibrated: bool = False
) -> tuple[PointModel, Floats]:
    """Draw views of the rows, count the rows in their cells, finish a model; also the scores of the rows: (n,)."""
    drawn = draw(rows, params, compute)
    counted = count(drawn, rows, params, compute)
    if not calibrated:
        return counted.model, counted.scores
    calibration = _calibrate(drawn, counted, rows, params, compute, units)
    return replace(counted.model, calibration=calibration), counted.scores


def draw(rows: Rows, params: PointParams, compute: Compute, drawn_from: Ints | None = None) -> Drawn:
    """Draw views of some of the rows, by their numbers, or of all; locate the rows in them."""
    sample = rows if drawn_from is None else _part(rows, drawn_from)
    views, pools = draw_views(sample, params.plans(len(sample)), params.draw, compute, params.averages)
    pooled, limits, whole = np.unique(np.concatenate(pools)), params.limits(views), rows.whole
    located = None if whole is None or len(rows) > LOCATED_ROWS else views.locate(whole, compute, limits)
    tally = None if located is None else views.count(located, compute)
    return Drawn(views, pooled if drawn_from is None else drawn_from[pooled], limits, located, tally)


def count(drawn: Drawn, rows: Rows, params: PointParams, compute: Compute, apart: Ints = _NONE) -> Counted:
    """Count all rows but those apart, finish a model of them, and score all rows."""
    bulk, (views, _, _, located, tally) = _all_but(len(rows), apart), drawn
    reference, averaged = (bulk[spread_rows(len(bulk), most)] for most in (REFERENCE_ROWS, AVERAGED_ROWS))
    if located is None or tally is None:
        tally = views.tally_rows(rows, compute)
    elif len(apart):
        tally -= views.count(located.part(apart), compute)
    model = finish_point_model(views, tally, params, rows.take(reference))
    sums = covered = None
    if located is not None:
        sums, covered = views.sum_located(located, tally.tables, compute)
    own_sums = averaged_own_sums = None
    averaged_sums = (
        model.sum_at(compute)(rows.take(averaged)) if sums is None else tuple(each[averaged] for each in sums)
    )
    if isinstance(rows, LabelledRows):
        counted = views if params.averages else views.largest
        baseline, own_sums = fit_baseline(counted, rows, reference, compute)
        averaged_own_sums = own_sums.part(averaged)
        of_counted = averaged_sums if params.averages else last_of(averaged_sums)
        model = replace(
            model, baseline=baseline.with_gains(model.divide(of_counted), averaged_own_sums, counted.counts)
        )
    if params.averages:
        model = model.averaged(averaged_sums, averaged_own_sums)
    if sums is None:
        return Counted(model, model.scores(rows, compute, own_sums), None, None)
    scores = model.combine(sums if params.averages else last_of(sums), compute.n_jobs, own_sums)
    return Counted(model, scores, sums, covered)


def last_of(sums: Sums) -> Sums:
    """Sums at the largest psi alone, and how far out rows are: (n, 2) a view."""
    return tuple(each[:, -2:] for each in sums)


def _calibrate(
    drawn: Drawn,
    counted: Counted,
    rows: Rows,
    params: PointParams,
    compute: Compute,
    units: Ints | str | None,
    apart: Ints = _NONE,
) -> Calibration:
    """Scores of rows that the model has not learned from: left out of its counts, or of folds of whole units."""
    bulk = _all_but(len(rows), apart)
    if isinstance(units, str):
        units = blocks_of(rows)
    elif units is None:
        units = copies_of(rows, CALIBRATION_ROWS)
    aside = np.setdiff1d(bulk, drawn.pooled, assume_unique=True)
    if units is None and not isinstance(rows, LabelledRows) and 2 * len(aside) >= len(bulk) > FOLDED_ROWS:
        return _leave_one_out(counted, rows, aside, compute)
    if units is None and isinstance(rows, LabelledRows):
        units = np.arange(len(rows))  # each its own: all others are learned from, not some of them
    units = units if units is None else units[bulk]
    of_bulk = _part(rows, bulk)
    # Few rows are all learned from, or which of them are would be luck; of many, enough to know every group.
    most = max(LEARNED_ROWS, LEARNED_OF_GROUP * rows.n_groups if isinstance(rows, LabelledRows) else 0)
    return calibrate(of_bulk, params, compute, fit_point_model, CALIBRATION_ROWS, most, units, keep_models=False)


def _leave_one_out(counted: Counted, rows: Rows, aside: Ints, compute: Compute) -> Calibration:
    """Scores of rows that are in no pool, each with its own count taken out of its cells, and one row less in all."""
    model, _, sums, covered = counted
    if sums is None or covered is None:
        rng = np.random.default_rng(0)
        aside = np.sort(rng.choice(aside, min(len(aside), LOCATED_ROWS), replace=False))
        located = model.views.locate(rows.take(aside), compute, model.limits)
        sums, covered = model.views.sum_located(located, model.tables, compute)
        aside = np.arange(len(aside))
    others = tuple(own[aside] - cells[aside] for own, cells in zip(sums, covered, strict=True))
    without = replace(model, n_rows=model.n_rows - 1)
    return calibration_of(without.combine(others if model.average is not None else last_of(others), compute.n_jobs))
