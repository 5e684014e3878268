"""Importing jfstat: quick, silent, and without touching JAX's configuration."""

import subprocess
import sys


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
