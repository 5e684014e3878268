"""Candidates' values row by row: one after the other and all at once give the same."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jfstat.candidates import rows


@pytest.mark.parametrize("n", [1, 5, 8])
def test_rows_in_turn_and_at_once_agree(n):
    values = jnp.asarray(np.random.default_rng(1).normal(size=(8, 3)))

    def of_row(i):
        whole = jnp.round(values[i, 0]).astype(jnp.int32)
        return {"sum": jnp.sum(values[i]), "squares": values[i] ** 2, "whole": whole}

    results = [
        jax.jit(partial(compute, of_row, size=8))(n)
        for compute in (partial(rows.computed_rows, together=together) for together in (False, True))
    ]
    for own in results:
        np.testing.assert_array_equal(own["squares"][:n], values[:n] ** 2)
        assert all(np.all(x[n:] == x[0]) for x in jax.tree.leaves(own))
        assert jax.tree.all(jax.tree.map(lambda x, y: bool(jnp.all(x == y)) and x.dtype == y.dtype, own, results[0]))
