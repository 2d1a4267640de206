import pytest
from report_tables import hostile_groups, hostile_rows


@pytest.fixture(scope="package")
def rows():
    return hostile_rows()


@pytest.fixture(scope="package")
def groups():
    return hostile_groups()
