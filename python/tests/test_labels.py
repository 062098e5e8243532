"""Labels of every kind: which items have one, how they are compared, and how they are scored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import arrays, cliques

import ignn


def quick(**params: Any) -> ignn.IgnnClassifier:
    return ignn.IgnnClassifier(state=8, epochs=20, random_state=0, **params)


def table(**columns: Any) -> dict[str, Any]:
    return {"id": np.arange(24), "a": np.arange(24.0)} | columns


FRIENDS = {"source": cliques(3)[:, 0], "target": cliques(3)[:, 1]}
PARTS = np.where(np.arange(24) % 2, "test", "train")


@pytest.mark.parametrize("names", [("-1", "1"), ("None", "Some"), ("nan", "ok"), ("NA", "null")])
def test_no_class_is_taken_for_a_missing_label(names: tuple[str, str]) -> None:
    y = np.array(names)[np.random.default_rng(0).integers(0, 2, 24)]
    graph = ignn.Graph.from_edges(cliques(3), y=y, split=PARTS)
    fitted = quick().fit(graph)
    test = PARTS == "test"
    expected = np.mean(fitted.predict(graph).astype(str)[test] == y[test])
    assert fitted.score(graph) == expected < 1
    assert fitted.score(graph) == fitted.model_.predict(graph).scores()["test"]["accuracy"]
    everything = np.mean(fitted.predict(graph).astype(str) == y)
    assert fitted.score(graph.items, y) == everything == fitted.score(graph.items)


def test_items_without_a_label_do_not_count(data: dict[str, Any]) -> None:
    y = data["y"].astype(float)
    y[20:] = np.nan
    graph = ignn.Graph.from_edges(**data | {"y": y})
    fitted = quick().fit(graph)
    expected = np.mean(fitted.predict(graph)[:20] == y[:20])
    for given in (None, y, np.where(np.isnan(y), -1, y).astype(int)):
        assert fitted.score(graph.items, given) == expected
    texts = [None if np.isnan(value) else str(int(value)) for value in y]
    assert fitted.score(graph.items, np.array(texts, dtype=object)) == expected
    with pytest.raises(ValueError, match="score: no item has a label"):
        fitted.score(graph.items[20:])
    with pytest.raises(ValueError, match="y: expected one label for each of 24 items, found 3"):
        fitted.score(graph.items, [0, 1, 2])
    with pytest.raises(ValueError, match="y: expected one label per item, found 3"):
        fitted.score(graph.items, 3)
    numbers = ignn.Graph.from_edges(**data | {"y": y + 0.5})
    with pytest.raises(ValueError, match="expected one class per item"):
        fitted.score(numbers)


def test_sets_without_a_label_do_not_count(data: dict[str, Any]) -> None:
    y = np.eye(3)[data["y"]]
    y[0] = 0
    y[20:] = np.nan
    graph = ignn.Graph.from_edges(**data | {"y": y})
    stored = np.where(np.isnan(y), -1, y).astype(int)
    assert graph.y is not None and graph.y.tolist() == stored.tolist()
    again = ignn.Graph.from_edges(**data | {"y": graph.y})
    assert again.y is not None and again.y.tolist() == stored.tolist()
    fitted = quick().fit(graph, y)
    expected = np.mean((fitted.predict(graph) == y)[:20].all(axis=1))
    for given in (None, y, stored):
        assert fitted.score(graph.items, given) == expected
    with pytest.raises(ValueError, match="y: expected one column for each of 3 classes"):
        fitted.score(graph.items, y[:, :2])


def test_whole_numbers_with_gaps_are_numbers_for_a_regressor() -> None:
    y = np.arange(24.0) % 7 * 1000
    y[::5] = np.nan
    x = np.nan_to_num(y)[:, None]
    graph = ignn.Graph.from_edges(cliques(3), x=x / 1000, y=y, split=PARTS)
    assert not graph.is_regression, "they are stored as classes"
    known = ~np.isnan(y)
    fitted = ignn.IgnnRegressor(state=4, epochs=3).fit(graph, y)
    for items in (known, known & (PARTS == "test")):
        found, truth = fitted.predict(graph)[items], y[items]
        expected = 1 - ((found - truth) ** 2).sum() / ((truth - truth.mean()) ** 2).sum()
        assert fitted.score(graph.items[items]) == pytest.approx(expected)
        assert fitted.score(graph.items[items], y[items]) == pytest.approx(expected)
    assert fitted.score(graph) == pytest.approx(expected), "of the test part"
    assert fitted.score(graph.items, y) == fitted.score(graph.items)
    ignn.IgnnRegressor(state=4, epochs=1).fit(graph.items[known], y[known])
    selection = pytest.importorskip("sklearn.model_selection")
    regressor = ignn.IgnnRegressor(state=4, epochs=1)
    assert np.isfinite(selection.cross_val_score(regressor, graph.items[known], y[known])).all()
    with pytest.raises(ValueError, match="y: expected one number for each item"):
        fitted.score(graph.items, ["a"] * 24)


@pytest.mark.parametrize(
    ("y", "classes", "expected"),
    [
        ([0.5, None, 2.5, 1.0], [], [0.5, np.nan, 2.5, 1.0]),
        ([0, 1, -1, None], [0, 1], [0, 1, -1, -1]),
        (np.array([0, 1, -1, 1], dtype=object), [0, 1], [0, 1, -1, 1]),
        ([2, None, 10, 1], [1, 2, 10], [1, -1, 2, 0]),
        ([True, None, False, True], [0, 1], [1, -1, 0, 1]),
        (["b", None, "a", "b"], ["a", "b"], [1, -1, 0, 1]),
        (np.array([1, "a", None, 1], dtype=object), ["1", "a"], [0, 1, -1, 0]),
    ],
)
def test_objects_are_read_as_what_they_are(y: Any, classes: list[Any], expected: Any) -> None:
    graph = ignn.Graph.from_edges([[0, 1], [1, 2], [2, 3]], y=y)
    assert graph.classes.tolist() == classes and graph.y is not None
    assert np.array_equal(graph.y, expected, equal_nan=True)
    fitted = ignn.IgnnClassifier if classes else ignn.IgnnRegressor
    fitted(state=2, epochs=1).fit(graph.items[[0, 2]], y=[y[0], y[2]] if y[2] != -1 else None)
    assert fitted()._has_labels(graph.items, y)


def test_objects_can_be_numbers_of_a_regression() -> None:
    graph = ignn.Graph.from_edges([[0, 1], [1, 2]], y=[1, None, 3], task="regression")
    assert graph.y is not None and np.array_equal(graph.y, [1, np.nan, 3], equal_nan=True)
    pandas = pytest.importorskip("pandas")
    column = pandas.array([1, None, -3], dtype="Int64")
    graph = ignn.Graph.from_edges([[0, 1], [1, 2]], y=pandas.Series(column), task="regression")
    assert graph.y is not None and np.array_equal(graph.y, [1, np.nan, -3], equal_nan=True)


def test_labels_of_other_types_are_the_same_labels(data: dict[str, Any]) -> None:
    graph = ignn.Graph.from_edges(**data)
    y = data["y"]
    fitted = quick().fit(graph, y)
    for given in (y.astype(float), y.astype(str), y.astype(object), y.tolist(), y[:, None]):
        assert quick().fit(graph, given).score(graph.items, given) == fitted.score(graph.items)
    with pytest.raises(ValueError, match="y: other labels than those of the graph"):
        quick().fit(graph, y + 0.5)
    truths = ignn.Graph.from_edges(**data | {"y": y == 1})
    words = table(is_one=y == 1, part=PARTS)
    tabular = ignn.Graph.from_tables(FRIENDS, words, label="is_one", split_column="part")
    assert tabular.classes.tolist() == ["false", "true"]
    gaps = np.array([None if at < 2 else at // 8 == 1 for at in range(24)], dtype=object)
    with_gaps = ignn.Graph.from_edges(**data | {"y": gaps})
    for other, given in ((truths, y == 1), (tabular, y == 1), (with_gaps, gaps)):
        fitted = quick().fit(other, given)
        assert fitted.score(other.items, given) == fitted.score(other.items) > 0
        with pytest.raises(ValueError, match="y: other labels than those of the graph"):
            quick().fit(other, y != 1)


def test_labels_of_unknown_classes_are_noted(caplog: pytest.LogCaptureFixture) -> None:
    data = arrays()
    fitted = quick().fit(ignn.Graph.from_edges(**data))
    y = data["y"].copy()
    y[:6] = 7
    other = ignn.Graph.from_edges(**data | {"y": y, "train": None, "val": None, "test": None})
    caplog.clear()
    scores = fitted.model_.predict(other).scores()["all"]
    note = "6 labels of 1 class that the model does not know ('7'): not scored"
    assert caplog.messages == [note]
    found = fitted.predict(other)
    assert fitted.score(other) == scores["accuracy"] == np.mean((found == y)[6:])
    assert fitted.score(other.items, y) == scores["accuracy"]
    assert caplog.messages == [note] * 3


def test_two_classes_are_ranked_by_scikit_learn(data: dict[str, Any]) -> None:
    selection = pytest.importorskip("sklearn.model_selection")
    y = np.array(["no", "yes"])[np.arange(24) % 2]
    graph = ignn.Graph.from_edges(**data | {"y": y})
    fitted = quick().fit(graph)
    decision, probability = fitted.decision_function(graph), fitted.predict_proba(graph)
    assert decision.shape == (24,) and probability.shape == (24, 2)
    assert np.allclose(1 / (1 + np.exp(-decision)), probability[:, 1], atol=1e-6)
    assert ((decision > 0) == (fitted.predict(graph) == "yes")).all()
    for scoring in ("roc_auc", "average_precision"):
        options = {"scoring": scoring, "cv": 3, "error_score": "raise"}
        truth = np.arange(24) % 2
        numbers = ignn.Graph.from_edges(**data | {"y": truth})
        scores = selection.cross_val_score(quick(), numbers.items, truth, **options)
        assert np.isfinite(scores).all() and len(scores) == 3


def test_positions_are_not_taken_for_classes() -> None:
    y = np.array(["no", "yes"])[np.arange(24) % 2]
    graph = ignn.Graph.from_edges(cliques(3), y=y, split=PARTS)
    with pytest.raises(ValueError, match=r"positions of classes, .*graph\.classes\[graph\.y\]"):
        quick().fit(graph.items, graph.y)
    with pytest.raises(ValueError, match="other labels than those of the graph"):
        quick().fit(graph.items, graph.y[::-1])
    assert quick().fit(graph.items, graph.classes[graph.y]).score(graph.items) > 0.4
