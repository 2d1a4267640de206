"""Hashes of results, to see that a change of the code changes none: python benchmarks/bits.py OUT.json [road ...]

Scores, paths, p-values, explanations and cells of the detectors on every backend, and rankings of tables in memory,
and from files. Only public names are used, so that any two versions can be compared:
python benchmarks/bits.py --compare OLD.json NEW.json
"""

import hashlib
import json
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

ROADS = ("estimators", "tables", "command")


def digest(values):
    """A hash of the exact content of an array or a frame."""
    if isinstance(values, pd.DataFrame):
        return digest([np.asarray(values[name]) for name in values])
    if isinstance(values, list | tuple):
        return hashlib.sha256("".join(map(digest, values)).encode()).hexdigest()[:16]
    if isinstance(values, pd.Series):
        values = values.to_numpy()
    values = values.toarray() if hasattr(values, "toarray") else np.asarray(values)
    content = repr(values.tolist()).encode() if values.dtype == object else np.ascontiguousarray(values).tobytes()
    return hashlib.sha256(f"{values.shape}{values.dtype.kind}".encode() + content).hexdigest()[:16]


def point_sets():
    """Small sets of every kind that engines tell apart."""
    rng = np.random.default_rng(0)
    yield "normal3", rng.normal(size=(3000, 3))
    yield "heavy10", rng.standard_t(2, size=(5000, 10))
    yield "grid4", rng.integers(0, 4, size=(2000, 4)).astype(float)
    yield "float32", rng.normal(size=(2500, 30)).astype(np.float32)
    yield "offset", 1e8 + rng.normal(size=(1500, 2))
    yield "wide120", rng.normal(size=(1500, 120))
    yield "wide400", np.round(rng.gamma(0.3, 50, size=(1200, 400))).clip(0, 255)
    yield "tiny", rng.normal(size=(12, 2))


def group_sets():
    """Groups of equal and of unequal sizes, of numbers and of indicators."""
    rng = np.random.default_rng(1)
    yield "equal", rng.normal(size=(6000, 2)), np.repeat(np.arange(120), 50)
    sizes = np.exp(rng.uniform(0, 6, size=150)).astype(int)
    yield "unequal", rng.normal(size=(sizes.sum(), 3)), np.repeat(np.arange(150), sizes)
    yield "events", np.eye(8)[rng.integers(0, 8, size=3000)], np.repeat(np.arange(200), 15)


def estimators():
    """Both detectors and the kernel on every backend."""
    from isobag import IDKGroupDetector, IDKPointDetector, IsolationKernel  # noqa: PLC0415

    backends = ["numpy", "numba"]
    try:
        import torch  # noqa: F401, PLC0415

        backends.append("torch")
    except ImportError:
        pass
    for backend in backends:
        for name, X in point_sets():
            kernel = IsolationKernel(20, 8, random_state=0, backend=backend).fit(X)
            yield f"cells/{name}/{backend}", kernel.assign_cells(X)
            for options in ({}, {"max_samples": 8}, {"max_samples": 8, "mechanism": "iforest"}, {"method": "norm"}):
                if backend == "numpy" and (X.shape[1] > 100 or options.get("mechanism")):
                    continue
                key = f"points/{name}/{backend}/{sorted(options.items())}"
                try:
                    own = IDKPointDetector(random_state=0, backend=backend, **options).fit(X)
                except ValueError as error:
                    yield f"{key}/error", np.array([type(error).__name__])
                    continue
                yield f"{key}/scores", own.score_samples(X)
                yield f"{key}/p", own.p_values(X[::7] + 0.1)
                yield f"{key}/explained", own.explain(X[:5])
                yield f"{key}/flags", own.predict(X)
                if not options:
                    yield f"{key}/path", own.score_path(X[:50])
        for name, X, groups in group_sets():
            for options in ({}, {"max_samples": 16, "group_max_samples": 16}):
                if backend == "numpy" and not options:
                    continue
                key = f"groups/{name}/{backend}/{sorted(options.items())}"
                own = IDKGroupDetector(random_state=0, backend=backend, **options).fit(X, groups=groups)
                yield f"{key}/scores", own.scores_
                yield f"{key}/p", own.p_values(X, groups=groups)
                yield f"{key}/explained", own.explain(X[groups < 3], groups=groups[groups < 3])


def table():
    """A table as people have them: numbers, text, times, identifiers, labels."""
    rng = np.random.default_rng(2)
    n = 4000
    return pd.DataFrame(
        {
            "id": np.arange(n),
            "account": [f"a{i}" for i in rng.integers(0, 90, size=n)],
            "amount": rng.lognormal(size=n).round(2),
            "hour": rng.integers(0, 24, size=n),
            "kind": rng.choice(["card", "cash", "wire", "rare"], p=[0.6, 0.3, 0.09, 0.01], size=n),
            "ok": rng.random(n) < 0.9,
            "x": rng.normal(size=n),
        }
    )


FEATURES = ["amount", "hour", "kind", "x"]


def tables():
    """Rankings of frames."""
    from isobag import detect_groups, detect_points  # noqa: PLC0415

    frame = table()
    yield "tables/points", detect_points(frame, random_state=0)
    yield "tables/points/text", detect_points(frame, features=FEATURES, id_column="id", random_state=0)
    yield "tables/groups", detect_groups(frame, by="account", random_state=0)
    yield "tables/groups/text", detect_groups(frame, by=["account", "ok"], features=FEATURES, random_state=0)


def command():
    """What the command writes."""
    from typer.testing import CliRunner  # noqa: PLC0415

    from isobag.cli.app import app  # noqa: PLC0415

    frame = table()
    with tempfile.TemporaryDirectory() as folder:
        paths = {"csv": Path(folder, "t.csv"), "parquet": Path(folder, "t.parquet")}
        frame.to_csv(paths["csv"], index=False)
        frame.to_parquet(paths["parquet"])
        for kind, path in paths.items():
            out, model = Path(folder, "out.parquet"), Path(folder, "m.isobag")
            for name, args in {
                "points": ("points", path),
                "groups": ("groups", path, "--by", "account"),
                "fit": ("fit", path, "--model", model, "--features", ",".join(FEATURES)),
                "score": ("score", model, path),
            }.items():
                extra = () if name == "fit" else ("--out", out)
                result = CliRunner().invoke(app, [*map(str, args), *map(str, extra), "--quiet"])
                if result.exit_code:
                    raise RuntimeError(f"{args}: {result.output}")
                if name != "fit":
                    yield f"command/{name}/{kind}", pd.read_parquet(out)


def compare(old, new):
    """Print what differs; whether nothing does."""
    old, new = (json.loads(Path(path).read_text()) for path in (old, new))
    differing = [key for key in old if key in new and old[key] != new[key]]
    for key in differing:
        print("differs:", key)
    for key in sorted(set(old) ^ set(new)):
        print("only in one:", key)
    print(f"{len(set(old) & set(new))} compared, {len(differing)} differ")
    return not differing


if __name__ == "__main__":
    if sys.argv[1] == "--compare":
        sys.exit(0 if compare(*sys.argv[2:4]) else 1)
    warnings.simplefilter("ignore")
    hashes = {}
    for road in sys.argv[2:] or ROADS:
        for key, values in globals()[road]():
            hashes[key] = digest(values)
            Path(sys.argv[1]).write_text(json.dumps(hashes, indent=1))
        Path(sys.argv[1]).write_text(json.dumps(hashes, indent=1))
        print(road, len(hashes))
