"""Pictures of the site, drawn by code: python -m website.pictures writes docs/pictures, each light and dark.

The same code makes the same files: seeds are fixed, SVG files bear no date, and letters are drawn as outlines.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Circle, ConnectionPatch, Rectangle

from isobag import IDKGroupDetector, IDKPointDetector, IDKStreamDetector, IsolationKernel
from isobag.datasets import make_card_accounts
from isobag.tables.sentences import least_flagged

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "pictures"


class Theme(NamedTuple):
    """Colours of one variant."""

    name: str
    ink: str
    faint: str
    data: str
    odd: str
    other: str
    paper: str


THEMES = (
    Theme("light", "#22303a", "#c9d1d6", "#7f95ad", "#b83a1b", "#1f6f8b", "#ffffff"),
    Theme("dark", "#dbe4e9", "#47545c", "#7d97b3", "#f0845c", "#66c2dd", "#1b2226"),
)
STYLE = {
    "svg.hashsalt": "isobag",
    "font.size": 11,
    "font.family": "DejaVu Sans",
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def _axes(theme: Theme, columns: int, width: float = 9.0, height: float = 3.6) -> tuple[Figure, list[Any]]:
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = [figure.add_subplot(1, columns, k + 1) for k in range(columns)]
    for ax in axes:
        ax.set_facecolor("none")
        ax.tick_params(colors=theme.ink, length=3)
        for label in (ax.xaxis.label, ax.yaxis.label):
            label.set_color(theme.ink)
        for spine in ax.spines.values():
            spine.set_color(theme.faint)
    return figure, axes


def _bare(ax: Any) -> None:
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_aspect("equal")
    for spine in ax.spines.values():
        spine.set_visible(False)


def _dots(ax: Any, X: Any, color: str, size: float = 9, **how: Any) -> None:
    ax.scatter(X[:, 0], X[:, 1], s=size, color=color, linewidths=0, **how)


def _two_densities() -> Any:
    """400 points in a dense cluster, 100 in a sparse one: the data of the example on the page."""
    rng = np.random.default_rng(0)
    return np.vstack([rng.normal(0, 0.3, (400, 2)), rng.normal(4, 1.2, (100, 2))])


def cells(theme: Theme) -> Figure:
    """How cells come about: rows are drawn, balls reach to the nearest other center, points are in one or outside."""
    figure, axes = _axes(theme, 3, height=3.4)
    X = _two_densities()
    kernel = IsolationKernel(1, 8, random_state=5).fit(X)
    centers, radii = kernel.centers_[0], np.sqrt(kernel.sq_radii_[0])
    inside = kernel.assign_cells(X)[:, 0]
    titles = ("1. Draw a few rows", "2. Balls reach to the nearest", "3. A point has a cell, or none")
    for step, (ax, title) in enumerate(zip(axes, titles, strict=True)):
        _bare(ax)
        ax.set_title(title)
        ax.set_xlim(-2.4, 7.4)
        ax.set_ylim(-2.4, 7.4)
        if step == 2:
            _dots(ax, X[inside >= 0], theme.other, alpha=0.8)
            _dots(ax, X[inside < 0], theme.odd, alpha=0.9)
        else:
            _dots(ax, X, theme.data, alpha=0.6)
        if step:
            for center, radius in zip(centers, radii, strict=True):
                ax.add_patch(Circle(center, radius, fill=False, edgecolor=theme.ink, linewidth=0.9))
        _dots(ax, centers, theme.ink, size=26)
    outside = int((inside < 0).sum())
    axes[2].text(0.02, 0.02, f"{outside} of {len(X)} points are OUTSIDE", color=theme.odd, transform=axes[2].transAxes)
    return figure


def sparse(theme: Theme) -> Figure:
    """The same pair is more similar where data are sparse."""
    figure, axes = _axes(theme, 2, height=3.8)
    X = _two_densities()
    kernel = IsolationKernel(1000, 16, random_state=0).fit(X)
    step = np.array([0.1, 0.0])
    places = {"dense": np.zeros(2), "sparse": np.full(2, 4.0)}
    shares = {name: kernel.similarity([middle - step], [middle + step])[0, 0].item() for name, middle in places.items()}
    left, right = axes
    _bare(left)
    left.set_title("The same distance, twice")
    _dots(left, X, theme.data, alpha=0.6)
    for (name, middle), color in zip(places.items(), (theme.odd, theme.other), strict=True):
        pair = np.array([middle - step, middle + step])
        left.plot(*pair.T, color=color, marker="o", markersize=6, linewidth=2)
        left.annotate(
            f"in the {name} region",
            middle,
            middle + np.array([-0.6, 2.6 if name == "sparse" else -1.7]),
            color=color,
            ha="center",
        )
    right.set_title("Share of partitionings with both in one cell")
    bars = right.barh(list(shares), list(shares.values()), color=[theme.odd, theme.other], height=0.55)
    right.bar_label(bars, [f"{share:.0%}" for share in shares.values()], padding=4, color=theme.ink)
    right.set_xlim(0, 1)
    right.xaxis.set_major_formatter(mpl.ticker.PercentFormatter(1))
    right.tick_params(axis="y", length=0)
    return figure


def group(theme: Theme) -> Figure:
    """A group that is odd only as a group: its points lie where others lie, all in one place."""
    figure, axes = _axes(theme, 3, height=3.4)
    rng = np.random.default_rng(4)
    groups = [rng.normal(size=(n, 2)) for n in rng.integers(30, 120, 60)]
    groups.append(np.array([0.7, 0.5]) + 0.25 * rng.normal(size=(50, 2)))
    detector = IDKGroupDetector(random_state=0).fit(groups)
    everyone = np.vstack(groups)[::4]
    for ax, title, shown, color in (
        (axes[0], "By the point: nothing odd", groups[-1], theme.odd),
        (axes[1], "An ordinary group", groups[0], theme.other),
    ):
        _bare(ax)
        ax.set_title(title)
        ax.set_xlim(-3.6, 3.6)
        ax.set_ylim(-3.6, 3.6)
        _dots(ax, everyone, theme.faint, size=6)
        _dots(ax, shown, color, size=16)
    ax = axes[2]
    ax.set_title("By the group: one of 61")
    order = np.argsort(detector.scores_)
    colors = [theme.odd if g == 60 else theme.other if g == 0 else theme.data for g in order]
    ax.scatter(detector.scores_[order], np.arange(61), s=18, c=colors, linewidths=0)
    ax.set_xscale("log")
    ax.set_xlabel("score, lower = odder (logarithmic)")
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    return figure


def sizes(theme: Theme) -> Figure:
    """Scores of ordinary groups against their size: by the paper's level 2 the small look odd."""
    figure, axes = _axes(theme, 2, height=3.6)
    rng = np.random.default_rng(0)
    n = np.exp(rng.uniform(np.log(5), np.log(500), 300)).astype(int)
    groups = [rng.normal(size=(size, 2)) for size in n]
    found = {
        "The paper's level 2": IDKGroupDetector(max_samples=16, group_max_samples=16, random_state=0),
        "The default": IDKGroupDetector(random_state=0),
    }
    for ax, (title, detector), color in zip(axes, found.items(), (theme.odd, theme.other), strict=True):
        scores = detector.fit(groups).scores_
        ax.set_title(title)
        ax.scatter(n, scores, s=14, color=color, linewidths=0, alpha=0.75)
        ax.set_xscale("log")
        ax.set_xticks([5, 10, 50, 100, 500], ["5", "10", "50", "100", "500"])
        ax.minorticks_off()
        ax.set_xlabel("points in the group, all drawn from one law")
        ax.set_ylim(0, None)
    axes[0].set_ylabel("score, lower = odder")
    return figure


def pool(theme: Theme) -> Figure:
    """A pool of rows in random order, cut into blocks of every psi."""
    figure, (ax,) = _axes(theme, 1, width=9, height=3.4)
    _bare(ax)
    n_shown = 128
    ax.set_aspect("auto")
    depth = np.random.default_rng(0).uniform(size=n_shown)
    for line, psi in enumerate((2, 4, 8, 16, 32, 64, 128)):
        for start in range(0, n_shown, max(psi, 32)):
            for k in range(psi):
                color = theme.other if (start // max(psi, 32)) % 2 else theme.data
                ax.add_patch(Rectangle((start + k, line), 0.9, 0.62, color=color, alpha=0.35 + 0.65 * depth[start + k]))
            ax.add_patch(Rectangle((start - 0.15, line - 0.08), psi + 0.2, 0.78, fill=False, edgecolor=theme.ink))
        n = 2048 // max(psi, 32)
        ax.text(-3, line + 0.31, f"psi = {psi}", ha="right", va="center", color=theme.ink)
        ax.text(n_shown + 3, line + 0.31, f"{n} samples in 2,048 rows", va="center", color=theme.ink)
    ax.set_xlim(-24, n_shown + 48)
    ax.set_ylim(7.1, -0.4)
    ax.set_title("The first 128 rows of a pool: each outlined block is a sample")
    return figure


def account(theme: Theme) -> Figure:
    """An account all of whose purchases are ordinary, and the report that finds it."""
    figure, (left, right) = _axes(theme, 2, width=11, height=4.9)
    X, features, labels, _ = make_card_accounts(60, 2, random_state=0)
    frame = pd.DataFrame(X, columns=features)
    odd = labels == "acct-0038"
    for part, color, size in ((~odd, theme.data, 5), (odd, theme.odd, 16)):
        left.scatter(frame["hour"][part], frame["amount"][part], s=size, color=color, linewidths=0, alpha=0.75)
    left.set_yscale("log")
    left.set_yticks([3, 10, 30, 100], ["3", "10", "30", "100"])
    left.minorticks_off()
    left.set_xticks([0, 6, 12, 18, 24])
    left.set_xlabel("hour of the purchase")
    left.set_ylabel("amount")
    left.set_title("All 83 purchases of acct-0038 are ordinary ones ...")
    picture = mpl.image.imread(ROOT / "docs" / ("report.png" if theme.name == "light" else "report-dark.png"))
    right.imshow(picture, interpolation="lanczos")
    _bare(right)
    right.set_title("... and the report ranks the account first")
    here, there = (12.6, 16), (20, 354)
    arrow = {"arrowstyle": "-|>", "color": theme.odd, "linewidth": 1.4, "connectionstyle": "arc3,rad=-.25"}
    figure.add_artist(ConnectionPatch(here, there, left.transData, right.transData, **arrow))
    return figure


def floor(theme: Theme) -> Figure:
    """P-values of one row as it moves away: exact ones stop at the floor, extrapolated ones go on."""
    figure, (left, right) = _axes(theme, 2)
    X = np.random.default_rng(0).normal(size=(2000, 3))
    detector = IDKPointDetector(random_state=0).fit(X)
    away = np.linspace(1, 20, 77)
    rows = np.column_stack([away, np.zeros((len(away), 2))])
    left.semilogy(away, detector.p_values(rows), color=theme.odd, label="extrapolated")
    left.semilogy(away, detector.p_values(rows, exact=True), color=theme.other, label="exact")
    for batch in (100, 10_000):
        left.axhline(0.1 / batch, color=theme.faint, linestyle="--", linewidth=1)
        left.text(20, 0.1 / batch, f"lone anomaly of {batch:,}", color=theme.ink, fontsize=9, ha="right", va="bottom")
    left.set_xlabel("standard deviations away")
    left.set_ylabel("p-value")
    left.set_title("2,000 rows learned from")
    left.legend(frameon=False, labelcolor=theme.ink, loc="lower left")
    n_rows = np.geomspace(100, 100_000, 60)
    for batch in (100, 1_000, 10_000):
        least = [least_flagged(int(n), batch, 0.1) for n in n_rows]
        right.loglog(n_rows, least, color=theme.data)
        right.text(100, least[0] * 1.15, f"batch of {batch:,}", color=theme.ink, fontsize=9)
    right.set_xlabel("rows learned from")
    right.set_ylabel("anomalies needed")
    right.set_title("Exact p-values, false discovery rate .1")
    return figure


def streams(theme: Theme) -> Figure:
    """The study of streams: prequential AUC of isobag and of rivals, stream by stream, from the table of the page."""
    figure, (ax,) = _axes(theme, 1, height=4.2)
    text = (ROOT / "study" / "REPORT_STREAMS.md").read_text()
    lines = text.partition("<!-- study-streams -->")[2].partition("<!-- end -->")[0].strip().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    names, rows = cells[0][2:], [row for row in cells[2:] if row[0] != "mean"]
    aucs = np.array([row[2:] for row in rows], dtype=float)
    places = np.arange(len(rows))[::-1]
    for column, name in enumerate(names):
        is_ours = name == "isobag stream"
        if name.startswith("isobag") and not is_ours:
            continue
        label = name if is_ours else "rivals" if column == len(names) - 1 else None
        color, size = (theme.odd, 46) if is_ours else (theme.data, 24)
        ax.scatter(aucs[:, column], places, s=size, color=color, linewidths=0, zorder=2 + is_ours, label=label)
    ax.set_yticks(places, [row[0] for row in rows])
    ax.grid(axis="y", color=theme.faint, linewidth=0.6)
    ax.set_axisbelow(True)
    ax.set_xlabel("prequential AUC")
    ax.set_title("Each row scored before it is learned")
    ax.legend(frameon=False, labelcolor=theme.ink, loc="upper left")
    return figure


def drift(theme: Theme) -> Figure:
    """A stream that changes for good: scores forget the change, the distance from the first rows does not."""
    figure, (left, right) = _axes(theme, 2)
    X = np.random.default_rng(0).normal(size=(6000, 3))
    X[4000:, 0] += 3  # the stream of the page
    X[1500] = [9, 0, 0]
    detector = IDKStreamDetector(window=1000, reference="first", random_state=0)
    seen, scores, distances = [], [], []
    for batch in np.split(X, 24):
        scores.append(detector.follow(batch).scores)
        if detector.n_seen_ > 1000:
            seen.append(detector.n_seen_)
            distances.append(detector.drift_.statistic)
    some = np.arange(0, len(X), 4)
    left.scatter(some, -np.log(np.concatenate(scores)[some]), s=4, color=theme.data, linewidths=0)
    left.set_ylabel("-log score, before learning")
    left.set_title("The window learns what is new ...")
    right.plot(seen, distances, color=theme.odd)
    right.set_ylim(bottom=0)
    right.set_ylabel("squared distance")
    right.set_title("... and its distance from the first rows stays")
    for ax in (left, right):
        ax.axvline(4000, color=theme.other, linestyle="--", linewidth=1)
        ax.set_xlabel("row")
    return figure


PICTURES: dict[str, Callable[[Theme], Figure]] = {
    "cells": cells,
    "sparse": sparse,
    "group": group,
    "sizes": sizes,
    "floor": floor,
    "pool": pool,
    "account": account,
    "streams": streams,
    "drift": drift,
}
PAINTED = ("account",)
"""Pictures that hold a screenshot, and are painted on paper rather than drawn as lines."""


def draw(name: str, folder: Path) -> list[Path]:
    """Write both variants of a picture: its files."""
    written = []
    for theme in THEMES:
        with mpl.rc_context({**mpl.rcParamsDefault, "backend": "agg", **STYLE, "axes.titlecolor": theme.ink}):
            figure = PICTURES[name](theme)
            path = folder / f"{name}-{theme.name}.{'png' if name in PAINTED else 'svg'}"
            if name in PAINTED:
                figure.savefig(path, dpi=150, facecolor=theme.paper, metadata={"Software": None})
            else:
                figure.savefig(path, transparent=True, metadata={"Date": None, "Creator": None})
            written.append(path)
    return written


def main() -> None:
    """Write all pictures."""
    FOLDER.mkdir(exist_ok=True)
    for name in PICTURES:
        draw(name, FOLDER)


if __name__ == "__main__":
    main()
