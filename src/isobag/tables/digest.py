"""A digest of the values of a column that merges: from those of two parts, one after the other, that of the whole.

It is the polynomial sum of h(value_i) * base^(n - 1 - i) modulo the prime 2^31 - 1, twice, with two bases and two
halves of a 64-bit hash h of the value. Beside it stands the plain sum of h modulo 2^64, which knows no order.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from isobag.backends.threads import slices

PRIME = (1 << 31) - 1
BASES = (1_220_703_125, 630_360_016)
_CHUNK = 1 << 12
_FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(33))
_PRIME, _BITS = np.uint64(PRIME), np.uint64(31)


@dataclass(frozen=True)
class Digest:
    """The same for the same n values in the same order; for others hardly ever (once in 2^62).

    total : the same for the same values in any order.
    """

    n: int = 0
    sums: tuple[int, ...] = (0, 0)
    total: int = 0

    def add(self, values: npt.NDArray[np.uint64]) -> "Digest":
        """That of these values followed by more: (m,), the bits of each."""
        digest = self
        for part in slices(len(values), _CHUNK):
            hashes = _hash(values[part])
            halves = (hashes & _PRIME, hashes >> _SHIFTS[3])
            pairs = zip(halves, map(_powers, BASES), strict=True)
            sums = tuple(int(_reduce(half * powers[-len(half) :]).sum()) % PRIME for half, powers in pairs)
            digest = digest.merge(Digest(len(hashes), sums, int(hashes.sum())))
        return digest

    def merge(self, later: "Digest") -> "Digest":
        """That of these values followed by others."""
        terms = zip(self.sums, later.sums, BASES, strict=True)
        sums = tuple((own * pow(base, later.n, PRIME) + other) % PRIME for own, other, base in terms)
        return Digest(self.n + later.n, sums, (self.total + later.total) % (1 << 64))

    def to_bytes(self) -> bytes:
        """What differs with the order too."""
        return b"".join(number.to_bytes(8, "little") for number in (self.n, *self.sums))


@cache
def _powers(base: int) -> npt.NDArray[np.uint64]:
    """base^(_CHUNK - 1), ..., base^0."""
    powers = np.ones(1, dtype=np.uint64)
    while len(powers) < _CHUNK:
        powers = np.concatenate([powers * np.uint64(pow(base, len(powers), PRIME)) % _PRIME, powers])
    return powers


def _hash(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Well mixed bits, no two values alike."""
    mixed = values ^ (values >> _SHIFTS[0])
    mixed *= _FACTORS[0]
    mixed ^= mixed >> _SHIFTS[1]
    mixed *= _FACTORS[1]
    mixed ^= mixed >> _SHIFTS[2]
    return mixed


def _reduce(products: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Congruent numbers below 2^32: their sum over a chunk does not overflow."""
    return (products & _PRIME) + (products >> _BITS)
