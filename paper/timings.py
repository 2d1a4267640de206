"""Run times: the http table, and the scale-up test of group detectors."""

import time

from sklearn.ensemble import IsolationForest
from sklearn.svm import OneClassSVM

from isobag import IDKGroupDetector, IDKPointDetector
from isobag.datasets import load, make_scale_up
from paper import printed
from paper.balls import INNE
from paper.figures import draw_lines
from paper.gaussian import OCSMM, GaussianDetector
from paper.searches import GDK2, TO_THE_LETTER, to_unit_cube
from paper.tables import Experiment, markdown_table, remarks, shown_status

PSI = PSI2 = 16
BANDWIDTH = 0.125
GPU = "IDK2 on a GPU"

POINT_DETECTORS = {
    "IDK": lambda n_jobs: IDKPointDetector(100, PSI, **TO_THE_LETTER, random_state=0, n_jobs=n_jobs),
    "K_G": lambda n_jobs: GaussianDetector(BANDWIDTH, n_jobs=n_jobs),
    "K_NG": lambda n_jobs: GaussianDetector(BANDWIDTH, nystroem=True, n_jobs=n_jobs),
    "OCSVM": lambda n_jobs: OneClassSVM(gamma=0.5 / BANDWIDTH**2),
    "iNNE": lambda n_jobs: INNE(100, PSI, n_jobs=n_jobs),
    "iForest": lambda n_jobs: IsolationForest(random_state=0, n_jobs=n_jobs),
}
GROUP_DETECTORS = {
    "IDK2": lambda n_jobs: IDKGroupDetector(100, PSI, PSI2, pool_size=None, random_state=0, n_jobs=n_jobs),
    "GDK2": lambda n_jobs: GDK2(BANDWIDTH, BANDWIDTH, n_jobs=n_jobs),
    "OCSMM": lambda n_jobs: OCSMM(BANDWIDTH, n_jobs=n_jobs),
}


def time_points(name, detector, plan):
    """Wall and CPU seconds of fit and of scoring all rows, once compiled code is there."""
    X = to_unit_cube(load(name, folder=plan.data).X)
    model = POINT_DETECTORS[detector](plan.n_jobs)
    model.fit(X[:1000]).score_samples(X[:1000])
    for step, work in (("train", model.fit), ("test", model.score_samples)):
        wall, cpu = time.perf_counter(), time.process_time()
        work(X)
        yield {"step": step, "wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def time_groups(name, detector, plan):
    """Wall seconds of fit and of scoring the same groups of 100 points; that of IDK^2 scores them itself."""
    X, groups, _ = make_scale_up(int(name), random_state=0)
    model = GROUP_DETECTORS["IDK2" if detector == GPU else detector](plan.n_jobs)
    if detector == GPU:
        X, groups = _on_gpu(X, groups)
    for rows in (slice(2000), slice(None)):  # the first compiles
        start = time.perf_counter()
        model.fit(X[rows], groups=groups[rows])
        if not hasattr(model, "scores_"):
            model.score_samples(X[rows], groups[rows])
    yield {"wall": time.perf_counter() - start}


def _on_gpu(*arrays):
    """Arrays as tensors on the GPU, where data live that are worked on there."""
    try:
        import torch  # noqa: PLC0415, only if there is one
    except ImportError as error:
        raise NotImplementedError(f"{GPU}: {error}") from None
    if not torch.cuda.is_available():
        raise NotImplementedError(f"{GPU}: torch has no CUDA device")
    return [torch.as_tensor(one, device="cuda") for one in arrays]


def report_runtime(outcomes, folder):
    """CPU seconds of training and testing beside the published ones."""
    rows = []
    for (dataset, detector), outcome in outcomes.items():
        steps = {record["step"]: record for record in outcome.records}
        there = printed.HTTP_CPU_SECONDS[detector] if dataset == "http" else (None, None)
        for step, seconds in zip(("train", "test"), there, strict=True):
            here = steps.get(step)
            numbers = [f"{here['cpu']:.2f}", f"{here['wall']:.2f}"] if here else [shown_status(outcome), None]
            rows.append([dataset, detector, step, seconds, *numbers])
    return (
        f"psi = {PSI}, bandwidth {BANDWIDTH:g}, t = 100; iForest with its default of 256 rows for a tree. IDK's `fit` "
        "computes the scores of the training rows as well, for its threshold.\n\n"
        + markdown_table(["set", "detector", "step", "paper, CPU s", "here, CPU s", "here, wall s"], rows)
        + f"\n{remarks(outcomes)}"
    )


def report_scale_up(outcomes, folder):
    """Run time by number of groups, and how it grows from the fewest to the most."""
    lines, rows = {}, []
    for (count, detector), outcome in outcomes.items():
        there = printed.SCALE_UP_SECONDS.get(detector) if count == "10000" else None
        shown = shown_status(outcome)
        if outcome.records:
            seconds = outcome.records[0]["wall"]
            lines.setdefault(detector, []).append((int(count), seconds))
            shown = f"{seconds:.2f}"
        rows.append([count, detector, there, shown])
    growth = []
    for detector, points in lines.items():
        (fewest, fast), (most, slow) = min(points), max(points)
        growth.append([detector, f"{fewest} to {most}", printed.SCALE_UP_FACTORS.get(detector), f"{slow / fast:.1f}"])
    draw_lines(lines, "groups of 100 points", "seconds", folder / "scaleup.png")
    return (
        f"psi = {PSI}, psi2 = {PSI2}, t = 100, bandwidth {BANDWIDTH:g}; the paper does not say its own.\n\n"
        + markdown_table(["groups", "detector", "paper, s", "here, s"], rows)
        + "\nRun time on the most groups over that on the fewest:\n\n"
        + markdown_table(["detector", "groups", "paper, 1000 to 10000", "here"], growth)
        + f"\n![Run time by number of groups](scaleup.png)\n\n{remarks(outcomes)}"
    )


RUNTIME = Experiment(
    "runtime",
    "Run time on http",
    ("http",),
    tuple(POINT_DETECTORS),
    "paper.timings:time_points",
    1,
    report_runtime,
)
SCALE_UP = Experiment(
    "scaleup",
    "Scale-up: 1,000 to 10,000 groups",
    ("1000", "2000", "5000", "10000"),
    (*GROUP_DETECTORS, GPU),
    "paper.timings:time_groups",
    1,
    report_scale_up,
    takes_any_set=False,
)
