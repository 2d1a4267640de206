"""Made-up card accounts in which every transaction is ordinary and a few accounts are not."""

from typing import Any

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

from isobag.datasets import make_card_accounts
from isobag.estimators import IDKGroupDetector, IDKPointDetector

SEED = 0
SHOWN = 8
LEAST_ODD = 40
"""Two lives on one card do not show in fewer transactions."""


def show_accounts() -> None:
    """Print which accounts are odd by row, by averages, and by account."""
    X, feature_names, labels, y = make_card_accounts(low=10, high=1000, odd_low=LEAST_ODD, random_state=SEED)
    odd = y == 1
    accounts, ids = np.unique(labels, return_inverse=True)
    sizes = np.bincount(ids)
    print(f"{len(accounts)} card accounts of {sizes.min()} to {sizes.max():,} transactions, {len(X):,} in all")
    print(f"({', '.join(feature_names)}).")
    print(f"{odd.sum()} accounts are odd: all purchases of one kind, or two lives on one card.")
    print("No label is used below.\n")

    points = IDKPointDetector(random_state=SEED, n_jobs=-1)
    flagged = points.fit_predict(X) == -1
    print("Transaction by transaction (IDKPointDetector)")
    print(f"  flagged: {flagged.mean():.1%} of all, {flagged[odd[ids]].mean():.1%} of those of the odd accounts")
    print(f"  by their mean, {_summary(np.bincount(ids, points.score_samples(X)) / sizes, odd)}\n")

    groups = [X[ids == g] for g in range(len(accounts))]
    features = np.array([[*group.mean(axis=0), *group.std(axis=0)] for group in groups])
    forest = IsolationForest(random_state=SEED).fit(features)
    print("Averages first (IsolationForest on the means and deviations of each account)")
    print(f"  {_summary(forest.score_samples(features), odd)}\n")

    detector = IDKGroupDetector(random_state=SEED, n_jobs=-1).fit(X, groups=labels)
    print("Account by account (IDKGroupDetector)")
    print(f"  {_summary(detector.scores_, odd)}\n")
    print("  rank  account    transactions   score  odd?")
    for rank, g in enumerate(detector.scores_.argsort(kind="stable")[:SHOWN], start=1):
        verdict = "odd" if odd[g] else "ordinary"
        print(f"  {rank:4d}  {accounts[g]}  {sizes[g]:12d}  {detector.scores_[g]:6.3g}  {verdict}")


def _summary(scores: Any, odd: Any) -> str:
    """How many of the accounts with the lowest scores are odd."""
    lowest = scores.argsort(kind="stable")[: odd.sum()]
    return f"{odd[lowest].sum()} of the {odd.sum()} lowest accounts are odd (ROC AUC {roc_auc_score(odd, -scores):.2f})"
