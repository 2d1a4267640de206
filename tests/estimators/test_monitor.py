"""Entities over time: what a monitor says does not depend on how rows arrive, and says what was planted."""

import numpy as np
import pytest
from sklearn.base import clone

import isobag
from isobag import EntityMonitor

DAY = np.timedelta64(1, "D")
START = np.datetime64("2026-01-05")
N_ENTITIES, N_DAYS, FIRST = 12, 40, 25
SINCE = START + FIRST


class Log:
    """Rows of entities that differ from each other: X, labels, times, and the day of each row."""

    def __init__(self, seed=0, n_entities=N_ENTITIES, n_days=N_DAYS, mean=20):
        rng = np.random.default_rng(seed)
        sizes = rng.poisson(mean, n_entities * n_days)
        which = np.repeat(np.arange(len(sizes)), sizes)
        entity, self.day = which // n_days, which % n_days
        self.X = rng.normal(size=(len(which), 3)) + np.column_stack([entity % 4, entity % 3, 0 * entity])
        self.labels = np.array([f"shop {one}" for one in entity])
        micros = rng.integers(0, 86_400_000_000, len(which)).astype("timedelta64[us]")
        self.times = (START + self.day).astype("datetime64[us]") + micros

    def of(self, entity, day):
        return (self.labels == f"shop {entity}") & (self.day == day)

    def without(self, rows):
        part = object.__new__(Log)
        for name, values in vars(self).items():
            setattr(part, name, values[~rows])
        return part

    def update(self, monitor, rows=slice(None), **options):
        return monitor.update(self.X[rows], self.labels[rows], self.times[rows], **options)


def monitor(**options):
    return EntityMonitor(random_state=0, **options)


def same_lines(one, other):
    for name, values in one.columns().items():
        np.testing.assert_array_equal(values, getattr(other, name), err_msg=name)


def same_state(one, other, rounded=()):
    assert one.entities_.tolist() == other.entities_.tolist()
    for a, b in zip(one.state.periods, other.state.periods, strict=True):
        for name in ("number", "entities", "sizes", "ages", "distance", "peers", "volume", "status", "digests"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
        for name in ("means", "shift", "past", "first"):
            tolerance = {"rtol": 1e-4, "atol": 1e-4} if name in rounded else {"rtol": 0}
            np.testing.assert_allclose(getattr(a, name), getattr(b, name), err_msg=name, **tolerance)
        np.testing.assert_array_equal(a.bags.columns, b.bags.columns)


@pytest.fixture(scope="module")
def log():
    return Log()


@pytest.fixture(scope="module")
def whole(log):
    own = monitor()
    return own, log.update(own, since=SINCE)


def day_by_day(log, own, tmp_path=None):
    log.update(own, log.day < FIRST, since=SINCE)
    for day in range(FIRST, N_DAYS):
        if tmp_path is not None:
            isobag.save(own, tmp_path / "state.isobag")
            own = isobag.load(tmp_path / "state.isobag")
        yield own, log.update(own, log.day == day)


def test_all_at_once_is_day_by_day_with_files_between(log, whole, tmp_path):
    steps = list(day_by_day(log, monitor(), tmp_path))
    for name, values in whole[1].columns().items():
        joined = np.concatenate([getattr(lines, name) for _, lines in steps])
        np.testing.assert_array_equal(values, joined, err_msg=name)
    same_state(whole[0], steps[-1][0])


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_order_of_rows_and_backend_change_nothing(log, whole, backend):
    rows = np.random.default_rng(1).permutation(len(log.X))
    own = monitor(backend=backend)
    same_lines(log.update(own, rows, since=SINCE), whole[1])
    same_state(own, whole[0])


def test_the_same_rows_again_change_nothing(log):
    own = monitor()
    log.update(own)
    before = own.state
    again = log.update(own)
    assert own.state.periods == before.periods and len(again) == 0
    assert again.notes == (f"{len(log.X):,} rows came before and were left out.",)


def test_scoring_alone_changes_nothing(log):
    own, learning = monitor(), monitor()
    for one in (own, learning):
        log.update(one, log.day < 39)
    before = own.state
    same_lines(log.update(own, log.day == 39, learn=False), log.update(learning, log.day == 39))
    assert own.state is before and len(own.periods_) == 39


def test_late_rows_are_as_if_they_had_come_in_time(log, whole):
    own = monitor()
    late = (log.day == 36) & (np.arange(len(log.X)) % 3 == 0)
    log.update(own, (log.day <= 38) & ~late, since=SINCE)
    again = log.update(own, late, since=SINCE)
    assert np.unique(again.period).tolist() == np.unique(whole[1].period)[11:14].tolist()
    log.update(own, log.day == 39)
    same_state(own, whole[0], rounded=("means", "shift", "past", "first"))  # means of parts are added up


def test_rows_that_come_too_late_are_left_out_and_counted(log):
    own = monitor(late=1)
    late = (log.day == 36) & (np.arange(len(log.X)) % 3 == 0)
    log.update(own, (log.day <= 38) & ~late)
    before = own.state
    lines = log.update(own, late)
    assert len(lines) == 0 and own.state.periods == before.periods
    assert lines.notes[0].startswith(f"{late.sum()} rows came too late, for periods more than 1 before the newest")


def test_equal_rows_count_as_often_as_one_update_brought_them():
    own = monitor()
    X, times = np.arange(6.0)[:, None], np.full(6, START)
    own.update(X, ["a"] * 6, times)
    own.update(np.array([[5.0], [5.0], [1.0]]), ["a"] * 3, times[:3])
    assert own.state.periods[0].sizes.tolist() == [7]
    own.update(np.array([[5.0], [5.0]]), ["a"] * 2, times[:2])
    assert own.state.periods[0].sizes.tolist() == [7]


def regular(n_rows, n_days, silent, n_entities=20):
    """Rows of entities that all have as many rows every day, but for silent ones: X, entities and days."""
    which = np.repeat(np.arange(n_entities * n_days), n_rows)
    entity, day = np.divmod(which, n_days)
    spoken = ~np.logical_or.reduce([(entity == one) & (day == when) for one, when in silent])
    X = np.random.default_rng(0).normal(size=(len(which), 2))
    return X[spoken], entity[spoken], day[spoken]


@pytest.mark.parametrize(("n_rows", "n_days"), [(1, 40), (5, 40), (30, 15), (30, 40)])
def test_one_silent_entity_among_those_that_always_speak_is_found(n_rows, n_days):
    X, entity, day = regular(n_rows, n_days, [(7, n_days - 1)])
    lines = monitor().update(X, entity, START + day)
    odd = lines.flagged
    assert lines.entity[odd].tolist() == [7] and lines.kind[odd].tolist() == ["silent"]
    assert lines.period[odd].tolist() == [np.datetime64(START + n_days - 1, "us")]
    assert lines.reasons[odd].tolist() == [f"silent, expected {n_rows} row{'s' if n_rows > 1 else ''}"]


def test_a_dismissed_silence_excuses_later_ones_of_its_entity_and_of_no_other():
    X, entity, day = regular(30, 48, [(7, 40), (7, 43), (9, 46)])
    own = monitor()
    known = day <= 40
    lines = own.update(X[known], entity[known], START + day[known])
    assert lines.entity[lines.flagged].tolist() == [7]
    own.dismiss(7, START + 40)
    lines = own.update(X[~known], entity[~known], START + day[~known])
    assert lines.entity[lines.flagged].tolist() == [9]


def test_a_gap_of_all_is_no_alarm_and_is_said(log):
    kept = log.without((log.day == 30) | (log.day == 31))
    lines = kept.update(monitor(), since=SINCE)
    assert lines.notes == ("no entity has rows from 2026-02-04 to 2026-02-05: a gap, no alarm.",)
    assert not (lines.kind == "silent").any()


def test_an_entity_that_falls_silent_is_flagged_until_dismissed(log):
    kept = log.without(np.isin(log.day, [35, 36, 37]) & (log.labels == "shop 3"))
    own = monitor()
    lines = kept.update(own, kept.day < 38, since=SINCE)
    silent = lines.flagged & (lines.entity == "shop 3")
    assert lines.kind[silent].tolist() == ["silent"] * 3 and lines.n_points[silent].tolist() == [0] * 3
    assert lines.reasons[silent][0].startswith("silent, expected ")
    assert lines.reasons[silent][2].endswith("odd since 2026-02-09")
    assert (lines.odd_since[silent] == START + 35).all()
    assert abs(lines.expected[silent] - 20).max() < 5
    dismissed = clone(own)
    dismissed.__dict__.update(vars(own))
    for day in (35, 36, 37):
        dismissed.dismiss("shop 3", START + day)
    after = [kept.update(one, kept.day == 38) for one in (own, dismissed)]
    level = [float(lines.expected[lines.entity == "shop 3"][0]) for lines in after]
    assert level[1] < level[0] - 0.3


def test_confirmed_lines_stay_out_of_the_past_and_dismissed_ones_join(log):
    odd = log.of(5, 36)
    X = log.X.copy()
    X[odd] += 8
    X[log.of(5, 37)] += 8
    kept = log.without(log.day > 37)
    kept.X = X[log.day <= 37]
    own = monitor()
    lines = kept.update(own, kept.day < 37, since=SINCE)
    assert lines.entity[lines.flagged].tolist() == ["shop 5"]
    assert lines.kind[lines.flagged][0].startswith("unlike its past")
    assert "x0 8.96, usually 0.776 to 1.3" in lines.reasons[lines.flagged][0]
    p_values = []
    for word in ("confirm", "dismiss"):
        getattr(own, word)("shop 5", START + 36)
        again = kept.update(own, kept.day == 37, learn=False)
        p_values.append(float(again.p_past[again.entity == "shop 5"][0]))
    assert p_values[0] < 1e-4 < p_values[1]


def test_words_need_a_line(log, whole):
    with pytest.raises(ValueError, match="no line of the entity 'shop 99'"):
        whole[0].confirm("shop 99", START)
    with pytest.raises(ValueError, match="no line of the entity 'shop 1' in the period of 2020"):
        whole[0].dismiss("shop 1", np.datetime64("2020-01-01"))


def test_a_new_entity_is_called_so_and_compared_with_its_peers(log):
    new = (log.labels == "shop 7") & (log.day < 33)
    lines = log.without(new).update(monitor(), since=SINCE)
    first = (lines.entity == "shop 7") & (lines.period == START + 33)
    assert lines.kind[first].tolist() == ["new entity"]
    assert np.isnan(lines.p_past[first]).all() and np.isnan(lines.p_volume[first]).all()
    assert (lines.p_peers[first] > 0).all()
    assert not ((lines.entity == "shop 7") & (lines.period < START + 33)).any()


def test_everyone_at_once_is_one_sentence_and_not_many_alarms():
    log = Log(n_entities=40)
    log.X[log.day == 36] += 4
    log.X[log.of(9, 36)] -= 20
    lines = log.update(monitor(), log.day <= 36, since=SINCE)
    (change,) = lines.common_changes
    assert str(change).endswith(" of 40 entities changed on 2026-02-10") and change.n_changed > 35
    assert lines.flagged[lines.period == START + 36].sum() <= 2


def test_what_left_the_window_has_no_say(log):
    """But for scores, which the periods that are left have from their own time."""
    own = monitor(keep=10)
    log.update(own, log.day < 39)
    assert len(own.periods_) == 10
    fresh = monitor(keep=10)
    fresh.update(log.X[log.day < 39], log.labels[log.day < 39], log.times[log.day < 39])
    recent = fresh.state.before(0).__class__(
        fresh.state.views, fresh.state.between, fresh.state.peers_between, fresh.state.cohorts,
        fresh.state.periods, None,
    )  # fmt: skip
    fresh.model_ = recent
    one, other = log.update(own, log.day == 39), log.update(fresh, log.day == 39)
    np.testing.assert_array_equal(one.expected, other.expected)
    np.testing.assert_array_equal(own.state.periods[-1].distance, fresh.state.periods[-1].distance)
    assert all((one.ages < 56).all() for one in own.state.firsts)


def test_keep_may_be_a_length_of_time(log):
    own = monitor(keep="1w")
    log.update(own)
    assert own.periods_.tolist() == (START + np.arange(33, 40)).astype("datetime64[us]").tolist()


def test_cohorts_are_the_peers(log):
    lines = [
        monitor().update(log.X, log.labels, log.times, since=SINCE, peers=peers)
        for peers in (None, np.full(len(log.X), "all"), log.labels)
    ]
    same_lines(lines[0], lines[1])
    assert np.isnan(lines[2].p_peers).all() and not np.isnan(lines[0].p_peers).any()


@pytest.mark.slow
def test_p_values_of_ordinary_lines_are_valid_and_few_are_flagged():
    p_values, flagged = [], []
    for seed in range(4):
        log = Log(seed, n_entities=60, n_days=60, mean=15)
        lines = log.update(monitor(), since=START + 30)
        p_values.append(lines.p_value)
        flagged.append(lines.flagged)
    p = np.concatenate(p_values)
    assert len(p) >= 7000
    for level, most in ((0.1, 0.12), (0.01, 0.016), (0.001, 0.003)):
        assert np.mean(p <= level) <= most
    assert np.mean(p <= 0.1) >= 0.05
    assert np.concatenate(flagged).mean() <= 1e-3


def test_labels_of_several_kinds_and_ties_of_first_periods(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.empty(60, dtype=object)
    labels[:] = ["a", 3, ("b", 1)] * 20
    own = monitor()
    own.update(rng.normal(size=(60, 2)), labels, START + np.arange(60) // 12)
    isobag.save(own, tmp_path / "state.isobag")
    assert isobag.load(tmp_path / "state.isobag").entities_.tolist() == [3, "a", ("b", 1)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every": "1y"}, "every='1y'; need a whole number"),
        ({"time_zone": "Mars/Base"}, "time_zone='Mars/Base'; need the name of a time zone"),
        ({"keep": 1}, "keep=1; need None, an integer of 2 or more"),
        ({"late": -1}, "late=-1; need an integer of 0 or more"),
        ({"fdr": 0}, "fdr=0; need a share"),
        ({"n_estimators": 4000}, "n_estimators=4000; need 2048 or fewer"),
    ],
)
def test_parameters_are_checked(log, options, message):
    with pytest.raises(ValueError, match=message):
        log.update(EntityMonitor(**options))


def test_rows_labels_and_times_must_be_as_many():
    with pytest.raises(ValueError, match="times has 1 entries and X has 2 rows"):
        monitor().update(np.zeros((2, 1)), ["a", "b"], [START])
    with pytest.raises(ValueError, match="X has 1 row; need at least 2"):
        monitor().update(np.zeros((1, 1)), ["a"], np.array([START]))


def test_dates_are_those_of_the_zone(log):
    own = monitor(time_zone="America/New_York")
    lines = log.update(own, since=np.datetime64("2026-02-10"))
    assert str(lines.period[0]) == "2026-02-10T00:00:00.000000"
    assert lines.start[0] == np.datetime64("2026-02-10T05:00", "us").astype(np.int64)
    own.confirm("shop 1", np.datetime64("2026-02-10"))
    (period,) = (one for one in own.state.periods if one.number == own.calendar.number_at(lines.period[0]))
    assert period.status[period.entities == own.entities_.tolist().index("shop 1")].tolist() == [2]


def test_many_periods_of_few_rows_with_silent_ones_are_judged():
    log = Log(n_entities=4, n_days=120, mean=1)
    lines = log.update(monitor())
    assert (lines.n_points == 0).any() and not lines.flagged.all()
    assert len(EntityMonitor(every="1w", random_state=0).update(log.X, log.labels, log.times)) > 0


@pytest.mark.parametrize("most", [1, 50])
def test_rows_counted_part_by_part_are_the_same_bags(log, whole, monkeypatch, most):
    monkeypatch.setattr("isobag.models.contents._COUNTED_ROWS", most)
    rows = log.day < FIRST + 2
    own = monitor()
    log.update(own, rows, since=SINCE)
    for a, b in zip(own.state.periods, whole[0].state.periods, strict=False):
        for name in ("starts", "columns", "counts"):
            np.testing.assert_array_equal(getattr(a.bags, name), getattr(b.bags, name))
        np.testing.assert_array_equal(a.self_dots, b.self_dots)


def test_labels_of_whole_numbers_are_numbered_as_others_are(log):
    numbers = np.array([int(one.removeprefix("shop ")) for one in log.labels])
    one, other = monitor(), monitor()
    rows = log.day < 10
    one.update(log.X[rows], numbers[rows], log.times[rows])
    other.update(log.X[rows], numbers[rows].astype(object), log.times[rows])
    same_state(one, other)
