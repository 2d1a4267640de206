"""Frames without rows in memory: one sentence, whichever method they are given to."""

import numpy as np
import polars as pl
import pytest

from isobag import IDKGroupDetector, IDKPointDetector

X = np.random.default_rng(0).normal(size=(60, 3))
LAZY = pl.DataFrame(X, schema=["a", "b", "c"]).lazy()


@pytest.mark.parametrize(
    "ask",
    [
        lambda: IDKPointDetector(n_estimators=5).fit(LAZY),
        lambda: IDKPointDetector(n_estimators=5).fit(X).score_samples(LAZY),
        lambda: IDKGroupDetector(n_estimators=5).fit(LAZY, groups="a"),
        lambda: IDKGroupDetector(n_estimators=5).fit(LAZY, groups=np.repeat(range(6), 10)),
    ],
)
def test_a_lazy_frame_is_refused_with_what_to_do(ask):
    with pytest.raises(TypeError, match=r"X is a LazyFrame, whose rows are not in memory; pass X.collect\(\), or use"):
        ask()
