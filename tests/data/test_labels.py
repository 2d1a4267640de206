"""Labels of groups: numbered in order of first appearance, one by one or a run of equal ones at a time."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from isobag.data.groups import number_labels

LABELS = {
    "numbers": np.array([7, 7, 3, 3, 3, 7, 0, 3]),
    "floats": np.array([0.0, -0.0, 1.5, 1.5, 0.0]),
    "words": np.array(["b", "b", "a", "b"]),
    "truth": np.array([True, True, False]),
    "dates": np.array(["2020-01-02", "2020-01-02", "2020-01-01"], dtype="datetime64[D]"),
    "none": np.array([], dtype=np.int64),
}


@pytest.mark.parametrize("kind", LABELS)
def test_runs_of_labels_are_numbered_as_labels_one_by_one(kind):
    labels = LABELS[kind]
    ids, names = number_labels(labels)
    one_by_one, same_names = number_labels(labels.astype(object))
    assert_array_equal(ids, one_by_one)
    assert_array_equal(names, same_names.astype(labels.dtype))
    assert_array_equal(names[ids], labels)


def test_the_row_of_a_missing_label_is_named_behind_runs():
    with pytest.raises(ValueError, match="row 3"):
        number_labels(np.array([1.0, 1.0, 2.0, np.nan, np.nan]))
