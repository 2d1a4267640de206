"""The process a command runs in: signals that end it, and standard streams that are closed, narrow or full."""

import errno
import io
import os
import signal
import sys
from types import FrameType
from typing import Any, NoReturn

_SIGNALS = ("SIGTERM", "SIGHUP")
FAILED = 1


class StoppedError(BaseException):
    """A signal asks the process to end; open part files are removed while it propagates."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


def stop_on_signals() -> None:
    """End on SIGTERM and SIGHUP as on Ctrl-C: part files are removed, and the exit status is 128 plus the signal."""
    for name in _SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _stop)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # a second signal must not interrupt the clean-up
    raise StoppedError(number)


def prepare_streams() -> None:
    """Let any text be printed: a closed stream swallows it, and one of few characters shows others as escapes."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, open to the end
        elif isinstance(stream, io.TextIOWrapper) and not speaks_utf8(stream):
            stream.reconfigure(errors="backslashreplace")


def speaks_utf8(stream: Any) -> bool:
    """Whether all characters can be written to a stream as they are."""
    return (getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "").replace("_", "") == "utf8"


def finish_output(code: Any) -> Any:
    """Write what is still buffered for standard output; the exit status, which says if that failed.

    A command that could not write all of its output has failed even if everything else went well. What cannot be
    written is given up, so that the interpreter does not try and report it once more while it ends.
    """
    try:
        sys.stdout.flush()
        return code
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not code and error.errno != errno.EPIPE:  # EPIPE: the reader has left, and wants no explanation
            print(f"Error: standard output: {error.strerror}.", file=sys.stderr)
        return code or FAILED
