"""Files that are there whole or not at all, whatever happens to the process that writes them."""

import os
import subprocess
import sys

import pytest

from isobag.storage.atomic import remove_leftovers, write_whole, writing

HALF = """
import sys
from isobag.storage.atomic import writing
with writing(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    sys.stdin.read()
"""

pytestmark = pytest.mark.skipif(os.name == "nt", reason="locks of Unix")


def begin(path):
    """A process that has written half of a file and waits."""
    process = subprocess.Popen(
        [sys.executable, "-c", HALF, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "writing\n"
    return process


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(TypeError), writing(path) as file:
        file.write("no bytes")
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["a"]
    write_whole(path, b"new")
    assert path.read_bytes() == b"new" and os.listdir(tmp_path) == ["a"]


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path):
    process = begin(tmp_path / "a")
    process.kill()
    process.communicate()
    assert [name.endswith(".part") for name in os.listdir(tmp_path)] == [True]
    write_whole(tmp_path / "b", b"b")
    assert os.listdir(tmp_path) == ["b"]


def test_what_a_living_process_writes_stays(tmp_path):
    process = begin(tmp_path / "a")
    write_whole(tmp_path / "b", b"b")
    assert len(os.listdir(tmp_path)) == 2
    process.communicate("go on")
    assert (tmp_path / "a").read_bytes() == b"half" and sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_files_of_others_stay(tmp_path):
    for name in (".deadbeef.part", "isobag-1.part", ".isobag-1.parts", "download.part"):
        (tmp_path / name).write_bytes(b"mine")
    (tmp_path / "target").write_bytes(b"linked to")
    (tmp_path / ".isobag-link.part").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / ".isobag-pipe.part")
    remove_leftovers(tmp_path)
    left = set(os.listdir(tmp_path)) - {".isobag-pipe.part"}
    assert left == {
        ".deadbeef.part",
        "isobag-1.part",
        ".isobag-1.parts",
        "download.part",
        "target",
        ".isobag-link.part",
    }


def test_a_folder_that_cannot_be_listed_is_no_trouble(tmp_path, monkeypatch):
    def refuse(folder):
        raise PermissionError

    monkeypatch.setattr(os, "listdir", refuse)
    write_whole(tmp_path / "a", b"a")
    assert (tmp_path / "a").read_bytes() == b"a"


def test_where_it_cannot_be_written_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such folder"):
        write_whole(tmp_path / "no" / "a", b"")
    with pytest.raises(IsADirectoryError, match="this is a folder"):
        write_whole(tmp_path, b"")
