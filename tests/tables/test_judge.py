"""What a column is good for."""

import numpy as np
import pytest

from isobag.backends.arrays import FARTHEST
from isobag.tables.judge import (
    DAY_OF_WEEK,
    MOST_CATEGORIES,
    SECONDS,
    TIME_OF_DAY,
    choose_categories,
    choose_time_parts,
    identifier_reason,
    is_named_identifier,
    surprising_texts,
    time_feature_names,
    time_features,
    why_no_categories,
)

DAY = 86400.0


@pytest.mark.parametrize(
    "name", ["id", "ID", "uuid", "user_id", "userId", "customerID", "order-id", "order id", "trip.id", "index"]
)
def test_names_of_identifiers(name):
    assert is_named_identifier(name)


@pytest.mark.parametrize(
    "name", ["paid", "valid", "humid", "GRID", "acid", "liquid", "amount", "idle", "Unpaid", "bid", "key"]
)
def test_names_of_other_things(name):
    assert not is_named_identifier(name)


def test_identifiers_number_the_rows_or_are_called_so():
    assert identifier_reason("id", True, False, 5) == "an identifier by its name"
    assert identifier_reason("n", True, True, 100) == "an identifier: it numbers the rows"
    assert identifier_reason("n", True, True, 5) == ""  # five rows may hold 1 to 5 by chance
    assert identifier_reason("n", True, False, 100) == ""
    assert identifier_reason("id", False, True, 100) == ""  # decimals are measured, whatever they are called


def test_frequent_texts_are_categories_and_the_others_one_bucket():
    assert choose_categories({"b": 50, "a": 50}) == (("a", "b"), False, "")
    counts = {"big": 900, "small": 90, **{f"rare {i}": 1 for i in range(10)}}
    assert choose_categories(counts) == (("big", "small"), True, "")
    assert choose_categories({"big": 998, "small": 2}).texts == ("big", "small")
    many = choose_categories({f"t{i:02d}": 100 + i for i in range(40)})
    assert many.texts == tuple(f"t{i:02d}" for i in range(39, 39 - MOST_CATEGORIES, -1)) and many.has_other


def test_many_texts_are_no_categories():
    assert choose_categories({f"n{i}": 1 for i in range(2000)}).reason == "text, all 2,000 values different"
    actual = choose_categories({f"n{i}": 4 for i in range(2000)})
    assert actual.texts == () and actual.reason == "text with 2,000 different values, none of them in 1 % of the cells"
    assert "more than 2 different" in choose_categories({"a": 500, "b": 500}, has_more=True).reason


def test_texts_of_which_the_next_row_may_bring_a_new_one_are_not_few():
    assert why_no_categories({f"n{i}": 1 for i in range(2000)}) == "text, all 2,000 values different"
    assert why_no_categories({"a": 95, **{f"n{i}": 1 for i in range(5)}}) == ""
    assert "6 of them in one row alone" in why_no_categories({"a": 94, **{f"n{i}": 1 for i in range(6)}})
    assert why_no_categories({f"country {i}": 10 for i in range(200)}) == ""


def test_a_new_text_is_never_seen_where_all_came_back_and_else_odder_than_the_rarest():
    texts, shares, unseen = surprising_texts({"a": 2, "b": 6})
    assert texts == ("b", "a") and shares == (0.75, 0.25) and unseen == FARTHEST
    unseen = surprising_texts({"a": 1, "b": 7})[2]
    assert 9 < unseen < 9.1


def test_times_are_seconds_and_circles():
    assert choose_time_parts(0, 0, False) == (SECONDS,)
    assert choose_time_parts(0, 3600, True) == (SECONDS, TIME_OF_DAY)
    assert choose_time_parts(0, 30 * DAY, False) == (SECONDS, DAY_OF_WEEK)
    assert choose_time_parts(0, 30 * DAY, True) == (SECONDS, TIME_OF_DAY, DAY_OF_WEEK)
    assert time_feature_names("t", SECONDS) == ["t"]
    assert time_feature_names("t", TIME_OF_DAY) == ["t: time of day (sin)", "t: time of day (cos)"]


def test_midnight_is_as_near_to_late_as_to_early():
    late, midnight, early, noon = time_features(np.array([23.5, 24, 24.5, 36]) * 3600, TIME_OF_DAY)
    assert np.linalg.norm(late - midnight) == pytest.approx(np.linalg.norm(early - midnight))
    assert np.linalg.norm(noon - midnight) == pytest.approx(2)


def test_all_of_a_day_is_one_point_of_the_week_and_weeks_begin_on_monday():
    """1970-01-05 was a Monday."""
    monday = 4 * DAY
    points = time_features(np.array([monday, monday + DAY - 1, monday + 7 * DAY, monday - 21 * DAY]), DAY_OF_WEEK)
    assert np.allclose(points, [0, 1])
    days = time_features(monday + np.arange(7) * DAY, DAY_OF_WEEK)
    steps = np.linalg.norm(days - np.roll(days, 1, axis=0), axis=1)
    assert np.allclose(steps, steps[0])
