"""Commands as tools of the Model Context Protocol: each call runs a command with --json, on files below one folder.

A tool is described by the command it runs: its docstring, its options, their types, defaults and help. A command runs
in a process of its own, so that standard output stays the protocol's and a call that is cancelled ends at once.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from glob import glob, has_magic
from importlib import import_module
from inspect import Parameter, Signature, cleandoc, signature
from pathlib import Path
from typing import Annotated, Any

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import ToolAnnotations
from pydantic import Field

_TEXT = "delimiter na decimal thousands numbers"
_READ = "delimiter na id_column missing bad_cells"
_BAGS = "by time every sessions time_zone time_unit min_size"
TOOLS = {
    "detect": f"files {_BAGS} {_TEXT} features exclude id_column within missing bad_cells contamination seed top",
    "score": f"model files by {_READ} min_size fdr per_day days max_odd top",
    "explain": f"model files id by {_READ}",
    "compare": "a b decimal thousands numbers features exclude missing bad_cells n_permutations seed",
}
"""Commands that read, and those of their options that neither write a file nor name one that is not below the root."""
_TABLE = "CSV, TSV, JSON Lines (also .gz, .bz2, .xz, .zst), Parquet or Arrow, by its path below the root; globs."
PATHS: dict[str, Any] = {
    "files": Annotated[list[str], Field(description=f"One table in one or more files: {_TABLE}", min_length=1)],
    "model": Annotated[str, Field(description="A file written by `isobag fit`, by its path below the root.")],
    "a": Annotated[str, Field(description=f"A table: {_TABLE}")],
    "b": Annotated[str, Field(description="Another table.")],
}
"""Arguments: they name files, and must be given."""


@dataclass(frozen=True)
class Folder:
    """The folder below which files are read; its path has no links left in it."""

    root: Path

    def files(self, names: str | list[str]) -> list[str]:
        """Files by name or glob, as paths from the root without links and dots; those elsewhere are refused."""
        return [one for name in ([names] if isinstance(names, str) else names) for one in self._matching(name)]

    def _matching(self, name: str) -> list[str]:
        if ".." in Path(name).parts:
            raise ToolError(f"{name!r} has '..' in it; name files by their path below the root.")
        path = self.root / name  # an absolute path stays one, and has to lie below the root
        paths = [str(path)]
        if has_magic(name) and not path.exists():
            paths = sorted(one for one in glob(str(path), recursive=True) if os.path.isfile(one))
        listed = [self._below(name, Path(one)) for one in paths]
        if not listed:
            raise ToolError(f"No file matches {name!r}.")
        return listed

    def _below(self, name: str, path: Path) -> str:
        try:
            real = path.resolve()
        except (OSError, ValueError, RuntimeError):
            raise ToolError(f"{name!r} is not the name of a file.") from None
        if not real.is_relative_to(self.root):
            raise ToolError(f"{name!r} is not below the folder that is served.")
        if not real.is_file():
            raise ToolError(f"No file matches {name!r}.")
        return os.path.join(".", real.relative_to(self.root))


def server_of(root: str | os.PathLike[str], commands: Iterable[Callable[..., None]]) -> MCPServer[Any]:
    """A server whose tools are those of ``TOOLS`` among the commands; they read files below a folder."""
    folder = Folder(Path(root).resolve())
    if not folder.root.is_dir():
        raise ValueError(f"--root {str(root)!r}: there is no such folder.")
    tools = [_tool(folder, command, TOOLS[command.__name__].split()) for command in commands]
    instructions = "Odd rows and odd groups of tables, which are named by their paths below the root."
    version = import_module("isobag").__version__
    return MCPServer("isobag", version=version, instructions=instructions, tools=tools, log_level="WARNING")


def _tool(folder: Folder, command: Callable[..., None], names: list[str]) -> Tool:
    """A command as a tool, which refuses arguments that it does not know: one that is misspelt must not be ignored."""
    tool = Tool.from_function(
        _function(folder, command, names),
        description=cleandoc(command.__doc__ or ""),
        annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
    )
    taken = tool.fn_metadata.arg_model
    taken.model_config["extra"] = "forbid"
    taken.model_rebuild(force=True)
    tool.parameters = taken.model_json_schema(by_alias=True)
    return tool


def _function(folder: Folder, command: Callable[..., None], names: list[str]) -> Callable[..., Any]:
    """A function with the options of a command that runs it and returns what it prints as JSON."""
    options = {name: option for name, option in signature(command).parameters.items() if name in names}

    async def run(**typed: Any) -> dict[str, Any]:
        files = [file for name in options if name in PATHS for file in folder.files(typed.pop(name))]
        changed = {name: value for name, value in typed.items() if value not in (None, options[name].default)}
        args = [f"--{name.replace('_', '-')}={value}" for name, value in changed.items()]
        return await _run([command.__name__, *args, "--json", "--", *files], folder.root)

    run.__name__ = command.__name__
    parameters = sorted(map(_parameter, options.values()), key=lambda one: one.default is not Parameter.empty)
    schema = Signature(parameters, return_annotation=dict[str, Any])
    run.__signature__ = schema  # type: ignore[attr-defined]  # what the SDK reads
    run.__annotations__ = {"return": dict[str, Any]}
    return run


async def _run(args: list[str], root: Path) -> dict[str, Any]:
    """What a command prints as JSON. -P: the folder of the data is no place to import modules from."""
    command = [sys.executable, "-P", "-m", "isobag", *args]
    done = await anyio.run_process(command, stdin=subprocess.DEVNULL, cwd=root, check=False)
    if done.returncode not in (0, 1):  # 1: more is flagged than max_odd allows
        message = done.stderr.decode(errors="replace").strip()
        raise ToolError(message.removeprefix("Error: ") or f"The command ended with exit status {done.returncode}.")
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def _parameter(option: Parameter) -> Parameter:
    """An option as the SDK wants it: keyword, type, default and help."""
    kind, described = option.annotation.__origin__, option.annotation.__metadata__[0]
    default = Parameter.empty if option.name in PATHS else option.default
    annotation = PATHS.get(option.name, Annotated[kind, Field(description=described.help)])
    return Parameter(option.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
