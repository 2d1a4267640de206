"""From a ranking to what is printed and written."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from isobag.cli.output import note, print_json, print_table
from isobag.data.spool import Tick
from isobag.storage.files import BATCH_ROWS, STDOUT, check_output, write_table
from isobag.tables.rank import Ranking
from isobag.tables.sentences import Ranked, sentences_of
from isobag.tables.sources import STDIN, matching_files


def check_targets(
    out: Path | None, report: Path | None, model: Path | None, sources: Sequence[str] | None, read: Path | None = None
) -> None:
    """Refuse at once what could not be written in the end, or would be written over what is read."""
    if out is not None:
        check_output(out)
    if report is not None:
        if find_spec("jinja2") is None:
            raise ModuleNotFoundError("--report needs jinja2, which is not installed: pip install 'isobag[report]'.")
        if report.suffix.lower() not in (".html", ".htm"):
            raise ValueError(f"{str(report)!r} has no known ending for a report; choose .html.")
    files = [file for source in sources or () if source != STDIN for file in matching_files(source)]
    taken = {Path(file).resolve(): "is read" for file in [*files, *([] if read is None else [str(read)])]}
    for path in (out, report, model):
        if path is None or str(path) == STDOUT:
            continue
        if not path.absolute().parent.is_dir():
            raise ValueError(f"{str(path)!r} cannot be written: there is no folder {str(path.absolute().parent)!r}.")
        if path.resolve() in taken:
            raise ValueError(f"{str(path)!r} cannot be written: it {taken[path.resolve()]} by the same command.")
        taken[path.resolve()] = "is written"


def write_results(
    ranking: Ranking, source: str, out: Path | None, report: Path | None, tick: Tick | None, command: str
) -> None:
    """Write all that was ranked, in ranked order, and the report."""
    if out is not None:
        write_table(out, _parts(ranking, tick))
    if report is not None:
        from isobag.report import write_report  # noqa: PLC0415, loads jinja2

        write_report(ranking, report, source=source, command=command)


class Shown(Ranked, Protocol):
    """What is printed: a ``Ranking``, or one whose rows are elsewhere."""

    @property
    def threshold(self) -> float: ...  # noqa: D102, as in Ranking
    def columns(self, start: int, stop: int) -> dict[str, Any]: ...  # noqa: D102


def show_results(ranking: Shown, top: int, written: Sequence[Path | None], json: bool, quiet: bool) -> None:
    """Print the oddest and what there is to say, unless the results themselves go to standard output."""
    if any(path is not None and str(path) == STDOUT for path in written):
        return
    lists = {name: _as_list(values) for name, values in ranking.columns(0, top).items()}
    if json:
        rows = [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
        facts = {
            f"n_{ranking.unit}s": len(ranking),
            "n_rows": ranking.summary.n_rows,
            "n_flagged": ranking.n_flagged,
            "n_expected": ranking.n_expected,
            "n_left_out": len(ranking) - ranking.n_ranked,
        }
        print_json(
            {
                **facts,
                "features": ranking.looked_at,
                "threshold": float(ranking.threshold),
                "rule": ranking.rule,
                "table": ranking.summary.as_dict(),
                "top": rows,
            }
        )
        return
    if lists["rank"]:
        print_table(lists)
    for sentence in sentences_of(ranking):
        note(sentence, quiet)
    names = ", ".join(str(path) for path in written if path is not None)
    if names:
        note(f"Written: {names}.", quiet)


def _parts(ranking: Ranking, tick: Tick | None) -> Iterator[dict[str, Any]]:
    n = len(ranking)
    for start in range(0, n, BATCH_ROWS):
        columns = ranking.columns(start, start + BATCH_ROWS)
        carried = ranking.carried(start, start + BATCH_ROWS)
        twice = [name for name in carried if name in columns]
        if twice:
            raise ValueError(f"The result has a column {twice[0]!r} of its own; rename the column with --sql.")
        yield {**columns, **carried}
        if tick is not None:
            tick("writing", min(start + BATCH_ROWS, n), n)


def _as_list(values: Any) -> list[Any]:
    found: list[Any] = values.to_pylist() if hasattr(values, "to_pylist") else list(values)
    return [value.item() if isinstance(value, np.generic) else value for value in found]


def command_line() -> str:
    """The command as it was typed, for the report."""
    return shlex.join(["isobag", *sys.argv[1:]])
