"""From what is typed to a table and a detector: files, a query over them, an engine that reads them, a model file."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import typer

from isobag.cli.options import WRITTEN, Typed, number_or_auto, reading, split_names
from isobag.cli.progress import Silent
from isobag.data.local import Source
from isobag.data.partitions import Collection
from isobag.estimators import IDKGroupDetector, IDKPointDetector
from isobag.storage.modelfile import load
from isobag.tables.batch import names_of_files
from isobag.tables.detect import encoding_of
from isobag.tables.encode import Encoding
from isobag.tables.learn import Table, learn_table
from isobag.tables.openers import STDIN
from isobag.tables.reading import ReadOptions
from isobag.tables.sources import FilesSource, matching_files

LOCAL = "local"
FEW_ROWS = 20_000
"""Below, starting threads takes longer than they save."""


@dataclass(frozen=True)
class Input:
    """Where a command reads from, and how.

    files : names of files, globs, or "-" for standard input.
    sql : a query over them.
    written : how files are written, as typed: options of WRITTEN and --format that are given.
    """

    files: Sequence[str]
    sql: str | None
    written: dict[str, Any]
    options: ReadOptions

    @property
    def name(self) -> str:
        """The input in few words."""
        return names_of_files(self.files) or str(self.sql)

    @cached_property
    def source(self) -> Source:
        """The files or the query, opened for reading in this process."""
        if not self.files and self.sql is None:
            raise typer.BadParameter("Neither a file nor a query is given; name a FILE or give --sql.")
        how = {**self.written, "na": split_names(self.written.get("na")) or (), "decimal": self.options.decimal}
        if "format" in how:
            how["format"] = f".{how['format'].lstrip('.').lower()}"
        if "delimiter" in how:
            sign = how["delimiter"] = {"tab": "\t", "\\t": "\t"}.get(how["delimiter"], how["delimiter"])
            if len(sign) != 1 or sign in '"\r\n':
                raise typer.BadParameter(f"--delimiter {sign}: need one character that divides cells, or tab.")
        if self.sql is None:
            return FilesSource(self.files, **how)
        from isobag.tables.query import QuerySource  # noqa: PLC0415, loads DuckDB

        return QuerySource(self.sql, self.files, self.options.notation, **how)

    def following(self, model: Any) -> "Input":
        """The same in the notation of numbers that a model has learned."""
        if not hasattr(model, "table_"):
            return self
        return replace(self, options=self.options.following(Encoding.of_model(model)))

    def read(self, bar: Silent, *, model: Any = None, encoding: Encoding | None = None, **more: Any) -> Table:
        """The table, read in this process: of the columns chosen, or of those of a model or an encoding."""
        if model is not None:
            encoding = encoding_of(model, self.source.columns, [*self.options.apart])
        self.source.tick = bar.tick
        return learn_table(self.source, self.options, encoding=encoding, **more)


def input_of(typed: Typed, files: Sequence[str] | None = None, sql: str | None = None) -> Input:
    """The input that the options of a command describe; ``files``, ``sql``: what stands in the place of theirs."""
    own = vars(typed)
    written = {name: own[name] for name in (*WRITTEN.split(), "format") if own.get(name) is not None}
    return Input(files or own.get("files") or [], sql or own.get("sql"), written, reading(typed))


def new_detector(typed: Typed, **params: Any) -> Any:
    """A detector of groups if --by is given, else of rows, with parameters as they are typed."""
    by = vars(typed).get("by")
    kinds: dict[str, Any] = {"max_samples": int, "contamination": float}
    if by is not None:
        kinds["group_max_samples"] = int
    for name, kind in kinds.items():
        params[name] = number_or_auto(vars(typed)[name], f"--{name.replace('_', '-')}", kind)
    detector: type[Any] = IDKPointDetector if by is None else IDKGroupDetector
    return detector(n_estimators=typed.n_estimators, random_state=typed.seed, **params)


def open_model(typed: Typed) -> Any:
    """A fitted detector from a file: of groups if --by is given, else of points."""
    model, path = load(typed.model), str(typed.model)
    is_group = typed.by is not None
    wanted, hint = (IDKPointDetector, "leave --by out") if is_group else (IDKGroupDetector, "give --by COLUMN")
    if isinstance(model, wanted):
        raise ValueError(f"{path!r} holds a {type(model).__name__}; {hint}.")
    if not isinstance(model, IDKPointDetector | IDKGroupDetector):
        raise ValueError(f"{path!r} holds a {type(model).__name__}; need a detector of points or groups.")
    return model


class Engine:
    """This process, the default: files are read here, and rows are looked at by threads. Others override all of it."""

    def files(self, given: Input, *, report: Path | None = None, jobs: int | None = None) -> list[str]:
        """Names of the files that will be read; options that cannot be used are refused."""
        return [file for name in given.files for file in matching_files(name) if file != STDIN]

    @contextmanager
    def opened(self, given: Input, bar: Silent, *, jobs: int | None, is_silent: bool) -> Iterator[Source | Collection]:
        """The input as partitions, within a context; what goes wrong in it is an OSError or a ValueError."""
        given.source.tick = bar.tick
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
