"""Work for cells in tests: quick, slow, failing and dying."""

import multiprocessing
import os
import signal
import time

from isobag.datasets import DatasetNotAvailableError


def steps(name, detector, n_seeds, folder, n_jobs):
    """As many records as the detector's name says, then as the set's name says."""
    for step in range(int(detector)):
        yield {"seed": 0, "parameter": step, "auc": 0.5 + step / 100}
    if name == "sleeps":
        if folder is not None:
            with open(os.path.join(folder, "number"), "w") as file:
                file.write(str(os.getpid()))
        time.sleep(600)
    if name == "fails":
        raise ValueError("psi=1; need 2 or more.")
    if name == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "missing":
        raise DatasetNotAvailableError("missing: no file.")
    if folder is not None:
        with open(os.path.join(folder, "runs"), "a") as file:
            file.write(f"{name}\n")
        time.sleep(0.5)
    yield {"seed": 0, "complete": True, "last": True}


def seeds(name, detector, n_seeds, folder, n_jobs):
    """A second for each seed."""
    for seed in range(n_seeds):
        time.sleep(1)
        yield {"seed": seed, "parameter": 2, "auc": 0.5}
        yield {"seed": seed, "complete": True, "last": seed == n_seeds - 1}


def locks(dataset, detector, n_seeds, folder, n_jobs):
    """A child that is killed while it holds a named semaphore."""
    lock = multiprocessing.get_context("forkserver").Lock()
    yield {"locked": lock.acquire()}
    time.sleep(60)
