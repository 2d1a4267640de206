"""The method of the paper, pinned: with integers for psi no release may change a score, not even in the last bit.

The data are multiples of 1/16 and come in powers of two, so that means, deviations, quartiles and squares are exact and
nothing depends on the order in which a machine adds up. ``python tests/golden/test_paper_scores.py`` writes the file
anew, after a change that is meant and noted in the changelog.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from isobag import IDKGroupDetector, IDKPointDetector, IsolationKernel
from isobag.backends import HOST_BACKENDS, RULES
from isobag.estimators.base import Computing

FILE = Path(__file__).with_name("paper_scores.json")
ROW, COLUMN = np.ogrid[:64, :3]
X = ((ROW * 37 + COLUMN * 11 + ROW * ROW * (7 + COLUMN)) % 101 - 50) / 16.0
X[::8] = X[3]  # equal rows
X[5] = 40, -3, 2  # one far away
Q = np.concatenate([X[:16], X[:8] / 2 + 0.25, [[90.0, 0.0, 0.0]]])
WIDE = ((np.arange(64)[:, None] * 29 + np.arange(12) * 17 + (np.arange(64)[:, None] * np.arange(12)) % 13) % 97) / 16.0
IDS = (np.arange(64) * 5 + np.arange(64) // 3) % 12
NEW_IDS = np.arange(len(Q)) % 4

POINTS = {
    "psi 16": {"max_samples": 16},
    "psi 2": {"max_samples": 2},
    "standard": {"max_samples": 8, "scaling": "standard"},
    "robust": {"max_samples": 8, "scaling": "robust"},
    "absolute": {"max_samples": 8, "scaling": "absolute"},
    "unscaled": {"max_samples": 33, "scaling": None},
}
GROUPS = {
    "psi 8 and 4": {"max_samples": 8, "group_max_samples": 4},
    "unscaled": {"max_samples": 4, "group_max_samples": 6, "scaling": None},
}


def all_scores(backend="auto"):
    """Everything that is pinned, by name."""
    how = {"n_estimators": 8, "random_state": 7}
    scores = {}

    def points(**params):
        return IDKPointDetector(**params, **how, pool_size=None, max_rows=None)

    for name, params in POINTS.items():
        model = points(**params).fit(X)
        scores[f"points, {name}"] = model.score_samples(Q)
        scores[f"points, {name}, path"] = model.score_path(X[:8])
    model = points(max_samples=16).fit(X)
    scores["points, p-values"] = model.p_values(Q, exact=True)
    scores["points, training data"] = model.score_samples(X)
    scores["points, 12 features"] = points(max_samples=16).fit(WIDE).score_samples(WIDE[:16])
    for name, params in GROUPS.items():
        model = IDKGroupDetector(**params, **how, pool_size=None).fit(X, groups=IDS)
        scores[f"groups, {name}"] = model.scores_
        scores[f"groups, {name}, new"] = model.score_samples(Q, groups=NEW_IDS)
    scores["groups, p-values"] = model.p_values(Q, groups=NEW_IDS, exact=True)
    how["backend"] = backend
    for rule in RULES:
        scores[f"cells, {rule}"] = IsolationKernel(max_samples=8, rule=rule, **how).fit(X).assign_cells(Q)
    scores["cells, voronoi"] = IsolationKernel(max_samples=8, mechanism="voronoi", **how).fit(X).assign_cells(Q)
    kernel = IsolationKernel(max_samples=4, **how).fit(X)
    scores["centers"], scores["squared radii"] = kernel.centers_[:2], kernel.sq_radii_
    scores["gram"] = kernel.gram(X, IDS % 3)
    return {name: np.asarray(values).tolist() for name, values in scores.items()}


@pytest.mark.parametrize("backend", HOST_BACKENDS)
def test_scores_of_the_paper_are_those_that_were_pinned(backend, monkeypatch):
    monkeypatch.setattr(Computing, "backend", backend)
    pinned, computed = json.loads(FILE.read_text()), all_scores(backend)
    assert list(pinned) == list(computed)
    assert [name for name in pinned if pinned[name] != computed[name]] == []


if __name__ == "__main__":
    lines = [f"{json.dumps(name)}: {json.dumps(values)}" for name, values in all_scores().items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
