"""Are two samples drawn from one distribution? A permutation test on the mean maps of the two."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from isobag.backends import Compute
from isobag.backends.arrays import Floats, Ints
from isobag.backends.threads import slices
from isobag.data.frames import feature_names
from isobag.data.gaps import learn_gaps
from isobag.data.params import BACKEND, N_ESTIMATORS, N_PERMUTATIONS, Parameters, check_params
from isobag.data.rows import ArrayRows
from isobag.data.validation import check_points
from isobag.estimators.base import Computing
from isobag.models.views import Draw, Plan, draw_views
from isobag.models.witness import witness

SCALINGS_COMPARED = ("minmax", "absolute")
PSI_COMPARED = (2, 8, 32, 128)
PARAMETERS: Parameters = {
    "n_permutations": N_PERMUTATIONS,
    "n_estimators": N_ESTIMATORS,
    **Computing.parameters,
    "backend": BACKEND,
}
BEYOND_CHANCE = 0.05
_KEPT_COUNTS = 1 << 24


class _Samples(BaseEstimator):
    """Holds the number and the names of the features."""


@contextmanager
def _name_sample_in_error(name: str) -> Iterator[None]:
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(f"Sample {name}: {str(error).replace('_Samples', 'sample A')}") from None


class Comparison(NamedTuple):
    """The result of ``compare``.

    Attributes
    ----------
    statistic : float
        Mean over psi of |Phi_hat(A) - Phi_hat(B)|^2 / t, the squared distance between the two mean maps.
    p_value : float
        Probability of samples at least as different if both come from one distribution; valid at every level.
    in_a : ndarray of shape (n,)
        What each row of A contributes to the statistic, positive where A has more points than B.
    in_b : ndarray of shape (m,)
        What each row of B contributes, positive where B has more points than A. Together with ``in_a`` these add up to
        the statistic.
    features : ndarray of shape (d,)
        Distance between the distribution functions of A and of B in each feature, from -1 to 1, negative if A has the
        lower values.
    feature_p_values : ndarray of shape (d,)
        Of each feature alone: probability that any feature of samples of one distribution is as far apart, in units of
        its own spread under permutations. So of equal samples a feature is below .05 in at most one test of twenty.
    feature_names : tuple of str
        Names of the features, "x0", "x1", ... if the samples came without names.
    """

    statistic: float
    p_value: float
    in_a: Floats
    in_b: Floats
    features: Floats
    feature_p_values: Floats
    feature_names: tuple[str, ...]

    def __repr__(self) -> str:
        """Statistic, p-value and the features that differ beyond chance."""
        names = [self.feature_names[j] for j in self.differing] or ["no single feature"]
        n, m = len(self.in_a), len(self.in_b)
        return f"Comparison({n:,} and {m:,} rows: p_value={self.p_value:.3g}; apart in {', '.join(names)})"

    @property
    def differing(self) -> Ints:
        """Numbers of the features that differ beyond chance, p <= .05, the farthest apart first."""
        order = np.argsort(-np.abs(self.features), kind="stable")
        return order[self.feature_p_values[order] <= BEYOND_CHANCE]


def compare(
    A: Any,
    B: Any,
    *,
    n_permutations: int = 499,
    n_estimators: int = 100,
    random_state: Any = None,
    backend: str = "auto",
    n_jobs: int | None = None,
) -> Comparison:
    """Test whether A and B are samples of one distribution, and say where they differ.

    Cells are drawn from both samples together, on two scales and with psi = 2, 8, 32 and 128 centers, and the distance
    between the two mean maps is compared with the distances after random permutations of the rows. The distance at each
    psi is standardised by its mean and spread under these permutations, and the largest is the test statistic, for the
    samples and for every permutation: so the level holds although the best psi is chosen from the data.

    Parameters
    ----------
    A : array or frame of shape (n, d)
        The first sample.
    B : array or frame of shape (m, d)
        The second sample, with the same features.
    n_permutations : int, default=499
        The p-value is a multiple of 1 / (1 + n_permutations).
    n_estimators : int, default=100
        Number of partitionings, t.
    random_state : int, RandomState instance or None, default=None
        Seed of the centers and of the permutations.
    backend : {"auto", "numba", "numpy"}, default="auto"
        The results are identical; only the time differs.
    n_jobs : int or None, default=None
        Number of threads, as in joblib.

    Returns
    -------
    Comparison
        A named tuple: statistic, p_value, in_a, in_b, features, feature_p_values, feature_names.

    Notes
    -----
    Rows must be independent of each other: two days of one sensor are not two samples. NaN is a missing value: the
    samples may differ in what is missing as well as in the values, and a feature in its share of gaps.

    Examples
    --------
    >>> import numpy as np
    >>> from isobag import compare
    >>> rng = np.random.default_rng(0)
    >>> A, B = rng.normal(size=(200, 3)), rng.normal(size=(300, 3))
    >>> B[:, 1] *= 2  # the same mean, twice the spread in one feature
    >>> comparison = compare(A, B, random_state=0)
    >>> comparison
    Comparison(200 and 300 rows: p_value=0.002; apart in x1)
    """
    check_params(locals(), PARAMETERS)
    compute = Compute(backend, n_jobs)
    samples = _Samples()
    with _name_sample_in_error("A"):
        first = check_points(samples, A, reset=True, allow_nan=True)
    with _name_sample_in_error("B"):
        second = check_points(samples, B, reset=False, allow_nan=True)
    values = np.concatenate([first, second])
    points = learn_gaps(ArrayRows(values)).fill(values)  # those of both together
    n, total = len(first), len(points)
    seeds = check_random_state(random_state).randint(2**31 - 1, size=2)
    largest = min(PSI_COMPARED[-1], max(2, total // 2))
    levels = (*(psi for psi in PSI_COMPARED if psi < largest), largest)
    draw = Draw(-(-n_estimators // len(SCALINGS_COMPARED)), None, "voronoi", seeds[0])
    is_first = np.zeros((n_permutations + 1, total), dtype=np.float32)
    is_first[0, :n] = 1
    rng = np.random.default_rng(seeds[1])
    for drawn in is_first[1:]:
        drawn[rng.permutation(total)[:n]] = 1
    distances, contributions = [], np.zeros(total)
    for psi in levels:
        plans = [Plan(scaling, (psi,)) for scaling in SCALINGS_COMPARED]
        views, _ = draw_views(ArrayRows(points), plans, draw, compute, averages=False)
        columns = views.columns(points, compute)  # Voronoi cells: no row is OUTSIDE
        distances.append(_sq_distances(columns, is_first, n))
        contributions += _contributions(columns, n)
    contributions /= len(levels)
    return Comparison(
        float(np.mean([own[0] for own in distances])),
        _p_value(np.array(distances)),
        contributions[:n],
        contributions[n:],
        *_compare_features(values, is_first, n),
        tuple(feature_names(samples)),
    )


def _sq_distances(columns: Ints, is_first: npt.NDArray[np.float32], n: int) -> Floats:
    """Squared distance of the mean maps, divided by t, for every permutation of the rows: (permutations,)."""
    total, t = columns.shape
    features = csr_array(
        (np.ones(columns.size, dtype=np.float32), columns.ravel(), np.arange(0, columns.size + 1, t)),
        shape=(total, columns.max() + 1),
    )
    whole = features.sum(axis=0, dtype=np.float64)
    by_columns = csr_array(features.T)
    distances = np.empty(len(is_first))
    for rows in slices(len(is_first), max(1, _KEPT_COUNTS // features.shape[1])):
        counts = (by_columns @ is_first[rows].T).astype(np.float64)  # whole numbers, exact below 2^24 points
        apart = counts / n - (whole[:, None] - counts) / (total - n)
        distances[rows] = (apart**2).sum(axis=0) / t
    return distances


def _compare_features(points: Floats, is_first: npt.NDArray[np.float32], n: int) -> tuple[Floats, Floats]:
    """Signed distance between distribution functions in each feature, and its p-value, corrected for d: (d,), (d,)."""
    total, d = points.shape
    distances = np.empty((d, len(is_first)))
    for j, values in enumerate(np.where(np.isnan(points), np.inf, points).T):  # gaps are alike, beyond all values
        order = np.argsort(values, kind="stable")
        ends = np.flatnonzero(np.append(values[order][1:] != values[order][:-1], True))  # of runs of equal values
        for rows in slices(len(is_first), max(1, _KEPT_COUNTS // total)):
            counts = np.cumsum(is_first[rows][:, order], axis=1, dtype=np.float64)[:, ends]
            apart = counts / n - (ends + 1 - counts) / (total - n)
            distances[j, rows] = np.abs(apart).max(axis=1)
    deviations = _standardised(distances)
    largest = deviations.max(axis=0)
    p_values = np.array([np.mean(largest >= own - 1e-9) for own in deviations[:, 0]])
    filled = np.where(np.isnan(points), np.nanmax(points, axis=0, initial=0.0), points)
    signs = np.where(filled[:n].mean(axis=0) >= filled[n:].mean(axis=0), 1.0, -1.0)
    return distances[:, 0] * signs, p_values


def _contributions(columns: Ints, n: int) -> Floats:
    """Contribution of each row to the squared distance: (n + m,)."""
    m = len(columns) - n
    width = int(columns.max()) + 1
    counts = [np.bincount(own.ravel(), minlength=width) for own in (columns[:n], columns[n:])]
    values = witness(columns, counts[0] / n - counts[1] / m)
    return values * np.where(np.arange(n + m) < n, 1 / n, -1 / m)


def _p_value(distances: Floats) -> float:
    """Share of the permutations, the identity included, that are at least as far apart: (psi, permutations)."""
    largest = _standardised(distances).max(axis=0)
    return float(np.mean(largest >= largest[0] - 1e-9))  # equal distances may differ by rounding


def _standardised(distances: Floats) -> Floats:
    """Deviations from the mean over permutations in standard deviations, 0 where all are equal: (k, permutations)."""
    spreads = distances.std(axis=1, keepdims=True)
    deviations = distances - distances.mean(axis=1, keepdims=True)
    standardised: Floats = np.divide(deviations, spreads, out=np.zeros_like(distances), where=spreads > 0)
    return standardised
