"""Small graphs that the tests share."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ignn

# A job in the background of a shell ignores SIGINT, and so would Python: nothing would end what the
# tests of Ctrl-C have begun.
signal.signal(signal.SIGINT, signal.default_int_handler)


def cliques(count: int = 2, size: int = 8) -> np.ndarray:
    """Edges of cliques in a row, each joined to the next one."""
    pairs = [
        (at * size + a, at * size + b) for at in range(count) for a in range(size) for b in range(a)
    ]
    pairs += [(at * size, (at + 1) * size) for at in range(count - 1)]
    return np.array(pairs, dtype=np.int64)


def arrays(count: int = 3, size: int = 8) -> dict[str, Any]:
    """A graph of cliques, one class each, with features and a split."""
    nodes = count * size
    x = np.random.default_rng(1).normal(size=(nodes, 5)).astype(np.float32)
    x[np.arange(nodes), np.arange(nodes) // size] += 2
    place = np.arange(nodes) % size
    return {
        "edges": cliques(count, size),
        "x": x,
        "y": np.arange(nodes) // size,
        "train": place < 2,
        "val": (place >= 2) & (place < 4),
        "test": place >= 4,
    }


@pytest.fixture
def data() -> dict[str, Any]:
    return arrays()


@pytest.fixture
def graph() -> ignn.Graph:
    return ignn.Graph.from_edges(**arrays())


@pytest.fixture
def binary() -> str:
    """The command line of the same version."""
    path = os.environ.get("IGNN_BINARY", "")
    if not Path(path).is_file():
        pytest.skip("IGNN_BINARY does not name the program ignn")
    return path


QUICK = {"model.state": 8, "train.epochs": 12}
