"""Arrays shared by all rooms: their types, the balls of partitionings, and the one reserved cell index."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Cells = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

OUTSIDE = -1
"""Cell index of a point that no ball of a partitioning covers."""


class Balls(NamedTuple):
    """t partitionings of psi balls: center j of partitioning i is ``points[slots[i, j]]``.

    Rows that several partitionings draw are held once. Level l is the nested partitioning by the first ``levels[l]``
    centers, with radii of its own; the last level is the whole.
    """

    points: Floats  # (m, d) distinct
    slots: Cells  # (t, psi)
    levels: tuple[int, ...]  # ascending, the last is psi
    sq_radii: Floats  # (L, t, psi)


def last_level(balls: Balls) -> Balls:
    """The same partitionings, without the smaller nested ones."""
    return one_level(balls, len(balls.levels) - 1)


def one_level(balls: Balls, level: int) -> Balls:
    """The nested partitionings of one level alone."""
    psi = balls.levels[level]
    return Balls(balls.points, balls.slots[:, :psi], (psi,), balls.sq_radii[level : level + 1, :, :psi])
