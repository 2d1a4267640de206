"""What is learned of rows in partitions is what is learned of them in memory, bit for bit, however they are cut."""

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from in_pieces import Pieces

from isobag import IDKGroupDetector, IDKPointDetector
from isobag.backends import Compute
from isobag.data.groups import Groups
from isobag.data.partitioned_groups import PartitionedGroups
from isobag.data.partitions import PartitionedRows, count_rows
from isobag.data.rows import ArrayRows
from isobag.models import maps as map_module
from isobag.models.thresholds import counts_of, quantile_of, threshold_of_ratios

NAMES = ["a", "b", "c"]


@dataclass(frozen=True)
class Read:
    """Rows and labels of a partition, whose frames are pairs of both."""

    def __call__(self, number, frames):
        return iter(frames)


def cut(X, labels, seed, n_partitions):
    """The same rows in partitions of unequal lengths, some empty, some in several frames, some of one row."""
    rng = np.random.default_rng(seed)
    edges = np.sort(rng.integers(0, len(X), n_partitions - 1))
    edges = np.concatenate([[0], edges, [len(X)]])
    parts = []
    for first, stop in pairwise(edges):
        middle = (first + stop) // 2
        own = [slice(first, middle), slice(middle, stop)] if seed % 2 else [slice(first, stop)]
        parts.append([(X[rows], None if labels is None else labels[rows]) for rows in own if rows.stop > rows.start])
    return Pieces([*parts, [], []], NAMES, seed)


def rows_of(X, seed, n_partitions):
    pieces = cut(X, None, seed, n_partitions)
    return PartitionedRows(pieces, Read(), count_rows(pieces, Read()), NAMES)


def groups_of(X, labels, seed, n_partitions):
    pieces = cut(X, labels, seed, n_partitions)
    sizes = Counter(labels.tolist())  # in order of first appearance
    numbers = {label: i for i, label in enumerate(sizes)}
    lengths = count_rows(pieces, Read())
    return PartitionedGroups(pieces, Read(), numbers, np.array([*sizes.values()]), lengths, NAMES)


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    return np.vstack([rng.normal(size=(900, 3)), rng.normal(3, 0.2, (95, 3)), [[9, 9, 9]], np.ones((4, 3))])


@pytest.mark.parametrize("options", [{}, {"max_samples": 16}, {"max_samples": 16, "contamination": 0.07}])
@pytest.mark.parametrize(("seed", "n_partitions"), [(0, 1), (1, 7), (2, 60)])
def test_points_in_partitions_make_the_same_detector(X, options, seed, n_partitions):
    frame = pd.DataFrame(X, columns=NAMES)
    plain = IDKPointDetector(n_estimators=12, random_state=3, **options).fit(frame)
    found = IDKPointDetector(n_estimators=12, random_state=3, **options).fit(rows_of(X, seed, n_partitions))
    assert found.offset_ == plain.offset_
    assert np.array_equal(found.score_samples(frame), plain.score_samples(frame))
    assert np.array_equal(np.asarray(found.score_samples(rows_of(X, seed, n_partitions))), plain.score_samples(frame))
    assert np.array_equal(found.p_values(frame), plain.p_values(frame))


@pytest.mark.parametrize("options", [{}, {"max_samples": 16}, {"scaling": "absolute", "max_samples": 16}])
@pytest.mark.parametrize(("calibrate", "n_passes"), [(False, 3), (True, 4)])
def test_fit_looks_at_rows_for_samples_and_ranges_then_counts_then_scores(X, options, calibrate, n_passes):
    rows, looks = rows_of(X, 1, 7), []
    run = rows.partitions.run
    rows.partitions.run = lambda work, *rest: looks.append(work) or run(work, *rest)
    IDKPointDetector(n_estimators=12, random_state=3, calibrate=calibrate, **options).fit(rows)
    # Scales that need no sample are learned before rows are brought here for calibration.
    is_apart = calibrate and options == {"max_samples": 16}
    assert len(looks) == n_passes + is_apart


def test_rows_are_taken_by_number_in_any_order(X):
    numbers = np.array([999, 0, 5, 5, 700, 1])
    assert np.array_equal(rows_of(X, 1, 9).take(numbers), X[numbers])
    assert np.array_equal(np.concatenate(list(rows_of(X, 1, 9).blocks())), X)
    rows = rows_of(X, 1, 9)
    rows.prefetch(np.array([700, 3, 700, 999]))
    for some in ([999, 3, 3], [3, 4], [999, 0], [0], [998], []):
        assert np.array_equal(rows.take(np.array(some, dtype=np.int64)), X[some])
    assert np.array_equal(rows.extremes(), (X.min(axis=0), X.max(axis=0)))


@pytest.mark.parametrize("share", [0.001, 0.1, 0.25, 0.5])
def test_a_quantile_needs_no_scores_in_one_place(share):
    scores = np.random.default_rng(0).choice([0.0, 0.25, 0.2500001, 0.9], 1_001)
    scores[::3] = np.random.default_rng(1).random(len(scores[::3]))

    class Blocks:
        def __len__(self):
            return len(scores)

        def map_reduce(self, function, combine):
            first, second, third = (function(part) for part in np.array_split(scores, 3))
            return combine(combine(third, first), second)

    assert quantile_of(Blocks(), share) == quantile_of(scores, share) == np.quantile(scores, share)
    assert threshold_of_ratios(counts_of(Blocks())) == threshold_of_ratios(counts_of(scores))


@pytest.fixture
def labelled(X):
    rng = np.random.default_rng(1)
    labels = np.array([f"g{i:02d}" for i in range(60)], dtype=object)
    return X, labels[np.sort(rng.integers(0, 60, len(X)))[rng.permutation(len(X))]]


@pytest.mark.parametrize(
    "options", [{}, {"max_samples": 8, "group_max_samples": 8}, {"group_max_samples": 8, "count_outside": True}]
)
@pytest.mark.parametrize(("seed", "n_partitions"), [(0, 1), (1, 5), pytest.param(2, 30, marks=pytest.mark.slow)])
def test_groups_in_partitions_make_the_same_detector(labelled, options, seed, n_partitions, monkeypatch):
    monkeypatch.setattr(map_module, "BUCKET_BYTES", 1 << 13)
    monkeypatch.setattr(map_module, "ROUND_BYTES", 1 << 16)
    X, labels = labelled
    frame = pd.DataFrame(X, columns=NAMES)
    options = {"n_estimators": 10, "random_state": 3, **options}
    plain = IDKGroupDetector(**options).fit(pd.DataFrame(X, columns=NAMES), groups=labels)
    groups = groups_of(X, labels, seed, n_partitions)
    found = IDKGroupDetector(**options).fit(groups)
    assert list(found.labels_) == list(plain.labels_)
    assert np.array_equal(found.scores_, plain.scores_)
    assert found.offset_ == plain.offset_
    assert np.array_equal(found.score_samples(groups), plain.score_samples(frame, groups=labels))
    assert np.array_equal(found.p_values(frame, groups=labels), plain.p_values(frame, groups=labels))
    assert np.array_equal(found.model_.population, plain.model_.population)


@pytest.mark.parametrize("round_bytes", [1 << 12, 1 << 14])
def test_the_counts_of_groups_that_are_there_at_once_are_bounded(labelled, round_bytes, monkeypatch):
    X, labels = labelled
    groups = groups_of(X, labels, 0, 4)
    options = {"n_estimators": 10, "random_state": 3, "max_samples": 8, "group_max_samples": 8}
    plain = IDKGroupDetector(**options).fit(groups)
    most, split = [], map_module._Counted.__call__

    def counting(self, number, frames):
        tallies = split(self, number, frames)
        most.append(len({group for tally in tallies.values() for group in tally.numbers.tolist()}))
        return tallies

    monkeypatch.setattr(map_module, "BUCKET_BYTES", round_bytes // 2)
    monkeypatch.setattr(map_module, "ROUND_BYTES", round_bytes)
    monkeypatch.setattr(map_module._Counted, "__call__", counting)
    maps = plain.model_.views.maps_of(groups, Compute(), False)
    sizes = maps.map(lambda own: own.sizes)
    assert np.array_equal(sizes, groups.sizes)
    least = 8 * min(int(groups.sizes.min()) * 10, plain.model_.views.n_columns)
    assert 1 <= max(most) <= round_bytes // least < len(groups)


def test_groups_more_than_the_reference_groups(labelled, monkeypatch):
    monkeypatch.setattr("isobag.models.neighbours.MOST_REFERENCES", 20)
    X, labels = labelled
    plain = IDKGroupDetector(n_estimators=10, random_state=3).fit(pd.DataFrame(X, columns=NAMES), groups=labels)
    found = IDKGroupDetector(n_estimators=10, random_state=3).fit(groups_of(X, labels, 1, 6))
    assert np.array_equal(found.scores_, plain.scores_)


def test_some_groups_are_brought_here_whole(labelled):
    X, labels = labelled
    groups = groups_of(X, labels, 1, 6)
    some = groups.gather(np.array([7, 2]))
    plain = Groups(ArrayRows(X), *_numbered(labels)).part(np.array([7, 2]))
    assert list(some.labels) == list(plain.labels)
    assert np.array_equal(some.points, plain.points)
    assert np.array_equal(some.ids, plain.ids)


def _numbered(labels):
    names = list(dict.fromkeys(labels))
    return np.array([names.index(label) for label in labels]), np.array(names, dtype=object)
