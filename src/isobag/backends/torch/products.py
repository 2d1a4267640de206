"""Many features on a GPU: certified matrix products on tensor cores; see ``product_kernels``."""

from functools import partial
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch

from isobag.backends.arrays import Balls
from isobag.backends.torch import direct, product_kernels
from isobag.backends.torch.direct import Outputs
from isobag.backends.torch.layout import PAD, Layout, layout_of

BY_FEATURE = False
_BLOCK_PRODUCTS = 1 << 30
_PROGRAMS = 132 * 32
_ROWS = 16
_SLACK = 1.001


class Halves(NamedTuple):
    """Centers of all partitionings, rounded: (t * P, d or more) float16, and what certificates need, float32."""

    scale: float
    values: torch.Tensor
    sq_norms: torch.Tensor  # |c'|^2, a little less
    norms: torch.Tensor  # |c'| + rho_c
    losses: torch.Tensor  # rho_c
    scaled_radii: torch.Tensor  # (L, t, psi)


_kept: WeakKeyDictionary[Balls, dict[torch.device, Halves]] = WeakKeyDictionary()


def rows_at_once(balls: Balls, room: float) -> int:
    """Most queries of a pass, so that the products, 4 bytes each, fit in half of the room."""
    most = min(_BLOCK_PRODUCTS, int(room) // 8)
    return max(1, min(direct.rows_at_once(balls, room), most // balls.slots.size))


def _halves(balls: Balls, layout: Layout) -> Halves:
    made = _kept.setdefault(balls, {})
    device = layout.names.device
    if device not in made:
        centered = (layout.centers - layout.middle).flatten(0, 1)
        centered[(layout.names == PAD).flatten()] = 0.0
        largest = float(centered.abs().max())
        # The largest number becomes about 2^10: squares stay small, and small numbers keep their digits.
        scale = float(2.0 ** (10 - torch.tensor(largest, dtype=torch.float64).frexp()[1].item())) if largest else 1.0
        centered *= scale
        values = centered.to(torch.float16)
        norms = centered.square().sum(dim=1).sqrt()
        losses = (centered - values).square().sum(dim=1).sqrt() * _SLACK
        made[device] = Halves(
            scale,
            torch.nn.functional.pad(values, (0, -values.shape[1] % 8)),
            (norms.square() * (1 - 2.0**-19)).float(),
            ((norms + losses) * _SLACK).float(),
            losses.float() * _SLACK,
            (layout.sq_radii * scale * scale).float(),
        )
    return made[device]


def _products(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A @ b.T of float16 numbers, added up in float32: (n, m).

    Whatever torch allows reductions to be rounded to, here it is float32: no reduction is narrower than the output.
    """
    return torch.mm(a, b.t(), out_dtype=torch.float32) if a.is_cuda else a.float() @ b.float().t()


def run(x: torch.Tensor, balls: Balls, rule: str, wanted: Outputs) -> None:
    """Find the cells of queries x (d, n), row after row in memory, in all levels and do with them what is wanted."""
    (d, n), (t, psi), n_levels = x.shape, balls.slots.shape, len(balls.levels)
    if rule != "nearest":
        direct.run(x, balls, rule, wanted)
        return
    if not n:
        return
    device = x.device
    layout = layout_of(balls, device, 1)
    halves = _halves(balls, layout)
    width = halves.values.shape[1]
    values = torch.empty((n, width), dtype=torch.float16, device=device)
    slopes, reaches, sq_norms = torch.empty((3, n), dtype=torch.float32, device=device)
    error = (d + 8) * 2.0**-23 + 2.0**-19
    factors = torch.tensor([halves.scale, error, 2 * _SLACK**2], dtype=torch.float64, device=device)
    product_kernels.round_rows[(n,)](
        x, layout.middle, factors, values, slopes, reaches, sq_norms, d, width, block=min(1024, _power_of_two(d)),
        enable_fp_fusion=False,
    )  # fmt: skip
    products = _products(values, halves.values)
    del values
    places = layout.names.shape[1]
    lists = torch.empty((2, n * t * n_levels), dtype=torch.int32, device=device)
    n_listed = torch.zeros(2, dtype=torch.int32, device=device)
    bounds = (halves.sq_norms, halves.norms, halves.losses, slopes, reaches)
    outputs = (wanted.out, wanted.kept, wanted.far, wanted.limits, wanted.tables)
    actions = {"kind": wanted.kind, "keep": wanted.keeps, "far": wanted.sums_far}
    product_kernels.scan_products[(-(-n // _ROWS), t)](
        products, n, layout.names, layout.ends, *bounds, sq_norms, halves.scaled_radii,
        *outputs, lists[0], n_listed[:1], t, psi, places, n_levels,
        rows=_ROWS, columns=64, **actions, enable_fp_fusion=False,
    )  # fmt: skip
    columns = max(16, _power_of_two(places))
    product_kernels.rescan[(min(_PROGRAMS, n * t * n_levels),)](
        x, products, n, layout.names, layout.ends, layout.centers, *bounds, layout.sq_radii,
        *outputs, lists[0], n_listed[:1], lists[1], n_listed[1:], t, psi, places, d, n_levels,
        width=columns, features=min(1024, _power_of_two(d)), **actions,
        num_warps=1 if columns <= 512 else 4, enable_fp_fusion=False,
    )  # fmt: skip
    direct.work_off(x, balls, layout, "nearest", wanted, lists[1], n_listed[1:])


def _power_of_two(number: int) -> int:
    """The least one that is not below."""
    return 1 << (number - 1).bit_length()


assign = partial(direct.assign, run=run)
count = partial(direct.count, run=run)
sum_at = partial(direct.sum_at, run=run)
sum_kept, sq_radii = direct.sum_kept, direct.sq_radii
