"""Rows of a log in numbers: entity, period, hour, and the columns that are summarised."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.data.periods import Calendar
from isobag.data.spool import Spool
from isobag.models.watch_bags import BagRows
from isobag.models.watch_run import History
from isobag.tables.batch import Source, names_of_files
from isobag.tables.cells import NUMBER, TEXT
from isobag.tables.choose import kinds_of
from isobag.tables.labels import number_rows
from isobag.tables.passes import scan_source
from isobag.tables.reading import ReadOptions
from isobag.tables.times import read_moments

_DAY = 86_400_000_000
PARTS_OF_DAY = ["0 to 6 h", "6 to 12 h", "12 to 18 h", "18 to 24 h"]
_GAP_PERIODS, _FEW = 31, 0.1
MOST_VALUES = 1_000
"""Of a column of texts; those that come later share a number."""


class Log(NamedTuple):
    """Rows as they are read: labels (g,) of the entities that rows name by number, and columns by name.

    numbers, texts : columns by name; a text is its codes (n,), -1 for none, and its values. n_unlabelled : rows without
    an entity or a time, which are left out.
    """

    labels: Any
    entity: Ints
    period: Ints
    digest: Ints
    numbers: dict[str, Floats]
    texts: dict[str, tuple[Ints, list[str]]]
    n_unlabelled: int
    files: str

    def __len__(self) -> int:
        return len(self.entity)


def read_log(source: Source, options: ReadOptions, calendar: Calendar) -> Log:
    """The rows of a frame, of files or of a query.

    Where periods are days, the part of the day is a text in the column of times.
    """
    seen = scan_source(source, options, lambda n: Spool(n, 1 << 40))
    if not seen.n_rows:
        raise ValueError(f"{names_of_files(source.files) or 'The table'} has no rows.")
    assert options.bags is not None
    cells, bags = seen.labels.joined(), options.bags
    moments = read_moments(cells.pop(bags.time), bags.time, bags.unit, bags.time_zone, options.dates)
    entity, labels = number_rows([cells.pop(name) for name in options.by])
    whole = ~moments.missing & (entity >= 0)
    kinds = kinds_of(seen.scans, options)
    digest = _mixed(moments.values) + _mixed(_hashes(labels)[entity])
    numbers, texts = {}, {}
    if calendar.length % _DAY == 0:
        parts = (calendar.local(moments.values) // (_DAY // len(PARTS_OF_DAY)) % len(PARTS_OF_DAY)).astype(np.int8)
        texts[bags.time] = parts[whole], PARTS_OF_DAY
    for j, name in enumerate(seen.names):
        entries = seen.spool.numbers[:, j]
        if kinds[name] == TEXT:
            codes, values = np.where(np.isnan(entries), -1, entries).astype(np.int32), list(seen.scans[name].codes)
            digest += _salt(name) * _mixed(np.append(_hashes([*values, ""]), 0)[codes])  # of no value: 0
            if options.may_use(name):
                texts[name] = codes[whole], values
        else:
            digest += _salt(name) * np.where(np.isnan(entries), 0, _mixed((entries + 0.0).view(np.int64)))
            if kinds[name] == NUMBER and options.may_use(name):
                numbers[name] = np.where(np.isfinite(entries), entries, np.nan)[whole]
    entity, digest, period = (own[whole] for own in (entity, digest, calendar.numbers(moments.values)))
    n_unlabelled, files = int((~whole).sum()), names_of_files(source.files)
    return Log(labels, entity, period, digest, numbers, texts, n_unlabelled, files)


def rows_of(log: Log, entity: Ints, numbers: Sequence[str], texts: Mapping[str, Sequence[str]]) -> BagRows:
    """The rows as a watch keeps them: in its columns, with its numbers of entities (g,) and values."""
    table = np.full((len(log), len(numbers)), np.nan)
    codes = np.full((len(log), len(texts)), -1, dtype=np.int16)
    for j, name in enumerate(numbers):
        table[:, j] = log.numbers.get(name, np.nan)
    for k, (name, values) in enumerate(texts.items()):
        if name in log.texts:
            codes_of_column, of_column = log.texts[name]
            numbered = {value: number for number, value in enumerate(values)}
            places = np.array([*(numbered.get(value, MOST_VALUES) for value in of_column), -1], dtype=np.int16)
            codes[:, k] = places[codes_of_column]
    return BagRows(entity[log.entity], log.period, log.digest, table, codes)


def number_entities(labels: list[Any], begun: Ints, log: Log, counts: Bools) -> tuple[Ints, Ints]:
    """Numbers of a log's entities, -1 for none, and the first period of each: (g,), (E,).

    labels, begun (E,) : those that are known; new ones are added by their first period. counts (n,) : rows that count.
    """
    never = np.iinfo(np.int64).max
    place = {label: k for k, label in enumerate(labels)}
    ids = np.array([place.get(label, -1) for label in log.labels], dtype=np.int64)
    first = np.full(len(ids), never)
    np.minimum.at(first, log.entity[counts], log.period[counts])
    unseen = np.flatnonzero((ids < 0) & (first < never)).tolist()
    unseen.sort(key=lambda k: (first[k], str(log.labels[k])))
    ids[unseen] = np.arange(len(labels), len(labels) + len(unseen))
    labels += [log.labels[k] for k in unseen]
    begun = np.concatenate([begun, first[unseen]])
    np.minimum.at(begun, ids[ids >= 0], first[ids >= 0])
    return ids, begun


def far_beyond(periods: Ints, before: History | None) -> Bools:
    """Which rows lie far beyond the rest: behind a gap of a month of periods, and few of what a period has: (n,).

    before : the past, if any. Without it, far before the rest counts too.
    """
    numbers, places, counts = np.unique(periods, return_inverse=True, return_counts=True)
    per_period = counts if before is None else np.unique(before.rows.period, return_counts=True)[1]
    usual = float(np.median(np.repeat(per_period, per_period)))
    steps = np.diff(numbers, prepend=numbers[0] if before is None else before.newest)
    is_far = np.zeros(len(numbers), dtype=bool)
    for start in np.flatnonzero(steps > _GAP_PERIODS)[::-1].tolist():
        is_far[start:] |= counts[start:].sum() < _FEW * usual
        is_far[:start] |= before is None and counts[:start].sum() < _FEW * usual
    return is_far[places]


def are_repeated(old: BagRows, new: BagRows) -> tuple[Bools, Bools]:
    """Which new rows are among the old ones, and which old ones among the new: of equal rows each counts once."""
    a, b = (_mixed(rows.digest) + _number_copies(rows.digest) for rows in (old, new))
    return np.isin(b, a), np.isin(a, b)


def _number_copies(digest: Ints) -> Ints:
    """How many equal rows stand before each: (n,)."""
    order = np.argsort(digest, kind="stable")
    is_first = np.diff(digest[order], prepend=~digest[order[:1]]) != 0
    result = np.empty(len(order), dtype=np.int64)
    result[order] = np.arange(len(order)) - np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))
    return result


def _hashes(values: Any) -> Ints:
    parts = [hashlib.blake2b(repr(value).encode(), digest_size=8).digest() for value in values]
    return np.frombuffer(b"".join(parts), dtype=np.int64).copy()


def _salt(name: str) -> np.int64:
    return np.int64(_hashes([name])[0] | 1)


def _mixed(values: Ints) -> Ints:
    """Whole numbers spread over all 64 bits, by a step of SplitMix64; it wraps around."""
    mixed = np.asarray(values, dtype=np.int64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (mixed ^ (mixed >> np.uint64(31))).view(np.int64)
