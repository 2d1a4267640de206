"""A suite of problems for detectors of odd groups: real and made-up sets, each in up to four variants.

A problem is a set of groups, which of them a detector may learn from, and which it has to rank. Everything is drawn
with fixed seeds, so that results of different people can be compared; ``study/suite.py`` is an example of use.

Bags of multiple-instance learning (``mil_...``) are positive if one of their points is of a class that has to be
learned from labels. Such a bag need not be unlike the others in distribution, so count these sets apart.
"""

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Floats, Ints
from isobag.datasets.files import load_groups
from isobag.datasets.rebuild import REBUILT_GROUP_SETS, rebuild_groups
from isobag.datasets.synthetic import GroupSet, make_card_accounts, make_mix_gaussian1k, make_scale_up
from isobag.datasets.unequal import (
    ALIKE_KINDS,
    make_alike_groups,
    make_scattered_groups,
    make_sensor_days,
    make_unequal_groups,
    thin_groups,
)

SUITE_VARIANTS = ("as is", "thinned", "contaminated", "clean")
_THINNED_TO, _TENTH = 3, 10
_FEWEST_GROUPS = 30


class GroupProblem(NamedTuple):
    """Groups to rank.

    name, variant : of which set, and what was done to it.
    X : (points, d) float64, unscaled.
    groups : (points,) the group of each point: 0, 1, ..., ascending.
    y : (n_groups,) 1 = odd. For the evaluation; a detector must not see it.
    learn : (n_groups,) bool, the groups that a detector may learn from.
    judged : (n_groups,) bool, the groups whose scores are compared with ``y``.
    source, licence : where the set comes from.
    """

    name: str
    variant: str
    X: Floats
    groups: Ints
    y: Ints
    learn: npt.NDArray[np.bool_]
    judged: npt.NDArray[np.bool_]
    source: str
    licence: str


def _card_accounts(random_state: int) -> GroupSet:
    X, _, labels, y = make_card_accounts(random_state=random_state)
    return GroupSet(X, np.unique(labels, return_inverse=True)[1], y)


def _mixtures(random_state: int) -> GroupSet:
    """Every tenth point of ``make_mix_gaussian1k``: 100 points a group."""
    X, groups, y = make_mix_gaussian1k(random_state=random_state)
    return GroupSet(X[::10], groups[::10], y)


_MADE: dict[str, tuple[Callable[..., GroupSet], str]] = {
    "unequal": (make_unequal_groups, "make_unequal_groups: sizes over three decades; shifted, narrower, mixed"),
    "scattered": (make_scattered_groups, "make_scattered_groups: each odd group is odd in a way of its own"),
    **{
        f"alike, {kind}": (
            partial(make_alike_groups, kind=kind),
            f"make_alike_groups: odd groups are {kind}, all alike",
        )
        for kind in ALIKE_KINDS
    },
    "correlation": (make_scale_up, "make_scale_up: oblong groups, the odd ones turned"),
    "mixture": (_mixtures, "make_mix_gaussian1k, every tenth point: weights in another order"),
    "sensor days": (make_sensor_days, "make_sensor_days: stuck, or a correlation turned round"),
    "taken over": (_card_accounts, "make_card_accounts: one purchase repeated, or two lives on one card"),
}


def suite_sets(bags: bool | None = None) -> tuple[str, ...]:
    """Names of the sets of the suite, made-up ones first; only bags of multiple-instance learning, or all but these."""
    names = (*_MADE, *REBUILT_GROUP_SETS)
    return tuple(name for name in names if bags is None or name.startswith("mil_") == bags)


def group_suite(
    names: list[str] | None = None,
    variants: tuple[str, ...] = SUITE_VARIANTS,
    *,
    folder: str | os.PathLike[str] | None = None,
    n_groups: int | None = None,
    random_state: int = 0,
) -> Iterator[GroupProblem]:
    """The problems of the suite, one after the other.

    Parameters
    ----------
    names : sets, by default all of ``suite_sets()``; also any other ``group/NAME.npz`` of the folder. Real sets are
        built from public archives, which are downloaded when first needed; one that cannot be had raises
        ``DatasetNotAvailableError``.
    variants : which of these. "as is": learn from all groups, and rank all. "thinned": the same, after points have been
        taken away so that sizes are log-uniform from 3 points (1 where no group has more than 9) to all.
        "contaminated": the same, after normal groups have been taken away until one group in ten is odd; left out
        where fewer than 30 groups would remain. "clean": learn from half of the normal groups, rank all others.
    folder : where files of your own are, as for ``load``.
    n_groups : if given, larger sets lose normal groups until so many remain, before anything else is done.
    random_state : seed of all draws.

    Examples
    --------
    >>> from isobag import IDKGroupDetector
    >>> from isobag.datasets import group_suite
    >>> from sklearn.metrics import roc_auc_score
    >>> for problem in group_suite(["sensor days"], ("as is", "clean")):
    ...     learned = problem.learn[problem.groups]
    ...     detector = IDKGroupDetector(random_state=0)
    ...     fitted = detector.fit(problem.X[learned], groups=problem.groups[learned])
    ...     scores = fitted.score_samples(problem.X, groups=problem.groups)
    ...     auc = roc_auc_score(problem.y[problem.judged], -scores[problem.judged])
    ...     print(problem.variant, int(problem.learn.sum()), int(problem.judged.sum()), auc > 0.9)
    as is 120 120 True
    clean 59 61 True
    """
    unknown = set(variants) - set(SUITE_VARIANTS)
    if unknown:
        raise ValueError(f"variants has {sorted(unknown)[0]!r}; need some of {', '.join(SUITE_VARIANTS)}.")
    for name in suite_sets() if names is None else names:
        whole, source, licence = _load(name, folder, random_state)
        if n_groups is not None:
            whole = _fewer_normal(whole, n_groups - int(whole.y.sum()), random_state)
        for variant in variants:
            changed = _change(whole, variant, random_state)
            if changed is None:
                continue
            learn = judged = np.ones(len(changed.y), dtype=bool)
            if variant == "clean":
                learn = _half_of_normal(changed.y, random_state)
                judged = ~learn
            yield GroupProblem(name, variant, *changed, learn, judged, source, licence)


def _load(name: str, folder: str | os.PathLike[str] | None, seed: int) -> tuple[GroupSet, str, str]:
    if name in _MADE:
        make, source = _MADE[name]
        return make(random_state=seed), source, "isobag's own"
    if name in REBUILT_GROUP_SETS:
        rebuilt = REBUILT_GROUP_SETS[name]
        return rebuild_groups(name, folder=folder), rebuilt.source, rebuilt.licence
    return load_groups(name, folder=folder), "a file of your own", "unknown"


def _change(whole: GroupSet, variant: str, seed: int) -> GroupSet | None:
    """The set as the variant has it, None if it does not have this variant."""
    if variant == "thinned":
        most = int(np.bincount(whole.groups).max())
        X, groups = thin_groups(whole.X, whole.groups, _THINNED_TO if most > 9 else 1, random_state=seed)
        return GroupSet(X, groups, whole.y)
    if variant == "contaminated":
        n_odd = int(whole.y.sum())
        if n_odd * _TENTH < _FEWEST_GROUPS:
            return None
        return _fewer_normal(whole, n_odd * (_TENTH - 1), seed)
    return whole


def _fewer_normal(whole: GroupSet, n_normal: int, seed: int) -> GroupSet:
    """The set with at most so many normal groups, drawn; all odd ones stay."""
    normal = np.flatnonzero(whole.y == 0)
    if len(normal) <= n_normal:
        return whole
    drawn = np.random.default_rng(seed).choice(normal, max(n_normal, 1), replace=False)
    chosen = np.sort(np.concatenate([drawn, np.flatnonzero(whole.y == 1)]))
    rows = np.isin(whole.groups, chosen)
    return GroupSet(whole.X[rows], np.searchsorted(chosen, whole.groups[rows]), whole.y[chosen])


def _half_of_normal(y: Ints, seed: int) -> npt.NDArray[np.bool_]:
    normal = np.flatnonzero(y == 0)
    learn = np.zeros(len(y), dtype=bool)
    learn[np.random.default_rng(seed).choice(normal, len(normal) // 2, replace=False)] = True
    return learn
