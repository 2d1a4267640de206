"""From a file, or a query over it, to a table."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import pyarrow as pa
import typer

from isobag.backends.arrays import Floats, Ints
from isobag.data.frames import feature_names
from isobag.data.rows import all_rows
from isobag.estimators import IDKGroupDetector, IDKPointDetector
from isobag.storage.files import FileTable
from isobag.storage.modelfile import load
from isobag.streaming import KEPT_BYTES, Tick, read_batches
from isobag.tables.table import Table

IN_MEMORY = 1 << 62


class Source(NamedTuple):
    """A table, what its rows are called (None: by number), and where it came from."""

    table: Table
    labels: Any
    name: str

    def names_of(self, rows: Any) -> list[Any]:
        """What some rows are called."""
        if self.labels is None:
            return [int(row) for row in rows]
        found: list[Any] = self.labels.take(pa.array(rows)).to_pylist()
        return found


def read_source(
    path: str | None,
    sql: str | None,
    *,
    features: list[str] | None = None,
    missing: str = "error",
    label_column: str | None = None,
    model: Any = None,
    in_memory: bool = False,
    tick: Tick | None = None,
) -> Source:
    """Read a file in batches: the features chosen, or those of a model; also the column with labels of rows."""
    if path is None and sql is None:
        raise typer.BadParameter("Neither a file nor a query is given; name a FILE or give --sql.")
    file = FileTable(path, sql)
    schema = _schema(file)
    if label_column is not None and label_column not in schema:
        known = ", ".join(map(repr, schema)) or "none"
        raise ValueError(f"The table has no column {label_column!r} (columns: {known}).")
    labels: list[Any] = []

    def batches(names: list[str]) -> Iterator[Any]:
        asked = list(dict.fromkeys([*names, *([] if label_column is None else [label_column])]))
        for batch in file.batches(asked):
            if label_column is not None:
                labels.append(batch.column(label_column))
            yield batch

    table = read_batches(
        batches,
        schema,
        features,
        missing,
        label_column,
        None if model is None else _names(model, schema, label_column),
        tick,
        IN_MEMORY if in_memory else KEPT_BYTES,
    )
    if tick is not None:
        tick("learning", table.n_rows, None)
    found = None
    if label_column is not None:
        chunks = [chunk for column in labels for chunk in column.chunks]
        # In one piece: taking some out of many pieces would put them together every time.
        whole = pa.table({"label": pa.chunked_array(chunks, file.schema.field(label_column).type)}).combine_chunks()
        found = whole.column("label")
    return Source(table, found, path or sql or "")


def labels_of_groups(source: Source) -> Any:
    """One label for each row, as an array."""
    return np.array(source.labels.to_pylist(), dtype=object) if len(source.labels) else np.empty(0, dtype=object)


def open_model(path: Path, by: str | None) -> Any:
    """A fitted detector from a file: of groups if ``by`` is given, else of points."""
    model = load(path)
    wanted, hint = (IDKPointDetector, "leave --by out") if by is not None else (IDKGroupDetector, "give --by COLUMN")
    if isinstance(model, wanted):
        raise ValueError(f"{str(path)!r} holds a {type(model).__name__}; {hint}.")
    if not isinstance(model, IDKPointDetector | IDKGroupDetector):
        raise ValueError(f"{str(path)!r} holds a {type(model).__name__}; need a detector of points or groups.")
    return model


def set_threads(detector: Any, n_jobs: int) -> None:
    """Let a fitted detector, and the one inside it for p-values, use this many threads."""
    detector.set_params(n_jobs=n_jobs)
    if detector.calibration_ is not None:
        detector.calibration_.detector.set_params(n_jobs=n_jobs)


def find_label(source: Source, label: str) -> Ints:
    """Numbers of the rows with a label, or the one row with that number if rows go by number: ascending."""
    if source.labels is not None:
        rows = np.flatnonzero(np.array([str(one) == label for one in source.labels.to_pylist()], dtype=bool))
        if not len(rows):
            raise ValueError(f"--id {label!r} is not among the {len(source.labels):,} labels of the table.")
        return rows
    if not label.isdecimal() or int(label) >= source.table.n_rows:
        raise ValueError(f"--id {label!r} is no row; need a number from 0 to {source.table.n_rows - 1:,}.")
    return np.array([int(label)])


def read_pair(
    a: str, b: str, features: list[str] | None, missing: str, tick: Tick | None
) -> tuple[Floats, Floats, list[str]]:
    """Two tables with the same features, those of the first, in memory: (n, d), (m, d), names."""
    first = FileTable(a)
    table = read_batches(first.batches, _schema(first), features, missing, tick=tick, kept_bytes=IN_MEMORY)
    second = FileTable(b)
    names = table.encoding.names
    other = read_batches(
        second.batches, _schema(second), missing=missing, model_names=names, tick=tick, kept_bytes=IN_MEMORY
    )
    return all_rows(table.rows), all_rows(other.rows), names


def _schema(file: FileTable) -> dict[str, Any]:
    return dict(nw.from_native(file.schema.empty_table(), eager_only=True).schema)


def _names(model: Any, schema: dict[str, Any], label_column: str | None) -> list[str]:
    """Names of the model's features; a model of nameless rows takes the columns of numbers in their order."""
    if hasattr(model, "feature_names_in_"):
        return feature_names(model)
    numbers = [name for name, kind in schema.items() if kind.is_numeric() and name != label_column]
    if len(numbers) != model.n_features_in_:
        raise ValueError(
            f"The model was fitted to {model.n_features_in_} features without names, and the table has {len(numbers)} "
            "columns of numbers; choose them with --sql."
        )
    return numbers
