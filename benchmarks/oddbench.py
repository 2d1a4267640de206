"""Tables with labels, learned from normal rows: python -m benchmarks.oddbench FOLDER [OUT.json]

FOLDER holds one .npz a table, say of OddBench (macrOData, arXiv 2602.09329), with the arrays train, test and y (a label
for each row of test, 1 = anomaly), or X_train, X_test and y_test. ROC AUC and average precision of isobag's default and
of scikit-learn's IsolationForest in the same run; of more than 20,000 rows to learn from as many are drawn. Results are
kept in OUT.json (oddbench.json by default): a second run goes on where the first one stopped.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.metrics import average_precision_score, roc_auc_score

from isobag import IDKPointDetector

NAMES = (("train", "test", "y"), ("X_train", "X_test", "y_test"))
MOST_ROWS = 20_000
DETECTORS = {
    "isobag": lambda: IDKPointDetector(random_state=0, n_jobs=-1),
    "IsolationForest": lambda: IsolationForest(random_state=0, n_jobs=-1),
}


def read(file):
    """Rows to learn from, rows to score, labels of the latter."""
    with np.load(file, allow_pickle=False) as content:
        names = next((names for names in NAMES if set(names) <= set(content.files)), None)
        if names is None:
            raise SystemExit(f"{file} has the arrays {', '.join(content.files)}; need {' or '.join(map(str, NAMES))}.")
        train, test, y = (content[name] for name in names)
    train = train.astype(np.float64)
    if len(train) > MOST_ROWS:
        train = train[np.random.default_rng(0).choice(len(train), MOST_ROWS, replace=False)]
    return train, test.astype(np.float64), y.ravel()


def measure(file):
    """AUC and average precision of each detector, None where y has one class only."""
    train, test, y = read(file)
    if len(np.unique(y)) < 2:
        return None
    metrics = {}
    for name, make in DETECTORS.items():
        odd = -make().fit(train).score_samples(test)
        metrics[name] = [float(roc_auc_score(y, odd)), float(average_precision_score(y, odd))]
    return metrics


def main(folder, out="oddbench.json"):
    """Measure what is missing, print means."""
    files, file_of_results = sorted(Path(folder).glob("*.npz")), Path(out)
    if not files:
        raise SystemExit(f"{folder} has no .npz files.")
    results = json.loads(file_of_results.read_text()) if file_of_results.exists() else {}
    warnings.simplefilter("ignore")
    for i, file in enumerate(files):
        if file.stem not in results:
            results[file.stem] = measure(file)
            file_of_results.write_text(json.dumps(results, indent=0))
            print(f"{i + 1}/{len(files)} {file.stem} {results[file.stem]}", file=sys.stderr)
    measured = [results[file.stem] for file in files if results[file.stem]]
    for name in DETECTORS:
        auc, precision = np.mean([one[name] for one in measured], axis=0)
        print(f"{name:16} {len(measured)} tables  AUROC {auc:.4f}  AUPRC {precision:.4f}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
