"""Low-pass filter and decimate wide series to the band series of a search, and build its interpolation filters."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from math import factorial
from threading import Lock

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jfstat.compileroptions import NO_TRIALS, jit_with
from jfstat.data.bandseries import Grid, Layout
from jfstat.data.memory import device_of, free_bytes
from jfstat.maths.arrays import module_for, on_device
from jfstat.maths.lengths import smooth_lengths

LONG = 1 << 22
"""Number of samples from which a series is transformed on an accelerator, if there is one."""
ONE_AT_A_TIME = Lock()
"""Held by the thread that transforms a series on an accelerator."""
FACTORS = (2, 3, 5, 7, 11)
"""Prime factors of lengths that cuFFT transforms with little work space."""
TRANSFORM_BYTES, USABLE = 96, 0.5
"""Memory of a transform on a device with its work space, bytes per sample, and the largest fraction of the device's
free memory that it may take. If the device does run out of memory, XLA may end the process instead of raising an error.
"""


def taper(
    frequency: jax.Array | np.ndarray, half_pass: float | jax.Array, half_stop: float | jax.Array
) -> jax.Array | np.ndarray:
    """Return Planck's taper as a low-pass: 1 up to `half_pass`, 0 from `half_stop` on, infinitely smooth between.

    Parameters
    ----------
    frequency : (n,) float64
        Hz.
    half_pass, half_stop : () float64
        Hz.

    Returns
    -------
    (n,) float64, of NumPy unless `frequency` is traced
    """
    xp = module_for(frequency)
    x = (xp.abs(frequency) - half_pass) / (half_stop - half_pass)
    y = xp.clip(x, 1e-3, 1 - 1e-3)  # beyond these the exponential is below 1e-300 or above 1e300
    between = 1.0 / (1.0 + xp.exp(xp.minimum(1 / (1 - y) - 1 / y, 700.0)))
    return xp.where(x <= 0, 1.0, xp.where(x >= 1, 0.0, between))


MAX_TERMS = 26
"""Upper limit on the number of terms that any band needs: 2 J_26(2) is 1e-26."""
_SERIES = np.array([[1.0 / (factorial(m) * factorial(m + p)) for m in range(12)] for p in range(MAX_TERMS)])
"""Coefficients 1/(m! (m+p)!) of the power series of J_p; twelve give J_p to rounding for arguments up to 2."""
_FACTORS = np.array([(1.0 if p == 0 else 2.0) * 1j**p for p in range(MAX_TERMS)])
"""Factors eps_p i^p of the Jacobi-Anger expansion."""


def interpolation_filter(angle: jax.Array | np.ndarray, p: ArrayLike) -> jax.Array:
    """Return the coefficient of T_p(x) in exp(i angle x), -1 <= x <= 1: eps_p i^p J_p(angle), eps_0 = 1, otherwise 2.

    This is the Jacobi-Anger expansion, with J_p from its power series.

    Parameters
    ----------
    angle : (n,) float64
        Phase between the middle and the end of the interval, rad, at most 2.
    p : int
        Order, below MAX_TERMS.

    Returns
    -------
    (n,) complex128.
    """
    xp = module_for(angle, p)
    half = 0.5 * xp.asarray(angle)
    square = -half * half
    coefficients = xp.asarray(_SERIES)[p]
    series = xp.zeros_like(half)
    for m in range(_SERIES.shape[1] - 1, -1, -1):
        series = series * square + coefficients[m]
    return on_device((xp.power(half, p) * series).astype(np.complex128) * xp.asarray(_FACTORS)[p])


def terms_needed(angle: float, tolerance: float) -> int:
    """Return the number P of terms for which the first neglected one, ``2 |J_P(angle)|``, is below `tolerance`."""
    edge = np.array([angle])
    return next(p for p in range(1, MAX_TERMS) if abs(np.asarray(interpolation_filter(edge, p))[0]) < tolerance)


def decimated_spectrum(
    series: jax.Array | np.ndarray,
    grid: Grid,
    offset_bins: int,
    n_out: int,
    half_pass: float,
    half_stop: float,
    room: int = 0,
) -> jax.Array | np.ndarray:
    """Low-pass a whole series in the frequency domain and keep the bins of the band.

    Parameters
    ----------
    series : (n,) complex64
        On the host or on a device.
    grid : Grid
        Times of its n + 2 `room` samples.
    offset_bins : int
        Bin of the series' transform that becomes zero frequency; negative for a negative frequency.
    n_out : int
        Number of bins kept, around that one.
    half_pass, half_stop : float
        Half widths of pass and stop band, Hz.
    room : int
        Zeros put before the first sample and after the last.

    Returns
    -------
    (n_out,) complex128
        In FFT order, scaled so that its inverse FFT is the band series of n_out samples. The shift by `offset_bins` is
        a heterodyne whose phase is zero at the grid's epoch, like the heterodyne of the series itself. The array is a
        JAX array if a device transformed the series, and a NumPy array if the host did.
    """
    turn = np.exp(-2j * np.pi * np.fmod(offset_bins * (grid.start / grid.length), 1.0))
    factor = turn * (n_out / (len(series) + 2 * room))
    with ONE_AT_A_TIME:  # or two threads would count on the same memory
        if _fits(series, room):
            with suppress(jax.errors.JaxRuntimeError):  # no memory for cuFFT's plan
                kept = _spectrum_on_device(series, offset_bins, n_out, grid.length, half_pass, half_stop, factor, room)
                return kept.block_until_ready()
    kept = _bins_around(np.pad(series, room) if room else np.asarray(series), offset_bins, n_out)
    kept *= _response(n_out, grid.length, half_pass, half_stop)
    kept *= factor
    return kept


def _fits(series: jax.Array | np.ndarray, room: int) -> bool:
    """Return whether a series is long enough to use an accelerator, and one with enough memory exists."""
    n = len(series) + 2 * room
    if n < LONG or not len(smooth_lengths(n, n, FACTORS)):
        return False
    free = free_bytes(device_of(series))
    return free is not None and TRANSFORM_BYTES * n <= USABLE * free


@jit_with(NO_TRIALS, static_argnames=("n_out", "room"))
def _spectrum_on_device(
    series: ArrayLike,
    offset_bins: ArrayLike,
    n_out: int,
    length: ArrayLike,
    half_pass: float | jax.Array,
    half_stop: float | jax.Array,
    factor: ArrayLike,
    room: int,
) -> jax.Array:
    """Return the result of `decimated_spectrum`, computed by JAX."""
    spectrum = jnp.fft.fft(jnp.pad(jnp.asarray(series), room).astype(jnp.complex128))
    place = jnp.arange(n_out)
    bins = jnp.where(place < (n_out + 1) // 2, place, place - n_out)
    response = taper(bins.astype(jnp.float64) / length, half_pass, half_stop)
    return spectrum[(bins + offset_bins) % spectrum.shape[0]] * (response.astype(jnp.complex128) * factor)


def _response(n_out: int, length: float, half_pass: float, half_stop: float) -> np.ndarray:
    """Return the taper at the bins of a band, (n_out,) float64, in FFT order."""
    frequency = np.arange(n_out // 2 + 1) / length
    response = (frequency <= half_pass).astype(np.float64)
    falling = (frequency > half_pass) & (frequency < half_stop)  # few: exponentials of all would take as long as an FFT
    response[falling] = taper(frequency[falling], half_pass, half_stop)
    return np.concatenate([response[: -(-n_out // 2)], response[n_out // 2 : 0 : -1]])


def _bins_around(series: np.ndarray, offset_bins: int, n_out: int) -> np.ndarray:
    """Return `n_out` bins of a series' transform around a given bin, (n_out,) complex128, in FFT order."""
    from scipy import fft  # takes 0.1 s to import

    # in place, because the memory that `prepare` uses peaks here
    spectrum = np.asarray(fft.fft(series.astype(np.complex128), overwrite_x=True))
    positive, negative = -(-n_out // 2), n_out // 2
    kept = np.empty(n_out, np.complex128)
    kept[:positive] = _slice_around(spectrum, offset_bins, positive)
    kept[positive:] = _slice_around(spectrum, offset_bins - negative, negative)
    return kept


def _slice_around(spectrum: np.ndarray, start: int, n: int) -> np.ndarray:
    """Return the entries ``start`` to ``start + n - 1`` of a spectrum that is continued periodically."""
    start %= len(spectrum)
    first = spectrum[start : start + n]
    return first if len(first) == n else np.concatenate([first, spectrum[: n - len(first)]])


def _inverse(spectrum: jax.Array | np.ndarray) -> jax.Array | np.ndarray:
    """Return the inverse transform, (n,) complex64, computed where the spectrum is: a host compiles nothing for it."""
    if isinstance(spectrum, jax.Array):
        return jnp.fft.ifft(spectrum.astype(np.complex64))
    from scipy import fft  # takes 0.1 s to import

    return np.asarray(fft.ifft(spectrum.astype(np.complex64), overwrite_x=True))


def series_of(spectrum: ArrayLike, reach: ArrayLike, terms: int, padding: int) -> tuple[jax.Array, jax.Array]:
    """Return the band series and the outputs of its P interpolation filters.

    The series at a time d samples away from sample n, |d| <= reach, is ``sum_p filtered[p, n] T_p(d / reach)``; the
    error is about ``2 |J_P(w reach)|`` of a component at w rad per sample.

    Parameters
    ----------
    spectrum : (n,) complex128
        From `decimated_spectrum`.
    reach : () float64
        Samples.
    terms : int
        P, static.
    padding : int
        Zeros before the first and after the last sample, static.

    Returns
    -------
    series : (n,) complex64
    filtered : (terms, 2, n + 2 padding) float32
        Real and imaginary parts separately: all operations on them are real, and vectorise on a CPU.
    """
    spectrum = jnp.asarray(spectrum)
    n = spectrum.shape[0]
    w = 2 * jnp.pi * jnp.fft.fftfreq(n)

    # float64 before the last transform makes the rounding error independent of the length; the transforms are in
    # single precision, which halves their time. Terms are computed one after the other to save memory.
    def add_term(p: jax.Array, filtered: jax.Array) -> jax.Array:
        term = jnp.fft.ifft((spectrum * interpolation_filter(w * reach, p)).astype(jnp.complex64))
        return filtered.at[p, :, padding : padding + n].set(jnp.stack([term.real, term.imag]))

    filtered = jax.lax.fori_loop(0, terms, add_term, jnp.zeros((terms, 2, n + 2 * padding), jnp.float32))
    return jnp.fft.ifft(spectrum.astype(jnp.complex64)), filtered


@jit_with(NO_TRIALS, static_argnames=("terms", "padding"))
def filtered_series(spectrum: ArrayLike, reach: ArrayLike, terms: int, padding: int) -> tuple[jax.Array, jax.Array]:
    """Return the result of `series_of`, as a program of its own."""
    return series_of(spectrum, reach, terms, padding)


def band_series(
    spectrum_of: Callable[[int], jax.Array | np.ndarray],
    shape: tuple[int, int],
    reach: ArrayLike,
    layout: Layout,
    with_filters: bool = True,
) -> tuple[np.ndarray, tuple[jax.Array, ...]]:
    """Return the band series of all detectors, zero at both ends, on the host, and their filters, on the device.

    Parameters
    ----------
    spectrum_of : callable
        Takes the number of a detector and returns its `decimated_spectrum`; called for one detector at a time, when the
        work on the previous one is finished, to save memory.
    shape : tuple of int
        D and the length of the series.
    reach : () float64
        Reach of the filters, samples.
    layout : Layout
    with_filters : bool
        Whether to make filters; otherwise there are none.
    """
    series, filters = np.zeros(shape, np.complex64), []
    for detector, own in enumerate(series):
        spectrum = spectrum_of(detector)
        if with_filters:
            samples, filtered = filtered_series(spectrum, reach, layout.terms, layout.padding)
            filters.append(filtered.block_until_ready())
        else:
            samples = _inverse(spectrum)
        own[: len(samples)] = samples
        del spectrum, samples
    return series, tuple(filters)
