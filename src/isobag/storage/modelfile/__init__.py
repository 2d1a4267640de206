"""Fitted models in files: a loaded model scores exactly as the saved one, and a bad file is refused."""

import os
from importlib import import_module
from typing import Any

from sklearn.utils.validation import check_is_fitted

from isobag.estimators import IN_FILES
from isobag.storage.modelfile.container import (
    FORMAT,
    ModelFileError,
    Tensors,
    read_container,
    refusing,
    write_container,
)
from isobag.storage.modelfile.older import upgrade
from isobag.storage.modelfile.schema import layout_of

__all__ = ["FORMAT", "ModelFileError", "load", "save"]


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted detector or kernel to a file, whole or not at all. See docs/model_file.md for the format.

    Refused with a ModelFileError: a random_state other than None or an integer, and labels of groups other than
    strings, numbers, true and false, dates, and tuples of these.

    Examples
    --------
    >>> import numpy as np, tempfile, isobag
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> detector = isobag.IDKPointDetector(random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     isobag.save(detector, f"{folder}/normal.isobag")
    ...     again = isobag.load(f"{folder}/normal.isobag")
    >>> bool((again.score_samples(X) == detector.score_samples(X)).all())
    True
    """
    name = type(model).__name__
    if type(model) is not IN_FILES.get(name):
        raise ModelFileError(f"a model file holds {', '.join(IN_FILES)}, not {name}.")
    check_is_fitted(model)
    tensors: Tensors = {}
    content = layout_of(name).encode(model, tensors)
    write_container(path, {"library": import_module("isobag").__version__, "class": name, "model": content}, tensors)


def load(path: str | os.PathLike[str]) -> Any:
    """The model that was saved: same class, parameters, attributes and scores.

    Raises ModelFileError if the file is not a model file, is truncated, altered or inconsistent, or was written in a
    newer format; and OSError if it cannot be read at all. No code from the file is run.
    """
    with refusing(path, "not a model file"):
        document, tensors = read_container(path)
        name = str(document["class"])
        layout = layout_of(name)
        return layout.decode(*upgrade(document["format"], name, document["model"], tensors))
