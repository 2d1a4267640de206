"""Points: every detector of PyOD that runs without a deep learning framework, with its defaults."""

import importlib
import multiprocessing
import warnings

import numpy as np
from data import THREADS, adbench_sets, load_points
from sklearn.metrics import roc_auc_score

from isobag import IDKPointDetector

SECONDS = 60
SEEDS = (0,)
NAMES = {
    "abod": "ABOD",
    "cblof": "CBLOF",
    "cd": "CD",
    "cof": "COF",
    "copod": "COPOD",
    "ecod": "ECOD",
    "feature_bagging": "FeatureBagging",
    "gmm": "GMM",
    "hbos": "HBOS",
    "hdbscan": "HDBSCAN",
    "iforest": "IForest",
    "inne": "INNE",
    "kde": "KDE",
    "knn": "KNN",
    "kpca": "KPCA",
    "lmdd": "LMDD",
    "loci": "LOCI",
    "loda": "LODA",
    "lof": "LOF",
    "mcd": "MCD",
    "ocsvm": "OCSVM",
    "pca": "PCA",
    "qmcd": "QMCD",
    "rod": "ROD",
    "sampling": "Sampling",
    "sod": "SOD",
    "sos": "SOS",
}


def pyod():
    """Mean ROC AUC over ADBench's sets; one that needs more than 60 s or fails on a set is stopped there."""
    rows = []
    ours = {}
    for name in adbench_sets():
        X, y = load_points(name, SEEDS[0])
        ours[name] = roc_auc_score(y, -IDKPointDetector(random_state=0, n_jobs=THREADS).fit(X).score_samples(X))
    rows.append({"detector": "isobag", "sets": len(ours), "mean AUC": np.mean(list(ours.values()))})
    for module, cls in NAMES.items():
        aucs, why = _auc_until_it_stops(module, cls)
        row = {"detector": cls, "sets": len(aucs), "mean AUC": np.mean(list(aucs.values())) if aucs else np.nan}
        same = np.mean([ours[name] for name in aucs]) if aucs else np.nan
        rows.append({**row, "isobag on the same sets": same, "stopped by": why})
        print(rows[-1], flush=True)
    return rows


def _auc_until_it_stops(module, cls):
    aucs = {}
    for name in adbench_sets():
        X, y = load_points(name, SEEDS[0])
        receive, send = multiprocessing.Pipe(duplex=False)
        child = multiprocessing.Process(target=_fit, args=(module, cls, X, send), daemon=True)
        child.start()
        finished = receive.poll(SECONDS)
        scores = receive.recv() if finished else f"{name}, more than {SECONDS} s"
        child.kill()
        child.join()
        if isinstance(scores, str):
            return aucs, scores if not finished else f"{name}: {scores}"
        if not np.isfinite(scores).all():
            return aucs, f"{name}: scores that are no numbers"
        aucs[name] = roc_auc_score(y, scores)
    return aucs, ""


def _fit(module, cls, X, send):
    warnings.simplefilter("ignore")
    np.random.seed(0)
    try:
        detector = getattr(importlib.import_module(f"pyod.models.{module}"), cls)()
        send.send(np.asarray(detector.fit(X).decision_scores_))
    except BaseException as error:
        send.send(f"{type(error).__name__}: {str(error)[:60]}")
