"""The door: every error about input or options is raised here, one sentence with value, place and reason."""

import datetime
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from isobag.arrays import Floats, Ints
from isobag.backends import BACKENDS
from isobag.scaling import FARTHEST

AUTO_MAX_SAMPLES = 16
"""psi of "auto" where one psi is meant."""
AUTO_LARGEST_SAMPLES = 256
"""Largest psi of "auto" where all psi = 2, 4, 8, ... up to it are averaged."""


def check_points(estimator: BaseEstimator, X: Any, *, reset: bool, min_rows: int = 1) -> Floats:
    """Rows of numbers as a float64 array: (n, d). ``reset`` learns the number and names of the features."""
    _refuse_what_is_no_number(X)
    try:
        values: Floats = validate_data(
            estimator, X, reset=reset, dtype=np.float64, order="C", ensure_all_finite=False, ensure_min_samples=min_rows
        )
    except (TypeError, ValueError, OverflowError) as error:
        place = _first_entry(X, _is_unreadable)
        if place is None:
            raise
        reason = str(error).splitlines()[0]
        message = f"{_described(X, *place)}, which is not a number: {reason}"
        raise _error_at(place[0], message, type(error)) from None
    check_magnitudes(values, getattr(estimator, "feature_names_in_", None))
    return values


def check_magnitudes(values: Floats, names: Any, first_row: int = 0) -> None:
    """Refuse NaN, infinity, and numbers whose squared distances overflow; rows count from ``first_row``."""
    if not len(values) or (np.abs(values).max(initial=0.0) <= FARTHEST):  # false for NaN
        return
    bad = ~(np.abs(values) <= FARTHEST)
    row, column = (int(i) for i in np.argwhere(bad)[0])
    value = values[row, column]
    kind = "NaN" if np.isnan(value) else "infinity" if np.isinf(value) else "a number too large to square"
    total = int(bad.sum())
    others = "" if total == 1 else f", the first of {total}"
    place = f"{value} in row {first_row + row}, column {_quoted(names, column)}{others}"
    raise _error_at(row, f"Input X contains {kind}: {place}; remove or replace such values first.")


def check_option(name: str, value: Any, allowed: Collection[Any]) -> Any:
    """The value, if it is one of those allowed."""
    if not any(value is one or (isinstance(value, str) and value == one) for one in allowed):
        raise ValueError(f"{name}={value!r}; choose one of {', '.join(map(repr, allowed))}.")
    return value


def check_flag(name: str, value: Any) -> None:
    """Refuse what is neither true nor false."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}={value!r}; choose one of True, False.")


def check_n_estimators(value: Any) -> int:
    """The number of partitionings, 1 or more."""
    if not _is_integer(value) or value < 1:
        raise ValueError(f"n_estimators={value!r}; need an integer of 1 or more: scores are means over partitionings.")
    return int(value)


def largest_samples(n_rows: int) -> int:
    """Largest psi of an average over psi: at most half of the rows, or most would be centers, each in a cell alone."""
    return max(2, min(AUTO_LARGEST_SAMPLES, n_rows // 2))


def resolve_max_samples(
    value: Any, n_rows: int, name: str = "max_samples", rows: str = "number of rows", auto: int = AUTO_MAX_SAMPLES
) -> int:
    """The number of centers of a partitioning, between 2 and the number of rows."""
    if n_rows < 2:
        raise ValueError(f"{n_rows} is the {rows}; need 2 or more: what is odd shows only among others.")
    if isinstance(value, str) and value == "auto":
        return min(auto, n_rows)
    if not _is_integer(value):
        raise ValueError(f"{name}={value!r}; need an integer of 2 or more, or 'auto'.")
    if value < 2:
        raise ValueError(f"{name}={value}; need 2 or more: a lone center has no neighbour.")
    if value > n_rows:
        raise ValueError(f"{name}={value}; need {n_rows} or fewer, the {rows}: centers are drawn without replacement.")
    return int(value)


def check_how(backend: Any, n_jobs: Any) -> None:
    """Refuse an unknown backend and a number of threads that is none."""
    check_option("backend", backend, ("auto", *BACKENDS))
    if n_jobs is not None and (not _is_integer(n_jobs) or n_jobs == 0):
        raise ValueError(f"n_jobs={n_jobs!r}; need None or an integer other than 0, as in joblib.")


def check_contamination(value: Any) -> None:
    """Refuse what is neither "auto" nor a share."""
    if isinstance(value, str) and value == "auto":
        return
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < float(value) <= 0.5:
        raise ValueError(f"contamination={value!r}; need 'auto' or a share above 0 and at most 0.5.")


def check_fdr(value: Any) -> None:
    """Refuse a false discovery rate that is none."""
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < float(value) < 1:
        raise ValueError(f"fdr={value!r}; need a share between 0 and 1: of the alarms, those that may be false.")


def check_permutations(value: Any) -> int:
    """The number of permutations of a test, 19 or more."""
    if not _is_integer(value) or value < 19:
        raise ValueError(f"n_permutations={value!r}; need an integer of 19 or more: no p-value could be below .05.")
    return int(value)


@contextmanager
def name_group_in_error(labels: Any, ids: Ints | None = None) -> Iterator[None]:
    """Say in an error which group it is about: the one that row belongs to, or the only one there is."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        row = getattr(error, "row", None)
        if ids is not None and row is None:
            raise
        label = labels[0] if ids is None else labels[ids[row]]
        shown = label.item() if isinstance(label, np.generic) else label
        raise type(error)(f"Group {shown!r}: {error}") from None


def _error_at(row: int, message: str, kind: type[Exception] = ValueError) -> Exception:
    """An error that knows the row it is about."""
    error = kind(message)
    error.row = row  # type: ignore[attr-defined]  # of whatever kind, so no class of our own can declare it
    return error


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _refuse_what_is_no_number(X: Any) -> None:
    """Refuse text, dates, complex numbers and masked values, which would be converted without a word."""
    if issparse(X) or isinstance(X, str | bytes | dict) or X is None or _is_numeric(X):
        return
    if np.ma.is_masked(X):
        raise ValueError("X has masked values; fill or remove them first.")
    for is_bad, message in (
        (_is_complex, "Complex data not supported: {}."),
        (_is_text, "{}, which is text, not a number."),
        (_is_date, "{}, which is a date, not a number."),
    ):
        place = _first_entry(X, is_bad)
        if place is not None:
            raise _error_at(place[0], message.format(_described(X, *place)))
    if getattr(getattr(X, "dtype", None), "kind", "") == "c":
        raise ValueError("Complex data not supported.")


def _is_numeric(X: Any) -> bool:
    """Whether the types of an array or of a frame's columns say that all entries are real numbers."""
    types = [X.dtype] if hasattr(X, "dtype") else list(getattr(X, "dtypes", [None]))
    return not np.ma.is_masked(X) and all(
        kind.kind in "biuf" if hasattr(kind, "kind") else hasattr(kind, "is_numeric") and kind.is_numeric()
        for kind in types
    )


def _is_complex(value: Any) -> bool:
    return isinstance(value, complex | np.complexfloating) and value.imag != 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str | bytes)


def _is_date(value: Any) -> bool:
    return isinstance(value, datetime.date | datetime.timedelta | np.datetime64 | np.timedelta64)


def _is_unreadable(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return True
    return False


def _first_entry(X: Any, is_bad: Callable[[Any], bool]) -> tuple[int, int, Any] | None:
    """Row, column and value of the first bad entry, if X is a table at all."""
    if _is_numeric(X):
        return None
    try:
        table = np.asarray(X, dtype=object)
    except (TypeError, ValueError):
        return None
    if table.ndim != 2:
        return None
    for (row, column), value in np.ndenumerate(table):
        if is_bad(value):
            return row, column, value
    return None


def _described(X: Any, row: int, column: int, value: Any) -> str:
    return f"X has {value!r} in row {row}, column {_column_name(X, column)}"


def _column_name(X: Any, column: int) -> str:
    return _quoted(getattr(X, "columns", None), column)


def _quoted(names: Any, column: int) -> str:
    return str(column) if names is None else repr(str(names[column]))
