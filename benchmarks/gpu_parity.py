"""Does a GPU find what the NumPy backend finds? Each function returns what it compared, or says what differs."""

import multiprocessing
import os

import numpy as np
import torch

from isobag import IDKGroupDetector, IDKPointDetector
from isobag.backends import Compute
from isobag.backends import numpy as definition
from isobag.backends.arrays import octaves
from isobag.data.rows import ArrayRows
from isobag.partitionings import draw_from_rows

GPU = Compute("torch", device="cuda")
_PAIRS = 1 << 16
_shared: dict = {}


def balls_of(X, t, levels, compute):
    """Hyperspheres around rows of X."""
    return draw_from_rows(ArrayRows(X), t, levels, "hypersphere", 0, compute)


def duplicates(rng, n, d):
    X = rng.normal(size=(n, d))
    repeated = rng.random(n) < 0.9
    X[repeated] = X[rng.integers(0, 3, repeated.sum())]
    return X


KINDS = {
    "normal": lambda rng, n, d: rng.normal(size=(n, d)),
    "integer grid": lambda rng, n, d: rng.integers(0, 4, (n, d)).astype(float),
    "90 % duplicates": duplicates,
    "1e8 offset": lambda rng, n, d: 1e8 + rng.normal(size=(n, d)),
    "tiny differences": lambda rng, n, d: 1 + rng.integers(0, 50, (n, d)) * 2.0**-52,
    "mixed magnitudes": lambda rng, n, d: rng.normal(size=(n, d)) * 10.0 ** rng.integers(-12, 12, (n, d)),
    "one far cluster": lambda rng, n, d: rng.normal(size=(n, d)) + np.where(rng.random((n, 1)) < 0.5, 0, 1e6),
    "a few rows far out": lambda rng, n, d: rng.normal(size=(n, d)) * np.where(rng.random((n, 1)) < 0.1, 1e5, 1),
    "float32 grid with an offset": lambda rng, n, d: rng.integers(0, 3, (n, d)) + 2.0**22,
}


def queries_of(rng, X, n):
    a, b = X[rng.integers(0, len(X), n)], X[rng.integers(0, len(X), n)]
    return np.concatenate([X, (a + b) / 2, 2 * a - b, 7 * X[:9]])


def limits_of(rng, balls):
    typical = octaves(np.array([np.median(balls.sq_radii[-1])]))[0]
    limits = np.where(rng.random(len(balls.levels)) < 0.5, typical, -1)
    limits[-1] = typical
    return limits


def small_parity():
    """All verbs, hard data, every level."""
    wrong, checks = [], 0
    verbs = GPU.verbs
    for kind, make in KINDS.items():
        for d in (2, 10, 40):
            rng = np.random.default_rng(d)
            X = make(rng, 700, d)
            Q = queries_of(rng, X, 300)[:: 1 if d < 40 else 3]
            q = verbs.prepare(Q)
            for levels in ((2, 4, 8, 16, 32, 50), (600,)):
                balls = balls_of(X, 2, levels, Compute("numpy"))
                tables = rng.integers(0, 1000, balls.sq_radii.shape)
                limits = limits_of(rng, balls)
                counts, sums = verbs.count_and_sum(q, balls, limits=limits)
                expected = definition.count_and_sum(Q, balls, limits=limits)
                checked = {
                    "radii": (verbs.sq_radii(balls.points, balls.slots, levels), balls.sq_radii),
                    "counts": (counts, expected[0]),
                    "sums": (sums, expected[1]),
                    "count_cells": (verbs.count_cells(q, balls), expected[0]),
                    "sum_at": (
                        verbs.sum_at_cells(q, balls, tables, limits=limits),
                        definition.sum_at_cells(Q, balls, tables, limits=limits),
                    ),
                }
                for rule in ("nearest", "covering", "smallest"):
                    checked[rule] = (verbs.assign_cells(q, balls, rule), definition.assign_cells(Q, balls, rule))
                for name, (own, other) in checked.items():
                    checks += 1
                    own = verbs.fetch(own)  # noqa: PLW2901
                    if not np.array_equal(own, other):
                        wrong.append(f"{kind}, d={d}, levels {levels}, {name}: {np.sum(own != other)} differ")
    assert not wrong, "\n".join(wrong[:20])
    return {"checks": checks, "wrong": len(wrong)}


def group_parity():
    """Scores of groups, from host memory and on the GPU, against NumPy."""
    rng = np.random.default_rng(1)
    wrong = []
    for sizes in (np.full(300, 20), rng.integers(1, 400, 200)):
        ids = np.repeat(np.arange(len(sizes)), sizes)
        X = rng.normal(size=(len(ids), 2))
        for options in ({}, {"max_samples": 32, "group_max_samples": 64}, {"max_samples": 16, "count_outside": True}):
            own = IDKGroupDetector(random_state=0, backend="torch", **options).fit(X, groups=ids)
            other = IDKGroupDetector(random_state=0, backend="numpy", **options).fit(X, groups=ids)
            on_gpu = IDKGroupDetector(random_state=0, **options).fit(
                torch.from_numpy(X).cuda(), groups=torch.from_numpy(ids).cuda()
            )
            if not (np.array_equal(own.scores_, other.scores_) and np.array_equal(on_gpu.scores_, other.scores_)):
                wrong.append(f"{options}: {np.abs(own.scores_ - other.scores_).max()}")
    assert not wrong, wrong
    return {"wrong": len(wrong)}


def point_parity():
    """Scores of points, from host memory and on the GPU, against Numba: NumPy would take minutes."""
    rng = np.random.default_rng(2)
    wrong, compared = [], 0
    for kind in ("normal", "integer grid", "90 % duplicates", "mixed magnitudes", "a few rows far out"):
        X = KINDS[kind](rng, 200_000, 5)
        for options in ({}, {"max_samples": 64}, {"max_samples": 64, "method": "norm"}):
            other = IDKPointDetector(random_state=0, backend="numba", n_jobs=-1, **options).fit_scores(X)
            from_host = IDKPointDetector(random_state=0, backend="torch", **options).fit_scores(X)
            on_gpu = IDKPointDetector(random_state=0, **options).fit_scores(torch.from_numpy(X).cuda())
            compared += 2 * len(X)
            if not (np.array_equal(from_host, other) and np.array_equal(on_gpu.cpu().numpy(), other)):
                wrong.append(f"{kind}, {options}: {np.sum(from_host != other)} differ")
    assert not wrong, wrong
    return {"scores": compared, "wrong": len(wrong)}


SHAPES = [
    ("normal", 3, 64, 2_000_000),
    ("normal", 10, 32, 1_000_000),
    ("integer grid", 5, 16, 1_500_000),
    ("90 % duplicates", 4, 64, 1_000_000),
    ("1e8 offset", 3, 32, 1_500_000),
    ("tiny differences", 3, 32, 1_000_000),
    ("a few rows far out", 2, 64, 1_000_000),
    ("mixed magnitudes", 6, 32, 800_000),
    ("float32 grid with an offset", 3, 64, 500_000),
    ("normal", 40, 16, 300_000),
    ("one far cluster", 40, 16, 200_000),
    ("integer grid", 40, 16, 200_000),
    ("normal", 2, 1024, 50_000),
    ("integer grid", 3, 256, 50_000),
    ("normal", 3, 4096, 20_000),
]
"""Kind of data, features, psi, and number of queries; t = 100."""


def large_parity(say=print):
    """10^9 cells compared with those of the NumPy backend itself, computed by all processors."""
    total = differ = 0
    for kind, d, psi, n in SHAPES:
        rng = np.random.default_rng(d + psi)
        X = KINDS[kind](rng, max(n // 3, 2 * psi), d)
        a, b = X[rng.integers(0, len(X), n)], X[rng.integers(0, len(X), n)]
        Q = np.concatenate([X, (a + b) / 2, 2 * a - b])[:n]
        balls = balls_of(X, 100, (psi,), Compute("numpy"))
        found = GPU.fetch(GPU.verbs.assign_cells(GPU.prepare(Q), balls, "nearest"))
        wrong = count_differences(Q, balls, found)
        total, differ = total + found.size, differ + wrong
        say(f"   {kind}, d={d}, psi={psi}: {found.size:,} cells, {wrong} differ from NumPy")
    assert not differ, f"{differ} of {total} cells differ"
    assert total >= 1e9, f"only {total:,} cells compared"
    return {"cells": total, "differ": differ, "reference": "NumPy"}


def count_differences(Q, balls, found):
    """Number of cells (n, t) that differ from the NumPy backend's."""
    _shared.update(Q=Q, balls=balls, found=found)
    size = max(1, _PAIRS // balls.slots.shape[1])
    blocks = [slice(a, a + size) for a in range(0, len(Q), size)]
    # Forked, so that the arrays are there already; what is forked never touches the GPU.
    with multiprocessing.get_context("fork").Pool(os.cpu_count()) as pool:
        return sum(pool.imap_unordered(_differences, blocks, chunksize=16))


def _differences(rows):
    expected = definition.assign_cells(_shared["Q"][rows], _shared["balls"], "nearest")
    return int(np.count_nonzero(expected != _shared["found"][rows]))
