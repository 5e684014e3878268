"""Matrix products on one thread, for programs that have threads of their own."""

from __future__ import annotations

import numpy as np

ONE_THREAD = 1 << 18
"""Multiplications of a matrix product up to which BLAS (OpenBLAS, SciPy's and NumPy's) does not use threads of its own,
which would be in the way of the workers: larger ones take several times longer."""


def product(x: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """The matrix product, some rows at a time, on this thread alone; see `ONE_THREAD`."""
    step = max(1, ONE_THREAD // matrix.size) if matrix.size else len(x)
    result = np.empty((len(x), matrix.shape[1]), np.float32)
    for low in range(0, len(x), step):
        np.matmul(x[low : low + step], matrix, out=result[low : low + step])
    return result
