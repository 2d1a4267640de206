"""The app at which commands register."""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from isobag.cli.commands import compare, demo, detect, explain, fit, mcp, score, stream, watch
from isobag.cli.process import filled, guarded
from isobag.tables.terminal import escape_for_terminal

COMMANDS = (detect, fit, score, explain, compare, watch, stream, mcp, demo)
HELP = {"help_option_names": ["-h", "--help"]}


class Group(TyperGroup):
    """All commands; misuse of one is an error of one sentence."""

    def main(self, args: Sequence[str] | None = None, **more: Any) -> Any:  # type: ignore[override]
        """Run a command and leave with its exit code."""
        typed = sys.argv[1:] if args is None else list(args)
        try:
            code = super().main(typed, **{**more, "standalone_mode": False})
        except typer.TyperException as error:
            text = error.format_message()
            if typed:  # else it is the help
                end = "?" if text.endswith("?") else "."
                path = f"isobag {typed[0]}" if typed[0] in self.commands else "isobag"
                text = f"Error: {escape_for_terminal(text.rstrip('.?'))}{end} Try '{path} --help'."
                text = filled(text, sys.stderr)
            typer.echo(text, err=True)
            code = error.exit_code
        sys.exit(code if isinstance(code, int) else 0)


class Command(TyperCommand):
    """One command; its help has a section for each panel of options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options."""
        sections: dict[str, list[Any]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                default = "Arguments" if param.param_type_name == "argument" else "Options"
                record = (record[0].split(" <")[0], record[1]) if default == "Arguments" else record
                sections.setdefault(getattr(param, "rich_help_panel", None) or default, []).append(record)
        last = sections.pop("Options", [])
        for name, records in {**sections, **({"Options": last} if last else {})}.items():
            with formatter.section(name):
                formatter.write_dl(records)


app = typer.Typer(
    no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None, cls=Group, context_settings=HELP
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"isobag {import_module('isobag').__version__}")
        raise typer.Exit


@app.callback()
def isobag(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Anomalies without labels: odd rows, and odd groups of rows."""


for command in COMMANDS:
    app.command(cls=Command, context_settings=HELP)(guarded(command))
