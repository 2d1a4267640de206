"""The way from a file to a page: the command against the call in memory, its start, and how large reports open."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from playwright.sync_api import sync_playwright

from isobag import detect
from isobag.datasets import make_scale_up

CHROMIUM = "/usr/bin/chromium"


def command_times(X, threads, repeat=3):
    """Best seconds of the call in memory, of the command on the same rows as Parquet, and of it on ten rows."""
    names = [f"x{j}" for j in range(X.shape[1])]
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / "all.parquet", Path(folder) / "ten.parquet"]
        for file, rows in zip(files, (X, X[:10]), strict=True):
            pq.write_table(pa.table(dict(zip(names, rows.T, strict=True))), file)
        frame = pa.table(dict(zip(names, X.T, strict=True)))
        best = [np.inf] * 3
        for _ in range(repeat):
            start = time.perf_counter()
            detect(frame, max_samples=128, random_state=0, n_jobs=threads).to_frame()
            best[0] = min(best[0], time.perf_counter() - start)
            for i, (file, psi) in enumerate(zip(files, ("128", "2"), strict=True), start=1):
                script = Path(sys.executable).with_name("isobag")
                how = ["--max-samples", psi, "--seed", "0", "--jobs", str(threads), "--quiet"]
                start = time.perf_counter()
                subprocess.run([script, "detect", file, *how], check=True, capture_output=True)
                best[i] = min(best[i], time.perf_counter() - start)
    return best


def reports(X, threads):
    """Size of a report and seconds until it is open, for a million rows and for ten thousand groups."""
    rows = np.tile(X, (-(-1_000_000 // len(X)), 1))[:1_000_000]
    points, groups, _ = make_scale_up(10_000, random_state=0)
    frame = pa.table({f"x{j}": column for j, column in enumerate(points.T)} | {"group": groups})
    features = frame.column_names[:-1]
    how = {"random_state": 0, "n_jobs": threads}
    made = {
        "1,000,000 rows": lambda path: detect(rows, max_samples=128, **how).report(path),
        "10,000 groups": lambda path: detect(
            frame, "group", features=features, max_samples=16, options={"group_max_samples": 16}, **how
        ).report(path),
    }
    rows_of_table = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name, write in made.items():
            page_file = Path(folder) / "page.html"
            write(page_file)
            page = browser.new_page()
            start = time.perf_counter()
            page.goto(page_file.as_uri(), wait_until="load")
            opened = time.perf_counter() - start
            rows_of_table.append({"report of": name, "MB": page_file.stat().st_size / 1e6, "opens in s": opened})
            page.close()
        browser.close()
    return rows_of_table
