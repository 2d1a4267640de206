"""Validation of input: every error is one sentence with the value, its place and the reason."""

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from isobag.backends.arrays import FARTHEST, Floats, Ints
from isobag.data.device import DeviceRows, as_tensor, lives_on_gpu
from isobag.data.frames import refuse_lazy
from isobag.data.rows import ArrayRows, Rows, SparseRows

T = TypeVar("T", bound=Rows)


def as_rows(estimator: BaseEstimator, X: Any, *, reset: bool, min_rows: int = 1, accept_sparse: bool = False) -> Rows:
    """Rows of numbers, checked, from an array, a frame or a sparse matrix; Rows are returned as they are.

    ``reset``: set the number and names of the features of the estimator; else they must match. NaN is an error unless
    the estimator ``fills_gaps``.
    """
    fills_gaps = getattr(estimator, "fills_gaps", False)
    if isinstance(X, Rows):
        return _fitting(estimator, X, reset, min_rows)
    refuse_lazy(X)
    if lives_on_gpu(X):
        return _device_rows(estimator, as_tensor(X), X, reset, min_rows)
    if accept_sparse and issparse(X):
        return _sparse_rows(estimator, X, reset, min_rows, fills_gaps)
    points = check_points(estimator, X, reset=reset, min_rows=min_rows, allow_nan=fills_gaps)
    return ArrayRows(points, feature_names_of(estimator))


def _fitting(estimator: Any, rows: T, reset: bool, min_rows: int) -> T:
    """The rows, if they have the features of the estimator, and are enough."""
    _check_features(estimator, rows, reset)
    if len(rows) < min_rows:
        raise ValueError(f"X has {len(rows)} row{'' if len(rows) == 1 else 's'}; need at least {min_rows}.")
    return rows


def feature_names_of(estimator: Any) -> list[str] | None:
    """Names of the features of an estimator, None if they have none."""
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else list(names)


def _check_features(estimator: Any, rows: Rows, reset: bool) -> None:
    """Set the features of the estimator to those of the rows, or compare the two."""
    if reset:
        estimator.n_features_in_ = rows.n_features
        if rows.names is not None:
            estimator.feature_names_in_ = np.array(rows.names, dtype=object)
        elif hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
    elif rows.n_features != estimator.n_features_in_:
        name = type(estimator).__name__
        raise ValueError(
            f"X has {rows.n_features} features, but {name} is expecting {estimator.n_features_in_} features as input."
        )
    elif rows.names is not None and list(rows.names) != (feature_names_of(estimator) or list(rows.names)):
        raise ValueError(
            f"X has the feature names {', '.join(rows.names)}; need those of fit, in that order: "
            f"{', '.join(feature_names_of(estimator) or [])}."
        )


def _device_rows(estimator: BaseEstimator, values: Any, X: Any, reset: bool, min_rows: int) -> Rows:
    """Rows on a device, checked there; X is what they came as."""
    if values.ndim != 2:
        raise ValueError(f"X has shape {tuple(values.shape)}; need (rows, features).")
    if values.is_complex():
        raise ValueError("Complex data not supported.")
    if values.shape[1] < 1:
        raise ValueError("X has 0 features; need at least 1.")
    if not values.is_floating_point():
        values = values.double()
    rows = _fitting(estimator, DeviceRows(values, X), reset, min_rows)
    bad = rows.first_bad
    if bad is not None:
        check_magnitudes(values[bad:].double().cpu().numpy(), None, bad)
    return rows


def _sparse_rows(estimator: BaseEstimator, X: Any, reset: bool, min_rows: int, allow_nan: bool) -> Rows:
    how = {"dtype": np.float64, "ensure_all_finite": False, "ensure_min_samples": min_rows}
    values = validate_data(estimator, X, reset=reset, accept_sparse="csr", **how)
    rows = SparseRows(csr_array(values), feature_names_of(estimator))
    start = 0
    if not (np.abs(values.data).max(initial=0.0) <= FARTHEST):  # false for NaN
        for block in rows.blocks():
            check_magnitudes(block, rows.names, start, allow_nan)
            start += len(block)
    return rows


def check_points(
    estimator: BaseEstimator, X: Any, *, reset: bool, min_rows: int = 1, allow_nan: bool = False
) -> Floats:
    """Rows of numbers as a float64 array: (n, d). ``reset`` learns the number and names of the features."""
    _refuse_non_numbers(X)
    values: Floats = validate_data(
        estimator, X, reset=reset, dtype=np.float64, order="C", ensure_all_finite=False, ensure_min_samples=min_rows
    )
    check_magnitudes(values, getattr(estimator, "feature_names_in_", None), allow_nan=allow_nan)
    return values


def check_magnitudes(values: Floats, names: Any, first_row: int = 0, allow_nan: bool = False) -> None:
    """Refuse infinity, numbers whose squared distances overflow, and NaN; rows count from ``first_row``."""
    if not len(values) or (np.abs(values).max(initial=0.0) <= FARTHEST):  # false for NaN
        return
    bad = ~(np.abs(values) <= FARTHEST)
    if allow_nan:
        bad &= ~np.isnan(values)
        if not bad.any():
            return
    row, column = (int(i) for i in np.argwhere(bad)[0])
    value = values[row, column]
    kind = "NaN" if np.isnan(value) else "infinity" if np.isinf(value) else "a value too large to square"
    total = int(bad.sum())
    others = "" if total == 1 else f", the first of {total}"
    place = f"{value} in row {first_row + row}, column {_quoted(names, column)}{others}"
    raise _error_at(row, f"Input X contains {kind}: {place}; remove or replace such values first.")


@contextmanager
def name_group_in_error(labels: Any, ids: Ints | None = None) -> Iterator[None]:
    """Name the group in an error: the group of the row that the error is about, or the only one."""
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
    """An error with the number of the row it is about."""
    error = kind(message)
    error.row = row  # type: ignore[attr-defined]  # of whatever kind, so no class of our own can declare it
    return error


def _refuse_non_numbers(X: Any) -> None:
    """Refuse text, dates, complex numbers and masked values, which would be converted silently; None is a gap."""
    if issparse(X) or isinstance(X, str | bytes | dict) or X is None or _is_numeric(X):
        return
    if np.ma.is_masked(X):
        raise ValueError("X has masked values; fill or remove them first.")
    try:
        table = np.asarray(X, dtype=object)
    except (TypeError, ValueError):
        return
    for (row, column), value in np.ndenumerate(table) if table.ndim == 2 else ():
        what, kind = _why_no_number(value)
        if what:
            name = _quoted(getattr(X, "columns", None), column)
            raise _error_at(row, f"X has {value!r} in row {row}, column {name}: {what}.", kind)
    if getattr(getattr(X, "dtype", None), "kind", "") == "c":
        raise ValueError("Complex data not supported.")


def _why_no_number(value: Any) -> tuple[str, type[Exception]]:
    """What is wrong with a cell, "" for a number, and the kind of error that it is."""
    if isinstance(value, complex | np.complexfloating):
        return "Complex data not supported" if value.imag else "", ValueError
    if isinstance(value, str | bytes):
        return "text, not a number", ValueError
    if isinstance(value, datetime.date | datetime.timedelta | np.datetime64 | np.timedelta64):
        return "a date, not a number", ValueError
    try:
        float(0 if value is None else value)
    except (TypeError, ValueError, OverflowError) as error:
        return str(error).splitlines()[0], type(error)
    return "", ValueError


def _is_numeric(X: Any) -> bool:
    """Whether all entries are real numbers, by the types of an array or of the columns of a frame."""
    types = [X.dtype] if hasattr(X, "dtype") else list(getattr(X, "dtypes", [None]))
    return not np.ma.is_masked(X) and all(
        kind.kind in "biuf" if hasattr(kind, "kind") else hasattr(kind, "is_numeric") and kind.is_numeric()
        for kind in types
    )


def _quoted(names: Any, column: int) -> str:
    return str(column) if names is None else repr(str(names[column]))
