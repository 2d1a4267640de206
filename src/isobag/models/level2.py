"""Level 2 of the group detector: what any way to score mean maps must offer. ``LEVEL2`` in ``group`` lists them."""

from abc import ABC, abstractmethod
from typing import NamedTuple, Self

from isobag.backends import Compute
from isobag.backends.arrays import Floats
from isobag.backends.learned import Learned
from isobag.models.maps import LazyMaps
from isobag.partitionings.counts import MeanMaps

AnyMaps = MeanMaps | LazyMaps


class Level2Params(NamedTuple):
    """How level 2 learns.

    n_partitionings : number of samples of level 1.
    n_estimators, max_samples : number of partitionings of groups and their psi, None if it draws none.
    """

    n_partitionings: int
    n_estimators: int
    max_samples: int | None


class Level2(Learned, ABC):
    """How the mean maps of groups are scored: a frozen data class."""

    @classmethod
    @abstractmethod
    def fit(cls, maps: AnyMaps, params: Level2Params, seed: int, compute: Compute) -> tuple[Self, Floats]:
        """Learn from groups; also their scores: (g,)."""

    @abstractmethod
    def scores(self, maps: AnyMaps, compute: Compute) -> Floats:
        """How normal each group is: (g,), 0 or more, higher = more normal."""

    @property
    def max_samples(self) -> int | None:
        """The largest psi of its partitionings; None if it draws none."""
        return None

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of columns of the mean maps."""
