"""Learning a model of points, and of what they are less the location of their own group."""

from dataclasses import replace

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
from isobag.models.thresholds import MOST_GROSS, OWN_LEVEL, TRIMMED, counts_of, gap_of
from isobag.models.units import blocks_of, copies_of
from isobag.models.views import Sums, draw_views

FOLDED_ROWS = 4096
"""So many rows are calibrated by folds: half of them would make no pool."""
LOOK_ROWS = 2048
"""Rows that the models of the first look learn from."""
LOOKS = 2
CONFIRMED_BY = 8192
"""Rows of the bulk whose model confirms what the first look sets apart."""
LOCATED_ROWS = 1 << 16
"""Rows whose cells are kept between counting and scoring."""


def fit_to_bulk(
    rows: Rows, params: PointParams, compute: Compute, units: Ints | str | None, n_rows: int
) -> tuple[PointModel, Floats, float]:
    """A model of the rows but for those beyond their bulk; scores of all rows (n,), and the threshold below which.

    Gross rows hide one another: they are neighbours, widen scales, and make the tail of the scores heavy. So a first
    look sets apart those that a model of the other rows would not expect. The model learns from the rest, and those set
    apart come back unless their p-values are as small as n_rows rows demand, the rule for all rows, old and new, and
    more: j rows were chosen together, so they may have .1 sqrt(j) / n_rows, not .1 j / n_rows. The paper's detector, of
    one psi, learns from all rows.
    """
    apart = _gross_rows(rows, params, compute) if params.averages else np.empty(0, dtype=np.int64)
    if len(apart):
        bulk = np.setdiff1d(np.arange(len(rows)), apart, assume_unique=True)
        learned = bulk[spread_rows(len(bulk), CONFIRMED_BY)]
        own_units = units[learned] if isinstance(units, np.ndarray) else units
        model, _ = fit_point_model(_part(rows, learned), params, compute, own_units, calibrated=True)
        assert model.calibration is not None
        n_apart = max(1.0, len(apart) * n_rows / len(rows))
        strict = model.calibration.score_at(OWN_LEVEL * n_apart**0.5 / n_rows)
        apart = apart[model.scores(rows.part(apart), compute) < strict]
    model, scores = _fit_without(apart, rows, params, compute, units)
    assert model.calibration is not None
    return model, scores, model.calibration.threshold(counts_of(scores), OWN_LEVEL, n_rows, model.least)


def _fit_without(
    apart: Ints, rows: Rows, params: PointParams, compute: Compute, units: Ints | str | None
) -> tuple[PointModel, Floats]:
    """A model of all rows but some, and the scores of all: (n,)."""
    bulk = np.setdiff1d(np.arange(len(rows)), apart, assume_unique=True)
    units = units[bulk] if isinstance(units, np.ndarray) else units
    model, scores_of_bulk = fit_point_model(_part(rows, bulk), params, compute, units, calibrated=True)
    if not len(apart):
        return model, scores_of_bulk
    scores = np.empty(len(rows))
    scores[bulk], scores[apart] = scores_of_bulk, model.scores(rows.part(apart), compute)
    return model, scores


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
        model, _ = fit_point_model(_part(seen, np.sort(np.argsort(-scores, kind="stable")[:n_left])), params, compute)
        scores = model.scores(seen if left else rows, compute)
    beyond = np.flatnonzero(scores < gap_of(scores))
    return beyond if len(beyond) <= MOST_GROSS * len(rows) else beyond[:0]


def _part(rows: Rows, numbers: Ints) -> Rows:
    """Some of the rows, with the ranges of all: a feature that is constant among them need not be so."""
    if isinstance(rows, LabelledRows):
        return LabelledRows(_part(rows.plain, numbers), rows.owners[numbers], rows.n_groups)
    return RangedRows(rows if len(numbers) == len(rows) else rows.part(numbers), *rows.extremes())


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


def fit_rows(
    rows: Rows, params: PointParams, compute: Compute, units: Ints | str | None = None, calibrated: bool = False
) -> tuple[PointModel, Floats]:
    """Draw views of the rows, count the rows in their cells, finish a model; also the scores of the rows: (n,)."""
    reference, averaged = (spread_rows(len(rows), most) for most in (REFERENCE_ROWS, AVERAGED_ROWS))
    views, pools = draw_views(rows, params.plans(len(rows)), params.draw, compute, params.averages)
    limits = params.limits(views)
    whole = rows.whole
    located = None if whole is None or len(rows) > LOCATED_ROWS else views.locate(whole, compute, limits)
    tally = views.tally_rows(rows, compute) if located is None else views.count(located, compute)
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
    if calibrated:
        model = replace(model, calibration=_calibrate(model, rows, pools, sums, covered, params, compute, units))
    if sums is None:
        return model, model.scores(rows, compute, own_sums)
    return model, model.combine(sums if params.averages else last_of(sums), compute.n_jobs, own_sums)


def last_of(sums: Sums) -> Sums:
    """Sums at the largest psi alone, and how far out rows are: (n, 2) a view."""
    return tuple(each[:, -2:] for each in sums)


def _calibrate(
    model: PointModel,
    rows: Rows,
    pools: list[Ints],
    sums: Sums | None,
    covered: Sums | None,
    params: PointParams,
    compute: Compute,
    units: Ints | str | None,
) -> Calibration:
    """Scores of rows that the model has not learned from: left out of its counts, or of folds of whole units."""
    if isinstance(units, str):
        units = blocks_of(rows)
    elif units is None:
        units = copies_of(rows, CALIBRATION_ROWS)
    aside = np.setdiff1d(np.arange(len(rows)), np.concatenate(pools))
    if units is None and not isinstance(rows, LabelledRows) and 2 * len(aside) >= len(rows) > FOLDED_ROWS:
        return _leave_one_out(model, rows, aside, sums, covered, compute)
    if units is None and isinstance(rows, LabelledRows):
        units = np.arange(len(rows))  # each its own: all others are learned from, not some of them
    # Few rows are all learned from, or which of them are would be luck; of many, enough to know every group.
    most = max(LEARNED_ROWS, LEARNED_OF_GROUP * rows.n_groups if isinstance(rows, LabelledRows) else 0)
    whole = _part(rows, np.arange(len(rows)))
    return calibrate(whole, params, compute, fit_point_model, CALIBRATION_ROWS, most, units, keep_models=False)


def _leave_one_out(
    model: PointModel, rows: Rows, aside: Ints, sums: Sums | None, covered: Sums | None, compute: Compute
) -> Calibration:
    """Scores of rows that are in no pool, each with its own count taken out of its cells, and one row less in all."""
    if sums is None or covered is None:
        rng = np.random.default_rng(0)
        aside = np.sort(rng.choice(aside, min(len(aside), LOCATED_ROWS), replace=False))
        located = model.views.locate(rows.take(aside), compute, model.limits)
        sums, covered = model.views.sum_located(located, model.tables, compute)
        aside = np.arange(len(aside))
    others = tuple(own[aside] - cells[aside] for own, cells in zip(sums, covered, strict=True))
    without = replace(model, n_rows=model.n_rows - 1)
    return calibration_of(without.combine(others if model.average is not None else last_of(others), compute.n_jobs))
