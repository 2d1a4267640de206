"""``isobag mcp``: the commands that read, as tools for programs that speak the Model Context Protocol."""

from pathlib import Path

from isobag.cli.options import Typed, command, option


@command("root debug", root=option(Path, ..., None, "FOLDER", "Files are read below this folder, and nowhere else."))
def mcp(typed: Typed) -> None:
    """Serve points, groups, score, check, explain and compare as tools, on standard input and output.

    For programs that speak the Model Context Protocol. No tool writes a file or runs a query.
    """
    from isobag.cli.serving import server_of  # noqa: PLC0415, loads the SDK

    server_of(typed.root).run("stdio")
