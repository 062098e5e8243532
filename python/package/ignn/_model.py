"""Trained models and their predictions."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _arrays, _ignn, _page
from ._arrays import Array, Floats
from ._graph import Graph, PathLike, native
from ._listener import errors_in_python, logger, plural


@dataclass(frozen=True)
class SolveInfo:
    """How an equilibrium was solved, and how far the result can be from the true one."""

    #: Number of sweeps over the graph.
    sweeps: int
    #: What the last sweep changed, relative to the state.
    residual: float
    #: The residual that was asked for.
    tolerance: float
    #: Whether it was reached.
    converged: bool
    #: Why the solve stopped: "converged", "max_sweeps", "stagnated" or "truncated".
    stopped: str
    #: Upper bound of the contraction; None where none below 1 is certified.
    contraction: float | None
    #: No entry of the state is farther from the true one than this; None where nothing is certified.
    certified_error: float | None
    #: The same relative to the largest entry of the state.
    relative_error: float | None
    #: The method that was used.
    method: str
    #: Wall time.
    seconds: float

    @staticmethod
    def of(solve: Mapping[str, Any]) -> SolveInfo:
        """From the record of the engine."""
        bound = solve["certified_error"] or {}

        def number(value: float | None) -> float:
            return float("nan") if value is None else float(value)

        return SolveInfo(
            sweeps=solve["sweeps"],
            residual=number(solve["relative_residual"]),
            tolerance=number(solve["tolerance"]),
            converged=solve["converged"],
            stopped=solve["stopped"],
            contraction=solve["contraction"],
            certified_error=bound.get("largest"),
            relative_error=bound.get("relative"),
            method=str(solve["method"]),
            seconds=number(solve["seconds"]),
        )

    def _rows(self) -> list[tuple[str, object]]:
        rows: list[tuple[str, object]] = [("converged", "yes" if self.converged else self.stopped)]
        rows.append(("sweeps", self.sweeps))
        rows.append(("residual", f"{self.residual:.1e}"))
        bound = "none" if self.contraction is None else f"{self.contraction:.4f}"
        rows.append(("contraction, at most", bound))
        error = "not certified" if self.certified_error is None else f"{self.certified_error:.1e}"
        rows.append(("error, at most", error))
        return rows

    def _repr_html_(self) -> str:
        return _page.table("Certificate", self._rows())


class Predictions:
    """What a model says about every node of a graph, or every graph of a collection.

    As an array (``numpy.asarray``), as an iterable and as a column of pandas it is that of the
    predicted labels; polars takes ``labels``.
    """

    def __init__(self, native: _ignn.Predictions, model: Model) -> None:
        self._native, self._model = native, model

    @property
    def classes(self) -> Array:
        """The classes, one for each column of `probabilities`."""
        return self._model.classes

    @property
    def labels(self) -> Array:
        """The predicted class, or number, of each item; one column of 0 and 1 per class for sets."""
        numbers = self._native.numbers()
        if numbers is not None:
            return numbers[0]
        if self._model.is_multi_label:
            return np.asarray(self.logits >= 0, dtype=np.int8)
        return self.classes[self._native.positions()]

    @property
    def number_errors(self) -> npt.NDArray[np.float64] | None:
        """How far each number of a regression can be from that of the exact equilibrium.

        It bounds errors of the computation, not of the model. NaN where nothing is certified; None
        for classes.
        """
        numbers = self._native.numbers()
        return None if numbers is None else numbers[1]

    @property
    def probabilities(self) -> Floats:
        """The probability of each class: one row per item."""
        return self._native.probabilities()

    @property
    def logits(self) -> Floats:
        """Scores before softmax or sigmoid: a read-only view."""
        return self._native.logits()

    @property
    def embeddings(self) -> Floats:
        """The states that the readout sees: a read-only view."""
        return self._native.embeddings()

    @property
    def certificate(self) -> SolveInfo | None:
        """How the equilibrium was solved; None for a model without one."""
        solve = self._native.solve()
        return None if solve is None else SolveInfo.of(solve)

    @property
    def is_certified(self) -> bool:
        """Whether the equilibrium is certified to be the only one."""
        return self._native.is_certified

    def scores(self) -> dict[str, dict[str, Any]]:
        """Scores against the labels of the graph, by part of the model's split.

        Labels of classes that the model does not know are not scored, with a note.
        """
        with errors_in_python():
            found = self._native.evaluate()
        if found["left_out"]:
            note_unknown(found["left_out"], found["unknown_classes"])
        return {part.pop("part"): part for part in found["parts"]}

    def __len__(self) -> int:
        return len(self.logits)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.labels, dtype=dtype)

    def __getitem__(self, key: Any) -> Any:
        return self.labels[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.labels)

    def __copy__(self) -> Predictions:
        return self

    def __deepcopy__(self, memo: object) -> Predictions:
        return self

    def _rows(self) -> list[tuple[str, object]]:
        rows: list[tuple[str, object]] = [(f"{self._model.item}s", f"{len(self):,}")]
        if not self._model.is_regression:
            rows.append(("classes", len(self.classes)))
        rows.append(("unique equilibrium", "certified" if self.is_certified else "not certified"))
        certificate = self.certificate
        return rows if certificate is None else rows + certificate._rows()

    def __repr__(self) -> str:
        return f"Predictions({', '.join(f'{name}: {value}' for name, value in self._rows())})"

    def _repr_html_(self) -> str:
        return _page.table("Predictions", self._rows())


class Model:
    """A trained model: settings, classes and parameters. Made by training or :func:`ignn.load`."""

    def __init__(self, native: _ignn.Model) -> None:
        self._native = native
        self._certificate: SolveInfo | None = None

    @property
    def classes(self) -> Array:
        """The classes: integers if all of them are."""
        if self.is_regression:
            return np.array([], dtype=str)
        return _arrays.class_values(self._native.classes)

    @property
    def is_multi_label(self) -> bool:
        """Whether an item has a set of classes."""
        return self._native.is_multi_label

    @property
    def is_regression(self) -> bool:
        """Whether it predicts a number."""
        return self._native.is_regression

    @property
    def item(self) -> str:
        """What it predicts: "node" or "graph"."""
        return self._native.item

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """The settings it was trained with, by section and key."""
        return self._native.settings()

    @property
    def parameters(self) -> dict[str, Floats]:
        """The parameters by name, as copies."""
        return dict(self._native.parameters())

    @property
    def certificate(self) -> SolveInfo | None:
        """How the last equilibrium of this model was solved: sweeps, residual, certified error."""
        return self._certificate

    def predict(
        self,
        graph: Graph,
        *,
        tolerance: float | None = None,
        max_sweeps: int | None = None,
        tight: bool = False,
    ) -> Predictions:
        """Predicts all nodes of a graph, or all graphs of a collection.

        Args:
            tolerance: of the solve [default: the model's `solver.tolerance`].
            max_sweeps: of the solve [default: the model's `solver.max_sweeps`].
            tight: tighten the certified error, as ``ignn predict`` does, for about the cost of a
                second solve.
        """
        most = _arrays.sweeps(max_sweeps)
        with errors_in_python():
            found = self._native.predict(
                native(graph), tolerance=tolerance, max_sweeps=most, tight=tight
            )
        predictions = Predictions(found, self)
        self._certificate = predictions.certificate
        return predictions

    def embed(self, graph: Graph) -> Floats:
        """The states that the readout sees: one row per node, or per graph of a collection."""
        with errors_in_python():
            states, solve = self._native.embed(native(graph))
        self._certificate = None if solve is None else SolveInfo.of(solve)
        return states

    def save(self, path: PathLike) -> None:
        """Saves the model as a safetensors file."""
        self._native.save(os.fspath(path))

    def __reduce__(self) -> tuple[Any, ...]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.safetensors"
            self.save(path)
            return _from_bytes, (path.read_bytes(),)

    def __copy__(self) -> Model:
        return Model(self._native)

    def __deepcopy__(self, memo: object) -> Model:
        return Model(self._native)

    def _rows(self) -> list[tuple[str, object]]:
        model = self.settings["model"]
        count = sum(value.size for value in self.parameters.values())
        rows: list[tuple[str, object]] = [("kind", model["kind"]), ("state", model["state"])]
        rows.append(("predicts", f"{self.item}s"))
        if not self.is_regression:
            rows.append(("classes", len(self.classes)))
        rows.append(("parameters", f"{count:,}"))
        return rows if self.certificate is None else rows + self.certificate._rows()

    def __repr__(self) -> str:
        return f"Model({', '.join(f'{name}: {value}' for name, value in self._rows())})"

    def _repr_html_(self) -> str:
        return _page.table("Model", self._rows())


def _from_bytes(data: bytes) -> Model:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        path.write_bytes(data)
        return load(path)


def load(path: PathLike) -> Model:
    """Loads the model of a run directory, or a model file.

    >>> import ignn
    >>> ignn.load("nowhere")
    Traceback (most recent call last):
    FileNotFoundError: nowhere: cannot open: No such file or directory (os error 2)
    """
    return Model(_ignn.Model.load(os.fspath(path)))


def _model_of(value: Any) -> Model:
    """A model, that of a run or an estimator, or that of a path."""
    if isinstance(value, Graph):
        raise TypeError("expected a model first, then a graph, found a graph first")
    found = getattr(value, "model_", None) or getattr(value, "model", value)
    return found if isinstance(found, Model) else load(found)


def predict(
    model: Any,
    graph: Graph,
    *,
    tolerance: float | None = None,
    max_sweeps: int | None = None,
    tight: bool = False,
) -> Predictions:
    """Predicts all nodes of a graph, or all graphs of a collection.

    Args:
        model: a model, a fitted estimator, a run, or the path of a model or a run.
        tolerance, max_sweeps, tight: as :meth:`Model.predict` has them.
    """
    own = _model_of(model)
    return own.predict(graph, tolerance=tolerance, max_sweeps=max_sweeps, tight=tight)


def embed(model: Any, graph: Graph) -> Floats:
    """The states of a graph that a model reads out; models are given as to :func:`predict`."""
    return _model_of(model).embed(graph)


def note_unknown(count: int, classes: Sequence[str]) -> None:
    """A note about labels that cannot be scored."""
    few = ", ".join(repr(str(name)) for name in classes[:3]) + (", ..." if len(classes) > 3 else "")
    logger.warning(
        "%s of %s that the model does not know (%s): not scored",
        *(plural(count, "label", "labels"), plural(len(classes), "class", "classes"), few),
    )
