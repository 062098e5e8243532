"""The notebooks of the examples, cell by cell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "examples").glob("*.ipynb"))


def shown(value: Any) -> str:
    """What a notebook would show of a value."""
    return value._repr_html_() if hasattr(value, "_repr_html_") else repr(value)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path: Path) -> None:
    """Executes the cells in order in one namespace; a value at the end of a cell is shown."""
    notebook = json.loads(path.read_text())
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert cells and all(not cell["outputs"] for cell in cells), "a notebook without outputs"
    for number, cell in enumerate(cells):
        source = "".join(cell["source"])
        lines = source.splitlines()
        place = f"{path.name}, cell {number}"
        try:
            last = compile(lines[-1], place, "eval")
        except SyntaxError:
            exec(compile(source, place, "exec"), names)
            continue
        exec(compile("\n".join(lines[:-1]), place, "exec"), names)
        assert shown(eval(last, names))
