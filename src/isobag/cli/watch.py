"""``isobag watch``: what entities of a log are unlike their own past, day after day."""

import typer

from isobag.cli.inputs import Input
from isobag.cli.options import Typed, split_names
from isobag.cli.output import check_targets, command_line, note, print_json, print_table
from isobag.cli.progress import progress
from isobag.storage.files import write_table
from isobag.storage.modelfile import load
from isobag.tables.watch import Watch


def watch_files(typed: Typed) -> None:
    """Read, judge, save, show."""
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


def _monitor_of(typed: Typed) -> Watch:
    """The watch in the file of the model, or a new one."""
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
