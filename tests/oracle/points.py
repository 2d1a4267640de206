"""The definitions of SPEC.md and the paper in plain loops: one point, one center, one coordinate at a time.

Slow and obvious on purpose. A point is a sequence of numbers, scaled already, a partitioning a sequence of centers, and
a point's `cells` the list of its cell in every partitioning. Distances are float32, one operation at a time.
"""

from fractions import Fraction
from math import asinh, exp, frexp, inf, log, sqrt
from statistics import NormalDist, median, pstdev

import numpy as np

OUTSIDE = -1


def sq_distance(x, y):
    """sum_k (x_k - y_k)^2 in the order of k, each difference, product and sum rounded to float32."""
    total = np.float32(0)
    for a, b in zip(x, y, strict=True):
        gap = np.float32(a) - np.float32(b)
        total = total + gap * gap
    return total


def samples(n_slots, levels, psi):
    """The slots of every sample of one psi: blocks of the largest, and in each the samples of the smaller ones."""
    slots = []
    for block in range(0, n_slots, levels[-1]):
        if psi == levels[-1]:
            starts = [block]
        elif psi <= 32:  # the first psi of every whole run of 32, or of the block, if it is shorter
            run = min(32, levels[-1])
            starts = range(block, block + levels[-1] - run + 1, run)
        else:  # one behind the other
            starts = range(block, block + levels[-1] - psi + 1, psi)
        slots += [range(start, start + psi) for start in starts]
    return slots


def partitionings(pool, slots, levels, psi):
    """The centers of every sample of one psi."""
    return [[pool[slots[slot]] for slot in own] for own in samples(len(slots), levels, psi)]


def sq_radius(center, centers):
    """Squared distance of a center to the nearest different one, 0 if all are equal."""
    sq_dists = [sq_distance(center, other) for other in centers]
    return min((sq_dist for sq_dist in sq_dists if sq_dist > 0), default=np.float32(0))


def sq_radii(centers, mechanism="hypersphere"):
    """Squared radius of the ball around every center, infinite for Voronoi."""
    return [inf if mechanism == "voronoi" else sq_radius(center, centers) for center in centers]


def cell(x, centers, radii, rule="nearest"):
    """The cell of x in one partitioning, OUTSIDE if none: ties to the lowest index, the boundary is inside."""
    sq_dists = [sq_distance(x, center) for center in centers]
    covering = [j for j in range(len(centers)) if sq_dists[j] <= radii[j]]
    if rule == "nearest":
        nearest = min(range(len(centers)), key=lambda j: sq_dists[j])
        return nearest if nearest in covering else OUTSIDE
    if not covering:
        return OUTSIDE
    if rule == "covering":
        return min(covering, key=lambda j: sq_dists[j])
    if rule == "smallest":
        return min(covering, key=lambda j: radii[j])
    raise ValueError(rule)


def octaves(sq_dist):
    """2^12 times log2, linear between powers of two and below 2^-126, from 2^-127 and rounded down: a whole number."""
    sq_dist, exponent = Fraction(float(sq_dist)), 0
    if sq_dist == 0:
        return 0
    while sq_dist >= 2:
        sq_dist, exponent = sq_dist / 2, exponent + 1
    while sq_dist < 1 and exponent > -126:
        sq_dist, exponent = sq_dist * 2, exponent - 1
    return (exponent + 126) * 2**12 + int(sq_dist * 2**12)


def far_limit(partitionings):
    """Octaves of the lower median of all squared radii above 0; of 1 if there are none."""
    radii = sorted(radius for centers in partitionings for radius in sq_radii(centers) if radius > 0)
    return octaves(radii[(len(radii) - 1) // 2] if radii else 1)


def far_out(x, partitionings, limit):
    """Octaves beyond the limit from x to its nearest center, summed over the partitionings in which x is OUTSIDE."""
    total = 0
    for centers in partitionings:
        nearest = min(centers, key=lambda center: sq_distance(x, center))
        sq_dist = sq_distance(x, nearest)
        if sq_dist > sq_radius(nearest, centers):
            total += max(0, octaves(sq_dist) - limit)
    return total


def assign_cells(X, partitionings, rule="nearest", mechanism="hypersphere"):
    """The cells of every point: one list per point, one entry per partitioning."""
    cells = [[] for _ in X]
    for centers in partitionings:
        radii = sq_radii(centers, mechanism)
        for cells_of_row, x in zip(cells, X, strict=True):
            cells_of_row.append(cell(x, centers, radii, rule))
    return cells


def feature_map(x_cells, n_cells):
    """Definition 2: t * psi zeros and ones, one-hot per partitioning, all zeros where OUTSIDE."""
    phi = []
    for x_cell in x_cells:
        for j in range(n_cells):
            phi.append(1 if x_cell == j else 0)
    return phi


def mean_map(cells, n_cells):
    """The average feature map of a set of points."""
    total = [0] * (len(cells[0]) * n_cells)
    for x_cells in cells:
        for k, value in enumerate(feature_map(x_cells, n_cells)):
            total[k] += value
    return [value / len(cells) for value in total]


def isolation_kernel(x_cells, y_cells):
    """Definition 1: the share of partitionings in which both points are in the same cell; OUTSIDE never counts."""
    same = 0
    for a, b in zip(x_cells, y_cells, strict=True):
        if a == b and a != OUTSIDE:
            same += 1
    return same / len(x_cells)


def idk(S_cells, T_cells):
    """Definition 3: the mean Isolation Kernel over all pairs of the two sets."""
    total = 0.0
    for x_cells in S_cells:
        for y_cells in T_cells:
            total += isolation_kernel(x_cells, y_cells)
    return total / (len(S_cells) * len(T_cells))


def point_score(x_cells, data_cells):
    """IDK of {x} and the data."""
    return idk([x_cells], data_cells)


def _median(values, share=0.5):
    """The value below which `share` of the values lie, linear between neighbours."""
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (position - low) * (ordered[high] - ordered[low])


def average_over_views(train, rows, levels):
    """Scores of rows from their scores at every psi in every view; `train` and `rows` have, per view, (path, far).

    A path has a list of scores for each row, one per psi; far is a number per row, or None.
    """
    floors, weights, far_weights = [], [], []
    for path, far in train:
        columns = [[row[k] for row in path] for k in range(len(levels))]
        floors.append([sum(column) / len(column) / 1000 for column in columns])
        deviations = [
            pstdev([log(max(score, floor)) for score in column])
            for column, floor in zip(columns, floors[-1], strict=True)
        ]
        terms = [
            psi**-0.5 / deviation if deviation > 1e-9 else 0 for psi, deviation in zip(levels, deviations, strict=True)
        ]
        weights.append(terms if any(terms) else [psi**-0.5 for psi in levels])
        spread = 0 if far is None else pstdev(far)
        whole = sum(psi**-0.5 for psi in levels)
        far_weights.append(0 if far is None else whole / (spread if spread > 1e-9 else 1))
    total = sum(map(sum, weights)) + sum(far_weights)

    def mean_and_coarse(data, i):
        mean = coarse = 0
        for v, (path, far) in enumerate(data):
            for k, psi in enumerate(levels):
                term = weights[v][k] / total * log(max(path[i][k], floors[v][k]))
                mean += term
                coarse += term if psi <= 8 else 0
            mean -= 0 if far is None else far_weights[v] / total * far[i]
        return mean, coarse

    trained = [mean_and_coarse(train, i) for i in range(len(train[0][0]))]
    (middle, spread), (coarse_middle, coarse_spread) = (
        _middle_and_spread(values) for values in zip(*trained, strict=True)
    )
    scores = []
    for i in range(len(rows[0][0])):
        score, coarse = mean_and_coarse(rows, i)
        if levels[-1] > 8 and coarse_spread > 1e-9:
            odder = (coarse_middle - coarse) / coarse_spread - 0.5  # in robust units, half a unit less
            limit = middle - odder * spread
            if limit < score:
                score = 0.1 * score + 0.9 * limit
        scores.append(exp(score))
    return scores


def _middle_and_spread(values):
    """Median, and 1.4826 times the median absolute deviation; the standard deviation where that is 0."""
    middle = median(values)
    spread = 1.4826 * median(abs(value - middle) for value in values)
    return middle, spread if spread > 1e-9 else pstdev(values)


def normal_score(x, column):
    """The normal score of the middle rank of x among the column; a line between values, and on beyond them.

    The line beyond an end has the slope from the end to the value where the outer 5 % of the ranks are over.
    """
    values = sorted(set(column))
    if len(values) == 1:
        return x - values[0]
    ranks = []
    for value in values:
        below, same = sum(v < value for v in column), column.count(value)
        ranks.append(Fraction(2 * below + same, 2 * len(column)))
    scores = [NormalDist().inv_cdf(float(rank)) for rank in ranks]
    low = next((k for k in range(1, len(values)) if ranks[k] > Fraction(1, 20)), len(values) - 1)
    high = next((k for k in range(len(values) - 2, -1, -1) if ranks[k] < Fraction(19, 20)), 0)
    if x < values[0]:
        k, other = 0, low
    elif x >= values[-1]:
        k, other = len(values) - 1, high
    else:
        k = max(k for k in range(len(values)) if values[k] <= x)
        other = k + 1
    return scores[k] + (x - values[k]) * (scores[other] - scores[k]) / (values[other] - values[k])


def scale(X, train, scaling):
    """Every feature moved and divided by what the training data say; a constant feature becomes 0.

    None: its midpoint is taken away, and one power of two brings the largest half of a range into [1, 2).
    """
    scaled = [[0.0] * len(row) for row in X]
    half_range = max((max(column) - min(column)) / 2 for column in zip(*train, strict=True))
    power = 2.0 ** (frexp(half_range)[1] - 1)
    for k in range(len(train[0])):
        column = [float(row[k]) for row in train]
        if min(column) == max(column):
            continue
        mean, median = sum(column) / len(column), _median(column)
        away = [abs(v - median) for v in column]
        shift, width = {
            None: ((min(column) + max(column)) / 2, power),
            "minmax": (min(column), max(column) - min(column)),
            "standard": (mean, sqrt(sum((v - mean) ** 2 for v in column) / len(column))),
            "absolute": (mean, sum(abs(v - mean) for v in column) / len(column)),
            "robust": (median, _median(column, 0.75) - _median(column, 0.25)),
            "asinh": (median, _median(away) or sum(away) / len(away)),
            "normal": (0.0, 1.0),
        }[scaling]
        for i in range(len(X)):
            value = (float(X[i][k]) - shift) / width
            bent = {"asinh": asinh, "normal": lambda v, column=column: normal_score(v, column)}
            scaled[i][k] = bent.get(scaling, float)(value)
    return scaled
