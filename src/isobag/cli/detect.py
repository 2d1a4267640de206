"""What the commands that rank do alike: read, learn or load, rank, write, show."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from isobag.cli import options as o
from isobag.cli.inputs import Source, encoding_of
from isobag.cli.output import note, print_json
from isobag.cli.progress import Silent, progress
from isobag.cli.results import check_targets, command_line, show_results, write_results
from isobag.cli.work import work_on_groups, work_on_rows
from isobag.data.spool import Tick
from isobag.storage.modelfile import save
from isobag.tables.rank import Stage, check_fdr, groups_of, rank_groups, rank_rows
from isobag.tables.read import ReadTable, read_labels
from isobag.tables.summary import on_command_line


class Wishes(NamedTuple):
    """What to read, and how, as it was typed."""

    files: list[str] | None
    sql: str | None = None
    header: bool | None = None
    decimal: str | None = None
    form: str | None = None
    features: str | None = None
    id_column: str | None = None
    by: str | None = None
    missing: o.Missing = o.Missing.ERROR
    bad_cells: o.BadCells = o.BadCells.ERROR
    keep: str | None = None

    def read(self, tick: Tick | None, model: Any = None, **more: Any) -> tuple[ReadTable, Source]:
        """The table: of the features chosen, or of those of a model."""
        source = Source(self.files, self.sql, self.header, self.form)
        by = o.names_of(self.by)
        apart = [*(by or []), *([] if self.id_column is None else [self.id_column])]
        table = source.read(
            tick,
            features=o.names_of(self.features),
            id=self.id_column,
            by=by,
            missing=self.missing.value,
            bad_cells=self.bad_cells.value,
            decimal=self.decimal or ".",
            encoding=None if model is None else encoding_of(model, source, apart),
            carry=None if self.keep == "all" else o.names_of(self.keep) or (),
            **more,
        )
        return table, source

    def read_labels(self) -> dict[str, Any]:
        """The columns that name rows or groups."""
        names = [*(o.names_of(self.by) or []), *([] if self.id_column is None else [self.id_column])]
        return read_labels(Source(self.files, self.sql, self.header, self.form).table, names)


def detect(
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
    *,
    is_fitted: bool = False,
    read: Path | None = None,
) -> None:
    """Rank the rows or groups of a table by a detector, fitted to them or before."""
    detector.check_params()
    check_fdr(fdr, is_fitted, on_command_line)
    check_targets(out, report, model, wishes.files, read)
    with progress(quiet or json) as bar:
        table, source = wishes.read(bar.tick, detector if is_fitted else None)
        detector.set_params(n_jobs=o.threads(jobs, table.n_rows))
        how: dict[str, Any] = {"is_fitted": is_fitted, "p_values": p_values, "fdr": fdr, "spelling": on_command_line}
        how["stage"] = _stages(bar, detector, table, wishes.by is not None, is_fitted)
        if wishes.by is None:
            ranking = rank_rows(table, detector, **how)
        else:
            ranking = rank_groups(table, detector, min_size=min_size, **how)
        if model is not None:
            keep_model(detector, table, model)
        write_results(ranking, source.name, out, report, bar.tick, command_line())
    show_results(ranking, top, (model, out, report), json, quiet)


def learn(detector: Any, wishes: Wishes, min_size: int, jobs: int | None, model: Path, json: bool, quiet: bool) -> None:
    """Fit a detector to a table and keep it in a file."""
    detector.check_params()
    check_targets(None, None, model, wishes.files)
    with progress(quiet or json) as bar:
        table, _ = wishes.read(bar.tick)
        detector.set_params(n_jobs=o.threads(jobs, table.n_rows))
        data = table.rows if wishes.by is None else groups_of(table, min_size, on_command_line)[0]
        with _stages(bar, detector, table, wishes.by is not None, False)("learning"):
            detector.fit(data)
        keep_model(detector, table, model)
    n_rows, names = len(table.rows), list(table.encoding.names)
    if json:
        facts = {"model": str(model), "n_rows": n_rows, "features": names, "threshold": float(detector.offset_)}
        print_json({**facts, "table": table.summary.as_dict()})
        return
    note(f"{n_rows:,} rows learned from ({', '.join(names)}). Written: {model}.", quiet)
    for sentence in table.summary.sentences():
        note(sentence, quiet)


def _stages(bar: Silent, detector: Any, table: ReadTable, has_groups: bool, is_fitted: bool) -> Stage:
    """Passes by name, with the work that each takes."""
    if bar.tick is None:
        return nullcontext
    if has_groups:
        n_groups = len(set(zip(*(one.to_pylist() for one in table.labels.values()), strict=True)))
        work = work_on_groups(detector, len(table.rows), n_groups, is_fitted)
    else:
        work = work_on_rows(detector, table.rows, is_fitted)
    return lambda name: bar.stage(name, work.get(name))


def keep_model(detector: Any, table: ReadTable, path: Path) -> None:
    """Write a detector, and how tables become its features."""
    detector.table_ = table.encoding.to_text()
    save(detector, path)
