"""The definitions of the group detector, in plain loops and exact fractions; level 1 builds on `points`.

A mean map is a list of fractions, a partitioning of groups a list of mean maps.
"""

from fractions import Fraction
from math import ceil, dist, exp, inf, log, sqrt
from statistics import NormalDist

from oracle.points import OUTSIDE


def mean_map(cells, n_cells, outside=False):
    """Share of the points of one group in each cell; with `outside`, OUTSIDE is a last cell of each partitioning."""
    shares = []
    for i in range(len(cells[0])):
        cells_of_group = [x_cells[i] for x_cells in cells]
        for j in [*range(n_cells), *([OUTSIDE] if outside else [])]:
            shares.append(Fraction(cells_of_group.count(j), len(cells_of_group)))
    return shares


def sq_distance(a, b):
    """sum_k (a_k - b_k)^2, without rounding."""
    total = Fraction(0)
    for p, q in zip(a, b, strict=True):
        if p != q:
            total += (p - q) ** 2
    return total


def sq_radii(centers, mechanism="hypersphere"):
    """Squared distance of every center to the nearest different center; 0 if all are equal, infinite for Voronoi."""
    if mechanism == "voronoi":
        return [inf] * len(centers)
    radii = []
    for center in centers:
        different = [sq_distance(center, other) for other in centers if other != center]
        radii.append(min(different, default=Fraction(0)))
    return radii


def cell(group, centers, radii):
    """Cell of a group: that of the nearest center, the lowest index among equals, if its ball reaches the group."""
    sq_dists = [sq_distance(group, center) for center in centers]
    nearest = sq_dists.index(min(sq_dists))
    return nearest if sq_dists[nearest] <= radii[nearest] else OUTSIDE


def assign_cells(groups, partitionings, mechanism="hypersphere"):
    """The cells of every group: one list per group, one entry per partitioning."""
    cells = [[] for _ in groups]
    for centers in partitionings:
        radii = sq_radii(centers, mechanism)
        for row, group in zip(cells, groups, strict=True):
            row.append(cell(group, centers, radii))
    return cells


def score(cells, fit_cells):
    """Share of the groups of fit in the group's cell, nothing if OUTSIDE; the mean over partitionings."""
    same = 0
    for others in fit_cells:
        for a, b in zip(cells, others, strict=True):
            if a == b and a != OUTSIDE:
                same += 1
    return float(Fraction(same, len(fit_cells) * len(cells)))


def count_ties(groups, partitionings):
    """How often two different centers are equally near to a group and no other is nearer."""
    ties = 0
    for centers in partitionings:
        for group in groups:
            sq_dists = [sq_distance(group, center) for center in centers]
            nearest = [centers[j] for j in range(len(centers)) if sq_dists[j] == min(sq_dists)]
            ties += any(center != nearest[0] for center in nearest)
    return ties


def noise(maps, sizes, n_partitionings):
    """Ratio of the variance between groups to that of one point within them, and the population's mean map.

    Three rounds, because groups are weighted by n / (1 + ratio n); every point has one cell in each partitioning.
    """
    points = sum(sizes)
    within = Fraction(0)
    for group_map, n in zip(maps, sizes, strict=True):
        within += n * (n_partitionings - sum(share * share for share in group_map))
    within /= points - len(sizes)
    ratio = Fraction(0)
    for _ in range(3):
        weights = [n / (1 + ratio * n) for n in sizes]
        weights = [weight / sum(weights) for weight in weights]
        population = [
            sum(weight * group_map[k] for weight, group_map in zip(weights, maps, strict=True))
            for k in range(len(maps[0]))
        ]
        spread = sum(
            weight * sq_distance(group_map, population) for weight, group_map in zip(weights, maps, strict=True)
        )
        by_chance = within * sum(weight * (1 - weight) / n for weight, n in zip(weights, sizes, strict=True))
        between = (spread - by_chance) / sum(weight * (1 - weight) for weight in weights)
        ratio = Fraction(float(max(between, 0) / within))
    return ratio, population


def deviation(group_map, n, ratio, population, largest):
    """The mean map's step away from the population, on a scale on which chance alone is as large at every size."""
    n = min(n, largest)
    factor = sqrt(n / (1 + ratio * n))
    return [factor * float(share - usual) for share, usual in zip(group_map, population, strict=True)]


def near_and_far(group, references, noise_of, n_nearest=10, far_shares=(20, 4)):
    """Mean distance to the nearest references, the group itself left out, and to the N/20-th and N/4-th nearest.

    Groups are mean map and size. Far is never nearer than the nearest, and never farther than all others.
    """
    z = deviation(*group, *noise_of)
    distances, itself = [], None
    for other in references:
        if itself is None and other == group:
            itself = other
            continue
        distances.append(dist(z, deviation(*other, *noise_of)))
    distances.sort()
    most = max(len(references) - 1, 1)
    n_nearest = min(n_nearest, most)
    means = [sum(distances[:n_nearest]) / n_nearest]
    for share in far_shares:
        means.append(distances[min(max(ceil(Fraction(len(references), share)), n_nearest), most) - 1])
    return means


def oddness(distances, n, lines, margin=1.5):
    """The largest of: spreads of the nearest beyond what is usual at size n, and 1.5 less of the far ones."""
    deviations = []
    for distance, line in zip(distances, lines, strict=True):
        x = min(max(log(n), line.low), line.high) - line.middle
        deviations.append((distance - line.location - line.slope * x) / (line.scale * exp(line.scale_slope * x)))
    return max(deviations[0], deviations[1] - margin, deviations[2] - margin)


def score_sums(points, ranked):
    """Of each column the sums of v and of v^2 over points, v the normal score of the middle rank, in sixteenths."""
    sums = []
    for power in (1, 2):
        for j, values in enumerate(ranked):
            ranks = [sum(x < point[j] for x in values) + sum(x <= point[j] for x in values) for point in points]
            sums.append(sum(round(16 * NormalDist().inv_cdf(rank / (2 * len(values)))) ** power for rank in ranks))
    return sums
