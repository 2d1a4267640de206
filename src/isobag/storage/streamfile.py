"""The state of a stream in a file: a stream that is loaded goes on to the same bits. Written whole or not at all.

The file is a container as that of models (see ``container``): parameters and numbers in its document, rows, places of
centers, scores, scales and weights as tensors. Cells and counts are not kept: they follow from the rest.
"""

import os
from dataclasses import fields
from importlib import import_module
from typing import Any

import numpy as np

from isobag.data.scaling import AsinhScaling, LinearScaling, NormalScaling, Scaling
from isobag.estimators.stream import IDKStreamDetector
from isobag.models.averaging import Average, ViewsAverage
from isobag.models.online import Lord
from isobag.models.stream import Stream
from isobag.storage.modelfile.container import ModelFileError, Tensors, read_container, refusing, write_container

CLASS = "IDKStreamDetector"
_SCALINGS: dict[str, type[Any]] = {cls.__name__: cls for cls in (LinearScaling, AsinhScaling, NormalScaling)}
_NUMBERS = ("n_seen", "n_learned", "n_refreshed", "n_refreshes")


def save_stream(detector: IDKStreamDetector, path: str | os.PathLike[str], notes: dict[str, Any] | None = None) -> None:
    """Write the state of a detector that has seen rows, and notes of whoever reads its rows, such as their number."""
    stream = detector.stream_
    params = detector.get_params(deep=False)
    if not isinstance(params["reference"], str | None):
        raise ModelFileError("the state of a stream holds reference=None or 'first', not a detector.")
    seed = params["random_state"]
    params["random_state"] = int(seed) if isinstance(seed, int | np.integer) else None
    plain = {name: one.item() if isinstance(one, np.generic) else one for name, one in params.items()}
    tensors: Tensors = {
        "rows": stream.rows[: min(stream.n_learned, stream.window)],
        "waiting": stream.waiting,
        "slots": stream.slots,
        "seeds": stream.seeds,
        "scores": stream.scores,
        "new_scores": stream.new_scores,
    }
    if stream.first is not None:
        tensors["first"] = stream.first
    for number, scaling in enumerate(stream.scalings):
        for one in fields(scaling):  # type: ignore[arg-type]  # scalings are data classes
            tensors[f"scaling{number}.{one.name}"] = getattr(scaling, one.name)
    names = getattr(detector, "feature_names_in_", None)
    document = {
        "library": import_module("isobag").__version__,
        "class": CLASS,
        "params": plain,
        "numbers": {name: getattr(stream, name) for name in _NUMBERS},
        "levels": list(stream.levels),
        "scalings": [type(scaling).__name__ for scaling in stream.scalings],
        "average": _encode_average(stream.average, tensors),
        "online": [
            detector.online_.fdr,
            detector.online_.n_seen,
            list(detector.online_.alarms),
            detector.online_.first,
        ],
        "names": None if names is None else [str(name) for name in names],
        "notes": notes or {},
    }
    write_container(path, document, {name: np.ascontiguousarray(own) for name, own in tensors.items()})


def load_stream(path: str | os.PathLike[str]) -> tuple[IDKStreamDetector, dict[str, Any]]:
    """The detector and the notes that were saved. ModelFileError: the file holds no state, or was altered."""
    with refusing(path, "no state of a stream"):
        document, tensors = read_container(path)
        if document["class"] != CLASS:
            raise ModelFileError(f"it holds {document['class']!r:.40}, not the state of a stream.")
        return _decode(document, tensors), dict(document["notes"])


def _decode(document: dict[str, Any], tensors: Tensors) -> IDKStreamDetector:
    detector = IDKStreamDetector(**document["params"])
    detector.check_params()
    rows, waiting = tensors["rows"], tensors["waiting"]
    detector.n_features_in_ = int(rows.shape[1])
    if document["names"] is not None:
        detector.feature_names_in_ = np.array(document["names"], dtype=object)
    stream = detector.new_stream(rows.shape[1])
    for name in _NUMBERS:
        setattr(stream, name, int(document["numbers"][name]))
    _check(stream, document, tensors)
    stream.rows[: len(rows)] = rows
    stream.slots, stream.seeds, stream.scores = tensors["slots"], tensors["seeds"], tensors["scores"]
    stream.first = tensors.get("first")
    stream.levels = tuple(int(psi) for psi in document["levels"])
    stream.scalings = [_decode_scaling(number, name, tensors) for number, name in enumerate(document["scalings"])]
    stream.average = _decode_average(document["average"], tensors)
    stream.resume(waiting, tensors["new_scores"], detector.compute)
    fdr, n_seen, alarms, first = document["online"]
    least = float(fdr) / detector.window
    detector.stream_ = stream
    detector.online_ = Lord(float(fdr), int(n_seen), tuple(map(int, alarms)), bool(first), least)
    return detector


def _check(stream: Stream, document: dict[str, Any], tensors: Tensors) -> None:
    """Refuse numbers that do not belong together."""
    n_rows, d = tensors["rows"].shape
    if n_rows != min(stream.n_learned, stream.window) or tensors["waiting"].shape != (
        stream.n_seen - stream.n_learned,
        d,
    ):
        raise ModelFileError("its rows are not as many as it says.")
    if tensors["slots"].shape != stream.slots.shape or tensors["seeds"].shape != stream.seeds.shape:
        raise ModelFileError("its centers are not those of its parameters.")
    if n_rows and not 0 <= tensors["slots"][:, : int(document["levels"][-1])].min() <= tensors["slots"].max() < n_rows:
        raise ModelFileError("a center is no row of the window.")
    if not all(np.isfinite(tensors[name]).all() for name in ("rows", "waiting", "scores", "new_scores")):
        raise ModelFileError("a number is not finite.")


def _decode_scaling(number: int, name: str, tensors: Tensors) -> Scaling:
    cls = _SCALINGS[name]
    scaling: Scaling = cls(**{one.name: tensors[f"scaling{number}.{one.name}"] for one in fields(cls)})
    problem = scaling.problem()
    if problem is not None:
        raise ModelFileError(f"a scaling has {problem}.")
    return scaling


def _encode_average(average: ViewsAverage | None, tensors: Tensors) -> dict[str, Any] | None:
    if average is None:
        return None
    tensors["floors"], tensors["weights"] = average.floors, average.weights
    far = [own.far_weight for own in average.views]
    return {"far": far, "n_coarse": average.n_coarse, "slope": average.slope, "offset": average.offset}


def _decode_average(content: dict[str, Any] | None, tensors: Tensors) -> ViewsAverage | None:
    if content is None:
        return None
    views = zip(tensors["floors"], tensors["weights"], content["far"], strict=True)
    own = tuple(Average(floors, weights, float(far)) for floors, weights, far in views)
    return ViewsAverage(own, int(content["n_coarse"]), float(content["slope"]), float(content["offset"]))
