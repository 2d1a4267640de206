"""How a value is stored: the fields of its data class, each by its type and the bounds given by ``held``."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from inspect import isabstract
from types import NoneType, UnionType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np
from scipy.sparse import csr_array

from isobag.data.scaling import Scaling
from isobag.models.averaging import Average, ViewsAverage
from isobag.models.calibration import Calibration
from isobag.models.group import LEVEL2
from isobag.models.level2 import Level2
from isobag.models.residuals import Residuals
from isobag.models.views import Views
from isobag.partitionings import Partitionings
from isobag.storage.modelfile.container import Tensors
from isobag.storage.modelfile.fields import (
    LEVELS,
    Array,
    Counts,
    Kind,
    OrNone,
    Record,
    Several,
    choice,
    demand,
    integer,
    number,
)


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


class OneOrManyViews(NamedTuple):
    """An average over views. Files of format 2 and 1 have that of one, for which all views are added up."""

    encode: Callable[[Any, str, Tensors], Any]

    def decode(self, node: Any, path: str, tensors: Tensors) -> ViewsAverage:
        """The average."""
        if isinstance(node, dict) and "floors" in node:
            return ViewsAverage((record_of(Average).decode(node, path, tensors),), 0, 0.0, 0.0)
        found: ViewsAverage = record_of(ViewsAverage).decode(node, path, tensors)
        return found


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
    if hint is ViewsAverage:
        return OneOrManyViews(record_of(ViewsAverage).encode)
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


class CalibrationKind(NamedTuple):
    """A calibration, whose models are of the class that owns it. Files of format 2 and 1 have one, under ``model``."""

    models: Several
    others: dict[str, Kind]

    def encode(self, value: Any, path: str, tensors: Tensors) -> dict[str, Any]:
        """An object with one entry for each field."""
        return Record(Calibration, {"models": self.models, **self.others}).encode(value, path, tensors)

    def decode(self, node: Any, path: str, tensors: Tensors) -> Calibration:
        """The calibration."""
        record = Record(Calibration, {"models": self.models, **self.others})
        if isinstance(node, dict) and "model" in node:
            others = {name: kind for name, kind in self.others.items() if name != "autocorrelation"}
            record = Record(_split_calibration, {"model": self.models.item, **others})
        calibration: Calibration = record.decode(node, path, tensors)
        return calibration


def _split_calibration(model: Any, **others: Any) -> Calibration:
    """One model, which learned from half of the data."""
    return Calibration((model,), **others, autocorrelation=0.0)


def _calibration_of(owner: type) -> CalibrationKind:
    """Models of the same class, without a calibration of their own, and their scores of data they have not seen."""
    return CalibrationKind(Several(_without(owner, Calibration), tuple), _kinds(Calibration, tuple[Any, ...]))


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
