"""Files that are there whole or not at all."""

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # not on Windows: there, what a killed process leaves behind stays
    fcntl = None  # type: ignore[assignment]  # Windows has no such module

_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
_PREFIX, _SUFFIX = ".isobag-", ".part"


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file so that under its name there is the old content or all of the new, whatever fails in between."""
    with writing(path) as file:
        file.write(content)


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file to write to that takes its name at the end, if nothing fails; else nothing is changed.

    The content goes to a temporary file in the same folder, down to the disk, and only then takes the name. What a
    killed process has left there in its time is removed first.
    """
    target = Path(os.path.realpath(path))  # a link stays a link
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder to write to", str(target.parent))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "need the name of a file, this is a folder", str(target))
    remove_leftovers(target.parent)
    # Not tempfile: its files are for their owner alone, and this one is to have the usual permissions.
    passing = target.with_name(f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}")
    try:
        with _open_marked(passing) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if fcntl is None:
                file.close()
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


def remove_leftovers(folder: Path) -> None:
    """Remove our own temporary files that no process is writing to any more: a lock ends with its process."""
    if fcntl is None:
        return
    try:
        names = [one for one in os.listdir(folder) if one.startswith(_PREFIX) and one.endswith(_SUFFIX)]
    except OSError:  # one may be allowed to write to a folder and not to list it
        return
    for name in names:
        _remove_if_unused(folder / name)


def _remove_if_unused(path: Path) -> None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    try:
        if os.fstat(handle).st_uid == os.geteuid():
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
    except OSError:  # in use, or a file system without locks
        pass
    finally:
        os.close(handle)


def _open_marked(path: Path) -> IO[bytes]:
    """A new file, marked as being written to until it is closed."""
    while True:
        file = open(path, "xb")  # noqa: SIM115, closed by the caller
        if fcntl is None:
            return file
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:  # a file system without locks: nobody can take it for a leftover there either
            return file
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()  # taken for a leftover before it was marked


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
