"""Thresholds: rules for contamination="auto" on the logarithms of the default's training scores."""

import numpy as np
from scipy.stats import genpareto
from sklearn.metrics import f1_score

from isobag import IDKPointDetector
from study.data import THREADS, adbench_sets, load_points
from study.harness import Section, Task, mean, table

SEED = 0
CLEAN = "clean"


def measure(name):
    """F1 and share flagged for each rule; of clean data only the share."""
    found = {}
    if name == CLEAN:
        logs = [_log_scores(X) for X in clean_sets()]
        return {label: [float(np.mean(own < rule(own))) for own in logs] for label, rule in RULES.items()}
    X, y = load_points(name, SEED)
    logs = _log_scores(X)
    for label, rule in RULES.items():
        flagged = logs < rule(logs)
        found[label] = [float(f1_score(y, flagged, zero_division=0)), float(flagged.mean())]
    return found


def _tasks():
    return {name: Task(measure, (name,)) for name in (*adbench_sets(), CLEAN)}


def _page(results):
    yield (
        "Rules for `contamination='auto'`, on the logarithms of the scores of `fit`: mean F1 over ADBench's sets, share"
        " of rows flagged there, and share flagged of 17 clean sets of 3,000 rows. One seed.\n"
    )
    rows = []
    for label in RULES:
        f1, share = np.mean([own[label] for name, own in results.items() if name != CLEAN], axis=0).tolist()
        alarms = results[CLEAN][label]
        row = {"rule": label, "mean F1": f1, "flagged": share}
        rows.append({**row, "flagged of clean data": mean(alarms), "at most": max(alarms)})
    yield table(rows)


def clean_sets():
    """3,000 points without anomalies: four distributions in 1, 2, 5 and 20 dimensions, and two clusters."""
    rng = np.random.default_rng(0)
    for d in (1, 2, 5, 20):
        yield rng.normal(size=(3000, d))
        yield rng.uniform(size=(3000, d))
        yield rng.exponential(size=(3000, d))
        yield rng.standard_t(3, size=(3000, d))
    yield np.vstack([rng.normal(size=(2000, 2)), rng.normal(8, 0.5, size=(1000, 2))])


def _log_scores(X):
    detector = IDKPointDetector(random_state=SEED, n_jobs=THREADS, calibrate=False).fit(X)
    return np.log(np.maximum(detector.score_samples(X), np.finfo(float).tiny))


def deviations(k):
    return lambda logs: logs.mean() - k * logs.std()


def robust_z(k):
    return lambda logs: np.median(logs) - k * 1.4826 * np.median(np.abs(logs - np.median(logs)))


def fence(k):
    def rule(logs):
        low, high = np.quantile(logs, (0.25, 0.75))
        return low - k * (high - low)

    return rule


def adjusted_fence(logs):
    """Boxplot adjusted for skewness by the medcouple (Hubert and Vandervieren, 2008)."""
    low, high = np.quantile(logs, (0.25, 0.75))
    skew = medcouple(logs)
    return low - 1.5 * np.exp((-4 if skew >= 0 else -3) * skew) * (high - low)


def medcouple(values):
    some = np.quantile(values, np.linspace(0, 1, 1001)) - np.median(values)
    above, below = some[some > 0][:, None], some[some < 0]
    return float(np.median((above + below) / (above - below))) if len(above) and len(below) else 0.0


def gap(logs):
    """The widest gap among the lowest fifth."""
    low = np.sort(logs)[: max(2, len(logs) // 5)]
    return low[np.diff(low).argmax() + 1]


def tail(share):
    """Where a generalised Pareto tail, fitted by moments to the lowest tenth, leaves this share."""

    def rule(logs):
        start = np.quantile(logs, 0.1)
        excess = start - logs[logs < start]
        if len(excess) < 10 or excess.var() == 0:
            return start
        shape = (1 - excess.mean() ** 2 / excess.var()) / 2
        return start - genpareto.ppf(1 - share / 0.1, shape, scale=excess.mean() * (1 - shape))

    return rule


def two_classes(logs):
    """Otsu's threshold: two classes of least variance within."""
    ranked = np.sort(logs)
    sums, k = np.cumsum(ranked), np.arange(1, len(ranked))
    apart = sums[:-1] / k - (sums[-1] - sums[:-1]) / (len(ranked) - k)
    return ranked[1:][(k * (len(ranked) - k) * apart**2).argmax()]


def share(q):
    return lambda logs: np.quantile(logs, q)


RULES = {
    "chosen: 2 deviations below the mean": deviations(2),
    "1.5 deviations below the mean": deviations(1.5),
    "3 deviations below the mean": deviations(3),
    "robust z of 2": robust_z(2),
    "robust z of 3": robust_z(3),
    "robust z of 3.5": robust_z(3.5),
    "boxplot, 1": fence(1),
    "boxplot, 1.5": fence(1.5),
    "adjusted boxplot": adjusted_fence,
    "widest gap": gap,
    "extreme-value tail, 1 %": tail(0.01),
    "extreme-value tail, 5 %": tail(0.05),
    "two classes (Otsu)": two_classes,
    "the lowest 5 %": share(0.05),
    "the lowest 10 %": share(0.1),
}

THRESHOLDS_SECTION = Section("thresholds", "Thresholds", _tasks, _page)
