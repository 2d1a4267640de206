"""``isobag stream``: rows as they come, and the odd ones among them."""

from pathlib import Path

from isobag.cli.options import IN, OUT, Typed, argument, command, option


@command(
    "source window format skip encoding features max_samples n_estimators fdr seed jobs model save_every live json "
    "quiet debug",
    source=argument(str, "-", "FILE", "CSV with a header, or JSON lines; - for stdin."),
    window=option(int, 10_000, "How", "N", "Rows that are remembered.", min=4),
    format=option(str | None, None, IN, "ENDING", "csv or jsonl; default: jsonl if the first line begins with {."),
    fdr=option(float, 0.1, "How", "SHARE", "Share of all alarms ever raised that may be false, on average."),
    model=option(Path | None, None, OUT, "FILE", "State to go on from, if the file is there, and to write on exit."),
    live=option(bool, False, OUT, None, "A table that changes, on a terminal; elsewhere as --json.", "--live"),
    save_every=option(float, 60.0, OUT, "SECONDS", "How often the state is written.", min=0),
)
def stream(typed: Typed) -> None:
    """Print odd rows of a stream as they come, with a p-value and a reason.

    Each row is compared with the --window rows before it, and learned. Of all alarms, at most the share --fdr is false
    on average (LORD++), if p-values of normal rows are independent. A line that is no row is named, counted and left
    out. With --model, a FILE that was read in part is read on from there; rows whose alarms were printed after the
    state was last written are then judged once more. With --live, a terminal shows the latest odd rows, how odd the
    oddest row of each second was, and rows a second.
    """
    from isobag.cli.following import follow_lines  # noqa: PLC0415, loads scikit-learn

    follow_lines(typed)
