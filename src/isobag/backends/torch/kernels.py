"""Triton kernels for rows: cells by certified float32 where that is certain, else by the float64 definition.

``scan_nearest``. With x' = fl32(x - mu) and c' = fl32(c - mu), u = 2^-24, D the distance of x and c, and S the root of
the sum of (x'_k - c'_k)^2 as computed: rounding x' and c' moves the difference by at most u (|x'| + |c'|) in length,
the subtractions by at most u S, and d squares and sums, fused or not, change the root by a factor of at most
1 + (d + 1) u / 2. As |c'| <= |x'| + D,

    |S - D| <= A + B S   with A = 3 u |x'| + d 2^-60 and B = (d + 12) u,

which leaves room for the approximate root, for underflow and for the rounding of the float64 definition itself. So the
chunk of centers with the least S holds the nearest center if the least S of all other chunks, S2, satisfies S2 (1 - B)
> S (1 + B) + 2 A. Chunks of one center: its ball of radius r surely covers the query if S (1 + B) + A < r, surely does
not if S (1 - B) - A > r. Larger chunks: the float64 definition decides within the chunk. Where this is not certain, the
query is put on a list of its partitioning with its least S. ``decide_close`` works it off: only a chunk whose own least
S is at most (S (1 + B) + 2 A) / (1 - B) can hold the nearest center, and the definition decides between those. Beyond
1e15 nothing is certain. How far out a query is, are the leading bits of its squared distance: those of both bounds of
it, where these agree, else those of the float64 distance.

Counts and sums are integers, added up by atomic operations: no order can change them.
"""

import triton
import triton.language as tl

ASSIGN, COUNT, SUM, SUM_ALONE = 0, 1, 2, 3
"""What is wanted of cells; SUM_ALONE where no other program adds to the sums of the same queries."""


@triton.jit
def _act(
    kind: tl.constexpr, keep: tl.constexpr, far: tl.constexpr, bins: tl.constexpr,
    q, i, level, size, cell, sq_dist, sq_radius, todo, out, kept, far_out, limits, tables, n, t, psi,
):  # fmt: skip
    """What is wanted of each query's cell: store it, count it, or add the table at it."""
    inside = (sq_dist <= sq_radius) & todo
    if kind == 0:
        tl.store(out + tl.cast(i, tl.int64) * n + q, tl.where(inside, cell, -1), mask=todo)
    if kind == 1:
        row = out + tl.cast(level * t + i, tl.int64) * psi
        if bins > 32:
            if size <= 32:
                _add_histogram(32, row, cell, inside, psi)
            else:
                _add_histogram(bins, row, cell, inside, psi)
        elif bins > 0:
            _add_histogram(bins, row, cell, inside, psi)
        else:
            tl.atomic_add(row + cell, tl.full(cell.shape, 1, tl.int32), mask=inside, sem="relaxed")
        if keep:
            place = tl.cast(level * t + i, tl.int64) * n + q
            tl.store(kept + place, tl.where(inside, cell, -1).to(kept.dtype.element_ty), mask=todo)
    if kind >= 2:
        value = tl.load(tables + tl.cast(level * t + i, tl.int64) * psi + cell, mask=inside, other=0)
        place = out + tl.cast(level, tl.int64) * n + q
        if kind == 3:
            tl.store(place, tl.load(place, mask=inside, other=0) + value, mask=inside)
        else:
            tl.atomic_add(place, value, mask=inside, sem="relaxed")
    if far:
        _add_far(q, sq_dist, tl.load(limits + level), todo & (sq_dist > sq_radius), far_out)


@triton.jit
def _add_histogram(bins: tl.constexpr, row, cell, inside, psi):
    counts_of_cells = tl.histogram(tl.where(inside, cell, 0), bins, mask=inside)
    every = tl.arange(0, bins)
    tl.atomic_add(row + every, counts_of_cells, mask=(counts_of_cells > 0) & (every < psi), sem="relaxed")


@triton.jit
def _add_far(q, sq_dist, limit, outside, far_out):
    """Octaves of the squared distance beyond the limit; see ``octaves`` of ``isobag.backends.arrays``."""
    every = limit + tl.zeros(sq_dist.shape, tl.int64)
    excess = (sq_dist.to(tl.int64, bitcast=True) >> 40) - every
    tl.atomic_add(far_out + q, excess, mask=outside & (every >= 0) & (excess > 0), sem="relaxed")


@triton.jit
def scan_nearest(
    x, n, names, ends, sizes, centers, rounded, middle, sq_radii, radii, out, kept, far_out, limits, tables,
    todo_list, todo_bests, n_todo, t, psi, places, per_program,
    d: tl.constexpr, n_levels: tl.constexpr, chunk: tl.constexpr, unroll: tl.constexpr, block: tl.constexpr,
    kind: tl.constexpr, keep: tl.constexpr, far: tl.constexpr, bins: tl.constexpr,
):  # fmt: skip
    """Cells of a block of queries in some partitionings, all levels: x (d, n) float64; see ``Layout`` for the rest."""
    q = tl.program_id(0) * block + tl.arange(0, block)
    live = q < n
    xs = ()
    sq_norm = tl.zeros([block], tl.float32)
    for k in tl.static_range(d):
        value = (tl.load(x + tl.cast(k, tl.int64) * n + q, mask=live, other=0.0) - tl.load(middle + k)).to(tl.float32)
        xs = xs + (value,)  # noqa: RUF005
        sq_norm = tl.fma(value, value, sq_norm)
    slack = tl.sqrt(sq_norm) * (6.06 * 2.0**-24) + 2.02 * d * 2.0**-60
    share: tl.constexpr = (d + 12) * 2.0**-24
    beyond = tl.zeros([block], tl.int64)
    first = tl.program_id(1) * per_program
    for i in range(first, tl.minimum(first + per_program, t)):
        best = tl.full([block], float("inf"), tl.float32)
        second = tl.full([block], float("inf"), tl.float32)
        winner = tl.zeros([block], tl.int32)
        own = rounded + tl.cast(i, tl.int64) * places * d
        for level in range(n_levels):
            # Loaded, not handed on from the level before: compiled, an integer set before the loop stays what it was.
            begin = tl.load(ends + i * n_levels + level - 1, mask=level > 0, other=0)
            end = tl.load(ends + i * n_levels + level)
            for j in range(begin, end, unroll):
                for part in tl.static_range(unroll // chunk):
                    least = tl.full([block], float("inf"), tl.float32)
                    for c in tl.static_range(chunk):
                        total = tl.zeros([block], tl.float32)
                        for k in tl.static_range(d):
                            step = xs[k] - tl.load(own + (j + part * chunk + c) * d + k)
                            total = tl.fma(step, step, total)
                        least = tl.minimum(least, total)
                    second = tl.minimum(second, tl.maximum(best, least))
                    winner = tl.where(least < best, j + part * chunk, winner)
                    best = tl.minimum(best, least)
            length = tl.sqrt(best)
            certain = (tl.sqrt(second) * (1 - share) > length * (1 + share) + slack) & (best < 1e30)
            if chunk == 1:
                cell = tl.maximum(tl.load(names + tl.cast(i, tl.int64) * places + winner), 0)
                radius = tl.load(radii + tl.cast(level * t + i, tl.int64) * psi + cell)
                inside = length * (1 + share) + 0.5 * slack < radius
                certain = certain & (inside | (length * (1 - share) - 0.5 * slack > radius))
                sq_dist = tl.where(inside, 0.0, 2.0).to(tl.float64)
                sq_radius = tl.full([block], 1.0, tl.float64)
                if far:
                    limit = tl.load(limits + level)
                    if limit >= 0:
                        outside = live & certain & (inside == 0)
                        # One more 2^-24 of the length pays for the rounding of the bounds themselves.
                        low = (length * (1 - share - 2.0**-24) - 0.51 * slack).to(tl.float64)
                        high = (length * (1 + share + 2.0**-24) + 0.51 * slack).to(tl.float64)
                        octave = (low * low).to(tl.int64, bitcast=True) >> 40
                        unclear = outside & ((low <= 0) | (octave != (high * high).to(tl.int64, bitcast=True) >> 40))
                        at_winner = centers + (tl.cast(i, tl.int64) * places + winner) * d
                        exact = tl.zeros([block], tl.float64)
                        for k in tl.static_range(d):
                            own_k = tl.load(x + tl.cast(k, tl.int64) * n + q, mask=unclear, other=0.0)
                            step64 = own_k - tl.load(at_winner + k, mask=unclear, other=0.0)
                            exact = exact + step64 * step64
                        octave = tl.where(unclear, exact.to(tl.int64, bitcast=True) >> 40, octave)
                        beyond += tl.where(outside, tl.maximum(octave - limit, 0), 0)
            else:
                sq_dist = tl.full([block], float("inf"), tl.float64)
                cell = tl.zeros([block], tl.int32)
                for c in range(chunk):
                    place = tl.cast(i, tl.int64) * places + winner + c
                    name = tl.load(names + place)
                    total64 = tl.zeros([block], tl.float64)
                    for k in tl.static_range(d):
                        own_k = tl.load(x + tl.cast(k, tl.int64) * n + q, mask=live, other=0.0)
                        step64 = own_k - tl.load(centers + place * d + k)
                        total64 = total64 + step64 * step64
                    closer = (total64 < sq_dist) & (name >= 0)
                    sq_dist = tl.where(closer, total64, sq_dist)
                    cell = tl.where(closer, name, cell)
                sq_radius = tl.load(sq_radii + tl.cast(level * t + i, tl.int64) * psi + cell)
            _act(
                kind, keep, far and chunk > 1, bins, q, i, level, tl.load(sizes + level), cell, sq_dist, sq_radius,
                live & certain, out, kept, far_out, limits, tables, n, t, psi,
            )  # fmt: skip
            doubtful = live & (certain == 0)
            at = tl.atomic_add(
                n_todo + i + tl.zeros([block], tl.int32), tl.full([block], 1, tl.int32), mask=doubtful, sem="relaxed"
            )
            at = tl.cast(i, tl.int64) * n * n_levels + at
            tl.store(todo_list + at, q * n_levels + level, mask=doubtful)
            tl.store(todo_bests + at, best, mask=doubtful)
    if far and chunk == 1:
        tl.atomic_add(far_out + q, beyond, mask=live & (beyond > 0), sem="relaxed")


@triton.jit
def decide_close(
    x, n, names, ends, centers, rounded, middle, sq_radii, out, kept, far_out, limits, tables,
    todo_list, todo_bests, n_todo, candidates, t, psi, places,
    d: tl.constexpr, n_levels: tl.constexpr, chunk: tl.constexpr, block: tl.constexpr, most: tl.constexpr,
    kind: tl.constexpr, keep: tl.constexpr, far: tl.constexpr,
):  # fmt: skip
    """The float64 definition for the entries query * levels + level listed for one partitioning.

    Between chunks that may hold the nearest center, of which each program has room for ``most`` for each entry; where
    there are more, between all centers.
    """
    i = tl.program_id(1)
    total = tl.load(n_todo + i)
    lane = tl.arange(0, block)
    own_list = tl.cast(i, tl.int64) * n * n_levels
    program = tl.cast(i, tl.int64) * tl.num_programs(0) + tl.program_id(0)
    close_chunks = candidates + program * block * most + lane
    share: tl.constexpr = (d + 12) * 2.0**-24
    own = rounded + tl.cast(i, tl.int64) * places * d
    for start in range(tl.program_id(0) * block, total, tl.num_programs(0) * block):
        todo = start + lane < total
        entry = tl.load(todo_list + own_list + start + lane, mask=todo, other=0)
        level = entry % n_levels
        q = entry // n_levels
        xs = ()
        sq_norm = tl.zeros([block], tl.float32)
        for k in tl.static_range(d):
            value = (tl.load(x + tl.cast(k, tl.int64) * n + q) - tl.load(middle + k)).to(tl.float32)
            xs = xs + (value,)  # noqa: RUF005
            sq_norm = tl.fma(value, value, sq_norm)
        slack = tl.sqrt(sq_norm) * (6.06 * 2.0**-24) + 2.02 * d * 2.0**-60
        length = tl.sqrt(tl.load(todo_bests + own_list + start + lane, mask=todo, other=0.0))
        limit = (length * (1 + share) + slack) * (1 + 2 * share)
        sq_limit = limit * limit * (1 + 2.0**-20)
        end = tl.load(ends + i * n_levels + level)
        last = tl.max(tl.where(todo, end, 0), axis=0)
        n_close = tl.zeros([block], tl.int32)
        for j in range(0, last, chunk):
            least = tl.full([block], float("inf"), tl.float32)
            for c in tl.static_range(chunk):
                distance = tl.zeros([block], tl.float32)
                for k in tl.static_range(d):
                    step = xs[k] - tl.load(own + (j + c) * d + k)
                    distance = tl.fma(step, step, distance)
                least = tl.minimum(least, distance)
            close = ((least > sq_limit) == 0) & (j < end) & todo  # not a number is close
            tl.store(close_chunks + n_close * block, tl.zeros([block], tl.int32) + j, mask=close & (n_close < most))
            n_close += close.to(tl.int32)
        tl.debug_barrier()
        best = tl.full([block], float("inf"), tl.float64)
        cell = tl.zeros([block], tl.int32)
        most_close = tl.max(n_close, axis=0)
        has_room = most_close <= most
        n_rounds = tl.where(has_room, most_close, last // chunk)
        for number in range(n_rounds):
            if has_room:
                there = number < n_close
                begin = tl.load(close_chunks + number * block, mask=there, other=0)
            else:
                begin = number * chunk + tl.zeros([block], tl.int32)
                there = todo & (begin < end)
            for c in range(chunk):
                place = tl.cast(i, tl.int64) * places + begin + c
                name = tl.load(names + place)
                exact = tl.zeros([block], tl.float64)
                for k in tl.static_range(d):
                    own_k = tl.load(x + tl.cast(k, tl.int64) * n + q)
                    step64 = own_k - tl.load(centers + place * d + k)
                    exact = exact + step64 * step64
                closer = there & (exact < best) & (name >= 0)
                best = tl.where(closer, exact, best)
                cell = tl.where(closer, name, cell)
        sq_radius = tl.load(sq_radii + (tl.cast(level, tl.int64) * t + i) * psi + cell)
        _act(
            kind, keep, far, 0, q, i, level, 0, cell, best, sq_radius, todo, out, kept, far_out, limits, tables,
            n, t, psi,
        )  # fmt: skip
        tl.debug_barrier()


@triton.jit
def decide(
    x, feature_step, row_step, n, names, ends, centers, sq_radii, out, kept, far_out, limits, tables, todo_list, n_todo,
    t, psi, places, d, n_levels,
    rule: tl.constexpr, block: tl.constexpr,
    kind: tl.constexpr, keep: tl.constexpr, far: tl.constexpr, listed: tl.constexpr,
):  # fmt: skip
    """The float64 definition for entries (query * t + partitioning) * levels + level: those listed, or all.

    rule 0: nearest, 1: covering, 2: smallest. n_todo: how many entries there are.
    """
    total = tl.load(n_todo)
    for start in range(tl.program_id(0) * block, total, tl.num_programs(0) * block):
        at = start + tl.arange(0, block)
        todo = at < total
        entry = tl.load(todo_list + at, mask=todo, other=0) if listed else tl.where(todo, at, 0)
        level = entry % n_levels
        i = (entry // n_levels) % t
        q = entry // n_levels // t
        end = tl.load(ends + i * n_levels + level)
        row = tl.cast(level * t + i, tl.int64) * psi
        best = tl.full([block], float("inf"), tl.float64)  # the winner's distance or, under "smallest", its radius
        sq_dist = tl.full([block], float("inf"), tl.float64)
        cell = tl.full([block], -1, tl.int32)
        for j in range(0, tl.max(end)):
            place = tl.cast(i, tl.int64) * places + j
            name = tl.load(names + place)
            exact = tl.zeros([block], tl.float64)
            for k in range(d):
                own = tl.load(x + tl.cast(k, tl.int64) * feature_step + tl.cast(q, tl.int64) * row_step)
                step = own - tl.load(centers + place * d + k)
                exact = exact + step * step
            there = (name >= 0) & (j < end)
            measure = exact
            if rule > 0:
                sq_radius = tl.load(sq_radii + row + tl.maximum(name, 0))
                there = there & (exact <= sq_radius)
                if rule == 2:
                    measure = sq_radius
            closer = there & ((measure < best) | (cell < 0))
            best = tl.where(closer, measure, best)
            sq_dist = tl.where(closer, exact, sq_dist)
            cell = tl.where(closer, name, cell)
        sq_radius = tl.load(sq_radii + row + tl.maximum(cell, 0))
        todo_here = todo & (cell >= 0)
        if kind == 0:
            todo_here = todo
        if keep:
            todo_here = todo
        _act(
            kind, keep, far, 0, q, i, level, 0, tl.maximum(cell, 0), tl.where(cell >= 0, sq_dist, float("inf")),
            tl.where(cell >= 0, sq_radius, -1.0), todo_here, out, kept, far_out, limits, tables, n, t, psi,
        )  # fmt: skip


@triton.jit
def sum_kept(kept, tables, out, n, t, psi, block: tl.constexpr):
    """Sums over partitionings of the tables at cells that were kept: (L, t, n) -> (L, n)."""
    q = tl.program_id(0) * block + tl.arange(0, block)
    level = tl.program_id(1)
    live = q < n
    total = tl.zeros([block], tl.int64)
    for i in range(t):
        cell = tl.load(kept + tl.cast(level * t + i, tl.int64) * n + q, mask=live, other=-1).to(tl.int32)
        total += tl.load(tables + tl.cast(level * t + i, tl.int64) * psi + cell, mask=cell >= 0, other=0)
    tl.store(out + tl.cast(level, tl.int64) * n + q, total, mask=live)


@triton.jit
def nearest_other(
    points, slots, levels, radii, m, d, t, psi, n_levels, rows: tl.constexpr, columns: tl.constexpr
):  # fmt: skip
    """Squared distance from each center to the nearest different one: points (d, m) float64 -> radii (L, t, psi)."""
    i = tl.program_id(1)
    j = tl.program_id(0) * rows + tl.arange(0, rows)
    own = tl.load(slots + i * psi + j, mask=j < psi, other=0)
    least = tl.full([rows], float("inf"), tl.float64)
    for level in range(n_levels):
        begin = tl.load(levels + level - 1, mask=level > 0, other=0)
        end = tl.load(levels + level)
        for first in range(begin, end, columns):
            other = first + tl.arange(0, columns)
            slot = tl.load(slots + i * psi + other, mask=other < end, other=0)
            total = tl.zeros([rows, columns], tl.float64)
            for k in range(d):
                row = points + tl.cast(k, tl.int64) * m
                step = tl.load(row + own)[:, None] - tl.load(row + slot)[None, :]
                total = total + step * step
            counts = (total > 0) & (other < end)[None, :]
            least = tl.minimum(least, tl.min(tl.where(counts, total, float("inf")), axis=1))
        radius = tl.where(least < float("inf"), least, 0.0)
        tl.store(radii + tl.cast(level * t + i, tl.int64) * psi + j, radius, mask=j < end)
