"""``--engine dask://...``: Parquet files read by the workers of a Dask cluster, some row groups of a file at a time."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
from joblib import effective_n_jobs
from pyarrow.dataset import ParquetFileFormat, ParquetFileFragment
from pyarrow.fs import LocalFileSystem

from isobag.cli.inputs import LOCAL, Engine, Input
from isobag.cli.output import note
from isobag.cli.progress import Bar, Silent
from isobag.data.local import Source
from isobag.data.partitions import Collection
from isobag.data.spool import Tick
from isobag.tables.openers import STDIN
from isobag.tables.sources import FilesSource, matching_files, notes_on_folders
from isobag.tables.tablefile import TYPED, kind_of_file

CONNECT_S = 30
"""Seconds until a scheduler, or workers, count as not there."""
_LOGGERS = ("distributed", "distributed.client", "tornado.application", "asyncio")
PATIENCE = {"distributed.deploy.lost-worker-timeout": "100 days", "distributed.scheduler.no-workers-timeout": CONNECT_S}
"""Left alone, Dask closes a worker for good that happens to be down 15 s after it died once, even if it died a second
time and is about to be back; and without workers tasks wait for ever."""
PIECE_BYTES = 1 << 26
"""Row groups are read together up to so many bytes, unpacked, ..."""
MANY_PIECES = 64
"""... and fewer if there would not be so many pieces: all workers are to have something to do."""
_PARQUET = tuple(ending for ending, kind in TYPED.items() if kind == "parquet")


@dataclass(frozen=True)
class DaskCluster(Engine):
    """A Dask cluster whose workers read Parquet files; ``address`` of its scheduler, LOCAL for one of this machine."""

    address: str

    def files(self, given: Input, *, report: Path | None = None, jobs: int | None = None) -> list[str]:
        """Parquet files, also all of a folder."""
        for name in ("dask", "distributed", "pandas"):
            if find_spec(name) is None:
                raise ModuleNotFoundError(f"Dask needs {name}, which is not installed: pip install 'isobag[dask]'.")
        _refuse(self.address, given, report, jobs)
        return files_of(given.files)

    @contextmanager
    def opened(self, given: Input, bar: Silent, *, jobs: int | None, is_silent: bool) -> Iterator[Source | Collection]:
        """Row groups of the files, read by workers."""
        import dask.dataframe as dd  # noqa: PLC0415, slow to load, and seldom needed

        from isobag.engines.dask.partitions import DaskPartitions  # noqa: PLC0415
        from isobag.engines.dask.workers import WorkersDiedError  # noqa: PLC0415

        files = files_of(given.files)
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


def _refuse(address: str, given: Input, report: Path | None, jobs: int | None) -> None:
    """Refuse what workers cannot do."""
    options, text = given.options, "only Parquet is read"
    refused = {
        "--sql": (given.sql, "write the answer of the query to Parquet first"),
        **{f"--{name}": (value, text) for name, value in given.written.items() if (name, value) != ("skip", 0)},
        "--decimal": (None if options.decimal == "." else options.decimal, text),
        "--dates": (options.dates or None, text),
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
        try:
            client.wait_for_workers(1, timeout=CONNECT_S)
        except TimeoutError as error:
            said = f"No Dask worker came to the scheduler at {address} within {CONNECT_S} s; start some."
            raise OSError(said) from error
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


def files_of(names: Sequence[str]) -> list[str]:
    """Parquet files by name, by glob, or all in a folder, in the order of their names."""
    if not names:
        raise ValueError("Dask reads files; name Parquet files, or a folder of them.")
    files = [
        file for name in names for file in (_files_in(Path(name)) if Path(name).is_dir() else matching_files(name))
    ]
    for file in files:
        if file == STDIN or kind_of_file(file) not in _PARQUET:
            what = "Standard input" if file == STDIN else f"{file!r}"
            raise ValueError(
                f"{what} is not a Parquet file; Dask workers read no other format. Convert it first, for example by "
                "pyarrow.parquet.write_table(pyarrow.csv.read_csv('t.csv'), 't.parquet')."
            )
    return files


def pieces_of(files: Sequence[str]) -> tuple[list[ParquetFileFragment], pa.Schema, list[int]]:
    """Row groups of all files in order, the columns of the first, which the others have too, and the rows of each."""
    FilesSource(list(files))  # refuses files whose columns differ
    parquet, system = ParquetFileFormat(), LocalFileSystem()
    whole = [parquet.make_fragment(str(Path(file).resolve()), system) for file in files]
    sizes = [[group.total_byte_size for group in one.row_groups] for one in whole]
    most = min(PIECE_BYTES, max(sum(map(sum, sizes)), PIECE_BYTES) // MANY_PIECES)
    pieces = [one.subset(row_group_ids=ids) for one, own in zip(whole, sizes, strict=True) for ids in _cut(own, most)]
    return pieces, whole[0].physical_schema, [one.metadata.num_rows for one in whole]


def _cut(sizes: Sequence[int], most: int) -> list[list[int]]:
    """Numbers of row groups that are read together, at least one list, however few there are."""
    pieces: list[list[int]] = [[]]
    n_bytes = 0
    for number, size in enumerate(sizes):
        if pieces[-1] and n_bytes + size > most:
            pieces.append([])
            n_bytes = 0
        pieces[-1].append(number)
        n_bytes += size
    return pieces


@dataclass(frozen=True)
class ReadPiece:
    """Reads a piece where it is needed, with the types that the file declares.

    columns : those that are read; others are there by name alone.
    """

    columns: frozenset[str]

    def __call__(self, piece: ParquetFileFragment) -> Any:
        """A frame of pandas that holds Arrow's columns."""
        try:
            names = piece.physical_schema.names
            return self._as_frame(piece.to_table(columns=[name for name in names if name in self.columns]), names)
        except (pa.ArrowInvalid, OSError) as error:
            said = " ".join(str(error).split()).rstrip(".")
            raise ValueError(f"{piece.path} cannot be read by a worker: {said}.") from None

    def empty(self, schema: pa.Schema) -> Any:
        """A frame without rows."""
        return self._as_frame(schema.empty_table(), schema.names)

    def _as_frame(self, table: pa.Table, names: Sequence[str]) -> Any:
        import pandas as pd  # noqa: PLC0415, not needed by any other command

        columns = [_plain(table[name]) if name in self.columns else pa.nulls(len(table)) for name in names]
        # A new table, without the metadata of pandas, which would turn columns into an index.
        return pa.table(columns, names=names).to_pandas(types_mapper=pd.ArrowDtype)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column without a dictionary, which may differ from piece to piece."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _files_in(folder: Path) -> list[str]:
    files = sorted(str(one) for ending in _PARQUET for one in folder.rglob(f"*{ending}") if one.name[0] not in "_.")
    if not files:
        raise FileNotFoundError(f"{str(folder)!r} has no Parquet files.")
    keys = [part for file in files for part in Path(file).relative_to(folder).parts[:-1] if "=" in part]
    if keys:
        raise ValueError(
            f"{str(folder)!r} keeps a column in the names of its folders ({keys[0]!r}), which is not read; to do "
            f"without it, name the files: {str(folder / '**' / '*.parquet')!r}."
        )
    return files
