"""Queries of the Numba backend: rows, and what its engines make of them once for all verbs."""

from functools import cached_property

from isobag.backends.arrays import Floats
from isobag.backends.numba.compiled.boxes import Boxes, build_boxes


class Queries:
    """Rows to be assigned to cells: X (n, d)."""

    def __init__(self, X: Floats) -> None:
        self.X = X

    @cached_property
    def boxes(self) -> Boxes:
        """The rows in a tree of boxes."""
        return build_boxes(self.X)
