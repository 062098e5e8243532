"""The engine's solves against dense algebra."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import cliques

import ignn


def dense(graph: ignn.Graph, at: int = 0) -> np.ndarray:
    """A^T of a relation, normalised."""
    relation, nodes = graph.relations[at], graph.num_nodes
    a_t = np.zeros((nodes, nodes))
    ends = relation.indptr.astype(int)
    for row in range(nodes):
        own = slice(ends[row], ends[row + 1])
        a_t[row, relation.indices[own]] = 1 if relation.values is None else relation.values[own]
    scale = relation.scale
    return a_t if scale is None else scale[:, None] * a_t * scale[None, :]


def weights(width: int, size: float, count: int = 1) -> np.ndarray:
    w = np.random.default_rng(3).normal(size=(count, width, width))
    return w * size / count / np.abs(w).sum(axis=2, keepdims=True)


def inputs(graph: ignn.Graph, width: int) -> np.ndarray:
    return np.random.default_rng(4).normal(size=(graph.num_nodes, width))


def test_an_equilibrium_is_one_and_its_error_is_bounded() -> None:
    graph = ignn.Graph.from_edges(cliques(3, 6))
    w, b, a_t = weights(5, 0.9)[0], inputs(graph, 5), dense(graph)
    x, info = ignn.solve(graph, w, b, phi="tanh", tolerance=1e-6, tight=True, return_info=True)
    exact = np.zeros_like(b)
    for _ in range(2000):
        exact = np.tanh(a_t @ exact @ w.T + b)
    assert info.converged and info.certified_error is not None
    assert np.abs(x - exact).max() <= info.certified_error < 1e-3
    again = ignn.solve(graph, w, b, phi="tanh", tolerance=1e-6)
    assert np.array_equal(again, ignn.solve(graph, w, b, phi="tanh", tolerance=1e-6))


def test_adjoints_and_gradients() -> None:
    edges = cliques(2, 5)
    graph = ignn.Graph.from_relations({"a": edges, "b": edges[::2]}, directed=True)
    w, b = weights(4, 0.8, 2), inputs(graph, 4)
    a_t = [dense(graph, at) for at in range(2)]
    r = inputs(graph, 4)[::-1]

    def equilibrium(w: np.ndarray, b: np.ndarray) -> np.ndarray:
        x = np.zeros_like(b)
        for _ in range(500):
            x = np.tanh(sum(a @ x @ own.T for a, own in zip(a_t, w, strict=True)) + b)
        return x

    x = ignn.solve(graph, w, b, phi="tanh", tolerance=1e-6)
    g, gradients, info = ignn.solve_adjoint(graph, w, x, r, phi="tanh", tolerance=1e-6)
    assert info.converged and len(gradients) == 2
    step = 1e-5

    def slope(change: Any) -> float:
        ends = [float((r * equilibrium(*change(sign * step))).sum()) for sign in (1, -1)]
        return (ends[0] - ends[1]) / (2 * step)

    for node, column in ((0, 1), (7, 3)):
        moved = np.zeros_like(b)
        moved[node, column] = 1
        assert slope(lambda s, m=moved: (w, b + s * m)) == pytest.approx(g[node, column], abs=2e-4)
    for at, row, column in ((0, 1, 2), (1, 3, 0)):
        moved = np.zeros_like(w)
        moved[at, row, column] = 1
        found = gradients[at][row, column]
        assert slope(lambda s, m=moved: (w + s * m, b)) == pytest.approx(found, abs=2e-3)


def test_results_are_not_copied() -> None:
    graph = ignn.Graph.from_edges(cliques())
    x = ignn.solve(graph, weights(3, 0.5)[0], inputs(graph, 3))
    assert not x.flags.owndata and x.flags.writeable
    assert x.strides[0] >= 3 * 4, "rows keep the stride of the engine"


def test_mistakes_are_explained() -> None:
    graph = ignn.Graph.from_edges(cliques())
    w, b = weights(3, 0.5)[0], inputs(graph, 3)
    for change, message in (
        ({"w": w[:, :2]}, "W: expected square matrices of one width, found 3 x 2"),
        ({"b": b[:5]}, "B: expected 16 x 3 .nodes x state., found 5 x 3"),
        ({"w": [w, w]}, "W: expected one matrix for each of 1 relations, found 2"),
        ({"phi": "relux"}, "phi: expected identity, relu"),
        ({"tolerance": 0}, "tolerance: expected a number above 0, found 0"),
        ({"method": "fast"}, "method: expected auto, plain"),
        ({"on_failure": "stop"}, "on_failure: expected raise, warn or ignore, found 'stop'"),
        ({"b": b * np.nan}, "forward solve: row 0 of the input is not finite"),
    ):
        given: dict[str, Any] = {"w": w, "b": b} | change
        with pytest.raises(ValueError, match=message):
            ignn.solve(graph, **given)
    with pytest.raises(TypeError, match="expected an ignn.Graph, found .*ignn.open opens"):
        ignn.solve("graph.ignn", w, b)  # type: ignore[call-overload]


def test_what_does_not_converge_is_an_error_unless_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    graph = ignn.Graph.from_edges(cliques())
    w, b = np.eye(2) * 1.5, np.ones((16, 2))
    with pytest.raises(ignn.NotConverged, match="the forward solve did not converge"):
        ignn.solve(graph, w, b, phi="tanh", max_sweeps=3)
    x = ignn.solve(graph, w, b, phi="tanh", max_sweeps=3, on_failure="warn")
    assert x.shape == (16, 2) and "did not converge" in caplog.text


def test_the_advice_fits_the_reason() -> None:
    rng = np.random.default_rng(0)
    graph = ignn.Graph.from_edges(rng.integers(0, 200, (2, 600)), nodes=200)
    b, w = inputs(graph, 8), weights(8, 0.95)[0]
    for size, options, advice in (
        (1, {"max_sweeps": 2}, "expected at most 1.0e-05.: raise max_sweeps, or make W smaller$"),
        (9, {"phi": "identity"}, "make W smaller: no contraction is certified"),
        (1, {"tolerance": 1e-12}, "raise tolerance: 32-bit floats do not reach it"),
    ):
        with pytest.raises(ignn.NotConverged, match=advice):
            ignn.solve(graph, w * size, b, **options)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="max_sweeps: expected a whole number of 0 or more, found -1"):
        ignn.solve(graph, w, b, max_sweeps=-1)
    with pytest.raises(ValueError, match="expected a matrix of real numbers, found complex128"):
        ignn.solve(graph, w, b * 1j)


def test_tensors_and_the_layer_of_torch() -> None:
    torch = pytest.importorskip("torch")
    graph = ignn.Graph.from_edges(cliques(2, 5))
    torch.manual_seed(0)
    layer = ignn.torch.ImplicitLayer(graph, 4, phi="tanh", tolerance=1e-7)
    b = torch.randn(10, 4, dtype=torch.float64, requires_grad=True)
    a_t = torch.tensor(dense(graph))
    w = layer.weight.detach().double().clone().requires_grad_()
    own = b.detach().clone().requires_grad_()
    x = torch.zeros(10, 4, dtype=torch.float64)
    for _ in range(300):
        x = torch.tanh(a_t @ x @ w[0].T + own)
    target = torch.randn(10, 4, dtype=torch.float64)
    ((x - target) ** 2).sum().backward()
    found = layer(b)
    ((found - target) ** 2).sum().backward()
    assert torch.allclose(found, x, atol=1e-5)
    assert torch.allclose(b.grad, own.grad, atol=1e-4)
    assert torch.allclose(layer.weight.grad.double(), w.grad, atol=1e-3)
    assert layer.info.converged and layer.adjoint_info.converged
    with torch.no_grad():
        layer.weight.mul_(100)
    layer.project_()
    assert layer(b).isfinite().all() and layer.info.contraction < 1
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = ((layer(b.detach()) - target) ** 2).sum()
        loss.backward()
        optimizer.step()
        layer.project_()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_the_layer_of_torch_never_trains_on_zeros() -> None:
    torch = pytest.importorskip("torch")
    graph = ignn.Graph.from_edges(cliques(2, 5))
    layer = ignn.torch.ImplicitLayer(graph, 4, phi="identity")
    with torch.no_grad():
        layer.weight.copy_(torch.eye(4) * 10)
    with pytest.raises(ignn.NotConverged, match="the forward solve did not converge"):
        layer(torch.ones(10, 4))
    for width in (0, 2.5):
        with pytest.raises(ValueError, match="width: expected the number of columns, found"):
            ignn.torch.ImplicitLayer(graph, width)
    with pytest.raises(ValueError, match="kappa: expected a number between 0 and 1, found 2"):
        ignn.torch.ImplicitLayer(graph, 4, kappa=2)
    with pytest.raises(TypeError, match="expected an ignn.Graph, found"):
        ignn.torch.ImplicitLayer(cliques(), 4)
    with pytest.raises(ValueError, match=r"found a sparse one: pass x.to_dense\(\)"):
        ignn.Graph.from_edges(cliques(), x=torch.eye(16).to_sparse())
