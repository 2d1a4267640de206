"""Columns that are no features: labels of groups, names of rows, and columns that are carried along."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from isobag.backends.arrays import Ints
from isobag.data.groups import is_missing_label, number_labels
from isobag.tables.batch import Batch, Source
from isobag.tables.cells import EXACT, NO_VALUE

_PLAIN_DECIMAL = r"^-?(0|[1-9][0-9]{0,7})(\.[0-9]{1,7})?$"
"""No leading zeros, which may mean something, and no more digits than float64 keeps."""


class Labels:
    """Some columns as they are, collected batch by batch; ``names``: labels, ``more``: what is only carried along."""

    def __init__(self, names: Sequence[str], more: Sequence[str] = ()) -> None:
        self._one_kind = tuple(names)
        names = tuple(dict.fromkeys([*names, *more]))
        self._parts: dict[str, list[Any]] = {name: [] for name in names}
        self._kinds: dict[str, dict[str, str]] = {name: {} for name in names}
        self._types: dict[str, dict[pa.DataType, str]] = {}

    def add(self, batch: Batch) -> None:
        """The cells of the next rows."""
        for name, parts in self._parts.items():
            parts.append(_cells(batch, name))
            self._types.setdefault(name, {}).setdefault(parts[-1].type, batch.file)
        for name, kinds in self._kinds.items():
            for kind, i in batch.kinds.get(name, {}).items():
                kinds.setdefault(kind, f"{batch.place(i)} has {batch.columns[name][i].as_py()!r}, a {kind}")
            if name in self._one_kind and len(kinds) > 1:  # 1 and "1" would be one label, 1.0 and true others
                first, second = list(kinds.values())[:2]
                raise ValueError(f"Column {name!r}: {first}, but {second}; labels need one kind of value.")

    def joined(self, as_numbers: bool = True) -> dict[str, Any]:
        """Arrow arrays (n,), null where no value stands; texts that are all whole numbers as such, if asked for.

        What was collected is given up column by column.
        """
        for name, types in self._types.items():
            if len(types) > 1:
                self._parts[name] = _of_one_type(self._parts[name], name, types)
        joined = {name: _joined(self._parts.pop(name), as_numbers) for name in list(self._parts)}
        numbers = [name for name in self._one_kind if [*self._kinds[name]] == ["number"]]
        return joined | {name: _equal_numbers(joined[name]) for name in numbers if as_numbers}


def read_labels(source: Source, names: Sequence[str]) -> dict[str, Any]:
    """Some columns of a table as they are, as Arrow arrays (n,), whatever stands in the others."""
    labels = Labels(names)
    for batch in source.frames():
        for name in names:
            if name not in (batch.columns if source.columns is None else source.columns):
                columns = ", ".join(map(repr, source.columns or batch.columns))
                raise ValueError(f"The table has no column {name!r} (columns: {columns}).")
        labels.add(batch)
    return labels.joined()


def label_rows(columns: Sequence[Any]) -> npt.NDArray[Any]:
    """One label for each row, a tuple if several columns make one; None where a part of it is missing: (n,)."""
    parts = [column.to_pylist() for column in columns]
    labels = np.empty(len(parts[0]), dtype=object)
    if len(parts) == 1:
        labels[:] = [None if is_missing_label(one) else one for one in parts[0]]
    else:
        labels[:] = [None if any(map(is_missing_label, row)) else row for row in zip(*parts, strict=True)]
    return labels


def number_rows(columns: Sequence[Any]) -> tuple[Ints, npt.NDArray[Any]]:
    """Number of each row's label and the labels, as ``label_rows`` makes them, in order of first appearance.

    (n,), -1 where a part of the label is missing; (g,). Python objects are made of labels that differ, not of rows.
    """
    parts = [_encoded(column) for column in columns]
    codes, differing = parts[0][0], [values for _, values in parts]
    if len(parts) > 1:
        shape = [len(values) + 1 for values in differing]  # null stands behind the others
        joined = np.ravel_multi_index([own % n for (own, _), n in zip(parts, shape, strict=True)], shape)
        codes, seen = _encoded(pa.array(joined))
        places = np.unravel_index(seen.to_numpy(), shape)
        with_null = [pa.concat_arrays([values, pa.nulls(1, values.type)]) for values in differing]
        differing = [values.take(pa.array(own)) for values, own in zip(with_null, places, strict=True)]
    labels = label_rows(differing)
    is_labelled = np.array([label is not None for label in labels], dtype=bool)
    numbers: Any = np.full(len(labels) + 1, -1, dtype=np.int32)  # the last is that of null; Arrow has no more labels
    numbers[:-1][is_labelled], numbered = number_labels(labels[is_labelled])
    pa.default_memory_pool().release_unused()  # Arrow's tables of what differs
    return numbers[codes], numbered


def first_rows_of(ids: Ints, n_groups: int) -> Ints:
    """The first row of each group, from the group of each row, -1 for none: (n,) -> (g,); 0 if it has none."""
    first_rows = np.zeros(n_groups + 1, dtype=np.int64)
    first_rows[ids[::-1]] = np.arange(len(ids) - 1, -1, -1)  # what is set last stays
    return first_rows[:-1]


def _encoded(column: Any) -> tuple[Any, Any]:
    """The place of each value among those that differ, -1 for null, and these in order of first appearance."""
    if pa.types.is_dictionary(column.type):
        codes, order = _encoded(column.indices)
        return codes, column.dictionary.take(order)
    if pa.types.is_nested(column.type):
        number_labels(label_rows([column]))  # which refuses them
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.string())
    encoded = column.dictionary_encode()
    return encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False), encoded.dictionary


def as_numbers(column: Any) -> Any:
    """A column of text as float64 if every cell is a plain decimal number that says no more than its value."""
    if not pa.types.is_string(column.type) or column.null_count == len(column):
        return column
    are_plain = pc.all(pc.match_substring_regex(column, _PLAIN_DECIMAL)).as_py()
    return pc.cast(column, pa.float64()) if are_plain else column


def _cells(batch: Batch, name: str) -> Any:
    column = batch.columns.get(name)
    if column is None:
        return pa.nulls(batch.n_rows, pa.string())
    if batch.is_typed and name not in batch.free:
        return column
    is_gap = pc.is_in(column, value_set=pa.array(NO_VALUE))
    return pc.replace_with_mask(column, is_gap, pa.scalar(None, column.type))


def _equal_numbers(column: Any) -> Any:
    """Numbers of JSON by their value, so that 1 and 1.0 are one label; as they stand where float64 cannot tell all."""
    if not pa.types.is_string(column.type):
        return column
    values = pc.cast(column, pa.float64())
    return values if pc.max(pc.abs(values)).as_py() < EXACT else column


def _of_one_type(parts: Sequence[Any], name: str, types: dict[pa.DataType, str]) -> list[Any]:
    """Parts of a column whose files declare different types, or none: as one type, if no value changes.

    types : and a file of each.
    """
    declared = [kind for kind in types if not pa.types.is_string(kind) and not pa.types.is_null(kind)] or [pa.string()]
    try:
        schemas = [pa.schema([("", kind)]) for kind in declared]
        common = pa.unify_schemas(schemas, promote_options="permissive").field(0).type
        same, texts = [part.cast(common) for part in parts], [pa.types.is_string(part.type) for part in parts]
        pairs = zip(parts, same, texts, strict=True)
        is_whole = pa.types.is_integer(common)  # 007 is not 7
        if all(own.cast(pa.string()).equals(part) for part, own, is_text in pairs if is_text and is_whole):
            return same
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        pass
    kinds = ", ".join(f"{'text' if pa.types.is_string(kind) else kind} in {file}" for kind, file in types.items())
    raise ValueError(f"Column {name!r} is {kinds}, and its values do not all fit one type; write them alike.")


def _joined(parts: list[Any], as_whole_numbers: bool) -> Any:
    if not parts:
        return pa.nulls(0, pa.string())
    whole = pa.chunked_array(parts).combine_chunks()
    parts.clear()
    if not as_whole_numbers or not pa.types.is_string(whole.type):
        return whole
    try:
        numbers = pc.cast(whole, pa.int64())
    except pa.ArrowInvalid:
        return whole
    # Written as Python would write them, so that nothing is lost.
    return numbers if numbers.null_count < len(numbers) and numbers.cast(pa.string()).equals(whole) else whole
