"""The one way through a command that ranks or learns: open, read, learn or load, rank, write, show."""

from pathlib import Path
from typing import Any

from isobag.cli.inputs import Input, input_of, new_detector, open_model, threads_for
from isobag.cli.options import Typed
from isobag.cli.output import Output, check_targets, note, output_of, print_json, show_results, write_results
from isobag.cli.progress import progress
from isobag.storage.modelfile import save
from isobag.tables.detect import fit_table
from isobag.tables.ranking import Ranking, check_fdr, rank
from isobag.tables.sentences import sentences_of_calibration

RankedTop = tuple[Ranking, dict[str, Any]]
"""A ranking, and the columns of its first places, as many as are printed."""


def detect(typed: Typed) -> None:
    """Rank the rows or groups of a table by a detector that is fitted to them."""
    output = output_of(typed)
    detector = new_detector(typed)
    detector.calibrates = output.model is not None
    ranked = _rank(detector, input_of(typed), output, typed)
    show_results(*ranked, output)


def score(typed: Typed) -> None:
    """Rank the rows or groups of a table by a detector that was fitted before."""
    output = output_of(typed, model=None)
    show_results(*rank_new(open_model(typed), output, typed), output)


def rank_new(detector: Any, output: Output, typed: Typed) -> RankedTop:
    """The rows or groups of a table, ranked by a detector that was fitted before; results are written."""
    if typed.exact:
        detector.exact = True
    if vars(typed).get("per_day") is not None:
        if typed.fdr is not None:
            raise ValueError("fdr= and per_day= are alternatives; give one of them.")
        if detector.model_.calibration is None:
            raise ValueError("per_day= needs p-values, and the model was fitted without them.")
        typed.budget = typed.per_day * typed.days
    return _rank(detector, input_of(typed).following(detector), output, typed, typed.model)


def _rank(detector: Any, given: Input, output: Output, typed: Typed, fitted_in: Path | None = None) -> RankedTop:
    is_fitted = fitted_in is not None
    detector.check_params()
    check_fdr(typed.fdr, is_fitted)
    check_targets(output, given.matching_files, fitted_in)
    with progress(output.is_silent) as bar:
        table = given.read(bar, model=detector if is_fitted else None)
        detector.set_params(n_jobs=threads_for(typed.jobs, table.n_rows))
        how = {name: vars(typed)[name] for name in ("p_values", "fdr", "budget", "min_size") if name in vars(typed)}
        ranking = rank(table, detector, is_fitted=is_fitted, **how, stage=bar.stage)
        if output.model is not None:
            save(detector, output.model)
        write_results(ranking, output, given.name, bar.tick)
        return ranking, ranking.columns(0, output.top)


def learn(typed: Typed) -> None:
    """Fit a detector to a table and keep it in a file."""
    detector, given, output = new_detector(typed), input_of(typed), output_of(typed)
    detector.check_params()
    check_targets(output, given.matching_files, None)
    with progress(output.is_silent) as bar:
        table = given.read(bar)
        detector.set_params(n_jobs=threads_for(typed.jobs, table.n_rows))
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
