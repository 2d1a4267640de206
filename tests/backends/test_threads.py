"""Work shared out among threads: every item once, answers in order, and a failure reaches the caller."""

import subprocess
import sys
from threading import Barrier, get_ident

import joblib
import numpy as np
import pytest

from isobag.backends.threads import map_in_threads


@pytest.mark.parametrize("n_jobs", [None, 1, 2, 3, -1])
@pytest.mark.parametrize("n", [0, 1, 2, 50])
def test_every_item_is_worked_on_once_and_answers_come_in_order(n_jobs, n):
    seen = []

    def square(item):
        seen.append(item)
        return item * item

    assert map_in_threads(square, iter(range(n)), n_jobs) == [k * k for k in range(n)]
    assert sorted(seen) == list(range(n))


def test_as_many_threads_work_as_asked_for():
    together = Barrier(3, timeout=60)  # broken if there are fewer

    def meet(_):
        together.wait()
        return get_ident()

    assert len(set(map_in_threads(meet, range(3), 3))) == 3


def test_a_context_of_joblib_says_how_many_where_nothing_else_does():
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert len(set(map_in_threads(lambda _: get_ident(), range(1), None))) == 1
        together = Barrier(2, timeout=60)
        map_in_threads(lambda _: together.wait(), range(2), None)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_a_failure_reaches_the_caller_and_ends_the_work(n_jobs, kind):
    begun = []

    def fail_at_five(item):
        begun.append(item)
        if item == 5:
            raise kind("five")

    with pytest.raises(kind, match="five"):
        map_in_threads(fail_at_five, range(100_000), n_jobs)
    assert len(begun) < 100_000


def test_threads_see_the_context_of_the_caller():
    together = Barrier(2, timeout=60)

    def error_state(_):
        together.wait()
        return np.geterr()["over"]

    with np.errstate(over="ignore"):
        assert map_in_threads(error_state, range(2), 2) == ["ignore", "ignore"]


POOLED = """
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
def test_processes_of_a_pool_must_not_have_children_and_use_one_thread_without_a_warning(tmp_path):
    (tmp_path / "pooled.py").write_text(POOLED)
    done = subprocess.run([sys.executable, tmp_path / "pooled.py"], capture_output=True, text=True, check=False)
    assert done.stdout == "alike\n" and done.stderr == "", done.stderr
