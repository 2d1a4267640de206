"""The torch backend on a GPU: how far is it from the floor? Prints as it goes; results are kept as JSON.

That it computes the same as NumPy is tested: make test-gpu.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import time
import traceback
from pathlib import Path

import torch
import triton

from isobag import IDKGroupDetector, IDKPointDetector

RESULTS = Path(os.environ.get("OUT", Path(__file__).parent / "results"))
STARTED = time.perf_counter()
results: dict = {}


def elapsed():
    return time.perf_counter() - STARTED


def record(name, **values):
    results[name] = values
    print(
        f"[{elapsed():5.0f} s] {name}: "
        + ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in values.items()),
        flush=True,
    )
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "gpu.json").write_text(json.dumps(results, indent=1))


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
    return results.get("ceilings", {}).get(f"{name}_tflop_s", float("nan")) * 1e12


def points():
    for n, d in ((10_000_000, 10), (1_000_000, 50), (200_000, 784)):
        X = torch.randn(n, d, device="cuda", generator=torch.Generator("cuda").manual_seed(0))
        for where, data, options in (("on the GPU", X, {}), ("from host memory", X.cpu().numpy(), {"device": "cuda"})):
            detector = IDKPointDetector(random_state=0, **options)
            fit = median(lambda detector=detector, data=data: detector.fit(data), 3)
            score = median(lambda detector=detector, data=data: detector.score_samples(data), 3)
            centers = sum(len(view.balls.pool) for view in detector.views_.members)
            floor = n * centers * 3 * (d + 1) / (rate("float32") / 2)  # an addition is half of a fused operation
            record(f"{n:,} x {d}, {where}", fit=fit, score=score, both=fit + score, floor_of_score=floor)
        del X
        torch.cuda.empty_cache()


def groups(n_groups):
    generator = torch.Generator("cuda").manual_seed(0)
    X = torch.randn(n_groups * 100, 2, device="cuda", generator=generator)
    ids = torch.arange(n_groups, device="cuda").repeat_interleave(100)
    for name, options in (
        ("paper", {"max_samples": 256, "group_max_samples": 256, "pool_size": None}),
        ("default", {}),
    ):
        detector = IDKGroupDetector(random_state=0, **options)
        fit = median(lambda detector=detector: detector.fit(X, groups=ids), 3)
        score = median(lambda detector=detector: detector.score_samples(X, groups=ids), 3)
        record(f"{n_groups} groups, {name}", fit=fit, score=score)


PARTS = {
    "machine": machine,
    "ceilings": ceilings,
    "points": points,
    "10,000 groups": lambda: groups(10_000),
    "100,000 groups": lambda: groups(100_000),
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
