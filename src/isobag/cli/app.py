"""The app at which commands register."""

import typer

from isobag.cli.reproduce import reproduce

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def isobag() -> None:
    """Anomalies without labels, odd points and odd groups, by the Isolation Distributional Kernel."""


app.command()(reproduce)
