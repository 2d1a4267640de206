"""How text writes its numbers and dates: decimal signs, signs between thousands, what stands around them.

Nothing is guessed: without an option, such a cell is not a number. ``Notation.hint`` names the option that would help.
"""

import re
from dataclasses import dataclass
from functools import cached_property

from isobag.tables.cells import BLANKS, number_of

THOUSANDS = ("", ",", ".", " ", "'")
NUMBERS = ("strict", "relaxed")
DECIMAL_HINT, THOUSANDS_HINT, EITHER_HINT, DECORATED_HINT = "decimal", "thousands", "either", "decorated"
DIGITS_HINT, DATES_HINT = "digits", "dates"
MOST_UNITS = 3
"""A column of more different endings than this, 1st, 2nd, 3rd, 4th, is text."""
_SPACES = " \u00a0\u2009\u202f"
_SYMBOLS = "$\u00a2\u00a3\u00a5\u20a9\u20ac\u20b9\u20bd"
_LETTERS = r"[^\W\d_]"
_DECORATED = re.compile(
    rf"(?P<open>\()?(?P<sign>[+-])?(?P<front>[{_SYMBOLS}]|[A-Z]{{3}}(?![^\W\d_]))?[{_SPACES}]?(?P<inner>[+-])?"
    rf"(?P<core>[0-9.,](?:[0-9.,'\u2019{_SPACES}]*[0-9.,])?(?:[eE][+-]?[0-9]+)?)"
    rf"[{_SPACES}]?(?P<back>[{_SYMBOLS}%\u2030]|\u00b0[CF]?|{_LETTERS}{{1,4}}(?:/{_LETTERS}{{1,4}})?)?(?P<close>\))?"
)


@dataclass(frozen=True)
class Notation:
    """How numbers are written.

    decimal : "." or ",".
    thousands : the sign between thousands, "" for none; it must stand between all of them, or in none.
    numbers : "relaxed" takes off currency, percent, units and signs between thousands, and reads (1.5) as -1.5.
    dates : a format of dates and times beside ISO 8601, as of Python's ``strptime``; "" for none.
    """

    decimal: str = "."
    thousands: str = ""
    numbers: str = "strict"
    dates: str = ""

    @property
    def has_plain_numbers(self) -> bool:
        """Whether numbers are read as they stand."""
        return (self.decimal, self.thousands, self.numbers) == (".", "", "strict")

    @property
    def is_plain(self) -> bool:
        """Whether cells are read as they stand."""
        return self == Notation()

    @property
    def other(self) -> str:
        """The point or the comma, whichever is not the decimal sign."""
        return "," if self.decimal == "." else "."

    def without_decoration(self, text: str) -> tuple[str, str, tuple[str, ...]]:
        """A cell in plain notation, which may be a number then; the unit that was taken off, and marks that were.

        >>> Notation(numbers="relaxed").without_decoration("($1,234.50)")
        ('-1234.50', '$', ("','", 'parentheses'))
        """
        text = text.strip(BLANKS)
        unit, marks, core, sign = "", [], text, ""
        if self.numbers == "relaxed":
            match = _DECORATED.fullmatch(text)
            signs = 0 if match is None else sum(match[name] is not None for name in ("sign", "inner", "open"))
            if match is None or (match["open"] is None) != (match["close"] is None) or signs > 1:
                return "?" if match is not None else text, "", ()
            unit = " ".join(part for part in (match["front"], match["back"]) if part)
            sign = "-" if match["open"] else match["sign"] or match["inner"] or ""
            core = match["core"]
        for sign_between in self._signs:
            if sign_between in core and self._grouped[sign_between].fullmatch(core):
                core = core.replace(sign_between, "")
                marks.append(repr(sign_between))
                break
        if sign == "-" and text.startswith("("):
            marks.append("parentheses")
        if self.decimal == ",":
            core = core.replace(".", "?").replace(",", ".")
        return sign + core, unit, tuple(marks)

    def number_of(self, text: str) -> float | None:
        """The number in a cell, None if it holds none."""
        return number_of(text if self.has_plain_numbers else self.without_decoration(text)[0])

    def hint(self, text: str) -> str:
        """What kind of number a cell that is none would be in another notation; "" if in none."""
        if not any(character.isdigit() for character in text):
            return ""
        fits = [hint for hint, notation in self.others.items() if notation.number_of(text) is not None]
        if fits:
            return fits[0] if len(fits) == 1 else EITHER_HINT
        return DECORATED_HINT if number_of(self._relaxed.without_decoration(text)[0]) is not None else ""

    def unit_of(self, text: str) -> str:
        """The unit that would be taken off a cell."""
        return self._relaxed.without_decoration(text)[1]

    @cached_property
    def others(self) -> dict[str, "Notation"]:
        """Notations that may be meant where a cell is no number, by the name of the option that chooses them."""
        thousands = {} if self.thousands else {THOUSANDS_HINT: Notation(self.decimal, self.other)}
        return thousands | ({} if self.other == self.thousands else {DECIMAL_HINT: Notation(self.other)})

    @cached_property
    def _relaxed(self) -> "Notation":
        return Notation(self.decimal, self.thousands, "relaxed")

    @cached_property
    def _signs(self) -> tuple[str, ...]:
        chosen = self.thousands or (self.other if self.numbers == "relaxed" else "")
        more = _SPACES + "'\u2019" if self.numbers == "relaxed" else _SPACES if chosen == " " else ""
        return tuple(dict.fromkeys([*([chosen] if chosen else []), *more]))

    @cached_property
    def _grouped(self) -> dict[str, re.Pattern[str]]:
        return {one: _grouping(one, self.decimal) for one in self._signs}


def _grouping(sign: str, decimal: str) -> re.Pattern[str]:
    """Whole numbers in groups of three digits, with or without decimals."""
    return re.compile(rf"[+-]?[1-9][0-9]{{0,2}}(?:{re.escape(sign)}[0-9]{{3}})+(?:{re.escape(decimal)}[0-9]*)?")
