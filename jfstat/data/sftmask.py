"""Compute the factor by which `prepare` multiplies strain: the windows of the SFTs and their noise weights.

Strain outside SFTs counts as zero. The factor, here called the mask, follows from the observation alone, so that
signals and noise can be put into prepared data without making SFTs.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.band import taper
from jfstat.data.bandseries import Band
from jfstat.sfts.windows import tukey_beta

FINER = 2
"""Samples of the mask for each sample of the band series. The mask is needed up to the width of the low-pass, twice the
series' Nyquist frequency: only there does its product with a signal in the band have a part in the band.
"""
SPREAD = 6
"""Grid points on each side over which an SFT's mid-time is spread, right to 1e-6 (Greengard and Lee, SIAM Review 46,
443, 2004)."""
SPREAD_VARIANCE = 2 * SPREAD / (3 * np.pi)
"""Variance of the Gaussian that spreads, in grid points squared, for a grid twice as fine as the mask."""


def tapered_fraction(window: str) -> float:
    """Return the tapered fraction of an SFT with a given window: 0 for a rectangular one, 1 for Hann.

    Raises
    ------
    ValueError
        If the window is none of ``"rectangular"``, ``"hann"`` and ``"tukey:<beta>"``.
    """
    if window in ("rectangular", "hann"):
        return float(window == "hann")
    return tukey_beta(window)


def mean_square(tapered: float) -> float:
    """Return the mean over an SFT of the square of Tukey's window that has its maximum at 1."""
    return 1 - 0.625 * tapered


def window_transform(frequency: jax.Array, tsft: jax.Array, tapered: float) -> jax.Array:
    """Return the Fourier transform of a window about its middle, s; its root mean square is 1.

    Tukey's window is the convolution of a rectangle and half a period of a cosine.

    Parameters
    ----------
    frequency : (n,) float64
        Hz.
    tsft : () float64
        s.
    tapered : float
        From `tapered_fraction`.
    """
    flat, lobe = tsft * (1 - 0.5 * tapered), 0.5 * tapered * frequency * tsft
    # the cosine's own transform, cos(pi x)/(1 - 4 x^2), is a sum of two sincs, which has no poles
    smooth = (np.pi / 4) * (jnp.sinc(lobe + 0.5) + jnp.sinc(lobe - 0.5))
    return flat * jnp.sinc(frequency * flat) * smooth / np.sqrt(mean_square(tapered))


def window_power(x: jax.Array, tapered: float) -> jax.Array:
    """Return the integral of the square of a window, of unit mean square, from the start of an SFT up to `x`.

    Parameters
    ----------
    x : (...) float64
        Fraction of the SFT, 0 to 1.
    tapered : float
        From `tapered_fraction`.
    """
    if not tapered:
        return x
    edge = 0.5 * tapered

    def rising(y: jax.Array) -> jax.Array:  # the integral of sin^4
        turns = jnp.clip(y / edge, 0.0, 1.0)
        integral = 0.375 * turns - jnp.sin(np.pi * turns) / (2 * np.pi) + jnp.sin(2 * np.pi * turns) / (16 * np.pi)
        return edge * integral

    flat = jnp.clip(x - edge, 0.0, 1 - tapered)
    return (rising(x) + flat + 0.375 * edge - rising(1 - x)) / mean_square(tapered)


def mask(start: jax.Array, weight: jax.Array, tsft: jax.Array, band: Band, n_band: int, tapered: float) -> jax.Array:
    """Return the mask of one detector, low-passed to what the band series sees of it: (FINER * n_band,) float32.

    The mask is the sum over SFTs of weight times window. Its transform is that of the window times a sum of phase
    factors, which is computed by spreading SFTs' mid-times on a grid, so that SFTs may start at any time.

    Parameters
    ----------
    start, weight : (S,) float64
        Starts of the SFTs, s since the epoch, and their noise weights.
    tsft : () float64
        s.
    band : Band
    n_band : int
        Samples of the band series, whose period is ``n_band * band.dt``.
    tapered : float
        From `tapered_fraction`.
    """
    n, n_grid = FINER * n_band, 2 * FINER * n_band
    step = band.dt / (2 * FINER)
    place = (start + 0.5 * tsft - band.start) / step
    first = jnp.floor(place)
    offset = np.arange(1.0 - SPREAD, SPREAD + 1)
    values = jnp.exp((-0.5 / SPREAD_VARIANCE) * (offset[None] - (place - first)[:, None]) ** 2) * weight[:, None]
    into = (first.astype(jnp.int32)[:, None] + jnp.asarray(offset, jnp.int32)[None]) % n_grid
    spread = jnp.zeros(n_grid, jnp.float32).at[into].add(values.astype(jnp.float32))

    length = n_band * band.dt
    frequency = jnp.arange(n // 2 + 1, dtype=jnp.float64) / length
    angle = 2 * np.pi * frequency * step
    undone = jnp.exp(0.5 * SPREAD_VARIANCE * angle**2) / np.sqrt(2 * np.pi * SPREAD_VARIANCE)
    half_pass, half_stop = half_widths(band)
    response = window_transform(frequency, tsft, tapered) * taper(frequency, half_pass + half_stop, 2 * half_stop)
    spectrum = jnp.fft.rfft(spread)[: n // 2 + 1] * (undone * response * (n / length)).astype(jnp.complex64)
    return jnp.fft.irfft(spectrum, n)


def mean_power(
    time: jax.Array, step: jax.Array, start: jax.Array, weight: jax.Array, tsft: jax.Array, tapered: float
) -> jax.Array:
    """Return the mean of weight times squared window of one detector over intervals around given times, float64.

    Parameters
    ----------
    time : (n,) float64
        Middles of the intervals, s since the epoch.
    step : () float64
        Length of the intervals, s.
    start, weight, tsft, tapered
        See `mask`.
    """
    edges = jnp.append(time - 0.5 * step, time[-1] + 0.5 * step)
    # the last SFT is repeated, with weight zero, where other detectors have more
    begun = jnp.searchsorted(start, edges, side="right")
    whole = jnp.append(0.0, jnp.cumsum(weight))
    last = jnp.maximum(begun - 1, 0)
    fraction = jnp.clip((edges - start[last]) / tsft, 0.0, 1.0)
    # of repeated SFTs the first one counts
    own = jnp.searchsorted(start, start[last], side="left")
    partial = whole[own] + weight[own] * window_power(fraction, tapered)
    # sums of weights lose some 1e-16, so that differences between SFTs may be less than zero
    return jnp.maximum(jnp.diff(jnp.where(begun > 0, partial, 0.0)), 0.0) * (tsft / step)


def half_widths(band: Band) -> tuple[jax.Array, jax.Array]:
    """Return half the widths of the pass and the stop band of a series' low-pass, Hz."""
    return 0.5 * (band.pass_high - band.pass_low), 0.5 / jnp.maximum(band.dtau, band.dt)
