"""The torch backend on a GPU: is it right, and how far from the floor? Prints as it goes; results are kept as JSON."""

import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import traceback
from pathlib import Path

import numpy as np
import torch
import triton

from isobag import IDKGroupDetector, IDKPointDetector
from isobag.backends import Compute
from isobag.backends import numpy as definition
from isobag.backends.arrays import Balls, octaves
from isobag.backends.torch import plain
from isobag.data.rows import ArrayRows
from isobag.partitionings import draw_from_rows

RESULTS = Path(os.environ.get("OUT", Path(__file__).parent / "results"))
GPU = Compute("torch", device="cuda")
HAS_NUMBA = importlib.util.find_spec("numba") is not None
CPU = Compute("numba" if HAS_NUMBA else "numpy", n_jobs=-1)
BUDGET = float(os.environ.get("BENCH_SECONDS", "470"))
STARTED = time.perf_counter()
found: dict = {}


def elapsed():
    return time.perf_counter() - STARTED


def record(name, **values):
    found[name] = values
    print(
        f"[{elapsed():5.0f} s] {name}: "
        + ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in values.items()),
        flush=True,
    )
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "gpu.json").write_text(json.dumps(found, indent=1))


def median(function, repeats=5, warm=1):
    for _ in range(warm):
        function()
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        function()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def machine():
    driver = subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    record(
        "machine",
        gpu=torch.cuda.get_device_name(),
        driver=driver,
        torch=torch.__version__,
        triton=triton.__version__,
        python=platform.python_version(),
        cores=os.cpu_count(),
    )


def ceilings():
    source = torch.randint(0, 255, (1 << 32,), dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    copy = 2 * source.numel() / median(lambda: target.copy_(source))
    host = torch.empty(1 << 29, dtype=torch.uint8)
    pinned = torch.empty(1 << 29, dtype=torch.uint8, pin_memory=True)
    up = host.numel() / median(lambda: target[: 1 << 29].copy_(host), 3)
    up_pinned = host.numel() / median(lambda: target[: 1 << 29].copy_(pinned), 3)
    down = host.numel() / median(lambda: pinned.copy_(source[: 1 << 29]), 3)
    rates = {}
    for name, dtype, tf32 in (
        ("float64", torch.float64, False),
        ("float32", torch.float32, False),
        ("tf32", torch.float32, True),
        ("float16", torch.float16, False),
    ):
        a, b = (torch.randn(8192, 8192, device="cuda").to(dtype) for _ in range(2))
        torch.backends.cuda.matmul.allow_tf32 = tf32
        rates[name] = 2 * 8192**3 / median(lambda a=a, b=b: a @ b)
    torch.backends.cuda.matmul.allow_tf32 = False
    a, b = (torch.randint(-100, 100, (8192, 8192), device="cuda").to(torch.int8) for _ in range(2))
    rates["int8"] = 2 * 8192**3 / median(lambda: torch._int_mm(a, b.t()))  # noqa: SLF001
    record(
        "ceilings",
        copy_tb_s=copy / 1e12,
        host_to_gpu_gb_s=up / 1e9,
        pinned_gb_s=up_pinned / 1e9,
        gpu_to_pinned_gb_s=down / 1e9,
        **{f"{k}_tflop_s": v / 1e12 for k, v in rates.items()},
    )


def rate(name):
    return found.get("ceilings", {}).get(f"{name}_tflop_s", float("nan")) * 1e12


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


def balls_of(X, t, levels, compute):
    return draw_from_rows(ArrayRows(X), t, levels, "hypersphere", 0, compute)


def limits_of(rng, balls):
    typical = octaves(np.array([np.median(balls.sq_radii[-1])]))[0]
    limits = np.where(rng.random(len(balls.levels)) < 0.5, typical, -1)
    limits[-1] = typical
    return limits


def small_parity():
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
                    if not np.array_equal(own, other):
                        wrong.append(f"{kind}, d={d}, levels {levels}, {name}: {np.sum(own != other)} differ")
        if elapsed() > BUDGET:
            break
    record("small parity", checks=checks, wrong=len(wrong))
    assert not wrong, "\n".join(wrong[:20])


def group_parity():
    rng = np.random.default_rng(1)
    wrong = []
    for sizes in (np.full(300, 20), rng.integers(1, 400, 200)):
        ids = np.repeat(np.arange(len(sizes)), sizes)
        X = rng.normal(size=(len(ids), 2))
        for options in ({}, {"max_samples": 32, "group_max_samples": 64}, {"max_samples": 16, "count_outside": True}):
            own = IDKGroupDetector(random_state=0, backend="torch", **options).fit(X, groups=ids)
            other = IDKGroupDetector(random_state=0, backend=CPU.backend, n_jobs=-1, **options).fit(X, groups=ids)
            on_gpu = IDKGroupDetector(random_state=0, **options).fit(
                torch.from_numpy(X).cuda(), groups=torch.from_numpy(ids).cuda()
            )
            if not (np.array_equal(own.scores_, other.scores_) and np.array_equal(on_gpu.scores_, other.scores_)):
                wrong.append(f"{options}: {np.abs(own.scores_ - other.scores_).max()}")
    record("group parity", wrong=len(wrong))
    assert not wrong, wrong


def point_parity():
    rng = np.random.default_rng(2)
    wrong, compared = [], 0
    for kind in ("normal", "integer grid", "90 % duplicates", "mixed magnitudes", "a few rows far out"):
        X = KINDS[kind](rng, 200_000, 5)
        for options in ({}, {"max_samples": 64}, {"max_samples": 64, "method": "norm"}):
            other = IDKPointDetector(random_state=0, backend=CPU.backend, n_jobs=-1, **options).fit_scores(X)
            from_host = IDKPointDetector(random_state=0, backend="torch", **options).fit_scores(X)
            on_gpu = IDKPointDetector(random_state=0, **options).fit_scores(torch.from_numpy(X).cuda())
            compared += 2 * len(X)
            if not (np.array_equal(from_host, other) and np.array_equal(on_gpu.cpu().numpy(), other)):
                wrong.append(f"{kind}, {options}: {np.sum(from_host != other)} differ")
    record("point parity", scores=compared, wrong=len(wrong))
    assert not wrong, wrong


def http():
    rng = np.random.default_rng(0)
    n, d, t, psi = 567_498, 3, 100, 4096
    floor = 3 * n * t * psi * d / rate("float32")
    for name, X in (("normal", rng.normal(size=(n, d))), ("heavy duplicates", np.round(rng.gamma(1, 1, (n, d)) * 12))):
        balls = balls_of(X, t, (psi,), GPU)
        q = GPU.verbs.prepare(X)
        took = median(lambda q=q, balls=balls: GPU.verbs.device_cells(q, balls, "nearest"), 5)
        record(f"http-like, {name}", seconds=took, floor=floor, share_of_float32=floor / took, target=0.10)


def pictures():
    n, d, t, psi = 1_000_000, 784, 100, 256
    generator = torch.Generator("cuda").manual_seed(0)
    flops = 2 * n * t * psi * d
    for name in ("normal", "clusters"):
        X = torch.randn(n, d, device="cuda", generator=generator)
        if name == "clusters":
            X = (
                X * 0.3
                + torch.randn(64, d, device="cuda", generator=generator)[
                    torch.randint(0, 64, (n,), device="cuda", generator=generator)
                ]
            )
        balls = balls_of(X[:100_000].double().cpu().numpy(), t, (psi,), GPU)

        def cells(X=X, balls=balls):
            for rows in range(0, n, 125_000):
                GPU.verbs.device_cells(GPU.verbs.prepare(X[rows : rows + 125_000]), balls, "nearest")

        took = median(cells, 3)
        record(
            f"1,000,000 x 784, {name}",
            seconds=took,
            tf32_floor=flops / rate("tf32"),
            share_of_tf32=flops / took / rate("tf32"),
            float16_floor=flops / rate("float16"),
            target_share=0.4,
        )
        del X
        torch.cuda.empty_cache()


def groups(n_groups, target):
    generator = torch.Generator("cuda").manual_seed(0)
    X = torch.randn(n_groups * 100, 2, device="cuda", generator=generator)
    ids = torch.arange(n_groups, device="cuda").repeat_interleave(100)
    for name, options in (
        ("paper", {"max_samples": 256, "group_max_samples": 256, "calibrate": False}),
        ("default", {}),
    ):
        detector = IDKGroupDetector(random_state=0, **options)
        fit = median(lambda detector=detector: detector.fit(X, groups=ids), 3)
        score = median(lambda detector=detector: detector.score_samples(X, groups=ids), 3)
        level2 = detector.level2_
        others = level2.references if name == "default" else level2.partitionings.centers
        centers = others.counts.shape
        floor = 2 * n_groups * centers[0] * centers[1] / rate("int8")
        record(
            f"{n_groups} groups, {name}", fit=fit, score=score, both=fit + score, int8_floor_once=floor, target=target
        )
        if elapsed() > BUDGET:
            return


def ten_million():
    n, d = 10_000_000, 10
    X = np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)
    on_gpu = torch.from_numpy(X).cuda()
    pairs = 3 * n * 100 * 256 * d
    for name, data, options, target in (
        ("on the GPU", on_gpu, {}, 1.5),
        ("from host memory", X, {"backend": "torch"}, 3.0),
    ):
        detector = IDKPointDetector(random_state=0, n_jobs=-1, **options)
        fit = median(lambda detector=detector, data=data: detector.fit(data), 2)
        score = median(lambda detector=detector, data=data: detector.score_samples(data), 2)
        record(
            f"10 million x 10, {name}",
            fit=fit,
            score=score,
            both=fit + score,
            floor_of_one_pass=pairs / rate("float32"),
            copy_floor=X.nbytes / (found["ceilings"]["host_to_gpu_gb_s"] * 1e9),
            target=target,
        )
    passes()


def passes():
    """The parts of it: one million rows, nested psi."""
    X = np.random.default_rng(0).standard_normal((1_000_000, 10))
    balls = balls_of(X, 100, (2, 4, 8, 16, 32, 64, 128, 256), GPU)
    q = GPU.verbs.prepare(X)
    tables = np.ones(balls.sq_radii.shape, dtype=np.int64)
    limits = balls.far_limits()
    GPU.verbs.device_cells(q, balls, "nearest")
    record(
        "passes of 1,000,000 x 10, 8 levels",
        count=median(lambda: GPU.verbs.count_cells(q, balls), 3),
        sums=median(lambda: GPU.verbs.sum_at_cells(q, balls, tables), 3),
        both_with_cells_kept=median(lambda: GPU.verbs.count_and_sum(q, balls), 3),
        sums_and_far=median(lambda: GPU.verbs.sum_at_cells(q, balls, tables, limits=limits), 3),
        both_and_far=median(lambda: GPU.verbs.count_and_sum(q, balls, limits=limits), 3),
    )


REFERENCE = "Numba" if HAS_NUMBA else "float64 definition in plain torch"


def reference_cells(Q, balls):
    """Cells (t, n) by another road: Numba on the processor or, without it, the definition in plain torch.

    Of the latter, a part is compared with NumPy.
    """
    if HAS_NUMBA:
        return torch.from_numpy(np.ascontiguousarray(CPU.verbs.assign_cells(CPU.prepare(Q), balls, "nearest", -1).T))
    cells = plain.assign(torch.from_numpy(np.ascontiguousarray(Q.T)).cuda(), balls, "nearest")
    some = np.linspace(0, len(Q) - 1, 2000).astype(int)
    few = Balls(balls.points, balls.slots[:10], balls.levels, balls.sq_radii[:, :10])
    assert np.array_equal(cells[:10, some].cpu().numpy().T, definition.assign_cells(Q[some], few, "nearest"))
    return cells


def large_parity():
    total = differ = 0
    shapes = [
        ("normal", 3, 256, 600_000),
        ("normal", 10, 256, 600_000),
        ("integer grid", 5, 64, 300_000),
        ("90 % duplicates", 4, 256, 600_000),
        ("1e8 offset", 3, 128, 600_000),
        ("tiny differences", 3, 64, 300_000),
        ("a few rows far out", 2, 256, 600_000),
        ("mixed magnitudes", 6, 128, 300_000),
        ("normal", 40, 128, 300_000),
        ("one far cluster", 40, 64, 300_000),
        ("integer grid", 40, 32, 100_000),
        ("normal", 2, 1024, 600_000),
    ]
    for repeat in range(3):
        for kind, d, psi, n in shapes:
            if elapsed() > BUDGET or (total > 1.2e9 and repeat):
                break
            rng = np.random.default_rng(100 * repeat + d)
            X = KINDS[kind](rng, n, d)
            Q = np.concatenate([X, (X + X[rng.permutation(n)]) / 2, 2 * X[: n // 2] - X[n // 2 : n // 2 * 2]])
            balls = balls_of(X, 100, (psi,), CPU)
            start = time.perf_counter()
            expected = reference_cells(Q, balls)
            middle = time.perf_counter()
            own = GPU.verbs.device_cells(GPU.prepare(Q), balls, "nearest")
            torch.cuda.synchronize()
            end = time.perf_counter()
            wrong = int((own != expected.cuda()).sum())
            total, differ = total + expected.numel(), differ + wrong
            print(
                f"   {kind}, d={d}, psi={psi}: {expected.numel():,} cells, {wrong} differ; "
                f"{REFERENCE} {middle - start:.2f} s, GPU {end - middle:.3f} s",
                flush=True,
            )
    record("large parity", cells=total, differ=differ)
    assert not differ
    assert total >= 1e9, f"only {total:,} cells compared in the time there was"


PARTS = {
    "machine": machine,
    "ceilings": ceilings,
    "small parity": small_parity,
    "group parity": group_parity,
    "point parity": point_parity,
    "http": http,
    "pictures": pictures,
    "10,000 groups": lambda: groups(10_000, 0.10),
    "100,000 groups": lambda: groups(100_000, 1.5),
    "ten million": ten_million,
    "large parity": large_parity,
}


def main(names):
    failed = []
    for name, part in PARTS.items():
        if names and name not in names:
            continue
        try:
            part()
        except Exception:
            failed.append(name)
            print(f"FAILED {name}", flush=True)
            traceback.print_exc(limit=-6, file=sys.stdout)
        torch.cuda.empty_cache()
    record("failed", parts=failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
