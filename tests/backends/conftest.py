import pytest

from isobag.backends.numba import pairs

SMALL = pairs.MOST_NUMBERS


@pytest.fixture(scope="module", params=["small tables", "large tables"])
def both_sizes(request):
    """The engine for small tables, and those that are chosen by the number of features."""
    pairs.MOST_NUMBERS = SMALL if request.param == "small tables" else 0
    yield
    pairs.MOST_NUMBERS = SMALL


@pytest.fixture
def no_pairs(monkeypatch):
    """Small tables are searched as large ones are."""
    monkeypatch.setattr(pairs, "MOST_NUMBERS", 0)
