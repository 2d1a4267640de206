"""From what is typed to what the library takes: how a table is read, its rows, a detector, a model."""

from typing import Any

from isobag.cli.options import Typed, number_or_auto, split_names
from isobag.cli.progress import Bar
from isobag.estimators import IDKGroupDetector, IDKPointDetector
from isobag.storage.modelfile import load
from isobag.tables.batch import Source
from isobag.tables.detect import encoding_of
from isobag.tables.encode import Encoding
from isobag.tables.learn import Table, learn_table
from isobag.tables.model import Model
from isobag.tables.reading import ReadOptions
from isobag.tables.sources import FilesSource
from isobag.tables.times import bags_of

FEW_ROWS = 20_000
"""Below, starting threads takes longer than they save."""
_WRITTEN = ("header", "delimiter", "skip", "encoding", "sheet", "format")
_READ = ("decimal", "thousands", "numbers", "dates", "missing", "bad_cells")
_TIMES = ("time", "every", "sessions", "time_zone", "time_unit")


def read_options(typed: Typed, model: Model | None = None) -> ReadOptions:
    """How a table is to be read: as typed, and as a model says."""
    by, carry = split_names(typed.by), None if typed.keep == "all" else split_names(typed.keep) or ()
    how = {name: getattr(typed, name) for name in _READ if getattr(typed, name)} | {"id": typed.id_column}
    if model is not None:
        options = model.read_options(by=by, carry=carry, **how)
        return options.following(Encoding.of_model(model.detector)) if hasattr(model.detector, "table_") else options
    how |= {name: split_names(getattr(typed, name)) for name in ("features", "exclude")}
    how["bags"] = bags_of(by=tuple(by or ()), **{name: getattr(typed, name) for name in _TIMES})
    return ReadOptions.of(by=by, baseline=split_names(typed.within), carry=carry, **how)


def open_source(typed: Typed, options: ReadOptions) -> Source:
    """The files or the query, opened for reading in this process."""
    if not typed.files and typed.sql is None:
        raise ValueError("Neither a file nor a query is given; name a FILE or give --sql.")
    how = {name: getattr(typed, name) for name in _WRITTEN if getattr(typed, name) is not None}
    how |= {"na": split_names(typed.na) or (), "decimal": options.decimal}
    if typed.sql is None:
        return FilesSource(typed.files, **how)
    from isobag.tables.query import QuerySource  # noqa: PLC0415, loads DuckDB

    return QuerySource(typed.sql, typed.files or [], options.notation, **how)


def read_table(source: Source, options: ReadOptions, bar: Bar, detector: Any = None, **more: Any) -> Table:
    """The table: of the columns chosen, or of those of a fitted detector."""
    source.tick = bar.tick
    if detector is not None:
        more["encoding"] = encoding_of(detector, source.columns, [*options.apart])
    return learn_table(source, options, **more)


def new_detector(typed: Typed) -> Any:
    """A detector of groups if --by is given, else of rows, with parameters as they are typed."""
    kind: type[Any] = IDKPointDetector if typed.by is None else IDKGroupDetector
    return kind(
        typed.n_estimators,
        number_or_auto(typed.max_samples, "--max-samples", int),
        contamination=number_or_auto(typed.contamination, "--contamination", float),
        random_state=typed.seed,
    )


def open_model(typed: Typed) -> Model:
    """A model from a file, or a detector that was saved by itself."""
    content = load(typed.model)
    if isinstance(content, IDKPointDetector | IDKGroupDetector):
        content = Model(content)
    if not isinstance(content, Model):
        raise ValueError(f"{str(typed.model)!r} holds a {type(content).__name__}; need a file of `isobag fit`.")
    return content


def threads_for(jobs: int | None, n_rows: int) -> int:
    """The number of threads asked for, or what suits the number of rows."""
    return jobs if jobs is not None else 1 if n_rows < FEW_ROWS else -1
