"""What the order of groups changes, and what not: docs/explanation/exact.md."""

import numpy as np
from numpy.testing import assert_array_equal

from isobag import IDKGroupDetector


def test_scores_do_not_depend_on_the_order_in_which_groups_are_scored_but_on_that_of_fit(rng):
    parts = [rng.normal(size=(n, 2)) for n in rng.integers(5, 40, size=60)]
    model = IDKGroupDetector(10, random_state=0).fit(parts)
    assert_array_equal(model.score_samples(parts[::-1])[::-1], model.scores_)
    reversed_fit = IDKGroupDetector(10, random_state=0).fit(parts[::-1])
    assert np.abs(reversed_fit.scores_[::-1] - model.scores_).max() > 0
