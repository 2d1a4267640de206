"""Groups: the default, the paper's level 2, and what people do instead: aggregate first, then look for odd rows."""

import numpy as np
from scipy.stats import spearmanr
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

from isobag import IDKGroupDetector, IDKPointDetector
from isobag.datasets import thin_groups
from isobag.datasets.unequal import ALIKE_KINDS
from study.data import ALIKE_SHARES, SESSIONS, STRETCHES, THREADS, alike_sets, group_sets, load_alike, load_groups
from study.harness import Section, Task, mean, table

THINNED = {"covtype": 3, "Speaker": 3, "MNIST_4": 1, "MNIST_8": 1, "SDSS_clump_0": 3}
"""Lowest size of a thinned group, for each set that is thinned."""
THIN_SEEDS = (0, 1, 2)
SEEDS = (0, 1)
HARD = ("SDSS_0", "SDSS_50")
DEFAULT = "isobag"
INTEGERS = "the paper's IDK^2 (16, 16)"
PAPER = {INTEGERS: {"max_samples": 16, "group_max_samples": 16, "pool_size": None}}
RIVALS = ("IsolationForest on means and deviations", "IDKPointDetector on means and deviations")
METHODS = (DEFAULT, *RIVALS, *PAPER)


def scores_of(label, X, ids, seed):
    """Score of each group by one of the methods, higher = more normal."""
    if label in RIVALS:
        kind = {"random_state": seed, "n_jobs": THREADS}
        detector = IsolationForest(**kind) if label == RIVALS[0] else IDKPointDetector(**kind)
        rows = means_and_deviations(X, ids)
        return detector.fit(rows).score_samples(rows)
    detector = IDKGroupDetector(random_state=seed, n_jobs=THREADS, **PAPER.get(label, {}))
    return detector.fit(X, groups=ids).scores_


def means_and_deviations(X, ids):
    """Mean and standard deviation of every feature in each group: (g, 2 d)."""
    sizes = np.bincount(ids)
    starts = np.cumsum(sizes) - sizes
    order = np.argsort(ids, kind="stable")
    means = np.add.reduceat(X[order], starts) / sizes[:, None]
    squares = np.add.reduceat((X[order] - means[ids[order]]) ** 2, starts) / sizes[:, None]
    return np.hstack([means, np.sqrt(squares)])


def measure(name, thin_seed, label, seeds):
    """For each method: AUC by seed, how odd small groups look, and the rank correlation of the scores of two seeds."""
    X, ids, y = load_groups(name, 0)
    if thin_seed is not None:
        X, ids = thin_groups(X, ids, THINNED[name], random_state=thin_seed)
    sizes = np.bincount(ids)
    scores = [scores_of(label, X, ids, seed) for seed in seeds]
    figures_of_set = {"auc": [float(roc_auc_score(y, -of_seed)) for of_seed in scores]}
    figures_of_set["small odd"] = [_small_look_odd(of_seed[y == 0], sizes[y == 0]) for of_seed in scores]
    if len(scores) > 1:
        figures_of_set["seeds"] = float(spearmanr(*scores[:2])[0])
    return figures_of_set


def _small_look_odd(scores, sizes):
    """Probability that of a small and a large group (below and above the median size) the small one scores lower."""
    small, large = sizes < np.median(sizes), sizes > np.median(sizes)
    if not small.any() or not large.any():
        return None
    either = small | large
    return float(roc_auc_score(small[either], -scores[either]))


def _tasks():
    tasks = {}
    for label in METHODS:
        for thin_seed in THIN_SEEDS:
            for name in THINNED:
                seeds = (thin_seed, thin_seed + 10) if label == DEFAULT else (thin_seed,)
                tasks[f"{label}|{name}|{thin_seed}"] = Task(measure, (name, thin_seed, label, seeds))
        for name in group_sets():
            seeds = SEEDS if label == DEFAULT else SEEDS[:1]
            tasks[f"{label}|{name}|as is"] = Task(measure, (name, None, label, seeds))
    return tasks


def figures(results):
    """What the bars are about: means over sets, and the lowest rank correlation of two seeds."""
    as_is = {name: mean(results[f"{DEFAULT}|{name}|as is"]["auc"]) for name in group_sets()}
    thinned = [mean(results[f"{DEFAULT}|{name}|{seed}"]["auc"]) for name in THINNED for seed in THIN_SEEDS]
    seeds = {key: one["seeds"] for key, one in results.items() if "seeds" in one}
    return {
        "as is": mean(as_is.values()),
        "as is, easy": mean([auc for name, auc in as_is.items() if name not in HARD]),
        "thinned": mean(thinned),
        "seeds, as is": min(one for key, one in seeds.items() if key.endswith("as is")),
        "seeds, thinned": min(one for key, one in seeds.items() if not key.endswith("as is")),
    }


def _page(results):
    yield (
        "*Thinned*: sizes log-uniform from the lowest size to that of the group. *Small look odd*: of two normal"
        " groups, one below and one above the median size, how often the small one scores lower; .5 is fair, empty"
        " where all groups are of one size. *Seeds*: rank correlation of the scores of two seeds, default only."
        f" Thinned sets: mean over {len(THIN_SEEDS)} thinning seeds, the default with two seeds each, others with one."
        f" Sets as they are: the default with {len(SEEDS)} seeds, others with one.\n"
    )
    rows, fair = [], []
    for name in group_sets():
        rows.append({"set": name, **{label: mean(results[f"{label}|{name}|as is"]["auc"]) for label in METHODS}})
        rows[-1]["seeds"] = results[f"{DEFAULT}|{name}|as is"]["seeds"]
        fair.append({"set": name, **{label: mean(results[f"{label}|{name}|as is"]["small odd"]) for label in METHODS}})
    easy = [row for row in rows if row["set"] not in HARD]
    rows += [_mean_row(f"mean, {len(rows)} sets", rows), _mean_row("mean without SDSS_0 and SDSS_50", easy)]
    yield f"### Sets as they are: AUC\n\n{table(rows)}"
    thinned = []
    for name, low in THINNED.items():
        row = {"set": f"{name}, {low} points or more"}
        for label in METHODS:
            row[label] = mean([one for seed in THIN_SEEDS for one in results[f"{label}|{name}|{seed}"]["auc"]])
        row["seeds"] = min(results[f"{DEFAULT}|{name}|{seed}"]["seeds"] for seed in THIN_SEEDS)
        thinned.append(row)
        odd = {
            label: mean([one for seed in THIN_SEEDS for one in results[f"{label}|{name}|{seed}"]["small odd"]])
            for label in METHODS
        }
        fair.append({"set": f"{name}, thinned", **odd})
    yield f"### Thinned: AUC\n\n*Seeds* is the lowest of the three.\n\n{table([*thinned, _mean_row('mean', thinned)])}"
    fair = [row for row in fair if row[DEFAULT] is not None]
    yield f"### Small look odd\n\n{table(fair)}"


def _mean_row(label, rows):
    return {"set": label, **{key: mean([row[key] for row in rows]) for key in METHODS}}


ALIKE_SEEDS = range(12)
ALIKE_METHODS = (DEFAULT, RIVALS[0], INTEGERS)


def measure_alike(name, label, seed):
    """AUC of a method on a set with odd groups that are alike."""
    X, ids, y = load_alike(name, seed)
    return float(roc_auc_score(y, -scores_of(label, X, ids, seed)))


def _alike_tasks():
    tasks = {}
    for label in ALIKE_METHODS:
        for name in alike_sets():
            for seed in SEEDS[:1] if name in (SESSIONS, STRETCHES) else ALIKE_SEEDS:
                tasks[f"{label}|{name}|{seed}"] = Task(measure_alike, (name, label, seed))
    return tasks


def _alike_page(results):
    yield (
        "Odd groups that are alike, so that more than ten have each other for neighbours: sessions of an OpenStack log"
        " (one event a row, as indicators), stretches of 100 connections of http with 30 attacks or more, and"
        f" `datasets.make_alike_groups`, 400 groups, {len(ALIKE_SEEDS)} seeds. Mean AUC.\n"
    )
    rows = []
    for name in alike_sets():
        row = {"set": name}
        for label in ALIKE_METHODS:
            row[label] = mean([one for key, one in results.items() if key.startswith(f"{label}|{name}|")])
        rows.append(row)
    for share in ALIKE_SHARES:
        rows_of_share = [row for row in rows if row["set"] in [f"{kind}, {share} %" for kind in ALIKE_KINDS]]
        rows.append(
            {
                "set": f"mean, {share} %",
                **{label: mean([row[label] for row in rows_of_share]) for label in ALIKE_METHODS},
            }
        )
    yield table(rows)


ALIKE_SECTION = Section("alike", "Groups that are odd and alike", _alike_tasks, _alike_page)
GROUPS_SECTION = Section("groups", "Groups", _tasks, _page)
