"""River's own checks, a pipeline, and the scores of the stream detector."""

import numpy as np
import pytest

river = pytest.importorskip("river")

from river import anomaly, checks, compose, preprocessing  # noqa: E402

from isobag import IDKStreamDetector  # noqa: E402
from isobag.adapters.river import IDK  # noqa: E402

X = np.random.default_rng(0).normal(size=(300, 3))
ROWS = [dict(zip("abc", map(float, row), strict=True)) for row in X]


class Transactions:
    """In place of a set that River's checks would download: rows with a label, one in fifty odd."""

    def take(self, n):
        rng = np.random.default_rng(0)
        for k in range(n):
            odd = k % 50 == 49
            yield {name: float(value) for name, value in zip("abcd", rng.normal(6 * odd, 1, 4), strict=True)}, odd


def checks_of_river():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(river.datasets, "CreditCard", Transactions)
        return list(checks.yield_checks(IDK(window=60, n_estimators=8, seed=0)))


@pytest.mark.parametrize("check", checks_of_river(), ids=lambda check: check.__name__)
def test_rivers_own_checks_pass(check):
    check(IDK(window=60, n_estimators=8, seed=0))


def test_scores_are_those_of_the_stream_detector():
    model, other = IDK(100, 10, seed=0), IDKStreamDetector(100, 10, random_state=0)
    for row in ROWS:
        model.score_one(row)  # which changes nothing
        model.learn_one(row)
    scores = other.partial_fit(X).score_samples(X[:20])
    assert [model.score_one(row) for row in ROWS[:20]] == list(-np.log(scores))


def test_many_rows_are_learned_as_one_by_one():
    pandas = pytest.importorskip("pandas")
    single, many = IDK(100, 10, seed=0), IDK(100, 10, seed=0)
    for row in ROWS:
        single.learn_one(row)
    many.learn_many(pandas.DataFrame(ROWS[:120]))
    many.learn_many(pandas.DataFrame(ROWS[120:]))
    assert single.score_one(ROWS[0]) == many.score_one(ROWS[0])


def test_a_pipeline_with_a_scaler_and_a_filter_flags_what_is_odd():
    model = compose.Pipeline(preprocessing.StandardScaler(), anomaly.QuantileFilter(IDK(100, 20, seed=0), q=0.99))
    for row in ROWS:
        model.learn_one(row)
    odd = {"a": 30.0, "b": -30.0, "c": 0.0}
    flags = [model["QuantileFilter"].classify(model.score_one(row)) for row in (odd, ROWS[1])]
    assert flags == [True, False]


def test_what_is_no_number_is_named():
    model = IDK(100, 10, seed=0)
    model.learn_one(ROWS[0])
    with pytest.raises(ValueError, match="'b' is nan; need finite numbers"):
        model.learn_one({"a": 1.0, "b": float("nan"), "c": 0.0})


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e200, 10**400, None, "warm"])
def test_a_row_that_cannot_be_learned_is_named_and_changes_nothing(bad):
    model = IDK(window=50, n_estimators=5, seed=0)
    for _ in range(2):  # the first row, and a later one; features that are not used do not matter
        with pytest.raises(ValueError, match=r"'a' is .*; need finite numbers of at most 1e150"):
            model.learn_one({"c": None, "a": bad, "b": 1.0} if model.features else {"a": bad, "b": 1.0})
        for k in range(60):
            model.learn_one({"a": k % 7, "b": k % 5})
    assert model.score_one({"a": 3, "b": 2, "c": None}) < model.score_one({"a": 90, "b": 2})


def test_a_row_that_changes_after_it_was_scored_is_learned_as_it_is_then():
    changed, unchanged = (IDK(window=50, n_estimators=5, seed=0) for _ in range(2))
    for k in range(200):
        x = {"a": k % 7, "b": k % 5}
        changed.score_one(x)
        x["b"] += k % 3
        changed.learn_one(x)
        unchanged.learn_one(dict(x))
    assert changed.score_one({"a": 1, "b": 1}) == unchanged.score_one({"a": 1, "b": 1})
