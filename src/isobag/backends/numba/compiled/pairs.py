"""Dot products of the counts of pairs of bags."""

from isobag.backends.numba.compiled.jit import jit


@jit
def dot_pairs(starts, columns, counts, rows, other_starts, other_columns, other_counts, other_rows, table, dots):
    """One bag of each pair is spread out in ``table``, zeros before and after; dots (pairs,) is written."""
    for pair in range(len(rows)):
        first, last = starts[rows[pair]], starts[rows[pair] + 1]
        for k in range(first, last):
            table[columns[k]] += counts[k]
        total = 0
        for k in range(other_starts[other_rows[pair]], other_starts[other_rows[pair] + 1]):
            total += table[other_columns[k]] * other_counts[k]
        dots[pair] = total
        for k in range(first, last):
            table[columns[k]] = 0
