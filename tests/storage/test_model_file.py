"""Model files: what is loaded scores as what was saved, and a bad file is refused and does nothing."""

import copy
import datetime
import errno
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy.sparse import issparse
from sklearn.ensemble import IsolationForest
from sklearn.exceptions import NotFittedError

import isobag
from isobag import IDKGroupDetector, IDKPointDetector, IsolationDistributionalKernel, IsolationKernel, ModelFileError
from isobag.partitionings import MECHANISMS
from isobag.storage.modelfile import container

KEPT = Path(__file__).parents[1] / "model_files"
RNG = np.random.default_rng(7)
POINTS = RNG.normal(size=(60, 3))
LABELS = np.repeat([f"g{k}" for k in range(12)], 5)


def small(cls, **params):
    return cls(n_estimators=5, random_state=3, backend="numpy", **params)


def models():
    """A fitted model of every class and of every way in which their fitted attributes differ."""
    yield small(IDKPointDetector).fit(pd.DataFrame(POINTS, columns=["a", "b", "<ü>"])), {}
    yield small(IDKPointDetector, max_samples=4, method="norm", calibrate=False, contamination=0.1).fit(POINTS), {}
    yield small(IDKPointDetector, mechanism="voronoi", scaling=None, n_jobs=np.int64(2)).fit(POINTS), {}
    yield small(IDKGroupDetector).fit(POINTS, groups=LABELS), {"groups": LABELS}
    odd = {"max_samples": 4, "group_max_samples": 3, "count_outside": np.True_, "scaling": "robust"}
    yield small(IDKGroupDetector, **odd).fit(POINTS, groups=LABELS), {"groups": LABELS}
    yield small(IsolationKernel, max_samples=4).fit(POINTS), {}
    yield small(IsolationDistributionalKernel, max_samples=4, mechanism="voronoi", rule="smallest").fit(POINTS), {}
    for mechanism in MECHANISMS:
        yield small(IDKPointDetector, mechanism=mechanism).fit(POINTS), {}
        two = {"point_mechanism": mechanism, "group_mechanism": mechanism, "calibrate": False}
        yield small(IDKGroupDetector, **two).fit(POINTS, groups=LABELS), {"groups": LABELS}
        yield small(IsolationKernel, mechanism=mechanism).fit(POINTS), {}
        yield small(IsolationDistributionalKernel, mechanism=mechanism).fit(POINTS), {}


N_MODELS = 7 + 4 * len(MECHANISMS)


def fields_of(value):
    """All that a fitted estimator has learned, as one flat list of arrays and simple values."""
    if issparse(value):
        return [value.toarray()]
    if is_dataclass(value):
        return [one for field in fields(value) for one in fields_of(getattr(value, field.name))]
    if isinstance(value, tuple | list):
        return [one for part in value for one in fields_of(part)]
    return [value]


def said(model, X, **how):
    """All that a model says of some data."""
    if isinstance(model, IsolationKernel):
        return [model.transform(X).toarray(), model.assign_cells(X)]
    if isinstance(model, IsolationDistributionalKernel):
        return [model.embed(X).toarray()]
    X = X if not hasattr(model, "feature_names_in_") else pd.DataFrame(X, columns=model.feature_names_in_)
    answers = [model.score_samples(X, **how), model.predict(X, **how), np.array(model.offset_)]
    if model.model_.calibration is not None:
        answers.append(model.p_values(X, **how))
    if isinstance(model, IDKGroupDetector):
        *parts, reasons = model.explain(X, **how)
        return [*answers, model.labels_, model.scores_, *parts, np.array(repr(reasons))]
    return [*answers, model.mean_map_, model.score_path(X), np.asarray(model.explain(X))]


def saved(model, folder):
    isobag.save(model, folder / "m.isobag")
    return (folder / "m.isobag").read_bytes()


@cache
def contents():
    """Each of the models as the bytes of its file."""
    with tempfile.TemporaryDirectory() as folder:
        return [saved(model, Path(folder)) for model, _ in models()]


@pytest.mark.parametrize("number", range(N_MODELS))
def test_a_loaded_model_says_exactly_what_the_saved_one_says(tmp_path, number):
    model, how = next(islice(models(), number, None))
    isobag.save(model, tmp_path / "m")
    again = isobag.load(tmp_path / "m")
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    assert set(vars(again)) == set(vars(model))  # a new attribute needs a line in the table of its class
    new = np.random.default_rng(8).normal(size=POINTS.shape) * 2
    for ours, theirs in zip(said(again, new, **how), said(model, new, **how), strict=True):
        assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype
    for name, own in vars(model).items():
        for ours, theirs in zip(fields_of(getattr(again, name)), fields_of(own), strict=True):
            assert_array_equal(ours, theirs)
            assert np.asarray(ours).dtype == np.asarray(theirs).dtype


@pytest.mark.parametrize(
    "X", [POINTS[:2], np.zeros((9, 2)), POINTS * 3e149, np.repeat(POINTS[:3], 7, axis=0), np.eye(40)], ids=len
)
@pytest.mark.parametrize("params", [{}, {"max_samples": 2, "scaling": "standard"}])
def test_models_of_strange_data_come_back_too(tmp_path, X, params):
    one = IDKPointDetector(n_estimators=1, random_state=0, **params).fit(X)
    isobag.save(one, tmp_path / "m")
    assert_array_equal(isobag.load(tmp_path / "m").score_samples(X), one.score_samples(X))
    parts = [row[None] for row in X]
    one = IDKGroupDetector(n_estimators=1, random_state=0, **params).fit(parts)
    isobag.save(one, tmp_path / "m")
    assert_array_equal(isobag.load(tmp_path / "m").score_samples(parts), one.score_samples(parts))


def test_the_same_model_makes_the_same_file(tmp_path):
    assert saved(next(models())[0], tmp_path) == contents()[0]
    assert saved(isobag.load(tmp_path / "m.isobag"), tmp_path) == contents()[0]


ZONE = datetime.timezone(datetime.timedelta(hours=2))
KINDS = [
    [1, 2, 3],
    [True, False],
    np.array([1.5, np.inf], dtype=np.float32),
    np.array([1.5, -np.inf], dtype=object),
    ["a", "ü\0x", "\ud800", "long" * 50],
    np.array(["a", "😀"], dtype=object),
    np.array(["a", "other way round"], dtype=">U20"),
    np.array([1, 256], dtype=">i4"),
    np.array(["2024-02-29", "2025-01-01"], dtype="datetime64[D]"),
    [np.datetime64("2024-02-29T12", "ns"), datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 1, tzinfo=ZONE)],
    [("a", 1), ("a", 1.5), (("b", True), datetime.date(2024, 1, 1)), ()],
    [np.int16(3), np.str_("x"), 10**30],
]


@pytest.mark.parametrize("labels", KINDS, ids=repr)
def test_labels_of_every_kind_come_back_as_they_were(tmp_path, labels):
    parts = [POINTS[3 * k : 3 * k + 3] for k in range(len(labels))]
    if not isinstance(labels, np.ndarray):
        as_array = np.empty(len(labels), dtype=object)
        as_array[:] = labels
        labels = as_array
    model = small(IDKGroupDetector, calibrate=False).fit(np.concatenate(parts), groups=np.repeat(labels, 3))
    isobag.save(model, tmp_path / "m")
    again = isobag.load(tmp_path / "m").labels_
    assert again.dtype == model.labels_.dtype.newbyteorder("=")
    assert again.tolist() == model.labels_.tolist()
    assert list(map(type, again.tolist())) == list(map(type, [_unwrapped(one) for one in model.labels_.tolist()]))


def _unwrapped(label):
    """NumPy's numbers and strings come back as Python's, which they equal."""
    return label.item() if isinstance(label, np.generic) and not isinstance(label, np.datetime64) else label


class Anything:
    pass


@pytest.mark.parametrize("label", [Anything(), b"bytes", frozenset([1]), 1j, pd.Timestamp("2024-01-01", tz="CET")])
def test_a_label_that_a_file_cannot_hold_is_refused_and_nothing_is_written(tmp_path, label):
    groups = np.empty(6, dtype=object)
    groups[:] = ["a", "a", "b", "b", label, label]
    model = small(IDKGroupDetector, calibrate=False).fit(POINTS[:6], groups=groups)
    with pytest.raises(ModelFileError, match=r"labels_: the label .* is of type .*; a model file holds strings"):
        isobag.save(model, tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_what_a_file_cannot_hold_is_refused(tmp_path):
    seeded = IDKPointDetector(n_estimators=3, random_state=np.random.RandomState(0)).fit(POINTS)
    with pytest.raises(ModelFileError, match="random_state: RandomState"):
        isobag.save(seeded, tmp_path / "m")
    with pytest.raises(ModelFileError, match="not IsolationForest"):
        isobag.save(IsolationForest().fit(POINTS), tmp_path / "m")
    with pytest.raises(NotFittedError):
        isobag.save(IDKPointDetector(), tmp_path / "m")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("file", sorted(KEPT.glob("*.isobag")), ids=lambda file: file.name)
def test_files_of_earlier_versions_stay_loadable_and_score_the_same(file):
    expected = json.loads(file.with_suffix(".json").read_text())
    model = isobag.load(file)
    how = {"groups": expected["groups"]} if "groups" in expected else {}
    X = pd.DataFrame(expected["X"], columns=expected["names"]) if "names" in expected else np.array(expected["X"])
    if "cells" in expected:
        assert model.assign_cells(X).tolist() == expected["cells"]
        return
    assert model.score_samples(X, **how).tolist() == pytest.approx(expected["scores"], rel=1e-12)
    if "p_values" in expected:
        assert model.p_values(X, **how).tolist() == expected["p_values"]


@pytest.mark.parametrize("file", sorted(KEPT.glob("*.isobag")), ids=lambda file: file.name)
def test_a_file_of_an_earlier_version_can_be_saved_in_the_newest(file, tmp_path):
    model = isobag.load(file)
    isobag.save(model, tmp_path / "m")
    again = isobag.load(tmp_path / "m")
    assert again.get_params() == model.get_params()
    assert set(vars(again)) == set(vars(model))
    for name, own in vars(model).items():
        for ours, theirs in zip(fields_of(getattr(again, name)), fields_of(own), strict=True):
            assert_array_equal(ours, theirs)
    assert taken_apart((tmp_path / "m").read_bytes())[0]["format"] == container.FORMAT


def test_there_is_a_kept_file_of_every_kind_and_format_version():
    kept = {file.stem for file in KEPT.glob("*.isobag")}
    versions = range(1, container.FORMAT + 1)
    assert kept == {f"{kind}_{n}" for kind in ("group", "kernel", "norm", "outside", "point") for n in versions}


def refuse(tmp_path_factory, content):
    file = tmp_path_factory.getbasetemp() / "bad.isobag"
    file.write_bytes(content)
    with pytest.raises(ModelFileError):
        isobag.load(file)


NUMBER = st.integers(0, N_MODELS - 1)


@given(number=NUMBER, place=st.integers(0, 10**6), flip=st.integers(1, 255))
def test_any_changed_byte_is_noticed(tmp_path_factory, number, place, flip):
    content = bytearray(contents()[number])
    content[place % len(content)] ^= flip
    refuse(tmp_path_factory, bytes(content))


@given(number=NUMBER, ends=st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), filling=st.binary(max_size=20))
def test_a_file_cut_off_or_changed_anywhere_is_refused(tmp_path_factory, number, ends, filling):
    content = contents()[number]
    start, stop = sorted(end % (len(content) + 1) for end in ends)
    if filling != content[start:stop]:
        refuse(tmp_path_factory, content[:start] + filling + content[stop:])


@given(content=st.binary(max_size=300))
def test_noise_is_no_model(tmp_path_factory, content):
    refuse(tmp_path_factory, content)


def taken_apart(content):
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    document = json.loads(header["__metadata__"]["isobag"])
    return {name: document[name] for name in document if name != "sha256"}, container._safetensors().load(content)


def leaves(node, path=()):
    """Every place in a JSON document."""
    yield path
    for key, child in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from leaves(child, (*path, key))


def replaced(node, path, value):
    if not path:
        return value
    node = copy.copy(node)
    node[path[0]] = replaced(node[path[0]], path[1:], value)
    return node


JUNK = st.sampled_from([None, True, -1, 0, 1, 2, 3, 7, 2**31, 2**62, 10**30, 0.5, 1e308, "", "x", [], [2], {}, [[]]])
WAYS = st.sampled_from(["number", "number", "number", "shorter", "flat", "float32", "int64", "uint8", "float64"])
NUMBERS = st.sampled_from([-1, 0, 1, 5, 100, 2**31 - 1, 2**62, -(2**63), 0.5, -1e300, 1e300, np.nan, np.inf])


@settings(max_examples=60)
@given(number=NUMBER, in_document=st.booleans(), place=st.integers(0, 10**6), junk=JUNK, way=WAYS, value=NUMBERS)
def test_a_hostile_file_with_a_right_checksum_is_refused_or_harmless(
    tmp_path_factory, number, in_document, place, junk, way, value
):
    document, tensors = taken_apart(contents()[number])
    if in_document:
        places = [path for path in leaves(document) if path and path[0] != "format"]
        document = replaced(document, places[place % len(places)], junk)
    else:
        name = sorted(tensors)[place % len(tensors)]
        tensors[name] = spoiled(tensors[name].copy(), way, place, value)
    file = tmp_path_factory.getbasetemp() / "hostile.isobag"
    container.write_container(file, document, tensors)
    try:
        model = isobag.load(file)
    except ModelFileError:
        return
    if "Detector" not in type(model).__name__:
        return
    how = {"groups": LABELS} if isinstance(model, IDKGroupDetector) else {}
    X = POINTS if not hasattr(model, "feature_names_in_") else pd.DataFrame(POINTS, columns=model.feature_names_in_)
    with np.errstate(all="ignore"):
        assert len(model.set_params(backend="numba").score_samples(X, **how)) in (60, 12)


def spoiled(tensor, way, place, value):
    """A tensor with another number in one place, another shape or another dtype."""
    if way == "shorter":
        return np.ascontiguousarray(tensor[..., :-1])
    if way == "flat":
        return tensor.reshape(-1, 1)
    if way != "number":
        with np.errstate(all="ignore"):
            return tensor.astype(way)
    if tensor.size:
        with np.errstate(all="ignore"):
            tensor.flat[place % tensor.size] = np.array(value).astype(tensor.dtype)
    return tensor


def test_a_file_of_a_newer_format_says_what_to_do(tmp_path, monkeypatch):
    document, tensors = taken_apart(contents()[0])
    monkeypatch.setattr(container, "FORMAT", 99)
    container.write_container(tmp_path / "m", {**document, "format": 99, "library": "9.9"}, tensors)
    monkeypatch.undo()
    with pytest.raises(ModelFileError, match=r"format version 99, written by isobag 9\.9.*upgrade"):
        isobag.load(tmp_path / "m")


@pytest.mark.parametrize(
    "header", [b"{}", b"[" * 100_000, b'{"__metadata__": {"isobag": "' + b"[" * 90_000 + b'"}}', b"9" * 9_000]
)
def test_a_header_that_is_no_header_is_refused(tmp_path, header):
    (tmp_path / "m").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(ModelFileError):
        isobag.load(tmp_path / "m")


@pytest.mark.parametrize("length", [2**63, 2**64 - 1, 10**12, container.LONGEST_HEADER])
def test_a_claim_of_size_is_checked_before_anything_is_allocated(tmp_path, length):
    (tmp_path / "m").write_bytes(length.to_bytes(8, "little") + b"{}")
    with pytest.raises(ModelFileError, match="its header has"):
        isobag.load(tmp_path / "m")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_or_a_device_is_no_model_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(ModelFileError, match="not a regular file"):
            isobag.load(path)
    with pytest.raises(FileNotFoundError):
        isobag.load(tmp_path / "nothing")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, code):
    (tmp_path / "m").write_bytes(b"old")

    def fail(_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="the disk is full.* nothing was changed" if code == errno.ENOSPC else "error"):
        isobag.save(next(models())[0], tmp_path / "m")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("m", b"old")]


def test_a_folder_that_is_missing_or_in_the_way_is_named(tmp_path):
    model = next(models())[0]
    with pytest.raises(FileNotFoundError, match="no such folder"):
        isobag.save(model, tmp_path / "none" / "m")
    with pytest.raises(IsADirectoryError, match="need the name of a file"):
        isobag.save(model, tmp_path)


def test_a_missing_library_is_named_in_one_sentence(tmp_path):
    code = "import sys; sys.modules['safetensors'] = None; import isobag; isobag.load('x')"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.stderr.splitlines()[-1] == (
        'ImportError: Model files need safetensors, which is missing: pip install "isobag[files]".'
    )


def test_the_checksum_is_that_of_the_file_with_zeros_in_its_place():
    claimed = taken_apart(contents()[0])
    assert claimed[0]["format"] == container.FORMAT and claimed[0]["library"] == isobag.__version__
    start = contents()[0].index(b"sha256") + len(b'sha256\\": \\"')
    zeroed = contents()[0][:start] + b"0" * 64 + contents()[0][start + 64 :]
    assert hashlib.sha256(zeroed).hexdigest().encode() == contents()[0][start : start + 64]


def test_safetensors_reads_what_is_written_and_every_tensor_is_aligned(tmp_path):
    rng = np.random.default_rng(0)
    tensors = {
        "wide": rng.normal(size=(3, 2)),
        "narrow": np.arange(5, dtype=np.uint8),
        "nothing": np.empty(0, dtype=np.int32),
        "one": np.array(7, dtype=np.uint16),
        "names \u00e9": np.array([True, False]),
        "half": np.arange(3, dtype=np.float32),
        "hashes": np.arange(4, dtype=np.uint64),
    }
    container.write_container(tmp_path / "x", {"model": {"name": '\u00e9 "quoted"'}}, tensors)
    content = (tmp_path / "x").read_bytes()
    loaded, header_end = container._safetensors().load(content), 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:header_end])
    assert header_end % 8 == 0 and json.loads(header["__metadata__"]["isobag"])["model"]["name"] == '\u00e9 "quoted"'
    assert set(loaded) == set(tensors)
    for name, values in tensors.items():
        assert loaded[name].dtype == values.dtype and header[name]["data_offsets"][0] % values.itemsize == 0
        assert_array_equal(loaded[name], values)
