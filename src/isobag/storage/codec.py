"""Values as JSON and tensors, and back: estimators, learned data classes, tuples, arrays, labels, text and numbers.

A value becomes JSON with its type, and its arrays become tensors named by their path:

None, true, false, integer, text   themselves; a number too, if it is finite, else {"float": "inf"}
tuple                              a list
data class                         {"class": its name, and its fields}
estimator                          {"class": its name, "params": {...}, "fitted": {...}}
array                              {"array": its dtype} and a tensor; text is a tensor of code points, dates are one of
                                   integers, and objects, such as labels of several kinds, one of JSON in UTF-8
sparse counts                      {"csr": shape} and three tensors
date                               {"date": "2024-02-29"}, {"datetime": "2024-02-29T12:00"}, {"datetime64[s]": 0}

What is read may come from anyone. Classes are those of ``LEARNED`` and ``IN_FILES``; fields are compared with their
annotations, and then every value validates itself. Nothing else is built, and no code is run.
"""

import datetime
import json
import math
import re
from dataclasses import fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse

import isobag
from isobag.backends.learned import LEARNED, Learned, demand
from isobag.estimators import IN_FILES

Tensors = dict[str, npt.NDArray[Any]]
_DATES = re.compile(r"datetime64\[([1-9]\d{0,8})?(Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\]")
_CSR = ("data", "indices", "indptr")
_LAST_CHARACTER = 0x10FFFF


def encode(value: Any, path: str, tensors: Tensors) -> Any:
    """A value as JSON; its arrays are added to ``tensors``."""
    if isinstance(value, np.generic) and not isinstance(value, np.datetime64):
        value = value.item()
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if kind is tuple:
        return [encode(one, f"{path}.{k}", tensors) for k, one in enumerate(value)]
    if kind is np.ndarray:
        return {"array": _encode_array(value, path, tensors)}
    if issparse(value) or hasattr(value, "tocsr"):  # counts may live on a device
        counts = value.tocsr()
        tensors |= {f"{path}.{name}": getattr(counts, name) for name in _CSR}
        return {"csr": [int(n) for n in counts.shape]}
    if kind in (datetime.date, datetime.datetime) and _is_fixed(getattr(value, "tzinfo", None)):
        return {kind.__name__: value.isoformat()}
    if kind is np.datetime64 and _DATES.fullmatch(value.dtype.name):
        return {value.dtype.name: int(value.view(np.int64))}
    if LEARNED.get(kind.__name__) is kind:
        parts = {one.name: getattr(value, one.name) for one in fields(value)}
        _check(kind, parts, path)
        nodes = _encode_all(parts, path, tensors)
        value.validate()
        return {"class": kind.__name__, **nodes}
    if IN_FILES.get(kind.__name__) is kind:
        params, fitted = value.get_params(deep=False), value.fitted()
        _check(kind, fitted, path)
        nodes = {"params": _encode_all(params, path, tensors), "fitted": _encode_all(fitted, path, tensors)}
        value.validate()
        return {"class": kind.__name__, **nodes}
    raise ValueError(
        f"{path}: {value!r:.60} is of type {kind.__name__}; a file holds {', '.join(IN_FILES)}, and in them strings, "
        "numbers, true and false, dates, arrays, and tuples of these"
    )


def _encode_all(parts: dict[str, Any], path: str, tensors: Tensors) -> dict[str, Any]:
    return {name: encode(value, _join(path, name), tensors) for name, value in parts.items()}


def decode(node: Any, path: str, tensors: Tensors) -> Any:
    """The value that JSON describes; its arrays are taken out of ``tensors``. Any exception: it describes none."""
    if node is None or type(node) in (bool, int, float, str):
        return node
    if isinstance(node, list):
        return tuple(decode(one, f"{path}.{k}", tensors) for k, one in enumerate(node))
    if "class" in node:
        name = node["class"]
        if name not in LEARNED and name in isobag.__all__:
            getattr(isobag, name)  # loads the module of a public class
        return (_decode_learned if name in LEARNED else _decode_estimator)(node, path, tensors)
    ((kind, content),) = node.items()
    if kind == "array":
        return _decode_array(content, path, tensors)
    if kind == "csr":
        data, columns, ends = (tensors.pop(f"{path}.{name}") for name in _CSR)
        rises = ends.ndim == 1 and len(ends) > 0 and np.all(ends[1:] >= ends[:-1]) and ends[-1] == len(columns)
        demand(rises, f"{path} has rows that do not follow one another")  # SciPy lets ends below 0 pass
        counts = csr_array((data, columns, ends), shape=content)
        demand(counts.dtype in (np.int32, np.int64), f"{path} has counts of type {counts.dtype}")
        counts.check_format(full_check=True)
        return counts
    if kind == "float":
        return {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[content]
    if kind in ("date", "datetime"):
        return getattr(datetime, kind).fromisoformat(content)
    demand(_DATES.fullmatch(kind) and type(content) is int, f"{path} is of the unknown kind {kind!r:.40}")
    return np.array(content, dtype=np.int64).view(kind)[()]


def _decode_all(nodes: dict[str, Any], path: str, tensors: Tensors) -> dict[str, Any]:
    return {name: decode(own, _join(path, name), tensors) for name, own in nodes.items() if name != "class"}


def _decode_learned(node: dict[str, Any], path: str, tensors: Tensors) -> Learned:
    cls = LEARNED[node["class"]]
    parts = _decode_all(node, path, tensors)
    names = {one.name for one in fields(cls)}  # type: ignore[arg-type]  # a TypeError where it is no data class
    demand(set(parts) == names, f"{path} has not the fields of {cls.__name__}")
    _check(cls, parts, path)
    value = cls(**parts)
    value.validate()
    return value


def _decode_estimator(node: dict[str, Any], path: str, tensors: Tensors) -> Any:
    cls = IN_FILES[node["class"]]
    params, fitted = (_decode_all(node[part], path, tensors) for part in ("params", "fitted"))
    estimator = cls(**params)
    demand(set(params) == set(estimator.get_params(deep=False)), f"{path} has not the parameters of {cls.__name__}")
    estimator.check_params()
    _check(cls, fitted, path)
    estimator.resume(fitted)
    estimator.validate()
    return estimator


def _encode_array(value: npt.NDArray[Any], path: str, tensors: Tensors) -> str:
    dtype = value.dtype.newbyteorder("=")
    value = np.ascontiguousarray(value, dtype=dtype).reshape(value.shape)  # of no axes it makes one
    if dtype.kind == "U":
        tensors[path] = value.view(np.uint32).reshape(*value.shape, -1)
        return "str"
    if dtype.kind == "M" and _DATES.fullmatch(dtype.name):
        tensors[path] = value.view(np.int64)
        return str(dtype.name)
    if dtype.kind in "biuf":
        tensors[path] = value
        return str(dtype.name)
    demand(dtype.kind == "O" and value.ndim == 1, f"{path} is an array of {dtype}, which a file cannot hold")
    text = json.dumps([encode(one, path, {}) for one in value], allow_nan=False)
    tensors[path] = np.frombuffer(text.encode(), dtype=np.uint8)
    return "object"


def _decode_array(dtype: str, path: str, tensors: Tensors) -> npt.NDArray[Any]:
    tensor = tensors.pop(path)
    if dtype == "str":
        demand(tensor.dtype == np.uint32 and tensor.shape[-1] > 0, f"{path} is not text")
        demand(tensor.max(initial=0) <= _LAST_CHARACTER, f"{path} has numbers that are not characters")
        return tensor.view(f"U{tensor.shape[-1]}")[..., 0]
    if dtype == "object":
        content = json.loads(tensor.tobytes())
        demand(isinstance(content, list), f"{path} is not a list")
        values = np.empty(len(content), dtype=object)
        values[:] = [decode(one, path, {}) for one in content]
        return values
    if _DATES.fullmatch(dtype):
        demand(tensor.dtype == np.int64, f"{path} has dates of type {tensor.dtype}")
        return tensor.view(dtype)
    demand(tensor.dtype.name == dtype, f"{path} is of type {tensor.dtype}, not {dtype:.20}")
    return tensor


def _join(path: str, name: str) -> str:
    """The path of a part; those of the whole are named as they are."""
    return f"{path}.{name}" if path else name


def _check(cls: type, parts: dict[str, Any], path: str) -> None:
    """Refuse parts of a class that are not as it annotates them."""
    hints = _hints_of(cls)
    for name, value in parts.items():
        if not _fits(value, hints[name]):  # only then described: the text of a model takes seconds
            raise ValueError(f"{_join(path, name)} is {_described(value)}; need {hints[name]}")


@cache
def _hints_of(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of an annotated type; the number of axes of an array is none of it."""
    if hint is Any:
        return True
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in args)
    if origin is tuple:
        hints = args[:1] * len(value) if isinstance(value, tuple) and args[1:] == (...,) else args
        return type(value) is tuple and len(value) == len(hints) and all(map(_fits, value, hints))
    if origin is np.ndarray or getattr(origin, "__name__", "") == "NDArray":  # an alias from NumPy 2.5 on
        dtype = args[0] if origin is not np.ndarray else get_args(args[1])[0]
        return type(value) is np.ndarray and (dtype is Any or value.dtype == dtype)
    if hint is float:
        return isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if hint in (bool, int, str, NoneType):
        return type(value) is hint or (isinstance(value, np.generic) and type(value.item()) is hint)
    return isinstance(value, hint)


def _described(value: Any) -> str:
    return f"of dtype {value.dtype}" if isinstance(value, np.ndarray) else f"{value!r:.60}"


def _is_fixed(zone: datetime.tzinfo | None) -> bool:
    """Whether a zone is a fixed offset from UTC, which is all that ISO format keeps of it."""
    return zone is None or type(zone) is datetime.timezone
