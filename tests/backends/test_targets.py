"""The Numba backend on other targets than the host, with an LLVM that knows less, and without a compiler."""

import os
import subprocess
import sys

import pytest

SAME_AS_NUMPY = """
import numpy as np
from isobag import IDKGroupDetector, IsolationKernel

rng = np.random.default_rng(0)
for n, d in ((300, 3), (4200, 2), (4200, 13), (4200, 110)):  # small tables, float32 blocks twice, many features
    X = rng.normal(size=(n, d))
    X[::7] = X[1::7][: len(X[::7])]
    cells = [IsolationKernel(2, 32, random_state=0, backend=name).fit(X).assign_cells(X) for name in ("numpy", "numba")]
    assert np.array_equal(*cells), (n, d)
ids = np.arange(len(X[:300])) % 40
scores = [
    IDKGroupDetector(5, random_state=0, backend=name).fit(X[:300, :3], groups=ids).scores_
    for name in ("numpy", "numba")
]
assert np.array_equal(*scores)
"""


def run(code, tmp_path, **environment):
    """A process of its own, with an empty cache of compiled functions."""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), **environment}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)


TARGETS = {
    "generic": {"NUMBA_CPU_NAME": "generic"},
    "AVX2": {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx,+avx2,+fma,+sse4.2,+popcnt"},
    "AVX-512": {
        "NUMBA_CPU_NAME": "skylake-avx512",
        "NUMBA_CPU_FEATURES": "+avx,+avx2,+fma,+avx512f,+avx512bw,+avx512dq,+avx512vl",
    },
}
EVERY_KIND = """
from isobag.backends import Compute
from isobag.backends.numba import many, rounding, small_tables
from isobag.data.rows import ArrayRows
from isobag.partitionings import draw_from_rows

small_tables.fits = lambda *_: False
plain, fast = Compute("numpy", 1), Compute("numba", 1)
for d in (10, 100):
    X = rng.normal(size=(300, d))
    drawn = draw_from_rows(ArrayRows(X), 3, (4, 64), "hypersphere", 0, plain)
    for kind in (rounding.SHORTS, rounding.SINGLES):
        many.cheapest = lambda balls, X: rounding.finest(kind, balls.points)
        own, other = (drawn.assign(drawn.prepare(X, each), each) for each in (fast, plain))
        assert (own == other).all(), (d, kind)
"""


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_every_target_finds_the_cells_of_numpy_with_numbers_of_every_kind(tmp_path, target):
    with open("/proc/cpuinfo") as file:
        if target == "AVX-512" and "avx512vl" not in file.read():
            pytest.skip("this processor has no AVX-512")
    done = run(SAME_AS_NUMPY + EVERY_KIND, tmp_path, **TARGETS[target])
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.slow
def test_an_llvm_without_the_newer_intrinsics_finds_the_cells_of_numpy(tmp_path):
    unknown = """
import llvmlite.binding

parse = llvmlite.binding.parse_assembly
llvmlite.binding.parse_assembly = lambda text, *more: parse(text.replace("vector.compress", "vector.nothing"), *more)
from isobag.backends.numba.compiled import target

assert target.has_intrinsic("double @llvm.sqrt.f64(double)") and not target.HAS_COMPRESS and not target.HAS_QUADS
"""
    done = run(unknown + SAME_AS_NUMPY, tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]


def test_without_a_compiler_numpy_computes_and_says_so_once(tmp_path):
    code = SAME_AS_NUMPY.replace("(300, 3), (4200, 2), (4200, 13), (4200, 110)", "(300, 3), (200, 13)")
    tree = "IsolationKernel(2, 8, mechanism='tree', random_state=0).fit(X[:50]).assign_cells(X)\n"
    done = run(code + tree, tmp_path, NUMBA_DISABLE_JIT="1")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr.count("NUMBA_DISABLE_JIT is set: computing by NumPy") == 1
