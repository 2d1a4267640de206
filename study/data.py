"""The labelled sets of the study, read from the folder named by ISOBAG_DATA, else from ../shared/data."""

import os
from pathlib import Path

import numpy as np

from isobag.datasets import (
    make_alike_groups,
    make_card_accounts,
    make_gaussian1k,
    make_gaussian100,
    make_mix_gaussian1k,
)
from isobag.datasets.rebuild import LEAST_ATTACKS, STRETCH_ROWS
from isobag.datasets.unequal import ALIKE_KINDS

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("ISOBAG_DATA", ROOT.parent / "shared" / "data"))
MOST_ROWS = 10_000
MOST_ODD_GROUPS = 0.1
THREADS = 1  # tasks run side by side, each in one thread
TABLES = ("clean", "5 %", "10 %")

# Of the other point sets, those that are not in ADBench's folder as well.
OTHER_POINT_SETS = (
    "EEG_eye",
    "PenDigits",
    "fraud_sample",
    "IoT_botnet_mini",
    "MNIST_230",
    "MNIST_479",
    "census_nominal",
)
SYNTHETIC_GROUP_SETS = {
    "Gaussian100": make_gaussian100,
    "Gaussian1K": make_gaussian1k,
    "MixGaussian1K": make_mix_gaussian1k,
}


SESSIONS, STRETCHES = "sessions_openstack", "http_stretches"
ALIKE_SHARES = (1, 5, 10, 20)
"""Per cent of odd groups that are alike."""
ALIKE_GROUPS = 400


def adbench_sets():
    """Names of ADBench's sets, small files first."""
    return [path.stem for path in sorted((DATA / "adbench").glob("*.npz"), key=lambda path: path.stat().st_size)]


def load_points(name, seed):
    """Points and labels (1 = anomaly); of more than 10,000 rows as many are drawn."""
    folder = "point" if name in OTHER_POINT_SETS else "adbench"
    with np.load(DATA / folder / f"{name}.npz", allow_pickle=False) as file:
        X, y = file["X"], file["y"].ravel()
        if len(X) > MOST_ROWS:
            rows = np.sort(np.random.RandomState(seed).permutation(len(X))[:MOST_ROWS])
            X, y = X[rows], y[rows]
        if name == "census_nominal":  # codes of categories, -1 = missing
            X = np.concatenate([X[:, [j]] == np.arange(-1, n) for j, n in enumerate(file["n_levels"])], axis=1)
        return X.astype(np.float64), y


def table_sets():
    """Names of the tables as people publish them."""
    return [path.stem for path in sorted((DATA / "tables").glob("*.npz"))]


def load_table(name, anomalies):
    """What to learn from, what to score, and labels of the latter (1 = anomaly).

    clean: learn from normal rows, score others. 5 %, 10 %: learn from and score normal rows and so many anomalies.
    """
    with np.load(DATA / "tables" / f"{name}.npz", allow_pickle=True) as file:
        train, test, y = file["train"].astype(np.float64), file["test"].astype(np.float64), file["y"]
    if anomalies == "clean":
        return train, test, y
    n_odd = max(3, len(train) // {"5 %": 20, "10 %": 10}[anomalies])
    odd = test[y == 1][:n_odd]
    X = np.vstack([train, odd])
    return X, X, np.repeat([0, 1], [len(train), len(odd)])


def group_sets():
    """Names of the group sets with at most 10 % odd groups, and of the synthetic ones."""
    names = []
    for path in sorted((DATA / "group").glob("*.npz"), key=lambda path: path.stat().st_size):
        with np.load(path) as file:
            if path.stem != SESSIONS and file["y"].mean() <= MOST_ODD_GROUPS:
                names.append(path.stem)
    return [*names, "card_accounts", *SYNTHETIC_GROUP_SETS]


def alike_sets():
    """Names of the sets in which odd groups are alike, or have sizes of their own."""
    return [SESSIONS, STRETCHES, *(f"{kind}, {share} %" for share in ALIKE_SHARES for kind in ALIKE_KINDS)]


def load_alike(name, seed):
    """Points, the group of each, and a label for each group (1 = odd)."""
    if name == SESSIONS:
        with np.load(DATA / "group" / f"{SESSIONS}.npz") as file:
            return np.eye(int(file["n_events"]))[file["event"]], file["group"], file["y"]
    if name == STRETCHES:
        with np.load(DATA / "point" / "http.npz") as file:
            n = len(file["X"]) // STRETCH_ROWS * STRETCH_ROWS
            attacks = file["y"].ravel()[:n].reshape(-1, STRETCH_ROWS).sum(axis=1)
            ids = np.repeat(np.arange(len(attacks)), STRETCH_ROWS)
            return file["X"][:n].astype(np.float64), ids, (attacks >= LEAST_ATTACKS).astype(int)
    kind, share = name.removesuffix(" %").rsplit(", ", 1)
    return make_alike_groups(ALIKE_GROUPS, ALIKE_GROUPS * int(share) // 100, kind, random_state=seed)


def load_groups(name, seed):
    """Points, the group of each, and a label for each group (1 = odd)."""
    if name == "card_accounts":
        X, _, groups, y = make_card_accounts(random_state=seed)
        return X, np.unique(groups, return_inverse=True)[1], y
    if name in SYNTHETIC_GROUP_SETS:
        return SYNTHETIC_GROUP_SETS[name](random_state=seed)[:3]
    with np.load(DATA / "group" / f"{name}.npz") as file:
        return file["X"].astype(np.float64), file["group"], file["y"]
