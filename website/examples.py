"""Pages of executed scripts: python -m website.examples runs docs/examples/*.py and writes a page beside each.

A script is cells, as editors that know notebooks read them: ``# %% [markdown]`` begins prose, ``# %%`` code. What a
cell prints stands below it. ISOBAG_DATA names the folder of the data, ../shared/data if it is not set.
"""

import contextlib
import io
import os
import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sorted((ROOT / "docs" / "examples").glob("*.py"))
DATA = Path(os.environ.get("ISOBAG_DATA", ROOT.parent / "shared" / "data"))
CELL = re.compile(r"^# %%(?: (\[markdown\]))?\n(.*?)(?=^# %%|\Z)", re.DOTALL | re.MULTILINE)


class Cell(NamedTuple):
    """A piece of a script."""

    is_prose: bool
    text: str


def cells_of(script: Path) -> list[Cell]:
    """The cells of a script, prose without its comment signs."""
    found = CELL.findall(script.read_text())
    return [
        Cell(True, re.sub(r"^# ?", "", text, flags=re.MULTILINE).strip()) if kind else Cell(False, text.strip())
        for kind, text in found
    ]


def files_of(script: Path) -> list[Path]:
    """The data files that a script names."""
    return [DATA / name for name in re.findall(r'DATA / "([^"]+)"', script.read_text())]


def render(script: Path) -> str:
    """Run a script and return its page."""
    names: dict[str, object] = {"__name__": "__main__", "DATA": DATA}
    parts = []
    for cell in cells_of(script):
        if cell.is_prose:
            parts.append(cell.text)
            continue
        parts.append(f"```python\n{cell.text}\n```")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(cell.text, str(script), "exec"), names)
        if printed.getvalue():
            parts.append(f"```text\n{printed.getvalue().rstrip()}\n```")
    end = f"*This page is `docs/examples/{script.name}`, run by `make examples`.*"
    return "\n\n".join([*parts, end]) + "\n"


def main(names: list[str]) -> None:
    """Write the pages of the scripts named, or of all."""
    for script in SCRIPTS:
        if not names or script.stem in names:
            script.with_suffix(".md").write_text(render(script))


if __name__ == "__main__":
    main(sys.argv[1:])
