"""What every command does about errors: one sentence on standard error and an exit code, no traceback.

Options are named in it as they were typed: the library says max_samples=1, the command --psi 1.
"""

import errno
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any

import typer

from isobag.cli.process import FAILED, StoppedError
from isobag.tables.terminal import escape_for_terminal

if TYPE_CHECKING:
    from isobag.data.params import Option

STOPPED = 130
STOPPED_SENTENCE = "Stopped; no file is left half-written."
_EXTRAS = {"duckdb": "cli", "pyarrow": "cli", "safetensors": "files", "jinja2": "report"}
_EXTRAS |= {"mcp": "mcp", "openpyxl": "excel"}
_EXPECTED = (ValueError, TypeError, OSError, ImportError, OverflowError)
_SPELLINGS = {
    "max_samples": ("--max-samples", "--psi"),
    "n_estimators": ("--n-estimators", "-t"),
    "n_jobs": ("--jobs",),
}
_typed: list[str] = []


def guarded(command: Callable[..., None], failed: int = FAILED) -> Callable[..., None]:
    """The command, with errors in one sentence.

    Exit codes: ``failed`` if it failed, 2 if misused, 130 if stopped by Ctrl-C,
    128 plus the number of another signal.
    """

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except (KeyboardInterrupt, StoppedError) as stopped:
            typer.echo(STOPPED_SENTENCE, err=True)
            raise typer.Exit(stopped.code if isinstance(stopped, StoppedError) else STOPPED) from None
        except Exception as error:
            is_closed_pipe = isinstance(error, OSError) and error.errno == errno.EPIPE
            if is_closed_pipe and failed == FAILED:
                raise
            with suppress(OSError):  # the exit code says it too
                if kwargs.get("debug"):
                    traceback.print_exc()
                else:
                    typer.echo(f"Error: {escape_for_terminal(sentence_of(error))}", err=True)
            raise typer.Exit(failed) from None

    return run


def sentence_of(error: Exception) -> str:
    """An error in one sentence; untrusted text in it is not escaped yet."""
    if isinstance(error, typer.BadParameter):
        return error.format_message()
    if isinstance(error, MemoryError):
        return "Out of memory; choose fewer features, or fewer rows with --sql."
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}."
    if isinstance(error, ModuleNotFoundError) and error.name in _EXTRAS:
        return f"This needs {error.name}, which is not installed: pip install 'isobag[{_EXTRAS[error.name]}]'."
    from isobag.data.params import ParameterError  # noqa: PLC0415, loads NumPy

    said = error.spelled(on_command_line) if isinstance(error, ParameterError) else str(error)
    said = " ".join(said.split())
    if isinstance(error, _EXPECTED):
        return said or type(error).__name__
    return f"{type(error).__name__}: {said} (unexpected; --debug shows where)"


def remember(args: Sequence[str]) -> None:
    """Keep what was typed, for errors."""
    _typed[:] = args


def on_command_line(option: "Option") -> str:
    """An option as it was typed, or would be: --bad-cells missing."""
    known = _SPELLINGS.get(option.name, (f"--{option.name.replace('_', '-')}",))
    typed = [one for one in known if any(arg == one or arg.startswith(f"{one}=") for arg in _typed)]
    short = [one for one in known if len(one) == 2 and any(arg.startswith(one) for arg in _typed)]
    name = (typed or short or list(known))[0]
    return name if option.value is None else f"{name} {option.value}"
