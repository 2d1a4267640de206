"""Whether two tables differ, and where."""

import numpy as np

from isobag.backends.arrays import Floats
from isobag.cli.inputs import open_source, read_options, read_table, threads_for
from isobag.cli.options import Typed
from isobag.cli.output import rows_of, show
from isobag.cli.progress import progress
from isobag.estimators.compare import compare
from isobag.tables.cells import TEXT
from isobag.tables.learn import Table


def compare_tables(typed: Typed) -> None:
    """Print whether the rows of two tables come from one distribution."""
    options = read_options(typed)
    tables: list[Table] = []
    with progress(typed.is_silent) as bar:
        for file, sql in ((typed.a, typed.sql_a), (typed.b, typed.sql_b)):
            side = Typed(**{**vars(typed), "files": [file] if file else [], "sql": sql or typed.sql})
            source = open_source(side, options)
            tables.append(read_table(source, options, bar, encoding=tables[0].encoding if tables else None))
        first, second = map(_values, tables)
        bar.stage("comparing")
        n_jobs = threads_for(typed.jobs, len(first) + len(second))
        how = {"n_permutations": typed.n_permutations, "random_state": typed.seed, "n_jobs": n_jobs}
        comparison = compare(first, second, **how)
    names = [column.name for column in tables[0].encoding.columns]
    order = np.argsort(-np.abs(comparison.features), kind="stable") if typed.json else comparison.differing
    columns = {"separation": comparison.features[order], "p_value": comparison.feature_p_values[order]}
    apart = {"feature": [names[j] for j in order], **columns}
    n_same = len(names) - len(order)
    summary = f"{len(first):,} rows and {len(second):,} rows. "
    if not len(order):
        summary += "No single feature differs beyond chance."
    else:
        summary += "Below 0, the first table has the lower values."
        summary += f" Not beyond chance in {n_same:,} other feature{'s' * (n_same > 1)}." if n_same else ""
    facts = {"statistic": comparison.statistic, "p_value": comparison.p_value, "n_a": len(first), "n_b": len(second)}
    summaries = {f"table_{name}": table.summary.as_dict() for name, table in zip("ab", tables, strict=True)}
    line = f"statistic {comparison.statistic:.3g}, p-value {comparison.p_value:.3g}"
    notes = [summary, *dict.fromkeys(sentence for table in tables for sentence in table.summary.sentences())]
    show(typed, {**facts, "features": rows_of(apart), **summaries}, [line], apart if len(order) else None, notes)


def _values(table: Table) -> Floats:
    """The cells of a table, NaN for gaps, texts by their place in the alphabet: (n, c)."""
    cells: Floats = table.cells.take(np.arange(len(table.cells)))
    for j, column in enumerate(table.encoding.columns):
        if column.kind == TEXT:
            places = np.append(np.argsort(np.argsort(column.categories)), len(column.categories))
            present = ~np.isnan(cells[:, j])
            cells[present, j] = places[cells[present, j].astype(np.int64)]
    return cells
