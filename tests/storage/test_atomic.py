"""Files that are there whole or not at all, whatever happens to the process that writes them."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from isobag.storage.atomic import write_whole, writing

HALF = """
import sys
from isobag.storage.atomic import writing
with writing(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    sys.stdin.read()
"""


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(TypeError), writing(path) as file:
        file.write("no bytes")
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["a"]
    write_whole(path, b"new")
    assert path.read_bytes() == b"new" and os.listdir(tmp_path) == ["a"]


def test_what_a_killed_process_left_is_removed_a_day_later(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    process = subprocess.Popen(
        [sys.executable, "-c", HALF, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "writing\n"
    process.kill()
    process.communicate()
    (leftover,) = set(os.listdir(tmp_path)) - {"a"}
    assert path.read_bytes() == b"old"
    write_whole(tmp_path / "b", b"b")
    assert leftover in os.listdir(tmp_path), "somebody may be writing to it"
    os.utime(tmp_path / leftover, (time.time() - 90_000,) * 2)
    write_whole(tmp_path / "b", b"b")
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_files_of_others_stay(tmp_path):
    for name in (".deadbeef.part", "isobag-1.part", ".isobag-1.parts", "download.part"):
        (tmp_path / name).write_bytes(b"mine")
        os.utime(tmp_path / name, (0, 0))
    write_whole(tmp_path / "a", b"a")
    assert len(os.listdir(tmp_path)) == 5


def test_a_folder_that_cannot_be_listed_is_no_trouble(tmp_path, monkeypatch):
    def refuse(*args):
        raise PermissionError

    monkeypatch.setattr(Path, "glob", refuse)
    write_whole(tmp_path / "a", b"a")
    assert (tmp_path / "a").read_bytes() == b"a"


def test_where_it_cannot_be_written_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such folder"):
        write_whole(tmp_path / "no" / "a", b"")
    with pytest.raises(IsADirectoryError, match="this is a folder"):
        write_whole(tmp_path, b"")
