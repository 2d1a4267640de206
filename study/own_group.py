"""Rows against their own group: `within=`, all rows together, each group's median subtracted, and a model per group.

python -m study.own_group prints a table: rows against their own group, beside what one would write by hand.
"""

import warnings

import numpy as np
from sklearn.metrics import roc_auc_score

from isobag import IDKPointDetector
from study.harness import mean, table

N_GROUPS, SEEDS, SIZES = 90, range(3), (3, 10, 30)
LEARNED_ODD, NEW_ROWS, NEW_ODD = 0.02, 30, 0.1
LEAST_OF_A_MODEL = 30
KINDS = {
    "level of one column": (1, 2, 5, 20),
    "level of all columns": (2, 5, 20),
    "spread of one column": (1, 2, 5),
    "level and spread of one column": (2, 5),
    "two modes of one column": (1, 2, 5),
    "counts in one column": (1, 2, 5),
    "categories in one column": (1, 2),
    "nothing": (2, 5, 20),
    "level of one column, new groups": (2, 5),
}
"""What groups differ in, and the numbers of columns; all other columns are noise."""


class PlantedGroups:
    """Groups that differ in something, and rows of them."""

    def __init__(self, kind, n_columns, seed):
        self.kind, self.d = kind, n_columns
        self.rng = np.random.default_rng(seed)
        self.level = self.rng.permutation(N_GROUPS) * 10.0
        self.levels = self.rng.uniform(-15, 15, (N_GROUPS, n_columns))
        self.spread = np.exp(self.rng.normal(size=N_GROUPS))
        self.modes = self.rng.uniform(-40, 40, (N_GROUPS, 2))
        self.categories = self.rng.dirichlet(np.full(8, 0.25), N_GROUPS).cumsum(axis=1)

    def ordinary(self, owners):
        """Rows that are usual for their groups: (n,) -> (n, d)."""
        X, n = self.rng.normal(size=(len(owners), self.d)), len(owners)
        if self.kind.startswith("level of one column"):
            X[:, 0] += self.level[owners]
        elif self.kind == "level of all columns":
            X += self.levels[owners]
        elif self.kind == "spread of one column":
            X[:, 0] *= self.spread[owners]
        elif self.kind == "level and spread of one column":
            X[:, 0] = np.exp(self.level[owners] / N_GROUPS + 0.3 * X[:, 0])
        elif self.kind == "two modes of one column":
            X[:, 0] += self.modes[owners, self.rng.integers(0, 2, n)]
        elif self.kind == "counts in one column":
            X[:, 0] = self.rng.poisson(self.level[owners] / 10)
        elif self.kind == "categories in one column":
            X[:, 0] = (self.rng.random(n)[:, None] > self.categories[owners]).sum(axis=1)
        return X

    def with_odd(self, owners, share):
        """Rows, some of which are odd for their group, mostly by being usual for another one; and which."""
        X, n, rng = self.ordinary(owners), len(owners), self.rng
        is_odd, sign = rng.random(n) < share, rng.choice([-1, 1], n)
        odd = self.ordinary((owners + rng.integers(1, N_GROUPS, n)) % N_GROUPS)
        if self.kind == "spread of one column":
            odd = self.ordinary(owners)
            odd[:, 0] = sign * self.spread[owners] * rng.uniform(4, 6, n)
        elif self.kind == "two modes of one column":
            odd[:, 0] = rng.uniform(-40, 40, n)
        elif self.kind == "nothing":
            odd[:, 0] += sign * rng.uniform(3, 6, n)
        elif self.kind.endswith("new groups"):
            odd = self.ordinary(owners)
            odd[:, -1] += 6
        return np.where(is_odd[:, None], odd, X), is_odd


def measure(kind, n_columns, size, seed):
    """AUC of odd new rows, by each way to compare; None where groups have too few rows for a model each."""
    groups = PlantedGroups(kind, n_columns, seed)
    owners, asked = (np.repeat(np.arange(N_GROUPS), n) for n in (size, NEW_ROWS))
    X, _ = groups.with_odd(owners, LEARNED_ODD)
    new, is_odd = groups.with_odd(asked, NEW_ODD)
    is_new = kind.endswith("new groups")
    medians = np.array([np.median(X[owners == g], axis=0) for g in range(N_GROUPS)])
    subtracted = np.median(X, axis=0) if is_new else medians[asked]

    def fitted(X, **within):
        return IDKPointDetector(random_state=seed).fit(X, **within)

    scores = {
        "all together": fitted(X).score_samples(new),
        "medians subtracted": fitted(X - medians[owners]).score_samples(new - subtracted),
        "`within=`": fitted(X, within=owners).score_samples(new, within=asked + N_GROUPS * is_new),
    }
    if size >= LEAST_OF_A_MODEL and not is_new:
        scores["a model each"] = np.concatenate(
            [fitted(X[owners == g]).score_samples(new[asked == g]) for g in range(N_GROUPS)]
        )
    return {name: roc_auc_score(~is_odd, own) for name, own in scores.items()}


def main():
    """Print the table."""
    warnings.simplefilter("ignore")
    lines = []
    for kind, widths in KINDS.items():
        for n_columns in widths:
            for size in SIZES:
                aucs = [measure(kind, n_columns, size, seed) for seed in SEEDS]
                means = {name: mean([one[name] for one in aucs]) for name in aucs[0]}
                lines.append({"groups differ in": kind, "columns": n_columns, "rows a group": size, **means})
                print(lines[-1], flush=True)
    print(table(lines))


if __name__ == "__main__":
    main()
