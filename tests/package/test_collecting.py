"""Python looks for no garbage while jfstat's programs are traced, and does before and after."""

import gc
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import jax.numpy as jnp
import pytest

from jfstat.collecting import no_collection
from jfstat.compileroptions import jit_with


@pytest.fixture(autouse=True)
def collector_on():
    assert gc.isenabled()
    yield
    assert gc.isenabled()


def test_contexts_may_overlap():
    with no_collection:
        with no_collection:
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_after_an_error_it_goes_on():
    with pytest.raises(ZeroDivisionError), no_collection:
        _ = 1 / 0
    assert gc.isenabled()


def test_whoever_has_switched_it_off_finds_it_off():
    gc.disable()
    try:
        with no_collection:
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_it_goes_on_when_the_last_thread_leaves():
    both = Barrier(2, timeout=30)

    def first():
        with no_collection:
            both.wait()  # the other is inside, too
        both.wait()  # and stays there
        inside = gc.isenabled()
        both.wait()
        return inside

    def second():
        with no_collection:
            both.wait()
            both.wait()
            both.wait()

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.submit(first), pool.submit(second)
        assert not one.result()
        other.result()


@pytest.mark.parametrize("lowered", [False, True])
def test_it_is_paused_while_a_program_is_traced(lowered):
    """Those that are kept on disk: test_tracecache."""
    seen = []

    @jit_with({})
    def doubled(x):
        seen.append(gc.isenabled())
        return 2 * x

    x = jnp.asarray(3.0)
    doubled.lower(x) if lowered else doubled(x)
    assert seen == [False]
    assert gc.isenabled()
    assert float(doubled(x)) == 6.0
