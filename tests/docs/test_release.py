"""A release that could go out: built, installed in a clean environment, and its first page followed to the letter."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile

import pytest
from blocks import ROOT, blocks_of, shell_lines, write_files

import isobag

MOST_COMMANDS = 5


def run(*command, **how):
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False, **how)
    assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-4000:])
    return done.stdout


def clean_surroundings():
    """The environment of a newcomer: nothing of this checkout is on the path."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    return folder


def test_the_version_is_the_same_everywhere():
    assert isobag.__version__ == "0.4.0"
    assert f"version: {isobag.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    newest = re.search(r"^## (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest and newest[1] == isobag.__version__
    assert "version" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dynamic"]


@pytest.mark.slow
def test_sdist_and_wheel_hold_what_they_should(built):
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {"isobag/py.typed", "isobag/report/page.css", "isobag/cli/app.py"} <= set(names)
    assert all(name.startswith(("isobag/", f"isobag-{isobag.__version__}.dist-info/")) for name in names)
    with tarfile.open(sdist) as archive:
        inside = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {"README.md", "SECURITY.md", "CITATION.cff", "mkdocs.yml", "website/hooks.py", "docs/index.md"} <= inside
    assert not [name for name in inside if name.endswith((".npz", ".parquet")) or name.startswith((".venv", "site/"))]


RUN_PAGE = """
import sys, warnings
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from blocks import Runner, blocks_of, write_files
import isobag
assert "site-packages" in isobag.__file__, isobag.__file__
warnings.simplefilter("ignore")
write_files(Path("."))
page = Path(sys.argv[2])
runner = Runner(page)
for block in blocks_of(page):
    runner.run(block)
print(runner.n_run, isobag.__version__)
"""


@pytest.mark.slow
def test_readme_runs_from_the_wheel_in_a_clean_environment(built, tmp_path):
    (wheel,) = built.glob("*.whl")
    run(sys.executable, "-m", "venv", tmp_path / "clean")
    python = tmp_path / "clean" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", f"{wheel}[cli,report]", "pandas", env=clean_surroundings())
    work = tmp_path / "work"
    work.mkdir()
    arguments = [python, "-c", RUN_PAGE, ROOT / "tests" / "docs", ROOT / "README.md"]
    n_run, version = run(*arguments, cwd=work, env=clean_surroundings()).split()
    assert int(n_run) >= 2 and version == isobag.__version__


def first_commands():
    """The commands of the site's first page, as they stand there."""
    return shell_lines(next(block for block in blocks_of(ROOT / "docs" / "index.md") if block.language == "bash"))


def test_the_first_page_needs_five_commands_or_fewer():
    commands = first_commands()
    assert len(commands) <= MOST_COMMANDS
    assert commands[0].startswith("python3 -m venv") and "--report" in commands[-1]


@pytest.mark.slow
def test_a_newcomer_gets_from_the_first_page_to_a_report_of_their_file(tmp_path):
    tracked = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).splitlines()
    for name in tracked:
        if name.startswith(("src/", "pyproject", "README", "LICENSE")) and (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    write_files(tmp_path)
    run("sh", "-e", "-c", "\n".join(first_commands()), cwd=tmp_path, env=clean_surroundings())
    for name, word in (("accounts.html", "acct-0038"), ("rows.html", "amount")):
        assert word in (tmp_path / name).read_text()
