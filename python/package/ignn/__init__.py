"""Implicit graph neural networks on large graphs, on the cores of one machine.

A model's states are the equilibrium of ``X = phi(A^T X W^T + B)``: information reaches a node from
any distance, and every answer comes with a bound on its error.

>>> import numpy as np, ignn
>>> ring = [[node, (node + 1) % 10] for node in range(10)]
>>> edges = np.array(ring + [[10 + a, 10 + b] for a, b in ring])
>>> y = np.repeat(["left", "right"], 10)
>>> graph = ignn.Graph.from_edges(edges, y=y, train=[0, 10], val=[1, 11], test=[5, 15])
>>> model = ignn.IgnnClassifier(state=8, epochs=40).fit(graph)
>>> str(model.predict(graph)[7])
'left'
>>> model.score(graph)
1.0
>>> model.certificate_.converged
True

The same engine, settings and files as the command line ``ignn``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import torch
    from ._estimator import IgnnClassifier, IgnnRegressor
    from ._graph import Graph, Graphs, Items, Relation, ingest, open  # noqa: A004
    from ._ignn import NotConverged, __version__, set_threads, threads, wait
    from ._model import Model, Predictions, SolveInfo, embed, load, predict
    from ._solve import solve, solve_adjoint
    from ._training import Run, report, resume, settings, train

__all__ = [
    "Graph",
    "Graphs",
    "IgnnClassifier",
    "IgnnRegressor",
    "Items",
    "Model",
    "NotConverged",
    "Predictions",
    "Relation",
    "Run",
    "SolveInfo",
    "__version__",
    "embed",
    "ingest",
    "load",
    "open",
    "predict",
    "report",
    "resume",
    "set_threads",
    "settings",
    "solve",
    "solve_adjoint",
    "threads",
    "torch",
    "train",
    "wait",
]

#: The module of each name. They are imported when a name is first used, and numpy with them.
_MODULES = {
    "_estimator": ("IgnnClassifier", "IgnnRegressor"),
    "_graph": ("Graph", "Graphs", "Items", "Relation", "ingest", "open"),
    "_ignn": ("NotConverged", "__version__", "set_threads", "threads", "wait"),
    "_model": ("Model", "Predictions", "SolveInfo", "embed", "load", "predict"),
    "_solve": ("solve", "solve_adjoint"),
    "_training": ("Run", "report", "resume", "settings", "train"),
}


def __getattr__(name: str) -> Any:
    if name == "torch":
        return importlib.import_module(".torch", __name__)
    for module, names in _MODULES.items():
        if name in names:
            value = getattr(importlib.import_module(f".{module}", __name__), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
