"""How much work each pass of a command takes, in rows looked up in partitionings: what the bar counts against.

As much as the models do, but for what depends on the data; a pass that takes a little more or less is no error.
"""

from typing import Any

from isobag.estimators.compare import PERMUTED_PER_UNIT, PSI_COMPARED
from isobag.models.calibration import N_FOLDS
from isobag.models.group import CALIBRATION_GROUPS, LEARNED_GROUPS
from isobag.models.point import AVERAGED_ROWS, CALIBRATION_ROWS, LEARNED_ROWS, REFERENCE_ROWS
from isobag.tables.ranking import MOST_EXPLAINED

EXPLAINED = 3
"""How often a row is looked up to be explained: for its score, its cells and the nearest anchors."""
READ, WRITTEN = 10, 3
"""What a row of ten cells takes to be read, and to be written, in rows looked up in one partitioning."""
GROUP_ROWS = 100
"""Rows of a group, until the groups are known."""


def work_of(
    detector: Any, n: int, is_fitted: bool, *, by: bool, n_groups: int | None = None, is_spooled: bool = False
) -> dict[str, float]:
    """Of each pass over a table of n rows, or of its groups: reading, learning or scoring, explaining, writing."""
    n_views = len(detector.params.plans(max(n, 2))) if by else 1
    folds = N_FOLDS * -(-detector.n_estimators // N_FOLDS) * n_views  # of all folds together
    t, n_units = detector.n_estimators * n_views, n
    if not by:
        t = len(detector.model_.views) if is_fitted else detector.params.n_drawn(max(n, 2))
    averages = not by and detector.max_samples == "auto"
    learned, most_aside = LEARNED_ROWS, CALIBRATION_ROWS
    if by:
        n_units = n_groups or -(-n // GROUP_ROWS)
        learned, most_aside = LEARNED_GROUPS, CALIBRATION_GROUPS
        explaining = n * t * min(1.0, MOST_EXPLAINED["group"] / max(n_units, 1))
    else:
        n_looks = EXPLAINED + averages / 2  # once more for rows that small psi overrule, some half of them
        explaining = float((min(n, MOST_EXPLAINED["row"]) + REFERENCE_ROWS) * t * n_looks)
    if is_fitted:
        main = {"scoring": float(n * (t if detector.model_.calibration is None else folds))}
    else:
        learning = float(n * t)
        if is_spooled and not by:
            learning += n * t + min(n, AVERAGED_ROWS) * t * averages
        if detector.calibrate:  # each fold's model learns from the others and scores the fold
            aside = min(n_units, most_aside)
            looks = min(n_units - aside // N_FOLDS, learned) * folds + aside * (folds // N_FOLDS)
            learning += looks * n / max(n_units, 1)
        main = {"learning": learning}
    return {"reading": n * READ, **main, "explaining": explaining, "writing": n * WRITTEN}


def work_to_compare(n_rows: int, n_permutations: int, n_estimators: int = 100) -> dict[str, float]:
    """Of a comparison of two samples with so many rows together."""
    n_levels = sum(psi < max(2, n_rows // 2) for psi in PSI_COMPARED[:-1]) + 1
    looks = n_levels * n_rows * n_estimators * (PERMUTED_PER_UNIT + n_permutations + 1) // PERMUTED_PER_UNIT
    return {"reading": n_rows * READ, "comparing": looks}
