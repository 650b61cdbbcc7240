"""Every notebook runs from top to bottom, and is committed without outputs."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from vecsched._jit import JIT_ENABLED

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
# A sweep of some hundred points that takes seconds compiled takes an hour as plain Python.
TOO_SLOW_WITHOUT_JIT = ("fairness", "fidelity", "frontier", "prefix_caching")

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def test_there_are_notebooks():
    expected = {"boundary", "fairness", "fidelity", "frontier", "prefix_caching"}
    assert expected <= {path.stem for path in NOTEBOOKS}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a notebook in its own folder, as its reader does. An error in a cell is raised."""
    # IPython would write its history into the user's home.
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))

    def execute(path):
        if not JIT_ENABLED and path.stem in TOO_SLOW_WITHOUT_JIT:
            pytest.skip("simulates too much for plain Python")
        notebook = nbformat.read(path, as_version=4)
        resources = {"metadata": {"path": str(path.parent)}}
        NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()
        return notebook

    return execute


@each_notebook
def test_runs(path, run):
    run(path)


def test_fidelity_says_what_it_shows(run, tmp_path, monkeypatch):
    (path,) = (path for path in NOTEBOOKS if path.stem == "fidelity")
    monkeypatch.setenv("VECSCHED_SHARED", str(tmp_path / "nothing"))
    text = str([cell.get("outputs") for cell in run(path).cells])
    assert "a made-up run" in text
    assert "real run" not in text


def test_fidelity_shows_the_real_run_where_it_is(run, shared, monkeypatch):
    (path,) = (path for path in NOTEBOOKS if path.stem == "fidelity")
    monkeypatch.setenv("VECSCHED_SHARED", str(shared))
    text = str([cell.get("outputs") for cell in run(path).cells])
    assert "a real run of vLLM" in text
    assert "made-up" not in text


def test_prefix_caching_needs_no_data(run, tmp_path, monkeypatch):
    (path,) = (path for path in NOTEBOOKS if path.stem == "prefix_caching")
    monkeypatch.setenv("VECSCHED_SHARED", str(tmp_path / "nothing"))
    text = str([cell.get("outputs") for cell in run(path).cells])
    assert "**Made-up conversations.**" in text
    assert "Mooncake" not in text


@each_notebook
def test_is_stripped_of_outputs(path):
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None
