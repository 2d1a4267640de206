"""A log that comes in several updates, and all that a monitor says of it: the same on every road."""

import numpy as np
import pandas as pd

from isobag import EntityMonitor, load, save
from isobag.tables.encode import Encoding
from isobag.tables.learn import learn_table
from isobag.tables.reading import ReadOptions
from isobag.tables.watch import LogColumns, findings_table, oddest_first, read_log

COLUMNS = LogColumns(("shop",), "ts", "region")
FIRST = "2026-01-01"


def make_log(n_shops=14, n_days=18, seed=0):
    """Rows in any order; on the last two days shop 3 is silent and shop 7 sells another mix."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson(9, size=(n_shops, n_days))
    counts[3, -2:] = 0
    shop, day = (np.repeat(one.ravel(), counts.ravel()) for one in np.indices(counts.shape))
    is_odd = (shop == 7) & (day >= n_days - 2)
    seconds = day * 86400 + rng.integers(0, 86400, size=len(day))
    frame = pd.DataFrame(
        {
            "shop": shop,
            "ts": np.datetime64(f"{FIRST}T00:00:00") + seconds.astype("timedelta64[s]"),
            "amount": rng.normal(shop % 4, 1.0) / 3 + 5.0 * is_odd,
            "kind": np.where(is_odd, "cash", rng.choice(["card", "cash", "wire"], size=len(day))),
            "region": np.where(shop % 2, "north", "south"),
        }
    )
    return frame.sample(frac=1.0, random_state=seed).reset_index(drop=True)


def updates():
    """What is learned first; then new rows among late, too late and repeated ones; then all once more."""
    log = make_log()
    day = (log["ts"] - pd.Timestamp(FIRST)) // pd.Timedelta(days=1)
    by_two = np.arange(len(log)) % 2 == 0
    is_late = ((day == 14) | (day == 3)) & (log["shop"] == 4) & by_two
    first = log[(day < 16) & ~is_late]
    repeated = log[(day == 15) | ((day == 5) & (log["shop"] < 6))]
    second = pd.concat([log[day >= 16], log[is_late], repeated, log[day == 15][:3]])
    return [one.sample(frac=1.0, random_state=1).reset_index(drop=True) for one in (first, second, log)]


def watched(road, folder, columns=COLUMNS, **options):
    """Lines, notes and the state in its file, after each update; the state is saved and opened again between them."""
    monitor, said, path = EntityMonitor(n_estimators=8, random_state=0, **options), [], folder / "state.isobag"
    for frame in updates():
        encoding = None if not said else Encoding.of_model(monitor)
        reading = columns.reading(ReadOptions.of(features=["amount", "kind"]))
        table = learn_table(road(frame, folder), reading, encoding=encoding)
        findings = monitor.follow(read_log(table, columns, monitor.calendar))
        if encoding is None:
            columns.keep_in(monitor, table.encoding)
        save(monitor, path)
        lines = findings_table(findings, oddest_first(findings), columns.by)
        said.append((lines.to_pylist(), findings.notes, findings.common_changes, path.read_bytes()))
        monitor = load(path)
    return said
