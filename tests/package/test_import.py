"""Importing jfstat: quick, silent, and without touching JAX's configuration."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

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
    root = Path(__file__).parents[2]
    (cited,) = re.findall(r"^version: (.+)$", (root / "CITATION.cff").read_text(), re.M)
    assert cited == jfstat.__version__
    project = tomllib.loads((root / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "jfstat.version.__version__"}


def test_every_public_name_has_one_home():
    assert set(jfstat._HOMES) == set(jfstat.__all__)
    for name in jfstat.__all__:
        assert getattr(jfstat, name).__name__ == name
    assert {"search", "plots"} <= set(dir(jfstat))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = jfstat.nonsense


def test_the_version_does_not_wait_for_jax():
    program = "import sys; from jfstat.commandline import main; main(['--version']); print('jax' in sys.modules)"
    assert run(program).split() == ["jfstat", jfstat.__version__, "False"]


def test_the_program_keeps_compiled_programs_where_it_may(tmp_path):
    program = (
        "import jax, sys; from jfstat.commandline.compilecache import use_compile_cache; use_compile_cache(); "
        "print(jax.config.jax_compilation_cache_dir)"
    )
    environment = {name: x for name, x in os.environ.items() if not name.startswith("JAX_COMPILATION")}

    def chosen(**extra):
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment | extra
        )
        return done.stdout.strip()

    own = chosen(XDG_CACHE_HOME=str(tmp_path))
    assert own.startswith(str(tmp_path / "jfstat" / "jax-")) and Path(own).is_dir()
    assert chosen(XDG_CACHE_HOME=str(tmp_path), JAX_COMPILATION_CACHE_DIR="/elsewhere") == "/elsewhere"
    assert chosen(XDG_CACHE_HOME=str(tmp_path), JAX_ENABLE_COMPILATION_CACHE="false") == "None"
    (tmp_path / "file").write_text("")
    assert chosen(XDG_CACHE_HOME=str(tmp_path / "file")) == "None"  # no folder can be made there
