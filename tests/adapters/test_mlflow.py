"""MLflow's interface: saved, logged, loaded and served by MLflow, with the scores of the model itself."""

import json
import os
import socket
import threading
import time
import urllib.request

import numpy as np
import pandas as pd
import pytest

if os.environ.get("CI_ADAPTERS") != "1":
    pytest.importorskip("mlflow")
import mlflow
from numpy.testing import assert_array_equal
from pandas.testing import assert_frame_equal

import isobag
from isobag.adapters.mlflow import load_model, log_model, save_model

pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own, about its and Python's versions


def orders(n, seed):
    rng = np.random.default_rng(seed)
    items, total, land = rng.poisson(4.0, n).astype(float), rng.normal(50, 9, n), rng.choice(["DE", "FR"], n)
    return pd.DataFrame({"items": items, "total": total, "land": land})


@pytest.fixture(scope="module")
def model():
    return isobag.fit(orders(400, 0), features=["items", "total", "land"], random_state=0, n_estimators=20)


@pytest.fixture(scope="module")
def today():
    frame = orders(30, 1)
    frame.loc[4, "total"] = 900.0
    return frame


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("mlflow") / "model"
    save_model(model, path, input_example=orders(5, 2))
    return path


def own_scores(model, frame, **how):
    return model.score(frame, **how).to_frame().sort_values("row", ignore_index=True)


def test_the_loaded_model_predicts_what_the_model_scores_in_the_order_of_the_rows(saved, model, today):
    loaded = mlflow.pyfunc.load_model(str(saved))
    predicted = loaded.predict(today)
    assert_array_equal(predicted["row"], np.arange(30))
    assert_frame_equal(predicted, own_scores(model, today))
    flagged = loaded.predict(today, params={"fdr": 0.1})
    assert_frame_equal(flagged, own_scores(model, today, fdr=0.1))
    assert np.flatnonzero(flagged["flagged"]).tolist() == [4] and "total 900" in flagged["reasons"][4]


def test_signature_and_example_come_with_it_and_no_pickle(saved):
    info = mlflow.models.get_model_info(str(saved))
    types = {name: column.type.name for name, column in info.signature.inputs.input_dict().items()}
    assert types == {"items": "double", "total": "double", "land": "string"}
    assert {"score", "p_value", "flagged"} <= set(info.signature.outputs.input_dict())
    assert info.signature.params.params[0].name == "fdr"
    assert len(mlflow.models.Model.load(str(saved)).load_input_example(str(saved))) == 5
    files = {path.name for path in saved.rglob("*") if path.is_file()}
    assert {"model.isobag", "MLmodel", "input_example.json"} <= files
    assert not [name for name in files if name.endswith((".pkl", ".pickle", ".joblib"))]
    assert f"isobag[mlflow]=={isobag.__version__}" in (saved / "requirements.txt").read_text()


def test_missing_columns_and_texts_for_numbers_are_refused_by_the_signature(saved, today):
    loaded = mlflow.pyfunc.load_model(str(saved))
    with pytest.raises(mlflow.exceptions.MlflowException, match="total"):
        loaded.predict(today.drop(columns="total"))
    with pytest.raises(mlflow.exceptions.MlflowException, match="total"):
        loaded.predict(today.assign(total="much"))


def test_groups_keep_the_column_of_their_labels(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=1200), "who": np.repeat(np.arange(40), 30)})
    model = isobag.fit(frame, by="who", random_state=0, n_estimators=20)
    new = frame.assign(a=np.where(frame["who"] == 7, 0.05 * frame["a"], frame["a"]))
    save_model(model, tmp_path / "groups", input_example=frame[:60])
    predicted = mlflow.pyfunc.load_model(str(tmp_path / "groups")).predict(new)
    assert_frame_equal(predicted, model.score(new).to_frame())
    assert predicted["who"][0] == 7 and load_model(tmp_path / "groups").by == ("who",)
    with pytest.raises(ValueError, match="by="):
        save_model(isobag.Model(model.detector), tmp_path / "other", input_example=frame)


def test_a_logged_model_is_found_again_by_its_address(model, today, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    with mlflow.start_run():
        info = log_model(model, input_example=today[:3])
    assert set(info.flavors) == {"python_function", "isobag"}
    assert_frame_equal(load_model(info.model_uri).score(today).to_frame(), model.score(today).to_frame())
    assert_frame_equal(mlflow.pyfunc.load_model(info.model_uri).predict(today), own_scores(model, today))


def test_what_is_no_model_of_ours_is_refused(tmp_path):
    with pytest.raises(TypeError, match="cannot be served"):
        save_model(isobag.IsolationKernel(), tmp_path / "m", input_example=[[1.0]])
    (tmp_path / "MLmodel").write_text("flavors: {python_function: {loader_module: json}}\n")
    with pytest.raises(ValueError, match="was not saved by isobag"):
        load_model(tmp_path)


def test_the_server_of_mlflow_scores_rows_that_are_sent_to_it(saved, model, today):
    import uvicorn
    from mlflow.pyfunc import scoring_server

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    app = scoring_server.init(mlflow.pyfunc.load_model(str(saved)))
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.02)
        body = {"dataframe_split": today.to_dict(orient="split", index=False), "params": {"fdr": 0.1}}
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/invocations", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            predicted = pd.DataFrame(json.load(answer)["predictions"])
    finally:
        server.should_exit = True
        thread.join(30)
    wanted = own_scores(model, today, fdr=0.1)
    assert_array_equal(predicted["score"], wanted["score"])
    assert_array_equal(predicted["flagged"], wanted["flagged"])
