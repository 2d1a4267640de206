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

from isobag import IDKGroupDetector, IDKPointDetector, detect_points
from isobag.datasets import make_scale_up
from isobag.report import group_findings, point_findings, write_report

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
            detect_points(frame, max_samples=128, random_state=0, n_jobs=threads)
            best[0] = min(best[0], time.perf_counter() - start)
            for i, (file, psi) in enumerate(zip(files, ("128", "2"), strict=True), start=1):
                script = Path(sys.executable).with_name("isobag")
                arguments = [script, "points", file, "--psi", psi, "--seed", "0", "--jobs", str(threads), "--quiet"]
                start = time.perf_counter()
                subprocess.run(arguments, check=True, capture_output=True)
                best[i] = min(best[i], time.perf_counter() - start)
    return best


def reports(X, threads):
    """Size of a report and seconds until it is open, for a million rows and for ten thousand groups."""
    rows = np.tile(X, (-(-1_000_000 // len(X)), 1))[:1_000_000]
    points, groups, _ = make_scale_up(10_000, random_state=0)
    made = {
        "1,000,000 rows": lambda: point_findings(
            IDKPointDetector(max_samples=128, random_state=0, n_jobs=threads).fit(rows), rows
        ),
        "10,000 groups": lambda: group_findings(
            IDKGroupDetector(100, 16, 16, random_state=0, n_jobs=threads).fit(points, groups=groups), points, groups
        ),
    }
    found = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name, findings in made.items():
            page_file = Path(folder) / "page.html"
            write_report(findings(), page_file)
            page = browser.new_page()
            start = time.perf_counter()
            page.goto(page_file.as_uri(), wait_until="load")
            opened = time.perf_counter() - start
            found.append({"report of": name, "MB": page_file.stat().st_size / 1e6, "opens in s": opened})
            page.close()
        browser.close()
    return found
