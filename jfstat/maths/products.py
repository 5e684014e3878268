"""Matrix products on one thread, for programs that already run their own threads."""

from __future__ import annotations

import numpy as np

ONE_THREAD = 1 << 18
"""Largest number of multiplications in a matrix product for which BLAS (OpenBLAS, SciPy's and NumPy's) starts no
threads. Its threads would compete with the workers: larger products take several times longer."""


def product(x: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Compute a matrix product, some rows at a time, on this thread alone; see `ONE_THREAD`."""
    step = max(1, ONE_THREAD // matrix.size) if matrix.size else len(x)
    result = np.empty((len(x), matrix.shape[1]), np.float32)
    for low in range(0, len(x), step):
        np.matmul(x[low : low + step], matrix, out=result[low : low + step])
    return result
