"""Graphs: from arrays, tables, raw files and dataset directories."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from . import _arrays, _ignn, _page
from ._arrays import Array, ArrayLike
from ._listener import Listener

Normalise: TypeAlias = Literal["renorm", "row", "none"]
Duplicates: TypeAlias = Literal["max", "sum", "first", "error"]
SelfLoops: TypeAlias = Literal["drop", "keep"]
Numbers: TypeAlias = Literal["standardised", "plain"]
Missing: TypeAlias = Literal["mean", "refuse"]
PathLike: TypeAlias = "str | os.PathLike[str]"
#: Whose encoding of tables is used: a graph, a model, an estimator, a run, or the path of one.
Encoder: TypeAlias = Any


@dataclass(frozen=True)
class Relation:
    """A relation of a graph, as it is stored: rows are the nodes that edges come in at.

    With normalise "renorm", the entry of an edge from i to j is ``scale[j] * value * scale[i]``, with
    "row" it is ``value * scale[i]``, and without a scale it is the value.

    All arrays are read-only views of the mapped file.
    """

    name: str
    #: Start of each row in `indices`, and the end.
    indptr: npt.NDArray[np.uint64]
    #: The neighbours of each row.
    indices: npt.NDArray[np.uint32]
    #: The stored values; None where all are 1.
    values: npt.NDArray[np.float32] | None
    #: One factor per node; None where the matrix is not normalised.
    scale: npt.NDArray[np.float32] | None


class Items:
    """Some items of a graph: nodes, or the graphs of a collection.

    It behaves like an array of items, so that scikit-learn can cut it into folds:
    ``GridSearchCV(IgnnClassifier(), grid).fit(graph.items[known], y[known])``.

    >>> import ignn
    >>> graph = ignn.Graph.from_edges([[0, 1, 2], [1, 2, 3]])
    >>> graph.items[1:3]
    Items(2 of 4 nodes)
    """

    def __init__(self, graph: Graph, indices: Array | None = None) -> None:
        self.graph = graph
        count = graph.num_items
        self.indices = np.arange(count) if indices is None else np.asarray(indices)

    @property
    def shape(self) -> tuple[int]:
        """The number of items."""
        return (len(self.indices),)

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, key: Any) -> Items:
        return Items(self.graph, np.atleast_1d(self.indices[key]))

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices.tolist())

    def __repr__(self) -> str:
        item = "graphs" if self.graph.is_collection else "nodes"
        return f"Items({len(self)} of {self.graph.num_items} {item})"


class Graph:
    """A graph with its features, labels and splits: an open dataset directory.

    Made by :meth:`from_edges`, :meth:`from_relations`, :func:`ignn.ingest` or :func:`ignn.open`.
    Nothing changes it; copies share everything.
    """

    def __init__(self, native: _ignn.Graph) -> None:
        if not isinstance(native, _ignn.Graph):
            makers = "Graph.from_edges, Graph.from_tables, ignn.ingest or ignn.open"
            raise TypeError(f"a graph is made by {makers}, found {type(native)}")
        self._native = native
        self._layers: dict[str, _ignn.Layer] = {}

    @classmethod
    def from_edges(
        cls,
        edges: ArrayLike,
        *,
        x: ArrayLike | None = None,
        y: ArrayLike | None = None,
        train: ArrayLike | None = None,
        val: ArrayLike | None = None,
        test: ArrayLike | None = None,
        split: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        source: str | None = None,
        target: str | None = None,
        weight: str | None = None,
        nodes: int | None = None,
        ids: ArrayLike | None = None,
        classes: Sequence[str] | None = None,
        task: _arrays.Task = "auto",
        directed: bool = False,
        normalise: Normalise = "renorm",
        duplicates: Duplicates = "max",
        self_loops: SelfLoops = "drop",
        out: PathLike | None = None,
        force: bool = False,
        memory: int | str | None = None,
    ) -> Graph:
        """A graph from edges in memory.

        Args:
            edges: an array of shape (2, edges), as in PyTorch Geometric, or (edges, 2); a pair of
                columns; a sparse matrix of SciPy; or a table of pandas, polars or Arrow with the
                columns `source` and `target`. Node numbers count from 0; text is a name.
            x: features, one row per node: an array, a tensor, a table of numbers or a sparse matrix.
            y: labels: classes as numbers or names, one column of 0 and 1 per class, or numbers to
                predict. Negative classes, NaN and None are nodes without a label.
            train, val, test: parts of the split: masks, indices, or stacks of masks for several
                splits, which are named "0", "1", ...
            split: the part of each node by name, instead of `train`, `val` and `test`.
            weights: one weight per edge.
            source, target, weight: columns of a table of edges [default: usual names, such as
                "source", "src" or "from", or else the first two, with a note].
            nodes: number of nodes [default: as many as `x`, `y` or the edges have].
            ids: names of the nodes, in the order of `x` and `y`; edges are in these names.
            classes: names of the classes, in their order.
            task: "regression" to predict whole numbers as numbers [default: "auto", a regression if
                `y` has numbers that are not whole].
            directed: keep the direction of edges.
            normalise: "renorm" for D^-1/2 (A + I) D^-1/2, "row" for D^-1 A, or "none".
            duplicates: of an edge given several times, keep the largest weight, the sum or the
                first, or refuse it.
            self_loops: "drop" or "keep" edges from a node to itself.
            out: the dataset directory to create [default: a temporary one that goes with the graph].
            force: replace an existing dataset.
            memory: bytes, or text such as "2GiB" [default: half of the machine's].

        >>> import numpy as np, ignn
        >>> graph = ignn.Graph.from_edges(np.array([[0, 1, 2], [1, 2, 0]]), y=["a", "a", "b"])
        >>> graph.num_nodes, graph.classes.tolist()
        (3, ['a', 'b'])
        """
        own = _arrays.Edges(edges, weights, source, target, weight)
        return cls._build(
            {"edges": own},
            {"directed": directed, "normalise": normalise, "duplicates": duplicates}
            | {"self_loops": self_loops},
            x=x,
            y=y,
            parts={"train": train, "validation": val, "test": test},
            split=split,
            nodes=nodes,
            ids=ids,
            classes=classes,
            task=task,
            out=out,
            force=force,
            memory=memory,
        )

    @classmethod
    def from_relations(
        cls,
        relations: Mapping[str, ArrayLike],
        *,
        x: ArrayLike | None = None,
        y: ArrayLike | None = None,
        train: ArrayLike | None = None,
        val: ArrayLike | None = None,
        test: ArrayLike | None = None,
        split: ArrayLike | None = None,
        weights: Mapping[str, ArrayLike] | None = None,
        nodes: int | None = None,
        ids: ArrayLike | None = None,
        classes: Sequence[str] | None = None,
        task: _arrays.Task = "auto",
        directed: bool = False,
        normalise: Normalise = "renorm",
        duplicates: Duplicates = "max",
        self_loops: SelfLoops = "drop",
        out: PathLike | None = None,
        force: bool = False,
        memory: int | str | None = None,
    ) -> Graph:
        """A graph with several relations among the same nodes.

        Each relation has edges as in :meth:`from_edges`, which explains the other arguments.
        `weights` are those of some relations, by name.

        >>> import ignn
        >>> graph = ignn.Graph.from_relations({"cites": [[0, 1], [1, 2]], "likes": [[0], [2]]})
        >>> [relation.name for relation in graph.relations]
        ['cites', 'likes']
        """
        if not isinstance(relations, Mapping):
            raise TypeError(f"relations: expected a dict of edges by name, found {type(relations)}")
        twice = [name for name in relations if sum(str(name) == str(it) for it in relations) > 1]
        if twice:
            raise ValueError(f"relations: {str(twice[0])!r} is given twice")
        weights = weights or {}
        unknown = [name for name in weights if name not in relations]
        if unknown:
            raise ValueError(f"weights: no relation {unknown[0]!r} (found {', '.join(relations)})")
        if not relations:
            raise ValueError("relations: expected at least one")
        own = {
            str(name): _arrays.Edges(edges, weights.get(name)) for name, edges in relations.items()
        }
        return cls._build(
            own,
            {"directed": directed, "normalise": normalise, "duplicates": duplicates}
            | {"self_loops": self_loops},
            x=x,
            y=y,
            parts={"train": train, "validation": val, "test": test},
            split=split,
            nodes=nodes,
            ids=ids,
            classes=classes,
            task=task,
            out=out,
            force=force,
            memory=memory,
        )

    @classmethod
    def from_tables(
        cls,
        edges: ArrayLike,
        nodes: ArrayLike,
        *,
        features: str | Sequence[str] | None = None,
        label: str | None = None,
        regress: str | None = None,
        split_column: str | Sequence[str] = (),
        draw: str | Sequence[str] = (),
        id_column: str | None = None,
        source: str | None = None,
        target: str | None = None,
        weight: str | None = None,
        categories: Sequence[str] = (),
        numbers: Numbers | None = None,
        words: str | None = None,
        missing: Missing | None = None,
        encode_as: Encoder = None,
        directed: bool = False,
        normalise: Normalise = "renorm",
        seed: int = 0,
        out: PathLike | None = None,
        force: bool = False,
        memory: int | str | None = None,
    ) -> Graph:
        """A graph from a table of edges and a table of nodes, of pandas, polars or Arrow.

        Columns of the table of nodes become features: numbers are standardised, words become
        one-hot columns, missing values the mean. The dataset and its models keep the encoding, and
        `encode_as` applies it to new tables. It is :func:`ignn.ingest` of both tables as files. Train
        on such graphs with ``input="both"``, so that a node reads its own columns too.

        Args:
            features: names of columns, or "all" for all that have no other use.
            label: the column of classes.
            regress: the column of numbers to predict.
            split_column: the column of parts, such as train, val and test.
            draw: random splits instead, such as "train=0.6,val=0.2,test=0.2".
            id_column: the column of ids [default: "node", "id" or "node_id", or else the first one,
                with a note].
            source, target, weight: columns of the edges, as in :meth:`from_edges`.
            categories: columns of codes, whose numbers are read as words. Categorical columns always
                are.
            numbers: "standardised" (default) or "plain".
            words: "auto" (default), "one-hot", "hashed" or "hashed:64".
            missing: "mean" (default) or "refuse".
            encode_as: encode the table as this graph, model, estimator or run does, or one at this
                path, instead of `features` and the other options of columns.
            seed: of `draw`.
            directed, normalise, out, force, memory: as in :meth:`from_edges`.

        >>> import ignn
        >>> people = {"id": ["ann", "bob", "eve"], "age": [31, None, 40], "city": ["Ulm", "Rom", "Ulm"],
        ...           "team": ["red", "red", "blue"], "part": ["train", "test", "train"]}
        >>> edges = {"source": ["ann", "bob"], "target": ["bob", "eve"]}
        >>> graph = ignn.Graph.from_tables(edges, people, features="all", label="team",
        ...                                split_column="part")
        >>> graph.classes.tolist(), graph.num_nodes
        (['blue', 'red'], 3)
        """
        options: dict[str, Any] = {
            "out": out,
            "features": features,
            "label": _name(label),
            "regress": regress,
            "split_column": split_column,
            "draw": draw,
            "id_column": _name(id_column),
            "source": _name(source),
            "target": _name(target),
            "weight": _name(weight),
            "header": True,
            "categories": [str(name) for name in categories],
            "numbers": numbers,
            "words": words,
            "missing": missing,
            "encode_as": encode_as,
            "directed": directed,
            "normalise": normalise,
            "seed": seed,
            "force": force,
            "memory": memory,
        }
        nodes = _arrays.with_ids(nodes)
        with tempfile.TemporaryDirectory() as folder:
            files = {name: os.path.join(folder, f"{name}.csv") for name in ("edges", "nodes")}
            columns = _arrays.write_table("edges", edges, files["edges"])
            if source is None or target is None:
                _arrays.edge_columns(columns, options["source"], options["target"], options["weight"])
            columns = _arrays.write_table("nodes", nodes, files["nodes"])
            ids = _arrays.id_column(columns) if id_column is None else str(id_column)
            if encode_as is None:
                used = {ids, options["label"], _name(regress), *_listed(split_column)}
                found = _feature_columns(columns, features, used)
                options["categories"] += _arrays.words_of("nodes", nodes, found)

            def shown(text: str) -> str:
                return _arrays.name_tables(text, files)

            given = (ingest.__kwdefaults__ or {}) | options | {"nodes": files["nodes"]}
            with Listener("ingest", quiet=True, shown=shown) as listener:
                return _ingest(files["edges"], given, listener)

    @classmethod
    def _build(
        cls,
        relations: Mapping[str, _arrays.Edges],
        options: Mapping[str, Any],
        *,
        x: ArrayLike | None,
        y: ArrayLike | None,
        parts: Mapping[str, ArrayLike | None],
        split: ArrayLike | None,
        nodes: int | None,
        ids: ArrayLike | None,
        classes: Sequence[str] | None,
        task: _arrays.Task,
        out: PathLike | None,
        force: bool,
        memory: int | str | None,
        graphs: Any = None,
    ) -> Graph:
        names: _arrays.Ids | None = None if ids is None else _arrays.Ids(ids)
        edges = list(relations.values())
        if names is None and any(own.names_nodes for own in edges):
            if x is not None or y is not None or split is not None:
                raise ValueError(
                    "ids: nodes have names, so the rows of x and y need ids, in the same order"
                )
            names = _arrays.Ids.of([side for own in edges for side in (own.sources, own.targets)])
        if names is not None:
            for own in edges:
                own.number(names)
        features = None if x is None else _arrays.features(x)
        labels = None if y is None else _arrays.labels(y, classes, task)
        if nodes is not None and not (isinstance(nodes, Real) and nodes >= 0 and nodes % 1 == 0):
            raise ValueError(f"nodes: expected how many there are, found {nodes}")
        count = cls._count(edges, features, labels, names) if nodes is None else int(nodes)
        if nodes is None and names is None and (features is not None or labels is not None):
            highest = max(own.highest() for own in edges)
            if highest >= count:
                rows = "x" if features is not None else "y"
                raise ValueError(
                    f"{rows}: expected one row per node, found {count}, but edges have node {highest}"
                )
        splits = _arrays.splits(count, parts, split)
        arrays = [
            (name, *own.columns(), own.weights, dict(options)) for name, own in relations.items()
        ]
        with Listener("edges", quiet=True) as listener:
            native = _ignn.build(
                count,
                arrays,
                ids=None if names is None else names.texts(),
                features=features,
                labels=labels,
                splits=splits,
                graphs=graphs,
                out=None if out is None else os.fspath(out),
                force=force,
                memory_limit=_arrays.memory_bytes(memory),
                listener=listener,
            )
        return cls(native)

    @staticmethod
    def _count(
        edges: Sequence[_arrays.Edges],
        features: Any,
        labels: _arrays.LabelArrays | None,
        names: _arrays.Ids | None,
    ) -> int:
        if names is not None:
            return len(names.values)
        if features is not None:
            return _arrays.rows_of(features)
        if labels is not None:
            return _arrays.label_count(labels)
        highest = max(own.highest() for own in edges)
        if highest > 1_000_000 + 1000 * sum(len(own.sources) for own in edges):
            raise ValueError(
                f"edges: node number {highest} is far above the number of edges: numbers count from "
                "0; if these are ids, pass ids=numpy.unique(edges), or else the number of nodes"
            )
        return max([highest + 1] + [own.nodes or 0 for own in edges])

    @property
    def path(self) -> Path:
        """The dataset directory."""
        return Path(self._native.path)

    @property
    def is_temporary(self) -> bool:
        """Whether the directory is removed with the graph."""
        return self._native.is_temporary

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """What the dataset contains and how it was made."""
        return self._native.manifest()

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self._native.nodes

    @property
    def num_edges(self) -> int:
        """Number of edges over all relations; an undirected one counts once."""
        count = 0
        for entry in self.manifest["relations"]:
            off_diagonal = entry["nonzeros"] - entry["diagonal"]
            count += off_diagonal // 2 if entry["symmetric"] else off_diagonal
        return count

    @property
    def is_collection(self) -> bool:
        """Whether it consists of many graphs that have labels."""
        graphs = self.manifest.get("graphs")
        return graphs is not None and bool(graphs["classes"])

    @property
    def num_items(self) -> int:
        """Number of nodes, or of graphs where these have the labels."""
        return int(self.manifest["graphs"]["count"]) if self.is_collection else self.num_nodes

    @property
    def items(self) -> Items:
        """The nodes, or the graphs where these have the labels, as scikit-learn takes them."""
        return Items(self)

    @cached_property
    def _labels(self) -> tuple[list[str], Array, tuple[Array, Array] | None] | None:
        if self.is_collection:
            collection = self._native.collection()
            return None if collection is None else (collection[2], collection[3], None)
        return self._native.labels()

    @property
    def is_regression(self) -> bool:
        """Whether items have numbers instead of classes."""
        return self._labels is not None and self._labels[1].dtype.kind == "f"

    @property
    def classes(self) -> Array:
        """The classes, in their order: integers if all of them are."""
        if self.is_regression:
            return np.array([], dtype=str)
        return _arrays.class_values([] if self._labels is None else self._labels[0])

    @property
    def y(self) -> Array | None:
        """The class of each item by its position, -1 for no label; one column of 0 and 1 per class
        for sets, -1 in all of them for no label; or the number of each, NaN for none."""
        if self._labels is None:
            return None
        classes, of, kept = self._labels
        if kept is None:
            return of
        offsets, labelled = kept
        sets = np.zeros((len(offsets) - 1, len(classes)), dtype=np.int8)
        ends = offsets.astype(np.int64)
        rows = np.repeat(np.arange(len(offsets) - 1), ends[1:] - ends[:-1])
        sets[rows, of] = 1
        sets[labelled == 0] = -1
        return sets

    @property
    def x(self) -> Any:
        """The features: an array, or offsets, columns, values and width of sparse ones, or None."""
        return self._native.features()

    @property
    def ids(self) -> Array:
        """The original ids of the nodes."""
        return np.asarray(self._native.ids())

    @property
    def relations(self) -> list[Relation]:
        """The relations, by incoming edges, as views of the mapped files."""
        names = [entry["name"] for entry in self.manifest["relations"]]
        return [
            Relation(name, *self._native.adjacency(at)) for at, name in enumerate(names)
        ]

    def splits(self) -> dict[str, dict[str, Array]]:
        """The items of each part of each split.

        >>> import ignn
        >>> graph = ignn.Graph.from_edges([[0, 1], [1, 2]], train=[0], test=[2, 1])
        >>> {part: items.tolist() for part, items in graph.splits()["default"].items()}
        {'train': [0], 'test': [1, 2]}
        """
        collection = self._native.collection() if self.is_collection else None
        found = self._native.splits() if collection is None else collection[4]
        return {
            name: {part: np.flatnonzero(of == at) for at, part in enumerate(parts)}
            for name, parts, of in found
        }

    def verify(self) -> None:
        """Compares all files with their checksums."""
        self._native.verify()

    def _layer(self, phi: str) -> _ignn.Layer:
        """The solver of this graph; its bounds are computed once."""
        if phi not in self._layers:
            self._layers[phi] = _ignn.Layer(self._native, phi)
        return self._layers[phi]

    def __copy__(self) -> Graph:
        return self

    def __deepcopy__(self, memo: object) -> Graph:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.path),)

    def __len__(self) -> int:
        return self.num_items

    def _rows(self) -> list[tuple[str, object]]:
        rows: list[tuple[str, object]] = [("nodes", f"{self.num_nodes:,}")]
        rows.append(("edges", f"{self.num_edges:,}"))
        relations = [entry["name"] for entry in self.manifest["relations"]]
        if len(relations) > 1:
            rows.append(("relations", ", ".join(relations)))
        if self.manifest.get("graphs"):
            rows.append(("graphs", f"{self.manifest['graphs']['count']:,}"))
        features = self.manifest.get("features")
        rows.append(("features", "none" if features is None else f"{features['columns']:,}"))
        if self.is_regression and self._labels is not None:
            rows.append(("numbers", self._labels[0][0]))
        else:
            rows.append(("classes", len(self.classes) or "none"))
        owner = self.manifest["graphs"] if self.is_collection else self.manifest
        listed = owner.get("splits") or []
        for split in listed[:1]:
            parts = ", ".join(f"{name} {count:,}" for name, count in split["parts"])
            rows.append(("split", parts if len(listed) == 1 else f"{len(listed)} splits: {parts}"))
        return rows

    def __repr__(self) -> str:
        values = ", ".join(f"{name}: {value}" for name, value in self._rows())
        return f"{type(self).__name__}({values})"

    def _repr_html_(self) -> str:
        return _page.table(type(self).__name__, self._rows())


class Graphs(Graph):
    """Many graphs, each with a label: for the classification of whole graphs.

    >>> import numpy as np, ignn
    >>> ring = np.array([[0, 1, 2], [1, 2, 0]])
    >>> path = np.array([[0, 1], [1, 2]])
    >>> graphs = ignn.Graphs.from_list([ring, path], y=["ring", "path"], train=[0], test=[1])
    >>> len(graphs), graphs.num_nodes
    (2, 6)
    """

    @classmethod
    def from_list(
        cls,
        graphs: Sequence[ArrayLike],
        *,
        x: Sequence[ArrayLike] | None = None,
        y: ArrayLike | None = None,
        nodes: Sequence[int] | None = None,
        train: ArrayLike | None = None,
        val: ArrayLike | None = None,
        test: ArrayLike | None = None,
        split: ArrayLike | None = None,
        ids: Sequence[str] | None = None,
        classes: Sequence[str] | None = None,
        task: _arrays.Task = "auto",
        directed: bool = False,
        normalise: Normalise = "none",
        duplicates: Duplicates = "max",
        self_loops: SelfLoops = "drop",
        out: PathLike | None = None,
        force: bool = False,
        memory: int | str | None = None,
    ) -> Graphs:
        """Many graphs from the edges of each, numbered from 0 in each of them.

        Args:
            graphs: the edges of each graph, as :meth:`Graph.from_edges` takes them.
            x: the features of each graph's nodes; without them, the degree of each node.
            y: the label of each graph.
            nodes: number of nodes of each graph [default: as many as `x` or the edges have].
            train, val, test, split: parts of the graphs.
        """
        edges = [_arrays.Edges(own) for own in graphs]
        if any(own.names_nodes for own in edges):
            raise ValueError("graphs: expected node numbers, from 0 in each graph, found names")
        if x is not None and len(x) != len(edges):
            raise ValueError(f"x: expected one array for each of {len(edges)} graphs, found {len(x)}")
        features = None if x is None else [_arrays.features(own) for own in x]
        if nodes is not None:
            counts = [int(count) for count in nodes]
        elif features is not None:
            counts = [_arrays.rows_of(own) for own in features]
        else:
            counts = [own.highest() + 1 for own in edges]
        if len(counts) != len(edges) or min(counts, default=0) < 0:
            raise ValueError(f"nodes: expected {len(edges)} numbers of nodes, found {counts}")
        for at, (own, count) in enumerate(zip(edges, counts, strict=True)):
            lowest = min([int(side.min()) for side in (own.sources, own.targets) if len(side)] + [0])
            if own.highest() >= count or lowest < 0:
                found = lowest if lowest < 0 else own.highest()
                raise ValueError(
                    f"graph {at}: expected nodes from 0 to {count - 1} in its edges, found {found}"
                )
        first = np.zeros(len(edges) + 1, dtype=np.uint64)
        first[1:] = np.cumsum(counts)
        starts = first[:-1].astype(np.int64)
        shifted = [
            [side.astype(np.int64) + start for side in (own.sources, own.targets)]
            for own, start in zip(edges, starts, strict=True)
        ]
        empty = [np.zeros(0, dtype=np.int64)]
        sources = np.concatenate([own[0] for own in shifted] or empty)
        targets = np.concatenate([own[1] for own in shifted] or empty)
        if features is None:
            both = np.concatenate([sources, targets])
            all_features = np.bincount(both, minlength=int(first[-1])).astype(np.float32)[:, None]
        elif any(isinstance(own, tuple) for own in features):
            raise ValueError("x: expected dense features for each graph")
        elif len({own.shape[1] for own in features}) > 1:
            widths = sorted({own.shape[1] for own in features})
            raise ValueError(f"x: expected as many columns in each graph, found {widths}")
        else:
            all_features = np.concatenate(features)
        labels: _arrays.LabelArrays | None = None
        if y is not None:
            labels = _arrays.labels(y, classes, task)
            if isinstance(labels[1], tuple):
                raise ValueError("y: expected one class per graph, found sets of classes")
            if len(labels[1]) != len(edges):
                raise ValueError(f"y: expected {len(edges)} labels, found {len(labels[1])}")
        parts = {"train": train, "validation": val, "test": test}
        splits = _arrays.splits(len(edges), parts, split)
        texts = [str(at) for at in range(len(edges))] if ids is None else [str(it) for it in ids]
        if len(texts) != len(edges):
            raise ValueError(f"ids: expected one for each of {len(edges)} graphs, found {len(texts)}")
        made = cls._build(
            {"edges": _arrays.Edges((sources, targets))},
            {"directed": directed, "normalise": normalise, "duplicates": duplicates}
            | {"self_loops": self_loops},
            x=all_features,
            y=None,
            parts={},
            split=None,
            nodes=int(first[-1]),
            ids=None,
            classes=None,
            task="auto",
            out=out,
            force=force,
            memory=memory,
            graphs=(texts, first, labels, splits),
        )
        assert isinstance(made, Graphs)
        return made


def native(graph: Graph) -> _ignn.Graph:
    """The graph of the extension module."""
    if not isinstance(graph, Graph):
        found = f"found {type(graph)}: ignn.open opens a dataset directory"
        raise TypeError(f"expected an ignn.Graph, {found}")
    return graph._native


def paths(value: PathLike | Sequence[PathLike]) -> list[str]:
    """One path or several as texts."""
    if isinstance(value, (str, os.PathLike)):
        return [os.fspath(value)]
    if _arrays.column_names(value) is not None or isinstance(value, np.ndarray):
        raise TypeError(
            f"expected paths of files, found {type(value)}: Graph.from_tables and Graph.from_edges "
            "take tables"
        )
    return [os.fspath(path) for path in value]


def _optional(path: Any) -> str | None:
    return None if path is None else os.fspath(path)


def _listed(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else [str(name) for name in names]


def _feature_columns(
    columns: Sequence[str], features: str | Sequence[str] | None, used: set[str | None]
) -> list[str]:
    """The columns of a table that become features."""
    names = [] if features is None else _listed(features)
    if names == ["all"]:
        return [name for name in columns if name not in used]
    return [name for name in columns if name in names]


def _name(column: object) -> str | None:
    """The name of a column, which may be a number in pandas."""
    return None if column is None else str(column)


def _names(names: Any) -> list[str]:
    """Names of columns."""
    if isinstance(names, os.PathLike):
        raise ValueError("features: expected names of columns of the table of nodes, or 'all'")
    return [str(name) for name in names]


def _opened(native: _ignn.Graph) -> Graph:
    graph = Graph(native)
    return Graphs(native) if graph.is_collection else graph


def open(path: PathLike) -> Graph:  # noqa: A001
    """Opens a dataset directory, as `ignn ingest` and :meth:`Graph.from_edges` make it.

    >>> import ignn
    >>> ignn.open("nowhere")
    Traceback (most recent call last):
    FileNotFoundError: nowhere: not an ignn dataset: no such directory
    """
    return _opened(_ignn.Graph.open(os.fspath(path)))


#: Options of `ingest` for all kinds, and those that each kind has besides.
_ALL_KINDS = {"files", "out", "kind", "force", "memory", "quiet", "seed"}
_MATRIX = {"directed", "normalise", "duplicates", "self_loops"}
_OWN = {
    "relations": {"data", "encode_as"},
    "tu": _MATRIX | {"degree_features", "regress", "draw"},
    "dgcnn": _MATRIX,
    "graphsage": _MATRIX,
}


def _refuse_unused(kind: str, given: Mapping[str, object]) -> None:
    """Refuses options that the job of this kind does not have."""
    if kind not in ("edges", *_OWN):
        known = ", ".join(("edges", *_OWN))
        raise ValueError(f"kind: expected one of {known}, found {kind!r}")
    used = _ALL_KINDS | _OWN[kind] if kind in _OWN else given.keys() - {"data", "degree_features"}
    for name, default in (ingest.__kwdefaults__ or {}).items():
        if name not in used and given[name] is not default:
            raise ValueError(f"{name}: not an option of kind={kind!r}: leave it out")


def ingest(
    files: PathLike | Sequence[PathLike],
    *,
    out: PathLike | None = None,
    kind: Literal["edges", "relations", "tu", "dgcnn", "graphsage"] = "edges",
    features: PathLike | Sequence[str] | None = None,
    missing_features: Literal["error", "zero"] = "error",
    labels: PathLike | None = None,
    label: str | None = None,
    regress: str | int | None = None,
    split_column: str | Sequence[str] = (),
    id_column: str | None = None,
    categories: Sequence[str] = (),
    numbers: Numbers | None = None,
    words: str | None = None,
    missing: Missing | None = None,
    encode_as: Encoder = None,
    communities: PathLike | None = None,
    communities_top: int | None = None,
    communities_larger_than: int | None = None,
    splits: PathLike | Sequence[PathLike] = (),
    draw: str | Sequence[str] = (),
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    unweighted: bool = False,
    header: bool | None = None,
    ids: Literal["auto", "integer", "text"] = "auto",
    nodes: int | PathLike | None = None,
    nodes_file: PathLike | None = None,
    data: PathLike | None = None,
    degree_features: bool = False,
    directed: bool = False,
    normalise: Normalise = "renorm",
    duplicates: Duplicates = "max",
    self_loops: SelfLoops = "drop",
    seed: int = 0,
    force: bool = False,
    memory: int | str | None = None,
    quiet: bool = True,
) -> Graph:
    """Converts raw files to a dataset directory, in bounded memory, and opens it.

    The job of `ignn ingest`, with the same bytes and most of its options.

    Args:
        files: edge files (text, CSV, Parquet, Matrix Market; plain, gzip or zstd); for other kinds
            the specification (`relations`), the directory (`tu`, `graphsage`) or file (`dgcnn`).
        out: the dataset directory to create [default, for edges: a temporary one].
        nodes: the number of nodes, or a table with one row per node (CSV, TSV or Parquet).
        features: a file; or, of the table of nodes, names of columns or "all".
        missing_features: whether nodes without a row in the file are an "error" or have "zero".
        labels: a file of labels; with `label`, its column.
        label, regress, split_column, id_column: columns of the table: classes, numbers to predict,
            parts of splits, ids.
        numbers, words, missing, categories: how columns become features: "standardised" (default) or
            "plain"; "auto" (default), "one-hot", "hashed" or "hashed:64"; "mean" (default) or
            "refuse"; columns of codes.
        encode_as: encode the table as this graph, model, estimator or run does, or one at this path,
            instead.
        communities, communities_top, communities_larger_than: a file of communities as labels, and
            which of them count: the largest ones, or those with more members.
        splits: files of splits.
        draw: random splits by fractions, such as "train=0.06,test=0.10".
        source, target, weight, unweighted, header, ids: how edge files are read: names or positions
            of columns, whether the first line names them, and whether ids are integers or texts.
        nodes_file: a file that lists the nodes.
        data: the directory of the files that a specification names (`relations`).
        degree_features: the degree of each node as a feature (`tu`).
        directed, normalise, duplicates, self_loops: as in :meth:`Graph.from_edges`.
        seed: of `draw`.
        force: replace an existing dataset.
        memory: bytes, or text such as "2GiB" [default: half of the machine's].
        quiet: no progress.

    >>> import tempfile, pathlib, ignn
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "edges.csv").write_text("source,target\\nada,bob\\nbob,eve\\n")
    >>> graph = ignn.ingest(folder / "edges.csv", out=folder / "friends.ignn")
    >>> graph.ids.tolist()
    ['ada', 'bob', 'eve']
    """
    given = dict(locals())
    _refuse_unused(kind, given)
    with Listener("ingest", quiet=quiet) as listener:
        return _ingest(files, given, listener)


def _ingest(
    files: PathLike | Sequence[PathLike], given: Mapping[str, Any], listener: Listener
) -> Graph:
    """The job of :func:`ingest`, with its options by name."""
    encode_as = given["encode_as"]
    # The model of an estimator or a run.
    encode_as = getattr(encode_as, "model_", None) or getattr(encode_as, "model", encode_as)
    if isinstance(encode_as, Graph):
        return _ingest_as(files, given, listener, os.fspath(encode_as.path))
    if not hasattr(encode_as, "save"):
        return _ingest_as(files, given, listener, _optional(encode_as))
    with tempfile.TemporaryDirectory() as folder:
        encoded = os.path.join(folder, "encode_as")
        encode_as.save(encoded)
        return _ingest_as(files, given, listener, encoded)


def _ingest_as(
    files: PathLike | Sequence[PathLike],
    given: Mapping[str, Any],
    listener: Listener,
    encoded: str | None,
) -> Graph:
    kind, nodes, features = given["kind"], given["nodes"], given["features"]
    target_path, limit = _optional(given["out"]), _arrays.memory_bytes(given["memory"])
    relation = {name: given[name] for name in _MATRIX}
    common: dict[str, Any] = {"memory_limit": limit, "seed": given["seed"], "listener": listener}
    if kind == "edges":
        table = None if nodes is None or isinstance(nodes, int) else paths(nodes)[0]
        columns: list[str] | None = None
        if table is not None and features is not None:
            columns = [features] if isinstance(features, str) else list(_names(features))
        same = (
            *("communities_top", "communities_larger_than", "source", "target", "weight"),
            *("unweighted", "header", "ids", "id_column", "label", "numbers", "words", "missing"),
            "force",
        )
        options = relation | {name: given[name] for name in same}
        options |= {
            "features": None if table else _optional(features),
            "missing_features_zero": given["missing_features"] == "zero",
            "labels": _optional(given["labels"]),
            "communities": _optional(given["communities"]),
            "splits": paths(given["splits"]),
            "draw": _listed(given["draw"]),
            "nodes": nodes if isinstance(nodes, int) else None,
            "nodes_file": _optional(given["nodes_file"]),
            "table": table,
            "columns": columns,
            "regress": None if given["regress"] is None else str(given["regress"]),
            "split_column": _listed(given["split_column"]) or None,
            "categories": list(given["categories"]) or None,
            "encode_as": encoded,
        }
        return _opened(_ignn.ingest_edges(paths(files), target_path, options, **common))
    (path,) = paths(files)
    if target_path is None:
        raise ValueError(f"out: expected a directory to create for kind={kind!r}")
    common["force"] = given["force"]
    if kind == "relations":
        data = _optional(given["data"])
        native = _ignn.ingest_relations(path, target_path, data=data, encode_as=encoded, **common)
    else:
        native = _ignn.ingest_directory(
            kind,
            path,
            target_path,
            relation,
            degree_features=given["degree_features"],
            regress=None if given["regress"] is None else int(given["regress"]),
            draw=_listed(given["draw"]),
            **common,
        )
    return _opened(native)
