"""What a model file holds of an estimator: its parameters, what ``fit`` set, and a check of the whole.

A value is kept as the fields of its data class, each by its type and the bounds given by ``held``.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from inspect import isabstract
from types import NoneType, UnionType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np
from scipy.sparse import csr_array

from isobag.data.params import Parameter
from isobag.data.scaling import Scaling
from isobag.estimators import IN_FILES
from isobag.models.calibration import EXACT, Calibration
from isobag.models.group import LEVEL2
from isobag.models.level2 import Level2
from isobag.models.residuals import Residuals
from isobag.models.views import Views
from isobag.partitionings import Partitionings
from isobag.storage.modelfile.container import ModelFileError, Tensors
from isobag.storage.modelfile.fields import (
    LEVELS,
    NAMES,
    STRING,
    Array,
    Counts,
    Kind,
    OrNone,
    Plain,
    Record,
    Several,
    choice,
    demand,
    integer,
    number,
)
from isobag.storage.modelfile.labels import Labels

_LARGEST = float(np.finfo(float).max)
_FIELDS: dict[str, Kind] = {
    "n_features_in_": integer(1),
    "feature_names_in_": NAMES,
    "offset_": number(-_LARGEST, _LARGEST),
    "labels_": Labels(),
    "entities_": Labels(),
    "baseline_labels_": Labels(),
    "scores_": Array(("float64",), 1),
    "table_": STRING,
}
"""Attributes that estimators share; the kind of all others follows from their type."""
_OPTIONAL = {"feature_names_in_", "table_", "baseline_labels_"}
_LATER_PARAMS = {"device": None, "tail": EXACT, "size": "ignore"}
"""Parameters that files of older versions lack, and what they stand for there."""


class Tagged(NamedTuple):
    """A value of one of several classes, with the name of its class."""

    classes: Mapping[str, type]

    def encode(self, value: Any, path: str, tensors: Tensors) -> dict[str, Any]:
        """The name of the class beside the fields."""
        name = type(value).__name__
        return {"kind": name, **record_of(self.classes[name]).encode(value, path, tensors)}

    def decode(self, node: Any, path: str, tensors: Tensors) -> Any:
        """The value."""
        known = isinstance(node, dict) and node.get("kind") in self.classes
        demand(known, path, f"need one of {', '.join(self.classes)}.")
        rest = {name: own for name, own in node.items() if name != "kind"}
        value = record_of(self.classes[node["kind"]]).decode(rest, path, tensors)
        if isinstance(value, Partitionings | Scaling):
            problem = value.problem()
            demand(problem is None, path, f"{problem}.")
        return value


def kind_of_subclasses(parent: type) -> Tagged:
    """Values of all subclasses of a class, such as the partitionings of all mechanisms."""
    classes: dict[str, type] = {}
    waiting: list[type] = [parent]
    while waiting:
        subclasses: list[type] = waiting.pop().__subclasses__()
        classes |= {one.__name__: one for one in subclasses if not isabstract(one)}
        waiting += subclasses
    return Tagged(classes)


def kind_of(hint: Any) -> Kind:
    """How a value of a type is kept."""
    return _kind(hint, {}, NoneType)


@cache
def record_of(owner: type) -> Record:
    """The fields of a data class."""
    return Record(owner, _kinds(owner), _later(owner))


def _later(owner: type) -> frozenset[str]:
    """Fields that have a default, because files of older versions lack them."""
    return frozenset(one.name for one in fields(owner) if one.default is not MISSING)


def _kind(hint: Any, metadata: Mapping[str, Any], owner: type) -> Kind:
    if get_origin(hint) is UnionType:
        (some,) = (one for one in get_args(hint) if one is not NoneType)
        return OrNone(_kind(some, metadata, owner))
    if metadata.get("choices"):
        return choice(metadata["choices"])
    low, high = metadata.get("low", -np.inf), metadata.get("high", np.inf)
    if hint == tuple[int, ...]:
        return LEVELS
    if get_origin(hint) is tuple:
        return Several(_kind(get_args(hint)[0], metadata, owner), tuple)
    dtype = _dtype_of(hint)
    if dtype is not None:
        return Array((np.dtype(dtype).name,), metadata["axes"], low, high)
    if hint is int:
        return integer(int(low), int(high))
    if hint is float:
        return number(low, high)
    if hint is csr_array:
        return Counts()
    if hint is Views:
        return Several(record_of(get_args(get_type_hints(Views)["members"])[0]), lambda members: Views(tuple(members)))
    if hint in (Partitionings, Scaling):
        return kind_of_subclasses(hint)
    if hint is Level2:
        return Tagged({one.__name__: one for one in LEVEL2.values()})
    if hint is Calibration:
        return _calibration_of(owner)
    if hint is Residuals:
        return Record(Residuals, {"model": _without(owner, Calibration, Residuals), **_kinds(Residuals, Any)})
    assert isinstance(hint, type)
    assert is_dataclass(hint)
    return record_of(hint)


def _dtype_of(hint: Any) -> Any:
    """The dtype of an array type; None for other types."""
    if get_origin(hint) is np.ndarray:
        return get_args(get_args(hint)[1])[0]
    # From NumPy 2.5 on, NDArray is a type alias whose argument is the dtype.
    is_alias = getattr(get_origin(hint), "__name__", "") == "NDArray"
    return get_args(hint)[0] if is_alias else None


def _calibration_of(owner: type) -> Record:
    """Models of the same class, without a calibration of their own, and their scores of data they have not seen."""
    models = Several(_without(owner, Calibration), tuple)
    return Record(Calibration, {"models": models, **_kinds(Calibration, tuple[Any, ...])})


def _without(owner: type, *aside: type) -> Record:
    """Values of a class in which the fields of some types are None."""
    types = [one | None for one in aside]
    none = {one: choice((None,)) for one, hint in get_type_hints(owner).items() if hint in types}
    return Record(owner, _kinds(owner, *types) | none, _later(owner))


def _kinds(owner: type, *aside: Any) -> dict[str, Kind]:
    """The kinds of the fields of a data class, but for those of some types."""
    hints = get_type_hints(owner)
    return {
        one.name: _kind(hints[one.name], one.metadata, owner) for one in fields(owner) if hints[one.name] not in aside
    }


def _parameter_value(parameter: Parameter) -> Plain:
    simple = (NoneType, bool, int, float, str)
    need = parameter.need.removeprefix("need ").replace("choose one of", "one of")
    return Plain(lambda node: type(node) in simple and parameter.holds(node), need)


class Layout(NamedTuple):
    """An estimator in a file: kinds of its parameters, and of what ``fit`` sets."""

    build: type
    params: Mapping[str, Kind]
    fields: Mapping[str, Kind]

    def encode(self, value: Any, tensors: Tensors) -> dict[str, Any]:
        """An object with the parameters and one with the fields that are there."""
        params, held = value.get_params(deep=False), vars(value)
        return {
            "params": {name: kind.encode(params[name], name, tensors) for name, kind in self.params.items()},
            "fields": {
                name: kind.encode(held[name], name, tensors) for name, kind in self.fields.items() if name in held
            },
        }

    def decode(self, node: Any, tensors: Tensors) -> Any:
        """The fitted estimator."""
        demand(isinstance(node, dict) and set(node) == {"params", "fields"}, "model", "need params and fields.")
        params, fields = node["params"], node["fields"]
        demand(isinstance(params, dict), "params", "need an object.")
        params = {name: value for name, value in _LATER_PARAMS.items() if name in self.params} | params
        demand(set(params) == set(self.params), "params", f"need {', '.join(self.params)}.")
        known = isinstance(fields, dict) and set(self.fields) - _OPTIONAL <= set(fields) <= set(self.fields)
        demand(known, "fields", f"need {', '.join(self.fields)}.")
        value = self.build(**{name: kind.decode(params[name], name, tensors) for name, kind in self.params.items()})
        for name in fields:
            setattr(value, name, self.fields[name].decode(fields[name], name, tensors))
        problem = next(value.problems(), None)
        demand(problem is None, "model", f"{problem}.")
        demand(not tensors, "tensors", f"{min(tensors, default='')!r:.60} belongs to nothing.")
        return value


@cache
def layout_of(name: str) -> Layout:
    """The layout of an estimator, by the name of its class."""
    if name not in IN_FILES:
        raise ModelFileError(f"it holds a {name!r:.60}; need one of {', '.join(IN_FILES)}.")
    build = IN_FILES[name]
    attributes = [one for one in get_type_hints(build).items() if one[0].endswith("_") and not one[0].startswith("_")]
    return Layout(
        build,
        {one: _parameter_value(parameter) for one, parameter in build.parameters.items()},
        {one: _FIELDS[one] if one in _FIELDS else kind_of(hint) for one, hint in attributes},
    )
