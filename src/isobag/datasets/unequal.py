"""Groups of unequal size: thinned ones, a made-up population of them, and days of a sensor.

As in ``synthetic``, groups are labelled 0, 1, ... and stand one after the other; which of them are odd is drawn.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Floats, Ints
from isobag.datasets.synthetic import GroupSet, Seed, draw_anomalous

_KINDS = np.array([[0.0, 0.0, 0.0], [6.0, 0.0, 3.0], [0.0, 6.0, -3.0]])
"""Where the three kinds of normal group lie."""
_SCATTER = 0.3
ALIKE_KINDS = ("shifted", "narrower", "correlated", "partly shifted")


def thin_groups(
    X: npt.ArrayLike, groups: npt.ArrayLike, low: int, random_state: Seed = None
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Fewer points of each group, so that the sizes of groups differ widely; the rest keep their order.

    The new size of a group of n points is drawn log-uniformly between ``low`` and n and rounded; a group of ``low``
    points or fewer stays as it is. Points are drawn without replacement, and no group is lost. X (n, d), groups (n,).

    Examples
    --------
    >>> import numpy as np
    >>> from isobag.datasets import make_scale_up, thin_groups
    >>> X, groups, y = make_scale_up(200, random_state=0)  # 100 points each
    >>> X, groups = thin_groups(X, groups, 3, random_state=0)
    >>> sizes = np.bincount(groups)
    >>> len(sizes), int(sizes.min()), int(sizes.max()), int(np.median(sizes))
    (200, 3, 99, 21)
    """
    if low < 1:
        raise ValueError(f"low={low}; need 1 or more: a group without points is none.")
    X, groups = np.asarray(X), np.asarray(groups)
    if len(X) != len(groups):
        raise ValueError(f"groups has {len(groups)} labels and X has {len(X)} rows; need one label for each row.")
    rng = np.random.default_rng(random_state)
    _, ids, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    wanted = _log_uniform(np.minimum(low, sizes), sizes, rng)
    # In a random order, group by group, a point stays if it is among the first so many of its group.
    order = np.lexsort([rng.random(len(ids)), ids])
    places = np.arange(len(ids)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    left = np.sort(order[places < wanted[ids[order]]])
    return X[left], groups[left]


def make_unequal_groups(
    n_groups: int = 400, n_odd: int = 12, *, low: int = 5, high: int = 5000, random_state: Seed = None
) -> GroupSet:
    """Groups in three features whose sizes are log-uniform from ``low`` to ``high``, a few of them odd.

    A normal group is of one of three kinds, drawn evenly: points N(mu, I) around the place of its kind, from which mu
    scatters by .3 in each feature. The odd take turns: one is shifted by 3 in every feature, one has the place of its
    kind but a spread of .2 instead of 1, one mixes two kinds in equal parts, so that each of its points is ordinary.
    There are odd groups of all sizes: the range of log sizes is cut into ``n_odd`` equal parts, one for each. Of the
    smallest, those that mix can hardly be told: five points are little evidence.
    """
    _check_numbers(n_groups, n_odd, low, high)
    rng = np.random.default_rng(random_state)
    odd = rng.choice(n_groups, size=n_odd, replace=False)
    y = np.zeros(n_groups, dtype=np.int64)
    y[odd] = 1
    ends = np.full((2, n_groups), [[float(low)], [float(high)]])
    if n_odd:
        cuts = np.geomspace(low, high, n_odd + 1)
        ends[:, odd] = cuts[:-1], cuts[1:]
    sizes = _log_uniform(ends[0], ends[1], rng)
    kinds = rng.integers(len(_KINDS), size=n_groups)
    means, spreads = _KINDS[kinds] + _SCATTER * rng.standard_normal((n_groups, 3)), np.ones(n_groups)
    shifted, narrow, mixed = odd[::3], odd[1::3], odd[2::3]
    means[shifted] += 3
    spreads[narrow] = 0.2
    groups = np.repeat(np.arange(n_groups), sizes)
    X = means[groups] + spreads[groups, None] * rng.standard_normal((len(groups), 3))
    # Half of the points of a group that mixes belong where the next kind lies.
    elsewhere = np.isin(groups, mixed) & (rng.random(len(groups)) < 0.5)
    X[elsewhere] += (np.roll(_KINDS, -1, axis=0) - _KINDS)[kinds[groups[elsewhere]]]
    return GroupSet(X, groups, y)


def make_alike_groups(
    n_groups: int = 400,
    n_odd: int = 20,
    kind: str = "shifted",
    *,
    low: int = 20,
    high: int = 500,
    random_state: Seed = None,
) -> GroupSet:
    """Groups in three features, some of them odd and all odd ones alike: each has the others for neighbours.

    Sizes are log-uniform from ``low`` to ``high``. A normal group has points N(c, I), with c of its own from
    N(0, .09 I). An odd one has .3 c and, by ``kind``: "shifted", 1.5 more in the first feature; "narrower", spreads of
    .4; "correlated", a correlation of .95 of the first two features; "partly shifted", 3 more in all features for 30 %
    of its points.
    """
    if kind not in ALIKE_KINDS:
        raise ValueError(f"kind={kind!r}; need one of {', '.join(ALIKE_KINDS)}.")
    _check_numbers(n_groups, n_odd, low, high)
    rng = np.random.default_rng(random_state)
    y = draw_anomalous(n_groups, n_odd, rng)
    sizes = _log_uniform(np.full(n_groups, low), np.full(n_groups, high), rng)
    groups = np.repeat(np.arange(n_groups), sizes)
    middles = 0.3 * rng.standard_normal((n_groups, 3)) * np.where(y == 1, 0.3, 1.0)[:, None]
    X = rng.standard_normal((len(groups), 3))
    odd = y[groups] == 1
    if kind == "shifted":
        X[odd, 0] += 1.5
    elif kind == "narrower":
        X[odd] *= 0.4
    elif kind == "correlated":
        X[odd, 1] = 0.95 * X[odd, 0] + np.sqrt(1 - 0.95**2) * X[odd, 1]
    else:
        X[odd & (rng.random(len(groups)) < 0.3)] += 3
    return GroupSet(X + middles[groups], groups, y)


def make_scattered_groups(
    n_groups: int = 400, n_odd: int = 20, *, low: int = 20, high: int = 500, random_state: Seed = None
) -> GroupSet:
    """Groups in three features, some of them odd, each in a way of its own: no odd group has another for neighbour.

    Sizes and normal groups are as in ``make_alike_groups``. An odd one is shifted by 1.5 in a direction of its own,
    and its points are stretched along another such direction by a factor that is log-uniform between 1/3 and 3.
    """
    _check_numbers(n_groups, n_odd, low, high)
    rng = np.random.default_rng(random_state)
    y = draw_anomalous(n_groups, n_odd, rng)
    sizes = _log_uniform(np.full(n_groups, low), np.full(n_groups, high), rng)
    groups = np.repeat(np.arange(n_groups), sizes)
    X = rng.standard_normal((len(groups), 3))
    middles = 0.3 * rng.standard_normal((n_groups, 3))
    shifts, axes = rng.standard_normal((2, n_groups, 3))
    shifts *= (y * 1.5 / np.linalg.norm(shifts, axis=1))[:, None]
    axes /= np.linalg.norm(axes, axis=1)[:, None]
    factors = np.where(y == 1, np.exp(rng.uniform(-np.log(3), np.log(3), n_groups)), 1.0)
    along = np.einsum("ij,ij->i", X, axes[groups]) * (factors[groups] - 1)
    X += along[:, None] * axes[groups]
    return GroupSet(X + (middles + shifts)[groups], groups, y)


def make_sensor_days(n_days: int = 120, n_readings: int = 96, *, random_state: Seed = None) -> GroupSet:
    """Days of a sensor, each a group of readings of temperature and humidity; two days are odd.

    Temperature follows the hour, 20 + 5 sin(2 pi hour / 24), on a level that differs from day to day (standard
    deviation 1) and with noise (.5). Humidity falls as temperature rises: 60 - 2 (temperature - 20), with noise (2). On
    one odd day the sensor is stuck: all readings repeat the first. On the other humidity rises with temperature
    instead, while each of the two by itself is distributed as on any day.
    """
    if n_days < 3 or n_readings < 2:
        raise ValueError(f"n_days={n_days} and n_readings={n_readings}; need 3 and 2 or more: two days are odd.")
    rng = np.random.default_rng(random_state)
    y = np.zeros(n_days, dtype=np.int64)
    stuck, flipped = rng.choice(n_days, size=2, replace=False)
    y[[stuck, flipped]] = 1
    hours = 2 * np.pi * np.arange(n_readings) / n_readings
    above = 5 * np.sin(hours) + rng.standard_normal((n_days, 1)) + 0.5 * rng.standard_normal((n_days, n_readings))
    slopes = np.where(np.arange(n_days) == flipped, 2.0, -2.0)[:, None]
    humidity = 60 + slopes * above + 2 * rng.standard_normal(above.shape)
    X = np.stack([20 + above, humidity], axis=2)
    X[stuck] = X[stuck, 0]
    return GroupSet(X.reshape(-1, 2), np.repeat(np.arange(n_days), n_readings), y)


def _check_numbers(n_groups: int, n_odd: int, low: int, high: int) -> None:
    """Refuse numbers and sizes of groups that cannot be."""
    if not 0 <= n_odd < n_groups:
        raise ValueError(f"n_odd={n_odd}; need 0 or more, below n_groups={n_groups}: odd is what most are not.")
    if not 1 <= low <= high:
        raise ValueError(f"low={low} and high={high}; need sizes of 1 or more, the lower first.")


def _log_uniform(low: npt.ArrayLike, high: npt.ArrayLike, rng: np.random.Generator) -> Ints:
    """Whole numbers whose logarithms are uniform, rounded: (n,), (n,) -> (n,)."""
    drawn: Floats = np.exp(rng.uniform(np.log(low), np.log(high)))
    return np.rint(drawn).astype(np.int64)
