"""Whether two tables differ, and where."""

import numpy as np
import pyarrow as pa

from isobag.backends.arrays import Floats
from isobag.cli.inputs import input_of, threads_for
from isobag.cli.options import Typed
from isobag.cli.output import note, print_json, print_line, print_table
from isobag.cli.progress import progress
from isobag.estimators.compare import compare
from isobag.tables.cells import TEXT
from isobag.tables.learn import Table


def compare_tables(typed: Typed) -> None:
    """Print whether the rows of two tables come from one distribution."""
    quiet = typed.quiet
    with progress(typed.is_silent) as bar:
        first_input, second_input = (
            input_of(typed, [] if file is None else [file], sql)
            for file, sql in ((typed.a, typed.sql_a), (typed.b, typed.sql_b))
        )
        table = first_input.read(bar)
        other = second_input.read(bar, encoding=table.encoding)
        first, second = _values(table), _values(other)
        n_rows = len(first) + len(second)
        n_jobs = threads_for(typed.jobs, n_rows)
        with bar.stage("comparing"):
            how = {"n_permutations": typed.n_permutations, "random_state": typed.seed, "n_jobs": n_jobs}
            comparison = compare(first, second, **how)
    names = [column.name for column in table.encoding.columns]
    order = np.argsort(-np.abs(comparison.features), kind="stable") if typed.json else comparison.differing
    apart = {
        "feature": [names[j] for j in order],
        "separation": comparison.features[order].tolist(),
        "p_value": comparison.feature_p_values[order].tolist(),
    }
    if typed.json:
        listed = pa.table(apart).to_pylist()
        rows = {"n_a": len(first), "n_b": len(second)}
        tables = {"table_a": table.summary.as_dict(), "table_b": other.summary.as_dict()}
        print_json(
            {"statistic": comparison.statistic, "p_value": comparison.p_value, **rows, "features": listed, **tables}
        )
        return
    print_line(f"statistic {comparison.statistic:.4g}, p-value {comparison.p_value:.4g}")
    if len(order):
        print_table(apart)
    n_same = len(names) - len(order)
    summary = f"{len(first):,} rows and {len(second):,} rows. "
    if not len(order):
        summary += "No single feature differs beyond chance."
    else:
        summary += "Below 0, the first table has the lower values."
        summary += f" Not beyond chance in {n_same:,} other feature{'s' * (n_same > 1)}." if n_same else ""
    note(summary, quiet)
    for sentence in dict.fromkeys([*table.summary.sentences(), *other.summary.sentences()]):
        note(sentence, quiet)


def _values(table: Table) -> Floats:
    """The cells of a table, NaN for gaps, texts by their place in the alphabet: (n, c)."""
    cells: Floats = table.cells.take(np.arange(len(table.cells)))
    for j, column in enumerate(table.encoding.columns):
        if column.kind == TEXT:
            places = np.append(np.argsort(np.argsort(column.categories)), len(column.categories))
            present = ~np.isnan(cells[:, j])
            cells[present, j] = places[cells[present, j].astype(np.int64)]
    return cells
