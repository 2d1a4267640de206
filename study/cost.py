"""What the default costs: CPU time of fit and score in one thread, against other settings and another checkout.

python study/cost.py KIND SET SETTING prints the CPU time of one, of whichever version is on the path.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from isobag import IDKGroupDetector, IDKPointDetector
from study.data import DATA, load_groups
from study.harness import Section, Task, table

POINT_SETS = ("mammography", "ALOI")
GROUP_SETS = ("SDSS_0", "MNIST_4", "Gaussian1K")
SETTINGS = {
    "default": {},
    "level 2 of the paper": {"group_mechanism": "hypersphere"},
    "not calibrated": {"calibrate": False},
}
AGAINST = os.environ.get("ISOBAG_STUDY_AGAINST")
"""The folder src of another checkout, to measure its defaults too."""
ROUNDS = 2


def measure(kind, name):
    """Least CPU seconds over a few rounds, in which all settings and versions take turns."""
    settings = [setting for setting in SETTINGS if kind == "group" or setting != "level 2 of the paper"]
    found = {}
    for _ in range(ROUNDS):
        for setting in settings:
            found.setdefault(setting, []).append(_in_own_process(kind, name, setting))
        if AGAINST:
            found.setdefault("before", []).append(_in_own_process(kind, name, "default", AGAINST))
    return {setting: min(seconds) for setting, seconds in found.items()}


def _in_own_process(kind, name, setting, source=None):
    environment = os.environ | ({"PYTHONPATH": source} if source else {})
    command = [sys.executable, str(Path(__file__).resolve()), kind, name, setting]
    answer = subprocess.run(command, env=environment, capture_output=True, check=True, text=True)
    return json.loads(answer.stdout)


def cpu_seconds(kind, name, setting):
    """CPU seconds of fit and score of all rows or groups, after a small one that compiles what is to be compiled."""
    if kind == "point":
        with np.load(DATA / "point" / f"{name}.npz") as file:
            X, ids = file["X"].astype(np.float64), None
    else:
        X, ids, _ = load_groups(name, 0)
    detector = (IDKPointDetector if kind == "point" else IDKGroupDetector)(
        random_state=0, n_jobs=1, **SETTINGS[setting]
    )
    few = slice(0, 2000)
    _fit_and_score(detector, X[few], None if ids is None else ids[few])
    start = time.process_time()
    _fit_and_score(detector, X, ids)
    return time.process_time() - start


def _fit_and_score(detector, X, ids):
    if ids is None:
        detector.fit(X).score_samples(X)
    else:
        detector.fit(X, groups=ids).score_samples(X, groups=ids)


def _tasks():
    sets = [("point", name) for name in POINT_SETS] + [("group", name) for name in GROUP_SETS]
    return {f"{kind}|{name}": Task(measure, (kind, name)) for kind, name in sets}


def _page(results):
    yield (
        "CPU time of fit and score of all rows or groups, one thread, the least of two rounds in which all take turns."
        " Ratios: the default divided by the same with `group_mechanism='hypersphere'`, with `calibrate=False`, and by"
        " the default as it was before scales, how far out and neighbours came in.\n"
    )
    rows = []
    for key, own in results.items():
        kind, name = key.split("|")
        row = {"set": name, "kind": kind, "default s": own["default"]}
        for setting in ("level 2 of the paper", "not calibrated", "before"):
            row[f"default / {setting}"] = own["default"] / own[setting] if setting in own else None
        rows.append(row)
    yield table(rows)


COST_SECTION = Section("cost", "Time", _tasks, _page)

if __name__ == "__main__":
    print(json.dumps(cpu_seconds(*sys.argv[1:])))
