"""Groups of points: rows with labels, a list of arrays, or a frame with a column of labels."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from isobag.arrays import Floats, Ints
from isobag.validation import check_points, name_group_in_error


class Bags(NamedTuple):
    """Points and the group of each: X (n, d), ids (n,) counting from 0, labels and sizes (g,) by first appearance."""

    X: Floats
    ids: Ints
    labels: list[Any]
    sizes: Ints


def check_groups(estimator: BaseEstimator, X: Any, groups: Any, *, reset: bool, alone: bool = False) -> Bags:
    """Points and groups as arrays; labels may be any hashables. ``alone``: an array without labels is one group."""
    if isinstance(groups, str):
        X, groups = _split_column(X, groups)
    if groups is None and isinstance(X, list | tuple) and all(np.ndim(part) == 2 for part in X):
        return _from_parts(estimator, X, reset)
    if groups is None:
        if not alone:
            raise ValueError("groups=None; give a label for every row, or a list with one array for each group.")
        rows = check_points(estimator, X, reset=reset)
        return _bags(rows, np.zeros(len(rows), dtype=np.int64), [0])
    labels = _as_labels(groups)
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if len(labels) != n_rows:
        raise ValueError(f"groups has {len(labels)} labels and X has {n_rows} rows; need one label for each row.")
    ids, order = number_labels(labels)
    with name_group_in_error(order, ids):
        rows = check_points(estimator, X, reset=reset)
    return _bags(rows, ids, order)


def number_labels(labels: list[Any]) -> tuple[Ints, list[Any]]:
    """Number of each row's group, and the labels, both in order of first appearance."""
    numbers: dict[Any, int] = {}
    ids = np.empty(len(labels), dtype=np.int64)
    for row, label in enumerate(labels):
        if label is None or label == "" or label != label:  # noqa: PLR0124, NaN alone differs from itself
            raise ValueError(f"groups has no label in row {row}: {label!r}. Name the group or remove the row.")
        ids[row] = numbers.setdefault(label, len(numbers))
    return ids, list(numbers)


def _from_parts(estimator: BaseEstimator, parts: Any, reset: bool) -> Bags:
    """A list with one array for each group; its labels are the positions in the list."""
    if not len(parts):
        raise ValueError("X is an empty list; need one array for each group.")
    checked = []
    for label, part in enumerate(parts):
        with name_group_in_error([label]):
            checked.append(check_points(estimator, part, reset=reset and label == 0))
    ids = np.repeat(np.arange(len(checked)), [len(part) for part in checked])
    return _bags(np.concatenate(checked), ids, list(range(len(checked))))


def _split_column(X: Any, name: str) -> tuple[Any, Any]:
    """The other columns of a frame, and the column called ``name``."""
    columns = list(getattr(X, "columns", []))
    if name not in columns:
        known = ", ".join(map(repr, columns)) or "none, X is not a frame"
        raise ValueError(f"groups={name!r}; X has no such column (columns: {known}).")
    return X[[column for column in columns if column != name]], X[name]


def _as_labels(groups: Any) -> list[Any]:
    labels = groups.tolist() if hasattr(groups, "tolist") else list(groups)
    if not isinstance(labels, list):
        raise ValueError(f"groups={groups!r}; need one label for each row of X.")
    return labels


def _bags(X: Floats, ids: Ints, labels: list[Any]) -> Bags:
    return Bags(X, ids, labels, np.bincount(ids, minlength=len(labels)))
