"""docs/notebook.ipynb runs, and shows what it says that it shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from api.notebook_cells import execute, read_notebook, source_of

NOTEBOOK = Path(__file__).parents[2] / "docs/notebook.ipynb"


def test_it_is_small_and_of_one_piece() -> None:
    assert NOTEBOOK.stat().st_size < 200_000
    notebook = read_notebook(NOTEBOOK)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == [*range(1, len(code) + 1)]
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    shown = [output.get("data", {}) | {"image/png": ""} for cell in code for output in cell["outputs"]]
    for stranger in ("/home/", "/tmp/", "Traceback"):
        assert stranger not in json.dumps(shown)


@pytest.mark.slow
def test_it_runs_and_shows_what_it_did(tmp_path: Path) -> None:
    """Run again, each cell has outputs of the same kinds; figures may differ with the solver's version.

    Where this fails, the notebook shows something else now, and is written again by
    python tests/api/notebook_cells.py docs/notebook.ipynb
    """
    notebook = read_notebook(NOTEBOOK)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for cell, outputs in zip(code, execute(notebook, tmp_path), strict=True):
        assert kinds(cell["outputs"]) == kinds(outputs), source_of(cell)
    assert (tmp_path / "report.html").stat().st_size > 100_000
    assert {"beasy_summary.json", "beasy_jobs.csv"} <= {path.name for path in (tmp_path / "out").iterdir()}


def kinds(outputs: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """What is shown, by MIME type, and the first word of its text."""
    found = []
    for output in outputs:
        text = "".join(output.get("text", ()) or output["data"]["text/plain"])
        found.append((output["output_type"], *output.get("data", ()), text.split()[0]))
    return found
