"""Rows: whatever they come from and however they are cut, they are the same rows."""

from dataclasses import fields, is_dataclass
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array, issparse

from isobag import IDKGroupDetector, IDKPointDetector
from isobag.backends import Compute
from isobag.data import rows as rows_room
from isobag.data.groups import Groups
from isobag.data.rows import ArrayRows, PartOfRows, Rows, SparseRows, sample_rows, spread_rows
from isobag.data.scaling import SCALINGS, fit_scalings
from isobag.models.views import Plan, draw_views
from isobag.partitionings import MECHANISMS

X = np.random.default_rng(2).integers(-3, 4, (57, 3)) * 0.5
IDS = np.random.default_rng(3).permutation(np.repeat(np.arange(8), [1, 2, 15, 4, 9, 3, 11, 12]))


class OddRows(Rows):
    """Rows that come in small blocks of changing size, and only one block after the other."""

    def __init__(self, values, sizes=(1, 5, 2, 11, 3), names=None):
        self.values = values
        self.sizes = sizes
        self.n_features = values.shape[1]
        self.names = names

    def __len__(self):
        return len(self.values)

    def blocks(self):
        start, k = 0, 0
        while start < len(self.values):
            size = self.sizes[k % len(self.sizes)]
            yield self.values[start : start + size].copy()
            start, k = start + size, k + 1

    def take(self, numbers):
        return self.values[numbers]


def some_of_more(values, kind):
    """The same rows as a part of others, between which they lie scattered."""
    where = np.sort(np.random.default_rng(4).choice(3 * len(values), len(values), replace=False))
    more = np.full((3 * len(values), values.shape[1]), 99.0)
    more[where] = values
    return PartOfRows(kind(more), where)


KINDS = {
    "array": ArrayRows,
    "sparse": lambda values: SparseRows(csr_array(values)),
    "odd blocks": OddRows,
    "blocks of one": partial(OddRows, sizes=(1,)),
    "part of an array": lambda values: some_of_more(values, ArrayRows),
    "part of odd blocks": lambda values: some_of_more(values, OddRows),
    "part of a part": lambda values: some_of_more(values, lambda more: some_of_more(more, OddRows)),
    "part of sparse": lambda values: some_of_more(values, lambda more: SparseRows(csr_array(more))),
}


@pytest.fixture(params=[None, 7], ids=["large blocks", "blocks of 7"])
def blocks(request, monkeypatch):
    if request.param is not None:
        monkeypatch.setattr(rows_room, "BLOCK_ROWS", request.param)
        monkeypatch.setattr(rows_room, "BLOCK_NUMBERS", 2 * request.param)
        monkeypatch.setattr(rows_room, "GROUPED_ROWS", request.param)


@pytest.fixture(params=KINDS)
def rows(request, blocks):
    return KINDS[request.param](X)


def test_blocks_are_all_rows_in_order(rows):
    assert len(rows) == 57 and rows.n_features == 3 and rows.names is None
    for _ in range(2):  # as often as needed
        found = list(rows.blocks())
        assert all(len(block) for block in found)
        assert_array_equal(np.vstack(found), X)
    if rows.whole is not None:
        assert_array_equal(rows.whole, X)


def test_rows_are_taken_by_number_in_any_order_and_more_than_once(rows):
    numbers = np.array([56, 0, 3, 3, 20, 1])
    assert_array_equal(rows.take(numbers), X[numbers])
    assert rows.take(np.array([], dtype=np.int64)).shape == (0, 3)


def test_partial_results_merge_to_the_whole(rows):
    total = rows.map_reduce(lambda block: (len(block), block.sum(axis=0)), lambda a, b: (a[0] + b[0], a[1] + b[1]))
    assert total[0] == 57
    assert_array_equal(total[1], X.sum(axis=0))  # halves add up without rounding
    assert_array_equal(rows.map_reduce(lambda block: block.max(axis=0), np.maximum), X.max(axis=0))


def test_a_function_of_each_row_is_put_together_in_order(rows):
    for function in (lambda X: X[:, 0] * 2, lambda X: X > 0, lambda X: np.stack([X, -X], axis=1)):
        found = rows.map(function)
        assert found.dtype == function(X).dtype
        assert_array_equal(found, function(X))


def test_no_rows_make_no_answers_of_the_right_shape():
    for kind in (ArrayRows, OddRows, lambda values: SparseRows(csr_array(values))):
        assert kind(X[:0]).map(lambda block: block[:, :2]).shape == (0, 2)
    assert PartOfRows(ArrayRows(X), np.array([], dtype=np.int64)).map(lambda block: block[:, 0]).shape == (0,)


def test_a_part_has_the_rows_of_its_numbers(rows):
    for numbers in (np.array([0, 2, 3, 17, 56]), np.arange(57), np.array([56])):
        part = rows.part(numbers)
        assert len(part) == len(numbers) and part.n_features == 3
        assert_array_equal(np.vstack(list(part.blocks())), X[numbers])
        assert_array_equal(part.take(np.arange(len(numbers))[::-1]), X[numbers[::-1]])
        assert_array_equal(part.part(np.array([0])).take(np.array([0])), X[numbers[:1]])


def test_names_go_with_the_rows():
    for rows in (
        ArrayRows(X, ["a", "b", "c"]),
        SparseRows(csr_array(X), ["a", "b", "c"]),
        OddRows(X, names=["a", "b", "c"]),
    ):
        assert list(rows.part(np.array([1, 2])).names) == ["a", "b", "c"]


def test_grouped_blocks_hold_every_row_once_beside_its_group(rows):
    for ids in (IDS, np.sort(IDS), np.arange(57), np.zeros(57, dtype=np.int64)):
        found = {}
        for block in rows.grouped_blocks(ids):
            assert block.starts[0] == 0 and block.starts[-1] == len(block.X)
            assert len(block.starts) == len(block.numbers) + 1 and (np.diff(block.numbers) > 0).all()
            for group, start, stop in zip(block.numbers, block.starts, block.starts[1:], strict=False):
                assert stop > start
                found.setdefault(int(group), []).append(block.X[start:stop])
        assert sorted(found) == sorted(set(ids.tolist()))
        for group, parts in found.items():
            assert_array_equal(np.vstack(parts), X[ids == group])


@pytest.mark.parametrize("kind", KINDS)
def test_only_groups_larger_than_a_block_are_cut_and_blocks_end_where_they_must(kind, monkeypatch):
    monkeypatch.setattr(rows_room, "GROUPED_ROWS", 5)
    rows, sizes, stops = KINDS[kind](X), np.bincount(IDS), np.array([2, 3, 8])
    for blocks in (list(rows.grouped_blocks(IDS)), list(rows.grouped_blocks(IDS, stops))):
        numbers = np.concatenate([block.numbers for block in blocks])
        assert (np.diff(numbers) >= 0).all() and max(len(block.X) for block in blocks) == 5
    spans = [set(np.searchsorted(stops, block.numbers, side="right").tolist()) for block in blocks]
    assert all(len(span) == 1 for span in spans)
    blocks = list(rows.grouped_blocks(IDS))
    times = np.bincount(np.concatenate([block.numbers for block in blocks]))
    assert_array_equal(times, np.where(sizes <= 5, 1, -(-sizes // 5)))


def test_scalings_are_learned_alike_from_any_blocks(rows):
    expected, found = (fit_scalings(given, SCALINGS) for given in (ArrayRows(X), rows))
    for name in SCALINGS:
        assert type(found[name]) is type(expected[name])
        for field, value in vars(expected[name]).items():
            assert_array_equal(getattr(found[name], field), value)


def test_of_very_many_rows_some_stand_for_all_and_ranges_are_those_of_all(monkeypatch):
    monkeypatch.setattr(rows_room, "SAMPLE_ROWS", 1 << 12)
    many = np.random.default_rng(0).normal(size=(6000, 2)) ** 3
    sample = sample_rows(ArrayRows(many))
    assert sample.shape == (4096, 2)
    assert {tuple(row) for row in sample} <= {tuple(row) for row in many}
    assert_array_equal(sample_rows(OddRows(many, sizes=(999,))), sample)
    found = fit_scalings(ArrayRows(many), SCALINGS)
    assert_array_equal(found["minmax"].shift, many.min(axis=0))
    assert_array_equal(found["minmax"].spread, np.ptp(many, axis=0))
    assert_array_equal(found["absolute"].shift, sample.mean(axis=0))
    assert_array_equal(found["robust"].shift, np.median(sample, axis=0))
    assert_array_equal(found["asinh"].shift, np.median(sample, axis=0))
    assert set(found["normal"].values) <= set(sample.ravel())
    assert_array_equal(sample_rows(ArrayRows(many[:4096])), many[:4096])


@pytest.mark.parametrize(("n", "most"), [(1, 5), (5, 5), (57, 9), (1000, 999)])
def test_spread_rows_reach_from_the_first_to_the_last(n, most):
    numbers = spread_rows(n, most)
    assert len(numbers) == min(n, most) and numbers[0] == 0 and numbers[-1] == (n - 1 if n <= most or most > 1 else 0)
    assert (np.diff(numbers) > 0).all()


def everything_of(model):
    """All that was learned, with what was set aside for p-values."""
    return [*learned(model.model_), model.offset_]


def learned(value):
    if issparse(value):
        yield value.toarray()
    elif is_dataclass(value):
        for field in fields(value):
            yield from learned(getattr(value, field.name))
    elif isinstance(value, tuple):
        for part in value:
            yield from learned(part)
    else:
        yield value


@pytest.fixture(params=["sparse", "odd blocks", "part of a part"])
def cut_rows(request, monkeypatch):
    """Rows in many small blocks; that every other kind has the same blocks is claimed above."""
    monkeypatch.setattr(rows_room, "BLOCK_NUMBERS", 14)
    return KINDS[request.param](X)


@pytest.mark.parametrize(
    ("mechanism", "how"),
    [*((name, {}) for name in MECHANISMS), ("hypersphere", {"max_samples": 8}), ("hypersphere", {"method": "norm"})],
    ids=str,
)
def test_rows_in_odd_blocks_make_the_same_model_of_points(mechanism, how, cut_rows):
    model = IDKPointDetector(4, mechanism=mechanism, random_state=0, **how)
    expected = everything_of(model.fit(X))
    answers = [model.score_samples(X), model.p_values(X), model.score_path(X)]
    for ours, theirs in zip(everything_of(model.fit(cut_rows)), expected, strict=True):
        assert_array_equal(ours, theirs)
    for ours, theirs in zip(
        [model.score_samples(cut_rows), model.p_values(cut_rows), model.score_path(cut_rows)], answers, strict=True
    ):
        assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("mechanism", "how"),
    [
        ("hypersphere", {}),
        ("voronoi", {"group_max_samples": "auto"}),
        *((name, {"max_samples": 8, "group_max_samples": 3, "count_outside": True}) for name in MECHANISMS),
    ],
    ids=str,
)
def test_groups_scattered_over_odd_blocks_make_the_same_model(mechanism, how, cut_rows):
    both = {"point_mechanism": mechanism, "group_mechanism": mechanism}
    model = IDKGroupDetector(4, **(both if how else {"point_mechanism": mechanism}), random_state=0, **how)
    ids = np.unique(IDS, return_inverse=True)[1]
    plain, scattered = (Groups(given, ids, np.arange(8)) for given in (ArrayRows(X), cut_rows))
    expected = [*everything_of(model.fit(plain)), model.scores_, model.labels_]
    explained = model.explain(plain)
    answers = [model.score_samples(plain), model.p_values(plain), explained.points, explained.features]
    again = [*everything_of(model.fit(scattered)), model.scores_, model.labels_]
    for ours, theirs in zip(again, expected, strict=True):
        assert_array_equal(ours, theirs)
    explained = model.explain(scattered)
    found = [model.score_samples(scattered), model.p_values(scattered), explained.points, explained.features]
    for ours, theirs in zip(found, answers, strict=True):
        assert_array_equal(ours, theirs)


def test_mean_maps_of_scattered_groups_are_those_of_groups_side_by_side(rows):
    views, _ = draw_views(ArrayRows(X), 5, [Plan("minmax", (4,)), Plan(None, (2,))], "hypersphere", 0, Compute())
    order = np.argsort(IDS, kind="stable")
    side_by_side = Groups(ArrayRows(X[order]), IDS[order], np.arange(8))
    for count_outside in (False, True):
        expected = views.mean_maps(side_by_side, Compute(), count_outside)
        found = views.mean_maps(Groups(rows, IDS, np.arange(8)), Compute(), count_outside)
        assert_array_equal(found.counts.toarray(), expected.counts.toarray())
        assert_array_equal(found.sizes, expected.sizes)
        assert found.counts.has_canonical_format and found.counts.nnz == expected.counts.nnz


def test_groups_are_parted_whatever_their_rows(rows):
    groups = Groups(rows, IDS, np.array(list("abcdefgh")))
    part = groups.part(np.array([6, 1, 3]))
    assert part.labels.tolist() == ["g", "b", "d"]
    assert part.sizes.tolist() == [11, 2, 4]
    for k, group in enumerate((6, 1, 3)):
        assert_array_equal(part.points[part.ids == k], X[group == IDS])
