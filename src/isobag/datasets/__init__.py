"""Data to try the detectors on: real sets from files, the paper's synthetic sets and other made-up ones."""

from isobag.datasets.files import SYNTHETIC_GROUP_SETS, DatasetNotAvailableError, load, load_groups
from isobag.datasets.rebuild import REBUILT_GROUP_SETS, rebuild_groups
from isobag.datasets.registry import ADBENCH_SHA256, GROUP_SETS, POINT_SETS
from isobag.datasets.suite import SUITE_VARIANTS, GroupProblem, group_suite, suite_sets
from isobag.datasets.synthetic import (
    CARD_FEATURES,
    CardAccounts,
    GroupSet,
    Points,
    make_card_accounts,
    make_gaussian1k,
    make_gaussian100,
    make_mix_gaussian1k,
    make_scale_up,
)
from isobag.datasets.unequal import (
    make_alike_groups,
    make_scattered_groups,
    make_sensor_days,
    make_unequal_groups,
    thin_groups,
)

ADBENCH_SETS = tuple(ADBENCH_SHA256)

__all__ = [
    "ADBENCH_SETS",
    "CARD_FEATURES",
    "GROUP_SETS",
    "POINT_SETS",
    "REBUILT_GROUP_SETS",
    "SUITE_VARIANTS",
    "SYNTHETIC_GROUP_SETS",
    "CardAccounts",
    "DatasetNotAvailableError",
    "GroupProblem",
    "GroupSet",
    "Points",
    "group_suite",
    "load",
    "load_groups",
    "make_alike_groups",
    "make_card_accounts",
    "make_gaussian1k",
    "make_gaussian100",
    "make_mix_gaussian1k",
    "make_scale_up",
    "make_scattered_groups",
    "make_sensor_days",
    "make_unequal_groups",
    "rebuild_groups",
    "suite_sets",
    "thin_groups",
]
