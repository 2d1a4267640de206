"""Columns of text that would be numbers in another notation: refused, or left out with the way to read them."""

from isobag.data.params import Option, ParameterError
from isobag.tables.declared import NUMBER
from isobag.tables.notation import DATES_HINT, DECIMAL_HINT, DIGITS_HINT, EITHER_HINT, MOST_UNITS, THOUSANDS_HINT
from isobag.tables.scan import ColumnScan
from isobag.tables.summary import RELAXED


def check_notation(scan: ColumnScan) -> None:
    """Refuse a column most of whose cells are numbers, some with a point or a comma that is not announced."""
    n_either, n_decimal, n_thousands = (scan.hints[one] for one in (EITHER_HINT, DECIMAL_HINT, THOUSANDS_HINT))
    n = n_either + n_decimal + n_thousands
    if not n or scan.declared is not None or 2 * (n + scan.n_numbers) <= scan.n_present:
        return
    if n_decimal and scan.kind == NUMBER and not scan.is_whole:  # both signs stand for decimals: neither can be meant
        return
    other = scan.notation.other
    groups = not n_decimal
    place, text = scan.first[
        next(one for one in (THOUSANDS_HINT if groups else DECIMAL_HINT, EITHER_HINT) if one in scan.first)
    ]
    what = f"{other!r} between thousands" if groups else "a decimal comma" if other == "," else "a decimal point"
    ways: tuple[str | Option, ...] = (Option("thousands" if groups else "decimal", other), f" to read {text!r} as ")
    ways += (text.replace(other, "" if groups else ".").replace(scan.notation.decimal, "."),)
    if n_decimal and n_thousands:
        ways = ("one notation for all of its cells",)
    raise ParameterError(
        f"{scan.shown_name}: {n:,} of {scan.n_present:,} cells are numbers with {what}; {place.in_words} has {text!r}. "
        "Pass ",
        *ways,
        " or ",
        Option("features"),
        " without it.",
    )


def check_dates_of(scan: ColumnScan) -> None:
    """Refuse a column most of whose cells are dates of the announced format, and some are not."""
    if not scan.notation.dates or 2 * scan.hints[DATES_HINT] <= scan.n_present or DATES_HINT not in scan.first:
        return
    place, text = scan.first[DATES_HINT]
    raise ParameterError(
        f"{scan.shown_name}: {scan.hints[DATES_HINT]:,} of {scan.n_present:,} cells fit ",
        Option("dates", scan.notation.dates),
        f"; {place.in_words} has {text!r}. Mend it, or pass ",
        Option("features"),
        " without it.",
    )


def dressed_reason(scan: ColumnScan, is_asked: bool) -> str:
    """Why a column of text is one of numbers, with more around them than is read; "" if it is not.

    Digits that a type declares to be text, such as codes, are categories if they are asked for.
    """
    hints = [one for one in scan.hints if one != DATES_HINT and not (is_asked and one == DIGITS_HINT)]
    if 2 * sum(scan.hints[one] for one in hints) <= scan.n_present or len(scan.units) > MOST_UNITS:
        return ""
    text = scan.first[max(hints, key=lambda one: scan.hints[one])][1]
    return f"text that holds numbers, such as {text!r}; read them with {RELAXED}"
