"""Sets from files: folders, downloads that must match their SHA-256, and errors that say where a set comes from."""

import hashlib
import http.server
import io
import threading
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from isobag import datasets
from isobag.datasets import ADBENCH_SETS, GROUP_SETS, POINT_SETS, DatasetNotAvailableError, files, load, load_groups


@pytest.fixture(autouse=True)
def nowhere_else(monkeypatch, tmp_path):
    """Neither a folder nor a cache of the user, and no host but our own."""
    monkeypatch.delenv("ISOBAG_DATA", raising=False)
    monkeypatch.setenv("ISOBAG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(files, "ADBENCH_URL", (tmp_path / "origin").as_uri() + "/")


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


SMALL = npz(X=np.arange(6, dtype=np.int16).reshape(3, 2), y=np.array([0, 1, 0], dtype=np.int8))


@pytest.fixture
def origin(tmp_path, monkeypatch):
    """An origin with one ADBench file, smtp, whose SHA-256 is pinned."""
    (tmp_path / "origin").mkdir()
    (tmp_path / "origin" / "34_smtp.npz").write_bytes(SMALL)
    monkeypatch.setitem(files.ADBENCH_SHA256, "34_smtp", hashlib.sha256(SMALL).hexdigest())
    return tmp_path / "origin" / "34_smtp.npz"


def put(folder, name, content=SMALL):
    file = folder / f"{name}.npz"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def cached(tmp_path):
    return list((tmp_path / "cache").iterdir()) if (tmp_path / "cache").exists() else []


@pytest.mark.parametrize("name", ["point/mine", "point/speech", "adbench/2_annthyroid"])
def test_a_set_is_read_from_the_folder_given_or_named_by_the_environment(tmp_path, monkeypatch, name):
    put(tmp_path / "data", name)
    X, y = load(name.split("/")[1], folder=tmp_path / "data")
    assert X.dtype == np.float64
    assert_array_equal(X, [[0, 1], [2, 3], [4, 5]])
    assert_array_equal(y, [0, 1, 0])
    monkeypatch.setenv("ISOBAG_DATA", str(tmp_path / "data"))
    assert_array_equal(load(name.split("/")[1]).X, X)


def test_a_set_of_the_paper_that_is_an_adbench_file_is_read_from_it(tmp_path):
    put(tmp_path / "data", "adbench/10_cover")
    assert_array_equal(load("ForestCover", folder=tmp_path / "data").y, [0, 1, 0])


def test_what_the_folder_lacks_is_downloaded_once(tmp_path, origin):
    put(tmp_path / "data", "point/other")
    assert_array_equal(load("smtp", folder=tmp_path / "data").y, [0, 1, 0])
    origin.unlink()
    assert_array_equal(load("34_smtp").y, [0, 1, 0])
    assert [file.name.split("-")[1] for file in cached(tmp_path)] == ["34_smtp.npz"]


class CutsOff(http.server.BaseHTTPRequestHandler):
    """Promises the whole file and hangs up halfway."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(SMALL)))
        self.end_headers()
        self.wfile.write(SMALL[: len(SMALL) // 2])

    def log_message(self, *args):
        pass


@pytest.fixture
def host(monkeypatch):
    server = http.server.HTTPServer(("127.0.0.1", 0), CutsOff)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_download_that_is_changed_cut_off_or_out_of_reach_is_refused_and_not_kept(
    tmp_path, origin, host, monkeypatch
):
    origin.write_bytes(SMALL + b"x")
    with pytest.raises(DatasetNotAvailableError, match=rf"\b{len(SMALL) + 1} bytes"):
        load("smtp")
    origin.unlink()
    with pytest.raises(DatasetNotAvailableError, match=r"34_smtp.npz.*ISOBAG_DATA"):
        load("smtp")
    monkeypatch.setattr(files, "ADBENCH_URL", host)
    with pytest.raises(DatasetNotAvailableError, match=rf"\b{len(SMALL) // 2} bytes"):
        load("smtp")
    assert cached(tmp_path) == []


def test_what_is_not_there_is_named_with_where_it_comes_from(tmp_path):
    with pytest.raises(DatasetNotAvailableError, match=r"speech.*ISOBAG_DATA.*ODDS"):
        load("speech")
    with pytest.raises(DatasetNotAvailableError, match=r"group/covtype.npz.*UCI Covertype"):
        load_groups("covtype", folder=tmp_path)
    with pytest.raises(DatasetNotAvailableError, match=r"name='htp'.* speech, .* http, .*2_annthyroid"):
        load("htp")
    with pytest.raises(FileNotFoundError, match="missing"):
        load("smtp", folder=tmp_path / "missing")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.eye(2)}, "no array 'y'"),
        ({"X": np.eye(2), "y": np.zeros(3)}, "2 rows and 3 labels"),
        ({"X": np.eye(2), "y": np.array([0, 2])}, "labels other than 0 and 1"),
    ],
)
def test_a_file_that_is_no_set_is_an_error(tmp_path, arrays, message):
    put(tmp_path, "point/odd", npz(**arrays))
    with pytest.raises(ValueError, match=message):
        load("odd", folder=tmp_path)


def test_groups_are_read_with_one_label_each(tmp_path):
    put(tmp_path, "group/mine", npz(X=np.eye(3), group=np.array([1, 0, 1]), y=np.array([1, 0])))
    X, groups, y = load_groups("mine", folder=tmp_path)
    assert X.tolist() == np.eye(3)[[1, 0, 2]].tolist()
    assert groups.tolist() == [0, 1, 1]
    assert y.tolist() == [1, 0]
    put(tmp_path, "group/odd", npz(X=np.eye(3), group=np.array([0, 0, 2]), y=np.array([1, 0])))
    with pytest.raises(ValueError, match="do not fit"):
        load_groups("odd", folder=tmp_path)


def test_synthetic_group_sets_load_by_name():
    assert len(load_groups("Gaussian100").y) == 3000
    assert set(files.SYNTHETIC_GROUP_SETS) == {"Gaussian100", "Gaussian1K", "MixGaussian1K"}


def test_every_set_of_the_two_tables_is_known():
    assert (len(POINT_SETS), len(GROUP_SETS) + len(files.SYNTHETIC_GROUP_SETS), len(ADBENCH_SETS)) == (14, 11, 30)
    assert all(one.adbench in (None, *ADBENCH_SETS) for one in POINT_SETS.values())


SHARED = Path(__file__).parents[3] / "shared" / "data"


@pytest.mark.skipif(not (SHARED / "adbench").is_dir(), reason="needs the real files")
def test_the_pinned_hashes_are_those_of_the_published_files():
    for name, sha256 in datasets.registry.ADBENCH_SHA256.items():
        assert hashlib.sha256((SHARED / "adbench" / f"{name}.npz").read_bytes()).hexdigest() == sha256
