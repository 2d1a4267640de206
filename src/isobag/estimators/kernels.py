"""Isolation Kernel and Isolation Distributional Kernel as scikit-learn estimators."""

from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from sklearn.base import TransformerMixin
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from isobag.backends import RULES
from isobag.backends.arrays import OUTSIDE, Cells, Floats
from isobag.backends.learned import demand
from isobag.data.groups import as_groups
from isobag.data.params import MAX_SAMPLES, N_ESTIMATORS, Parameters, check_max_samples, one_of
from isobag.data.scaling import LinearScaling
from isobag.data.validation import as_rows
from isobag.estimators.base import Storable
from isobag.models.views import View, Views
from isobag.partitionings import MECHANISMS, Partitionings, draw_from_rows

AUTO_MAX_SAMPLES = 16


class _Kernel(Storable):
    """What both kernels share: parameters, and partitionings drawn from the data. Kernels never scale."""

    partitionings_: Partitionings
    parameters: ClassVar[Parameters] = {
        "n_estimators": N_ESTIMATORS,
        "max_samples": MAX_SAMPLES,
        "mechanism": one_of(MECHANISMS),
        "rule": one_of(RULES),
        **Storable.parameters,
    }

    def __init__(
        self,
        n_estimators: int = 100,
        max_samples: int | str = "auto",
        *,
        mechanism: str = "hypersphere",
        rule: str = "nearest",
        random_state: Any = None,
        backend: str = "auto",
        n_jobs: int | None = None,
        device: str | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.mechanism = mechanism
        self.rule = rule
        self.random_state = random_state
        self.backend = backend
        self.n_jobs = n_jobs
        self.device = device

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the partitionings from the rows of X: (n, d)."""
        self.check_params()
        rows = as_rows(self, X, reset=True, min_rows=2, accept_sparse=True)
        check_max_samples(self.max_samples, len(rows))
        psi = self.max_samples
        if psi == "auto":
            psi = min(AUTO_MAX_SAMPLES, max(2, len(rows) // 2))
        self.partitionings_ = draw_from_rows(
            rows, self.n_estimators, (int(psi),), self.mechanism, self.random_state, self.compute_for(rows)
        )
        return self

    def validate(self) -> None:
        """Raise a ValueError where what comes from a file does not fit together."""
        drawn = self.partitionings_
        demand(len(drawn.levels) == 1 and not drawn.of_groups, "partitionings_ are not of rows, at one level")
        self._check_features(drawn.width)

    @property
    def max_samples_(self) -> int:
        """Psi."""
        return self._fitted.levels[-1]

    @property
    def centers_(self) -> Floats:
        """Centers of the cells: (t, psi, d); a row of each cell where a mechanism has no centers."""
        anchors = self._fitted.anchors()
        if anchors is None:
            raise AttributeError(f"mechanism={self.mechanism!r} has no centers.")
        points, slots = anchors
        centers: Floats = points[slots]
        return centers

    @property
    def sq_radii_(self) -> Floats:
        """Squared radii of the balls, infinite for Voronoi cells: (t, psi)."""
        radii: Floats = self._fitted.sq_radii[-1]  # type: ignore[attr-defined]  # balls have them, other cells do not
        return radii

    @property
    def _fitted(self) -> Partitionings:
        check_is_fitted(self)
        return self.partitionings_

    def _assign(self, X: Any) -> Cells:
        """Cell of every row in every partitioning: (n, t)."""
        drawn = self._fitted
        rows = as_rows(self, X, reset=False, accept_sparse=True)
        compute = self.compute_for(rows)
        return rows.map(lambda block: drawn.assign(drawn.prepare(block, compute), compute, self.rule))

    def _mean_products(self, A: csr_array, B: csr_array) -> Floats:
        """Dot products of feature maps or mean maps, divided by t."""
        products: Floats = (A @ B.T).toarray() / len(self.partitionings_)
        return products

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "partitionings_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def one_hot(cells: Cells, n_cells: int) -> csr_array:
    """Feature map Phi(x): a one at the cell of x in each partitioning, nothing where it is OUTSIDE.

    cells (n, t) -> CSR (n, t * n_cells) float64
    """
    n, t = cells.shape
    inside = cells != OUTSIDE
    columns = (cells + np.arange(t, dtype=np.int64) * n_cells)[inside]
    starts = np.concatenate([[0], inside.sum(axis=1).cumsum()])
    if max(len(columns), t * n_cells) < 2**31:  # scikit-learn's SVMs refuse wider indices
        columns, starts = columns.astype(np.int32), starts.astype(np.int32)
    return csr_array((np.ones(len(columns)), columns, starts), shape=(n, t * n_cells))


class IsolationKernel(TransformerMixin, _Kernel):
    """Isolation Kernel: the share of partitionings in which two points fall into the same cell.

    kappa(x, y) = (1/t) sum_i [cell_i(x) = cell_i(y), not OUTSIDE] = (1/t) <Phi(x), Phi(y)>

    Each of the t partitionings draws psi rows of the data as centers. The ball of a center reaches to the nearest
    different center; a point belongs to one ball of each partitioning or to none (OUTSIDE). The kernel adapts to the
    data: the same two points are more similar where the data are sparse. Features are not scaled.

    Parameters
    ----------
    n_estimators : int, default=100
        Number of partitionings, t.
    max_samples : int or "auto", default="auto"
        psi, the number of rows drawn for each partitioning, from 2 to the number of rows. "auto" is 16, or half of the
        rows if that is less.
    mechanism : {"hypersphere", "voronoi", "tree"}, default="hypersphere"
        How the drawn rows become cells: balls (the paper's), Voronoi cells, or the leaves of isolation trees. With the
        last two no point is OUTSIDE.
    rule : {"nearest", "covering", "smallest"}, default="nearest"
        Which ball a point belongs to when several cover it: that of the nearest center of all, or none if that ball
        does not reach the point; the nearest among the balls that cover it; the smallest ball that covers it.
    random_state : int, RandomState instance or None, default=None
        All randomness is drawn in ``fit``.
    backend : {"auto", "numba", "numpy", "torch"}, default="auto"
        The results are identical; only the time differs. "torch" computes on a GPU, and "auto" is "torch" if X is on
        one, else "numba".
    n_jobs : int or None, default=None
        Number of threads, as in joblib.
    device : str or None, default=None
        Of the backend "torch": "cuda" (also "cuda:1", ...), which None is too, "cpu", or "auto" for a GPU if there is
        one. See docs/gpu.md.

    Attributes
    ----------
    max_samples_ : int
        psi.
    centers_ : ndarray of shape (t, psi, d)
        Centers of the cells; with trees, a drawn row of each leaf.
    sq_radii_ : ndarray of shape (t, psi)
        Squared radii of the balls, infinite for Voronoi cells. Trees have none.
    partitionings_ : Partitionings
        The partitionings themselves.
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : ndarray of str
        Names of the features, if ``fit`` was given a frame with names.

    See Also
    --------
    IsolationDistributionalKernel : The same for sets of points.

    Examples
    --------
    >>> import numpy as np
    >>> from isobag import IsolationKernel
    >>> X = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [9.0]])
    >>> kernel = IsolationKernel(n_estimators=200, max_samples=3, random_state=0).fit(X)
    >>> near, far = kernel.similarity(X[:1], X[[1, 4]])[0]
    >>> bool(near > far)
    True
    """

    def assign_cells(self, X: Any) -> Cells:
        """Cell of every row in every partitioning: (n, t) int32, OUTSIDE = -1 if no ball covers it."""
        return self._assign(X)

    def transform(self, X: Any) -> csr_array | npt.NDArray[np.float64]:
        """Feature map Phi: (n, t * psi), a one at the cell of x in each partitioning.

        CSR; a dense frame after ``set_output(transform="pandas")`` or ``"polars"``.
        """
        features = one_hot(self.assign_cells(X), self.max_samples_)
        wants_frame = _get_output_config("transform", self)["dense"] != "default"
        return features.toarray() if wants_frame else features

    def similarity(self, X: Any, Y: Any = None) -> Floats:
        """Kernel matrix kappa(x, y) between the rows of X and of Y (of X with itself if None): (n, m) in [0, 1]."""
        features = one_hot(self.assign_cells(X), self.max_samples_)
        others = features if Y is None else one_hot(self.assign_cells(Y), self.max_samples_)
        return self._mean_products(features, others)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Names "partitioning12_cell3" of the columns of ``transform``."""
        check_is_fitted(self)
        _check_feature_names_in(self, input_features)
        t, psi = len(self.partitionings_), self.max_samples_
        return np.array([f"partitioning{i}_cell{j}" for i in range(t) for j in range(psi)], dtype=object)


class IsolationDistributionalKernel(_Kernel):
    """Isolation Distributional Kernel: how likely a point of S and a point of T fall into the same cell.

    K(S, T) = (1 / (t |S| |T|)) sum_{x in S, y in T} <Phi(x), Phi(y)> = (1/t) <Phi_hat(S), Phi_hat(T)>

    Phi_hat(S), the mean map, is the share of the points of S in each cell. Features are not scaled.

    Parameters
    ----------
    n_estimators : int, default=100
        Number of partitionings, t.
    max_samples : int or "auto", default="auto"
        psi, the number of rows drawn for each partitioning. "auto" is 16, or half of the rows if that is less.
    mechanism : {"hypersphere", "voronoi", "tree"}, default="hypersphere"
        How the drawn rows become cells; see IsolationKernel.
    rule : {"nearest", "covering", "smallest"}, default="nearest"
        Which ball a point belongs to when several cover it; see IsolationKernel.
    random_state : int, RandomState instance or None, default=None
        All randomness is drawn in ``fit``.
    backend : {"auto", "numba", "numpy", "torch"}, default="auto"
        The results are identical; only the time differs. "torch" computes on a GPU, and "auto" is "torch" if X is on
        one, else "numba".
    n_jobs : int or None, default=None
        Number of threads, as in joblib.
    device : str or None, default=None
        Of the backend "torch": "cuda" (also "cuda:1", ...), which None is too, "cpu", or "auto" for a GPU if there is
        one. See docs/gpu.md.

    Attributes
    ----------
    max_samples_ : int
        psi.
    centers_ : ndarray of shape (t, psi, d)
        Centers of the cells; with trees, a drawn row of each leaf.
    sq_radii_ : ndarray of shape (t, psi)
        Squared radii of the balls, infinite for Voronoi cells. Trees have none.
    partitionings_ : Partitionings
        The partitionings themselves.
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : ndarray of str
        Names of the features, if ``fit`` was given a frame with names.

    See Also
    --------
    IsolationKernel : The kernel of two points.
    IDKGroupDetector : Odd groups, by this kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from isobag import IsolationDistributionalKernel
    >>> rng = np.random.default_rng(0)
    >>> A, B, C = rng.normal(0, 1, (50, 2)), rng.normal(0, 1, (70, 2)), rng.normal(4, 1, (60, 2))
    >>> kernel = IsolationDistributionalKernel(random_state=0).fit(np.vstack([A, B, C]))
    >>> bool(kernel.similarity(A, B) > kernel.similarity(A, C))
    True
    """

    def embed(self, X: Any, groups: Any = None) -> csr_array:
        """Mean maps: (g, t * psi) CSR, one row a group in order of first appearance.

        X is rows with ``groups`` labels (or the name of the column of a frame that holds them), or a list of arrays,
        one a group; a single array without labels is one group.
        """
        check_is_fitted(self)
        given = as_groups(self, X, groups, reset=False, alone=True)
        unscaled = LinearScaling(np.zeros(self.n_features_in_), np.ones(self.n_features_in_))
        views = Views((View(unscaled, self.partitionings_),))
        shares: csr_array = views.mean_maps(given, self.compute_for(given.rows), rule=self.rule).shares
        return shares

    def similarity(self, A: Any, B: Any) -> float:
        """K(A, B) of two sets of points, in [0, 1]."""
        products = self._mean_products(self.embed(A), self.embed(B))
        if products.shape != (1, 1):
            raise ValueError(f"similarity takes two sets, not {products.shape[0]} and {products.shape[1]}; use gram.")
        return float(products[0, 0])

    def gram(self, X: Any, groups: Any = None) -> Floats:
        """K between all pairs of groups: (g, g)."""
        embedded = self.embed(X, groups)
        return self._mean_products(embedded, embedded)
