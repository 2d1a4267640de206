"""What a model file holds of each estimator: its parameters, the model it learned, and what must hold between them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from isobag.backends import BACKENDS, RULES
from isobag.data.scaling import SCALINGS
from isobag.estimators import IDKGroupDetector, IDKPointDetector, IsolationDistributionalKernel, IsolationKernel
from isobag.models.averaging import problems_of_average
from isobag.models.calibration import EXACT, TAILS, Calibration
from isobag.models.group import GroupModel
from isobag.models.point import BLOCKS, METHODS, PointModel
from isobag.models.views import Views
from isobag.partitionings import MECHANISMS, Partitionings
from isobag.storage.modelfile.container import ModelFileError, Tensors
from isobag.storage.modelfile.fields import Array, Either, Finite, Kind, Names, OneOf, Text, Whole, demand, or_none
from isobag.storage.modelfile.labels import Labels
from isobag.storage.modelfile.schema import kind_of_subclasses, record_of

_LARGEST = float(np.finfo(float).max)
_AUTO_OR_WHOLE = Either(OneOf(("auto",)), Whole(2))
_FLAG = OneOf((True, False))


class Kept(NamedTuple):
    """An estimator: its parameters, what ``fit`` set, and a check of the whole.

    Names of features may be missing, and ``table_``, which says how the columns of a table become features.
    """

    build: type
    params: Mapping[str, Kind]
    fields: Mapping[str, Kind]
    check: Callable[[Any], None]

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
        if isinstance(params, dict):
            params = {name: value for name, value in _LATER_PARAMS.items() if name in self.params} | params
        demand(isinstance(params, dict) and set(params) == set(self.params), "params", "not those of the class.")
        known = isinstance(fields, dict) and set(self.fields) - _OPTIONAL <= set(fields) <= set(self.fields)
        demand(known, "fields", "not those of the class.")
        value = self.build(**{name: kind.decode(params[name], name, tensors) for name, kind in self.params.items()})
        for name in fields:
            setattr(value, name, self.fields[name].decode(fields[name], name, tensors))
        self.check(value)
        demand(not tensors, "tensors", f"they belong to nothing, {min(tensors, default='')!r:.60} among them.")
        return value


def _check_features(estimator: Any, n_features: int) -> None:
    claimed = estimator.n_features_in_
    demand(claimed == n_features, "n_features_in_", f"{claimed}, but the model has {n_features}.")
    names = getattr(estimator, "feature_names_in_", None)
    demand(names is None or len(names) == n_features, "feature_names_in_", "not one name for each feature.")


def _check_kernel(kernel: Any) -> None:
    drawn = kernel.partitionings_
    demand(len(drawn.levels) == 1 and not drawn.of_groups, "partitionings_", "need rows, and one level.")
    _check_features(kernel, drawn.width)


def _check_views(views: Views, path: str) -> int:
    """The number of features of all views."""
    width = views.members[0].partitionings.width
    for view in views.members:
        demand(view.scaling.n_features == width, path, "a scaling that does not fit the partitionings.")
        demand(view.partitionings.width == width, path, "they differ in their features.")
        demand(not view.partitionings.of_groups, path, "need partitionings of rows.")
    return width


def _check_point_model(model: PointModel, averages: bool, path: str) -> int:
    width = _check_views(model.views, f"{path}views")
    levels = model.views.levels
    demand(len(model.tables) == len(model.views.members), f"{path}tables", "not one table for each view.")
    for view, table in zip(model.views.members, model.tables, strict=True):
        own = view.partitionings
        demand(own.levels == levels, f"{path}views", "they differ in their levels.")
        shape = (len(levels), len(own), levels[-1])
        demand(table.shape == shape, f"{path}tables", "not one count for each cell.")
        demand(table.max() <= model.largest, f"{path}tables", f"a count above {model.largest}.")
    n_cells = (len(model.views), levels[-1])
    demand(model.mean_map.shape == n_cells, f"{path}mean_map", f"need shape {n_cells}.")
    fits = len(model.reference) and model.reference.shape[1] == width
    demand(fits, f"{path}reference", "need rows of as many features.")
    _demand_none(problems_of_average(model.average, len(levels), averages), path.rstrip("."))
    limits = model.limits
    fits = limits is None or [own.shape for own in limits] == [(len(levels),)] * len(model.views.members)
    demand(fits, f"{path}limits", "not one limit for each view and psi.")
    wanted = averages and all(view.partitionings.far_limits() is not None for view in model.views.members)
    demand(limits is None or wanted, f"{path}limits", "need none where one psi alone counts or nothing is OUTSIDE.")
    counted = limits is None or all(np.array_equal(own >= 0, limits[0] >= 0) and own.max() >= 0 for own in limits)
    demand(counted, f"{path}limits", "they are not of the same psi.")
    return width


def _check_group_model(model: GroupModel, averages: bool, path: str) -> int:
    width = _check_views(model.views, f"{path}views")
    for view in model.views.members:
        demand(len(view.partitionings.levels) == 1, f"{path}views", "need one level each.")
    columns = model.views.n_columns + int(model.count_outside) * len(model.views)
    demand(model.population.shape == (columns,), f"{path}population", f"need {columns} numbers.")
    anchors = [view.partitionings.anchors() for view in model.views.members]
    wanted_rows = (sum(len(own[0]) for own in anchors if own is not None), width)
    demand(model.reference.shape == wanted_rows, f"{path}reference", f"need shape {wanted_rows}.")
    _demand_none(model.level2.problems(columns, averages), f"{path}level2")
    return width


def _demand_none(problems: Iterator[str], path: str) -> None:
    """Refuse what has a problem, for the first of them."""
    for problem in problems:
        demand(False, path, f"{problem}.")


def _check_detector(detector: Any, check: Callable[[Any, bool, str], int], averages: bool) -> None:
    model = detector.model_
    width = check(model, averages, "model_.")
    _check_features(detector, width)
    if model.calibration is not None:
        for inner in model.calibration.models:
            same = check(inner, averages, "model_.calibration.models.") == width
            demand(same, "model_.calibration", "of another number of features.")
        _check_classes(model.calibration)


def _check_classes(calibration: Calibration) -> None:
    edges, ends, scores = calibration.edges, calibration.ends, calibration.scores
    n_parts = (len(edges) + 1) * len(calibration.models)
    fits = len(ends) == n_parts and np.all(np.diff(ends) >= 0) and ends[-1] == len(scores)
    demand(fits, "model_.calibration.ends", "they do not divide the scores.")
    demand(np.all(np.diff(edges) > 0), "model_.calibration.edges", "sizes are not in rising order.")
    rising = all(np.all(np.diff(part) >= 0) for part in np.split(scores, ends[:-1]))
    demand(rising, "model_.calibration.scores", "scores are not in rising order.")


def _check_point_detector(detector: Any) -> None:
    _check_detector(detector, _check_point_model, detector.params.averages)
    rule = METHODS[detector.method]
    demand(detector.model_.rule == rule, "model_.rule", f"{detector.model_.rule!r}; need {rule!r}.")


def _check_group_detector(detector: Any) -> None:
    _check_detector(detector, _check_group_model, detector.params.averages)
    fits = len(detector.labels_) == len(detector.scores_)
    demand(fits, "labels_", "not one label and score for each group.")
    same = detector.model_.count_outside == bool(detector.count_outside)
    demand(same, "model_.count_outside", "not the parameter.")


_COMPUTE: dict[str, Kind] = {
    "random_state": or_none(Whole(0, 2**32 - 1)),
    "backend": OneOf(("auto", *BACKENDS)),
    "n_jobs": or_none(Whole(-4096, 4096)),
}
_DEVICE: dict[str, Kind] = {"device": OneOf((None, "auto", "cpu", "cuda", *(f"cuda:{k}" for k in range(64))))}
_LATER_PARAMS = {"device": None, "tail": EXACT}
"""Parameters that files of older versions lack, and what they stand for there."""
_NAMED: dict[str, Kind] = {"n_features_in_": Whole(1), "feature_names_in_": Names()}
_OPTIONAL = {"feature_names_in_", "table_"}
_DETECTOR_PARAMS: dict[str, Kind] = {
    "n_estimators": Whole(1),
    "max_samples": _AUTO_OR_WHOLE,
    "contamination": Either(OneOf(("auto",)), Finite(0, 0.5)),
    "calibrate": _FLAG,
    "tail": OneOf(TAILS),
    **_COMPUTE,
    **_DEVICE,
}
_OFFSET = Finite(-_LARGEST, _LARGEST)


def _kernel(build: type) -> Kept:
    params: dict[str, Kind] = {
        "n_estimators": Whole(1),
        "max_samples": _AUTO_OR_WHOLE,
        "mechanism": OneOf(tuple(MECHANISMS)),
        "rule": OneOf(tuple(RULES)),
        **_COMPUTE,
        **_DEVICE,
    }
    return Kept(build, params, {**_NAMED, "partitionings_": kind_of_subclasses(Partitionings)}, _check_kernel)


MODELS = {
    "IDKPointDetector": Kept(
        IDKPointDetector,
        {
            **_DETECTOR_PARAMS,
            "calibrate": OneOf((True, False, BLOCKS)),
            "method": OneOf(tuple(METHODS)),
            "scaling": OneOf(("auto", *SCALINGS)),
            "mechanism": OneOf(tuple(MECHANISMS)),
        },
        {**_NAMED, "offset_": _OFFSET, "table_": Text(), "model_": record_of(PointModel)},
        _check_point_detector,
    ),
    "IDKGroupDetector": Kept(
        IDKGroupDetector,
        {
            **_DETECTOR_PARAMS,
            "group_max_samples": _AUTO_OR_WHOLE,
            "point_mechanism": OneOf(("auto", *MECHANISMS)),
            "group_mechanism": OneOf(("auto", *MECHANISMS)),
            "size_correction": OneOf(("auto", True, False)),
            "count_outside": _FLAG,
            "scaling": OneOf(tuple(SCALINGS)),
        },
        {
            **_NAMED,
            "labels_": Labels(),
            "scores_": Array(("float64",), 1),
            "offset_": _OFFSET,
            "table_": Text(),
            "model_": record_of(GroupModel),
        },
        _check_group_detector,
    ),
    "IsolationKernel": _kernel(IsolationKernel),
    "IsolationDistributionalKernel": _kernel(IsolationDistributionalKernel),
}


def kept_of(value: Any) -> tuple[str, Kept]:
    """Name and table of an estimator's class."""
    for name, kept in MODELS.items():
        if type(value) is kept.build:
            return name, kept
    raise ModelFileError(f"a model file holds {', '.join(MODELS)}, not {type(value).__name__}.")
