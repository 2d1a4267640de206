"""Cohorts that are found: clear clusters of entities are each other's peers, and nothing is made of unclear ones."""

import numpy as np
import pytest

import isobag
from isobag import EntityMonitor
from isobag.models.cohorts import cluster
from tests.estimators.test_monitor import START


def rows(n_days=12, n_entities=60, kinds=2, seed=0, apart=4.0, of_day=None):
    """X, entities and days: kinds of entities by turns, apart from each other."""
    rng = np.random.default_rng(seed)
    sizes = rng.poisson(12, n_entities * n_days) + 1
    entity, day = np.divmod(np.repeat(np.arange(len(sizes)), sizes), n_days)
    X = rng.normal(size=(len(entity), 2))
    X[:, 0] += apart * (entity % kinds)
    X[:, 1] += 0.3 * rng.normal(size=n_entities)[entity]
    return X, entity, day


def fitted(X, entity, day, order=slice(None), **options):
    monitor = EntityMonitor(random_state=0)
    lines = monitor.update(X[order], entity[order], START + day[order], peers="auto", **options)
    return monitor, lines


@pytest.mark.parametrize("kinds", [2, 3])
def test_clear_clusters_become_cohorts(kinds):
    monitor, _ = fitted(*rows(kinds=kinds))
    own = monitor.state.cohorts
    assert len(np.unique(own)) == kinds
    kind = np.asarray(monitor.entities_) % kinds
    assert all(len(np.unique(own[kind == one])) == 1 for one in range(kinds))


@pytest.mark.parametrize(("kinds", "n_entities"), [(1, 60), (2, 20), (60, 60)])
def test_unclear_or_small_clusters_are_one_cohort(kinds, n_entities):
    monitor, _ = fitted(*rows(kinds=kinds, n_entities=n_entities, apart=4.0 if kinds < 60 else 0.1))
    assert len(np.unique(monitor.state.cohorts)) == 1


def test_the_order_of_rows_changes_no_cohort_and_no_line():
    X, entity, day = rows()
    one, lines = fitted(X, entity, day)
    other, again = fitted(X, entity, day, np.random.default_rng(1).permutation(len(X)))
    np.testing.assert_array_equal(one.state.cohorts, other.state.cohorts)
    np.testing.assert_array_equal(lines.p_peers, again.p_peers)


def test_a_new_entity_joins_the_cohort_it_is_like_also_after_a_file(tmp_path):
    X, entity, day = rows(n_days=13, n_entities=64)
    known = (entity < 60) & (day < 12)
    monitor, _ = fitted(X[known], entity[known], day[known])
    isobag.save(monitor, tmp_path / "state.isobag")
    monitor = isobag.load(tmp_path / "state.isobag")
    new = day == 12
    monitor.update(X[new], entity[new], START + day[new], peers="auto")
    own = dict(zip(monitor.entities_.tolist(), monitor.state.cohorts.tolist(), strict=True))
    assert [own[one] for one in (60, 61, 62, 63)] == [own[0], own[1], own[0], own[1]] and own[0] != own[1]


def test_an_entity_that_is_like_the_other_cohort_is_unlike_its_peers():
    X, entity, day = rows(n_days=40)
    X[(entity == 8) & (day == 39), 0] += 4.0
    p_peers = []
    for peers in ("auto", None):
        lines = EntityMonitor(random_state=0).update(X, entity, START + day, peers=peers, since=START + 39)
        p_peers.append(float(lines.p_peers[lines.entity == 8][0]))
    assert p_peers[0] < 0.005 and p_peers[1] > 0.1


def test_equal_things_are_one_cluster():
    assert len(np.unique(cluster(np.zeros((40, 40))))) == 1


def test_another_word_for_peers_is_refused():
    X, entity, day = rows(n_days=3)
    with pytest.raises(ValueError, match="peers='found'; need a label for each row, or 'auto'"):
        EntityMonitor().update(X, entity, START + day, peers="found")
