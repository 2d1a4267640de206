"""What is drawn: rows for samples, and pools that are cut into samples. All randomness of drawing."""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from isobag.backends.arrays import Cells, Floats, Ints, is_first
from isobag.backends.samples import RUN
from isobag.backends.threads import slices

_ROUND = 64
_COMPARED_ROWS = 1 << 10
_BLOCK_DRAWS = 1 << 20
"""Most numbers drawn at once."""
POOL_ROWS = 2048
MANY_FEATURES = 32, 256
"""Beyond each of these, a pool has half as many rows."""
Seeds = npt.NDArray[np.uint64]


def pool_rows(pool_size: int | str, psi: int, n_rows: int, n_features: int) -> int:
    """How many rows a pool has: by default four samples of the largest psi, and 2,048 or more; of many features fewer.

    Most of the time is spent on distances then, and a pool that is cut several times is nearly as good.
    """
    usual = max(POOL_ROWS, 4 * psi) // 2 ** sum(n_features > many for many in MANY_FEATURES)
    return min(n_rows, usual if pool_size == "auto" else max(int(pool_size), psi))


def count_blocks(levels: tuple[int, ...], n_pool: int, n_estimators: int) -> int:
    """Blocks of the largest psi that have at most ``n_estimators`` samples of a psi, in whole cuts of a pool, if any.

    A small pool is cut as often as it takes to have the slots of a usual one.
    """
    n_runs = max(n_pool, POOL_ROWS) // RUN
    n_runs = n_estimators // n_runs * n_runs or n_estimators
    return -(-n_runs * RUN // levels[-1])


def cut_pool(n_pool: int, psi: int, n_blocks: int, rng: np.random.Generator) -> Cells:
    """Slots of blocks of psi rows, in order at first and then shuffled, disjoint in each cut: (n_blocks psi,)."""
    per_cut = n_pool // psi
    cuts = [np.arange(n_pool)] + [rng.permutation(n_pool) for _ in range(-(-n_blocks // per_cut) - 1)]
    return np.concatenate([order[: per_cut * psi] for order in cuts])[: n_blocks * psi].astype(np.int32)


def draw_pools(n_rows: int, n_pool: int, n_pools: int, rng: np.random.Generator) -> list[Ints]:
    """Numbers of the rows of several pools, each in random order; together they take at most half of the rows.

    Where that is too few for pools apart from each other they overlap as little as can be; where half of the rows are
    fewer than one pool, each pool is drawn from all rows.
    """
    if 2 * n_pool > n_rows:
        return [rng.permutation(n_rows)[:n_pool] for _ in range(n_pools)]
    rows = rng.permutation(n_rows)[: min(n_pools * n_pool, n_rows // 2)]
    firsts = np.linspace(0, len(rows) - n_pool, n_pools).astype(np.int64)
    return [rng.permutation(rows[first : first + n_pool]) for first in firsts]


def draw_seeds(n_estimators: int, random_state: Any) -> Seeds:
    """A seed for each partitioning, a smaller draw being the start of a larger one: (t, 2)."""
    seeds: Seeds = check_random_state(random_state).randint(0, 2**32, size=(n_estimators, 2), dtype=np.uint64)
    return seeds


def draw_rows(n_rows: int, seeds: Seeds, n_cells: int) -> Ints:
    """Rows drawn without replacement for each partitioning: (t, psi).

    Nested: the first psi rows, and the first t partitionings, of a larger draw with the same seed are the smaller
    draw. Each partitioning has its own stream of row numbers and keeps the first psi different ones.
    """
    rows = np.empty((len(seeds), n_cells), dtype=np.int64)
    for part in slices(len(seeds), max(1, _BLOCK_DRAWS // n_cells)):
        generators = [np.random.default_rng(seed) for seed in seeds[part]]
        rows[part] = _first_distinct(generators, n_rows, n_cells)
    return rows


def _first_distinct(generators: list[np.random.Generator], n_rows: int, size: int) -> Ints:
    """The first ``size`` different numbers of each stream: (streams, size)."""
    chosen = np.empty((len(generators), size), dtype=np.int64)
    missing = np.arange(len(generators))
    streams = np.empty((len(generators), 0), dtype=np.int64)
    while len(missing):
        # In even portions: a generator that makes two numbers at once has then none left over.
        length = streams.shape[1]
        more = -(-max(size - length, length, _ROUND) // _ROUND) * _ROUND
        drawn = [generators[i].integers(0, n_rows, size=more) for i in missing]
        streams = np.concatenate([streams, drawn], axis=1)
        first = is_first(streams)
        done = first.sum(axis=1) >= size
        taken = first[done] & (first[done].cumsum(axis=1, dtype=np.int32) <= size)
        chosen[missing[done]] = streams[done][taken].reshape(-1, size)
        missing, streams = missing[~done], streams[~done]
    return chosen


def distinct_points(values: Floats) -> tuple[Floats, Ints]:
    """Rows of ``values`` without repetitions, and where each row went: (m, d), (n,)."""
    values = values + 0.0  # -0.0 becomes 0.0, so that equal numbers have equal bits
    _, first, names = np.unique(_hash_rows(values), return_index=True, return_inverse=True)
    points = values[first]
    blocks = slices(len(values), _COMPARED_ROWS)
    if not all(np.array_equal(points[names[own]], values[own]) for own in blocks):  # two different rows with one hash
        _, first, names = np.unique(values, axis=0, return_index=True, return_inverse=True)
        points = values[first]
    return points, names.ravel()  # with an axis, NumPy 2.0 alone gives (n, 1)


def _hash_rows(values: Floats) -> Seeds:
    hashes = np.zeros(len(values), dtype=np.uint64)
    for column in np.ascontiguousarray(values.T).view(np.uint64):
        hashes = (hashes ^ column) * np.uint64(0x9E3779B97F4A7C15)
        hashes ^= hashes >> np.uint64(29)
    return hashes


def nested_levels(n_cells: int) -> tuple[int, ...]:
    """2, 4, 8, ... below ``n_cells``, and ``n_cells`` itself."""
    return (*(2**k for k in range(1, n_cells.bit_length()) if 2**k < n_cells), n_cells)
