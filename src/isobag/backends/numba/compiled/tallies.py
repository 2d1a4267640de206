"""What is made of the cells of blocks of queries: counts of each cell, and sums of tables at the cells."""

import numpy as np

from isobag.backends.arrays import Ints
from isobag.backends.numba.compiled.jit import jit
from isobag.backends.numba.compiled.vectors import LANES


@jit
def count_blocks(cells, n, counts):
    """Add one to the count of each query's cell: cells (blocks, L, LANES) of n queries, counts (L, psi)."""
    n_levels, psi = counts.shape
    # Neighbours share their cells: with one counter for each cell, every addition would wait for the one before.
    tallies = np.zeros((n_levels, 4, psi + 1), np.int64)
    n_whole = min(len(cells), n // LANES)
    for block in range(n_whole):
        for level in range(n_levels):
            own = cells[block, level]
            tally = tallies[level]
            for q in range(0, LANES, 4):
                tally[0, own[q]] += 1
                tally[1, own[q + 1]] += 1
                tally[2, own[q + 2]] += 1
                tally[3, own[q + 3]] += 1
    for block in range(n_whole, len(cells)):
        for level in range(n_levels):
            for q in range(min(LANES, n - block * LANES)):
                tallies[level, 0, cells[block, level, q]] += 1
    for level in range(n_levels):
        for j in range(psi):
            for s in range(4):
                counts[level, j] += tallies[level, s, j]


def padded_tables(tables: Ints) -> Ints:
    """Tables (L, t, psi) as (t, L, psi + 1), with a zero for OUTSIDE at the end."""
    padded = np.zeros((tables.shape[1], tables.shape[0], tables.shape[2] + 1), dtype=np.int64)
    padded[:, :, :-1] = tables.transpose(1, 0, 2)
    return padded


@jit
def add_blocks(cells, first, tables, sums):
    """Add the tables at the cells, from level ``first`` on: cells (t, blocks, L, LANES), sums (blocks, L, LANES).

    tables (t, L, psi + 1) have a zero for OUTSIDE at the end
    """
    for block in range(len(sums)):
        for i in range(len(tables)):
            add_block(cells[i, block, first:], tables[i], sums[block])


@jit
def add_block(cells, tables, sums):
    """Add the tables (L, psi + 1) at the cells of one block, (L, LANES), to its sums (L, LANES)."""
    for level in range(len(sums)):
        own = cells[level]
        total = sums[level]
        table = tables[level]
        for q in range(LANES):
            total[q] += table[own[q]]


@jit
def put_back(order, parts, far_parts, has_far, first, last, rows):
    """Sums of the threads, (threads, blocks, L, LANES) and (threads, blocks, LANES), added up and in the order of rows.

    order (n,) place -> row; of the places first to last; written: rows (n, L) or (n, L + 1)
    """
    n_levels = parts.shape[2]
    for place in range(first, last):
        block = place // LANES
        q = place % LANES
        row = rows[order[place]]
        for level in range(n_levels):
            row[level] = parts[0, block, level, q]
        for part in range(1, len(parts)):
            for level in range(n_levels):
                row[level] += parts[part, block, level, q]
        if has_far:
            row[n_levels] = 0
            for part in range(len(far_parts)):
                row[n_levels] += far_parts[part, block, q]
