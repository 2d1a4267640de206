"""What is made of the cells of queries, in blocks or not: counts of each cell, and sums of tables at the cells."""

import numpy as np

from isobag.backends.arrays import OUTSIDE, Ints
from isobag.backends.numba.compiled.jit import jit
from isobag.backends.numba.compiled.vectors import BLOCK


def make_tally(n_levels: int, psi: int) -> Ints:
    """Room for ``count_blocks``, with a place for OUTSIDE: (L, 4, psi + 1).

    Neighbours share their cells: with one counter for each cell, every addition would wait for the one before.
    """
    return np.zeros((n_levels, 4, psi + 1), dtype=np.int64)


def counted(tally: Ints) -> Ints:
    """Number of queries in each cell: (L, psi)."""
    counts: Ints = tally[:, :, :-1].sum(axis=1)
    return counts


@jit
def count_blocks(cells, weights, tally):
    """Count each query's cell: cells (blocks, L, BLOCK), weights (blocks, BLOCK) rows that each query stands for."""
    for block in range(len(cells)):
        own_weights = weights[block]
        for level in range(len(tally)):
            own = cells[block, level]
            counts = tally[level]
            for q in range(0, BLOCK, 4):
                counts[0, own[q]] += own_weights[q]
                counts[1, own[q + 1]] += own_weights[q + 1]
                counts[2, own[q + 2]] += own_weights[q + 2]
                counts[3, own[q + 3]] += own_weights[q + 3]


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
def put_back(places, parts, rows):
    """Sums of the threads, (threads, blocks, C, BLOCK), added up and written to rows (n, C) at these places."""
    for row in range(len(places)):
        block = places[row] // BLOCK
        q = places[row] - block * BLOCK
        for column in range(parts.shape[2]):
            total = parts[0, block, column, q]
            for part in range(1, len(parts)):
                total += parts[part, block, column, q]
            rows[row, column] = total


@jit
def count_cells(cells, counts):
    """Add one to the count of each query's cell: cells (t, L, n), counts (L, t, psi)."""
    for i in range(len(cells)):
        for level in range(cells.shape[1]):
            for cell in cells[i, level]:
                if cell != OUTSIDE:
                    counts[level, i, cell] += 1


@jit
def add_tables(cells, tables, sums):
    """Add the tables at each query's cells: cells (t, L, n), tables (L, t, psi), sums (L, n)."""
    for i in range(len(cells)):
        for level in range(cells.shape[1]):
            for q in range(cells.shape[2]):
                cell = cells[i, level, q]
                if cell != OUTSIDE:
                    sums[level, q] += tables[level, i, cell]
