"""The reading of CSV, as a definition: Python's csv and float, cell after cell, with nothing fast about it."""

import csv
import io
import re

NO_VALUE = {"", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL", "None", "?", "-"}


class RefusedError(Exception):
    """The file is no table."""


def number(cell):
    """The number of a cell; None if it is missing; "bad" if it is none."""
    cell = cell.strip(" \t")
    if cell in NO_VALUE:
        return None
    if not re.fullmatch(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?", cell):
        return "bad"
    value = float(cell)
    return "bad" if value in (float("inf"), float("-inf")) else value


def read(content, divider, header):
    """Names and rows of cells; RefusedError where there is no table."""
    try:
        text = content.decode("utf-8-sig")
        records = list(csv.reader(io.StringIO(text, newline=""), delimiter=divider, strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise RefusedError from error
    while records and not records[0]:
        records.pop(0)
    while records and not records[-1]:
        records.pop()
    if not records:
        raise RefusedError
    if header:
        names = [name or f"column{j + 1}" for j, name in enumerate(records.pop(0))]
    else:
        names = [f"column{j + 1}" for j in range(len(records[0]))]
    records = [record or [""] for record in records] if len(names) == 1 else [record for record in records if record]
    if len(set(names)) < len(names) or any(len(record) != len(names) for record in records):
        raise RefusedError
    return names, records
