"""Options of XLA: those that a release does not have are left out, the others are kept."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

from jfstat import compileroptions
from jfstat.compileroptions import LONG_VECTORS, QUICKLY, jit_with, known


def test_this_release_has_all_options():
    assert known(LONG_VECTORS) == LONG_VECTORS


def test_an_option_that_xla_lacks_is_left_out():
    options = {"xla_made_up_by_jfstat": True} | LONG_VECTORS | {"xla_another_made_up": 3}
    assert known(options) == LONG_VECTORS
    with pytest.raises(jax.errors.JaxRuntimeError, match="No such compile option"):
        jax.jit(lambda x: x + 1, compiler_options=options)(1.0)

    @jit_with(options, static_argnames="n")
    def plus(x, n):
        """Add a number."""
        return x + n

    assert plus.__doc__ == "Add a number."
    assert float(plus(jnp.asarray(1.0), n=2.0)) == 3.0
    assert float(plus.lower(jnp.asarray(1.0), n=2.0).compile()(jnp.asarray(2.0))) == 4.0


def test_the_options_that_are_kept_reach_the_compiler(monkeypatch):
    monkeypatch.setattr(compileroptions, "known", dict)
    bad = jit_with({"xla_cpu_prefer_vector_width": "wide"})(lambda x: x + 1)
    with pytest.raises(jax.errors.JaxRuntimeError, match="not a valid int32"):
        bad(1.0)


def test_a_function_compiled_quickly_is_another_program_with_the_same_results():
    slow = jit_with(LONG_VECTORS, static_argnames="n")(lambda x, n: x**n)
    quick = slow.quickly
    assert quick is slow.quickly and quick is not slow
    assert float(quick(jnp.asarray(3.0), n=2)) == float(slow(jnp.asarray(3.0), n=2)) == 9.0
    assert known(QUICKLY) == QUICKLY


def test_xla_is_asked_at_the_first_use_and_once():
    program = (
        "import jax; jax.config.update('jax_enable_x64', True); import jfstat; import jfstat.searching.reduce.loudest; "
        "from jfstat import compileroptions as r; from jax._src import xla_bridge; "
        "assert not xla_bridge.backends_are_initialized(); "
        "f = r.jit_with(r.SAME_BITS)(lambda x: x); f(1.0); f(2.0); r.jit_with(r.SAME_BITS)(lambda x: 2 * x)(1.0); "
        "print(r._is_known.cache_info().misses, r._program.cache_info().misses)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["3", "1"]
