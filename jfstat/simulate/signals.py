"""The SFT bins of a signal in a detector."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.fft import next_fast_len

from jfstat.geometry.orbit import periapsis_rate
from jfstat.geometry.source import Source
from jfstat.geometry.trajectory import Trajectory
from jfstat.maths.arrays import PRECISE
from jfstat.maths.chebyshev import nodes, powers_from_values
from jfstat.sfts.windows import samples_of
from jfstat.signal.templates import Amplitude
from jfstat.signal.transientwindow import TransientWindow

OVERSAMPLING = 8
"""Rate at which signals are sampled, in units of the band's width: errors of the bins' tails stay below 2 %."""
DEGREE = 9
"""Degree of the polynomials for phase and amplitude over a piece of an SFT."""
PIECE_ANGLE = 0.6
"""Largest angle in rad that the orbit turns at periapsis during a piece; polynomials are then exact to 1e-8 cycles."""
MODEL_CYCLES, MOST_PIECES = 1e-6, 64
"""Largest error of polynomials for a user's phase model, cycles, and largest number of pieces of an SFT."""
MAX_SAMPLES = 4_000_000
"""Largest number of samples computed at once."""


class Bins(NamedTuple):
    """Times and frequencies of the bins of one detector's SFTs.

    Attributes
    ----------
    starts : (n_sfts,) float64 ndarray
        Start times, s since the epoch.
    tsft : float
        Length of an SFT, s.
    first, number : int
        First bin and number of bins.
    window : str
        Name of the SFTs' window.
    """

    starts: np.ndarray
    tsft: float
    first: int
    number: int
    window: str


def signal_bins(
    trajectory: Trajectory,
    response: jax.Array,
    source: Source,
    amplitude: Amplitude,
    bins: Bins,
    epoch: int,
    transient: TransientWindow | None = None,
) -> np.ndarray:
    """Compute the SFT bins of a signal: the Fourier integral of its strain over each SFT.

    The strain is F+ A+ cos(phase) + Fx Ax sin(phase), with phase and antenna patterns evaluated at every sample, not
    approximated as constant or linear over an SFT. The signal's part at negative frequencies, a fraction of 1/(4 pi f
    Tsft), is neglected.

    Parameters
    ----------
    trajectory : Trajectory
        Trajectory of the detector.
    response : (3, 3) float64
        Detector tensor.
    source : Source
    amplitude : Amplitude
    bins : Bins
    epoch : int
        GPS time from which the bins' times count, s.
    transient : TransientWindow, optional
        Factor of the strain over time; each sample counts by the mean over its interval.

    Returns
    -------
    (n_sfts, n_bins) complex128 ndarray.
    """
    pieces = 1
    if source.orbit is not None:
        pieces = int(np.ceil(bins.tsft * float(periapsis_rate(source.orbit)) / PIECE_ANGLE))
    if source.model is not None:
        pieces = max(pieces, _pieces_for_model(source, bins))
    per_piece = int(next_fast_len(-(-max(OVERSAMPLING * bins.number, 256) // pieces)))  # type: ignore[arg-type]
    n = pieces * per_piece
    samples = samples_of(bins.window, n)
    at_once = max(1, MAX_SAMPLES // n)
    out = np.zeros((len(bins.starts), bins.number), np.complex128)
    rows = np.arange(len(bins.starts))
    if transient is not None:  # the other SFTs hold no part of the signal
        first, *_, last = np.asarray(transient.breaks) - epoch
        rows = rows[(bins.starts + bins.tsft > first) & (bins.starts < last)]
    received = _Received(trajectory, response, source, amplitude.canonical)
    for low in range(0, len(rows), at_once):
        mine = rows[low : low + at_once]
        chunk = bins.starts[mine]
        padded = np.pad(chunk, (0, at_once - len(chunk)), mode="edge")  # one shape, one compilation
        found = _bins(
            received,
            jnp.asarray(padded),
            jnp.asarray(bins.tsft),
            jnp.asarray(samples),
            np.int64(epoch),
            transient,
            np.float64(bins.first + bins.number // 2),
            _Sampling(bins.number, pieces),
        )
        out[mine] = np.asarray(found)[: len(chunk)]
    return out


def _pieces_for_model(source: Source, bins: Bins) -> int:
    """Return the number of pieces of an SFT in which polynomials follow a phase model to `MODEL_CYCLES`.

    The number is a power of two and at most `MOST_PIECES`: where the phase or frequency jumps, no number is enough, and
    the error stays in one piece.
    """
    pieces, places = 1, np.linspace(-1, 1, 23)
    powers = np.vander(places, DEGREE + 1, increasing=True) @ powers_from_values(DEGREE + 1)
    rough = bins.starts  # SFTs in which longer pieces were not accurate enough
    while pieces < MOST_PIECES:
        middles = rough[:, None] + bins.tsft / pieces * (np.arange(pieces) + 0.5)
        half = 0.5 * bins.tsft / pieces
        known, wanted = (_model_cycles(source, middles[..., None] + half * x) for x in (nodes(DEGREE + 1), places))
        rough = rough[np.max(np.abs(known @ powers.T - wanted), axis=(1, 2)) >= MODEL_CYCLES]
        if not len(rough):
            break
        pieces *= 2
    return pieces


def _model_cycles(source: Source, t: np.ndarray) -> np.ndarray:
    return np.asarray(source.model.cycles(jnp.asarray(t)))  # type: ignore[union-attr]


class _Received(NamedTuple):
    """A signal and the detector that receives it; see `signal_bins`.

    Attributes
    ----------
    trajectory : Trajectory
    response : (3, 3) float64
    source : Source
    canonical : (4,) float64
        Amplitudes.
    """

    trajectory: Trajectory
    response: jax.Array
    source: Source
    canonical: jax.Array


class _Sampling(NamedTuple):
    """Number of bins of SFTs, and of the pieces over each of which phases are polynomials."""

    n_bins: int
    pieces: int


@partial(jax.jit, static_argnames="sampling")
def _bins(
    received: _Received,
    starts: jax.Array,
    tsft: jax.Array,
    window: jax.Array,
    epoch: jax.Array,
    transient: TransientWindow | None,
    centre: jax.Array,
    sampling: _Sampling,
) -> jax.Array:
    trajectory, response, source, canonical = received
    n_bins, pieces = sampling
    n = window.shape[0]
    # at the nodes of each piece: the phase relative to the central bin's, and the complex amplitude
    within = tsft / pieces * (np.arange(pieces, dtype=float)[None, :, None] + 0.5 + 0.5 * nodes(DEGREE + 1))
    t = starts[:, None, None] + within
    delay = source.delay(trajectory, t)
    since = delay + (starts[:, None, None] - source.middle)
    cycles = source.frequency * since + (source.frequency - centre / tsft) * within
    cycles = cycles + source.spin_down_cycles(t + delay) + source.cycles_at_middle
    whole = jnp.round(cycles[..., :1])
    a, b = source.patterns(response, trajectory.sidereal(t))
    strength = jnp.maximum(jnp.max(jnp.abs(canonical)), 1e-300)  # strains near 1e-38 would underflow
    a1, a2, a3, a4 = canonical / strength
    strain = 0.5 * jax.lax.complex(a1 * a + a2 * b, -(a3 * a + a4 * b))

    # then at every sample, including the end of the SFT; for a phase reduced to one turn, single precision is accurate
    # to 1e-7, like the SFTs themselves
    u = np.linspace(-1, 1, n // pieces + 1)
    powers = np.vander(u, DEGREE + 1, increasing=True) @ powers_from_values(DEGREE + 1)
    turns = (cycles - whole) @ powers.T + jnp.mod(whole, 1.0)
    angle = (2 * jnp.pi) * (turns - jnp.round(turns)).astype(jnp.float32)
    pattern = jnp.matmul(strain.astype(jnp.complex64), powers.T.astype(np.complex64), precision=PRECISE)
    wave = pattern * jax.lax.complex(jnp.cos(angle), jnp.sin(angle))
    if transient is not None:
        middle = starts[:, None, None] + tsft / pieces * (np.arange(pieces, dtype=float)[None, :, None] + 0.5 + 0.5 * u)
        first = starts[:, None, None]
        low, high = (jnp.clip(middle + x * tsft / n, first, first + tsft) for x in (-0.5, 0.5))
        factor = transient.mean(low, high, epoch)
        wave = wave * factor.astype(jnp.complex64)
    x = wave[..., :-1].reshape(len(starts), n) * window.astype(jnp.complex64)[None]
    # trapezoidal rule: the Fourier kernel is the same at both ends of an SFT
    x = x.at[:, 0].add(0.5 * (wave[:, -1, -1] * window[-1].astype(jnp.complex64) - x[:, 0]))
    bins = jnp.arange(n_bins) - n_bins // 2
    return jnp.fft.fft(x)[:, bins].astype(jnp.complex128) * (strength * tsft / n).astype(jnp.complex128)
