"""The feature that says most about a finding, as it was in the entity's past and in its peers."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from isobag.backends.arrays import Array, Bools, Floats, Ints
from isobag.data.periods import Calendar
from isobag.models.bags import PeriodLines
from isobag.models.entities import evenly_spaced

MOST_HISTORIES = 24
"""Findings of a period that have a history, the oddest."""
_MOST_PEERS = 512
_LEAST_PAST = 3


class History(NamedTuple):
    """The mean of a feature in the latest periods of an entity, the finding last: (m,) each.

    values : NaN where the entity has no rows.
    flagged : whether the entity was flagged.
    low, high : 10 % and 90 % of the means of its peers; NaN where it has none.
    """

    name: str
    periods: Array
    values: Floats
    flagged: Bools
    low: Floats
    high: Floats


def history_of(
    line: int,
    lines: PeriodLines,
    is_flagged: Bools,
    past: Sequence[PeriodLines],
    cohorts: Ints,
    names: Sequence[str],
    calendar: Calendar,
) -> History | None:
    """The history of a line of a period; None for a silent one, or one without a past and peers to compare with.

    The feature is the one whose mean is farthest from that of the own past, or of peers where that is too short, in
    their interquartile ranges. cohorts : (e,), the cohort of each entity.
    """
    if not lines.sizes[line]:
        return None
    entity, every = int(lines.entities[line]), (*past, lines)
    places = [int(one.places(np.array([entity]))[0]) for one in every]
    has_rows = np.array([place >= 0 and one.sizes[place] > 0 for one, place in zip(every, places, strict=True)])
    peers = [_peers(one, entity, cohorts) for one in every]
    own = [one.means[place] for one, place, known in zip(past, places, has_rows[:-1], strict=False) if known]
    known = np.array(own) if len(own) >= _LEAST_PAST else peers[-1]
    if len(known) < _LEAST_PAST:
        return None
    first, middle, third = np.quantile(known, [0.25, 0.5, 0.75], axis=0)
    away = np.abs(lines.means[line] - middle)
    feature = int(np.argmax(away / np.maximum(third - first, 1e-9 * np.maximum(np.abs(middle), 1e-9))))
    values = [
        float(one.means[place, feature]) if place >= 0 else np.nan for one, place in zip(every, places, strict=True)
    ]
    flags = [place >= 0 and bool(one.flagged[place]) for one, place in zip(past, places, strict=False)]
    bands = [np.quantile(one[:, feature], [0.1, 0.9]) if len(one) else (np.nan, np.nan) for one in peers]
    low, high = np.array(bands).T
    numbers = np.array([one.number for one in every], dtype=np.int64)
    return History(
        names[feature],
        calendar.dates(numbers),
        np.where(has_rows, values, np.nan),
        np.array([*flags, is_flagged[line]], dtype=bool),
        low,
        high,
    )


def _peers(period: PeriodLines, entity: int, cohorts: Ints) -> Floats:
    """Means of some other entities of the cohort that have rows in a period: (k, d)."""
    is_peer = (period.sizes > 0) & (period.entities != entity) & (cohorts[period.entities] == cohorts[entity])
    means: Floats = period.means[evenly_spaced(np.flatnonzero(is_peer), _MOST_PEERS)].astype(np.float64)
    return means
