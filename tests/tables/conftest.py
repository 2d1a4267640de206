import pytest

from isobag.tables.sources import FilesSource


@pytest.fixture
def written(tmp_path):
    """Write a file, open it as a source."""

    def write(content, name="t.csv", **options):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return FilesSource(str(path), **options)

    return write
