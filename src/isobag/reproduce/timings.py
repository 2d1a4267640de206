"""Run times: the http table, and the scale-up test of group detectors."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sklearn.ensemble import IsolationForest
from sklearn.svm import OneClassSVM

from isobag.baselines import INNE, OCSMM, GaussianPointDetector, RecursiveNystroem, TwoLevelGroupDetector
from isobag.data.scaling import fit_scaling
from isobag.datasets import load, make_scale_up
from isobag.estimators import IDKGroupDetector, IDKPointDetector
from isobag.reproduce import paper
from isobag.reproduce.cells import Outcome, Record
from isobag.reproduce.experiment import Experiment, Outcomes, markdown_table, remarks, shown_status
from isobag.reproduce.figures import draw_lines

PSI = 16
PSI2 = 16
BANDWIDTH = 0.125
GROUP_COUNTS = (1000, 2000, 5000, 10000)
GPU = "IDK2 on a GPU"

POINT_DETECTORS: dict[str, Callable[[int], Any]] = {
    "IDK": lambda n_jobs: IDKPointDetector(100, PSI, calibrate=False, random_state=0, n_jobs=n_jobs),
    "K_G": lambda n_jobs: GaussianPointDetector(BANDWIDTH, n_jobs=n_jobs),
    "K_NG": lambda n_jobs: GaussianPointDetector(BANDWIDTH, approximation="nystroem", random_state=0, n_jobs=n_jobs),
    "OCSVM": lambda n_jobs: OneClassSVM(gamma=0.5 / BANDWIDTH**2),
    "iNNE": lambda n_jobs: INNE(100, PSI, random_state=0, n_jobs=n_jobs),
    "iForest": lambda n_jobs: IsolationForest(n_estimators=100, random_state=0, n_jobs=n_jobs),
}
GROUP_DETECTORS: dict[str, Callable[[int], Any]] = {
    "IDK2": lambda n_jobs: IDKGroupDetector(100, PSI, PSI2, calibrate=False, random_state=0, n_jobs=n_jobs),
    "GDK2": lambda n_jobs: TwoLevelGroupDetector(
        RecursiveNystroem(BANDWIDTH, random_state=0),
        GaussianPointDetector(BANDWIDTH, approximation="nystroem", scaling=None, random_state=0, n_jobs=n_jobs),
    ),
    "OCSMM": lambda n_jobs: OCSMM(bandwidth=BANDWIDTH, n_jobs=n_jobs),
}


def time_points(name: str, detector: str, n_seeds: int, folder: str | None, n_jobs: int) -> Iterator[Record]:
    """Wall and CPU seconds of fit and of scoring all rows, once compiled code is there."""
    X = load(name, folder=folder).X
    X = fit_scaling(X, "minmax").apply(X)
    make = POINT_DETECTORS[detector]
    make(n_jobs).fit(X[:1000]).score_samples(X[:1000])
    wall, cpu = time.perf_counter(), time.process_time()
    model = make(n_jobs).fit(X)
    yield {"step": "train", "wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    wall, cpu = time.perf_counter(), time.process_time()
    model.score_samples(X)
    yield {"step": "test", "wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def time_groups(name: str, detector: str, n_seeds: int, folder: str | None, n_jobs: int) -> Iterator[Record]:
    """Wall seconds of fit, which scores the groups, on so many groups of 100 points."""
    X, groups, _ = make_scale_up(int(name), random_state=0)
    make = GROUP_DETECTORS["IDK2" if detector == GPU else detector]
    if detector == GPU:
        X, groups = _on_gpu(X, groups)
    make(n_jobs).fit(X[:2000], groups=groups[:2000])
    start = time.perf_counter()
    make(n_jobs).fit(X, groups=groups)
    yield {"wall": time.perf_counter() - start}


def _on_gpu(*arrays: Any) -> list[Any]:
    """Arrays as tensors on the GPU, where data live that are worked on there."""
    try:
        from isobag.backends.torch.devices import problem_with_cuda, resolve, tensor  # noqa: PLC0415, only if asked for
    except ImportError as error:
        raise NotImplementedError(f"{GPU}: {error}") from None
    problem = problem_with_cuda()
    if problem:
        raise NotImplementedError(f"{GPU}: {problem}")
    return [tensor(own, resolve("cuda")) for own in arrays]


def report_runtime(outcomes: Outcomes, folder: Path) -> str:
    """CPU seconds of training and testing beside the published ones."""
    rows = []
    for (dataset, detector), outcome in outcomes.items():
        steps = {record["step"]: record for record in outcome.records}
        published = paper.HTTP_CPU_SECONDS[detector] if dataset == "http" else (None, None)
        for step, printed in zip(("train", "test"), published, strict=True):
            rows.append([dataset, detector, step, printed, *_step(outcome, steps.get(step), printed)])
    columns = ["set", "detector", "step", "paper, CPU s", "here, CPU s", "difference", "here, wall s"]
    return (
        f"psi = {PSI}, bandwidth {BANDWIDTH:g}, t = 100; iForest with its default of 256 rows for a tree. "
        "`fit` computes the scores of the training rows as well, for its threshold.\n\n"
        + markdown_table(columns, rows)
        + f"\n{remarks(outcomes)}"
    )


def _step(outcome: Outcome, here: Record | None, printed: float | None) -> list[str | None]:
    if here is None:
        return [shown_status(outcome), None, None]
    less = None if printed is None else f"{here['cpu'] - printed:+.0f}"
    return [f"{here['cpu']:.2f}", less, f"{here['wall']:.2f}"]


def report_scale_up(outcomes: Outcomes, folder: Path) -> str:
    """Run time by number of groups, and how it grows from the fewest to the most."""
    lines: dict[str, list[tuple[float, float]]] = {}
    rows = []
    for (count, detector), outcome in outcomes.items():
        published = paper.SCALE_UP_SECONDS.get(detector) if count == "10000" else None
        if not outcome.records:
            rows.append([count, detector, published, shown_status(outcome), None])
            continue
        seconds = outcome.records[0]["wall"]
        lines.setdefault(detector, []).append((float(count), seconds))
        less = None if published is None else f"{seconds - published:+.0f}"
        rows.append([count, detector, published, f"{seconds:.2f}", less])
    growth = [_growth(detector, points) for detector, points in lines.items() if len(points) > 1]
    draw_lines(lines, "groups of 100 points", "seconds", folder / "scaleup.png")
    return (
        f"psi = {PSI}, psi2 = {PSI2}, t = 100, bandwidth {BANDWIDTH:g}; the paper does not say its own.\n\n"
        + markdown_table(["groups", "detector", "paper, s", "here, s", "difference"], rows)
        + "\nRun time on the most groups over that on the fewest:\n\n"
        + markdown_table(["detector", "groups", "paper, 1,000 to 10,000", "here", "difference"], growth)
        + f"\n![Run time by number of groups](scaleup.png)\n\n{remarks(outcomes)}"
    )


def _growth(detector: str, points: list[tuple[float, float]]) -> list[Any]:
    (fewest, fast), (most, slow) = min(points), max(points)
    published = paper.SCALE_UP_FACTORS.get(detector)
    factor = slow / fast
    less = f"{factor - published:+.1f}" if published is not None and most == 10 * fewest else None
    return [detector, f"{fewest:,.0f} to {most:,.0f}", published, f"{factor:.1f}", less]


RUNTIME = Experiment(
    "runtime",
    "Run time on http",
    ("http",),
    tuple(POINT_DETECTORS),
    "isobag.reproduce.timings:time_points",
    None,
    report_runtime,
)
SCALE_UP = Experiment(
    "scaleup",
    "Scale-up: 1,000 to 10,000 groups",
    tuple(map(str, GROUP_COUNTS)),
    (*GROUP_DETECTORS, GPU),
    "isobag.reproduce.timings:time_groups",
    None,
    report_scale_up,
    takes_any_set=False,
)
