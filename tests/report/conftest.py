import os
import shutil

import pytest
from report_tables import hostile_groups, hostile_rows


@pytest.fixture(scope="package")
def rows():
    return hostile_rows()


@pytest.fixture(scope="package")
def groups():
    return hostile_groups()


@pytest.fixture(scope="session")
def browser():
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None and os.environ.get("CI_BROWSER") != "1":
        pytest.skip("no Chromium found; install one (on Debian: apt-get install chromium) to test the page in it")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()
