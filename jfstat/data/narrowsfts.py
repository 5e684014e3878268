"""Narrow data straight from SFTs: for templates known beforehand no wide series is made.

Around a known template a signal fills some bins of each SFT, and what it leaks into the others is a smooth function.
So each SFT becomes a few moments of its bins (`moments`), and these the samples of narrow data.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import chebyshev, legendre
from numpy.typing import NDArray

from jfstat.data.narrow import COARSE_TURNS, usual_reach
from jfstat.data.narrowdata import NODES, NarrowData
from jfstat.data.noise import MEDIAN_BINS, median_bias, noise_weights, whitened_power
from jfstat.data.observation import Observation, weighted
from jfstat.geometry.antenna import harmonics
from jfstat.geometry.doppler import doppler_speed
from jfstat.geometry.nearby import sites
from jfstat.geometry.source import Source
from jfstat.geometry.trajectory import Trajectory
from jfstat.maths.chebyshev import lagrange, nodes, series_from_values
from jfstat.maths.ladder import padded_size
from jfstat.maths.turns import turn
from jfstat.sfts.container import SFTs
from jfstat.templates import Doppler

THREADS = 2
"""Chunks of SFTs that are read and whitened at a time."""
ROWS = 384
"""SFTs of a detector that are read and summed at a time."""
FLOOR_BINS = 25
"""Most bins between the running medians of a signal's band."""
TOLERATED_BINS = 3
"""How far the signal's bin may be from the one that neighbouring SFTs share for their moments."""
MOST_MOMENTS = 320
"""A template that needs more moves through too many bins within an SFT."""
PHASES = 12
"""Chebyshev nodes, ends included, at which a template's phase is computed in each SFT."""
BENDS = 1e-5
"""Largest of the last two Chebyshev coefficients of that phase, cycles; the neglected ones are smaller."""
SFT_NODES = 8
"""Nodes that follow the antenna patterns and the blocks' polynomials over an SFT, to 1e-8 for 1800 s."""
CELL, ORDERS = 64, 8
"""Bins far from a signal count by cells of so many, each by so many polynomials."""
ONE_THREAD = 1 << 18
"""Multiplications of a matrix product up to which BLAS (OpenBLAS, SciPy's and NumPy's) does not use threads of its own,
which would be in the way of the workers: larger ones take several times longer."""
POOLED = 1e-7
"""What a cell may neglect of the integrals of `_bessel`, root of the sum of squares; they are of the order of 1."""


class MovesTooFast(ValueError):
    """A signal that moves through too many bins within an SFT for narrow data without a wide series."""


class PartsOfSFTs(Protocol):
    """SFTs of which parts can be read: `sfts.reading.SFTFiles`, or `InMemory`."""

    @property
    def times(self) -> SFTs: ...

    @property
    def first_bin(self) -> int: ...

    @property
    def last_bin(self) -> int: ...

    def read(self, detector: str, rows: slice, first_bin: int, last_bin: int, check_crc: bool) -> NDArray[np.complex64]:
        """Bins of some SFTs of a detector, (n_rows, n_bins) complex64."""
        ...


@dataclass(frozen=True, eq=False)
class InMemory:
    """SFTs in memory, as `PartsOfSFTs`."""

    times: SFTs

    @property
    def first_bin(self) -> int:
        return self.times.first_bin

    @property
    def last_bin(self) -> int:
        return self.times.first_bin + self.times.n_bins - 1

    def read(self, detector: str, rows: slice, first_bin: int, last_bin: int, check_crc: bool) -> NDArray[np.complex64]:
        del check_crc
        return self.times[detector].data[rows, first_bin - self.first_bin : last_bin + 1 - self.first_bin]


@dataclass(frozen=True, eq=False)
class Whitened:
    """Whitened bins of some SFTs of a detector, and their noise floor.

    Attributes
    ----------
    real, imag : (n, n_bins) float32 ndarrays
        With S the noise floor, bins divided by its root and by that of Tsft/2: in noise their power is 1.
    inverse : (n, n_windows) float64 ndarray
        1/sqrt(S), S in strain^2/Hz, at the centres of windows of about `MEDIAN_BINS` bins.
    first_bin : int
        Bin of the first column.
    width : int
        Bins of a window; 0 if the floor was given.
    """

    real: np.ndarray
    imag: np.ndarray
    inverse: np.ndarray
    first_bin: int
    width: int

    def inverse_at(self, bins: np.ndarray) -> np.ndarray:
        """1/sqrt(S) of each SFT at a bin of its own, (n,) float64."""
        windows = self.inverse.shape[1] / self.real.shape[1]
        return _between_columns(self.inverse, (bins - self.first_bin + 0.5) * windows - 0.5)

    def running_medians(self, bins: np.ndarray) -> np.ndarray:
        """S of each SFT at some bins by the running median, as `prepare` has it, (n, m) float64.

        The windows of `inverse` depend on what was read, the running median does not. Near the ends it is that of the
        nearest full window.

        Parameters
        ----------
        bins : (m,) int ndarray
        """
        n_bins, n_windows = self.real.shape[1], self.inverse.shape[1]
        if not self.width:
            return np.tile(self.inverse[:, :1] ** -2.0, (1, len(bins)))
        result = np.empty((len(self.real), len(bins)))
        floor = (self.inverse / self.inverse[:, :1]).astype(np.float32)
        for k, low in enumerate(np.clip(bins - self.first_bin - MEDIAN_BINS // 2, 0, n_bins - MEDIAN_BINS)):
            own = slice(low, low + MEDIAN_BINS)
            power = self.real[:, own] ** 2 + self.imag[:, own] ** 2
            # as before whitening, but for units
            power /= _product(floor, np.ascontiguousarray(_linear(n_windows, n_bins)[:, own])) ** 2
            power.partition(MEDIAN_BINS // 2, axis=1)
            result[:, k] = power[:, MEDIAN_BINS // 2] / self.inverse[:, 0] ** 2
        return result * (whitened_power(self.width) / median_bias(MEDIAN_BINS))

    def floors(self, bins: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The noise floor that weighs each SFT, and what its whitened bins are to be multiplied by, (n,) float64 each.

        Parameters
        ----------
        bins : (n,) float64 ndarray
            The signal's bin in each SFT.
        at : (m,) int ndarray
            Bins of the signal's band, evenly spaced: their mean weighs, as in `prepare`, and whitened bins get the
            floor at the signal's own.

        Returns
        -------
        psd : (n,) float64 ndarray
            S, strain^2/Hz.
        relative : (n,) float64 ndarray
        """
        medians = self.running_medians(at)
        own = _between_columns(medians, (bins - at[0]) / max(at[-1] - at[0], 1) * (len(at) - 1))
        relative = 1 / (np.sqrt(own) * self.inverse_at(np.round(bins)))
        if self.width:
            relative *= np.sqrt(whitened_power(self.width) / whitened_power(MEDIAN_BINS))
        return np.mean(medians, axis=1), relative


def _between_columns(values: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Each row's value at a place of its own, linear between columns and constant beyond: (n,) from (n, m) and (n,)."""
    last = values.shape[1] - 1
    place = np.clip(place, 0, last)
    low = np.minimum(place.astype(int), max(last - 1, 0))
    high, part, row = np.minimum(low + 1, last), place - low, np.arange(len(place))
    return (1 - part) * values[row, low] + part * values[row, high]


def whitened(
    bins: NDArray[np.complex64], first_bin: int, tsft: float, sqrt_sx: float | None, detector: str, gps: np.ndarray
) -> Whitened:
    """Bins of SFTs divided by the noise floor, which is given or the median of windows, linear between their centres.

    Parameters
    ----------
    bins : (n, n_bins) complex64 ndarray
    first_bin : int
    tsft : float
        s.
    sqrt_sx : float or None
        A given noise floor, 1/sqrt(Hz).
    detector, gps : str, (n,) int ndarray
        For errors: whose they are, and when they start.

    Raises
    ------
    ValueError
        If a bin is not finite, or a window has no noise and the floor is not given.
    """
    n, n_bins = bins.shape
    n_windows = max(n_bins // MEDIAN_BINS, 1)
    if sqrt_sx is not None:
        if not np.isfinite(bins.sum()):
            raise _not_finite(bins, detector, gps)
        inverse = np.full((n, n_windows), 1 / sqrt_sx)
        scale = np.float32(1 / (sqrt_sx * np.sqrt(0.5 * tsft)))
        return Whitened(bins.real * scale, bins.imag * scale, inverse, first_bin, 0)
    # windows of equal width that cover all bins
    edges = np.linspace(0, n_bins, n_windows + 1).astype(int)
    width = int(np.diff(edges).min()) // 2 * 2 - 1
    unit = np.float32(np.max(np.abs(bins), initial=0.0)) or np.float32(1.0)  # float32 holds no squares of 1e-23
    real, imag = bins.real * (1 / unit), bins.imag * (1 / unit)
    power = np.square(real)
    power += np.square(imag)
    if not np.isfinite(power.sum()):
        raise _not_finite(power, detector, gps)
    windows = np.stack([power[:, edge : edge + width] for edge in edges[:-1]], axis=1)
    del power
    windows.partition(width // 2, axis=-1)
    median = windows[:, :, width // 2].astype(np.float64)
    if not median.min() > 0:
        start = gps[np.argmin(median.min(axis=1))]
        raise ValueError(
            f"the SFT of {detector} at GPS {start} has all-zero bins and so no noise floor: leave it out, or give "
            "sqrt_sx."
        )
    inverse = 1 / np.sqrt(median * (2.0 / (tsft * median_bias(width)))) / unit
    correction = 1 / np.sqrt(0.5 * tsft * whitened_power(width))
    factor = _product((inverse * (correction * unit)).astype(np.float32), _linear(n_windows, n_bins))
    real *= factor
    imag *= factor
    return Whitened(real, imag, inverse, first_bin, width)


def _not_finite(values: np.ndarray, detector: str, gps: np.ndarray) -> ValueError:
    start = gps[np.argmin(np.isfinite(values).all(axis=1))]
    return ValueError(f"the SFT of {detector} at GPS {start} has bins that are not finite: leave it out.")


def _product(x: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """The matrix product, some rows at a time, on this thread alone; see `ONE_THREAD`."""
    step = max(1, ONE_THREAD // matrix.size) if matrix.size else len(x)
    result = np.empty((len(x), matrix.shape[1]), np.float32)
    for low in range(0, len(x), step):
        np.matmul(x[low : low + step], matrix, out=result[low : low + step])
    return result


@lru_cache(maxsize=8)
def _linear(n_windows: int, n_bins: int) -> np.ndarray:
    """Interpolation from the windows' centres to bins, constant beyond the outermost: (n_windows, n_bins) float32."""
    place = (np.arange(n_bins) + 0.5) * (n_windows / n_bins) - 0.5
    return np.stack([np.interp(place, np.arange(n_windows), row) for row in np.eye(n_windows)]).astype(np.float32)


@lru_cache(maxsize=4)
def _bessel(n_moments: int, reach: int) -> np.ndarray:
    """Integrals of Legendre polynomials times exp(2 pi i n t) over an SFT: (2 reach + 1, n_moments) float32.

    With u from -1 to 1 over the SFT the mean of P_l(u) (-1)^n exp(i pi n u) is i^l (-1)^n j_l(pi n), with the spherical
    Bessel functions j_l; i^l is left out (DLMF 18.17.19).
    """
    from scipy.special import spherical_jn  # takes 0.1 s to import

    n = np.arange(-reach, reach + 1)
    order = np.arange(n_moments)
    values = spherical_jn(order[None, :], np.pi * np.abs(n)[:, None])
    sign = np.where(n[:, None] < 0, (-1.0) ** order, 1.0) * (-1.0) ** n[:, None]
    return (values * sign).astype(np.float32)


@lru_cache(maxsize=1)
def _cell_basis() -> np.ndarray:
    """Orthonormal polynomials of the bins of a cell: (CELL, ORDERS) float64."""
    u = (2 * np.arange(CELL) + 1) / CELL - 1
    return np.linalg.qr(legendre.legvander(u, ORDERS - 1))[0]


@dataclass(frozen=True, eq=False)
class _Kernel:
    """The integrals of `_bessel` about a bin at some place in its cell.

    Attributes
    ----------
    near : list of (int, (n, n_moments) float32 ndarray)
        Runs of bins that count by themselves: the first, from the centre, and their integrals.
    far : list of (int, (n * ORDERS, n_moments) float32 ndarray)
        Runs of cells: the first, from the centre's cell, and the components of their integrals along `_cell_basis`.
    """

    near: list[tuple[int, np.ndarray]]
    far: list[tuple[int, np.ndarray]]


@lru_cache(maxsize=4 * CELL)
def _kernel(n_moments: int, reach: int, place: int) -> _Kernel:
    """The integrals for a centre at bin `place` of its cell: distant cells count by polynomials, which suffice there.

    The integrals are polynomials in 1/n, and so ever smoother far from the centre.
    """
    bessel, basis = _bessel(n_moments, reach), _cell_basis()
    first, last = -((reach - place) // CELL), (reach + 1 + place) // CELL  # whole cells, the last one excluded
    start = reach + first * CELL - place
    cells = bessel[start : start + (last - first) * CELL].reshape(-1, CELL, n_moments).astype(np.float64)
    along = np.einsum("bo,cbm->com", basis, cells)
    rest = np.sqrt(np.sum((cells - np.einsum("bo,com->cbm", basis, along)) ** 2, axis=(1, 2)))
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
        """Those of whitened SFTs; bins that are missing in the outermost cells are zero."""
        bins = own.real, own.imag
        (n, n_bins), lead = own.real.shape, own.first_bin % CELL
        whole = np.zeros((n, -(-(lead + n_bins) // CELL) * CELL), np.float32)
        basis, cells = _cell_basis().astype(np.float32), []
        for part in bins:
            whole[:, lead : lead + n_bins] = part
            cells.append((whole.reshape(n, -1, CELL) @ basis).reshape(n, -1))  # a small product for each SFT
        return cls(bins, (cells[0], cells[1]), own.first_bin)


def moments(own: Pooled, centre: np.ndarray, n_moments: int, reach: int) -> np.ndarray:
    """Moments of SFTs about a bin of each: sums over bins of x (-1)^n j_l(pi n), n from the centre.

    Parameters
    ----------
    own : Pooled
    centre : (n,) int ndarray
        Neighbouring SFTs often share theirs.
    n_moments, reach : int
        Bins farther than `reach` from the centre do not count.

    Returns
    -------
    (n, n_moments) complex64 ndarray
    """
    result = np.zeros((len(centre), n_moments), np.complex64)
    starts = np.flatnonzero(np.r_[True, np.diff(centre) != 0])
    for start, stop in zip(starts, [*starts[1:], len(centre)], strict=True):
        middle = int(centre[start])
        kernel = _kernel(n_moments, reach, middle % CELL)
        runs = [(own.bins, middle + first - own.first_bin, run) for first, run in kernel.near]
        cell = middle // CELL - own.first_bin // CELL
        runs += [(own.cells, (cell + first) * ORDERS, run) for first, run in kernel.far]
        for parts, first, run in runs:
            low, high = max(first, 0), min(first + len(run), parts[0].shape[1])
            if low < high:
                result.real[start:stop] += _product(parts[0][start:stop, low:high], run[low - first : high - first])
                result.imag[start:stop] += _product(parts[1][start:stop, low:high], run[low - first : high - first])
    return result


def shared_bins(bins: np.ndarray) -> np.ndarray:
    """A whole bin for each SFT within `TOLERATED_BINS` of its own, the same for as many neighbours as possible."""
    centre, start = np.empty(len(bins), int), 0
    while start < len(bins):
        low = np.minimum.accumulate(bins[start:])
        high = np.maximum.accumulate(bins[start:])
        n = int(np.searchsorted(high - low, 2 * TOLERATED_BINS - 1, side="right"))
        centre[start : start + n] = round(0.5 * (low[n - 1] + high[n - 1]))
        start += n
    return centre


@jax.jit
def _source(observation: Observation, point: Doppler) -> Source:
    return observation.source(point)


@dataclass(frozen=True, eq=False)
class _Phases:
    """A template's phase above the heterodyne over each of some SFTs: first + turns (0 to 1) + bend, cycles.

    Attributes
    ----------
    first, turns : (n,) float64 ndarrays
        Phase at the start of each SFT, and how much it grows until the end.
    bend : (n, PHASES) float32 ndarray
        The rest, at the nodes `_ends_and_between`.
    """

    first: np.ndarray
    turns: np.ndarray
    bend: np.ndarray


def _ends_and_between() -> np.ndarray:
    """Chebyshev nodes in [-1, 1], ends included, (PHASES,) float64."""
    return -np.cos(np.pi * np.arange(PHASES) / (PHASES - 1))


@lru_cache(maxsize=1)
def _phase_series() -> np.ndarray:
    """Chebyshev coefficients from values at `_ends_and_between`: (PHASES, PHASES) float64."""
    return np.linalg.inv(chebyshev.chebvander(_ends_and_between(), PHASES - 1))


@jax.jit
def _phases(source: Source, trajectory: Trajectory, start: jax.Array, tsft: jax.Array, heterodyne: jax.Array):
    """The fields of `_Phases`, the largest slope of the bend in bins, and the largest of its last two coefficients."""
    u = _ends_and_between()
    into = jnp.asarray(0.5 * (1 + u))
    cycles = source.heterodyned_cycles(trajectory, start[:, None] + tsft * into, heterodyne, many=True)
    first, turns = cycles[:, 0], cycles[:, -1] - cycles[:, 0]
    bend = cycles - first[:, None] - turns[:, None] * into
    series = bend @ jnp.asarray(_phase_series().T)
    slopes = 2 * chebyshev.chebvander(u, PHASES - 2) @ chebyshev.chebder(np.eye(PHASES))
    steepest = jnp.max(jnp.abs(series @ jnp.asarray(slopes.T)))
    return first, turns, bend.astype(jnp.float32), steepest, jnp.max(jnp.abs(series[:, -2:]))


@jax.jit
def _harmonics_in(trajectory: Trajectory, start: jax.Array, tsft: jax.Array) -> jax.Array:
    """The sidereal harmonics at the `SFT_NODES` of SFTs of a detector, (n, SFT_NODES, 5) float32."""
    into = 0.5 * (1 + jnp.asarray(nodes(SFT_NODES)))
    return harmonics(trajectory.sidereal(start[:, None] + tsft * into)).astype(jnp.float32)


@partial(jax.jit, static_argnames="n_moments")
def _samples(
    cycles: jax.Array,
    slope: jax.Array,
    bend: jax.Array,
    sums: jax.Array,
    pattern: jax.Array,
    middle: jax.Array,
    tsft: jax.Array,
    block: jax.Array,
    centres: jax.Array,
    half: jax.Array,
    n_moments: int,
) -> jax.Array:
    """What SFTs of one detector add to the samples of narrow data: (5, B, NODES) complex64.

    Parameters
    ----------
    cycles, slope : (n,) float64
        Phase of the template at the start of each SFT, cycles, and its growth until the end above that of the moments'
        bin.
    bend : (n, PHASES) float32
        See `_Phases`.
    sums : (n, n_moments) complex64
        From `moments`.
    pattern : (n, SFT_NODES, 5) float32
        From `_harmonics_in`.
    middle : (n,) float64
        Of the SFTs, s since the epoch.
    block : (n,) int32
        Which block each SFT belongs to.
    centres, half : (B,) and () float64
        Middle of the blocks, s since the epoch, and half their length, s.
    """
    u, from_moments = _legendre(n_moments)
    at_nodes = sums @ jnp.asarray(from_moments.astype(np.complex64))
    bent = bend @ jnp.asarray((_phase_series().T @ chebyshev.chebvander(u, PHASES - 1).T).astype(np.float32))
    turns = cycles[:, None] + slope[:, None] * jnp.asarray(0.5 * (1 + u)) + bent.astype(jnp.float64)
    cos, sin = turn((turns - jnp.round(turns)).astype(jnp.float32))
    # the patterns and the blocks' polynomials hardly bend within an SFT: few nodes carry the sums on
    few = (at_nodes * jax.lax.complex(cos, -sin)) @ jnp.asarray(lagrange(SFT_NODES, u).astype(np.complex64))
    turned = few[..., None] * pattern.astype(few.dtype)
    x = (middle[:, None] + 0.5 * tsft * jnp.asarray(nodes(SFT_NODES)) - centres[block][:, None]) / half
    powers = [jnp.ones_like(x), x]
    while len(powers) < NODES:
        powers.append(2 * x * powers[-1] - powers[-2])
    spread = (jnp.stack(powers, axis=-1) @ jnp.asarray(series_from_values(NODES))).astype(few.dtype)
    each = sum(turned[:, q, :, None] * spread[:, q, None, :] for q in range(SFT_NODES))
    return jnp.moveaxis(jax.ops.segment_sum(each, block, centres.shape[0]), 0, 1)


@lru_cache
def _legendre(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes, and the matrix from moments to samples there: (n,) and (n, n) complex128.

    The sum over nodes of samples times the values of a smooth g is the integral of the SFT's series times g.
    """
    u, weight = legendre.leggauss(n)
    order = np.arange(n)
    values = legendre.legvander(u, n - 1)
    return u, ((2 * order + 1) / 2 * 1j**order * values * weight[:, None]).T


@dataclass(frozen=True, eq=False)
class _Target:
    """One template, and where its signal is in the SFTs.

    Attributes
    ----------
    point : Doppler
    source : Source
    reach : float
        Of the narrow data, Hz.
    heterodyne : int
        Bin whose frequency is subtracted from the template's.
    band : (m,) int ndarray
        Bins from the lowest to the highest where the signal may be, evenly spaced and at most `FLOOR_BINS` apart.
    phases : list of _Phases
        In the SFTs of each detector.
    n_moments : int
    centres, half : (B,) float64 ndarray, float
        Blocks of the narrow data, s.
    block : list of (n,) int ndarrays
        Of each SFT.
    """

    point: Doppler
    source: Source
    reach: float
    heterodyne: int
    band: np.ndarray
    phases: list[_Phases]
    n_moments: int
    centres: np.ndarray
    half: float
    block: list[np.ndarray]

    def bins(self, i: int) -> np.ndarray:
        """The signal's bin in each SFT of detector i, (n,) float64."""
        return self.heterodyne + self.phases[i].turns


def _target(observation: Observation, trajectories: Sequence[Trajectory], times: SFTs, point: Doppler) -> _Target:
    source, tsft, epoch = _source(observation, point), times.tsft, int(observation.epoch)
    heterodyne = round(float(source.frequency) * tsft)
    frequency = jnp.asarray(heterodyne / tsft)
    phases, steepest, neglected = [], 0.0, 0.0
    for series, trajectory in zip(times, trajectories, strict=True):
        own = []
        for rows in _chunks(len(series)):
            start = _filled(series.since(epoch)[rows])
            *fields, steep, rest = _phases(source, trajectory, start, observation.tsft, frequency)
            own.append([np.asarray(x)[: rows.stop - rows.start] for x in fields])
            steepest, neglected = max(steepest, float(steep)), max(neglected, float(rest))
        phases.append(_Phases(*(np.concatenate(parts) for parts in zip(*own, strict=True))))
    # polynomials follow exp(i b u) from somewhat more than b terms on
    turning = np.pi * (1.05 * steepest + TOLERATED_BINS)
    n_moments = 4 * int(np.ceil((12 + 1.15 * turning) / 4))
    if n_moments > MOST_MOMENTS or neglected > BENDS:
        raise MovesTooFast(
            f"point's frequency changes by some {steepest / tsft:.2g} Hz within an SFT, too much for its moments: use "
            "jfstat.prepare and jfstat.narrow."
        )
    reach = usual_reach(observation, point)
    length = COARSE_TURNS / reach
    start = min(float(series.since(epoch)[0]) for series in times if len(series))
    span = float(observation.tspan)
    n_blocks = max(1, int(np.ceil(span / length)))
    length = span / n_blocks
    middles = [series.since(epoch) + 0.5 * tsft for series in times]
    block = [np.clip(((x - start) / length).astype(int), 0, n_blocks - 1) for x in middles]
    centres = start + length * (np.arange(padded_size(n_blocks)) + 0.5)
    sway = float(doppler_speed(point.orbit)) * heterodyne
    band = np.round(heterodyne + np.linspace(-sway, sway, 2 * int(np.ceil(sway / FLOOR_BINS)) + 1)).astype(int)
    return _Target(point, source, reach, heterodyne, band, phases, n_moments, centres, 0.5 * (length + tsft), block)


def _chunks(n: int) -> Iterator[slice]:
    return (slice(low, min(low + ROWS, n)) for low in range(0, n, ROWS))


def _filled(x: np.ndarray) -> np.ndarray:
    """Rows repeated up to `ROWS`, so that one compiled program serves all."""
    return np.pad(x, [(0, ROWS - len(x)), *[(0, 0)] * (x.ndim - 1)], mode="edge")


def narrow_sfts(
    parts: PartsOfSFTs,
    points: Sequence[Doppler],
    observation: Observation,
    floors: Sequence[float | None],
    guard: float,
    check_crc: bool,
) -> list[NarrowData]:
    """Narrow data around each of some templates whose bands overlap, in one pass over the SFTs.

    Parameters
    ----------
    parts : PartsOfSFTs
    points : sequence of Doppler
        One template each, concrete.
    observation : Observation
        Of all SFTs, with any weights.
    floors : sequence of float or None
        Noise floor of each detector, 1/sqrt(Hz); None for an estimate.
    guard : float
        How far from a signal bins count, Hz; less if the files have less.
    check_crc : bool
        Whether to check the SFTs' checksums.

    Raises
    ------
    MovesTooFast
        If a signal moves through too many bins within an SFT.
    ValueError
        If the files do not hold a signal's band, or the noise floor cannot be estimated.
    """
    times, tsft, epoch = parts.times, parts.times.tsft, int(observation.epoch)
    trajectories = [jax.tree.map(lambda leaf, i=i: leaf[i], observation.trajectory) for i in range(len(times.series))]
    with ThreadPoolExecutor(THREADS) as pool:  # NumPy and XLA compute outside of Python's lock
        targets = list(pool.map(partial(_target, observation, trajectories, times), points))
    reach = int(guard * tsft) + TOLERATED_BINS
    first, last = _band(parts, targets, reach, floors)
    samples = [np.zeros((len(times.series), 5, len(own.centres), NODES), complex) for own in targets]
    floor_of = [[[] for _ in times] for _ in targets]
    jobs = [(i, rows) for i, series in enumerate(times.series) for rows in _chunks(len(series))]

    def summed(job: tuple[int, slice]) -> list[_Sums]:
        """What some SFTs of a detector hold of each target."""
        i, rows = job
        series = times.series[i]
        bins = parts.read(series.detector, rows, first, last, check_crc)
        own = whitened(bins, first, tsft, floors[i], series.detector, series.gps[rows])
        pooled, start = Pooled.of(own), series.since(epoch)[rows]
        pattern = _harmonics_in(trajectories[i], _filled(start), observation.tsft)
        clock = series.gps[rows] - epoch, series.gps_ns[rows]
        middle = _filled(start + 0.5 * tsft)
        return [_sums(own, pooled, target, i, rows, reach, pattern, clock, middle, tsft) for target in targets]

    with ThreadPoolExecutor(THREADS) as pool:
        for (i, _), each in zip(jobs, _ahead(pool, summed, jobs), strict=True):
            for k, own in enumerate(each):
                floor_of[k][i].append(own.psd)
                place = samples[k][i][:, own.first_block : own.first_block + own.samples.shape[1]]
                place += own.samples[:, : place.shape[1]]
    return [
        _finished(observation, target, own, [np.concatenate(x) for x in psd], tsft)
        for target, own, psd in zip(targets, samples, floor_of, strict=True)
    ]


def _ahead(pool: ThreadPoolExecutor, function: Callable[[Any], Any], jobs: Sequence[Any]) -> Iterator[Any]:
    """Results of all jobs in order, of which only some are under way or wait, to spare memory."""
    waiting: deque[Future] = deque()
    for job in jobs:
        waiting.append(pool.submit(function, job))
        if len(waiting) > THREADS:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


@dataclass(frozen=True, eq=False)
class _Sums:
    """What some SFTs hold of a target.

    Attributes
    ----------
    samples : (5, n_blocks, NODES) complex64
        See `_samples`.
    first_block : int
    psd : (n,) float64 ndarray
        Noise floor at the signal, 1/Hz.
    """

    samples: np.ndarray
    first_block: int
    psd: np.ndarray


def _sums(
    own: Whitened,
    pooled: Pooled,
    target: _Target,
    i: int,
    rows: slice,
    reach: int,
    pattern: jax.Array,
    clock: tuple[np.ndarray, np.ndarray],
    middle: np.ndarray,
    tsft: float,
) -> _Sums:
    """Sums of SFTs of detector i that start at `clock`, whole seconds since the epoch and nanoseconds."""
    phases, bins = target.phases[i], target.bins(i)[rows]
    centre = shared_bins(bins)
    psd, relative = own.floors(bins, target.band)
    # divided by the root of the noise floor once more, for the weights
    sums = moments(pooled, centre, target.n_moments, reach) * (relative / np.sqrt(psd))[:, None].astype(np.float32)
    # whole turns of the heterodyne are removed exactly: its bin times whole seconds is a whole number
    cycles = np.fmod(np.float64(target.heterodyne) * clock[0], tsft) / tsft
    cycles = cycles + target.heterodyne / tsft * 1e-9 * clock[1] + phases.first[rows]
    # only the blocks that these SFTs touch, in one of a few sizes
    block = target.block[i][rows]
    first_block = int(block.min())
    n_blocks = 1 << int(block.max() - first_block).bit_length()
    centres = target.centres[first_block : first_block + n_blocks]
    samples = _samples(
        _filled(cycles),
        _filled(bins - centre),
        _filled(phases.bend[rows]),
        np.pad(sums, [(0, ROWS - len(sums)), (0, 0)]),
        pattern,
        middle,
        np.float64(tsft),
        _filled((block - first_block).astype(np.int32)),
        np.pad(centres, (0, n_blocks - len(centres)), mode="edge"),
        np.asarray(target.half),
        target.n_moments,
    )
    return _Sums(np.asarray(samples), first_block, psd)


def _band(
    parts: PartsOfSFTs, targets: Sequence[_Target], reach: int, floors: Sequence[float | None]
) -> tuple[int, int]:
    """First and last bin to read.

    Raises
    ------
    ValueError
        If the files do not hold all signals, or too few bins for the noise floor.
    """
    tsft = parts.times.tsft
    low = int(min(own.bins(i).min() for own in targets for i in range(len(own.phases)))) - TOLERATED_BINS
    high = int(max(own.bins(i).max() for own in targets for i in range(len(own.phases)))) + TOLERATED_BINS + 1
    if low < parts.first_bin or high > parts.last_bin:
        raise ValueError(
            f"the SFTs cover {parts.first_bin / tsft:.10g} to {(parts.last_bin + 1) / tsft:.10g} Hz, not all of "
            f"{low / tsft:.10g} to {high / tsft:.10g} Hz that the signals need: name other files."
        )
    # the noise floor may need more than the guard
    room = max(reach, MEDIAN_BINS // 2 + 1) if None in floors else reach
    first, last = max(low - room, parts.first_bin), min(high + room, parts.last_bin)
    if None in floors and last + 1 - first < MEDIAN_BINS:
        raise ValueError(
            f"the noise floor needs {MEDIAN_BINS} bins and the SFTs hold {last + 1 - first}: widen their band or give "
            "sqrt_sx."
        )
    return first, last


def _finished(
    observation: Observation, target: _Target, samples: np.ndarray, psd: list[np.ndarray], tsft: float
) -> NarrowData:
    """Narrow data with the weights that follow from the noise floors at the signal, (n,) float64 for each detector."""
    weights, mean_inverse = noise_weights(psd)
    own = weighted(observation, weights, mean_inverse)
    time = jnp.asarray(target.centres[:, None] + target.half * nodes(NODES))
    return NarrowData(
        observation=own,
        samples=jnp.asarray(samples / np.sqrt(mean_inverse)),
        sites=_sites(observation.trajectory, target.source, time),
        centre=target.point,
        reach=jnp.asarray(target.reach, jnp.float64),
    )


@jax.jit
def _sites(trajectory: Trajectory, centre: Source, time: jax.Array):
    return jax.vmap(lambda own: sites(own, centre, time))(trajectory)
