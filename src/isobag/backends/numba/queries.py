"""Queries of the Numba backend: rows, and what its engines make of them once."""

from collections.abc import Callable
from typing import TypeVar, cast

from isobag.backends.arrays import Floats

T = TypeVar("T")


class Queries:
    """Rows to be assigned to cells: X (n, d)."""

    def __init__(self, X: Floats) -> None:
        self.X = X
        self._kept: tuple[object, object] | None = None

    def keep(self, source: object, make: Callable[[], T]) -> T:
        """What was made of the queries for a source, made once for as long as the source is the same."""
        if self._kept is None or self._kept[0] is not source:
            self._kept = source, make()
        return cast(T, self._kept[1])
