"""The pictures of synthetic sets: local and clustered anomalies, density peaks, and two clusters of groups."""

import numpy as np
from scipy.stats import gaussian_kde, spearmanr
from sklearn.metrics import roc_auc_score
from sklearn.svm import OneClassSVM

from isobag import IDKGroupDetector, IDKPointDetector
from paper.figures import draw_curves, draw_planes
from paper.gaussian import OCSMM
from paper.searches import TO_THE_LETTER, to_unit_cube
from paper.sets import make_dense_and_sparse, make_density_peaks, make_local_and_clustered
from paper.tables import Experiment, markdown_table, remarks, shown_auc, shown_status

TOP = 50
POINT_PSI = 8
GROUP_PSI = 64
GROUP_PSI2 = {"peaks": 16, "clusters": 64}
"""Chosen for the pictures, which the paper prints without its parameters."""
PEAKS_AT, VALLEYS_AT = (-2.0, 8.0, 18.0), (3.0, 13.0)
FRINGE = 2.0


def score_line(name, detector, plan):
    """Scores of the 1,520 points on a line, and two AUCs: of the clustered anomalies, and of the fringes."""
    X, y = make_local_and_clustered(random_state=0)
    if detector == "IDK":
        scores = (
            IDKPointDetector(100, POINT_PSI, **TO_THE_LETTER, random_state=0, n_jobs=plan.n_jobs)
            .fit(X)
            .score_samples(X)
        )
    elif detector == "OCSVM":
        scaled = to_unit_cube(X)
        scores = OneClassSVM(gamma="scale", nu=0.1).fit(scaled).score_samples(scaled)
    else:
        scores = gaussian_kde(X[:, 0])(X[:, 0])
    normal = y == 0
    middles, spreads = np.repeat([0.0, 8.0, 20.0], 500), np.repeat([0.5, 1.0, 2.0], 500)
    local = np.abs(X[normal, 0] - middles) > FRINGE * spreads
    yield {
        "x": X[:, 0].tolist(),
        "scores": scores.tolist(),
        "clustered": float(roc_auc_score(y, -scores)),
        "local": float(roc_auc_score(local, -scores[normal])),
    }


def report_local(outcomes, folder):
    """How well local and clustered anomalies are ranked, and the scores along the line."""
    curves = {detector: (record["x"], record["scores"]) for detector, record in _records(outcomes).items()}
    draw_curves(curves, "x", folder / "local.png")
    columns = ["AUC of the 20 clustered anomalies", "AUC of the fringes"]
    return (
        f"psi = {POINT_PSI}, t = 100; OCSVM nu = .1. Fringes are points more than {FRINGE:g} standard deviations from "
        "the middle of their cluster. The paper prints a picture: IDK finds both kinds, OCSVM and KDE do not.\n\n"
        + _table(outcomes, columns, lambda record: [shown_auc(record["clustered"]), shown_auc(record["local"])])
        + f"\n![Scores along the line](local.png)\n\n{remarks(outcomes)}"
    )


def _records(outcomes):
    """The record of each detector that has finished."""
    return {detector: outcome.records[0] for (_, detector), outcome in outcomes.items() if outcome.records}


def _table(outcomes, columns, describe):
    """A line for each detector: its record in numbers, or why there is none."""
    records = _records(outcomes)
    rows = [
        [detector, *(describe(records[detector]) if detector in records else [shown_status(outcome)])]
        for (_, detector), outcome in outcomes.items()
    ]
    return markdown_table(["detector", *columns], rows)


def _score_groups(picture, detector, X, groups, n_jobs):
    if detector == "OCSMM":
        return OCSMM(n_jobs=n_jobs).fit(X, groups).scores_
    how = {"pool_size": None, "random_state": 0, "n_jobs": n_jobs}
    return IDKGroupDetector(100, GROUP_PSI, GROUP_PSI2[picture], **how).fit(X, groups=groups).scores_


def score_peaks(name, detector, plan):
    """Scores of 1,500 groups on a line, beside the density of their means."""
    X, groups, _, means, _ = make_density_peaks(random_state=0)
    scores = _score_groups("peaks", detector, X, groups, plan.n_jobs)
    density = gaussian_kde(means[:, 0], 0.15)(means[:, 0])
    yield {
        "x": means[:, 0].tolist(),
        "scores": scores.tolist(),
        "density": density.tolist(),
        "correlation": float(spearmanr(scores, density).statistic),
        "heights": [float(scores[np.abs(means[:, 0] - at) < 0.7].mean()) for at in (*PEAKS_AT, *VALLEYS_AT)],
    }


def report_peaks(outcomes, folder):
    """How the scores follow the density of the groups, and the picture."""
    curves = {}
    for detector, record in _records(outcomes).items():
        curves |= {detector: (record["x"], record["scores"]), "density (KDE)": (record["x"], record["density"])}
    draw_curves(curves, "mean of the group", folder / "peaks.png")

    def describe(record):
        heights = (np.array(record["heights"]) - min(record["scores"])) / np.ptp(record["scores"])
        return [f"{record['correlation']:.2f}", *(shown_auc(float(height)) for height in heights)]

    places = [f"peak at {at:g}" for at in PEAKS_AT] + [f"valley at {at:g}" for at in VALLEYS_AT]
    return (
        f"psi = {GROUP_PSI}, psi2 = {GROUP_PSI2['peaks']}, t = 100; OCSMM with the median bandwidth and nu = .1. The "
        "paper prints a picture: IDK^2 mirrors the three peaks, OCSMM none. Heights are mean scores "
        "nearby, rescaled to [0, 1].\n\n"
        + _table(outcomes, ["rank correlation with the density", *places], describe)
        + f"\n![Scores along the line](peaks.png)\n\n{remarks(outcomes)}"
    )


def score_clusters(name, detector, plan):
    """Scores of 1,000 groups in the plane, and how many of the lowest 50 are of the dense cluster."""
    X, groups, _, means, clusters = make_dense_and_sparse(random_state=0)
    scores = _score_groups("clusters", detector, X, groups, plan.n_jobs)
    n_dense = int((clusters[scores.argsort(kind="stable")[:TOP]] == 0).sum())
    yield {"means": means.tolist(), "scores": scores.tolist(), "dense": n_dense}


def report_clusters(outcomes, folder):
    """How the top 50 divide between the clusters, and the picture."""
    records = _records(outcomes)
    if records:
        planes = {detector: (record["means"], record["scores"]) for detector, record in records.items()}
        draw_planes(planes, TOP, folder / "clusters.png")
    columns = [f"top {TOP} from the dense cluster", "from the sparse one"]
    return (
        f"psi = {GROUP_PSI}, psi2 = {GROUP_PSI2['clusters']}, t = 100; OCSMM with the median bandwidth and nu = .1. "
        "The paper prints a picture: the top 50 of IDK^2 are of both clusters, most of OCSMM's of the sparse one.\n\n"
        + _table(outcomes, columns, lambda record: [record["dense"], TOP - record["dense"]])
        + f"\n![Top {TOP} groups](clusters.png)\n\n{remarks(outcomes)}"
    )


def _picture(name, title, detectors, work, report):
    return Experiment(name, title, ("synthetic",), detectors, f"paper.pictures:{work}", 1, report, False)


LOCAL = _picture("local", "Local and clustered anomalies in 1-D", ("IDK", "OCSVM", "KDE"), "score_line", report_local)
PEAKS = _picture("peaks", "Density peaks: groups in 1-D", ("IDK2", "OCSMM"), "score_peaks", report_peaks)
CLUSTERS = _picture(
    "clusters", "A dense and a sparse cluster of groups in 2-D", ("IDK2", "OCSMM"), "score_clusters", report_clusters
)
