"""PNG figures, made and saved without a display."""

from contextlib import contextmanager

import numpy as np
import scikit_posthocs
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


@contextmanager
def saved_figure(file, width, height, n_columns=1):
    """Axes (an array of them if there are several) of a figure that is saved in the end."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    yield figure.subplots(1, n_columns)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120)


def draw_critical_differences(comparison, file):
    """Average ranks on a line; detectors that Nemenyi's test at .05 cannot tell apart are joined."""
    with saved_figure(file, 7, 2.2) as axes:
        scikit_posthocs.critical_difference_diagram(comparison.average_ranks, comparison.nemenyi, ax=axes)
        axes.set_title(f"Friedman p = {comparison.friedman:.2g}; joined: no difference at .05 (Nemenyi)", fontsize=9)


def draw_boxes(boxes, label, file):
    """A box for every name."""
    with saved_figure(file, 2 + 0.35 * len(boxes), 4) as axes:
        axes.boxplot(list(boxes.values()), tick_labels=list(boxes))
        axes.tick_params(axis="x", labelrotation=90, labelsize=7)
        axes.set_ylabel(label)


def draw_lines(lines, x_label, y_label, file):
    """A line for every name, both axes logarithmic."""
    with saved_figure(file, 5, 4) as axes:
        for name, points in lines.items():
            axes.loglog(*zip(*sorted(points), strict=True), marker="o", label=name)
        axes.set(xlabel=x_label, ylabel=y_label)
        if lines:
            axes.legend()


def draw_curves(curves, x_label, file):
    """Scores by place on a line, each rescaled to [0, 1] as in the paper."""
    with saved_figure(file, 7, 4) as axes:
        for name, (x, scores) in curves.items():
            order, values = np.argsort(x), np.array(scores)
            rescaled = (values - values.min()) / np.ptp(values)
            axes.plot(np.array(x)[order], rescaled[order], label=name, linewidth=1)
        axes.set(xlabel=x_label, ylabel="score, rescaled")
        if curves:
            axes.legend()


def draw_planes(planes, n_circled, file):
    """Points in the plane coloured by score, one panel a detector; circles for the lowest scores."""
    with saved_figure(file, 5 * len(planes), 4.5, len(planes)) as panels:
        for axes, (name, (places, scores)) in zip(np.atleast_1d(panels), planes.items(), strict=True):
            points, values = np.array(places), np.array(scores)
            axes.scatter(*points.T, c=values, s=8, cmap="viridis")
            axes.scatter(*points[values.argsort()[:n_circled]].T, s=45, facecolors="none", edgecolors="red")
            axes.set_title(name)
