"""Products of matrices in single precision: none is rounded further, on any device."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jfstat.maths.newton import free_steps
from jfstat.maths.products import product


def matrices(dtype):
    rng = np.random.default_rng(3)
    parts = [rng.normal(size=(2, *shape)) for shape in ((5, 40), (40, 3))]
    return [(x[0] + 1j * x[1] if np.iscomplexobj(np.zeros(0, dtype)) else x[0]).astype(dtype) for x in parts]


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_product_is_right_to_single_precision_and_says_so_to_xla(dtype):
    a, b = matrices(dtype)
    found = product(a, b)
    assert found.dtype == dtype
    expected = a.astype(np.complex128) @ b.astype(np.complex128)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert "precision = [HIGHEST, HIGHEST]" in jax.jit(product).lower(a, b).as_text()


def test_rounded_products_are_refused_in_all_tests():
    rows, at_limit = jnp.eye(3, dtype=jnp.float32)[:2], jnp.array([True, False])
    with pytest.raises(AssertionError, match=r"float32\[2, 3\].*products.product"):
        free_steps(rows, at_limit)
    free_steps(rows.astype(jnp.float64), at_limit)
    rows @ rows.T  # others' code may round
