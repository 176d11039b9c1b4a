"""The example notebook runs, and is stored with its outputs."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from mix2fld.runs.simulation import run
from places import ROOT
from toys import toy_dataset, toy_grid

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def code_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_with_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    for cell in code_cells(notebook):
        assert cell.execution_count
        assert cell.outputs, cell.source
        assert all(output.output_type != "error" for output in cell.outputs)
    assert not re.search(r"/(home|root|tmp|Users)/", path.read_text())


@pytest.mark.filterwarnings("ignore")  # warnings of the kernel's own libraries
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    kept = [[output.output_type for output in cell.outputs] for cell in code_cells(notebook)]
    client = NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    shown = [[output.output_type for output in cell.outputs] for cell in code_cells(notebook)]
    assert shown == kept
    html = code_cells(notebook)[0].outputs[0].data["text/html"]
    assert "<table>" in html
    assert "data:image/png;base64," in html


def test_results_show_a_table_and_a_figure() -> None:
    results = run(toy_grid(protocols=("fl", "fd")), dataset=toy_dataset())
    html = results._repr_html_()
    assert html.count("<tr>") == 3
    assert "data:image/png;base64," in html
    assert html.count("data:image/png") == 1
    assert "<table>" in results[0]._repr_html_()
    assert len(results.frame()) == 4
    assert "fd-s0: accuracy" in repr(results)
