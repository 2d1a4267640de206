"""Balls as the kernels read them: the centers of each partitioning side by side, on the device."""

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch

from isobag.backends.arrays import Balls, Ints, is_first
from isobag.backends.torch.devices import tensor

PAD = -1


class Layout(NamedTuple):
    """P places for the centers of each of t partitionings; those of a level begin behind those of the one before.

    A center that repeats an earlier one of its partitioning can never be the nearest, and has no place. Places without
    a center fill each level up to a multiple of ``chunk``.
    """

    names: torch.Tensor  # (t, P) int32, index of the center, PAD where there is none
    ends: torch.Tensor  # (t, L) int32, first place behind each level
    sizes: torch.Tensor  # (L,) int32, the levels
    centers: torch.Tensor  # (t, P, d) float64
    rounded: torch.Tensor  # (t, P, d) float32, center - middle, infinite at PAD
    middle: torch.Tensor  # (d,) float64
    sq_radii: torch.Tensor  # (L, t, psi) float64
    radii: torch.Tensor  # (L, t, psi) float32
    chunk: int


_kept: WeakKeyDictionary[Balls, dict[tuple[object, ...], Layout]] = WeakKeyDictionary()


def layout_of(balls: Balls, device: torch.device, chunk: int, repeats: bool = False) -> Layout:
    """The layout of balls, made once; ``repeats`` keeps centers that repeat others."""
    made = _kept.setdefault(balls, {})
    key = (device, chunk, repeats)
    if key not in made:
        made[key] = _lay_out(balls, device, chunk, repeats)
    return made[key]


def _lay_out(balls: Balls, device: torch.device, chunk: int, repeats: bool) -> Layout:
    kept = np.ones(balls.slots.shape, dtype=bool) if repeats else is_first(balls.slots)
    places, ends = places_of(kept, balls.levels, chunk)
    t, width = len(places), int(ends.max())
    names = np.full((t, width), PAD, dtype=np.int32)
    rows, columns = np.nonzero(kept)
    names[rows, places[rows, columns]] = columns
    owners = np.where(names == PAD, 0, np.take_along_axis(balls.slots, np.maximum(names, 0), axis=1))
    points = tensor(balls.points, device, torch.float64)
    middle = tensor(balls.points.mean(axis=0), device, torch.float64)
    on_device = tensor(names, device)
    centers = points[tensor(owners.astype(np.int64), device)]
    rounded = (centers - middle).to(torch.float32).masked_fill_((on_device == PAD)[:, :, None], float("inf"))
    sq_radii = tensor(balls.sq_radii, device, torch.float64)
    return Layout(
        on_device,
        tensor(ends.astype(np.int32), device),
        torch.tensor(balls.levels, dtype=torch.int32, device=device),
        centers,
        rounded,
        middle,
        sq_radii,
        sq_radii.sqrt().float(),
        chunk,
    )


def places_of(kept: np.ndarray, levels: tuple[int, ...], chunk: int) -> tuple[Ints, Ints]:
    """Place of each center that is kept (t, psi), and the first place behind each level (t, L)."""
    places = np.zeros(kept.shape, dtype=np.int64)
    ends = np.zeros((len(kept), len(levels)), dtype=np.int64)
    start = np.zeros(len(kept), dtype=np.int64)
    first = 0
    for level, last in enumerate(levels):
        own = kept[:, first:last]
        places[:, first:last] = start[:, None] + own.cumsum(axis=1) - 1
        start = start + -(-own.sum(axis=1) // chunk) * chunk
        ends[:, level] = start
        first = last
    return places, ends
