"""Real sets from files: from a folder of your own, or downloaded once and checked by their SHA-256.

The folder has ``point/NAME.npz`` with ``X`` (n, d) and ``y`` (n,), ``group/NAME.npz`` with ``X`` (points, d), ``group``
(points,) and ``y`` (groups,), and ``adbench/NAME.npz`` as published; y is 1 for anomalies.
"""

import hashlib
import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from isobag.datasets.registry import ADBENCH_SHA256, ADBENCH_URL, GROUP_SETS, POINT_SETS, Origin
from isobag.datasets.synthetic import (
    GroupSet,
    Points,
    Seed,
    make_gaussian1k,
    make_gaussian100,
    make_mix_gaussian1k,
)

SYNTHETIC_GROUP_SETS: dict[str, Callable[..., GroupSet]] = {
    "Gaussian100": make_gaussian100,
    "Gaussian1K": make_gaussian1k,
    "MixGaussian1K": make_mix_gaussian1k,
}

_CHUNK_BYTES = 1 << 16
_PATIENCE_SECONDS = 60


class DatasetNotAvailableError(LookupError):
    """The set is known, and cannot be had here and now; the message says where it comes from."""


def load(name: str, *, folder: str | os.PathLike[str] | None = None) -> Points:
    """A real set of points: X (n, d) float64, unscaled and in the order of its file; y (n,), 1 = anomaly.

    ``name`` is one of the paper's sets (``POINT_SETS``), an ADBench file without its ending ("2_annthyroid"), or any
    other ``point/NAME.npz`` of the folder. The folder is the argument or the environment variable ISOBAG_DATA; what is
    not in it is downloaded, where a public file with a known SHA-256 exists, into ISOBAG_CACHE or ~/.cache/isobag.
    """
    origin = POINT_SETS.get(name)
    twin = name if origin is None else origin.adbench
    file, where = _in_folder(folder, f"point/{name}", f"adbench/{twin}")
    if file is None and twin in ADBENCH_SHA256:
        file = fetch(f"{ADBENCH_URL}{twin}.npz", ADBENCH_SHA256[twin])
    if file is None:
        raise _not_available(name, origin, where, [*POINT_SETS, *ADBENCH_SHA256])
    X, y = _read(file, "X", "y")
    if len(X) != len(y):
        raise ValueError(f"{file} has {len(X)} rows and {len(y)} labels; need one label for each row.")
    return Points(X.astype(np.float64), y.astype(np.int64))


def load_groups(name: str, *, folder: str | os.PathLike[str] | None = None, random_state: Seed = 0) -> GroupSet:
    """A set of groups: X (points, d) float64, the group of each point, ascending, y (groups,) with 1 = anomalous.

    ``name`` is one of the paper's sets (``GROUP_SETS``, and ``SYNTHETIC_GROUP_SETS``, which ``random_state`` draws), or
    any other ``group/NAME.npz`` of the folder, which is found as by ``load``. No group set has one public file, so
    none is downloaded.
    """
    if name in SYNTHETIC_GROUP_SETS:
        return SYNTHETIC_GROUP_SETS[name](random_state=random_state)
    file, where = _in_folder(folder, f"group/{name}")
    if file is None:
        raise _not_available(name, GROUP_SETS.get(name), where, [*GROUP_SETS, *SYNTHETIC_GROUP_SETS])
    X, groups, y = _read(file, "X", "group", "y")
    if len(X) != len(groups) or set(np.unique(groups).tolist()) != set(range(len(y))):
        raise ValueError(f"{file} has {len(X)} rows, {len(groups)} group numbers and {len(y)} labels; they do not fit.")
    order = np.argsort(groups, kind="stable")  # so that the order of first appearance is that of y
    return GroupSet(X[order].astype(np.float64), groups[order].astype(np.int64), y.astype(np.int64))


def fetch(url: str, sha256: str) -> Path:
    """The file at ``url``, from the cache or downloaded into it; only with the right SHA-256 does it get its name."""
    target = _cache() / f"{sha256[:16]}-{url.rsplit('/', 1)[-1]}"
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, unfinished = tempfile.mkstemp(dir=target.parent, prefix="unfinished-")
    digest, n_bytes = hashlib.sha256(), 0
    try:
        with os.fdopen(handle, "wb") as file, urllib.request.urlopen(url, timeout=_PATIENCE_SECONDS) as answer:
            while chunk := answer.read(_CHUNK_BYTES):
                digest.update(chunk)
                n_bytes += len(chunk)
                file.write(chunk)
        if digest.hexdigest() != sha256:
            raise DatasetNotAvailableError(
                f"{url} gave {n_bytes} bytes with SHA-256 {digest.hexdigest()}, not {sha256}: cut off or changed."
            )
        os.replace(unfinished, target)
    except (urllib.error.URLError, OSError) as error:
        raise DatasetNotAvailableError(
            f"{url} could not be downloaded ({error}); put the file into the folder named by ISOBAG_DATA."
        ) from error
    finally:
        Path(unfinished).unlink(missing_ok=True)
    return target


def _cache() -> Path:
    if "ISOBAG_CACHE" in os.environ:
        return Path(os.environ["ISOBAG_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "isobag"


def _in_folder(folder: str | os.PathLike[str] | None, *candidates: str) -> tuple[Path | None, str]:
    """The first of the candidates that is in the folder, if there is one; and where none of them is, in words."""
    folder = os.environ.get("ISOBAG_DATA") if folder is None else folder
    if folder is None:
        return None, "no folder of data sets is given (ISOBAG_DATA)"
    if not Path(folder).is_dir():
        raise FileNotFoundError(f"folder={os.fspath(folder)!r}; there is no such folder of data sets.")
    files = [Path(folder) / f"{candidate}.npz" for candidate in candidates]
    return next((file for file in files if file.is_file()), None), f"{folder} has no {candidates[0]}.npz"


def _not_available(name: str, origin: Origin | None, where: str, names: list[str]) -> LookupError:
    if origin is None:
        return DatasetNotAvailableError(f"name={name!r}; {where}, and it is none of {', '.join(names)}.")
    return DatasetNotAvailableError(f"{name}: {where}, and it has no pinned download; it comes from {origin.source}.")


def _read(file: Path, *names: str) -> list[npt.NDArray[Any]]:
    """Arrays of a .npz file; the last one holds labels, 0 or 1."""
    with np.load(file) as content:
        missing = [name for name in names if name not in content.files]
        if missing:
            raise ValueError(f"{file} has no array {missing[0]!r}; need {', '.join(names)}.")
        arrays = [content[name] for name in names]
    if not np.isin(arrays[-1], (0, 1)).all():
        raise ValueError(f"{file} has labels other than 0 and 1 in {names[-1]!r}; 1 is an anomaly.")
    return arrays
