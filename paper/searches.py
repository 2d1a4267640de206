"""The paper's parameter searches: for every detector a generator of scores, parameter by parameter.

psi is searched over 2, 4, ..., 4096 (IDK^2: 256, and 1024 groups at level 2), bandwidths over 2^-5, ..., 2^5; t = 100.
The AUC of every parameter is a record, and the labels choose among them, as in the paper. A deadline may cut a search:
psi goes upwards, as its cost does; bandwidths, which cost about the same, from the middle outwards.
"""

from functools import partial

import numpy as np
from numba import njit
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.svm import OneClassSVM

from isobag import IDKPointDetector, IsolationKernel
from isobag.datasets import load, load_groups
from paper.balls import INNE, Norm
from paper.cells import seeds_in_budget
from paper.gaussian import BANDWIDTHS, OCSMM, GaussianDetector, blocks_of_groups, mean_kernels
from paper.nystroem import Nystroem

T = 100
TO_THE_LETTER = {"pool_size": None, "max_rows": None}
"""Every sample is drawn from all rows, and all are learned from."""
LARGEST_PSI, LARGEST_PSI1, LARGEST_PSI2 = 4096, 256, 1024
NUS = (0.1, 0.5)
"""Of OCSMM and IDK-OCSVM, of which the paper says none."""
_CACHE_MB = 2000
_GRAM_ROWS = 1 << 14
_DENSE_COLUMNS = 1 << 12
_SPARSE = 0.03
_MIDDLE_FIRST = sorted(BANDWIDTHS, key=lambda bandwidth: abs(np.log2(bandwidth)))


def search_points(name, detector, plan):
    """AUC of one point detector for every seed and parameter."""
    X, y = load(name, folder=plan.data)
    X = to_unit_cube(X)
    for seed in seeds_in_budget(1 if detector in DETERMINISTIC else plan.n_seeds, plan):
        for parameter, scores in POINT_SEARCHES[detector](X, seed, plan.n_jobs):
            yield {"seed": seed, "parameter": parameter, "auc": float(roc_auc_score(y, -scores))}
        yield {"seed": seed, "complete": True}


def search_groups(name, detector, plan):
    """AUC of one group detector for every seed and parameter; synthetic sets are drawn anew for every seed."""
    for seed in seeds_in_budget(plan.n_seeds, plan):
        X, ids, y = load_groups(name, folder=plan.data, random_state=seed)
        for parameter, scores in GROUP_SEARCHES[detector](to_unit_cube(X), ids, seed, plan.n_jobs):
            yield {"seed": seed, "parameter": parameter, "auc": float(roc_auc_score(y, -scores))}
        yield {"seed": seed, "complete": True}


def to_unit_cube(X):
    """Every feature to [0, 1]."""
    spread = np.ptp(X, axis=0)
    return (X - X.min(axis=0)) / np.where(spread > 0, spread, 1)


def powers_of_two(largest):
    """2, 4, 8, ... up to ``largest``."""
    return [2**k for k in range(1, int(largest).bit_length()) if 2**k <= largest]


def _by_psi(make, X, seed, n_jobs, first=0):
    for psi in powers_of_two(min(LARGEST_PSI, len(X)))[first:]:
        yield psi, make(T, psi, seed, n_jobs).fit(X).score_samples(X)


def _idk(t, psi, seed, n_jobs):
    return IDKPointDetector(t, psi, scaling=None, **TO_THE_LETTER, random_state=seed, n_jobs=n_jobs)


def _forest(t, psi, seed, n_jobs):
    return IsolationForest(n_estimators=t, max_samples=psi, random_state=seed, n_jobs=n_jobs)


def _k_g(X, seed, n_jobs):
    yield from zip(BANDWIDTHS, GaussianDetector(1.0, n_jobs=n_jobs).fit(X).score_path(X), strict=True)


def _k_ng(X, seed, n_jobs):
    for bandwidth in _MIDDLE_FIRST:
        yield bandwidth, GaussianDetector(bandwidth, nystroem=True, seed=seed, n_jobs=n_jobs).fit(X).score_samples(X)


def _ocsvm(X, seed, n_jobs):
    # Few rows may have many features: their distances are measured once.
    sq_dists = euclidean_distances(X, squared=True) if len(X) <= _GRAM_ROWS else None
    for bandwidth in _MIDDLE_FIRST:
        factor = 0.5 / bandwidth**2
        if sq_dists is None:
            rows, svm = X, OneClassSVM(gamma=factor, cache_size=_CACHE_MB)
        else:
            rows, svm = np.exp(-factor * sq_dists), OneClassSVM(kernel="precomputed", cache_size=_CACHE_MB)
        yield bandwidth, svm.fit(rows).score_samples(rows)


POINT_SEARCHES = {
    "IDK": partial(_by_psi, _idk),
    "K_G": _k_g,
    "K_NG": _k_ng,
    "OCSVM": _ocsvm,
    "norm": partial(_by_psi, Norm),
    "iNNE": partial(_by_psi, INNE),
    "iForest": partial(_by_psi, _forest, first=1),  # trees of 2 rows are all alike
}
DETERMINISTIC = ("K_G", "OCSVM")


def _products(X, ids, seed, n_jobs, largest=LARGEST_PSI):
    """Dot products of the mean maps of all groups for every psi: (g, g)."""
    for psi in powers_of_two(min(largest, len(X))):
        kernel = IsolationKernel(T, psi, random_state=seed, n_jobs=n_jobs).fit(X)
        maps = kernel.embed(X, ids).tocsc()
        if maps.nnz < _SPARSE * np.prod(maps.shape):
            yield psi, (maps @ maps.T).toarray()
            continue
        products = np.zeros((ids[-1] + 1,) * 2)
        for first in range(0, maps.shape[1], _DENSE_COLUMNS):
            block = maps[:, first : first + _DENSE_COLUMNS].toarray()
            products += block @ block.T
        yield psi, products


def _sq_distances(products):
    """|g - h|^2 = g.g + h.h - 2 g.h, rounded so that equal groups are at 0: (g, g)."""
    squares = np.diag(products)
    return np.maximum(squares[:, None] + squares - 2 * products, 0).round(10)


def _idk2(X, ids, seed, n_jobs):
    """IDK^2 to the letter: the point detector of mean maps, with hyperspheres at both levels."""
    rng = np.random.default_rng(seed)
    levels = powers_of_two(min(LARGEST_PSI2, ids[-1] + 1))
    drawn = np.array([rng.permutation(ids[-1] + 1)[: levels[-1]] for _ in range(T)])
    for psi, products in _products(X, ids, seed, n_jobs, LARGEST_PSI1):
        scores = score_by_distances(_sq_distances(products), drawn, levels)
        yield from (((psi, psi2), one) for psi2, one in zip(levels, scores, strict=True))


def score_by_distances(sq_dists, drawn, levels):
    """IDK of each group and all groups, from the distances between them: (g, g), drawn (t, psi) -> (levels, g).

    levels : 2, 4, ..., of which each takes so many of the groups drawn.
    """
    scores = np.zeros((len(levels), len(sq_dists)))
    for centers in drawn:
        between = sq_dists[np.ix_(centers, centers)]
        between[between == 0] = np.inf
        radii = np.array([between[:, :psi].min(axis=1) for psi in levels])
        radii[np.isinf(radii)] = 0
        for level, cells in enumerate(_nested_cells(sq_dists, centers, radii)):
            counts = np.bincount(cells + 1, minlength=len(centers) + 1)
            counts[0] = 0  # OUTSIDE
            scores[level] += counts[cells + 1]
    return scores / (len(drawn) * len(sq_dists))


@njit(nogil=True, cache=True)
def _nested_cells(sq_dists, centers, radii):
    """The nearest of the first 2, 4, ... centers, -1 if its ball does not reach: (levels, g)."""
    cells = np.empty((len(radii), len(sq_dists)), np.int64)
    for x in range(len(sq_dists)):
        best, nearest, level = np.inf, 0, 0
        for c in range(len(centers)):
            if sq_dists[x, centers[c]] < best:
                best, nearest = sq_dists[x, centers[c]], c
            if c + 1 == 2 << level:
                cells[level, x] = nearest if best <= radii[level, nearest] else -1
                level += 1
    return cells


class GDK2:
    """The Gaussian distributional kernel at both levels, by Nystroem's approximation: K_NG of mean feature maps."""

    def __init__(self, bandwidth, bandwidth2, seed=0, n_jobs=None):
        self.level1 = Nystroem(bandwidth, seed)
        self.level2 = GaussianDetector(bandwidth2, nystroem=True, seed=seed, n_jobs=n_jobs)

    def fit(self, X, groups):
        self.level1.fit(X)
        self.level2.fit(mean_features(self.level1, X, groups))
        return self

    def score_samples(self, X, groups):
        return self.level2.score_samples(mean_features(self.level1, X, groups))


def mean_features(level1, X, ids):
    """Average feature map of each group, some ten thousand points at a time: ids 0, 1, ... ascending -> (g, s)."""
    parts = []
    for rows in blocks_of_groups(ids, 1 << 14):
        starts = np.flatnonzero(np.diff(ids[rows], prepend=-1))
        parts.append(np.add.reduceat(level1.transform(X[rows]), starts))
    return np.concatenate(parts) / np.bincount(ids)[:, None]


def _gdk2(X, ids, seed, n_jobs):
    for bandwidth in _MIDDLE_FIRST:
        embedded = mean_features(Nystroem(bandwidth, seed).fit(X), X, ids)
        for bandwidth2, scores in _k_ng(embedded, seed, n_jobs):
            yield (bandwidth, bandwidth2), scores


def _idk_gdk(X, ids, seed, n_jobs):
    for psi, products in _products(X, ids, seed, n_jobs):
        sq_dists = _sq_distances(products)
        for bandwidth in _MIDDLE_FIRST:
            yield (psi, bandwidth), np.exp(sq_dists * (-0.5 / bandwidth**2)).mean(axis=1)


def _idk_ocsvm(X, ids, seed, n_jobs):
    for psi, products in _products(X, ids, seed, n_jobs):
        yield from _support_machines(psi, products)


def _ocsmm(X, ids, seed, n_jobs):
    for bandwidth, kernel in zip(BANDWIDTHS, mean_kernels(X, ids, n_jobs=n_jobs), strict=True):
        yield from _support_machines(bandwidth, kernel)


def _support_machines(parameter, kernel):
    """One-class SVMs of groups on a kernel between them (g, g), for every nu."""
    for nu in NUS:
        svm = OneClassSVM(kernel="precomputed", nu=nu, tol=OCSMM.tol, cache_size=_CACHE_MB)
        yield (parameter, nu), svm.fit(kernel).score_samples(kernel)


def _mean_inne(X, ids, seed, n_jobs):
    for psi, scores in _by_psi(INNE, X, seed, n_jobs):
        yield psi, np.bincount(ids, scores) / np.bincount(ids)


GROUP_SEARCHES = {
    "IDK2": _idk2,
    "GDK2": _gdk2,
    "IDK-GDK": _idk_gdk,
    "IDK-OCSVM": _idk_ocsvm,
    "OCSMM": _ocsmm,
    "iNNE": _mean_inne,
}
