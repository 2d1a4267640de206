"""``--dask``: what a command says without it, found by workers; and what cannot be done is refused in one sentence."""

import os
import re
import subprocess
import sys
import time
import warnings
from itertools import pairwise
from pathlib import Path

import dask.dataframe as dd
import logs
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from commands import ask, assert_one_sentence, finish, run, start
from distributed import LocalCluster
from pyarrow import parquet

import isobag
from isobag.cli import cluster
from isobag.engines.dask import workers
from isobag.engines.dask.partitions import DaskPartitions
from isobag.engines.dask.workers import WorkersDiedError
from isobag.tables import detect, distributed
from isobag.tables.distributed import Oddest

N_ROWS = 400


@pytest.fixture(scope="module")
def address():
    """Of a cluster that is reached as any other, in threads of this process: quick to start."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, protocol="tcp://", dashboard_address=None
        ) as one:
            yield one.scheduler_address


@pytest.fixture(autouse=True)
def _row_groups_are_partitions(monkeypatch):
    monkeypatch.setattr(cluster, "PIECE_BYTES", 1)
    monkeypatch.setattr(distributed, "WINDOW_ROWS", 150)


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "amount": rng.normal(size=N_ROWS).round(1),
            "hour": pd.array(rng.integers(0, 24, N_ROWS), dtype="Int64"),
            "kind": pd.Categorical(np.array(["card", "cash"])[rng.integers(0, 2, N_ROWS)]),
            "account": rng.integers(0, 20, N_ROWS),
            "name": [f"row {i}" for i in range(N_ROWS)],
            "tags": [["a", "b"]] * N_ROWS,
            "number": np.arange(N_ROWS),
        },
        index=pd.Index(rng.permutation(N_ROWS), name="index"),
    )


def written(frame, path, row_group_size=90):
    parquet.write_table(pa.Table.from_pandas(frame), path, row_group_size=row_group_size)
    return path


def assert_same(found, plain):
    """All that is said, but for what stands in columns that workers do not look at."""
    for one, other in zip(found["table"]["columns"], plain["table"]["columns"], strict=True):
        if one["kind"] == "unknown":
            assert one["role"] != "feature"
            other |= {name: one[name] for name in ("kind", "n_numbers", "n_texts", "n_times", "n_missing")}
    assert found == plain


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--features", "amount,hour,kind", "--id-column", "name", "--contamination", "0.1", "--no-p-values"),
        ("--psi", "8", "--top", "400"),
    ],
    ids=["plain", "chosen", "all of them"],
)
def test_points_say_what_they_say_without_it(frame, tmp_path, address, options):
    path = written(frame, tmp_path / "t.parquet")
    plain = ask("points", path, "-t", 6, *options)
    assert_same(ask("points", path, "-t", 6, *options, "--dask", address), plain)


def test_missing_values_are_counted_and_rows_without_a_score_stand_last(frame, tmp_path, address):
    frame.iloc[[3, 200], 1] = pd.NA
    path = written(frame, tmp_path / "t.parquet")
    for missing in ("drop", "median"):
        asked = ("points", path, "-t", 5, "--missing", missing, "--features", "amount,hour", "--top", N_ROWS)
        plain = ask(*asked)
        assert "n_missing" in plain["top"][0]
        assert_same(ask(*asked, "--dask", address), plain)


def test_an_engine_has_an_address_of_which_dask_is_short(frame, tmp_path, address):
    path = written(frame, tmp_path / "t.parquet")
    asked = ("points", path, "-t", 6)
    plain = ask(*asked)
    assert ask(*asked, "--engine", "local") == plain
    assert_same(ask(*asked, "--engine", f"dask://{address}"), plain)
    assert_one_sentence(run(*asked, "--engine", "ray://head"), "--engine ray://head: need local", code=2)
    assert_one_sentence(run(*asked, "--engine", "local", "--dask", address), "both given", code=2)


@pytest.mark.parametrize("options", [(), ("--min-size", "20", "--missing", "drop")], ids=["plain", "not all"])
def test_groups_say_what_they_say_without_it(frame, tmp_path, address, options):
    frame.iloc[7, 0] = np.nan if options else 0.5
    path = written(frame, tmp_path / "t.parquet")
    asked = ("groups", path, "--by", "account", "--features", "amount,hour", "-t", 6, *options)
    assert_same(ask(*asked, "--dask", address), ask(*asked))


def test_all_scores_are_written_in_the_order_of_the_table_bit_for_bit(frame, tmp_path, address):
    path = written(frame, tmp_path / "t.parquet")
    asked = ("points", path, "-t", 6, "--id-column", "name")
    plain, found = tmp_path / "plain.parquet", tmp_path / "found.parquet"
    first = ask(*asked, "--out", plain)
    second = ask(*asked, "--out", found, "--dask", address)
    assert_same(second, first)
    expected, scored = pd.read_parquet(plain).sort_values("row"), pd.read_parquet(found)
    assert list(scored.columns) == ["name", "row", "score", "flagged", "reasons"]
    for name in scored.columns[:-1]:
        assert scored[name].tolist() == expected[name].tolist()


@pytest.mark.slow
def test_groups_and_a_model_are_written_as_without_it(frame, tmp_path, address):
    path = written(frame, tmp_path / "t.parquet")
    for command, by in (("points", ()), ("groups", ("--by", "account"))):
        asked = (command, path, *by, "--features", "amount,hour", "-t", 6)
        plain, found = tmp_path / f"{command}-plain", tmp_path / f"{command}-found"
        assert run(*asked, "--model", f"{plain}.isobag", "--out", f"{plain}.csv").exit_code == 0
        result = run(*asked, "--model", f"{found}.isobag", "--out", f"{found}.csv", "--dask", address)
        assert result.exit_code == 0 and f"Written: {found}.isobag, {found}.csv." in result.stderr
        if by:
            assert Path(f"{found}.csv").read_text() == Path(f"{plain}.csv").read_text()
        one, other = isobag.load(f"{plain}.isobag"), isobag.load(f"{found}.isobag")
        assert one.offset_ == other.offset_ and one.table_ == other.table_
        scored = [ask("score", f"{own}.isobag", path, *by)["top"] for own in (plain, found)]
        assert scored[0] == scored[1]


def test_a_folder_is_its_files_in_the_order_of_their_names(frame, tmp_path, address):
    (tmp_path / "parts").mkdir()
    for i, piece in enumerate((frame[:100], frame[100:100], frame[100:101], frame[101:])):
        written(piece, tmp_path / "parts" / f"part-{i}.parquet")
    (tmp_path / "parts" / "_SUCCESS").touch()
    plain = ask("points", tmp_path / "parts" / "*.parquet", "-t", 6)
    assert "file" in plain["top"][0]
    assert ask("points", tmp_path / "parts", "-t", 6, "--dask", address) == plain
    groups = ask("groups", tmp_path / "parts" / "*.parquet", "--by", "account", "-t", 6)
    assert any(" to " in row["file"] for row in groups["top"])
    found = ask("groups", tmp_path / "parts", "--by", "account", "-t", 6, "--dask", address)
    assert found["top"] == groups["top"]
    (tmp_path / "parts" / "day=1").mkdir()
    written(frame[:5], tmp_path / "parts" / "day=1" / "more.parquet")
    assert_one_sentence(run("points", tmp_path / "parts", "--dask", address), "day=1", "**/*.parquet")


def test_the_dashboard_and_notes_go_to_standard_error(frame, tmp_path, address):
    path = written(frame, tmp_path / "t.parquet")
    result, plain = run("points", path, "-t", 5, "--dask", address), run("points", path, "-t", 5)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == plain.stdout
    first, rest = result.stderr.split("\n", 1)
    assert re.fullmatch(r"Dashboard: http://[\w.]+:\d+/status", first) and rest == plain.stderr
    assert run("points", path, "-t", 5, "--dask", address, "--quiet").stderr == ""


REFUSED = {
    "--sql": "SELECT * FROM data",
    "--header": None,
    "--decimal": ",",
    "--format": "csv",
    "--keep": "all",
    "--report": "page.html",
    "--jobs": "2",
    "--fdr": "0.1",
}


@pytest.mark.parametrize("option", REFUSED)
def test_what_workers_cannot_do_is_refused(frame, tmp_path, option):
    path = written(frame, tmp_path / "t.parquet")
    value = [] if REFUSED[option] is None else [REFUSED[option]]
    assert_one_sentence(run("points", path, option, *value, "--dask", "tcp://127.0.0.1:1"), option)


def test_files_other_than_parquet_are_refused_and_how_to_convert_them_is_said(csv):
    assert_one_sentence(run("points", csv, "--dask", "local"), "not a Parquet file", "write_table")
    assert_one_sentence(run("points", "-", "--dask", "local", stdin="a\n1\n"), "Standard input is not", "Parquet")


def test_a_scheduler_that_is_not_there_is_one_sentence(frame, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "CONNECT_S", 0.5)
    path = written(frame, tmp_path / "t.parquet")
    for place in ("tcp://127.0.0.1:1", "nowhere", "what://is:this"):
        assert_one_sentence(run("points", path, "--dask", place), f"Cannot connect to a Dask scheduler at {place}")


def test_errors_of_workers_are_one_sentence_and_leave_no_file(frame, tmp_path, address, monkeypatch):
    out = tmp_path / "o.parquet"
    frame.iloc[200, 0] = np.nan
    path = written(frame, tmp_path / "t.parquet")
    asked = ("points", path, "-t", 5, "--features", "amount,hour", "--out", out, "--quiet", "--dask", address)
    assert_one_sentence(run(*asked, "--missing", "error"), "row 20 of partition 2", "'amount'", "--missing drop")

    def die(self, work, combine, which=None):
        raise WorkersDiedError("partition 2: the workers that looked at it died.")

    monkeypatch.setattr(DaskPartitions, "run", die)
    result = run(*asked, "--missing", "drop")
    assert_one_sentence(result, "Error: partition 2: the workers that looked at it died.")
    assert not out.exists()


@pytest.mark.parametrize("command", [("points",), ("groups", "--by", "account")], ids=["points", "groups"])
def test_other_versions_on_the_workers_are_refused(frame, tmp_path, address, monkeypatch, command):
    monkeypatch.setattr(workers, "_version_probe", lambda: lambda: "0.0.1")
    path = written(frame, tmp_path / "t.parquet")
    result = run(command[0], path, *command[1:], "--dask", address, "--quiet")
    assert_one_sentence(result, "Dask worker tcp://", "has isobag 0.0.1", f"need {isobag.__version__}, as here")


def test_without_the_extra_it_says_what_to_install(frame, tmp_path, monkeypatch):
    path = written(frame, tmp_path / "t.parquet")
    monkeypatch.setattr(cluster, "find_spec", lambda name: None if name == "distributed" else name)
    assert_one_sentence(run("points", path, "--dask", "local"), "needs distributed", "pip install 'isobag[dask]'")


def test_progress_counts_the_partitions_of_every_pass(frame, address):
    ticks = []
    data = dd.from_pandas(frame[["amount", "hour"]].astype(float), npartitions=4, sort=False)
    with engine_client(address) as client:
        partitions = DaskPartitions(data, client, lambda *told: ticks.append(told))
        detect.detect_points(partitions, n_estimators=5, random_state=0)
    starts = [i for i, (_, n_done, _) in enumerate(ticks) if n_done == 0]
    assert len(starts) >= 4
    assert {told[0] for told in ticks} == {"partitions"} and all(n_done <= of for _, n_done, of in ticks)
    whole = [ticks[a:b] for a, b in zip(starts, [*starts[1:], None], strict=True)]
    assert [told[1] for told in max(whole, key=len)] == [0, 1, 2, 3, 4]


def engine_client(address):
    from distributed import Client

    return Client(address)


@pytest.mark.parametrize("top", [0, 1, 7, 500])
def test_the_oddest_of_parts_are_the_oddest_of_all_and_ties_are_counted(top):
    rng = np.random.default_rng(top)
    scores = np.where(rng.random(300) < 0.1, np.nan, rng.integers(0, 9, 300) / 9)
    table = pa.table({"row": np.arange(300), "score": scores, "flagged": scores < 0.3})
    whole = Oddest.of(table, top)
    for cuts in ([100], [3, 3, 50, 299], list(range(1, 300))):
        edges = [0, *cuts, 300]
        parts = [Oddest.of(table.slice(a, b - a), top) for a, b in pairwise(edges)]
        while len(parts) > 1:
            parts = [parts[i].merge(parts[i + 1]) if i + 1 < len(parts) else parts[i] for i in range(0, len(parts), 2)]
        pd.testing.assert_frame_equal(parts[0].rows.to_pandas(), whole.rows.to_pandas(), check_exact=True)
        assert parts[0].n_flagged == whole.n_flagged
        assert parts[0].n_last == whole.n_last
        assert parts[0].n_like(0.0) == whole.n_like(0.0) == np.count_nonzero(scores == 0)


def test_nothing_of_dask_is_loaded_without_it(frame, tmp_path):
    path = written(frame, tmp_path / "t.parquet")
    script = (
        "import sys; from typer.testing import CliRunner; from isobag.cli.app import app\n"
        "assert CliRunner().invoke(app, sys.argv[1:]).exit_code == 0\n"
        "assert not {'dask', 'distributed', 'isobag.cli.cluster', 'isobag.engines'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script, "points", path, "-t", "5"], check=True, timeout=300)


@pytest.mark.slow
def test_local_starts_processes_and_leaves_none(frame, tmp_path):
    path = written(frame, tmp_path / "t.parquet", 400)
    asked = ("points", path, "-t", 5, "--out", tmp_path / "o.csv", "--jobs", 2)
    process = start(*asked, "--dask", "local", start_new_session=True)
    code, out, err = finish(process)
    assert code == 0, err
    assert err.startswith("Dashboard: http://127.0.0.1:") and "Traceback" not in err
    assert out == run(*asked[:-4]).stdout
    assert len((tmp_path / "o.csv").read_text().splitlines()) == N_ROWS + 1
    for _ in range(100):
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail("processes are left")


def test_watch_says_what_it_says_without_it_and_keeps_the_same_state(tmp_path, address):
    first, second, _ = logs.updates()
    how = ["--by", "shop", "--time", "ts", "--peers", "region", "--features", "amount,kind"]
    said = {}
    for name, where in (("plain", []), ("dask", ["--dask", address])):
        state, said[name] = tmp_path / f"{name}.isobag", []
        for number, frame in enumerate((first, second)):
            path = tmp_path / f"{number}.parquet"
            frame.to_parquet(path, row_group_size=500)
            asked = ["watch", path, *(how if number == 0 else []), "--model", state, *where]
            page = ["--report", tmp_path / f"{name}.html"] if number else []
            said[name].append(ask(*asked, *page))
    assert (tmp_path / "plain.isobag").read_bytes() == (tmp_path / "dask.isobag").read_bytes()
    for plain, found in zip(said["plain"], said["dask"], strict=True):
        assert {**plain, "table": None} == {**found, "table": None}
    assert (tmp_path / "dask.html").stat().st_size > 10_000
