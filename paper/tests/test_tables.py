"""Searches against the detectors, ranks against the paper's own, and every table and figure from the command."""

import json
import os
import subprocess
import sys
from importlib import import_module
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import roc_auc_score
from sklearn.svm import OneClassSVM

from isobag import IDKGroupDetector, IDKPointDetector, IsolationKernel
from paper import boxplots, printed, searches
from paper.__main__ import EXPERIMENTS, run_experiment
from paper.cells import DONE, FAILED, Cell, Outcome, RunPlan, file_of, read_outcome
from paper.gaussian import GaussianDetector
from paper.searches import TO_THE_LETTER
from paper.tables import accuracy_table, best_of, compare, rank_rows, ranking


@pytest.mark.parametrize(
    ("table", "ranks"),
    [
        (printed.POINT_AUC, printed.KERNEL_RANKS),
        (printed.POINT_AUC, printed.ISOLATION_RANKS),
        (printed.GROUP_AUC, printed.GROUP_RANKS),
    ],
)
def test_the_published_average_ranks_follow_from_the_published_tables(table, ranks):
    """The paper cuts 2.9286 to 2.92."""
    auc = np.array([[row[detector] for detector in ranks] for row in table.values()], dtype=float)
    assert compare(auc, tuple(ranks)).average_ranks == pytest.approx(ranks, abs=0.01)


def test_ties_share_a_rank_and_a_missing_number_is_last():
    assert_array_equal(rank_rows(np.array([[0.9, 0.8, 0.9, np.nan]])), [[1.5, 3.0, 1.5, 4.0]])


def outcome_of(*records, status=DONE):
    return Outcome(status, "", 1.0, list(records), RunPlan(), "here", "today")


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
    for name, row in printed.GROUP_AUC.items():
        for detector, auc in row.items():
            records = [] if auc is None else [{"seed": 0, "parameter": 2, "auc": auc}]
            outcomes[name, detector] = outcome_of(*records, {"seed": 0, "complete": True})
    text = ranking(outcomes, printed.GROUP_RANKS, tmp_path / "ranks.png")
    assert "| IDK2 | 1.14 | 1.14 | -0.00 |" in text
    assert "over 11 sets" in text
    assert (tmp_path / "ranks.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def groups(rng):
    X = np.repeat(rng.random((40, 2)), 15, axis=0) + 0.2 * rng.random((600, 2))
    return searches.to_unit_cube(X), np.repeat(np.arange(40), 15)


def group_search(detector, groups, seed=3):
    return dict(searches.GROUP_SEARCHES[detector](*groups, seed, 1))


def test_searched_idk_is_the_detector_for_every_psi(rng):
    X = rng.normal(size=(100, 2))
    scores = dict(searches.POINT_SEARCHES["IDK"](searches.to_unit_cube(X), 3, 1))
    assert list(scores) == [2, 4, 8, 16, 32, 64]
    for psi in (2, 64):
        detector = IDKPointDetector(100, psi, **TO_THE_LETTER, random_state=3).fit(X)
        assert_allclose(scores[psi], detector.score_samples(X), atol=1e-3)  # scaled here or there


@pytest.mark.parametrize("rows", [0, 1 << 14])
def test_searched_ocsvm_is_scikit_learns(rng, monkeypatch, rows):
    monkeypatch.setattr(searches, "_GRAM_ROWS", rows)
    X = rng.uniform(size=(60, 3))
    for bandwidth, scores in searches.POINT_SEARCHES["OCSVM"](X, 0, 1):
        assert_allclose(scores, OneClassSVM(gamma=0.5 / bandwidth**2).fit(X).score_samples(X), rtol=1e-6)


def test_scores_by_distances_are_the_definition(rng):
    points = rng.integers(0, 4, (12, 2)).astype(float)  # with ties and equal points
    sq_dists = ((points[:, None] - points) ** 2).sum(axis=2)
    drawn = np.array([rng.permutation(12)[:4] for _ in range(6)])
    expected = np.zeros((2, 12))
    for level, centers in product(range(2), drawn):
        psi, cells = 2 << level, []
        for x in range(12):
            nearest = min(range(psi), key=lambda c: (sq_dists[x, centers[c]], c))
            others = [sq_dists[centers[nearest], c] for c in centers[:psi] if sq_dists[centers[nearest], c] > 0]
            cells.append(nearest if sq_dists[x, centers[nearest]] <= min(others, default=0) else None)
        expected[level] += [cells.count(cell) if cell is not None else 0 for cell in cells]
    assert_allclose(searches.score_by_distances(sq_dists, drawn, [2, 4]), expected / (6 * 12), rtol=1e-12)


def test_searched_idk2_scores_as_the_group_detector_does(groups):
    """Both draw at random: means over 20 seeds, each with a spread of at most .03, agree."""
    X, ids = groups
    for psi, psi2 in ((4, 4), (16, 8)):
        search, detector = np.zeros(40), np.zeros(40)
        for seed in range(20):
            search += group_search("IDK2", groups, seed)[psi, psi2] / 20
            how = {"scaling": None, "pool_size": None, "random_state": seed}
            detector += IDKGroupDetector(100, psi, psi2, **how).fit(X, groups=ids).scores_ / 20
        assert_allclose(search, detector, atol=0.02)
        assert np.corrcoef(search, detector)[0, 1] > 0.97


def test_searched_idk_gdk_and_idk_ocsvm_are_those_on_mean_maps(groups):
    X, ids = groups
    maps = IsolationKernel(100, 8, random_state=3).fit(X).embed(X, ids).toarray()
    for bandwidth in (0.25, 8.0):
        expected = GaussianDetector(bandwidth).fit(maps).score_samples(maps)
        assert_allclose(group_search("IDK-GDK", groups)[8, bandwidth], expected, rtol=1e-8)
    for nu in searches.NUS:
        svm = OneClassSVM(kernel="linear", nu=nu).fit(maps)
        # A solver stops within tol = 1e-3 of the optimum; scores are sums of some 20 products of up to t = 100.
        assert_allclose(group_search("IDK-OCSVM", groups)[8, nu], svm.score_samples(maps), rtol=1e-3)


def test_searched_gdk2_is_the_composition(groups):
    expected = searches.GDK2(0.25, 0.5, seed=3).fit(*groups).score_samples(*groups)
    assert_allclose(group_search("GDK2", groups)[0.25, 0.5], expected, rtol=1e-9)


def test_average_features_do_not_depend_on_the_size_of_blocks(groups):
    X, ids = groups
    level1 = searches.Nystroem(0.5).fit(X)
    whole = np.array([level1.transform(X[ids == group]).mean(axis=0) for group in range(40)])
    assert_allclose(searches.mean_features(level1, X, ids), whole, rtol=1e-9)
    blocks = searches.blocks_of_groups(ids, 40)
    assert [block.stop - block.start for block in blocks] == [45, 45, 30] * 5


@pytest.mark.parametrize("detector", printed.POINT_DETECTORS)
def test_every_point_detector_ranks_a_far_point_first(rng, detector):
    X = searches.to_unit_cube(np.vstack([rng.normal(size=(300, 2)), [[9.0, 9.0]]]))
    assert 300 in [scores.argmin() for _, scores in searches.POINT_SEARCHES[detector](X, 3, 1)]


@pytest.mark.parametrize("detector", printed.GROUP_RANKS)
def test_every_group_detector_yields_a_score_for_each_group(groups, detector):
    scores = group_search(detector, groups)
    assert all(one.shape == (40,) and np.isfinite(one).all() for one in scores.values())


def test_every_experiment_names_work_that_exists():
    for experiment in EXPERIMENTS.values():
        module, function = experiment.work.split(":")
        assert callable(getattr(import_module(module), function))


@pytest.fixture
def data(tmp_path, rng):
    (tmp_path / "data" / "point").mkdir(parents=True)
    X = np.vstack([rng.normal(size=(300, 2)), rng.normal(4, 1, (15, 2))])
    for name in ("one", "two"):
        np.savez(tmp_path / "data" / "point" / f"{name}.npz", X=X, y=np.repeat([0, 1], [300, 15]))
    return tmp_path / "data"


def run_command(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "paper", *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command_writes_markdown_figures_and_cells(tmp_path, data):
    out = tmp_path / "out"
    how = ("--sets", "one,two,speech", "--detectors", "IDK,iForest", "--seeds", 1, "--jobs", 1, "--out", out)
    done = run_command("points", *how, ISOBAG_DATA=data)
    assert done.returncode == 0, done.stderr
    text = (out / "points.md").read_text()
    assert "| set | detector | paper | here | difference |" in text
    assert "- not available: speech: " in text
    assert "over 2 sets (one, two)" in text
    assert {file.name for file in out.glob("*.png")} == {"point-kernel-ranks.png", "point-isolation-ranks.png"}
    for detector in ("IDK", "iForest"):
        cell = read_outcome(file_of(Cell("points", "one", detector, ""), out))
        assert cell.status == DONE
        assert best_of(cell).auc > 0.9
    assert json.loads((out / "cells" / "points" / "speech--IDK.json").read_text())["records"] == []


def test_a_set_that_an_experiment_cannot_take_is_an_error(tmp_path):
    done = run_command("scaleup", "--sets", "http", "--out", tmp_path)
    assert done.returncode == 2
    assert "sets='http'; scaleup has 1000, 2000, 5000, 10000." in done.stderr


def test_all_leaves_out_what_has_none_of_the_sets(tmp_path):
    done = run_command("all", "--sets", "synthetic", "--detectors", "OCSMM", "--budget", 0.01, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "scaleup: has none of the sets, left out." in done.stdout
    assert {file.name for file in tmp_path.glob("*.md")} == {"local.md", "peaks.md", "clusters.md"}
    assert "> 0.01 s" in (tmp_path / "peaks.md").read_text()


@pytest.mark.parametrize("name", ["runtime", "stability", "contamination"])
def test_timings_and_boxes_run_on_a_set_of_ones_own(tmp_path, data, name):
    wanted = {"runtime": ("IDK", "iNNE"), "stability": ("t=100",), "contamination": ("IDK, gamma=2", "norm, gamma=2")}
    experiment = EXPERIMENTS[name]._replace(detectors=wanted[name])
    text = run_experiment(experiment, RunPlan(2, 60.0, str(data), 1), tmp_path / "out", ["one"])
    assert all(f"| one | {detector} |" in text for detector in experiment.detectors)
    cells = [read_outcome(file) for file in (tmp_path / "out" / "cells" / name).glob("*.json")]
    assert [cell.status for cell in cells] == [DONE] * len(wanted[name])


def test_pictures_are_drawn(tmp_path):
    run_experiment(EXPERIMENTS["local"], RunPlan(n_jobs=1), tmp_path)
    assert (tmp_path / "local.png").read_bytes().startswith(b"\x89PNG")
    assert "| IDK | 1.000 |" in (tmp_path / "local.md").read_text()


def test_with_the_given_share_of_anomalies_both_ways_to_contaminate_are_one(data):
    def aucs(gamma, detector):
        plan = RunPlan(2, None, str(data), 1)
        return [record["auc"] for record in boxplots.vary_contamination("one", f"{detector}, gamma={gamma}", plan)]

    assert aucs(1, "IDK") == aucs(1, boxplots.GIVEN)
    assert aucs(4, "IDK") != aucs(4, boxplots.GIVEN)
    assert aucs(1, "IDK") != aucs(1, "norm")


def test_the_similarity_of_the_box_plot_is_the_detectors(data):
    """AUCs of single seeds spread by .06."""
    with np.load(data / "point" / "one.npz") as file:
        X, y = file["X"], file["y"]
    plan = RunPlan(10, None, str(data), 1)
    plotted = [record["auc"] for record in boxplots.vary_contamination("one", "IDK, gamma=1", plan)]
    detectors = [IDKPointDetector(100, 64, **TO_THE_LETTER, random_state=seed).fit(X) for seed in range(10)]
    expected = [roc_auc_score(y, -detector.score_samples(X)) for detector in detectors]
    assert np.mean(plotted) == pytest.approx(np.mean(expected), abs=0.08)


def test_scale_up_is_measured_and_a_missing_gpu_named(tmp_path):
    experiment = EXPERIMENTS["scaleup"]._replace(datasets=("30", "60"), detectors=("IDK2", "GDK2", "IDK2 on a GPU"))
    text = run_experiment(experiment, RunPlan(n_jobs=1), tmp_path)
    for detector in ("IDK2", "GDK2"):
        assert f"| {detector} | 30 to 60 |" in text
    assert (tmp_path / "scaleup.png").is_file()
    assert ("| IDK2 on a GPU | 30 to 60 |" in text) != (text.count("not available: IDK2 on a GPU: ") == 1)
