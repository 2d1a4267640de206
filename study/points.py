"""Points: the default against scikit-learn's forest, and what else was tried."""

import numpy as np
from data import OTHER_POINT_SETS, THREADS, adbench_sets, load_points
from scipy.stats import rankdata
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

from isobag import IDKPointDetector
from isobag.models.averaging import FLOOR, fit_average

SEEDS = range(5)
TRIED_SEEDS = range(1)
LARGEST = 1024
LARGEST_OF_MANY_FEATURES = 256  # more than 100: all else would take an hour


def default():
    """ROC AUC of the default and of scikit-learn's IsolationForest, mean over seeds."""
    rows = []
    for name in (*adbench_sets(), *OTHER_POINT_SETS):
        ours, theirs = [], []
        for seed in SEEDS:
            X, y = load_points(name, seed)
            detector = IDKPointDetector(random_state=seed, n_jobs=THREADS, calibrate=False).fit(X)
            ours.append(roc_auc_score(y, -detector.score_samples(X)))
            forest = IsolationForest(random_state=seed, n_jobs=THREADS).fit(X)
            theirs.append(roc_auc_score(y, -forest.score_samples(X)))
        row = {"set": name, "isobag": np.mean(ours), "IsolationForest": np.mean(theirs)}
        rows.append({**row, "difference": np.mean(ours) - np.mean(theirs), "seed spread": np.ptp(ours)})
        print(rows[-1], flush=True)
    for label, some in (("mean, 30 sets of ADBench", rows[: len(adbench_sets())]), ("mean, all sets", rows)):
        means = {key: np.mean([row[key] for row in some]) for key in list(rows[0])[1:]}
        rows = [*rows, {"set": label, **means}]
    return rows


def tried():
    """Mean ROC AUC of other ways to combine psi, scales and features; "worst" is the loss against IsolationForest."""
    aucs = {label: {} for label in VARIANTS}
    aucs["IsolationForest"] = {}
    names = (*adbench_sets(), *OTHER_POINT_SETS)
    for name in names:
        found = {label: [] for label in aucs}
        for seed in TRIED_SEEDS:
            X, y = load_points(name, seed)
            paths = _Paths(X, y, seed)
            for label, variant in VARIANTS.items():
                found[label].append(roc_auc_score(y, -variant(paths)))
            forest = IsolationForest(random_state=seed, n_jobs=THREADS).fit(X)
            found["IsolationForest"].append(roc_auc_score(y, -forest.score_samples(X)))
        for label, values in found.items():
            aucs[label][name] = float(np.mean(values))
        print(name, round(aucs["chosen: minmax and absolute, psi^-0.5, 2 to 256"][name], 3), flush=True)
    rows = []
    for label, own in aucs.items():
        losses = {name: own[name] - aucs["IsolationForest"][name] for name in names}
        worst = min(losses, key=losses.__getitem__)
        rows.append(
            {
                "variant": label,
                "30 sets of ADBench": np.mean([own[name] for name in adbench_sets()]),
                "all sets": np.mean(list(own.values())),
                "worst": losses[worst],
                "on": worst,
                "sets worse by .05": sum(loss < -0.05 for loss in losses.values()),
            }
        )
    return rows


class _Paths:
    """Scores at all psi for the mechanisms and scalings tried, each by two halves of 50 partitionings, made once."""

    def __init__(self, X, y, seed):
        self.X, self.y, self.seed, self.made = X, y, seed, {}
        self.largest = min(LARGEST if X.shape[1] <= 100 else LARGEST_OF_MANY_FEATURES, len(X) // 2)

    def half(self, mechanism, scaling, which):
        key = mechanism, scaling, which
        if key not in self.made:
            self.made[key] = self._path(self.X, 50, mechanism, scaling, 2 * self.seed + which)
        return self.made[key]

    def whole(self, scaling, mechanism="hypersphere"):
        return (self.half(mechanism, scaling, 0) + self.half(mechanism, scaling, 1)) / 2

    def both(self, one, other):
        return (self.half("hypersphere", one, 0) + self.half("hypersphere", other, 1)) / 2

    def random_features(self):
        if "features" not in self.made:
            rng = np.random.default_rng(self.seed)
            d = self.X.shape[1]
            parts = [rng.choice(d, (d + 1) // 2, replace=False) for _ in range(10)]
            found = [self._path(self.X[:, part], 10, "hypersphere", "minmax", i) for i, part in enumerate(parts)]
            self.made["features"] = np.mean(found, axis=0)
        return self.made["features"]

    def _path(self, X, t, mechanism, scaling, seed):
        detector = IDKPointDetector(
            t,
            self.largest,
            mechanism=mechanism,
            scaling=scaling,
            random_state=seed,
            n_jobs=THREADS,
            calibrate=False,
        ).fit(X)
        self.levels = np.array(detector.path_)
        return detector.score_path(X)

    def up_to(self, path, largest):
        return path[:, self.levels <= largest], self.levels[self.levels <= largest]


def single(psi):
    return lambda paths: paths.whole("minmax")[:, np.abs(paths.levels - psi).argmin()]


def best_by_labels(paths):
    path = paths.whole("minmax")
    return path[:, np.argmax([roc_auc_score(paths.y, -scores) for scores in path.T])]


def averaged(get, power=-0.5, largest=256, spread=True, means="logarithms"):
    def variant(paths):
        path, levels = paths.up_to(get(paths), largest)
        importance = levels.astype(float) ** power
        if means == "shares":
            return path / path.mean(axis=0) @ importance
        if means == "ranks":
            return rankdata(path, axis=0) @ importance
        if spread:
            return fit_average(path, importance).apply(path)
        return np.log(np.maximum(path, FLOOR * path.mean(axis=0) + 1e-300)) @ importance

    return variant


def scale(name, mechanism="hypersphere"):
    return lambda paths: paths.whole(name, mechanism)


def scales(one, other):
    return lambda paths: paths.both(one, other)


def features(paths):
    return paths.random_features()


CHOSEN = scales("minmax", "absolute")
VARIANTS = {
    **{f"one psi = {psi}, minmax": single(psi) for psi in (2, 4, 8, 16, 64, 256)},
    "best psi of each set, chosen with the labels": best_by_labels,
    "minmax, mean of shares, psi^-0.5": averaged(scale("minmax"), means="shares"),
    "minmax, mean of ranks, psi^-0.5": averaged(scale("minmax"), means="ranks"),
    "minmax, mean of logarithms, psi^-0.5": averaged(scale("minmax"), spread=False),
    "minmax, logarithms by their spread, psi^-0.5": averaged(scale("minmax")),
    "standard, the same": averaged(scale("standard")),
    "absolute, the same": averaged(scale("absolute")),
    "robust, the same": averaged(scale("robust")),
    "minmax, Voronoi cells, the same": averaged(scale("minmax", "voronoi")),
    "minmax, random halves of the features, the same": averaged(features),
    "chosen: minmax and absolute, psi^-0.5, 2 to 256": averaged(CHOSEN),
    "the same, psi 2 to 16": averaged(CHOSEN, largest=16),
    "the same, psi 2 to 64": averaged(CHOSEN, largest=64),
    "the same, psi 2 to 1024": averaged(CHOSEN, largest=1024),
    "the same, equal weights": averaged(CHOSEN, power=0),
    "the same, psi^-0.25": averaged(CHOSEN, power=-0.25),
    "the same, psi^-1": averaged(CHOSEN, power=-1),
    "the same, not by their spread": averaged(CHOSEN, spread=False),
    "minmax and standard": averaged(scales("minmax", "standard")),
    "minmax and robust": averaged(scales("minmax", "robust")),
}
