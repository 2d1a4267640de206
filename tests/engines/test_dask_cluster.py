"""Workers of Dask that die, differ or are gone: processes of their own, reached over loopback."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from contextlib import suppress
from functools import partial
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client

import isobag

SOURCE = Path(__file__).parents[2] / "src"
HOW = {"features": ["a", "b"], "n_estimators": 8, "random_state": 3}
pytestmark = pytest.mark.slow


def make(number, pause=0.0, dies_in=None):
    """A partition, which takes a while; the worker that first makes number 5 may die of it."""
    time.sleep(pause)
    if number == 5 and dies_in is not None and not (flag := Path(dies_in)).exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    rng = np.random.default_rng(number)
    return pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60), "who": rng.integers(0, 30, 60)})


def table(**how):
    return dd.from_map(partial(make, **how), range(8), meta=make(0)[:0])


class Cluster:
    """A scheduler, and workers by name."""

    def __init__(self, folder):
        self.folder, self.workers, self.file = folder, {}, folder / "scheduler.json"
        self.scheduler = self._start("scheduler", "--port", "0", "--scheduler-file", self.file)
        deadline = time.monotonic() + 60
        while not self.file.exists() or not self.file.read_text().strip():
            assert time.monotonic() < deadline, "no scheduler"
            time.sleep(0.1)
        self.address = json.loads(self.file.read_text())["address"]

    def start_worker(self, name, version=None):
        """A worker; of another version, if asked for."""
        shim = self.folder / f"shim-{name}"
        shim.mkdir()
        site = f"import isobag\nisobag.__version__ = {version!r}\n" if version else ""
        (shim / "sitecustomize.py").write_text(site)
        where = (
            "--scheduler-file",
            self.file,
            "--local-directory",
            self.folder / name,
            "--nthreads",
            "1",
            "--no-nanny",
        )
        self.workers[name] = self._start("worker", *where, "--name", name, shim=shim)
        return self.workers[name]

    def _start(self, what, *options, shim=None):
        path = [str(one) for one in (shim, SOURCE, Path(__file__).parent) if one is not None]
        command = [sys.executable, "-m", "dask", what, "--host", "127.0.0.1", "--no-dashboard", *map(str, options)]
        with (self.folder / f"{what}-{len(self.workers)}.log").open("w") as log:
            env = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
            return subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)

    def close(self):
        for process in (*self.workers.values(), self.scheduler):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def cluster(tmp_path):
    running = Cluster(tmp_path)
    yield running
    running.close()


@pytest.fixture
def client(cluster):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Client(cluster.address) as connected:
            yield connected


@pytest.fixture
def two_workers(cluster, client):
    cluster.start_worker("one")
    cluster.start_worker("two")
    client.wait_for_workers(2, timeout=60)


@pytest.mark.parametrize("by", [None, "who"])
def test_the_result_after_a_worker_was_killed_is_the_result(cluster, client, two_workers, tmp_path, by):
    rows = pd.concat([make(number) for number in range(8)], ignore_index=True)
    if by is None:
        expected = isobag.detect(rows, **HOW).to_frame().sort_values("row")["score"]
        ranked = isobag.detect(table(dies_in=tmp_path / "died"), **HOW).to_frame().compute()["score"]
    else:
        expected = isobag.detect(rows, by=by, **HOW).to_frame().sort_values(by)["score"]
        ranked = isobag.detect(table(dies_in=tmp_path / "died"), by=by, **HOW).to_frame().compute()
        ranked = ranked.sort_values(by)["score"]
    assert (tmp_path / "died").exists() and len(client.scheduler_info()["workers"]) == 1
    assert ranked.tolist() == expected.tolist()


def test_a_worker_of_another_version_is_refused_by_name_and_version(cluster, client):
    cluster.start_worker("other", version="0.0.1")
    client.wait_for_workers(1, timeout=60)
    with pytest.raises(ValueError, match=rf"\(other\) has isobag 0\.0\.1; need {isobag.__version__}"):
        isobag.detect(table(), **HOW).to_frame()
    model = isobag.fit(make(0), **HOW)
    with pytest.raises(ValueError, match=r"\(other\) has isobag 0\.0\.1"):
        model.score(table()).to_frame().compute()


def test_all_workers_gone_ends_in_an_error_within_a_minute(cluster, client):
    cluster.start_worker("only")
    client.wait_for_workers(1, timeout=60)
    threading.Timer(3, cluster.workers["only"].kill).start()
    start = time.monotonic()
    with pytest.raises(RuntimeError, match="no Dask worker has been running for 30 s"):
        isobag.detect(table(pause=1), **HOW).to_frame()
    assert time.monotonic() - start < 60
    deadline = time.monotonic() + 30
    while client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)):
        assert time.monotonic() < deadline, "tasks are left"
        time.sleep(0.2)
