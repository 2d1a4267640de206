"""Findings as one HTML page: a template, and the numbers of its pictures as JSON inside it."""

import base64
import hashlib
import json
import os
from importlib import import_module
from importlib.resources import files
from typing import Any

import numpy as np

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.report.findings import Findings, GroupFindings, PointFindings
from isobag.storage.atomic import write_whole

BINS = 60
REASONS = 8
"""Features told for each anomaly; of groups, which have a picture for each, half as many."""
AXES = 8
"""Features to choose from on the map."""
LONGEST_LABEL = 300


def write_report(findings: Findings, path: str | os.PathLike[str]) -> None:
    """Write the report of ``point_findings`` or ``group_findings``, whole or not at all: one HTML file."""
    write_whole(path, render(findings).encode("utf-8", "replace"))


def render(findings: Findings) -> str:
    """The page as text."""
    is_points = isinstance(findings, PointFindings)
    folder = files("isobag.report")
    style, script = ((folder / name).read_text("utf-8") for name in ("page.css", "page.js"))
    template = _jinja_environment().from_string((folder / "page.html.jinja").read_text("utf-8"))
    payload = _points(findings) if isinstance(findings, PointFindings) else _groups(findings)
    n_flagged = int(np.count_nonzero(findings.scores < findings.offset))
    return str(
        template.render(
            findings=findings,
            title=shown(findings.title),
            source=shown(findings.source),
            settings={shown(name): shown(value) for name, value in findings.settings.items()},
            is_points=is_points,
            one="row" if is_points else "group",
            many="rows" if is_points else "groups",
            n=len(findings.scores),
            n_flagged=n_flagged,
            n_told=len(findings.labels),
            n_features=len(findings.features),
            n_sample=len(payload["map"]["flagged"]),
            n_axes=min(AXES, len(findings.features)),
            version=import_module("isobag").__version__,
            style=style,
            script=script,
            style_hash=_hash(style),
            script_hash=_hash(script),
            data=embedded(payload),
        )
    )


def embedded(payload: Any) -> str:
    """JSON that can stand inside a script element: nothing in it ends the element or begins another."""
    text = json.dumps(payload, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def shown(text: Any) -> str:
    """Text from the data for people to read: control characters and halves of characters written out, cut if long."""
    whole = str(text)
    cut = whole if len(whole) <= LONGEST_LABEL else whole[:LONGEST_LABEL] + "…"
    return "".join(one if one.isprintable() or one == "\u200d" else f"\\u{ord(one):04x}" for one in cut)


def _points(findings: PointFindings) -> dict[str, Any]:
    """The numbers behind a page about rows."""
    axes = _telling(findings.reasons, AXES)
    everything = np.concatenate([findings.values, findings.sample])
    names = [shown(findings.features[j]) for j in axes]
    columns = [everything[:, j] for j in axes]
    if len(findings.features) > 2:
        names += ["component 1", "component 2"]
        columns += list(_components(everything).T)
    low, middle, high = np.quantile(findings.sample, (0.05, 0.5, 0.95), axis=0)
    top = []
    for k, why in enumerate(findings.reasons):
        leading = np.argsort(-why, kind="stable")[:REASONS]
        reasons = [[int(j), _short(why[j]), _short(findings.values[k, j])] for j in leading]
        top.append(_entry(findings, k, reasons) | {"total": _short(why.sum())})
    return {
        "kind": "points",
        "features": [shown(name) for name in findings.features],
        "usual": [[_short(a), _short(b), _short(c)] for a, b, c in zip(low, middle, high, strict=True)],
        "histogram": _histogram(findings.scores, findings.offset),
        "top": top,
        "map": _map(names, columns, len(findings.values), findings.sample_flagged),
    }


def _groups(findings: GroupFindings) -> dict[str, Any]:
    """The numbers behind a page about groups."""
    used = sorted({int(j) for why in findings.reasons for j in _leading(why)})
    top = []
    for k, why in enumerate(findings.reasons):
        reasons = [[int(j), _short(why[j]), _listed(findings.members[k][:, j])] for j in _leading(why)]
        more = {"size": int(findings.sizes[k]), "sampled": len(findings.members[k])}
        top.append(_entry(findings, k, reasons) | more)
    places = np.concatenate([findings.top_places, findings.sample_places])
    return {
        "kind": "groups",
        "features": [shown(name) for name in findings.features],
        "population": {str(j): _listed(findings.population[:, j]) for j in used},
        "histogram": _histogram(findings.scores, findings.offset),
        "top": top,
        "map": _map(["component 1", "component 2"], list(places.T), len(findings.labels), findings.sample_flagged),
    }


def _entry(findings: Findings, k: int, reasons: list[Any]) -> dict[str, Any]:
    """One of the oddest, as both kinds of page tell it."""
    score = float(findings.top_scores[k])
    p_value = None if findings.p_values is None else _short(findings.p_values[k])
    flagged = score < findings.offset
    return {
        "label": shown(findings.labels[k]) or "(empty)",
        "score": _short(score),
        "p": p_value,
        "flagged": flagged,
        "why": reasons,
    }


def _map(names: list[str], columns: list[Floats], n_top: int, flagged: Bools) -> dict[str, Any]:
    """Axes to choose from; their numbers for the oddest and for the sample."""
    return {
        "axes": names,
        "top": [_listed(column[:n_top]) for column in columns],
        "sample": [_listed(column[n_top:]) for column in columns],
        "flagged": [int(one) for one in flagged],
    }


def _histogram(scores: Floats, offset: float) -> dict[str, Any]:
    """Counts of scores in bins of equal ratio if none is below 0, else of equal width; the threshold ends a bin."""
    in_ratio = bool(scores.min() >= 0 and scores.max() > 0)
    values = np.maximum(scores, max(1e-4 * float(scores.mean()), np.finfo(float).tiny)) if in_ratio else scores
    scale, back = (np.log, np.exp) if in_ratio else (np.asarray, np.asarray)
    low, high = float(scale(values.min())), float(scale(values.max()))
    width = max(high - low, 0.02 if in_ratio else 1e-3 * max(abs(high), 1e-3)) / BINS
    edges = low + width * np.arange(BINS + 1)
    if offset > 0 or not in_ratio:
        edges = edges + (float(scale(offset)) - low) % width - width
        edges = np.append(edges, edges[-1] + width)
    counts = np.histogram(scale(values), np.append(edges[:-1], max(edges[-1], high)))[0]
    return {
        "edges": [_short(edge, 6) for edge in back(edges)],
        "counts": counts.tolist(),
        "in_ratio": in_ratio,
        "offset": _short(offset, 6),
    }


def _components(values: Floats) -> Floats:
    """Principal components of rows scaled to median 0 and quartiles 1 apart: (n, d) -> (n, 2)."""
    first, middle, third = np.quantile(values, (0.25, 0.5, 0.75), axis=0)
    spread = np.where(third > first, third - first, np.ptp(values, axis=0))
    scaled = np.clip((values - middle) / np.where(spread > 0, spread, 1), -50, 50)
    scaled -= scaled.mean(axis=0)
    _, _, axes = np.linalg.svd(scaled.T @ scaled)
    found: Floats = scaled @ axes[:2].T
    return found


def _telling(reasons: Floats, most: int) -> Ints:
    """The features that tell most of the anomalies apart, by the sum of their positive parts: numbers."""
    return np.argsort(-np.maximum(reasons, 0).sum(axis=0), kind="stable")[:most]


def _leading(why: Floats) -> Ints:
    """The features that set a group apart most."""
    return np.argsort(-np.abs(why), kind="stable")[: REASONS // 2]


def _listed(values: Floats) -> list[float]:
    return [_short(value) for value in values]


def _short(value: float, digits: int = 4) -> float:
    """Few digits are enough for a picture, and make the page small."""
    return float(f"{value:.{digits}g}")


def _hash(text: str) -> str:
    """What the page's own policy calls a script or style by, so that no other may run."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _jinja_environment() -> Any:
    try:
        import jinja2  # noqa: PLC0415, an extra: most users of the library write no reports
    except ImportError:
        raise ImportError('Reports need jinja2, which is missing: pip install "isobag[report]".') from None
    return jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
