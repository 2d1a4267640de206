"""Compiled functions of the Numba backend: loops over arrays, types inferred, no checks, no randomness."""
