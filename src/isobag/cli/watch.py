"""``isobag watch``: which accounts, machines or shops are unlike themselves today."""

from pathlib import Path
from typing import Any

from isobag.cli.options import ENDINGS, HOW, NOTATION, OUT, WHAT, WRITTEN, Typed, command, option, text

_STATE = (
    "The state: what was learned of all entities. The first run writes it; later runs score new periods by it, and "
    "then add them. It also keeps --by, --time, --every and how columns are read."
)
_CONFIRM = "An alarm was right: this period never becomes part of the entity's past. May be given several times."
_DISMISS = "An alarm was false: this period becomes part of the entity's past. May be given several times."
_PEERS = (
    "Column of cohorts: entities are compared within theirs. auto: cohorts of entities that are alike are found. "
    "Default: all are compared."
)
_OWN: dict[str, Any] = {
    "by": text(None, "A,B,...", "Column with the entity of each row, or several: account, machine, shop."),
    "time": text(None, "COLUMN", "Column with the time of each row."),
    "every": text(None, "LENGTH", "Length of a period: 15m, 1h, 1d, 1w; default: 1d."),
    "model": option(Path | None, None, None, "FILE", _STATE),
    "since": text(WHAT, "TIME", "Periods before this time are past only, and not judged."),
    "peers": text(WHAT, "COLUMN|auto", _PEERS),
    "keep": text(HOW, "LENGTH", "How much of the past is kept: 90d, or a number of periods; default: all."),
    "late": option(int | None, None, HOW, "N", "Late rows are added to so many periods before the newest; default: 2."),
    "fdr": option(float | None, None, HOW, "SHARE", "Share of alarms that may be false; default: 0.1."),
    "learn": option(bool, True, HOW, None, "Whether to add the new periods to the state.", "--learn/--no-learn"),
    "confirm": option(list[str] | None, None, HOW, "ENTITY@PERIOD", _CONFIRM),
    "dismiss": option(list[str] | None, None, HOW, "ENTITY@PERIOD", _DISMISS),
    "out": option(list[Path] | None, None, OUT, "FILE", f"Write all lines: {ENDINGS}"),
    "top": option(int, 20, OUT, "N", "How many findings to print.", min=0),
}


@command(
    f"files by time every model sql {WRITTEN} {NOTATION} format time_zone time_unit features "
    "exclude missing bad_cells since peers fdr keep late learn confirm dismiss seed jobs engine dask top out report "
    "json quiet debug",
    **_OWN,
)
def watch(typed: Typed) -> None:
    """Find accounts, machines or shops that are unlike their own past, unlike their peers, or silent.

    Rows are put together by entity and period. Each period is judged by what was known before it; with --model it then
    becomes part of what is known, unless it is flagged: flagged periods stay out until --dismiss. Rows may come in any
    order; rows that an earlier run has seen change nothing, so the same file may be given again.
    """
    from isobag.cli.watching import watch_files  # noqa: PLC0415, loads scikit-learn

    watch_files(typed)
