import os

# Read by SciPy when it is imported; without it scikit-learn skips its checks of array API input.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "isobag",
    deadline=None,
    max_examples=30,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("isobag")


def pytest_configure(config):
    """Compiled code is kept by the date of its own file only; drop it if any file it may call is newer."""
    folder = Path(__file__).parent.parent / "src" / "isobag"
    sources = [folder / "backends" / "arrays.py", *folder.glob("backends/numba/*.py")]
    cached = list(folder.glob("backends/numba/__pycache__/*.nb[ic]"))
    if cached and max(map(_changed, sources)) > min(map(_changed, cached)):
        for file in cached:
            file.unlink(missing_ok=True)


def _changed(file):
    return file.stat().st_mtime


@pytest.fixture
def rng():
    return np.random.default_rng(20240611)


@pytest.fixture
def X(rng):
    """60 points in the plane, a dense and a sparse cluster, three of them far away."""
    return np.vstack([rng.normal(0, 0.3, (37, 2)), rng.normal(4, 1.5, (20, 2)), [[12, -9], [-8, 7], [15, 15]]])


@pytest.fixture
def grid(rng):
    """40 points on a 5 x 5 integer grid: ties and duplicates everywhere, and no rounding."""
    return rng.integers(0, 5, (40, 2)).astype(float)


@pytest.fixture(scope="session")
def browser():
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None and os.environ.get("CI_BROWSER") != "1":
        pytest.skip("no Chromium found; install one (on Debian: apt-get install chromium) to test pages in it")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()
