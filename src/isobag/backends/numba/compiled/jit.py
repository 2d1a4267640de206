"""How functions are compiled: without the interpreter lock, kept on disk, no reordering of arithmetic."""

from collections.abc import Callable
from typing import Any

import numba


def jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile on first call. Never with fastmath: cells must be those of the NumPy backend."""
    try:
        compiled: Callable[..., Any] = numba.njit(nogil=True, cache=True, error_model="numpy")(function)
    except RuntimeError:  # no folder to write to, neither beside the source nor of the user: compile in every process
        compiled = numba.njit(nogil=True, error_model="numpy")(function)
    return compiled
