"""The command line: ``isobag COMMAND``, one file for each command."""

import atexit
import gc
import os
import sys

_NEEDED = ("typer", "rich")


def main() -> None:
    """Run the command line, or say in one sentence what to install for it."""
    # What a command loads stays to its end: looking through it for garbage every so often takes a fifth of a short run.
    gc.set_threshold(100_000, 50, 50)
    try:
        from isobag.cli.app import app  # noqa: PLC0415, typer may be missing
        from isobag.cli.surroundings import on_signals_stop, prepare_streams  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name not in _NEEDED:
            raise
        sys.exit(f"The command line needs {error.name}, which is not installed: pip install 'isobag[cli]'.")
    prepare_streams()
    on_signals_stop()
    try:
        app(prog_name="isobag")
    except SystemExit as done:
        if isinstance(done.code, str):
            raise
        _leave(done.code or 0)


def _leave(code: int) -> None:
    """End the process at once: taking apart all that was loaded takes another fifth of a short run."""
    atexit._run_exitfuncs()  # noqa: SLF001, there is no other way to run them
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:  # whoever read it has left
        code = code or 1
    except OSError as error:
        os.write(2, f"Error: standard output: {error.strerror}.\n".encode())
        code = code or 1
    os._exit(code)
