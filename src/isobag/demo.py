"""A demo: card accounts in which every transaction is ordinary and a few accounts are not."""

import numpy as np
from sklearn.metrics import roc_auc_score

from isobag.backends.arrays import Bools, Floats
from isobag.baselines import AveragedPointScores
from isobag.datasets import make_card_accounts
from isobag.estimators import IDKGroupDetector, IDKPointDetector

SEED = 0
SHOWN = 8


def main() -> None:
    """Look for the odd accounts twice: by their transactions, and as wholes."""
    X, feature_names, labels, y = make_card_accounts(random_state=SEED)
    odd = y == 1
    accounts = list(dict.fromkeys(labels.tolist()))
    sizes = [np.count_nonzero(labels == account) for account in accounts]
    print(f"{len(accounts)} card accounts, {len(X):,} transactions ({', '.join(feature_names)}).")
    print(
        f"{odd.sum()} accounts are odd: all purchases of one kind, or two lives on one card. No label is used below.\n"
    )

    points = IDKPointDetector(random_state=SEED, n_jobs=-1)
    flagged = points.fit_predict(X) == -1
    of_odd = flagged[np.isin(labels, np.array(accounts)[odd])]
    print("Transaction by transaction (IDKPointDetector)")
    print(f"  flagged: {flagged.mean():.1%} of all transactions, {of_odd.mean():.1%} of those of the odd accounts")
    averaged = AveragedPointScores(points).fit(X, groups=labels)
    print(f"  accounts by the mean score of their transactions: {_found(averaged.scores_, odd)}\n")

    detector = IDKGroupDetector(random_state=SEED, n_jobs=-1).fit(X, groups=labels)
    print("Account by account (IDKGroupDetector)")
    print(f"  accounts by their own score: {_found(detector.scores_, odd)}\n")
    print("  rank  account    transactions   score  odd?")
    for rank, g in enumerate(np.argsort(detector.scores_, kind="stable")[:SHOWN], start=1):
        verdict = "odd" if odd[g] else "ordinary"
        print(f"  {rank:4d}  {accounts[g]}  {sizes[g]:12d}  {detector.scores_[g]:.4f}  {verdict}")


def _found(scores: Floats, odd: Bools) -> str:
    lowest = np.argsort(scores, kind="stable")[: odd.sum()]
    return f"{odd[lowest].sum()} of the {odd.sum()} lowest are odd (ROC AUC {roc_auc_score(odd, -scores):.2f})"


if __name__ == "__main__":
    main()
