"""Model files: safetensors, whose metadata hold one JSON document under the name "isobag".

The document has the version of the format, the version of the library, a SHA-256 of the whole file with 64 zeros in
its own place, the model (see ``codec``), and notes of whoever wrote it. Training data are not kept as a whole, but
centers are rows of them: a file is as confidential as the data are.
"""

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import safetensors.numpy as st
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

import isobag
from isobag.storage.atomic import write_whole
from isobag.storage.codec import Tensors, decode, encode

FORMAT = 4
"""Version of the format, the only one that can be read."""
_NO_CHECKSUM = "0" * 64


class ModelFileError(ValueError):
    """Not a model file, or one that is truncated, altered or of another format; or a model that no file can hold."""


def save(model: Any, path: str | os.PathLike[str], notes: dict[str, Any] | None = None) -> None:
    """Write what was learned to a file, whole or not at all. See docs/model_file.md for the format.

    Refused with a ModelFileError: a random_state other than None or an integer, and labels of groups other than
    strings, numbers, true and false, dates, and tuples of these. ``notes``: JSON that ``load_with_notes`` returns.

    Examples
    --------
    >>> import numpy as np, tempfile, isobag
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> detector = isobag.IDKPointDetector(random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     isobag.save(detector, f"{folder}/normal.isobag")
    ...     again = isobag.load(f"{folder}/normal.isobag")
    >>> bool((again.score_samples(X) == detector.score_samples(X)).all())
    True
    """
    if isinstance(model, BaseEstimator):
        check_is_fitted(model)
    tensors: Tensors = {}
    try:
        content = encode(model, "", tensors)
    except ValueError as error:
        raise ModelFileError(f"{error}.") from None
    document = {"sha256": _NO_CHECKSUM, "format": FORMAT, "library": isobag.__version__}
    document |= {"model": content, "notes": notes or {}}
    whole = st.save(tensors, {"isobag": json.dumps(document, allow_nan=False)})
    write_whole(path, _with_checksum(whole, _NO_CHECKSUM, _digest(whole, _NO_CHECKSUM)))


def load(path: str | os.PathLike[str]) -> Any:
    """What was saved: same class, parameters, attributes and scores.

    Raises ModelFileError if the file is not a model file, is truncated, altered or inconsistent, or was written in
    another version of the format; and OSError if it cannot be read at all. No code from the file is run.
    """
    return load_with_notes(path)[0]


def load_with_notes(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """What was saved, and the notes beside it."""
    with open(path, "rb", opener=_open_without_waiting) as file, _refusing(path):
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ModelFileError("not a regular file.")
        document, tensors = _parse(file.read())
        model = decode(document["model"], "", tensors)
        if tensors:
            raise ModelFileError(f"{min(tensors)!r:.60} belongs to nothing.")
        return model, dict(document["notes"])


def _parse(content: bytes) -> tuple[dict[str, Any], Tensors]:
    """The document and the tensors of a file that is whole and unaltered."""
    tensors = {name: own.copy() for name, own in st.load(content).items()}  # which checks every size and offset
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    document = json.loads(header["__metadata__"]["isobag"])
    if document["format"] != FORMAT:
        raise ModelFileError(
            f"format {document['format']!r:.20}, written by isobag {document['library']!s:.20}; this version reads "
            f"format {FORMAT} alone: learn the model again, or read it with that version."
        )
    if _digest(content, document["sha256"]) != document["sha256"]:
        raise ModelFileError("the content does not match the checksum; the file was altered.")
    return document, tensors


def _digest(content: bytes, checksum: str) -> str:
    return hashlib.sha256(_with_checksum(content, checksum, _NO_CHECKSUM)).hexdigest()


def _with_checksum(content: bytes, old: str, new: str) -> bytes:
    """The same with another checksum, which stands before all else in the document."""
    return content.replace(old.encode(), new.encode(), 1)


@contextmanager
def _refusing(path: str | os.PathLike[str]) -> Iterator[None]:
    """A context in which whatever is wrong with the content of a file is a ModelFileError that names it."""
    try:
        yield
    except OSError:
        raise
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)!r} is refused: {error}") from None
    except Exception as error:  # whatever a hostile file makes json, safetensors, NumPy or a model say
        reason = f"{type(error).__name__}: {error}"[:200]
        raise ModelFileError(f"{os.fspath(path)!r} is not a model file, or was altered ({reason}).") from None


def _open_without_waiting(path: str, flags: int) -> int:
    """Open without blocking on a pipe that has no writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
