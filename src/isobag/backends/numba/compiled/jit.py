"""How functions are compiled: without the interpreter lock, kept on disk, no reordering of arithmetic."""

from collections.abc import Callable
from typing import Any

import numba

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
"""Nobody calls these functions from C: the wrapper for that would be compiled for nothing."""


def jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile on first call. Never with fastmath: cells must be those of the NumPy backend."""
    try:
        compiled: Callable[..., Any] = numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # no folder to write to, neither beside the source nor of the user: compile in every process
        compiled = numba.njit(**_OPTIONS)(function)
    return compiled
