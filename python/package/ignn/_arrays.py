"""The user's arrays and tables as numpy arrays, without a copy where the layout allows."""

from __future__ import annotations

import csv
import itertools
import os
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, Literal, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from ._ignn import SOURCE_NAMES, TARGET_NAMES, WEIGHT_NAMES
from ._listener import logger, plural

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float32]
Floats64: TypeAlias = npt.NDArray[np.float64]
#: Anything that holds numbers or names: numpy, torch, pandas, polars, Arrow, lists.
ArrayLike: TypeAlias = Any

_NODE_TYPES = tuple(np.dtype(kind) for kind in ("int32", "int64", "uint32", "uint64"))
_NO_PART = 255


def as_array(value: ArrayLike) -> Array:
    """Any array or column as a numpy array; objects that are numbers, or nothing, as numbers."""
    return _of_objects(_as_array(value))


def _of_objects(array: Array) -> Array:
    """Numbers instead of objects where all of these are numbers or missing (NaN)."""
    if array.dtype.kind != "O":
        return array
    listed = array.ravel().tolist()
    # The first one that is no number ends this early.
    numbers = (Real, Decimal, np.bool_)
    if not all(isinstance(value, numbers) or _is_missing(value) for value in listed):
        return array
    known = [value for value in listed if not _is_missing(value)]
    if _are_truths(known):
        return array.astype(bool) if len(known) == len(listed) else array
    if len(known) == len(listed) > 0 and all(isinstance(value, Integral) for value in known):
        return np.array([int(value) for value in known]).reshape(array.shape)
    # Larger integers are not exact.
    if not known or any(isinstance(value, Integral) and abs(int(value)) >= 2**53 for value in known):
        return array
    floats = [np.nan if _is_missing(value) else float(value) for value in listed]
    return np.array(floats).reshape(array.shape)


def _are_truths(values: Sequence[object]) -> bool:
    return len(values) > 0 and all(isinstance(value, (bool, np.bool_)) for value in values)


def _as_array(value: ArrayLike) -> Array:
    if isinstance(value, np.ma.MaskedArray) and bool(np.any(np.ma.getmaskarray(value))):
        raise ValueError("an array with masked values: fill them, or leave them out")
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "detach") and hasattr(value, "cpu"):  # torch
        value = value.detach().cpu()
        if str(value.layout) != "torch.strided":
            raise ValueError("expected a dense tensor, found a sparse one: pass x.to_dense()")
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
        return np.asarray(np.from_dlpack(value))
    if hasattr(value, "to_numpy"):
        if type(value).__module__.startswith("pyarrow"):
            chunked = hasattr(value, "chunks")
            return np.asarray(value.to_numpy() if chunked else value.to_numpy(zero_copy_only=False))
        return np.asarray(value.to_numpy())
    try:
        return np.asarray(value)
    except ValueError as error:
        if "inhomogeneous" in str(error):
            raise ValueError("expected rows of one length, found lists of several") from None
        raise


def column_names(table: ArrayLike) -> list[str] | None:
    """The names of the columns of a table of pandas, polars or Arrow, or of a dict of columns, as
    texts."""
    if type(table).__name__ == "LazyFrame":
        raise ValueError("expected a table with rows, found a LazyFrame: pass table.collect()")
    if isinstance(table, Mapping):
        return [str(name) for name in table]
    if hasattr(table, "column_names"):  # Arrow
        return list(table.column_names)
    names = getattr(table, "columns", None)
    return None if names is None else [str(name) for name in names]


def column(table: ArrayLike, name: str) -> Array:
    """A column of such a table as an array."""
    try:
        return _as_array(_column(table, name))
    except ValueError as error:
        raise ValueError(f"column {name!r}: {error}") from None


def _column(table: ArrayLike, name: str) -> Any:
    names = column_names(table) or []
    if name not in names:
        raise ValueError(f"no column {name!r} (found {', '.join(names) or 'none'})")
    if names.count(name) > 1:
        raise ValueError(f"column {name!r} is given twice")
    if getattr(getattr(table, "columns", None), "nlevels", 1) > 1:
        raise ValueError("columns with several levels: give each one name")
    # By position, because names may be numbers.
    at = names.index(name)
    if hasattr(table, "iloc"):
        return table.iloc[:, at]
    if isinstance(table, Mapping):
        return list(table.values())[at]
    return table.column(name) if hasattr(table, "column_names") else table[name]


def with_ids(table: ArrayLike) -> ArrayLike:
    """A table with its index of pandas as a column, if that has a name, or texts."""
    if not hasattr(table, "reset_index"):
        return table
    if any(name is not None for name in table.index.names):
        return table.reset_index()
    is_text = table.index.dtype.kind not in "iuf" and "id" not in (column_names(table) or [])
    return table.reset_index(names="id") if is_text else table


def write_table(what: str, table: ArrayLike, path: str) -> list[str]:
    """Writes a table as CSV with a header, whose names it returns; missing values are empty.

    Texts are quoted, so that none begins a comment, and breaks of their lines become blanks, because
    a row is a line. Truth values are true and false. Floats that are whole are written as integers,
    because columns of integers with gaps are floats.
    """
    names = column_names(table)
    if names is None:
        raise ValueError(f"{what}: expected a table with named columns, found {type(table)}")
    twice = [name for at, name in enumerate(names) if name in names[:at]]
    if twice:
        raise ValueError(f"{what}: column {twice[0]!r} is given twice")
    if hasattr(table, "to_csv"):  # pandas
        whole = [name for name in table.columns if _is_whole(table[name])]
        texts = [name for name in table.columns if table[name].dtype.kind not in "iufcmM"]
        table = table.astype({name: "Int64" for name in whole} | {name: object for name in texts})
        for name in texts:
            table[name] = table[name].map(_word)
        table.to_csv(path, index=False, quoting=csv.QUOTE_NONNUMERIC)
    elif hasattr(table, "write_csv"):  # polars
        for name, kinds in itertools.product(names, _INSTEAD):
            if str(table[name].dtype) != "Time":
                _refuse(what, name, table[name], kinds)
        whole = [name for name in names if _is_whole(table[name].drop_nulls().to_numpy())]
        columns = {name: table[name].fill_nan(None).cast(int) for name in whole}
        texts = [name for name in names if str(table[name].dtype) == "String"]
        columns |= {name: table[name].str.replace_all(_BREAK, " ") for name in texts}
        table.with_columns(**columns).write_csv(path, quote_style="non_numeric")
    else:
        listed = []
        for values in (column(table, name) for name in names):
            whole_column = _is_whole(values)
            listed.append([_cell(value, whole_column) for value in values.tolist()])
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)
            writer.writerow(names)
            writer.writerows(zip(*listed, strict=True))
    return names


#: Types of columns, by how their names begin in lower case.
_CATEGORIES = "category|categorical|enum|dictionary"
_DURATIONS = r"timedelta|duration|period|time(32|64)?\b"
_NESTED = (
    r"list|tuple|large_list|fixed_size|array|struct|dict\b|map|set\b|bytes|binary|complex|Object"
)
#: What to do about columns that are no features.
_INSTEAD = {
    _DURATIONS: "durations and times: write a number that means something, such as hours",
    _NESTED: "neither numbers nor words: leave it out, or make columns of numbers of it",
}


def _type_of(values: Any) -> str:
    """The type of a column as text, or that of its first value."""
    kind = str(getattr(values, "dtype", getattr(values, "type", "object")))
    if kind != "object":
        return kind
    return next((type(own).__name__ for own in values if not _is_missing(own)), kind)


def _refuse(what: str, name: str, values: Any, kinds: str) -> None:
    found = _type_of(values)
    if re.match(kinds, found) or re.match(kinds, found.lower()):
        raise ValueError(f"{what}: column {name!r} has {_INSTEAD[kinds]} (found {found})")


def words_of(what: str, table: ArrayLike, names: Sequence[str]) -> list[str]:
    """Those of the columns that are categories, and so words, whatever these look like.

    Columns that are no features are refused.
    """
    for name in names:
        own = _column(table, name)
        for kinds in _INSTEAD:
            _refuse(what, name, own, kinds)
        values = column(table, name)
        infinite = np.flatnonzero(np.isinf(values) if values.dtype.kind == "f" else ())
        if len(infinite):
            found = f"{values[infinite[0]]} in row {infinite[0]} (counting from 0)"
            raise ValueError(
                f"{what}: column {name!r}: expected finite numbers, found {found}: use NaN where a "
                "value is missing"
            )
    types = {name: _type_of(_column(table, name)).lower() for name in names}
    return [name for name, kind in types.items() if re.match(_CATEGORIES, kind)]


#: Breaks of lines.
_BREAK = r"[\r\n]+"


def _cell(value: Any, is_whole: bool) -> Any:
    if _is_missing(value):
        return ""
    return int(value) if is_whole else _word(value)


def _word(value: Any) -> Any:
    """Texts on one line; truth values as they are in all kinds of tables."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, str) and ("\n" in value or "\r" in value):
        return re.sub(_BREAK, " ", value)
    return value


def name_tables(text: str, files: Mapping[str, str]) -> str:
    """A message about files that `write_table` has written, with names and rows of the tables."""
    for name, path in files.items():
        row = f"{name}: row {{}} (counting from 0)"
        line = rf"{re.escape(path)}:(\d+)"
        text = re.sub(line, lambda found: row.format(int(found[1]) - 2), text).replace(path, name)
    return text


def _is_whole(values: Any) -> bool:
    """Whether a column has floats, all of them whole or missing."""
    if getattr(values.dtype, "kind", "") != "f":
        return False
    found = np.asarray(values, dtype=np.float64)
    known = found[~np.isnan(found)]
    return bool((np.isfinite(known) & (known == np.round(known)) & (np.abs(known) < 2**53)).all())


#: Usual names of the column of ids, in lower case, the first ones first.
_ID_NAMES = ("node", "id", "node_id")
#: Columns that a note names.
_SHOWN = 5


def _pick(names: list[str], asked: str | None, known: Sequence[str]) -> str | None:
    if asked is not None:
        return str(asked)
    return next((name for name in names if name.lower() in known), None)


def edge_columns(
    names: list[str], source: str | None, target: str | None, weight: str | None
) -> tuple[str, str, str | None]:
    """The columns of sources, targets and weights: as asked, by their names, or the first two.

    A note says which are taken where the names do not.
    """
    first, second = _pick(names, source, SOURCE_NAMES), _pick(names, target, TARGET_NAMES)
    third = _pick(names, weight, WEIGHT_NAMES)
    is_guess = first is None or second is None
    first = names[0] if first is None and names else first
    second = names[1] if second is None and len(names) > 1 else second
    if first is None or second is None or first == second:
        raise ValueError(
            f"edges: expected two columns, source and target (found {', '.join(names) or 'none'})"
        )
    if is_guess:
        left = [name for name in names if name not in (first, second, third)]
        more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
        ignored = f", ignored: {', '.join(left[:_SHOWN])}{more}" if left else ""
        logger.warning(
            "edges: the source is %r, the target is %r, %s%s: choose columns with source=, target= "
            "and weight=",
            *(first, second, f"the weight is {third!r}" if third else "there is no weight", ignored),
        )
    return first, second, third


def id_column(names: list[str]) -> str:
    """The column of ids by its usual names, or else the first one: a note says that it is taken."""
    lower = [name.lower() for name in names]
    for usual in _ID_NAMES:
        if usual in lower:
            return names[lower.index(usual)]
    logger.warning(
        "nodes: no column named node, id or node_id: the ids are in the first one, %r: choose "
        "another with id_column=",
        names[0],
    )
    return names[0]


class Edges:
    """The edges of a relation: two columns of node ids, and weights."""

    def __init__(
        self,
        edges: ArrayLike,
        weights: ArrayLike | None = None,
        source: str | None = None,
        target: str | None = None,
        weight: str | None = None,
    ) -> None:
        self.pairs: Array | None = None
        if type(edges).__module__.startswith("networkx"):
            if hasattr(edges, "adj"):
                hint = "pass graph.edges and ids=list(graph)"
                raise ValueError(f"edges: found a graph of networkx: {hint}")
            # Pairs, also if there are two of them.
            listed = [edge[:2] for edge in edges]
            edges = tuple(as_array([edge[end] for edge in listed]) for end in (0, 1))
        if hasattr(edges, "tocoo"):  # scipy.sparse
            entries = _checked(edges).tocoo()
            if entries.shape[0] != entries.shape[1]:
                raise ValueError(f"edges: expected a square matrix, found {entries.shape}")
            self.nodes: int | None = int(entries.shape[0])
            self.sources, self.targets = np.asarray(entries.row), np.asarray(entries.col)
            if weights is None and not bool(np.all(entries.data == 1)):
                weights = entries.data
        elif column_names(edges) is not None:
            self.nodes = None
            names = column_names(edges) or []
            first, second, third = edge_columns(names, source, target, weight)
            self.sources, self.targets = column(edges, first), column(edges, second)
            if weights is None and third is not None:
                weights = column(edges, third)
        else:
            self.nodes = None
            self._from_array(edges)
        self.sources, self.targets = _node_ids(self.sources), _node_ids(self.targets)
        self.weights: Floats | None = None
        if weights is not None:
            self.weights = _weights(as_array(weights).reshape(-1))

    def _from_array(self, edges: ArrayLike) -> None:
        if isinstance(edges, (tuple, list)) and len(edges) == 2 and _is_column(edges[0]):
            self.sources, self.targets = as_array(edges[0]), as_array(edges[1])
            return
        array = as_array(edges)
        if array.ndim == 0:
            files = ": ignn.ingest reads files" if isinstance(edges, (str, os.PathLike)) else ""
            raise ValueError(f"edges: expected an array or a table, found {edges!r}{files}")
        if array.size == 0:
            array = np.zeros((2, 0), dtype=np.int64)
        if array.ndim != 2 or 2 not in array.shape:
            raise ValueError(
                "edges: expected an array of shape (2, edges) or (edges, 2), "
                f"found {tuple(array.shape)}"
            )
        if array.shape[0] == 2:
            self.sources, self.targets = array[0], array[1]
        else:
            self.sources, self.targets = array[:, 0], array[:, 1]
            if array.flags.c_contiguous and array.dtype in _NODE_TYPES:
                self.pairs = array.reshape(-1)

    @property
    def names_nodes(self) -> bool:
        """Whether nodes have names instead of numbers."""
        return self.sources.dtype.kind not in "iub" or self.targets.dtype.kind not in "iub"

    def number(self, lookup: Ids) -> None:
        """Replaces the ids of nodes by their numbers."""
        self.sources, self.targets = lookup.numbers(self.sources), lookup.numbers(self.targets)
        self.pairs = None

    def highest(self) -> int:
        """The highest node number; -1 without edges."""
        if len(self.sources) == 0:
            return -1
        if self.pairs is not None:
            return int(self.pairs.max())
        return max(int(self.sources.max()), int(self.targets.max()))

    def columns(self) -> tuple[Array, Array | None]:
        """Sources and targets, or pairs and nothing, contiguous."""
        if len(self.sources) != len(self.targets):
            found = f"{len(self.sources)} sources and {len(self.targets)} targets"
            raise ValueError(f"edges: expected as many sources as targets, found {found}")
        if self.pairs is not None:
            return self.pairs, None
        return _contiguous(self.sources), _contiguous(self.targets)


def _node_ids(ids: Array, what: str = "edges") -> Array:
    """Ids as integers where all of them are, else as texts: a column with gaps comes as floats."""
    if ids.ndim != 1:
        raise ValueError(f"{what}: expected a column of node ids, found an array of {ids.shape}")
    expected = f"{what}: expected whole numbers, or names, as node ids"
    if ids.dtype.kind == "O":
        listed = ids.tolist()
        gaps = [at for at, value in enumerate(listed) if _is_missing(value)]
        if gaps:
            raise ValueError(f"{expected}, found {listed[gaps[0]]!r} at position {gaps[0]}")
        if listed and all(isinstance(value, int) for value in listed):
            return np.array(listed)
        return ids.astype(str)
    if ids.dtype.kind == "f":
        # Larger ones are not exact.
        wrong = np.flatnonzero(~(np.abs(ids) < 2**53) | (ids != np.round(ids)))
        if len(wrong):
            raise ValueError(f"{expected}, found {ids[wrong[0]]} at position {wrong[0]}")
        return ids.astype(np.int64)
    if ids.dtype.kind not in "iubUST":
        raise ValueError(f"{expected}, found {ids.dtype}")
    return ids


def _weights(weights: Array) -> Floats:
    if weights.dtype.kind not in "fiub":
        raise ValueError(f"weights: expected numbers, found {weights.dtype}")
    return np.ascontiguousarray(weights, dtype=np.float32)


def _is_column(value: ArrayLike) -> bool:
    return getattr(value, "ndim", None) == 1 or hasattr(value, "to_numpy")


def _contiguous(numbers: Array) -> Array:
    kind = numbers.dtype if numbers.dtype in _NODE_TYPES else np.dtype("int64")
    return np.ascontiguousarray(numbers, dtype=kind)


class Ids:
    """The ids of nodes, in node order."""

    def __init__(self, ids: ArrayLike) -> None:
        self.values = _node_ids(as_array(ids), "ids")
        self._order = np.argsort(self.values, kind="stable")
        ordered = self.values[self._order]
        if len(ordered) > 1:
            same = np.flatnonzero(ordered[1:] == ordered[:-1])
            if len(same):
                raise ValueError(f"ids: {ordered[same[0]].item()!r} is given twice")
        self._ordered = ordered

    @staticmethod
    def of(columns: Sequence[Array]) -> Ids:
        """All ids that occur, in ascending order."""
        return Ids(np.unique(np.concatenate([np.unique(column.astype(str)) for column in columns])))

    def numbers(self, column: Array) -> Array:
        """The node numbers of ids."""
        if (self._ordered.dtype.kind in "iu") != (column.dtype.kind in "iu"):
            # Numbers in one and texts in the other.
            return Ids(self.values.astype(str)).numbers(column.astype(str))
        if self._ordered.dtype.kind == "U" and column.dtype.kind != "U":
            column = column.astype(str)
        at = np.searchsorted(self._ordered, column)
        at = np.minimum(at, max(len(self._ordered) - 1, 0))
        if len(column) and len(self._ordered) == 0:
            raise ValueError("ids: expected one for each node, found none")
        wrong = np.flatnonzero(self._ordered[at] != column)
        if len(wrong):
            raise ValueError(f"edges: node {column[wrong[0]].item()!r} is not among the ids")
        return np.asarray(self._order[at], dtype=np.int64)

    def texts(self) -> list[str]:
        """The ids as text."""
        return [str(value) for value in self.values.tolist()]


def _checked(matrix: Any) -> Any:
    """A sparse matrix of SciPy whose indices are in range, over the same arrays."""
    if not hasattr(matrix, "indptr"):
        return matrix
    # Checks may change the object: not that of the user.
    own = type(matrix)((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
    own.check_format(full_check=True)
    return own


def features(x: ArrayLike) -> Any:
    """Features: a dense float32 array, or offsets, columns, values and width of a sparse one."""
    if hasattr(x, "tocsr"):
        rows = _checked(x).tocsr()
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        return (
            np.ascontiguousarray(rows.indptr, dtype=np.uint64),
            np.ascontiguousarray(rows.indices, dtype=np.uint32),
            np.ascontiguousarray(rows.data, dtype=np.float32),
            int(rows.shape[1]),
        )
    names = column_names(x)
    array = as_array(x) if names is None else _table(x, names)
    if array.ndim == 1:
        array = array.reshape(-1, 1)
    if array.ndim != 2:
        raise ValueError(f"x: expected one row per node, found an array of shape {array.shape}")
    if array.dtype.kind not in "fiub":
        raise ValueError(f"x: expected numbers, found {array.dtype}")
    return np.ascontiguousarray(array, dtype=np.float32)


def _table(table: ArrayLike, names: list[str]) -> Array:
    columns = [_of_objects(column(table, name)) for name in names]
    for name, values in zip(names, columns, strict=True):
        if values.dtype.kind not in "fiub":
            raise ValueError(
                f"x: expected numbers in column {name!r}, found {values.dtype}: "
                "Graph.from_tables encodes words and missing values"
            )
    return np.stack([values.astype(np.float32) for values in columns], axis=1)


def rows_of(x: Any) -> int:
    """Number of rows of what `features` returned."""
    return len(x[0]) - 1 if isinstance(x, tuple) else len(x)


#: Names of the classes, or of the number, and what each item has: a class, a number, or a set of
#: classes with offsets and whether the item is labelled.
LabelArrays: TypeAlias = "tuple[list[str], Any]"
Task: TypeAlias = Literal["auto", "classification", "regression"]


def _label_columns(y: ArrayLike) -> list[str] | None:
    """The names of the columns, if `y` is a table."""
    return None if hasattr(y, "dtype") else column_names(y)


def rows_of_labels(y: ArrayLike) -> Array:
    """Labels as an array with one entry, or one row of 0 and 1, per item."""
    names = _label_columns(y)
    array = as_array(y) if names is None else _table(y, names)
    if array.ndim == 0:
        raise ValueError(f"y: expected one label per item, found {y!r}")
    return array.reshape(-1) if array.ndim == 2 and array.shape[1] == 1 else array


def labels(y: ArrayLike, classes: Sequence[str] | None, task: Task = "auto") -> LabelArrays:
    """Labels as class names and the class of each item, as sets of classes, or as numbers.

    Negative classes, NaN and None mean that an item has no label. Numbers that are not all whole
    are numbers to predict, unless `task` says otherwise.
    """
    if task not in ("auto", "classification", "regression"):
        tasks = "auto, classification, regression"
        raise ValueError(f"task: expected one of {tasks}, found {task!r}")
    if classes is not None and len(set(classes)) < len(classes):
        raise ValueError(f"classes: expected each of them once, found {list(classes)}")
    name = str(getattr(y, "name", None) or "y")
    names = _label_columns(y)
    if names is not None and classes is None:
        classes = names
    array = rows_of_labels(y)
    if array.ndim == 2:
        return _sets_of(label_sets(array), classes)
    if array.ndim != 1:
        raise ValueError(f"y: expected one label per item, found an array of shape {array.shape}")
    if task == "regression":
        if array.dtype.kind not in "fiu":
            raise ValueError(f"y: expected numbers for a regression, found {array.dtype}")
        return [name], _numbers(array)
    if array.dtype.kind == "S":
        decoded: Array = np.char.decode(array, "utf-8")
        array = decoded
    given = array
    if array.dtype.kind == "f":
        known = ~np.isnan(array)
        rounded = np.where(known, array, -1.0)
        part = np.flatnonzero(rounded != np.round(rounded))
        if (len(part) or bool(np.isinf(array).any())) and task == "auto":
            return [name], _numbers(array)
        if len(part):
            raise ValueError(f"y: expected classes, found the number {rounded[part[0]]}")
        array = rounded.astype(np.int64)
    if array.dtype.kind == "b":
        array = array.astype(np.int64)
    if array.dtype.kind in "iu":
        known = array >= 0
        if classes is not None:
            if bool(np.any(array[known] >= len(classes))):
                raise ValueError(f"y: expected classes below {len(classes)}, found {array.max()}")
            return [str(own) for own in classes], np.where(known, array, -1).astype(np.int32)
        values, codes_of = np.unique(array[known], return_inverse=True)
        own_names = [str(int(value)) for value in values]
    else:
        listed = array.tolist()
        known = np.array([not _is_missing(value) for value in listed], dtype=bool)
        if _are_truths([value for value in listed if not _is_missing(value)]):
            truths = [np.nan if _is_missing(value) else float(value) for value in listed]
            return labels(np.array(truths), classes, task)
        texts = np.array([str(value) for value in listed if not _is_missing(value)], dtype=str)
        values, codes_of = np.unique(texts, return_inverse=True)
        own_names = [str(value) for value in values]
        if classes is not None:
            unknown = sorted(set(own_names) - {str(own) for own in classes})
            if unknown:
                raise ValueError(f"y: {unknown[0]!r} is not among the classes")
            position = {str(own): at for at, own in enumerate(classes)}
            codes_of = np.array([position[own] for own in own_names], dtype=np.int64)[codes_of]
            own_names = [str(own) for own in classes]
    if classes is None:
        _note_classes(given, values, int(known.sum()))
    codes = np.full(len(array), -1, dtype=np.int32)
    codes[known] = codes_of.reshape(-1)
    return own_names, codes


#: From this many classes on, numbers are probably no classes, if there are few items of each.
_MANY, _FEW_ITEMS = 20, 5


def _note_classes(y: Array, classes: Array, known: int) -> None:
    """A note where the user may have meant something else than classes."""
    if y.dtype.kind not in "iuf":
        return
    negative = np.unique(y[y < 0])
    # -1 alone is the usual sign of no label.
    if len(negative) and (len(classes) == 1 or negative.tolist() != [-1]):
        logger.warning(
            "y: negative numbers mean no label: %d of %s have none, %s left: give classes other "
            "numbers or names, such as y.astype(str), or pass task='regression'",
            len(y) - known,
            plural(len(y), "item", "items"),
            plural(len(classes), "class is", "classes are"),
        )
    elif len(classes) >= _MANY and known < _FEW_ITEMS * len(classes):
        logger.warning(
            "y: %d classes whose names are numbers: to predict a number, pass task='regression'",
            len(classes),
        )


def _numbers(array: Array) -> npt.NDArray[np.float64]:
    infinite = np.flatnonzero(np.isinf(array))
    if len(infinite):
        found = f"{array[infinite[0]]} at item {infinite[0]}"
        raise ValueError(f"y: expected finite numbers, or NaN for no label, found {found}")
    return np.ascontiguousarray(array, dtype=np.float64)


def label_count(labels: LabelArrays) -> int:
    """Number of items of what `labels` returned."""
    return len(labels[1][1]) - 1 if isinstance(labels[1], tuple) else len(labels[1])


def _is_missing(value: object) -> bool:
    # NaN and the like are not equal to themselves; pandas.NA has no answer.
    try:
        return value is None or bool(value != value) or bool(value == "")
    except (TypeError, ValueError):
        return True


def label_sets(array: Array) -> npt.NDArray[np.int8]:
    """Sets of classes as columns of 0 and 1; rows with NaN, or a negative number, are -1."""
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise ValueError(f"y: expected 0 or 1 for each class of an item, found {_shown(array)}")
    numbers = array.astype(np.float64)
    none = ~(numbers >= 0).all(axis=1)
    numbers[none] = -1
    if not bool(np.isin(numbers[~none], (0, 1)).all()):
        raise ValueError("y: expected 0 or 1 for each class of an item")
    return numbers.astype(np.int8)


def _shown(array: Array) -> str:
    return f"an array of {array.dtype} of shape {array.shape}"


def _sets_of(sets: npt.NDArray[np.int8], classes: Sequence[str] | None) -> LabelArrays:
    own = [str(at) for at in range(sets.shape[1])] if classes is None else list(classes)
    if len(own) != sets.shape[1]:
        raise ValueError(f"y: expected {len(own)} columns, one per class, found {sets.shape[1]}")
    rows, columns = np.nonzero(sets > 0)
    offsets = np.zeros(len(sets) + 1, dtype=np.uint64)
    offsets[1:] = np.cumsum(np.bincount(rows, minlength=len(sets)))
    known = np.asarray((sets >= 0).all(axis=1))
    return own, (columns.astype(np.int32), offsets, known)


#: The code of a label of a class that is not among the known ones.
UNKNOWN = -2


def class_codes(values: Array, classes: Array) -> npt.NDArray[np.int64]:
    """The position of each label among classes, -1 for no label and `UNKNOWN` for another class.

    Labels may be of another type than the classes: whole floats, or truth values.
    """
    if values.ndim != 1:
        raise ValueError(f"y: expected one label per item, found {_shown(values)}")
    position = {str(name): at for at, name in enumerate(classes.tolist())}
    has_words = bool(position) and all(name.lower() in ("true", "false") for name in position)

    def code(value: Any) -> int:
        if isinstance(value, str):
            return position.get(value, UNKNOWN if value else -1)
        if _is_missing(value):
            return -1
        if isinstance(value, (bool, np.bool_)) and str(value) not in position:
            value = str(value).lower() if has_words else int(value)
        elif isinstance(value, float) and value.is_integer():
            value = int(value)
        is_none = isinstance(value, int) and value < 0
        return position.get(str(value), -1 if is_none else UNKNOWN)

    if values.dtype.kind == "S":
        decoded: Array = np.char.decode(values, "utf-8")
        values = decoded
    if values.dtype.kind == "O":
        return np.array([code(value) for value in values.tolist()], dtype=np.int64)
    found, of = np.unique(values, return_inverse=True)
    return np.array([code(value) for value in found.tolist()], dtype=np.int64)[of.reshape(-1)]


SplitArrays: TypeAlias = "tuple[str, list[str], npt.NDArray[np.uint8]]"


def splits(
    count: int, parts: Mapping[str, ArrayLike | None], named: ArrayLike | None
) -> list[SplitArrays]:
    """Splits from masks, indices or stacks of masks of each part, or from one name per item."""
    given = {name: as_array(part) for name, part in parts.items() if part is not None}
    if named is not None:
        if given:
            raise ValueError("split: give either the part of each item, or masks of the parts")
        return [_named_split(count, as_array(named))]
    if not given:
        return []
    stacks = {name: _stack(count, name, part) for name, part in given.items()}
    depth = max(stack.shape[1] for stack in stacks.values())
    for name, stack in stacks.items():
        if stack.shape[1] not in (1, depth):
            raise ValueError(f"{name}: expected 1 or {depth} masks, found {stack.shape[1]}")
    names = list(stacks)
    found: list[SplitArrays] = []
    for at in range(depth):
        of = np.full(count, _NO_PART, dtype=np.uint8)
        for part, name in enumerate(names):
            mask = stacks[name][:, min(at, stacks[name].shape[1] - 1)]
            twice = np.flatnonzero(mask & (of != _NO_PART))
            if len(twice):
                other = names[of[twice[0]]]
                raise ValueError(f"{name}: item {twice[0]} is in {other} as well")
            of[mask] = part
        found.append(("default" if depth == 1 else str(at), names, of))
    return found


def _stack(count: int, name: str, part: Array) -> npt.NDArray[np.bool_]:
    is_mask = part.dtype.kind == "b" or (
        part.dtype == np.uint8 and count in part.shape and bool(np.isin(part, (0, 1)).all())
    )
    if is_mask:
        if part.ndim == 1:
            part = part.reshape(-1, 1)
        if part.ndim == 2 and part.shape[0] != count and part.shape[1] == count:
            part = part.T
        if part.ndim != 2 or part.shape[0] != count:
            raise ValueError(f"{name}: expected a mask of {count} items, found {part.shape}")
        return part.astype(bool)
    if part.size == 0:
        return np.zeros((count, 1), dtype=bool)
    if part.ndim != 1 or part.dtype.kind not in "iu":
        raise ValueError(f"{name}: expected a mask, a stack of masks or indices, found {part.dtype}")
    if bool((part < 0).any()) or bool((part >= count).any()):
        wrong = part[(part < 0) | (part >= count)][0]
        raise ValueError(f"{name}: expected indices from 0 to {count - 1}, found {wrong}")
    mask = np.zeros((count, 1), dtype=bool)
    mask[part] = True
    if int(mask.sum()) != len(part):
        raise ValueError(f"{name}: indices are given twice; a mask has True and False, not 1 and 0")
    return mask


def _named_split(count: int, named: Array) -> SplitArrays:
    if named.shape != (count,):
        raise ValueError(f"split: expected one part for each of {count} items, found {named.shape}")
    listed = named.tolist()
    names = list(dict.fromkeys(str(value) for value in listed if not _is_missing(value)))
    if len(names) >= _NO_PART:
        raise ValueError(f"split: expected at most {_NO_PART - 1} parts, found {len(names)}")
    position = {name: at for at, name in enumerate(names)}
    of = [_NO_PART if _is_missing(value) else position[str(value)] for value in listed]
    return "default", names, np.array(of, dtype=np.uint8)


def class_values(names: Sequence[str]) -> Array:
    """Class names as the user gave them: integers if all of them are."""
    try:
        values = [int(name) for name in names]
    except ValueError:
        return np.array(names, dtype=str)
    if [str(value) for value in values] == list(names):
        return np.array(values, dtype=np.int64)
    return np.array(names, dtype=str)


#: More than any machine has.
_MOST = 1 << 60


def memory_bytes(memory: int | str | None) -> int | None:
    """A size in bytes, or as text with a unit, such as ``"2GiB"``.

    >>> memory_bytes("1.5 GiB")
    1610612736
    """
    if memory is None:
        return None
    if not isinstance(memory, str):
        if not (memory > 0 and memory % 1 == 0):
            raise ValueError(f"memory: expected bytes, or a size such as '2GiB', found {memory!r}")
        return min(int(memory), _MOST)
    text = memory.strip()
    end = next((at for at, c in enumerate(text) if not (c.isdigit() or c == ".")), len(text))
    units = {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
    units |= {"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
    unit, number = units.get(text[end:].strip().lower()), 0.0
    try:
        number = float(text[:end])
    except ValueError:
        unit = None
    if unit is None:
        raise ValueError(f"memory: expected a size such as '2GiB', found {memory!r}")
    return min(int(number * unit), _MOST)


@overload
def sweeps(count: int) -> int: ...
@overload
def sweeps(count: int | None) -> int | None: ...
def sweeps(count: int | None) -> int | None:
    """A largest number of sweeps."""
    if count is not None and not (isinstance(count, Real) and count >= 0 and count % 1 == 0):
        raise ValueError(f"max_sweeps: expected a whole number of 0 or more, found {count!r}")
    return None if count is None else int(count)
