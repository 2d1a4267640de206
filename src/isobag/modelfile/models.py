"""What is kept of each model: one table of parameters and one of fitted fields for each class."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from isobag.averaging import Average
from isobag.backends import BACKENDS, RULES
from isobag.detectors.conformal import Calibration
from isobag.detectors.group import IDKGroupDetector
from isobag.detectors.point import SCORES, IDKPointDetector
from isobag.kernels import IsolationDistributionalKernel, IsolationKernel
from isobag.modelfile.container import ModelFileError, Tensors
from isobag.modelfile.fields import (
    WIDEST,
    Array,
    Counts,
    Either,
    Finite,
    Kind,
    Levels,
    Names,
    OneOf,
    Record,
    Several,
    Whole,
    demand,
    or_none,
)
from isobag.modelfile.labels import Labels
from isobag.partitionings import MECHANISMS, Partitionings
from isobag.partitionings.of_groups import GroupPartitionings, MeanMaps
from isobag.scaling import FARTHEST, SCALINGS, Scaling
from isobag.views import View

_FLOAT, _INT = ("float64",), ("int64",)
_LARGEST = float(np.finfo(float).max)
_SHARE = 1 + 1e-9  # the most a share can be, rounded
_AUTO_OR_WHOLE = Either(OneOf(("auto",)), Whole(2))
_FLAG = OneOf((True, False))


def _check_scaling(scaling: Scaling, path: str) -> None:
    demand(scaling.shift.shape == scaling.scale.shape, path, "shift and scale differ in length.")
    demand(np.all(scaling.scale > 0), path, "a scale that is not above 0.")


def _check_slots(slots: Any, levels: tuple[int, ...], sq_radii: Any, n_centers: int, path: str) -> None:
    demand(slots.size and slots.max() < n_centers, path, f"a slot beyond the last of {n_centers} centers.")
    demand(levels[-1] == slots.shape[1], path, f"levels end at {levels[-1]} with {slots.shape[1]} centers.")
    shape = (len(levels), *slots.shape)
    demand(sq_radii.shape == shape, path, f"radii of shape {sq_radii.shape}; need {shape}.")


def _check_partitionings(balls: Partitionings, path: str) -> None:
    demand(balls.points.size, path, "no centers.")
    _check_slots(balls.slots, balls.levels, balls.sq_radii, len(balls.points), path)


def _check_view(view: View, path: str) -> None:
    own, scaled = view.partitionings.points.shape[1], len(view.scaling.shift)
    demand(own == scaled, path, f"centers have {own} features and the scaling {scaled}.")


def _check_mean_maps(maps: MeanMaps, path: str) -> None:
    demand(maps.counts.shape[0] == len(maps.sizes), path, "counts and sizes differ in length.")


def _check_group_partitionings(drawn: GroupPartitionings, path: str) -> None:
    demand(np.all(drawn.centers.sizes % drawn.unit == 0), path, "the unit does not divide the sizes.")
    _check_slots(drawn.slots, drawn.levels, drawn.sq_radii, len(drawn.centers), path)


def _check_average(average: Average, path: str) -> None:
    demand(average.floors.shape == average.weights.shape, path, "floors and weights differ in length.")
    demand(np.all(average.floors > 0), path, "a floor that is not above 0.")


def _check_calibration(calibration: Calibration, path: str) -> None:
    demand(np.all(np.diff(calibration.scores) >= 0), path, "scores are not in rising order.")


SCALING = Record(
    Scaling, {"shift": Array(_FLOAT, 1, -FARTHEST, FARTHEST), "scale": Array(_FLOAT, 1, 0, _LARGEST)}, _check_scaling
)
PARTITIONINGS = Record(
    Partitionings,
    {
        "points": Array(_FLOAT, 2, -FARTHEST, FARTHEST),
        "slots": Array(("int32",), 2, 0),
        "levels": Levels(),
        "sq_radii": Array(_FLOAT, 3, 0),
    },
    _check_partitionings,
)
VIEWS = Several(Record(View, {"scaling": SCALING, "partitionings": PARTITIONINGS}, _check_view), tuple)
MEAN_MAPS = Record(MeanMaps, {"counts": Counts(), "sizes": Array(_INT, 1, 1, WIDEST)}, _check_mean_maps)
GROUP_PARTITIONINGS = Record(
    GroupPartitionings,
    {
        "centers": MEAN_MAPS,
        "unit": Whole(1),
        "slots": Array(("int32",), 2, 0),
        "levels": Levels(),
        "sq_radii": Array(_FLOAT, 3, 0),
    },
    _check_group_partitionings,
)
AVERAGE = Record(
    Average, {"floors": Array(_FLOAT, 1, 0, _LARGEST), "weights": Array(_FLOAT, 1, 0, _LARGEST)}, _check_average
)


class Model(NamedTuple):
    """An estimator: its parameters, what ``fit`` learned, and what of it only a model of its own has.

    A detector inside a calibration learned from rows that were checked before: it has no names, labels or offset.
    """

    build: type
    params: Mapping[str, Kind]
    fields: Mapping[str, Kind]
    outer: Mapping[str, Kind]
    check: Callable[[Any, str], None]

    def encode(self, value: Any, path: str, tensors: Tensors) -> dict[str, Any]:
        """An object with the parameters and one with the fields that are there."""
        params = value.get_params(deep=False)
        held, kinds = vars(value), {**self.fields, **self.outer}
        return {
            "params": {name: kind.encode(params[name], f"{path}{name}", tensors) for name, kind in self.params.items()},
            "fields": {
                name: kind.encode(held[name], f"{path}{name}", tensors) for name, kind in kinds.items() if name in held
            },
        }

    def decode(self, node: Any, path: str, tensors: Tensors) -> Any:
        """The fitted estimator."""
        demand(isinstance(node, dict) and set(node) == {"params", "fields"}, path or "model", "need params and fields.")
        params, fields = node["params"], node["fields"]
        demand(isinstance(params, dict) and set(params) == set(self.params), f"{path}params", "not those of the class.")
        kinds = {**self.fields, **self.outer}
        known = isinstance(fields, dict) and set(self.fields) <= set(fields) <= set(kinds)
        demand(known, f"{path}fields", "not those of the class.")
        value = self.build(
            **{name: kind.decode(params[name], f"{path}{name}", tensors) for name, kind in self.params.items()}
        )
        for name in fields:
            setattr(value, name, kinds[name].decode(fields[name], f"{path}{name}", tensors))
        self.check(value, path)
        return value


class Inner(NamedTuple):
    """The calibration of a detector: another of its class, without a calibration of its own."""

    model: Callable[[], Model]

    def encode(self, value: Calibration, path: str, tensors: Tensors) -> Any:
        """As a record."""
        return self._record().encode(value, path, tensors)

    def decode(self, node: Any, path: str, tensors: Tensors) -> Any:
        """As a record."""
        return self._record().decode(node, path, tensors)

    def _record(self) -> Record:
        model = self.model()
        inner = model._replace(fields={**model.fields, "calibration_": OneOf((None,))})
        detector = _Prefixed(inner)
        return Record(Calibration, {"detector": detector, "scores": Array(_FLOAT, 1, 0, _SHARE)}, _check_calibration)


class _Prefixed(NamedTuple):
    """A model inside another: its tensors are named by the whole path."""

    model: Model

    def encode(self, value: Any, path: str, tensors: Tensors) -> Any:
        return self.model.encode(value, f"{path}.", tensors)

    def decode(self, node: Any, path: str, tensors: Tensors) -> Any:
        return self.model.decode(node, f"{path}.", tensors)


def _check_features(model: Any, n_features: int, path: str) -> None:
    claimed = getattr(model, "n_features_in_", n_features)
    demand(claimed == n_features, f"{path}n_features_in_", f"{claimed}, but the centers have {n_features}.")
    names = getattr(model, "feature_names_in_", None)
    fits = names is None or len(names) == n_features
    demand(fits, f"{path}feature_names_in_", "not one name for each feature.")


def _check_kernel(model: Any, path: str) -> None:
    balls = model.partitionings_
    _check_features(model, balls.points.shape[1], path)
    demand(balls.levels == (model.max_samples_,), f"{path}partitionings_", "of another number of cells.")


def _check_average_of(average: Average | None, n_levels: int, wanted: bool, path: str) -> None:
    demand((average is not None) == wanted, f"{path}average_", "need one where psi is averaged over, and only there.")
    fits = average is None or len(average.weights) == n_levels
    demand(fits, f"{path}average_", f"need one weight for each of {n_levels} psi.")


def _check_calibration_of(model: Any, views: str, n_features: int, path: str) -> None:
    inner = model.calibration_
    fits = inner is None or len(getattr(inner.detector, views)[0].scaling.shift) == n_features
    demand(fits, f"{path}calibration_", "of another number of features.")


def _check_point_detector(model: Any, path: str) -> None:
    first = model.views_[0].partitionings
    n_features = first.points.shape[1]
    _check_features(model, n_features, path)
    demand(len(model._tables) == len(model.views_), f"{path}_tables", "not one table for each view.")
    for view, table in zip(model.views_, model._tables, strict=True):
        balls = view.partitionings
        same = balls.points.shape[1] == n_features and balls.levels == first.levels
        demand(same, f"{path}views_", "they differ in their features or levels.")
        demand(table.shape == balls.sq_radii.shape, f"{path}_tables", "not one count for each cell.")
        demand(table.max() <= model._largest, f"{path}_tables", f"a count above {model._largest}.")
    demand(first.levels[-1] == model.max_samples_, f"{path}max_samples_", "not the last of the levels.")
    n_cells = (sum(len(view.partitionings.slots) for view in model.views_), model.max_samples_)
    demand(model.mean_map_.shape == n_cells, f"{path}mean_map_", f"need shape {n_cells}.")
    fits = len(model._reference) and model._reference.shape[1] == n_features
    demand(fits, f"{path}_reference", "need rows of as many features.")
    _check_average_of(model.average_, len(first.levels), model.max_samples == "auto", path)
    _check_calibration_of(model, "views_", n_features, path)


def _check_group_detector(model: Any, path: str) -> None:
    views, drawn = model.point_views_, model.group_partitionings_
    n_features, outside = len(views[0].scaling.shift), bool(model.outside)
    _check_features(model, n_features, path)
    if hasattr(model, "labels_"):  # not inside a calibration
        fits = len(model.labels_) == len(model.scores_) == model.n_groups_fit_
        demand(fits, f"{path}labels_", "not one label and score for each group.")
    columns = 0
    for view in views:
        balls = view.partitionings
        demand(balls.points.shape[1] == n_features, f"{path}point_views_", "they differ in their features.")
        demand(len(balls.levels) == 1, f"{path}point_views_", "need one level each.")
        columns += len(balls.slots) * (balls.slots.shape[1] + outside)
    demand(model.population_.shape == (columns,), f"{path}population_", f"need {columns} numbers.")
    wanted_rows = (sum(len(view.partitionings.points) for view in views), n_features)
    demand(model.reference_.shape == wanted_rows, f"{path}reference_", f"need shape {wanted_rows}.")
    shape = drawn.centers.counts.shape
    demand(shape[1] == columns, f"{path}group_partitionings_", f"centers of {shape[1]} columns; need {columns}.")
    wanted = [(len(drawn.slots), psi) for psi in drawn.levels]
    demand([own.shape for own in model._counts] == wanted, f"{path}_counts", "not one count for each cell.")
    fits = all(own.max() <= model.n_groups_fit_ for own in model._counts)
    demand(fits, f"{path}_counts", f"a count above {model.n_groups_fit_}.")
    last = max(view.partitionings.levels[-1] for view in views), drawn.levels[-1]
    demand(
        last[0] <= model.max_samples_ and last[1] == model.group_max_samples_,
        path or "model",
        "levels do not end at psi.",
    )
    _check_average_of(model.average_, len(drawn.levels), model.group_max_samples == "auto", path)
    _check_calibration_of(model, "point_views_", n_features, path)


_HOW: dict[str, Kind] = {
    "random_state": or_none(Whole(0, 2**32 - 1)),
    "backend": OneOf(("auto", *BACKENDS)),
    "n_jobs": or_none(Whole(-4096, 4096)),
}
_NAMED: dict[str, Kind] = {"n_features_in_": Whole(1), "feature_names_in_": Names()}
_KERNEL_PARAMS: dict[str, Kind] = {
    "n_estimators": Whole(1),
    "max_samples": _AUTO_OR_WHOLE,
    "mechanism": OneOf(tuple(MECHANISMS)),
    "rule": OneOf(tuple(RULES)),
    **_HOW,
}
_KERNEL_FIELDS: dict[str, Kind] = {
    "n_features_in_": Whole(1),
    "max_samples_": Whole(2),
    "partitionings_": PARTITIONINGS,
}
_DETECTOR_PARAMS: dict[str, Kind] = {
    "n_estimators": Whole(1),
    "max_samples": _AUTO_OR_WHOLE,
    "contamination": Either(OneOf(("auto",)), Finite(0, 0.5)),
    "calibrate": _FLAG,
    **_HOW,
}

POINT_DETECTOR: Model = Model(
    IDKPointDetector,
    {
        **_DETECTOR_PARAMS,
        "score": OneOf(SCORES),
        "scaling": OneOf(("auto", *SCALINGS)),
        "mechanism": OneOf(tuple(MECHANISMS)),
    },
    {
        "max_samples_": Whole(2),
        "views_": VIEWS,
        "_tables": Several(Array(_INT, 3, 0, WIDEST)),
        "_largest": Whole(1),
        "mean_map_": Array(_FLOAT, 2, 0, _SHARE),
        "_reference": Array(_FLOAT, 2, -FARTHEST, FARTHEST),
        "average_": or_none(AVERAGE),
        "calibration_": or_none(Inner(lambda: POINT_DETECTOR)),
    },
    {**_NAMED, "offset_": Finite(-_LARGEST, _LARGEST)},
    _check_point_detector,
)
GROUP_DETECTOR: Model = Model(
    IDKGroupDetector,
    {
        **_DETECTOR_PARAMS,
        "group_max_samples": _AUTO_OR_WHOLE,
        "point_mechanism": OneOf(("auto", *MECHANISMS)),
        "group_mechanism": OneOf(tuple(MECHANISMS)),
        "outside": _FLAG,
        "scaling": OneOf(tuple(SCALINGS)),
    },
    {
        "max_samples_": Whole(2),
        "group_max_samples_": Whole(2),
        "point_mechanism_": OneOf(tuple(MECHANISMS)),
        "point_views_": VIEWS,
        "population_": Array(_FLOAT, 1, 0, _SHARE),
        "reference_": Array(_FLOAT, 2, -FARTHEST, FARTHEST),
        "group_partitionings_": GROUP_PARTITIONINGS,
        "_counts": Several(Array(_INT, 2, 0, WIDEST)),
        "n_groups_fit_": Whole(1),
        "average_": or_none(AVERAGE),
        "calibration_": or_none(Inner(lambda: GROUP_DETECTOR)),
    },
    {**_NAMED, "labels_": Labels(), "scores_": Array(_FLOAT, 1, 0, _SHARE), "offset_": Finite(-_LARGEST, _LARGEST)},
    _check_group_detector,
)
MODELS = {
    "IDKPointDetector": POINT_DETECTOR,
    "IDKGroupDetector": GROUP_DETECTOR,
    "IsolationKernel": Model(
        IsolationKernel, _KERNEL_PARAMS, _KERNEL_FIELDS, {"feature_names_in_": Names()}, _check_kernel
    ),
    "IsolationDistributionalKernel": Model(
        IsolationDistributionalKernel, _KERNEL_PARAMS, _KERNEL_FIELDS, {"feature_names_in_": Names()}, _check_kernel
    ),
}


def model_of(value: Any) -> tuple[str, Model]:
    """Name and table of an estimator's class."""
    for name, model in MODELS.items():
        if type(value) is model.build:
            return name, model
    raise ModelFileError(f"a model file holds {', '.join(MODELS)}, not {type(value).__name__}.")
