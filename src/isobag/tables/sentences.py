"""What there is to say about a ranking, in sentences: for the command and the report."""

import numpy as np

from isobag.tables.distributed import DistributedRanking
from isobag.tables.ranking import Ranking

MOST_NAMES = 20


Ranked = Ranking | DistributedRanking


def sentences_of(ranking: Ranked) -> list[str]:
    """All of it."""
    names = ranking.columns_used
    more = len(names) - MOST_NAMES
    columns = ", ".join(names) if more <= 1 else f"{', '.join(names[:MOST_NAMES])} and {more:,} more columns"
    first = f"{len(ranking):,} {ranking.unit}s, {ranking.n_flagged:,} flagged ({ranking.rule}); looked at {columns}."
    return [first, sentence_of_alarms(ranking), *remarks_of(ranking)]


def sentence_of_alarms(ranking: Ranked) -> str:
    """How many of those flagged would be false alarms, or why that is not known."""
    n_flagged = ranking.n_flagged
    if not ranking.is_new:
        return (
            "The oddest of a table are flagged whether or not anything is wrong with them; to know how many alarms are "
            "false, fit a model to data known to be normal and use isobag score."
        )
    if ranking.n_expected is None:
        return "How many alarms are false is not known: there are no p-values."
    if ranking.fdr is not None:
        return f"Of {n_flagged:,} flagged, about {ranking.n_expected:.3g} or fewer are false alarms, on average."
    sentence = f"About {ranking.n_expected:.3g} of them would be flagged if all were like the training data"
    is_more = n_flagged > ranking.n_expected + 2 * np.sqrt(ranking.n_expected)
    return f"{sentence}." if is_more or not n_flagged else f"{sentence}: all {n_flagged:,} alarms may be false."


def remarks_of(ranking: Ranked) -> list[str]:
    """What is not plain about the order, and about the table."""
    remarks = []
    n_out = len(ranking) - ranking.n_ranked
    if n_out and ranking.unit == "group":
        remarks.append(f"{n_out:,} groups are not ranked: too few rows.")
    if ranking.n_tied > 1:
        remarks.append(f"The {ranking.n_tied:,} oddest score alike; among them the order means nothing.")
    return [*remarks, *ranking.summary.sentences()]
