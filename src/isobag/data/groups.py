"""Groups of points: rows with labels, a list of arrays, or a frame with a column of labels."""

import sys
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from isobag.backends.arrays import Floats, Ints
from isobag.data.device import as_tensor, lives_on_gpu
from isobag.data.frames import refuse_lazy
from isobag.data.rows import ArrayRows, GroupedBlock, Rows
from isobag.data.validation import as_rows, check_points, feature_names_of, name_group_in_error


@dataclass(frozen=True)
class Groups:
    """Rows, which need not be in memory, the group of each, ids (n,), and labels (g,) by first appearance."""

    rows: Rows
    ids: Ints
    labels: npt.NDArray[Any]

    def __len__(self) -> int:
        """Number of groups."""
        return len(self.labels)

    @cached_property
    def sizes(self) -> Ints:
        """Number of points of each group: (g,)."""
        return np.bincount(self.ids, minlength=len(self.labels))

    def blocks(self, stops: Ints | None = None) -> Iterator[GroupedBlock]:
        """All points, sorted by group; ``stops``: the groups before which a block must end."""
        return self.rows.grouped_blocks(self.ids, stops)

    @property
    def points(self) -> Floats:
        """All points, in memory: (n, d)."""
        return self.rows.take(np.arange(len(self.rows)))

    def part(self, numbers: Ints) -> "Groups":
        """Only the groups with the numbers given, in that order: (k,)."""
        places = np.full(len(self.labels), -1, dtype=self.ids.dtype)
        places[numbers] = np.arange(len(numbers))
        rows = np.flatnonzero(places[self.ids] >= 0)
        return Groups(self.rows.part(rows), places[self.ids[rows]], self.labels[numbers])


def as_groups(estimator: BaseEstimator, X: Any, groups: Any, *, reset: bool, alone: bool = False) -> Any:
    """Rows and the group of each; labels may be any hashables. ``alone``: an array without labels is one group."""
    if isinstance(X, Groups):
        as_rows(estimator, X.rows, reset=reset)
        return X
    refuse_lazy(X)
    if isinstance(groups, str) or (isinstance(groups, int) and hasattr(X, "columns")):
        X, groups = _split_column(X, groups)
    if groups is not None:
        labels = as_tensor(groups).cpu().numpy() if lives_on_gpu(groups) else as_labels(groups)
        if labels.ndim != 1:
            raise ValueError(f"groups has shape {tuple(labels.shape)}; need one label for each row.")
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        if len(labels) != n_rows:
            raise ValueError(f"groups has {len(labels)} labels and X has {n_rows} rows; need one label for each row.")
        ids, names = number_labels(labels)
        with name_group_in_error(names, ids):
            return Groups(as_rows(estimator, X, reset=reset), ids, names)
    if isinstance(X, list | tuple) and (not alone or not X or any(np.ndim(part) == 2 for part in X)):
        return _from_parts(estimator, X, reset)
    if not alone:
        raise ValueError(
            f"groups=None with X of type {type(X).__name__}; pass one label for each row, or X as a list with one "
            "array for each group."
        )
    rows = as_rows(estimator, X, reset=reset)
    return Groups(rows, np.zeros(len(rows), dtype=np.int64), np.zeros(1, dtype=np.int64))


def _from_parts(estimator: BaseEstimator, parts: Any, reset: bool) -> Groups:
    """A list with one array for each group; its labels are the positions in the list."""
    if not len(parts):
        raise ValueError("X is an empty list; need one array for each group.")
    labels = np.arange(len(parts))
    if lives_on_gpu(parts[0]):
        rows = as_rows(estimator, sys.modules["torch"].cat([as_tensor(part) for part in parts]), reset=reset)
        return Groups(rows, np.repeat(labels, [len(part) for part in parts]), labels)
    checked = []
    for label, part in enumerate(parts):
        if np.ndim(part) != 2:
            raise ValueError(f"Group {label} has shape {np.shape(part)}; need (points, features).")
        with name_group_in_error([label]):
            fills_gaps = getattr(estimator, "fills_gaps", False)
            checked.append(check_points(estimator, part, reset=reset and label == 0, allow_nan=fills_gaps))
    ids = np.repeat(labels, [len(part) for part in checked])
    return Groups(ArrayRows(np.concatenate(checked), feature_names_of(estimator)), ids, labels)


def _split_column(X: Any, name: str | int) -> tuple[Any, Any]:
    """The other columns of a frame, and the column called ``name``."""
    is_arrow = hasattr(X, "column_names")  # whose ``columns`` are the data, not their names
    columns = list(X.column_names if is_arrow else getattr(X, "columns", []))
    if name not in columns:
        present = ", ".join(map(repr, columns)) or "none, X is not a frame"
        raise ValueError(f"groups={name!r}; X has no such column (columns: {present}).")
    others = [column for column in columns if column != name]
    return X.select(others) if is_arrow else X[others], X[name]


def as_labels(groups: Any, name: str = "groups") -> npt.NDArray[Any]:
    """Labels as an array that keeps tuples and dates whole; ``name`` of the argument, for errors."""
    if hasattr(groups, "to_numpy"):
        groups = groups.to_numpy()
    if hasattr(groups, "__array__"):
        return np.asarray(groups)
    if not isinstance(groups, Iterable):
        raise TypeError(f"{name}={groups!r} is not a sequence; need one label for each row.")
    listed = list(groups)
    labels: npt.NDArray[Any] = np.empty(len(listed), dtype=object)
    labels[:] = listed
    return labels


def number_labels(labels: npt.NDArray[Any], name: str = "groups") -> tuple[Ints, npt.NDArray[Any]]:
    """Number of each row's group and the labels, both in order of first appearance: (n,) -> (n,), (g,)."""
    # Equal labels one after the other are looked up once; objects may not say whether they are equal.
    starts = _starts_of_runs(labels) if labels.dtype.kind in "biufSUmM" else np.arange(len(labels))
    heads = labels[starts]
    if labels.dtype.kind in "biuf":
        _, firsts, places = np.unique(heads, return_index=True, return_inverse=True)
        ids = np.argsort(np.argsort(firsts))[places]
    else:
        numbers: dict[Hashable, int] = {}
        try:
            ids = np.array([numbers.setdefault(label, len(numbers)) for label in heads.tolist()], dtype=np.int64)
        except TypeError as error:
            raise TypeError(f"{name} has a label that is not hashable ({error}); need hashable labels.") from None
    # First rows of the groups: where the running maximum of the numbers grows.
    first_rows = starts[np.diff(np.maximum.accumulate(ids), prepend=-1) > 0] if len(ids) else starts
    for label, row in zip(labels[first_rows].tolist(), first_rows, strict=True):
        if is_missing_label(label):
            raise ValueError(f"{name} has no label in row {row}: {label!r}; label or remove the row.")
    return np.repeat(ids, np.diff(starts, append=len(labels))), labels[first_rows]


def _starts_of_runs(labels: npt.NDArray[Any]) -> Ints:
    """Where a label differs from the one before, the first row included."""
    changes = np.flatnonzero(labels[1:] != labels[:-1]) + 1
    return np.concatenate([[0], changes]) if len(labels) else changes


def is_missing_label(label: Any) -> bool:
    """Whether a label is None, NaN, NaT, pandas.NA or the empty string."""
    # Comparing pandas.NA with itself raises, and pandas may not be installed.
    if label is None or type(label).__name__ == "NAType":
        return True
    return label == "" if isinstance(label, str) else bool(label != label)  # noqa: PLR0124, NaN differs from itself
