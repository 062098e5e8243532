"""What holds for the process: signals, the GIL, forks, threads, the time of an import."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import QUICK

import ignn


def slow_graph(path: Path | None = None) -> ignn.Graph:
    """A graph whose epochs take a while."""
    rng = np.random.default_rng(0)
    nodes = 20_000
    edges = rng.integers(0, nodes, size=(2, 10 * nodes))
    y = rng.integers(0, 4, nodes)
    x = rng.normal(size=(nodes, 8)).astype(np.float32)
    place = np.arange(nodes)
    return ignn.Graph.from_edges(
        edges, x=x, y=y, train=place % 3 == 0, val=place % 3 == 1, test=place % 3 == 2, out=path
    )


SLOW = {"model.state": 64, "train.epochs": 1_000_000, "solver.tolerance": 1e-7}


def test_ctrl_c_stops_at_once_and_leaves_a_checkpoint(tmp_path: Path) -> None:
    graph = slow_graph(tmp_path / "g.ignn")
    sent: list[float] = []

    def interrupt() -> None:
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    started = threading.Event()

    def watch(_: Any) -> None:
        if not started.is_set():
            started.set()
            threading.Timer(0.3, interrupt).start()

    with pytest.raises(KeyboardInterrupt):
        ignn.train(graph, SLOW, out=tmp_path / "run", callback=watch, quiet=True)
    # Measured times are in the docs; a test does not fail because the machine is busy.
    assert time.monotonic() - sent[0] < 60, "it waited for the end of the training"
    ignn.wait()
    assert (tmp_path / "run" / "checkpoint" / "state.safetensors").is_file()
    epochs = len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    run = ignn.resume(tmp_path / "run", epochs=epochs, quiet=True)
    assert len(run.history) == epochs + 1


def test_ctrl_c_stops_a_solve() -> None:
    graph = slow_graph()
    w, b = np.eye(64) * 0.999, np.ones((graph.num_nodes, 64))
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        while True:
            ignn.solve(graph, w, b, phi="tanh", method="plain", tolerance=1e-30, max_sweeps=10_000)
    ignn.wait()


def test_other_threads_run_while_the_engine_works() -> None:
    graph = slow_graph()
    ticks: list[float] = []
    done = threading.Event()

    def tick() -> None:
        while not done.is_set():
            ticks.append(time.monotonic())
            done.wait(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    before = time.monotonic()
    ignn.train(graph, SLOW | {"train.epochs": 1}, quiet=True)
    after = time.monotonic()
    done.set()
    thread.join()
    during = sum(before < tick < after for tick in ticks)
    assert during >= 2, "the GIL was held"


def test_other_threads_run_while_an_interrupted_call_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Edges are read in place, so that the call waits for the end of the work, without the GIL."""
    left: list[float] = []

    def interrupt(self: Any, what: str, value: Any) -> bool:
        if what == "phase" and value[0].startswith("sort"):
            left.append(time.monotonic())
            raise KeyboardInterrupt
        return False

    monkeypatch.setattr(ignn._listener.Listener, "__call__", interrupt)  # type: ignore[attr-defined]
    edges = np.random.default_rng(0).integers(0, 300_000, size=(2, 3_000_000))
    ticks: list[float] = []
    done = threading.Event()

    def tick() -> None:
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.0001)

    thread = threading.Thread(target=tick)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        ignn.Graph.from_edges(edges)
    end = time.monotonic()
    done.set()
    thread.join()
    assert sum(left[0] < tick < end for tick in ticks) >= 2, "the GIL was held"


def test_threads_train_at_the_same_time(graph: ignn.Graph) -> None:
    results: list[list[list[float]]] = []

    def work() -> None:
        model = ignn.train(graph, QUICK, quiet=True).model
        results.append(model.predict(graph).logits.tolist())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and all(result == results[0] for result in results)


def test_results_do_not_depend_on_the_number_of_threads(graph: ignn.Graph) -> None:
    before, found = ignn.threads(), []
    try:
        for threads in (1, 3):
            ignn.set_threads(threads)
            assert ignn.threads() == threads
            found.append(ignn.train(graph, QUICK, quiet=True).model.predict(graph).logits.tolist())
    finally:
        ignn.set_threads(before)
    assert found[0] == found[1]
    for wrong in (0, -1, 10**6):
        with pytest.raises(ValueError, match="threads: expected 1 to"):
            ignn.set_threads(wrong)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_after_a_fit_works(graph: ignn.Graph) -> None:
    model = ignn.train(graph, QUICK, quiet=True).model
    expected = model.predict(graph).logits.tolist()
    child = os.fork()
    if child == 0:
        try:
            same = model.predict(graph).logits.tolist() == expected
            ignn.train(graph, QUICK, quiet=True)
            del graph
            os._exit(0 if same else 1)
        except BaseException:
            os._exit(2)
    hangs = threading.Timer(60, lambda: os.kill(child, signal.SIGKILL))
    hangs.start()
    _, status = os.waitpid(child, 0)
    hangs.cancel()
    assert os.waitstatus_to_exitcode(status) == 0
    assert graph.path.exists(), "the child has not removed the graph"
    assert model.predict(graph).logits.tolist() == expected


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_after_an_interrupted_call_does_not_wait_for_it() -> None:
    graph = slow_graph()
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        ignn.train(graph, SLOW | {"solver.tolerance": 1e-30, "solver.max_sweeps": 20}, quiet=True)
    child = os.fork()
    if child == 0:
        ignn.wait()
        os._exit(0)
    hangs = threading.Timer(60, lambda: os.kill(child, signal.SIGKILL))
    hangs.start()
    _, status = os.waitpid(child, 0)
    hangs.cancel()
    assert os.waitstatus_to_exitcode(status) == 0


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_an_import_is_quick_and_imports_nothing_unasked() -> None:
    """Measured times are in docs/results.md; what takes time is numpy, which comes with a use."""
    code = (
        "import sys, ignn; first = 'numpy' in sys.modules; ignn.Graph; ignn.IgnnClassifier; "
        "names = ('torch', 'sklearn', 'scipy', 'pandas', 'polars', 'pyarrow', 'tqdm'); "
        "ignn.solve; print(first, [name for name in names if name in sys.modules])"
    )
    assert run_python(code).stdout.strip() == "False []"


def test_an_interrupted_process_ends_with_its_checkpoint(tmp_path: Path) -> None:
    slow_graph(tmp_path / "g.ignn")
    code = f"""
import ignn, os, signal, threading
def first(record):
    threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    ignn.train(ignn.open({str(tmp_path / "g.ignn")!r}), {SLOW!r}, out={str(tmp_path / "run")!r},
               callback=first, quiet=True)
except KeyboardInterrupt:
    print("interrupted")
"""
    assert run_python(code).stdout == "interrupted\n"
    assert (tmp_path / "run" / "run.json").is_file()
