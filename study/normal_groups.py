"""Groups without anomalies, and two planted ones: are p-values fair to every size, and are odd days found?"""

import numpy as np
from scipy.stats import spearmanr

from isobag import IDKGroupDetector
from isobag.datasets import make_sensor_days
from study.data import THREADS
from study.harness import Section, Task, mean, table

N_LEARNED, N_NEW = 400, 600
LOW, HIGH = 5, 5000
ALPHA = 0.1
REPEATS = range(40)
SENSOR_SEEDS = range(20)


def same_law(sizes, rng):
    """Points of all groups N(0, I)."""
    return rng.standard_normal((sizes.sum(), 3))


def own_mean(sizes, rng):
    """Points N(mu, I), mu of each group N(0, I / 4)."""
    means = 0.5 * rng.standard_normal((len(sizes), 3))
    return np.repeat(means, sizes, axis=0) + rng.standard_normal((sizes.sum(), 3))


def mixture(sizes, rng):
    """Points around five places, with shares that differ from group to group."""
    places = 3 * rng.standard_normal((5, 3))
    shares = rng.dirichlet(np.full(5, 4.0), size=len(sizes)).cumsum(axis=1)
    which = (rng.random(sizes.sum())[:, None] > np.repeat(shares[:, :-1], sizes, axis=0)).sum(axis=1)
    return places[which] + rng.standard_normal((sizes.sum(), 3))


KINDS = {"same law": same_law, "own mean": own_mean, "mixture": mixture}


def measure_null(kind, repeat):
    """Share of p-values of new groups up to .1 by fifth of size, and rank correlations of p and of scores with size."""
    rng = np.random.default_rng(1000 + repeat)
    sizes = np.rint(np.exp(rng.uniform(np.log(LOW), np.log(HIGH), N_LEARNED + N_NEW))).astype(int)
    X, ids = KINDS[kind](sizes, rng), np.repeat(np.arange(len(sizes)), sizes)
    old, new = ids < N_LEARNED, sizes[N_LEARNED:]
    detector = IDKGroupDetector(random_state=repeat, n_jobs=THREADS).fit(X[old], groups=ids[old])
    p = detector.p_values(X[~old], groups=ids[~old])
    scores = detector.score_samples(X[~old], groups=ids[~old])
    fifths = np.array_split(np.argsort(new, kind="stable"), 5)
    return {
        "shares": [float(np.mean(p[own] <= ALPHA)) for own in fifths],
        "p": float(spearmanr(p, new)[0]),
        "scores": float(spearmanr(scores, new)[0]),
        "scores of fit": float(spearmanr(detector.scores_, sizes[:N_LEARNED])[0]),
    }


def _null_tasks():
    return {f"{kind}|{repeat}": Task(measure_null, (kind, repeat)) for repeat in REPEATS for kind in KINDS}


def null_figures(results):
    """For each kind and all together: mean shares by fifth, mean rank correlations, and their standard errors."""
    figures = {}
    for kind in (*KINDS, "all"):
        repeats = [one for key, one in results.items() if kind in ("all", key.split("|")[0])]
        shares = np.array([one["shares"] for one in repeats])
        figures[kind] = {
            "shares": shares.mean(axis=0),
            "error": shares.std(axis=0, ddof=1).max() / np.sqrt(len(repeats)),
        }
        for name in ("p", "scores", "scores of fit"):
            figures[kind][name] = mean([one[name] for one in repeats])
    return figures


def _null_page(results):
    yield (
        f"Normal groups only, sizes log-uniform from {LOW} to {HIGH:,}: learned from {N_LEARNED} with calibration,"
        f" p-values of {N_NEW} new ones, {len(REPEATS)} repeats. Share of p <= {ALPHA} by fifth of size, smallest"
        " first, and mean rank correlations with size. *Error*: the largest standard error of a share, over repeats.\n"
    )
    rows = []
    for kind, figures in null_figures(results).items():
        row = {"groups": kind, **{f"fifth {i + 1}": float(share) for i, share in enumerate(figures["shares"])}}
        row |= {
            "error": float(figures["error"]),
            "p and size": figures["p"],
            "scores of new groups and size": figures["scores"],
        }
        rows.append(row | {"scores of fit and size": figures["scores of fit"]})
    yield table(rows)


def measure_days(seed):
    """Ranks of the two planted days, 1 = the lowest score."""
    X, days, y = make_sensor_days(random_state=seed)
    scores = IDKGroupDetector(random_state=seed, n_jobs=THREADS).fit(X, groups=days).scores_
    return sorted(int(np.sum(scores < scores[day])) + 1 for day in np.flatnonzero(y))


def _days_tasks():
    return {str(seed): Task(measure_days, (seed,)) for seed in SENSOR_SEEDS}


def days_found(results):
    """In how many seeds both planted days are among the three lowest."""
    return sum(max(ranks) <= 3 for ranks in results.values())


def _days_page(results):
    yield (
        "120 days of a sensor with 96 readings each, one day stuck, one with humidity rising with temperature"
        f" (`datasets.make_sensor_days`), t = 100: both days are among the three lowest in **{days_found(results)} of"
        f" {len(results)}** seeds. Highest rank of a planted day: {max(max(ranks) for ranks in results.values())}.\n"
    )


NULL_SECTION = Section("null", "Normal groups of all sizes", _null_tasks, _null_page)
DAYS_SECTION = Section("days", "Days of a sensor", _days_tasks, _days_page)
