"""Detectors of odd groups, each as one function.

A method is ``score(train, train_groups, X, groups, seed)``: it learns from the points ``train`` of the groups numbered
in ``train_groups`` and returns a score for each group of ``groups`` (numbered 0, 1, ..., ascending), higher = more
normal. Parameters are defaults or what the method's authors propose; no method sees a label.
"""

import importlib.util
import os
from pathlib import Path

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import NearestNeighbors

from isobag import IDKGroupDetector, IDKPointDetector
from paper.gaussian import OCSMM, median_distance
from paper.searches import GDK2, Nystroem, mean_features
from study.data import THREADS
from study.rivals import FOREST

DEFAULT = "isobag"
N_NEAREST = 10
QUANTILES = (0.1, 0.5, 0.9)
N_FEATURES, N_PROJECTIONS = 1024, 50
PROJECTED = np.linspace(0.025, 0.975, 20)
MOST_POINTS = 100
"""Methods that visit all pairs of points see so many points of a group."""


def _by_detector(make):
    """A method made of a group detector of isobag."""

    def score(train, train_groups, X, groups, seed):
        return make(seed).fit(train, groups=train_groups).score_samples(X, groups=groups)

    return score


def _standardised(score):
    """A method on features that have mean 0 and deviation 1 in ``train``."""

    def scaled(train, train_groups, X, groups, seed):
        train, X = _in_deviations(train, X)
        return score(train, train_groups, X, groups, seed)

    return scaled


def _in_deviations(train, rows):
    """Both, with mean 0 and deviation 1 in ``train``."""
    mean, deviation = train.mean(axis=0), train.std(axis=0)
    deviation[deviation == 0] = 1
    return (train - mean) / deviation, (rows - mean) / deviation


def _aggregated(detect):
    """A detector of points on the means, deviations and quantiles of the groups' features."""

    def score(train, train_groups, X, groups, seed):
        return detect(aggregates(train, train_groups), aggregates(X, groups), seed)

    return score


def aggregates(X, groups):
    """Mean, deviation and three quantiles of each feature of each group: (n_groups, 5 d)."""
    parts = np.split(X, np.flatnonzero(np.diff(groups)) + 1)
    rows = [np.vstack([part.mean(axis=0), part.std(axis=0), np.quantile(part, QUANTILES, axis=0)]) for part in parts]
    return np.stack(rows).reshape(len(parts), -1)


def _summarised(detect):
    """A detector of points on mean and deviation of each feature of the groups, and the logarithm of their size."""

    def score(train, train_groups, X, groups, seed):
        return detect(summaries(train, train_groups), summaries(X, groups), seed)

    return score


def summaries(X, groups):
    """Mean and deviation of each feature of each group, and the logarithm of its size: (n_groups, 2 d + 1)."""
    parts = np.split(X, np.flatnonzero(np.diff(groups)) + 1)
    return np.stack([np.hstack([part.mean(axis=0), part.std(axis=0), np.log(len(part))]) for part in parts])


def _isolation(train, rows, seed):
    return IDKPointDetector(random_state=seed, n_jobs=THREADS).fit(train).score_samples(rows)


def _forest(train, rows, seed):
    return IsolationForest(random_state=seed, n_jobs=THREADS).fit(train).score_samples(rows)


def _nearest(train, rows, seed):
    """Minus the distance to the tenth nearest of ``train``, rows of ``train`` themselves not counted."""
    return _nearest_distance(*_in_deviations(train, rows))


def _nearest_distance(train, rows):
    k = min(N_NEAREST, len(train) - 1)
    distances = NearestNeighbors(n_neighbors=k + 1).fit(train).kneighbors(rows)[0]
    is_training = distances[:, 0] == 0  # a group that was learned from is its own nearest
    return -np.where(is_training, distances[:, k], distances[:, k - 1])


def _ecod(train, rows, seed):
    from pyod.models.ecod import ECOD  # noqa: PLC0415, of the extra bench

    return -ECOD().fit(train).decision_function(rows)


def _mmd(train, train_groups, X, groups, seed):
    """Distance of mean embeddings (random Fourier features, median bandwidth) to the tenth nearest group."""
    rng = np.random.default_rng(seed)
    sample = train[rng.permutation(len(train))[:1000]]
    bandwidth = np.median(pdist(sample)) or 1.0
    directions = rng.standard_normal((X.shape[1], N_FEATURES // 2)) / bandwidth
    return _nearest_distance(_mean_waves(train, train_groups, directions), _mean_waves(X, groups, directions))


def _mean_waves(X, groups, directions):
    parts = np.split(X, np.flatnonzero(np.diff(groups)) + 1)
    return np.stack(
        [np.hstack([np.cos(p @ directions).mean(axis=0), np.sin(p @ directions).mean(axis=0)]) for p in parts]
    )


def _sliced_wasserstein(train, train_groups, X, groups, seed):
    """Distance of quantiles along random directions to the tenth nearest group."""
    directions = np.random.default_rng(seed).standard_normal((X.shape[1], N_PROJECTIONS))
    directions /= np.linalg.norm(directions, axis=0)
    return _nearest_distance(_slices(train, train_groups, directions), _slices(X, groups, directions))


def _slices(X, groups, directions):
    parts = np.split(X @ directions, np.flatnonzero(np.diff(groups)) + 1)
    return np.stack([np.quantile(part, PROJECTED, axis=0).ravel() for part in parts])


def _few_points(score):
    """A method that sees at most 100 points of each group."""

    def cut(train, train_groups, X, groups, seed):
        return score(*_first_points(train, train_groups, seed), *_first_points(X, groups, seed), seed)

    return cut


def _first_points(X, groups, seed):
    order = np.lexsort([np.random.default_rng(seed).random(len(groups)), groups])
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    places = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    first = order[places < MOST_POINTS]
    return X[first], groups[first]


def _gdk2(train, train_groups, X, groups, seed):
    """GDK^2 with the median distance as bandwidth of either level."""
    bandwidth = median_distance(train, seed)
    embedded = mean_features(Nystroem(bandwidth, seed).fit(train), train, train_groups)
    model = GDK2(bandwidth, median_distance(embedded, seed), seed, THREADS).fit(train, train_groups)
    return model.score_samples(X, groups)


def _forest_of_points(train, train_groups, X, groups, seed):
    """Mean score of each group's points."""
    return np.bincount(groups, _forest(train, X, seed)) / np.bincount(groups)


def _from_environment():
    """A method of your own, from the environment: ISOBAG_SUITE_METHOD=file.py:function."""
    wanted = os.environ.get("ISOBAG_SUITE_METHOD")
    if not wanted:
        return {}
    file, _, name = wanted.rpartition(":")
    if not Path(file).is_file():
        raise SystemExit(f"ISOBAG_SUITE_METHOD={wanted}; need FILE.py:FUNCTION, and {file!r} is no file.")
    described = importlib.util.spec_from_file_location("own_method", file)
    module = importlib.util.module_from_spec(described)
    described.loader.exec_module(module)
    return {name: getattr(module, name)}


METHODS = {
    DEFAULT: _by_detector(lambda seed: IDKGroupDetector(random_state=seed, n_jobs=THREADS)),
    "IDK^2 (16, 16)": _by_detector(
        lambda seed: IDKGroupDetector(
            max_samples=16, group_max_samples=16, pool_size=None, random_state=seed, n_jobs=THREADS
        )
    ),
    f"{FOREST} on aggregates": _aggregated(_forest),
    "KNN on aggregates": _aggregated(_nearest),
    "IDKPointDetector on summaries": _summarised(_isolation),
    "KNN on summaries": _summarised(_nearest),
    "ECOD on aggregates": _aggregated(_ecod),
    "MMD, 10 nearest": _standardised(_mmd),
    "sliced Wasserstein, 10 nearest": _standardised(_sliced_wasserstein),
    "OCSMM": _standardised(_few_points(_by_detector(lambda seed: OCSMM(seed=seed, n_jobs=THREADS)))),
    "GDK^2": _standardised(_gdk2),
    f"{FOREST}, points averaged": _forest_of_points,
    **_from_environment(),
}
SIMPLE = [name for name in METHODS if name.endswith(("on aggregates", "on summaries"))]
"""What people do instead."""
