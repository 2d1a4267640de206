"""A column, read from its first cell to its last: its entries as float64, and all that is known of it in the end.

An entry is the number itself, the seconds since 1970 of a time, the code of a text (in the order in which texts first
appear), or NaN where no value stands. How a column is kept is settled by the first batch in which it says anything;
what it is, by the counts over the whole table. Where the two differ the table is read a second time with all types
known. So neither types nor entries depend on how the rows come in batches.
"""

import copy
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.tables.batch import Batch, Place
from isobag.tables.cells import (
    NUMBER,
    OTHER,
    TEXT,
    TIME,
    Numbers,
    distinct,
    first_inexact,
    is_missing,
    is_text,
    number_of,
    read_declared,
    read_numbers,
    read_times,
    time_of,
)
from isobag.tables.notation import DATES_HINT, DECORATED_HINT, DIGITS_HINT, MOST_UNITS, Notation
from isobag.tables.terminal import escape_for_terminal

BOOL, EMPTY = "bool", "empty"
MOST_TEXTS = 1 << 18
"""A column with more different texts than this is not coded any further: no such column is a category."""
NO_NUMBER, INEXACT, UNSEEN_TEXT, MISSING = "no number", "inexact", "unseen text", "missing"
"""Cells of which the first is kept, as of every hint: what is neither number nor time, a whole number that no float64
equals, a text that a model does not know, and nothing."""
_TRUTHS = {"true", "false"}


class ColumnScan:
    """What is known of a column so far.

    kept_as : how its entries are kept (NUMBER, TIME, TEXT), if known before.
    categories : the texts that a model knows.
    learns : whether the column is to be judged; else it is only read.
    most_texts : how many different texts are told apart.
    """

    def __init__(
        self,
        name: str,
        kept_as: str | None = None,
        categories: Sequence[str] | None = None,
        notation: Notation | None = None,
        learns: bool = True,
        most_texts: int = MOST_TEXTS,
    ) -> None:
        self.name, self.kept_as, self.notation, self.learns = name, kept_as, notation or Notation(), learns
        self.declared: str | None = None
        self.declared_in = ""
        self.n_rows = self.n_missing = self.n_numbers = self.n_times = self.n_zoned = 0
        self.hints: Counter[str] = Counter()
        """How many cells would be numbers in another notation, by which."""
        self.first: dict[str, tuple[Place, str]] = {}
        """The first cell with each hint, and of NO_NUMBER, INEXACT, UNSEEN_TEXT and MISSING."""
        self.units: frozenset[str] = frozenset()
        self.marks: frozenset[str] = frozenset()
        """What stands beside numbers: units, "" for none, and other marks that were taken off."""
        self.codes: dict[str, int] = {text: code for code, text in enumerate(categories or ())}
        self.counts = np.zeros(len(self.codes), dtype=np.int64)
        self._knows_all_texts = categories is not None
        self._most_texts = most_texts
        self.has_too_many_texts = self.has_sampled_texts = self.is_nested = False
        self.low, self.high = np.inf, -np.inf
        self.is_whole = True
        self.has_time_of_day = False
        self.total = self.total_of_squares = 0
        """Sums of the numbers, and modulo 2^64 of their squares, as long as all are whole and not negative."""

    @property
    def shown_name(self) -> str:
        """The name, fit for a sentence on a terminal."""
        return escape_for_terminal(self.name)

    def first_with(self, what: str) -> str:
        """The first cell of a kind and where it stands, in words."""
        place, text = self.first[what]
        return f"{place.in_words} has {text!r}"

    @property
    def n_present(self) -> int:
        """Cells that are not missing."""
        return self.n_rows - self.n_missing

    @property
    def n_texts(self) -> int:
        """Cells that are neither numbers, nor times, nor missing."""
        return self.n_present - self.n_numbers - self.n_times

    @property
    def kind(self) -> str:
        """What the column is, by all of its cells: NUMBER if most are numbers, TIME if all are times, and so on."""
        if self.is_nested:
            return OTHER
        if self.declared is not None and self.n_present:
            return BOOL if self.declared == TEXT and self._is_bool() else self.declared
        if not self.n_present:
            return EMPTY
        if 2 * self.n_numbers > self.n_present:
            return NUMBER
        if self.n_times == self.n_present and self.n_zoned in (0, self.n_times):
            return TIME
        return BOOL if self._is_bool() else TEXT

    @property
    def n_unseen(self) -> int:
        """Cells with texts that a model does not know."""
        return int(self.counts[len(self.codes) :].sum()) if self._knows_all_texts else 0

    @property
    def numbers_rows(self) -> bool:
        """Whether the cells are the numbers from 0 or from 1 on, each of them once, in whatever order.

        Known by their range, sum and sum of squares, which other columns of measurements do not all have.
        """
        n = self.n_numbers
        if not (self.is_whole and n == self.n_rows and self.low in (0, 1) and self.high - self.low == n - 1):
            return False
        last = int(self.high)
        total, squares = last * (last + 1) // 2, last * (last + 1) * (2 * last + 1) // 6
        return self.total == total and (self.total_of_squares - squares) % (1 << 64) == 0

    def is_kept_as(self, kind: str | None) -> bool:
        """Whether all entries were kept as this: NUMBER, TIME or TEXT; None if there are none to keep."""
        return kind is None or self.kept_as in (None, kind)

    def merge(self, other: "ColumnScan") -> "ColumnScan":
        """What is known of a column with declared types if other rows of it are scanned by themselves, in any order."""
        if None not in (self.declared, other.declared) and self.declared != other.declared:
            raise ValueError(f"{other.declared_in}, but {self.declared_in}; need one type.")
        merged = copy.copy(other if self.declared is None else self)
        merged.n_rows, merged.n_missing = self.n_rows + other.n_rows, self.n_missing + other.n_missing
        merged.n_numbers, merged.n_times = self.n_numbers + other.n_numbers, self.n_times + other.n_times
        merged.n_zoned, merged.hints = self.n_zoned + other.n_zoned, self.hints + other.hints
        merged.low, merged.high = min(self.low, other.low), max(self.high, other.high)
        merged.is_whole = self.is_whole and other.is_whole
        merged.total = self.total + other.total
        merged.total_of_squares = self.total_of_squares + other.total_of_squares
        merged.has_time_of_day = self.has_time_of_day or other.has_time_of_day
        merged.is_nested = self.is_nested or other.is_nested
        merged.first = {**self.first, **other.first}
        merged.first |= {what: min(self.first[what], other.first[what]) for what in self.first.keys() & other.first}
        merged.has_too_many_texts = self.has_too_many_texts or other.has_too_many_texts
        merged.codes = dict(self.codes)
        places = np.array([merged.code_of(text) for text in other.codes], dtype=np.int64)
        merged.counts = np.zeros(len(merged.codes) + 1, dtype=np.int64)  # the last is of texts beyond the most
        merged.counts[: len(self.counts)] += self.counts
        np.add.at(merged.counts, places, other.counts[: len(places)])
        merged.counts[-1] += other.counts[len(places) :].sum()
        return merged

    def with_texts_of(self, sample: "ColumnScan") -> "ColumnScan":
        """The same with the texts of a sample of the rows, if these have more than are told apart."""
        if not self.has_too_many_texts:
            return self
        merged = copy.copy(self)
        merged.codes, merged.counts, merged.has_too_many_texts = sample.codes, sample.counts, sample.has_too_many_texts
        merged.has_sampled_texts = True
        return merged

    def skip(self, n_rows: int, batch: Batch | None = None) -> Floats:
        """Rows in which the column has no cell: (m,) of NaN."""
        return self._keep(np.full(n_rows, np.nan), np.ones(n_rows, dtype=bool), batch)

    def read(self, batch: Batch) -> Floats:
        """The entries of the next rows: (m,)."""
        cells = batch.columns.get(self.name)
        if cells is None:
            return self.skip(batch.n_rows, batch)
        self.is_nested |= self.name in batch.nested
        is_free = not batch.is_typed or self.name in batch.free
        if not is_free and not self.notation.is_plain and is_text(cells.type):
            is_free, cells = True, cells.cast(pa.string())
        return self._read_text(cells, batch) if is_free else self._read_declared(cells, batch)

    def _read_text(self, cells: pa.Array, batch: Batch) -> Floats:
        if self.kept_as in (None, NUMBER):
            plain = self._plain(cells)
            numbers = read_numbers(plain)
            n_present = int(np.count_nonzero(~numbers.missing))
            if self.kept_as is None and n_present:
                is_number = 2 * np.count_nonzero(numbers.bad) < n_present
                self.kept_as = NUMBER if is_number else TEXT if self._times(cells).bad.any() else TIME
            if self.kept_as in (None, NUMBER):
                self._note(NO_NUMBER, cells, numbers.bad, batch)
                if numbers.bad.any():
                    texts, places = distinct(cells)
                    is_bad = np.zeros(len(texts), dtype=bool)
                    is_bad[places[numbers.bad]] = True
                    self._note_hints(cells, texts, places, is_bad, batch)
                self._note_cell(INEXACT, cells, first_inexact(plain, numbers.values), batch)
                return self._keep_numbers(NUMBER, numbers, batch)
        if self.kept_as == TEXT:
            return self._code_texts(cells, batch)
        times = self._times(cells)
        if times.bad.any():
            rest = read_numbers(self._plain(cells.filter(pa.array(times.bad))))
            self.n_numbers += int(np.count_nonzero(~rest.bad))
        self._note(NO_NUMBER, cells, ~times.missing if self.learns else times.bad, batch)
        return self._keep_numbers(TIME, times, batch)

    def _read_declared(self, column: pa.Array, batch: Batch) -> Floats:
        if pa.types.is_null(column.type):
            return self.skip(len(column), batch)
        typed = read_declared(column)
        kept_as = TEXT if typed.kind == OTHER else typed.kind
        described = f"{batch.file}, column".removeprefix(", ") + f" {self.name!r} is of type {column.type}"
        if self.declared not in (None, typed.kind) or self.kept_as not in (None, kept_as):
            if typed.is_empty:
                return self.skip(len(column), batch)
            raise ValueError(f"{described}; need {self.kept_as}, as before.")
        self.declared_in = self.declared_in or described
        self.declared, self.kept_as = typed.kind, kept_as
        if typed.numbers is None:
            return self._code_texts(typed.texts, batch)
        self._note(NO_NUMBER, column, typed.numbers.bad, batch)
        self._note_cell(INEXACT, column, typed.inexact, batch)
        return self._keep_numbers(typed.kind, typed.numbers, batch)

    def _code_texts(self, cells: pa.Array, batch: Batch) -> Floats:
        texts, places = distinct(cells)
        is_free = self.declared is None
        gaps = np.array([*(is_free and is_missing(text) for text in texts), True], dtype=bool)
        if is_free:
            numbers = np.array([*(self.notation.number_of(text) is not None for text in texts), False], dtype=bool)
            self.n_numbers += int(np.count_nonzero(numbers[places]))
            self._note(NO_NUMBER, cells, (~gaps & ~numbers)[places], batch)
            self._note_hints(cells, texts, places, (~gaps & ~numbers)[:-1], batch)
            if self.notation.dates:
                self._note_dates(cells, texts, places, ~gaps[:-1], batch)
        elif self.learns:
            self._note_hints(cells, texts, places, ~gaps[:-1], batch)
        codes = np.full(len(texts) + 1, np.nan)
        for i in np.flatnonzero(~gaps).tolist():
            codes[i] = self.code_of(texts[i])
        entries = codes[places]
        if self._knows_all_texts:
            self._note(UNSEEN_TEXT, cells, entries == len(self.codes), batch)
        present = entries[~np.isnan(entries)].astype(np.int64)
        self.counts = _added(self.counts, np.bincount(present, minlength=len(self.counts)))
        return self._keep(entries, gaps[places], batch)

    def code_of(self, text: str) -> int:
        """The code of a text; texts unknown to a model have one code together, and so have those beyond MOST_TEXTS."""
        code = self.codes.get(text)
        if code is not None:
            return code
        if self._knows_all_texts:
            return len(self.codes)
        if len(self.codes) == self._most_texts:
            self.has_too_many_texts = True
            return self._most_texts
        self.codes[text] = len(self.codes)
        return len(self.codes) - 1

    def _keep_numbers(self, kind: str, numbers: Numbers, batch: Batch) -> Floats:
        is_good = ~numbers.missing & ~numbers.bad
        present = numbers.values[is_good]
        if kind == TIME:
            self.n_times += len(present)
            self.n_zoned += int(np.count_nonzero(numbers.zoned & is_good))
        else:
            self.n_numbers += len(present)
        if len(present):
            self.low, self.high = min(self.low, float(present.min())), max(self.high, float(present.max()))
            self.is_whole = self.is_whole and bool((present == np.floor(present)).all())
            if self.learns and self.is_whole and self.low >= 0 and self.high < 1 << 31:
                whole = present.astype(np.int64)
                self.total += int(whole.sum())
                self.total_of_squares += int(whole @ whole)
            self.has_time_of_day = self.has_time_of_day or bool((present % 86400 != 0).any())
        return self._keep(numbers.values, numbers.missing, batch)

    def _keep(self, entries: Floats, missing: Bools, batch: Batch | None) -> Floats:
        """Count entries, and note the first that is missing."""
        self.n_rows += len(entries)
        self.n_missing += int(np.count_nonzero(missing))
        if batch is not None and MISSING not in self.first and missing.any():
            self.first[MISSING] = batch.place(int(np.argmax(missing))), ""
        return entries

    def _note(self, what: str, cells: pa.Array, is_such: Bools, batch: Batch) -> None:
        """Keep the first of these cells."""
        if what not in self.first and is_such.any():
            self._note_cell(what, cells, int(np.argmax(is_such)), batch)

    def _note_cell(self, what: str, cells: pa.Array, i: int | None, batch: Batch) -> None:
        if i is not None and what not in self.first:
            self.first[what] = batch.place(i), str(cells[i].as_py())

    def _note_hints(self, cells: pa.Array, texts: Sequence[str], places: Ints, is_other: Bools, batch: Batch) -> None:
        """Take note of texts that would be numbers in another notation, or by another type: (k,)."""
        counts = np.bincount(places + 1, minlength=len(texts) + 1)[1:]
        for i in np.flatnonzero(is_other).tolist():
            is_number = self.declared is not None and self.notation.number_of(texts[i]) is not None
            hint = DIGITS_HINT if is_number else self.notation.hint(texts[i])
            if hint:
                self.hints[hint] += int(counts[i])
                self._note(hint, cells, places == i, batch)
                if hint == DECORATED_HINT and len(self.units) < 2 * MOST_UNITS:
                    self.units |= {self.notation.unit_of(texts[i])}

    def _note_dates(self, cells: pa.Array, texts: Sequence[str], places: Ints, is_other: Bools, batch: Batch) -> None:
        """Count texts that are dates of the announced format, and take note of the first that is none: (k,)."""
        counts = np.bincount(places + 1, minlength=len(texts) + 1)[1:]
        for i in np.flatnonzero(is_other).tolist():
            if time_of(texts[i], self.notation.dates) is not None:
                self.hints[DATES_HINT] += int(counts[i])
            else:
                self._note(DATES_HINT, cells, places == i, batch)

    def _is_bool(self) -> bool:
        return 0 < len(self.codes) <= 6 and all(text.strip().lower() in _TRUTHS for text in self.codes)

    def _times(self, cells: pa.Array) -> Numbers:
        return read_times(cells, self.notation.dates)

    def _plain(self, cells: pa.Array) -> pa.Array:
        """Cells with numbers in plain notation."""
        if self.notation.has_plain_numbers:
            return cells
        texts, places = distinct(cells)
        plain = []
        for text in texts:
            number, unit, marks = self.notation.without_decoration(text)
            plain.append(number)
            if self.notation.numbers == "relaxed" and number_of(number) is not None:
                self.units, self.marks = self.units | {unit}, self.marks | set(marks)
        return pa.array(plain, pa.string()).take(pa.array(places, mask=places < 0))


def entry_kind(kind: str) -> str:
    """How the entries of a column are kept: NUMBER, TIME or TEXT."""
    return kind if kind in (NUMBER, TIME) else TEXT


def is_true(text: str) -> bool:
    """Whether a text of a column of true and false says true."""
    return text.strip().lower() == "true"


def _added(old: Ints, new: Ints) -> Ints:
    total = new.astype(np.int64)
    total[: len(old)] += old
    return total
