"""The app at which commands register."""

from importlib import import_module
from typing import Annotated

import typer

from isobag.cli.compare import compare
from isobag.cli.demo import demo
from isobag.cli.explain import explain
from isobag.cli.fit import fit
from isobag.cli.groups import groups
from isobag.cli.points import points
from isobag.cli.reproduce import reproduce
from isobag.cli.score import score

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)


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
    """Anomalies without labels, odd points and odd groups, by the Isolation Distributional Kernel."""


for command in (points, groups, fit, score, explain, compare, demo, reproduce):
    app.command()(command)
