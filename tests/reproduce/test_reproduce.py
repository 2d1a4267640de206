"""The reproduction: cells that stop and resume, ranks against the paper's own, searches against the detectors."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.svm import OneClassSVM

from isobag import IDKGroupDetector, IDKPointDetector, IsolationDistributionalKernel
from isobag.baselines import OCSMM, GaussianPointDetector, RecursiveNystroem, TwoLevelGroupDetector
from isobag.data.groups import Groups
from isobag.data.rows import ArrayRows
from isobag.reproduce import boxplots, paper, searches
from isobag.reproduce.accuracy import accuracy_table, best_of, ranking
from isobag.reproduce.cells import (
    DONE,
    FAILED,
    NOT_AVAILABLE,
    OVER_BUDGET,
    Cell,
    Outcome,
    Plan,
    read_outcome,
    run_cell,
    run_cells,
)
from isobag.reproduce.ranks import compare, rank_rows
from isobag.reproduce.run import EXPERIMENTS, run_experiment

# The child processes import the work from this folder.
WORK = "reproduce_work:steps"
WITH_WORK = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}


def plan(out, **changes):
    return Plan(n_seeds=1, budget=20.0, data=None, out=out, n_jobs=1, resume=False)._replace(**changes)


@pytest.fixture(scope="module", autouse=True)
def warm(tmp_path_factory):
    """The first process takes as long to start as everything takes to import; later ones are forked from its server."""
    run_cell(Cell("point", "works", "1", WORK), plan(tmp_path_factory.mktemp("warm"), budget=None))


@pytest.mark.slow
def test_a_cell_over_its_budget_is_stopped_and_keeps_what_it_had_found(tmp_path):
    start = time.monotonic()
    outcome = run_cell(Cell("point", "sleeps", "3", WORK), plan(tmp_path, budget=3.0))
    assert time.monotonic() - start < 60
    assert outcome.status == OVER_BUDGET
    assert [record["auc"] for record in outcome.records] == [0.5, 0.51, 0.52]
    assert best_of(outcome).cut
    table = accuracy_table({("sleeps", "3"): outcome, ("sleeps", "0"): outcome._replace(records=[])}, {})
    assert "| .520 (> 3 s) |" in table
    assert "| > 3 s |" in table


@pytest.mark.slow
def test_a_seed_that_would_end_over_budget_is_not_begun(tmp_path):
    outcome = run_cell(Cell("point", "any", "any", "reproduce_work:seeds"), plan(tmp_path, n_seeds=9, budget=2.9))
    assert outcome.seconds < 2.9
    best = best_of(outcome)
    assert 1 <= best.n_seeds <= 2
    assert not best.cut
    alone = run_cell(Cell("point", "any", "any", "reproduce_work:seeds"), plan(tmp_path, n_seeds=1, budget=1.9))
    assert alone.status == DONE


@pytest.mark.parametrize(
    ("name", "status", "message"),
    [
        ("works", DONE, ""),
        ("fails", FAILED, "ValueError: psi=1; need 2 or more."),
        ("dies", FAILED, "its process ended with exit code -9"),
        ("missing", NOT_AVAILABLE, "missing: no file."),
    ],
)
def test_a_cell_says_how_it_ended(tmp_path, name, status, message):
    outcome = run_cell(Cell("point", name, "1", WORK), plan(tmp_path))
    assert (outcome.status, outcome.message) == (status, message)
    assert outcome.records[0]["auc"] == 0.5


@pytest.mark.slow
def test_resume_keeps_finished_cells_and_runs_the_others(tmp_path):
    cells = [Cell("point", name, "1", WORK) for name in ("works", "fails", "sleeps")]
    first = run_cells(cells, plan(tmp_path, budget=3.0))
    kept = run_cells(cells, plan(tmp_path, budget=3.0, resume=True))
    assert kept["works", "1"] == first["works", "1"]
    assert kept["sleeps", "1"] == first["sleeps", "1"]
    assert kept["fails", "1"].seconds != first["fails", "1"].seconds
    assert run_cells(cells[:1], plan(tmp_path, n_seeds=2, resume=True))["works", "1"].n_seeds == 2
    # More time is a reason to try again; less is none.
    assert run_cells(cells[2:], plan(tmp_path, budget=4.0, resume=True))["sleeps", "1"].budget == 4.0
    assert run_cells(cells[2:], plan(tmp_path, budget=2.0, resume=True))["sleeps", "1"].budget == 4.0
    # Other threads, and other data, are another run.
    other = run_cells(cells[:1], plan(tmp_path, n_jobs=2, n_seeds=2, resume=True))["works", "1"]
    assert "2 threads, no data folder" in other.setting
    # So is what another version wrote.
    file = next(tmp_path.glob("cells/point/works--1.json"))
    file.write_text(file.read_text().replace('"setting"', '"place"'))
    assert read_outcome(cells[0], tmp_path) is None


KILLED = """
import sys
from pathlib import Path
from isobag.reproduce.cells import Cell, Plan, run_cells
if __name__ == "__main__":
    cells = [Cell("point", name, "1", "reproduce_work:steps") for name in "abcdef"]
    run_cells(cells, Plan(1, None, sys.argv[1], Path(sys.argv[1]), 1, True))
"""


@pytest.mark.slow
def test_a_killed_run_loses_at_most_one_cell(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(KILLED)
    command = [sys.executable, str(script), str(tmp_path)]
    finished = tmp_path / "cells" / "point"
    run = subprocess.Popen(command, env=WITH_WORK)
    deadline = time.monotonic() + 60
    while len(list(finished.glob("*.json"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    run.send_signal(signal.SIGKILL)
    run.wait()
    before = {file: file.read_text() for file in finished.glob("*.json")}
    assert 2 <= len(before) < 6
    subprocess.run(command, env=WITH_WORK, check=True, timeout=120)
    assert len(list(finished.glob("*.json"))) == 6
    assert all(file.read_text() == text for file, text in before.items())
    runs = (tmp_path / "runs").read_text().split()
    assert sorted(set(runs)) == list("abcdef")
    assert len(runs) <= 7


@pytest.mark.slow
def test_a_killed_run_leaves_no_cell_at_work(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(KILLED.replace('"abcdef"', '["sleeps"]'))
    run = subprocess.Popen([sys.executable, str(script), str(tmp_path)], env=WITH_WORK)
    number = tmp_path / "number"
    deadline = time.monotonic() + 60
    while not (number.is_file() and number.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    worker = int(number.read_text())
    assert is_running(worker)
    run.send_signal(signal.SIGKILL)
    run.wait()
    while is_running(worker) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_running(worker)


def is_running(number):
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


LOCKED = """
from pathlib import Path
from isobag.reproduce.cells import Cell, Plan, run_cell
if __name__ == "__main__":
    print(run_cell(Cell("point", "locks", "1", "reproduce_work:locks"), Plan(1, 2.0, None, Path(), 1, False)).records)
"""


@pytest.mark.slow
def test_what_a_killed_cell_leaves_is_removed_without_a_warning(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(LOCKED)
    run = subprocess.run(
        [sys.executable, str(script)], env=WITH_WORK, capture_output=True, text=True, check=True, timeout=120
    )
    assert run.stdout == "[{'locked': True}]\n"
    assert run.stderr == ""


def published(table, detectors):
    names = list(dict.fromkeys(name for name, _ in table))
    return np.array([[np.nan if (auc := table[name, one]) is None else auc for one in detectors] for name in names])


@pytest.mark.parametrize(
    ("table", "detectors", "ranks"),
    [
        (paper.POINT_AUC, paper.KERNEL_DETECTORS, paper.KERNEL_RANKS),
        (paper.POINT_AUC, paper.ISOLATION_DETECTORS, paper.ISOLATION_RANKS),
        (paper.GROUP_AUC, paper.GROUP_DETECTORS, paper.GROUP_RANKS),
    ],
)
def test_the_published_average_ranks_follow_from_the_published_tables(table, detectors, ranks):
    """The paper cuts 2.9286 to 2.92."""
    found = compare(published(table, detectors), detectors).average_ranks
    assert found == pytest.approx(ranks, abs=0.01)


def test_ties_share_a_rank_and_a_missing_number_is_last():
    assert_array_equal(rank_rows(np.array([[0.9, 0.8, 0.9, np.nan]])), [[1.5, 3.0, 1.5, 4.0]])


def outcome_of(*records, status=DONE):
    return Outcome(status, "", 1.0, 2, None, list(records), "here", "today")


def test_a_search_that_failed_is_marked():
    outcome = outcome_of({"seed": 0, "parameter": 2, "auc": 0.7}, status=FAILED)
    assert "| .700 (failed) |" in accuracy_table({("a", "b"): outcome}, {})


def test_the_best_parameter_is_chosen_by_its_mean_over_complete_seeds():
    records = [{"seed": seed, "parameter": psi, "auc": auc} for seed, psi, auc in
               [(0, 2, 0.9), (0, 4, 0.8), (1, 2, 0.5), (1, 4, 0.7), (2, 2, 1.0)]]  # fmt: skip
    ends = [{"seed": seed, "complete": True} for seed in (0, 1)]
    best = best_of(outcome_of(*records, *ends))
    assert (best.auc, best.parameter, best.n_seeds, best.cut) == (pytest.approx(0.75), 4, 2, False)
    assert best.spread == pytest.approx(0.1)
    assert best_of(outcome_of()) is None


def test_the_ranking_of_the_published_table_is_the_published_one(tmp_path):
    outcomes = {}
    for key, auc in paper.GROUP_AUC.items():
        records = [] if auc is None else [{"seed": 0, "parameter": 2, "auc": auc}]
        outcomes[key] = outcome_of(*records, {"seed": 0, "complete": True})
    text = ranking(outcomes, paper.GROUP_DETECTORS, paper.GROUP_RANKS, tmp_path / "ranks.png")
    assert "| IDK2 | 1.14 | 1.14 | -0.00 |" in text
    assert "over 11 sets" in text
    assert (tmp_path / "ranks.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def groups(rng):
    X = np.repeat(rng.random((40, 2)), 15, axis=0) + 0.2 * rng.random((600, 2))
    return Groups(ArrayRows((X - X.min(axis=0)) / np.ptp(X, axis=0)), np.repeat(np.arange(40), 15), np.arange(40))


def found_by(search, *data):
    return {parameter: scores for parameter, scores in searches.__dict__[search][data[0]](*data[1:], 3, 1)}


def test_searched_idk_is_the_detector_for_every_psi(rng, monkeypatch):
    monkeypatch.setattr(searches, "_STAGES", (8, 16, 4096))
    X = rng.normal(size=(100, 2))
    for name, method in (("IDK", "similarity"), ("norm", "norm")):
        found = found_by("POINT_SEARCHES", name, X)
        assert list(found) == [2, 4, 8, 16, 32, 64]
        for psi, scores in found.items():
            detector = IDKPointDetector(100, psi, method=method, random_state=3).fit(X)
            assert_array_equal(scores, detector.score_samples(X))


@pytest.mark.parametrize("rows", [0, 1 << 14])
def test_searched_ocsvm_is_scikit_learns(rng, monkeypatch, rows):
    monkeypatch.setattr(searches, "_GRAM_ROWS", rows)
    X = rng.uniform(size=(60, 3))
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    for bandwidth, scores in searches.POINT_SEARCHES["OCSVM"](X, 0, 1):
        svm = OneClassSVM(gamma=0.5 / bandwidth**2).fit(X)
        assert_allclose(scores, svm.score_samples(X), rtol=1e-6)


def test_searched_idk2_is_the_group_detector(groups):
    found = found_by("GROUP_SEARCHES", "IDK2", groups)
    assert max(found) == (256, 32)
    for psi, psi2 in ((2, 2), (16, 8), (256, 32)):
        detector = IDKGroupDetector(100, psi, psi2, random_state=3, scaling=None).fit(groups.points, groups=groups.ids)
        assert_array_equal(found[psi, psi2], detector.scores_)


@pytest.mark.parametrize("bandwidth", [0.25, 8.0])
def test_searched_idk_gdk_is_the_composition(groups, bandwidth):
    level2 = GaussianPointDetector(bandwidth, scaling=None)
    detector = TwoLevelGroupDetector(IsolationDistributionalKernel(100, 8, random_state=3), level2)
    expected = detector.fit(groups.points, groups=groups.ids).scores_
    assert_allclose(found_by("GROUP_SEARCHES", "IDK-GDK", groups)[8, bandwidth], expected, rtol=1e-9)


def test_searched_idk_ocsvm_is_the_composition(groups):
    found = found_by("GROUP_SEARCHES", "IDK-OCSVM", groups)
    for nu in searches.NUS:
        level2 = OneClassSVM(kernel="linear", nu=nu)
        detector = TwoLevelGroupDetector(IsolationDistributionalKernel(100, 8, random_state=3), level2)
        expected = detector.fit(groups.points, groups=groups.ids).scores_
        # A solver stops within tol = 1e-3 of the optimum; scores are sums of some 20 products of up to t = 100.
        assert_allclose(found[8, nu], expected, rtol=1e-3)


def test_searched_ocsmm_is_the_detector(groups):
    for (bandwidth, nu), scores in searches.GROUP_SEARCHES["OCSMM"](groups, 0, 1):
        expected = OCSMM(nu, bandwidth).fit(groups.points, groups=groups.ids).scores_
        assert_allclose(scores, expected, rtol=1e-5, atol=1e-8)


def test_searched_gdk2_is_the_composition(groups):
    level2 = GaussianPointDetector(0.5, approximation="nystroem", scaling=None, random_state=3)
    detector = TwoLevelGroupDetector(RecursiveNystroem(0.25, random_state=3), level2)
    expected = detector.fit(groups.points, groups=groups.ids).scores_
    assert_allclose(found_by("GROUP_SEARCHES", "GDK2", groups)[0.25, 0.5], expected, rtol=1e-9)


@pytest.mark.parametrize("detector", paper.POINT_DETECTORS)
def test_every_point_detector_finds_a_far_point(rng, detector):
    X = np.vstack([rng.normal(size=(300, 2)), [[9.0, 9.0]]])
    best = [scores.argmin() for scores in found_by("POINT_SEARCHES", detector, X).values()]
    assert 300 in best


@pytest.mark.parametrize("detector", paper.GROUP_DETECTORS)
def test_every_group_detector_yields_a_score_for_each_group(groups, detector):
    found = found_by("GROUP_SEARCHES", detector, groups)
    assert all(scores.shape == (40,) and np.isfinite(scores).all() for scores in found.values())


def test_every_experiment_names_work_that_exists():
    from importlib import import_module

    for experiment in EXPERIMENTS.values():
        module, function = experiment.work.split(":")
        assert callable(getattr(import_module(module), function))


def run_command(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "isobag", *arguments],
        env=os.environ | {"COLUMNS": "120", "PYTHONPATH": os.pathsep.join(sys.path)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_the_command_writes_json_markdown_and_figures(tmp_path, rng):
    X = np.vstack([rng.normal(size=(200, 2)), rng.normal(6, 1, (5, 2))])
    for name in ("one", "two"):
        (tmp_path / "point").mkdir(exist_ok=True)
        np.savez(tmp_path / "point" / f"{name}.npz", X=X, y=np.repeat([0, 1], [200, 5]))
    out = tmp_path / "out"
    done = run_command("reproduce", "point", "--sets", "one,two,speech", "--seeds", "1", "--jobs", "1",
                       "--out", str(out), ISOBAG_DATA=str(tmp_path))  # fmt: skip
    assert done.returncode == 0, done.stderr
    text = (out / "point.md").read_text()
    assert "| set | detector | paper | here | difference |" in text
    assert "- not available: speech: " in text
    assert "over 2 sets (one, two)" in text
    cells = json.loads((out / "point.json").read_text())["cells"]
    assert len(cells) == 3 * len(paper.POINT_DETECTORS)
    assert all(cell["status"] == DONE for cell in cells if cell["set"] != "speech")
    assert {file.name for file in out.glob("*.png")} == {"point-kernel-ranks.png", "point-isolation-ranks.png"}
    assert read_outcome(Cell("point", "one", "IDK", ""), out).status == DONE


@pytest.mark.slow
def test_a_set_that_an_experiment_cannot_take_is_an_error(tmp_path):
    done = run_command("reproduce", "scaleup", "--sets", "http", "--out", str(tmp_path))
    assert done.returncode == 1
    assert "sets='http'; scaleup has none but 1000, 2000, 5000, 10000." in done.stderr


@pytest.mark.slow
def test_all_leaves_out_what_has_none_of_the_sets_by_name(tmp_path):
    done = run_command("reproduce", "all", "--sets", "synthetic", "--budget", "0.1", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "scaleup: has none of the sets synthetic, left out." in done.stdout
    assert {file.name for file in tmp_path.glob("*.md")} == {"local.md", "peaks.md", "clusters.md"}
    assert "> 0.1 s" in (tmp_path / "peaks.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dataset"), [("runtime", "tiny"), ("stability", "tiny"), ("contamination", "tiny")])
def test_timings_and_boxes_run_on_a_set_of_ones_own(tmp_path, rng, name, dataset):
    (tmp_path / "point").mkdir()
    X = np.vstack([rng.normal(size=(300, 2)), rng.normal(6, 1, (5, 2))])
    np.savez(tmp_path / "point" / "tiny.npz", X=X, y=np.repeat([0, 1], [300, 5]))
    experiment = EXPERIMENTS[name]
    text = run_experiment(experiment, plan(tmp_path / "out", n_seeds=2, data=str(tmp_path)), [dataset])
    cells = json.loads((tmp_path / "out" / f"{name}.json").read_text())["cells"]
    assert [cell["detector"] for cell in cells if cell["status"] == DONE] == list(experiment.detectors)
    assert all(f"| {dataset} | {detector} |" in text for detector in experiment.detectors)


def test_with_the_given_share_of_anomalies_both_ways_to_contaminate_are_one(tmp_path, rng):
    (tmp_path / "point").mkdir()
    X = np.vstack([rng.normal(size=(300, 2)), rng.normal(2, 1, (20, 2))])
    np.savez(tmp_path / "point" / "tiny.npz", X=X, y=np.repeat([0, 1], [300, 20]))

    def aucs(gamma, detector):
        return list(boxplots.vary_contamination("tiny", f"{detector}, gamma={gamma}", 2, str(tmp_path), 1))

    assert aucs(1, "IDK") == aucs(1, boxplots.GIVEN)
    assert aucs(4, "IDK") != aucs(4, boxplots.GIVEN)
    assert aucs(1, "IDK") != aucs(1, "norm")


@pytest.mark.slow
def test_scale_up_on_a_gpu_is_measured_or_says_why_not(tmp_path):
    experiment = EXPERIMENTS["scaleup"]._replace(datasets=("30", "60"), detectors=("IDK2", "IDK2 on a GPU"))
    text = run_experiment(experiment, plan(tmp_path))
    assert "| IDK2 | 30 to 60 | 12 |" in text
    assert (tmp_path / "scaleup.png").is_file()
    if importlib.util.find_spec("torch") is None:
        assert text.count('not available: IDK2 on a GPU: backend="torch" needs PyTorch, which is not installed') == 1
        return
    from isobag.backends.torch.devices import problem_with_cuda

    problem = problem_with_cuda()
    if problem is None:
        assert "| IDK2 on a GPU | 30 to 60 |" in text
    else:
        assert text.count(f"not available: IDK2 on a GPU: {problem}") == 1


@pytest.mark.slow
def test_all_goes_on_where_a_set_cannot_be_had(tmp_path):
    options = ("--data", str(tmp_path), "--sets", "ForestCover,synthetic", "--budget", "0.1", "--seeds", "2")
    nowhere = {"https_proxy": "http://127.0.0.1:9", "XDG_CACHE_HOME": str(tmp_path)}
    done = run_command("reproduce", "all", *options, "--out", str(tmp_path / "out"), **nowhere)
    assert done.returncode == 0, done.stderr
    names = {"point", "stability", "contamination", "local", "peaks", "clusters"}
    assert {file.stem for file in (tmp_path / "out").glob("*.md")} == names
    assert "cover.npz could not be downloaded" in (tmp_path / "out" / "contamination.md").read_text()
    assert "seeds 0 to 1" in (tmp_path / "out" / "stability.md").read_text()
    assert "seed 0," in (tmp_path / "out" / "local.md").read_text()


def test_help_names_every_experiment():
    help_text = run_command("reproduce", "--help").stdout
    assert all(name in help_text for name in [*EXPERIMENTS, "all", "--budget", "--resume", "--sets", "--seeds"])


@pytest.mark.parametrize(
    ("module", "command", "status", "message"),
    [
        ("typer", [], 2, "pip install 'isobag[cli]'"),
        ("matplotlib", ["reproduce", "local"], 1, "pip install 'isobag[cli,reproduce]'"),
    ],
)
def test_a_missing_extra_is_named_in_one_sentence(tmp_path, module, command, status, message):
    hide = f"import sys, importlib.util as u; sys.modules[{module!r}] = None; find = u.find_spec\n"
    hide += f"u.find_spec = lambda name, *rest: None if name == {module!r} else find(name, *rest)\n"
    hide += f"sys.argv = ['isobag', *{command!r}]; from isobag.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", hide], env=WITH_WORK, capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert message in done.stderr
    assert "Traceback" not in done.stderr
