"""What a process finds around it: signals that end it, closed or narrow streams, and what is slow to load."""

import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import MetaPathFinder
from types import FrameType, ModuleType
from typing import Any, NoReturn

_SIGNALS = ("SIGTERM", "SIGHUP")


class StoppedError(BaseException):
    """A signal asks the process to end; whoever has begun a file removes it on the way."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


def on_signals_stop() -> None:
    """End on SIGTERM and SIGHUP as on Ctrl-C: part files are removed, and the exit status is 128 plus the signal."""
    for name in _SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _stop)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # once is enough: what cleans up is not to be stopped itself
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


class _LoadedWhenUsed(ModuleType):
    """Stands for a module until something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name == "__file__":  # asked of every module by those who look for source code
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


class _PandasNotFound(MetaPathFinder):
    """Says that pandas is not there."""

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is not used here", name=fullname)


@contextmanager
def without_pandas() -> Iterator[None]:
    """A context in which scikit-learn and Arrow load without what no command uses: half of the time to start.

    Both look whether pandas is there and do without it if not; scikit-learn loads scipy.stats for one function that it
    seldom calls.
    """
    if "sklearn" not in sys.modules:
        sys.modules.setdefault("scipy.stats", _LoadedWhenUsed("scipy.stats"))
    finder = _PandasNotFound()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
