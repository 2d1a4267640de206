"""The report as a picture, light and dark: python -m website.screenshot writes docs/report.png and report-dark.png."""

import shutil
import tempfile
from pathlib import Path

import pandas as pd
from playwright.sync_api import sync_playwright

import isobag
from isobag.datasets import make_card_accounts

DOCS = Path(__file__).resolve().parents[1] / "docs"
WINDOW = {"width": 1000, "height": 1030}
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


def cards() -> pd.DataFrame:
    """The made-up transactions of README: 60 accounts, two of them odd."""
    X, features, account, _ = make_card_accounts(60, 2, random_state=0)
    return pd.DataFrame(X, columns=features).assign(account=account)


def main() -> None:
    """Write the report, open it in Chromium and take its picture."""
    path = next(filter(None, map(shutil.which, CHROMIUM)))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = Path(folder) / "page.html"
        isobag.detect(cards(), by="account", random_state=0).report(page_file, source="transactions.parquet")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for scheme, name in (("light", "report.png"), ("dark", "report-dark.png")):
            page = browser.new_page(viewport=WINDOW, color_scheme=scheme)
            page.goto(page_file.as_uri())
            page.screenshot(path=DOCS / name)
        browser.close()


if __name__ == "__main__":
    main()
