"""Scripts on real data: the pages are what the scripts print, where the data are at hand."""

import pytest
from blocks import blocks_of

from website.examples import SCRIPTS, cells_of, files_of, render


def named(script):
    return script.stem


@pytest.mark.parametrize("script", SCRIPTS, ids=named)
def test_a_page_has_the_code_and_the_prose_of_its_script(script):
    page = script.with_suffix(".md")
    cells = cells_of(script)
    assert [block.text.strip() for block in blocks_of(page) if block.language == "python"] == [
        cell.text for cell in cells if not cell.is_prose
    ]
    assert {block.language for block in blocks_of(page)} == {"python", "text"}
    text = page.read_text()
    assert all(cell.text in text for cell in cells if cell.is_prose)
    assert "The finding to check" in text and "IsolationForest" in text


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=named)
def test_a_script_prints_what_its_page_says(script):
    missing = [file for file in files_of(script) if not file.exists()]
    if missing:
        pytest.skip(f"needs {', '.join(file.name for file in missing)} in the folder that ISOBAG_DATA names")
    assert files_of(script)
    assert render(script) == script.with_suffix(".md").read_text()
