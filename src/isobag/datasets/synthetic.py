"""The paper's synthetic sets, and card accounts for a demo.

The paper publishes counts and pictures, not formulas; the constructions here are ours and stand in each docstring.
Anomalous groups follow one principle: the pool of all points has a symmetry that single groups lack, and whole groups
are moved by it. A turned or rearranged group is unlike every other group, while each of its points is distributed
exactly as the points of normal groups are, so that no score of single points can tell them apart.

Groups are labelled 0, 1, ... and stand one after the other; which of them are anomalous is drawn.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Floats, Ints

Seed = int | np.random.Generator | None


class GroupSet(NamedTuple):
    """Points with their groups: ``X`` (points, d), ``groups`` (points,), ``y`` (groups,) with 1 = anomalous."""

    X: Floats
    groups: Ints
    y: Ints


class Points(NamedTuple):
    """Points without groups: ``X`` (points, d), ``y`` (points,) with 1 = anomalous."""

    X: Floats
    y: Ints


class CardAccounts(NamedTuple):
    """Transactions ``X`` (transactions, 4), the account of each in ``labels``; ``y`` (accounts,) with 1 = odd.

    ``y`` is in the order in which the accounts first appear in ``labels``.
    """

    X: Floats
    feature_names: tuple[str, ...]
    labels: npt.NDArray[np.str_]
    y: Ints


def make_gaussian100(*, random_state: Seed = None) -> GroupSet:
    """Gaussian100: 3,000 groups of 100 points in the plane, 30 of them anomalous (300,000 points).

    A normal group is an oblong Gaussian N(mu, S), standard deviation .9 along the diagonal and .3 across it. Its mean
    mu is drawn from N(0, I - S), so that the points of all groups together are a round N(0, I). An anomalous group is
    drawn in the same way and then turned about the origin by 45 to 135 degrees: it lies across the others, but as
    N(0, I) is round, its points are distributed as theirs.
    """
    return _turned_gaussians(3000, 100, 30, np.random.default_rng(random_state))


def make_gaussian1k(*, random_state: Seed = None) -> GroupSet:
    """Gaussian1K: ``make_gaussian100`` with 1,040 groups of 1,000 points, 40 of them anomalous (1,040,000 points)."""
    return _turned_gaussians(1040, 1000, 40, np.random.default_rng(random_state))


def make_scale_up(n_groups: int = 1000, *, random_state: Seed = None) -> GroupSet:
    """The scale-up set: ``make_gaussian100`` with any number of groups of 100 points, 1 % of them anomalous."""
    if n_groups < 1:
        raise ValueError(f"n_groups={n_groups}; need 1 or more: there is nothing to detect among no groups.")
    return _turned_gaussians(n_groups, 100, n_groups // 100, np.random.default_rng(random_state))


def make_mix_gaussian1k(*, random_state: Seed = None) -> GroupSet:
    """MixGaussian1K: 1,040 groups of 1,000 points in the plane, 40 of them anomalous (1,040,000 points).

    Every group is a mixture of the same five round Gaussians (standard deviation 0.5) at the corners of a regular
    pentagon, 2 from its middle, with weights that scatter around .5, .3, .1, .06, .04 (Dirichlet, concentration 200).
    The first weight falls on any corner alike. In a normal group the others follow corner by corner, anticlockwise; in
    an anomalous group they follow in strides of two, three or four corners (four is the mirror image). Both ways every
    corner is equally likely over all groups, so the points of anomalous groups are distributed as all points are.
    """
    rng = np.random.default_rng(random_state)
    y = draw_anomalous(1040, 40, rng)
    angles = 2 * np.pi / 5 * np.arange(5)
    corners = 2.0 * np.column_stack([np.cos(angles), np.sin(angles)])
    weights = rng.dirichlet(200 * np.array([0.5, 0.3, 0.1, 0.06, 0.04]), size=len(y))
    firsts = rng.integers(5, size=len(y))
    strides = np.where(y == 1, rng.integers(2, 5, size=len(y)), 1)
    by_weight = corners[(firsts[:, None] + strides[:, None] * np.arange(5)) % 5]
    chosen = _draw_categories(np.repeat(weights, 1000, axis=0), rng).reshape(len(y), 1000, 1)
    X = np.take_along_axis(by_weight, chosen, axis=1)
    return stacked(X + 0.5 * rng.standard_normal(X.shape), y)


CARD_FEATURES = ("amount", "hour", "minutes_since_last", "km_from_home")

_PURCHASES = {
    # amount: median, log-spread; hour: mean, spread; minutes since last: median, log-spread; km: median, log-spread
    "groceries": (45.0, 0.35, 17.0, 1.8, 900.0, 0.4, 2.0, 0.4),
    "lunch": (12.0, 0.30, 12.5, 0.8, 240.0, 0.4, 9.0, 0.4),
    "fuel": (60.0, 0.25, 8.0, 1.2, 720.0, 0.4, 7.0, 0.4),
    "online": (30.0, 0.45, 21.0, 1.4, 300.0, 0.5, 0.5, 0.4),
    "restaurant": (55.0, 0.35, 19.5, 1.0, 420.0, 0.4, 5.0, 0.4),
    "transit": (4.0, 0.25, 8.3, 0.9, 600.0, 0.4, 6.0, 0.4),
}
"""What a purchase of each kind looks like."""

_LIVES = {
    "commuter": {"fuel": 0.40, "lunch": 0.35, "groceries": 0.15, "restaurant": 0.05, "online": 0.05},
    "city": {"transit": 0.45, "restaurant": 0.30, "lunch": 0.15, "online": 0.05, "groceries": 0.05},
    "home": {"groceries": 0.45, "online": 0.40, "restaurant": 0.05, "fuel": 0.10},
}
"""Shares of the kinds in the three ordinary ways of life, each led by a third of the ordinary accounts."""

_ODDITIES = (
    {"lunch": 1.0},
    {"commuter": 0.5, "home": 0.5},
    {"groceries": 1.0},
    {"city": 0.5, "commuter": 0.5},
    {"restaurant": 1.0},
    {"home": 0.5, "city": 0.5},
)
"""What odd accounts do, in turn: repeat one ordinary kind of purchase, or lead two ordinary lives on one card."""


def make_card_accounts(
    n_accounts: int = 400,
    n_odd: int = 6,
    *,
    low: int = 20,
    high: int = 200,
    odd_low: int | None = None,
    random_state: Seed = None,
) -> CardAccounts:
    """Card accounts in which every transaction is ordinary and a few accounts are not.

    A transaction is a purchase of one of six kinds (groceries, lunch, fuel, online, restaurant, transit), and its kind
    alone says how its amount, hour of day, minutes since the last transaction and distance from home are distributed,
    whoever makes it. An ordinary account leads one of three lives (commuter, city, home): shares of the kinds,
    scattered a little from account to account (Dirichlet, concentration 150). An odd account makes purchases of the
    same kinds, but either all of one kind, or of two lives in equal parts, as when two people use one card; the
    oddities take turns. Accounts have ``low`` to ``high`` transactions, every number as likely as any other if these
    are up to ten times apart, else every order of magnitude; odd ones have at least ``odd_low``, if given. They are
    called "acct-0000", "acct-0001", ...
    """
    if not 0 <= n_odd < n_accounts:
        raise ValueError(f"n_odd={n_odd}; need 0 or more, below n_accounts={n_accounts}: odd is what most are not.")
    rng = np.random.default_rng(random_state)
    y = draw_anomalous(n_accounts, n_odd, rng)
    shares = np.empty((n_accounts, len(_PURCHASES)))
    lives = np.array(list(_LIVES))[rng.integers(len(_LIVES), size=n_accounts)]
    for account, life in enumerate(lives):
        # A share of zero would be no Dirichlet parameter; a thousandth is one purchase in a decade.
        shares[account] = rng.dirichlet(150 * np.maximum(_kind_shares({life: 1.0}), 1e-3))
    for turn, odd in enumerate(np.flatnonzero(y)):
        shares[odd] = _kind_shares(_ODDITIES[turn % len(_ODDITIES)])
    least = np.where(y == 1, low if odd_low is None else odd_low, low)
    if high <= 10 * low:
        sizes = rng.integers(least, high + 1)
    else:
        sizes = np.exp(rng.uniform(np.log(least), np.log(high + 1))).astype(np.int64)
    accounts = np.repeat(np.arange(n_accounts), sizes)
    kinds = _draw_categories(shares[accounts], rng)
    names = np.array([f"acct-{account:04d}" for account in range(n_accounts)])
    return CardAccounts(_draw_purchases(kinds, rng), CARD_FEATURES, names[accounts], y)


def _kind_shares(mix: dict[str, float]) -> Floats:
    """Share of each kind of purchase in a mix of kinds and lives: {name: share} -> (kinds,)."""
    shares = dict.fromkeys(_PURCHASES, 0.0)
    for name, share in mix.items():
        for kind, part in _LIVES.get(name, {name: 1.0}).items():
            shares[kind] += share * part
    return np.array(list(shares.values()))


def _draw_purchases(kinds: Ints, rng: np.random.Generator) -> Floats:
    """One transaction of each kind asked for, rounded to cents, minutes and metres: (n,) -> (n, 4)."""
    described = np.array(list(_PURCHASES.values()))[kinds]
    amount, hour, minutes, km = described[:, 0::2].T
    amount_noise, hour_noise, minutes_noise, km_noise = (described[:, 1::2] * rng.standard_normal((len(kinds), 4))).T
    columns = [
        np.round(amount * np.exp(amount_noise), 2),
        np.round(hour + hour_noise, 2) % 24,
        np.round(minutes * np.exp(minutes_noise)),
        np.round(km * np.exp(km_noise), 3),
    ]
    return np.column_stack(columns)


def _turned_gaussians(n_groups: int, n_points: int, n_anomalous: int, rng: np.random.Generator) -> GroupSet:
    """Groups N(mu, S) with mu from N(0, I - S), the anomalous ones turned about the origin; see make_gaussian100."""
    y = draw_anomalous(n_groups, n_anomalous, rng)
    spreads = np.array([0.9, 0.3])
    means = np.sqrt(1 - spreads**2) * rng.standard_normal((n_groups, 2))
    X = means[:, None] + spreads * rng.standard_normal((n_groups, n_points, 2))
    angles = np.deg2rad(45 + np.where(y == 1, rng.uniform(45, 135, n_groups), 0))
    cos, sin = np.cos(angles), np.sin(angles)
    turns = np.stack([np.stack([cos, sin], axis=1), np.stack([-sin, cos], axis=1)], axis=1)
    return stacked(X @ turns, y)


def stacked(X: Floats, y: Ints) -> GroupSet:
    """Groups of equal size, one after the other: (groups, points, d) -> (groups * points, d)."""
    return GroupSet(X.reshape(-1, X.shape[2]), np.repeat(np.arange(len(y)), X.shape[1]), y)


def draw_anomalous(n_groups: int, n_anomalous: int, rng: np.random.Generator) -> Ints:
    """1 for the groups drawn to be anomalous, else 0: (groups,)."""
    y = np.zeros(n_groups, dtype=np.int64)
    y[rng.choice(n_groups, size=n_anomalous, replace=False)] = 1
    return y


def _draw_categories(shares: Floats, rng: np.random.Generator) -> Ints:
    """One category per row, with the row's own shares: (n, categories) -> (n,)."""
    drawn: Ints = (rng.random(len(shares))[:, None] > np.cumsum(shares, axis=1)[:, :-1]).sum(axis=1)
    return drawn
