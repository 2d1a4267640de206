"""A command as a process: signals, closed and narrow streams, what it loads, how soon it starts."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from commands import finish, start

ESCAPE = "\x1b"
C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals and streams of Unix")


def test_debug_shows_where_an_error_comes_from(tmp_path):
    code, out, err = finish(start("detect", tmp_path / "none.csv", "--debug"))
    assert code == 2 and out == "" and "Traceback" in err and "No file matches" in err


def test_piped_json_is_json_and_nothing_else(csv):
    code, out, err = finish(start("detect", csv, "--json", "-t", "10", "--out", csv.parent / "o.csv"))
    assert code == 0 and err == "" and len(json.loads(out)["top"]) == 10


def test_piped_tables_have_no_escape_codes_and_no_progress(csv):
    code, out, err = finish(start("detect", csv, "--by", "account", "-t", "10", "--top", "2"))
    assert code == 0
    assert ESCAPE not in out + err and "\r" not in out + err
    assert len(out.splitlines()) == 3 and out.startswith("account") and max(map(len, out.splitlines())) <= 100
    assert "of 30 groups flagged" in err.splitlines()[0]


SLOW_WRITER = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # nohup and shells in the background have them ignored
signal.signal(signal.SIGHUP, signal.SIG_DFL)
import isobag.storage.files as files
class Slow:
    def __init__(self, file, schema):
        self.file = file
    def write_table(self, table):
        self.file.write(b"half")
        self.file.flush()
        print("writing", flush=True)
        time.sleep(60)
files._WRITERS[".csv"] = Slow
from isobag.cli import main
sys.argv = ["isobag", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize(
    "sent",
    [
        signal.SIGINT,
        signal.SIGKILL,
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, marks=pytest.mark.slow),
    ],
)
def test_a_stopped_command_leaves_nothing_behind_or_the_next_one_clears_up(csv, tmp_path, sent):
    out = tmp_path / "scores.csv"
    command = [sys.executable, "-c", SLOW_WRITER, "detect", csv, "-t", "5", "--out", out]
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "writing\n"
    time.sleep(0.1)
    process.send_signal(sent)
    _, err = process.communicate(timeout=600)
    assert not out.exists()
    if sent == signal.SIGKILL:
        (leftover,) = set(os.listdir(tmp_path)) - {"cards.csv"}
        os.utime(tmp_path / leftover, (0, 0))  # what is older than a day nobody writes any more
        assert finish(start("detect", csv, "-t", "5", "--quiet", "--out", tmp_path / "o.csv"))[0] == 0
        assert sorted(os.listdir(tmp_path)) == ["cards.csv", "o.csv"]
    else:
        assert process.returncode == 128 + sent
        assert err.strip() == "Stopped; no file is left half-written."
        assert sorted(os.listdir(tmp_path)) == ["cards.csv"]


@pytest.mark.slow
def test_whoever_stops_reading_ends_the_command_quietly(csv):
    for args in (("--out", "-"), ("--json", "--top", "5000"), ("--top", "5000")):
        process = start("detect", csv, "-t", "5", "--quiet", *args)
        process.stdout.close()
        process.stdout = None
        _, _, err = finish(process)
        assert err == "" and process.returncode == 2


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["1>&-", "2>&-", "1>&- 2>&-", "0<&-"])
def test_closed_streams_are_no_trouble(csv, closed, tmp_path):
    command = f"exec {sys.executable} -m isobag detect {csv} -t 5 --out {tmp_path / 'o.csv'} {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0 and "Traceback" not in done.stderr + done.stdout
    assert (tmp_path / "o.csv").stat().st_size


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", ["", pytest.param("1", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "args",
    [(), pytest.param(("--json",), marks=pytest.mark.slow), pytest.param(("--out", "-"), marks=pytest.mark.slow)],
)
def test_an_output_that_is_full_is_named_once(csv, args, unbuffered):
    with open("/dev/full", "wb") as full:
        process = start("detect", csv, "-t", "5", "--quiet", *args, stdout=full, env={"PYTHONUNBUFFERED": unbuffered})
        code, _, err = finish(process)
    assert (code, err) == (2, "Error: standard output: No space left on device.\n")


@pytest.mark.slow
@pytest.mark.parametrize("args", [(), ("--json",), ("--features", "nothing"), ("--out", "-")])
def test_labels_of_any_language_in_a_locale_of_few_characters(tmp_path, args):
    path = tmp_path / "größe 漢字.csv"
    rows = "".join(f"{i % 5},{i % 3},ключ{i}\n" for i in range(30))
    path.write_text(f"größe,b,名前\n{rows}", "utf-8")
    command = ("detect", path, "--id-column", "b", *args, "-t", "5")
    code, out, err = finish(start(*command, env=C_LOCALE))
    assert "Traceback" not in err and "Unicode" not in err
    if "--features" in args:
        assert code == 2 and len(err.splitlines()) == 1
    else:
        assert code == 0
    if "--json" in args:
        assert json.loads(out)["features"] == ["größe"]
    elif args == ():
        assert "größe" in out or "gr\\xf6\\xdfe" in out


def test_help_loads_nothing_heavy():
    code = (
        "import sys, isobag.cli.app;"
        "print([name for name in ('numpy', 'sklearn', 'duckdb', 'pyarrow', 'rich', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_command_leaves_the_modules_of_its_process_alone(csv):
    code = f"""
import sys
from isobag.cli.app import app
finders = list(sys.meta_path)
try:
    app(["detect", {str(csv)!r}, "-t", "5", "--quiet"], prog_name="isobag")
except SystemExit:
    pass
loaded = [name for name in ("duckdb", "rich", "jinja2") if name in sys.modules]
import scipy.stats, types, pandas
is_real = type(scipy.stats) is types.ModuleType
print(loaded, sys.meta_path[:len(finders)] == finders, is_real, pandas.DataFrame([1]).shape)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[] True True (1, 1)"


@pytest.mark.slow
def test_ten_rows_take_little_more_than_loading(tmp_path):
    """Time of the processor, the least of three, compiled code being there: no more than a few seconds."""
    (tmp_path / "ten.csv").write_text("a,b\n" + "".join(f"{i},{i * i % 7}\n" for i in range(10)))
    command = [sys.executable, "-m", "isobag", "detect", str(tmp_path / "ten.csv"), "--quiet"]
    code = "import os, subprocess; "
    code += f"subprocess.run({command!r}, capture_output=True, check=True); print(sum(os.times()[2:4]))"
    seconds = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(4)
    ]
    assert min(seconds) < 6.0  # 1.2 on a quiet machine; far more would be another library loaded
