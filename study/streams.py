"""Streams: each row scored before it is learned, in natural order, against what others have for streams.

python -m study.streams runs what is missing and writes the table of REPORT_STREAMS.md. The window has 500 rows, and
rows from the 250th on count. Real streams are made shorter by taking every k-th normal row and every j-th odd row, so
that there are 2,500 rows and at most one in fifty is odd; their order stays. Of River's sets the rarer or last class is
odd, and thinned in the same way.
"""

import re
import sys
import time

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

from isobag import IDKPointDetector, IDKStreamDetector
from study.data import DATA, ROOT, THREADS
from study.harness import Section, Task, mean, run, table

WINDOW, SLIDE, FIRST, N_ROWS = 500, 25, 250, 2_500
ODD_SHARE = 0.02
REAL = ("http", "smtp", "shuttle", "ForestCover")
RIVERS = {"Phishing": True, "Bananas": True, "ImageSegments": "window"}
"""River's own sets that need no download, and the class that is odd."""
MADE = ("sudden", "gradual", "recurring", "new cluster", "rotation")
PAGE = ROOT / "study" / "REPORT_STREAMS.md"


def make_stream(kind, seed=0):
    """Rows of five features around one or more centers that move, one in fifty uniform in a box: (n, 5), (n,)."""
    rng = np.random.default_rng(seed)
    step = np.arange(N_ROWS) / N_ROWS
    X = rng.normal(size=(N_ROWS, 5))
    if kind == "sudden":
        X[step > 0.5] += 4
    elif kind == "gradual":
        X += 8 * step[:, None]
    elif kind == "recurring":
        X += 4 * ((step * 10).astype(int) % 2)[:, None]
    elif kind == "new cluster":
        X[(step > 0.4) & (rng.random(N_ROWS) < 0.3)] += 6
    elif kind == "rotation":
        X[:, 0] *= 5
        x, y, turn = X[:, 0].copy(), X[:, 1].copy(), np.pi * step
        X[:, 0], X[:, 1] = x * np.cos(turn) - y * np.sin(turn), x * np.sin(turn) + y * np.cos(turn)
    odd = rng.random(N_ROWS) < ODD_SHARE
    X[odd] += rng.uniform(-5, 5, size=(odd.sum(), 5))
    return X, odd.astype(int)


def load_stream(name):
    """Rows in their order, and labels (1 = odd): (n, d), (n,)."""
    if name in MADE:
        return make_stream(name)
    if name in RIVERS:
        from river import datasets  # noqa: PLC0415, the other streams need no River

        rows = list(getattr(datasets, name)())
        X = np.array([list(x.values()) for x, _ in rows], dtype=np.float64)
        y = np.array([label == RIVERS[name] for _, label in rows])
    else:
        with np.load(DATA / "point" / f"{name}.npz") as file:
            X, y = file["X"].astype(np.float64), file["y"].ravel() == 1
    rows = np.sort(np.concatenate([_every(np.flatnonzero(~y), N_ROWS), _every(np.flatnonzero(y), _most_odd(y))]))
    return X[rows], y[rows].astype(int)


def _most_odd(y):
    return int(ODD_SHARE * min(N_ROWS, np.count_nonzero(~y)))


def _every(places, most):
    """Every k-th of some places, at most so many."""
    return places[:: max(1, -(-len(places) // most))]


def stream_of(**params):
    """Scores of the stream detector."""
    return lambda X: -IDKStreamDetector(WINDOW, random_state=0, n_jobs=THREADS, **params).follow(X).scores


def refitted(make, every):
    """Scores of a detector that is fitted anew to the last rows."""

    def scores_of(X):
        scores = np.zeros(len(X))
        for start in range(min(every, FIRST), len(X), every):
            model = make().fit(X[max(0, start - WINDOW) : start])
            scores[start : start + every] = -model.score_samples(X[start : start + every])
        return scores

    return scores_of


def half_space_trees(X):
    """River's HalfSpaceTrees behind its MinMaxScaler, as its page says."""
    from river import anomaly, preprocessing  # noqa: PLC0415

    trees = anomaly.HalfSpaceTrees(n_trees=25, height=15, window_size=250, seed=0)
    return _one_by_one(preprocessing.MinMaxScaler() | trees, X)


def local_outlier_factor(X):
    """River's LocalOutlierFactor behind its StandardScaler."""
    from river import anomaly, preprocessing  # noqa: PLC0415

    return _one_by_one(preprocessing.StandardScaler() | anomaly.LocalOutlierFactor(n_neighbors=20), X)


def _one_by_one(model, X):
    scores = np.empty(len(X))
    for k, row in enumerate(X.tolist()):
        x = dict(enumerate(row))
        scores[k] = model.score_one(x) if k else 0.0
        model.learn_one(x)
    return scores


def of_pysad(name):
    """Scores of a model of PySAD, of rows standardised by the first ones."""

    def scores_of(X):
        from pysad import models  # noqa: PLC0415

        start = X[:FIRST]
        X = (X - start.mean(axis=0)) / np.where(start.std(axis=0) > 0, start.std(axis=0), 1)
        how = {"feature_mins": X[:FIRST].min(axis=0), "feature_maxes": X[:FIRST].max(axis=0)}
        model = getattr(models, name)(**(how if name == "RSHash" else {}), random_state=0)
        scores = np.zeros(len(X))
        for k, row in enumerate(X):
            if k:
                scores[k] = np.ravel(model.score_partial(row))[0]
            model.fit_partial(row)
        return scores

    return scores_of


def iforest_asd(X):
    """PySAD's IForestASD. Its forest stays for a window, so that the rows of one are scored together."""
    from pysad.models import IForestASD  # noqa: PLC0415

    model, scores = IForestASD(X[:FIRST], window_size=FIRST, random_state=0), np.zeros(len(X))
    for start in range(FIRST, len(X), FIRST):
        rows = X[start : start + FIRST]
        scores[start : start + FIRST] = model.model.decision_function(rows)
        for row in rows:
            model.fit_partial(row)
    return scores


OURS, REFITTED = "isobag stream", f"isobag refitted every {SLIDE}"
VARIANTS = ("isobag, 30 partitionings", "isobag, psi = 16")
METHODS = {
    OURS: stream_of(),
    REFITTED: refitted(lambda: IDKPointDetector(random_state=0, n_jobs=THREADS), SLIDE),
    "IsolationForest refitted every 250": refitted(lambda: IsolationForest(random_state=0), FIRST),
    "River HalfSpaceTrees": half_space_trees,
    "River LOF": local_outlier_factor,
    "PySAD xStream": of_pysad("xStream"),
    "PySAD RSHash": of_pysad("RSHash"),
    "PySAD LODA": of_pysad("LODA"),
    "PySAD IForestASD": iforest_asd,
    **dict(zip(VARIANTS, (stream_of(n_estimators=30), stream_of(max_samples=16)), strict=True)),
}


def measure(name, method):
    """AUC of one method on one stream, and its CPU seconds."""
    X, y = load_stream(name)
    begun = time.process_time()
    scores = np.nan_to_num(METHODS[method](X), posinf=1e300, neginf=-1e300)
    seconds = time.process_time() - begun
    auc = float(roc_auc_score(y[FIRST:], scores[FIRST:]))
    return {"auc": auc, "seconds": seconds, "odd": int(y[FIRST:].sum())}


def tasks():
    """Every method on every stream."""
    return {
        f"{name}, {method}": Task(measure, (name, method))
        for name in (*REAL, *RIVERS, *MADE)
        for method in METHODS
    }  # fmt: skip


def page(results):
    """The table, losses first, means, and what the variants lose."""
    names = (*REAL, *RIVERS, *MADE)
    aucs = {name: {method: results[f"{name}, {method}"]["auc"] for method in METHODS} for name in names}
    rivals = [method for method in METHODS if method not in (OURS, REFITTED, *VARIANTS)]

    def lead(name):
        return aucs[name][OURS] - max(aucs[name][method] for method in rivals)

    shown = [method for method in METHODS if method not in VARIANTS]
    rows = [
        {"stream": name, "odd rows": results[f"{name}, {OURS}"]["odd"], **{m: aucs[name][m] for m in shown}}
        for name in sorted(names, key=lead)
    ]
    rows.append({"stream": "mean", **{method: mean([aucs[name][method] for name in names]) for method in shown}})
    yield table(rows)
    others = {method: mean([aucs[name][method] for name in names]) for method in VARIANTS}
    yield "Mean AUC of variants: " + "; ".join(f"{method}: {auc:.3f}" for method, auc in others.items()) + ".\n"


STREAMS_SECTION = Section("streams", "Streams", tasks, page)


def main():
    """Run what is missing, and write the table."""
    text = "\n".join(page(run(STREAMS_SECTION)))
    begin, end = "<!-- study-streams -->\n", "<!-- end -->"
    PAGE.write_text(re.sub(f"{begin}.*?{end}", lambda _: f"{begin}\n{text}\n{end}", PAGE.read_text(), flags=re.DOTALL))
    print(text, file=sys.stderr)


if __name__ == "__main__":
    main()
