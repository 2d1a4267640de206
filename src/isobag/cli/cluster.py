"""``--dask``: the oddest rows or groups of Parquet files, found by the workers of a Dask cluster."""

from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from joblib import effective_n_jobs

from isobag.backends.arrays import Ints
from isobag.cli import options as o
from isobag.cli.detect import Wishes
from isobag.cli.oddest import Collect, FindOddest, Oddest, RankedElsewhere, concatenate, own_version
from isobag.cli.output import note
from isobag.cli.pieces import ReadPiece, files_of, pieces_of
from isobag.cli.progress import Bar, Silent, progress
from isobag.cli.results import check_targets, show_results
from isobag.data.spool import Tick
from isobag.storage.files import write_table
from isobag.storage.modelfile import save
from isobag.tables.rank import check_fdr
from isobag.tables.summary import on_command_line

LOCAL = "local"
CONNECT_S = 30
"""Seconds until a scheduler, or workers, count as not there."""
PATIENCE = {"distributed.deploy.lost-worker-timeout": "100 days", "distributed.scheduler.no-workers-timeout": CONNECT_S}
"""Left alone, Dask closes a worker for good that happens to be down 15 s after it died once, even if it died a second
time and is about to be back; and without workers tasks wait for ever."""
WINDOW_ROWS = 1 << 22
"""Scored rows that are brought here at a time, to be written."""


def detect_on_dask(
    address: str,
    detector: Any,
    wishes: Wishes,
    p_values: bool,
    fdr: float | None,
    min_size: int,
    jobs: int | None,
    top: int,
    out: Path | None,
    report: Path | None,
    model: Path | None,
    json: bool,
    quiet: bool,
) -> None:
    """Rank the rows or groups of Parquet files where workers read them."""
    _check_installed()
    _refuse(address, wishes, report, jobs)
    detector.check_params()
    check_fdr(fdr, False, on_command_line)
    files = files_of(wishes.files or [])
    check_targets(out, None, model, files)
    import dask.dataframe as dd  # noqa: PLC0415, slow to load, and seldom needed

    from isobag.engines import dask as on_dask  # noqa: PLC0415

    pieces, schema = pieces_of(files)
    read = ReadPiece(frozenset(schema.names if wishes.features is None else _needed(wishes)))
    table = dd.from_map(read, pieces, meta=read.empty(schema), label="isobag-parquet")
    with _connected(address, jobs) as client, progress(quiet or json) as bar:
        note(f"Dashboard: {client.dashboard_link}", quiet or json)
        engine = on_dask.DaskPartitions(table, client, _tick(bar))
        try:
            ranking = _rank(engine, detector, wishes, p_values, min_size, top, out)
        except on_dask.WorkersDiedError as error:
            raise OSError(str(error)) from error
        except CancelledError as error:
            raise OSError(f"The scheduler of --dask {address} went away; nothing is written.") from error
        if model is not None:
            save(detector, model)
    ranking = replace(ranking, summary=replace(ranking.summary, files=tuple(files)))
    show_results(ranking, top, (model, out), json, quiet)


def _rank(
    engine: Any, detector: Any, wishes: Wishes, p_values: bool, min_size: int, top: int, out: Path | None
) -> RankedElsewhere:
    from isobag.engines.detect import learn_rows, rank_groups  # noqa: PLC0415

    asked: dict[str, Any] = {
        "features": o.names_of(wishes.features),
        "missing": wishes.missing.value,
        "bad_cells": wishes.bad_cells.value,
        "spelling": on_command_line,
    }
    by = o.names_of(wishes.by)
    if by is not None:
        learned, table = rank_groups(engine, detector, by, min_size=min_size, p_values=p_values, **asked)
        if out is not None:
            write_table(out, iter([_columns(table)]))
        return RankedElsewhere.of_groups(table, learned, detector.offset_)
    learned, score = learn_rows(engine, detector, id_column=wishes.id_column, counts_gaps=True, **asked)
    if out is None:
        oddest = engine.run(FindOddest(score, top), Oddest.merge)
    else:
        writer = _Windows(engine, score, learned.sizes, top)
        write_table(out, writer)
        oddest = writer.oddest
    return RankedElsewhere.of_rows(oddest, learned, detector.offset_, p_values)


class _Windows:
    """All rows, scored, in the order of the table: some partitions at a time; the oddest are kept on the way."""

    def __init__(self, engine: Any, score: Any, sizes: Ints, top: int) -> None:
        self._engine, self._score, self._sizes = engine, score, sizes
        self.oddest = Oddest.of(score.schema.empty_table(), top)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        window = np.cumsum(self._sizes) // WINDOW_ROWS
        for number in np.unique(window):
            table = self._engine.run(Collect(self._score), concatenate, np.flatnonzero(window == number))
            self.oddest = self.oddest.with_all([table])
            yield _columns(table)


def _needed(wishes: Wishes) -> list[str]:
    """Columns that are asked for."""
    apart = [] if wishes.id_column is None else [wishes.id_column]
    return [*(o.names_of(wishes.features) or []), *(o.names_of(wishes.by) or []), *apart]


def _columns(table: pa.Table) -> dict[str, Any]:
    """Columns to be written: what has no score has none in the file."""
    numbers = ("score", "p_value")
    return {name: table[name].to_numpy() if name in numbers else table[name] for name in table.column_names}


def _check_installed() -> None:
    for name in ("dask", "distributed", "pandas"):
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"--dask needs {name}, which is not installed: pip install 'isobag[dask]'.")


def _refuse(address: str, wishes: Wishes, report: Path | None, jobs: int | None) -> None:
    """Refuse what workers cannot do."""
    given = {
        "--sql": wishes.sql,
        "--header": wishes.header,
        "--decimal": wishes.decimal,
        "--format": wishes.form,
        "--keep": wishes.keep,
        "--report": report,
        "--jobs": None if address == LOCAL else jobs,
    }
    why = {
        "--sql": "write the answer of the query to Parquet first",
        "--keep": "name rows by --id-column, and join by row",
        "--report": "it needs all rows in one place",
        "--jobs": "the cluster has the workers that it has",
    }
    for option, value in given.items():
        if value is not None:
            raise ValueError(f"{option} cannot be used with --dask: {why.get(option, 'only Parquet is read')}.")


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
        raise OSError(f"Cannot connect to a Dask scheduler at --dask {address}: {said}.") from error
    with client:
        _check_workers(client, address)
        yield client


def _check_workers(client: Any, address: str) -> None:
    """Refuse a cluster without workers, and one whose workers have another isobag: scores might differ."""
    from isobag import __version__  # noqa: PLC0415

    try:
        version = client.submit(own_version, pure=False).result(timeout=CONNECT_S)
    except TimeoutError as error:
        raise OSError(f"No worker of --dask {address} began to work within {CONNECT_S} s; start some.") from error
    except (ImportError, RuntimeError, AttributeError) as error:
        raise OSError(f"The workers of --dask {address} cannot load isobag {__version__}; install it there.") from error
    if version != __version__:
        raise ValueError(f"The workers of --dask {address} have isobag {version}; need {__version__}, as here.")


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
