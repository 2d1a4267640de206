"""Fitted models as MLflow's: logged, registered, loaded and served by it, around isobag's own model file.

Nothing is pickled: the folder holds a model file of isobag, which cannot run code, and MLflow calls ``_load_pyfunc``.

>>> import numpy as np, pandas as pd, isobag, mlflow
>>> from isobag.adapters.mlflow import save_model
>>> frame = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 2)), columns=["a", "b"])
>>> save_model(isobag.fit(frame, random_state=0), "normal", input_example=frame[:3])
>>> mlflow.pyfunc.load_model("normal").predict(frame)
"""

import os
import sys
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from isobag.estimators import IDKPointDetector
from isobag.storage.modelfile import load
from isobag.tables.model import Model as TableModel

try:
    import mlflow
    import pandas as pd
    from mlflow.models import Model, ModelSignature
    from mlflow.types import DataType, ParamSchema, ParamSpec
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("isobag.adapters.mlflow needs MLflow: pip install 'isobag[mlflow]'.") from error

FLAVOR = "isobag"
_FILE = "model.isobag"
_FDR = "fdr"


class Served:
    """What MLflow calls: frames in, frames out."""

    def __init__(self, model: TableModel) -> None:
        self.model = model

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """Scores of the rows of a frame, in their order, or of its groups, the oddest first; ``fdr`` as in ``score``.

        An ``fdr`` of 0, the default, flags by the threshold of the detector.
        """
        frame = model_input if isinstance(model_input, pd.DataFrame) else pd.DataFrame(model_input)
        fdr = float((params or {}).get(_FDR) or 0)
        ranked = self.model.score(frame.reset_index(drop=True), fdr=fdr or None).to_frame()
        return ranked.sort_values("row", ignore_index=True) if "row" in ranked else ranked


def save_model(
    model: Any,
    path: str | os.PathLike[str],
    *,
    input_example: Any,
    mlflow_model: Any = None,
    signature: Any = None,
    pip_requirements: Any = None,
    **more: Any,
) -> None:
    """Write a fitted model into a new folder that ``mlflow.pyfunc.load_model`` and ``mlflow models serve`` read.

    Parameters
    ----------
    model : isobag.Model or IDKPointDetector
        As ``isobag.fit`` returns it, or a detector of rows.
    path : str
        A folder that does not exist.
    input_example : frame
        Some rows as they will come, kept with the model; the signature is made from them. MLflow refuses other types
        later: a column that may have gaps or decimals has to hold floats here.
    signature, pip_requirements, **more
        As of ``mlflow.pyfunc.save_model``; by default isobag of this version is required.
    """
    table = _as_model(model)
    example = input_example if isinstance(input_example, pd.DataFrame) else pd.DataFrame(input_example)
    described = Model() if mlflow_model is None else mlflow_model
    version = import_module("isobag").__version__
    described.add_flavor(FLAVOR, isobag_version=version, data=f"data/{_FILE}")
    with TemporaryDirectory() as folder:
        file = Path(folder) / _FILE
        table.save(file)
        mlflow.pyfunc.save_model(
            path,
            loader_module=__name__,
            data_path=str(file),
            mlflow_model=described,
            signature=signature or signature_of(table, example),
            input_example=example,
            pip_requirements=pip_requirements or [f"isobag[mlflow]=={version}"],
            **more,
        )


def log_model(model: Any, name: str = "model", *, input_example: Any, **more: Any) -> Any:
    """Log a fitted model to the active run of MLflow, or a new one; the ``ModelInfo``.

    model, input_example : as of ``save_model``.
    **more : as of MLflow's other flavours: ``registered_model_name``, ``signature``, ``metadata``, ...
    """
    table, flavor = _as_model(model), sys.modules[__name__]
    return Model.log(artifact_path=None, name=name, flavor=flavor, model=table, input_example=input_example, **more)


def load_model(model_uri: str) -> TableModel:
    """The model itself, from a folder or an address of MLflow: ``runs:/...``, ``models:/...``."""
    folder = mlflow.artifacts.download_artifacts(artifact_uri=str(model_uri))
    flavor = Model.load(folder).flavors.get(FLAVOR)
    if flavor is None:
        raise ValueError(f"{model_uri!r} was not saved by isobag.adapters.mlflow.")
    return _opened(os.path.join(folder, flavor["data"]))


def signature_of(model: TableModel, example: Any) -> Any:
    """Columns that come in, with their types in the example, and columns that go out."""
    schema = mlflow.models.infer_signature(example, Served(model).predict(example))
    params = ParamSchema([ParamSpec(_FDR, DataType.double, 0.0)])
    return ModelSignature(schema.inputs, schema.outputs, params)


def _as_model(model: Any) -> TableModel:
    if isinstance(model, IDKPointDetector):
        return TableModel(model)
    if not isinstance(model, TableModel):
        raise TypeError(f"A {type(model).__name__} cannot be served; need an isobag.Model, or a detector of rows.")
    model.read_options()  # refuses groups without the column of their labels
    return model


def _opened(file: str) -> TableModel:
    content = load(file)
    if not isinstance(content, TableModel):
        raise TypeError(f"{file!r} holds a {type(content).__name__}; need an isobag.Model.")
    return content


def _load_pyfunc(data_path: str, model_config: dict[str, Any] | None = None) -> Served:
    """What ``mlflow.pyfunc.load_model`` calls."""
    return Served(_opened(data_path))
