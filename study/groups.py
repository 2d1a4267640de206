"""Groups: the default against the paper's method with the one (psi, psi2) that is best for all sets together."""

import numpy as np
from data import THREADS, group_sets, load_groups
from sklearn.metrics import roc_auc_score

from isobag import IDKGroupDetector
from isobag.backends import Compute
from isobag.data.groups import Groups
from isobag.data.rows import ArrayRows
from isobag.models.averaging import fit_average
from isobag.models.views import Plan, Views, draw_views
from isobag.partitionings import nested_levels
from isobag.reproduce.searches import score_mean_maps

SEEDS = range(3)
PSI = tuple(2**k for k in range(1, 8))
PSI2 = tuple(2**k for k in range(1, 9))
COMPUTE = Compute(n_jobs=THREADS)


def groups():
    """ROC AUC of the default, of the paper's method with its best pair for all, and with each set's own best."""
    names = group_sets()
    ours, grids = {}, {}
    for name in names:
        found, grid = [], []
        for seed in SEEDS:
            X, ids, y = load_groups(name, seed)
            detector = IDKGroupDetector(random_state=seed, n_jobs=THREADS, calibrate=False).fit(X, groups=ids)
            found.append(roc_auc_score(y, -detector.scores_))
            grid.append(_grid_aucs(X, ids, y, "hypersphere", seed))
        ours[name] = np.mean(found)
        grids[name] = np.mean(grid, axis=0)
        print(name, ours[name], grids[name].max(), flush=True)
    together = np.mean(list(grids.values()), axis=0)
    i, j = np.unravel_index(together.argmax(), together.shape)
    one = f"psi = {PSI[i]}, psi2 = {PSI2[j]}"
    rows = [
        {"set": name, "isobag": ours[name], one: grids[name][i, j], "best pair of the set": grids[name].max()}
        for name in names
    ]
    rows.append({"set": "mean", **{key: np.mean([row[key] for row in rows]) for key in list(rows[0])[1:]}})
    return rows


def groups_tried():
    """Mean ROC AUC over the group sets of other choices for level 1 and level 2, one seed."""
    aucs = {label: {} for label in (*LEVEL1, *LEVEL2)}
    for name in group_sets():
        X, ids, y = load_groups(name, 0)
        given = Groups(ArrayRows(X), ids, np.arange(len(y)))
        levels = nested_levels(min(256, len(y) // 2))
        paths = {label: score_mean_maps(make(given), levels, 0, COMPUTE) for label, make in LEVEL1.items()}
        for label in LEVEL1:
            aucs[label][name] = roc_auc_score(y, -_averaged(paths[label], levels, 8, 256, 0))
        chosen = next(iter(LEVEL1))
        for label, choice in LEVEL2.items():
            aucs[label][name] = roc_auc_score(y, -_averaged(paths[chosen], levels, *choice))
        print(name, flush=True)
    return [
        {"variant": label, "mean": np.mean(list(own.values())), "lowest": min(own.values())}
        for label, own in aucs.items()
    ]


def _averaged(path, levels, least, most, power):
    levels = np.array(levels)
    importance = np.where((levels >= min(least, levels[-1])) & (levels <= max(most, levels[0])), levels**power, 0.0)
    return fit_average(path, importance).apply(path)


def _grid_aucs(X, ids, y, mechanism, seed):
    """ROC AUC of the paper's IDK^2 for all pairs: (psi, psi2). A psi2 above the number of groups is that number."""
    given = Groups(ArrayRows(X), ids, np.arange(len(y)))
    levels = nested_levels(min(PSI2[-1], len(y)))
    found = np.empty((len(PSI), len(PSI2)))
    for i, psi in enumerate(PSI):
        views, _ = draw_views(given.rows, 100, [Plan("minmax", (psi,))], mechanism, seed, COMPUTE)
        path = score_mean_maps(views.mean_maps(given, COMPUTE), levels, seed + 1000, COMPUTE)
        for j, psi2 in enumerate(PSI2):
            found[i, j] = roc_auc_score(y, -path[:, min(j, len(levels) - 1) if psi2 > levels[-1] else j])
    return found


def level1(psis, mechanism="voronoi", scalings=("minmax",), count_outside=False):
    """Level 1 whose 100 partitionings take all psi and scalings in turn."""
    t = -(-100 // (len(psis) * len(scalings)))

    def make(given):
        rows, members = given.rows, []
        for i, psi in enumerate(psis):
            for j, scaling in enumerate(scalings):
                plan = Plan(scaling, (min(psi, len(rows)),))
                members += draw_views(rows, t, [plan], mechanism, 10 * i + j, COMPUTE)[0].members
        return Views(tuple(members)).mean_maps(given, COMPUTE, count_outside)

    return make


LADDER = (2, 4, 8, 16, 32, 64)
LEVEL1 = {
    "chosen: level 1 Voronoi, psi 2 to 64 in turn, minmax; level 2, psi 8 to 256": level1(LADDER),
    "level 1 hyperspheres, psi 2 to 64 in turn": level1(LADDER, "hypersphere"),
    "level 1 hyperspheres, OUTSIDE a cell of its own": level1(LADDER, "hypersphere", count_outside=True),
    "level 1 Voronoi, minmax and absolute": level1(LADDER, scalings=("minmax", "absolute")),
    "level 1 Voronoi, psi 4, 16, 64, 256 in turn": level1((4, 16, 64, 256)),
    "level 1 Voronoi, psi = 4 alone": level1((4,)),
    "level 1 Voronoi, psi = 16 alone": level1((16,)),
    "level 1 Voronoi, psi = 64 alone": level1((64,)),
}
LEVEL2 = {
    "level 2, psi 2 to 256": (2, 256, 0),
    "level 2, psi 4 to 256": (4, 256, 0),
    "level 2, psi 16 to 256": (16, 256, 0),
    "level 2, psi 8 to 64": (8, 64, 0),
    "level 2, psi 8 to 128": (8, 128, 0),
    "level 2, psi 2 to 256, psi^-0.5 as for points": (2, 256, -0.5),
    "level 2, psi = 8 alone": (8, 8, 0),
    "level 2, psi = 16 alone": (16, 16, 0),
    "level 2, psi = 64 alone": (64, 64, 0),
}
