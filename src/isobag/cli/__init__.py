"""The command line: ``isobag COMMAND``, one file for each command."""

import sys

_MISUSED = 2  # 1 would say that a limit is passed


def main() -> None:
    """Run the command line, or say in one sentence what to install for it."""
    try:
        from isobag.cli.app import app  # noqa: PLC0415, typer may be missing
        from isobag.cli.process import finish_output, prepare_streams, stop_on_signals  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "typer":
            raise
        print("The command line needs typer, which is not installed: pip install 'isobag[cli]'.", file=sys.stderr)
        sys.exit(_MISUSED)
    prepare_streams()
    stop_on_signals()
    try:
        app(prog_name="isobag")
    except SystemExit as end:
        sys.exit(finish_output(end.code))
