"""The suite of odd groups: python -m study.suite runs what is missing and writes study/REPORT_SUITE.md.

Results are kept in study/results/suite.json: for each method, set and variant the ROC AUC, the average precision and
the seconds. A method of your own joins by ISOBAG_SUITE_METHOD=file.py:function (see group_methods.py).
"""

import os
import time
from functools import lru_cache
from textwrap import fill

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

from isobag.datasets import REBUILT_GROUP_SETS, SUITE_VARIANTS, group_suite, suite_sets
from paper.figures import draw_critical_differences
from paper.tables import compare
from study.data import DATA, ROOT
from study.group_methods import DEFAULT, METHODS, SIMPLE
from study.harness import Section, Task, run, table

N_GROUPS = 200
MOST_LOSS = 0.03
PAGE = ROOT / "study" / "REPORT_SUITE.md"
PICTURE = ROOT / "study" / "suite.png"


@lru_cache(maxsize=1)
def _problems(name):
    folder = DATA if DATA.is_dir() else None
    return {problem.variant: problem for problem in group_suite([name], folder=folder, n_groups=N_GROUPS)}


def measure(label, name, variant):
    """AUC, average precision and seconds of a method; None where the set has no such variant."""
    problem = _problems(name).get(variant)
    if problem is None:
        return None
    learned = problem.learn[problem.groups]
    # Numbered 0, 1, ... as the methods expect.
    train_groups = np.unique(problem.groups[learned], return_inverse=True)[1]
    start = time.perf_counter()
    scores = METHODS[label](problem.X[learned], train_groups, problem.X, problem.groups, 0)
    seconds = time.perf_counter() - start
    y, odd = problem.y[problem.judged], -np.asarray(scores)[problem.judged]
    return {
        "auc": float(roc_auc_score(y, odd)),
        "ap": float(average_precision_score(y, odd)),
        "seconds": seconds,
    }


def _tasks():
    return {
        f"{label}|{name}|{variant}": Task(measure, (label, name, variant))
        for name in suite_sets()
        for variant in SUITE_VARIANTS
        for label in METHODS
    }


def _page(results):
    problems = [(name, v) for name in suite_sets() for v in SUITE_VARIANTS if results[f"{DEFAULT}|{name}|{v}"]]
    bags = suite_sets(bags=True)
    in_bags = [problem for problem in problems if problem[0] in bags]
    problems = [problem for problem in problems if problem[0] not in bags]
    auc, auc_of_bags = (
        np.array([[results[f"{label}|{name}|{v}"]["auc"] for label in METHODS] for name, v in some])
        for some in (problems, in_bags)
    )
    yield "# The suite of odd groups\n"
    yield (
        f"{len(problems)} problems: {len(suite_sets(bags=False))} sets, "
        f"{len(REBUILT_GROUP_SETS) - len(bags)} of them real and rebuilt from public archives, each as it is, thinned,"
        " with a tenth of the groups odd, and learned from normal groups only"
        f" (`isobag.datasets.group_suite`). Sets have at most {N_GROUPS} groups here. Made by `make study-groups`; ROC"
        " AUC, one seed, every method with its defaults. OCSMM sees at most 100 points of a group.\n"
    )
    yield "## Where isobag loses\n"
    yield f"Problems on which a method of aggregates, or the paper's IDK^2, is more than {MOST_LOSS} ahead.\n"
    labels = list(METHODS)
    all_problems = [*zip(problems, auc, strict=True), *zip(in_bags, auc_of_bags, strict=True)]
    rivals = [*SIMPLE, "IDK^2 (16, 16)"]
    rows = []
    for (name, variant), aucs in zip(problems, auc, strict=True):
        best = max(rivals, key=lambda label: aucs[labels.index(label)])
        loss = aucs[labels.index(best)] - aucs[labels.index(DEFAULT)]
        if loss > MOST_LOSS:
            rows.append({"set": name, "variant": variant, DEFAULT: aucs[labels.index(DEFAULT)]})
            rows[-1] |= {"best of the others": best, "its AUC": aucs[labels.index(best)], "loss": loss}
    yield table(sorted(rows, key=lambda row: -row["loss"])) if rows else "None.\n"
    yield "## Means\n"
    comparison = compare(auc, tuple(labels))
    rows = []
    for i, label in enumerate(labels):
        row = {"method": label}
        for variant in SUITE_VARIANTS:
            row[variant] = float(np.mean([aucs[i] for (_, v), aucs in zip(problems, auc, strict=True) if v == variant]))
        row |= {"all": float(auc[:, i].mean()), "lowest": float(auc[:, i].min())}
        row["average rank"] = comparison.average_ranks[label]
        rows.append(row)
    yield table(sorted(rows, key=lambda row: -row["all"]))
    draw_critical_differences(comparison, PICTURE)
    yield f"![Average ranks; joined: no difference at .05]({PICTURE.name})\n"
    yield "## Bags\n"
    yield (
        f"{len(in_bags)} more problems, not in the means above: {len(bags)} sets of multiple-instance learning. A bag"
        " is positive if one of its points is of a class that has to be learned from labels, so its distribution need"
        " not be odd, and no method without labels is much better than chance.\n"
    )
    rows = [{"method": label, "mean": float(auc_of_bags[:, i].mean())} for i, label in enumerate(labels)]
    yield table(sorted(rows, key=lambda row: -row["mean"]))
    yield "## All problems\n"
    for variant in SUITE_VARIANTS:
        rows = [
            {"set": name, **dict(zip(labels, map(float, aucs), strict=True))}
            for (name, v), aucs in all_problems
            if v == variant
        ]
        yield f"### {variant.capitalize()}\n\n{table(rows)}"
    yield "## Sets\n"
    yield table([{"set": name, "from": one.source, "licence": one.licence} for name, one in REBUILT_GROUP_SETS.items()])
    yield (
        "The others are made up by functions of `isobag.datasets` (`group_suite` names them in `source`). Archives are"
        " downloaded when first needed and checked by SHA-256; nothing of them is part of isobag.\n"
    )
    yield "## Your method\n"
    yield (
        "One function joins the suite: `score(train, train_groups, X, groups, seed)` learns from the points `train` of"
        " the groups numbered in `train_groups`, and returns a score for each group of `groups`, higher = more"
        " normal:\n"
    )
    yield (
        "```python\n>>> import numpy as np\n>>> def median_distance(train, train_groups, X, groups, seed):\n"
        "...     middle = np.median(train, axis=0)\n"
        "...     own = [np.median(X[groups == group], axis=0) for group in range(groups.max() + 1)]\n"
        "...     return -np.linalg.norm(own - middle, axis=1)\n\n```\n"
    )
    yield "`ISOBAG_SUITE_METHOD=mine.py:median_distance make study-groups` runs it on all problems.\n"


SUITE_SECTION = Section("suite", "The suite of odd groups", _tasks, _page)


def _wrapped(line):
    return fill(line, 120, break_long_words=False, break_on_hyphens=False) if line[:1] not in "|#`>. " else line


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    results = run(SUITE_SECTION)
    lines = "\n".join(_page(results)).split("\n")
    PAGE.write_text("\n".join(map(_wrapped, lines)) + "\n")
    print(f"Written: {PAGE.relative_to(ROOT)}.")
