"""Dot products of sparse rows of counts with COUNTS dense ones side by side, a section of the columns at a time.

A section stays in the nearest cache of a core while many sparse rows pass by, four columns at a time. All sums are of
whole numbers and exact, in whatever order.
"""

from isobag.backends.numba.compiled.byte_sums import COUNTS, add_quads
from isobag.backends.numba.compiled.jit import jit

SECTION_BITS, QUAD_BITS = 8, 2
SECTION = 1 << SECTION_BITS
RUN = 256
"""Most sections whose sums of products of bytes surely fit into 32 bits."""


@jit
def count_entries(starts, columns, counts, n_entries, totals):
    """Number of entries that sparse rows have in each section, and the sum of each row's counts.

    There is an entry for each four columns that are not all 0. Columns ascend within a row.

    written: n_entries (sections, rows) and totals (rows,), zeros before
    """
    for r in range(len(totals)):
        unit = -1
        for e in range(starts[r], starts[r + 1]):
            n_entries[columns[e] >> SECTION_BITS, r] += columns[e] >> QUAD_BITS != unit
            unit = columns[e] >> QUAD_BITS
            totals[r] += counts[e]


@jit
def write_entries(starts, columns, counts, firsts, places, quads):
    """The entries themselves, those of row r in section s from firsts[s, r] on.

    written: places (m,), the number of an entry's four columns in its section, and quads (m,), zeros before, their
    counts as bytes
    """
    for r in range(len(starts) - 1):
        unit = section = -1
        at = 0
        for e in range(starts[r], starts[r + 1]):
            if columns[e] >> SECTION_BITS != section:
                section = columns[e] >> SECTION_BITS
                at = firsts[section, r]
            if columns[e] >> QUAD_BITS != unit:
                unit = columns[e] >> QUAD_BITS
                places[at] = unit - (section << SECTION_BITS - QUAD_BITS)
                at += 1
            quads[at - 1] += counts[e] << 8 * (columns[e] - (unit << QUAD_BITS))


@jit
def spread_counts(starts, columns, counts, zero, dense):
    """Write rows, COUNTS or fewer, side by side: counts of each four columns.

    zero: the byte that stands for no count; other counts are counted from there
    """
    dense[:] = zero
    for row in range(len(starts) - 1):
        for e in range(starts[row], starts[row + 1]):
            unit = columns[e] >> QUAD_BITS
            dense[((unit * COUNTS + row) << QUAD_BITS) + columns[e] - (unit << QUAD_BITS)] = zero + counts[e]


@jit
def add_multiplied(firsts, places, quads, dense, sums):
    """Add to sums (rows, COUNTS) int32 the products of each row's quads with the dense bytes at their places."""
    for section in range(len(firsts)):
        offset = section * (SECTION * COUNTS)
        for row in range(len(sums)):
            add_quads(firsts[section, row], firsts[section, row + 1], places, quads, dense, offset, sums[row])
