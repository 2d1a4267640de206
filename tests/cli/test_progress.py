"""Progress: one bar, named passes, totals that are those of the work done, and what a person sees on a terminal."""

import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import run

import isobag
from isobag.backends import meter
from isobag.backends.meter import watching
from isobag.cli.progress import Bar
from isobag.tables.csvfile import CsvFile


class Line:
    """What a person would see, one entry a change: the pass, and the share of the whole command."""

    def __init__(self):
        self.seen = []

    def add_task(self, *args, **how):
        return 0

    def update(self, task, *, description, completed, total, count):
        self.seen.append((description, completed / total if total else None))


class Recorder(Bar):
    """Keeps, for every pass, the units done and those expected."""

    def __init__(self):
        self.passes, self.line = {}, Line()
        super().__init__(self.line)
        show = self.tick
        self.tick = lambda what, done, of: (self.passes.update({what: (done, of)}), show(what, done, of))

    @contextmanager
    def stage(self, what):
        done = []
        with super().stage(what):
            show = meter._watchers[-1]
            with watching(lambda n: (done.append(n), show(n))):
                yield
        self.passes[what] = (sum(done), self._work[what])


@pytest.fixture
def recorder(monkeypatch):
    recorder = Recorder()

    @contextmanager
    def record(quiet):
        yield recorder

    for module in ("progress", "run", "compare"):
        monkeypatch.setattr(f"isobag.cli.{module}.progress", record)
    return recorder


@pytest.fixture
def recorded(recorder):
    return recorder.passes


@pytest.fixture(params=[3, 14], ids=["few features", "many features"])
def table(request, tmp_path):
    X = np.random.default_rng(0).normal(size=(3_000, request.param)).round(3)
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(request.param)]).assign(k=np.arange(3_000) % 30)
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def assert_true(passes, *names):
    assert list(passes) == list(names)
    for name, (done, of) in passes.items():
        assert done == pytest.approx(of, rel=0.15), name


@pytest.mark.parametrize("options", [(), ("--psi", 16), ("--model", "m.isobag")], ids=str)
def test_totals_of_points_are_those_of_the_work(table, recorded, options, monkeypatch):
    monkeypatch.chdir(table.parent)
    assert run("points", table, "-t", 9, *options, "--out", "o.csv").exit_code == 0
    assert_true(recorded, "reading", "learning", "explaining", "writing")


def test_totals_of_streamed_points_are_those_of_the_work(table, recorded, monkeypatch):
    monkeypatch.setattr("isobag.data.spool.KEPT_BYTES", 100)
    assert run("points", table, "-t", 9).exit_code == 0
    assert_true(recorded, "reading", "learning", "explaining")


def test_totals_of_groups_are_those_of_the_work(table, recorded):
    assert run("groups", table, "--by", "k", "-t", 9).exit_code == 0
    assert_true(recorded, "reading", "learning", "explaining")


@pytest.mark.parametrize("by", [(), ("--by", "k")], ids=["points", "groups"])
def test_totals_of_fit_and_score_are_those_of_the_work(table, recorded, by):
    model = table.parent / "m.isobag"
    assert run("fit", table, "--model", model, "-t", 9, *by).exit_code == 0
    assert_true(recorded, "reading", "learning")
    recorded.clear()
    assert run("score", model, table, *by).exit_code == 0
    assert_true(recorded, "reading", "scoring", "explaining")


@pytest.mark.slow
def test_totals_of_compare_are_those_of_the_work(table, recorded):
    assert run("compare", table, table, "--n-permutations", 49).exit_code == 0
    assert_true(recorded, "reading", "comparing")


def test_the_rows_of_a_file_are_foretold_by_its_bytes(tmp_path):
    from isobag.tables.sources import FilesSource

    pd.DataFrame({"a": np.arange(50_000) % 97 + 100}).to_csv(tmp_path / "t.csv", index=False)
    pd.DataFrame({"a": np.arange(50_000) % 97 + 100}).to_csv(tmp_path / "u.csv", index=False)
    source = FilesSource([str(tmp_path / "t.csv"), str(tmp_path / "u.csv")])
    n_rows = 0
    for batch in source.frames():
        n_rows += batch.n_rows
        assert source.expected_rows(n_rows) == pytest.approx(100_000, rel=0.01)


@pytest.mark.parametrize("command", ["points", "groups", "fit", "compare"])
def test_one_bar_goes_through_the_whole_command_from_the_first_row_read(table, recorder, command, monkeypatch):
    monkeypatch.setattr(CsvFile.__init__, "__defaults__", (None, None, 1 << 12))
    more = {"groups": ("--by", "k"), "fit": ("--model", table.parent / "m"), "compare": (table,)}.get(command, ())
    out = ("--out", table.parent / "o.csv") if command in ("points", "groups") else ()
    assert run(command, table, *more, *out, *(() if command == "compare" else ("-t", 9))).exit_code == 0
    shares = [share for _, share in recorder.line.seen]
    assert len({share for what, share in recorder.line.seen if what == "reading"}) > 3  # it moves while reading
    assert None not in shares and shares == sorted(shares)
    assert list(dict.fromkeys(what for what, _ in recorder.line.seen)) == list(recorder.passes)
    assert 0 < shares[0] < 0.5 and 0.9 < shares[-1] <= 1


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
@pytest.mark.parametrize("command", ["points", "groups", "compare", "fit"])
def test_a_person_sees_the_pass_its_share_and_the_time_left(tmp_path, command):
    X = np.random.default_rng(0).normal(size=(60_000, 6)).round(3)
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(k=np.arange(len(X)) % 600)
    frame[: len(X) // (6 if command == "compare" else 1)].to_csv(tmp_path / "t.csv", index=False)
    args = {
        "points": "t.csv -t 400",
        "groups": "t.csv --by k -t 200",
        "compare": "t.csv t.csv",
        "fit": "t.csv --model m.isobag -t 400",
    }[command]
    session = f"isobag-{command}-{time.time_ns()}"
    tmux = ["tmux", "-L", session]
    python = f"PYTHONPATH={Path(isobag.__file__).parents[1]} {sys.executable}"
    shell = f"{python} -m isobag {command} {args} --jobs 1; echo exit $?; sleep 60"
    started = ["new-session", "-d", "-x", "80", "-y", "24", "-c", str(tmp_path), "sh", "-c", shell]
    subprocess.run([*tmux, *started], check=True)
    try:
        seen = []
        for _ in range(1200):
            done = subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, text=True, check=True).stdout
            seen.append(done)
            if "exit " in done:
                break
            time.sleep(0.05)
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)
    assert "exit 0" in seen[-1], seen[-1]
    lines = [line for screen in seen for line in screen.splitlines() if line.rstrip().endswith("left")]
    main = "comparing" if command == "compare" else "learning"
    passes = {line.split()[0] for line in lines}
    assert main in passes and passes <= {"reading", "learning", "explaining", "comparing", "writing"}
    shares = [int(line.split("%")[0].split()[-1]) for line in lines if "%" in line]
    assert shares == sorted(shares) and len(set(shares)) >= 3
    assert any(line.split()[-2].count(":") == 2 and line.split()[-2] != "-:--:--" for line in lines)
    assert "%" not in seen[-1]  # gone at the end
