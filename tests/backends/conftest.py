import pytest

from isobag.backends.numba import choose

SMALL = choose.SMALL_ROWS


@pytest.fixture(scope="module", params=["small tables", "large tables"])
def both_sizes(request):
    """The engine for small tables, and those that are chosen by the number of features."""
    choose.SMALL_ROWS = SMALL if request.param == "small tables" else 0
    yield
    choose.SMALL_ROWS = SMALL


def pytest_collection_modifyitems(config, items):
    """Sizes of tables make no difference to the definition: it is asked once."""
    twice = {"both_sizes": "large tables", "backend": "numpy"}.items()
    again = [item for item in items if hasattr(item, "callspec") and twice <= item.callspec.params.items()]
    config.hook.pytest_deselected(items=again)
    items[:] = [item for item in items if item not in again]


@pytest.fixture
def no_pairs(monkeypatch):
    """Small tables are searched as large ones are."""
    monkeypatch.setattr(choose, "SMALL_ROWS", 0)
