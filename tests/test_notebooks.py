"""The notebook runs from top to bottom, the example that samples posteriors too, and both come out right."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]


def environment():
    """Variables for processes that shall find this checkout of jfstat."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return os.environ | {"PYTHONPATH": path}


@pytest.mark.slow
def test_the_follow_up_notebook_runs():
    pytest.importorskip("ipykernel")
    pytest.importorskip("matplotlib")
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager

    notebook = nbformat.read(ROOT / "notebooks" / "gradient_followup.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    # without a folder to look in, python3 is this interpreter, whatever is installed elsewhere
    manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))
    client = nbclient.NotebookClient(notebook, km=manager, timeout=600)
    client.execute(env=environment(), cwd=str(ROOT / "notebooks"))  # a cell that raises raises here

    pictures = [out for cell in notebook.cells for out in cell.get("outputs", ()) if "image/png" in out.get("data", {})]
    assert len(pictures) == 2
    outcome = ast.literal_eval(notebook.cells[-1].outputs[-1]["data"]["text/plain"])
    assert np.max(np.abs(outcome["pulls"])) < 5
    if outcome["NUTS over refine"] is not None:
        np.testing.assert_allclose(outcome["NUTS over refine"], 1, atol=0.15)


@pytest.mark.slow
def test_the_errors_are_those_of_the_posterior(tmp_path):
    pytest.importorskip("blackjax")
    output = tmp_path / "rows.json"
    program = ROOT / "examples" / "posterior_nuts.py"
    command = [sys.executable, str(program), "--candidates", "1", "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=tmp_path, timeout=600)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(output.read_text())["rows"]
    assert row["twoF"] > 100
    assert row["divergent"] == 0
    assert min(row["effective"]) > 500
    np.testing.assert_allclose(row["ratios"], 1, atol=0.12)
    np.testing.assert_allclose(row["shifts"], 0, atol=0.2)
    np.testing.assert_allclose(row["sampled_correlations"], row["correlations"], atol=0.12)
    np.testing.assert_allclose(row["eigenvalues"], 1, atol=0.3)
