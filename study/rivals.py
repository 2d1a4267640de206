"""What others have: scikit-learn's forest, and detectors of PyOD with their defaults."""

import importlib

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from isobag import IDKPointDetector
from study.data import THREADS

FOREST = "IsolationForest"
PYOD = ("KNN", "ECOD", "COPOD", "INNE", "LOF", "GMM", "PCA", "HBOS")
STANDARDISED = "KNN, standardised"


def auc_of_default(train, test, y, seed):
    """ROC AUC of the default."""
    detector = IDKPointDetector(random_state=seed, n_jobs=THREADS).fit(train)
    return float(roc_auc_score(y, -detector.score_samples(test)))


def auc_of_forest(train, test, y, seed):
    """ROC AUC of scikit-learn's IsolationForest."""
    forest = IsolationForest(random_state=seed, n_jobs=THREADS).fit(train)
    return float(roc_auc_score(y, -forest.score_samples(test)))


def aucs_of_pyod(train, test, y):
    """ROC AUC of each detector of PyOD; None where it fails. A score that is no number counts as 0."""
    aucs = {name: _auc_of_pyod(name, train, test, y) for name in PYOD}
    scaler = StandardScaler().fit(train)
    aucs[STANDARDISED] = _auc_of_pyod("KNN", scaler.transform(train), scaler.transform(test), y)
    return aucs


def _auc_of_pyod(name, train, test, y):
    np.random.seed(0)
    detector = getattr(importlib.import_module(f"pyod.models.{name.lower()}"), name)()
    try:
        detector.fit(train)
        scores = detector.decision_scores_ if test is train else detector.decision_function(test)
        return float(roc_auc_score(y, np.nan_to_num(scores, nan=0, posinf=1e300, neginf=-1e300)))
    except (ValueError, np.linalg.LinAlgError):
        return None
