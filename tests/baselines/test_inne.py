"""iNNE: its score from the definition of its paper, on the balls that our detectors draw."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from oracle import points as oracle

from isobag import IsolationKernel
from isobag.baselines import INNE


def drawn_centers(X, t=8, psi=6):
    return IsolationKernel(t, psi, random_state=0).fit(X).centers_


def unit_square(rng, step):
    """Multiples of the step that fill [0, 1]^2: scaling to [0, 1] changes nothing."""
    return np.vstack([[[0.0, 0.0], [1.0, 1.0]], rng.integers(0, 1 / step + 1, (48, 2)) * step])


def with_queries(X, rng):
    return np.vstack([X, rng.normal(X.mean(0), 2 * X.std(0) + 0.1, (20, X.shape[1])), X[:3] * 50 + 1000])


def test_an_inne_score_never_depends_on_the_rest_of_its_batch(X, rng):
    Q = with_queries(X, rng)
    model = INNE(20, 8, random_state=0).fit(X)
    for rows in (slice(0, 1), slice(59, 60), slice(3, 77), slice(None, None, -3)):
        assert_array_equal(model.score_samples(Q[rows]), model.score_samples(Q)[rows])


def test_auto_max_samples_of_inne_is_16_or_all_rows_of_fewer(X):
    for rows, psi in ((X, 16), (X[:9], 9)):
        auto, fixed = (INNE(20, choice, random_state=0).fit(rows) for choice in ("auto", psi))
        assert_array_equal(auto.score_samples(X), fixed.score_samples(X))


def test_inne_scores_are_minus_the_mean_isolation_score_of_the_inne_paper(rng):
    for X in (unit_square(rng, 0.125), unit_square(rng, 2.0**-20)):
        Q = with_queries(X, rng)
        expected = [-oracle.inne_score(q, drawn_centers(X)) for q in Q]
        scores = INNE(8, 6, random_state=0).fit(X).score_samples(Q)
        assert_allclose(scores, expected, rtol=1e-9, atol=1e-12)
        assert scores.min() == -1
        assert scores.max() <= 0


def test_inne_compares_radii_and_not_squared_radii():
    # Centers 0, 1/4 and 1 have radii 1/4, 1/4 and 3/4. The point 3/4 is in the ball of 1 alone, whose neighbour is
    # 1/4: the isolation score is 1 - (1/4) / (3/4). In the ball of 1/4 it is 1 - 1, and at 2 no ball reaches.
    model = INNE(3, 3, random_state=0).fit([[0.0], [0.25], [1.0]])
    assert_allclose(model.score_samples([[0.75], [0.25], [2.0]]), [-2 / 3, 0, -1], rtol=1e-12, atol=1e-15)
