"""Every mechanism on every backend, for rows and for groups: one answer, however it is computed.

Mechanisms and backends come from the registries, so that a new one is tested by being registered.
"""

import pickle
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from oracle.hard_data import KINDS, queries
from scipy.sparse import issparse

from isobag.backends import HOST_BACKENDS, RULES, Compute
from isobag.backends.arrays import OUTSIDE
from isobag.data.groups import Groups
from isobag.data.rows import ArrayRows
from isobag.models.views import Plan, draw_views
from isobag.partitionings import MECHANISMS, draw_from_groups, draw_from_rows
from isobag.partitionings.counts import GroupQueries

LEVELS = (2, 3, 8, 20)
T = 4
HARD = ["normal", "integer grid", "90 % duplicates", "1e8 offset", "one far row"]
PLAIN = Compute("numpy", 1)
WAYS = [Compute(backend, n_jobs) for backend in HOST_BACKENDS for n_jobs in (1, 3)]


def drawn_from_rows(mechanism, kind, d, compute, levels=LEVELS):
    """Partitionings of hard data, and queries for them, unprepared."""
    rng = np.random.default_rng(5)
    X = KINDS[kind](rng, 60, d).astype(float)
    Q = queries(rng, X)
    return draw_from_rows(ArrayRows(X), T, levels, mechanism, 0, compute), Q


def drawn_from_groups(mechanism, kind, d, compute, levels=LEVELS):
    """Partitionings of the mean maps of groups of hard data, and other mean maps."""
    rng = np.random.default_rng(6)
    sizes = rng.integers(1, 7, 50)
    X = KINDS[kind](rng, sizes.sum(), d).astype(float)
    views, _ = draw_views(ArrayRows(X), 6, [Plan("minmax", (4,))], "voronoi", 0, PLAIN)
    ids = np.repeat(np.arange(50), sizes)
    maps = views.mean_maps(Groups(ArrayRows(X), ids, np.arange(50)), PLAIN)
    others = views.mean_maps(Groups(ArrayRows(queries(rng, X)[: len(X) * 3]), np.tile(ids, 3), np.arange(50)), PLAIN)
    return draw_from_groups(GroupQueries(maps[:40]), T, levels, mechanism, 0, compute), others


DRAWN = {"rows": drawn_from_rows, "groups": drawn_from_groups}
CASES = [("rows", 2), ("rows", 13), ("groups", 2)]
every_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS)
both_levels = pytest.mark.parametrize(("level", "d"), CASES)


def tables_for(drawn):
    """Numbers, different in every cell, zero where a level has no cell."""
    psi = drawn.levels[-1]
    tables = np.random.default_rng(1).integers(0, 1000, (len(drawn.levels), len(drawn), psi))
    for own, n_cells in zip(tables, drawn.levels, strict=True):
        own[:, n_cells:] = 0
    return tables


def answers(drawn, Q, compute):
    """All that can be asked of partitionings, each from queries prepared anew and from queries used before."""
    tables, shared = tables_for(drawn), drawn.prepare(Q, compute)
    found = []
    for queries_for in (lambda one: one.prepare(Q, compute), lambda one: shared):
        counts, sums = drawn.count_and_sum(queries_for(drawn), compute)
        only_counts, last = drawn.count_and_sum(queries_for(drawn), compute, only_last=True)
        found += [counts, sums, only_counts, last]
        found += [drawn.count(queries_for(drawn), compute), drawn.nearest_levels(queries_for(drawn), compute)]
        limits = drawn.far_limits()
        if limits is not None:
            found += [limits, drawn.sum_at(queries_for(drawn), tables, compute, limits=limits)]
            found += drawn.count_and_sum(queries_for(drawn), compute, limits=limits)
        for rule in RULES:
            found += [drawn.assign(queries_for(drawn), compute, rule)]
            found += [drawn.sum_at(queries_for(drawn), tables, compute, rule)]
            found += [drawn.at(k).assign(queries_for(drawn.at(k)), compute, rule) for k in range(len(drawn.levels))]
    return found


def learned(value):
    """The fields of partitionings, and of what they hold, one by one."""
    if is_dataclass(value):
        for field in fields(value):
            yield from learned(getattr(value, field.name))
    elif isinstance(value, tuple | list):
        for part in value:
            yield from learned(part)
    else:
        yield value.toarray() if issparse(value) else np.asarray(value)


@pytest.mark.parametrize("kind", HARD)
@both_levels
@every_mechanism
def test_backends_and_threads_agree_to_the_last_bit(mechanism, level, d, kind):
    drawn, Q = DRAWN[level](mechanism, kind, d, PLAIN)
    expected = answers(drawn, Q, PLAIN)
    for compute in WAYS:
        again, _ = DRAWN[level](mechanism, kind, d, compute)
        for ours, theirs in zip(learned(drawn), learned(again), strict=True):
            assert_array_equal(ours, theirs, err_msg=f"{compute}")
        for ours, theirs in zip(expected, answers(again, Q, compute), strict=True):
            assert_array_equal(ours, theirs, err_msg=f"{compute}")


@pytest.mark.parametrize("kind", HARD)
@both_levels
@every_mechanism
def test_counts_and_sums_are_those_of_the_cells(mechanism, level, d, kind):
    compute = Compute()
    drawn, Q = DRAWN[level](mechanism, kind, d, compute)
    tables = tables_for(drawn)
    counts, sums = np.zeros_like(tables), []
    for k, psi in enumerate(drawn.levels):
        one = drawn.at(k)
        cells = one.assign(one.prepare(Q, compute), compute)
        assert cells.shape == (len(Q), T) and cells.dtype == np.int32
        assert cells.min() >= OUTSIDE and cells.max() < psi
        for i, own in enumerate(cells.T):
            counts[k, i] = np.bincount(own[own != OUTSIDE], minlength=drawn.levels[-1])
        sums.append([sum(tables[k, i, c] for i, c in enumerate(own) if c != OUTSIDE) for own in cells])
    found, own_sums = drawn.count_and_sum(drawn.prepare(Q, compute), compute)
    assert_array_equal(found, counts)
    assert_array_equal(own_sums, drawn.sum_at(drawn.prepare(Q, compute), counts, compute))
    assert_array_equal(drawn.sum_at(drawn.prepare(Q, compute), tables, compute), np.transpose(sums))


@pytest.mark.parametrize("kind", HARD)
@both_levels
@every_mechanism
def test_a_level_is_the_partitioning_of_its_own_psi(mechanism, level, d, kind):
    compute = Compute()
    drawn, Q = DRAWN[level](mechanism, kind, d, compute)
    for k, psi in enumerate(LEVELS):
        nested, alone = drawn.at(k), DRAWN[level](mechanism, kind, d, compute, levels=(psi,))[0]
        assert nested.levels == alone.levels == (psi,)
        for rule in RULES:
            ways = (nested, alone, drawn.at(k - len(LEVELS)))
            cells = [one.assign(one.prepare(Q, compute), compute, rule) for one in ways]
            assert_array_equal(cells[0], cells[1])
            assert_array_equal(cells[0], cells[2])


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@both_levels
@every_mechanism
def test_a_batch_of_one_says_what_the_batch_says(mechanism, level, d, backend):
    compute = Compute(backend)
    drawn, Q = DRAWN[level](mechanism, "integer grid", d, compute)
    tables = tables_for(drawn)
    cells = drawn.assign(drawn.prepare(Q, compute), compute)
    sums = drawn.sum_at(drawn.prepare(Q, compute), tables, compute)
    for rows in [*(slice(i, i + 1) for i in range(0, len(Q), 9)), slice(3, 20), slice(None, None, -2)]:
        part = drawn.prepare(Q[rows], compute)
        assert_array_equal(drawn.assign(part, compute), cells[rows])
        assert_array_equal(drawn.sum_at(part, tables, compute), sums[rows])


@both_levels
@every_mechanism
def test_partitionings_say_what_they_are(mechanism, level, d):
    compute = Compute()
    drawn, Q = DRAWN[level](mechanism, "normal", d, compute)
    assert len(drawn) == T and drawn.levels == LEVELS
    assert drawn.of_groups == (level == "groups")
    assert drawn.width == (Q.counts if drawn.of_groups else Q).shape[1]
    assert drawn.problem() is None
    anchors = drawn.anchors()
    if anchors is not None:
        points, slots = anchors
        assert slots.shape == (T, LEVELS[-1]) and slots.min() >= 0 and slots.max() < len(points)
        nearest = drawn.nearest_levels(drawn.prepare(Q, compute), compute)[-1].T
        assert nearest.min() >= 0 and nearest.max() < LEVELS[-1]
    copy = pickle.loads(pickle.dumps(drawn))
    for ours, theirs in zip(answers(drawn, Q, compute), answers(copy, Q, compute), strict=True):
        assert_array_equal(ours, theirs)


@every_mechanism
@pytest.mark.parametrize("d", [2, 13])
@pytest.mark.parametrize("backend", HOST_BACKENDS)
def test_one_search_for_all_levels_says_the_same_as_one_for_each(mechanism, backend, d):
    compute = Compute(backend)
    drawn, Q = DRAWN["rows"](mechanism, "normal", d, compute)
    queries = drawn.prepare(Q, compute)
    cells, nearest = drawn.assign_levels(queries, compute), drawn.nearest_levels(queries, compute)
    for level in range(len(LEVELS)):
        assert_array_equal(cells[level].T, drawn.at(level).assign(queries, compute))
        assert_array_equal(nearest[level].T, drawn.at(level).nearest_levels(queries, compute)[-1].T)


@both_levels
@every_mechanism
def test_the_seed_decides_and_more_partitionings_begin_with_the_fewer(mechanism, level, d):
    compute = Compute()
    drawn, Q = DRAWN[level](mechanism, "normal", d, compute)
    again, _ = DRAWN[level](mechanism, "normal", d, compute)
    for ours, theirs in zip(learned(drawn), learned(again), strict=True):
        assert_array_equal(ours, theirs)
    if level == "rows":
        X = np.random.default_rng(3).normal(size=(60, d))
        few, many, other = (
            draw_from_rows(ArrayRows(X), t, (8,), mechanism, seed, compute) for t, seed in ((3, 0), (6, 0), (3, 1))
        )
        cells = [one.assign(one.prepare(Q, compute), compute) for one in (few, many, other)]
        assert_array_equal(cells[0], cells[1][:, :3])
        assert (cells[0] != cells[2]).any()
