"""Points: the default against scikit-learn's forest and PyOD, on tables as they come and on ADBench's sets."""

import numpy as np

from study.data import OTHER_POINT_SETS, TABLES, adbench_sets, load_points, load_table, table_sets
from study.harness import Section, Task, load_results, mean, table
from study.rivals import FOREST, PYOD, STANDARDISED, auc_of_default, auc_of_forest, aucs_of_pyod

SEEDS = (0, 1)
LOST = 0.05
OURS = "isobag"


def load(protocol, name, seed):
    """What to learn from, what to score, and labels of the latter."""
    if protocol in TABLES:
        return load_table(name, protocol)
    X, y = load_points(name, seed)
    return X, X, y


def measure(protocol, name, seed):
    """ROC AUC of the default and of the forest."""
    data = load(protocol, name, seed)
    return {OURS: auc_of_default(*data, seed), FOREST: auc_of_forest(*data, seed)}


def measure_pyod(protocol, name):
    """ROC AUC of PyOD's detectors, on the rows of the first seed."""
    return aucs_of_pyod(*load(protocol, name, SEEDS[0]))


def measured_on(results, protocol, names):
    """{set: {detector: mean AUC over seeds}}."""
    means = {}
    for name in names:
        keys = [f"{protocol}|{name}|{seed}" for seed in SEEDS]
        by_seed = [results[key] for key in keys if key in results]
        means[name] = {label: mean([aucs[label] for aucs in by_seed]) for label in by_seed[0]}
        means[name] |= results.get(f"{protocol}|{name}|PyOD", {})
    return means


def differences(aucs):
    """{set: ours - forest}, the worst first."""
    losses = {name: own[OURS] - own[FOREST] for name, own in aucs.items()}
    return dict(sorted(losses.items(), key=lambda item: item[1]))


def summary(aucs):
    """A row for each detector: mean, sets it ran on, and largest loss to the forest."""
    rows = []
    for label in (OURS, FOREST, *PYOD, STANDARDISED):
        by_set = {name: one[label] for name, one in aucs.items() if one.get(label) is not None}
        losses = {name: by_set[name] - aucs[name][FOREST] for name in by_set}
        worst = min(losses, key=losses.__getitem__)
        rows.append({"detector": label, "mean AUC": mean(by_set.values()), "sets": len(by_set)})
        if label != FOREST:
            lost = sum(loss < -LOST for loss in losses.values())
            rows[-1] |= {"worst loss": -losses[worst], "on": worst, "sets lost by more than .05": lost}
    return rows


def _lost(aucs):
    lost = {name: loss for name, loss in differences(aucs).items() if loss < -LOST}
    if not lost:
        return "Lost by more than .05: none.\n"
    return "Lost by more than .05: " + ", ".join(f"{name} ({-loss:.3f})" for name, loss in lost.items()) + ".\n"


def _spread(results, protocol, names):
    means = [np.mean([results[f"{protocol}|{name}|{seed}"][OURS] for name in names]) for seed in SEEDS]
    return "Mean of isobag for each seed: " + ", ".join(f"{one:.4f}" for one in means) + ".\n"


def _table_tasks():
    names = table_sets()
    ours = {
        f"{part}|{name}|{seed}": Task(measure, (part, name, seed))
        for part in TABLES
        for seed in SEEDS
        for name in names
    }
    return ours | {f"{part}|{name}|PyOD": Task(measure_pyod, (part, name)) for part in TABLES for name in names}


def _table_page(results):
    names = table_sets()
    yield (
        f"{len(names)} tables with identifiers, timestamps, codes and long tails, at most 2,500 rows. *Clean*: learn"
        " from normal rows, score others. *5 %, 10 %*: anomalies are among the rows that are learned from and scored."
        f" isobag and IsolationForest: mean over {len(SEEDS)} seeds; PyOD, with its defaults: one run."
        " Other detectors of PyOD were not run.\n"
    )
    by_part = {part: measured_on(results, part, names) for part in TABLES}
    for part, aucs in by_part.items():
        yield f"### {part}\n\n{table(summary(aucs))}\n{_lost(aucs)}\n{_spread(results, part, names)}"
    rows = []
    for name in names:
        row = {"table": name}
        for part, aucs in by_part.items():
            row |= {f"{part}: isobag": aucs[name][OURS], f"{part}: forest": aucs[name][FOREST]}
        rows.append(row)
    yield f"### Table by table\n\n{table(rows)}"


def _adbench_tasks():
    sets = [("points", name, seed) for seed in SEEDS for name in adbench_sets()]
    sets += [("points", name, SEEDS[0]) for name in OTHER_POINT_SETS]
    ours = {"|".join(map(str, one)): Task(measure, one) for one in sets}
    return ours | {f"points|{name}|PyOD": Task(measure_pyod, ("points", name)) for name in adbench_sets()}


def _adbench_page(results):
    names = adbench_sets()
    aucs = measured_on(results, "points", names)
    others = measured_on(results, "points", OTHER_POINT_SETS)
    yield (
        f"{len(names)} sets, at most 10,000 rows drawn for each seed, learned from and scored."
        f" isobag and IsolationForest: mean over {len(SEEDS)} seeds; PyOD: the first seed's rows.\n"
    )
    yield f"{table(summary(aucs))}\n{_lost(aucs)}\n{_spread(results, 'points', names)}"
    rows = [{"set": name, OURS: own[OURS], FOREST: own[FOREST]} for name, own in (aucs | others).items()]
    rows += [_mean_row(f"mean, {len(aucs)} sets of ADBench", aucs), _mean_row("mean, all sets", aucs | others)]
    for row in rows:
        row["difference"] = row[OURS] - row[FOREST]
    yield f"### Set by set\n\nThe last {len(others)} are not ADBench's: one seed. {_lost(others)}\n{table(rows)}"


def _mean_row(label, aucs):
    return {"set": label, **{key: mean([own[key] for own in aucs.values()]) for key in (OURS, FOREST)}}


def measured(protocol, name):
    """{detector: mean AUC over seeds} on a set, from the results of the last run."""
    return measured_on(load_results("tables" if protocol in TABLES else "adbench"), protocol, [name])[name]


def lost_sets():
    """(protocol, set) of all losses above .05, once all sets of a protocol have been measured."""
    lost = []
    for protocol in (*TABLES, "points"):
        names = table_sets() if protocol in TABLES else (*adbench_sets(), *OTHER_POINT_SETS)
        results = load_results("tables" if protocol in TABLES else "adbench")
        if all(f"{protocol}|{name}|{SEEDS[0]}" in results for name in names):
            aucs = measured_on(results, protocol, names)
            lost += [(protocol, name) for name, loss in differences(aucs).items() if loss < -LOST]
    return lost


TABLES_SECTION = Section("tables", "Tables as they come", _table_tasks, _table_page)
ADBENCH_SECTION = Section("adbench", "ADBench", _adbench_tasks, _adbench_page)
