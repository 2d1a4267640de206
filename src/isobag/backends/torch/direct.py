"""Few features on a GPU: one pass of certified float32, and the float64 definition for what is left."""

from collections.abc import Callable
from typing import NamedTuple

import torch

from isobag.backends.arrays import Balls
from isobag.backends.torch import kernels
from isobag.backends.torch.kernels import ASSIGN, COUNT, SUM, SUM_ALONE
from isobag.backends.torch.layout import Layout, layout_of

MOST_FEATURES = 32
BY_FEATURE = True
"""Queries (d, n) lie feature after feature."""
RULES = {"nearest": 0, "covering": 1, "smallest": 2}
MOST_BINS = 1024
"""Up to as many cells, a block of queries counts its own before it adds to the counts of all."""
MOST_LISTED = 1 << 28
LARGE = 128
"""From so many centers of one level on, they are taken in chunks, within which the definition decides."""
_BLOCK, _WARPS = 512, 4
_CLOSE_BLOCK, _CLOSE_PROGRAMS, _MOST_CLOSE = 256, 132 * 16, 16
_DECIDE_BLOCK, _DECIDE_PROGRAMS = 64, 132 * 32


class Outputs(NamedTuple):
    """Where a pass puts what it finds; what is not wanted is a tensor of one number."""

    kind: int
    out: torch.Tensor
    kept: torch.Tensor
    far: torch.Tensor
    limits: torch.Tensor
    tables: torch.Tensor
    keeps: bool = False
    sums_far: bool = False


Run = Callable[[torch.Tensor, Balls, str, Outputs], None]


def rows_at_once(balls: Balls, room: float) -> int:
    """Most queries of a pass, so that the list of doubtful ones, 8 bytes each, has half of the room."""
    most = min(MOST_LISTED, int(room) // 16)
    return max(1, most // (len(balls.slots) * len(balls.levels)))


def run(x: torch.Tensor, balls: Balls, rule: str, wanted: Outputs) -> None:
    """Find the cells of queries x (d, n) in all levels and do with them what is wanted."""
    d, n = x.shape
    if not n:
        return
    if rule == "nearest" and d <= MOST_FEATURES:
        _run_certified(x, balls, wanted)
        return
    total = torch.full((1,), n * len(balls.slots) * len(balls.levels), dtype=torch.int32, device=x.device)
    layout = layout_of(balls, x.device, 1, repeats=rule != "nearest")
    work_off(x, balls, layout, rule, wanted, None, total)


def _run_certified(x: torch.Tensor, balls: Balls, wanted: Outputs) -> None:
    (d, n), (t, psi), n_levels = x.shape, balls.slots.shape, len(balls.levels)
    one_large = n_levels == 1 and psi >= LARGE
    chunk, unroll = (8, 8) if one_large else (1, 4)
    layout = layout_of(balls, x.device, unroll)
    listed = torch.empty(t * n * n_levels, dtype=torch.int32, device=x.device)
    bests = torch.empty(t * n * n_levels, dtype=torch.float32, device=x.device)
    n_listed = torch.zeros(t, dtype=torch.int32, device=x.device)
    n_blocks = -(-n // _BLOCK)
    shares = max(1, min(t, 132 * 8 // n_blocks))  # few queries: more programs, fewer partitionings each
    per_program = -(-t // shares)
    alone = wanted.kind == SUM and per_program == t
    outputs = (wanted.out, wanted.kept, wanted.far, wanted.limits, wanted.tables)
    actions = {"keep": wanted.keeps, "far": wanted.sums_far, "num_warps": _WARPS, "enable_fp_fusion": False}
    places = layout.names.shape[1]
    kernels.scan_nearest[(n_blocks, -(-t // per_program))](
        x, n, layout.names, layout.ends, layout.sizes, layout.centers, layout.rounded, layout.middle, layout.sq_radii,
        layout.radii, *outputs, listed, bests, n_listed, t, psi, places, per_program,
        d=d, n_levels=n_levels, chunk=chunk, unroll=unroll, block=_BLOCK,
        bins=_bins(psi) if wanted.kind == COUNT else 0, kind=SUM_ALONE if alone else wanted.kind, **actions,
    )  # fmt: skip
    n_programs = max(1, min(_CLOSE_PROGRAMS // t, -(-n * n_levels // _CLOSE_BLOCK)))
    candidates = torch.empty(n_programs * t * _CLOSE_BLOCK * _MOST_CLOSE, dtype=torch.int32, device=x.device)
    kernels.decide_close[(n_programs, t)](
        x, n, layout.names, layout.ends, layout.centers, layout.rounded, layout.middle, layout.sq_radii,
        *outputs, listed, bests, n_listed, candidates, t, psi, places,
        d=d, n_levels=n_levels, chunk=unroll, block=_CLOSE_BLOCK, most=_MOST_CLOSE, kind=wanted.kind, **actions,
    )  # fmt: skip


def _bins(psi: int) -> int:
    return 1 << max(1, (psi - 1).bit_length()) if psi <= MOST_BINS else 0


def work_off(
    x: torch.Tensor,
    balls: Balls,
    layout: Layout,
    rule: str,
    wanted: Outputs,
    listed: torch.Tensor | None,
    n_listed: torch.Tensor,
) -> None:
    """The float64 definition for the entries listed, or for all of them if ``listed`` is None."""
    (d, n), (t, psi), n_levels = x.shape, balls.slots.shape, len(balls.levels)
    every = n * t * n_levels
    kernels.decide[(min(_DECIDE_PROGRAMS, -(-every // _DECIDE_BLOCK)),)](
        x, *x.stride(), n, layout.names, layout.ends, layout.centers, layout.sq_radii,
        wanted.out, wanted.kept, wanted.far, wanted.limits, wanted.tables,
        n_listed if listed is None else listed, n_listed,
        t, psi, layout.names.shape[1], d, n_levels,
        rule=RULES[rule], block=_DECIDE_BLOCK,
        kind=wanted.kind, keep=wanted.keeps, far=wanted.sums_far, listed=listed is not None,
        num_warps=2, enable_fp_fusion=False,
    )  # fmt: skip


def assign(x: torch.Tensor, balls: Balls, rule: str, run: Run = run) -> torch.Tensor:
    """Cell of every query in every partitioning of the only level: (t, n) int32."""
    cells = torch.empty((len(balls.slots), x.shape[1]), dtype=torch.int32, device=x.device)
    none = _nothing(x)
    run(x, balls, rule, Outputs(ASSIGN, cells, none, none, none, none))
    return cells


def count(
    x: torch.Tensor, balls: Balls, keep: bool = False, limits: torch.Tensor | None = None, run: Run = run
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Number of queries in each cell (L, t, psi) int32, and what else is wanted.

    That is the cells (L, t, n) if they are to be kept, and the octaves beyond the limits (n,) if there are limits.
    """
    shape = balls.sq_radii.shape
    counts = torch.zeros(shape, dtype=torch.int32, device=x.device)
    none = _nothing(x)
    kept = far = none
    if keep:
        narrow = torch.int16 if shape[2] < 1 << 15 else torch.int32
        kept = torch.empty((*shape[:2], x.shape[1]), dtype=narrow, device=x.device)
    if limits is not None:
        far = torch.zeros(x.shape[1], dtype=torch.int64, device=x.device)
    given = none if limits is None else limits
    run(x, balls, "nearest", Outputs(COUNT, counts, kept, far, given, none, keep, limits is not None))
    return counts, kept, far


def sum_at(
    x: torch.Tensor, balls: Balls, tables: torch.Tensor, rule: str, limits: torch.Tensor | None = None, run: Run = run
) -> torch.Tensor:
    """Sums over partitionings of the tables at the queries' cells: (L, n) int64.

    With ``limits`` (L,), one more row: the octaves beyond them, where OUTSIDE.
    """
    n_levels, none = len(balls.levels), _nothing(x)
    sums = torch.zeros((n_levels + (limits is not None), x.shape[1]), dtype=torch.int64, device=x.device)
    far, given = (none, none) if limits is None else (sums[n_levels], limits)
    run(x, balls, rule, Outputs(SUM, sums, none, far, given, tables, sums_far=limits is not None))
    return sums


def sum_kept(kept: torch.Tensor, tables: torch.Tensor) -> torch.Tensor:
    """Sums of the tables at cells that were kept: (L, t, n), (L, t, psi) -> (L, n) int64."""
    n_levels, t, n = kept.shape
    sums = torch.empty((n_levels, n), dtype=torch.int64, device=kept.device)
    if n:
        kernels.sum_kept[(-(-n // 256), n_levels)](kept, tables, sums, n, t, tables.shape[2], block=256)
    return sums


def sq_radii(points: torch.Tensor, slots: torch.Tensor, levels: tuple[int, ...]) -> torch.Tensor:
    """Squared distance from each center to the nearest different one: points (d, m) -> (L, t, psi)."""
    (d, m), (t, psi) = points.shape, slots.shape
    radii = torch.zeros((len(levels), t, psi), dtype=torch.float64, device=points.device)
    sizes = torch.tensor(levels, dtype=torch.int32, device=points.device)
    kernels.nearest_other[(-(-psi // 32), t)](
        points, slots, sizes, radii, m, d, t, psi, len(levels), rows=32, columns=32, enable_fp_fusion=False
    )
    return radii


def _nothing(x: torch.Tensor) -> torch.Tensor:
    return torch.empty(1, dtype=torch.int64, device=x.device)
