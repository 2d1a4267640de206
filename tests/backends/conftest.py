import pytest

from isobag.backends.numba import pairs

SMALL = pairs.MOST_ROWS


@pytest.fixture(scope="module", params=["small tables", "large tables"])
def both_sizes(request):
    """The engine for small tables, and those that are chosen by the number of features."""
    pairs.MOST_ROWS = SMALL if request.param == "small tables" else 0
    yield
    pairs.MOST_ROWS = SMALL


def pytest_collection_modifyitems(config, items):
    """Sizes of tables make no difference to the definition: it is asked once."""
    twice = {"both_sizes": "large tables", "backend": "numpy"}.items()
    again = [item for item in items if hasattr(item, "callspec") and twice <= item.callspec.params.items()]
    config.hook.pytest_deselected(items=again)
    items[:] = [item for item in items if item not in again]


@pytest.fixture
def no_pairs(monkeypatch):
    """Small tables are searched as large ones are."""
    monkeypatch.setattr(pairs, "MOST_ROWS", 0)
