"""What a detector learns and says does not depend on how rows are cut into blocks, on threads, or on zeros left out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csc_array, csr_array, csr_matrix

from isobag import IDKGroupDetector, IDKPointDetector, IsolationKernel
from isobag.data import rows as rows_room
from isobag.models import maps as maps_room
from isobag.partitionings import MECHANISMS

RNG = np.random.default_rng(11)
X = RNG.integers(-2, 3, (90, 3)) * RNG.choice([0.0, 1.0, 1.5], (90, 3))  # many zeros, many ties
X[17] = 40, 0, -3
NEW = np.vstack([X[::3], X[:20] / 2 + 0.25])
IDS = RNG.permutation(np.repeat(np.arange(18), 5))
NEW_IDS = np.arange(len(NEW)) % 7


def point_answers(model, new=NEW):
    """Everything exact that a fitted detector of points says."""
    found = [model.score_samples(new), model.predict(new), np.array(model.offset_), model.score_path(new)]
    return [*found, model.p_values(new), model.predict(new, fdr=0.3), model.mean_map_]


def group_answers(model, new=NEW, ids=NEW_IDS):
    found = [model.scores_, model.score_samples(new, ids), model.p_values(new, ids), np.array(model.offset_)]
    explained = model.explain(new, ids)
    return [*found, model.population_, model.reference_, explained.points, explained.lacking, explained.features]


POINT_WAYS = {"auto": {}, "psi 8": {"max_samples": 8}, "the paper": {"max_samples": 8, "pool_size": None}}
GROUP_WAYS = {
    "auto": {},
    "psi 6": {"max_samples": 6, "group_max_samples": 6},
    "the paper": {"max_samples": 6, "group_max_samples": 6, "pool_size": None},
}


def points(**how):
    return IDKPointDetector(6, random_state=0, **how)


def groups(**how):
    return IDKGroupDetector(6, random_state=0, **how)


def cut_small(monkeypatch, size):
    monkeypatch.setattr(rows_room, "BLOCK_ROWS", size)
    monkeypatch.setattr(rows_room, "BLOCK_NUMBERS", 3 * size)
    monkeypatch.setattr(rows_room, "GROUPED_ROWS", size)
    monkeypatch.setattr(maps_room, "KEPT_BYTES", 0)
    monkeypatch.setattr(maps_room, "LOCAL_BUCKET_BYTES", 256 * size)


def assert_all_equal(found, expected):
    for ours, theirs in zip(found, expected, strict=True):
        assert_array_equal(ours, theirs)


@pytest.mark.parametrize("way", POINT_WAYS)
def test_points_are_scored_alike_in_blocks_of_any_size_in_threads_and_sparse(way, monkeypatch):
    how = POINT_WAYS[way]
    model = points(**how).fit(X)
    expected, explained = point_answers(model), model.explain(NEW)
    verdicts = model.fit_predict(X)
    assert_all_equal(point_answers(points(n_jobs=3, **how).fit(X)), expected)
    for size in (7, 64):
        cut_small(monkeypatch, size)
        assert_all_equal(point_answers(model), expected)
        again = points(**how).fit(X)
        assert_all_equal(point_answers(again), expected)
        assert_array_equal(again.fit_predict(X), verdicts)
        assert_allclose(again.explain(NEW), explained, atol=1e-9)
        again = points(**how).fit(csr_array(X))
        assert_all_equal(point_answers(again, csr_array(NEW)), expected)
        assert_allclose(again.explain(csr_array(NEW)), explained, atol=1e-9)
    monkeypatch.undo()
    for sparse in (csr_array, csr_matrix, csc_array):
        assert_all_equal(point_answers(points(**how).fit(sparse(X)), sparse(NEW)), expected)
    assert_array_equal(points(**how).fit_predict(csr_array(X)), verdicts)


@pytest.mark.parametrize("way", GROUP_WAYS)
def test_groups_are_scored_alike_in_blocks_of_any_size_and_in_threads(way, monkeypatch):
    how = GROUP_WAYS[way]
    model = groups(**how).fit(X, groups=IDS)
    expected = group_answers(model)
    assert_all_equal(group_answers(groups(n_jobs=3, **how).fit(X, groups=IDS)), expected)
    for size in (1, 7, 64):
        cut_small(monkeypatch, size)
        assert_all_equal(group_answers(model), expected)
        assert_all_equal(group_answers(groups(**how).fit(X, groups=IDS)), expected)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kernels_find_the_same_cells_in_blocks_and_in_sparse_input(mechanism, monkeypatch):
    def results(given, new):
        kernel = IsolationKernel(5, mechanism=mechanism, random_state=0).fit(given)
        return [kernel.assign_cells(new), kernel.transform(new).toarray(), kernel.embed(NEW, NEW_IDS).toarray()]

    expected = results(X, NEW)
    assert_all_equal(results(csr_array(X), csr_array(NEW)), expected)
    cut_small(monkeypatch, 7)
    assert_all_equal(results(X, NEW), expected)
    assert_all_equal(results(csr_array(X), csr_array(NEW)), expected)


def test_a_column_of_the_score_path_is_the_detector_of_that_psi():
    for given in (X, X + 1e8, X[:, :1]):
        new = NEW[:, : given.shape[1]] + (given[0, 0] - X[0, 0])
        model = points(max_samples=40, pool_size=None).fit(given)
        assert model.path_ == (2, 4, 8, 16, 32, 40)
        for k, psi in enumerate(model.path_):
            alone = points(max_samples=psi, pool_size=None).fit(given)
            assert_array_equal(model.score_path(new)[:, k], alone.score_samples(new))
