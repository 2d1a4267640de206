"""Dot products of counts: every group with every center, as whole numbers."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from isobag.backends.arrays import Cells, Ints
from isobag.backends.counts import rows_of_counts, self_dots
from isobag.backends.numba.compiled import dots as products
from isobag.backends.numba.compiled.byte_sums import COUNTS
from isobag.backends.threads import map_in_threads, slices

BLOCK_ROWS = 256
BASE = 256
"""Counts are multiplied digit by digit, in bytes."""
MIDDLE = 128
"""Bytes of centers have a sign, so their digits are counted from here: x y = x (y - 128) + 128 x."""
_SECTION_BYTES = products.SECTION * COUNTS


class _Digit(NamedTuple):
    """One digit of sparse counts, with what it is worth: first entry of each row, columns ascending, digits."""

    weight: int
    starts: Ints
    columns: Cells
    digits: Cells


class _Listed(NamedTuple):
    """A digit of a block of rows, section after section: where each row begins and ends (sections, rows + 1)."""

    weight: int
    firsts: Ints
    places: npt.NDArray[np.uint8]
    quads: npt.NDArray[np.uint32]
    totals: Ints


def dot_counts(counts: csr_array, centers: csr_array, n_jobs: int | None = None, rows: Ints | None = None) -> Ints:
    """Dot products of all rows of counts with all centers: (n, centers), int32 where they fit.

    rows: if given, the rows of counts that are the centers, whose products are then computed once for each pair
    """
    both = counts.tocsr(), centers.tocsr()  # which may be on a device
    counts, centers = (each if each.has_sorted_indices else each.sorted_indices() for each in both)
    dots = np.empty((counts.shape[0], centers.shape[0]), dtype=np.int32 if _fit_int32(counts, centers) else np.int64)
    n_sections = -(-counts.shape[1] // products.SECTION)
    # Rows that are no centers, then the centers, of which a block needs those of its own and later blocks only.
    rows = np.arange(0) if rows is None else rows
    order = np.concatenate([np.setdiff1d(np.arange(len(dots)), rows), rows])
    n_others = len(dots) - len(rows)

    def list_block(block: slice) -> list[_Listed]:
        return [_list_entries(digit, n_sections) for digit in _digits(csr_array(counts[order[block]]))]

    blocks = list(slices(len(dots), BLOCK_ROWS))
    listed = map_in_threads(list_block, blocks, n_jobs)

    def work(block: slice) -> None:
        dense = []
        for weight, *digits in _digits(rows_of_counts(centers, block)):
            dense.append((weight, np.empty(n_sections * _SECTION_BYTES, dtype=np.uint8)))
            products.spread_counts(*digits, MIDDLE, dense[-1][1])
        first = n_others + block.start
        for place, own_rows in zip(blocks, listed, strict=True):
            if n_others <= place.start and place.stop <= first:
                continue
            block_dots = np.zeros((place.stop - place.start, COUNTS), dtype=dots.dtype)
            for center_weight, others in dense:
                for digit in own_rows:
                    _add_products(digit, center_weight, others, block_dots)
            block_dots = block_dots[:, : block.stop - block.start]
            dots[order[place], block] = block_dots
            later = max(place.start, n_others + block.stop)
            if later < place.stop:
                dots[rows[block], later - n_others : place.stop - n_others] = block_dots[later - place.start :].T

    map_in_threads(work, slices(centers.shape[0], COUNTS), n_jobs)
    return dots


def _list_entries(digit: _Digit, n_sections: int) -> _Listed:
    """The entries of rows: see ``count_entries`` and ``write_entries``."""
    weight, *digits = digit
    firsts = np.zeros((n_sections, len(digit.starts)), dtype=np.int64)
    totals = np.zeros(len(digit.starts) - 1, dtype=np.int64)
    products.count_entries(*digits, firsts[:, 1:], totals)
    np.cumsum(firsts, out=firsts.reshape(-1))
    places = np.empty(firsts[-1, -1], dtype=np.uint8)
    quads = np.zeros(len(places), dtype=np.uint32)
    products.write_entries(*digits, firsts, places, quads)
    return _Listed(weight, firsts, places, quads, totals)


def _add_products(listed: _Listed, center_weight: int, dense: npt.NDArray[np.uint8], block_dots: Ints) -> None:
    """Add to block_dots (rows, COUNTS) the products of a digit of a block of rows with one of a block of centers."""
    weight, firsts, places, quads, totals = listed
    weight *= center_weight
    if weight >= 1 << 63:  # of two such digits in one column the product would fit nowhere
        return
    block_dots += (totals[:, None] * weight * MIDDLE).astype(block_dots.dtype)
    for run in slices(len(firsts), products.RUN):
        part = dense[run.start * _SECTION_BYTES : run.stop * _SECTION_BYTES]
        products_32 = np.zeros(block_dots.shape, dtype=np.int32)
        products.add_multiplied(firsts[run], places, quads, part, products_32)
        block_dots += products_32.astype(block_dots.dtype, copy=False) * weight


def _digits(counts: csr_array) -> list[_Digit]:
    """The digits of some counts, the last first; of all but this the zeros are left out."""
    starts, columns = counts.indptr.astype(np.int64, copy=False), counts.indices.astype(np.int32, copy=False)
    largest = int(counts.data.max(initial=0))
    if largest < BASE:
        return [_Digit(1, starts, columns, counts.data.astype(np.int32, copy=False))]
    digits_of, weight = [], 1
    while weight <= largest:
        digits = (counts.data // weight % BASE).astype(np.int32)
        ends = np.concatenate([[0], np.cumsum(digits > 0)])
        digits_of.append(_Digit(weight, ends[starts], columns[digits > 0], digits[digits > 0]))
        weight *= BASE
    return digits_of


def _fit_int32(counts: csr_array, centers: csr_array) -> bool:
    """Whether all dot products do: by the largest counts and the longest rows, or by Cauchy and Schwarz."""
    counted = [(int(each.data.max(initial=0)), int(np.diff(each.indptr).max(initial=0))) for each in (counts, centers)]
    (largest, n_entries), (center_largest, n_center_entries) = counted
    if largest * center_largest * min(n_entries, n_center_entries) < 2**30:
        return True
    return bool(np.sqrt(self_dots(counts).max() * self_dots(centers).max()) < 2**30)
