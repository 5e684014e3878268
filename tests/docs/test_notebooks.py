"""The notebooks run from top to bottom, the example that samples posteriors too, and all come out right."""

import ast
import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def environment():
    """Variables for processes that shall find this checkout of jfstat."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return os.environ | {"PYTHONPATH": path}


def executed(name):
    """The notebook of this name, run from top to bottom; a cell that raises raises here.

    It is committed with what its cells show.
    """
    pytest.importorskip("ipykernel")
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager

    notebook = nbformat.read(ROOT / "notebooks" / name, as_version=4)
    nbformat.validate(notebook)
    assert any(cell.get("outputs") for cell in notebook.cells)
    # without a folder to look in, python3 is this interpreter, whatever is installed elsewhere
    manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))
    client = nbclient.NotebookClient(notebook, km=manager, timeout=600)
    client.execute(env=environment(), cwd=str(ROOT / "notebooks"))
    del client, manager
    gc.collect()  # its sockets are closed now, with warnings, rather than in a test that comes later
    sys.modules.pop("ipykernel", None)  # by which progress would take the tests after this one for a notebook
    return notebook


def outcome_of(notebook):
    """What the last cell shows."""
    return ast.literal_eval(notebook.cells[-1].outputs[-1]["data"]["text/plain"])


@pytest.mark.ci
def test_the_notebook_with_a_detector_and_a_phase_of_ones_own_runs():
    outcome = outcome_of(executed("own_detector_and_phase.ipynb"))
    assert outcome["glitch"] > 5 * outcome["plain"]
    assert abs(outcome["glitch"] - outcome["predicted"]) < 4 * np.sqrt(4 * outcome["predicted"])
    np.testing.assert_allclose(*outcome["gradients"], rtol=1e-5)
    assert outcome["converged"]
    assert outcome["gained"] > 5
    assert abs(outcome["pull"]) < 4
    if outcome["LALSuite"] is not None:
        assert outcome["LALSuite"] == pytest.approx(outcome["jfstat"], rel=0.02)


def pictures_of(notebook):
    """How many pictures its cells show."""
    return sum("image/png" in out.get("data", {}) for cell in notebook.cells for out in cell.get("outputs", ()))


@pytest.mark.ci
def test_limits_of_pulsars_hold_their_signals():
    notebook = executed("pulsar_limits.ipynb")
    assert pictures_of(notebook) == 3
    outcome = outcome_of(notebook)
    for low, truth, high in (outcome["c21"], outcome["h0"]):
        assert low < truth < high
    assert outcome["expected"] / 2 < outcome["limit"] < 2 * outcome["expected"]


@pytest.mark.slow
def test_the_mean_ellipticity_of_a_population_is_found():
    notebook = executed("populations.ipynb")
    assert pictures_of(notebook) == 3
    outcome = outcome_of(notebook)
    assert abs(np.log(outcome["mean"] / outcome["simulated"])) < 3 * np.log(outcome["factor"]) < 1
    assert outcome["names"] == 40


@pytest.mark.slow
def test_the_first_search_runs():
    notebook = executed("first_search.ipynb")
    assert pictures_of(notebook) == 3
    outcome = outcome_of(notebook)
    assert outcome["converged"] and outcome["twoF"] > outcome["found"] > 70
    assert np.max(np.abs(outcome["pulls"])) < 4


@pytest.mark.slow
def test_the_notebook_of_a_known_pulsar_runs():
    notebook = executed("known_pulsar.ipynb")
    assert pictures_of(notebook) == 1
    outcome = outcome_of(notebook)
    assert outcome["signal"] > 100 > 20 > outcome["noise"]
    assert abs(outcome["pull"]) < 4
    assert abs(outcome["h0"] - outcome["formula"]) < 4 * outcome["error"]


@pytest.mark.slow
def test_the_directed_search_runs():
    notebook = executed("directed_search.ipynb")
    assert pictures_of(notebook) == 3
    outcome = outcome_of(notebook)
    assert outcome["converged"] and outcome["twoF"] > outcome["found"] > 100
    assert np.max(np.abs(outcome["pulls"])) < 4
    assert outcome["limit"] < outcome["by age"]


@pytest.mark.slow
def test_the_search_for_a_binary_runs():
    notebook = executed("binary.ipynb")
    assert pictures_of(notebook) == 3
    outcome = outcome_of(notebook)
    assert outcome["converged"] and outcome["twoF"] > outcome["found"] > 100
    assert outcome["highest"] == pytest.approx(outcome["twoF"], abs=0.01)
    assert np.max(np.abs(outcome["pulls"])) < 4


@pytest.mark.slow
def test_the_notebook_of_detection_efficiency_runs():
    notebook = executed("detection_efficiency.ipynb")
    assert pictures_of(notebook) == 2
    outcome = outcome_of(notebook)
    assert outcome["difference"] < 0.02
    assert outcome["mean loss"] < 0.065 + 0.25 and outcome["largest loss"] < 0.19 + 0.25
    share, formula = np.array(outcome["efficiency"]), np.array(outcome["formula"])
    assert np.all(np.abs(share - formula) < 4 * np.sqrt((formula * (1 - formula) + 0.01) / 40))


@pytest.mark.slow
def test_the_notebook_with_ones_own_model_runs():
    pytest.importorskip("blackjax")
    notebook = executed("own_model.ipynb")
    assert pictures_of(notebook) == 1
    outcome = outcome_of(notebook)
    assert outcome["divergent"] == 0
    assert np.max(np.abs(outcome["pulls"])) < 4


@pytest.mark.slow
def test_the_follow_up_notebook_runs():
    pytest.importorskip("matplotlib")
    notebook = executed("gradient_followup.ipynb")
    pictures = [out for cell in notebook.cells for out in cell.get("outputs", ()) if "image/png" in out.get("data", {})]
    assert len(pictures) == 2
    outcome = outcome_of(notebook)
    assert np.max(np.abs(outcome["pulls"])) < 5
    if outcome["NUTS over refine"] is not None:
        np.testing.assert_allclose(outcome["NUTS over refine"], 1, atol=0.15)


@pytest.mark.slow
def test_the_ladder_notebook_runs():
    pytest.importorskip("matplotlib")
    notebook = executed("ladder_followup.ipynb")
    assert any("image/png" in out.get("data", {}) for cell in notebook.cells for out in cell.get("outputs", ()))
    outcome = outcome_of(notebook)
    assert outcome["passed"] >= 1
    assert abs(outcome["twoF"] - 4 - outcome["rho2"]) < 5 * 2 * np.sqrt(outcome["rho2"])
    assert np.max(np.abs(outcome["pulls"])) < 5


@pytest.mark.slow
def test_the_tracking_notebook_runs():
    pytest.importorskip("matplotlib")
    notebook = executed("tracking.ipynb")
    pictures = [out for cell in notebook.cells for out in cell.get("outputs", ()) if "image/png" in out.get("data", {})]
    assert len(pictures) == 4
    outcome = outcome_of(notebook)
    assert np.mean(np.abs(outcome["bins off"])) < 1.5
    assert outcome["asini"] == pytest.approx(1.44, abs=0.006)
    assert outcome["false alarm"] < 0.01
    assert abs(outcome["pull of h0"]) < 5
    assert outcome["noise below 0.1"] == pytest.approx(0.1, abs=0.05)


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
