"""Why a set is lost: what each scale and each psi alone make of it, and what one column alone would do."""

import numpy as np
from sklearn.metrics import roc_auc_score

from isobag import IDKPointDetector
from study.data import THREADS
from study.harness import Section, Task, table
from study.points import FOREST, OURS, load, lost_sets, measured

SCALINGS = ("minmax", "absolute", "normal", "asinh")
SHOWN_PSI = (2, 16, 64, 256)


def measure(protocol, name):
    """AUC by scale, by psi, without the part of how far out rows are, and of the best column."""
    train, test, y = load(protocol, name, 0)
    found = {scaling: _auc(y, _fit(train, scaling).score_samples(test)) for scaling in SCALINGS}
    detector = _fit(train, "auto")
    path = detector.score_path(test)
    found |= {f"psi = {psi}": _auc(y, own) for psi, own in zip(detector.path_, path.T, strict=True) if psi in SHOWN_PSI}
    paths = detector.model_.divide(detector.model_.sum_at(detector.compute)(test))
    found["no how far out"] = _auc(y, detector.average_.apply([(own, None) for own, _ in paths]))
    by_column = [max(auc, 1 - auc) for auc in (roc_auc_score(y, column) for column in test.T)]
    best = int(np.argmax(by_column))
    others = np.delete(np.arange(train.shape[1]), best)
    found |= {"best column": float(by_column[best]), "number of it": best, "columns": train.shape[1]}
    found["default on it"] = _auc(y, _fit(train[:, [best]], "auto").score_samples(test[:, [best]]))
    if len(others):
        found["default without it"] = _auc(y, _fit(train[:, others], "auto").score_samples(test[:, others]))
    found["rows that repeat"] = float(1 - len(np.unique(train, axis=0)) / len(train))
    found["anomalies"] = float(np.mean(y))
    return found


def _fit(train, scaling):
    return IDKPointDetector(scaling=scaling, random_state=0, n_jobs=THREADS, calibrate=False).fit(train)


def _auc(y, scores):
    return float(roc_auc_score(y, -scores))


def _tasks():
    return {f"{protocol}|{name}": Task(measure, (protocol, name)) for protocol, name in lost_sets()}


def _page(results):
    yield (
        "Every set lost to IsolationForest by more than .05. AUC of the default with one scale only; of its similarity"
        " at one psi; without how far out rows are; of the one column that separates best, by itself (either way"
        " round); of the default on that column alone, and on all others. One seed.\n"
    )
    rows = []
    for key, own in results.items():
        aucs = measured(*key.split("|"))
        rows.append({"set": key.replace("|", " "), OURS: aucs[OURS], FOREST: aucs[FOREST], **own})
    yield table(rows)


LOSSES_SECTION = Section("losses", "Where the default loses", _tasks, _page)
