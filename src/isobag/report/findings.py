"""What a report tells, as plain arrays and strings: the scores of all, the oddest few in full, samples of the rest."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.decomposition import PCA

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.data.frames import feature_names
from isobag.data.groups import Bags, check_groups
from isobag.data.rows import ArrayRows
from isobag.data.validation import check_points
from isobag.estimators import IDKGroupDetector, IDKPointDetector
from isobag.estimators.checked import explain_groups, explain_rows, p_values_of_groups, p_values_of_rows

TOP = 200
"""Anomalies told in full."""
SHOWN_ON_MAP = 2_000
SHOWN_OF_POPULATION = 500
SHOWN_OF_GROUP = 120
_SETTINGS = ("n_estimators", "max_samples", "group_max_samples", "scaling", "contamination", "random_state")


class PointFindings(NamedTuple):
    """Odd rows. n rows and d features in all; the k oddest, the oddest first; s rows as a sample of all."""

    title: str
    source: str  # where the rows came from, "" if unknown
    settings: Mapping[str, str]
    features: Sequence[str]  # (d,)
    n_dropped: int
    n_imputed: int
    scores: Floats  # (n,) higher = more normal
    offset: float  # scores below it are flagged
    labels: Sequence[str]  # (k,)
    top_scores: Floats  # (k,)
    p_values: Floats | None  # (k,)
    values: Floats  # (k, d)
    reasons: Floats  # (k, d), what each feature adds to the lack of similarity
    sample: Floats  # (s, d)
    sample_flagged: Bools  # (s,)


class GroupFindings(NamedTuple):
    """Odd groups. g groups of n points with d features; the k oddest, the oddest first; s groups as a sample of all."""

    title: str
    source: str
    settings: Mapping[str, str]
    features: Sequence[str]  # (d,)
    n_dropped: int
    n_imputed: int
    n_points: int
    scores: Floats  # (g,)
    offset: float
    labels: Sequence[str]  # (k,)
    sizes: Ints  # (k,) points of each
    top_scores: Floats  # (k,)
    p_values: Floats | None  # (k,)
    reasons: Floats  # (k, d) in [-1, 1], how far each feature sets what the group has too much of apart
    top_places: Floats  # (k, 2) on the map
    sample_places: Floats  # (s, 2)
    sample_flagged: Bools  # (s,)
    explained: float  # share of the variance of the mean maps that the map shows
    members: Sequence[Floats]  # k arrays (m, d), points of each group or a sample of them
    population: Floats  # (m, d), a sample of all points in which every group counts the same


Findings = PointFindings | GroupFindings


def point_findings(
    detector: IDKPointDetector,
    X: Any,
    *,
    labels: Sequence[Any] | None = None,
    scores: Floats | None = None,
    p_values: Floats | None = None,
    top: int = TOP,
    title: str = "Odd rows",
    source: str = "",
    n_dropped: int = 0,
    n_imputed: int = 0,
) -> PointFindings:
    """What a fitted detector says of the rows of X (n, d).

    labels (n,) are row numbers if None; scores (n,) and p_values (n,) are computed if None.
    """
    points = check_points(detector, X, reset=False)
    scores = detector._scores(points) if scores is None else np.asarray(scores, dtype=np.float64)
    chosen = np.argsort(scores, kind="stable")[:top]
    sample = choose_some(len(points), SHOWN_ON_MAP)
    names = chosen.tolist() if labels is None else [labels[i] for i in chosen.tolist()]
    if p_values is not None:
        p_values = np.asarray(p_values)[chosen]
    elif detector.calibration_ is not None:
        p_values = p_values_of_rows(detector, ArrayRows(points[chosen]))
    return PointFindings(
        title,
        source,
        settings_of(detector),
        [str(name) for name in feature_names(detector)],
        n_dropped,
        n_imputed,
        scores,
        detector.offset_,
        [str(name) for name in names],
        scores[chosen],
        p_values,
        points[chosen],
        explain_rows(detector, points[chosen]),
        points[sample],
        scores[sample] < detector.offset_,
    )


def group_findings(
    detector: IDKGroupDetector,
    X: Any,
    groups: Any = None,
    *,
    scores: Floats | None = None,
    p_values: Floats | None = None,
    top: int = TOP,
    title: str = "Odd groups",
    source: str = "",
    n_dropped: int = 0,
    n_imputed: int = 0,
) -> GroupFindings:
    """What a fitted detector says of groups, given as for ``fit``.

    scores (g,) and p_values (g,), in order of first appearance, are computed if None.
    """
    bags = check_groups(detector, X, groups, reset=False)
    scores = detector._score_groups(bags) if scores is None else np.asarray(scores, dtype=np.float64)
    chosen = np.argsort(scores, kind="stable")[:top]
    oddest = bags.take(chosen)
    parts = [oddest.X[oddest.ids == k] for k in range(len(chosen))]
    sample = np.setdiff1d(choose_some(len(bags.labels), SHOWN_ON_MAP), chosen)
    places, explained = _map_of_groups(detector, bags.take(np.concatenate([chosen, sample])))
    if p_values is not None:
        p_values = np.asarray(p_values)[chosen]
    elif detector.calibration_ is not None:
        p_values = p_values_of_groups(detector, oddest)
    return GroupFindings(
        title,
        source,
        settings_of(detector),
        [str(name) for name in feature_names(detector)],
        n_dropped,
        n_imputed,
        len(bags.X),
        scores,
        detector.offset_,
        [str(label) for label in oddest.labels.tolist()],
        oddest.sizes,
        scores[chosen],
        p_values,
        explain_groups(detector, oddest).features,
        places[: len(chosen)],
        places[len(chosen) :],
        scores[sample] < detector.offset_,
        explained,
        [part[choose_some(len(part), SHOWN_OF_GROUP)] for part in parts],
        _population(bags),
    )


def choose_some(n: int, most: int) -> Ints:
    """All of 0 .. n - 1, or a random choice of ``most`` of them, always the same: in rising order."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, size=most, replace=False))


def settings_of(detector: Any) -> dict[str, str]:
    """The parameters that a reader needs to get the same result, and the psi that "auto" became."""
    params = detector.get_params()
    found = {name: str(params[name]) for name in _SETTINGS if name in params}
    for name in ("max_samples", "group_max_samples"):
        if found.get(name) == "auto":
            found[name] = f"auto (up to {getattr(detector, name + '_')})"
    return found


def _map_of_groups(detector: IDKGroupDetector, bags: Bags) -> tuple[Floats, float]:
    """Principal components of the mean maps: (g, 2), and the share of the variance they have."""
    maps = csr_matrix(detector._mean_maps(bags).shares)
    if not (maps - maps[np.zeros(maps.shape[0], dtype=int)]).count_nonzero():  # all alike: no component at all
        return np.zeros((maps.shape[0], 2)), 1.0
    if min(maps.shape) <= 10:  # too small for what finds components of sparse matrices
        found = PCA(min(2, *maps.shape)).fit(maps.toarray())
    else:
        found = PCA(2, svd_solver="arpack", random_state=0).fit(maps)
    places: Floats = found.transform(maps if min(maps.shape) > 10 else maps.toarray())
    return np.pad(places, ((0, 0), (0, 2 - places.shape[1]))), float(found.explained_variance_ratio_.sum())


def _population(bags: Bags) -> Floats:
    """Points of groups drawn at random, each group as likely as any other: (m, d)."""
    rng = np.random.default_rng(0)
    order = np.argsort(bags.ids, kind="stable")
    starts = np.concatenate([[0], np.cumsum(bags.sizes)[:-1]])
    drawn = rng.integers(0, len(bags.labels), size=min(SHOWN_OF_POPULATION, len(bags.X)))
    within = (rng.random(len(drawn)) * bags.sizes[drawn]).astype(np.int64)
    found: Floats = bags.X[order[starts[drawn] + within]]
    return found
