"""Progress: the pass that runs, and the rows that are read and written."""

import sys

import numpy as np
import pytest

from isobag.cli.progress import progress
from isobag.models.calibration import discoveries
from isobag.tables.sentences import least_flagged


def test_rows_are_counted_passes_are_named_and_the_line_is_cleared_where_someone_looks(monkeypatch, capsys):
    for is_terminal, expected in ((True, ["reading 1,000 rows", "learning ...", ""]), (False, [])):
        monkeypatch.setattr(sys.stderr, "isatty", lambda answer=is_terminal: answer)
        with progress(is_silent=False) as bar:
            bar.tick("reading", 1_000, None)
            bar.stage("learning")
        assert capsys.readouterr().err.split("\r\x1b[K")[1:] == expected


@pytest.mark.parametrize("fdr", [0.01, 0.05, 0.1, 0.3])
@pytest.mark.parametrize(("n", "batch"), [(9, 5), (19, 20), (99, 1000), (999, 100), (9_999, 10_000), (1234, 777)])
def test_as_many_anomalies_are_flagged_and_not_one_fewer(n, batch, fdr):
    least = least_flagged(n, batch, fdr)
    for k in {least - 1, least, least + 1} & set(range(1, batch + 1)):
        p_values = np.ones(batch)
        p_values[:k] = 1 / (n + 1)
        assert (discoveries(p_values, fdr) == -1).sum() == (k if k >= least else 0)
