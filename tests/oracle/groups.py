"""The definitions of the group detector, in plain loops and exact fractions; level 1 builds on `points`.

A mean map is a list of fractions, a partitioning of groups a list of mean maps.
"""

from fractions import Fraction
from math import inf

from oracle.points import OUTSIDE


def mean_map(cells, n_cells, outside=False):
    """Share of the points of one group in each cell; with `outside`, OUTSIDE is a last cell of each partitioning."""
    shares = []
    for i in range(len(cells[0])):
        own = [x_cells[i] for x_cells in cells]
        for j in [*range(n_cells), *([OUTSIDE] if outside else [])]:
            shares.append(Fraction(own.count(j), len(own)))
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
        for own, group in zip(cells, groups, strict=True):
            own.append(cell(group, centers, radii))
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
