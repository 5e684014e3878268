"""From signal parameters to the SFT bins that the signal leaves in a detector."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from scipy.fft import next_fast_len

from jfstat.geometry.source import patterns, source_delay, spin_down_phase
from jfstat.geometry.trajectory import Trajectory
from jfstat.sfts.windows import window_samples
from jfstat.templates import Amplitude, Doppler

OVERSAMPLING = 8
"""Rate at which signals are sampled, in units of the band's width: errors of the bins' tails stay below 2 %."""
DEGREE = 9
"""Of the polynomials for phase and amplitude over a piece of an SFT."""
PIECE_ANGLE = 0.6
"""Longest piece in units of the orbit's radian at periapsis; the polynomials are then exact to 1e-8 cycles."""
MAX_SAMPLES = 4_000_000
"""Samples computed at once."""


def signal_bins(
    trajectory: Trajectory,
    response: jax.Array,
    doppler: Doppler,
    amplitude: Amplitude,
    starts: np.ndarray,
    reference: float,
    tsft: float,
    first_bin: int,
    n_bins: int,
    window: str,
) -> np.ndarray:
    """Bins of a signal's SFTs: the Fourier integral of its strain over each SFT.

    The strain is F+ A+ cos(phase) + Fx Ax sin(phase), phase and antenna patterns taken at every sample, none of them
    constant or linear over an SFT. Its part at negative frequencies, 1/(4 pi f Tsft) of it, is left out.

    Parameters
    ----------
    trajectory : Trajectory
        Of the detector.
    response : (3, 3) float64
        Detector tensor.
    doppler, amplitude : Doppler, Amplitude
        One signal.
    starts : (n_sfts,) float64 ndarray
        Start times, s since the trajectory's epoch.
    reference : float
        Reference time of the signal, s since the trajectory's epoch.
    tsft : float
        s.
    first_bin, n_bins : int
        The SFTs' band.
    window : str
        Name of the SFTs' window.

    Returns
    -------
    (n_sfts, n_bins) complex128 ndarray.
    """
    pieces = 1
    if doppler.orbit is not None:
        orbit = doppler.orbit
        rate = 2 * np.pi / float(orbit.period) * np.sqrt(1 + float(orbit.ecc)) / (1 - float(orbit.ecc)) ** 1.5
        pieces = int(np.ceil(tsft * rate / PIECE_ANGLE))
    per_piece = int(next_fast_len(-(-max(OVERSAMPLING * n_bins, 256) // pieces)))  # type: ignore[arg-type]
    n = pieces * per_piece
    samples = np.ones(n) if window in ("rectangular", "unknown") else window_samples(window, n)
    at_once = max(1, MAX_SAMPLES // n)
    out = np.empty((len(starts), n_bins), np.complex128)
    for low in range(0, len(starts), at_once):
        chunk = starts[low : low + at_once]
        padded = np.pad(chunk, (0, at_once - len(chunk)), mode="edge")  # one shape, one compilation
        bins = _bins(trajectory, response, doppler, amplitude.canonical, jnp.asarray(padded), jnp.asarray(reference),
                     jnp.asarray(tsft), jnp.asarray(samples), first_bin, n_bins, pieces)  # fmt: skip
        out[low : low + len(chunk)] = np.asarray(bins)[: len(chunk)]
    return out


@partial(jax.jit, static_argnames=("first_bin", "n_bins", "pieces"))
def _bins(
    trajectory: Trajectory,
    response: jax.Array,
    doppler: Doppler,
    canonical: jax.Array,
    starts: jax.Array,
    reference: jax.Array,
    tsft: jax.Array,
    window: jax.Array,
    first_bin: int,
    n_bins: int,
    pieces: int,
) -> jax.Array:
    n = window.shape[0]
    centre = first_bin + n_bins // 2
    nodes = np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))
    to_powers = np.linalg.inv(np.vander(nodes, increasing=True))

    # at the nodes of each piece: cycles beyond the central bin's, and the complex amplitude
    within = tsft / pieces * (np.arange(pieces, dtype=float)[:, None] + 0.5 + 0.5 * nodes)
    t = starts[:, None, None] + within
    since = source_delay(trajectory, doppler, t) + (starts[:, None, None] - reference)
    f = doppler.fkdot[0]
    cycles = f * since + (f - centre / tsft) * within + spin_down_phase(doppler.fkdot, since + within)
    whole = jnp.round(cycles[..., :1])
    a, b = patterns(trajectory, response, doppler, t)
    strength = jnp.maximum(jnp.max(jnp.abs(canonical)), 1e-300)  # strains near 1e-38 would underflow
    a1, a2, a3, a4 = canonical / strength
    strain = 0.5 * jax.lax.complex(a1 * a + a2 * b, -(a3 * a + a4 * b))

    # and from there at every sample, the end of the SFT included; once the phase is reduced to one turn, single
    # precision keeps 1e-7, as the SFTs themselves do
    u = np.linspace(-1, 1, n // pieces + 1)
    powers = np.vander(u, DEGREE + 1, increasing=True) @ to_powers
    turns = (cycles - whole) @ powers.T + jnp.mod(whole, 1.0)
    angle = (2 * jnp.pi) * (turns - jnp.round(turns)).astype(jnp.float32)
    pattern = strain.astype(jnp.complex64) @ powers.T.astype(np.complex64)
    wave = pattern * jax.lax.complex(jnp.cos(angle), jnp.sin(angle))
    x = wave[..., :-1].reshape(len(starts), n) * window.astype(jnp.complex64)
    # trapezoidal rule: the Fourier kernel is the same at both ends of an SFT
    x = x.at[:, 0].add(0.5 * (wave[:, -1, -1] * window[-1].astype(jnp.complex64) - x[:, 0]))
    bins = jnp.arange(n_bins) - n_bins // 2
    return jnp.fft.fft(x)[:, bins].astype(jnp.complex128) * (strength * tsft / n).astype(jnp.complex128)
