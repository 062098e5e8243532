"""Training with the settings of the command line: in memory, or in a run directory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import _arrays, _ignn, _page
from ._graph import Graph, PathLike, native, paths
from ._listener import Callback, Listener, errors_in_python, logger
from ._model import Model


def _as_text(value: object) -> str:
    """A value as the command line takes it."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (list, tuple, np.ndarray)):
        return f"[{', '.join(_as_item(item) for item in value)}]"
    return str(value)


def _as_item(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else _as_text(value)


def _sets(settings: Mapping[str, object] | None) -> list[str]:
    if settings is not None and not isinstance(settings, Mapping):
        raise TypeError(f"settings: expected a dict such as {{'model.state': 64}}, found {settings!r}")
    return [f"{key}={_as_text(value)}" for key, value in (settings or {}).items()]


def settings(
    values: Mapping[str, object] | None = None,
    *,
    preset: str | None = None,
    config: PathLike | None = None,
) -> dict[str, dict[str, Any]]:
    """The resolved settings by section and key: defaults, `preset`, file `config`, then `values`.

    >>> import ignn
    >>> ignn.settings({"model.state": 64})["model"]["state"]
    [64]
    >>> ignn.settings({"model.stat": 64})
    Traceback (most recent call last):
    ValueError: model.stat=64: key "model.stat" is not known (did you mean model.state?)
    """
    return _checked(_sets(values), preset, config)


def _checked(
    sets: Sequence[str], preset: str | None, config: PathLike | None
) -> dict[str, dict[str, Any]]:
    file = None if config is None else os.fspath(config)
    with errors_in_python():
        return _ignn.check_settings(list(sets), preset=preset, config=file)


class Run:
    """Training that has ended: the model of the best epoch, and a record of every epoch."""

    def __init__(self, native: _ignn.Run) -> None:
        self._native = native
        #: The model of the best epoch on the validation part; the last one without such a part.
        self.model = Model(native.model())
        #: One record per epoch, as in `metrics.jsonl`.
        self.history: list[dict[str, Any]] = native.history()
        #: The figures of a run in a directory, as in `run.json`; None in memory.
        self.figures: dict[str, Any] | None = native.figures()

    @property
    def directory(self) -> Path | None:
        """Where it is kept; None in memory."""
        return None if self._native.directory is None else Path(self._native.directory)

    @property
    def ended(self) -> str:
        """Why it ended: "epochs", "patience", "stopped" or "collapsed"."""
        return self._native.ended

    @property
    def best_epoch(self) -> int | None:
        """The epoch of the model; None without a validation part."""
        return self._native.best_epoch

    def report(self, out: PathLike, *, title: str | None = None, force: bool = False) -> Path:
        """Writes the run as an HTML page."""
        if self.directory is None:
            raise ValueError("report: the run has no directory: train with out=DIRECTORY")
        return report(self.directory, out, title=title, force=force)

    def __copy__(self) -> Run:
        return self

    def __deepcopy__(self, memo: object) -> Run:
        return self

    def _rows(self) -> list[tuple[str, object]]:
        rows: list[tuple[str, object]] = [("epochs", len(self.history) - 1), ("ended", self.ended)]
        if self.best_epoch is not None:
            rows.append(("best epoch", self.best_epoch))
            record = next(it for it in self.history if it["epoch"] == self.best_epoch)
            for part in ("validation", "test"):
                for score, value in (record.get(part) or {}).items():
                    if value is not None:
                        rows.append((f"{part} {score.replace('_', ' ')}", f"{value:.4f}"))
        if self.directory is not None:
            rows.append(("directory", self.directory))
        return rows

    def __repr__(self) -> str:
        return f"Run({', '.join(f'{name}: {value}' for name, value in self._rows())})"

    def _repr_html_(self) -> str:
        losses = [(record.get("validation") or {}).get("loss") for record in self.history]
        known = [loss for loss in losses if loss is not None]
        title = "validation loss" if known else "training loss"
        values = losses if known else [record.get("loss") for record in self.history]
        return _page.table("Run", self._rows(), _page.curve(values, title))


def train(
    graph: Graph,
    settings: Mapping[str, object] | None = None,
    *,
    preset: str | None = None,
    config: PathLike | None = None,
    seed: int | None = None,
    out: PathLike | None = None,
    init: PathLike | None = None,
    force: bool = False,
    memory: int | str | None = None,
    callback: Callback | None = None,
    quiet: bool = False,
) -> Run:
    """Trains a model on the split of a graph.

    With `out`, everything is kept in a run directory, as by `ignn train`, with the same bytes.
    Ctrl-C raises `KeyboardInterrupt` at once; the current epoch is finished in the background, a
    checkpoint is written, and :func:`ignn.resume` continues the run.

    Args:
        settings: settings by key, such as ``{"model.state": 64, "train.epochs": 200}``; the keys of
            `ignn train --list`.
        preset: built-in settings to start from.
        config: a TOML file of settings.
        out: the run directory to create.
        init: start from the parameters of this model file or run.
        seed: the setting `train.seed`.
        force: replace an existing run.
        memory: refuse to train if that takes more, such as "2GiB" [default: half of the machine's].
        callback: called with the record of each epoch; training stops if it returns True.
        quiet: no progress.

    >>> import ignn
    >>> graph = ignn.Graph.from_edges([[0, 1, 3, 4], [1, 2, 4, 5]], y=[0, 0, 0, 1, 1, 1],
    ...                               train=[0, 3], test=[2, 5])
    >>> run = ignn.train(graph, {"model.state": 4, "train.epochs": 5}, quiet=True)
    >>> len(run.history), run.ended
    (6, 'epochs')
    """
    sets = _sets(settings) + ([] if seed is None else [f"train.seed={seed}"])
    return _train(
        graph,
        sets,
        preset=preset,
        config=config,
        out=out,
        init=init,
        force=force,
        memory=memory,
        callback=callback,
        quiet=quiet,
    )


def _train(
    graph: Graph,
    sets: Sequence[str],
    *,
    preset: str | None = None,
    config: PathLike | None = None,
    out: PathLike | None = None,
    init: PathLike | None = None,
    force: bool = False,
    memory: int | str | None = None,
    callback: Callback | None = None,
    quiet: bool = True,
    parts: tuple[Any, Any, Any] | None = None,
) -> Run:
    own, resolved = native(graph), _checked(sets, preset, config)
    if out is not None and graph.is_temporary:
        logger.warning(
            "%s: the dataset goes with this process, and the run cannot be resumed after it: make "
            "the graph with out=DIRECTORY",
            graph.path,
        )
    epochs = int(resolved["train"]["epochs"])
    with Listener("epoch", epochs, callback, quiet=quiet) as listener:
        made = _ignn.train(
            own,
            list(sets),
            preset=preset,
            config=None if config is None else os.fspath(config),
            out=None if out is None else os.fspath(out),
            force=force,
            init=None if init is None else os.fspath(init),
            memory_limit=_arrays.memory_bytes(memory),
            parts=parts,
            listener=listener,
        )
    return Run(made)


def resume(
    directory: PathLike,
    *,
    graph: Graph | None = None,
    epochs: int | None = None,
    memory: int | str | None = None,
    callback: Callback | None = None,
    quiet: bool = False,
) -> Run:
    """Continues a run from its last checkpoint, with the same bits as without an interruption.

    Args:
        directory: the run directory.
        graph: the dataset, if it has moved.
        epochs: another total number of epochs.
        memory, callback, quiet: as :func:`train` has them.
    """
    with Listener("epoch", epochs, callback, quiet=quiet) as listener:
        made = _ignn.resume(
            os.fspath(directory),
            graph=None if graph is None else native(graph),
            epochs=epochs,
            memory_limit=_arrays.memory_bytes(memory),
            listener=listener,
        )
    return Run(made)


def report(
    runs: PathLike | Sequence[PathLike],
    out: PathLike,
    *,
    title: str | None = None,
    classes: bool = True,
    force: bool = False,
) -> Path:
    """Writes run directories, or cross-validations, as one HTML page, and returns its path.

    Args:
        runs: one directory or several.
        out: the file to write.
        title: the heading of the page.
        classes: whether it has tables of classes.
        force: replace an existing file.
    """
    if not paths(runs):
        raise ValueError("runs: expected at least one directory")
    with Listener("report", quiet=True) as listener:
        _ignn.report(
            paths(runs), os.fspath(out), title=title, classes=classes, force=force, listener=listener
        )
    return Path(out)
