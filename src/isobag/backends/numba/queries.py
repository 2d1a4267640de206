"""Queries of the Numba backend: rows, and what its engines make of them once for all verbs."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

from isobag.backends.arrays import Floats
from isobag.backends.numba.compiled.boxes import Boxes, build_boxes


class Queries:
    """Rows to be assigned to cells: X (n, d)."""

    def __init__(self, X: Floats) -> None:
        self.X = X
        self._source: Any = None
        self._made: Any = None

    def keep(self, source: Any, make: Callable[[], Any]) -> Any:
        """What was made of the queries for a source, made once for as long as the source is the same."""
        if self._source is not source:
            self._source, self._made = source, make()
        return self._made

    @cached_property
    def boxes(self) -> Boxes:
        """The rows in a tree of boxes."""
        return build_boxes(self.X)
