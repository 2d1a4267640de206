"""Groups whose points were counted where they lie: a model is learned from their counts, and scores them, too.

Level 1 and the columns of a model each count the points of a group by themselves, so what is counted has a key: the
views, or the edges of the bins. Counts of the same points in several places add up.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.data.groups import Groups, number_labels
from isobag.data.rows import GroupedBlock, Rows, group_rows
from isobag.partitionings.counts import MeanMaps, merge_counts


@dataclass(frozen=True)
class Counter:
    """How the points of groups are counted.

    key : under which a model finds counts that were made before.
    count : a block of rows sorted by group -> counts of these groups, (g, columns).
    n_columns, most_of_point : number of columns, and in how many of them a point can count.
    """

    key: Any
    count: Callable[[GroupedBlock], csr_array]
    n_columns: int
    most_of_point: int

    def counts(self, block: GroupedBlock, n_groups: int) -> csr_array:
        """Counts of groups, of which the block has some or none: (g, columns)."""
        if not len(block.X):
            return csr_array((n_groups, self.n_columns), dtype=np.int64)
        return merge_counts([self.count(block)], block.numbers, n_groups)


@dataclass(frozen=True, eq=False)
class GroupCounts:
    """What is known of some groups from some of their rows.

    labels, sizes : (g,), and the number of points of each.
    n_gaps : (g,), rows with missing values.
    first : (g,), where the first row of each is, as a number that rises with the place.
    counts : of each counter: (g, columns), sparse.
    """

    labels: npt.NDArray[Any]
    sizes: Ints
    n_gaps: Ints
    first: Ints
    counts: tuple[csr_array, ...]

    def part(self, chosen: Ints) -> "GroupCounts":
        """Only some of the groups, by their places: (k,)."""
        counts = tuple(csr_array(own[chosen]) for own in self.counts)
        return GroupCounts(self.labels[chosen], self.sizes[chosen], self.n_gaps[chosen], self.first[chosen], counts)

    def groups(self, rows: Rows, keys: Iterable[Any]) -> "CountedGroups":
        """As groups for models that ask by these keys, in the order of the counters."""
        maps = [(key, MeanMaps(counts, self.sizes)) for key, counts in zip(keys, self.counts, strict=True)]
        return CountedGroups(rows, self.labels, self.sizes, maps)


def merge_group_counts(parts: Sequence[GroupCounts]) -> GroupCounts:
    """What is known of the groups of all parts, by label, in order of their first rows."""
    numbers, labels = number_labels(np.concatenate([one.labels for one in parts]))
    first = np.full(len(labels), np.iinfo(np.int64).max)
    np.minimum.at(first, numbers, np.concatenate([one.first for one in parts]))
    order = np.argsort(first, kind="stable")
    places = np.argsort(order)[numbers]
    sizes, n_gaps = np.zeros((2, len(labels)), dtype=np.int64)
    np.add.at(sizes, places, np.concatenate([one.sizes for one in parts]))
    np.add.at(n_gaps, places, np.concatenate([one.n_gaps for one in parts]))
    counts = (merge_counts(counts, places, len(labels)) for counts in zip(*(one.counts for one in parts), strict=True))
    return GroupCounts(labels[order], sizes, n_gaps, first[order], tuple(counts))


class Piece(NamedTuple):
    """Some rows, and their groups.

    groups : k groups, not counted.
    X, ids : (m, d), (m,), rows that take part, and the number of the group of each.
    """

    groups: GroupCounts
    X: Floats
    ids: Ints

    def part(self, chosen: Bools) -> "Piece":
        """Only some of the groups: (k,)."""
        places, rows = np.cumsum(chosen) - 1, chosen[self.ids]
        return Piece(self.groups.part(np.flatnonzero(chosen)), self.X[rows], places[self.ids[rows]])

    def counted(self, counters: Sequence[Counter]) -> GroupCounts:
        """The groups with counts of their rows."""
        block = group_rows(self.X, self.ids)
        return replace(self.groups, counts=tuple(own.counts(block, len(self.groups.labels)) for own in counters))


def join_pieces(pieces: Sequence[Piece]) -> Piece:
    """All rows, and groups in order of their first rows."""
    groups = merge_group_counts([piece.groups for piece in pieces])
    numbers = {label: number for number, label in enumerate(groups.labels.tolist())}
    ids = [np.array([numbers[one] for one in own.groups.labels.tolist()], dtype=np.int64)[own.ids] for own in pieces]
    return Piece(groups, np.concatenate([piece.X for piece in pieces]), np.concatenate(ids))


class CountedGroups(Groups):
    """Groups whose counts are here, and of whose rows there is but a sample, if any.

    maps : of each key the mean maps of the groups.
    drawn : by random state, what was drawn before the groups were counted; to learn from them.
    """

    maps: Sequence[tuple[Any, MeanMaps]]
    drawn: dict[int, Any]

    def __init__(self, rows: Rows, labels: npt.NDArray[Any], sizes: Ints, maps: Sequence[tuple[Any, MeanMaps]]) -> None:
        ids = np.empty(0, dtype=np.int64)
        self.__dict__.update(rows=rows, ids=ids, labels=labels, sizes=sizes, maps=maps, drawn={})

    def part(self, numbers: Ints) -> "CountedGroups":
        """Only the groups with the numbers given, in that order: (k,)."""
        maps = [(key, means[numbers]) for key, means in self.maps]
        part = CountedGroups(self.rows, self.labels[numbers], self.sizes[numbers], maps)
        part.drawn.update(self.drawn)
        return part

    def maps_by(self, key: Any) -> MeanMaps:
        """The mean maps that were counted for a key."""
        return next(means for counted, means in self.maps if counted is key)
