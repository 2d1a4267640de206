"""Hashes of rows, by which a row that comes again is known."""

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Floats, Ints

Hashes = npt.NDArray[np.uint64]
_FACTORS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_STEP = np.uint64(0x9E3779B97F4A7C15)


def hash_rows(X: Floats, times: Ints) -> Hashes:
    """64 bits of each row and its time: (n, d), (n,) -> (n,). Equal rows have equal hashes, 0 and -0 are equal."""
    hashes = mix_bits(times.astype(np.int64).view(np.uint64) + _STEP)
    for column in X.T:
        bits = np.ascontiguousarray(column + 0.0).view(np.uint64)
        hashes = mix_bits((hashes ^ bits) + _STEP)
    return hashes


def mix_bits(values: Hashes) -> Hashes:
    """A bijection of 64 bits in which every bit of the input changes about half of the output."""
    values = (values ^ (values >> np.uint64(30))) * _FACTORS[0]
    values = (values ^ (values >> np.uint64(27))) * _FACTORS[1]
    mixed: Hashes = values ^ (values >> np.uint64(31))
    return mixed
