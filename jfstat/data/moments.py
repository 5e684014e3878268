"""Compute moments of SFTs: sums of bins around a signal's bin, which give the signal's matched filter.

Around a known template a signal fills some bins of each SFT, and what it leaks into the others is a smooth function.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.polynomial import legendre

from jfstat.data.whitening import Whitened
from jfstat.maths.products import product

TOLERATED_BINS = 3
"""Largest distance of a signal's bin from the bin that neighbouring SFTs share for their moments."""
CELL, ORDERS = 64, 8
"""Number of bins of a cell, and of polynomials that represent it: bins far from a signal are summed by cells."""
POOLED = 1e-7
"""Root of the sum of squares of what a cell may neglect of the integrals of `integrals`, which are of order 1."""


@lru_cache(maxsize=8)
def integrals(n_moments: int, reach: int) -> np.ndarray:
    """Return integrals of Legendre polynomials times exp(2 pi i n t) over an SFT: (2 reach + 1, n_moments) float32.

    With u from -1 to 1 over the SFT the mean of P_l(u) (-1)^n exp(i pi n u) is i^l (-1)^n j_l(pi n), with the spherical
    Bessel functions j_l; i^l is left out (DLMF 18.17.19).
    """
    # (-1)^n j_l(pi n) for n >= 0: for l = 0 it is 0 except at n = 0; higher l follow by recurrence (DLMF 10.51.1)
    x, turning = np.pi * np.arange(1, reach + 1), min(int(n_moments / np.pi) + 2, reach)
    values = np.zeros((reach + 1, n_moments))
    values[0, 0] = 1.0
    values[1:, 1] = -1 / x
    for k in range(1, n_moments - 1):
        values[turning + 1 :, k + 1] = (2 * k + 1) / x[turning:] * values[turning + 1 :, k] - values[
            turning + 1 :, k - 1
        ]
    # upwards, the recurrence loses digits from l = pi n on; from there it runs downwards, for the ratios of neighbours
    ratio = np.zeros(turning)
    for k in range(2 * n_moments + 40, 1, -1):
        ratio = 1 / ((2 * k + 1) / x[:turning] - ratio)
        if k < n_moments:
            values[1 : turning + 1, k] = ratio
    values[1 : turning + 1, 1:] = np.cumprod(values[1 : turning + 1, 1:], axis=1)
    return np.concatenate([values[:0:-1] * (-1.0) ** np.arange(n_moments), values]).astype(np.float32)


@lru_cache(maxsize=1)
def _cell_basis() -> np.ndarray:
    """Return orthonormal polynomials of the bins of a cell: (CELL, ORDERS) float64."""
    u = (2 * np.arange(CELL) + 1) / CELL - 1
    return np.linalg.qr(legendre.legvander(u, ORDERS - 1))[0]


@dataclass(frozen=True, eq=False)
class _Kernel:
    """Integrals of `integrals` about a bin at a given place in its cell.

    Attributes
    ----------
    near : list of (int, (n, n_moments) float32 ndarray)
        Runs of bins that are summed one by one: the first, from the centre, and their integrals.
    far : list of (int, (n * ORDERS, n_moments) float32 ndarray)
        Runs of cells: the first, from the centre's cell, and the components of their integrals along `_cell_basis`.
    """

    near: list[tuple[int, np.ndarray]]
    far: list[tuple[int, np.ndarray]]


@lru_cache(maxsize=8 * CELL)
def _kernel(n_moments: int, reach: int, place: int) -> _Kernel:
    """Return the integrals for a centre at bin `place` of its cell; distant cells are represented by polynomials.

    The integrals are polynomials in 1/n, and so ever smoother far from the centre.
    """
    bessel, basis = integrals(n_moments, reach), _cell_basis()
    first, last = -((reach - place) // CELL), (reach + 1 + place) // CELL  # whole cells, the last one excluded
    if last <= first:
        return _Kernel([(-reach, bessel)], [])
    start = reach + first * CELL - place
    cells = bessel[start : start + (last - first) * CELL].reshape(-1, CELL, n_moments).astype(np.float64)
    along = basis.T @ cells
    rest = np.sqrt(np.sum((cells - basis @ along) ** 2, axis=(1, 2)))
    bad = np.append(np.flatnonzero(rest > POOLED), -first)  # the centre's own cell
    low, high = first + int(bad.min()), first + int(bad.max()) + 1
    components = along.astype(np.float32).reshape(-1, n_moments)

    def bins(start: int, stop: int) -> tuple[int, np.ndarray]:
        return start, bessel[start + reach : stop + reach]

    def pooled(start: int, stop: int) -> tuple[int, np.ndarray]:
        return start, components[(start - first) * ORDERS : (stop - first) * ORDERS]

    near = [
        bins(-reach, first * CELL - place),
        bins(low * CELL - place, high * CELL - place),
        bins(last * CELL - place, reach + 1),
    ]
    return _Kernel(near, [pooled(first, low), pooled(high, last)])


@dataclass(frozen=True, eq=False)
class Pooled:
    """Whitened bins of some SFTs, and their components along the polynomials of cells, for `moments`.

    Attributes
    ----------
    bins : tuple of two (n, n_bins) float32 ndarrays
        Real and imaginary parts.
    cells : tuple of two (n, n_cells * ORDERS) float32 ndarrays
    first_bin : int
    """

    bins: tuple[np.ndarray, np.ndarray]
    cells: tuple[np.ndarray, np.ndarray]
    first_bin: int

    @classmethod
    def of(cls, own: Whitened) -> Pooled:
        """Return the bins and components of whitened SFTs; bins that are missing in the outermost cells are zero."""
        bins = own.real, own.imag
        (n, n_bins), lead = own.real.shape, own.first_bin % CELL
        whole = np.zeros((n, -(-(lead + n_bins) // CELL) * CELL), np.float32)
        basis, cells = _cell_basis().astype(np.float32), []
        for part in bins:
            whole[:, lead : lead + n_bins] = part
            cells.append((whole.reshape(n, -1, CELL) @ basis).reshape(n, -1))  # a small product for each SFT
        return cls(bins, (cells[0], cells[1]), own.first_bin)


def moments(own: Pooled, centre: np.ndarray, n_moments: int, reach: int) -> np.ndarray:
    """Compute moments of SFTs about a bin of each: sums over bins of x (-1)^n j_l(pi n), with n from the centre.

    Parameters
    ----------
    own : Pooled
    centre : (n,) int ndarray
        Central bin of each SFT; the fewer different ones, the faster.
    n_moments, reach : int
        Bins farther than `reach` from the centre are left out.

    Returns
    -------
    (n, n_moments) complex64 ndarray
    """
    result = np.zeros((len(centre), n_moments), np.complex64)
    order = np.argsort(centre, kind="stable")
    values, starts = np.unique(centre[order], return_index=True)
    for middle, rows in zip(values.tolist(), np.split(order, starts[1:]), strict=True):
        if rows[-1] - rows[0] == len(rows) - 1:
            rows = slice(rows[0], rows[-1] + 1)  # a view
        kernel = _kernel(n_moments, reach, middle % CELL)
        runs = [(own.bins, middle + first - own.first_bin, run) for first, run in kernel.near]
        cell = middle // CELL - own.first_bin // CELL
        runs += [(own.cells, (cell + first) * ORDERS, run) for first, run in kernel.far]
        for parts, first, run in runs:
            low, high = max(first, 0), min(first + len(run), parts[0].shape[1])
            if low < high:
                for part, into in zip(parts, (result.real, result.imag), strict=True):
                    into[rows] += product(part[rows, low:high], run[low - first : high - first])
    return result


def shared_bins(bins: np.ndarray) -> np.ndarray:
    """Return a whole bin for each SFT within `TOLERATED_BINS` of its own, shared by as many neighbours as possible."""
    centre, widest, start = np.empty(len(bins), int), 2 * TOLERATED_BINS - 1, 0
    low = high = float(bins[0])
    for k, x in enumerate(bins.tolist()):
        if x - low > widest or high - x > widest:
            centre[start:k] = round(0.5 * (low + high))
            start, low, high = k, x, x
        elif x > high:
            high = x
        elif x < low:
            low = x
    centre[start:] = round(0.5 * (low + high))
    return centre
