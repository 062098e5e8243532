"""The extension module, as the package uses it."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, final, type_check_only

import numpy as np
import numpy.typing as npt

__all__ = [
    "NotConverged",
    "Graph",
    "Model",
    "Predictions",
    "Run",
    "Layer",
    "build",
    "ingest_edges",
    "ingest_relations",
    "ingest_directory",
    "check_settings",
    "train",
    "resume",
    "report",
    "set_threads",
    "threads",
    "wait",
    "SOURCE_NAMES",
    "TARGET_NAMES",
    "WEIGHT_NAMES",
    "__version__",
]

__version__: str
#: Usual names of the columns of an edge table, in lower case.
SOURCE_NAMES: list[str]
TARGET_NAMES: list[str]
WEIGHT_NAMES: list[str]

@type_check_only
class _Listener(Protocol):
    @property
    def wants_epochs(self) -> bool: ...
    def __call__(self, what: str, value: Any, /) -> bool: ...

_Split = tuple[str, list[str], npt.NDArray[np.uint8]]
_Solve = dict[str, Any]
_Floats = npt.NDArray[np.float32]

class NotConverged(RuntimeError):
    """A solve did not reach its tolerance, where that was asked to be an error."""

@final
class Graph:
    path: str
    nodes: int
    is_temporary: bool
    @staticmethod
    def open(path: str) -> Graph: ...
    def manifest(self) -> dict[str, Any]: ...
    def verify(self) -> None: ...
    def labels(
        self,
    ) -> (
        tuple[
            list[str],
            npt.NDArray[Any],
            tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8]] | None,
        ]
        | None
    ): ...
    def splits(self) -> list[_Split]: ...
    def collection(
        self,
    ) -> (
        tuple[list[str], npt.NDArray[np.uint64], list[str], npt.NDArray[Any], list[_Split]] | None
    ): ...
    def ids(self) -> npt.NDArray[np.uint64] | list[str]: ...
    def features(self) -> Any: ...
    def adjacency(
        self, relation: int
    ) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32], _Floats | None, _Floats | None]: ...

@final
class Model:
    classes: list[str]
    is_multi_label: bool
    is_regression: bool
    item: str
    @staticmethod
    def load(path: str) -> Model: ...
    def save(self, path: str) -> None: ...
    def settings(self) -> dict[str, dict[str, Any]]: ...
    def parameters(self) -> list[tuple[str, _Floats]]: ...
    def predict(
        self, graph: Graph, *, tolerance: float | None, max_sweeps: int | None, tight: bool
    ) -> Predictions: ...
    def embed(self, graph: Graph) -> tuple[_Floats, _Solve | None]: ...

@final
class Predictions:
    is_certified: bool
    def positions(self) -> npt.NDArray[np.int64]: ...
    def numbers(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None: ...
    def probabilities(self) -> _Floats: ...
    def logits(self) -> _Floats: ...
    def embeddings(self) -> _Floats: ...
    def solve(self) -> _Solve | None: ...
    def evaluate(self) -> dict[str, Any]: ...

@final
class Run:
    directory: str | None
    ended: str
    best_epoch: int | None
    def model(self) -> Model: ...
    def history(self) -> list[dict[str, Any]]: ...
    def figures(self) -> dict[str, Any] | None: ...

@final
class Layer:
    def __new__(cls, graph: Graph, phi: str) -> Layer: ...
    def radii(self) -> list[float]: ...
    def solve(
        self,
        weights: Sequence[_Floats],
        input: _Floats,
        *,
        tolerance: float,
        max_sweeps: int,
        method: str,
        tight: bool,
    ) -> tuple[_Floats, _Solve]: ...
    def solve_adjoint(
        self,
        weights: Sequence[_Floats],
        state: _Floats,
        right: _Floats,
        *,
        tolerance: float,
        max_sweeps: int,
        method: str,
    ) -> tuple[_Floats, _Solve, list[_Floats]]: ...

def build(
    nodes: int,
    relations: Sequence[tuple[Any, ...]],
    *,
    ids: list[str] | None,
    features: Any,
    labels: Any,
    splits: Sequence[_Split],
    graphs: Any,
    out: str | None,
    force: bool,
    memory_limit: int | None,
    listener: _Listener | None,
) -> Graph: ...
def ingest_edges(
    files: Sequence[str],
    out: str | None,
    options: Mapping[str, Any],
    *,
    memory_limit: int | None,
    seed: int,
    listener: _Listener | None,
) -> Graph: ...
def ingest_relations(
    spec: str,
    out: str,
    *,
    data: str | None,
    encode_as: str | None,
    force: bool,
    memory_limit: int | None,
    seed: int,
    listener: _Listener | None,
) -> Graph: ...
def ingest_directory(
    kind: str,
    path: str,
    out: str,
    relation: Mapping[str, Any],
    *,
    force: bool,
    degree_features: bool,
    regress: int | None,
    draw: Sequence[str],
    memory_limit: int | None,
    seed: int,
    listener: _Listener | None,
) -> Graph: ...
def check_settings(
    settings: Sequence[str], *, preset: str | None, config: str | None
) -> dict[str, dict[str, Any]]: ...
def train(
    graph: Graph,
    settings: Sequence[str],
    *,
    preset: str | None,
    config: str | None,
    out: str | None,
    force: bool,
    init: str | None,
    memory_limit: int | None,
    parts: tuple[Any, Any, Any] | None,
    listener: _Listener | None,
) -> Run: ...
def resume(
    directory: str,
    *,
    graph: Graph | None,
    epochs: int | None,
    memory_limit: int | None,
    listener: _Listener | None,
) -> Run: ...
def report(
    directories: Sequence[str],
    out: str,
    *,
    title: str | None,
    classes: bool,
    force: bool,
    listener: _Listener | None,
) -> None: ...
def set_threads(threads: int) -> None:
    """Sets the number of threads of all further work; results do not depend on it."""

def threads() -> int:
    """The number of threads."""

def wait() -> None:
    """Waits for training that was interrupted: it ends after its epoch, with a checkpoint."""
