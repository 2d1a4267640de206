"""The live table: a bar for each number, the rate of the last seconds, the latest odd rows first."""

import io

import numpy as np
from rich.console import Console

from isobag.cli.live import LiveTable, sparkline


class Clock:
    """A time that is set."""

    time = 0.0

    def __call__(self):
        return self.time


def shown(table):
    console = Console(file=io.StringIO(), width=100)
    console.print(table)
    return console.file.getvalue()


def test_bars_go_from_the_least_to_the_largest():
    assert sparkline([0, 7, 3.5]) == "▁█▅"
    assert sparkline([2, 2]) == "▁▁"
    assert sparkline([]) == ""
    assert sparkline([0, 1], "_#") == "_#"


def test_the_rate_is_of_the_last_seconds():
    clock = Clock()
    table = LiveTable(clock)
    for second in range(1, 21):
        clock.time = float(second)
        table.add(np.ones(100 if second <= 10 else 10))
    assert abs(table.rows_per_second - 10) < 1
    clock.time = 100.0
    assert table.rows_per_second < 1


def test_each_second_has_one_bar_that_of_its_oddest_row():
    clock = Clock()
    table = LiveTable(clock)
    for time, score in ((0.0, 0.5), (0.1, 1e-6), (0.2, 0.5), (1.1, 0.5), (1.2, np.nan)):
        clock.time = time
        table.add(np.array([score]))
    assert "second: █▁\n" in shown(table)


def test_the_latest_odd_rows_come_first_and_are_counted():
    table = LiveTable(Clock())
    for line in range(1, 31):
        table.find(line, 1e-4, {"tem\x1bp": 1e4})
    text = shown(table)
    assert "0 rows, 30 odd" in text
    assert text.index("30  0.0001") < text.index("29  0.0001")
    assert "20  0.0001" not in text
    assert "\x1b" not in text


def test_a_row_without_a_single_reason_says_so():
    table = LiveTable(Clock())
    table.find(1, 0.001, {})
    assert "no single feature" in shown(table)
