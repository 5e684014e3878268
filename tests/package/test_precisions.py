"""The guard of all tests against products of matrices that GPUs round; see tests/precisions.py."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from precisions import OURS

from jfstat.maths.arrays import PRECISE

ROUNDED = {
    "operator": "x @ y",
    "einsum": "jnp.einsum('ij,jk->ki', x, y)",
    "tensordot": "jnp.tensordot(x, y, 1)",
    "said to be rounded": "jnp.matmul(x, y, precision='high')",
    "default": "jax.lax.dot(x, y, precision=jax.lax.Precision.DEFAULT)",
}


def of_jfstat(expression):
    """A function of two matrices, as if it were in one of jfstat's modules."""
    names = {"jnp": jnp, "jax": jax, "PRECISE": PRECISE}
    exec(compile(f"def made(x, y): return {expression}", f"{OURS}/made.py", "exec"), names)
    return names["made"]


def matrices(dtype):
    parts = np.random.default_rng(3).normal(size=(2, 5, 40)), np.random.default_rng(4).normal(size=(2, 40, 3))
    return [jnp.asarray((x[0] + 1j * x[1] if dtype == np.complex64 else x[0]).astype(dtype)) for x in parts]


TRANSFORMED = {
    "alone": lambda f: f,
    "jit": jax.jit,
    "vmap": lambda f: lambda x, y: jax.vmap(f, (0, None))(x[None], y),
    "grad": lambda f: jax.grad(lambda x, y: jnp.sum(f(x, y))),
}


@pytest.mark.parametrize("how", TRANSFORMED)
@pytest.mark.parametrize("name", ROUNDED)
def test_rounded_products_of_jfstat_are_refused(name, how):
    with pytest.raises(AssertionError, match="is rounded on GPUs"):
        TRANSFORMED[how](of_jfstat(ROUNDED[name]))(*matrices(np.float32))


PRECISELY = ["jnp.matmul(x, y, precision=PRECISE)", "jnp.einsum('ij,jk', x, y, precision=PRECISE)"]


@pytest.mark.parametrize("expression", PRECISELY)
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_precise_ones_are_right_to_single_precision(expression, dtype):
    x, y = matrices(dtype)
    found = jax.jit(of_jfstat(expression))(x, y)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, np.asarray(x, np.complex128) @ np.asarray(y, np.complex128), atol=1e-5)


def test_double_precision_and_others_code_may_do_as_they_like():
    x, y = matrices(np.float32)
    of_jfstat("x @ y")(x.astype(jnp.float64), y.astype(jnp.float64))
    jnp.ones((2, 17), np.float32) @ jnp.ones((17, 2), np.float32)
