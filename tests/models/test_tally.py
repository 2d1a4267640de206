"""Tallies are integers: rows are added, merged and taken back exactly, and a model finished from them is the same."""

from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from isobag import IDKGroupDetector, IDKPointDetector, IsolationKernel
from isobag.backends import HOST_BACKENDS, Compute
from isobag.data.groups import Groups
from isobag.data.rows import ArrayRows, group_rows
from isobag.models.group import finish_group_model
from isobag.models.point import finish_point_model
from isobag.partitionings import MECHANISMS

RNG = np.random.default_rng(5)
X = np.vstack([RNG.normal(size=(290, 3)), RNG.normal(size=(10, 3)) * 9])
IDS = RNG.integers(0, 30, len(X))
HOW = [{}, {"max_samples": 8}]
COMPUTE = Compute("numpy")


def point_model(**how):
    return IDKPointDetector(7, random_state=0, **how).fit(X)


def assert_same_tally(ours, theirs):
    assert ours.n_rows == theirs.n_rows
    for own, other in zip(ours.tables, theirs.tables, strict=True):
        assert_array_equal(own, other)
        assert own.dtype == np.int64


def assert_same_group_tally(ours, theirs):
    assert_array_equal(ours.numbers, theirs.numbers)
    assert_array_equal(ours.sizes, theirs.sizes)
    assert_array_equal(ours.counts.toarray(), theirs.counts.toarray())


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("how", HOW, ids=str)
def test_tallies_of_parts_add_up_to_that_of_the_whole_and_subtract_back(how, backend):
    model, compute = point_model(**how), Compute(backend)
    parts = [model.views_.tally(part, compute) for part in np.split(X, [1, 100, 250])]
    whole = model.views_.tally(X, compute)
    assert_same_tally(whole, model.model_.tally)
    assert_same_tally(reduce(add, parts), whole)
    assert_same_tally(reduce(add, parts[::-1]), whole)
    assert_same_tally(whole - parts[1] - parts[3], parts[0] + parts[2])
    assert_same_tally(whole - whole + parts[2], parts[2])


@pytest.mark.parametrize("how", HOW, ids=str)
def test_a_model_finished_from_merged_tallies_scores_as_one_fitted_whole(how):
    fitted = point_model(**how)
    model, compute = fitted.model_, fitted.compute
    tally = model.views.tally(X[:77], compute) + model.views.tally(X[77:], compute)
    finished = finish_point_model(model.views, tally, fitted.params, model.reference, model.average)
    new = RNG.normal(size=(50, 3)) * 2
    assert_array_equal(finished.scores(ArrayRows(new), compute), fitted.score_samples(new))
    again = finished if model.average is None else replace(finished, average=None).averaged(finished.sum_at(compute)(X))
    assert_array_equal(again.scores(ArrayRows(new), compute), fitted.score_samples(new))


def test_a_window_slides_by_adding_what_arrives_and_subtracting_what_leaves():
    fitted = point_model(max_samples=8)
    model, compute = fitted.model_, fitted.compute
    window = model.views.tally(X[:100], compute)
    for start in range(0, 200, 20):
        arriving, leaving = X[start + 100 : start + 120], X[start : start + 20]
        window = window + model.views.tally(arriving, compute) - model.views.tally(leaving, compute)
    whole = model.views.tally(X[200:], compute)
    assert_same_tally(window, whole)
    slid, fresh = (finish_point_model(model.views, own, fitted.params, model.reference) for own in (window, whole))
    assert_array_equal(slid.scores(ArrayRows(X), compute), fresh.scores(ArrayRows(X), compute))


def test_rows_that_were_never_added_cannot_be_subtracted():
    views = point_model().views_
    some, others, first, last = (views.tally(part, COMPUTE) for part in (X[:50], X[50:], X[:1], X[-1:]))
    few, all_of_them = (views.tally_groups(group_rows(X[:n], IDS[:n]), COMPUTE) for n in (5, len(X)))
    for tally, other in ((some, others), (first, last), (few, all_of_them)):
        with pytest.raises(ValueError, match="never added"):
            tally - other


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_group_tallies_of_parts_add_up_to_that_of_the_whole_and_subtract_back(mechanism):
    views = IsolationKernel(7, 8, mechanism=mechanism, random_state=0).fit(X).views_

    def tally(rows):
        return views.tally_groups(group_rows(X[rows], IDS[rows]), COMPUTE)

    cuts = np.split(np.arange(len(X)), [3, 120, 260])
    parts, whole = list(map(tally, cuts)), tally(np.arange(len(X)))
    assert_same_group_tally(reduce(add, parts), whole)
    assert_same_group_tally(reduce(add, parts[::-1]), whole)
    left = whole - parts[1] - parts[3]
    assert_same_group_tally(left, parts[0] + parts[2])
    assert_same_group_tally(left, tally(np.concatenate([cuts[0], cuts[2]])))
    last = whole - tally(np.flatnonzero(IDS != 4))
    assert last.numbers.tolist() == [4] and last.sizes.tolist() == [np.count_nonzero(IDS == 4)]


@pytest.mark.parametrize("how", [{}, {"max_samples": 8, "group_max_samples": 4}], ids=str)
def test_a_group_model_finished_from_merged_tallies_scores_as_one_fitted_whole(how):
    labels = np.sort(IDS)
    fitted = IDKGroupDetector(7, random_state=0, **how).fit(X, groups=labels)
    model, compute = fitted.model_, fitted.compute
    parts = [model.views.tally_groups(group_rows(X[k::3], labels[k::3]), compute) for k in range(3)]
    whole = model.mean_maps(Groups(ArrayRows(X), labels, np.unique(labels)), compute)
    (merged, scores), (direct, expected) = (
        finish_group_model(model.views, maps, model.reference, fitted.params, 3, compute)
        for maps in (reduce(add, parts).maps, whole)
    )
    assert_array_equal(scores, expected)
    assert_array_equal(merged.population, model.population)
    new = [RNG.normal(size=(n, 3)) for n in (1, 5, 20)]
    groups = Groups(ArrayRows(np.vstack(new)), np.repeat(np.arange(3), [1, 5, 20]), np.arange(3))
    assert_array_equal(merged.scores(groups, compute), direct.scores(groups, compute))
