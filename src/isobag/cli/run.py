"""The one way through a command that ranks or learns: open, read, learn or load, rank, write, show."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

from isobag.cli.inputs import Input, engine_at, input_of, new_detector, open_model
from isobag.cli.options import Typed, engine_address
from isobag.cli.output import Output, check_targets, note, output_of, print_json, show_results, write_results
from isobag.cli.progress import Silent, progress
from isobag.storage.modelfile import save
from isobag.tables.detect import encoding_of, fit_table, rank
from isobag.tables.distributed import AnyRanking
from isobag.tables.learn import LocalTable, Table, learn_table
from isobag.tables.ranking import Stage, check_fdr
from isobag.tables.sentences import sentences_of_calibration

RankedTop = tuple[AnyRanking, dict[str, Any]]
"""A ranking, and the columns of its first places, as many as are printed."""


def detect(typed: Typed) -> None:
    """Rank the rows or groups of a table by a detector that is fitted to them."""
    output = output_of(typed)
    ranked = _rank(new_detector(typed, calibrate=output.model is not None), input_of(typed), output, typed)
    show_results(*ranked, output)


def score(typed: Typed) -> None:
    """Rank the rows or groups of a table by a detector that was fitted before."""
    output = output_of(typed, model=None)
    show_results(*rank_new(open_model(typed), output, typed), output)


def rank_new(detector: Any, output: Output, typed: Typed) -> RankedTop:
    """The rows or groups of a table, ranked by a detector that was fitted before; results are written."""
    if typed.exact:
        detector.set_params(tail="exact")
    if vars(typed).get("per_day") is not None:
        if typed.fdr is not None:
            raise ValueError("fdr= and per_day= are alternatives; give one of them.")
        if detector.model_.calibration is None:
            raise ValueError("per_day= needs p-values, and the model was fitted without them.")
        typed.budget = typed.per_day * typed.days
    return _rank(detector, input_of(typed).following(detector), output, typed, typed.model)


def _rank(detector: Any, given: Input, output: Output, typed: Typed, fitted_in: Path | None = None) -> RankedTop:
    jobs, fdr = typed.jobs, typed.fdr
    is_fitted = fitted_in is not None
    detector.check_params()
    check_fdr(fdr, is_fitted)
    where = engine_at(engine_address(typed))
    check_targets(output, where.files(given, report=output.report, jobs=jobs), fitted_in)
    silent = output.is_silent
    with progress(silent) as bar, where.opened(given, bar, jobs=jobs, is_silent=silent) as partitions:
        encoding = encoding_of(detector, partitions.columns, [*given.options.apart]) if is_fitted else None
        table = learn_table(partitions, given.options, encoding=encoding)
        detector.set_params(n_jobs=where.threads(jobs, table.n_rows))
        how = {
            name: vars(typed)[name] for name in ("p_values", "fdr", "budget", "min_size", "top") if name in vars(typed)
        }
        ranking = rank(table, detector, is_fitted=is_fitted, **how, stage=_stage(bar, table))
        if output.model is not None:
            save(detector, output.model)
        write_results(ranking, output, given.name, bar.tick)
        return ranking, ranking.columns(0, output.top)


def learn(typed: Typed) -> None:
    """Fit a detector to a table and keep it in a file."""
    detector, given, output = new_detector(typed), input_of(typed), output_of(typed)
    detector.check_params()
    where = engine_at(None)
    check_targets(output, where.files(given), None)
    with progress(output.is_silent) as bar:
        table = given.read(bar)
        detector.set_params(n_jobs=where.threads(typed.jobs, table.n_rows))
        with bar.stage("learning"):
            fit_table(table, detector, typed.min_size)
        save(detector, typed.model)
    n_rows, names = len(table.rows), list(table.encoding.names)
    if output.json:
        facts = {"model": str(output.model), "n_rows": n_rows, "features": names, "threshold": float(detector.offset_)}
        print_json({**facts, "table": table.summary.as_dict()})
        return
    note(f"{n_rows:,} rows learned from ({', '.join(names)}). Written: {output.model}.", output.quiet)
    for sentence in [*sentences_of_calibration(detector), *table.summary.sentences()]:
        note(sentence, output.quiet)


def _stage(bar: Silent, table: Table) -> Stage:
    """What shows the passes over a table; an engine counts its partitions itself."""
    return bar.stage if isinstance(table, LocalTable) else nullcontext
