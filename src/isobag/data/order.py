"""The order of many numbers, in little memory beside them."""

from typing import Any

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Floats, Ints
from isobag.backends.threads import slices

BLOCK = 1 << 20
_MOST_PARTS = 64
_SAMPLED = 1 << 12


def is_rising(values: Ints | npt.NDArray[np.int32], block: int = BLOCK) -> bool:
    """Whether no value is below the one before it: (n,)."""
    blocks = (values[rows.start : rows.stop + 1] for rows in slices(len(values), block))
    return all(bool((own[1:] >= own[:-1]).all()) for own in blocks)


def stable_order(values: Floats | Ints | npt.NDArray[np.int32], block: int = BLOCK) -> npt.NDArray[np.int32] | Ints:
    """``np.argsort(values, kind="stable")``, as int32 where that is enough, part after part: (n,) -> (n,)."""
    n = len(values)
    n_parts = min(_MOST_PARTS, -(-n // block))
    if n_parts <= 1:
        return np.argsort(values, kind="stable").astype(np.int32)
    sample = np.sort(values[:: -(-n // _SAMPLED)])
    edges = sample[np.arange(1, n_parts) * len(sample) // n_parts]
    parts = np.empty(n, dtype=np.uint8)  # equal values are in one part, NaN in the last
    for rows in slices(n, block):
        parts[rows] = np.searchsorted(edges, values[rows], side="right")
    order: npt.NDArray[Any] = np.empty(n, dtype=np.int32 if n < 2**31 else np.int64)
    start = 0
    for part in range(n_parts):
        members = np.flatnonzero(parts == part)
        order[start : start + len(members)] = members[np.argsort(values[members], kind="stable")]
        start += len(members)
    return order
