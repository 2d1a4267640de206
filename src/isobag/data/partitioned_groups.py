"""Groups whose rows lie in partitions, wherever and in how many: rows stay, counts are merged by label."""

from collections.abc import Hashable, Iterator, Sequence
from operator import add
from typing import Any

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Floats, Ints
from isobag.backends.threads import slices
from isobag.data.groups import Grouped, Groups
from isobag.data.partitions import Frames, PartitionedRows, Partitions, Read, count_rows
from isobag.data.rows import GROUPED_ROWS, ArrayRows, GroupedBlock, group_rows

Numbers = dict[Hashable, int]
"""The number of each label that takes part."""


class PartitionedGroups(Grouped):
    """Groups of the rows of all partitions.

    read : from a partition to its rows and their labels; rows with a label that has no number take no part.
    numbers : of the labels, in order of first appearance.
    sizes : (g,), number of rows of each group.
    lengths : (p,), number of rows of each partition that take part.
    """

    def __init__(
        self,
        partitions: Partitions,
        read: Read,
        numbers: Numbers,
        sizes: Ints,
        lengths: Ints,
        names: Sequence[str],
    ) -> None:
        self.labels = _as_array(numbers)
        self.partitions, self.read, self.numbers, self.lengths = partitions, read, numbers, lengths
        self._sizes = sizes
        self.rows = PartitionedRows(partitions, _without_labels(read, numbers), lengths, names)

    @property
    def sizes(self) -> Ints:
        """Number of points of each group: (g,)."""
        return self._sizes

    def part(self, numbers: Ints) -> "PartitionedGroups":
        """Only the groups with the numbers given, in that order: (k,)."""
        assert self.rows.names is not None
        chosen = self.numbers_of(numbers)
        lengths = count_rows(self.partitions, _without_labels(self.read, chosen))
        return PartitionedGroups(self.partitions, self.read, chosen, self.sizes[numbers], lengths, self.rows.names)

    def numbers_of(self, numbers: Ints) -> Numbers:
        """Some groups numbered anew, in the order given: (k,)."""
        return {label: number for number, label in enumerate(self.labels[numbers].tolist())}

    def gather(self, numbers: Ints) -> Groups:
        """Some groups with all their rows, brought here: (k,)."""
        read, chosen = self.read, self.numbers_of(numbers)
        parts = self.partitions.run(lambda number, frames: [*_numbered(read, chosen, number, frames)], add)
        ids = np.concatenate([own for _, own in parts])
        return Groups(ArrayRows(np.concatenate([X for X, _ in parts]), self.rows.names), ids, self.labels[numbers])


def grouped_blocks(read: Read, numbers: Numbers, number: int, frames: Frames) -> Iterator[GroupedBlock]:
    """The rows of a partition whose labels have numbers, those of a group side by side within each block."""
    for X, ids in _numbered(read, numbers, number, frames):
        for rows in slices(len(X), GROUPED_ROWS):
            yield group_rows(X[rows], ids[rows])


def _numbered(read: Read, numbers: Numbers, number: int, frames: Frames) -> Iterator[tuple[Floats, Ints]]:
    """Rows whose labels have numbers, and these: (m, d), (m,)."""
    for X, labels in read(number, frames):
        assert labels is not None
        ids = np.fromiter((numbers.get(label, -1) for label in labels.tolist()), np.int64, len(labels))
        takes_part = ids >= 0
        yield (X, ids) if takes_part.all() else (X[takes_part], ids[takes_part])


def _without_labels(read: Read, numbers: Numbers) -> Read:
    """Rows that have a label with a number, without it."""
    return lambda number, frames: ((X, None) for X, _ in _numbered(read, numbers, number, frames))


def _as_array(numbers: Numbers) -> npt.NDArray[Any]:
    labels = np.empty(len(numbers), dtype=object)
    labels[:] = list(numbers)
    return labels
