"""``isobag stream``: alarms as they come, lines that are no rows, a state that survives anything."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from isobag.storage.modelfile import load_with_notes

COMMAND = [sys.executable, "-m", "isobag", "stream"]
RNG = np.random.default_rng(0)
ROWS = RNG.normal(20, 1, size=(2500, 2))
ODD = (1203, 1210)
ROWS[ODD, 0] = 1e4


def json_lines(rows=ROWS):
    return "".join(json.dumps({"t": a, "h": b, "name": "x"}) + "\n" for a, b in rows)


def csv_lines(rows=ROWS):
    return "t,h,name\n" + "".join(f"{a},{b},x\n" for a, b in rows)


def run(*args, text=None, **how):
    return subprocess.run(
        [*COMMAND, *args], input=text, capture_output=True, text=True, timeout=300, check=False, **how
    )


@pytest.mark.parametrize("lines", [json_lines, pytest.param(csv_lines, marks=pytest.mark.slow)])
def test_odd_rows_are_printed_with_p_value_and_reason(lines):
    done = run("-", "--window", "1000", "--fdr", "0.2", "--json", text=lines())
    alarms = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert set(ODD) <= {alarm["row"] for alarm in alarms}
    odd = next(alarm for alarm in alarms if alarm["row"] == ODD[0])
    assert odd["p_value"] < 1e-3
    assert next(iter(odd["reason"])) == "t"
    assert odd["line"] == ODD[0] + (2 if lines is csv_lines else 1)


@pytest.mark.slow
def test_a_person_reads_a_line_for_each():
    done = run("-", "--window", "1000", "--fdr", "0.2", text=json_lines())
    assert any(line.startswith("line 1204: p = ") and "t = " in line for line in done.stdout.splitlines())


@pytest.mark.slow
def test_bytes_that_are_no_text_are_counted_and_the_first_is_named():
    lines = csv_lines(ROWS[:20]).replace("x\n", "\xe9\n", 3).encode("latin-1")
    done = subprocess.run([*COMMAND, "-"], input=lines, capture_output=True, timeout=300, check=True)
    message = done.stderr.decode()
    assert message.count("Line ") == 1 and "Line 2: byte 0xE9 " in message
    assert "3 bytes are not valid UTF-8" in message
    text = csv_lines(ROWS[:20]).replace("x\n", "\N{REPLACEMENT CHARACTER}\n").encode()
    for content, *encoding in ((lines, "--encoding", "latin-1"), (text,)):
        done = subprocess.run([*COMMAND, "-", *encoding], input=content, capture_output=True, timeout=300, check=True)
        assert b"not valid" not in done.stderr


def test_lines_that_are_no_rows_are_named_counted_and_left_out():
    text = json_lines(ROWS[:50]) + 'oops\n[1]\n{"t": "warm", "h": 1}\n{"t": 1}\n\n' + json_lines(ROWS[50:60])
    done = run("-", text=text)
    assert done.returncode == 0
    assert "Line 51 is left out: " in done.stderr
    assert "Line 52 is left out: it is no JSON object." in done.stderr
    assert "Line 53 is left out: 't' is 'warm'; need a finite number" in done.stderr
    assert "Line 54 is left out: 'h' is missing." in done.stderr
    assert "4 lines were left out" in done.stderr


@pytest.mark.slow
def test_a_reader_that_leaves_ends_it_quietly():
    with subprocess.Popen(
        [*COMMAND, "-", "--window", "1000", "--fdr", "0.5"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        process.stdout.close()
        process.stdin.write(json_lines())
        process.stdin.close()
        assert "Traceback" not in process.stderr.read()


@pytest.mark.slow
def test_a_file_is_read_on_from_where_the_state_was_written(tmp_path):
    path, part, whole = tmp_path / "rows.csv", tmp_path / "part.isobag", tmp_path / "whole.isobag"
    path.write_text(csv_lines(ROWS[:700]))
    run(str(path), "--window", "500", "--model", str(part))
    path.write_text(csv_lines())
    again = run(str(path), "--model", str(part))
    assert "Going on after 700 rows" in again.stderr
    run(str(path), "--window", "500", "--model", str(whole))
    assert_same_state(part, whole)


def assert_same_state(path, other):
    (state, notes), (other_state, others) = load_with_notes(path), load_with_notes(other)
    assert notes == others
    assert state.n_seen_ == other_state.n_seen_
    assert np.array_equal(state.score_samples(ROWS[:50]), other_state.score_samples(ROWS[:50]))
    assert np.array_equal(state.p_values(ROWS[:50]), other_state.p_values(ROWS[:50]))
    assert state.online_ == other_state.online_


@pytest.mark.slow
def test_killed_at_random_it_goes_on_as_if_nothing_had_happened(tmp_path):
    path, killed, whole = tmp_path / "rows.csv", tmp_path / "killed.isobag", tmp_path / "whole.isobag"
    path.write_text(csv_lines(np.tile(ROWS, (8, 1))))
    draws = random.Random(0)
    args = [str(path), "--window", "500", "-q", "--max-samples", "16", "--save-every", "0", "--model"]
    for _ in range(15):
        with subprocess.Popen([*COMMAND, *args, str(killed)], stdout=subprocess.DEVNULL) as process:
            time.sleep(draws.uniform(1.5, 4))
            os.kill(process.pid, signal.SIGKILL)
    assert run(*args, str(killed)).returncode == 0
    assert run(*args, str(whole)).returncode == 0
    assert_same_state(killed, whole)


def test_a_state_stays_as_it_is_while_known_lines_are_passed_over(tmp_path):
    path, state, pipe = tmp_path / "rows.csv", tmp_path / "state.isobag", tmp_path / "pipe"
    lines = csv_lines(ROWS[:300])
    path.write_text(lines)
    args = "--window", "100", "-q", "--save-every", "0", "--model", str(state)
    assert run(str(path), *args).returncode == 0
    before = state.read_bytes()
    os.mkfifo(pipe)
    with (
        subprocess.Popen([*COMMAND, str(pipe), *args], stderr=subprocess.PIPE) as process,
        open(pipe, "w", encoding="utf-8") as writer,
    ):
        writer.writelines(lines.splitlines(keepends=True)[:100])
        writer.flush()
        time.sleep(3)
        process.terminate()
        process.wait(60)
    assert state.read_bytes() == before
    path.write_text("".join(lines.splitlines(keepends=True)[:100]))  # another file of that name
    refused = run(str(path), *args)
    assert refused.returncode == 2
    assert "has 100 lines, of which" in refused.stderr
    path.write_text(csv_lines(ROWS[1:600]))  # and a longer one
    refused = run(str(path), *args)
    assert refused.returncode == 2 and "another file" in refused.stderr
    assert state.read_bytes() == before


def test_columns_that_are_not_used_are_named():
    first = json.dumps({"t": None, "h": 1.0, "name": "x", "up": True}) + "\n"
    done = run("-", "--window", "100", text=first + json_lines(ROWS[:300]).replace('"name"', '"up": false, "name"'))
    assert done.returncode == 0
    assert "Columns: h, up. Not used, as the first row has no number there: t, name; see --features." in done.stderr
    assert done.stderr.count("'t' is a number, but the first row has none: it is not used.") == 1


def test_identifiers_are_left_out_as_in_detect_unless_they_are_named():
    text = "order_id,t\n" + "".join(f"{i},{i * 7 % 11}\n" for i in range(50))
    done = run("-", text=text)
    assert "Columns: t." in done.stderr and "Left out: order_id (an identifier by its name)." in done.stderr
    assert "Left out" not in run("-", "--features", "order_id,t", text=text).stderr


@pytest.mark.parametrize(
    ("text", "args", "why"),
    [
        (csv_lines(ROWS[:9]), ("--features", "t,zz"), "has no column 'zz'; its columns are t, h, name."),
        (json_lines(ROWS[:9]), ("--features", "t,zz"), "none of 9 lines is a row."),
        ("a\nx\ny\n", (), "none of 2 lines is a row."),
    ],
)
def test_an_input_without_a_single_row_is_an_error(text, args, why):
    done = run("-", "--window", "100", *args, text=text)
    assert done.returncode == 2
    assert why in done.stderr


def test_an_input_without_lines_is_said_to_have_no_rows():
    for text in ("", "a,b\n"):
        done = run("-", text=text)
        assert done.returncode == 0
        assert "Standard input has no rows." in done.stderr


@pytest.mark.parametrize("lines", [json_lines, csv_lines])
def test_a_byte_order_mark_other_delimiters_and_no_header_are_read(lines):
    n = len(ROWS)
    expected = run("-", "--window", "1000", "--json", "--quiet", text=lines()).stdout
    marked = "\N{ZERO WIDTH NO-BREAK SPACE}" + lines()
    assert run("-", "--window", "1000", "--json", "--quiet", text=marked, encoding="utf-8").stdout == expected
    if lines is csv_lines:
        assert run("-", "--window", "1000", "--json", "-q", text=lines().replace(",", ";")).stdout == expected
        plain = "".join(f"{a},{b}\n" for a, b in ROWS)
        done = run("-", "--window", "1000", "--json", text=plain)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        assert "holds numbers only: it is read as data" in done.stderr
        assert [row["row"] for row in rows] == [json.loads(line)["row"] for line in expected.splitlines()]
        assert all(row["line"] == row["row"] + 1 <= n for row in rows)


def test_a_state_refuses_other_options_and_columns_and_reads_on_without_a_header(tmp_path):
    state = str(tmp_path / "state.isobag")
    header, *rows = csv_lines(ROWS[:600]).splitlines(keepends=True)
    how = "--window", "200", "--model", state
    assert run("-", *how, text="".join([header, *rows[:300]])).returncode == 0
    for args, why in (
        (("--window", "300"), "--window 300: "),
        (("--fdr", "0.2"), "--fdr 0.2: "),
        (("--features", "h"), "was begun with t, h"),
    ):
        refused = run("-", *how, *args, text="".join(rows[300:]))
        assert refused.returncode == 2
        assert why in refused.stderr
    assert "has no column 't'" in run("-", *how, text="x,y\n1,2\n").stderr
    assert run("-", "--model", state, text="").returncode == 0
    done = run("-", "--model", state, text="".join(rows[300:]))  # as tail -f gives them
    assert done.returncode == 0, done.stderr
    assert "left out" not in done.stderr
    assert load_with_notes(state)[0].n_seen_ == 600


def test_a_reader_that_leaves_does_not_lose_the_state(tmp_path):
    state, rows = tmp_path / "state.isobag", ROWS.copy()
    rows[1300::40] = 1e4
    with subprocess.Popen(
        [*COMMAND, "-", "--window", "500", "--json", "-q", "--model", str(state)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json_lines(rows))
            process.stdin.close()
        process.wait(120)
    assert load_with_notes(state)[0].n_seen_ > 1300
