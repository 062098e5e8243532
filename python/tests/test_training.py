"""Training: in memory and in a directory, with callbacks, logging and limits."""

from __future__ import annotations

import copy
import logging
import pickle
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import QUICK, arrays

import ignn


def test_training_learns_and_predicts(graph: ignn.Graph) -> None:
    run = ignn.train(graph, QUICK | {"train.epochs": 60}, quiet=True)
    assert run.ended == "epochs" and run.directory is None and run.figures is None
    assert [record["epoch"] for record in run.history] == list(range(61))
    predictions = run.model.predict(graph)
    assert predictions.scores()["test"]["accuracy"] == 1.0
    assert np.asarray(predictions).tolist() == predictions.labels.tolist()
    assert np.allclose(predictions.probabilities.sum(axis=1), 1)
    certificate = run.model.certificate
    assert certificate is not None and certificate.converged and predictions.is_certified
    assert certificate.certified_error is not None and certificate.certified_error < 0.1
    assert run.model.embed(graph).shape == (24, 8)
    assert ignn.predict(run.model, graph).logits.tolist() == predictions.logits.tolist()


def test_predictions_are_arrays(graph: ignn.Graph) -> None:
    predictions = ignn.train(graph, QUICK, quiet=True).model.predict(graph)
    labels = predictions.labels.tolist()
    assert list(predictions) == labels and predictions[3] == labels[3]
    pandas = pytest.importorskip("pandas")
    assert pandas.DataFrame({"p": predictions})["p"].tolist() == labels
    polars = pytest.importorskip("polars")
    assert polars.DataFrame({"p": np.asarray(predictions)})["p"].to_list() == labels


def test_a_model_is_taken_from_whatever_has_one(graph: ignn.Graph) -> None:
    run = ignn.train(graph, QUICK, quiet=True)
    fitted = ignn.IgnnClassifier(state=4, epochs=2).fit(graph)
    for owner, model in ((run, run.model), (fitted, fitted.model_), (run.model, run.model)):
        assert ignn.predict(owner, graph).logits.tolist() == model.predict(graph).logits.tolist()
        assert ignn.embed(owner, graph).tolist() == model.embed(graph).tolist()
    with pytest.raises(TypeError, match="expected a model first, then a graph"):
        ignn.predict(graph, run.model)  # type: ignore[arg-type]


def test_bounds_can_be_tight_and_tolerances_small(
    tmp_path: Path, binary: str, data: dict[str, Any]
) -> None:
    y = data["x"][:, 0].astype(float) * 100
    graph = ignn.Graph.from_edges(**data | {"y": y}, out=tmp_path / "g.ignn")
    run = ignn.train(graph, QUICK | {"model.kappa": 0.9}, out=tmp_path / "run", quiet=True)
    plain, tight = (run.model.predict(graph, tight=own) for own in (False, True))
    exact = run.model.predict(graph, tolerance=1e-7, tight=True)
    bounds = [own.number_errors for own in (plain, tight, exact)]
    assert all(bound is not None for bound in bounds)
    assert (bounds[1] < bounds[0]).all() and bounds[2].max() < bounds[1].max()
    assert (abs(tight.labels - exact.labels) <= bounds[1] + bounds[2]).all()
    table = tmp_path / "predictions.csv"
    command = [binary, "predict", str(graph.path), "--model", str(run.directory), "--out", str(table)]
    subprocess.run(command, check=True, capture_output=True)
    names = table.read_text().splitlines()[0].split(",")
    errors = np.loadtxt(table, delimiter=",", skiprows=1, usecols=names.index("error_bound"))
    fitted = ignn.IgnnRegressor()
    fitted.model_ = run.model
    assert fitted.predict_error(graph) == pytest.approx(errors, rel=1e-5)
    with pytest.raises(ValueError, match="tolerance: expected a number above 0, found 0"):
        run.model.predict(graph, tolerance=0)
    with pytest.raises(ValueError, match="max_sweeps: expected a whole number of 0 or more"):
        run.model.predict(graph, max_sweeps=-1)


def test_a_directory_keeps_everything(tmp_path: Path, data: dict[str, Any]) -> None:
    graph = ignn.Graph.from_edges(**data, out=tmp_path / "g.ignn")
    run = ignn.train(graph, QUICK, out=tmp_path / "run", quiet=True)
    assert run.directory == tmp_path / "run" and run.figures is not None
    loaded = ignn.load(tmp_path / "run")
    assert loaded.predict(graph).logits.tolist() == run.model.predict(graph).logits.tolist()
    in_memory = ignn.train(graph, QUICK, quiet=True)
    for name, value in in_memory.model.parameters.items():
        assert np.array_equal(value, loaded.parameters[name])
    with pytest.raises(FileExistsError, match="already exists"):
        ignn.train(graph, QUICK, out=tmp_path / "run", quiet=True)
    longer = ignn.resume(tmp_path / "run", epochs=20, quiet=True)
    assert len(longer.history) == 21
    page = run.report(tmp_path / "page.html")
    assert page.read_text().startswith("<!DOCTYPE html>")
    with pytest.raises(FileNotFoundError, match="not a run directory"):
        ignn.resume(tmp_path / "nowhere")


def test_cross_validations_have_pages(tmp_path: Path, data: dict[str, Any], binary: str) -> None:
    graph = ignn.Graph.from_edges(**data, out=tmp_path / "g.ignn")
    command = [binary, "crossval", str(graph.path), "--folds", "3", "--out", str(tmp_path / "folds")]
    sets = [f"--set={key}={value}" for key, value in QUICK.items()]
    subprocess.run(command + sets + ["--quiet"], check=True, stdout=subprocess.DEVNULL)
    page = ignn.report(tmp_path / "folds", tmp_path / "folds.html", title="Three folds")
    text = page.read_text()
    assert "<h1>Three folds</h1>" in text and 'data-series="fold 2"' in text
    run = ignn.train(graph, QUICK, out=tmp_path / "run", quiet=True)
    with pytest.raises(ValueError, match="write a page for each"):
        ignn.report([run.directory, tmp_path / "folds"], tmp_path / "both.html")


def test_python_and_command_line_give_the_same_bytes(
    tmp_path: Path, data: dict[str, Any], binary: str
) -> None:
    graph = ignn.Graph.from_edges(**data, out=tmp_path / "g.ignn")
    ignn.train(graph, QUICK, seed=7, out=tmp_path / "python", quiet=True)
    sets = [f"--set={key}={value}" for key, value in QUICK.items()]
    command = [binary, "train", str(graph.path), "--out", str(tmp_path / "cli"), "--seed", "7"]
    subprocess.run(command + sets + ["--quiet"], check=True, stdout=subprocess.DEVNULL)
    for name in ("model.safetensors", "config.toml", "dataset.txt"):
        assert (tmp_path / "python" / name).read_bytes() == (tmp_path / "cli" / name).read_bytes()


def test_messages_are_those_of_the_command_line(
    tmp_path: Path, data: dict[str, Any], binary: str
) -> None:
    graph = ignn.Graph.from_edges(**data, out=tmp_path / "g.ignn")
    for setting in ("model.stat=1", "model.dropout=1", "train.split=none", "train.monitor=nothing"):
        key, value = setting.split("=")
        with pytest.raises(ValueError) as error:
            ignn.train(graph, {key: value}, out=tmp_path / "run", quiet=True)
        command = [binary, "train", str(graph.path), "--out", str(tmp_path / "run")]
        told = subprocess.run(command + ["--set", setting], capture_output=True, text=True)
        line = told.stderr.strip().splitlines()[-1].removeprefix("error: ")
        assert line.replace("--set ", "") == str(error.value)
        assert "\n" not in str(error.value)


def test_what_is_no_graph_is_refused(graph: ignn.Graph) -> None:
    model: Any = ignn.train(graph, QUICK, quiet=True).model
    train: Any = ignn.train
    for call in (train, model.predict, model.embed):
        with pytest.raises(TypeError, match="expected an ignn.Graph, found .*ignn.open opens"):
            call("graph.ignn")
    with pytest.raises(TypeError, match="settings: expected a dict"):
        train(graph, [("model.state", 4)])


def test_callbacks_see_every_epoch_and_may_stop(graph: ignn.Graph) -> None:
    seen: list[int] = []

    def callback(record: Any) -> bool:
        seen.append(record["epoch"])
        return bool(record["epoch"] == 4)

    run = ignn.train(graph, QUICK, callback=callback, quiet=True)
    assert seen == [0, 1, 2, 3, 4] and run.ended == "stopped"
    seen.clear()
    ignn.train(graph, QUICK, callback=lambda record: np.bool_(callback(record)), quiet=True)
    assert seen == [0, 1, 2, 3, 4]
    assert ignn.train(graph, QUICK, callback=print, quiet=True).ended == "epochs"


def test_an_exception_of_a_callback_ends_training(graph: ignn.Graph) -> None:
    seen: list[int] = []

    def callback(record: Any) -> None:
        seen.append(record["epoch"])
        if record["epoch"] == 3:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        ignn.train(graph, QUICK | {"train.epochs": 100_000}, callback=callback, quiet=True)
    ignn.wait()
    assert seen == [0, 1, 2, 3]


def test_notes_and_epochs_are_logged(
    graph: ignn.Graph, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="ignn"):
        ignn.train(graph, {"train.epochs": 2, "model.kind": "gcn", "model.kappa": 0.5}, quiet=True)
    notes = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "model.kind=gcn does not use model.kappa: without effect" in notes[0].getMessage()
    epochs = [it for it in caplog.records if it.getMessage().startswith("epoch ")]
    assert len(epochs) == 3 and all(record.name == "ignn" for record in caplog.records)


def test_progress_is_shown_unless_quiet(
    graph: ignn.Graph, capsys: pytest.CaptureFixture[str]
) -> None:
    ignn.train(graph, QUICK, quiet=True)
    assert capsys.readouterr() == ("", "")
    ignn.train(graph, QUICK)
    shown = capsys.readouterr()
    assert shown.out == "" and "12" in shown.err


def test_too_little_memory_is_refused() -> None:
    nodes = 40_000
    ring = np.stack([np.arange(nodes), (np.arange(nodes) + 1) % nodes])
    graph = ignn.Graph.from_edges(ring, y=np.arange(nodes) % 2, train=[0, 1], test=[2])
    with pytest.raises(MemoryError, match="training needs about .* GiB allowed"):
        ignn.train(graph, {"model.state": 512}, memory="16MiB", quiet=True)


def test_a_solve_that_does_not_converge_can_be_an_error(graph: ignn.Graph) -> None:
    settings = QUICK | {"solver.max_sweeps": 1, "solver.on_failure": "stop"}
    with pytest.raises(ignn.NotConverged, match="the forward solve did not converge"):
        ignn.train(graph, settings, quiet=True)
    assert issubclass(ignn.NotConverged, RuntimeError)


def test_models_are_copied_and_pickled(graph: ignn.Graph, tmp_path: Path) -> None:
    model = ignn.train(graph, QUICK, quiet=True).model
    model.save(tmp_path / "m.safetensors")
    for other in (
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        ignn.load(tmp_path / "m.safetensors"),
    ):
        assert other.predict(graph).logits.tolist() == model.predict(graph).logits.tolist()
    with pytest.raises(FileNotFoundError):
        ignn.load(tmp_path / "none.safetensors")
    with pytest.raises(ValueError, match="runs: expected at least one directory"):
        ignn.report([], tmp_path / "none.html")
    run = ignn.train(graph, QUICK, quiet=True)
    assert copy.deepcopy([run, run.model.predict(graph)])[0].history == run.history


def test_another_split_and_sets_of_classes() -> None:
    data = arrays()
    y = np.eye(3, dtype=int)[data["y"]]
    stack = np.stack([data["train"], data["val"]], axis=1)
    data |= {"y": y, "train": stack, "val": None, "test": data["test"]}
    graph = ignn.Graph.from_edges(**data)
    run = ignn.train(graph, QUICK | {"train.split": "1"}, quiet=True)
    predictions = run.model.predict(graph)
    assert run.model.is_multi_label and predictions.labels.shape == (24, 3)
    with pytest.raises(ValueError, match="no split named default .found 0, 1."):
        ignn.train(graph, QUICK, quiet=True)


def test_relations_and_many_graphs_are_trained() -> None:
    data = arrays()
    edges = data.pop("edges")
    graph = ignn.Graph.from_relations({"one": edges, "two": edges[::2]}, **data)
    run = ignn.train(graph, QUICK, quiet=True)
    assert run.model.predict(graph).certificate is not None
    rings = [np.stack([np.arange(n), (np.arange(n) + 1) % n]) for n in (4, 5, 6, 7) * 4]
    x = [np.full((ring.shape[1], 2), [at % 2, 1 - at % 2]) for at, ring in enumerate(rings)]
    parts = {"train": np.arange(16) < 8, "test": np.arange(16) >= 8}
    graphs = ignn.Graphs.from_list(rings, x=x, y=["even", "odd"] * 8, **parts)
    run = ignn.train(graphs, QUICK | {"train.epochs": 40}, quiet=True)
    predictions = run.model.predict(graphs)
    assert run.model.item == "graph" and len(predictions) == 16
    assert predictions.scores()["test"]["accuracy"] == 1.0


def test_what_a_person_sees(graph: ignn.Graph) -> None:
    run = ignn.train(graph, QUICK, quiet=True)
    assert repr(run).startswith("Run(epochs: 12, ended: epochs, best epoch: ")
    page = run._repr_html_()
    assert "<svg" in page and "validation loss" in page and "test accuracy" in page
    predictions = run.model.predict(graph)
    assert "error, at most" in predictions._repr_html_() and "nodes: 24" in repr(predictions)
    assert "kind: ignn" in repr(run.model) and "<table>" in run.model._repr_html_()
    certificate = run.model.certificate
    assert certificate is not None and "residual" in certificate._repr_html_()
