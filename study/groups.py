"""Groups: the default against the paper's method with the one (psi, psi2) that is best for all sets together."""

import numpy as np
from data import THREADS, group_sets, load_groups
from scipy.sparse import csr_array, hstack
from sklearn.metrics import roc_auc_score

from isobag import IDKGroupDetector
from isobag.models.averaging import fit_average
from isobag.partitionings.cells import count_cells, sum_at_cells
from isobag.partitionings import draw_partitionings, nested_levels
from isobag.partitionings.counts import MeanMaps, count_groups, draw_group_partitionings
from isobag.data.scaling import fit_scaling

SEEDS = range(3)
PSI = tuple(2**k for k in range(1, 8))
PSI2 = tuple(2**k for k in range(1, 9))
HOW = ("numba", THREADS)


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
        sizes = np.bincount(ids)
        levels = nested_levels(min(256, len(sizes) // 2))
        maps = {label: make(X, ids, sizes) for label, make in LEVEL1.items()}
        paths = {label: _path(own, levels, 0) for label, own in maps.items()}
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
    scaled = fit_scaling(X, "minmax").apply(X)
    sizes = np.bincount(ids)
    found = np.empty((len(PSI), len(PSI2)))
    for i, psi in enumerate(PSI):
        points = draw_partitionings(scaled, 100, (psi,), mechanism, seed, *HOW)
        maps = count_groups(scaled, ids, sizes, points, "nearest", False, *HOW)
        levels = nested_levels(min(PSI2[-1], len(sizes)))
        path = _path(maps, levels, seed + 1000)
        for j, psi2 in enumerate(PSI2):
            found[i, j] = roc_auc_score(y, -path[:, min(j, len(levels) - 1) if psi2 > levels[-1] else j])
    return found


def _path(maps, levels, seed):
    """Scores of all groups at each psi2: (g, L)."""
    _, cells = draw_group_partitionings(maps, 100, levels, "hypersphere", seed, *HOW)
    sums = [sum_at_cells(own, count_cells(own, psi)) for own, psi in zip(cells, levels, strict=True)]
    return np.stack(sums, axis=1) / (100 * len(maps))


def level1(psis, mechanism="voronoi", scalings=("minmax",), outside=False):
    """Level 1 whose 100 partitionings take all psi and scalings in turn."""

    def make(X, ids, sizes):
        counts = []
        for i, psi in enumerate(psis):
            for j, scaling in enumerate(scalings):
                scaled = fit_scaling(X, scaling).apply(X)
                t = -(-100 // (len(psis) * len(scalings)))
                points = draw_partitionings(scaled, t, (min(psi, len(X)),), mechanism, 10 * i + j, *HOW)
                counts.append(count_groups(scaled, ids, sizes, points, "nearest", outside, *HOW).counts)
        return MeanMaps(csr_array(hstack(counts, format="csr")), sizes)

    return make


LADDER = (2, 4, 8, 16, 32, 64)
LEVEL1 = {
    "chosen: level 1 Voronoi, psi 2 to 64 in turn, minmax; level 2, psi 8 to 256": level1(LADDER),
    "level 1 hyperspheres, psi 2 to 64 in turn": level1(LADDER, "hypersphere"),
    "level 1 hyperspheres, OUTSIDE a cell of its own": level1(LADDER, "hypersphere", outside=True),
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
