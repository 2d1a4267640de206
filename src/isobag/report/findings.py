"""The numbers behind the page, from a ranking: all scores, the oddest in full, samples of the rest. Plain lists."""

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.decomposition import PCA

from isobag.backends.arrays import Floats, Ints
from isobag.report.template import brief
from isobag.tables.cells import TEXT, TIME
from isobag.tables.notebook import cut_of
from isobag.tables.ranking import Ranking
from isobag.tables.reasons import (
    NO_COLUMN,
    Population,
    cell_in_words,
    number_in_words,
)
from isobag.tables.terminal import shown

TOP = 200
"""Rows or groups told in full, at most."""
MOST_LISTED = 1_000
"""Rows or groups in the table, at most: the first 200, and all that are flagged."""
LONGEST_NAME = 78
MOST_KEPT = 12
"""Columns carried along that are shown."""
BINS = 60
REASONS = 8
"""Columns told for each row; of groups, which have a picture for each feature, half as many."""
AXES = 8
"""Features to choose from on the map of rows."""
SHOWN_ON_MAP = 2_000
SHOWN_OF_POPULATION = 500
SHOWN_OF_GROUP = 120
MOST_SCALED = 50.0
"""On the map of components, the farthest that a row lies from the median, in distances of the quartiles."""
MEASURES = {True: "p_value", False: "rank_share"}
"""The column that says how rare a score is, of new data and of a table's own."""
INDICATOR, TIMES = "indicator", "time"


def findings_of(ranking: Ranking) -> dict[str, Any]:
    """All numbers of the page, ready for JSON."""
    top = ranking.order[: min(TOP, ranking.n_ranked)]
    ranked = ranking.order[: ranking.n_ranked]
    sample = np.setdiff1d(ranked[choose_some(len(ranked), SHOWN_ON_MAP)].astype(np.int64), top)
    flagged = np.flatnonzero(ranking.flagged[ranked])
    n_listed = min(MOST_LISTED, max(len(top), int(flagged[-1]) + 1 if len(flagged) else 0))
    carried = ranking.carried(0, n_listed)
    listed = _entries(ranking, carried, n_listed)
    entries, describe = listed[: len(top)], _rows if ranking.unit == "row" else _groups
    more = describe(ranking, ranking.places_of(top), ranking.places_of(sample), entries)
    return {
        "unit": ranking.unit,
        "measure": "p" if ranking.judged.is_new else f"share of {ranking.unit}s at least as odd",
        "label": shown(", ".join(ranking.units.labels) or ranking.unit),
        "features": [shown(name) for name in ranking.encoding.names],
        "columns": [shown(column.name) for column in ranking.encoding.columns],
        "histogram": histogram_of(ranking.scores[ranked], cut_of(ranking)),
        "flagged": [int(one) for one in ranking.flagged[sample]],
        "kept": [shown(name) for name in list(carried)[:MOST_KEPT]],
        "n_kept": len(carried),
        "n_flagged_listed": int(np.count_nonzero(flagged < n_listed)),
        "top": entries,
        "listed": listed,
        **more,
    }


def _entries(ranking: Ranking, carried: dict[str, Any], n: int) -> list[dict[str, Any]]:
    """The oddest, as the ranked table has them."""
    columns = ranking.columns(0, n)
    names = list(ranking.units.labels) or ["row"]
    labels = list(zip(*([_label(name, one) for one in columns[name].tolist()] for name in names), strict=True))
    shares, n_missing = columns.get(MEASURES[ranking.judged.is_new]), columns.get("n_missing")
    extrapolated, sizes = columns.get("extrapolated"), columns.get("n_points")
    carried_values = [own.to_pylist() for own in list(carried.values())[:MOST_KEPT]]
    return [
        {
            "label": shown(" · ".join(labels[k])) or "(empty)",
            "name": shown(" · ".join(labels[k]), LONGEST_NAME) or "(empty)",
            "row": None if ranking.unit == "group" or not ranking.units.labels else int(columns["row"][k]),
            "rank": int(columns["rank"][k]),
            "score": brief(columns["score"][k]),
            "p": None if shares is None else brief(shares[k]),
            "odd": "" if shares is None else _how_odd(ranking, shares[k], extrapolated is not None and extrapolated[k]),
            "flagged": bool(columns["flagged"][k]),
            "missing": 0 if n_missing is None else int(n_missing[k]),
            "words": shown(columns["reasons"][k]),
            "size": None if sizes is None else int(sizes[k]),
            "values": [_value(own[k]) for own in carried_values],
            "more": "",
        }
        for k in range(n)
    ]


def _how_odd(ranking: Ranking, share: float, is_extrapolated: bool) -> str:
    """How rare a score is, in words."""
    if ranking.judged.is_new:
        return f"p {share:.2g}{', extrapolated' if is_extrapolated else ''}"
    return f"{number_in_words(float(f'{100 * share:.2g}'))} % of {ranking.unit}s are at least as odd"


def _value(value: Any) -> str:
    return "" if value is None else number_in_words(value) if isinstance(value, float) else shown(value)


def _label(name: str, value: Any) -> str:
    """A number alone says little: it goes with the name of its column."""
    return "" if value is None else f"{name} {value}" if isinstance(value, int) else str(value)


def _rows(ranking: Ranking, top: Ints, sample: Ints, entries: list[dict[str, Any]]) -> dict[str, Any]:
    """What the columns of the oddest rows add, their values there and what is usual; places on the map."""
    encoding, reference = ranking.encoding, ranking.judged.model.reference
    explanation = ranking.explanation[: len(top)]
    data, cells = (rows.take(np.concatenate([top, sample])) for rows in (ranking.units.data, ranking.table.cells))
    contributions = encoding.by_column(explanation, cells[: len(top)])
    starts = np.searchsorted(encoding.owners, np.arange(len(encoding.columns)))
    shares, (low, middle, high) = reference.mean(axis=0), np.quantile(reference, (0.05, 0.5, 0.95), axis=0)
    for entry, contribution, row in zip(entries, contributions, cells, strict=False):
        entry["total"] = brief(contribution.sum())
        entry["why"] = []
        for number in np.argsort(-contribution, kind="stable")[:REASONS]:
            column, value, j = encoding.columns[number], float(row[number]), int(starts[number])
            words, share = cell_in_words(column, value, 0.0 if column.kind == TEXT else float(shares[j]))
            if share is not None:
                usual: Any = brief(0.0 if np.isnan(share) else share)
                words = words[len(column.name) + 1 :] if column.kind == TEXT and "=" in words else words
            elif np.isin(reference[:, j], (0, 1)).all() and value in (0, 1):
                usual = brief(np.mean(reference[:, j] == value))
            else:
                usual = [_digits(column.kind, one) for one in (low[j], middle[j], high[j], value)]
            entry["why"].append([int(number), brief(contribution[number]), shown(words), usual])
        if entry["words"].startswith(NO_COLUMN):
            leading = [f"{encoding.columns[number].name} {words}" for number, _, words, _ in entry["why"][:3]]
            entry["more"] = shown(", ".join(leading))
    axis_features = np.argsort(-np.maximum(explanation, 0).sum(axis=0), kind="stable")[:AXES]
    kinds = _kinds(ranking, data, axis_features)
    names, axes = [shown(encoding.names[j]) for j in axis_features], [data[:, j] for j in axis_features]
    start = [k for k, j in enumerate(axis_features) if kinds.get(int(j)) != INDICATOR]
    if data.shape[1] > 2:
        names += ["component 1", "component 2"]
        axes += list(_components(_scaled(data))[0].T)
        start = start if len(start) != 1 else [len(names) - 2, len(names) - 1]
    start = start[:2] if len(start) > 1 else list(range(len(names)))[:2]
    how = [kinds.get(int(j), "") for j in axis_features] + [""] * (len(names) - len(axis_features))
    return {"map": _map(names, axes, how, start, len(top))}


def _groups(ranking: Ranking, top: Ints, sample: Ints, entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Points of the oddest groups and of the population in the features that set a group apart; places on the map."""
    groups, features = ranking.units.data, ranking.explanation.features
    sizes = groups.sizes
    part = groups.part(np.concatenate([top, sample]))
    members = _members(part, len(top))
    population = _population(ranking.judged.model)
    leading = [np.argsort(-np.abs(apart), kind="stable")[: REASONS // 2] for apart in features[: len(top)]]
    used = np.unique(np.concatenate(leading))
    kinds = _kinds(ranking, np.concatenate([population, *members]), used)

    def values(points: Floats, j: int) -> Any:
        kind = kinds.get(j, "")
        return brief(points[:, j].mean()) if kind == INDICATOR else [_digits(kind, value) for value in points[:, j]]

    for k, entry in enumerate(entries):
        entry["sampled"] = len(members[k])
        entry["why"] = [[int(j), brief(features[k, j]), values(members[k], int(j))] for j in leading[k]]
    maps = csr_matrix(ranking.judged.model.mean_maps(part, ranking.detector.compute).shares)
    places, explained = _components(maps)
    return {
        "population": {str(j): values(population, int(j)) for j in used},
        "times": [j for j, kind in kinds.items() if kind == TIMES],
        "n_population": len(population),
        "n_points": int(sizes.sum()),
        "map": _map(["component 1", "component 2"], list(places.T), ["", ""], [0, 1], len(top)),
        "explained": explained,
    }


def _members(part: Any, n: int) -> list[Floats]:
    """Points of the first n groups, or a sample of them."""
    order = np.argsort(part.ids, kind="stable")
    rows = np.split(order, np.cumsum(part.sizes)[:-1])[:n]
    chosen = [own[choose_some(len(own), SHOWN_OF_GROUP)] for own in rows]
    points = part.rows.take(np.concatenate(chosen))
    return np.split(points, np.cumsum([len(own) for own in chosen])[:-1])


def _population(model: Any) -> Floats:
    """Points that stand for all groups of ``fit``, each of which counts the same: those that reasons compare with."""
    points, masses = Population.of(model).points, Population.of(model).weights
    return points[np.random.default_rng(0).choice(len(masses), SHOWN_OF_POPULATION, p=masses / masses.sum())]


def _kinds(ranking: Ranking, values: Floats, features: Ints) -> dict[int, str]:
    """Those of the features that are 0 or 1 wherever we look, and those that are times."""
    encoding = ranking.encoding
    kinds = {}
    for j in features.tolist():
        column = encoding.column_of(j)
        if column.kind == TIME and encoding.names[j] == column.name:
            kinds[j] = TIMES
        elif np.isin(values[:, j], (0, 1)).all():
            kinds[j] = INDICATOR
    return kinds


def _map(names: list[str], axes: list[Floats], kinds: list[str], start: list[int], n_top: int) -> dict[str, Any]:
    """Axes to choose from; their numbers for the oddest and for the sample."""
    listed = [[_digits(kind, value) for value in axis] for axis, kind in zip(axes, kinds, strict=True)]
    return {
        "axes": names,
        "kinds": kinds,
        "start": start,
        "top": [axis[:n_top] for axis in listed],
        "sample": [axis[n_top:] for axis in listed],
    }


def histogram_of(scores: Floats, cut: float) -> dict[str, Any]:
    """Counts of scores in bins of equal ratio if none is below 0, else of equal width; the cut ends a bin."""
    in_ratio = bool(scores.min() >= 0 and scores.max() > 0)
    values = np.maximum(scores, max(1e-4 * float(scores.mean()), np.finfo(float).tiny)) if in_ratio else scores
    scale, back = (np.log, np.exp) if in_ratio else (np.asarray, np.asarray)
    low, high = float(scale(values.min())), float(scale(values.max()))
    width = max(high - low, 0.02 if in_ratio else 1e-3 * max(abs(high), 1e-3)) / BINS
    edges = low + width * np.arange(BINS + 1)
    has_cut = np.isfinite(cut) and (cut > 0 or not in_ratio)
    if has_cut:
        edges = edges + (float(scale(cut)) - low) % width - width
        edges = np.append(edges, edges[-1] + width)
        edges[np.argmin(np.abs(edges - scale(cut)))] = scale(cut)  # not almost, or a score might be on its wrong side
    counts = np.histogram(scale(values), np.append(edges[:-1], max(edges[-1], high)))[0]
    return {
        "edges": [brief(edge, 6) for edge in back(edges)],
        "counts": counts.tolist(),
        "in_ratio": in_ratio,
        "cut": brief(cut, 6) if has_cut else None,
    }


def choose_some(n: int, most: int) -> Ints:
    """All of 0 .. n - 1, or a random choice of ``most`` of them, always the same: in rising order."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, size=most, replace=False))


def _scaled(values: Floats) -> Floats:
    """Rows scaled to median 0 and quartiles 1 apart: (n, d)."""
    first, middle, third = np.quantile(values, (0.25, 0.5, 0.75), axis=0)
    spread = np.where(third > first, third - first, np.ptp(values, axis=0))
    scaled: Floats = np.clip((values - middle) / np.where(spread > 0, spread, 1), -MOST_SCALED, MOST_SCALED)
    return scaled


def _components(values: Any) -> tuple[Floats, float]:
    """The two principal components of an array or a sparse matrix: (n, 2), and the share of the variance they have."""
    n, is_sparse = values.shape[0], bool(issparse(values))
    differs = values - values[np.zeros(n, dtype=int)]
    if not (differs.count_nonzero() if is_sparse else np.count_nonzero(differs)):
        return np.zeros((n, 2)), 1.0
    is_small = min(values.shape) <= 10  # too small for what finds components of sparse matrices
    X = values.toarray() if is_sparse and is_small else values
    solver = "arpack" if is_sparse and not is_small else "auto"
    pca = PCA(min(2, *X.shape), svd_solver=solver, random_state=0).fit(X)
    components: Floats = pca.transform(X)
    return np.pad(components, ((0, 0), (0, 2 - components.shape[1]))), float(pca.explained_variance_ratio_.sum())


def _digits(kind: str, value: float) -> float:
    """Seconds since 1970 need more digits than other numbers."""
    return brief(value, 10 if kind in (TIME, TIMES) else 4)
