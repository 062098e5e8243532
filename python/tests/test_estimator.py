"""The estimator, by itself and in scikit-learn's hands."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import ignn


def classifier(**params: Any) -> ignn.IgnnClassifier:
    return ignn.IgnnClassifier(state=8, epochs=40, **params)


def test_fit_predict_score(graph: ignn.Graph) -> None:
    fitted = classifier(kappa=0.9).fit(graph)
    assert fitted.classes_.tolist() == [0, 1, 2] and len(fitted.history_) == 41
    assert fitted.model_.settings["model"]["kappa"] == [0.9]
    assert fitted.predict(graph).shape == (24,)
    assert np.allclose(fitted.predict_proba(graph).sum(axis=1), 1)
    assert fitted.decision_function(graph).shape == (24, 3)
    assert fitted.embed(graph).shape == (24, 8)
    assert fitted.score(graph) == 1.0
    assert fitted.certificate_ is not None and fitted.certificate_.converged
    again = pickle.loads(pickle.dumps(fitted))
    assert again.predict(graph).tolist() == fitted.predict(graph).tolist()


def test_items_are_trained_and_predicted(graph: ignn.Graph) -> None:
    known = np.flatnonzero(np.arange(24) % 8 < 4)
    fitted = classifier(validation_fraction=0.25, random_state=3).fit(graph.items[known])
    assert fitted.best_epoch_ is not None
    rest = np.setdiff1d(np.arange(24), known)
    assert fitted.score(graph.items[rest]) == 1.0
    assert fitted.predict(graph.items[rest[:2]]).tolist() == [0, 0]
    assert fitted.score(graph.items[rest], np.arange(24)[rest] // 8) == 1.0


def test_own_features_can_be_read_as_they_are() -> None:
    """Neighbours say nothing here, and the default blurs the features of a node with theirs."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    part = np.where(np.arange(200) % 2, "test", "train")
    edges = rng.integers(0, 200, (2, 600))
    graph = ignn.Graph.from_edges(edges, x=x, y=x @ [3.0, -2, 1], split=part)
    options = {"state": 16, "epochs": 300, "dropout": 0.0, "learning_rate": 0.03, "random_state": 0}
    both = ignn.IgnnRegressor(input="both", **options).fit(graph)
    assert both.model_.settings["model"]["input"] == "both"
    assert both.score(graph) > 0.9 > ignn.IgnnRegressor(**options).fit(graph).score(graph)


def test_what_a_person_sees(graph: ignn.Graph) -> None:
    estimator = ignn.IgnnClassifier(state=8, epochs=2)
    assert "not yet" in estimator._repr_html_() and "<th" in estimator._repr_html_()
    assert "parameters" in estimator.fit(graph)._repr_html_()


def test_every_parameter_and_attribute_is_documented() -> None:
    for kind in (ignn.IgnnClassifier, ignn.IgnnRegressor):
        text = f"{kind.__doc__} {ignn.IgnnClassifier.__doc__}"
        names = ["classes_", "model_", "history_", "best_epoch_", "certificate_", *kind._names()]
        assert [name for name in names if f" {name}:" not in text] == []


def test_parameters(graph: ignn.Graph) -> None:
    found = classifier(kappa=0.5)
    assert repr(found) == "IgnnClassifier(state=8, kappa=0.5, epochs=40)"
    assert found.get_params()["kappa"] == 0.5
    assert found.set_params(kappa=0.7, settings={"train.monitor": "loss"}) is found
    assert found.fit(graph).model_.settings["train"]["monitor"] == "loss"
    with pytest.raises(ValueError, match="kapa: not a parameter of IgnnClassifier"):
        found.set_params(kapa=1)
    with pytest.raises(ValueError, match="model.kappa: wrong value"):
        classifier(kappa=-3).fit(graph)


def test_mistakes_are_explained(graph: ignn.Graph) -> None:
    with pytest.raises(ValueError, match="not fitted yet"):
        classifier().predict(graph)
    with pytest.raises(TypeError, match=r"expected an ignn.Graph, or some of its items"):
        classifier().fit(np.zeros((3, 3)))  # type: ignore[arg-type]
    for items in ([], [1, 1, 2]):
        with pytest.raises(ValueError, match="items: expected each item once, and at least one"):
            classifier().fit(graph.items[items])
    for given in (graph, graph.items):
        with pytest.raises(ValueError, match="validation_fraction: expected 0 to below 1, found 2"):
            classifier(validation_fraction=2).fit(given)
    with pytest.raises(ValueError, match="y: other labels than those of the graph"):
        classifier().fit(graph.items[:3], [1, 1, 1])
    with pytest.raises(TypeError, match=r"expected an ignn.Graph, or some of its items"):
        classifier().fit(graph).predict([0, 1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="settings: expected a dict such as {'model.state': 64}"):
        classifier(settings="model.state=4").fit(graph)
    one = classifier(validation_fraction=0.99).fit(graph.items[[0, 8]])
    assert one.predict(graph).shape == (24,), "one of the items is left to train on"


def test_scikit_learn_clones_and_searches(graph: ignn.Graph) -> None:
    pytest.importorskip("sklearn")
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score

    copied = clone(classifier(kappa=0.8, settings={"train.monitor": "loss"}))
    assert copied.get_params() == classifier(
        kappa=0.8, settings={"train.monitor": "loss"}
    ).get_params()
    y = np.arange(24) // 8
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    search = GridSearchCV(classifier(), {"kappa": [0.5, 0.9]}, cv=folds).fit(graph.items, y)
    assert search.best_score_ == 1.0 and search.best_params_["kappa"] in (0.5, 0.9)
    assert search.predict(graph.items[:2]).tolist() == [0, 0]
    assert cross_val_score(classifier(), graph.items, y, cv=folds).mean() == 1.0


@pytest.mark.parametrize("kind", [ignn.IgnnClassifier, ignn.IgnnRegressor])
def test_the_checks_of_scikit_learn_that_need_no_table(kind: Any) -> None:
    """`check_estimator` skips estimators whose tags say that they take no tables, as ours do.

    These are its checks that fit nothing. All others fit tables of numbers, which have no graph: what
    they demand of `fit`, `predict` and pickles is tested with graphs below; what they demand of tables
    (NaN, sparse and empty ones, their numbers of columns) has no counterpart here.
    """
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    for check in (
        checks.check_do_not_raise_errors_in_init_or_set_params,
        checks.check_estimator_cloneable,
        checks.check_estimator_repr,
        checks.check_estimator_tags_renamed,
        checks.check_estimators_unfitted,
        checks.check_get_params_invariance,
        checks.check_mixin_order,
        checks.check_no_attributes_set_in_init,
        checks.check_parameters_default_constructible,
        checks.check_set_params,
        checks.check_valid_tag_types,
    ):
        check(kind.__name__, kind())


@pytest.mark.parametrize("kind", [ignn.IgnnClassifier, ignn.IgnnRegressor])
def test_what_scikit_learn_demands_of_fit_and_predict(kind: Any, graph: ignn.Graph) -> None:
    given = kind(state=8, epochs=10, settings={"train.monitor": "loss"})
    before, params = dict(vars(given)), copy.deepcopy(given.get_params())
    assert given.fit(graph) is given
    assert given.get_params() == params, "fit changes no parameter"
    new = vars(given).keys() - before.keys()
    assert new and all(name.endswith("_") for name in new)
    found = given.predict(graph)
    fitted = dict(vars(given))
    given.predict(graph)
    assert vars(given) == fitted, "predict changes no attribute"
    assert given.fit(graph).predict(graph).tolist() == found.tolist(), "fit starts anew"
    some = np.array([20, 3, 11])
    assert given.predict(graph.items[some]).tolist() == found[some].tolist()
    test = graph.items[graph.splits()["default"]["test"]]
    assert given.fit(graph, graph.y).score(graph) == given.score(test)
    again = pickle.loads(pickle.dumps(given))
    assert again.predict(graph).tolist() == found.tolist() and again.get_params() == params


def test_numbers_are_predicted(graph: ignn.Graph) -> None:
    path = np.stack([np.arange(39), np.arange(1, 40)])
    y = 100 + 20 * np.sin(np.arange(40) / 6)
    x = np.stack([np.sin(np.arange(40) / 6), np.ones(40)], axis=1)
    odd = np.arange(40) % 2 == 1
    numbers = ignn.Graph.from_edges(path, x=x, y=y, train=~odd, test=odd)
    assert numbers.is_regression and "numbers: y" in repr(numbers)
    fitted = ignn.IgnnRegressor(state=8, epochs=300).fit(numbers)
    assert fitted.score(numbers) > 0.8
    assert abs(fitted.predict(numbers) - y).mean() < 5, "in the unit of y"
    for state in (8, [8, 4]):
        fitted = ignn.IgnnRegressor(state=state, epochs=300, kappa=0.8).fit(numbers)
        errors = fitted.predict_error(numbers)
        assert errors.shape == (40,) and (errors < 1).all()
    items = ignn.IgnnRegressor(state=8, epochs=300).fit(numbers.items[~odd], y[~odd])
    assert items.score(numbers.items[odd], y[odd]) > 0.8
    assert items.model_.is_regression and len(items.model_.classes) == 0
    # Classes that are numbers.
    assert ignn.IgnnRegressor(state=8, epochs=5).fit(graph).predict(graph).dtype == np.float64


def test_the_split_of_the_model_is_scored() -> None:
    y, nodes = np.arange(24) // 8, np.arange(24)
    x = np.eye(3)[y] + np.random.default_rng(0).normal(size=(24, 3))
    stack = np.stack([nodes % 4 == at for at in range(4)], axis=1)
    split = {"train": ~stack, "test": stack}
    graph = ignn.Graph.from_edges(np.stack([nodes, nodes]), x=x, y=y, **split)
    for other in (classifier(split="2"), classifier(settings={"train.split": "2"})):
        other.fit(graph)
        expected = np.mean(other.predict(graph)[stack[:, 2]] == y[stack[:, 2]])
        assert other.score(graph) == expected
        assert other.model_.predict(graph).scores()["test"]["accuracy"] == expected
    named = np.where(stack[:, 0], "held", "train")
    graph = ignn.Graph.from_edges(np.stack([nodes, nodes]), x=x, y=y, split=named)
    other = classifier(settings={"train.test_part": "held"}).fit(graph)
    assert other.score(graph) == np.mean(other.predict(graph)[stack[:, 0]] == y[stack[:, 0]])


def test_scores_of_equal_numbers_are_those_of_scikit_learn() -> None:
    path = np.stack([np.arange(9), np.arange(1, 10)])
    parts = {"train": np.arange(5), "test": np.arange(5, 10)}
    y = np.concatenate([np.arange(5) + 0.5, np.full(5, 2.5)])
    graph = ignn.Graph.from_edges(path, x=np.eye(10), y=y, **parts)
    fitted = ignn.IgnnRegressor(state=4, epochs=3).fit(graph)
    assert fitted.score(graph) == 0 == fitted.model_.predict(graph).scores()["test"]["r2"]


def test_graphs_are_classified() -> None:
    rings = [np.stack([np.arange(n), (np.arange(n) + 1) % n]) for n in (4, 5, 6, 7) * 4]
    x = [np.full((ring.shape[1], 2), [at % 2, 1 - at % 2]) for at, ring in enumerate(rings)]
    graphs = ignn.Graphs.from_list(rings, x=x, y=["odd" if at % 2 else "even" for at in range(16)])
    first = np.arange(16) < 8
    fitted = classifier().fit(graphs.items[first])
    assert fitted.predict(graphs.items[~first]).shape == (8,)
    assert fitted.score(graphs.items[~first]) == 1.0
