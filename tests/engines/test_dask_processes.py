"""Workers that differ, stand still or die, and a scheduler that dies: processes of their own, reached over loopback."""

import os
import signal
import subprocess
import threading
import time
import warnings
from functools import partial

import dask
import dask.dataframe as dd
import pandas as pd
import pytest
from commands import finish, start
from distributed import Client
from processes import cluster_in, make

import isobag
from isobag.engines import dask as engine
from isobag.engines.dask import workers

OPTIONS = {"features": ["a", "b"], "n_estimators": 8, "random_state": 3}
N_PARTITIONS = 8
pytestmark = [pytest.mark.slow, pytest.mark.cluster]


def table(pause=0.0):
    return dd.from_map(partial(make, pause=pause), range(N_PARTITIONS), meta=make(0)[:0])


def fit_points(data, client):
    return engine.fit(data, client=client, **OPTIONS)


def fit_groups(data, client):
    return engine.fit(data, by="who", client=client, **OPTIONS)


@pytest.fixture
def cluster(tmp_path):
    with cluster_in(tmp_path) as one:
        yield one


@pytest.fixture
def client(cluster):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = Client(cluster.address, set_as_default=False)
        yield one
        if one.status == "running":
            one.close()


def both(fit, data, client):
    """The remarks and the error of a fit."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            fit(data, client)
            error = None
        except (ValueError, RuntimeError, ImportError) as raised:
            error = raised
    return [str(one.message) for one in said if one.category is RuntimeWarning], error


def test_a_worker_of_another_version_is_an_error_that_names_it(cluster, client):
    cluster.start_worker("good")
    cluster.start_worker("other", version="0.0.1")
    client.wait_for_workers(2, timeout=60)
    _, error = both(fit_points, table(), client)
    assert "(other) has isobag 0.0.1" in str(error) and f"need {isobag.__version__}" in str(error)
    scored = engine.detect_points(table(), client=None, **OPTIONS)  # lazy: workers make it when it is asked for
    with pytest.raises(ValueError, match=r"\(other\) has isobag 0\.0\.1"):
        scored.compute(scheduler=client)


def test_a_worker_of_another_version_that_joins_later_is_an_error_too(cluster, client):
    cluster.start_worker("good")
    client.wait_for_workers(1, timeout=60)
    threading.Timer(2, lambda: cluster.start_worker("other", version="0.0.1")).start()
    _, error = both(fit_points, table(pause=1), client)
    assert "(other) has isobag 0.0.1" in str(error)


def test_a_task_compares_versions_itself(cluster, client, monkeypatch):
    monkeypatch.setattr(workers.Workers, "_ask", lambda self, known: None)
    cluster.start_worker("other", version="0.0.1")
    client.wait_for_workers(1, timeout=60)
    _, error = both(fit_points, table(), client)
    assert "(other) has isobag 0.0.1" in str(error)


def test_a_worker_without_isobag_is_named_and_one_without_a_package_says_where(cluster, client):
    cluster.start_worker("good")
    cluster.start_worker("bare", without="isobag")
    client.wait_for_workers(2, timeout=60)
    said, error = both(fit_points, table(), client)
    assert error is None and len(said) == 1
    assert "(bare) cannot load isobag and does none of the work" in said[0]
    os.kill(cluster.workers["good"].pid, signal.SIGKILL)
    cluster.start_worker("slow", without="numba")
    client.wait_for_workers(1, timeout=60)
    while "slow" not in [one["name"] for one in client.scheduler_info()["workers"].values()]:
        time.sleep(0.1)
    _, error = both(fit_points, table(), client)
    assert isinstance(error, ImportError) and "(slow): No module named 'numba'; install there" in str(error)


def test_no_worker_has_isobag(cluster, client):
    cluster.start_worker("bare", without="isobag")
    client.wait_for_workers(1, timeout=60)
    _, error = both(fit_points, table(), client)
    assert "No Dask worker can load isobag (asked: tcp://" in str(error) and "(bare)" in str(error)


def wait_until_no_task_is_left(client):
    """The scheduler forgets what is cancelled, a moment later."""
    deadline = time.monotonic() + 30
    while client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)):
        assert time.monotonic() < deadline, "tasks are left"
        time.sleep(0.2)


@pytest.mark.parametrize("fit", [fit_points, fit_groups])
def test_all_workers_killed_is_an_error_and_not_for_ever(cluster, client, fit):
    cluster.start_worker("only")
    client.wait_for_workers(1, timeout=60)
    threading.Timer(3, cluster.workers["only"].kill).start()
    with dask.config.set({"distributed.scheduler.no-workers-timeout": "4s"}):
        _, error = both(fit, table(pause=1), client)
    assert "No worker was left for 4 s; start some" in str(error)
    wait_until_no_task_is_left(client)


def test_workers_too_small_to_work_are_an_error_and_not_for_ever(cluster, client):
    small = ("--memory-limit", "200MB")  # loading isobag alone takes more than the 80 % at which a worker pauses
    cluster.start_worker("small", *small)
    client.wait_for_workers(1, timeout=60)
    with dask.config.set({"distributed.scheduler.no-workers-timeout": "6s"}):
        _, error = both(fit_groups, table(), client)
    assert "No worker was left for 6 s that has memory to work: 1 paused, with at most 200 MB" in str(error)


def test_a_worker_that_stands_still_is_named_while_waiting(cluster, client, monkeypatch):
    monkeypatch.setattr(workers, "STILL_S", 4)
    still = cluster.start_worker("still")
    client.wait_for_workers(1, timeout=60)
    threading.Timer(3, os.kill, (still.pid, signal.SIGSTOP)).start()
    threading.Timer(13, os.kill, (still.pid, signal.SIGCONT)).start()
    said, error = both(fit_points, table(pause=1), client)
    assert error is None
    assert "(still) has given no sign of life for 4 s" in said[0] and len(said) == 1


def test_a_scheduler_that_dies_is_one_sentence(cluster, tmp_path):
    cluster.start_worker("only")
    path = tmp_path / "t.parquet"
    pd.concat([make(number) for number in range(20_000)]).to_parquet(path)
    # So many rows and partitionings take a minute: it is at work when the scheduler dies.
    process = start("points", path, "--features", "a,b", "-t", 400, "--dask", cluster.address)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=12)
    cluster.scheduler.kill()
    code, out, err = finish(process)
    dashboard, *rest = err.splitlines()
    assert code == 1 and dashboard.startswith("Dashboard:") and out == ""
    assert rest == [f"Error: The Dask scheduler at {cluster.address} went away; start it, and try again."]


def test_an_interruption_leaves_no_task_on_the_scheduler(cluster, client):
    cluster.start_worker("only")
    client.wait_for_workers(1, timeout=60)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores it
    threading.Timer(3, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        with pytest.raises(KeyboardInterrupt) as stopped:
            fit_points(table(pause=1), client)
    finally:
        signal.signal(signal.SIGINT, before)
    wait_until_no_task_is_left(client)
    assert stopped.tb is not None  # whose frames still hold what was asked for
