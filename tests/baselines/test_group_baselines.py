"""Group baselines: each against its definition, and all under one contract."""

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.ensemble import IsolationForest
from sklearn.kernel_approximation import Nystroem
from sklearn.neighbors import KernelDensity
from sklearn.preprocessing import FunctionTransformer, KBinsDiscretizer
from sklearn.svm import OneClassSVM

from isobag.baselines import OCSMM, AveragedPointScores, TwoLevelGroupDetector, ocsmm
from isobag.data.groups import Groups, as_groups
from isobag.estimators.base import GroupDetector


def gather_groups(X: Any, groups: Any = None) -> Groups:
    return as_groups(OCSMM(), X, groups, reset=True)


DETECTORS: dict[str, Callable[[], GroupDetector]] = {
    "ocsmm": lambda: OCSMM(nu=0.2, bandwidth=0.7),
    "gaussian": lambda: TwoLevelGroupDetector(Nystroem(n_components=20, random_state=0), KernelDensity(bandwidth=0.3)),
    "sparse": lambda: TwoLevelGroupDetector(
        KBinsDiscretizer(5, encode="onehot", strategy="uniform"), OneClassSVM(kernel="linear")
    ),
    "averaged": lambda: AveragedPointScores(IsolationForest(n_estimators=20, random_state=0)),
}

# A matrix product (Nystroem) rounds differently with the number of its rows, and averages with the order of their
# terms: a few units in the last place of numbers near 1.
ROUNDING = 1e-12


@pytest.fixture(params=DETECTORS)
def detector(request: pytest.FixtureRequest) -> GroupDetector:
    return DETECTORS[request.param]()


@pytest.fixture
def data() -> tuple[np.ndarray, np.ndarray]:
    """Thirty groups of 3 to 20 points, interleaved, labelled by strings that do not sort as they appear."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(3, 21, size=30)
    X = np.repeat(rng.normal(size=(30, 2)), sizes, axis=0) + rng.normal(size=(sizes.sum(), 2))
    labels = np.repeat([f"device-{n}" for n in rng.permutation(30)], sizes)
    shuffled = rng.permutation(len(X))
    return X[shuffled], labels[shuffled]


def in_order(labels: Any) -> list[Any]:
    return list(dict.fromkeys(labels))


def gaussian_mean_embedding(G: np.ndarray, H: np.ndarray, bandwidth: float) -> float:
    """The definition, in loops."""
    total = 0.0
    for x in G:
        for y in H:
            total += np.exp(-sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) / (2 * bandwidth**2))
    return total / len(G) / len(H)


@pytest.mark.parametrize("block", [1, 7, 1024])
def test_ocsmm_kernels_are_the_mean_gaussians_over_all_pairs(data: Any, block: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(ocsmm, "_BLOCK_POINTS", block)
    X, labels = data[0][:120], data[1][:120]
    groups = [X[labels == label] for label in in_order(labels)]
    bandwidths = tuple(0.7 * 2.0**k for k in range(-3, 3))
    expected = [[[gaussian_mean_embedding(G, H, width) for H in groups] for G in groups] for width in bandwidths]
    points = ocsmm.sort_by_group(gather_groups(X, labels))
    mirrored = ocsmm.mean_embedding_kernels(points, None, bandwidths)
    np.testing.assert_allclose(mirrored, expected, rtol=ROUNDING, atol=1e-300)
    np.testing.assert_allclose(
        ocsmm.mean_embedding_kernels(points, points, bandwidths), expected, rtol=ROUNDING, atol=1e-300
    )
    assert np.array_equal(mirrored, mirrored.transpose(0, 2, 1))


def test_ocsmm_kernels_do_not_depend_on_threads_or_on_the_other_groups(data: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(ocsmm, "_BLOCK_POINTS", 16)
    points = ocsmm.sort_by_group(gather_groups(*data))
    one, three = (ocsmm.mean_embedding_kernels(points, points, (0.5, 1.0), n_jobs) for n_jobs in (1, 3))
    assert np.array_equal(one, three)
    last = points.part(np.array([len(points.labels) - 1]))
    assert np.array_equal(ocsmm.mean_embedding_kernels(last, points, (0.5, 1.0))[:, 0], one[:, -1])


def test_ocsmm_is_a_one_class_svm_on_that_kernel(data: Any) -> None:
    X, labels = data
    groups = [X[labels == label] for label in in_order(labels)]
    kernel = np.array([[gaussian_mean_embedding(G, H, 0.7) for H in groups] for G in groups])
    svm = OneClassSVM(kernel="precomputed", nu=0.2, tol=1e-6).fit(kernel)
    model = OCSMM(nu=0.2, bandwidth=0.7).fit(X, groups=labels)
    np.testing.assert_allclose(model.decision_function(X, labels), svm.decision_function(kernel), atol=1e-5)
    assert np.array_equal(model.predict(X, labels), svm.predict(kernel))


def test_ocsmm_finds_the_group_that_lies_elsewhere() -> None:
    rng = np.random.default_rng(0)
    groups = [rng.normal(size=(20, 2)) for _ in range(30)] + [rng.normal(4, 1, size=(20, 2))]
    assert OCSMM(random_state=0).fit(groups).scores_.argmin() == 30


def test_median_bandwidth_is_the_median_distance_between_points() -> None:
    X = np.random.default_rng(0).normal(size=(50, 3))
    assert OCSMM().fit(X, groups=np.arange(50) // 5).bandwidth_ == np.median(pdist(X))
    assert OCSMM().fit(np.ones((4, 2)), groups=[0, 0, 1, 1]).bandwidth_ == 1


@pytest.mark.parametrize("bandwidth", [0, -1.0, np.inf, np.nan, "scott"])
def test_a_bandwidth_that_is_none_is_an_error(bandwidth: Any) -> None:
    with pytest.raises(ValueError, match=r"bandwidth=.*; need"):
        OCSMM(bandwidth=bandwidth).fit(np.eye(4), groups=[0, 0, 1, 1])


def test_two_levels_equal_the_two_steps_by_hand(data: Any) -> None:
    X, labels = data
    nystroem = Nystroem(n_components=20, random_state=0).fit(X)
    means = np.array([nystroem.transform(X[labels == label]).mean(axis=0) for label in in_order(labels)])
    expected = KernelDensity(bandwidth=0.3).fit(means).score_samples(means)
    model = DETECTORS["gaussian"]().fit(X, groups=labels)
    np.testing.assert_allclose(model.score_samples(X, labels), expected, rtol=1e-9)  # a logarithm of the above


class CellShares:
    """An embedding that is no scikit-learn estimator: shares of a group's points on either side of the first median."""

    def fit(self, X: np.ndarray) -> "CellShares":
        self.median_ = np.median(X[:, 0])
        return self

    def embed(self, X: np.ndarray, groups: np.ndarray) -> sparse.csr_array:
        right = X[:, 0] > self.median_
        return sparse.csr_array([[right[groups == g].mean(), 1 - right[groups == g].mean()] for g in in_order(groups)])


def test_level_one_may_embed_groups_itself(data: Any) -> None:
    X, labels = data
    right = np.array([(X[labels == g, 0] > np.median(X[:, 0])).mean() for g in in_order(labels)])
    shares = np.column_stack([right, 1 - right])
    expected = OneClassSVM(kernel="linear").fit(shares).score_samples(shares)
    model = TwoLevelGroupDetector(CellShares(), OneClassSVM(kernel="linear")).fit(X, groups=labels)
    np.testing.assert_allclose(model.scores_, expected, rtol=ROUNDING)


def test_embedding_is_the_same_in_chunks_of_any_size(data: Any, monkeypatch: Any) -> None:
    X, labels = data
    whole = DETECTORS["sparse"]().fit(X, groups=labels).scores_
    monkeypatch.setattr("isobag.baselines.two_level._CHUNK_POINTS", 7)
    np.testing.assert_allclose(DETECTORS["sparse"]().fit(X, groups=labels).scores_, whole, rtol=ROUNDING)


def test_averaged_point_scores_are_the_mean_over_each_group(data: Any) -> None:
    X, labels = data
    forest = IsolationForest(n_estimators=20, random_state=0).fit(X)
    expected = [forest.score_samples(X[labels == label]).mean() for label in in_order(labels)]
    np.testing.assert_allclose(DETECTORS["averaged"]().fit(X, groups=labels).scores_, expected, rtol=ROUNDING)


class OnlyDecides:
    """A point detector with decision_function alone."""

    def fit(self, X: np.ndarray) -> "OnlyDecides":
        return self

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        return -np.asarray(X)[:, 0]


class OnlyFits:
    def fit(self, X: np.ndarray) -> "OnlyFits":
        return self


def test_decision_function_stands_in_for_score_samples(data: Any) -> None:
    X, labels = data
    expected = [-X[labels == label, 0].mean() for label in in_order(labels)]
    np.testing.assert_allclose(
        AveragedPointScores(OnlyDecides()).fit(X, groups=labels).scores_, expected, atol=ROUNDING
    )
    identity = TwoLevelGroupDetector(FunctionTransformer(), OnlyDecides())
    np.testing.assert_allclose(identity.fit(X, groups=labels).scores_, expected, atol=ROUNDING)


def test_a_detector_without_scores_is_an_error() -> None:
    with pytest.raises(TypeError, match="OnlyFits can fit but not score"):
        AveragedPointScores(OnlyFits()).fit(np.eye(4), groups=[0, 0, 1, 1])


def test_parts_are_copied_not_fitted(data: Any) -> None:
    level1, level2 = Nystroem(n_components=5, random_state=0), OneClassSVM()
    TwoLevelGroupDetector(level1, level2).fit(data[0], groups=data[1])
    assert not hasattr(level1, "components_") and not hasattr(level2, "offset_")


def test_permuting_points_changes_nothing_but_the_order(detector: GroupDetector, data: Any) -> None:
    """Points change places and so do groups; the fitted detector is the same, its rounding is not."""
    X, labels = data
    detector.fit(X, groups=labels)
    shuffled = np.random.default_rng(1).permutation(len(X))
    before = dict(zip(in_order(labels), detector.score_samples(X, labels), strict=True))
    after = dict(zip(in_order(labels[shuffled]), detector.score_samples(X[shuffled], labels[shuffled]), strict=True))
    assert in_order(labels) != in_order(labels[shuffled])
    for label, score in before.items():
        assert after[label] == pytest.approx(score, rel=1e-10, abs=ROUNDING)


def test_ocsmm_fitted_on_permuted_groups_agrees_to_the_tolerance_of_its_solver(data: Any) -> None:
    """Scores are sums of some nu * groups = 6 kernel values; the solver stops within tol = 1e-6 of optimal."""
    X, labels = data
    shuffled = np.random.default_rng(1).permutation(len(X))
    model, again = (
        OCSMM(bandwidth=0.7).fit(X, groups=labels),
        OCSMM(bandwidth=0.7).fit(X[shuffled], groups=labels[shuffled]),
    )
    np.testing.assert_allclose(again.score_samples(X, labels), model.score_samples(X, labels), atol=1e-4)


def test_scoring_one_group_alone_equals_scoring_it_among_others(detector: GroupDetector, data: Any) -> None:
    X, labels = data
    together = detector.fit(X, groups=labels).score_samples(X, labels)
    alone = np.concatenate([detector.score_samples([X[labels == label]]) for label in in_order(labels)])
    np.testing.assert_allclose(alone, together, rtol=1e-10, atol=ROUNDING)


@pytest.mark.parametrize("name", ["ocsmm", "averaged"])
def test_without_matrix_products_one_group_alone_scores_the_same_to_the_last_bit(name: str, data: Any) -> None:
    X, labels = data
    model = DETECTORS[name]().fit(X, groups=labels)
    alone = np.concatenate([model.score_samples([X[labels == label]]) for label in in_order(labels)])
    assert np.array_equal(alone, model.score_samples(X, labels))


def test_new_groups_are_scored_without_refitting(detector: GroupDetector, data: Any) -> None:
    X, labels = data
    before = detector.fit(X, groups=labels).score_samples(X, labels)
    far = detector.score_samples(np.full((5, 2), 50.0), ["new"] * 5)
    assert far.shape == (1,) and detector.labels_.tolist() == in_order(labels)
    assert np.array_equal(detector.score_samples(X, labels), before)


def test_scores_of_fit_are_those_of_score_samples(detector: GroupDetector, data: Any) -> None:
    """The kernel mirrored in fit and whole in scoring differ in rounding."""
    np.testing.assert_allclose(
        detector.fit(data[0], groups=data[1]).scores_, detector.score_samples(*data), rtol=1e-10, atol=ROUNDING
    )


def test_a_list_of_arrays_equals_rows_with_labels(detector: GroupDetector, data: Any) -> None:
    X, labels = data
    order = np.argsort(gather_groups(X, labels).ids, kind="stable")
    listed = [X[labels == label] for label in in_order(labels)]
    rows = clone(detector).fit(X[order], groups=labels[order])
    assert np.array_equal(detector.fit(listed).scores_, rows.scores_)
    assert detector.labels_.tolist() == list(range(30)) and rows.labels_.tolist() == in_order(labels)


def test_verdicts_follow_from_scores(detector: GroupDetector, data: Any) -> None:
    verdicts = detector.set_params(contamination=0.1).fit_predict(data[0], groups=data[1])
    assert verdicts.tolist() == [-1 if score < detector.offset_ else 1 for score in detector.scores_]
    assert (verdicts == -1).sum() == 3
    decisions = detector.decision_function(*data)
    np.testing.assert_array_equal(decisions, detector.score_samples(*data) - detector.offset_)
    assert np.array_equal(detector.predict(*data), np.where(decisions < 0, -1, 1))


def test_auto_offset_is_two_deviations_below_the_mean(data: Any) -> None:
    model = DETECTORS["averaged"]().fit(data[0], groups=data[1])
    assert model.offset_ == pytest.approx(np.mean(model.scores_) - 2 * np.std(model.scores_))


@pytest.mark.parametrize("contamination", [0, 0.6, -0.1, "some"])
def test_contamination_out_of_bounds_is_an_error(detector: GroupDetector, data: Any, contamination: Any) -> None:
    with pytest.raises(ValueError, match=r"contamination=.*; need 'auto' or a share"):
        detector.set_params(contamination=contamination).fit(data[0], groups=data[1])


def label_kinds() -> dict[str, Any]:
    rows = [2, 0, 2, 1, 0, 1]
    days = [datetime.date(2024, 5, n + 1) for n in rows]
    return {
        "strings": ["bca"[n] for n in rows],
        "integers": np.array(rows),
        "tuples": [("shop", n) for n in rows],
        "dates": days,
        "datetime64": np.array(days, dtype="datetime64[ns]"),
        "timestamps": pd.Series(pd.to_datetime(days)),
        "categories": pd.Categorical(["bca"[n] for n in rows], categories=["a", "b", "c", "unused"]),
        "category series": pd.Series(["bca"[n] for n in rows], dtype="category"),
        "mixed": ["bca"[n] if n else 7 for n in rows],
    }


@pytest.mark.parametrize("kind", label_kinds())
def test_groups_are_numbered_by_first_appearance_whatever_labels_are(kind: str) -> None:
    groups = label_kinds()[kind]
    points = gather_groups(np.arange(12.0).reshape(6, 2), groups)
    assert points.ids.tolist() == [0, 1, 0, 2, 1, 2]
    assert all(given == kept for given, kept in zip(groups, points.labels[points.ids], strict=True))
    assert points.sizes.tolist() == [2, 2, 2]


@pytest.mark.parametrize("missing", [None, np.nan, "", np.datetime64("NaT", "ns"), pd.NA])
def test_a_missing_label_is_an_error_that_names_the_row(missing: Any) -> None:
    with pytest.raises(ValueError, match="groups has no label in row 2"):
        gather_groups(np.eye(4), ["a", "b", missing, "b"])


X_OF_FOUR = np.arange(8.0).reshape(4, 2)
WITH_NAN = np.where(X_OF_FOUR == 5, np.nan, X_OF_FOUR)
WRONG_INPUT: dict[str, tuple[Any, Any, str]] = {
    "NaN": (WITH_NAN, ["a", "b", "b", "a"], r"Group .*'b'.*: Input X contains NaN: nan in row 2, column 1"),
    "NaN in a list": ([WITH_NAN[:1], WITH_NAN[1:]], None, r"Group 1: Input X contains NaN: nan in row 1, column 1"),
    "infinity": (np.full((1, 1), np.inf), [0], "inf in row 0, column 0"),
    "text": ([["a", "b"]], [0], "Group 0: X has 'a' in row 0, column 0, which is text"),
    "no labels": (X_OF_FOUR, None, "pass one label for each row"),
    "too few labels": (X_OF_FOUR, [0, 1], "groups has 2 labels and X has 4 rows"),
    "labels in two axes": (X_OF_FOUR, np.zeros((4, 1)), r"groups has shape \(4, 1\)"),
    "no groups": ([], None, "X is an empty list"),
    "no rows": (X_OF_FOUR[:0], [], r"0 sample\(s\)"),
    "empty group": ([X_OF_FOUR, X_OF_FOUR[:0]], None, r"Group 1: .*0 sample\(s\)"),
    "one axis": ([X_OF_FOUR[0]], None, r"Group 0 has shape \(\d+,\); need \(points, features\)"),
    "other columns": ([X_OF_FOUR, X_OF_FOUR[:, :1]], None, "Group 1: X has 1 features, but OCSMM is expecting 2"),
    "no such column": (X_OF_FOUR, "by", "groups='by'; X has no such column"),
}


@pytest.mark.parametrize("case", WRONG_INPUT)
def test_wrong_input_is_an_error_that_says_where(case: str) -> None:
    X, groups, message = WRONG_INPUT[case]
    with pytest.raises(ValueError, match=message):
        gather_groups(X, groups)


@pytest.mark.parametrize("groups", [7, [[0], [0], [1], [1]]])
def test_labels_that_are_none_are_a_type_error(groups: Any) -> None:
    with pytest.raises(TypeError, match=r"need (one label for each row|hashable labels)"):
        gather_groups(X_OF_FOUR, groups)


def test_a_group_with_other_columns_at_scoring_is_an_error_that_names_it(detector: GroupDetector, data: Any) -> None:
    detector.fit(data[0], groups=data[1])
    with pytest.raises(ValueError, match=r"Group 1: X has 3 features, but .* is expecting 2"):
        detector.score_samples([np.zeros((4, 2)), np.zeros((4, 3))])
    with pytest.raises(ValueError, match=r"X has 3 features, but .* is expecting 2"):
        detector.score_samples(np.zeros((4, 3)), [0, 0, 1, 1])
