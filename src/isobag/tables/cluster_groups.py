"""Groups of the rows of Dask and Spark frames, which may lie in any number of partitions.

A few thousand groups, drawn by a hash of their labels, are counted where they lie, and learned from by their counts.
All groups are scored in ``isobag.tables.buckets``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.data.params import MIN_SIZE, check_params
from isobag.data.rows import ArrayRows, Rows, group_rows
from isobag.engines import Frames, Partitions
from isobag.models.calibration import draw_folds
from isobag.models.counted import Counter, GroupCounts, merge_group_counts
from isobag.models.group import CALIBRATION_GROUPS, LEARNED_GROUPS, draw_level1
from isobag.models.neighbours import MOST_REFERENCES
from isobag.tables.clusters import Watched, in_memory, merge_if_any
from isobag.tables.encode import Encoding
from isobag.tables.framesource import FrameSource
from isobag.tables.labels import Labels, first_rows_of, number_rows
from isobag.tables.learn import Table, learn_table
from isobag.tables.reading import ReadOptions

_ROW_BITS = 40


class Candidate(NamedTuple):
    """A group that may be learned from: the hash of its label, its number of rows, and where its first row is."""

    hashed: int
    size: int
    first: int


Candidates = dict[Any, Candidate]


class Piece(NamedTuple):
    """Some rows of a partition, and their groups.

    X, ids : (m, d), (m,), rows that take part, and the number of the group of each.
    labels, sizes, n_gaps : (k,) of the groups, rows that take part, and rows with missing values.
    first : (k,), where the first row of each is, as a number that rises with the place.
    """

    X: Floats
    ids: Ints
    labels: npt.NDArray[Any]
    sizes: Ints
    n_gaps: Ints
    first: Ints


@dataclass(frozen=True)
class GroupReader:
    """Reads the rows of a partition and the groups that they belong to; pickles."""

    encoding: Encoding
    options: ReadOptions

    def pieces(self, number: int, frames: Frames) -> Iterator[Piece]:
        """Some rows of a partition at a time."""
        options = self.options.following(self.encoding)
        names = tuple(dict.fromkeys([*(options.features or ()), *self.options.apart]))
        plain = replace(ReadOptions(), missing=options.missing, bad_cells=options.bad_cells)
        for source in Watched(number, frames, names).sources():
            codes, labels = label_codes(source, options, number)
            table = learn_table(source, plain, encoding=self.encoding, spool=in_memory)
            takes_part = codes >= 0 if table.takes_part is None else table.takes_part & (codes >= 0)
            inside = takes_part if table.takes_part is None else takes_part[table.takes_part]
            gaps = np.zeros(len(codes), dtype=bool) if table.gaps is None else table.gaps > 0
            sizes, n_gaps = (_count(codes[rows], len(labels)) for rows in (takes_part, gaps))
            X = table.X if inside.all() else table.X[inside]
            yield Piece(X, codes[takes_part], labels, sizes, n_gaps, _first(codes, len(labels), source, number))

    def sizes(self, number: int, frames: Frames) -> Iterator[tuple[npt.NDArray[Any], Ints, Ints]]:
        """Labels, rows that take part and the places of the first rows: of some rows of a partition at a time."""
        if self.options.missing == "drop":  # which rows take part depends on their features
            yield from ((piece.labels, piece.sizes, piece.first) for piece in self.pieces(number, frames))
            return
        for source in Watched(number, frames, tuple(self.options.apart)).sources():
            codes, labels = label_codes(source, self.options, number)
            yield labels, _count(codes, len(labels)), _first(codes, len(labels), source, number)


def label_codes(source: FrameSource, options: ReadOptions, number: int) -> tuple[Ints, npt.NDArray[Any]]:
    """The number of each row's group, -1 for none, and the labels of these groups: (n,), (k,)."""
    collected = Labels(tuple(options.apart))
    for batch in source.frames():
        collected.add(batch)
    columns = collected.joined(as_numbers=False)
    if options.bags is not None:
        columns[options.bags.name] = options.bags.starts(columns, options.by, options.dates)
    codes, labels = number_rows([columns[name] for name in options.labels])
    if options.missing != "drop" and len(codes) and codes.min() < 0:
        row = source.first_row + int(np.argmin(codes))
        raise ValueError(
            f"{', '.join(options.labels)}: row {row:,} of partition {number} has no label; pass missing='drop' to "
            "leave such rows out."
        )
    return codes.astype(np.int64), labels


def find_candidates(reader: GroupReader, most: int, number: int, frames: Frames) -> Candidates:
    """The groups of a partition whose labels have the lowest hashes, with their rows that take part here."""
    total: Candidates = {}
    for labels, sizes, first in reader.sizes(number, frames):
        candidates = zip(labels.tolist(), sizes.tolist(), first.tolist(), strict=True)
        total = merge_candidates(most, total, {label: Candidate(hash_of(label), *of) for label, *of in candidates})
    return total


def merge_candidates(most: int, a: Candidates, b: Candidates) -> Candidates:
    """Those of both with the lowest hashes. A group among these is so wherever it has rows: sizes are of all."""
    both = a | b
    for label in a.keys() & b.keys():
        both[label] = Candidate(a[label].hashed, a[label].size + b[label].size, min(a[label].first, b[label].first))
    lowest = sorted(both, key=lambda label: both[label].hashed)[:most]
    return {label: both[label] for label in lowest}


def hash_of(label: Any) -> int:
    """62 bits of a label, the same in every process."""
    parts = (int(one) if isinstance(one, float) and one.is_integer() else one for one in _parts(label))
    text = "\0".join(f"{type(one).__name__} {one!r}" for one in parts)
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") >> 2


def count_pieces(reader: GroupReader, counters: list[Counter], chosen: set[Any], number: int, frames: Frames) -> Any:
    """Counts of the chosen groups of a partition; None if it has none of them."""
    total: GroupCounts | None = None
    for piece in reader.pieces(number, frames):
        wanted = np.array([label in chosen for label in piece.labels.tolist()], dtype=bool)
        if wanted.any():
            total = add_counted(total, count_piece(piece, wanted, counters))
    return total


add_counted: Any = partial(merge_if_any, lambda a, b: merge_group_counts([a, b]))
"""Counts of both, of which some partitions have none."""


def count_piece(piece: Piece, wanted: Bools, counters: list[Counter]) -> GroupCounts:
    """Counts of some groups of a piece: (k,)."""
    places, rows = np.cumsum(wanted) - 1, wanted[piece.ids]
    block = group_rows(piece.X[rows], places[piece.ids[rows]])
    counts = tuple(counter.counts(block, int(places[-1]) + 1) for counter in counters)
    return GroupCounts(piece.labels[wanted], piece.sizes[wanted], piece.n_gaps[wanted], piece.first[wanted], counts)


def learn_groups(partitions: Partitions, table: Table, detector: Any, min_size: int) -> None:
    """Fit a detector to a few thousand groups of a table, of whose rows some were sampled."""
    check_params({"min_size": min_size}, {"min_size": MIN_SIZE})
    options, seed = table.options, detector.random_state
    if options.bags is not None and options.bags.sessions is not None:
        raise ValueError(f"sessions={options.bags.sessions!r} needs all rows of a label in one place; choose every=.")
    if not isinstance(seed, int):
        seed = int(check_random_state(seed).randint(2**31 - 1))
    detector.set_params(random_state=seed)
    reader, most = GroupReader(table.encoding, options), MOST_REFERENCES * (1 if min_size == 1 else 4)
    candidates = partitions.reduce(partial(find_candidates, reader, most), partial(merge_candidates, most))
    lowest = sorted((label for label, one in candidates.items() if one.size >= min_size), key=candidates.__getitem__)
    if not lowest:
        largest = max((one.size for one in candidates.values()), default=0)
        raise ValueError(f"No group has {min_size} or more rows; the largest has {largest:,}.")
    chosen = sorted(lowest[:MOST_REFERENCES], key=lambda label: candidates[label].first)
    small = {label for label, one in candidates.items() if one.size < min_size}
    drawn = draw_all(table, detector, chosen, small)
    counters = [counter for own in drawn.values() for counter in own.counters(detector.compute)]
    counts = partitions.reduce(partial(count_pieces, reader, counters, set(chosen)), add_counted)
    groups = counts.groups(table.rows, [counter.key for counter in counters])
    groups.drawn.update(drawn)
    detector.fit(groups)
    detector.table_ = table.encoding.to_text()


def draw_all(table: Table, detector: Any, chosen: list[Any], small: set[Any]) -> dict[int, Any]:
    """By random state, what is drawn for the model and for those of its folds.

    No row of a group that a fold sets aside is among those that it draws from, nor is one of ``small`` groups.
    """
    params, compute = detector.params, detector.compute
    codes, labels = number_rows([table.labels[name] for name in table.options.labels])
    codes = codes if table.takes_part is None else codes[table.takes_part]

    def rows_without(groups: set[Any]) -> Rows:
        learned = np.array([label not in groups for label in labels.tolist()], dtype=bool)[codes]
        if not learned.any():
            raise ValueError("The sample has no rows of groups to learn from: fit on more rows.")
        return table.rows if learned.all() else ArrayRows(table.X[learned], table.rows.names)

    drawn = {params.random_state: draw_level1(rows_without(small), params, compute)}
    if not detector.calibrates:
        return drawn
    folds = draw_folds(len(chosen), CALIBRATION_GROUPS, LEARNED_GROUPS, params.random_state)
    for fold in folds:
        aside = {chosen[place] for place in fold.aside.tolist()}
        fold_params = params.of_part(fold.seed, len(folds))
        drawn[fold.seed] = draw_level1(rows_without(small | aside), fold_params, compute)
    return drawn


def _parts(label: Any) -> tuple[Any, ...]:
    return label if isinstance(label, tuple) else (label,)


def _count(codes: Ints, n: int) -> Ints:
    """How many rows each of n groups has, from the number of each row's group, -1 for none."""
    return np.bincount(codes[codes >= 0], minlength=n)


def _first(codes: Ints, n: int, source: FrameSource, number: int) -> Ints:
    """The place of the first row of each group, which rises with partitions and rows."""
    return first_rows_of(codes, n) + source.first_row + (number << _ROW_BITS)
