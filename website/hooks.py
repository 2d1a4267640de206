"""Hooks of mkdocs: pages that are made, Markdown beside every page, llms.txt, and no public name without a page."""

import importlib
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from mkdocs.exceptions import Abort
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

DOCUMENTED = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)
ANCHOR = re.compile(r'\bid="(isobag[\w.]*)"')
ALL_OPTIONS = "<!-- the help of every command -->"

_markdown: dict[str, tuple[str, str]] = {}
_anchors: set[str] = set()


REPORTS = {
    "benchmarks/REPORT.md": "studies/performance.md",
    "paper/REPORT.md": "studies/paper.md",
    **{
        f"study/REPORT_{name.upper()}.md": f"studies/{name}.md"
        for name in ("defaults", "study", "suite", "streams", "watch")
    },
}
"""Reports outside of docs, and their pages."""


def on_pre_build(config: Any) -> None:
    """Forget what an earlier build in this process has seen."""
    _markdown.clear()
    _anchors.clear()


def on_files(files: Any, config: Any) -> Any:
    """Add the changelog and the reports as pages; links of the changelog are seen from docs."""
    changes = (ROOT / "CHANGELOG.md").read_text().replace("](docs/", "](")
    changes = re.sub(r"\[([^]]+)\]\((?:CONTRIBUTING|SECURITY)\.md\)", r"`\1`", changes)
    files.append(File.generated(config, "changes.md", content=changes))
    for report, page in REPORTS.items():
        text = (ROOT / report).read_text().replace("](../docs/", "](../")
        for other, place in REPORTS.items():
            text = text.replace(f"]({Path(other).name})", f"]({Path(place).name})") if "_" in other else text
        files.append(File.generated(config, page, content=text))
        for image in re.findall(r"\]\(([\w/-]+\.png)\)", text):
            file = str((ROOT / report).parent / image)
            files.append(File.generated(config, f"studies/{image}", abs_src_path=file))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Put in what is made, and keep the text of the page for the file beside it."""
    for report, address in REPORTS.items():
        markdown = markdown.replace(f"](../{report}", f"]({address}")
    if ALL_OPTIONS in markdown:
        markdown = markdown.replace(ALL_OPTIONS, _help_of_commands())
    _markdown[page.file.dest_uri] = page.title, DOCUMENTED.sub(_docstring, markdown)
    return markdown


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Remember which names have a place on the page."""
    _anchors.update(ANCHOR.findall(output))
    return output


def on_post_build(config: Any) -> None:
    """Write Markdown beside every page and llms.txt; stop if a public name has no page."""
    missing = sorted(set(public_names()) - _anchors)
    if missing:
        raise Abort(f"Public names without a page: {', '.join(missing)}. Add them to docs/reference.")
    site = Path(config.site_dir)
    for uri, (_, text) in _markdown.items():
        (site / uri).with_suffix(".md").write_text(text.rstrip() + "\n")
    (site / "llms.txt").write_text(_llms(config))


def public_names() -> list[str]:
    """isobag.X for every X of isobag.__all__, and isobag.M.X for every X of a public module M."""
    isobag = importlib.import_module("isobag")
    names = []
    for name in isobag.__all__:
        found = getattr(isobag, name)
        names += [f"isobag.{name}.{inner}" for inner in found.__all__] if isinstance(found, ModuleType) else []
        names += [] if isinstance(found, ModuleType) else [f"isobag.{name}"]
    return names


def _docstring(directive: re.Match[str]) -> str:
    """The text of a name for readers of Markdown: heading, signature, docstring."""
    module, _, name = directive[1].rpartition(".")
    found = getattr(importlib.import_module(module), name)
    said = inspect.getdoc(found) if callable(found) else None
    try:
        signature = f"    {name}{inspect.signature(found)}\n\n" if callable(found) else ""
    except ValueError:  # an exception has none
        signature = ""
    methods = (
        []
        if not inspect.isclass(found)
        else [
            f"### {name}.{method}\n\n{inspect.getdoc(value)}"
            for method, value in inspect.getmembers(found, inspect.isfunction)
            if not method.startswith("_") and value.__module__.startswith("isobag") and inspect.getdoc(value)
        ]
    )
    return "\n\n".join([f"## {directive[1]}\n\n{signature}{said or ''}".rstrip(), *methods])


def _help_of_commands() -> str:
    from typer.testing import CliRunner  # noqa: PLC0415, only the page of options needs it

    from isobag.cli.app import app  # noqa: PLC0415

    names = [command.name or command.callback.__name__ for command in app.registered_commands]
    told = {name: CliRunner().invoke(app, [name, "--help"], prog_name="isobag", terminal_width=100) for name in names}
    return "\n\n".join(f"## isobag {name}\n\n```text\n{found.output.strip()}\n```" for name, found in told.items())


def _llms(config: Any) -> str:
    """The pages in the order of the navigation, as https://llmstxt.org has it."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}.", ""]

    def walk(entries: list[Any]) -> None:
        for entry in entries:
            if isinstance(entry, str):
                _add(entry)
                continue
            for title, inside in entry.items():
                if isinstance(inside, list):
                    lines.extend(["", f"## {title}", ""])
                    walk(inside)
                else:
                    _add(inside, title)

    def _add(uri: str, title: str | None = None) -> None:
        known, text = _markdown[uri.removesuffix(".md") + ".html"]
        prose = [part for part in text.split("\n\n") if part[:1].isalpha()]
        first = " ".join(re.sub(r"\[([^]]*)\]\([^)]*\)|[*`]", r"\1", prose[0]).split()) if prose else ""
        sentence = re.split(r"(?<=[.:])\s", first)[0].rstrip(":.")
        lines.append(f"- [{title or known}]({uri})" + (f": {sentence}." if sentence else ""))

    walk(config.nav)
    return "\n".join(lines).replace("\n\n\n", "\n\n").strip() + "\n"
