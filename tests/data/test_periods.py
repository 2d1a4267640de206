"""Times as periods: calendar days of a zone, weeks from Monday, sessions; errors for what is no length of time."""

import numpy as np
import pytest

from isobag.data.periods import Calendar, number_sessions

HOUR = 3_600_000_000


def micros(*texts):
    return np.array(texts, dtype="datetime64[us]").view(np.int64)


@pytest.mark.parametrize("every", ["15m", "1h", "6h", "1d", "1w", "90s", "2d"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin", "Asia/Kolkata", "America/Sao_Paulo"])
def test_a_start_is_the_first_time_of_its_period(every, zone):
    calendar = Calendar(every, zone)
    times = micros("1969-07-20T20:17", "2018-11-04T02:30", "2026-03-29T00:59:59", "2026-10-25T01:30")
    numbers = calendar.numbers(times)
    starts = calendar.starts(numbers)
    assert np.array_equal(calendar.numbers(starts), numbers)
    assert np.array_equal(calendar.numbers(starts - 1), numbers - 1)
    assert (starts <= times).all() and (times < calendar.starts(numbers + 1)).all()


def test_days_of_a_clock_change_have_23_and_25_hours():
    calendar = Calendar("1d", "Europe/Berlin")
    for date, hours in (("2026-03-29T12:00", 23), ("2026-10-25T12:00", 25), ("2026-06-01T12:00", 24)):
        number = calendar.numbers(micros(date))
        assert (calendar.starts(number + 1) - calendar.starts(number))[0] == hours * HOUR


def test_hours_that_come_twice_are_two_periods():
    calendar = Calendar("1h", "Europe/Berlin")
    numbers = calendar.numbers(micros("2026-10-25T00:30", "2026-10-25T01:30"))  # 2:30 by the clock, both times
    assert numbers[1] == numbers[0] + 1
    assert np.array_equal(calendar.dates(numbers)[:1], calendar.dates(numbers)[1:])


def test_weeks_start_on_monday_of_the_zone():
    dates = Calendar("1w", "America/New_York").dates(
        Calendar("1w", "America/New_York").numbers(micros("2026-03-02T03:00", "2026-03-02T06:00"))
    )
    assert (
        dates.astype("datetime64[m]").tolist()
        == np.array(["2026-02-23T00:00", "2026-03-02T00:00"], dtype="datetime64[m]").tolist()
    )


def test_phases_are_places_in_the_week_and_in_the_day():
    days = Calendar("1d")
    monday = days.numbers(micros("2026-03-02"))
    assert [phase.tolist() for phase in days.phases(monday + np.arange(8))] == [[0, 1, 2, 3, 4, 5, 6, 0]]
    hours = Calendar("1h", "Europe/Berlin")
    week, day = hours.phases(hours.numbers(micros("2026-03-02T07:30")))
    assert (week.tolist(), day.tolist()) == ([8], [8])
    assert Calendar("1w").phases(np.array([3])) == []


@pytest.mark.parametrize("every", ["", "1", "d", "0d", "1.5h", "1y", "-1d", "1 d", 1, None])
def test_what_is_no_length_is_refused(every):
    with pytest.raises(ValueError, match="need a whole number and s, m, h, d or w"):
        Calendar(every).numbers(micros("2026-01-01"))


@pytest.mark.parametrize("zone", ["Nowhere/Town", "../etc", "", 3])
def test_unknown_time_zones_are_refused(zone):
    with pytest.raises(ValueError, match="need the name of a time zone"):
        Calendar("1d", zone).numbers(micros("2026-01-01"))


def test_a_longer_pause_ends_a_session_and_an_equal_one_does_not():
    minutes = np.array([0, 30, 61, 10, 500])
    ids = np.array([0, 0, 0, 1, 1])
    order = np.array([4, 2, 0, 3, 1])
    sessions = number_sessions(ids[order], minutes[order] * 60_000_000, "30m")
    back = np.empty(5, dtype=int)
    back[order] = sessions
    assert back.tolist() == [0, 0, 1, 2, 3]
