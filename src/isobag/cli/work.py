"""How much work a pass takes, in rows looked up in partitionings: what a progress bar counts against.

As much as the models do, but for what depends on the data; a pass that takes a little more or less is no error.
"""

from typing import Any

from isobag.data.rows import Rows
from isobag.estimators.compare import PERMUTED_PER_UNIT, PSI_COMPARED
from isobag.models.calibration import N_FOLDS
from isobag.models.group import CALIBRATION_GROUPS, LEARNED_GROUPS
from isobag.models.point import AVERAGED_ROWS, CALIBRATION_ROWS, REFERENCE_ROWS, most_learned
from isobag.tables.ranking import MOST_EXPLAINED

FAR_LEVELS = 2
"""At so many psi it is explained how far out rows are."""


def work_on_rows(detector: Any, rows: Rows, is_fitted: bool) -> dict[str, int]:
    """Of each pass over the rows of a table: learning or scoring, and explaining."""
    n, t = len(rows), detector.n_estimators
    averages = detector.max_samples == "auto"
    explained = min(n, MOST_EXPLAINED["row"]) + REFERENCE_ROWS
    n_levels = len(detector.params.plans(max(n, 2))[0].levels)
    looks_to_explain = 1 + 2 * (n_levels if averages else 1) + averages * (1 + 2 * FAR_LEVELS)
    explaining = {"explaining": explained * t * looks_to_explain}
    if is_fitted:
        return {"scoring": n * (_in_folds(t) if detector.model_.calibration is not None else t), **explaining}
    learning = n * t
    if rows.whole is None:
        learning += n * t + min(n, AVERAGED_ROWS) * t * averages
    if detector.calibrate:
        learning += _calibrating(n, t, CALIBRATION_ROWS, most_learned(n))
    return {"learning": learning, **explaining}


def work_on_groups(detector: Any, n_rows: int, n_groups: int, is_fitted: bool) -> dict[str, int]:
    """Of each pass over the groups of a table."""
    n_plans = len(detector.params.plans(max(n_rows, 2)))
    t = detector.n_estimators * n_plans
    explained = n_rows * min(n_groups, MOST_EXPLAINED["group"]) // max(n_groups, 1)
    if is_fitted:
        looks = _in_folds(detector.n_estimators) * n_plans if detector.model_.calibration is not None else t
        return {"scoring": n_rows * looks, "explaining": explained * t}
    learning = n_rows * t
    if detector.calibrate:
        looks = _calibrating(n_groups, detector.n_estimators, CALIBRATION_GROUPS, LEARNED_GROUPS) * n_plans
        learning += n_rows * looks // max(n_groups, 1)
    return {"learning": learning, "explaining": explained * t}


def _in_folds(t: int) -> int:
    """Partitionings of the models of all folds together."""
    return N_FOLDS * -(-t // N_FOLDS)


def _calibrating(n: int, t: int, most_aside: int, most: int) -> int:
    """Each fold's model learns from the others and scores the fold."""
    aside = min(n, most_aside)
    return min(n - aside // N_FOLDS, most) * _in_folds(t) + aside * (_in_folds(t) // N_FOLDS)


def work_to_compare(n_rows: int, n_permutations: int, n_estimators: int = 100) -> int:
    """Of a comparison of two samples with so many rows together."""
    n_levels = sum(psi < max(2, n_rows // 2) for psi in PSI_COMPARED[:-1]) + 1
    return n_levels * n_rows * n_estimators * (PERMUTED_PER_UNIT + n_permutations + 1) // PERMUTED_PER_UNIT
