"""The door: every error about input or options is raised here, one sentence with value, place and reason."""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from isobag.arrays import Floats, Ints

AUTO_MAX_SAMPLES = 16
_LARGEST = 1e150


def check_points(estimator: BaseEstimator, X: Any, *, reset: bool, min_rows: int = 1) -> Floats:
    """Rows of numbers as a float64 array: (n, d). ``reset`` learns the number and names of the features."""
    _refuse_complex(X)
    try:
        values: Floats = validate_data(
            estimator, X, reset=reset, dtype=np.float64, order="C", ensure_all_finite=False, ensure_min_samples=min_rows
        )
    except (TypeError, ValueError) as error:
        place = _first_unreadable(X)
        if place is None:
            raise
        row, column, value = place
        raise type(error)(
            f"X has {value!r} in row {row}, column {_column_name(X, column)}, which is not a number ({error})."
        ) from None
    _check_magnitudes(values, getattr(estimator, "feature_names_in_", None))
    return values


def check_option(name: str, value: Any, allowed: Collection[Any]) -> None:
    """Refuse a value that is not one of the names allowed."""
    if not any(value is one or (isinstance(one, str) and one == value) for one in allowed):
        raise ValueError(f"{name}={value!r}; choose one of {', '.join(map(repr, allowed))}.")


def check_n_estimators(value: Any) -> int:
    """The number of partitionings, 1 or more."""
    if not _is_integer(value) or value < 1:
        raise ValueError(f"n_estimators={value!r}; need an integer of 1 or more: scores are means over partitionings.")
    return int(value)


def resolve_max_samples(value: Any, n_rows: int, name: str = "max_samples", rows: str = "rows of X") -> int:
    """The number of centers of a partitioning, between 2 and the number of rows."""
    if isinstance(value, str) and value == "auto":
        return min(AUTO_MAX_SAMPLES, n_rows)
    if not _is_integer(value):
        raise ValueError(f"{name}={value!r}; need an integer of 2 or more, or 'auto'.")
    if value < 2:
        raise ValueError(f"{name}={value}; need 2 or more: a lone center has no neighbour.")
    if value > n_rows:
        raise ValueError(f"{name}={value}; need {n_rows} or fewer, the {rows}: centers are drawn without replacement.")
    return int(value)


def check_contamination(value: Any) -> None:
    """Refuse what is neither "auto" nor a share."""
    if isinstance(value, str) and value == "auto":
        return
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < float(value) <= 0.5:
        raise ValueError(f"contamination={value!r}; need 'auto' or a share above 0 and at most 0.5.")


@contextmanager
def name_group_in_error(labels: Sequence[Any], ids: Ints | None = None) -> Iterator[None]:
    """Say in an error which group it is about: the one that row belongs to, or the only one there is."""
    try:
        yield
    except (TypeError, ValueError) as error:
        row = re.search(r" row (\d+)", str(error))
        if ids is None:
            label = labels[0]
        elif row is not None:
            label = labels[ids[int(row[1])]]
        else:
            raise
        raise type(error)(f"Group {label!r}: {error}") from None


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _refuse_complex(X: Any) -> None:
    values = np.asarray(X) if isinstance(X, np.ndarray | Sequence) and not isinstance(X, str) else None
    if values is not None and values.dtype.kind == "c":
        place = "" if values.ndim != 2 or not values.size else f" in row 0, column 0: {values[0, 0]}"
        raise ValueError(f"Complex data not supported: X has complex numbers{place}.")


def _check_magnitudes(values: Floats, names: Any, label: str = "X") -> None:
    """Refuse NaN, infinity, and numbers whose squared distances overflow."""
    if not len(values) or (np.abs(values).max(initial=0.0) <= _LARGEST):  # false for NaN
        return
    bad = ~(np.abs(values) <= _LARGEST)
    row, column = (int(i) for i in np.argwhere(bad)[0])
    value = values[row, column]
    kind = "NaN" if np.isnan(value) else "infinity" if np.isinf(value) else "a number too large to square"
    where = f"row {row}, column {_quoted(names, column)}"
    total = int(bad.sum())
    others = "" if total == 1 else f" and {total - 1} more such {'value' if total == 2 else 'values'}"
    raise ValueError(f"Input {label} contains {kind}: {value} in {where}{others}. Remove or replace them first.")


def _first_unreadable(X: Any) -> tuple[int, int, Any] | None:
    """Row, column and value of the first entry that is not a number, if X is a table at all."""
    try:
        table = np.asarray(X, dtype=object)
    except ValueError:
        return None
    if table.ndim != 2:
        return None
    for (row, column), value in np.ndenumerate(table):
        try:
            float(value)
        except (TypeError, ValueError):
            return row, column, value
    return None


def _column_name(X: Any, column: int) -> str:
    return _quoted(getattr(X, "columns", None), column)


def _quoted(names: Any, column: int) -> str:
    return str(column) if names is None else repr(str(names[column]))
