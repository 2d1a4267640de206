"""From partitions of cells to a table of features: the only reader, for frames, files, Dask and Spark.

Every partition is scanned by itself, and what is known of neighbours merges, so the encoding is that of the whole table
however it is cut. One pass is enough if all columns stay what they first seemed to be; else a second follows. The
entries of a table that is read in this process are kept on the way, in memory or in a temporary file (``Spool``), and
features are made of them; elsewhere every pass reads the rows again, where they are.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from operator import add
from typing import Any

import narwhals as nw
import numpy as np

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.data.local import Source
from isobag.data.partitions import Collection, Frames, PartitionedRows, Partitions
from isobag.data.partitions import Labels as LabelArray
from isobag.data.rows import ArrayRows, Rows
from isobag.data.spool import Spool, SpooledRows
from isobag.tables.batch import names_of_files
from isobag.tables.cells import NUMBER, TIME
from isobag.tables.choose import check_names, follow_encoding, kinds_of, learn_encoding, n_missing_of
from isobag.tables.encode import Encoding
from isobag.tables.labels import are_labelled, as_numbers, label_rows, packed
from isobag.tables.passes import Scan, Seen, medians_of, scan_source, sources_of
from isobag.tables.reading import ReadOptions
from isobag.tables.summary import FILE, UNKNOWN, ColumnSummary, TableSummary


@dataclass(frozen=True)
class Table:
    """A table as features.

    encoding : how its columns become features; for the model file.
    options : how it was read, among them the columns of labels.
    summary : every column accounted for.
    rows : features of the rows that take part.
    file_sizes : rows of each of several files, in the order of the table; nothing if results do not say where from.
    """

    encoding: Encoding
    options: ReadOptions
    summary: TableSummary
    rows: Rows
    file_sizes: Sequence[int]

    @property
    def by(self) -> tuple[str, ...]:
        """Columns that make the label of a row's group; nothing if rows are looked at one by one."""
        return self.options.labels

    @property
    def n_rows(self) -> int:
        """Rows of the table, also those that take no part."""
        return self.summary.n_rows


@dataclass(frozen=True)
class LocalTable(Table):
    """A table, or a part of one, that was read in this process.

    kept : (n,), which rows take part; None if all do.
    gaps : (n,), missing values of each row in the columns used; None if there are none.
    labels : the columns set apart, as Arrow arrays (n,), null where no value stands.
    carried : the columns to be carried along, likewise.
    first_row : number of the first of these rows in the partition that they are of.
    """

    kept: Bools | None
    gaps: Ints | None
    labels: dict[str, Any]
    carried: dict[str, Any]
    first_row: int = 0

    @property
    def X(self) -> Floats:  # noqa: N802, as everywhere
        """Features of the rows that take part, in memory: (m, d)."""
        return self.rows.map(np.asarray)


@dataclass(frozen=True)
class PartitionedTable(Table):
    """A table whose rows stay in their partitions.

    sizes : (p,), rows of each partition; ``kept_sizes`` (p,), those of them that take part.
    has_gaps : whether a value is missing in a column that is used.
    """

    partitions: Collection
    reader: "PartitionReader"
    sizes: Ints
    kept_sizes: Ints
    has_gaps: bool


@dataclass(frozen=True)
class PartitionReader:
    """How the rows of a partition become features; may be sent to where the partition is.

    free : columns of mixed objects, each cell of which is text to be parsed.
    """

    encoding: Encoding
    options: ReadOptions
    free: frozenset[str] = frozenset()

    def blocks(self, number: int, frames: Frames) -> Iterator[LocalTable]:
        """The rows of a partition, at most PARTITION_ROWS at a time."""
        options = replace(self.options.following(self.encoding), carry=())
        names = list(dict.fromkeys([*(options.features or ()), *options.apart]))
        for source in sources_of(number, frames, names, self.free):
            part = _learn_here(source, options, encoding=self.encoding, spool=_in_memory, is_part=True)
            yield replace(part, first_row=source.first_row)

    def __call__(self, number: int, frames: Frames) -> Iterator[tuple[Floats, LabelArray | None]]:
        """The rows of a partition that take part, in order: features (m, d) and, if there are groups, labels (m,)."""
        for block in self.blocks(number, frames):
            if not block.by:
                yield block.X, None
                continue
            labels, takes_part = self.group_labels(number, block)
            own = takes_part if block.kept is None else takes_part[block.kept]
            yield block.X if own.all() else block.X[own], labels[takes_part]

    def group_labels(self, number: int, block: LocalTable) -> tuple[LabelArray, Bools]:
        """The label of each row's group, None where there is none, and which rows take part: (n,), (n,)."""
        labels = label_rows([block.labels[name] for name in block.by])
        is_labelled = np.array([label is not None for label in labels.tolist()], dtype=bool)
        if not is_labelled.all() and self.encoding.missing != "drop":
            row = block.first_row + int(np.argmin(is_labelled))
            raise ValueError(
                f"{', '.join(block.by)}: row {row:,} of partition {number} has no label; pass missing='drop' to "
                "leave such rows out."
            )
        return labels, is_labelled if block.kept is None else is_labelled & block.kept


def learn_table(
    partitions: Source | Collection,
    options: ReadOptions,
    *,
    encoding: Encoding | None = None,
    only_rows: Ints | None = None,
    spool: Callable[[int], Spool] | None = None,
) -> Table:
    """Learn how the columns of a table become features, or follow what a model has learned.

    encoding : of a model: it says which columns are used and how.
    only_rows : numbers of rows, ascending; all others are passed over, whatever stands in them. Of a ``Source`` alone.
    spool : called with the number of columns, for what keeps the entries of a ``Source``.
    """
    if encoding is not None:
        options = options.following(encoding)
    if options.baseline and not isinstance(partitions, Source):
        raise ValueError(
            f"baseline_by={','.join(options.baseline)!r} compares rows with their own group in one process; neither "
            "Dask nor Spark can do it yet."
        )
    if isinstance(partitions, Source):
        spool = spool or partial(Spool, is_learned=encoding is None)
        return _learn_here(partitions, options, encoding=encoding, only_rows=only_rows, spool=spool)
    if options.bags is not None and options.bags.sessions is not None:
        raise ValueError(
            f"sessions={options.bags.sessions!r} needs all rows of a label in one place, which Dask and Spark do not "
            "have; choose every=."
        )
    if encoding is not None:
        return _follow_there(partitions, options, encoding)
    return _learn_there(partitions, options)


def _learn_here(
    source: Source,
    options: ReadOptions,
    *,
    encoding: Encoding | None,
    spool: Callable[[int], Spool],
    only_rows: Ints | None = None,
    is_part: bool = False,
) -> LocalTable:
    """A table read in this process; ``is_part``: it is a part of one, so only what is asked for is looked at."""
    scan = Scan(_names(source), options, encoding, only_rows=only_rows, reads_all=not is_part)
    seen, kept = scan_source(source, scan, spool)
    n_rows = seen.n_rows
    if only_rows is not None and n_rows < len(only_rows):
        raise ValueError(f"There is no row {only_rows[-1]:,}: the table ends before it.")
    if not n_rows:
        raise ValueError(f"{names_of_files(source.files) or 'The table'} has no rows.")
    summaries: Sequence[ColumnSummary]
    if encoding is None:
        encoding, summaries = learn_encoding(seen.scans, options, kept.median_of)
    else:
        summaries = follow_encoding(encoding, seen.scans, options)
    used_scans = [seen.scans[column.name] for column in encoding.columns]
    used = np.array([kept.names.index(scan.name) for scan in used_scans], dtype=np.int64)
    apply = encoding.bind([scan.codes for scan in used_scans])

    def make(entries: Floats) -> Floats:
        is_all = len(used) == entries.shape[1]
        return apply(entries if is_all else np.ascontiguousarray(entries[:, used]))

    labels = kept.labels.joined(as_numbers=not is_part)
    if options.bags is not None:
        labels[options.bags.name] = options.bags.starts(labels, options.by, options.dates)
    takes_part, gaps, entries = np.ones(n_rows, dtype=bool), None, kept.spool
    if (options.by or options.baseline) and not is_part:
        takes_part = _labelled(source, labels, options)
        labels |= {name: packed(labels[name]) for name in options.by}
    n_unlabelled = int(np.count_nonzero(~takes_part))
    if any(n_missing_of(scan, options) for scan in used_scans):
        gaps = kept.count_gaps(used)
        if options.missing == "drop":
            takes_part &= gaps == 0
    n_dropped = int(np.count_nonzero(~takes_part))
    if n_dropped:
        entries = kept.only(takes_part)
    file_sizes, notes = _file_sizes(source, [one.name for one in summaries])
    summary = TableSummary(source.files, n_rows, n_dropped, tuple(summaries), notes, n_unlabelled)
    rows: Rows = SpooledRows(entries, encoding.names, make)
    if entries.is_in_memory:
        rows = ArrayRows(make(entries.read(0, len(entries))), encoding.names)
    carried = {name: as_numbers(own) for name, own in labels.items() if options.carry is None or name in options.carry}
    apart = {name: labels[name] for name in (*options.apart, *options.labels)}
    kept_rows = takes_part if n_dropped else None
    return LocalTable(encoding, options, summary, rows, file_sizes, kept_rows, gaps, apart, carried)


def _file_sizes(partitions: Partitions, names: Sequence[str]) -> tuple[Sequence[int], tuple[str, ...]]:
    """Rows of each of several files, unless a column has the name that results give them; and all remarks."""
    if not partitions.file_sizes or FILE not in names:
        return partitions.file_sizes, partitions.notes
    own = f"The table has a column {FILE!r} of its own, so results do not say which file a row is from."
    return (), (*partitions.notes, own)


def _labelled(source: Source, labels: dict[str, Any], options: ReadOptions) -> Bools:
    """Which rows have the label of a group; those that have none are an error unless rows are to be dropped: (n,)."""
    names = options.labels + options.baseline
    is_labelled = are_labelled([labels[name] for name in names])
    if not is_labelled.all() and options.missing != "drop":
        where = f" of {names_of_files(source.files)}" if source.files else ""
        raise ValueError(
            f"{', '.join(names)}: row {int(np.argmin(is_labelled)):,}{where} has no label, one of "
            f"{np.count_nonzero(~is_labelled):,} such rows of {len(is_labelled):,}; pass missing='drop' to leave "
            "them out."
        )
    return is_labelled


def _learn_there(partitions: Collection, options: ReadOptions) -> PartitionedTable:
    """A table that stays in its partitions."""
    scan = Scan(_names(partitions), options)
    check_names(scan.names or (), options)
    seen = partitions.run(scan, Seen.merge)
    # If some cells are text to be understood while others have a type, all are to be such text.
    free = frozenset(name for name, own in seen.scans.items() if own.is_free and own.declared is not None)
    if free:
        scan = replace(scan, free=free)
        seen = partitions.run(scan, Seen.merge)
    kinds = kinds_of(seen.scans, options)
    if not scan.is_right(seen, kinds):
        scan = replace(scan, kinds=kinds)
        seen = partitions.run(scan, Seen.merge)
    if not seen.n_rows:
        raise ValueError("The table has no rows.")
    entries = replace(scan, kinds=kinds).entries
    numbers = [name for name in seen.scans if scan.reads(name) and kinds[name] in (NUMBER, TIME)]
    medians = cache(lambda: medians_of(partitions, entries, numbers))
    encoding, summaries = learn_encoding(seen.scans, options, lambda name: medians()[name])
    free = scan.free | {name for name, own in seen.scans.items() if own.is_free}
    reader = PartitionReader(encoding, options, free)
    sizes = kept_sizes = np.array(seen.sizes, dtype=np.int64)
    has_gaps = any(n_missing_of(seen.scans[column.name], options) for column in encoding.columns)
    n_unlabelled = 0
    if options.missing == "drop" and (has_gaps or options.by):
        counts = np.array(partitions.run(partial(_count_kept, reader), add), dtype=np.int64)
        kept_sizes, n_unlabelled = counts[:, 0], int(counts[:, 1].sum())
    columns = tuple(one if scan.reads(one.name) else replace(one, kind=UNKNOWN) for one in summaries)
    n_dropped = int(sizes.sum() - kept_sizes.sum())
    file_sizes, notes = _file_sizes(partitions, scan.names or ())
    summary = TableSummary(partitions.files, seen.n_rows, n_dropped, columns, notes, n_unlabelled)
    rows = PartitionedRows(partitions, reader, kept_sizes, encoding.names)
    own = (encoding, options, summary, rows, file_sizes)
    return PartitionedTable(*own, partitions, reader, sizes, kept_sizes, has_gaps)


def _follow_there(partitions: Collection, options: ReadOptions, encoding: Encoding) -> PartitionedTable:
    """A table in partitions to which a model is applied: nothing is learned, and checks happen where it is read."""
    encoding = replace(encoding, missing=options.missing, bad_cells=options.bad_cells)
    used = dict.fromkeys([*(options.features or ()), *options.apart])
    names = tuple(name for name in used if name in partitions.objects)
    free: frozenset[str] = frozenset()
    if names:
        seen = partitions.run(Scan(names, ReadOptions(names)), Seen.merge)
        free = frozenset(name for name, own in seen.scans.items() if own.is_free)
    reader = PartitionReader(encoding, options, free)
    sizes = np.array(partitions.run(_count_frames, add), dtype=np.int64)
    file_sizes, notes = _file_sizes(partitions, partitions.columns or ())
    summary = TableSummary(partitions.files, int(sizes.sum()), 0, (), notes)
    rows = PartitionedRows(partitions, reader, sizes, encoding.names)
    own = (encoding, options, summary, rows, file_sizes)
    return PartitionedTable(*own, partitions, reader, sizes, sizes, False)


def _names(partitions: Partitions) -> tuple[str, ...] | None:
    return None if partitions.columns is None else tuple(partitions.columns)


def _count_kept(reader: PartitionReader, number: int, frames: Frames) -> list[tuple[int, int]]:
    """Rows of a partition that take part, and those without the label of a group."""
    n_kept = n_unlabelled = 0
    for block in reader.blocks(number, frames):
        is_labelled = np.ones(block.n_rows, dtype=bool)
        if block.by:
            is_labelled = are_labelled([block.labels[name] for name in block.by])
        n_kept += int(np.count_nonzero(is_labelled if block.kept is None else is_labelled & block.kept))
        n_unlabelled += int(np.count_nonzero(~is_labelled))
    return [(n_kept, n_unlabelled)]


def _count_frames(number: int, frames: Frames) -> list[int]:
    return [sum(len(nw.from_native(frame, eager_only=True)) for frame in frames)]


_in_memory = partial(Spool, kept_bytes=1 << 62)
