"""Importing jfstat: quick, silent, and without touching JAX's configuration."""

import os
import subprocess
import sys
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


@pytest.mark.ci
def test_the_program_keeps_compiled_programs_where_it_may(tmp_path):
    program = (
        "import jax, sys; from jfstat.compilecache import use_usual_cache; use_usual_cache(); "
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


@pytest.mark.ci
def test_compiled_programs_are_kept_quietly(tmp_path):
    """A second process compiles nothing, and XLA says nothing of the processor as it loads programs."""
    program = (
        "import jax, sys; jax.config.update('jax_enable_x64', True); import jfstat; "
        "own = jfstat.use_compile_cache(sys.argv[1]); "
        "observed = jfstat.observation(['H1'], start=1167458304, duration=86400, sqrt_sx=1e-23); "
        "point = jfstat.Doppler(1.0, 0.2, [50.0]); "
        "print(float(jfstat.predict_twoF(observed, point, jfstat.Amplitude(1e-24, 0.0)))); "
        "print(len([x for x in own.iterdir() if x.name.endswith('-cache')]))"
    )
    environment = {name: x for name, x in os.environ.items() if not name.startswith(("JAX", "TF_", "XLA"))}
    said = []
    for _ in range(2):
        command = [sys.executable, "-c", program, str(tmp_path / "cache")]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        said.append(done.stdout.split())
        assert done.stderr == ""
    assert said[0] == said[1] and int(said[0][1]) > 0
    # a folder that was named before is kept, or left for another
    program = (
        "import jax, jfstat, pathlib, sys; jax.config.update('jax_enable_x64', True); "
        "here = pathlib.Path(sys.argv[1]); "
        "jax.jit(lambda x: x * 2)(1.0); assert jfstat.use_compile_cache() == here; other = here.with_name('other'); "
        "jfstat.use_compile_cache(other); jax.jit(lambda x: x * 3)(1.0); print(len(list(other.glob('*/*-cache'))))"
    )
    command, own = (
        [sys.executable, "-c", program, str(tmp_path / "mine")],
        {"JAX_COMPILATION_CACHE_DIR": f"{tmp_path}/mine"},
    )
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment | own)
    assert int(done.stdout) > 0
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"cannot be made .* choose another"):
        jfstat.use_compile_cache(tmp_path / "file")
    off = [sys.executable, "-c", "import jfstat; jfstat.use_compile_cache('nowhere')"]
    done = subprocess.run(off, capture_output=True, text=True, env=environment)
    assert "ValueError" in done.stderr and "jax_enable_x64" in done.stderr
    with pytest.raises(TypeError, match="folder must be"):
        jfstat.use_compile_cache(3)
