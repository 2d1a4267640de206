"""Shell examples of README and docs: every line that starts with ``isobag`` is run. (Python examples are doctests.)

A block of text right after one is what its last line prints, but for spaces and ends of lines.
"""

import re
import shlex
from pathlib import Path

import pandas as pd
import pytest

from isobag.datasets import make_card_accounts

pytest.importorskip("duckdb")
typer_testing = pytest.importorskip("typer.testing")

from isobag.cli.app import app  # noqa: E402, only if typer is there

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "command_line.md"]
TOO_LONG = ("reproduce",)  # minutes; tests/test_reproduce.py runs it on small data


def examples(page):
    blocks = re.findall(r"```bash\n(.*?)```", page.read_text(), re.DOTALL)
    lines = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]
    return [words[1:] for words in lines if words and words[0] == "isobag" and words[1] not in TOO_LONG]


def printed_examples(page):
    found = re.findall(r"```bash\n([^`]*?)```\n\n```text\n(.*?)```", page.read_text(), re.DOTALL)
    return [(shlex.split(block.splitlines()[-1], comments=True)[1:], text) for block, text in found]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files that the examples name."""
    X, names, account, _ = make_card_accounts(60, 2, random_state=0)
    cards = pd.DataFrame(X, columns=names).assign(account=account)
    for name in ("cards.csv", "new.csv"):
        cards.to_csv(tmp_path / name, index=False)
    for name in ("transactions.parquet", "january.parquet", "february.parquet"):
        cards.to_parquet(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_shell_example_runs_and_writes_what_it_names(folder, page):
    found = examples(page)
    assert len(found) >= 2
    for words in found:
        result = typer_testing.CliRunner().invoke(app, words)
        assert result.exit_code == 0, (words, result.stderr)
        for option in ("--out", "--report", "--model"):
            if option in words:
                assert (folder / words[words.index(option) + 1]).stat().st_size > 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_shell_example_is_said_to_print_is_what_it_prints(folder, page):
    for words, text in printed_examples(page):
        result = typer_testing.CliRunner().invoke(app, words)
        assert result.output.split() == text.split(), words


def test_the_readme_shows_what_a_command_prints():
    assert printed_examples(PAGES[0])
