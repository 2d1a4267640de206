"""Progress: the pass that runs, and the rows that are read and written."""

import numpy as np
import pytest

from isobag.cli.progress import Bar
from isobag.models.calibration import discoveries
from isobag.tables.sentences import least_flagged


class Line:
    """What a person would see, one entry a change."""

    def __init__(self):
        self.seen = []

    def add_task(self, *args, **how):
        return 0

    def update(self, task, *, description, completed, total, count):
        self.seen.append((description, completed, total, count))


def test_rows_are_counted_and_passes_are_named():
    line = Line()
    bar = Bar(line)
    bar.tick("reading", 1_000, 4_000)
    with bar.stage("learning"):
        pass
    assert line.seen == [("reading", 1_000, 4_000, "1,000 rows"), ("learning", 0, None, "")]


@pytest.mark.parametrize("fdr", [0.01, 0.05, 0.1, 0.3])
@pytest.mark.parametrize(("n", "batch"), [(9, 5), (19, 20), (99, 1000), (999, 100), (9_999, 10_000), (1234, 777)])
def test_as_many_anomalies_are_flagged_and_not_one_fewer(n, batch, fdr):
    least = least_flagged(n, batch, fdr)
    for k in {least - 1, least, least + 1} & set(range(1, batch + 1)):
        p_values = np.ones(batch)
        p_values[:k] = 1 / (n + 1)
        assert (discoveries(p_values, fdr) == -1).sum() == (k if k >= least else 0)
