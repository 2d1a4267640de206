"""Pages of README and docs as what they promise: blocks of code, in their order, each of which is run.

A page is run in a folder with the files of ``write_files``. Python is run as a doctest; of shell, lines that begin with
``isobag`` are run in this process, and a block of text right after is what the last of them prints, but for spaces and
ends of lines. A line ends with exit status 0, or with the one that its comment names ("# exit status 1"). Of YAML, what
``run:`` names is run as shell. ``ELSEWHERE`` says what other tests run; anything else is an error: nothing goes unrun.
"""

import doctest
import os
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from isobag.cli.app import app
from isobag.datasets import make_card_accounts

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("*/REPORT*.md"),
    ]
)
FENCE = re.compile(r"^( *)```(\S*)[^\n]*\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
HOW = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
ELSEWHERE = {
    r"make [a-z-]+( [A-Z]+=\S+)?": "targets are checked against the Makefile",
    r"python3 -m http.server -d site": "serves the site until it is stopped",
    r"isobag mcp .*": "serves until it is stopped; tests/adapters/test_mcp.py calls it",
    r"dbt build .*": "another tool, on the reader's database",
    r"pip install .*": "extras are checked against pyproject.toml; test_release.py installs",
    r"python3 -m venv \.venv|\. \.venv/bin/activate": "test_release.py runs them",
    r"export ISOBAG_DATA=\S+": "a folder of the reader's",
    r"cat cards\.csv \| isobag detect -": "tests/cli/test_results.py pipes files in",
}


class Block(NamedTuple):
    language: str
    text: str


def blocks_of(page):
    return [Block(language, text) for _, language, text in FENCE.findall(page.read_text())]


def shell_lines(block):
    lines = block.text.replace("\\\n", " ").splitlines()
    return [line for line in lines if shlex.split(line, comments=True)]


def is_run_elsewhere(line):
    words = shlex.join(shlex.split(line, comments=True)).replace("'", "")
    return any(re.fullmatch(pattern, words) for pattern in ELSEWHERE)


def write_files(folder):
    """The files that examples name without making them."""
    X, names, account, _ = make_card_accounts(60, 2, random_state=0)
    cards = pd.DataFrame(X, columns=names).assign(account=account)
    for name in ("cards.csv", "new.csv"):
        cards.to_csv(folder / name, index=False)
    minutes = np.random.default_rng(0).integers(0, 60 * 1440, len(cards))
    log = cards[["account", "amount"]].assign(time=pd.Timestamp("2026-01-01") + pd.to_timedelta(minutes, unit="m"))
    log.to_csv(folder / "log.csv", index=False)
    for name in ("transactions.parquet", "january.parquet", "february.parquet"):
        cards.to_parquet(folder / name)


class Runner:
    """Runs the blocks of one page, one after the other, in the folder that is the current one."""

    def __init__(self, page):
        self.page, self.names, self.printed, self.n_run = page, {"__name__": "__main__"}, None, 0

    def run(self, block):
        runs = {"python": self.run_python, "bash": self.run_shell, "yaml": self.run_yaml, "text": self.compare_text}
        run = runs.get(block.language)
        assert run, f"{self.page.name}: blocks of {block.language!r} are not run"
        run(block)

    def run_python(self, block):
        if (
            re.search(r"isobag\.adapters|from mcp import|import skops", block.text)
            and os.environ.get("CI_ADAPTERS") != "1"
        ):
            return  # .ci/run runs these blocks, where the other libraries are
        test = doctest.DocTestParser().get_doctest(block.text, self.names, self.page.name, str(self.page), 0)
        assert test.examples, f"{self.page.name}: Python without prompts is not run:\n{block.text}"
        outputs = []
        doctest.DocTestRunner(optionflags=HOW, verbose=False).run(test, out=outputs.append, clear_globs=False)
        self.names = test.globs
        self.n_run += 1
        assert not outputs, "".join(outputs)

    def run_shell(self, block):
        self.printed = None
        for line in shell_lines(block):
            if is_run_elsewhere(line):
                continue
            words = shlex.split(line, comments=True)
            assert words[0] == "isobag", f"{self.page.name}: nothing runs {line!r}"
            result = CliRunner().invoke(app, words[1:])
            wanted = re.search(r"# exit status (\d)", line)
            assert result.exit_code == (int(wanted[1]) if wanted else 0), (line, result.stderr)
            self.printed = result.output
            self.n_run += 1
            for option in ("--out", "--report", "--save-model", "--junit"):
                if option in words:
                    assert Path(words[words.index(option) + 1]).stat().st_size > 0

    def run_yaml(self, block):
        lines = re.findall(r"^ *(?:- )?run: (.*)$", block.text, re.MULTILINE)
        assert lines, f"{self.page.name}: YAML in which nothing is run"
        self.run_shell(Block("bash", "\n".join(lines)))

    def compare_text(self, block):
        assert self.printed is not None, f"{self.page.name}: text that no command prints:\n{block.text}"
        assert self.printed.split() == block.text.split(), f"{self.page.name} prints now:\n{self.printed}"
        self.printed = None
