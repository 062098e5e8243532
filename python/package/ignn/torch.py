"""An equilibrium layer for PyTorch: forward and backward are solves of the engine.

    layer = ignn.torch.ImplicitLayer(graph, 16)
    x = layer(b)            # the equilibrium of X = phi(A^T X W^T + B)
    loss(x).backward()      # gradients with respect to B and W, by the adjoint equilibrium
    optimizer.step()
    layer.project_()        # keeps the equilibrium unique
"""

from __future__ import annotations

from typing import Any, TypeAlias

import torch
from torch import nn

from ._graph import Graph, native
from ._model import SolveInfo
from ._solve import OnFailure, Phi, radii, solve, solve_adjoint

Tensor: TypeAlias = torch.Tensor

__all__ = ["ImplicitLayer"]


class _Equilibrium(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, b: Tensor, w: Tensor, layer: ImplicitLayer) -> Tensor:
        x, layer.info = solve(
            layer.graph,
            w,
            b,
            phi=layer.phi,
            tolerance=layer.tolerance,
            max_sweeps=layer.max_sweeps,
            on_failure=layer.on_failure,
            return_info=True,
        )
        state = torch.from_numpy(x).to(dtype=b.dtype, device=b.device)
        ctx.save_for_backward(w, state)
        ctx.layer = layer
        return state

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        (w, state), layer = ctx.saved_tensors, ctx.layer
        g, weight_gradients, layer.adjoint_info = solve_adjoint(
            layer.graph,
            w,
            state,
            gradients[0],
            phi=layer.phi,
            tolerance=layer.tolerance,
            max_sweeps=layer.max_sweeps,
            on_failure=layer.on_failure,
        )
        to_b = torch.from_numpy(g).to(dtype=state.dtype, device=state.device)
        to_w = torch.stack([torch.from_numpy(own) for own in weight_gradients])
        return to_b, to_w.to(dtype=w.dtype, device=w.device), None


class ImplicitLayer(nn.Module):
    """``X = phi(sum_r A_r^T X W_r^T + B)`` on a graph, as a layer with the weights W.

    Computations are in 32-bit floats on the processor, whatever the tensors are.

    Args:
        graph: the graph; its relations have one weight each.
        width: columns of the state.
        phi: the activation.
        kappa: :meth:`project_` keeps the contraction of the equation below this.
        tolerance, max_sweeps: of both solves.
        on_failure: what to do where a solve does not reach the tolerance, such as without
            :meth:`project_`: "raise" an error, or go on with the best state found, which may be zero
            where the solve diverged, with a note ("warn") or without one ("ignore").
    """

    def __init__(
        self,
        graph: Graph,
        width: int,
        *,
        phi: Phi = "relu",
        kappa: float = 0.95,
        tolerance: float = 1e-6,
        max_sweeps: int = 300,
        on_failure: OnFailure = "raise",
    ) -> None:
        super().__init__()
        native(graph)
        if not (isinstance(width, int) and width > 0):
            raise ValueError(f"width: expected the number of columns, found {width!r}")
        if not 0 < kappa < 1:
            raise ValueError(f"kappa: expected a number between 0 and 1, found {kappa!r}")
        self.graph, self.kappa = graph, kappa
        self.phi: Phi = phi
        self.tolerance, self.max_sweeps = tolerance, max_sweeps
        self.on_failure: OnFailure = on_failure
        #: How the last equilibrium and the last adjoint were solved.
        self.info: SolveInfo | None = None
        self.adjoint_info: SolveInfo | None = None
        self._radii = radii(graph, phi)
        self.weight = nn.Parameter(torch.empty(len(self._radii), width, width))
        nn.init.uniform_(self.weight, -1 / width, 1 / width)
        self.project_()

    def forward(self, b: Tensor) -> Tensor:
        """The equilibrium for the input B, one row per node."""
        found: Tensor = _Equilibrium.apply(b, self.weight, self)
        return found

    @torch.no_grad()
    def project_(self) -> None:
        """Projects the rows of W to L1 balls, so that there is exactly one equilibrium."""
        for w, radius in zip(self.weight, self._radii, strict=True):
            size = self.kappa / len(self._radii) / max(radius, 1e-30)
            w.copy_(_l1_rows(w, size))

    def extra_repr(self) -> str:
        """What `repr` shows."""
        return f"nodes={self.graph.num_nodes}, width={self.weight.shape[1]}, phi={self.phi!r}"


def _l1_rows(w: Tensor, size: float) -> Tensor:
    """The rows of w, projected to the L1 ball of this size."""
    absolute = w.abs()
    ordered, _ = absolute.sort(dim=1, descending=True)
    sums = ordered.cumsum(dim=1) - size
    count = torch.arange(1, w.shape[1] + 1, dtype=w.dtype, device=w.device)
    last = (ordered - sums / count > 0).sum(dim=1, keepdim=True).clamp(min=1) - 1
    cut = (sums / count).gather(1, last).clamp(min=0)
    return w.sign() * (absolute - cut).clamp(min=0)


