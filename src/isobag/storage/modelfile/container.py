"""The bytes of a model file: a safetensors file whose metadata hold one JSON document under the name "isobag".

8 bytes: length of the header; the header, JSON: the metadata, and dtype, shape and place of every tensor; the tensors.
The document has the version of the format, the version of the library, a SHA-256 of the whole file with 64 zeros in
place of that SHA-256 itself, and the model. Sizes are compared with the file's before anything is read or allocated.
"""

import hashlib
import json
import math
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from isobag.storage.atomic import writing

FORMAT = 3
"""Version of the format. A file of any version up to this one can be loaded."""
LONGEST_HEADER = 1 << 24
_NO_CHECKSUM = "0" * 64
_DTYPES = {
    "bool": "BOOL",
    **{f"{kind}{bits}": f"{kind[0].upper()}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"F{bits}" for bits in (16, 32, 64)},
}
"""What safetensors calls types of numbers."""
_NAMES = {name: dtype for dtype, name in _DTYPES.items()}

Tensors = dict[str, npt.NDArray[Any]]


class ModelFileError(ValueError):
    """Not a model file, or one that is truncated, altered or from a newer isobag; or a model that no file can hold."""


@contextmanager
def refusing(path: str | os.PathLike[str], kind: str) -> Iterator[None]:
    """A context in which whatever is wrong with the content of a file is a ModelFileError that names it."""
    try:
        yield
    except (OSError, ImportError):
        raise
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)!r} is refused: {error}") from None
    except Exception as error:  # whatever a hostile file makes json, safetensors or NumPy say
        reason = f"{type(error).__name__}: {error}"[:200]
        raise ModelFileError(f"{os.fspath(path)!r} is {kind}, or was altered ({reason}).") from None


def write_container(path: str | os.PathLike[str], document: dict[str, Any], tensors: Tensors) -> None:
    """Write a document and its tensors, with the versions and the checksum: part by part, with no copy of the whole."""
    whole = {"format": FORMAT, **document, "sha256": _NO_CHECKSUM}
    start, names = _header(json.dumps(whole, allow_nan=False), tensors)
    if len(start) > LONGEST_HEADER:
        raise ModelFileError(
            f"the header has {len(start):,} bytes; need at most {LONGEST_HEADER:,}: shorten the names."
        )
    digest = hashlib.sha256(start)
    for name in names:
        digest.update(_bytes_of(tensors[name]))
    place = start.rindex(_NO_CHECKSUM.encode())
    with writing(path) as file:
        file.write(start[:place] + digest.hexdigest().encode() + start[place + len(_NO_CHECKSUM) :])
        for name in names:
            file.write(_bytes_of(tensors[name]))


def _header(document: str, tensors: Tensors) -> tuple[bytes, list[str]]:
    """What stands before the tensors, and the names of these in their order: wide numbers first, so that all align."""
    names = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))
    content: dict[str, Any] = {"__metadata__": {"isobag": document}}
    end = 0
    for name in names:
        tensor = tensors[name]
        entry = {"dtype": _DTYPES[tensor.dtype.name], "shape": list(tensor.shape)}
        content[name] = {**entry, "data_offsets": [end, end + tensor.nbytes]}
        end += tensor.nbytes
    header = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header, names


def _bytes_of(tensor: npt.NDArray[Any]) -> memoryview:
    """The bytes of a tensor as they stand in the file, the low ones first."""
    low_first = tensor.astype(tensor.dtype.newbyteorder("<"), copy=False)
    return low_first.reshape(-1).view(np.uint8).data


def read_container(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Tensors]:
    """The document and the tensors of a file that is whole and unaltered: part by part, with no copy of the whole."""
    _safetensors()
    with open(path, "rb", opener=_open_without_waiting) as file:
        start = _read_start(file)
        header = json.loads(start[8:])
        document = json.loads(header.pop("__metadata__")["isobag"], parse_constant=_refuse_constant)
        version = document["format"]
        if type(version) is not int or version < 1:
            raise ModelFileError(f"format version {version!r:.40}; need a positive integer.")
        if version > FORMAT:
            library = str(document.get("library"))[:40]
            raise ModelFileError(
                f"format version {version}, written by isobag {library}; this isobag reads up to {FORMAT}: upgrade it."
            )
        digest, tensors = _begin_checksum(start, document["sha256"]), {}
        for name, entry in sorted(header.items(), key=lambda named: named[1]["data_offsets"]):
            begin, end = entry["data_offsets"]
            dtype = np.dtype(_NAMES[entry["dtype"]])
            if len(start) + begin != file.tell() or math.prod(entry["shape"]) * dtype.itemsize != end - begin:
                raise ModelFileError("its parts do not follow one another; it was altered.")
            tensors[name] = np.empty(entry["shape"], dtype)
            content = tensors[name].reshape(-1).view(np.uint8).data
            if file.readinto(content) != end - begin:
                raise ModelFileError("it changed while it was read.")
            digest.update(content)
            if sys.byteorder == "big":
                tensors[name] = tensors[name].byteswap()
    if digest.hexdigest() != document["sha256"]:
        raise ModelFileError("the content does not match the checksum; the file was altered.")
    return document, tensors


def _read_start(file: BinaryIO) -> bytes:
    """The bytes before the tensors of a regular file whose sizes add up."""
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise ModelFileError("not a regular file.")
    start = file.read(8)
    length = int.from_bytes(start, "little")
    if len(start) < 8 or length + 8 > status.st_size or length + 8 > LONGEST_HEADER:
        raise ModelFileError(
            f"its header has {length:,} bytes and the file {status.st_size:,}; truncated, or not a model file."
        )
    header = file.read(length)
    ends = [entry["data_offsets"][1] for name, entry in json.loads(header).items() if name != "__metadata__"]
    size = 8 + length + max(ends, default=0)
    if size != status.st_size:
        raise ModelFileError(f"its parts have {size:,} bytes and the file {status.st_size:,}; truncated or altered.")
    return start + header


def _open_without_waiting(path: str, flags: int) -> int:
    """Open without blocking on a pipe that has no writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _begin_checksum(start: bytes, claimed: Any) -> Any:
    """The digest of what stands before the tensors."""
    if not isinstance(claimed, str) or len(claimed) != 64 or start.count(claimed.encode()) != 1:
        raise ModelFileError("the checksum is missing; the file was altered.")
    return hashlib.sha256(start.replace(claimed.encode(), _NO_CHECKSUM.encode()))


def _refuse_constant(name: str) -> None:
    raise ModelFileError(f"{name} instead of a finite number.")


def _safetensors() -> Any:
    try:
        import safetensors.numpy  # noqa: PLC0415, an extra: most users of the library save no models
    except ImportError:
        raise ImportError('Model files need safetensors, which is missing: pip install "isobag[files]".') from None
    return safetensors.numpy
