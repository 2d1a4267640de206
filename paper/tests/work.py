"""Work for cells in tests: quick, slow, failing and dying."""

import os
import signal
import time

from isobag.datasets import DatasetNotAvailableError
from paper.cells import seeds_in_budget


def steps(name, detector, plan):
    """As many records as the detector's name says, then what the set's name says."""
    for step in range(int(detector)):
        yield {"seed": 0, "parameter": step, "auc": 0.5 + step / 100}
    if name == "sleeps":
        time.sleep(600)
    if name == "fails":
        raise ValueError("psi=1; need 2 or more.")
    if name == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "missing":
        raise DatasetNotAvailableError("missing: no file.")
    yield {"seed": 0, "complete": True}


def seeds(name, detector, plan):
    """A second for each seed."""
    for seed in seeds_in_budget(plan.n_seeds, plan):
        time.sleep(1)
        yield {"seed": seed, "parameter": 2, "auc": 0.5}
        yield {"seed": seed, "complete": True}
