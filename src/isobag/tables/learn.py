"""From the cells of a table to a table of features: the only reader, for frames, files and queries.

One pass is enough if all columns stay what they first seemed to be; else a second follows. The entries are kept on the
way, in memory or in a temporary file (``Spool``), and features are made of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.data.rows import ArrayRows, RangedRows, Rows
from isobag.data.spool import Spool, SpooledRows
from isobag.tables.batch import Source, names_of_files
from isobag.tables.cells import TEXT
from isobag.tables.choose import follow_encoding, learn_encoding, n_missing_of
from isobag.tables.encode import Encoding
from isobag.tables.labels import as_numbers, number_rows
from isobag.tables.passes import NewSpool, scan_source
from isobag.tables.reading import ReadOptions
from isobag.tables.scan import ColumnScan
from isobag.tables.summary import FILE, ColumnSummary, TableSummary
from isobag.tables.terminal import escape_for_terminal


@dataclass(frozen=True)
class Table:
    """A table as features.

    encoding : how its columns become features; for the model file.
    options : how it was read, among them the columns of labels.
    summary : every column accounted for.
    rows, cells : features of the rows that take part, and the cells that they are made of, NaN for gaps.
    file_sizes : rows of each of several files, in the order of the table; nothing if results do not say where from.
    takes_part : (n,), which rows take part; None if all do.
    gaps : (n,), missing values of each row in the columns used; None if there are none.
    labels : the columns set apart, as Arrow arrays (n,), null where no value stands.
    carried : the columns to be carried along, likewise.
    """

    encoding: Encoding
    options: ReadOptions
    summary: TableSummary
    rows: Rows
    cells: Rows
    file_sizes: Sequence[int]
    takes_part: Bools | None
    gaps: Ints | None
    labels: dict[str, Any]
    carried: dict[str, Any]

    @property
    def by(self) -> tuple[str, ...]:
        """Columns that make the label of a row's group; nothing if rows are looked at one by one."""
        return self.options.labels

    @property
    def n_rows(self) -> int:
        """Rows of the table, also those that take no part."""
        return self.summary.n_rows

    @property
    def X(self) -> Floats:  # noqa: N802, as everywhere
        """Features of the rows that take part, in memory: (m, d)."""
        return self.rows.map(np.asarray)


def learn_table(
    source: Source,
    options: ReadOptions,
    *,
    encoding: Encoding | None = None,
    only_rows: Ints | None = None,
    spool: NewSpool = Spool,
    facts: Mapping[str, ColumnScan] | None = None,
) -> Table:
    """Learn how the columns of a table become features, or follow what a model has learned.

    encoding : of a model: it says which columns are used and how.
    only_rows : numbers of rows, ascending; all others are passed over, whatever stands in them.
    facts : what is known of columns of all rows, of which these are a sample: medians and rare texts are those of it.
    """
    if encoding is not None:
        options = options.following(encoding)
    seen = scan_source(source, options, spool, encoding, only_rows)
    n_rows = seen.n_rows
    if only_rows is not None and n_rows < len(only_rows):
        raise ValueError(f"There is no row {only_rows[-1]:,}: the table ends before it.")
    if not n_rows:
        raise ValueError(f"{names_of_files(source.files) or 'The table'} has no rows.")
    summaries: Sequence[ColumnSummary]
    if encoding is None:
        of_all = {name: scan.with_texts_of(seen.scans[name]) for name, scan in (facts or {}).items()}
        copies = seen.find_copies() if facts is None else {}
        encoding, summaries = learn_encoding(seen.scans | of_all, options, seen.median_of, copies)
    else:
        summaries = follow_encoding(encoding, seen.scans, options)
    used_scans = [seen.scans[column.name] for column in encoding.columns]
    used = np.array([seen.names.index(scan.name) for scan in used_scans], dtype=np.int64)
    apply = encoding.bind_cells([scan.codes for scan in used_scans])
    texts = [column.name for column in encoding.columns if column.kind == TEXT]
    of_texts = "Texts take part by " + ("how often a group has each" if options.by else "how rare they are")

    def cells_of(entries: Floats) -> Floats:
        is_all = len(used) == entries.shape[1]
        return apply(entries if is_all else np.ascontiguousarray(entries[:, used]))

    def make(entries: Floats) -> Floats:
        return encoding.features(cells_of(entries))

    labels = seen.labels.joined(as_numbers=facts is None and not source.is_part)
    if options.bags is not None:
        labels[options.bags.name] = options.bags.starts(labels, options.by, options.dates)
    takes_part, gaps, entries = np.ones(n_rows, dtype=bool), None, seen.spool
    if options.by or options.baseline:
        takes_part = _labelled(source, labels, options, facts is not None)
    n_unlabelled = int(np.count_nonzero(~takes_part))
    if any(n_missing_of(scan, options) for scan in used_scans):
        gaps = seen.count_gaps(used)
        if options.missing == "drop":
            takes_part &= gaps == 0
    n_dropped = int(np.count_nonzero(~takes_part))
    if n_dropped:
        entries = seen.only(takes_part)
    file_sizes, notes = _file_sizes(source, [one.name for one in summaries])
    missing = [f"{scan.name} ({n_missing_of(scan, options):,})" for scan in used_scans if n_missing_of(scan, options)]
    of_gaps = "Missing values take part by how rare they are"
    for what, listed in ((of_texts, texts), (of_gaps, missing if options.missing == "auto" else [])):
        if listed:
            notes = (*notes, f"{what}: {', '.join(map(escape_for_terminal, listed))}.")
    if facts is not None:  # numbers of all rows, as far as they are known
        n_rows = max(scan.n_rows for scan in facts.values())
        n_unlabelled = max((facts[name].n_missing for name in options.by), default=0)
        n_dropped = n_unlabelled = n_unlabelled if options.missing == "drop" else 0
    summary = TableSummary(source.files, n_rows, n_dropped, tuple(summaries), notes, n_unlabelled)
    rows: Rows = SpooledRows(entries, encoding.names, make)
    if entries.is_in_memory:
        X = make(entries.numbers)
        rows = ArrayRows(X, encoding.names)
        if facts is not None:
            rows = RangedRows(ArrayRows(X, encoding.names), *encoding.extremes(facts, X))
    else:
        pa.default_memory_pool().release_unused()  # of the batches that were read, before rows are learned from
    cells = SpooledRows(entries, [column.name for column in encoding.columns], cells_of)
    carried = {name: as_numbers(own) for name, own in labels.items() if options.carry is None or name in options.carry}
    apart = {name: labels[name] for name in (*options.apart, *options.labels)}
    kept_rows = None if takes_part.all() else takes_part
    return Table(encoding, options, summary, rows, cells, file_sizes, kept_rows, gaps, apart, carried)


def _file_sizes(source: Source, names: Sequence[str]) -> tuple[Sequence[int], tuple[str, ...]]:
    """Rows of each of several files, unless a column has the name that results give them; and all remarks."""
    if not source.file_sizes or FILE not in names:
        return source.file_sizes, source.notes
    remark = f"The table has a column {FILE!r}, so results do not show which file a row is from; rename it."
    return (), (*source.notes, remark)


def _labelled(source: Source, labels: dict[str, Any], options: ReadOptions, is_sample: bool) -> Bools:
    """Which rows have the label of a group: (n,). Others are an error unless they are to be dropped, or in a sample."""
    names = options.labels + options.baseline
    is_labelled = number_rows([labels[name] for name in names])[0] >= 0
    if not is_labelled.all() and options.missing != "drop" and not is_sample:
        where = f" of {names_of_files(source.files)}" if source.files else ""
        raise ValueError(
            f"{', '.join(names)}: row {source.first_row + int(np.argmin(is_labelled)):,}{where} has no label, one of "
            f"{np.count_nonzero(~is_labelled):,} such rows of {len(is_labelled):,}; pass missing='drop' to leave "
            "them out."
        )
    return is_labelled
