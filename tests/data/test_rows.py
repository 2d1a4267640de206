"""Rows: whatever they come from and however they are cut, they are the same rows."""

from dataclasses import fields, is_dataclass
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csc_array, csr_array, csr_matrix, issparse

from isobag import IDKGroupDetector, IDKPointDetector, IsolationKernel
from isobag.backends import Compute
from isobag.data.groups import Groups
from isobag.data.rows import ArrayRows, PartOfRows, Rows, SparseRows, spread_rows
from isobag.data.scaling import SCALINGS, fit_scalings
from isobag.models.views import Draw, Plan, draw_views
from isobag.partitionings import MECHANISMS

X = np.random.default_rng(2).integers(-3, 4, (57, 3)) * 0.5
IDS = np.random.default_rng(3).permutation(np.repeat(np.arange(8), [1, 2, 15, 4, 9, 3, 11, 12]))


class OddRows(Rows):
    """Rows that come in small blocks of changing size, and only one block after the other."""

    def __init__(self, values, sizes=(1, 5, 2, 11, 3), names=None):
        super().__init__(*values.shape, names)
        self.values, self.sizes, self.block_rows = values, sizes, max(sizes)

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


def sparse(values, block_rows=1 << 20):
    return SparseRows(csr_array(values), block_rows=block_rows)


KINDS = {
    "array": ArrayRows,
    "blocks of an array": partial(ArrayRows, block_rows=7),
    "sparse": sparse,
    "blocks of a sparse matrix": partial(sparse, block_rows=7),
    "odd blocks": OddRows,
    "blocks of one": partial(OddRows, sizes=(1,)),
    "part of an array": lambda values: some_of_more(values, ArrayRows),
    "part of odd blocks": lambda values: some_of_more(values, OddRows),
    "part of a part": lambda values: some_of_more(values, lambda more: some_of_more(more, OddRows)),
    "part of sparse": lambda values: some_of_more(values, partial(sparse, block_rows=7)),
}


@pytest.fixture(params=KINDS)
def rows(request):
    return KINDS[request.param](X)


def test_blocks_are_all_rows_in_order(rows):
    assert len(rows) == 57 and rows.n_features == 3 and rows.names is None
    for _ in range(2):  # as often as needed
        actual = list(rows.blocks())
        assert all(len(block) for block in actual)
        assert_array_equal(np.vstack(actual), X)
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
        actual = rows.map(function)
        assert actual.dtype == function(X).dtype
        assert_array_equal(actual, function(X))


def test_no_rows_make_no_answers_of_the_right_shape():
    for kind in (ArrayRows, OddRows, sparse):
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
        actual = {}
        for block in rows.grouped_blocks(ids):
            assert block.starts[0] == 0 and block.starts[-1] == len(block.X)
            assert len(block.starts) == len(block.numbers) + 1 and (np.diff(block.numbers) > 0).all()
            for group, start, stop in zip(block.numbers, block.starts, block.starts[1:], strict=False):
                assert stop > start
                actual.setdefault(int(group), []).append(block.X[start:stop])
        assert sorted(actual) == sorted(set(ids.tolist()))
        for group, parts in actual.items():
            assert_array_equal(np.vstack(parts), X[ids == group])


@pytest.mark.parametrize("kind", [ArrayRows, sparse])
def test_only_groups_larger_than_a_block_are_cut_and_blocks_end_where_they_must(kind):
    rows, sizes, stops = kind(X, block_rows=5), np.bincount(IDS), np.array([2, 3, 8])
    for blocks in (list(rows.grouped_blocks(IDS)), list(rows.grouped_blocks(IDS, stops))):
        numbers = np.concatenate([block.numbers for block in blocks])
        assert (np.diff(numbers) >= 0).all() and max(len(block.X) for block in blocks) == 5
    spans = [set(np.searchsorted(stops, block.numbers, side="right").tolist()) for block in blocks]
    assert all(len(span) == 1 for span in spans)
    blocks = list(rows.grouped_blocks(IDS))
    times = np.bincount(np.concatenate([block.numbers for block in blocks]))
    assert_array_equal(times, np.where(sizes <= 5, 1, -(-sizes // 5)))


def test_scalings_are_learned_alike_from_any_blocks(rows):
    expected, actual = (fit_scalings(given, SCALINGS) for given in (ArrayRows(X), rows))
    for name in SCALINGS:
        assert type(actual[name]) is type(expected[name])
        for field, value in vars(expected[name]).items():
            assert_array_equal(getattr(actual[name], field), value)


@pytest.mark.parametrize(("n", "most"), [(1, 5), (5, 5), (57, 9), (1000, 999)])
def test_spread_rows_reach_from_the_first_to_the_last(n, most):
    numbers = spread_rows(n, most)
    assert len(numbers) == min(n, most) and numbers[0] == 0 and numbers[-1] == (n - 1 if n <= most or most > 1 else 0)
    assert (np.diff(numbers) > 0).all()


def learned(value):
    """All that was learned, as one list of arrays."""
    if issparse(value):
        return [value.toarray()]
    parts = [getattr(value, field.name) for field in fields(value)] if is_dataclass(value) else value
    return [leaf for part in parts for leaf in learned(part)] if isinstance(parts, list | tuple) else [value]


def assert_all_equal(ours, theirs):
    for actual, expected in zip(ours, theirs, strict=True):
        assert_array_equal(actual, expected)


CUT = {name: KINDS[name] for name in ("blocks of a sparse matrix", "odd blocks", "part of a part")}


@pytest.mark.parametrize("kind", [*CUT, csr_array, csr_matrix, csc_array])
@pytest.mark.parametrize("how", [{}, {"max_samples": 8, "max_rows": 30}], ids=str)
def test_sparse_rows_and_rows_in_odd_blocks_make_the_same_model_of_points(how, kind):
    def answers(rows):
        model = IDKPointDetector(4, random_state=0, **how).fit(rows)
        results = [model.score_samples(rows), model.p_values(rows), model.score_path(rows), model.explain(rows)]
        return [*learned(model.model_), model.offset_, *results]

    assert_all_equal(answers(CUT.get(kind, kind)(X)), answers(X))


@pytest.mark.parametrize("kind", CUT)
@pytest.mark.parametrize("how", [{}, {"max_samples": 8, "group_max_samples": 3}], ids=str)
def test_groups_scattered_over_odd_blocks_make_the_same_model(how, kind):
    def answers(rows):
        groups = Groups(rows, IDS, np.arange(8))
        model = IDKGroupDetector(4, random_state=0, **how).fit(groups)
        explained = model.explain(groups)
        results = [model.scores_, model.score_samples(groups), model.p_values(groups), explained.points]
        return [*learned(model.model_), model.offset_, *results, explained.features]

    assert_all_equal(answers(CUT[kind](X)), answers(ArrayRows(X)))


def test_mean_maps_of_scattered_groups_are_those_of_groups_side_by_side(rows):
    plans, draw = [Plan("minmax", (2, 4)), Plan(None, (2, 4))], Draw(5, "auto", "hypersphere", 0)
    views, _ = draw_views(ArrayRows(X), plans, draw, Compute())
    order = np.argsort(IDS, kind="stable")
    expected = views.mean_maps(Groups(ArrayRows(X[order]), IDS[order], np.arange(8)), Compute())
    actual = views.mean_maps(Groups(rows, IDS, np.arange(8)), Compute())
    assert_array_equal(actual.counts.toarray(), expected.counts.toarray())
    assert_array_equal(actual.sizes, expected.sizes)
    assert actual.counts.has_canonical_format and actual.counts.nnz == expected.counts.nnz


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kernels_find_the_same_cells_in_blocks_and_in_sparse_input(mechanism):
    def answers(rows):
        kernel = IsolationKernel(5, 8, mechanism=mechanism, random_state=0).fit(rows)
        return [kernel.assign_cells(rows), kernel.transform(rows).toarray(), kernel.embed(X, IDS).toarray()]

    for kind in (*CUT.values(), csc_array):
        assert_all_equal(answers(kind(X)), answers(X))


def test_groups_are_parted_whatever_their_rows(rows):
    groups = Groups(rows, IDS, np.array(list("abcdefgh")))
    part = groups.part(np.array([6, 1, 3]))
    assert part.labels.tolist() == ["g", "b", "d"]
    assert part.sizes.tolist() == [11, 2, 4]
    for k, group in enumerate((6, 1, 3)):
        assert_array_equal(part.points[part.ids == k], X[group == IDS])
