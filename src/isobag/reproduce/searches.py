"""The paper's parameter searches: for every detector a generator of scores, parameter by parameter.

psi is searched over 2, 4, ..., 4096 (IDK^2: 256, and 1024 groups at level 2), bandwidths over 2^-5, ..., 2^5; t = 100.
The AUC of every parameter is a record, and the labels choose among them, as in the paper. A deadline may cut a search:
psi goes upwards, as its cost does; bandwidths, which cost about the same, from the middle outwards.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.svm import OneClassSVM
from sklearn.utils import check_random_state

from isobag.backends import Compute
from isobag.backends.arrays import Floats
from isobag.baselines import INNE, OCSMM, AveragedPointScores, GaussianPointDetector, RecursiveNystroem
from isobag.baselines.gaussian import BANDWIDTHS
from isobag.baselines.ocsmm import mean_embedding_kernels, sort_by_group
from isobag.baselines.two_level import embed_groups
from isobag.data.groups import Groups
from isobag.data.rows import ArrayRows
from isobag.data.scaling import fit_scaling
from isobag.datasets import load, load_groups
from isobag.estimators import IDKPointDetector, IsolationDistributionalKernel
from isobag.models.views import Plan, draw_views
from isobag.partitionings import draw_from_groups
from isobag.partitionings.counts import GroupQueries, MeanMaps
from isobag.reproduce.cells import Record

T = 100
LARGEST_PSI = 4096
LARGEST_PSI1 = 256
LARGEST_PSI2 = 1024
_STAGES = (256, 1024, 4096)
NUS = (0.1, 0.5)
"""Of OCSMM and IDK-OCSVM, of which the paper says none: OCSMM's default here and that of scikit-learn's SVM."""
_CACHE_MB = 2000
_GRAM_ROWS = 1 << 14
_MIDDLE_FIRST = sorted(BANDWIDTHS, key=lambda bandwidth: abs(np.log2(bandwidth)))

Scores = Iterator[tuple[Any, Floats]]


def search_points(name: str, detector: str, n_seeds: int, folder: str | None, n_jobs: int) -> Iterator[Record]:
    """AUC of one point detector for every seed and parameter."""
    X, y = load(name, folder=folder)
    last = 0 if detector in DETERMINISTIC else n_seeds - 1
    for seed in range(last + 1):
        for parameter, scores in POINT_SEARCHES[detector](X, seed, n_jobs):
            yield {"seed": seed, "parameter": parameter, "auc": float(roc_auc_score(y, -scores))}
        yield {"seed": seed, "complete": True, "last": seed == last}


def search_groups(name: str, detector: str, n_seeds: int, folder: str | None, n_jobs: int) -> Iterator[Record]:
    """AUC of one group detector for every seed and parameter; synthetic sets are drawn anew for every seed."""
    for seed in range(n_seeds):
        X, ids, y = load_groups(name, folder=folder, random_state=seed)
        groups = Groups(ArrayRows(fit_scaling(X, "minmax").apply(X)), ids, np.arange(len(y)))
        for parameter, scores in GROUP_SEARCHES[detector](groups, seed, n_jobs):
            yield {"seed": seed, "parameter": parameter, "auc": float(roc_auc_score(y, -scores))}
        yield {"seed": seed, "complete": True, "last": seed == n_seeds - 1}


def powers_of_two(largest: int) -> list[int]:
    """2, 4, 8, ... up to ``largest``."""
    return [2**k for k in range(1, largest.bit_length()) if 2**k <= largest]


def _path(X: Floats, seed: int, n_jobs: int, method: str) -> Scores:
    """IDK or its norm: every psi from nested samples, in stages, so that a deadline leaves the smaller psi."""
    seen = 0
    for stage in _STAGES:
        largest = powers_of_two(min(stage, len(X)))[-1]
        if largest <= seen:
            return
        detector = IDKPointDetector(T, largest, method=method, calibrate=False, random_state=seed, n_jobs=n_jobs).fit(X)
        for psi, scores in zip(detector.path_, detector.score_path(X).T, strict=True):
            if psi > seen:
                yield psi, scores
        seen = largest


def _inne(X: Floats, seed: int, n_jobs: int) -> Scores:
    for psi in powers_of_two(min(LARGEST_PSI, len(X))):
        yield psi, INNE(T, psi, random_state=seed, n_jobs=n_jobs).fit(X).score_samples(X)


def _iforest(X: Floats, seed: int, n_jobs: int) -> Scores:
    for psi in powers_of_two(min(LARGEST_PSI, len(X)))[1:]:  # trees of 2 rows are all alike, and score all rows alike
        forest = IsolationForest(n_estimators=T, max_samples=psi, random_state=seed, n_jobs=n_jobs)
        yield psi, forest.fit(X).score_samples(X)


def _k_g(X: Floats, seed: int, n_jobs: int) -> Scores:
    path = GaussianPointDetector(BANDWIDTHS[-1], n_jobs=n_jobs).fit(X).score_path(X)
    yield from zip(BANDWIDTHS, path.T, strict=True)


def _k_ng(X: Floats, seed: int, n_jobs: int) -> Scores:
    for bandwidth in _MIDDLE_FIRST:
        detector = GaussianPointDetector(bandwidth, approximation="nystroem", random_state=seed, n_jobs=n_jobs)
        yield bandwidth, detector.fit(X).score_samples(X)


def _ocsvm(X: Floats, seed: int, n_jobs: int) -> Scores:
    scaled = fit_scaling(X, "minmax").apply(X)
    # Few rows may have many features: their distances are measured once.
    sq_dists = euclidean_distances(scaled, squared=True) if len(scaled) <= _GRAM_ROWS else None
    for bandwidth in _MIDDLE_FIRST:
        factor = 0.5 / bandwidth**2
        if sq_dists is None:
            rows, svm = scaled, OneClassSVM(gamma=factor, cache_size=_CACHE_MB)
        else:
            rows, svm = np.exp(-factor * sq_dists), OneClassSVM(kernel="precomputed", cache_size=_CACHE_MB)
        yield bandwidth, svm.fit(rows).score_samples(rows)


POINT_SEARCHES: dict[str, Callable[[Floats, int, int], Scores]] = {
    "IDK": partial(_path, method="similarity"),
    "K_G": _k_g,
    "K_NG": _k_ng,
    "OCSVM": _ocsvm,
    "norm": partial(_path, method="norm"),
    "iNNE": _inne,
    "iForest": _iforest,
}
DETERMINISTIC = ("K_G", "OCSVM")


def _idk2(groups: Groups, seed: int, n_jobs: int) -> Scores:
    """IDK^2 with hyperspheres at both levels: what IDKGroupDetector says, all psi2 from nested samples of groups."""
    seeds, compute = check_random_state(seed).randint(2**31 - 1, size=2), Compute(n_jobs=n_jobs)
    levels = tuple(powers_of_two(min(LARGEST_PSI2, len(groups))))
    for psi in powers_of_two(min(LARGEST_PSI1, len(groups.rows))):
        views, _ = draw_views(groups.rows, T, [Plan(None, (psi,))], "hypersphere", seeds[0], compute)
        path = score_mean_maps(views.mean_maps(groups, compute), levels, seeds[1], compute)
        yield from (((psi, psi2), scores) for psi2, scores in zip(levels, path.T, strict=True))


def score_mean_maps(maps: MeanMaps, levels: tuple[int, ...], random_state: Any, compute: Compute) -> Floats:
    """Level 2 of IDK^2 at every psi2: the share of groups in the cell of each group, (g, L)."""
    queries = GroupQueries(maps)
    partitionings = draw_from_groups(queries, T, levels, "hypersphere", random_state, compute)
    path: Floats = partitionings.count_and_sum(queries, compute)[1] / (T * len(maps))
    return path


def _gdk2(groups: Groups, seed: int, n_jobs: int) -> Scores:
    for bandwidth in _MIDDLE_FIRST:
        level1 = RecursiveNystroem(bandwidth, random_state=seed).fit(groups.points)
        embedded = embed_groups(level1, groups)
        for bandwidth2 in _MIDDLE_FIRST:
            level2 = GaussianPointDetector(
                bandwidth2, approximation="nystroem", scaling=None, random_state=seed, n_jobs=n_jobs
            )
            yield (bandwidth, bandwidth2), level2.fit(embedded).score_samples(embedded)


def _idk_gdk(groups: Groups, seed: int, n_jobs: int) -> Scores:
    """The Gaussian detector of mean maps, from their dot products: |g - h|^2 = g.g + h.h - 2 g.h."""
    for psi, products in _gram_matrices(groups, seed, n_jobs):
        squares = np.diag(products)
        sq_dists = np.maximum(squares[:, None] + squares - 2 * products, 0.0)
        for bandwidth in _MIDDLE_FIRST:
            yield (psi, bandwidth), np.exp(sq_dists * (-0.5 / bandwidth**2)).mean(axis=1)


def _idk_ocsvm(groups: Groups, seed: int, n_jobs: int) -> Scores:
    """The linear one-class SVM of mean maps, from their dot products."""
    for psi, products in _gram_matrices(groups, seed, n_jobs):
        yield from _support_machines(psi, products)


def _gram_matrices(groups: Groups, seed: int, n_jobs: int) -> Iterator[tuple[int, Floats]]:
    """Dot products of the mean maps of all groups for every psi: (g, g)."""
    for psi in powers_of_two(min(LARGEST_PSI, len(groups.rows))):
        kernel = IsolationDistributionalKernel(T, psi, random_state=seed, n_jobs=n_jobs).fit(groups.rows)
        yield psi, T * kernel.gram(groups)


def _ocsmm(groups: Groups, seed: int, n_jobs: int) -> Scores:
    """What OCSMM says, all bandwidths from one pass over the pairs of points."""
    kernels = mean_embedding_kernels(sort_by_group(groups), None, BANDWIDTHS, n_jobs)
    for bandwidth, kernel in zip(BANDWIDTHS, kernels, strict=True):
        yield from _support_machines(bandwidth, kernel)


def _support_machines(parameter: float, kernel: Floats) -> Scores:
    """One-class SVMs of groups on a kernel between them (g, g), for every nu."""
    for nu in NUS:
        svm = OneClassSVM(kernel="precomputed", nu=nu, tol=OCSMM().tol, cache_size=_CACHE_MB)
        yield (parameter, nu), svm.fit(kernel).score_samples(kernel)


def _averaged_inne(groups: Groups, seed: int, n_jobs: int) -> Scores:
    for psi in powers_of_two(min(LARGEST_PSI, len(groups.rows))):
        detector = AveragedPointScores(INNE(T, psi, random_state=seed, n_jobs=n_jobs))
        yield psi, detector.fit(groups).scores_


GROUP_SEARCHES = {
    "IDK2": _idk2,
    "GDK2": _gdk2,
    "IDK-GDK": _idk_gdk,
    "IDK-OCSVM": _idk_ocsvm,
    "OCSMM": _ocsmm,
    "iNNE": _averaged_inne,
}
