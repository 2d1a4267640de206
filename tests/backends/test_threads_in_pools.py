"""Processes of a pool, which must not have children: one thread, and not a word about it."""

import subprocess
import sys

import pytest

CODE = """
import sys, warnings
from multiprocessing import get_context
import numpy as np
from isobag import IDKPointDetector

def scores(seed):
    warnings.simplefilter("error")
    X = np.random.default_rng(0).normal(size=(300, 3))
    return IDKPointDetector(n_estimators=10, random_state=seed, n_jobs=2).fit(X).score_samples(X[:5]).tolist()

if __name__ == "__main__":
    with get_context("fork").Pool(1) as pool:
        assert pool.map(scores, [0]) == [scores(0)]
    print("alike")
"""


@pytest.mark.slow
def test_no_warning_comes_from_the_processes_of_a_pool(tmp_path):
    (tmp_path / "pooled.py").write_text(CODE)
    done = subprocess.run([sys.executable, tmp_path / "pooled.py"], capture_output=True, text=True, check=False)
    assert done.stdout == "alike\n" and done.stderr == "", done.stderr
