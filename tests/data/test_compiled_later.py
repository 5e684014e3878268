"""Programs that are needed later: lowered in turns, and asked for again where they could not be lowered yet."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.workers import CompiledLater, begin_in_turns, compile_together


def programs(name, order, n, ready=lambda: True):
    """Programs of one part of the work, which note in which order they are lowered."""
    while not ready():
        yield None
    for k in range(n):
        order.append(f"{name}{k}")
        yield jax.jit(lambda x, k=k: x + k).lower(jnp.zeros(3))


def test_programs_of_several_begin_in_turns():
    order = []
    later = [CompiledLater(programs("a", order, 3)), CompiledLater(programs("b", order, 1))]
    compile_together(programs("now", order, 1), later)
    assert order == ["now0", "a0", "b0", "a1", "a2"]
    for others in later:
        others.wait()
        assert not others.begin_next()


def test_what_cannot_be_lowered_yet_is_asked_for_again():
    order, ready = [], []
    waiting, other = (
        CompiledLater(programs("a", order, 2, lambda: bool(ready))),
        CompiledLater(programs("b", order, 2)),
    )
    begin_in_turns([waiting, other])
    assert order == ["b0", "b1"]
    ready.append(1)
    begin_in_turns([waiting, other])
    assert order == ["b0", "b1", "a0", "a1"]


def test_an_error_ends_them():
    def failing():
        yield jax.jit(jnp.sin).lower(np.zeros(2))
        raise ValueError

    later = CompiledLater(failing())
    assert later.begin_next() and not later.begin_next() and not later.begin_next()
