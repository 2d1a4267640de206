"""The torch backend on a GPU: is it right, and how far from the floor? Prints as it goes; results are kept as JSON."""

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
from gpu_parity import GPU, balls_of, group_parity, large_parity, point_parity, small_parity

from isobag import IDKGroupDetector, IDKPointDetector
from isobag.data.device import StreamedRows
from isobag.datasets import DatasetNotAvailableError, load, make_scale_up

RESULTS = Path(os.environ.get("OUT", Path(__file__).parent / "results"))
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


def http():
    rng = np.random.default_rng(0)
    n, d, t, psi = 567_498, 3, 100, 4096
    floor = 3 * n * t * psi * d / rate("float32")
    sets = {"normal": rng.normal(size=(n, d)), "integer grid": np.round(rng.gamma(1, 1, (n, d)) * 12)}
    try:
        sets["http itself"] = load("http").X
    except DatasetNotAvailableError as error:
        print(f"   http itself is left out: {error}")
    for name, X in sets.items():
        balls = balls_of(X, t, (psi,), GPU)
        q = GPU.verbs.prepare(X)
        took = median(lambda q=q, balls=balls: GPU.verbs.assign_cells(q, balls, "nearest"), 5)
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
                GPU.verbs.assign_cells(GPU.verbs.prepare(X[rows : rows + 125_000]), balls, "nearest")

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
    streamed(X, on_gpu)
    passes()


def streamed(X, on_gpu):
    """The same rows where there is room for a million at a time: copies overlap work."""
    rows = StreamedRows(X, on_gpu.device, 1_000_000)
    detector = IDKPointDetector(random_state=0, n_jobs=-1, backend="torch").fit(on_gpu)
    record(
        "10 million x 10, a million rows at a time",
        copying_alone=median(lambda: [None for _ in rows.blocks()], 3),
        score=median(lambda: detector.score_samples(rows), 2),
        fit=median(lambda: IDKPointDetector(random_state=0, n_jobs=-1, backend="torch").fit(rows), 2),
    )


def scale_up():
    """The column of ``isobag reproduce scaleup``: seconds of fit on groups of 100 points, psi = psi2 = 16."""
    seconds = {}
    for n in (1000, 2000, 5000, 10000):
        X, ids, _ = make_scale_up(n, random_state=0)
        own = torch.from_numpy(X).cuda(), torch.from_numpy(ids).cuda()
        detector = IDKGroupDetector(100, 16, 16, calibrate=False, random_state=0)
        seconds[f"{n} groups"] = median(lambda own=own, detector=detector: detector.fit(own[0], groups=own[1]), 3)
    record("scaleup", **seconds, paper_10000=216)


def passes():
    """The parts of it: one million rows, nested psi."""
    X = np.random.default_rng(0).standard_normal((1_000_000, 10))
    balls = balls_of(X, 100, (2, 4, 8, 16, 32, 64, 128, 256), GPU)
    q = GPU.verbs.prepare(X)
    tables = np.ones(balls.sq_radii.shape, dtype=np.int64)
    limits = balls.far_limits()
    GPU.verbs.assign_cells(q, balls, "nearest")
    record(
        "passes of 1,000,000 x 10, 8 levels",
        count=median(lambda: GPU.verbs.count_cells(q, balls), 3),
        sums=median(lambda: GPU.verbs.sum_at_cells(q, balls, tables), 3),
        both_with_cells_kept=median(lambda: GPU.verbs.count_and_sum(q, balls), 3),
        sums_and_far=median(lambda: GPU.verbs.sum_at_cells(q, balls, tables, limits=limits), 3),
        both_and_far=median(lambda: GPU.verbs.count_and_sum(q, balls, limits=limits), 3),
    )


PARTS = {
    "machine": machine,
    "ceilings": ceilings,
    "small parity": lambda: record("small parity", **small_parity()),
    "group parity": lambda: record("group parity", **group_parity()),
    "point parity": lambda: record("point parity", **point_parity()),
    "large parity": lambda: record("large parity", **large_parity()),
    "http": http,
    "pictures": pictures,
    "10,000 groups": lambda: groups(10_000, 0.10),
    "100,000 groups": lambda: groups(100_000, 1.5),
    "scaleup": scale_up,
    "ten million": ten_million,
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
