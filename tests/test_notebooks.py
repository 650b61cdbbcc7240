"""Every notebook runs from top to bottom, and is committed without outputs."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from vecsched._jit import JIT_ENABLED

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
# A sweep of some hundred points that takes seconds compiled takes an hour as plain Python.
TOO_SLOW_WITHOUT_JIT = ("frontier",)

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def test_there_are_notebooks():
    assert {"boundary", "frontier"} <= {path.stem for path in NOTEBOOKS}


@each_notebook
def test_runs(path, tmp_path, monkeypatch):
    if not JIT_ENABLED and path.stem in TOO_SLOW_WITHOUT_JIT:
        pytest.skip("runs a sweep: too slow as plain Python")
    # IPython would write its history into the user's home.
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    notebook = nbformat.read(path, as_version=4)
    # In its own folder, as for a user who opens it. An error in a cell is raised.
    resources = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()


@each_notebook
def test_is_stripped_of_outputs(path):
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None
