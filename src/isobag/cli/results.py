"""From a ranking to what is printed and written."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa

from isobag.cli.options import Typed
from isobag.cli.output import note, print_json, print_table
from isobag.data.spool import Tick
from isobag.storage.files import BATCH_ROWS, STDOUT, check_output, write_table
from isobag.tables.distributed import AnyRanking
from isobag.tables.ranking import Ranking
from isobag.tables.sentences import sentences_of


@dataclass(frozen=True, kw_only=True)
class Output:
    """What a command prints and writes.

    top : how many of the oddest are printed.
    out : files to write all that was ranked to.
    report, model : files to write.
    """

    top: int = 10
    out: tuple[Path, ...] = ()
    report: Path | None = None
    model: Path | None = None
    json: bool = False
    quiet: bool = False

    @property
    def is_silent(self) -> bool:
        """Whether nothing but results is printed."""
        return self.quiet or self.json


def output_of(typed: Typed, **own: Any) -> Output:
    """The output that the options of a command describe; ``own``: what stands in their place."""
    names = [one.name for one in fields(Output) if one.name in vars(typed)]
    given = {**{name: vars(typed)[name] for name in names}, **own}
    return Output(**{**given, "out": tuple(given.get("out") or ())})


def check_targets(output: Output, files: Sequence[str], model_read: Path | None) -> None:
    """Refuse at once what could not be written in the end, or would be written over what is read."""
    for table in output.out:
        check_output(table)
    if [str(path) for path in output.out].count(STDOUT) > 1:
        raise ValueError("--out - is given twice; standard output takes one table.")
    report = output.report
    if report is not None:
        if find_spec("jinja2") is None:
            raise ModuleNotFoundError("--report needs jinja2, which is not installed: pip install 'isobag[report]'.")
        if report.suffix.lower() not in (".html", ".htm"):
            raise ValueError(f"{str(report)!r} has no known ending for a report; choose .html.")
    read = [*files, *([] if model_read is None else [str(model_read)])]
    taken = {Path(file).resolve(): "is read" for file in read}
    for path in (*output.out, report, output.model):
        if path is None or str(path) == STDOUT:
            continue
        if not path.absolute().parent.is_dir():
            raise ValueError(f"{str(path)!r} cannot be written: there is no folder {str(path.absolute().parent)!r}.")
        if path.resolve() in taken:
            raise ValueError(f"{str(path)!r} cannot be written: it {taken[path.resolve()]} by the same command.")
        taken[path.resolve()] = "is written"


def write_results(ranking: AnyRanking, output: Output, source: str, tick: Tick | None) -> None:
    """Write all that was ranked, and the report."""
    if output.out:
        write_table(output.out, _counted(ranking, tick))
    if output.report is not None:
        from isobag.report import write_report  # noqa: PLC0415, loads jinja2

        assert isinstance(ranking, Ranking)
        write_report(ranking, output.report, source=source, command=command_line())


def show_results(ranking: AnyRanking, top: dict[str, Any], output: Output) -> None:
    """Print the oddest and what there is to say, unless the results themselves go to standard output."""
    written = [path for path in (output.model, *output.out, output.report) if path is not None]
    if any(str(path) == STDOUT for path in written):
        return
    rows = rows_of(top)
    if output.json:
        facts: dict[str, Any] = {
            f"n_{ranking.unit}s": len(ranking),
            "n_rows": ranking.summary.n_rows,
            "n_flagged": ranking.n_flagged,
            "n_expected": ranking.n_expected,
            "n_left_out": len(ranking) - ranking.n_ranked,
            "features": [column.name for column in ranking.encoding.columns],
            "threshold": float(ranking.judged.threshold),
            "rule": ranking.rule,
            "table": ranking.summary.as_dict(),
            "top": rows,
        }
        print_json(facts)
        return
    if rows:
        print_table({name: [row[name] for row in rows] for name in top})
    for sentence in sentences_of(ranking):
        note(sentence, output.quiet)
    if written:
        note(f"Written: {', '.join(map(str, written))}.", output.quiet)


def _counted(ranking: AnyRanking, tick: Tick | None) -> Iterator[dict[str, Any]]:
    n_done = 0
    for columns in ranking.parts(BATCH_ROWS):
        yield columns
        n_done += len(columns["score"])
        if tick is not None:
            tick("writing", n_done, len(ranking))


def rows_of(top: dict[str, Any]) -> list[dict[str, Any]]:
    """Columns as a list of rows, in plain Python."""
    rows: list[dict[str, Any]] = pa.table(top).to_pylist()
    return rows


def command_line() -> str:
    """The command as it was typed, for the report."""
    return shlex.join(["isobag", *sys.argv[1:]])
