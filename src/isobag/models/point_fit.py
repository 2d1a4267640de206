"""Learning a model of points, and of what they are less the location of their own group."""

from dataclasses import replace

import numpy as np

from isobag.backends import Compute
from isobag.backends.arrays import Floats, Ints
from isobag.data.labelled import LabelledRows
from isobag.data.rows import Rows, spread_rows
from isobag.models.baseline import fit_baseline
from isobag.models.calibration import calibrate
from isobag.models.point import (
    AVERAGED_ROWS,
    BLOCKS,
    CALIBRATION_ROWS,
    FEW_SAMPLES,
    LEARNED_OF_GROUP,
    LEARNED_ROWS,
    REFERENCE_ROWS,
    PointModel,
    PointParams,
    finish_point_model,
)
from isobag.models.residuals import fit_residuals
from isobag.models.tally import Tally
from isobag.models.units import blocks_of, copies_of
from isobag.models.views import Sums, Views, draw_views


def fit_point_model(
    rows: Rows, params: PointParams, compute: Compute, units: Ints | None = None
) -> tuple[PointModel, Floats]:
    """A model of the rows, and of their residuals where groups differ; also the scores of the rows: (n,).

    ``units`` (n,): which rows belong together, for calibration; found out where None is given.
    """
    if isinstance(rows, LabelledRows):
        params = replace(params, largest=FEW_SAMPLES)  # counts of every group are kept at every psi
    model, scores = fit_rows(rows, params, compute, units)
    if isinstance(rows, LabelledRows) and params.averages:
        half = replace(params, calibrate=False, n_estimators=-(-params.n_estimators // 2))
        residuals, scores = fit_residuals(rows, scores, lambda left: fit_rows(left, half, compute))
        model = replace(model, residuals=residuals)
    return model, scores


def fit_rows(rows: Rows, params: PointParams, compute: Compute, units: Ints | None = None) -> tuple[PointModel, Floats]:
    """Draw views of the rows, count the rows in their cells, finish a model; also the scores of the rows: (n,)."""
    reference, averaged = (spread_rows(len(rows), most) for most in (REFERENCE_ROWS, AVERAGED_ROWS))
    plans = params.plans(len(rows))
    n_drawn = params.n_drawn(len(rows))
    views, _ = draw_views(rows, n_drawn, plans, params.mechanism, params.random_state, compute)
    calibration = None
    if params.calibrate:
        if units is None:
            units = blocks_of(rows) if params.calibrate == BLOCKS else copies_of(rows, CALIBRATION_ROWS)
        if units is None and isinstance(rows, LabelledRows):
            units = np.arange(len(rows))  # each its own: all others are learned from, not some of them
        # Few rows are all learned from, or which of them are would be luck; of many, enough to know every group.
        most = max(LEARNED_ROWS, LEARNED_OF_GROUP * rows.n_groups if isinstance(rows, LabelledRows) else 0)
        calibration = calibrate(rows, params, compute, fit_point_model, CALIBRATION_ROWS, most, units)
    tally, sums = _tally_and_sum(views, rows, params, compute)
    model = finish_point_model(views, tally, params, rows.take(reference), calibration=calibration)
    own = own_some = None
    if params.averages or isinstance(rows, LabelledRows):
        sum_at = model.sum_at(compute, only_last=not params.averages)
        some = sum_at(rows.take(averaged)) if sums is None else tuple(each[averaged] for each in sums)
    if isinstance(rows, LabelledRows):
        counted = views if params.averages else views.at(-1)
        baseline, own = fit_baseline(counted, rows, reference, compute)
        own_some = own.part(averaged)
        model = replace(model, baseline=baseline.with_gains(model.divide(some), own_some, views.sizes))
    if params.averages:
        model = model.averaged(some, own_some)
    if sums is None:
        return model, model.scores(rows, compute, own)
    return model, model.combine(sums, compute.n_jobs, own)


def _tally_and_sum(views: Views, rows: Rows, params: PointParams, compute: Compute) -> tuple[Tally, Sums | None]:
    """The tally, and the sums of its tables at the rows, where rows in memory make both in one search."""
    whole = rows.whole
    if whole is None or params.method == "norm":
        return views.tally_rows(rows, compute), None
    return views.count_and_sum(whole, compute, not params.averages, params.limits(views))
