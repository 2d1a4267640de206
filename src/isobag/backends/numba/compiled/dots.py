"""Dot products of sparse rows of counts with COUNTS dense ones side by side, a section of the columns at a time.

A section stays in the nearest cache of a core while many sparse rows pass by. In the first form a row adds the dense
counts of a column as often as it counts there, in bytes; in the second it multiplies four columns at a time. All sums
are of whole numbers and exact, in whatever order.
"""

import numpy as np

from isobag.backends.numba.compiled.jit import jit
from isobag.backends.numba.compiled.vectors import COUNTS, add_bytes, add_quads

SECTION_BITS = 8
SECTION = 1 << SECTION_BITS
RUN = 256
"""Most sections whose sums surely fit: of bytes into 16 bits, of products of bytes into 32 bits."""


@jit
def list_entries(starts, columns, counts, rows, bits, n_sections):
    """Entries of some sparse rows, section after section, and in each section row after row.

    bits: 0, an entry for each count; 2, one for each four columns that are not all 0. Columns ascend within a row.

    Returned: first entry of each row in each section (sections, rows + 1), the number of an entry's column, or four
    columns, in its section (m,), the four counts as bytes (m,), if there are four, and the sum of each row's counts
    """
    firsts = np.zeros((n_sections, len(rows) + 1), np.int64)
    totals = np.zeros(len(rows), np.int64)
    for r in range(len(rows)):
        unit = -1
        for e in range(starts[rows[r]], starts[rows[r] + 1]):
            is_new = columns[e] >> bits != unit
            unit = columns[e] >> bits
            firsts[columns[e] >> SECTION_BITS, r + 1] += is_new if bits else counts[e]
            totals[r] += counts[e]
    n_entries = 0
    for section in range(n_sections):
        for r in range(len(rows) + 1):
            n_entries += firsts[section, r]
            firsts[section, r] = n_entries
    places = np.empty(n_entries, np.uint8)
    quads = np.zeros(n_entries if bits else 0, np.uint32)
    for r in range(len(rows)):
        unit = section = -1
        at = 0
        for e in range(starts[rows[r]], starts[rows[r] + 1]):
            is_new = columns[e] >> bits != unit
            unit = columns[e] >> bits
            if columns[e] >> SECTION_BITS != section:
                section = columns[e] >> SECTION_BITS
                at = firsts[section, r]
            place = unit - (section << SECTION_BITS - bits)
            for _ in range(is_new if bits else counts[e]):
                places[at] = place
                at += 1
            if bits:
                quads[at - 1] += counts[e] << 8 * (columns[e] - (unit << bits))
    return firsts, places, quads, totals


@jit
def spread_counts(starts, columns, counts, first, last, bits, zero, dense):
    """Write the rows first to last, COUNTS or fewer, side by side: counts of a column, or of each four columns.

    zero: the byte that stands for no count; other counts are counted from there
    """
    dense[:] = zero
    for row in range(first, last):
        for e in range(starts[row], starts[row + 1]):
            unit = columns[e] >> bits
            inner = columns[e] - (unit << bits)
            dense[(((unit * COUNTS) + row - first) << bits) + inner] = zero + counts[e]


@jit
def add_counted(firsts, places, dense, sums, beyond):
    """Add to sums (rows, COUNTS) uint16 the dense counts at all places of a row; to ``beyond`` where 255 is too few."""
    total = np.empty(COUNTS, np.uint8)
    for section in range(len(firsts)):
        offset = section * (SECTION * COUNTS)
        for row in range(len(sums)):
            first, last = firsts[section, row], firsts[section, row + 1]
            if add_bytes(first, last, places, dense, offset, total):
                for e in range(first, last):
                    for c in range(COUNTS):
                        beyond[row, c] += dense[offset + places[e] * COUNTS + c]
            else:
                for c in range(COUNTS):
                    sums[row, c] += total[c]


@jit
def add_multiplied(firsts, places, quads, dense, sums):
    """Add to sums (rows, COUNTS) int32 the products of each row's quads with the dense bytes at their places."""
    for section in range(len(firsts)):
        offset = section * (SECTION * COUNTS)
        for row in range(len(sums)):
            add_quads(firsts[section, row], firsts[section, row + 1], places, quads, dense, offset, sums[row])
