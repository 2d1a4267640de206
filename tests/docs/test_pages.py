"""Every example on every page runs and prints what the page says."""

import re
import tomllib

import pytest

pytest.importorskip("typer")
pytest.importorskip("duckdb")

from blocks import PAGES, ROOT, Block, Runner, blocks_of, is_run_elsewhere, shell_lines, write_files

LONG = {"docs/command_line.md", "docs/files.md", "docs/models.md", "docs/groups.md", "docs/watch.md", "docs/streams.md"}
MOST_LINES, MOST_WORDS, MOST_WORDS_OF_DOCS = 80, 700, 15_000


def shown(page):
    return str(page.relative_to(ROOT))


WITH_CODE = [
    pytest.param(page, id=shown(page), marks=[pytest.mark.slow] * (shown(page) in LONG))
    for page in PAGES
    if blocks_of(page)
]


@pytest.mark.filterwarnings("ignore::UserWarning")  # notes about columns, which the pages do not show
@pytest.mark.parametrize("page", WITH_CODE)
def test_every_block_of_a_page_runs_and_prints_what_it_says(page, tmp_path, monkeypatch):
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    runner = Runner(page)
    for block in blocks_of(page):
        runner.run(block)


def test_a_block_that_nothing_runs_is_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = Runner(ROOT / "README.md")
    for block in (
        Block("yaml", "a: 1\n"),
        Block("", "anything\n"),
        Block("python", "print(1)\n"),
        Block("python", ">>> 1 + 1\n3\n"),
        Block("bash", "curl example.com\n"),
        Block("bash", "isobag detect no-such-file.csv\n"),
        Block("bash", "isobag --version # exit status 1\n"),
        Block("yaml", "- run: isobag detect no-such-file.csv\n"),
        Block("text", "what nothing has printed\n"),
    ):
        with pytest.raises(AssertionError):
            runner.run(block)
    assert is_run_elsewhere("make test   # sets up") and not is_run_elsewhere("make test && rm -r .")


def test_code_hides_neither_in_indentation_nor_in_tildes():
    for page in PAGES:
        text = re.sub(r"^( *)```.*?^\1```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        assert ">>> " not in text and "```" not in text and "~~~" not in text, page
        assert not re.search(r"^ {4,}(isobag|import|from|pip) ", text, re.MULTILINE), page


def test_the_first_page_is_short_and_shows_a_run_and_so_are_the_docs():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= MOST_LINES and len(text.split()) <= MOST_WORDS
    assert {"python", "bash", "text"} <= {block.language for block in blocks_of(ROOT / "README.md")}
    assert all(len(line) <= 100 for block in blocks_of(ROOT / "README.md") for line in block.text.splitlines())
    assert sum(len(page.read_text().split()) for page in (ROOT / "docs").rglob("*.md")) <= MOST_WORDS_OF_DOCS


def lines_of_all_pages():
    return [
        line for page in PAGES for block in blocks_of(page) if block.language == "bash" for line in shell_lines(block)
    ]


def test_targets_that_pages_name_are_in_the_makefile():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {line.split()[1] for line in lines_of_all_pages() if line.startswith("make ")}
    assert {"demo", "test", "docs"} <= named <= targets


def test_extras_that_pages_name_are_in_pyproject():
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    text = "\n".join(page.read_text() for page in PAGES)
    named = {extra for found in re.findall(r'(?:isobag|")\.?\[([a-z,]+)\]', text) for extra in found.split(",")}
    assert {"cli", "report"} <= named <= extras
