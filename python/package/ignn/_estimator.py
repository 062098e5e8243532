"""Estimators with the habits of scikit-learn, which is not needed for them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from . import _page
from ._arrays import (
    UNKNOWN,
    Array,
    ArrayLike,
    Floats,
    Floats64,
    class_codes,
    label_sets,
    rows_of_labels,
)
from ._graph import Graph, Items
from ._listener import Callback
from ._model import Model, SolveInfo, note_unknown
from ._training import _sets, _train

if TYPE_CHECKING:
    from typing_extensions import Self

#: Parameters of the estimator that are settings of the engine.
_SETTINGS = {
    "kind": "model.kind",
    "state": "model.state",
    "kappa": "model.kappa",
    "activation": "model.activation",
    "input": "model.input",
    "dropout": "model.dropout",
    "learning_rate": "optim.learning_rate",
    "weight_decay": "optim.weight_decay",
    "epochs": "train.epochs",
    "stop_after": "train.stop_after",
    "monitor": "train.monitor",
    "tolerance": "solver.tolerance",
    "random_state": "train.seed",
}


class _Estimator:
    """What a classifier and a regressor have in common."""

    #: The value of `train.task`.
    _task: ClassVar[str] = "auto"

    model_: Model
    history_: list[dict[str, Any]]
    best_epoch_: int | None

    def __init__(
        self,
        state: int | Sequence[int] | None = None,
        kappa: float | None = None,
        *,
        kind: str | None = None,
        activation: str | None = None,
        input: str | None = None,
        dropout: float | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        epochs: int | None = None,
        stop_after: int | None = None,
        monitor: str | None = None,
        tolerance: float | None = None,
        random_state: int | None = None,
        preset: str | None = None,
        split: str | None = None,
        validation_fraction: float = 0.0,
        settings: Mapping[str, object] | None = None,
        memory: int | str | None = None,
        verbose: int = 0,
    ) -> None:
        self.state = state
        self.kappa = kappa
        self.kind = kind
        self.activation = activation
        self.input = input
        self.dropout = dropout
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.epochs = epochs
        self.stop_after = stop_after
        self.monitor = monitor
        self.tolerance = tolerance
        self.random_state = random_state
        self.preset = preset
        self.split = split
        self.validation_fraction = validation_fraction
        self.settings = settings
        self.memory = memory
        self.verbose = verbose

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Sets parameters by name."""
        for name, value in params.items():
            if name not in self._names():
                known = ", ".join(self._names())
                own = type(self).__name__
                raise ValueError(f"{name}: not a parameter of {own} (it has: {known})")
            setattr(self, name, value)
        return self

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def _sets(self) -> list[str]:
        own = {key: getattr(self, name) for name, key in _SETTINGS.items()}
        own |= {"train.split": self.split, "train.task": self._task}
        given = {key: value for key, value in own.items() if value is not None}
        return _sets(given) + _sets(self.settings)

    def fit(
        self, X: Graph | Items, y: ArrayLike | None = None, *, callback: Callback | None = None
    ) -> Self:
        """Trains on the split of a graph, or on some of its items.

        The labels are those of the graph; `y` is compared with them.
        """
        graph, parts = self._parts(X, y)
        run = _train(
            graph,
            self._sets(),
            preset=self.preset,
            memory=self.memory,
            callback=callback,
            quiet=not self.verbose,
            parts=parts,
        )
        self.model_, self.history_, self.best_epoch_ = run.model, run.history, run.best_epoch
        return self

    def _parts(self, X: Graph | Items, y: ArrayLike | None) -> tuple[Graph, Any]:
        share = self.validation_fraction
        if not 0 <= share < 1:
            raise ValueError(f"validation_fraction: expected 0 to below 1, found {share}")
        items = X.items if isinstance(X, Graph) else _require_items(X)
        if y is not None and not self._has_labels(items, y):
            if np.array_equal(_stored(items), np.asarray(y)):
                raise ValueError(
                    "y: positions of classes, as in graph.y: give classes, which are "
                    "graph.classes[graph.y] where there are labels, or leave y out"
                )
            raise ValueError(
                "y: other labels than those of the graph: make the graph with y, or leave y out"
            )
        if isinstance(X, Graph):
            return X, None
        own = items.indices.astype(np.uint32)
        if len(own) == 0 or len(np.unique(own)) < len(own):
            raise ValueError(f"items: expected each item once, and at least one, found {X}")
        count = min(round(len(own) * share), len(own) - 1)
        held = np.random.default_rng(self.random_state or 0).permutation(len(own))[:count]
        mask = np.zeros(len(own), dtype=bool)
        mask[held] = True
        none = np.zeros(0, dtype=np.uint32)
        return X.graph, (np.sort(own[~mask]), np.sort(own[mask]), none)

    def _has_labels(self, items: Items, y: ArrayLike) -> bool:
        """Whether `y` has the labels that the graph has, and none where it has none."""
        own, given = _stored(items), rows_of_labels(y)
        if len(given) != len(items):
            return False
        if self._task == "regression" or items.graph.is_regression:
            numbers = _numbers_of(given)
            return numbers is not None and np.allclose(_numbers(items), numbers, equal_nan=True)
        if own.ndim == 2 or given.ndim == 2:
            return own.shape == given.shape and bool(np.array_equal(own, label_sets(given)))
        return bool(np.array_equal(own, class_codes(given, items.graph.classes)))

    def _rows(self, X: Graph | Items) -> tuple[Graph, Any]:
        if not hasattr(self, "model_"):
            raise _not_fitted(type(self).__name__)
        if isinstance(X, Graph):
            return X, slice(None)
        return _require_items(X).graph, X.indices

    def predict(self, X: Graph | Items) -> Array:
        """The class, or the number, of each node, or graph; sets of classes as columns of 0 and 1."""
        graph, rows = self._rows(X)
        found: Array = self.model_.predict(graph).labels[rows]
        return found

    def embed(self, X: Graph | Items) -> Floats:
        """The states that the readout sees."""
        graph, rows = self._rows(X)
        found: Floats = self.model_.embed(graph)[rows]
        return found

    @property
    def certificate_(self) -> SolveInfo | None:
        """How the last equilibrium was solved: sweeps, residual, certified error."""
        if not hasattr(self, "model_"):
            raise _not_fitted(type(self).__name__)
        return self.model_.certificate

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __repr__(self) -> str:
        default = {
            name: parameter.default
            for name, parameter in inspect.signature(type(self).__init__).parameters.items()
        }
        given = [
            f"{name}={value!r}" for name, value in self.get_params().items() if value != default[name]
        ]
        return f"{type(self).__name__}({', '.join(given)})"

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [
            (name, value) for name, value in self.get_params().items() if value is not None
        ]
        rows += self.model_._rows() if hasattr(self, "model_") else [("fitted", "not yet")]
        return _page.table(type(self).__name__, rows)

    def _scored(self, X: Graph | Items, y: ArrayLike | None) -> tuple[Items, Array | None]:
        """The items to score, and the labels that the user gives."""
        self._rows(X)
        items = X.items if isinstance(X, Graph) else X
        if y is not None:
            given = rows_of_labels(y)
            if len(given) != len(items):
                raise ValueError(
                    f"y: expected one label for each of {len(items)} items, found {len(given)}"
                )
            return items, given
        if isinstance(X, Graph):
            train = self.model_.settings["train"]
            parts = X.splits().get(train["split"], {})
            test = parts.get(train["test_part"], parts.get("testing"))
            items = items if test is None else items[test]
        return items, None


class IgnnClassifier(_Estimator):
    """A classifier of nodes, or of the graphs of a collection.

    ``fit(graph)`` trains on the split of the graph. ``fit(graph.items[train])`` trains on these
    nodes, as scikit-learn's searches do: ``GridSearchCV(IgnnClassifier(), {"kappa": [0.8, 0.95]},
    cv=3).fit(graph.items[known], y[known])``.

    Parameters that are None have the engine's defaults (:func:`ignn.settings`).

    Args:
        state: width of the state, or a list for several layers.
        kappa: bound of the contraction, below 1.
        kind: "ignn", or a baseline such as "gcn".
        activation: "relu", "leaky-relu", "tanh", "sigmoid", "elu" or "identity".
        input: which features a node reads: "gathered", those of its neighbours, "own", or "both".
            Choose "both" where the properties of a node itself say much, as in a table of people or
            homes: the default, "gathered", blurs them.
        dropout: share of the states that each training step leaves out.
        learning_rate: of the optimiser.
        weight_decay: of the optimiser.
        epochs: number of epochs.
        stop_after: epochs without an improvement of the validation score before training stops.
        monitor: the score of the validation part that chooses the best epoch, such as "loss".
        tolerance: residual at which a solve stops, relative to the largest entry of the state.
        random_state: the seed.
        preset: built-in settings to start from.
        split: name of the graph's split.
        validation_fraction: share of the items given to ``fit(items)`` that choose the best epoch;
            ``fit(graph)`` takes the validation part of the split instead.
        settings: any other settings, by key.
        memory: refuse to train if that takes more, such as "2GiB".
        verbose: 1 for a progress bar.

    Attributes:
        classes_: the classes, one for each column of ``predict_proba``.
        model_: the trained :class:`Model`.
        history_: one record per epoch, as in ``metrics.jsonl``.
        best_epoch_: the epoch of the model; None without a validation part.
        certificate_: how the last equilibrium was solved: :class:`SolveInfo`.

    >>> import numpy as np, ignn
    >>> pairs = [(a, b) for first in (0, 8) for a in range(first, first + 8) for b in range(first, a)]
    >>> y = np.repeat([0, 1], 8)
    >>> graph = ignn.Graph.from_edges(np.array(pairs), y=y, train=[0, 8], val=[1, 9], test=[2, 10])
    >>> classifier = ignn.IgnnClassifier(state=4, epochs=30).fit(graph)
    >>> classifier.predict(graph)[[3, 12]].tolist()
    [0, 1]
    >>> classifier.predict_proba(graph).shape
    (16, 2)
    """

    _estimator_type = "classifier"
    _task = "classification"

    classes_: Array

    def fit(
        self, X: Graph | Items, y: ArrayLike | None = None, *, callback: Callback | None = None
    ) -> Self:
        """Trains on the split of a graph, or on some of its items.

        The labels are those of the graph; `y` is compared with them.
        """
        super().fit(X, y, callback=callback)
        self.classes_ = self.model_.classes
        return self

    def predict_proba(self, X: Graph | Items) -> Floats:
        """The probability of each class."""
        graph, rows = self._rows(X)
        found: Floats = self.model_.predict(graph).probabilities[rows]
        return found

    def decision_function(self, X: Graph | Items) -> Floats:
        """Scores before softmax or sigmoid; of two classes, by how much the second is ahead."""
        graph, rows = self._rows(X)
        found: Floats = self.model_.predict(graph).logits[rows]
        if len(self.classes_) == 2 and not self.model_.is_multi_label:
            found = found[:, 1] - found[:, 0]
        return found

    def score(self, X: Graph | Items, y: ArrayLike | None = None) -> float:
        """Accuracy: of the test part of the split if `X` is a graph that has one, else of `X`.

        Items without a label do not count, nor do labels of classes that the model does not know,
        with a note.
        """
        items, given = self._scored(X, y)
        predictions, classes = self.model_.predict(items.graph), self.model_.classes
        if self.model_.is_multi_label:
            truth = _sets_of(items, classes) if given is None else label_sets(given)
            found, known = predictions.labels[items.indices], (truth >= 0).all(axis=1)
            if truth.shape != found.shape:
                expected = f"one column for each of {len(classes)} classes"
                raise ValueError(f"y: expected {expected}, found an array of {truth.shape}")
            right = (found == truth).all(axis=1)
        else:
            labels = _names(items) if given is None else given
            truth = class_codes(labels, classes)
            unknown = truth == UNKNOWN
            if unknown.any():
                new = np.unique(labels[unknown].astype(str))
                note_unknown(int(unknown.sum()), new.tolist())
            right, known = predictions._native.positions()[items.indices] == truth, truth >= 0
        if not known.any():
            raise ValueError("score: no item has a label of a class that the model knows")
        return float(np.mean(right[known]))

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=False, multi_output=True),
            classifier_tags=ClassifierTags(multi_label=True),
            input_tags=InputTags(two_d_array=False),
        )


class IgnnRegressor(_Estimator):
    """A regressor of the numbers of nodes, or of the graphs of a collection.

    It has the parameters and attributes of :class:`IgnnClassifier`, but ``classes_``. A graph whose
    classes are all numbers is read as one with numbers.

    >>> import numpy as np, ignn
    >>> path = np.stack([np.arange(29), np.arange(1, 30)])
    >>> y = np.sin(np.arange(30) / 5)
    >>> graph = ignn.Graph.from_edges(path, x=y.round(1), y=y, train=np.arange(0, 30, 2),
    ...                               test=np.arange(1, 30, 2))
    >>> regressor = ignn.IgnnRegressor(state=8, epochs=150).fit(graph)
    >>> regressor.score(graph) > 0.8
    True
    """

    _estimator_type = "regressor"
    _task = "regression"

    def predict_error(self, X: Graph | Items) -> Array:
        """How far each prediction can be from that of the exact equilibrium; NaN if not certified.

        The bounds of ``ignn predict``: they take about as long as a second prediction.
        """
        graph, rows = self._rows(X)
        errors = self.model_.predict(graph, tight=True).number_errors
        assert errors is not None
        found: Array = errors[rows]
        return found

    def score(self, X: Graph | Items, y: ArrayLike | None = None) -> float:
        """R^2: of the test part of the split if `X` is a graph that has one, else of `X`."""
        items, given = self._scored(X, y)
        truth = _numbers(items) if given is None else _numbers_of(given)
        if truth is None:
            raise ValueError("y: expected one number for each item, or NaN for none")
        known, found = ~np.isnan(truth), self.predict(items)
        if known.sum() < 2:
            raise ValueError("score: expected at least two items with a number")
        truth, found = truth[known], found[known]
        spread = float(((truth - truth.mean()) ** 2).sum())
        left = float(((truth - found) ** 2).sum())
        if spread == 0:
            # As scikit-learn has it.
            return 1.0 if left == 0 else 0.0
        return 1 - left / spread

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, RegressorTags, Tags, TargetTags

        return Tags(
            estimator_type="regressor",
            target_tags=TargetTags(required=False),
            regressor_tags=RegressorTags(),
            input_tags=InputTags(two_d_array=False),
        )


def _stored(items: Items) -> Array:
    """The labels of items as `Graph.y` has them."""
    known = items.graph.y
    if known is None:
        raise ValueError(f"{items.graph.path}: the dataset has no labels")
    own: Array = known[items.indices]
    return own


def _names(items: Items) -> Array:
    """The names of the classes of items; empty for no label."""
    own = _stored(items)
    if own.dtype.kind == "f" or own.ndim != 1:
        raise ValueError(f"{items.graph.path}: expected one class per item")
    return np.append(items.graph.classes.astype(str), "")[own]


def _sets_of(items: Items, classes: Array) -> Array:
    """The sets of items, one column for each of these classes; -1 without labels."""
    own, at = _stored(items), class_codes(items.graph.classes.astype(str), classes)
    if own.ndim != 2:
        raise ValueError(f"{items.graph.path}: expected sets of classes, found one class per item")
    sets = np.zeros((len(own), len(classes)), dtype=np.int8)
    sets[:, at[at >= 0]] = own[:, at >= 0]
    sets[(own < 0).any(axis=1)] = -1
    return sets


def _numbers(items: Items) -> Floats64:
    """The numbers of items, or their classes as numbers; NaN without one."""
    own = _stored(items)
    numbers = own if own.dtype.kind == "f" else _numbers_of(items.graph.classes)
    if numbers is None or own.ndim != 1:
        raise ValueError(f"{items.graph.path}: expected numbers, or classes that are numbers")
    if own.dtype.kind == "f":
        return np.asarray(own, dtype=np.float64)
    return np.append(numbers, np.nan)[own]


def _numbers_of(values: Array) -> Floats64 | None:
    """One number per item, NaN for none; None if there are others than numbers."""
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        return None
    return numbers if numbers.ndim == 1 else None


def _require_items(X: object) -> Items:
    if not isinstance(X, Items):
        raise TypeError(
            f"expected an ignn.Graph, or some of its items (graph.items[...]), found {type(X)}"
        )
    return X


def _not_fitted(name: str) -> Exception:
    text = f"this {name} is not fitted yet: call fit first"
    if "sklearn" not in sys.modules:
        return ValueError(text)
    from sklearn.exceptions import NotFittedError

    error: Exception = NotFittedError(text)
    return error
