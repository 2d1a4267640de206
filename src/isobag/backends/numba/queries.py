"""Queries of the Numba backend: rows, and what its engines make of them once."""

from collections.abc import Callable
from typing import TypeVar, cast

from isobag.backends.arrays import Floats
from isobag.backends.numba.compiled.box_tree import Boxes, build_boxes, rebuild_boxes

T = TypeVar("T")


class Queries:
    """Rows to be assigned to cells: X (n, d); ``like``: the same rows on another scale."""

    def __init__(self, X: Floats, like: "Queries | None" = None) -> None:
        self.X = X
        self._like = like
        self._kept: tuple[object, object] | None = None
        self._boxes: Boxes | None = None

    def keep(self, source: object, make: Callable[[], T]) -> T:
        """What was made of the queries for a source, made once for as long as the source is the same."""
        if self._kept is None or self._kept[0] is not source:
            self._kept = source, make()
        return cast(T, self._kept[1])

    def boxes(self, n_jobs: int | None) -> Boxes:
        """The rows in a tree of boxes: scales rise with the numbers, so neighbours on one are neighbours on another."""
        if self._boxes is None:
            like = self._like
            self._boxes = (
                build_boxes(self.X, n_jobs) if like is None else rebuild_boxes(self.X, like.boxes(n_jobs), n_jobs)
            )
        return self._boxes
