"""Tallies are integers: rows are added, merged and taken back exactly, and a model finished from them is the same."""

from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from isobag import IDKGroupDetector, IDKPointDetector
from isobag.backends import HOST_BACKENDS, Compute
from isobag.backends.counts import merge_counts
from isobag.data.groups import Groups
from isobag.data.rows import ArrayRows, group_rows
from isobag.models.group import draw_level1, finish_group_model
from isobag.models.maps import LazyMaps, maps_of
from isobag.models.point import finish_point_model
from isobag.models.point_fit import fit_point_model
from isobag.partitionings.counts import MeanMaps

RNG = np.random.default_rng(5)
X = np.vstack([RNG.normal(size=(290, 3)), RNG.normal(size=(10, 3)) * 9])
IDS = RNG.integers(0, 30, len(X))
HOW = [{}, {"max_samples": 8}]
COMPUTE = Compute("numpy")


def learned(**how):
    """The model of all rows, none set apart, their scores, and the parameters."""
    params = IDKPointDetector(7, random_state=0, **how).params
    return *fit_point_model(ArrayRows(X), params, COMPUTE), params


def assert_same_tally(ours, theirs):
    assert ours.n_rows == theirs.n_rows
    for table, expected in zip(ours.tables, theirs.tables, strict=True):
        assert_array_equal(table, expected)
        assert table.dtype == np.int64


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("how", HOW, ids=str)
def test_tallies_of_parts_add_up_to_that_of_the_whole_and_subtract_back(how, backend):
    (model, _, _), compute = learned(**how), Compute(backend)
    parts = [model.views.tally(part, compute) for part in np.split(X, [1, 100, 250])]
    whole = model.views.tally(X, compute)
    assert_same_tally(whole, model.tally)
    assert_same_tally(reduce(add, parts), whole)
    assert_same_tally(reduce(add, parts[::-1]), whole)
    assert_same_tally(whole - parts[1] - parts[3], parts[0] + parts[2])
    assert_same_tally(whole - whole + parts[2], parts[2])


@pytest.mark.parametrize("how", HOW, ids=str)
def test_a_model_finished_from_merged_tallies_scores_as_one_fitted_whole(how):
    model, scores, params = learned(**how)
    tally = model.views.tally(X[:77], COMPUTE) + model.views.tally(X[77:], COMPUTE)
    finished = finish_point_model(model.views, tally, params, model.reference, model.average)
    assert_array_equal(finished.scores(ArrayRows(X), COMPUTE), scores)
    again = finished if model.average is None else replace(finished, average=None).averaged(finished.sum_at(COMPUTE)(X))
    assert_array_equal(again.scores(ArrayRows(X), COMPUTE), scores)


def test_a_window_slides_by_adding_what_arrives_and_subtracting_what_leaves():
    (model, _, params), compute = learned(max_samples=8), COMPUTE
    window = model.views.tally(X[:100], compute)
    for start in range(0, 200, 20):
        arriving, leaving = X[start + 100 : start + 120], X[start : start + 20]
        window = window + model.views.tally(arriving, compute) - model.views.tally(leaving, compute)
    whole = model.views.tally(X[200:], compute)
    assert_same_tally(window, whole)
    slid, fresh = (finish_point_model(model.views, own, params, model.reference) for own in (window, whole))
    assert_array_equal(slid.scores(ArrayRows(X), compute), fresh.scores(ArrayRows(X), compute))


def test_rows_that_were_never_added_cannot_be_subtracted():
    views = learned()[0].views
    head, rest, first, last = (views.tally(part, COMPUTE) for part in (X[:50], X[50:], X[:1], X[-1:]))
    for tally, other in ((head, rest), (first, last)):
        with pytest.raises(ValueError, match="never added"):
            tally - other


@pytest.mark.parametrize("how", [{}, {"max_samples": 8, "group_max_samples": 4}], ids=str)
def test_a_group_model_finished_from_merged_counts_scores_as_one_fitted_whole(how):
    labels = np.sort(IDS)
    fitted = IDKGroupDetector(7, random_state=0, **how).fit(X, groups=labels)
    model, compute = fitted.model_, fitted.compute
    blocks = [group_rows(X[k::3], labels[k::3]) for k in range(3)]
    numbers = np.concatenate([block.numbers for block in blocks])
    counts = merge_counts([model.views.counter(compute).count(block) for block in blocks], numbers, 30)
    whole = model.mean_maps(Groups(ArrayRows(X), labels, np.unique(labels)), compute)
    (merged, scores), (direct, expected) = (
        finish_group_model(model.views, maps, model.reference, fitted.params, 3, compute)
        for maps in (MeanMaps(counts, whole.sizes), whole)
    )
    assert_array_equal(scores, expected)
    assert_array_equal(merged.population, model.population)
    new = [RNG.normal(size=(n, 3)) for n in (1, 5, 20)]
    groups = Groups(ArrayRows(np.vstack(new)), np.repeat(np.arange(3), [1, 5, 20]), np.arange(3))
    assert_array_equal(merged.scores(groups, compute), direct.scores(groups, compute))


@pytest.mark.parametrize("how", [{}, {"max_samples": 8, "group_max_samples": 4}], ids=str)
def test_groups_that_are_counted_when_asked_for_make_the_model_of_counts_that_are_kept(how):
    rows = RNG.normal(size=(140_000, 2))  # more than a bucket
    groups = Groups(ArrayRows(rows), np.repeat(np.arange(1400), 100), np.arange(1400))
    detector = IDKGroupDetector(5, random_state=0, **how)
    drawn = draw_level1(groups.rows, detector.params, detector.compute)
    counter = drawn.views.counter(detector.compute)
    results = []
    for kept_bytes in (0, 1 << 40):
        maps = maps_of(groups, counter, kept_bytes)
        assert isinstance(maps, LazyMaps) == (not kept_bytes)
        results.append(finish_group_model(drawn.views, maps, drawn.reference, detector.params, 3, detector.compute))
    (lazy, scores), (model, expected) = results
    assert_array_equal(scores, expected)
    assert_array_equal(lazy.population, model.population)
