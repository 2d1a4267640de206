"""``isobag watch``: what entities of a log are unlike their own past, day after day."""

from isobag.cli.inputs import open_source
from isobag.cli.options import Typed, split_names
from isobag.cli.output import check_folder, check_targets, command_line, show
from isobag.cli.progress import progress
from isobag.storage.files import write_table
from isobag.storage.modelfile import load
from isobag.tables.batch import names_of_files
from isobag.tables.watch import Watch

_NAMES = ("by", "features", "exclude")
_FEEDBACK = ("forget", "accept", "dismiss", "retire")
_SETTINGS = ("time", "every", "fdr", "late", "time_zone", "time_unit", "decimal", "thousands", "numbers", "dates")


def watch_files(typed: Typed) -> None:
    """Read, judge, save, show."""
    monitor = _monitor_of(typed)
    check_targets(typed)
    _take_feedback(typed, monitor)
    has_rows = typed.files or typed.sql is not None
    with progress(typed.is_silent) as bar:
        if has_rows:
            source = open_source(typed, monitor.read_options)
            source.tick = bar.tick
            incidents = monitor.update_from(source, replace=typed.replace, since=typed.since)
        else:
            incidents = monitor.judge()
    typed.save_model = typed.model
    if typed.model is not None:
        monitor.save(typed.model)
    if typed.out:
        write_table(typed.out, iter([incidents.bag_columns()]))
    if typed.report is not None:
        name = (names_of_files(typed.files or []) or typed.sql) if has_rows else ""
        incidents.report(typed.report, source=name, command=command_line())
    notes, table = incidents.sentences(), incidents.table(typed.top) if len(incidents) and typed.top else None
    show(typed, {"incidents": incidents.rows(), "notes": notes}, (), table, notes)


def _take_feedback(typed: Typed, monitor: Watch) -> None:
    """What a person says of entities and periods. A label of several columns is divided by commas."""
    for name, words in [(one, words) for one in _FEEDBACK for words in getattr(typed, one) or []]:
        if monitor.entities_ is None:
            raise ValueError(f"--{name} {words}: there is no state in --model yet.")
        labels = [",".join(map(str, one)) if isinstance(one, tuple) else str(one) for one in monitor.entities_.tolist()]
        label, *period = words.rsplit("@", 1) if name == "dismiss" and words not in labels else [words]
        entity = tuple(split_names(label) or ()) if len(monitor.by) > 1 and name != "forget" else label
        try:
            getattr(monitor, name)(entity, *period)
        except ValueError as error:
            raise ValueError(str(error).replace("period=", f"{name}=")) from None


def _monitor_of(typed: Typed) -> Watch:
    """The watch in the file of the model, or a new one."""
    chosen = {name: getattr(typed, name) for name in _SETTINGS if getattr(typed, name) is not None}
    chosen |= {name: tuple(split_names(getattr(typed, name)) or ()) for name in _NAMES if getattr(typed, name)}
    if chosen["numbers"] == "strict":
        del chosen["numbers"]  # the default, of which a state may know better
    check_folder(typed.model)
    if typed.model is None or not typed.model.exists():
        for name in ("by", "time"):
            if name not in chosen:
                raise ValueError(f"--{name} is not given, and there is no state in --model yet.")
        return Watch(**chosen)
    monitor = load(typed.model)
    if not isinstance(monitor, Watch):
        raise ValueError(f"{str(typed.model)!r} holds a {type(monitor).__name__}; need a file of `isobag watch`.")
    for name, value in chosen.items():
        new, old = (",".join(one) if isinstance(one, tuple) else one for one in (value, getattr(monitor, name)))
        if new != old:
            raise ValueError(f"{name}={new!r}; {str(typed.model)!r} was made with {old!r}.")
    return monitor
