"""The box plots: how scores settle as t grows, and how they stand anomalies in the training data."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from isobag.backends import Compute
from isobag.backends.arrays import Floats
from isobag.data.rows import ArrayRows
from isobag.datasets import load
from isobag.estimators import IDKPointDetector
from isobag.models.views import Plan, draw_views
from isobag.reproduce.cells import Record
from isobag.reproduce.experiment import Experiment, Outcomes, markdown_table, remarks, shown_auc, shown_status
from isobag.reproduce.figures import draw_boxes

PSI = {"ForestCover": 32, "smtp": 128}
"""The psi with the best AUC of these sets; others take 64."""
COUNTS = tuple(range(100, 1001, 100))
GIVEN = "IDK of the given set"
GAMMAS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


def vary_count(name: str, detector: str, n_seeds: int, folder: str | None, n_jobs: int) -> Iterator[Record]:
    """AUC of IDK with the t that ``detector`` names, "t=100", for every seed."""
    X, y = load(name, folder=folder)
    for seed in range(n_seeds):
        model = IDKPointDetector(
            int(detector[2:]), PSI.get(name, 64), calibrate=False, random_state=seed, n_jobs=n_jobs
        ).fit(X)
        yield {"seed": seed, "auc": float(roc_auc_score(y, -model.score_samples(X)))}


def vary_contamination(name: str, detector: str, n_seeds: int, folder: str | None, n_jobs: int) -> Iterator[Record]:
    """AUC on the given data of a detector whose balls are drawn from its normal rows and gamma times its anomalies.

    ``detector`` is "IDK, gamma=2" and the like. Up to gamma = 1 anomalies are drawn without replacement; above it, all
    of them are there and the rest is drawn again. All detectors see the same rows and hyperspheres for a seed.
    """
    X, y = load(name, folder=folder)
    score, gamma = detector.split(", gamma=")
    psi = PSI.get(name, 64)
    anomalies, normal = np.flatnonzero(y), np.flatnonzero(y == 0)
    n_wanted = round(float(gamma) * len(anomalies))
    for seed in range(n_seeds):
        rng = np.random.default_rng(seed)
        copies = [anomalies] * (n_wanted // len(anomalies))
        rest = rng.choice(anomalies, n_wanted % len(anomalies), replace=False)
        rows = rng.permutation(np.concatenate([normal, *copies, rest]))
        if score == GIVEN:
            scores = _similarity_to_all(X, X[rows], psi, seed, n_jobs)
        else:
            how = "similarity" if score == "IDK" else "norm"
            model = IDKPointDetector(100, psi, method=how, calibrate=False, random_state=seed, n_jobs=n_jobs)
            scores = model.fit(X[rows]).score_samples(X)
        yield {"seed": seed, "auc": float(roc_auc_score(y, -scores))}


def _similarity_to_all(X: Floats, rows: Floats, psi: int, seed: int, n_jobs: int) -> Floats:
    """IDK of each row of X and X itself, with balls drawn from other rows: (n,)."""
    compute = Compute(n_jobs=n_jobs)
    views, _ = draw_views(ArrayRows(rows), 100, [Plan("minmax", (psi,))], "hypersphere", seed, compute)
    scores: Floats = views.count_and_sum(X, compute, only_last=True)[1][0][:, 0] / (100 * len(X))
    return scores


def report_boxes(outcomes: Outcomes, figure: Path, settings: str) -> str:
    """Median, extremes and spread of the AUC over the runs, and the box plot; the paper prints pictures only."""
    rows, boxes = [], {}
    n_sets = len({dataset for dataset, _ in outcomes})
    for (dataset, detector), outcome in outcomes.items():
        values = [record["auc"] for record in outcome.records]
        if values:
            boxes[detector if n_sets == 1 else f"{dataset}\n{detector}"] = values
        numbers = [shown_auc(float(of(values))) for of in (np.median, np.min, np.max, np.std)] if values else [None] * 4
        rows.append([dataset, detector, len(values), *numbers, shown_status(outcome)])
    if boxes:
        draw_boxes(boxes, "AUC", figure)
    columns = ["set", "detector", "runs", "median AUC", "least", "greatest", "standard deviation", ""]
    picture = f"\n![Box plot]({figure.name})\n\n" if boxes else "\n"
    return f"{settings} The paper prints a picture only.\n\n{markdown_table(columns, rows)}{picture}{remarks(outcomes)}"


def _report_stability(outcomes: Outcomes, folder: Path) -> str:
    settings = "psi = " + ", ".join(f"{psi} on {name}" for name, psi in PSI.items()) + "; AUC, not single scores."
    return report_boxes(outcomes, folder / "stability.png", settings)


def _report_contamination(outcomes: Outcomes, folder: Path) -> str:
    settings = (
        f"psi = {PSI['ForestCover']}, t = 100; trained on the normal rows and gamma times the anomalies (above "
        f"gamma = 1 these are copies), tested on the given set. {GIVEN!r}: only the balls are drawn from these rows, "
        "and a point is compared with the given set."
    )
    return report_boxes(outcomes, folder / "contamination.png", settings)


STABILITY = Experiment(
    "stability",
    "Stability: AUC of several runs as t grows",
    tuple(PSI),
    tuple(f"t={count}" for count in COUNTS),
    "isobag.reproduce.boxplots:vary_count",
    10,
    _report_stability,
)
CONTAMINATION = Experiment(
    "contamination",
    "Contamination: IDK against the norm",
    ("ForestCover",),
    tuple(f"{detector}, gamma={gamma:g}" for gamma in GAMMAS for detector in ("IDK", GIVEN, "norm")),
    "isobag.reproduce.boxplots:vary_contamination",
    10,
    _report_contamination,
)
