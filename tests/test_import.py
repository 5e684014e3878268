"""Importing jfstat: quick, silent, and without touching JAX's configuration."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import jfstat


def run(program):
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_is_silent_and_takes_under_two_seconds_beyond_jax():
    program = "import jax, jax.numpy, time; t = time.perf_counter(); import jfstat; print(time.perf_counter() - t)"
    assert min(float(run(program)) for _ in range(3)) < 2.0


def test_import_configures_nothing_and_loads_no_heavy_packages():
    out = run("import jax; import jfstat, sys; print(jax.config.read('jax_enable_x64'), 'astropy' in sys.modules)")
    assert out.split() == ["False", "False"]


def test_the_version_is_the_same_everywhere():
    root = Path(__file__).parents[1]
    (cited,) = re.findall(r"^version: (.+)$", (root / "CITATION.cff").read_text(), re.M)
    assert cited == jfstat.__version__
    project = tomllib.loads((root / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "jfstat.version.__version__"}
