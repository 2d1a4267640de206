"""The bytes of a model file: a safetensors file whose metadata hold one JSON document under the name "isobag".

8 bytes: length of the header; the header, JSON: the metadata, and dtype, shape and place of every tensor; the tensors.
The document has the version of the format, the version of the library, a SHA-256 of the whole file with 64 zeros in
place of that SHA-256 itself, and the model. Sizes are compared with the file's before anything is read or allocated.
"""

import hashlib
import json
import os
import stat
from typing import Any

import numpy.typing as npt

from isobag.storage.atomic import write_whole

FORMAT = 3
"""Version of the format. A file of any version up to this one can be loaded."""
LONGEST_HEADER = 1 << 24
_NO_CHECKSUM = "0" * 64

Tensors = dict[str, npt.NDArray[Any]]


class ModelFileError(ValueError):
    """A file that is no model file, is cut off, altered or from a newer isobag; or a model that no file can hold."""


def write_container(path: str | os.PathLike[str], document: dict[str, Any], tensors: Tensors) -> None:
    """Write a document and its tensors, with the versions and the checksum."""
    save = _safetensors().save
    whole = {"format": FORMAT, **document, "sha256": _NO_CHECKSUM}
    content = save(tensors, {"isobag": json.dumps(whole, allow_nan=False)})
    header_end = 8 + int.from_bytes(content[:8], "little")
    if header_end > LONGEST_HEADER:
        raise ModelFileError(
            f"the header has {header_end:,} bytes; need {LONGEST_HEADER:,} or fewer: shorten the names."
        )
    place = content.rindex(_NO_CHECKSUM.encode(), 0, header_end)
    checksum = hashlib.sha256(content).hexdigest().encode()
    write_whole(path, content[:place] + checksum + content[place + len(checksum) :])


def read_container(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Tensors]:
    """The document and the tensors of a file that is whole and unaltered."""
    load = _safetensors().load
    content = _read_checked(path)
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    document = json.loads(header["__metadata__"]["isobag"], parse_constant=_refuse_constant)
    version = document["format"]
    if type(version) is not int or version < 1:
        raise ModelFileError(f"format version {version!r:.40}; need a positive integer.")
    if version > FORMAT:
        library = str(document.get("library"))[:40]
        raise ModelFileError(
            f"format version {version}, written by isobag {library}; this isobag reads up to {FORMAT}: upgrade it."
        )
    _check_checksum(content, document["sha256"])
    return document, load(content)


def _read_checked(path: str | os.PathLike[str]) -> bytes:
    """All bytes of a regular file whose sizes add up."""
    with open(path, "rb", opener=_open_without_waiting) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ModelFileError("no regular file.")
        start = file.read(8)
        length = int.from_bytes(start, "little")
        if len(start) < 8 or length + 8 > status.st_size or length + 8 > LONGEST_HEADER:
            raise ModelFileError(
                f"it claims a header of {length:,} bytes and has {status.st_size:,} in all; cut off, or no model file."
            )
        header = file.read(length)
        ends = [entry["data_offsets"][1] for name, entry in json.loads(header).items() if name != "__metadata__"]
        size = 8 + length + max(ends, default=0)
        if size != status.st_size:
            raise ModelFileError(f"its parts make {size:,} bytes and it has {status.st_size:,}; cut off or altered.")
        return start + header + file.read(size - len(start) - len(header))


def _open_without_waiting(path: str, flags: int) -> int:
    """A pipe without a writer would be waited for."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _check_checksum(content: bytes, claimed: Any) -> None:
    header_end = 8 + int.from_bytes(content[:8], "little")
    if not isinstance(claimed, str) or len(claimed) != 64 or content.count(claimed.encode(), 0, header_end) != 1:
        raise ModelFileError("it has no checksum; altered.")
    found = hashlib.sha256(content.replace(claimed.encode(), _NO_CHECKSUM.encode(), 1)).hexdigest()
    if found != claimed:
        raise ModelFileError("its content does not match its checksum; altered.")


def _refuse_constant(name: str) -> None:
    raise ModelFileError(f"it has {name} where a number is needed.")


def _safetensors() -> Any:
    try:
        import safetensors.numpy  # noqa: PLC0415, an extra: most users of the library save no models
    except ImportError:
        raise ImportError('Model files need safetensors, which is missing: pip install "isobag[files]".') from None
    return safetensors.numpy
