"""P-values by their definition, in loops: folds, the floor, and the tail beyond it."""

import math


def p_value(folds, scores, exact=False):
    """Scores of the rows set aside, a list for each fold, and those of one new row, by the model of each fold."""
    n = sum(len(fold) for fold in folds)
    below = 0
    for fold, score in zip(folds, scores, strict=True):
        for other in fold:
            if other <= score:
                below += 1
    rank_share = (1 + below) / (1 + n)
    if below or exact or min(scores) <= 0:
        return rank_share
    tail = pareto(folds)
    if tail is None:
        return rank_share
    thresholds, k, scale, shape, bend = tail
    excess = sum(-math.log(s) - u for s, u in zip(scores, thresholds, strict=True)) / len(folds)
    if excess <= 0:
        return rank_share
    fall = (1 + shape * min(excess, bend) / scale) ** (-1 / shape)
    return min(rank_share, (k + 1) / (n + 1) * fall * math.exp(-max(excess - bend, 0) / (scale + shape * bend)))


def pareto(folds):
    """Thresholds, how many surprises are beyond, scale and shape of a generalised Pareto tail, and where that ends."""
    n = sum(len(fold) for fold in folds)
    wanted = min(max(n / 10, 10), 500)
    thresholds, excess = [], []
    for fold in folds:
        surprises = [-math.log(score) if score > 0 else math.inf for score in fold]
        possible = [
            u for u in surprises if sum(surprise > u for surprise in surprises) >= max(1, round(wanted * len(fold) / n))
        ]
        if not possible:
            return None
        thresholds.append(max(possible))
        excess += [surprise - thresholds[-1] for surprise in surprises if surprise > thresholds[-1]]
    k = len(excess)
    if k < 10:
        return None
    mean = sum(excess) / k
    pairs = [min(a, b) for i, a in enumerate(excess) for b in excess[:i]]
    least_of_two = sum(pairs) / len(pairs)
    # The mean is scale / (1 - xi), and that of the smaller of two is scale / (2 - xi).
    xi = min(2 - mean / (mean - least_of_two) if mean > least_of_two else -math.inf, 0.9)
    return thresholds, k, mean * (1 - max(xi, 0)), max(xi + 0.5 / math.sqrt(k), 1 / k), max(excess) / 2
