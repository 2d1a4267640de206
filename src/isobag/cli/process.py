"""The process a command runs in: errors in one sentence and an exit code, signals, standard streams.

Errors name options instead of parameters: the library says max_samples=1, the command --max-samples 1. Streams may be
closed, narrow or full.
"""

import errno
import io
import os
import re
import shutil
import signal
import sys
import textwrap
import traceback
from collections.abc import Callable, Container
from contextlib import suppress
from functools import wraps
from types import FrameType
from typing import Any, NoReturn, TextIO

import typer

from isobag.tables.terminal import escape_for_terminal

TOO_MANY, FAILED = 1, 2
"""Exit status where more is flagged than `score --max-odd` allows, and where something went wrong."""
STOPPED = 130
DEFAULT_WIDTH, MOST_WIDTH = 100, 160
STOPPED_SENTENCE = "Stopped; no file is left half-written."
_EXTRAS = {"duckdb": "cli", "jinja2": "report", "mcp": "mcp", "anyio": "mcp", "openpyxl": "excel"}
_EXPECTED = (ValueError, TypeError, OSError, ImportError, OverflowError)
_PARAMETER = re.compile(r"""(?<![^\s(])([a-z_]+)=(?:'([^']*)'|"([^"]*)"|(-?[\w.+-]*\w))?""")
"""A parameter in a sentence of the library, by itself or with its value: features= or missing='drop'."""
_NONE = re.compile(r"(?<=need |e of )None(?: or|,) ")
"""The value that an option has which is not given."""
_RENAMED = {"n_jobs": "jobs", "random_state": "seed"}


def stop_on_signals() -> None:
    """End on SIGTERM and SIGHUP as on Ctrl-C: part files are removed, and the exit status is 128 plus the signal."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _stop)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # a second signal must not interrupt the clean-up
    raise KeyboardInterrupt(128 + number)  # open part files are removed while it propagates


def prepare_streams() -> None:
    """Let any text be printed: a closed stream swallows it, and one of few characters shows others as escapes."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, open to the end
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def terminal_width() -> int:
    """Width of the terminal, else of a page."""
    if not (sys.stdout.isatty() or sys.stderr.isatty()):
        return DEFAULT_WIDTH
    return min(MOST_WIDTH, shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns)


def filled(text: str, stream: TextIO) -> str:
    """A sentence in lines of the terminal; elsewhere in one."""
    if not stream.isatty():
        return text
    return textwrap.fill(text, terminal_width(), break_long_words=False, break_on_hyphens=False)


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
        if not code and error.errno != errno.EPIPE:  # EPIPE: nobody reads any more
            print(f"Error: standard output: {error.strerror}.", file=sys.stderr)
        return code or FAILED


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with errors in one sentence.

    Exit codes: 2 if it failed or was misused, 130 if stopped by Ctrl-C, 128 plus the number of another signal.
    """

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except KeyboardInterrupt as stopped:
            typer.echo(STOPPED_SENTENCE, err=True)
            raise typer.Exit(stopped.args[0] if stopped.args else STOPPED) from None
        except Exception as error:
            is_closed_pipe = isinstance(error, OSError) and error.errno == errno.EPIPE
            with suppress(OSError):  # the exit code reports it too
                if kwargs.get("debug"):
                    traceback.print_exc()
                elif not is_closed_pipe:  # nobody reads any more
                    sentence = escape_for_terminal(sentence_of(error, kwargs))
                    typer.echo(filled(f"Error: {sentence}", sys.stderr), err=True)
            raise typer.Exit(FAILED) from None

    return run


def sentence_of(error: Exception, options: Container[str]) -> str:
    """An error in one sentence, in which parameters are options; untrusted text in it is not escaped yet."""
    if isinstance(error, typer.BadParameter):
        return error.format_message()
    if isinstance(error, MemoryError):
        return "Out of memory; choose fewer features, or fewer rows with --sql."
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}."
    if isinstance(error, ModuleNotFoundError) and error.name in _EXTRAS:
        return f"This needs {error.name}, which is not installed: pip install 'isobag[{_EXTRAS[error.name]}]'."
    sentence = on_command_line(" ".join(str(error).split()), options)
    if isinstance(error, _EXPECTED):
        return sentence or type(error).__name__
    return f"{type(error).__name__}: {sentence} (unexpected; --debug shows where)"


def on_command_line(sentence: str, options: Container[str]) -> str:
    """A sentence of the library with those of its parameters that are options written as such.

    >>> on_command_line("max_samples=1; pass missing='drop' or features= without it.", {"missing", "features"})
    'max_samples=1; pass --missing drop or --features without it.'
    """

    def option(match: re.Match[str]) -> str:
        name = _RENAMED.get(match[1], match[1])
        if name not in options:
            return match[0]
        value = next((text for text in match.groups()[1:] if text is not None), None)
        return f"--{name.replace('_', '-')}" + ("" if value is None else f" {value}")

    return _PARAMETER.sub(option, _NONE.sub("", sentence))
