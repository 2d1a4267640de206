"""Frames in, frames out: results as a frame of the library the input came in."""

from collections.abc import Collection, Mapping
from typing import Any

import narwhals as nw
import numpy.typing as npt


def is_frame(X: Any) -> bool:
    """Whether X is a data frame of a library that narwhals knows: pandas, polars, Arrow and others."""
    return isinstance(nw.from_native(X, eager_only=True, pass_through=True), nw.DataFrame)


def refuse_lazy(X: Any) -> None:
    """Refuse a frame that holds no rows yet, which NumPy would take for one object."""
    if hasattr(X, "__array__") or isinstance(X, list | tuple):
        return
    if isinstance(nw.from_native(X, pass_through=True), nw.LazyFrame):
        raise TypeError(
            f"X is a {type(X).__name__}, whose rows are not in memory; pass X.collect(), or use isobag.detect, "
            "which collects."
            if hasattr(X, "collect")
            else f"X is a {type(X).__name__}, whose rows are not in memory; make a frame or an array of it first."
        )


def frame_like(X: Any, columns: Mapping[str, npt.NDArray[Any]], *, same_rows: bool) -> Any:
    """The columns as a frame of X's library; with the index of X, where it has one, if its rows are those of X."""
    like = nw.from_native(X, eager_only=True)
    frame = nw.from_dict(dict(columns), backend=like.implementation).to_native()
    index = nw.maybe_get_index(like)
    if same_rows and index is not None:
        frame.index = index
    return frame


def own_name(name: str, taken: Collection[str]) -> str:
    """A name for a column of ours that no column of the data has: underscores are added until it differs."""
    while name in taken:
        name += "_"
    return name


def feature_names(estimator: Any) -> list[str]:
    """Names of the features of a fitted estimator, "x0", "x1", ... where they came without."""
    names = getattr(estimator, "feature_names_in_", None)
    return [f"x{j}" for j in range(estimator.n_features_in_)] if names is None else list(names)
