"""How functions are compiled: without the interpreter lock, kept on disk, no reordering of arithmetic."""

from collections.abc import Callable
from typing import Any

import numba


def jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile on first call. Never with fastmath: cells must be those of the NumPy backend."""
    compiled: Callable[..., Any] = numba.njit(nogil=True, cache=True, error_model="numpy")(function)
    return compiled
