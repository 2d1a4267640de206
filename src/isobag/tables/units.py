"""What is ranked: the rows of a table, or its groups of rows by columns of labels."""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from isobag.backends.arrays import Bools, Ints
from isobag.data.groups import Groups
from isobag.data.params import MIN_SIZE, check_params
from isobag.tables.labels import first_rows_of, label_rows, number_rows
from isobag.tables.learn import Table
from isobag.tables.summary import FILE


class Units(NamedTuple):
    """The n rows of a table, or its groups numbered by first appearance.

    data : those that take part, ``Rows`` or ``Groups``.
    positions : (n,), where each stands in ``data``, -1 for those that take no part; None if all stand where they are.
    labels : columns that name them, as Arrow arrays (n,).
    first_rows : (n,), the row in which each group first appears; None for rows, or if not known.
    n_missing : (n,), missing values of a row, or rows with missing values of a group; None if there are none.
    baseline : the label of the group that each row that takes part is compared with: (m,); None if there are none.
    ends : a row of the first and one of the last file that has rows of a group: (n,) each; None if not asked for.
    """

    data: Any
    positions: Ints | None
    labels: dict[str, Any]
    first_rows: Ints | None
    n_missing: Ints | None
    baseline: Any = None
    ends: tuple[Ints, Ints] | None = None


def units_of(table: Table, min_size: int = 1) -> Units:
    """The rows of a table, or its groups that have ``min_size`` rows or more."""
    check_params({"min_size": min_size}, {"min_size": MIN_SIZE})
    if table.by:
        return _groups_of(table, min_size)
    baseline = None
    if table.options.baseline:
        labels = label_rows([table.labels[name] for name in table.options.baseline])
        baseline = labels if table.takes_part is None else labels[table.takes_part]
    return Units(table.rows, places_among(table.takes_part), table.labels, None, table.gaps, baseline)


def places_among(takes_part: Bools | None) -> Ints | None:
    """Where each of n things stands among those that take part, -1 for the others: (n,); None if all do."""
    return None if takes_part is None else np.where(takes_part, np.cumsum(takes_part) - 1, -1)


def spread(values: Any, places: Ints | None) -> Any:
    """Values of what takes part; NaN for all else, or False: (m,) -> (n,)."""
    values = np.asarray(values)
    if places is None:
        return values
    is_bool = values.dtype == bool
    whole = np.full(len(places), False if is_bool else np.nan)
    whole[places >= 0] = values[places[places >= 0]]
    return whole


def files_at(table: Table, first: Ints, last: Ints) -> dict[str, Any]:
    """The column that says which file rows are from, if the table has several: from the first to the last of each."""
    if not table.file_sizes:
        return {}
    ends = np.cumsum(table.file_sizes)
    names = pa.array(table.summary.files, pa.string())
    begin, end = (names.take(pa.array(np.searchsorted(ends, rows, side="right"))) for rows in (first, last))
    return {FILE: pc.if_else(pc.equal(begin, end), begin, pc.binary_join_element_wise(begin, end, " to "))}


def _groups_of(table: Table, min_size: int) -> Units:
    ids, labels = number_rows([table.labels[name] for name in table.by])
    is_labelled = ids >= 0
    first_rows = first_rows_of(ids, len(labels))
    ends = None
    if table.file_sizes:
        last_rows = len(ids) - 1 - first_rows_of(ids[::-1], len(labels))
        ends = first_rows, last_rows
    takes_part = is_labelled if table.takes_part is None else is_labelled & table.takes_part
    sizes = np.bincount(ids[takes_part], minlength=len(labels))
    if sizes.max(initial=0) < min_size:
        raise ValueError(f"No group has {min_size} or more rows; the largest has {sizes.max(initial=0):,}.")
    places: Any = places_among(sizes >= min_size)
    takes_part = takes_part & (np.append(places, -1) >= 0)[ids]
    inside = takes_part if table.takes_part is None else takes_part[table.takes_part]
    data = table.rows if inside.all() else table.rows.part(np.flatnonzero(inside))
    n_missing = None
    if table.gaps is not None:
        lacking = ids[is_labelled & (table.gaps > 0)]
        n_missing = np.bincount(lacking, minlength=len(labels))
    own_labels = {name: table.labels[name].take(pa.array(first_rows)) for name in table.by}
    if not takes_part.all() or places[-1] < len(labels) - 1:
        ids = places[ids[takes_part]]
    return Units(Groups(data, ids, labels[places >= 0]), places, own_labels, first_rows, n_missing, ends=ends)
