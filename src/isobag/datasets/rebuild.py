"""Group sets built from public archives: downloaded once, checked by SHA-256, and drawn with a fixed seed.

The sets are named after the paper's where there is one, but which groups are drawn is ours. Nothing third-party is part
of isobag: an archive is fetched when a set is first asked for, into the cache that ``load`` uses.
"""

import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Floats, Ints
from isobag.datasets.files import fetch, load
from isobag.datasets.registry import ADBENCH_URL, PUBLIC_FILES
from isobag.datasets.synthetic import GroupSet

_PATCH, _OFFSETS = 18, (0, 5, 10)
_LODGEPOLE_PINE, _COVER_TYPES = 2, 54
STRETCH_ROWS, LEAST_ATTACKS = 100, 30
_MOST_POSITIVE = 0.05
"""Sets of bags with more positive bags than this share lose some of them."""


class Recipe(NamedTuple):
    """How a set is built, where it comes from, and under which licence."""

    build: Callable[[], GroupSet]
    source: str
    licence: str


def rebuild_groups(name: str, *, folder: str | os.PathLike[str] | None = None) -> GroupSet:
    """A real set of groups, one of ``REBUILT_GROUP_SETS``, built from its public archive.

    ``folder`` is used as by ``load`` for the one set made of a set of points (http_stretches); the others need none.
    """
    if name == "http_stretches":
        return _http_stretches(folder)
    if name not in REBUILT_GROUP_SETS:
        raise ValueError(f"name={name!r}; need one of {', '.join(REBUILT_GROUP_SETS)}.")
    return REBUILT_GROUP_SETS[name].build()


def _read_member(archive: str, member: str) -> bytes:
    """A file of a public archive, whatever folder it is in."""
    public = PUBLIC_FILES[archive]
    path = fetch(public.url, public.sha256)
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as opened:
            return opened.read(next(name for name in opened.namelist() if name.endswith(member)))
    with tarfile.open(path) as packed:
        file = packed.extractfile(next(entry for entry in packed if entry.name.endswith(member)))
        assert file is not None  # a member that is a file
        return file.read()


def _read_numbers(content: bytes, has_header: bool = True) -> Floats:
    """A CSV of numbers: (rows, columns)."""
    from pyarrow import csv  # noqa: PLC0415, only needed here, and slow to import

    options = csv.ReadOptions(autogenerate_column_names=not has_header)
    columns = csv.read_csv(io.BytesIO(content), read_options=options).columns
    return np.column_stack([column.to_numpy() for column in columns]).astype(np.float64)


def _images(digit: int, half: bool) -> GroupSet:
    """Nine overlapping patches of an image are a group; a random half of the images of a digit are normal.

    50 images of other digits are odd. With ``half``, four of the nine patches of an odd one are, in place, those of an
    image of the digit that is not among the normal ones.
    """
    labels = np.frombuffer(_read_member("mnist", "train-labels-idx1-ubyte"), np.uint8, offset=8)
    images = np.frombuffer(_read_member("mnist", "train-images-idx3-ubyte"), np.uint8, offset=16).reshape(-1, 28, 28)
    rng = np.random.default_rng(digit)
    of_digit = rng.permutation(np.flatnonzero(labels == digit))
    normal, spare = of_digit[: len(of_digit) // 2], of_digit[len(of_digit) // 2 :]
    odd = rng.choice(np.flatnonzero(labels != digit), 50, replace=False)
    points = _patches(images[np.concatenate([normal, odd])])
    if half:
        replacing = _patches(images[rng.choice(spare, len(odd), replace=False)])
        for group, other in zip(points[len(normal) :], replacing, strict=True):
            places = rng.choice(len(group), 4, replace=False)
            group[places] = other[places]
    sizes = np.full(len(points), points.shape[1])
    return _grouped(points.reshape(-1, points.shape[2]), sizes, len(normal))


def _patches(images: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """(images, 28, 28) -> (images, 9, 324)."""
    cut = [images[:, i : i + _PATCH, j : j + _PATCH] for i in _OFFSETS for j in _OFFSETS]
    return np.stack(cut, axis=1).reshape(len(images), len(cut), -1)


def _cover_types() -> GroupSet:
    """100 patches of forest are a group: 2,000 of lodgepole pine are normal, ten of all other trees are odd."""
    table = _read_numbers(_read_member("covtype", "covtype.csv"))
    X, kinds = table[:, :_COVER_TYPES], table[:, -1]
    rng = np.random.default_rng(0)
    normal = rng.choice(np.flatnonzero(kinds == _LODGEPOLE_PINE), 200_000, replace=False)
    odd = rng.choice(np.flatnonzero(kinds != _LODGEPOLE_PINE), 1000, replace=False)
    return _grouped(X[np.concatenate([normal, odd])], np.full(2010, 100), 2000)


def _bags(name: str) -> GroupSet:
    """Bags of multiple-instance learning; positive ones are odd, at most one in twenty of all."""
    table = _read_numbers(_read_member("mil", f"csv/{name}.csv"), has_header=False)
    _, starts, ids, sizes = np.unique(table[:, 1], return_index=True, return_inverse=True, return_counts=True)
    labels = table[starts, 0] == 1
    normal, odd = np.flatnonzero(~labels), np.flatnonzero(labels)
    most = max(3, int(_MOST_POSITIVE / (1 - _MOST_POSITIVE) * len(normal)))
    odd = np.sort(np.random.default_rng(0).permutation(odd)[:most])
    order = np.argsort(ids, kind="stable")
    firsts = np.cumsum(sizes) - sizes
    chosen = np.concatenate([normal, odd])
    rows = np.concatenate([order[firsts[bag] : firsts[bag] + sizes[bag]] for bag in chosen])
    return _grouped(table[rows, 2:], sizes[chosen], len(normal))


def _http_stretches(folder: str | os.PathLike[str] | None) -> GroupSet:
    """100 connections in a row are a group; those with 30 attacks or more are odd, others with attacks are left out."""
    X, y = load("http", folder=folder)
    n = len(X) // STRETCH_ROWS
    attacks = y[: n * STRETCH_ROWS].reshape(n, STRETCH_ROWS).sum(axis=1)
    normal, odd = np.flatnonzero(attacks == 0), np.flatnonzero(attacks >= LEAST_ATTACKS)
    chosen = np.concatenate([normal, odd])
    rows = (chosen[:, None] * STRETCH_ROWS + np.arange(STRETCH_ROWS)).ravel()
    return _grouped(X[rows], np.full(len(chosen), STRETCH_ROWS), len(normal))


def _grouped(X: npt.NDArray[np.generic], sizes: Ints, n_normal: int) -> GroupSet:
    """Groups that stand one after the other, the normal ones first."""
    points: Floats = X.astype(np.float64)
    y = (np.arange(len(sizes)) >= n_normal).astype(np.int64)
    return GroupSet(points, np.repeat(np.arange(len(sizes)), sizes), y)


_BAGS = ("musk1", "musk2", "elephant", "corel_dogs", "protein", "birds_brown_creeper")

REBUILT_GROUP_SETS = {
    **{
        f"MNIST_{digit}{'_50' if half else ''}": Recipe(
            partial(_images, digit, half),
            f"MNIST: nine patches of an image are a group, {digit} is normal{', half of an odd group too' * half}",
            PUBLIC_FILES["mnist"].licence,
        )
        for digit in (4, 8)
        for half in (False, True)
    },
    "covtype": Recipe(
        _cover_types, "UCI Covertype: 100 rows are a group, lodgepole pine is normal", PUBLIC_FILES["covtype"].licence
    ),
    **{
        f"mil_{name}": Recipe(
            partial(_bags, name),
            f"multiple-instance learning, {name}: positive bags are odd, at most one in twenty",
            PUBLIC_FILES["mil"].licence,
        )
        for name in _BAGS
    },
    "http_stretches": Recipe(
        partial(_http_stretches, None), f"ADBench {ADBENCH_URL}16_http.npz: 100 connections in a row", "BSD-2"
    ),
}
"""The real group sets that anybody can build, with where they come from."""
