"""Data to try the detectors on: the paper's synthetic sets and the demo's card accounts."""

from isobag.datasets.synthetic import (
    CARD_FEATURES,
    CardAccounts,
    Groups,
    GroupsAroundMeans,
    Points,
    make_card_accounts,
    make_dense_and_sparse,
    make_density_peaks,
    make_gaussian1k,
    make_gaussian100,
    make_local_and_clustered,
    make_mix_gaussian1k,
    make_scale_up,
)

__all__ = [
    "CARD_FEATURES",
    "CardAccounts",
    "Groups",
    "GroupsAroundMeans",
    "Points",
    "make_card_accounts",
    "make_dense_and_sparse",
    "make_density_peaks",
    "make_gaussian1k",
    "make_gaussian100",
    "make_local_and_clustered",
    "make_mix_gaussian1k",
    "make_scale_up",
]
