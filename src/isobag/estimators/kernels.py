"""Isolation Kernel and Isolation Distributional Kernel as one scikit-learn estimator."""

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
from isobag.data.params import BACKEND, MAX_SAMPLES, N_ESTIMATORS, POOL_SIZE, Parameters, check_max_samples, one_of
from isobag.data.validation import as_rows
from isobag.estimators.base import Computing, Storable
from isobag.models.views import Draw, Plan, Views, draw_views
from isobag.partitionings import MECHANISMS

AUTO_MAX_SAMPLES = 16


class IsolationKernel(TransformerMixin, Storable):
    """Isolation Kernel of points, and Isolation Distributional Kernel of sets of points.

    kappa(x, y) = (1/t) sum_i [cell_i(x) = cell_i(y), not OUTSIDE] = (1/t) <Phi(x), Phi(y)>

    Each of the t partitionings draws psi rows of the data as centers. The ball of a center reaches to the nearest
    different center; a point belongs to one ball of each partitioning or to none (OUTSIDE). The kernel adapts to the
    data: the same two points are more similar where the data are sparse. Features are not scaled.

    K(S, T) = (1 / (t |S| |T|)) sum_{x in S, y in T} <Phi(x), Phi(y)> = (1/t) <Phi_hat(S), Phi_hat(T)>

    is the kernel of two sets, see ``gram``; the mean map Phi_hat(S), see ``embed``, is the share of S in each cell.

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
        does not reach the point; the nearest among the balls that cover it; the smallest ball that covers it. The last
        two are computed by NumPy.
    pool_size : int, "auto" or None, default=None
        Rows that samples are cut from; None draws every sample from all rows, as the paper does. See IDKPointDetector.
    random_state : int, RandomState instance or None, default=None
        All randomness is drawn in ``fit``.
    backend : {"auto", "numba", "numpy", "torch"}, default="auto"
        The results are identical; only the time differs. "torch" computes on a GPU, and "auto" is "torch" if X is on
        one, else "numba".
    n_jobs : int or None, default=None
        Number of threads, as in joblib.

    Attributes
    ----------
    max_samples_ : int
        psi.
    centers_ : ndarray of shape (t, psi, d)
        Centers of the cells, rounded to float32 on the scale of ``fit``.
    sq_radii_ : ndarray of shape (t, psi)
        Squared radii of the balls, infinite for Voronoi cells. Trees have neither.
    views_ : Views
        The partitionings themselves.
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : ndarray of str
        Names of the features, if ``fit`` was given a frame with names.

    See Also
    --------
    IDKPointDetector, IDKGroupDetector : Odd points and odd groups, by this kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from isobag import IsolationKernel
    >>> X = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [9.0]])
    >>> kernel = IsolationKernel(n_estimators=200, max_samples=3, random_state=0).fit(X)
    >>> near, far = kernel.similarity(X[:1], X[[1, 4]])[0]
    >>> bool(near > far)
    True
    >>> gram = kernel.gram([X[:3], X[1:4], X[3:]])  # of sets
    >>> bool(gram[0, 1] > gram[0, 2])
    True
    """

    views_: Views
    parameters: ClassVar[Parameters] = {
        "n_estimators": N_ESTIMATORS,
        "max_samples": MAX_SAMPLES,
        "mechanism": one_of(MECHANISMS),
        "rule": one_of(RULES),
        "pool_size": POOL_SIZE,
        **Computing.parameters,
        "backend": BACKEND,
    }

    def __init__(
        self,
        n_estimators: int = 100,
        max_samples: int | str = "auto",
        *,
        mechanism: str = "hypersphere",
        rule: str = "nearest",
        pool_size: int | str | None = None,
        random_state: Any = None,
        backend: str = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.mechanism = mechanism
        self.rule = rule
        self.pool_size = pool_size
        self.random_state = random_state
        self.backend = backend
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the partitionings from the rows of X: (n, d)."""
        self.check_params()
        rows = as_rows(self, X, reset=True, min_rows=2, accept_sparse=True)
        check_max_samples(self.max_samples, len(rows))
        psi = self.max_samples
        if psi == "auto":
            psi = min(AUTO_MAX_SAMPLES, max(2, len(rows) // 2))
        draw = Draw(self.n_estimators, self.pool_size, self.mechanism, self.random_state)
        self.views_, _ = draw_views(rows, [Plan(None, (int(psi),))], draw, self.compute_for(rows), averages=False)
        return self

    def assign_cells(self, X: Any) -> Cells:
        """Cell of every row in every partitioning: (n, t) int32, OUTSIDE = -1 if no ball covers it."""
        slots = self._slots(X).astype(np.int32, copy=False)  # engines give the narrowest type that serves
        return np.where(slots == OUTSIDE, OUTSIDE, slots % self.max_samples_)

    def transform(self, X: Any) -> csr_array | npt.NDArray[np.float64]:
        """Feature map Phi: (n, t * psi), a one at the cell of x in each partitioning.

        CSR; a dense frame after ``set_output(transform="pandas")`` or ``"polars"``.
        """
        features = self._features(X)
        wants_frame = _get_output_config("transform", self)["dense"] != "default"
        return features.toarray() if wants_frame else features

    def similarity(self, X: Any, Y: Any = None) -> Floats:
        """Kernel matrix kappa(x, y) between the rows of X and of Y (of X with itself if None): (n, m) in [0, 1]."""
        features = self._features(X)
        return self._mean_products(features, features if Y is None else self._features(Y))

    def embed(self, X: Any, groups: Any = None) -> csr_array:
        """Mean maps: (g, t * psi) CSR, one row a group in order of first appearance.

        X is rows with ``groups`` labels (or the name of the column of a frame that holds them), or a list of arrays,
        one a group; a single array without labels is one group.
        """
        check_is_fitted(self)
        sets = as_groups(self, X, groups, reset=False, alone=True)
        shares: csr_array = self.views_.mean_maps(sets, self.compute_for(sets.rows), rule=self.rule).shares
        return shares

    def gram(self, X: Any, groups: Any = None) -> Floats:
        """K between all pairs of groups: (g, g) in [0, 1]."""
        embedded = self.embed(X, groups)
        return self._mean_products(embedded, embedded)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Names "partitioning12_cell3" of the columns of ``transform``."""
        check_is_fitted(self)
        _check_feature_names_in(self, input_features)
        psi = self.max_samples_
        return np.array([f"partitioning{i}_cell{j}" for i in range(self._t) for j in range(psi)], dtype=object)

    def validate(self) -> None:
        """Raise a ValueError where what comes from a file does not fit together."""
        demand(len(self.views_.levels) == len(self.views_.members) == 1, "views_ is not one, of one psi")
        self._check_features(self.views_.n_features)

    @property
    def max_samples_(self) -> int:
        """Psi."""
        check_is_fitted(self)
        return self.views_.levels[-1]

    @property
    def centers_(self) -> Floats:
        """Centers of the cells: (t, psi, d)."""
        view = self._balls
        centers = view.partitionings.pool[view.partitionings.slots] * view.scaling.spread + view.scaling.shift
        return np.asarray(centers.reshape(self._t, self.max_samples_, -1))

    @property
    def sq_radii_(self) -> Floats:
        """Squared radii of the balls, infinite for Voronoi cells: (t, psi)."""
        view = self._balls
        return np.asarray(view.partitionings.sq_radii.reshape(self._t, -1) * view.scaling.spread[0] ** 2)

    @property
    def _balls(self) -> Any:
        check_is_fitted(self)
        if self.mechanism == "tree":
            raise AttributeError("mechanism='tree' has no centers")
        return self.views_.members[0]

    @property
    def _t(self) -> int:
        return int(self.views_.counts[-1])

    def _slots(self, X: Any) -> Cells:
        check_is_fitted(self)
        rows = as_rows(self, X, reset=False, accept_sparse=True)
        compute, (view,) = self.compute_for(rows), self.views_.members

        def assign(block: Floats) -> Cells:
            scaled = view.scaling.apply(compute.place(block), compute)
            return compute.fetch(view.partitionings.assign(scaled, compute, rule=self.rule)[0]).T

        return rows.map(assign)

    def _features(self, X: Any) -> csr_array:
        """Feature map: a one at the slot of x in each sample, nothing where it is OUTSIDE, CSR (n, t psi)."""
        slots = self._slots(X)
        inside = slots != OUTSIDE
        columns, starts = slots[inside], np.concatenate([[0], inside.sum(axis=1).cumsum()])
        if len(columns) < 2**31:  # scikit-learn's SVMs refuse wider indices
            starts = starts.astype(np.int32)
        shape = (len(slots), self._t * self.max_samples_)
        return csr_array((np.ones(len(columns)), columns, starts), shape=shape)

    def _mean_products(self, A: csr_array, B: csr_array) -> Floats:
        """Dot products of feature maps or mean maps, divided by t."""
        products: Floats = (A @ B.T).toarray() / self._t
        return products

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "views_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
