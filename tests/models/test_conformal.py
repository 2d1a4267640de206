"""Conformal p-values: the formula, what it promises of data drawn like the training data, and false discoveries."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracle import calibration as oracle
from scipy.stats import spearmanr

from isobag import IDKGroupDetector, IDKPointDetector
from isobag.backends import Compute
from isobag.data.groups import Groups, as_groups
from isobag.data.rows import ArrayRows
from isobag.models.calibration import Calibration, draw_folds, own_p_values

ALPHAS = (0.01, 0.05, 0.1)


def gaussian(rng, n):
    return rng.normal(size=(n, 2))


def heavy_tails(rng, n):
    return rng.standard_t(1.5, size=(n, 3))


def two_clusters(rng, n):
    """A dense cluster and, four times rarer, a sparse one."""
    rare = rng.random(n) < 0.2
    return rng.normal(size=(n, 2)) * np.where(rare, 3, 0.2)[:, None] + np.where(rare, 8, 0)[:, None]


def integers(rng, n):
    """A 4 x 4 grid: equal rows and equal scores everywhere."""
    return rng.integers(0, 4, (n, 2)).astype(float)


def groups_of(points):
    """Groups of 2 to 8 points, each moved by a little of its own."""
    return lambda rng, g: [points(rng, size) + rng.integers(0, 2, 2) for size in rng.integers(2, 9, g)]


def as_data(data):
    """Rows, or groups from a list of arrays."""
    if not isinstance(data, list):
        return ArrayRows(data)
    ids = np.repeat(np.arange(len(data)), [len(part) for part in data])
    return Groups(ArrayRows(np.vstack(data)), ids, np.arange(len(data)))


def alarms(data, model, n_train, n_new, seeds, spoil=None):
    """For each alpha, the share of normal rows or groups with p <= alpha, and 3 standard errors of it.

    Data and model are drawn anew for every seed. New rows of one fit share their calibration: given the fit, the
    chance of p <= alpha is spread like a Beta distribution with variance alpha (1 - alpha) / (N + 2), N set aside.
    """
    p_values = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        train = data(rng, n_train)
        learned = model.set_params(random_state=seed).fit(train if spoil is None else spoil(rng, train))
        p_values.append(learned.p_values(data(rng, n_new)))
    n_aside = len(learned.model_.calibration.scores)
    shares = [float(np.mean(np.array(p_values) <= alpha)) for alpha in ALPHAS]
    spread = (1 / (n_aside + 2) + 1 / n_new) / len(p_values)
    return n_aside, shares, [3 * math.sqrt(alpha * (1 - alpha) * spread) for alpha in ALPHAS]


@pytest.mark.filterwarnings("ignore:max_samples=200 is more than half")
@pytest.mark.parametrize("max_samples", ["auto", 8, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "data", [gaussian, integers, *(pytest.param(data, marks=pytest.mark.slow) for data in (heavy_tails, two_clusters))]
)
def test_normal_points_are_below_alpha_no_more_often_than_alpha(data, max_samples):
    # With max_samples = 200, all rows of fit are alone in their cells: had they been scored themselves, most new rows
    # would look odd.
    model = IDKPointDetector(10, max_samples)
    _, shares, noise = alarms(data, model, 200, 50, seeds=range(40))
    for share, alpha, most in zip(shares, ALPHAS, noise, strict=True):
        assert share <= alpha + most


@pytest.mark.slow
@pytest.mark.parametrize("data", [gaussian, heavy_tails, two_clusters])
def test_where_scores_differ_normal_points_are_below_alpha_as_often_as_can_be(data):
    n_aside, shares, noise = alarms(data, IDKPointDetector(), 200, 50, seeds=range(1000, 1100))
    for share, alpha, most in zip(shares, ALPHAS, noise, strict=True):
        possible = math.floor(alpha * (n_aside + 1)) / (n_aside + 1)
        # A few scores are equal, which can only make p-values larger: a tenth is room enough.
        assert share >= 0.9 * possible - most


@pytest.mark.slow
@pytest.mark.parametrize("data", [groups_of(gaussian), groups_of(integers)], ids=["gaussian", "integers"])
def test_normal_groups_are_below_alpha_no_more_often_than_alpha(data):
    n_aside, shares, noise = alarms(data, IDKGroupDetector(20), 60, 40, seeds=range(60))
    for share, alpha, most in zip(shares, ALPHAS, noise, strict=True):
        assert share <= alpha + most
    assert n_aside == 60
    assert shares[-1] > 0.02  # small groups are often as odd as can be, and their p-values then larger


@pytest.mark.slow
@pytest.mark.parametrize("data", [gaussian, two_clusters])
def test_anomalies_among_the_training_data_make_no_false_alarms(data):
    def spoil(rng, train):
        return np.vstack([train[:-10], rng.uniform(-30, 30, (10, 2))])

    _, clean, _ = alarms(data, IDKPointDetector(10), 200, 50, seeds=range(2000, 2100))
    _, shares, noise = alarms(data, IDKPointDetector(10), 200, 50, range(2000, 2100), spoil)
    for share, alpha, most in zip(shares, ALPHAS, noise, strict=True):
        assert share <= alpha + most
    # A twentieth of the rows of fit is odder than any normal row.
    assert shares[-1] < 0.7 * clean[-1]


@pytest.mark.parametrize("share", [0.01, 0.05])
def test_a_small_class_of_normal_rows_is_no_alarm_in_new_data(share):
    def with_class(rng, n):
        return rng.normal(size=(n, 2)) + np.where(rng.random((n, 1)) < share, [0, 20], 0)

    _, shares, noise = alarms(with_class, IDKPointDetector(30), 1500, 1500, seeds=range(6))
    for alarmed, alpha, most in zip(shares, ALPHAS, noise, strict=True):
        assert alarmed <= alpha + most


def folds_of(calibration):
    """Scores set aside, a list for each fold, where there is one class of size."""
    return [part.tolist() for part in np.split(calibration.scores, calibration.ends[:-1])]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("data", [gaussian, integers])
def test_p_values_of_rows_are_those_of_the_definition(rng, data, exact):
    model = IDKPointDetector(10, random_state=0).fit(data(rng, 221))
    X = np.vstack([data(rng, 40), [[6, 6], [9, 0], [40, -9], [1e9, 0]]])
    learned = model.model_.calibration
    assert learned.models == () and learned.sizes == [221]
    scores = model.score_samples(X)
    expected = [oracle.p_value([learned.scores.tolist()], [score], exact) for score in scores]
    assert_allclose(model.p_values(X, exact=exact), expected, rtol=1e-12)
    assert len(set(expected)) > 5
    assert (min(expected) < 1 / 222) == (not exact)
    judged = learned.judge(model.model_, ArrayRows(X), Compute(), "exact" if exact else "extrapolate")
    assert_array_equal(judged.is_extrapolated, judged.p_values < 1 / 222)
    assert_array_equal(judged.scores, scores)


@pytest.mark.parametrize("p_value", [1e-9, 1e-4, 1 / 222, 0.02, 0.3])
def test_the_score_of_a_p_value_is_where_p_values_become_larger(rng, p_value):
    calibration = IDKPointDetector(10, random_state=0).fit(gaussian(rng, 221)).model_.calibration
    score = calibration.score_at(p_value)
    below, above = calibration.compare(score * np.array([[1 - 1e-9], [1 + 1e-9]]), np.zeros(2), "extrapolate").p_values
    assert below <= p_value * (1 + 1e-6) and above >= p_value * (1 - 1e-6)


def test_p_values_of_groups_are_those_of_the_definition(rng):
    data = groups_of(integers)
    model = IDKGroupDetector(60, random_state=0).fit(data(rng, 151))
    new = [*data(rng, 30), *(part + 9 for part in data(rng, 5))]
    learned = model.model_.calibration
    grouped = as_groups(model, new, None, reset=False)
    scores = [own.scores(grouped, Compute()) for own in learned.models]
    expected = [oracle.p_value(folds_of(learned), row) for row in zip(*scores, strict=True)]
    assert_allclose(model.p_values(new), expected, rtol=1e-12)
    assert np.median(expected[-5:]) <= 1 / 152 and min(expected) < 1 / 300


@pytest.mark.parametrize("seed", range(5))
def test_p_values_of_anomalies_are_below_all_that_ranks_can_tell(seed):
    rng = np.random.default_rng(seed)
    points = IDKPointDetector(random_state=seed).fit(gaussian(rng, 400))
    odd = [[20.0, 20.0], [-30.0, 0.0]]
    assert np.all(points.p_values(odd) < 1 / 401)
    assert_array_equal(points.p_values(odd, exact=True), 1 / 401)
    groups = IDKGroupDetector(50, random_state=seed).fit([gaussian(rng, 40) for _ in range(80)])
    # Shifted, narrow and wide: the last two have the mean of all.
    odd = [gaussian(rng, 40) + 2, gaussian(rng, 40) / 10, gaussian(rng, 40) * 5]
    # Over seeds 0 to 19: at most two of the normal groups set aside are as odd as these.
    assert np.all(groups.p_values(odd) <= 3 / 81)


def benjamini_hochberg(p_values, fdr):
    """Find the largest k whose k smallest p-values are all at most k fdr / m; these k are discoveries."""
    ranked = sorted(p_values)
    cut = 0.0
    for k in range(1, len(ranked) + 1):
        if ranked[k - 1] <= k * fdr / len(ranked):
            cut = ranked[k - 1]
    return [-1 if p <= cut else 1 for p in p_values]


@pytest.mark.parametrize("fdr", [0.01, 0.07, 0.2, 0.5, 0.9])
def test_verdicts_at_a_false_discovery_rate_are_those_of_benjamini_and_hochberg(fdr):
    # 101 and 61 are primes, so that no p-value equals k fdr / m and rounding decides nothing.
    n_alarms = set()
    for seed in range(4):
        rng = np.random.default_rng(seed)
        points = IDKPointDetector(20, random_state=seed).fit(gaussian(rng, 200))
        X = np.vstack([gaussian(rng, 40), rng.normal(3, 1, (10, 2))])
        verdicts = points.predict(X, fdr=fdr)
        assert verdicts.tolist() == benjamini_hochberg(points.p_values(X).tolist(), fdr)
        n_alarms.add(int((verdicts == -1).sum()))
        groups = IDKGroupDetector(10, random_state=seed).fit([gaussian(rng, 10) for _ in range(120)])
        new = [gaussian(rng, 10) + shift for shift in rng.choice([0, 2], 20)]
        assert groups.predict(new, fdr=fdr).tolist() == benjamini_hochberg(groups.p_values(new).tolist(), fdr)
    assert fdr == 0.01 or max(n_alarms) > 0
    assert min(n_alarms) < 50


@pytest.mark.parametrize("fdr", [0.1, 0.3])
def test_the_share_of_false_alarms_is_at_most_the_false_discovery_rate(fdr):
    false_shares, powers = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        model = IDKPointDetector(10, random_state=seed).fit(gaussian(rng, 400))
        odd = model.predict(np.vstack([gaussian(rng, 80), rng.normal(5, 1, (20, 2))]), fdr=fdr) == -1
        false_shares.append(odd[:80].sum() / max(1, odd.sum()))
        powers.append(odd[80:].mean())
    assert np.mean(false_shares) <= fdr * 0.8 + 3 * np.std(false_shares) / math.sqrt(len(false_shares))
    assert np.mean(false_shares) > 0.2 * fdr
    assert np.mean(powers) > 0.5


def test_a_p_value_never_depends_on_the_rest_of_its_batch(rng):
    points = IDKPointDetector(10, random_state=0).fit(gaussian(rng, 100))
    X = gaussian(rng, 300)
    whole = points.p_values(X)
    assert [points.p_values(X[i : i + 1])[0] for i in range(0, 300, 10)] == whole[::10].tolist()
    assert_array_equal(points.p_values(X[::-3]), whole[::-3])
    groups = IDKGroupDetector(10, random_state=0).fit([gaussian(rng, 5) for _ in range(40)])
    new = [gaussian(rng, 5) for _ in range(40)]
    assert [groups.p_values([part])[0] for part in new] == groups.p_values(new).tolist()


def test_p_values_follow_random_state(rng):
    X, new = gaussian(rng, 80), gaussian(rng, 80)
    for cls, data, unseen in ((IDKPointDetector, X, new), (IDKGroupDetector, [*X[:, None]], [*new[:, None]])):
        first, same, other = (cls(10, random_state=seed).fit(data) for seed in (1, 1, 2))
        assert_array_equal(first.p_values(unseen), same.p_values(unseen))
        assert (first.p_values(unseen) != other.p_values(unseen)).any()


@pytest.mark.parametrize(("n", "n_aside"), [(2, 0), (3, 3), (5, 5), (2_011, 2_011)])
def test_all_rows_are_set_aside_once_but_two_are_always_learned(rng, n, n_aside):
    model = IDKPointDetector(2, random_state=0).fit(rng.normal(size=(n, 1)))
    assert len(model.model_.calibration.scores) == n_aside
    p_values = model.p_values(rng.normal(size=(9, 1)))
    assert np.all((p_values > 0) & (p_values <= 1)) and (n > 2 or np.all(p_values == 1))


@pytest.mark.parametrize("data", [gaussian, heavy_tails, integers])
def test_rows_outside_the_pools_calibrate_large_tables(data):
    rng = np.random.default_rng(0)
    shares = []
    for seed in range(4):
        model = IDKPointDetector(random_state=seed).fit(data(rng, 6000))
        assert 2950 <= len(model.model_.calibration.scores) < 6000  # half, but for rows far from the bulk
        shares.append([np.mean(model.p_values(data(rng, 5000)) <= alpha) for alpha in ALPHAS])
    ratios = np.mean(shares, axis=0) / ALPHAS
    assert (ratios < 1.25).all() and (data is integers or (ratios > 0.5).all())


@pytest.mark.parametrize(("n_groups", "n_folds", "n_aside"), [(2, 1, 0), (3, 3, 3), (5, 4, 5), (2_011, 4, 2_011)])
def test_all_groups_are_set_aside_once_but_two_are_always_learned(rng, n_groups, n_folds, n_aside):
    model = IDKGroupDetector(2, 2, 2, random_state=0).fit([*rng.normal(size=(n_groups, 1, 1))])
    calibration = model.model_.calibration
    assert (len(calibration.models), len(calibration.scores)) == (n_folds, n_aside)


@pytest.mark.parametrize(
    ("n", "most_aside", "most_learned"), [(3, 9, 9), (50, 100, 100), (50, 20, 10), (1000, 999, 40)]
)
def test_no_model_scores_what_it_learned_from_and_nothing_is_scored_twice(n, most_aside, most_learned):
    folds = draw_folds(n, most_aside, most_learned, 0)
    aside = np.concatenate([fold.aside for fold in folds])
    assert len(aside) == len(np.unique(aside)) == min(n, most_aside)
    assert len({fold.seed for fold in folds}) == len(folds)
    for fold in folds:
        assert not np.isin(fold.learned, fold.aside).any()
        assert 2 <= len(fold.learned) <= most_learned
        assert (np.diff(fold.aside) > 0).all() and (np.diff(fold.learned) > 0).all()


def test_units_are_never_torn_apart_and_one_row_of_each_is_scored(rng):
    units = rng.integers(0, 40, 500)
    folds = draw_folds(500, 100, 1000, 0, units)
    assert sorted(np.concatenate([units[fold.aside] for fold in folds])) == list(range(40))
    for fold in folds:
        assert not set(units[fold.learned]) & set(units[fold.aside])


def test_p_values_with_more_than_half_of_the_rows_as_centers_are_warned_of(rng):
    X = gaussian(rng, 40)
    many = IDKPointDetector(10, 21, random_state=0).fit(X)
    for use in (many.p_values, lambda new: many.predict(new, fdr=0.1)):
        with pytest.warns(UserWarning, match=r"max_samples=21 is more than half of the 40 rows.*fit with fewer"):
            use(X)
    IDKPointDetector(10, 20, random_state=0).fit(X).p_values(X)


@pytest.mark.parametrize("fdr", [0, 1, -0.1, 1.5, float("nan"), "0.1", True])
def test_a_false_discovery_rate_that_is_none_is_refused(rng, fdr):
    X = gaussian(rng, 30)
    for cls, data in ((IDKPointDetector, X), (IDKGroupDetector, [X[:10], X[10:20], X[20:]])):
        with pytest.raises(ValueError, match=r"fdr=.*between 0 and 1"):
            cls(5, random_state=0).fit(data).predict(data, fdr=fdr)


@pytest.mark.parametrize("n", [1, 2, 57, 70_000])
def test_p_values_of_the_training_data_are_shares_of_their_own_scores(rng, n):
    scores = rng.integers(0, 40, n) / 8
    p_values = own_p_values(scores)
    chosen = rng.integers(0, n, 50)
    assert_array_equal(p_values[chosen], [(scores <= scores[i]).mean() for i in chosen])
    assert p_values.max() == 1 and p_values.min() > 0
    for alpha in ALPHAS:  # ranks: no more than alpha of them lie at or below alpha, whatever the data
        assert np.mean(p_values <= alpha) <= alpha
    ranks = own_p_values(rng.permutation(n) * 1.0)
    assert_array_equal(np.sort(ranks), np.arange(1, n + 1) / n)
    order = rng.permutation(n)
    assert_array_equal(own_p_values(scores[order]), p_values[order])


def sized_groups(sizes):
    """Groups of zeros with these sizes."""
    return as_data([np.zeros((size, 1)) for size in sizes])


def test_groups_are_compared_with_those_set_aside_of_their_class_of_size():
    scores = np.array([0.1, 0.4, 0.4, 0.9, 0.2, 0.3, 0.5])
    learned = Calibration((None,), np.array([3, 10]), np.array([4, 4, 7]), scores, 0.0)
    # Up to 3 points: the first four; up to 10: none; more: the last three.
    rows_of_scores = np.array([[0.4], [0.4], [0.4], [0.05], [2.0], [0.4]])
    comparison = learned.compare(rows_of_scores, sized_groups([1, 3, 4, 2, 11, 500]), "extrapolate")
    assert_array_equal(comparison.p_values, [4 / 5, 4 / 5, 1, 1 / 5, 1, 3 / 4])
    assert not comparison.is_extrapolated.any()  # of so few there is no tail
    two = Calibration((None, None), np.array([3]), np.array([2, 4, 4, 7]), scores, 0.0)
    # Folds of up to 3 points: .1 .4 and none; of more: .4 .9 and .2 .3 .5.
    comparison = two.compare(np.array([[0.3, 0.0], [0.4, 0.3]]), sized_groups([3, 4]), "exact")
    assert_array_equal(comparison.p_values, [2 / 3, 4 / 6])
    rows = Calibration((None,), np.empty(0, dtype=np.int64), np.array([3]), scores[4:], 0.0)
    comparison = rows.compare(np.array([[0.1], [0.3]]), ArrayRows(np.zeros((2, 1))), "exact")
    assert_array_equal(comparison.p_values, [1 / 4, 3 / 4])


@pytest.mark.parametrize(("n_groups", "n_classes"), [(150, 1), (399, 1), (400, 2), (650, 3), (1200, 5)])
def test_classes_of_size_have_two_hundred_groups_or_more_on_average(rng, n_groups, n_classes):
    sizes = np.exp(rng.uniform(0, np.log(60), n_groups)).astype(int)
    parts = [rng.normal(size=(size, 1)) for size in sizes]
    learned = IDKGroupDetector(2, 2, 2, random_state=0).fit(parts).model_.calibration
    assert len(learned.ends) / 4 == n_classes == len(learned.edges) + 1
    assert sum(learned.sizes) == n_groups and (np.diff(learned.edges) > 0).all()
    # As many in each as in any other, but for groups of one size.
    assert min(learned.sizes) > 0.4 * n_groups / n_classes
    for part in np.split(learned.scores, learned.ends[:-1]):
        assert (np.diff(part) >= 0).all()


def test_groups_of_one_size_are_one_class(rng):
    learned = IDKGroupDetector(2, 2, 2, random_state=0).fit([*rng.normal(size=(900, 3, 1))]).model_.calibration
    assert len(learned.edges) == 0 and learned.ends.tolist() == [225, 450, 675, 900]


def unequal(rng, g):
    """Normal groups of 3 to 300 points, log-uniform, each moved by a little of its own."""
    sizes = np.exp(rng.uniform(np.log(3), np.log(300), g)).astype(int)
    return [rng.normal(rng.normal(0, 0.3, 2), 1, (size, 2)) for size in sizes]


@pytest.mark.slow
def test_small_groups_are_not_odd_for_being_small_nor_large_ones_for_being_large():
    """In each fifth of size, one normal group in ten has p <= .1; scores know nothing of size either."""
    hits, n_new, correlations = [], 0, []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        model = IDKGroupDetector(20, random_state=seed).fit(unequal(rng, 1000))
        new = unequal(rng, 500)
        sizes = np.array([len(part) for part in new])
        fifths = np.array_split(np.argsort(sizes, kind="stable"), 5)
        p_values = model.p_values(new)
        hits.append([(p_values[own] <= 0.1).mean() for own in fifths])
        n_new += len(new) // 5
        correlations.append(spearmanr(model.score_samples(new), sizes)[0])
    n_aside = 100 * len(hits)  # in each class
    noise = math.sqrt(0.1 * 0.9 * (1 / n_new + 1 / n_aside))
    # Fifths of the new groups straddle classes a little: three standard errors and a hundredth.
    assert np.abs(np.mean(hits, axis=0) - 0.1).max() < 3 * noise + 0.01
    assert abs(np.mean(correlations)) < 3 / math.sqrt(500 * len(hits)) + 0.03
