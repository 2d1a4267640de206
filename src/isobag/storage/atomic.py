"""Files that are there whole or not at all."""

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))


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
    # Not tempfile: its files are for their owner alone, and this one is to have the usual permissions.
    passing = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with open(passing, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(passing, target)
    except OSError as error:
        if error.errno in _FULL:
            raise OSError(error.errno, "the disk is full, and nothing was changed", str(target)) from None
        if error.filename == str(passing):  # a name that nobody has given
            raise type(error)(error.errno, error.strerror, str(target)) from None
        raise
    finally:
        passing.unlink(missing_ok=True)
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Make the new name outlast a power cut, where the system lets folders be synced."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
