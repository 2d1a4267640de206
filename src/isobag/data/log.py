"""A log: rows with an entity and a time each. The rows of an entity in one period are a bag."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Bools, Cells, Floats, Ints
from isobag.data.groups import number_labels
from isobag.data.hashes import Hashes, hash_rows
from isobag.data.periods import Calendar
from isobag.data.rows import Rows

T = TypeVar("T")
Labels = npt.NDArray[Any]


class LogBlock(NamedTuple):
    """Some rows of a log: X (m, d), and the period and the hash of each (m,).

    codes, names : the entity of each row is names[codes]: (m,), (k,).
    cohorts : (m,), a hash of the cohort that each row names; None if rows name none.
    n_untimed : rows that are left out, as they have no time.
    """

    X: Floats
    numbers: Ints | Cells
    hashes: Hashes
    codes: Cells
    names: Labels
    cohorts: Ints | None = None
    n_untimed: int = 0


class Arrivals(NamedTuple):
    """Rows of a log: X (n, d), and the period, entity and hash of each (n,)."""

    X: Floats
    numbers: Ints | Cells
    entities: Cells
    hashes: Hashes

    def part(self, rows: Ints | Bools) -> "Arrivals":
        """Only some of the rows."""
        return Arrivals(self.X[rows], self.numbers[rows], self.entities[rows], self.hashes[rows])

    def keys(self, n_entities: int) -> Ints:
        """The key of the bag of each row, see ``BagOrder``: (n,)."""
        keys: Ints = self.numbers.astype(np.int64) * n_entities + self.entities
        return keys


class BagCounts(NamedTuple):
    """Rows of each bag of some partitions.

    names, cohorts : (k,), the entities, and the least hash of a cohort that rows of each name.
    owners, numbers, sizes : (b,), the entity of each bag by its place in ``names``, its period, and its rows.
    """

    names: Labels
    cohorts: Ints | None
    owners: Ints
    numbers: Ints
    sizes: Ints
    n_untimed: int

    @classmethod
    def of(cls, block: LogBlock) -> "BagCounts":
        """Those of a block."""
        n = max(1, len(block.names))
        keys, sizes = np.unique(block.numbers.astype(np.int64) * n + block.codes, return_counts=True)
        cohorts = None
        if block.cohorts is not None:
            cohorts = np.full(len(block.names), np.iinfo(np.int64).max)
            np.minimum.at(cohorts, block.codes, block.cohorts)
        return cls(block.names, cohorts, keys % n, keys // n, sizes, block.n_untimed)

    def merge(self, later: "BagCounts") -> "BagCounts":
        """Those of these partitions and of later ones."""
        codes, names = number_labels(np.concatenate([self.names, later.names]))
        own, other = np.split(codes, [len(self.names)])
        cohorts = None
        if self.cohorts is not None and later.cohorts is not None:
            cohorts = np.full(len(names), np.iinfo(np.int64).max)
            np.minimum.at(cohorts, codes, np.concatenate([self.cohorts, later.cohorts]))
        n, owners = max(1, len(names)), np.concatenate([own[self.owners], other[later.owners]])
        keys, places = np.unique(np.concatenate([self.numbers, later.numbers]) * n + owners, return_inverse=True)
        sizes = np.zeros(len(keys), dtype=np.int64)
        np.add.at(sizes, places, np.concatenate([self.sizes, later.sizes]))
        return BagCounts(names, cohorts, keys % n, keys // n, sizes, self.n_untimed + later.n_untimed)

    def in_order(self, known: Labels | None) -> tuple["BagOrder", Labels]:
        """The order of the bags, and all labels: new ones by their first period, and then in their own order."""
        known = np.empty(0, dtype=self.names.dtype) if known is None else known
        places = {label: place for place, label in enumerate(known.tolist())}
        ids = np.array([places.get(label, -1) for label in self.names.tolist()], dtype=np.int64)
        first = np.full(len(self.names), np.iinfo(np.int64).max)
        np.minimum.at(first, self.owners, self.numbers)
        new = ids < 0
        added = np.flatnonzero(new)[np.lexsort((_ranks(self.names[new]), first[new]))]
        ids[added] = len(known) + np.arange(len(added))
        everyone = np.concatenate([known, self.names[added]]) if len(added) else known
        keys = self.numbers * max(1, len(everyone)) + ids[self.owners]
        order = np.argsort(keys)
        keys, sizes = keys[order], self.sizes[order]
        return BagOrder(self.names, ids, max(1, len(everyone)), keys, sizes), everyone


@dataclass(frozen=True)
class BagOrder:
    """Bags by period and then by entity.

    names, ids : (k,), labels of entities, and their numbers, which are below ``n_entities``.
    keys, sizes : (b,), the key of each bag, period times n_entities + entity, ascending, and its rows.
    """

    names: Labels
    ids: Ints
    n_entities: int
    keys: Ints
    sizes: Ints

    @property
    def numbers(self) -> Ints:
        """The period of each bag: (b,)."""
        return self.keys // self.n_entities


@dataclass
class Log:
    """Rows of a log.

    features : names of the features, None where they came without; ``n_features``: how many there are.
    finds_cohorts : whether cohorts are to be found, as rows do not name them.
    """

    block: LogBlock | None
    n_features: int
    features: Sequence[str] | None
    finds_cohorts: bool = False

    def count(self) -> BagCounts:
        """Rows of each bag."""
        return BagCounts.of(self._rows)

    def release(self) -> None:
        """Give up the rows."""
        self.block = None

    @property
    def _rows(self) -> LogBlock:
        if self.block is None:
            raise ValueError("The rows of this log were given up, as it was followed before; make it anew.")
        return self.block

    def gather(self, order: BagOrder, finish: Callable[[Arrivals], T], only: Ints | None = None) -> T:
        """What is made of the rows of some bags; ``only``: keys of those that are wanted, ascending; None for all."""
        block, ids = self._rows, dict(zip(order.names.tolist(), order.ids.tolist(), strict=True))
        own = np.array([ids[label] for label in block.names.tolist()], dtype=np.int32)[block.codes]
        rows = Arrivals(block.X, block.numbers, own, block.hashes)
        if only is not None:
            keys = rows.keys(order.n_entities)
            rows = rows.part(only[np.minimum(np.searchsorted(only, keys), len(only) - 1)] == keys)
        return finish(rows)


def log_in_memory(rows: Rows, entities: Labels, moments: Ints, calendar: Calendar, peers: Labels | None) -> Log:
    """A log of one partition, from rows, and the label, time and, if any, label of the cohort of each: (n,) each."""
    X = rows.map(np.asarray)
    if entities.dtype.kind in "iu":  # without an object for each row
        labels, codes = np.unique(entities, return_inverse=True)
    else:
        codes, labels = number_labels(entities)
    cohorts = None if peers is None else hash_cohorts(*number_labels(peers))
    return log_of_block(make_block(X, moments, calendar, codes, labels, cohorts), rows.names)


def log_of_block(block: LogBlock, names: Sequence[str] | None, finds_cohorts: bool = False) -> Log:
    """A log that is one block in memory."""
    return Log(block, block.X.shape[1], names, finds_cohorts)


def make_block(
    X: Floats,
    moments: Ints,
    calendar: Calendar,
    codes: Ints,
    names: Labels,
    cohorts: Ints | None = None,
    n_untimed: int = 0,
) -> LogBlock:
    """Rows with their times as periods and in hashes; numbers of periods and entities in four bytes where they fit."""
    numbers = calendar.numbers(moments)
    if max(-int(numbers.min(initial=0)), int(numbers.max(initial=0))) < 1 << 31:
        numbers = numbers.astype(np.int32)
    return LogBlock(X, numbers, hash_rows(X, moments), codes.astype(np.int32), names, cohorts, n_untimed)


def hash_cohorts(codes: Ints, names: Labels) -> Ints:
    """62 bits of the label of each row, the same in every process: cohorts need no list of their names."""
    texts = (f"{type(label).__name__} {label!r}".encode() for label in names.tolist())
    hashes = [int.from_bytes(blake2b(text, digest_size=8).digest(), "big") >> 2 for text in texts]
    return np.array(hashes, dtype=np.int64)[codes]


def _ranks(labels: Labels) -> Ints:
    """Rank of each label among all, of any kinds."""
    listed = labels.tolist()
    try:
        order = sorted(range(len(listed)), key=listed.__getitem__)
    except TypeError:  # of kinds that have no order among each other
        order = sorted(range(len(listed)), key=lambda place: (type(listed[place]).__name__, str(listed[place])))
    ranks = np.empty(len(listed), dtype=np.int64)
    ranks[order] = np.arange(len(listed))
    return ranks
