"""Detectors over many sets: average ranks, Friedman's test and Nemenyi's, as the paper compares them."""

from typing import NamedTuple

import numpy as np
import pandas as pd
import scikit_posthocs
from scipy.stats import friedmanchisquare, rankdata

from isobag.backends.arrays import Floats


class Comparison(NamedTuple):
    """Average rank of each detector, p-value of Friedman's test, and those of Nemenyi's for each pair of detectors."""

    average_ranks: dict[str, float]
    friedman: float
    nemenyi: pd.DataFrame


def rank_rows(auc: Floats) -> Floats:
    """Rank of each detector on each set, 1 = highest AUC, ties shared; one without an AUC (NaN) is last: (sets, k)."""
    ranks: Floats = rankdata(-np.where(np.isnan(auc), -np.inf, auc), axis=1)
    return ranks


def compare(auc: Floats, detectors: tuple[str, ...]) -> Comparison | None:
    """The comparison over sets, (sets, k); None for fewer than two sets, on which nothing can be tested."""
    if len(auc) < 2:
        return None
    ranks = rank_rows(auc)
    averages = dict(zip(detectors, ranks.mean(axis=0).tolist(), strict=True))
    # The tests rank what they are given anew: of minus the ranks they make the same ranks, with NaN last.
    table = pd.DataFrame(-ranks, columns=list(detectors))
    return Comparison(
        averages, float(friedmanchisquare(*ranks.T).pvalue), scikit_posthocs.posthoc_nemenyi_friedman(table)
    )
