"""The method of the paper, pinned: with integers for psi no release may change a score, not even in the last bit.

The data are multiples of 1/16 and come in powers of two, so that means, deviations, quartiles and squares are exact and
nothing depends on the order in which a machine adds up. ``python tests/golden/test_paper_scores.py`` writes the file
anew, after a change that is meant and noted in the changelog.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from isobag import IDKGroupDetector, IDKPointDetector, IsolationDistributionalKernel, IsolationKernel
from isobag.backends import HOST_BACKENDS

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
    "voronoi": {"max_samples": 16, "mechanism": "voronoi"},
    "norm": {"max_samples": 16, "method": "norm"},
    "standard": {"max_samples": 8, "scaling": "standard"},
    "robust": {"max_samples": 8, "scaling": "robust"},
    "absolute": {"max_samples": 8, "scaling": "absolute"},
    "unscaled": {"max_samples": 33, "scaling": None},
}
GROUPS = {
    "psi 8 and 4": {"max_samples": 8, "group_max_samples": 4},
    "voronoi at level 1": {"max_samples": 8, "group_max_samples": 4, "point_mechanism": "voronoi"},
    "voronoi at level 2": {"max_samples": 8, "group_max_samples": 4, "group_mechanism": "voronoi"},
    "outside counts": {"max_samples": 8, "group_max_samples": 4, "count_outside": True},
    "unscaled": {"max_samples": 4, "group_max_samples": 6, "scaling": None},
}
RULES = ["nearest", "covering", "smallest"]


def all_scores(backend="auto"):
    """Everything that is pinned, by name."""
    how = {"n_estimators": 8, "random_state": 7, "backend": backend}
    found = {}
    for name, params in POINTS.items():
        model = IDKPointDetector(**params, **how).fit(X)
        found[f"points, {name}"] = model.score_samples(Q)
        found[f"points, {name}, path"] = model.score_path(X[:8])
    model = IDKPointDetector(max_samples=16, tail="exact", **how).fit(X)
    found["points, p-values"] = model.p_values(Q)
    found["points, training data"] = model.score_samples(X)
    found["points, 12 features"] = IDKPointDetector(max_samples=16, **how).fit(WIDE).score_samples(WIDE[:16])
    for name, params in GROUPS.items():
        model = IDKGroupDetector(**params, **how).fit(X, groups=IDS)
        found[f"groups, {name}"] = model.scores_
        found[f"groups, {name}, new"] = model.score_samples(Q, groups=NEW_IDS)
    found["groups, p-values"] = model.set_params(tail="exact").p_values(Q, groups=NEW_IDS)
    for rule in RULES:
        found[f"cells, {rule}"] = IsolationKernel(max_samples=8, rule=rule, **how).fit(X).assign_cells(Q)
    found["cells, voronoi"] = IsolationKernel(max_samples=8, mechanism="voronoi", **how).fit(X).assign_cells(Q)
    kernel = IsolationKernel(max_samples=4, **how).fit(X)
    found["centers"], found["squared radii"] = kernel.centers_[:2], kernel.sq_radii_
    found["gram"] = IsolationDistributionalKernel(max_samples=4, **how).fit(X).gram(X, IDS % 3)
    return {name: np.asarray(values).tolist() for name, values in found.items()}


@pytest.mark.parametrize("backend", HOST_BACKENDS)
def test_scores_of_the_paper_are_those_that_were_pinned(backend):
    pinned, found = json.loads(FILE.read_text()), all_scores(backend)
    assert list(pinned) == list(found)
    assert [name for name in pinned if pinned[name] != found[name]] == []


if __name__ == "__main__":
    lines = [f"{json.dumps(name)}: {json.dumps(values)}" for name, values in all_scores().items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
