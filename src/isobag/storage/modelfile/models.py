"""What a model file holds of an estimator: its parameters, what ``fit`` set, and a check of the whole."""

from collections.abc import Mapping
from functools import cache
from types import NoneType
from typing import Any, NamedTuple, get_type_hints

import numpy as np

from isobag.data.params import Parameter
from isobag.estimators import IN_FILES
from isobag.models.calibration import EXACT
from isobag.storage.modelfile.container import ModelFileError, Tensors
from isobag.storage.modelfile.fields import NAMES, STRING, Array, Kind, Plain, demand, integer, number
from isobag.storage.modelfile.labels import Labels
from isobag.storage.modelfile.schema import kind_of

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
