"""``isobag watch``: which entities of a log are unlike their own past, day after day."""

from pathlib import Path
from typing import Annotated, Any

import typer

from isobag.cli.options import (
    HOW,
    WHAT,
    Dates,
    Debug,
    Decimal,
    Delimiter,
    Encoding,
    Exclude,
    Features,
    Files,
    Format,
    Header,
    Json,
    Na,
    Numbers,
    Out,
    Quiet,
    Report,
    Sheet,
    Skip,
    Sql,
    Thousands,
    TimeUnit,
    TimeZone,
    Top,
    Typed,
    option,
    split_names,
)

_STATE = "The state: the first run writes it, later runs judge new periods by it and add them. It keeps all settings."
_Entities = list[str] | None


def watch(
    files: Files = None,
    by: Annotated[str | None, option("Column with the entity of each row: account, shop.", WHAT, "A,B,...")] = None,
    time: Annotated[str | None, option("Column with the time of each row.", WHAT, "COLUMN")] = None,
    every: Annotated[str | None, option("Length of a period: 15m, 1h, 1d, 1w; default: 1d.", WHAT, "LENGTH")] = None,
    features: Features = None,
    exclude: Exclude = None,
    since: Annotated[str | None, option("List incidents from this time on.", WHAT, "TIME")] = None,
    model: Annotated[Path | None, option(_STATE, HOW, "FILE")] = None,
    accept: Annotated[_Entities, option("Treat what an entity does now as its new normal.", HOW, "ENTITY")] = None,
    dismiss: Annotated[
        _Entities, option("Dismiss its incident; a silence until rows come.", HOW, "ENTITY[@PERIOD]")
    ] = None,
    retire: Annotated[_Entities, option("Stop watching an entity until rows of it come.", HOW, "ENTITY")] = None,
    forget: Annotated[_Entities, option("Remove the rows of an open period.", HOW, "PERIOD")] = None,
    replace: Annotated[
        bool, option("Replace periods added before by those of the file.", HOW, None, "--replace")
    ] = False,
    fdr: Annotated[float | None, option("Share of alarms that may be false; default: 0.1.", HOW, "SHARE")] = None,
    late: Annotated[int | None, option("Periods before the newest that stay open; default: 2.", HOW, "N")] = None,
    sql: Sql = None,
    header: Header = None,
    delimiter: Delimiter = None,
    na: Na = None,
    skip: Skip = 0,
    encoding: Encoding = None,
    sheet: Sheet = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    numbers: Numbers = "strict",
    dates: Dates = None,
    format: Format = None,
    time_zone: TimeZone = None,
    time_unit: TimeUnit = None,
    top: Top = 20,
    out: Out = None,
    report: Report = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Find accounts, machines or shops that are unlike their own past: silent, fewer or more rows, other values.

    Rows are grouped by entity and period, and each period is compared with those before it. A lasting deviation is
    one incident: it stays open until the entity is back to normal, or until --accept, --dismiss or --retire. Rows may
    come in any order; those added before are skipped. --out has a line for every judged entity and period.
    """
    typed = Typed(**locals())
    watch_files(typed)


def watch_files(typed: Typed) -> None:
    """Read, judge, save, show."""
    from isobag.cli.inputs import Input  # noqa: PLC0415, loads scikit-learn
    from isobag.cli.output import check_targets, command_line, note, print_json, print_table  # noqa: PLC0415
    from isobag.cli.progress import progress  # noqa: PLC0415
    from isobag.storage.files import write_table  # noqa: PLC0415

    monitor = _monitor_of(typed)
    log = Input(typed, monitor.read_options)
    check_targets(typed, log.matching_files, typed.model)
    for period in typed.forget or []:
        monitor.forget(period)
    for name in ("accept", "dismiss", "retire"):
        for entity in getattr(typed, name) or []:
            label, _, period = entity.rpartition("@") if name == "dismiss" and "@" in entity else (entity, "", "")
            getattr(monitor, name)(label, *([period] if period else []))
    if typed.files or typed.sql is not None:
        with progress(typed.is_silent) as bar:
            log.source.tick = bar.tick
            incidents = monitor.update_from(log.source, replace=typed.replace, since=typed.since)
    else:
        incidents = monitor.judge()
    if typed.model is not None:
        monitor.save(typed.model)
    if typed.out:
        write_table(typed.out, iter([incidents.bag_columns()]))
    if typed.report is not None:
        incidents.report(typed.report, source=log.name if typed.files or typed.sql else "", command=command_line())
    if typed.json:
        print_json({"incidents": incidents.rows(), "notes": incidents.sentences()})
        return
    if len(incidents) and typed.top and "-" not in map(str, typed.out or []):
        print_table(incidents.table(typed.top))
    for sentence in incidents.sentences():
        note(sentence, typed.quiet)
    paths = [path for path in (typed.model, *(typed.out or []), typed.report) if path is not None]
    if paths:
        note(f"Written: {', '.join(map(str, paths))}.", typed.quiet)


def _monitor_of(typed: Typed) -> Any:
    """The watch in the file of the model, or a new one."""
    from isobag.storage.modelfile import load  # noqa: PLC0415
    from isobag.tables.watch import Watch  # noqa: PLC0415

    values = vars(typed)
    names = ("time", "every", "fdr", "late", "time_zone", "time_unit", "decimal", "thousands", "dates")
    chosen = {name: values[name] for name in names if values[name] is not None}
    chosen |= {name: tuple(split_names(values[name]) or ()) for name in ("by", "features", "exclude") if values[name]}
    if values["numbers"] != "strict":
        chosen["numbers"] = values["numbers"]
    if typed.model is None or not typed.model.exists():
        for name in ("by", "time"):
            if name not in chosen:
                raise typer.BadParameter(f"--{name} is not given, and there is no state in --model yet.")
        return Watch(**chosen)
    monitor = load(typed.model)
    if not isinstance(monitor, Watch):
        raise ValueError(f"{str(typed.model)!r} holds a {type(monitor).__name__}; need a file of `isobag watch`.")
    for name, value in chosen.items():
        if getattr(monitor, name) != value:
            raise ValueError(f"{name}={value!r}; {str(typed.model)!r} was made with {getattr(monitor, name)!r}.")
    return monitor
