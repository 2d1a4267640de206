"""isobag on a cluster of Dask: processes that die, errors that say where, and what travels."""

import os
import signal
import time
import warnings
from functools import partial
from itertools import count

import cloudpickle
import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster, get_worker
from distributed.core import rpc
from distributed.utils import sync

import isobag
from isobag.cli.cluster import PATIENCE
from isobag.engines import dask as engine
from isobag.engines.dask import partitions
from isobag.engines.dask.runner import Runner

OPTIONS = {"features": ["a", "b"], "n_estimators": 8, "random_state": 3}
N_PARTITIONS, N_ROWS = 12, 60
SLOW_MACHINE = {"distributed.scheduler.no-workers-timeout": "300s"}
"""Both workers may be dead at once, and start again while much else is going on."""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.cluster,
    # Of a worker that is busy on a machine that is busy, too; test_dask_processes has those that do stand still.
    pytest.mark.filterwarnings("ignore:Dask worker .* has given no sign of life:RuntimeWarning"),
]


def make(number, bad=None):
    """A partition, made where it is needed; at the one called bad, something happens once."""
    rng = np.random.default_rng(number)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=N_ROWS),
            "b": rng.normal(size=N_ROWS),
            "who": rng.integers(0, 30, N_ROWS),
        }
    )
    if bad is not None:
        bad(number, frame)
    return frame


def table(bad=None):
    return dd.from_map(partial(make, bad=bad), range(N_PARTITIONS), meta=make(0)[:0])


def die():
    """Kill this process, but not before its nanny knows it: Dask never restarts a worker that died while it started."""
    worker = get_worker()
    while not sync(worker.loop, is_known, worker):
        time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGKILL)


async def is_known(worker):
    """Whether the nanny of a worker, which has a process of its own, has heard that the worker started."""
    async with rpc(worker.nanny) as nanny:
        answer = await nanny.run(function=cloudpickle.dumps(lambda dask_worker: dask_worker.process.status.name))
    return answer["result"] == "running"


class DiesOnce:
    """Kills the worker the n-th time that partition 5 is made."""

    def __init__(self, folder, visit):
        self.folder, self.visit = folder, visit

    @property
    def has_died(self):
        return (self.folder / f"visit-{self.visit}").exists()

    def __call__(self, number, frame):
        if number == 5:
            n_visits = len(os.listdir(self.folder))
            (self.folder / f"visit-{n_visits}").touch()
            if n_visits == self.visit:
                die()


class DiesAlways:
    def __call__(self, number, frame):
        if number == 5:
            die()


class NeedsTooMuchMemory:
    """Takes 32 MB more every fiftieth of a second, until something stops it."""

    def __call__(self, number, frame):
        hoard = []
        while number == 5:
            time.sleep(0.02)
            hoard.append(np.ones(1 << 22))
            assert len(hoard) < 200, "6 GB, and nobody stopped it"


def lacks_a_value(number, frame):
    if number == 5:
        frame.loc[17, "b"] = np.nan


def is_of_another_type(number, frame):
    if number == 5:
        frame["b"] = [f"{value:.3f}" for value in frame["b"]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Two processes that Dask never gives up; if none comes back, tasks fail instead of waiting for ever."""
    how = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None, "memory_limit": "1GB"}
    with warnings.catch_warnings(), dask.config.set(PATIENCE | SLOW_MACHINE):
        warnings.simplefilter("ignore")
        with LocalCluster(**how, local_directory=tmp_path_factory.mktemp("workers")) as one, Client(one) as client:
            yield client


@pytest.fixture
def client(cluster):
    """Of both workers, whatever became of them in the test before."""
    cluster.wait_for_workers(2, timeout=300)
    return cluster


@pytest.fixture(autouse=True)
def _few_at_a_time(monkeypatch):
    monkeypatch.setattr(partitions, "WINDOW", 4)
    monkeypatch.setattr(partitions, "FORGOTTEN", 2)


def whole():
    return pd.concat([make(number) for number in range(N_PARTITIONS)], ignore_index=True)


def points_of(data, **options):
    return engine.detect_points(data, **OPTIONS, **options).compute()


def groups_of(data, **options):
    return engine.detect_groups(data, "who", **OPTIONS, **options).compute()


@pytest.mark.parametrize("given", [True, False])
def test_processes_find_what_is_found_in_memory(client, given):
    own = {"client": client} if given else {}
    plain = isobag.detect_points(whole(), **OPTIONS).sort_values("row")
    assert points_of(table(), **own)["score"].tolist() == plain["score"].tolist()
    pd.testing.assert_frame_equal(
        groups_of(table(), **own), isobag.detect_groups(whole(), "who", **OPTIONS), check_dtype=False, check_exact=True
    )


@pytest.mark.parametrize("detect", [points_of, groups_of])
def test_a_worker_killed_in_any_phase_changes_nothing(client, detect, tmp_path):
    expected = detect(table())
    for visit in count():  # until partition 5 is not made so often
        folder = tmp_path / f"killed-in-{visit}"
        folder.mkdir()
        bad = DiesOnce(folder, visit)
        pd.testing.assert_frame_equal(detect(table(bad)), expected, check_exact=True)
        if not bad.has_died:
            break
    assert visit >= 4


@pytest.mark.parametrize("bad", [DiesAlways, NeedsTooMuchMemory])
def test_a_partition_that_kills_every_worker_is_named_and_the_cluster_stays_usable(client, bad):
    with pytest.raises(RuntimeError, match=r"partitions? (\d+, )*5(, \d+)*: the workers that .* died.*, most likely"):
        points_of(table(bad()))
    assert len(points_of(table())) == N_PARTITIONS * N_ROWS


def test_a_cluster_without_workers_is_an_error_and_not_for_ever():
    with (
        dask.config.set({"distributed.scheduler.no-workers-timeout": "1s"}),
        LocalCluster(n_workers=0, dashboard_address=":0") as one,
        Client(one) as client,
        pytest.raises(RuntimeError, match="No worker was left for 1 s; start some"),
    ):
        points_of(table(), client=client)


def test_errors_name_partition_row_and_column_and_the_cluster_stays_usable(client):
    with pytest.raises(ValueError, match="the first is in row 17 of partition 5, column 'b'"):
        points_of(table(lacks_a_value), missing="error")
    with pytest.raises(ValueError, match=r"partition 5, column 'b' is of type .*string.*; need one type"):
        groups_of(table(is_of_another_type))
    assert len(points_of(table())) == N_PARTITIONS * N_ROWS


def test_what_comes_to_the_client_does_not_grow_with_the_rows(client):
    def bytes_of(n_rows):
        data = dd.from_map(partial(many, n_rows=n_rows), range(8), meta=many(0, 1)[:0])
        before = received(client)
        engine.fit(data, n_estimators=8, max_samples=16, random_state=0, calibrate=False)
        return received(client) - before

    bytes_of(1_000)
    small, large = bytes_of(10_000), bytes_of(200_000)
    assert large < 1.5 * small + 200_000, (small, large)


def test_the_scheduler_keeps_no_more_tasks_for_more_partitions(client, monkeypatch):
    kept = []
    wait = Runner.wait

    def counting(self, found):
        wait(self, found)
        kept.append(len(client.cluster.scheduler.tasks))

    def most_kept(n_partitions):
        kept.clear()
        data = dd.from_map(partial(many, n_rows=10), range(n_partitions), meta=many(0, 1)[:0])
        engine.fit(data, n_estimators=8, max_samples=16, random_state=0, calibrate=False)
        return max(kept)

    monkeypatch.setattr(Runner, "wait", counting)
    few, more = most_kept(32), most_kept(160)
    assert more < 2 * few, (few, more)


def many(number, n_rows):
    return pd.DataFrame(np.random.default_rng(number).normal(size=(n_rows, 2)), columns=["a", "b"])


def received(client):
    """Bytes of all results that came to this client so far."""
    return sum(RECEIVED)


RECEIVED = []


@pytest.fixture(autouse=True)
def _count_what_is_received(monkeypatch):
    from distributed.protocol.pickle import dumps

    result = Runner.result

    def counting(self, found):
        thing = result(self, found)
        RECEIVED.append(len(dumps(thing)))
        return thing

    monkeypatch.setattr(Runner, "result", counting)
