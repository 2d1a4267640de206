"""Which columns of a scanned table are used, and how; what stands in the way is said, with where and what to do."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from isobag.backends.arrays import FARTHEST
from isobag.tables.declared import NUMBER, OTHER, TEXT, TIME
from isobag.tables.encode import EncodedColumn, Encoding
from isobag.tables.judge import (
    Categories,
    choose_categories,
    choose_time_parts,
    find_copies,
    identifier_reason,
    is_constant,
    text_counts,
)
from isobag.tables.scan import BOOL, EMPTY, ColumnScan, entry_kind, is_true
from isobag.tables.summary import FEATURE, LEFT_OUT, ColumnSummary, Spelling

TAKEN = (NUMBER, BOOL)
"""What is used if no features are named."""


class Wishes(NamedTuple):
    """What is asked for.

    features : names of the columns to use; None for those of TAKEN that are no identifiers.
    apart : columns that are no features, with their role: an id, or a label of groups.
    missing, bad_cells : see ``read_table``.
    spelling : how options are written in errors.
    """

    features: tuple[str, ...] | None
    apart: Mapping[str, str]
    missing: str
    bad_cells: str
    spelling: Spelling


def check_names(names: Sequence[str], wishes: Wishes, carry: Sequence[str] = ()) -> None:
    """Refuse names that the table does not have, or that are named twice."""
    known = ", ".join(map(repr, names)) or "none"
    for name in (*wishes.apart, *carry):
        if name not in names:
            raise ValueError(f"The table has no column {name!r} (columns: {known}).")
    if wishes.features is None:
        return
    option = wishes.spelling("features", "")
    if not wishes.features:
        raise ValueError(f"{option} names no column; need one or more.")
    for name in wishes.features:
        if name not in names:
            raise ValueError(f"{option} has {name!r}; the table has no such column (columns: {known}).")
        if name in wishes.apart:
            raise ValueError(f"{option} has {name!r}, the column of labels; leave it out: labels are not measured.")
        if wishes.features.count(name) > 1:
            raise ValueError(f"{option} has {name!r} twice; name every column once.")


def kind_of(scan: ColumnScan, wishes: Wishes) -> str:
    """What a column is taken for: its kind, but text if that is what bad cells are to make of it."""
    is_mixed = scan.kind == NUMBER and scan.declared is None and scan.n_numbers < scan.n_told
    return TEXT if is_mixed and wishes.bad_cells == "text" else scan.kind


def summarize(scans: Sequence[ColumnScan], wishes: Wishes) -> list[ColumnSummary]:
    """The role of every column; an error where a column cannot be what it is asked to be."""
    summaries = [_summary(scan, *_role(scan, wishes), kind_of(scan, wishes)) for scan in scans]
    used = [j for j, summary in enumerate(summaries) if summary.role == FEATURE]
    copies = find_copies([scans[j].digest.to_bytes() + scans[j].kind.encode() for j in used])
    for copy, first in copies.items():
        old = summaries[used[copy]]
        reason = f"a copy of {scans[used[first]].name!r}"
        summaries[used[copy]] = _summary(scans[used[copy]], FEATURE, reason, old.kind)
    if not used:
        kinds = ", ".join(f"{one.name!r}: {one.reason or one.role}" for one in summaries) or "none"
        raise ValueError(f"No column is left to look at ({kinds}); name some with {wishes.spelling('features', '')}.")
    return summaries


def check_cells(scan: ColumnScan, wishes: Wishes) -> None:
    """Stop at a column of numbers in which some cells are none, or at whole numbers that float64 cannot tell apart."""
    without = f"{wishes.spelling('features', '')} without it"
    n_bad = scan.n_told - scan.n_numbers
    if n_bad and wishes.bad_cells == "error" and scan.first_other is not None:
        place, text = scan.first_other
        raise ValueError(
            f"{scan.shown_name}: {scan.n_numbers:,} of {scan.n_told:,} cells are numbers; "
            f"{place.in_words} has {text!r}. "
            f"Pass {wishes.spelling('bad_cells', 'missing')} to treat such cells as missing, or {without}."
        )
    if max(abs(scan.low), abs(scan.high)) > FARTHEST and scan.n_numbers:
        raise ValueError(f"{scan.name}: a number beyond {FARTHEST:g}, too large to square. Pass {without}.")
    if scan.first_inexact is not None:
        place, text = scan.first_inexact
        raise ValueError(
            f"{scan.shown_name}: {place.in_words} has {text}, a whole number beyond 2^53 that float64 rounds, so that "
            f"different numbers become the same. Pass {without}."
        )


def check_missing(scans: Sequence[ColumnScan], wishes: Wishes) -> None:
    """Refuse missing values in the columns that are used, unless it is said what to do with them."""
    if wishes.missing != "error":
        return
    lacking = [scan for scan in scans if n_missing_of(scan, wishes)]
    if lacking:
        places = ", ".join(f"{scan.name!r} ({n_missing_of(scan, wishes):,})" for scan in lacking)
        first = lacking[0].first_missing or (lacking[0].first_other or (None,))[0]
        where = "" if first is None else f"the first is in {first.in_words}, column {lacking[0].name!r}. "
        raise ValueError(
            f"Values are missing in {places} of {scans[0].n_rows:,} rows; {where}Fill them first, or pass "
            f"{wishes.spelling('missing', 'drop')} (leave such rows out) or {wishes.spelling('missing', 'median')}."
        )


def n_missing_of(scan: ColumnScan, wishes: Wishes) -> int:
    """Cells without a value, among them bad cells that are taken for such."""
    is_number = (kind_of(scan, wishes) if scan.learns else scan.kept_as) == NUMBER
    return scan.n_missing + (scan.n_told - scan.n_numbers if is_number else 0)


def check_against(column: EncodedColumn, scan: ColumnScan, wishes: Wishes) -> None:
    """Refuse a column of a new table that is not what the model learned it to be."""
    if column.kind == NUMBER:
        check_cells(scan, wishes)
    elif column.kind == TIME and scan.n_times < scan.n_told:
        where = "" if scan.first_other is None else f"; {scan.first_other[0].in_words} has {scan.first_other[1]!r}"
        raise ValueError(
            f"{scan.shown_name}: the model learned times; {scan.n_times:,} of {scan.n_told:,} cells are{where}."
        )
    elif column.kind == BOOL and scan.n_told and scan.kind != BOOL:
        odd = next(text for text in scan.codes if text.strip().lower() not in ("true", "false"))
        raise ValueError(f"{scan.shown_name}: the model learned true and false; the table has {odd!r}.")


def learn_encoding(
    scans: Mapping[str, ColumnScan], wishes: Wishes, decimal: str, median_of: Callable[[str], float]
) -> tuple[Encoding, list[ColumnSummary]]:
    """How the columns of a scanned table become features, and the role of each; ``median_of`` a column by its name."""
    summaries = summarize(list(scans.values()), wishes)
    used = [one.name for one in summaries if one.role == FEATURE] if wishes.features is None else wishes.features
    check_missing([scans[name] for name in used], wishes)
    columns = tuple(_encode_column(scans[name], wishes, median_of) for name in used)
    left_out = tuple((one.name, one.reason) for one in summaries if one.role == LEFT_OUT)
    return Encoding(columns, left_out, wishes.missing, wishes.bad_cells, decimal), summaries


def _encode_column(scan: ColumnScan, wishes: Wishes, median_of: Callable[[str], float]) -> EncodedColumn:
    """How a column that is used becomes features."""
    kind, fills = kind_of(scan, wishes), wishes.missing == "median"
    if kind in (NUMBER, TIME):
        parts = choose_time_parts(scan.low, scan.high, scan.has_time_of_day) if kind == TIME else ()
        return EncodedColumn(scan.name, kind, parts=parts, fill=median_of(scan.name) if fills else np.nan)
    if kind == BOOL:
        counts = text_counts(scan.codes, scan.counts)
        n_true = sum(count for text, count in counts.items() if is_true(text))
        return EncodedColumn(scan.name, BOOL, fill=float(2 * n_true > sum(counts.values())) if fills else np.nan)
    found = _categories(scan)
    return EncodedColumn(scan.name, TEXT, found.texts, found.has_other, fill=0.0 if fills else np.nan)


def kinds_of(scans: Mapping[str, ColumnScan], wishes: Wishes) -> dict[str, str | None]:
    """How the entries of each column are to be kept, None for columns without any value."""
    return {name: entry_kind(kind_of(scan, wishes)) if scan.n_told else None for name, scan in scans.items()}


def _role(scan: ColumnScan, wishes: Wishes) -> tuple[str, str]:
    name, kind = scan.name, kind_of(scan, wishes)
    if name in wishes.apart:
        return wishes.apart[name], ""
    is_asked = wishes.features is not None and name in wishes.features
    if wishes.features is not None and not is_asked:
        return LEFT_OUT, "not among the features"
    if kind == TEXT and not is_asked:
        _check_decimal_commas(scan, wishes)
    reason = _why_unfit(scan, kind)
    if reason and is_asked:
        option = wishes.spelling("features", "")
        raise ValueError(f"{option} has {name!r}, which cannot be used: {reason}.")
    if kind == EMPTY and wishes.missing == "error":
        raise ValueError(
            f"{scan.shown_name}: all {scan.n_rows:,} cells are missing. Pass {wishes.spelling('missing', 'drop')} or "
            f"{wishes.spelling('features', '')} without it."
        )
    if reason:
        return LEFT_OUT, reason
    is_whole_or_text = kind == TEXT or (kind == NUMBER and scan.is_whole)
    reason = identifier_reason(name, is_whole_or_text, scan.is_rising, scan.n_rows)
    if reason and not is_asked:
        return LEFT_OUT, reason
    if kind == NUMBER:
        check_cells(scan, wishes)
    if kind not in TAKEN and not is_asked:
        return LEFT_OUT, f"{kind}; name it in {wishes.spelling('features', '')} to use it"
    if kind in (NUMBER, TIME) and is_constant(scan.low, scan.high):
        return FEATURE, "the same in every row"
    n_bad = scan.n_told - scan.n_numbers if kind == NUMBER else 0
    return FEATURE, f"{n_bad:,} cells are no numbers and count as missing" if n_bad else ""


def _why_unfit(scan: ColumnScan, kind: str) -> str:
    if kind == OTHER:
        return "lists, objects or bytes"
    if kind == EMPTY:
        return "no values at all"
    return _categories(scan).reason if kind == TEXT else ""


def _check_decimal_commas(scan: ColumnScan, wishes: Wishes) -> None:
    is_mostly = 2 * (scan.n_decimal_commas + scan.n_numbers) > scan.n_told
    if scan.kind == TEXT and scan.n_decimal_commas and is_mostly and scan.first_other is not None:
        place, text = scan.first_other
        raise ValueError(
            f"{scan.shown_name}: {scan.n_decimal_commas:,} of {scan.n_told:,} cells are numbers with a decimal comma; "
            f"{place.in_words} has {text!r}. Pass {wishes.spelling('decimal', ',')}, or "
            f"{wishes.spelling('features', '')} without it."
        )


def _categories(scan: ColumnScan) -> Categories:
    return choose_categories(text_counts(scan.codes, scan.counts), scan.has_too_many_texts)


def _summary(scan: ColumnScan, role: str, reason: str, kind: str) -> ColumnSummary:
    n_texts = scan.n_told - scan.n_numbers - scan.n_times
    return ColumnSummary(scan.name, role, kind, scan.n_numbers, scan.n_times, n_texts, scan.n_missing, reason)
