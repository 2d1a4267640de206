"""The Numba backend on other targets than the host, and without a compiler."""

import os
import subprocess
import sys

import pytest

SAME_AS_NUMPY = """
import numpy as np
from isobag import IDKGroupDetector, IDKPointDetector, IsolationKernel
from isobag.estimators.base import Computing

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 13))
X[::7] = X[1::7][: len(X[::7])]
cells = [
    IsolationKernel(2, psi, random_state=0, backend=name).fit(X[:, :d]).assign_cells(X[:, :d]).tolist()
    for name in ("numpy", "numba") for psi, d in ((8, 3), (70, 13))
]
assert cells[:2] == cells[2:]
ids, scores = np.arange(300) % 40, []
for name in ("numpy", "numba"):
    Computing.backend = name
    scores.append(IDKGroupDetector(5, random_state=0).fit(X[:, :3], groups=ids).scores_)
    scores.append(IDKPointDetector(5, random_state=0).fit(X).scores_)
assert all(map(np.array_equal, scores[:2], scores[2:]))
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


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_every_target_finds_the_cells_of_numpy(tmp_path, target):
    with open("/proc/cpuinfo") as file:
        if target == "AVX-512" and "avx512vl" not in file.read():
            pytest.skip("this processor has no AVX-512")
    done = run(SAME_AS_NUMPY, tmp_path, **TARGETS[target])
    assert done.returncode == 0, done.stderr[-2000:]


def test_without_a_compiler_numpy_computes_and_says_so_once(tmp_path):
    done = run(SAME_AS_NUMPY, tmp_path, NUMBA_DISABLE_JIT="1")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr.count("NUMBA_DISABLE_JIT is set: computing by NumPy") == 1
