"""The box plots: how scores settle as t grows, and how they stand anomalies in the training data."""

import numpy as np
from sklearn.metrics import roc_auc_score

from isobag import IDKPointDetector, IsolationKernel
from isobag.datasets import load
from paper.balls import Norm
from paper.figures import draw_boxes
from paper.searches import TO_THE_LETTER
from paper.tables import Experiment, markdown_table, remarks, shown_auc, shown_status

PSI = {"ForestCover": 32, "smtp": 128}
"""The psi with the best AUC of these sets; others take 64."""
GIVEN = "IDK of the given set"
GAMMAS = (0, 0.25, 0.5, 1, 2, 4, 8)


def vary_count(name, detector, plan):
    """AUC of IDK with the t that ``detector`` names, "t=100", for every seed."""
    X, y = load(name, folder=plan.data)
    for seed in range(plan.n_seeds):
        how = {"random_state": seed, "n_jobs": plan.n_jobs}
        model = IDKPointDetector(int(detector[2:]), PSI.get(name, 64), **TO_THE_LETTER, **how).fit(X)
        yield {"seed": seed, "auc": float(roc_auc_score(y, -model.score_samples(X)))}


def vary_contamination(name, detector, plan):
    """AUC on the given data of a detector whose balls are drawn from its normal rows and gamma times its anomalies.

    ``detector`` is "IDK, gamma=2" and the like. Up to gamma = 1 anomalies are drawn without replacement; above it, all
    of them are there and the rest is drawn again. All detectors see the same rows for a seed.
    """
    X, y = load(name, folder=plan.data)
    score, gamma = detector.split(", gamma=")
    psi = PSI.get(name, 64)
    anomalies, normal = np.flatnonzero(y), np.flatnonzero(y == 0)
    n_wanted = round(float(gamma) * len(anomalies))
    for seed in range(plan.n_seeds):
        rng = np.random.default_rng(seed)
        copies = [anomalies] * (n_wanted // len(anomalies))
        rest = rng.choice(anomalies, n_wanted % len(anomalies), replace=False)
        rows = X[rng.permutation(np.concatenate([normal, *copies, rest]))]
        low, spread = rows.min(axis=0), np.ptp(rows, axis=0)
        spread[spread == 0] = 1
        rows, scaled = (rows - low) / spread, (X - low) / spread
        if score == "norm":
            scores = Norm(100, psi, seed, plan.n_jobs).fit(rows).score_samples(scaled)
        else:
            compared = scaled if score == GIVEN else rows
            kernel = IsolationKernel(100, psi, random_state=seed, n_jobs=plan.n_jobs).fit(rows)
            scores = (kernel.transform(scaled) @ kernel.embed(compared).T).toarray()[:, 0]
        yield {"seed": seed, "auc": float(roc_auc_score(y, -scores))}


def report_boxes(outcomes, figure, settings):
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


def _report_stability(outcomes, folder):
    settings = "psi = " + ", ".join(f"{psi} on {name}" for name, psi in PSI.items()) + "; AUC, not single scores."
    return report_boxes(outcomes, folder / "stability.png", settings)


def _report_contamination(outcomes, folder):
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
    tuple(f"t={count}" for count in range(100, 1001, 100)),
    "paper.boxplots:vary_count",
    10,
    _report_stability,
)
CONTAMINATION = Experiment(
    "contamination",
    "Contamination: IDK against the norm",
    ("ForestCover",),
    tuple(f"{detector}, gamma={gamma:g}" for gamma in GAMMAS for detector in ("IDK", GIVEN, "norm")),
    "paper.boxplots:vary_contamination",
    10,
    _report_contamination,
)
