"""Dot products of sparse rows of counts with COUNTS dense ones side by side, a section of the columns at a time.

A section stays in the nearest cache of a core while many sparse rows pass by. In the first form a row adds the dense
counts of a column as often as it counts there, in bytes; in the second it multiplies four columns at a time. All sums
are of whole numbers and exact, in whatever order.
"""

import numpy as np

from isobag.backends.numba.compiled.byte_sums import COUNTS, add_bytes, add_quads
from isobag.backends.numba.compiled.jit import jit

SECTION_BITS = 8
SECTION = 1 << SECTION_BITS
_PIECE = 16
RUN = 256
"""Most sections whose sums surely fit: of bytes into 16 bits, of products of bytes into 32 bits."""


@jit
def count_entries(starts, columns, counts, rows, bits, n_entries, totals):
    """Number of entries that some sparse rows have in each section, and the sum of each row's counts.

    bits: 0, an entry for each count; 2, one for each four columns that are not all 0. Columns ascend within a row.

    written: n_entries (sections, rows) and totals (rows,), zeros before
    """
    for r in range(len(rows)):
        unit = -1
        for e in range(starts[rows[r]], starts[rows[r] + 1]):
            is_new = columns[e] >> bits != unit
            unit = columns[e] >> bits
            n_entries[columns[e] >> SECTION_BITS, r] += is_new if bits else counts[e]
            totals[r] += counts[e]


@jit
def write_entries(starts, columns, counts, rows, bits, firsts, places, quads):
    """The entries themselves, those of row r in section s from firsts[s, r] on.

    written: places (m,), the number of an entry's column, or four columns, in its section, and quads (m,), zeros
    before, the four counts as bytes, if there are four
    """
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
            if not add_bytes(first, last, places, dense, offset, total):
                for c in range(COUNTS):
                    sums[row, c] += total[c]
                continue
            size = _PIECE
            while first < last:  # a piece at a time; one entry alone always fits
                if add_bytes(first, min(first + size, last), places, dense, offset, total) and size > 1:
                    size = 1
                    continue
                for c in range(COUNTS):
                    beyond[row, c] += total[c]
                first += size


@jit
def add_multiplied(firsts, places, quads, dense, sums):
    """Add to sums (rows, COUNTS) int32 the products of each row's quads with the dense bytes at their places."""
    for section in range(len(firsts)):
        offset = section * (SECTION * COUNTS)
        for row in range(len(sums)):
            add_quads(firsts[section, row], firsts[section, row + 1], places, quads, dense, offset, sums[row])
