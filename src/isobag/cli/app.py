"""The app at which commands register."""

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


@app.callback()
def isobag() -> None:
    """Anomalies without labels, odd points and odd groups, by the Isolation Distributional Kernel."""


for command in (points, groups, fit, score, explain, compare, demo, reproduce):
    app.command()(command)
