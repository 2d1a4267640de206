"""Why a row or a group is odd, in words: "amount 1,240 (high, usually 5 to 90)", "hour low (median 3, usually 14)"."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from isobag.backends.arrays import FARTHEST, Floats, Ints
from isobag.data.groups import Groups
from isobag.models.group import GroupExplanation, GroupModel
from isobag.models.reasons import GroupReason
from isobag.models.sizes import SizeEvidence
from isobag.tables.cells import TEXT, TIME
from isobag.tables.encode import UNSEEN, EncodedColumn, Encoding
from isobag.tables.scan import BOOL
from isobag.tables.terminal import shown

MOST_REASONS = 3
LEAST_SHARE = 0.1
"""A column is named if it carries at least this share of what the columns that count against the row carry, ..."""
LEAST_OF_LARGEST = 0.5
"""... or this share of what the one that carries most carries: of many columns each may carry little."""
RARE = 0.05
"""A text is called rare if it stands in a smaller share of the rows than this."""
LEAST_SEPARATION = 0.1
"""A column of a group is named if its points are set apart at least this far, of 1."""
ODD_SIZE = 3.0
"""The number of points of a group is a reason if it lies so many spreads of log size from the median."""
ODD_SHARE = 5.0
"""The share of a text is a reason, however small it is, if it lies so many spreads above the usual one."""
FEW_POINTS = 10
"""Reasons of a group with fewer points give their number."""
USUAL = (0.05, 0.95)
"""Values between these quantiles are called usual."""
QUARTILES = (0.25, 0.5, 0.75)
SPREAD_RATIO = 2.0
"""A column of a group is narrower or wider than usual if the quartiles are so many times nearer or farther apart."""
LEAST_SHIFT = 0.1
"""A median is called high or low from so many distances of the usual quartiles on."""
LARGE_NUMBER = 1e9
MOST_DIGITS = 10
NAN = math.nan
NO_COLUMN = "no single column stands out"


def reasons_of_rows(reference: Floats, encoding: Encoding, cells: Floats, explanation: Floats) -> list[str]:
    """The columns that contribute most to each row being odd, and its cells there: (k, c), (k, d) -> k texts.

    ``reference`` (m, d): features of rows that show what is usual.
    """
    if not len(cells):
        return []
    contributions = np.maximum(encoding.by_column(explanation, cells), 0)
    starts = np.searchsorted(encoding.owners, np.arange(len(encoding.columns)))
    quantiles = np.quantile(reference, (USUAL[0], 0.25, 0.75, USUAL[1]), axis=0, method="inverted_cdf")
    # Texts that share a feature have none of their own to look at.
    firsts = np.minimum(starts, reference.shape[1] - 1)
    usual = Usual(firsts, quantiles[:, firsts], reference.mean(axis=0))
    return [
        _row_in_words(contribution, encoding, row, usual)
        for contribution, row in zip(contributions, cells, strict=True)
    ]


def reasons_of_groups(
    encoding: Encoding, groups: Groups, explanation: GroupExplanation, model: GroupModel
) -> list[str]:
    """The columns that set apart the points of which each group has too many: what its own points are, what is usual.

    Before these, values never seen in columns that were constant, and how many points the group has, in all and of
    values that most groups have equally often, if that is unusual.
    """
    size, usual = model.size, Population.of(model)
    order, reasons = np.argsort(groups.ids, kind="stable"), []
    for g, rows in enumerate(np.split(order, np.cumsum(groups.sizes)[:-1])):
        of_size = "" if size is None else _size_in_words(len(rows), size)
        counts = _unseen_in_words(explanation.reasons[g], encoding)
        counts |= _counts_in_words(explanation.reasons[g], model, encoding)
        points = groups.rows.take(rows)
        leading = [*_rare_texts(explanation.reasons[g], encoding), *_leading(explanation.features[g])]
        chosen = [j for j in dict.fromkeys(leading) if j not in counts][:MOST_REASONS]
        apart = explanation.features[g]
        reasons.append(_group_in_words(chosen, apart, encoding, points, usual, of_size, [*counts.values()]))
    return reasons


@dataclass(frozen=True)
class Population:
    """Points that stand for all groups of ``fit``, each of which counts the same: (m, d), and their weights (m,)."""

    points: Floats
    weights: Floats

    @classmethod
    def of(cls, model: GroupModel) -> "Population":
        """What a model compares groups with."""
        weights = model.reference_masses[: len(model.reference)]
        return cls(model.reference, weights if weights.sum() > 0 else np.ones(len(weights)))

    def quartiles(self, j: int) -> Floats:
        """First quartile, median and third quartile of a feature: the first values up to which so much lies."""
        order = np.argsort(self.points[:, j], kind="stable")
        weight = np.cumsum(self.weights[order])
        quartiles: Floats = self.points[order, j][np.searchsorted(weight, np.array(QUARTILES) * weight[-1])]
        return quartiles

    def share(self, j: int) -> float:
        """Mean of a feature of 0 and 1."""
        return float(np.average(self.points[:, j], weights=self.weights))


def _size_in_words(n: int, size: SizeEvidence) -> str:
    """How many points a group has, "" if that is not unusual."""
    if size.oddness(np.array([n]))[0] < ODD_SIZE:
        return ""
    usual = np.quantile(size.sizes, USUAL, method="inverted_cdf")
    ends = " to ".join(dict.fromkeys(number_in_words(one) for one in usual))
    return f"n_points {number_in_words(n)} ({'low' if np.log(n) < size.usual[0] else 'high'}, usually {ends})"


def _unseen_in_words(reasons: list[GroupReason], encoding: Encoding) -> dict[int, str]:
    """Values of columns that had another one in all points of ``fit``, by the number of their feature."""
    words: dict[int, str] = {}
    for reason in [one for one in reasons if one.kind == "unseen"][:MOST_REASONS]:
        j = reason.columns[0]
        column, name = encoding.column_of(j), encoding.names[j]
        if abs(reason.value) >= FARTHEST:
            words[j] = f"{column.name} missing, never before"
            continue
        if column.kind == TEXT:
            words[j] = f"{column.name} never seen before" if reason.value == UNSEEN else f"{name}, never before"
            continue
        kind = column.kind if name == column.name else ""
        values = [value_in_words(kind, value) for value in (reason.value, reason.usual)]
        words[j] = f"{name} {values[0]}, always {values[1]} before"
    return words


def _counts_in_words(reasons: list[GroupReason], model: GroupModel, encoding: Encoding) -> dict[int, str]:
    """Values that a group has more or less often than most groups, by the number of their feature."""
    summaries = model.summaries
    words: dict[int, str] = {}
    for reason in [one for one in reasons if one.kind == "count"][:MOST_REASONS]:
        assert summaries is not None
        j = reason.columns[0]
        value = encoding.names[j] if encoding.column_of(j).kind == TEXT else f"{encoding.names[j]} true"
        value = value if summaries.scores.high_is_rare[j] else f"other than {value}"
        words[j] = f"{value} ({number_in_words(reason.value)} rows, usually {number_in_words(reason.usual)})"
    return words


def number_in_words(value: float) -> str:
    """A number as people write it, 1,240, 0.0031, 3: three digits, or more where these would make it a whole number.

    >>> number_in_words(9999.99), number_in_words(0.00312345)
    ('9,999.99', '0.00312')
    """
    if abs(value) >= LARGE_NUMBER:
        return f"{value:.3g}"
    comma = "," if abs(value) >= 1000 else ""
    first = max(3, len(f"{abs(value):.0f}")) if comma else 3
    for digits in range(first, MOST_DIGITS):
        if float(f"{value:.{digits}g}").is_integer() == float(value).is_integer():
            return f"{value:{comma}.{digits}g}"
    return f"{value:{comma}.{MOST_DIGITS}g}"


def in_cell(value: Any) -> str:
    """A value as a table shows it: three digits or whole, a day without midnight, text without what acts or hides."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value != value:  # noqa: PLR0124, NaN differs from itself
        return "-"
    if isinstance(value, float):
        return number_in_words(float(f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"))
    return shown(str(value).removesuffix(" 00:00:00"))


class Usual(NamedTuple):
    """What is usual: the first feature of each column (c,), quantiles of it (4, c), and means of all features (d,)."""

    firsts: Ints
    quantiles: Floats
    means: Floats

    def share(self, j: int, column: EncodedColumn, cell: float) -> float:
        """Share of the rows in which a column is true, or has the category of a cell."""
        is_indicator = column.kind == TEXT and not column.shares and cell < len(column.categories)
        return float(self.means[self.firsts[j] + (int(cell) if is_indicator else 0)])


def _row_in_words(contributions: Floats, encoding: Encoding, row: Floats, usual: Usual) -> str:
    total, largest = contributions.sum(), contributions.max()
    parts: list[str] = []
    order = np.argsort(-contributions, kind="stable")
    for j in order[:MOST_REASONS]:
        if contributions[j] <= 0 or contributions[j] < min(LEAST_SHARE * total, LEAST_OF_LARGEST * largest):
            break
        column, value = encoding.columns[j], float(row[j])
        words, share = cell_in_words(column, value, usual.share(j, column, value))
        if share is not None:
            parts.append(f"{column.name} {words}" if column.kind != TEXT or "=" not in words else words)
            if not math.isnan(share):
                parts[-1] += f" ({'rare' if share < RARE else 'unusual'})"
            continue
        low, first, third, high = usual.quantiles[:, j]
        place = "high" if value > third else "low" if value < first else "unusual in this row"
        ends = dict.fromkeys(value_in_words(column.kind, one) for one in (low, high))
        parts.append(f"{column.name} {words} ({place}, usually {' to '.join(ends)})")
    n_more = int(np.count_nonzero(contributions > 0)) - len(parts)
    is_half = contributions[order[: len(parts)]].sum() >= total / 2
    return ", ".join([*parts, f"{n_more:,} other columns, each less"] if n_more and not is_half else parts) or NO_COLUMN


def cell_in_words(column: EncodedColumn, value: float, usual: float) -> tuple[str, float | None]:
    """What stands in a cell, and its share of the rows: NaN where the words say all, None of a number or a time.

    usual : share of the rows in which a column of true and false is true.
    """
    if math.isnan(value):
        share = 2.0 ** -math.sqrt(column.surprise)
        return (f"missing (in {_percent(share)} of the rows)" if column.ever_missing else "missing, never before"), NAN
    if column.kind == TEXT:
        k = int(value)
        if k < len(column.categories):
            return f"{column.name}={column.categories[k]}", column.shares[k] if column.shares else usual
        return "never seen before", NAN
    words = value_in_words(column.kind, value)
    if not math.isnan(column.only) and value != column.only:
        return f"{words}, always {value_in_words(column.kind, column.only)} before", NAN
    return words, (usual if value else 1 - usual) if column.kind == BOOL else None


def value_in_words(kind: str, value: float) -> str:
    """A value of a column as people write it."""
    if kind == BOOL and value in (0, 1):
        return "true" if value else "false"
    if kind == TIME:
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return number_in_words(value)


def _group_in_words(
    chosen: list[int],
    apart: Floats,
    encoding: Encoding,
    points: Floats,
    usual: Population,
    size: str,
    counts: list[str],
) -> str:
    names, parts = encoding.names, [*([size] if size else []), *counts]
    for j in chosen:
        column = encoding.column_of(j)
        if column.kind in (TEXT, BOOL):
            name = names[j] if column.kind == TEXT else f"{names[j]} true"
            parts.append(f"{name} ({_percent(points[:, j].mean())}, usually {_percent(usual.share(j))})")
        else:
            kind = column.kind if names[j] == column.name else ""
            quartiles = np.quantile(points[:, j], QUARTILES, method="inverted_cdf")
            quartiles[1] = np.median(points[:, j])
            parts.append(f"{names[j]} {_difference_in_words(kind, quartiles, usual.quartiles(j), apart[j] > 0)}")
    words = ", ".join(parts) or NO_COLUMN
    n = len(points)
    return f"{words}; only {n} point{'s' if n > 1 else ''}" if n < FEW_POINTS and not size else words


def _difference_in_words(kind: str, quartiles: Floats, usual: Floats, is_high: bool) -> str:
    """How the quartiles of a group differ from the usual ones: (3,), (3,)."""
    width, usual_width = quartiles[2] - quartiles[0], usual[2] - usual[0]
    shift, place = abs(quartiles[1] - usual[1]), "high" if is_high else "low"
    medians = f"median {value_in_words(kind, quartiles[1])}, usually {value_in_words(kind, usual[1])}"
    if shift <= usual_width / 2 and not usual_width / SPREAD_RATIO <= width <= SPREAD_RATIO * usual_width:
        halves = [
            " to ".join(dict.fromkeys(value_in_words(kind, one[k]) for k in (0, 2))) for one in (quartiles, usual)
        ]
        return f"{'narrower' if width < usual_width else 'wider'} (middle half {halves[0]}, usually {halves[1]})"
    is_so = shift >= LEAST_SHIFT * usual_width and (quartiles[1] > usual[1]) == is_high
    return f"{place} ({medians})" if is_so else f"more often {place} ({medians})"


def _percent(share: float) -> str:
    return f"{number_in_words(float(f'{100 * share:.2g}'))} %"


def _leading(apart: Floats) -> list[int]:
    order = np.argsort(-np.abs(apart), kind="stable")[:MOST_REASONS]
    return [int(j) for j in order if abs(apart[j]) >= LEAST_SEPARATION]


def _rare_texts(reasons: list[GroupReason], encoding: Encoding) -> list[int]:
    """Texts that a group has far more often than usual, though they may be few of its points: numbers of features."""
    features = [one.columns[0] for one in reasons if one.kind == "mean" and one.deviation >= ODD_SHARE]
    return [j for j in features if encoding.column_of(j).kind == TEXT]
