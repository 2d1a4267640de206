"""Many features on a GPU: the verbs by matrix products on tensor cores, certified; see ``product_kernels``."""

from functools import partial
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch

from isobag.backends.arrays import Balls
from isobag.backends.torch import direct, product_kernels
from isobag.backends.torch.direct import Outputs
from isobag.backends.torch.layout import PAD, Layout, layout_of

_BLOCK_PRODUCTS = 1 << 30
_PROGRAMS = 132 * 32
_SLACK = 1.001


class Halves(NamedTuple):
    """Centers of all partitionings, rounded: (t * P, d) float16, and what the certificates need of them, float32."""

    scale: float
    values: torch.Tensor
    sq_norms: torch.Tensor  # |c'|^2, a little less
    norms: torch.Tensor  # |c'| + rho_c
    losses: torch.Tensor  # rho_c
    scaled_radii: torch.Tensor  # (L, t, psi)


_kept: WeakKeyDictionary[Balls, dict[torch.device, Halves]] = WeakKeyDictionary()


def rows_at_once(balls: Balls) -> int:
    """Most queries of a pass, so that the products fit."""
    return max(1, min(direct.rows_at_once(balls), _BLOCK_PRODUCTS // balls.slots.size))


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
            values,
            (norms.square() * (1 - 2.0**-19)).float(),
            ((norms + losses) * _SLACK).float(),
            losses.float() * _SLACK,
            (layout.sq_radii * scale * scale).float(),
        )
    return made[device]


def _products(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A @ b.T of float16 numbers, added up in float32: (n, m)."""
    if not a.is_cuda:
        return a.float() @ b.float().t()
    reduced = torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    try:
        return torch.mm(a, b.t(), out_dtype=torch.float32)
    finally:
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = reduced


def run(x: torch.Tensor, balls: Balls, rule: str, wanted: Outputs) -> None:
    """Find the cells of queries x (d, n) in all levels and do with them what is wanted."""
    (d, n), (t, psi), n_levels = x.shape, balls.slots.shape, len(balls.levels)
    if rule != "nearest":
        direct.run(x, balls, rule, wanted)
        return
    if not n:
        return
    device = x.device
    layout = layout_of(balls, device, 1)
    halves = _halves(balls, layout)
    by_row = x.t().contiguous()
    centered = (by_row - layout.middle) * halves.scale
    values = centered.to(torch.float16)
    norms = centered.square().sum(dim=1).sqrt()
    losses = (centered - values).square_().sum(dim=1).sqrt()
    del centered
    sound = torch.isfinite(losses)
    length = norms + losses
    slopes = 2 * _SLACK**2 * (losses + ((d + 8) * 2.0**-23 + 2.0**-19) * length)
    slopes = torch.where(sound, slopes, float("inf")).float()
    reaches = torch.where(sound, 2 * _SLACK**2 * length, 0.0).float()
    sq_norms = torch.where(sound, norms.square(), 0.0).float()
    values = torch.where(sound[:, None], values, 0.0)
    pad = (0, -d % 8)
    products = _products(torch.nn.functional.pad(values, pad), torch.nn.functional.pad(halves.values, pad))
    places = layout.names.shape[1]
    lists = torch.empty((2, n * t * n_levels), dtype=torch.int32, device=device)
    n_listed = torch.zeros(2, dtype=torch.int32, device=device)
    bounds = (halves.sq_norms, halves.norms, halves.losses, slopes, reaches)
    outputs = (wanted.out, wanted.kept, wanted.far, wanted.limits, wanted.tables)
    actions = {"kind": wanted.kind, "keep": wanted.keeps, "far": wanted.sums_far}
    product_kernels.scan_products[(-(-n // 32), t)](
        products, n, layout.names, layout.ends, *bounds, sq_norms, halves.scaled_radii,
        *outputs, lists[0], n_listed[:1], t, psi, places, n_levels,
        rows=32, columns=64, **actions, enable_fp_fusion=False,
    )  # fmt: skip
    width = 1 << max(4, (places - 1).bit_length())
    product_kernels.rescan[(min(_PROGRAMS, n * t * n_levels),)](
        by_row, products, n, layout.names, layout.ends, layout.centers, *bounds, layout.sq_radii,
        *outputs, lists[0], n_listed[:1], lists[1], n_listed[1:], t, psi, places, d, n_levels,
        width=width, features=128, **actions, num_warps=1 if width <= 512 else 4, enable_fp_fusion=False,
    )  # fmt: skip
    direct.work_off(x, balls, layout, "nearest", wanted, lists[1], n_listed[1:])


assign = partial(direct.assign, run=run)
count = partial(direct.count, run=run)
sum_at = partial(direct.sum_at, run=run)
sum_kept, sq_radii = direct.sum_kept, direct.sq_radii
