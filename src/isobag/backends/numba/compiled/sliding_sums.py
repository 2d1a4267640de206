"""Sums of counts at the cells of rows, of many rows or of few; see ``isobag.backends.numba.sliding``."""

import numpy as np

from isobag.backends.arrays import OCTAVE_BITS
from isobag.backends.numba.compiled.jit import jit
from isobag.backends.numba.compiled.llvm import bits
from isobag.backends.numba.compiled.sliding_search import search_rows
from isobag.backends.numba.compiled.vectors import BLOCK

__all__ = ["look_up_rows", "sum_levels"]


@jit
def sum_levels(begin, end, places, owners, winners, sq_dists, sq_radii, counts, limits, sums):
    """Add the counts at the cells of the rows at places begin to end, at each level: sums (V, n, L), or (V, n, L + 1).

    winners, sq_dists (T, L, W) of shells; limits (V, L), -1 for levels at which how far out a row is does not count,
    else the octaves by which rows are beyond them are the last sum

    BLOCK rows make each step together, in loops without branches: whether a center is nearer, or a row in its ball,
    cannot be guessed.
    """
    n_levels, n_columns, n_rows = winners.shape[1], sums.shape[2], end - begin
    totals = np.zeros((len(limits), n_columns, n_rows), dtype=np.int64)
    best, cell, outside = np.empty(BLOCK), np.empty(BLOCK, dtype=np.uint16), np.empty(BLOCK, dtype=np.int64)
    offered, winner = np.empty(BLOCK), np.empty(BLOCK, dtype=np.uint16)
    for i in range(len(owners)):
        own, own_limits = totals[owners[i]], limits[owners[i]]
        for start in range(0, n_rows, BLOCK):
            size = min(BLOCK, n_rows - start)
            own_places = places[begin + start : begin + start + size]
            for q in range(size):
                best[q] = np.inf
                cell[q] = 0
            for level in range(n_levels):
                all_offered, all_winners = sq_dists[i, level], winners[i, level]
                for q in range(size):
                    offered[q] = all_offered[own_places[q]]
                    winner[q] = all_winners[own_places[q]]
                for q in range(size):
                    value, name, least, known = offered[q], winner[q], best[q], cell[q]
                    cell[q] = name if value < least else known
                    best[q] = value if value < least else least
                radii, table, total = sq_radii[i, level], counts[i, level], own[level, start : start + size]
                for q in range(size):  # bits, in a loop of its own: LLVM would make a branch of a choice
                    outside[q] = 0 if best[q] <= radii[cell[q]] else -1
                for q in range(size):
                    total[q] += table[cell[q]] & ~outside[q]
                if own_limits[level] >= 0:
                    total = own[n_levels, start : start + size]
                    for q in range(size):
                        beyond = max((bits(best[q]) >> OCTAVE_BITS) - own_limits[level], 0)
                        total[q] += beyond & outside[q]
    for view in range(len(limits)):
        for row in range(n_rows):
            for column in range(n_columns):
                sums[view, begin + row, column] += totals[view, column, row]


@jit
def look_up_rows(X, owners, shells, columns, sq_radii, counts, limits, winners, sq_dists, sums):
    """``search_rows`` of few rows X (V, n, d), and what ``sum_levels`` adds up of them, in one call."""
    search_rows(X, owners, shells, columns, sq_radii, counts, winners, sq_dists)
    n_levels = winners.shape[1]
    best, cell, outside = np.empty(n_levels), np.empty(n_levels, dtype=np.uint16), np.empty(n_levels, dtype=np.int64)
    for i in range(len(owners)):
        own_limits = limits[owners[i]]
        for row in range(X.shape[1]):
            own = sums[owners[i], row]
            least, known = np.inf, np.uint16(0)
            for level in range(n_levels):
                value, name = sq_dists[i, level, row], winners[i, level, row]
                known = name if value < least else known
                least = value if value < least else least
                best[level] = least
                cell[level] = known
            for level in range(n_levels):  # in loops of their own, as above
                outside[level] = 0 if best[level] <= sq_radii[i, level, cell[level]] else -1
            for level in range(n_levels):
                own[level] += counts[i, level, cell[level]] & ~outside[level]
            for level in range(n_levels):
                if own_limits[level] >= 0:
                    beyond = max((bits(best[level]) >> OCTAVE_BITS) - own_limits[level], 0)
                    own[n_levels] += beyond & outside[level]
