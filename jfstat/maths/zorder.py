"""Points in Z-order (Morton 1966), in which those that are near each other in all coordinates mostly stand together."""

from __future__ import annotations

import numpy as np

BITS = 63
"""Of a point's number."""


def z_order(points: np.ndarray, cell: float) -> np.ndarray:
    """In which order to take points, so that neighbours in space are mostly neighbours in the order.

    The points are sorted by the cubic cell that they lie in. A cell's number has the bits of its coordinates in turns,
    the highest first, so that the cells of a cube follow one another, and cubes of cells again, at all scales. Points
    of one cell stay in their order.

    Parameters
    ----------
    points : (n, k) float64
    cell : float
        Width of a cell; doubled until the numbers fit into `BITS` bits.

    Returns
    -------
    (n,) int64
    """
    away = points - np.min(points, axis=0) if len(points) else points
    cells = np.floor(away / cell).astype(np.int64)
    while sum(int(column.max()).bit_length() for column in cells.T if len(column)) > BITS:
        cells >>= 1
    number = np.zeros(len(points), np.int64)
    place = 0
    for bit in range(BITS):
        for column in cells.T:
            if len(column) and int(column.max()) >> bit:
                number |= ((column >> bit) & 1) << place
                place += 1
    return np.argsort(number, kind="stable")
