"""What is learned is a value: a frozen data class, which files can hold and which can check itself."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

LARGEST = float(np.finfo(float).max)
TINY = float(np.finfo(float).tiny)
LEARNED: dict[str, type["Learned"]] = {}
"""Every class of learned values, by name."""


class Learned:
    """A frozen data class of arrays, numbers, text, tuples and other learned values.

    Copies and files have its fields alone, not what was derived from them. A file may come from anyone: when one is
    read, the types of fields are checked by their annotations, and all else by ``validate``.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        LEARNED[cls.__name__] = cls

    def validate(self) -> None:
        """Raise a ValueError where fields are out of range or do not fit together.

        Compiled loops do not check indices: each that they follow must be in bounds here.
        """

    def __getstate__(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]  # a data class


def demand(holds: Any, problem: str) -> None:
    """Raise a ValueError unless a condition holds."""
    if not holds:
        raise ValueError(problem)


def check(name: str, values: Any, shape: Sequence[int | None], low: float = -LARGEST, high: float = LARGEST) -> None:
    """Refuse an array, or a number, of another shape (None: any length) or with values outside of low to high.

    NaN is outside of any range, and infinity of the default one.
    """
    array = np.asarray(values)
    fits = array.ndim == len(shape) and all(n is None or n == m for n, m in zip(shape, array.shape, strict=True))
    demand(fits, f"{name} has shape {array.shape}; need {tuple(shape)}")
    demand(not array.size or (array.min() >= low and array.max() <= high), f"{name} is not within {low} to {high}")
