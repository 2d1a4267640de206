"""Labels of groups in a model file: strings, numbers, true and false, dates, and tuples of these.

An array of one such type goes as a tensor. Labels of several kinds go as JSON in a tensor of bytes, in which a string,
an integer, a float, true and false stand for themselves and {"date": "2024-02-29"} for everything else.
"""

import datetime
import json
import math
import re
from typing import Any

import numpy as np
import numpy.typing as npt

from isobag.storage.modelfile.container import Tensors
from isobag.storage.modelfile.fields import Array, demand

_LAST_CHARACTER = 0x10FFFF
_DATES = re.compile(r"datetime64\[([1-9]\d{0,8})?(Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\]")
_NUMBERS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
_ALLOWED = "a model file holds strings, numbers, true and false, dates, and tuples of these."


class Labels:
    """An array of labels, one for each group, with its dtype."""

    def encode(self, value: Any, path: str, tensors: Tensors) -> str:
        """The dtype; the labels are a tensor."""
        dtype = value.dtype.newbyteorder("=")
        value = np.ascontiguousarray(value, dtype=dtype)
        if dtype.kind == "U":
            tensors[path] = value.view(np.uint32).reshape(len(value), -1)
            return "str"
        if dtype.kind == "M" and _DATES.fullmatch(dtype.name):
            tensors[path] = value.view(np.int64)
            return str(dtype.name)
        if dtype.name in _NUMBERS:
            tensors[path] = value
            return str(dtype.name)
        demand(dtype.kind == "O", path, f"labels of type {dtype}; {_ALLOWED}")
        text = json.dumps([_plain(label, path) for label in value], allow_nan=False)
        tensors[path] = np.frombuffer(text.encode(), dtype=np.uint8)
        return "object"

    def decode(self, node: Any, path: str, tensors: Tensors) -> npt.NDArray[Any]:
        """The labels, one-dimensional."""
        demand(isinstance(node, str), path, "need a dtype.")
        if node == "str":
            characters = Array(("uint32",), 2, 0, _LAST_CHARACTER).decode(None, path, tensors)
            demand(characters.shape[1] > 0, path, "labels of length 0.")
            return np.ascontiguousarray(characters).view(f"U{characters.shape[1]}")[:, 0]
        if _DATES.fullmatch(node):
            return Array(("int64",), 1).decode(None, path, tensors).view(np.dtype(node))
        if node in _NUMBERS:
            return Array((node,), 1).decode(None, path, tensors)
        demand(node == "object", path, f"labels of type {node:.40}; {_ALLOWED}")
        listed = json.loads(Array(("uint8",), 1).decode(None, path, tensors).tobytes())
        demand(isinstance(listed, list), path, "need a list of labels.")
        labels = np.empty(len(listed), dtype=object)
        labels[:] = [_label(one, path) for one in listed]
        return labels


def _plain(label: Any, path: str) -> Any:
    """A label as JSON."""
    if isinstance(label, np.bool_ | np.integer | np.floating | np.str_):
        label = label.item()
    kind = type(label)
    if kind in (str, bool, int):
        return label
    if kind is float:
        return label if math.isfinite(label) else {"float": repr(label)}
    if kind in (datetime.date, datetime.datetime) and _is_fixed(getattr(label, "tzinfo", None)):
        return {kind.__name__: label.isoformat()}
    if kind is np.datetime64 and _DATES.fullmatch(label.dtype.name):
        return {label.dtype.name: int(label.view(np.int64))}
    demand(kind is tuple, path, f"the label {label!r:.60} is of type {kind.__name__}; {_ALLOWED}")
    return {"tuple": [_plain(one, path) for one in label]}


def _label(node: Any, path: str) -> Any:
    """A label from JSON."""
    if type(node) in (str, bool, int, float):
        return node
    demand(isinstance(node, dict) and len(node) == 1, path, "malformed label.")
    ((kind, value),) = node.items()
    if kind == "float":
        demand(value in ("inf", "-inf"), path, "malformed label: need inf or -inf.")
        return float(value)
    if kind in ("date", "datetime"):
        return getattr(datetime, kind).fromisoformat(value)
    if kind == "tuple":
        demand(isinstance(value, list), path, "malformed label: need a list for a tuple.")
        return tuple(_label(one, path) for one in value)
    demand(_DATES.fullmatch(kind) and type(value) is int, path, f"label of kind {kind:.40}; {_ALLOWED}")
    return np.array(value, dtype=np.int64).view(kind)[()]


def _is_fixed(zone: datetime.tzinfo | None) -> bool:
    """Whether a zone is a fixed offset from UTC, which is all that ISO format keeps of it."""
    return zone is None or type(zone) is datetime.timezone
