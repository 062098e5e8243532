"""Graphs from arrays and tables of every kind, and what is wrong with some."""

from __future__ import annotations

import copy
import gc
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import cliques

import ignn


def entries(graph: ignn.Graph, at: int = 0) -> set[tuple[int, int]]:
    relation = graph.relations[at]
    ends = relation.indptr.astype(np.int64)
    rows = np.repeat(np.arange(graph.num_nodes), ends[1:] - ends[:-1])
    return set(zip(rows.tolist(), relation.indices.tolist(), strict=True))


PAIRS = np.array([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]])


def tables() -> list[Any]:
    yield pytest.param(lambda: PAIRS, id="pairs")
    yield pytest.param(lambda: PAIRS.T.copy(), id="edge_index")
    yield pytest.param(lambda: np.asfortranarray(PAIRS), id="columns in memory")
    yield pytest.param(lambda: PAIRS[::-1], id="strided")
    for kind in ("int32", "uint32", "uint64", "int16"):
        yield pytest.param(lambda kind=kind: PAIRS.astype(kind), id=kind)
    yield pytest.param(lambda: (PAIRS[:, 0], PAIRS[:, 1]), id="two columns")
    yield pytest.param(lambda: PAIRS.tolist(), id="lists")

    def scipy() -> Any:
        sparse = pytest.importorskip("scipy.sparse")
        return sparse.csr_matrix((np.ones(len(PAIRS)), PAIRS.T), shape=(4, 4))

    def pandas() -> Any:
        found = pytest.importorskip("pandas")
        return found.DataFrame({"dst": PAIRS[:, 1], "src": PAIRS[:, 0]})

    def polars() -> Any:
        found = pytest.importorskip("polars")
        return found.DataFrame({"a": PAIRS[:, 0], "b": PAIRS[:, 1]})

    def arrow() -> Any:
        found = pytest.importorskip("pyarrow")
        return found.table({"from": PAIRS[:, 0], "to": PAIRS[:, 1]})

    def torch() -> Any:
        return pytest.importorskip("torch").tensor(PAIRS.T.copy())

    for table in (scipy, pandas, polars, arrow, torch):
        yield pytest.param(table, id=table.__name__)


@pytest.mark.parametrize("table", list(tables()))
def test_edges_of_every_kind(table: Any) -> None:
    graph = ignn.Graph.from_edges(table())
    expected = {(a, b) for pair in PAIRS.tolist() for a, b in (pair, pair[::-1])}
    assert entries(graph) == expected | {(node, node) for node in range(4)}
    assert (graph.num_nodes, graph.num_edges) == (4, 5)


def test_edges_of_networkx() -> None:
    networkx = pytest.importorskip("networkx")
    for size in (2, 3, 5):
        path = networkx.path_graph([f"n{at}" for at in range(size)])
        graph = ignn.Graph.from_edges(path.edges, ids=list(path))
        assert graph.num_edges == size - 1 and graph.ids.tolist() == list(path)
    assert ignn.Graph.from_edges(networkx.path_graph(3).edges()).num_edges == 2
    with pytest.raises(ValueError, match="found a graph of networkx: pass graph.edges and ids=list"):
        ignn.Graph.from_edges(path)


def test_node_numbers_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    build = ignn._graph._ignn.build  # type: ignore[attr-defined]

    def watch(nodes: int, relations: Any, **rest: Any) -> Any:
        seen.append((relations, rest))
        return build(nodes, relations, **rest)

    monkeypatch.setattr(ignn._graph._ignn, "build", watch)  # type: ignore[attr-defined]
    columns, pairs = cliques().T.copy(), cliques()
    x = np.ones((16, 3), dtype=np.float32)
    weights = np.ones(len(pairs), dtype=np.float32)
    ignn.Graph.from_edges(columns, x=x, weights=weights)
    ignn.Graph.from_edges(pairs)
    (((_, sources, targets, own, _),), rest), (((_, both, none, _, _),), _) = seen
    assert sources.ctypes.data == columns.ctypes.data
    assert targets.ctypes.data == columns[1].ctypes.data
    assert (both.ctypes.data, none) == (pairs.ctypes.data, None)
    assert own.ctypes.data == weights.ctypes.data
    assert rest["features"].ctypes.data == x.ctypes.data


def test_relations_are_views_of_the_file(graph: ignn.Graph) -> None:
    first, second = graph.relations[0], graph.relations[0]
    assert first.indices.ctypes.data == second.indices.ctypes.data
    assert not first.indices.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        first.indices[0] = 1
    kept = first.indices
    expected = kept.tolist()
    del first, second, graph
    gc.collect()
    assert kept.tolist() == expected


def test_predictions_are_views_of_the_engine(graph: ignn.Graph) -> None:
    model = ignn.train(graph, {"model.state": 8, "train.epochs": 2}, quiet=True).model
    predictions = model.predict(graph)
    for view in (predictions.logits, predictions.embeddings):
        assert not view.flags.writeable and not view.flags.owndata
    assert predictions.logits.ctypes.data == predictions.logits.ctypes.data
    states = model.embed(graph)
    assert states.flags.writeable and not states.flags.owndata
    states[:] = 1
    logits, expected = predictions.logits, predictions.logits.copy()
    del predictions
    gc.collect()
    assert np.array_equal(logits, expected)


def test_features_labels_and_splits_read_back(data: dict[str, Any], graph: ignn.Graph) -> None:
    assert np.array_equal(graph.x, data["x"])
    assert graph.y is not None and graph.y.tolist() == data["y"].tolist()
    assert graph.classes.tolist() == [0, 1, 2]
    parts = graph.splits()["default"]
    for name, part in (("train", "train"), ("validation", "val"), ("test", "test")):
        assert parts[name].tolist() == np.flatnonzero(data[part]).tolist()
    graph.verify()


def test_sparse_matrices_are_checked_and_never_changed() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    edges = [[0, 1], [1, 2]]
    values = np.array([1.0, 2.0, 4.0, 8.0], dtype=np.float32)
    # Column 1 of the first row twice, and not in order.
    x = sparse.csr_matrix((values, [2, 1, 1, 0], [0, 3, 3, 4]), shape=(3, 3))
    graph = ignn.Graph.from_edges(edges, x=x)
    assert x.indices.tolist() == [2, 1, 1, 0] and x.data.tolist() == [1, 2, 4, 8]
    assert graph.x[1].tolist() == [1, 2, 0] and graph.x[2].tolist() == [6, 1, 8]
    for name, array in (("indices", [2, 1, 9, 0]), ("indptr", [0, 9, 3, 4]), ("indptr", [0, 3, 4])):
        wrong = x.copy()
        setattr(wrong, name, np.array(array, dtype=np.int32))
        with pytest.raises(ValueError):
            ignn.Graph.from_edges(edges, x=wrong)
        with pytest.raises(ValueError):
            ignn.Graph.from_edges(wrong)


def test_options_without_effect_are_refused(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("0,1\n1,2\n")
    (tmp_path / "n.csv").write_text("id,age\n0,1\n1,2\n2,4\n")
    edges, nodes = tmp_path / "e.csv", tmp_path / "n.csv"
    first = ignn.ingest(edges, nodes=nodes, features=["age"])
    cases: list[tuple[dict[str, Any], str]] = [
        ({"label": "age"}, "label: needs a table of nodes: pass nodes=TABLE"),
        ({"split_column": "age"}, "split_column: needs a table of nodes: pass nodes=TABLE"),
        ({"words": "hashed"}, "words: needs a table of nodes: pass nodes=TABLE"),
        (
            {"nodes": nodes, "encode_as": first, "numbers": "plain"},
            "encode_as and numbers cannot be used together",
        ),
        (
            {"nodes": nodes, "encode_as": first, "features": ["age"]},
            "encode_as and features cannot be used together",
        ),
        ({"kind": "tu", "label": "age"}, "label: not an option of kind='tu': leave it out"),
        (
            {"kind": "edge"},
            "kind: expected one of edges, relations, tu, dgcnn, graphsage, found 'edge'",
        ),
    ]
    for options, message in cases:
        with pytest.raises(ValueError) as error:
            ignn.ingest(edges, **options)
        assert str(error.value) == message
    again = ignn.ingest(edges, nodes=nodes, encode_as=first)
    assert again.x.tolist() == first.x.tolist()


def test_sparse_features_read_back() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    x = sparse.random(16, 40, density=0.1, format="csr", random_state=0, dtype=np.float32)
    graph = ignn.Graph.from_edges(cliques(), x=x)
    offsets, columns, values, width = graph.x
    found = sparse.csr_matrix((values, columns.astype(np.int64), offsets.astype(np.int64)))
    assert width == 40 and abs(found - x[:, : found.shape[1]]).max() == 0


@pytest.mark.parametrize(
    ("y", "classes", "expected"),
    [
        ([2, 0, -1, 2], [0, 2], [1, 0, -1, 1]),
        (["b", "a", None, "b"], ["a", "b"], [1, 0, -1, 1]),
        (np.array([1.0, np.nan, 0.0, 1.0]), [0, 1], [1, -1, 0, 1]),
        (np.array([True, False, True, True]), [0, 1], [1, 0, 1, 1]),
        (np.array([b"b", b"a", b"b", b"b"]), ["a", "b"], [1, 0, 1, 1]),
    ],
)
def test_labels_of_every_kind(y: Any, classes: list[Any], expected: list[int]) -> None:
    graph = ignn.Graph.from_edges(PAIRS, y=y)
    assert graph.classes.tolist() == classes
    assert graph.y is not None and graph.y.tolist() == expected


def test_sets_of_labels() -> None:
    y = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0], [1, 1, 1]])
    graph = ignn.Graph.from_edges(PAIRS, y=y, classes=["red", "green", "blue"])
    assert graph.classes.tolist() == ["red", "green", "blue"]
    assert graph.y is not None and graph.y.tolist() == y.tolist()


def test_numbers_to_predict() -> None:
    graph = ignn.Graph.from_edges(PAIRS, y=[0.5, np.nan, 2, 3])
    assert graph.is_regression and graph.y is not None
    assert np.array_equal(graph.y, [0.5, np.nan, 2, 3], equal_nan=True)
    assert ignn.Graph.from_edges(PAIRS, y=[1, 2, 2, 3], task="regression").is_regression
    graphs = ignn.Graphs.from_list([PAIRS, PAIRS], y=[0.5, 1.5], train=[0], test=[1])
    assert graphs.is_regression and graphs.y is not None and graphs.y.tolist() == [0.5, 1.5]


def test_splits_of_every_kind() -> None:
    def parts(**given: Any) -> dict[str, dict[str, list[int]]]:
        graph = ignn.Graph.from_edges(PAIRS, **given)
        return {
            name: {part: items.tolist() for part, items in own.items()}
            for name, own in graph.splits().items()
        }

    single = {"default": {"train": [0, 2], "test": [3]}}
    mask = np.array([True, False, True, False])
    assert parts(train=[0, 2], test=[3]) == single
    assert parts(train=mask, test=[3]) == single
    assert parts(train=mask.astype(np.uint8), test=np.array([3], dtype=np.int32)) == single
    named = parts(split=["train", None, "train", "test"])
    assert named == single
    stack = np.stack([mask, ~mask], axis=1)
    several = {"0": {"train": [0, 2]}, "1": {"train": [1, 3]}}
    assert parts(train=stack) == several
    assert parts(train=stack.T.copy()) == several or stack.shape[0] == stack.shape[1]
    common = parts(train=np.array([[1, 0], [0, 0], [0, 1], [0, 0]], dtype=bool), test=[3])
    assert common == {
        "0": {"train": [0], "test": [3]},
        "1": {"train": [2], "test": [3]},
    }


def test_names_of_nodes() -> None:
    edges = {"source": ["bob", "ada"], "target": ["ada", "eve"]}
    graph = ignn.Graph.from_edges(edges)
    assert graph.ids.tolist() == ["ada", "bob", "eve"]
    graph = ignn.Graph.from_edges(edges, ids=["eve", "bob", "ada"], y=["x", "y", "y"])
    assert graph.ids.tolist() == ["eve", "bob", "ada"]
    assert (2, 1) in entries(graph) and (0, 1) not in entries(graph)
    numbers = ignn.Graph.from_edges([[1000, 7], [7, 30]], ids=[7, 30, 1000])
    assert entries(numbers) >= {(0, 2), (1, 0)}


def test_several_relations() -> None:
    graph = ignn.Graph.from_relations(
        {"one": PAIRS, "two": [[0], [3]]}, nodes=5, directed=True, normalise="row"
    )
    assert [relation.name for relation in graph.relations] == ["one", "two"]
    assert graph.num_nodes == 5 and (3, 0) in entries(graph, 1)


def test_relations_and_graphs_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="relations: expected at least one"):
        ignn.Graph.from_relations({})
    with pytest.raises(TypeError, match="relations: expected a dict of edges by name, found .*list"):
        ignn.Graph.from_relations([PAIRS])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="relations: '1' is given twice"):
        ignn.Graph.from_relations({1: PAIRS, "1": PAIRS})  # type: ignore[dict-item]
    for name in ("..", ".", "a/b", ""):
        with pytest.raises(ValueError, match="expected a name of letters"):
            ignn.Graph.from_relations({name: PAIRS})
    with pytest.raises(ValueError, match="weights: no relation 'two' .found one."):
        ignn.Graph.from_relations({"one": PAIRS}, weights={"two": np.ones(5)})
    with pytest.raises(ValueError, match="graphs: expected node numbers, from 0 in each graph"):
        ignn.Graphs.from_list([[["a", "b"], ["b", "c"]]])
    with pytest.raises(ValueError, match="ids: expected one for each of 1 graphs, found 2"):
        ignn.Graphs.from_list([PAIRS], ids=["a", "b"])
    with pytest.raises(ValueError, match=r"nodes: expected 1 numbers of nodes, found \[-1\]"):
        ignn.Graphs.from_list([PAIRS], nodes=[-1])
    with pytest.raises(ValueError, match=r"x: expected as many columns in each graph, found \[2, 3"):
        ignn.Graphs.from_list([PAIRS, PAIRS], x=[np.ones((4, 2)), np.ones((4, 3))])


def test_a_graph_without_a_split_has_a_page_too() -> None:
    assert repr(ignn.Graph.from_edges(PAIRS)).startswith("Graph(nodes: 4, edges: 5, features: none")
    assert "nodes" in ignn.Graphs.from_list([PAIRS], y=["a"])._repr_html_()


def test_many_graphs() -> None:
    rings = [np.array([[0, 1, 2], [1, 2, 0]]) for _ in range(3)]
    graphs = ignn.Graphs.from_list(
        rings, y=["a", "b", "a"], train=[0, 1], test=[2], x=[np.eye(3)] * 3
    )
    assert (len(graphs), graphs.num_nodes, graphs.is_collection) == (3, 9, True)
    assert graphs.splits() and "graphs: 3" in repr(graphs)
    assert isinstance(ignn.open(graphs.path), ignn.Graphs)
    with pytest.raises(ValueError, match="graph 1: expected nodes from 0 to 2 .* found 3"):
        ignn.Graphs.from_list([rings[0], rings[0] + 1], x=[np.eye(3)] * 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edges": [[0, 9], [1, 1]], "nodes": 4}, "relation edges, edge 1: expected a node from 0"),
        ({"edges": [[0, -1], [1, 1]]}, "expected a node from 0 to 1, found -1"),
        ({"edges": np.zeros((3, 3))}, r"expected an array of shape \(2, edges\)"),
        ({"x": np.full((4, 2), np.nan)}, "features of node 0: expected finite numbers, found NaN"),
        ({"x": np.ones((3, 2)), "nodes": 4}, "expected one row for each of 4 nodes, found 3"),
        ({"x": np.ones((3, 2))}, "x: expected one row per node, found 3, but edges have node 3"),
        ({"y": [0, 1]}, "y: expected one row per node, found 2, but edges have node 3"),
        ({"x": np.ma.masked_equal(np.eye(4), 1)}, "an array with masked values: fill them"),
        ({"y": [1, np.inf, 2, 3]}, "y: expected finite numbers, or NaN for no label, found inf at"),
        ({"nodes": -1}, "nodes: expected how many there are, found -1"),
        ({"nodes": 4.5}, "nodes: expected how many there are, found 4.5"),
        ({"ids": [1, 1, 2, 3]}, "ids: 1 is given twice"),
        ({"ids": [0, 1, 2]}, "edges: node 3 is not among the ids"),
        ({"y": [0.5, 1, 0, 0], "task": "classification"}, "expected classes, found the number 0.5"),
        ({"y": list("abcd"), "task": "regression"}, "y: expected numbers for a regression"),
        ({"train": [0, 7]}, "train: expected indices from 0 to 3, found 7"),
        ({"train": [0, 1], "test": [1]}, "test: item 1 is in train as well"),
        ({"weights": [1, 2, -3, 4, 5]}, "edge 2: expected a weight of 0 or more, found -3"),
        ({"normalise": "both"}, "normalise: expected one of renorm, row, none, found 'both'|\"both\""),
        ({"memory": "lots"}, "memory: expected a size such as '2GiB', found 'lots'"),
        ({"memory": 1}, "memory: too small: expected at least 16.0 MiB"),
        ({"edges": [[0, 10**9], [1, 2]]}, "node number 1000000000 is far above the number of edges"),
        ({"memory": -1}, "memory: expected bytes, or a size such as '2GiB', found -1"),
        ({"edges": PAIRS + 0.5}, "expected whole numbers, or names, as node ids, found 0.5 at posit"),
        ({"edges": np.where(PAIRS > 2, np.nan, PAIRS)}, "as node ids, found nan at position 3"),
        ({"edges": [["a", "b"], ["b", None]]}, "as node ids, found None at position 1"),
        ({"edges": PAIRS.astype("datetime64[D]")}, r"as node ids, found datetime64\[D\]"),
        ({"edges": (PAIRS, PAIRS)}, r"\(2, edges\) or \(edges, 2\), found \(2, 5, 2\)"),
        ({"edges": PAIRS, "ids": [4, 5, None, 7]}, "ids: expected whole numbers, or names"),
        ({"edges": PAIRS, "weights": list("abcde")}, "weights: expected numbers, found <U1"),
        ({"x": np.ones((4, 2), dtype="datetime64[D]")}, "x: expected numbers, found datetime64"),
        ({"x": np.ones((4, 2), dtype=complex)}, "x: expected numbers, found complex128"),
        ({"train": np.array([1, 0, 1, 0])}, "indices are given twice; a mask has True and False"),
        ({"train": np.ones(3, dtype=bool), "nodes": 4}, "train: expected a mask of 4 items, found"),
        ({"split": [str(at) for at in range(300)], "nodes": 300}, "at most 254 parts, found 300"),
        ({"edges": "edges.csv"}, "expected an array or a table, found 'edges.csv': ignn.ingest reads"),
        ({"edges": None}, "edges: expected an array or a table, found None"),
        ({"edges": [[0, 1, 2], [1, 2]]}, "expected rows of one length, found lists of several"),
        ({"edges": [[0, 2.0**60], [1, 2]]}, "as node ids, found 1.15.*e.18 at position 1"),
        ({"nodes": float("nan")}, "nodes: expected how many there are, found nan"),
        ({"nodes": "4"}, "nodes: expected how many there are, found 4"),
        ({"memory": float("nan")}, "memory: expected bytes, or a size such as '2GiB', found nan"),
        ({"y": [0, 1, 0, 1], "task": "regres"}, "task: expected one of auto, classif.*found 'regres'"),
        ({"y": [0, 1, 0, 1], "classes": ["a", "a"]}, r"classes: expected each of them once, found \['a'"),
    ],
)
def test_mistakes_are_explained(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"edges": PAIRS} | change
    with pytest.raises(ValueError, match=message):
        ignn.Graph.from_edges(**given)


def test_ids_are_numbers_where_all_of_them_are() -> None:
    expected = entries(ignn.Graph.from_edges(PAIRS))
    for other in (PAIRS.astype(float), PAIRS.astype(object), PAIRS.astype(">i8"), PAIRS > 0):
        graph = ignn.Graph.from_edges(other)
        assert graph.ids.dtype.kind in "iu"
        assert (other.dtype.kind == "b") or entries(graph) == expected
    texts = ignn.Graph.from_edges(PAIRS.astype(str), ids=np.arange(4), y=[0, 1, 0, 1])
    assert entries(texts) == expected
    pandas = pytest.importorskip("pandas")
    column = pandas.array([0, 1, 2], dtype="Int64")
    table = pandas.DataFrame({"source": column, "target": [1, 2, 0]})
    assert ignn.Graph.from_edges(table).num_nodes == 3
    table.loc[1, "source"] = pandas.NA
    with pytest.raises(ValueError, match="as node ids, found (nan|<NA>) at position 1"):
        ignn.Graph.from_edges(table)


def test_whole_numbers_with_gaps_stay_whole() -> None:
    pandas = pytest.importorskip("pandas")
    people = pandas.DataFrame({"id": [1, 2, 3], "team": [7, None, 8], "age": [1.5, None, 2.0]})
    edges = pandas.DataFrame({"source": [1, 2], "target": [2.0, 3.0]})
    edges = pandas.concat([edges, pandas.DataFrame({"source": [3], "target": [1]})])
    graph = ignn.Graph.from_tables(edges, people, label="team", features=["age"])
    assert graph.classes.tolist() == [7, 8] and graph.y is not None
    assert graph.y.tolist() == [0, -1, 1] and graph.num_edges == 3
    # An index with a name, or of texts, has the ids.
    named = people.set_index("id")
    texts = people.drop(columns="id").set_axis(["ann", "bob", "eve"])
    assert ignn.Graph.from_tables(edges, named, label="team").ids.tolist() == [1, 2, 3]
    pairs = {"source": ["ann"], "target": ["eve"]}
    assert ignn.Graph.from_tables(pairs, texts, label="team").ids.tolist() == ["ann", "bob", "eve"]
    shuffled = people.sample(frac=1, random_state=0)
    assert sorted(ignn.Graph.from_tables(edges, shuffled, label="team").ids.tolist()) == [1, 2, 3]
    levels = pandas.DataFrame({("a", "x"): [0, 1], ("b", "y"): [1, 2]})
    with pytest.raises(ValueError, match="columns with several levels: give each one name"):
        ignn.Graph.from_edges(levels)


def test_whole_numbers_with_gaps_stay_whole_in_polars_and_lists() -> None:
    edges = {"source": [1.0, 2.0], "target": [2.0, 3.0]}
    people = {"id": [1, 2, 3], "team": [7.0, np.nan, 8.0]}
    assert ignn.Graph.from_tables(edges, people, label="team").classes.tolist() == [7, 8]
    polars = pytest.importorskip("polars")
    tables = polars.DataFrame(edges), polars.DataFrame(people)
    assert ignn.Graph.from_tables(*tables, label="team").classes.tolist() == [7, 8]


def test_graphs_with_a_number_each() -> None:
    rings = [np.stack([np.arange(n), (np.arange(n) + 1) % n]) for n in (4, 5, 6, 7) * 4]
    sizes = np.array([float(ring.shape[1]) for ring in rings])
    sizes[3] = np.nan
    parts = {"train": np.arange(16) < 8, "test": np.arange(16) >= 8}
    graphs = ignn.Graphs.from_list(rings, y=sizes, task="regression", **parts)
    assert graphs.y is not None and np.array_equal(graphs.y, sizes, equal_nan=True)
    # With relu and one feature that is the same everywhere, all states may fade at this rate.
    settings = {"model.pooling": "sum", "model.dropout": 0, "optim.learning_rate": 0.05}
    settings["model.activation"] = "identity"
    fitted = ignn.IgnnRegressor(state=4, epochs=200, settings=settings).fit(graphs)
    assert fitted.score(graphs) > 0.9
    assert (fitted.predict_error(graphs) < 0.1).all(), "certified"
    with pytest.raises(ValueError, match="y: expected 16 labels, found 3"):
        ignn.Graphs.from_list(rings, y=[0.5, 1.5, 2.5])


def test_other_kinds_of_raw_files(tmp_path: Path) -> None:
    tu = tmp_path / "RINGS"
    tu.mkdir()
    (tu / "RINGS_A.txt").write_text("1, 2\n2, 1\n3, 4\n4, 3\n")
    (tu / "RINGS_graph_indicator.txt").write_text("1\n1\n2\n2\n")
    (tu / "RINGS_graph_labels.txt").write_text("1\n2\n")
    (tu / "RINGS_graph_attributes.txt").write_text("0.5, 7\n1.5, 9\n")
    graphs = ignn.ingest(tu, kind="tu", out=tmp_path / "classes", normalise="none")
    assert isinstance(graphs, ignn.Graphs) and graphs.classes.tolist() == [1, 2]
    drawn = {"regress": 1, "draw": "train=0.5,test=0.5", "degree_features": True}
    numbers = ignn.ingest(tu, kind="tu", out=tmp_path / "numbers", **drawn)
    assert numbers.y is not None and numbers.y.tolist() == [7.0, 9.0] and numbers.splits()
    (tmp_path / "e.csv").write_text("source,target,since,weight\nann,bob,3,1\nbob,eve,4,2\n")
    (tmp_path / "n.csv").write_text("id,age\nann,31\nbob,40\neve,22\n")
    spec = tmp_path / "spec.toml"
    keys = 'target = "person"\nnode-table = "n.csv"\nfeatures = ["age"]\n'
    spec.write_text(keys + '[relations.knows]\nfile = "e.csv"\n')
    related = ignn.ingest(spec, kind="relations", out=tmp_path / "related")
    assert related.ids.tolist() == ["ann", "bob", "eve"] and related.relations[0].values is not None
    same = ignn.ingest(spec, kind="relations", out=tmp_path / "same", encode_as=related)
    assert same.x.tolist() == related.x.tolist()
    other = tmp_path / "other"
    other.mkdir()
    for name in ("e.csv", "n.csv"):
        (other / name).write_text((tmp_path / name).read_text().replace("ann", "zoe"))
    moved = ignn.ingest(spec, kind="relations", out=tmp_path / "moved", data=other)
    assert moved.ids.tolist() == ["zoe", "bob", "eve"]
    (tmp_path / "e.csv").write_text("source,target\nann,bop\n")
    with pytest.raises(ValueError, match=r"e.csv:2: expected a node of .*n.csv, did you mean .bob"):
        ignn.ingest(spec, kind="relations", out=tmp_path / "wrong")


def test_files_are_made_and_kept(tmp_path: Path, data: dict[str, Any]) -> None:
    path = tmp_path / "g.ignn"
    made = ignn.Graph.from_edges(**data, out=path)
    assert made.path == path and not made.is_temporary
    with pytest.raises(FileExistsError, match="already exists"):
        ignn.Graph.from_edges(**data, out=path)
    ignn.Graph.from_edges(**data, out=path, force=True)
    assert repr(ignn.open(path)) == repr(made)
    with pytest.raises(FileNotFoundError, match="not an ignn dataset: no such directory"):
        ignn.open(tmp_path / "nowhere")
    (tmp_path / "other").mkdir()
    with pytest.raises(ValueError, match="not an ignn dataset"):
        ignn.open(tmp_path / "other")


def test_temporary_graphs_are_removed_with_the_last_copy(data: dict[str, Any]) -> None:
    graph = ignn.Graph.from_edges(**data)
    path, other = graph.path, copy.deepcopy(graph)
    del graph
    gc.collect()
    assert other.is_temporary and path.exists()
    assert pickle.loads(pickle.dumps(other)).num_nodes == 24
    del other
    gc.collect()
    assert not path.exists()


def test_raw_files_are_ingested(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target\nada,bob\nbob,eve\n")
    (tmp_path / "labels.csv").write_text("node,label\nada,x\nbob,y\neve,x\n")
    graph = ignn.ingest(
        tmp_path / "edges.csv",
        labels=tmp_path / "labels.csv",
        draw="train=0.5,test=0.5",
        out=tmp_path / "g.ignn",
        memory="64MiB",
    )
    assert graph.ids.tolist() == ["ada", "bob", "eve"] and graph.classes.tolist() == ["x", "y"]
    (tmp_path / "bad.csv").write_text("source,target\nada\n")
    with pytest.raises(ValueError, match=r"bad.csv:2: expected"):
        ignn.ingest(tmp_path / "bad.csv", out=tmp_path / "h.ignn")
    with pytest.raises(FileNotFoundError, match="none.csv"):
        ignn.ingest(tmp_path / "none.csv", out=tmp_path / "h.ignn")


PEOPLE = {
    "id": ["ann", "bob", "eve", "joe"],
    "age": [31.0, None, 40.0, 22.0],
    "city": ["Ulm", "Rom", "Ulm", None],
    "team": ["red", "red", "blue", "blue"],
    "part": ["train", "train", "train", "test"],
}
FRIENDS = {"source": ["ann", "bob", "eve"], "target": ["bob", "eve", "joe"]}


def people(kind: str) -> tuple[Any, Any]:
    if kind == "dict":
        return FRIENDS, PEOPLE
    library = pytest.importorskip({"arrow": "pyarrow"}.get(kind, kind))
    make = library.table if kind == "arrow" else library.DataFrame
    return make(FRIENDS), make(PEOPLE)


@pytest.mark.parametrize("kind", ["dict", "pandas", "polars", "arrow"])
def test_tables_with_words_and_missing_values(kind: str, tmp_path: Path) -> None:
    edges, nodes = people(kind)
    graph = ignn.Graph.from_tables(
        edges, nodes, features="all", label="team", split_column="part", out=tmp_path / "a.ignn"
    )
    assert graph.ids.tolist() == PEOPLE["id"] and graph.classes.tolist() == ["blue", "red"]
    assert graph.splits()["default"]["test"].tolist() == [3]
    assert graph.x.shape[0] == 4 and np.isfinite(graph.x).all()
    # The same columns for other people, with the statistics of the first ones.
    other = ignn.Graph.from_tables(edges, nodes, encode_as=graph)
    assert np.array_equal(other.x, graph.x) and other.is_temporary
    run = ignn.train(graph, {"train.epochs": 2, "model.state": 4}, quiet=True)
    assert len(run.model.predict(other)) == 4


def test_messages_about_tables_name_rows_of_the_tables(caplog: pytest.LogCaptureFixture) -> None:
    other = PEOPLE | {"city": ["Ulm", "Rom", "Ulm", "Bonn"]}
    cases: list[tuple[Any, Any, dict[str, Any], str]] = [
        (
            {"source": ["ann", "bop"], "target": ["bob", "eve"]},
            PEOPLE,
            {"label": "team"},
            'edges: row 1 (counting from 0): expected a node of nodes, did you mean "bob"?, found "bop"',
        ),
        (FRIENDS, PEOPLE, {"label": "tem"}, 'nodes: no column "tem" (found: "id, age, city, team, '),
        (FRIENDS, PEOPLE, {"target": "age"}, "of nodes, pass regress age"),
        (FRIENDS, PEOPLE | {"id": ["ann", "bob", "ann", "joe"]}, {}, "nodes: row 2 (counting from 0)"),
        (FRIENDS, np.eye(3), {}, "nodes: expected a table with named columns"),
    ]
    for edges, nodes, options, message in cases:
        with pytest.raises(ValueError) as error:
            ignn.Graph.from_tables(edges, nodes, **options)
        assert message in str(error.value)
    first = ignn.Graph.from_tables(FRIENDS, PEOPLE, features=["city"], split_column="part")
    caplog.clear()
    ignn.Graph.from_tables(FRIENDS, other, encode_as=first)
    (note,) = [record.getMessage() for record in caplog.records]
    assert note.startswith('nodes: column "city": words that no training node has, such as "Bonn"')


@pytest.mark.parametrize("kind", ["dict", "pandas", "polars", "arrow"])
def test_any_text_is_a_name_or_a_word(kind: str) -> None:
    """Signs of comments, quotes and breaks of lines, and truth values of each library."""
    names = ["#ann", "%bob", 'e"v,e', " joe "]
    edges: Any = {"source": names[:3], "target": names[1:]}
    words = {"text": ["a\nb", "c", None, "a\r\nb"], "is": [True, False, True, True]}
    nodes: Any = {"id": names, "label": ["#x", "y", "%z", "y"]} | words
    if kind != "dict":
        library = pytest.importorskip({"arrow": "pyarrow"}.get(kind, kind))
        make = library.table if kind == "arrow" else library.DataFrame
        edges, nodes = make(edges), make(nodes)
    graph = ignn.Graph.from_tables(edges, nodes, label="label", features=["text", "is"])
    assert graph.ids.tolist() == names and graph.num_edges == 3
    assert graph.classes.tolist() == ["#x", "%z", "y"]
    encoded = graph.manifest["encoding"]["columns"]
    assert [column["words"] for column in encoded] == [["a b", "c"], ["false", "true"]]


def test_columns_may_have_numbers_as_names() -> None:
    pandas = pytest.importorskip("pandas")
    pairs = pandas.DataFrame(PAIRS)
    assert entries(ignn.Graph.from_edges(pairs)) == entries(ignn.Graph.from_edges(PAIRS))
    swapped = ignn.Graph.from_edges(pairs, source=1, target=0, directed=True)  # type: ignore[arg-type]
    expected = ignn.Graph.from_edges(PAIRS[:, ::-1], directed=True)
    assert entries(swapped) == entries(expected)
    sets = ignn.Graph.from_edges(PAIRS, x=pandas.DataFrame(np.eye(4)), y=pandas.DataFrame(np.eye(4)))
    assert sets.x.tolist() == np.eye(4).tolist() and sets.classes.tolist() == [0, 1, 2, 3]
    people = pandas.DataFrame([[0, 1.5, "a"], [1, 2.5, "b"], [2, 3.5, "a"], [3, 1.0, "b"]])
    table = ignn.Graph.from_tables(pairs, people, features=[1], label=2, id_column=0)  # type: ignore
    assert table.x.shape == (4, 1) and table.classes.tolist() == ["a", "b"]
    twice = pandas.concat([people, people], axis=1)
    with pytest.raises(ValueError, match="nodes: column '0' is given twice"):
        ignn.Graph.from_tables(pairs, twice)
    with pytest.raises(ValueError, match="column '0' is given twice"):
        ignn.Graph.from_edges(pandas.concat([pairs, pairs], axis=1))


def test_guessed_columns_are_noted(caplog: pytest.LogCaptureFixture) -> None:
    sales = {"when": [5, 6, 7], "buyer": [0, 1, 2], "seller": [1, 2, 0], "price": [1, 2, 3]}
    note = (
        "edges: the source is 'when', the target is 'buyer', there is no weight, ignored: seller, "
        "price: choose columns with source=, target= and weight="
    )
    ignn.Graph.from_edges(sales)
    assert caplog.messages == [note]
    caplog.clear()
    ignn.Graph.from_tables(sales, {"id": [0, 1, 2, 5, 6, 7], "age": range(6)})
    assert caplog.messages[0] == note
    caplog.clear()
    ignn.Graph.from_edges(sales, source="buyer", target="seller")
    ignn.Graph.from_edges({"from": [0], "to": [1], "when": [2]})
    ignn.Graph.from_tables({"from": [0], "to": [1], "when": [2]}, {"id": [0, 1]})
    assert caplog.messages == []
    ignn.Graph.from_edges({"id": [3], "target": [1], "src2": [0]})
    assert "the source is 'id', the target is 'target'" in caplog.messages[0]


def test_a_table_without_a_column_of_ids_is_noted(caplog: pytest.LogCaptureFixture) -> None:
    ignn.Graph.from_tables({"source": [1], "target": [2]}, {"age": [1, 2]})
    assert caplog.messages[0].startswith(
        "nodes: no column named node, id or node_id: the ids are in the first one, 'age'"
    )
    caplog.clear()
    ignn.Graph.from_tables({"source": [1], "target": [2]}, {"age": [1, 2], "b": [1, 2]}, id_column="age")
    ignn.Graph.from_tables({"source": [1], "target": [2]}, {"x": [5, 5], "Node": [1, 2]})
    ignn.Graph.from_tables({"source": [1], "target": [2]}, {"id": [5, 5], "node": [1, 2]})
    assert caplog.messages == []


def test_labels_that_may_be_meant_otherwise_are_noted(caplog: pytest.LogCaptureFixture) -> None:
    def notes(y: Any, **options: Any) -> list[str]:
        caplog.clear()
        ignn.Graph.from_edges(np.zeros((2, 0), dtype=int), y=y, **options)
        return caplog.messages

    (note,) = notes([-1, 1, 1, -1])
    assert note.startswith("y: negative numbers mean no label: 2 of 4 items have none, 1 class is left")
    assert len(notes([-3.0, -2, 1, 2])) == 1
    assert notes([0, 1, -1, -1]) == notes([1, np.nan, 1]) == notes([0, 0]) == []
    (note,) = notes(np.arange(600))
    assert note.startswith("y: 600 classes whose names are numbers: to predict a number, pass task=")
    assert notes(np.arange(600) % 40) == notes(np.arange(600), task="regression") == []


CATEGORIES = [("pandas", "Categorical"), ("polars", "Categorical"), ("polars", "Enum")]


@pytest.mark.parametrize(("library", "kind"), CATEGORIES)
def test_categories_are_words(library: str, kind: str) -> None:
    module = pytest.importorskip(library)
    if library == "pandas":
        codes = module.Categorical([1, 2, 3])
    else:
        form = module.Categorical if kind == "Categorical" else module.Enum(["1", "2", "3"])
        codes = module.Series(["1", "2", "3"], dtype=form)
    nodes = module.DataFrame({"id": [0, 1, 2], "code": codes, "size": [1, 2, 3]})
    edges = {"source": [0, 1], "target": [1, 2]}
    for features in ("all", ["code", "size"]):
        graph = ignn.Graph.from_tables(edges, nodes, features=features)
        columns = graph.manifest["encoding"]["columns"]
        assert columns[0]["words"] == ["1", "2", "3"] and graph.x.shape == (3, 4)
    assert ignn.Graph.from_tables(edges, nodes, features="all", label="code").x.shape == (3, 1)
    ids = module.DataFrame({"node": codes, "size": [1, 2, 3]})
    assert ignn.Graph.from_tables({"source": [1], "target": [2]}, ids, features="all").x.shape == (3, 1)
    again = ignn.Graph.from_tables(edges, nodes, encode_as=graph)
    assert again.x.tolist() == graph.x.tolist()


def test_columns_that_are_no_features_are_refused() -> None:
    pandas = pytest.importorskip("pandas")
    import datetime

    spans: list[Any] = [
        pandas.to_timedelta([1, 2], unit="D"),
        pandas.period_range("2020-01", periods=2, freq="M"),
        [datetime.time(1, 2), datetime.time(3, 4)],
        [datetime.timedelta(1), None],
        np.array([1, 2], dtype="timedelta64[s]"),
    ]
    tables = [pandas.DataFrame({"id": [0, 1], "a": span, "b": [1, 2]}) for span in spans]
    tables.append({"id": [0, 1], "a": spans[2], "b": [1, 2]})
    edges = {"source": [0], "target": [1]}
    for table in tables:
        with pytest.raises(ValueError, match="nodes: column 'a' has durations and times: write a num"):
            ignn.Graph.from_tables(edges, table, features="all")
        assert ignn.Graph.from_tables(edges, table, features=["b"]).x.shape == (2, 1), "not used"
    with pytest.raises(ValueError, match="nodes: column 'a' has neither numbers nor words"):
        ignn.Graph.from_tables(edges, pandas.DataFrame({"id": [0, 1], "a": [[1], [2]]}), features="all")
    message = "nodes: column 'a': expected finite numbers, found -inf in row 1 .counting from 0.: use NaN"
    with pytest.raises(ValueError, match=message):
        ignn.Graph.from_tables(edges, {"id": [0, 1], "a": [1, -np.inf]}, features="all")


def test_columns_of_polars_that_are_no_features_are_refused() -> None:
    polars = pytest.importorskip("polars")
    import datetime

    edges = {"source": [0], "target": [1]}
    for values in ([datetime.timedelta(1)] * 2, [datetime.time(1)] * 2, [[1], [2]], [b"a", b"b"]):
        nodes = polars.DataFrame({"id": [0, 1], "a": values})
        with pytest.raises(ValueError, match="nodes: column 'a' has (durations|neither numbers)"):
            ignn.Graph.from_tables(edges, nodes, features="all")
    for call in (ignn.Graph.from_edges, lambda it: ignn.Graph.from_tables(edges, it)):
        with pytest.raises(ValueError, match=r"found a LazyFrame: pass table.collect\(\)"):
            call(nodes.lazy())


def test_tables_are_encoded_as_models_and_estimators_do() -> None:
    graph = ignn.Graph.from_tables(
        FRIENDS, PEOPLE, features=["age", "city"], label="team", split_column="part"
    )
    fitted = ignn.IgnnClassifier(state=4, epochs=1).fit(graph)
    run = ignn.train(graph, {"model.state": 4, "train.epochs": 1}, quiet=True)
    for owner in (fitted, fitted.model_, run):
        other = ignn.Graph.from_tables(FRIENDS, PEOPLE, encode_as=owner)
        assert other.x.tolist() == graph.x.tolist()


def test_messages_name_arguments_of_python(tmp_path: Path) -> None:
    ignn.Graph.from_edges(PAIRS, out=tmp_path / "g.ignn")
    with pytest.raises(FileExistsError, match="pass force=True"):
        ignn.Graph.from_edges(PAIRS, out=tmp_path / "g.ignn")
    with pytest.raises(ValueError, match="^model.state=0: "):
        ignn.settings({"model.state": 0})
    fitted = ignn.IgnnClassifier(state=4, epochs=1)
    fitted.fit(ignn.Graph.from_edges(PAIRS, x=np.eye(4), y=[0, 1, 0, 1], train=[0, 1]))
    with pytest.raises(ValueError) as error:
        fitted.predict(ignn.Graph.from_edges(PAIRS))
    assert "--" not in str(error.value)


def test_what_makes_no_graph_says_what_does() -> None:
    with pytest.raises(TypeError, match="a graph is made by Graph.from_edges"):
        ignn.Graph(PAIRS)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected paths of files, found .*: Graph.from_tables and"):
        ignn.ingest({"source": [0], "target": [1]})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected paths of files, found"):
        ignn.ingest("edges.csv", nodes=np.eye(2))  # type: ignore[arg-type]


def test_numbers_of_a_table() -> None:
    graph = ignn.Graph.from_tables(
        FRIENDS, PEOPLE | {"price": [1.5, 2.5, 3.0, 4.0]}, features=["city"], regress="price"
    )
    assert graph.is_regression and graph.y is not None and graph.y.tolist() == [1.5, 2.5, 3.0, 4.0]


def test_a_column_that_is_not_there_names_the_nearest() -> None:
    with pytest.raises(ValueError, match="tem.*team"):
        ignn.Graph.from_tables(FRIENDS, PEOPLE, label="tem")
    with pytest.raises(ValueError, match="words: expected"):
        ignn.Graph.from_tables(FRIENDS, PEOPLE, features="all", words="warm")


def test_what_a_person_sees(graph: ignn.Graph) -> None:
    text = "Graph(nodes: 24, edges: 86, features: 5, classes: 3, split: train 6, validation 6, test 12)"
    assert repr(graph) == text
    page = graph._repr_html_()
    assert "<table>" in page and "train 6, validation 6, test 12" in page
