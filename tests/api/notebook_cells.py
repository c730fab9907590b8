"""Runs the code cells of a notebook in order, in one namespace, and notes what they show.

It knows what docs/notebook.ipynb needs and no more: Jupyter is not required. To write that notebook again,
with the outputs of this machine:

    python tests/api/notebook_cells.py docs/notebook.ipynb
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

NAME = "notebook_main"
"""The module in which cells run; a policy defined in one is found there."""


def read_notebook(path: Path) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads(path.read_text("utf-8"))
    assert notebook["nbformat"] == 4
    return notebook


def source_of(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def execute(notebook: dict[str, Any], folder: Path) -> list[list[dict[str, Any]]]:
    """Run all code cells in ``folder``; return the outputs of each. Raises what a cell raises."""
    module = ModuleType(NAME)
    sys.modules[NAME] = module
    try:
        with contextlib.chdir(folder) if sys.version_info >= (3, 11) else _chdir(folder):
            code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
            return [_outputs(source_of(cell), number, module) for number, cell in enumerate(code, 1)]
    finally:
        del sys.modules[NAME]


@contextlib.contextmanager
def _chdir(folder: Path):
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _outputs(source: str, number: int, module: ModuleType) -> list[dict[str, Any]]:
    tree, value = ast.parse(source), None
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), vars(module))
        if last is not None:
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), vars(module))
    outputs: list[dict[str, Any]] = []
    if text := printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)})
    if value is not None:
        outputs.append(
            {
                "output_type": "execute_result",
                "execution_count": number,
                "data": _shown(value),
                "metadata": {},
            }
        )
    return outputs


def _shown(value: Any) -> dict[str, Any]:
    """What a notebook shows of a value, by MIME type."""
    data: dict[str, Any] = {}
    if (html := getattr(value, "_repr_html_", None)) is not None and (text := html()) is not None:
        data["text/html"] = text.splitlines(keepends=True)
    if (png := getattr(value, "_repr_png_", None)) is not None:
        data["image/png"] = base64.b64encode(png()).decode()
    data["text/plain"] = repr(value).splitlines(keepends=True)
    return data


def main(path: Path) -> None:
    notebook = read_notebook(path)
    with tempfile.TemporaryDirectory() as folder:
        shown = execute(notebook, Path(folder))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, outputs) in enumerate(zip(code, shown, strict=True), 1):
        cell.update(execution_count=number, outputs=outputs)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
