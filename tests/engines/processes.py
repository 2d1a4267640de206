"""A Dask scheduler and workers on loopback, each a process of its own, as on a real cluster."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pandas as pd

SOURCE = Path(__file__).parents[2] / "src"
_LOOPBACK = ("--host", "127.0.0.1", "--no-dashboard")
N_ROWS = 60
_SHIM = """
import isobag
isobag.__version__ = "{version}"
"""
_WITHOUT = """
import sys
from importlib.abc import MetaPathFinder
class Hidden(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "{name}":
            raise ModuleNotFoundError("No module named '{name}'", name="{name}")
sys.meta_path.insert(0, Hidden())
"""


class Cluster:
    """Processes that are killed in the end; ``address`` of the scheduler, ``workers`` by name."""

    def __init__(self, folder):
        self.folder = folder
        self.workers = {}
        file = folder / "scheduler.json"
        self.scheduler = self._start(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", file
        )
        deadline = time.monotonic() + 60
        while not file.exists() or not file.read_text().strip():
            assert time.monotonic() < deadline, "no scheduler"
            time.sleep(0.1)
        self.file = file
        self.address = json.loads(file.read_text())["address"]

    def start_worker(self, name, *options, version=None, without=None, nanny=False):
        """A worker; of another version, or without a package, if asked for."""
        shim = self.folder / f"shim-{name}"
        shim.mkdir()
        site = _SHIM.format(version=version) if version else _WITHOUT.format(name=without) if without else ""
        (shim / "sitecustomize.py").write_text(site)
        where = ("--scheduler-file", self.file, "--local-directory", self.folder / name)
        how = (*_LOOPBACK, "--nthreads", "1", "--nanny" if nanny else "--no-nanny")
        self.workers[name] = self._start("worker", *where, *how, "--name", name, *options, shim=shim)
        return self.workers[name]

    def _start(self, what, *options, shim=None):
        path = [str(one) for one in (shim, SOURCE, SOURCE.parent / "tests" / "engines") if one is not None]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
        command = [sys.executable, "-m", "dask", what, *map(str, options)]
        with (self.folder / f"{what}-{len(self.workers)}.log").open("w") as log:
            return subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)

    def close(self):
        for process in (*self.workers.values(), self.scheduler):
            for number in (signal.SIGCONT, signal.SIGKILL):
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
            process.wait()


@contextmanager
def cluster_in(folder):
    """A scheduler, to which workers can be added."""
    cluster = Cluster(folder)
    try:
        yield cluster
    finally:
        cluster.close()


def make(number, pause=0.0):
    """A partition, which takes a while."""
    time.sleep(pause)
    rng = np.random.default_rng(number)
    return pd.DataFrame(
        {"a": rng.normal(size=N_ROWS), "b": rng.normal(size=N_ROWS), "who": rng.integers(0, 30, N_ROWS)}
    )
