"""The engine itself: equilibria for weights and inputs of your own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy as np

from ._arrays import ArrayLike, Floats, as_array, sweeps
from ._graph import Graph, native
from ._ignn import Layer, NotConverged
from ._listener import logger
from ._model import SolveInfo

Phi: TypeAlias = Literal["identity", "relu", "leaky-relu", "tanh", "sigmoid", "elu"]
Method: TypeAlias = Literal["auto", "plain", "active", "anderson", "ordered"]
OnFailure: TypeAlias = Literal["raise", "warn", "ignore"]


def _matrix(value: ArrayLike) -> Floats:
    array = as_array(value)
    if array.ndim != 2:
        raise ValueError(f"expected a matrix, found an array of shape {array.shape}")
    if array.dtype.kind not in "fiub":
        raise ValueError(f"expected a matrix of real numbers, found {array.dtype}")
    return np.asarray(array, dtype=np.float32)


def _weights(w: ArrayLike | Sequence[ArrayLike]) -> list[Floats]:
    if isinstance(w, (list, tuple)) and len(w) and getattr(w[0], "ndim", 0) == 2:
        return [_matrix(own) for own in w]
    array = as_array(w)
    return [_matrix(own) for own in array] if array.ndim == 3 else [_matrix(array)]


def _layer(graph: Graph, phi: str, on_failure: str) -> Layer:
    if on_failure not in ("raise", "warn", "ignore"):
        raise ValueError(f"on_failure: expected raise, warn or ignore, found {on_failure!r}")
    native(graph)
    return graph._layer(phi)


def _check(what: str, info: SolveInfo, on_failure: OnFailure) -> None:
    if info.converged or on_failure == "ignore":
        return
    if info.stopped == "max_sweeps":
        hint = "raise max_sweeps, or make W smaller"
    elif info.contraction is None:
        hint = "make W smaller: no contraction is certified, so there may be no equilibrium"
    else:
        hint = "raise tolerance: 32-bit floats do not reach it"
    text = (
        f"the {what} solve did not converge (residual {info.residual:.1e} after sweep "
        f"{info.sweeps}, expected at most {info.tolerance:.1e}): {hint}"
    )
    if on_failure == "raise":
        raise NotConverged(text)
    logger.warning("%s", text)


@overload
def solve(
    graph: Graph,
    w: ArrayLike | Sequence[ArrayLike],
    b: ArrayLike,
    *,
    phi: Phi = ...,
    tolerance: float = ...,
    max_sweeps: int = ...,
    method: Method = ...,
    tight: bool = ...,
    on_failure: OnFailure = ...,
    return_info: Literal[False] = ...,
) -> Floats: ...


@overload
def solve(
    graph: Graph,
    w: ArrayLike | Sequence[ArrayLike],
    b: ArrayLike,
    *,
    phi: Phi = ...,
    tolerance: float = ...,
    max_sweeps: int = ...,
    method: Method = ...,
    tight: bool = ...,
    on_failure: OnFailure = ...,
    return_info: Literal[True],
) -> tuple[Floats, SolveInfo]: ...


def solve(
    graph: Graph,
    w: ArrayLike | Sequence[ArrayLike],
    b: ArrayLike,
    *,
    phi: Phi = "relu",
    tolerance: float = 1e-5,
    max_sweeps: int = 300,
    method: Method = "auto",
    tight: bool = False,
    on_failure: OnFailure = "raise",
    return_info: bool = False,
) -> Floats | tuple[Floats, SolveInfo]:
    """Solves ``X = phi(sum_r A_r^T X W_r^T + B)``: one row per node.

    Args:
        w: W, or one for each relation.
        b: B, one row per node.
        phi: the activation.
        tolerance: what a sweep may still change, relative to the largest entry of X; 32-bit floats
            allow about 1e-7.
        max_sweeps: the largest number of sweeps over the graph.
        method: "plain" sweeps, "active" ones that skip rows at rest, "anderson" mixing, "ordered"
            rows for graphs with few cycles, or "auto" for a choice by the graph.
        tight: tighten the certified error, for about the cost of a second solve.
        on_failure: what to do where the tolerance is not reached: "raise" an error, or return the
            best state found, which may be zero where the solve diverged, with a note ("warn") or
            without one ("ignore").
        return_info: return X and how it was solved, with the certified error.

    >>> import numpy as np, ignn
    >>> graph = ignn.Graph.from_edges([[0, 1, 2], [1, 2, 0]], directed=True, normalise="none")
    >>> b = np.array([[1.0], [0.0], [0.0]])
    >>> x, info = ignn.solve(graph, np.array([[0.5]]), b, phi="identity", return_info=True)
    >>> np.round(7 * x[:, 0], 3).tolist()
    [8.0, 4.0, 2.0]
    >>> bool(info.certified_error < 1e-4)
    True
    """
    layer = _layer(graph, phi, on_failure)
    x, solved = layer.solve(
        _weights(w),
        _matrix(b),
        tolerance=tolerance,
        max_sweeps=sweeps(max_sweeps),
        method=method,
        tight=tight,
    )
    info = SolveInfo.of(solved)
    _check("forward", info, on_failure)
    return (x, info) if return_info else x


def solve_adjoint(
    graph: Graph,
    w: ArrayLike | Sequence[ArrayLike],
    x: ArrayLike,
    r: ArrayLike,
    *,
    phi: Phi = "relu",
    tolerance: float = 1e-5,
    max_sweeps: int = 300,
    method: Method = "auto",
    on_failure: OnFailure = "raise",
) -> tuple[Floats, list[Floats], SolveInfo]:
    """Solves ``G = phi'(X) * (sum_r A_r G W_r + R)``, for those who bring their own autograd.

    Args:
        w: W, or one for each relation.
        x: the equilibrium X.
        r: R, the gradient of the loss with respect to X.
        phi, tolerance, max_sweeps, method, on_failure: as :func:`solve` has them.

    Returns:
        G, which is the gradient with respect to B; the gradients with respect to each W_r; and how
        it was solved.
    """
    layer = _layer(graph, phi, on_failure)
    g, solved, gradients = layer.solve_adjoint(
        _weights(w),
        _matrix(x),
        _matrix(r),
        tolerance=tolerance,
        max_sweeps=sweeps(max_sweeps),
        method=method,
    )
    info = SolveInfo.of(solved)
    _check("adjoint", info, on_failure)
    return g, gradients, info


def radii(graph: Graph, phi: Phi = "relu") -> list[float]:
    """Upper bounds that a row of |W| must stay below the inverse of, for a unique equilibrium."""
    found: Any = graph._layer(phi).radii()
    return [float(value) for value in found]
