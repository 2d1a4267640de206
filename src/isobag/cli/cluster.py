"""``--engine dask://...``: Parquet files read by the workers of a Dask cluster."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from joblib import effective_n_jobs

from isobag.cli.engines import LOCAL, Engine
from isobag.cli.inputs import Input
from isobag.cli.output import note
from isobag.cli.pieces import ReadPiece, files_of, pieces_of
from isobag.cli.progress import Bar, Silent
from isobag.data.partitions import Partitions
from isobag.data.spool import Tick
from isobag.tables.sources import notes_on_folders

CONNECT_S = 30
"""Seconds until a scheduler, or workers, count as not there."""
_LOGGERS = ("distributed", "distributed.client", "tornado.application", "asyncio")
PATIENCE = {"distributed.deploy.lost-worker-timeout": "100 days", "distributed.scheduler.no-workers-timeout": CONNECT_S}
"""Left alone, Dask closes a worker for good that happens to be down 15 s after it died once, even if it died a second
time and is about to be back; and without workers tasks wait for ever."""


@dataclass(frozen=True)
class DaskCluster(Engine):
    """A Dask cluster whose workers read Parquet files; ``address`` of its scheduler, LOCAL for one of this machine."""

    address: str

    def files(self, given: Input, *, report: Path | None = None, jobs: int | None = None) -> list[str]:
        """Parquet files, also all of a folder."""
        _check_installed()
        _refuse(self.address, given, report, jobs)
        return files_of(given.files or [])

    @contextmanager
    def opened(self, given: Input, bar: Silent, *, jobs: int | None, is_silent: bool) -> Iterator[Partitions]:
        """Row groups of the files, read by workers."""
        import dask.dataframe as dd  # noqa: PLC0415, slow to load, and seldom needed

        from isobag.engines.dask.partitions import DaskPartitions  # noqa: PLC0415
        from isobag.engines.dask.workers import WorkersDiedError  # noqa: PLC0415

        files = files_of(given.files or [])
        pieces, schema, n_rows = pieces_of(files)
        options = given.options
        needed = schema.names if options.features is None else [*options.features, *options.apart]
        read = ReadPiece(frozenset(needed))
        table = dd.from_map(read, pieces, meta=read.empty(schema), label="isobag-parquet")
        with _connected(self.address, jobs) as client:
            note(f"Dashboard: {client.dashboard_link}", is_silent)
            partitions = DaskPartitions(table, client, _tick(bar), lambda remark: note(remark, is_silent))
            partitions.files, partitions.notes = tuple(files), notes_on_folders(files)
            partitions.file_sizes = n_rows if len(files) > 1 else ()
            try:
                yield partitions
            except WorkersDiedError as error:
                raise OSError(str(error)) from error

    def threads(self, jobs: int | None, n_rows: int) -> int | None:
        """Left to the workers."""
        return None


def _check_installed() -> None:
    for name in ("dask", "distributed", "pandas"):
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"Dask needs {name}, which is not installed: pip install 'isobag[dask]'.")


def _refuse(address: str, given: Input, report: Path | None, jobs: int | None) -> None:
    """Refuse what workers cannot do."""
    options, text = given.options, "only Parquet is read"
    refused = {
        "--sql": (given.sql, "write the answer of the query to Parquet first"),
        "--header": (given.header, text),
        "--delimiter": (given.delimiter, text),
        "--na": (given.na, text),
        "--skip": (given.skip or None, text),
        "--encoding": (given.encoding, text),
        "--sheet": (given.sheet, text),
        "--decimal": (None if options.decimal == "." else options.decimal, text),
        "--dates": (options.dates or None, text),
        "--format": (given.format, text),
        "--keep": (None if options.carry == () else "some", "name rows by --id-column, and join by row"),
        "--report": (report, "it needs all rows in one place"),
        "--jobs": (None if address == LOCAL else jobs, "the cluster has the workers that it has"),
    }
    for option, (value, why) in refused.items():
        if value is not None:
            raise ValueError(f"{option} cannot be used with Dask: {why}.")


@contextmanager
def _connected(address: str, jobs: int | None) -> Iterator[Any]:
    """A client of the cluster, which is closed in the end with all that was started for it."""
    import dask  # noqa: PLC0415, slow to load, and seldom needed
    from distributed import Client, LocalCluster  # noqa: PLC0415

    if address == LOCAL:
        how: dict[str, Any] = {"n_workers": effective_n_jobs(-1 if jobs is None else jobs), "threads_per_worker": 1}
        with (
            dask.config.set(PATIENCE),
            LocalCluster(**how, processes=True, dashboard_address=":0", silence_logs=50) as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            yield client
        return
    try:  # by default an address that cannot be parsed would leave Dask set to a client that never was
        client = Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        said = " ".join(str(error).split()).rstrip(".")
        raise OSError(f"Cannot connect to a Dask scheduler at {address}: {said}.") from error
    with _without_logs(), client:
        _wait_for_workers(client, address)
        yield client


@contextmanager
def _without_logs() -> Iterator[None]:
    """Keep Dask from logging to standard error what is said in a sentence, as that a scheduler went away."""
    levels = {one: one.level for one in map(logging.getLogger, _LOGGERS)}
    for one in levels:
        one.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for one, level in levels.items():
            one.setLevel(level)


def _wait_for_workers(client: Any, address: str) -> None:
    """Refuse a cluster without workers."""
    try:
        client.wait_for_workers(1, timeout=CONNECT_S)
    except TimeoutError as error:
        raise OSError(f"No Dask worker came to the scheduler at {address} within {CONNECT_S} s; start some.") from error


def _tick(bar: Silent) -> Tick | None:
    """Passes by number, each with its partitions."""
    if not isinstance(bar, Bar):
        return None
    shown, n_passes = bar, 0

    def tick(what: str, n_done: int, of: int | None) -> None:
        nonlocal n_passes
        n_passes += n_done == 0
        shown.count(f"pass {n_passes}", n_done, of, what)

    return tick
