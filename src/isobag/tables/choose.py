"""Which columns of a scanned table are used, and how; errors name the place and what to do."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from isobag.backends.arrays import FARTHEST
from isobag.data.gaps import Gaps
from isobag.tables.cells import NUMBER, OTHER, TEXT, TIME
from isobag.tables.encode import CHOICES, NO_TEXT, EncodedColumn, Encoding
from isobag.tables.judge import (
    Categories,
    choose_categories,
    choose_time_parts,
    identifier_reason,
    surprising_texts,
    suspicion_of,
    text_counts,
    why_no_categories,
)
from isobag.tables.notation import DATES_HINT, DECIMAL_HINT, DIGITS_HINT, EITHER_HINT, MOST_UNITS, THOUSANDS_HINT
from isobag.tables.reading import ReadOptions
from isobag.tables.scan import BOOL, EMPTY, INEXACT, MISSING, NO_NUMBER, UNSEEN_TEXT, ColumnScan, entry_kind, is_true
from isobag.tables.summary import (
    CONSTANT,
    COPY,
    EXCLUDE,
    EXCLUDED,
    FEATURE,
    LEFT_OUT,
    RELAXED,
    TIMES,
    ColumnSummary,
)

TAKEN = (NUMBER, BOOL, TEXT)
"""What is used if no features are named."""
ODD_SHARE = 5.0
"""The share of gaps in a column is worth a note if it is so many standard deviations from that of the model's data."""


def check_names(names: Sequence[str], options: ReadOptions, is_learned: bool = False) -> None:
    """Refuse names that the table does not have, or that are named twice; a model names features if ``is_learned``."""
    listed = ", ".join(map(repr, names)) or "none"
    for name in (*options.apart, *(options.carry or ())):
        if name not in names:
            raise ValueError(f"The table has no column {name!r} (columns: {listed}).")
    for pattern in options.exclude:
        if not any(name == pattern or fnmatchcase(name, pattern) for name in names):
            raise ValueError(f"exclude= has {pattern!r}; no column matches (columns: {listed}).")
    if options.features is None:
        return
    if not options.features:
        raise ValueError("features= names no column; need one or more.")
    for name in options.features:
        if name not in names and is_learned:
            raise ValueError(f"{name!r} was learned from; the table has no such column (columns: {listed}).")
        if name not in names:
            raise ValueError(f"features= has {name!r}; the table has no such column (columns: {listed}).")
        if name in options.apart:
            what = "times" if options.apart[name] == TIMES else "labels"
            raise ValueError(f"features= has {name!r}, the column of {what}; leave it out: {what} are not measured.")
        if options.excludes(name):
            raise ValueError(f"features= has {name!r}, which is left out by exclude=; name it in one.")
        if options.features.count(name) > 1:
            raise ValueError(f"features= has {name!r} twice; name every column once.")


def kind_of(scan: ColumnScan, options: ReadOptions) -> str:
    """What a column is taken for: its kind, but text if that is what bad cells are to make of it."""
    is_mixed = scan.kind == NUMBER and scan.declared is None and scan.n_numbers < scan.n_present
    return TEXT if is_mixed and options.bad_cells == "text" else scan.kind


def summarize(scans: Sequence[ColumnScan], options: ReadOptions, copies: Mapping[str, str]) -> list[ColumnSummary]:
    """The role of every column; an error where a column cannot be what it is asked to be.

    copies : names of columns that equal an earlier one, and of that.
    """
    summaries = [_summary(scan, *_role(scan, options), kind_of(scan, options)) for scan in scans]
    if options.dates and options.bags is None and not any(scan.n_times or scan.hints[DATES_HINT] for scan in scans):
        raise ValueError(f"dates={options.dates!r}: no cell of any column is such a date.")
    used = {summary.name: summary for summary in summaries if summary.role == FEATURE}
    for j, summary in enumerate(summaries):
        first = used.get(copies.get(summary.name, ""))
        if summary.role == FEATURE and first is not None and first.kind == summary.kind:
            summaries[j] = replace(summary, reason=f"{COPY} {first.name!r}")
    if not used:
        kinds = ", ".join(f"{summary.name!r}: {summary.reason or summary.role}" for summary in summaries) or "none"
        raise ValueError(f"No column is left to use ({kinds}); name some with features=.")
    return summaries


def check_cells(scan: ColumnScan, options: ReadOptions) -> None:
    """Stop at a column of numbers in which some cells are none, or at whole numbers that float64 cannot tell apart."""
    n_bad = scan.n_present - scan.n_numbers
    is_refused, without = n_bad and options.bad_cells == "error", "features= without it."
    if is_refused and scan.declared is None:
        check_notation(scan)
    if options.numbers == "relaxed" and len(scan.units) > 1:
        units = ", ".join(repr(one) if one else "none" for one in sorted(scan.units)[:4])
        raise ValueError(
            f"{scan.shown_name}: numbers with different units ({units}) cannot be compared. Convert them, or "
            f"pass {without}"
        )
    if is_refused and NO_NUMBER in scan.first:
        raise ValueError(
            f"{scan.shown_name}: {scan.n_numbers:,} of {scan.n_present:,} cells are numbers; "
            f"{scan.first_with(NO_NUMBER)}. Pass bad_cells='missing' to treat such cells as missing, or {without}"
        )
    if max(abs(scan.low), abs(scan.high)) > FARTHEST and scan.n_numbers:
        raise ValueError(f"{scan.shown_name}: a number beyond {FARTHEST:g}, too large to square. Pass {without}")
    if INEXACT in scan.first:
        place, text = scan.first[INEXACT]
        raise ValueError(
            f"{scan.shown_name}: {place.in_words} has {text}, a whole number beyond 2^53 that float64 rounds, so that "
            f"different numbers become the same. Pass {without}"
        )


def check_notation(scan: ColumnScan) -> None:
    """Refuse a column most of whose cells are numbers, some with a point or a comma that is not announced."""
    n_either, n_decimal, n_thousands = (scan.hints[one] for one in (EITHER_HINT, DECIMAL_HINT, THOUSANDS_HINT))
    n = n_either + n_decimal + n_thousands
    if not n or scan.declared is not None or 2 * (n + scan.n_numbers) <= scan.n_present:
        return
    if n_decimal and scan.kind == NUMBER and not scan.is_whole:  # both signs stand for decimals: neither can be meant
        return
    hint, other = DECIMAL_HINT if n_decimal else THOUSANDS_HINT, scan.notation.other
    what = f"{other!r} between thousands" if not n_decimal else "a decimal comma" if other == "," else "a decimal point"
    first = hint if hint in scan.first else EITHER_HINT
    text = scan.first[first][1]
    way = f"{hint}={other!r} to read {text!r} as {scan.notation.others[hint].number_of(text):.15g}"
    if n_decimal and n_thousands:
        way = "one notation for all of its cells"
    raise ValueError(
        f"{scan.shown_name}: {n:,} of {scan.n_present:,} cells are numbers with {what}; {scan.first_with(first)}. "
        f"Pass {way} or features= without it."
    )


def check_dates_of(scan: ColumnScan) -> None:
    """Refuse a column most of whose cells are dates of the announced format, and some are not."""
    if 2 * scan.hints[DATES_HINT] > scan.n_present and DATES_HINT in scan.first:
        raise ValueError(
            f"{scan.shown_name}: {scan.hints[DATES_HINT]:,} of {scan.n_present:,} cells fit "
            f"dates={scan.notation.dates!r}; {scan.first_with(DATES_HINT)}. Fix it, or pass features= without it."
        )


def decorated_reason(scan: ColumnScan, is_asked: bool) -> str:
    """Why a column of text is one of numbers, with more around them than is read; "" if it is not.

    Digits that a type declares to be text, such as codes, are categories if they are asked for.
    """
    hints = [hint for hint in scan.hints if hint != DATES_HINT and not (is_asked and hint == DIGITS_HINT)]
    if 2 * sum(scan.hints[hint] for hint in hints) <= scan.n_present or len(scan.units) > MOST_UNITS:
        return ""
    text = scan.first[max(hints, key=lambda hint: scan.hints[hint])][1]
    return f"text that holds numbers, such as {text!r}; read them with {RELAXED}"


def check_missing(scans: Sequence[ColumnScan], options: ReadOptions) -> None:
    """Refuse missing values in the columns that are used, unless an option deals with them."""
    if options.missing != "error":
        return
    lacking = [scan for scan in scans if n_missing_of(scan, options)]
    if lacking:
        places = ", ".join(f"{scan.name!r} ({n_missing_of(scan, options):,})" for scan in lacking)
        scan = lacking[0]
        first = scan.first.get(MISSING) or scan.first.get(NO_NUMBER)
        where = "" if first is None else f"the first is in {first[0].in_words}, column {scan.name!r}. "
        raise ValueError(
            f"Values are missing in {places} of {scans[0].n_rows:,} rows; {where}Fill them first, or pass "
            "missing='drop' to leave such rows out."
        )


def n_missing_of(scan: ColumnScan, options: ReadOptions) -> int:
    """Cells without a value, among them bad cells that are taken for such."""
    is_number = (kind_of(scan, options) if scan.learns else scan.kept_as) == NUMBER
    return scan.n_missing + (scan.n_present - scan.n_numbers if is_number else 0)


def check_against(column: EncodedColumn, scan: ColumnScan, options: ReadOptions) -> None:
    """Refuse a column of a new table that is not what the model learned it to be."""
    if column.kind == NUMBER:
        check_cells(scan, options)
    elif column.kind == TIME and scan.n_times < scan.n_present:
        raise ValueError(
            f"{scan.shown_name}: the model learned times; {scan.n_times:,} of {scan.n_present:,} cells are; "
            f"{scan.first_with(NO_NUMBER)}."
        )
    elif column.kind == BOOL and scan.n_present and scan.kind != BOOL:
        odd = next(text for text in scan.codes if text.strip().lower() not in ("true", "false"))
        raise ValueError(f"{scan.shown_name}: the model learned true and false; the table has {odd!r}.")


def follow_encoding(encoding: Encoding, scans: Mapping[str, ColumnScan], options: ReadOptions) -> list[ColumnSummary]:
    """The role of every column of a new table by what a model learned; an error where a column is something else."""
    for column in encoding.columns:
        check_against(column, scans[column.name], options)
    check_missing([scans[column.name] for column in encoding.columns], options)
    used = {column.name: column for column in encoding.columns}
    reasons, apart = dict(encoding.left_out), options.apart
    summaries = []
    for name, scan in scans.items():
        role = FEATURE if name in used else apart.get(name, LEFT_OUT)
        reason = reasons.get(name, "not known to the model") if role == LEFT_OUT else ""
        if role == FEATURE and UNSEEN_TEXT in scan.first:
            column = used[name]
            is_new = bool(column.shares) and column.unseen == FARTHEST
            how = "never seen before" if is_new else "among the others" if column.has_other else "as odd as the rarest"
            cells = "1 text is" if scan.n_unseen == 1 else f"{scan.n_unseen:,} texts are"
            reason = f"{cells} unknown to the model, {how}; {scan.first_with(UNSEEN_TEXT)}"
        if role == FEATURE:
            reason = "; ".join(one for one in (reason, _other_gaps(used[name], scan, options)) if one)
        summaries.append(_summary(scan, role, reason, used[name].kind if name in used else scan.kind))
    return summaries


def learn_encoding(
    scans: Mapping[str, ColumnScan],
    options: ReadOptions,
    median_of: Callable[[str], float],
    copies: Mapping[str, str],
) -> tuple[Encoding, list[ColumnSummary]]:
    """How the columns of a scanned table become features, and the role of each; ``median_of`` a column by its name."""
    summaries = summarize(list(scans.values()), options, copies)
    used = [one.name for one in summaries if one.role == FEATURE] if options.features is None else options.features
    check_missing([scans[name] for name in used], options)
    columns = tuple(_encode_column(scans[name], options, median_of) for name in used)
    left_out = tuple((one.name, one.reason) for one in summaries if one.role == LEFT_OUT)
    how = {name: vars(options)[name] for name in CHOICES}
    return Encoding(columns, left_out, **how, baseline=options.baseline, dates=options.dates), summaries


def _encode_column(scan: ColumnScan, options: ReadOptions, median_of: Callable[[str], float]) -> EncodedColumn:
    """How a column that is used becomes features."""
    kind, n_missing = kind_of(scan, options), n_missing_of(scan, options)
    how: dict[str, Any] = {}
    middle = NO_TEXT
    counts = text_counts(scan.codes, scan.counts)
    if kind in (NUMBER, TIME):
        how["parts"] = choose_time_parts(scan.low, scan.high, scan.has_time_of_day) if kind == TIME else ()
        middle = median_of(scan.name) if n_missing else 0.0
        how["only"] = scan.low if scan.low == scan.high else np.nan
    elif kind == BOOL:
        n_true = sum(n for text, n in counts.items() if is_true(text))
        middle = float(2 * n_true > sum(counts.values()))
        how["only"] = middle if n_true in (0, sum(counts.values())) else np.nan
    elif options.by:
        how["categories"], how["has_other"], _ = _categories(scan, options)
    else:
        how["categories"], how["shares"], how["unseen"] = surprising_texts(counts)
    if n_missing and options.missing == "auto":
        gaps = Gaps.of(np.array([n_missing]), scan.n_rows, np.array([middle]))
        how |= {"fill": float(gaps.fills[0]), "surprise": float(gaps.surprises[0])}
    return EncodedColumn(scan.name, kind, **how)


def _other_gaps(column: EncodedColumn, scan: ColumnScan, options: ReadOptions) -> str:
    """What is to be said of gaps that the data of the model did not have, or not so often; "" if nothing is."""
    n_missing, n = n_missing_of(scan, options), scan.n_rows
    if options.missing != "auto" or not n:
        return ""
    if not column.ever_missing:
        values = "1 value is" if n_missing == 1 else f"{n_missing:,} values are"
        where = f"; the first is in {scan.first[MISSING][0].in_words}" if MISSING in scan.first else ""
        return f"{values} missing, never before{where}" if n_missing else ""
    share = 2.0 ** -math.sqrt(column.surprise)
    if (n_missing - n * share) ** 2 <= ODD_SHARE**2 * n * share * (1 - share) + 1:
        return ""
    return f"{100 * n_missing / n:.2g} % of the values are missing, {100 * share:.2g} % before"


def kinds_of(scans: Mapping[str, ColumnScan], options: ReadOptions) -> dict[str, str | None]:
    """How the entries of each column are to be kept, None for columns without any value."""
    return {name: entry_kind(kind_of(scan, options)) if scan.n_present else None for name, scan in scans.items()}


def _role(scan: ColumnScan, options: ReadOptions) -> tuple[str, str]:
    name, kind = scan.name, kind_of(scan, options)
    if name in options.apart:
        return options.apart[name], ""
    if options.excludes(name):
        return LEFT_OUT, EXCLUDED
    is_asked = options.features is not None and name in options.features
    if options.features is not None and not is_asked:
        return LEFT_OUT, "not among the features"
    reason = ""
    if kind == TEXT and options.bad_cells != "text":
        check_notation(scan)
        check_dates_of(scan)
        reason = decorated_reason(scan, is_asked)
    reason = reason or _why_unfit(scan, kind, options)
    if reason and is_asked:
        before, is_relaxed, _ = reason.partition(RELAXED)
        more = "numbers='relaxed'" if is_relaxed else ""
        raise ValueError(f"features= has {name!r}, which cannot be used: {before}{more}.")
    if kind == EMPTY and options.missing == "error":
        raise ValueError(
            f"{scan.shown_name}: all {scan.n_rows:,} cells are missing. Pass missing='drop' or features= without it."
        )
    if reason:
        return LEFT_OUT, reason
    is_whole_or_text = kind == TEXT or (kind == NUMBER and scan.is_whole)
    reason = identifier_reason(name, is_whole_or_text, scan.numbers_rows, scan.n_rows)
    if reason and not is_asked:
        return LEFT_OUT, reason
    if kind == NUMBER:
        check_cells(scan, options)
    if kind not in TAKEN and not is_asked:
        return LEFT_OUT, f"{kind}; name it as a feature to use it"
    if kind in (NUMBER, TIME) and scan.low == scan.high:
        return FEATURE, CONSTANT
    n_bad = scan.n_present - scan.n_numbers if kind == NUMBER else 0
    remarks = [f"{n_bad:,} cells are not numbers and count as missing"] if n_bad else []
    looks_like = "" if is_asked else suspicion_of(name)
    if looks_like:
        remarks.append(f"it looks like {looks_like} by its name, but is used; {EXCLUDE} {name} leaves it out")
    taken = [f"the unit {one!r}" for one in sorted(scan.units) if one] + [
        f"the mark {one}" for one in sorted(scan.marks)
    ]
    if kind == NUMBER and options.numbers == "relaxed" and taken:
        remarks.append(
            f"read as numbers without {' and '.join(taken)}".replace("the mark parentheses", "parentheses (negative)")
        )
    return FEATURE, "; ".join(remarks)


def _why_unfit(scan: ColumnScan, kind: str, options: ReadOptions) -> str:
    if kind == OTHER:
        return "lists, objects or bytes"
    if kind == EMPTY:
        return "no values at all"
    return _categories(scan, options).reason if kind == TEXT else ""


def _categories(scan: ColumnScan, options: ReadOptions) -> Categories:
    counts = text_counts(scan.codes, scan.counts)
    if not options.by:
        return Categories((), False, why_no_categories(counts, scan.has_too_many_texts))
    chosen = choose_categories(counts, scan.has_too_many_texts)
    return chosen._replace(has_other=chosen.has_other or scan.has_sampled_texts)


def _summary(scan: ColumnScan, role: str, reason: str, kind: str) -> ColumnSummary:
    return ColumnSummary(scan.name, role, kind, scan.n_numbers, scan.n_times, scan.n_texts, scan.n_missing, reason)
