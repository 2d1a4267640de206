"""Cells stop at their deadline, keep what they had, and are resumed."""

import time

import pytest

from paper.cells import (
    DONE,
    FAILED,
    NOT_AVAILABLE,
    OVER_BUDGET,
    Cell,
    RunPlan,
    file_of,
    read_outcome,
    run_cell,
    run_cells,
)
from paper.tables import accuracy_table, best_of

WORK = "paper.tests.work:steps"
PLAN = RunPlan(n_seeds=1, budget=20.0, data=None, n_jobs=1)


def test_a_cell_over_its_budget_is_stopped_and_keeps_what_it_had():
    start = time.monotonic()
    outcome = run_cell(Cell("points", "sleeps", "3", WORK), PLAN._replace(budget=1.5))
    assert time.monotonic() - start < 60
    assert (outcome.status, outcome.seconds) == (OVER_BUDGET, 1.5)
    assert [record["auc"] for record in outcome.records] == [0.5, 0.51, 0.52]
    assert best_of(outcome).cut
    table = accuracy_table({("sleeps", "3"): outcome, ("sleeps", "0"): outcome._replace(records=[])}, {})
    assert "| .520 (> 1.5 s) |" in table
    assert "| > 1.5 s |" in table


def test_a_seed_that_would_end_over_budget_is_not_begun():
    cell = Cell("points", "any", "any", "paper.tests.work:seeds")
    outcome = run_cell(cell, PLAN._replace(n_seeds=9, budget=2.9))
    best = best_of(outcome)
    assert outcome.status == DONE
    assert 1 <= best.n_seeds <= 2
    assert not best.cut


@pytest.mark.parametrize(
    ("name", "status", "message"),
    [
        ("works", DONE, ""),
        ("fails", FAILED, "ValueError: psi=1; need 2 or more."),
        ("dies", FAILED, "its process ended with exit code -9"),
        ("missing", NOT_AVAILABLE, "missing: no file."),
    ],
)
def test_an_outcome_says_how_its_cell_ended(name, status, message):
    outcome = run_cell(Cell("points", name, "1", WORK), PLAN)
    assert (outcome.status, outcome.message) == (status, message)
    assert outcome.records[0]["auc"] == 0.5


def test_resume_keeps_finished_cells_and_runs_the_others(tmp_path):
    cells = [Cell("points", name, "1", WORK) for name in ("works", "fails", "sleeps")]
    short = PLAN._replace(budget=1.5)
    first = run_cells(cells, short, tmp_path)
    again = run_cells(cells, short, tmp_path, resume=True)
    assert again["works", "1"] == first["works", "1"]
    assert again["sleeps", "1"] == first["sleeps", "1"]
    assert again["fails", "1"].seconds != first["fails", "1"].seconds
    assert run_cells(cells[:1], PLAN._replace(n_seeds=2), tmp_path, True)["works", "1"].plan.n_seeds == 2
    # More time is a reason to try again; less is none.
    assert run_cells(cells[2:], PLAN._replace(budget=2.0), tmp_path, True)["sleeps", "1"].seconds == 2.0
    assert run_cells(cells[2:], short, tmp_path, True)["sleeps", "1"].seconds == 2.0
    # Other threads, and other data, are another run.
    other = run_cells(cells[:1], PLAN._replace(n_jobs=2, n_seeds=2), tmp_path, True)["works", "1"]
    assert "2 threads, no data folder" in other.setting
    # So is what another version wrote.
    file = file_of(cells[0], tmp_path)
    file.write_text(file.read_text().replace('"setting"', '"place"'))
    assert read_outcome(file) is None
