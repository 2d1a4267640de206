"""Dot products of sparse rows of small counts with blocks of dense ones, in 16-bit integers.

The columns are taken a section at a time, so that the dense block of a section stays in the cache of a core. Sums are
kept in 16 bits while they surely fit, then moved to the 32 or 64 bits of the answer: exact, in any order.
"""

import numpy as np

from isobag.backends.numba.compiled.jit import jit
from isobag.backends.numba.compiled.vectors import COUNTS, add_counts

SECTION = 4096
LARGEST = np.int64(2**15 - 1)


@jit
def find_sections(starts, columns, counts, n_sections, section_starts, section_sums):
    """First entry of each row in each section of SECTION columns, columns ascending, and the sum of its counts there.

    written: section_starts, section_sums (n, sections + 1)
    """
    for row in range(len(starts) - 1):
        e = starts[row]
        for section in range(n_sections):
            section_starts[row, section] = e
            section_sums[row, section] = 0
            while e < starts[row + 1] and columns[e] < (section + 1) * SECTION:
                section_sums[row, section] += counts[e]
                e += 1
        section_starts[row, n_sections] = e


@jit
def add_section(firsts, lasts, sums, columns, counts, offset, dense, largest, dots):
    """Add to dots (n, COUNTS or fewer) the products of the entries firsts[row] to lasts[row] with a dense section.

    sums: of their counts; counts int16; dense (SECTION, COUNTS) uint8, from column ``offset`` on; largest:
    its largest value. No product of two counts may exceed LARGEST.
    """
    total = np.zeros(COUNTS, np.int16)
    most = LARGEST // max(1, largest)
    for row in range(len(firsts)):
        own = dots[row]
        e = firsts[row]
        while e < lasts[row]:
            n_counted = np.int64(0)
            start = e
            if sums[row] <= most:
                e = lasts[row]
            while e < lasts[row] and n_counted + counts[e] <= most:
                n_counted += counts[e]
                e += 1
            add_counts(start, e, columns, offset, counts, dense, total)
            for c in range(len(own)):
                own[c] += total[c]
            for c in range(COUNTS):
                total[c] = 0
