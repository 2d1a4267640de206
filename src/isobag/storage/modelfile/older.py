"""Files of formats 1 and 2 as files of today.

Format 2 has one average for all views together, and one model in a calibration, which learned from half of the data.
Format 1 has other names besides, counts of groups level by level, and parameters in calibrations.
"""

from typing import Any

import numpy as np

from isobag.models.point import METHODS
from isobag.storage.modelfile.container import Tensors
from isobag.storage.modelfile.fields import demand

_POINT_FIELDS = {
    "views_": "views",
    "_tables": "tables",
    "_largest": "largest",
    "mean_map_": "mean_map",
    "_reference": "reference",
    "average_": "average",
    "calibration_": "calibration",
}
_GROUP_FIELDS = {
    "point_views_": "views",
    "population_": "population",
    "reference_": "reference",
    "group_partitionings_": "level2.partitionings",
    "_counts": "level2.counts",
    "n_groups_fit_": "level2.n_groups",
    "average_": "level2.average",
    "calibration_": "calibration",
}
_DROPPED = ("max_samples_", "group_max_samples_", "point_mechanism_")  # they follow from the others


def upgrade(version: int, name: str, node: dict[str, Any], tensors: Tensors) -> tuple[dict[str, Any], Tensors]:
    """Model and tensors of a file of a version, under their names of today."""
    if version == 1:
        node, tensors = _from_1(name, node, tensors)
    return _from_2(name, node, tensors) if version < 3 and "model_" in node["fields"] else (node, tensors)


def _from_2(name: str, node: dict[str, Any], tensors: Tensors) -> tuple[dict[str, Any], Tensors]:
    models, paths = [node["fields"]["model_"]], {}
    calibration = models[0]["calibration"]
    if calibration is not None:
        models.append(calibration.pop("model"))
        calibration |= {"models": models[1:], "autocorrelation": 0.0}
        paths["model_.calibration.model."] = "model_.calibration.models.0."
    if name == "IDKPointDetector":
        for model in models:
            if model["average"] is not None:
                model["average"] = {"views": [model["average"]], "n_coarse": 0, "slope": 0.0, "offset": 0.0}
        paths[".average."] = ".average.views.0."
    for old, new in paths.items():
        tensors = {path.replace(old, new): tensor for path, tensor in tensors.items()}
    return node, tensors


def _from_1(name: str, node: dict[str, Any], tensors: Tensors) -> tuple[dict[str, Any], Tensors]:
    params, fields = dict(node["params"]), dict(node["fields"])
    if name == "IDKPointDetector":
        params["method"] = params.pop("score")
    elif name == "IDKGroupDetector":
        params["count_outside"] = params.pop("outside")
        params["size_correction"] = False
    else:
        fields.pop("max_samples_", None)
        return {"params": params, "fields": {**fields, "partitionings_": _rows(fields["partitionings_"])}}, tensors
    renamed: Tensors = {}
    model = _model(name, params, fields, "", "model_", tensors, renamed)
    model_fields = set(_POINT_FIELDS if name == "IDKPointDetector" else _GROUP_FIELDS) | set(_DROPPED)
    outer = {key: value for key, value in fields.items() if key not in model_fields}
    return {"params": params, "fields": {**outer, "model_": model}}, {**tensors, **renamed}


def _model(
    name: str, params: dict[str, Any], fields: dict[str, Any], old: str, new: str, tensors: Tensors, renamed: Tensors
) -> dict[str, Any]:
    """The fields of a model; its tensors are moved to ``renamed``."""
    is_point = name == "IDKPointDetector"
    names = _POINT_FIELDS if is_point else _GROUP_FIELDS
    demand(set(names) <= set(fields), "fields", "not those of the class.")
    parts: dict[str, Any] = {}
    for before, after in names.items():
        node, path = fields[before], f"{old}{before}"
        if before == "calibration_" and node is not None:
            inner = node["detector"]
            model = _model(
                name, params, inner["fields"], f"{path}.detector.", f"{new}.calibration.model", tensors, renamed
            )
            scores = tensors.pop(f"{path}.scores")
            renamed[f"{new}.calibration.scores"] = scores
            renamed[f"{new}.calibration.edges"] = np.empty(0, dtype=np.int64)
            renamed[f"{new}.calibration.ends"] = np.array([len(scores)])
            parts[after] = {"model": model, "edges": None, "ends": None, "scores": None}
        elif before == "_counts":
            renamed[f"{new}.{after}"] = _stacked([tensors.pop(f"{path}.{k}") for k in range(len(node))])
            parts[after] = None
        else:
            for key in [key for key in tensors if key == path or key.startswith(f"{path}.")]:
                renamed[f"{new}.{after}{key[len(path) :]}"] = tensors.pop(key)
            parts[after] = node
    parts["views"] = [
        {
            "scaling": {"kind": "LinearScaling", "shift": None, "spread": None},
            "partitionings": _rows(view["partitionings"]),
        }
        for view in parts["views"]
    ]
    for key in [key for key in renamed if key.startswith(f"{new}.views.") and key.endswith(".scaling.scale")]:
        renamed[key.removesuffix("scale") + "spread"] = renamed.pop(key)
    average = parts["average" if is_point else "level2.average"]
    if average is not None:
        average["far_weight"] = 0.0
    if is_point:
        return {**parts, "rule": METHODS[params["method"]], "limits": None}
    level2 = {key.removeprefix("level2."): value for key, value in parts.items() if key.startswith("level2.")}
    level2["partitionings"] = {"kind": "GroupBalls", **level2["partitionings"]}
    rest = {key: value for key, value in parts.items() if not key.startswith("level2.")}
    return {
        **rest,
        "count_outside": params["count_outside"],
        "level2": {"kind": "GroupCells", **level2, "curve": None},
    }


def _rows(node: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "RowBalls", **node}


def _stacked(tables: list[Any]) -> Any:
    """Counts of each level (t, cells of the level) as one table with zeros where a level has no cell: (L, t, psi)."""
    widest = max(table.shape[1] for table in tables)
    return np.stack([np.pad(table, ((0, 0), (0, widest - table.shape[1]))) for table in tables])
