"""Speed against another version, in turns: python benchmarks/against.py SRC [set ...]

SRC is the folder src of another checkout. Each version has a process of its own; both stay, and measure by turns the
defaults' fit + score of all rows (or, for groups, fit, which scores them), so that whatever else the machine does slows
both alike. Ratios above 1: this version is faster. Scores are compared bit by bit.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("ISOBAG_DATA", ROOT.parent / "shared" / "data"))
THREADS = 2
SETS = ("http", "ForestCover", "shuttle", "mammography", "small", "groups")
ROUNDS = 5


def work_on(name):
    """The work that is measured on a set, a function without arguments that returns scores."""
    from isobag import IDKGroupDetector, IDKPointDetector  # noqa: PLC0415, of whichever version is on the path
    from isobag.datasets import make_scale_up  # noqa: PLC0415

    if name == "groups":  # 1,000 of 100 points
        X, groups, _ = make_scale_up(1000, random_state=0)
        return lambda: IDKGroupDetector(random_state=0, n_jobs=THREADS).fit(X, groups=groups).scores_
    if name == "small":
        X = np.random.default_rng(0).normal(size=(500, 4))
    else:
        with np.load(DATA / "point" / f"{name}.npz") as file:
            X = file["X"].astype(np.float64)
    return lambda: IDKPointDetector(random_state=0, n_jobs=THREADS).fit(X).score_samples(X)


def serve():
    """Read names of sets and measure, a line of JSON each: first a name, to warm up, then empty lines for it again."""
    work = None
    for line in sys.stdin:
        work = work_on(line.strip()) if line.strip() else work
        wall, cpu = time.perf_counter(), time.process_time()
        scores = work()
        found = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        print(json.dumps({**found, "scores": hashlib.sha256(scores.tobytes()).hexdigest()}), flush=True)


class Version:
    """A process that measures one version."""

    def __init__(self, src):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve"],
            env=os.environ | {"PYTHONPATH": str(src)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def measure(self, name=""):
        self.process.stdin.write(f"{name}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit("A version under test has stopped; see above.")
        return json.loads(line)


def compare(name, this, other, rounds):
    same = this.measure(name)["scores"] == other.measure(name)["scores"]
    pairs = [(this.measure(), other.measure()) for _ in range(rounds)]
    row = {"set": name, "same bits": same}
    for clock in ("wall", "cpu"):
        mine, theirs = (np.array([pair[k][clock] for pair in pairs]) for k in range(2))
        row |= {
            f"this, {clock} s": mine.min(),
            f"ratio of best {clock}": theirs.min() / mine.min(),
            f"median ratio {clock}": float(np.median(theirs / mine)),
        }
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("src", nargs="?", help="folder src of another checkout")
    parser.add_argument("sets", nargs="*", help=f"default: {' '.join(SETS)}")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        serve()
        return
    if asked.src is None or not (Path(asked.src) / "isobag").is_dir():
        parser.error(f"{asked.src}: no folder with isobag in it")
    this, other = Version(ROOT / "src"), Version(Path(asked.src).resolve())
    rows = []
    for name in asked.sets or SETS:
        rows.append(compare(name, this, other, asked.rounds))
        print(
            "  ".join(f"{k}: {v:.3g}" if isinstance(v, float) else f"{k}: {v}" for k, v in rows[-1].items()), flush=True
        )
    results = ROOT / "benchmarks" / "results"
    results.mkdir(exist_ok=True)
    (results / "against.json").write_text(json.dumps({"threads": THREADS, "rows": rows}, default=float, indent=1))


if __name__ == "__main__":
    main()
