"""``isobag mcp``, by the SDK's own client: results of the command, files below the root and no others."""

import asyncio
import json
import os
import sys

import numpy as np
import pandas as pd
import pytest

if os.environ.get("CI_ADAPTERS") != "1":
    pytest.importorskip("mcp")
from commands import assert_one_sentence, run
from mcp import Client, StdioServerParameters

from isobag.adapters.mcp import TOOLS, Folder
from isobag.adapters.mcp import server_of as new_server
from isobag.cli.commands import compare, detect, explain, score

pytestmark = pytest.mark.filterwarnings("ignore")  # the SDK's own, about its versions
NAMES = ["detect", "score", "explain", "compare"]


def server_of(root):
    return new_server(root, (detect, score, explain, compare))


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A folder with tables and models, and links that lead out of it."""
    outside = tmp_path_factory.mktemp("outside")
    root, rng = outside / "root", np.random.default_rng(0)
    (root / "sub").mkdir(parents=True)
    table = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"]).assign(who=np.arange(300) % 10)
    new = table.mask(np.arange(300)[:, None] == np.full(3, 7), 60)
    for path, frame in {"t.csv": table, "sub/new.csv": new, "../secret.csv": table, "-x.csv": table}.items():
        frame.to_csv(root / path, index=False)
    (root / "link.csv").symlink_to(outside / "secret.csv")
    (root / "folder").symlink_to(outside)
    (root / "inside.csv").symlink_to(root / "sub" / "new.csv")
    (root / "json.py").write_text("raise SystemExit('a module of the folder was imported')\n")
    for name, more in {"rows": (), "groups": ("--by", "who")}.items():
        model = ("--features", "a,b", "--save-model", root / f"{name}.isobag", "-t", 20)
        assert run("fit", root / "t.csv", *more, *model).exit_code == 0
    return root


def call(root, *calls):
    """Results of calls, one after the other, of one session in this process."""

    async def session():
        async with Client(server_of(root)) as client:
            return [await client.call_tool(name, arguments) for name, arguments in calls]

    return asyncio.run(session())


def asked(root, *args):
    before = os.getcwd()
    os.chdir(root)
    try:
        return json.loads(run(*args, "--json").stdout)
    finally:
        os.chdir(before)


def test_tools_are_the_commands_that_read_with_their_options_and_help(root):
    async def tools():
        async with Client(server_of(root)) as client:
            return {tool.name: tool for tool in (await client.list_tools()).tools}

    listed = asyncio.run(tools())
    assert [*listed] == NAMES == [*TOOLS]
    for tool in listed.values():
        schema = tool.input_schema
        assert tool.description and tool.annotations.read_only_hint and schema["additionalProperties"] is False
        assert all(own["description"] for own in schema["properties"].values())
        assert not {"sql", "out", "report", "junit", "engine", "keep"} & set(schema["properties"])
    assert set(listed["detect"].input_schema["required"]) == {"files"}
    assert set(listed["explain"].input_schema["required"]) == {"model", "files", "id"}


def test_results_are_what_the_command_prints_as_json(root):
    calls = [
        ("detect", {"files": ["t.csv"], "features": "a,b", "top": 3}),
        ("detect", {"files": ["t.csv"], "by": "who", "top": 2}),
        ("score", {"model": "rows.isobag", "files": ["sub/new.csv"], "fdr": 0.1}),
        ("score", {"model": "rows.isobag", "files": ["sub/new.csv"], "max_odd": 0.0}),
        ("explain", {"model": "groups.isobag", "files": ["t.csv"], "id": "3"}),
        ("compare", {"a": "t.csv", "b": "sub/new.csv", "n_permutations": 19}),
    ]
    wanted = [
        ("detect", "./t.csv", "--features", "a,b", "--top", 3),
        ("detect", "./t.csv", "--by", "who", "--top", 2),
        ("score", "rows.isobag", "./sub/new.csv", "--fdr", 0.1),
        ("score", "rows.isobag", "./sub/new.csv", "--max-odd", 0),
        ("explain", "groups.isobag", "./t.csv", "--id", 3),
        ("compare", "./t.csv", "./sub/new.csv", "--n-permutations", 19),
    ]
    for args, result in zip(wanted, call(root, *calls), strict=True):
        assert not result.is_error, result.content
        assert result.structured_content == asked(root, *args)
        assert json.loads(result.content[0].text) == result.structured_content


def test_files_are_named_by_globs_links_within_the_root_and_names_with_a_dash(root):
    names = ["sub/*.csv", "inside.csv", "-x.csv", str(root / "t.csv")]
    assert Folder(root.resolve()).files(names) == ["./sub/new.csv", "./sub/new.csv", "./-x.csv", "./t.csv"]
    (result,) = call(root, ("detect", {"files": ["-x.csv"], "top": 1}))
    assert result.structured_content["table"]["files"] == ["./-x.csv"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../secret.csv", "has '..' in it"),
        ("sub/../../secret.csv", "has '..' in it"),
        ("link.csv", "not below the folder"),
        ("folder/secret.csv", "not below the folder"),
        ("folder/*.csv", "not below the folder"),
        ("/etc/passwd", "not below the folder"),
        ("-", "No file matches"),
        ("none.csv", "No file matches"),
        ("*.parquet", "No file matches"),
        ("sub", "No file matches"),
        ("a\0b.csv", "is not the name of a file"),
    ],
)
def test_files_elsewhere_are_refused(root, name, message):
    for tool, arguments in (
        ("detect", {"files": ["t.csv", name]}),
        ("score", {"model": name, "files": ["t.csv"]}),
        ("compare", {"a": "t.csv", "b": name}),
    ):
        (result,) = call(root, (tool, arguments))
        assert result.is_error and message in result.content[0].text and result.structured_content is None


def test_errors_of_the_command_are_one_sentence(root):
    bad = ("detect", {"files": ["t.csv"], "features": "a,nothing"})
    misspelt = ("detect", {"files": ["t.csv"], "feature": "a"})
    none = ("detect", {"files": []})
    sly = ("detect", {"files": ["t.csv"], "features": "a --out=x.csv"})
    first, second, third, last = call(root, bad, misspelt, none, sly)
    assert first.is_error and "has 'nothing'; the table has no such column" in first.content[0].text
    assert second.is_error and "feature" in second.content[0].text and third.is_error
    assert last.is_error and not (root / "x.csv").exists()


def test_the_command_serves_on_standard_input_and_output(root):
    async def session():
        parameters = StdioServerParameters(
            command=sys.executable, args=["-m", "isobag", "mcp", "--root", str(root)], env={**os.environ}
        )
        async with Client(parameters) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            return tools, await client.call_tool("detect", {"files": ["t.csv"], "top": 1})

    tools, result = asyncio.run(session())
    assert tools == NAMES and result.structured_content == asked(root, "detect", "./t.csv", "--top", 1)


def test_a_root_that_is_no_folder_is_an_error(root):
    assert_one_sentence(run("mcp", "--root", root / "t.csv"), "there is no such folder")
    assert_one_sentence(run("mcp"), "--root", code=2)
