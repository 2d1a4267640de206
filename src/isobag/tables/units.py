"""What is ranked: the rows of a table, or its groups of rows by columns of labels."""

from collections.abc import Hashable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.data.groups import Groups
from isobag.data.params import MIN_SIZE, check_params
from isobag.data.partitioned_groups import PartitionedGroups
from isobag.data.partitions import Frames
from isobag.data.rows import count_ids
from isobag.tables.labels import first_rows_of, kind_of_label, label_rows, number_rows, unpacked
from isobag.tables.learn import LocalTable, PartitionedTable, PartitionReader, Table
from isobag.tables.summary import FILE


class Units(NamedTuple):
    """The n rows of a table, or its groups numbered by first appearance.

    data : those that take part, ``Rows`` or ``Grouped``.
    places : (n,), where each stands in ``data``, -1 for those that take no part; None if all stand where they are.
    labels : columns that name them, as Arrow arrays (n,).
    first_rows : (n,), the row in which each group first appears; None for rows, or if not known.
    n_missing : (n,), missing values of a row, or rows with missing values of a group; None if there are none.
    baseline : the label of the group that each row that takes part is compared with: (m,); None if there are none.
    ends : a row of the first and one of the last file that has rows of a group: (n,) each; None if nobody asks.
    """

    data: Any
    places: Ints | None
    labels: dict[str, Any]
    first_rows: Ints | None
    n_missing: Ints | None
    baseline: Any = None
    ends: tuple[Ints, Ints] | None = None


def units_of(table: Table, min_size: int = 1) -> Units:
    """The rows of a table read in this process, or the groups of any table that have ``min_size`` rows or more."""
    check_params({"min_size": min_size}, {"min_size": MIN_SIZE})
    if isinstance(table, PartitionedTable):
        return _groups_there(table, min_size)
    assert isinstance(table, LocalTable)
    if table.by:
        return _groups_here(table, min_size)
    baseline = None
    if table.options.baseline:
        labels = label_rows([table.labels[name] for name in table.options.baseline])
        baseline = labels if table.kept is None else labels[table.kept]
    return Units(table.rows, places_among(table.kept), table.labels, None, table.gaps, baseline)


def places_among(kept: Bools | None) -> Ints | None:
    """Where each of n things stands among those kept, -1 for the others: (n,); None if all are kept."""
    return None if kept is None else np.where(kept, np.cumsum(kept) - 1, -1)


def spread(values: Any, places: Ints | None) -> Floats:
    """Values of what takes part, NaN for all else: (m,) -> (n,)."""
    if places is None:
        return np.asarray(values)
    spread_out = np.full(len(places), np.nan)
    spread_out[places >= 0] = np.asarray(values)[places[places >= 0]]
    return spread_out


def files_at(table: Table, first: Ints, last: Ints) -> dict[str, Any]:
    """The column that says which file rows are from, if the table has several: from the first to the last of each."""
    if not table.file_sizes:
        return {}
    ends = np.cumsum(table.file_sizes)
    names = pa.array(table.summary.files, pa.string())
    begin, end = (names.take(pa.array(np.searchsorted(ends, rows, side="right"))) for rows in (first, last))
    return {FILE: pc.if_else(pc.equal(begin, end), begin, pc.binary_join_element_wise(begin, end, " to "))}


def _groups_here(table: LocalTable, min_size: int) -> Units:
    ids, known = number_rows([table.labels[name] for name in table.by])
    is_labelled = ids >= 0
    first_rows = first_rows_of(ids, len(known))
    ends = None
    if table.file_sizes:
        last_rows = len(ids) - 1 - first_rows_of(ids[::-1], len(known))
        ends = first_rows, last_rows
    takes_part = is_labelled if table.kept is None else is_labelled & table.kept
    places = _places(count_ids(ids if takes_part.all() else ids[takes_part], len(known)), min_size)
    takes_part = takes_part & (np.append(places, -1) >= 0)[ids]
    inside = takes_part if table.kept is None else takes_part[table.kept]
    data = table.rows if inside.all() else table.rows.part(np.flatnonzero(inside))
    n_missing = None
    if table.gaps is not None:
        lacking = ids[is_labelled & (table.gaps > 0)]
        n_missing = np.bincount(lacking, minlength=len(known))
    own_labels = {name: unpacked(table.labels[name].take(pa.array(first_rows))) for name in table.by}
    if not takes_part.all() or places[-1] < len(known) - 1:
        ids = places[ids[takes_part]]
    return Units(Groups(data, ids, known[places >= 0]), places, own_labels, first_rows, n_missing, ends=ends)


def _groups_there(table: PartitionedTable, min_size: int) -> Units:
    counted = table.partitions.run(partial(_count_labels, table.reader), _LabelCounts.merge)
    counts = counted.counts
    all_sizes = np.array([n_kept for n_kept, *_ in counts.values()], dtype=np.int64)
    places = _places(all_sizes, min_size)
    numbers = {label: number for number, label in enumerate(label for label, (n, *_) in counts.items() if n)}
    sizes, lengths = all_sizes[all_sizes > 0], np.array(counted.lengths, dtype=np.int64)
    data = PartitionedGroups(table.partitions, table.reader, numbers, sizes, lengths, table.encoding.names)
    if len(sizes) > places.max() + 1:
        data = data.part(np.flatnonzero(places[all_sizes > 0] >= 0))
    n_missing = np.array([n_gaps for _, n_gaps, *_ in counts.values()], dtype=np.int64)
    starts = np.cumsum(table.sizes) - table.sizes
    first, last = np.array([own[2:] for own in counts.values()], dtype=np.int64).reshape(-1, 2).T
    parts: list[Any] = [(label,) for label in counts] if len(table.by) == 1 else list(counts)
    labels = {name: pa.array([label[j] for label in parts]) for j, name in enumerate(table.by)}
    own = (data, places, labels, None, n_missing if n_missing.any() else None)
    return Units(*own, ends=(starts[first], starts[last]))


def _places(sizes: Ints, min_size: int) -> Ints:
    """Numbers of the groups that are large enough among these, -1 for the others: (g,)."""
    if sizes.max(initial=0) < min_size:
        raise ValueError(f"No group has {min_size} or more rows; the largest has {sizes.max(initial=0):,}.")
    places = places_among(sizes >= min_size)
    assert places is not None
    return places


def _count_labels(reader: PartitionReader, number: int, frames: Frames) -> "_LabelCounts":
    """Rows of each label in a partition: those that take part, and those with missing values; and the partition."""
    counts: dict[Hashable, tuple[int, int, int, int]] = {}
    n_rows, types = 0, {}
    for block in reader.blocks(number, frames):
        for name in block.by:
            kind = block.labels[name].type
            if not pa.types.is_null(kind):
                types[name] = kind_of_label(kind), f"partition {number}, column {name!r} is of type {kind}"
        labels, takes_part = reader.group_labels(number, block)
        has_gaps = np.zeros(len(labels), dtype=bool) if block.gaps is None else block.gaps > 0
        n_rows += int(np.count_nonzero(takes_part))
        for label, is_kept, is_lacking in zip(labels.tolist(), takes_part.tolist(), has_gaps.tolist(), strict=True):
            if label is not None:
                n_kept, n_gaps, *_ = counts.get(label, (0, 0))
                counts[label] = (n_kept + is_kept, n_gaps + is_lacking, number, number)
    return _LabelCounts(counts, [n_rows], types)


class _LabelCounts(NamedTuple):
    """Rows of each label; rows of each partition that take part; of each column of labels its kind, and where it is.

    counts : rows of a label that take part, those with missing values, and the first and last partition that has any.
    """

    counts: dict[Hashable, tuple[int, int, int, int]]
    lengths: list[int]
    types: dict[str, tuple[str, str]]

    def merge(self, later: "_LabelCounts") -> "_LabelCounts":
        for name in self.types.keys() & later.types.keys():
            (kind, place), (later_kind, later_place) = self.types[name], later.types[name]
            if kind != later_kind:  # 7 and "7" would be two groups
                raise ValueError(f"{later_place}, but {place}; need one type.")
        counts = dict(self.counts)
        for label, (n_kept, n_gaps, first, last) in later.counts.items():
            own = counts.get(label, (0, 0, first, last))
            counts[label] = (own[0] + n_kept, own[1] + n_gaps, own[2], last)
        return _LabelCounts(counts, self.lengths + later.lengths, later.types | self.types)
