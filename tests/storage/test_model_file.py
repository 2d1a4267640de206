"""Model files: what is loaded scores as what was saved, and a bad file is refused and does nothing."""

import copy
import datetime
import errno
import hashlib
import json
import os
import random
import tempfile
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy as st
from numpy.testing import assert_array_equal
from scipy.sparse import issparse
from sklearn.exceptions import NotFittedError

import isobag
from isobag import IDKGroupDetector, IDKPointDetector, IsolationKernel, ModelFileError
from isobag.backends.learned import Learned
from isobag.partitionings import MECHANISMS
from isobag.storage.modelfile import FORMAT, load_with_notes

RNG = np.random.default_rng(7)
POINTS = RNG.normal(size=(60, 3))
LABELS = np.repeat([f"g{k}" for k in range(12)], 5)
TIMES = np.datetime64("2026-01-01") + np.arange(60) // 6


def small(cls, **params):
    return cls(n_estimators=5, random_state=3, **params)


MODELS = {
    "frame": lambda: small(IDKPointDetector).fit(pd.DataFrame(POINTS, columns=["a", "b", "<ü>"])),
    "integer": lambda: small(IDKPointDetector, max_samples=4, contamination=0.1).fit(POINTS),
    "unscaled": lambda: small(IDKPointDetector, scaling=None, n_jobs=np.int64(2)).fit(POINTS),
    "owners": lambda: small(IDKPointDetector).fit(POINTS, within=LABELS),
    "groups": lambda: small(IDKGroupDetector).fit(POINTS, groups=LABELS),
    "cells": lambda: small(IDKGroupDetector, max_samples=4, group_max_samples=3, scaling="robust").fit(
        POINTS, groups=LABELS
    ),
    **{
        mechanism: lambda mechanism=mechanism: small(IsolationKernel, mechanism=mechanism).fit(POINTS)
        for mechanism in MECHANISMS
    },
}


def fields_of(value):
    """All that has been learned, as one flat list of arrays and simple values."""
    if issparse(value):
        return [value.toarray()]
    if is_dataclass(value):
        return [one for field in fields(value) for one in fields_of(getattr(value, field.name))]
    if isinstance(value, tuple | list):
        return [one for part in value for one in fields_of(part)]
    return [value]


def answers(model, X):
    """All that a model says of some data."""
    if isinstance(model, IsolationKernel):
        return [model.transform(X).toarray(), model.assign_cells(X)]
    X = X if not hasattr(model, "feature_names_in_") else pd.DataFrame(X, columns=model.feature_names_in_)
    how = arguments_of(model)
    parts = [model.score_samples(X, **how), model.predict(X, **how), np.array(model.offset_), model.p_values(X, **how)]
    if isinstance(model, IDKGroupDetector):
        *explained, reasons = model.explain(X, **how)
        return [*parts, model.labels_, model.scores_, *explained, np.array(repr(reasons))]
    return [*parts, np.asarray(model.explain(X, **how))]


def arguments_of(model):
    """What methods are told beside the rows."""
    if isinstance(model, IDKGroupDetector):
        return {"groups": LABELS}
    return {"within": LABELS} if hasattr(model, "within_labels_") else {}


@cache
def content_of(name):
    """The bytes of the file of a model."""
    with tempfile.TemporaryDirectory() as folder:
        isobag.save(MODELS[name](), f"{folder}/m")
        return Path(f"{folder}/m").read_bytes()


@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_says_exactly_what_the_saved_one_says(tmp_path, name):
    model = MODELS[name]()
    isobag.save(model, tmp_path / "m", {"lines": 7})
    again, notes = load_with_notes(tmp_path / "m")
    assert notes == {"lines": 7}
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    assert set(again.fitted()) == set(model.fitted())
    for key, value in model.fitted().items():
        for ours, theirs in zip(fields_of(again.fitted()[key]), fields_of(value), strict=True):
            assert_array_equal(ours, theirs)
            assert np.asarray(ours).dtype == np.asarray(theirs).dtype
    new = np.random.default_rng(8).normal(size=POINTS.shape) * 2
    for ours, theirs in zip(answers(again, new), answers(model, new), strict=True):
        assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype


@pytest.mark.parametrize(
    "X", [POINTS[:2], np.zeros((9, 2)), POINTS * 3e149, np.repeat(POINTS[:3], 7, axis=0), np.eye(40)], ids=len
)
@pytest.mark.parametrize("params", [{}, {"max_samples": 2, "scaling": "standard"}])
def test_models_of_strange_data_come_back_too(tmp_path, X, params):
    detector = IDKPointDetector(n_estimators=1, random_state=0, **params).fit(X)
    isobag.save(detector, tmp_path / "m")
    assert_array_equal(isobag.load(tmp_path / "m").score_samples(X), detector.score_samples(X))
    parts = [row[None] for row in X]
    detector = IDKGroupDetector(n_estimators=1, random_state=0, **params).fit(parts)
    isobag.save(detector, tmp_path / "m")
    assert_array_equal(isobag.load(tmp_path / "m").score_samples(parts), detector.score_samples(parts))


@pytest.mark.parametrize("name", ["frame", "groups", "owners"])
def test_the_same_model_makes_the_same_file(tmp_path, name):
    (tmp_path / "m").write_bytes(content_of(name))
    isobag.save(isobag.load(tmp_path / "m"), tmp_path / "n")
    assert (tmp_path / "n").read_bytes() == content_of(name)


def test_a_part_of_a_model_can_be_saved_alone(tmp_path):
    views = MODELS["frame"]().model_.views
    isobag.save(views, tmp_path / "m")
    for ours, theirs in zip(fields_of(isobag.load(tmp_path / "m")), fields_of(views), strict=True):
        assert_array_equal(ours, theirs)


@dataclass(frozen=True)
class Bundle(Learned):
    detector: IDKPointDetector | IDKGroupDetector
    names: tuple[str, ...]
    share: float
    note: str | None = None


def test_a_new_data_class_is_stored_by_its_fields_alone(tmp_path):
    bundle = Bundle(MODELS["integer"](), ("a", "b"), 0.5)
    isobag.save(bundle, tmp_path / "m")
    again = isobag.load(tmp_path / "m")
    assert type(again) is Bundle and (again.names, again.share, again.note) == (("a", "b"), 0.5, None)
    assert_array_equal(again.detector.score_samples(POINTS), bundle.detector.score_samples(POINTS))
    for wrong in (Bundle(MODELS["integer"](), ("a", 1), 0.5), Bundle(MODELS["voronoi"](), ("a",), 0.5)):
        with pytest.raises(ModelFileError, match=r"names|detector"):
            isobag.save(wrong, tmp_path / "m")


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


def fit_labels(labels):
    parts = [POINTS[3 * k : 3 * k + 3] for k in range(len(labels))]
    if not isinstance(labels, np.ndarray):
        as_array = np.empty(len(labels), dtype=object)
        as_array[:] = labels
        labels = as_array
    return small(IDKGroupDetector).fit(np.concatenate(parts), groups=np.repeat(labels, 3))


@pytest.mark.parametrize("labels", KINDS, ids=repr)
def test_labels_of_every_kind_come_back_as_they_were(tmp_path, labels):
    model = fit_labels(labels)
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
    with pytest.raises(ModelFileError, match=rf"labels_.*{type(label).__name__}"):
        isobag.save(fit_labels(["a", "b", label]), tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_what_a_file_cannot_hold_is_refused(tmp_path):
    seeded = IDKPointDetector(n_estimators=3, random_state=np.random.RandomState(0)).fit(POINTS)
    with pytest.raises(ModelFileError, match=r"random_state.*RandomState"):
        isobag.save(seeded, tmp_path / "m")
    with pytest.raises(ModelFileError, match="Anything"):
        isobag.save(Anything(), tmp_path / "m")
    with pytest.raises(NotFittedError):
        isobag.save(IDKPointDetector(), tmp_path / "m")
    assert not list(tmp_path.iterdir())


def taken_apart(content):
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return json.loads(header["__metadata__"]["isobag"]), {name: own.copy() for name, own in st.load(content).items()}


def put_together(document, tensors):
    """A file with a right checksum."""
    zeros = b"0" * 64
    content = st.save(tensors, {"isobag": json.dumps({**document, "sha256": zeros.decode()})})
    return content.replace(zeros, hashlib.sha256(content).hexdigest().encode(), 1)


def refuse(folder, content, match=None):
    (folder / "bad").write_bytes(content)
    with pytest.raises(ModelFileError, match=match):
        isobag.load(folder / "bad")


def test_a_file_cut_off_or_changed_anywhere_is_refused(tmp_path):
    assert put_together(*taken_apart(content_of("frame"))) == content_of("frame")
    draw = random.Random(1)
    for _ in range(300):
        content = content_of(draw.choice(list(MODELS)))
        place = draw.randrange(len(content))
        refuse(tmp_path, content[:place] + bytes([content[place] ^ draw.randrange(1, 256)]) + content[place + 1 :])
        start, stop = sorted(draw.randrange(len(content) + 1) for _ in range(2))
        filling = draw.randbytes(draw.randrange(20))
        if filling != content[start:stop]:
            refuse(tmp_path, content[:start] + filling + content[stop:])
        refuse(tmp_path, draw.randbytes(draw.randrange(300)))


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


def without(node, path):
    node = copy.copy(node)
    if len(path) == 1:
        del node[path[0]]
    else:
        node[path[0]] = without(node[path[0]], path[1:])
    return node


JUNK = [None, True, -1, 0, 1, 2, 3, 7, 2**31, 2**62, 10**30, 0.5, 1e308, float("nan"), "", "x", [], [2], {}, [[]]]
JUNK += [{"float": "nan"}, {"array": "int64"}, {"class": "Average"}, {"class": "Learned"}, "IDKPointDetector"]
NUMBERS = [-1, 0, 1, 5, 100, 2**31 - 1, 2**62, -(2**63), 0.5, -1e300, 1e300, np.nan, np.inf]
WAYS = ["number"] * 4 + ["shorter", "longer", "flat", "reversed", "float32", "int64", "uint8", "float64"]


def spoiled(tensor, way, draw):
    """A tensor with another number in one place, another shape or another dtype."""
    if way == "shorter":
        return np.ascontiguousarray(tensor[..., :-1] if tensor.ndim else tensor)
    if way == "longer":
        return np.concatenate([tensor, tensor[-1:]]) if tensor.ndim else tensor[None]
    if way == "flat":
        return tensor.reshape(-1, 1)
    if way == "reversed":
        return np.ascontiguousarray(tensor[::-1] if tensor.ndim else tensor)
    if way != "number":
        return tensor.astype(way)
    if tensor.size:
        tensor.flat[draw.randrange(tensor.size)] = np.array(draw.choice(NUMBERS)).astype(tensor.dtype)
    return tensor


def mutated(name, draw):
    """The file of a model with one part changed and a right checksum."""
    document, tensors = taken_apart(content_of(name))
    places = [path for path in leaves(document["model"]) if path]
    kind = draw.choice(["junk", "gone", "swap", "tensor", "tensor", "tensor"])
    if kind == "junk":
        document["model"] = replaced(document["model"], draw.choice(places), draw.choice(JUNK))
    elif kind == "gone":
        document["model"] = without(document["model"], draw.choice(places))
    elif kind == "swap":
        first, second = draw.sample(sorted(tensors), 2)
        tensors[first], tensors[second] = tensors[second], tensors[first]
    else:
        tensor = draw.choice(sorted(tensors))
        tensors[tensor] = spoiled(tensors[tensor], draw.choice(WAYS), draw)
    return put_together(document, tensors)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore")
def test_mutated_files_with_a_right_checksum_are_refused_or_harmless(tmp_path, name):
    n_refused = 0
    for seed in range(-(-3000 // len(MODELS))):
        with np.errstate(all="ignore"):
            (tmp_path / "m").write_bytes(mutated(name, random.Random(seed)))
            try:
                model = isobag.load(tmp_path / "m")
            except ModelFileError:
                n_refused += 1
                continue
            if isinstance(model, IsolationKernel):
                assert len(model.transform(POINTS).toarray()) == 60
                continue
            X = pd.DataFrame(POINTS, columns=model.feature_names_in_) if name == "frame" else POINTS
            scores = model.score_samples(X, **arguments_of(model))
            assert len(scores) in (60, 12) and not np.isnan(scores).any()
    assert n_refused > 50


def test_a_file_of_another_format_says_which_version_wrote_it(tmp_path):
    document, tensors = taken_apart(content_of("frame"))
    assert document["format"] == FORMAT and document["library"] == isobag.__version__
    for version in (1, FORMAT - 1, FORMAT + 1):
        content = put_together({**document, "format": version, "library": "9.8.7"}, tensors)
        refuse(tmp_path, content, rf"format {version}, written by isobag 9\.8\.7.* format {FORMAT} ")


def test_a_header_that_is_no_header_and_a_size_that_is_none_are_refused(tmp_path):
    for header in (b"{}", b"[" * 100_000, b'{"__metadata__": {"isobag": "' + b"[" * 90_000 + b'"}}', b"9" * 9_000):
        refuse(tmp_path, len(header).to_bytes(8, "little") + header)
    for length in (2**63, 2**64 - 1, 10**12, 1 << 24):  # before anything is allocated
        refuse(tmp_path, length.to_bytes(8, "little") + b"{}")


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
    with pytest.raises(OSError, match=str(code) if code == errno.EIO else "disk is full"):
        isobag.save(MODELS["voronoi"](), tmp_path / "m")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("m", b"old")]


def test_a_folder_that_is_missing_or_in_the_way_is_named(tmp_path):
    model = MODELS["voronoi"]()
    with pytest.raises(FileNotFoundError, match="no such folder"):
        isobag.save(model, tmp_path / "none" / "m")
    with pytest.raises(IsADirectoryError, match="need the name of a file"):
        isobag.save(model, tmp_path)
