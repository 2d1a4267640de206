"""``--engine ADDRESS``: where the rows are looked at."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from isobag.cli.inputs import Input
from isobag.cli.progress import Silent
from isobag.data.partitions import Partitions
from isobag.tables.openers import STDIN
from isobag.tables.sources import matching_files

LOCAL = "local"
FEW_ROWS = 20_000
"""Below, starting threads takes longer than they save."""


class Engine:
    """This process, the default: files are read here, and rows are looked at by threads. Others override all of it."""

    def files(self, given: Input, *, report: Path | None = None, jobs: int | None = None) -> list[str]:
        """Names of the files that will be read; options that cannot be used are refused."""
        return [file for name in given.files for file in matching_files(name) if file != STDIN]

    @contextmanager
    def opened(self, given: Input, bar: Silent, *, jobs: int | None, is_silent: bool) -> Iterator[Partitions]:
        """The input as partitions, within a context; what goes wrong in it is an OSError or a ValueError."""
        yield given.source

    def threads(self, jobs: int | None, n_rows: int) -> int | None:
        """Threads of this process for so many rows, as in joblib."""
        return threads_for(jobs, n_rows)


def threads_for(jobs: int | None, n_rows: int) -> int:
    """The number of threads asked for, or what suits the number of rows."""
    return jobs if jobs is not None else 1 if n_rows < FEW_ROWS else -1


def engine_at(address: str | None) -> Engine:
    """The engine of an address: ``local``, or ``dask://`` and the address of a scheduler, or ``dask://local``."""
    if address in (None, LOCAL):
        return Engine()
    kind, _, place = str(address).partition("://")
    if kind == "dask":
        from isobag.cli.cluster import DaskCluster  # noqa: PLC0415, seldom needed

        return DaskCluster(place or LOCAL)
    raise typer.BadParameter(f"--engine {address}: need local, dask://local or dask:// and the address of a scheduler.")
