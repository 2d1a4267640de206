"""What is made of the cells of blocks of queries: counts of each cell, and sums of tables at the cells."""

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import OUTSIDE, Ints
from isobag.backends.numba.compiled.jit import jit
from isobag.backends.numba.compiled.vectors import BLOCK


def make_tally(n_levels: int, psi: int) -> Ints:
    """Room for ``count_blocks``, with a place for OUTSIDE: (L, 4, psi + 1).

    Neighbours share their cells: with one counter for each cell, every addition would wait for the one before.
    """
    return np.zeros((n_levels, 4, psi + 1), dtype=np.int64)


def count_blocks(cells: npt.NDArray[np.int16], n: int, tally: Ints) -> None:
    """Count each query's cell: cells (blocks, L, BLOCK) of n queries or more; lanes without a query become OUTSIDE."""
    first = n - (len(cells) - 1) * BLOCK
    if first < BLOCK:
        cells[-1, :, first:] = OUTSIDE
    _count_blocks(cells, tally)


def counted(tally: Ints) -> Ints:
    """Number of queries in each cell: (L, psi)."""
    counts: Ints = tally[:, :, :-1].sum(axis=1)
    return counts


@jit
def _count_blocks(cells, tally):
    for block in range(len(cells)):
        for level in range(len(tally)):
            own = cells[block, level]
            counts = tally[level]
            for q in range(0, BLOCK, 4):
                counts[0, own[q]] += 1
                counts[1, own[q + 1]] += 1
                counts[2, own[q + 2]] += 1
                counts[3, own[q + 3]] += 1


def padded_tables(tables: Ints) -> Ints:
    """Tables (L, t, psi) as (t, L, psi + 1), with a zero for OUTSIDE at the end."""
    padded = np.zeros((tables.shape[1], tables.shape[0], tables.shape[2] + 1), dtype=np.int64)
    padded[:, :, :-1] = tables.transpose(1, 0, 2)
    return padded


@jit
def add_blocks(cells, first, tables, sums):
    """Add the tables at the cells, from level ``first`` on: cells (t, blocks, L, BLOCK), sums (blocks, L, BLOCK).

    tables (t, L, psi + 1) have a zero for OUTSIDE at the end
    """
    for block in range(len(sums)):
        for i in range(len(tables)):
            for level in range(sums.shape[1]):
                own = cells[i, block, first + level]
                total = sums[block, level]
                table = tables[i, level]
                for q in range(BLOCK):
                    total[q] += table[own[q]]


@jit
def put_back(order, parts, column, first, last, rows):
    """Sums of the threads, (threads, blocks, C, BLOCK), added up and written to rows (n, ...) from a column on.

    order (n,) place -> row; of the places first to last
    """
    for place in range(first, last):
        block = place // BLOCK
        q = place - block * BLOCK
        for level in range(parts.shape[2]):
            total = parts[0, block, level, q]
            for part in range(1, len(parts)):
                total += parts[part, block, level, q]
            rows[order[place], column + level] = total
