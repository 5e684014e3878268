"""Products of matrices on one thread, by NumPy: they are called with arrays of many shapes from threads."""

import numpy as np
import pytest
from compilations import counted_compilations

from jfstat.maths.products import product


@pytest.mark.parametrize("shape", [(0, 5, 3), (1, 5, 3), (700, 40, 9), (7, 1000, 300), (3, 0, 2)])
def test_products_in_parts_are_the_whole_and_compile_nothing(shape):
    n, inner, outer = shape
    rng = np.random.default_rng(n)
    x, matrix = (rng.normal(size=size).astype(np.float32) for size in ((n, inner), (inner, outer)))
    with counted_compilations() as names:
        found = product(x, matrix)
    assert isinstance(found, np.ndarray) and found.dtype == np.float32 and not names
    np.testing.assert_allclose(found, x.astype(float) @ matrix, atol=1e-4)
