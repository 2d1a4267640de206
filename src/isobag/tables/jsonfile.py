"""JSON Lines, value for value: one object a line, its values as the text of cells.

Numbers keep all digits: what is a number, and which, is settled by the one rule for cells. true, false, texts and null
stand for themselves; lists and objects become their JSON text and are reported as nested. Lines are read by Python's
``json``; a name that is missing in a line has no value there.
"""

import json
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import pyarrow as pa

from isobag.tables.batch import Batch, Place
from isobag.tables.tablefile import BOM, TableFile, not_utf8

BATCH_ROWS = 1 << 16
_BLANK = b" \t\r\n"


class JsonFile(TableFile):
    """One file of JSON Lines, or of one list of objects.

    Numbers get the decimal sign of the texts that they may stand among, so that they mean the same.
    """

    def batches(self) -> Iterator[Batch]:
        """The rows in order; a batch has the columns that its rows name."""
        self.n_empty_lines = 0
        with self._opened() as stream:
            row = 0
            rows: list[dict[str, Any]] = []
            lines: list[int | None] = []
            for line, content in self._rows(stream):
                rows.append(self._checked(content, Place(self._file, row + len(rows), line)))
                lines.append(line)
                if len(rows) == BATCH_ROWS:
                    yield self._batch(rows, row, lines)
                    row, rows, lines = row + len(rows), [], []
            if rows:
                yield self._batch(rows, row, lines)

    def _rows(self, stream: IO[bytes]) -> Iterator[tuple[int | None, Any]]:
        row = 0
        for line, content in enumerate(stream, 1):
            if line == 1:
                content = content.removeprefix(BOM)  # noqa: PLW2901, the mark is no part of the line
                if content.lstrip(_BLANK).startswith(b"["):
                    everything = content + stream.read()
                    yield from ((None, one) for one in self._parse(everything, Place(self._file, 0, None)))
                    return
            if content.strip(_BLANK):
                yield line, self._parse(content, Place(self._file, row, line))
                row += 1
            else:
                self.n_empty_lines += 1

    def _parse(self, content: bytes, place: Place) -> Any:
        try:
            return json.loads(
                content.decode(), parse_int=_Digits, parse_float=_Digits, parse_constant=str, object_pairs_hook=_Pairs
            )
        except json.JSONDecodeError as error:
            raise ValueError(f"{place}: not JSON ({error.msg} at character {error.pos + 1:,}).") from None
        except UnicodeDecodeError as error:
            raise not_utf8(str(place), content[error.start]) from None
        except RecursionError:
            raise ValueError(f"{place}: lists or objects nested too deeply.") from None

    def _checked(self, content: Any, place: Place) -> dict[str, Any]:
        if not isinstance(content, _Pairs):
            raise ValueError(f'{place}: need an object with names, such as {{"a": 1}}; JSON Lines has one a line.')
        row = dict(content)
        if len(row) < len(content):
            names = [name for name, _ in content]
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"{place}, column {twice!r}: duplicate name.")
        return row

    def _batch(self, rows: list[dict[str, Any]], first_row: int, lines: list[int | None]) -> Batch:
        names = dict.fromkeys(name for row in rows for name in row)
        numbers = None if None in lines else np.array(lines)
        batch = Batch(self._file, first_row, numbers, {}, len(rows))
        nested, kinds = set(), {}
        for name in names:
            values = [row.get(name) for row in rows]
            kinds[name] = _kinds(values)
            if any(isinstance(value, list) for value in values):
                nested.add(name)
            try:
                batch.columns[name] = pa.array([_text(value, self._how.decimal) for value in values], pa.string())
            except UnicodeEncodeError:
                i = next(i for i, value in enumerate(values) if _is_broken(_text(value)))
                raise ValueError(f"{batch.place(i)}, column {name!r}: an unpaired surrogate is not text.") from None
        return batch._replace(nested=frozenset(nested), kinds=kinds)


class _Digits(str):
    """A number as it is written."""


class _Pairs(list[Any]):
    """An object, as pairs of a name and a value."""


_KINDS = {_Digits: "number", str: "text", bool: "true or false", list: "list", _Pairs: "object"}


def _kinds(values: list[Any]) -> dict[str, int]:
    """The kinds of values in a column, null aside, and the first row with each."""
    types = list(map(type, values))
    return {_KINDS[kind]: types.index(kind) for kind in dict.fromkeys(types) if kind in _KINDS}


def _text(value: Any, decimal: str = ".") -> str | None:
    """The text of a cell."""
    if value is None or type(value) is str:
        return value
    if isinstance(value, list):
        return _nested_text(value)
    return value.replace(".", decimal) if isinstance(value, _Digits) else "true" if value else "false"


def _nested_text(value: Any) -> str:
    if isinstance(value, _Pairs):
        return "{" + ", ".join(f"{json.dumps(name)}: {_nested_text(one)}" for name, one in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_nested_text, value)) + "]"
    return str(value) if isinstance(value, _Digits) else json.dumps(value)


def _is_broken(text: str | None) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text or "")
