"""Files that are there whole or not at all."""

import errno
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
_PREFIX, _SUFFIX = ".isobag-", ".part"
_DAY = 86_400


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file so that under its name there is the old content or all of the new, whatever fails in between."""
    with writing(path) as file:
        file.write(content)


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file to write to that takes its name at the end, if nothing fails; else nothing is changed.

    The content goes to a temporary file in the same folder, down to the disk, and only then takes the name.
    """
    target = Path(os.path.realpath(path))  # a link stays a link
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder to write to", str(target.parent))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "need the name of a file, this is a folder", str(target))
    _remove_leftovers(target.parent)
    # Not tempfile: its files are for their owner alone, and this one is to have the usual permissions.
    temporary = target.with_name(f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        if error.errno in _FULL:
            raise OSError(error.errno, "the disk is full, and nothing was changed", str(target)) from None
        if error.filename == str(temporary):  # a name that the user has not chosen
            raise type(error)(error.errno, error.strerror, str(target)) from None
        raise
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(target.parent)


def _remove_leftovers(folder: Path) -> None:
    """Remove temporary files of killed processes: those not written to for a day."""
    with suppress(OSError):  # a folder may be writable and not readable
        for leftover in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
            if leftover.lstat().st_mtime < time.time() - _DAY:
                leftover.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make the new name outlast a power cut, where the system lets folders be synced."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
