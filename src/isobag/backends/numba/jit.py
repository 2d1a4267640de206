"""How functions are compiled: without the interpreter lock, kept on disk, no reordering of arithmetic."""

from collections.abc import Callable
from typing import Any

import numba

Function = Callable[..., Any]
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
"""Nobody calls these functions from C: the wrapper for that would be compiled for nothing."""


def jit(function: Function) -> Function:
    """Compile on first call. Never with fastmath: cells must be those of the NumPy backend."""
    return _compiled(function, **_OPTIONS)


def jit_inner(function: Function) -> Function:
    """The same for functions that compiled code alone calls: there is no way in from Python, so none is compiled."""
    return _compiled(function, **_OPTIONS, no_cpython_wrapper=True)


def _compiled(function: Function, **options: Any) -> Function:
    try:
        compiled: Function = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder to write to, neither beside the source nor of the user: compile in every process
        compiled = numba.njit(**options)(function)
    return compiled
