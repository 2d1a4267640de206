"""Triton kernels for rows: scaled, measured, and the nearest center of every sample, a row or a few a thread.

Every operation is that of ``isobag.backends.numpy``, in the same order, rounded once: kernels are compiled without
fused operations. Scaled rows lie feature by feature in memory, so that threads read them side by side.
"""

import triton
import triton.language as tl


@triton.jit
def scale(
    X, row_step, column_step, scaled, n, d, starts, shift, spread, scores, slopes, factors, most,
    kind: tl.constexpr, terms: tl.constexpr, steps: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr,
):  # fmt: skip
    """Rows X (n, d) scaled, to scaled (d, n) float32; kind 0: linear, 1: asinh, 2: piecewise linear through knots.

    Of knots, shift holds the values and 2^steps is above the number of those of any feature; else starts, scores and
    slopes are not read. factors (terms + 1,): of the series of asinh, and the logarithm of 2.
    """
    q = (tl.program_id(0) * rows + tl.arange(0, rows))[:, None]
    k = (tl.program_id(1) * columns + tl.arange(0, columns))[None, :]
    there = (q < n) & (k < d)
    x = tl.load(X + q.to(tl.int64) * row_step + k * column_step, mask=there, other=0.0).to(tl.float64)
    if kind == 2:
        first = tl.load(starts + k, mask=k < d, other=0)
        last = tl.load(starts + k + 1, mask=k < d, other=0)
        place = first + tl.zeros([rows, columns], tl.int64)
        for step in tl.static_range(steps):  # how many knots are not above x, bit by bit
            ahead = place + (1 << (steps - 1 - step))
            is_below = there & (ahead <= last)
            value_before = tl.load(shift + ahead - 1, mask=is_below, other=0.0)
            place = tl.where(is_below & (value_before <= x), ahead, place)
        knot = tl.maximum(place - 1, first)
        gap = x - tl.load(shift + knot, mask=there, other=0.0)
        value = tl.load(scores + knot, mask=there, other=0.0) + tl.load(slopes + place + k, mask=there, other=0.0) * gap
    else:
        value = (x - tl.load(shift + k, mask=k < d, other=0.0)) / tl.load(spread + k, mask=k < d, other=1.0)
        value = tl.minimum(tl.maximum(value, -most), most)
    if kind == 1:
        y = tl.abs(value)
        root = tl.sqrt(1.0 + y * y)
        total = y + root
        is_near = y < 0.75
        bits = total.to(tl.int64, bitcast=True)
        half = ((bits & ((1 << 52) - 1)) | (1022 << 52)).to(tl.float64, bitcast=True)
        s = tl.where(is_near, y, half - 0.5) / tl.where(is_near, 1.0 + root, half + 0.5)
        square = s * s
        rest = tl.zeros([rows, columns], tl.float64)
        for term in tl.static_range(terms):
            rest = (rest + tl.load(factors + term)) * square
        near = y + y * (rest - square * (1.0 + rest))
        rounded_off = (y - (total - root)) / total
        far = ((bits >> 52) - 1023).to(tl.float64) * tl.load(factors + terms) + (2.0 * (s + s * rest) + rounded_off)
        result = tl.where(is_near, near, far)
        value = tl.where(value.to(tl.int64, bitcast=True) < 0, result * -1.0, result)
    value = tl.minimum(tl.maximum(value, -most), most)
    tl.store(scaled + tl.cast(k, tl.int64) * n + q, value.to(tl.float32), mask=there)


@triton.jit
def measure(x, row_step, feature_step, centers, sq_dists, n, m, d, rows: tl.constexpr, together: tl.constexpr):
    """Squared distances of rows (n, d) to ``together`` of m centers (d, m), a multiple of these: sq_dists (m, n)."""
    q = tl.program_id(0) * rows + tl.arange(0, rows)
    first = tl.program_id(1) * together
    totals = ()
    for _ in tl.static_range(together):
        totals = totals + (tl.zeros([rows], tl.float32),)  # noqa: RUF005
    pointers = x + q.to(tl.int64) * row_step
    for k in range(d):
        value = tl.load(pointers + tl.cast(k, tl.int64) * feature_step, mask=q < n, other=0.0)
        center = centers + tl.cast(k, tl.int64) * m + first
        sums = ()
        for j in tl.static_range(together):
            gap = value - tl.load(center + j)
            sums = sums + (totals[j] + gap * gap,)  # noqa: RUF005
        totals = sums
    for j in tl.static_range(together):
        tl.store(sq_dists + tl.cast(first + j, tl.int64) * n + q, totals[j], mask=q < n)


@triton.jit
def _scan(
    near, winner, xs, x, feature_step, centers, q, live, first,
    length: tl.constexpr, unroll: tl.constexpr, d: tl.constexpr,
):  # fmt: skip
    """Let the slots from ``first`` on compete; a later one must be strictly nearer."""
    width: tl.constexpr = unroll if length % unroll == 0 else 2 if length % 2 == 0 else 1
    for j in range(first, first + length, width):
        for u in tl.static_range(width):
            if d == 0:
                place = tl.load(centers + j + u)
                total = tl.load(x + tl.cast(place, tl.int64) * feature_step + q, mask=live, other=0.0)
            else:
                center = centers + (j + u) * d
                gap = xs[0] - tl.load(center)
                total = gap * gap
                for k in tl.static_range(1, d):
                    gap = xs[k] - tl.load(center + k)
                    total += gap * gap
            closer = total < near
            winner = tl.where(closer, j + u, winner)
            near = tl.where(closer, total, near)
    return near, winner


@triton.jit
def _use(
    near, winner, level: tl.constexpr, weight: tl.constexpr, number, total, far, q, live, table, limits, out, out_step,
    n_slots, kind: tl.constexpr,
):  # fmt: skip
    """What is wanted of the winners of a sample: its number among those of all psi."""
    bits = near.to(tl.int32, bitcast=True)
    entry = tl.load(table + level * n_slots + winner)
    if kind == 0:
        is_outside = near > entry
        place = out + tl.cast(number, tl.int64) * out_step + q
        tl.store(place, tl.where(is_outside, -1, winner).to(out.dtype.element_ty), mask=live)
    else:
        is_outside = bits > (entry >> 32).to(tl.int32)
        total += tl.where(is_outside, 0, entry & 0xFFFFFFFF).to(total.dtype)
    if weight > 0:
        beyond = (bits >> 11) - tl.load(limits + level)
        far += tl.where(is_outside & (beyond > 0), beyond, 0).to(far.dtype) * weight
    return total, far


@triton.jit
def find_nearest(
    x, row_step, feature_step, centers, table, limits, out, out_step, far_out, n, n_slots,
    levels: tl.constexpr, begins: tl.constexpr, firsts: tl.constexpr, weights: tl.constexpr,
    run: tl.constexpr, d: tl.constexpr, kind: tl.constexpr, wide: tl.constexpr, unroll: tl.constexpr,
    rows: tl.constexpr,
):  # fmt: skip
    """The nearest center of every sample, for a block of rows (n, d); with d = 0, x holds distances (n, centers).

    centers (slots, d), or with d = 0 the number of each slot's center (slots,); levels: psi, ascending; begins: the
    psi before each, 0 before the first; firsts: number of samples of smaller psi; weights: of how far out rows are,
    0 where that does not count, with limits (L,).
    kind 0: table (L, slots) holds squared radii, out (T, n) gets slots, far_out (n,).
    kind 1: table (L, slots) holds the bits of radii above, what is added below; out (n, L + 1) gets sums and far.
    """
    n_levels: tl.constexpr = len(levels)
    block: tl.constexpr = levels[n_levels - 1]
    n_runs: tl.constexpr = block // run
    sum_type: tl.constexpr = tl.int64 if wide else tl.int32
    q = tl.program_id(0) * rows + tl.arange(0, rows)
    live = q < n
    xs = ()
    for k in tl.static_range(d):
        value = tl.load(x + q.to(tl.int64) * row_step + k * feature_step, mask=live, other=0.0)
        xs = xs + (value,)  # noqa: RUF005
    far = tl.zeros([rows], sum_type)
    totals = ()
    for _ in tl.static_range(n_levels):
        totals = totals + (tl.zeros([rows], sum_type),)  # noqa: RUF005
    for b in range(n_slots // block):
        nears = ()
        winners = ()
        for _ in tl.static_range(n_levels):  # of psi above a run, so far
            nears = nears + (tl.full([rows], float("inf"), tl.float32),)  # noqa: RUF005
            winners = winners + (tl.zeros([rows], tl.int32) + b * block,)  # noqa: RUF005
        for r in range(n_runs):
            start = b * block + r * run
            near = tl.full([rows], float("inf"), tl.float32)
            winner = tl.zeros([rows], tl.int32) + start
            sums = ()
            next_nears = ()
            next_winners = ()
            for level in tl.static_range(n_levels):
                if levels[level] <= run:
                    near, winner = _scan(
                        near, winner, xs, x, feature_step, centers, q, live,
                        start + begins[level], levels[level] - begins[level], unroll, d,
                    )  # fmt: skip
                    total, far = _use(
                        near, winner, level, weights[level], firsts[level] + b * n_runs + r, totals[level], far,
                        q, live, table, limits, out, out_step, n_slots, kind,
                    )  # fmt: skip
                    sums = sums + (total,)  # noqa: RUF005
                    next_nears = next_nears + (nears[level],)  # noqa: RUF005
                    next_winners = next_winners + (winners[level],)  # noqa: RUF005
                else:
                    closer = near < nears[level]
                    least = tl.where(closer, near, nears[level])
                    name = tl.where(closer, winner, winners[level])
                    total = totals[level]
                    if level < n_levels - 1:  # noqa: SIM102, the one is known when compiling
                        if (r + 1) % (levels[level] // run) == 0:
                            number = firsts[level] + b * (block // levels[level]) + r // (levels[level] // run)
                            total, far = _use(
                                least, name, level, weights[level], number, total, far,
                                q, live, table, limits, out, out_step, n_slots, kind,
                            )  # fmt: skip
                            least = tl.full([rows], float("inf"), tl.float32)
                            name = tl.zeros([rows], tl.int32) + start
                    sums = sums + (total,)  # noqa: RUF005
                    next_nears = next_nears + (least,)  # noqa: RUF005
                    next_winners = next_winners + (name,)  # noqa: RUF005
            totals, nears, winners = sums, next_nears, next_winners
        if block > run:
            last: tl.constexpr = n_levels - 1
            near, winner = nears[last], winners[last]
            if n_runs * run < block:
                near, winner = _scan(
                    near, winner, xs, x, feature_step, centers, q, live,
                    b * block + n_runs * run, block - n_runs * run, unroll, d,
                )  # fmt: skip
            total, far = _use(
                near, winner, last, weights[last], firsts[last] + b, totals[last], far,
                q, live, table, limits, out, out_step, n_slots, kind,
            )  # fmt: skip
            sums = ()
            for level in tl.static_range(last):
                sums = sums + (totals[level],)  # noqa: RUF005
            totals = sums + (total,)  # noqa: RUF005
    if kind == 0:
        tl.store(far_out + q, far.to(tl.int64), mask=live)
    if kind == 1:
        for level in tl.static_range(n_levels):
            tl.store(out + q.to(tl.int64) * out_step + level, totals[level].to(tl.int64), mask=live)
        tl.store(out + q.to(tl.int64) * out_step + n_levels, far.to(tl.int64), mask=live)


@triton.jit
def count_cells(cells, starts, firsts, dense, n, width, before, psi, block: tl.constexpr, bins: tl.constexpr):
    """Cells of one group's rows in one sample, counted: cells (t, n) -> dense (g, width), slot s in ``before`` + s.

    The third number of a program is that of its ``bins`` of the psi slots.
    """
    g = tl.program_id(0)
    i = tl.program_id(1)
    skipped = tl.program_id(2) * bins
    first = tl.load(firsts + i) + skipped
    end = tl.load(starts + g + 1)
    total = tl.zeros([bins], tl.int32)
    for start in range(tl.load(starts + g), end, block):
        row = start + tl.arange(0, block)
        cell = tl.load(cells + tl.cast(i, tl.int64) * n + row, mask=row < end, other=-1).to(tl.int32)
        is_here = (cell >= first) & (cell < first + bins)
        total += tl.histogram(tl.where(is_here, cell - first, 0), bins, mask=is_here)
    column = tl.arange(0, bins)
    place = dense + tl.cast(g, tl.int64) * width + before + first + column
    tl.store(place, total.to(dense.dtype.element_ty), mask=column < psi - skipped)
