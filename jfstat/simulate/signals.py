"""The SFT bins of a signal in a detector."""

from __future__ import annotations

import math
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
"""Rate at which signals are sampled, in units of the width of the bins that are computed from the samples."""
NEAR_BINS = 64
"""Bins on either side of a signal that are computed from samples; bins farther away follow from the ends of SFTs."""
FAR_ACCURACY = 1e-3
"""Largest error of the bins farther away for a changing frequency, in units of the bin."""
EARTH_ACCELERATION = 1.5e-10
"""Largest acceleration of detectors by the Earth's rotation and orbit, in units of the speed of light, 1/s."""
DEGREE = 9
"""Degree of the polynomials for phase and amplitude over a piece of an SFT."""
PIECE_ANGLE = 0.6
"""Largest angle in rad that the orbit turns at periapsis during a piece; polynomials are then exact to 1e-8 cycles."""
MODEL_CYCLES, MOST_PIECES = 1e-6, 64
"""Largest error of polynomials for a user's phase model, cycles, and largest number of pieces of an SFT."""
MAX_SAMPLES, MAX_SFTS = 4_000_000, 64
"""Largest numbers of samples and of SFTs computed at once."""


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
    near = _near_bins(source, bins) if transient is None else None
    sampling = _Sampling(bins.number if near is None else near, pieces, near is not None)
    n = sampling.samples
    samples = samples_of(bins.window, n)
    at_once = max(1, min(MAX_SAMPLES // n, MAX_SFTS))
    out = np.zeros((len(bins.starts), bins.number), np.complex128)
    rows = np.arange(len(bins.starts))
    if transient is not None:  # the other SFTs hold no part of the signal
        first, *_, last = np.asarray(transient.breaks) - epoch
        rows = rows[(bins.starts + bins.tsft > first) & (bins.starts < last)]
    received = _Received(trajectory, response, source, amplitude)
    central = np.float64(bins.first + bins.number // 2)
    for low in range(0, len(rows), at_once):
        mine = rows[low : low + at_once]
        chunk = bins.starts[mine]
        padded = np.pad(chunk, (0, at_once - len(chunk)), mode="edge")  # one shape, one compilation
        found = _bins(received, padded, np.float64(bins.tsft), samples, np.int64(epoch), transient, central, sampling)
        computed, ends = jax.tree.map(np.asarray, found)
        out[mine] = (computed if near is None else _with_far_bins(computed, ends, bins))[: len(chunk)]
    return out


def _near_bins(source: Source, bins: Bins) -> int | None:
    """Return the number of bins around a persistent signal to compute from samples; None for all bins of the SFTs.

    The other bins follow from the ends of the SFTs if the window is constant and the phase smooth, and if the frequency
    changes little enough: the next term of `_with_far_bins` is smaller by a factor of f1 Tsft^2/(2 pi n^2) at n bins
    from a frequency with a derivative f1. The number is a power of two, so that many signals share a program.
    """
    if np.ptp(samples_of(bins.window, 16)) > 0 or source.model is not None:
        return None
    evolution = np.abs(np.asarray(source.evolution))[1:]
    away = np.max(np.abs(bins.starts + 0.5 * bins.tsft - float(source.middle)))
    change = sum(x * away**k / math.factorial(k) for k, x in enumerate(evolution))
    acceleration = EARTH_ACCELERATION
    if source.orbit is not None:
        acceleration += float(source.orbit.asini * periapsis_rate(source.orbit) ** 2)
    change += float(source.frequency) * acceleration
    reach = max(NEAR_BINS, bins.tsft * np.sqrt(change / (2 * np.pi * FAR_ACCURACY)))
    reach += 0.5 * change * bins.tsft**2  # by so much the frequency moves away from its mean over an SFT
    near = 2 ** math.ceil(np.log2(2 * reach))
    return near if near < bins.number else None


def _with_far_bins(near: np.ndarray, ends: _Ends, bins: Bins) -> np.ndarray:
    """Return all bins of SFTs, from those near a signal and the signal at the start and end of each SFT.

    Far from its frequency the Fourier integral of a smooth signal is, by partial integration, the signal divided by
    2 pi i times its distance from the bin's frequency, at the end of the SFT minus at its start.

    Parameters
    ----------
    near : (n_sfts, n_near) complex128
        Bins around `ends.central`.
    ends : _Ends
    bins : Bins
    """
    n_near = near.shape[1]
    first = np.round(ends.central).astype(int) - n_near // 2 - bins.first  # of the near bins, as a column of all bins
    column = np.arange(bins.number)
    beyond = (column < first[:, None]) | (column >= first[:, None] + n_near)
    out = np.zeros((len(near), bins.number), np.complex128)
    for sign, wave, frequency in ((-1, ends.waves[:, 0], ends.bins[:, 0]), (1, ends.waves[:, 1], ends.bins[:, 1])):
        offset = (frequency + ends.central - bins.first)[:, None] - column
        out += (sign * bins.tsft / (2j * np.pi) * wave)[:, None] / np.where(beyond, offset, np.inf)
    for row, low in enumerate(first):
        low, high = max(low, 0), min(low + n_near, bins.number)
        out[row, low:high] = near[row, low - first[row] : high - first[row]]
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
    amplitude : Amplitude
    """

    trajectory: Trajectory
    response: jax.Array
    source: Source
    amplitude: Amplitude


class _Sampling(NamedTuple):
    """How the bins of an SFT are computed from samples.

    Attributes
    ----------
    n_bins : int
        Number of bins.
    pieces : int
        Number of pieces of an SFT over each of which phases are polynomials.
    follows : bool
        Whether the bins are around the signal's mean frequency in each SFT, not around the same bin in all.
    """

    n_bins: int
    pieces: int
    follows: bool

    @property
    def samples(self) -> int:
        """Number of samples of an SFT."""
        per_piece = next_fast_len(-(-max(OVERSAMPLING * self.n_bins, 256) // self.pieces))  # type: ignore[arg-type]
        return self.pieces * int(per_piece)


class _Ends(NamedTuple):
    """A signal at the start and at the end of SFTs, for the sum of samples and for bins far away.

    Attributes
    ----------
    central : (n_sfts,) float64
        Bins that `bins` count from, whole.
    waves : (n_sfts, 2) complex128
        Strain, with the phase of the central bin taken out.
    bins : (n_sfts, 2) float64
        Frequencies, in bins from the central one.
    """

    central: jax.Array
    waves: jax.Array
    bins: jax.Array


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
) -> tuple[jax.Array, _Ends]:
    trajectory, response, source, amplitude = received
    canonical = amplitude.canonical
    n_bins, pieces, follows = sampling
    n = window.shape[0]
    u = np.linspace(-1, 1, n // pieces + 1)
    powers = np.vander(u, DEGREE + 1, increasing=True) @ powers_from_values(DEGREE + 1)
    # at the nodes of each piece: the phase relative to the central bin's, and the complex amplitude
    within = tsft / pieces * (np.arange(pieces, dtype=float)[None, :, None] + 0.5 + 0.5 * nodes(DEGREE + 1))
    t = starts[:, None, None] + within
    delay = source.delay(trajectory, t)
    since = delay + (starts[:, None, None] - source.middle)
    cycles = source.frequency * since + source.spin_down_cycles(t + delay) + source.cycles_at_middle
    if follows:
        drift = cycles[:, -1] @ powers[-1] - cycles[:, 0] @ powers[0]
        central = jnp.round(drift + source.frequency * tsft)
    else:
        central = jnp.broadcast_to(centre, starts.shape)
    cycles = cycles + (source.frequency - central / tsft)[:, None, None] * within
    whole = jnp.round(cycles[..., :1])
    cycles = cycles - whole
    a, b = source.patterns(response, trajectory.sidereal(t))
    strength = jnp.maximum(jnp.max(jnp.abs(canonical)), 1e-300)  # strains near 1e-38 would underflow
    a1, a2, a3, a4 = canonical / strength
    strain = 0.5 * jax.lax.complex(a1 * a + a2 * b, -(a3 * a + a4 * b))

    # then at every sample, including the end of the SFT; for a phase reduced to one turn, single precision is accurate
    # to 1e-7, like the SFTs themselves
    turns = cycles @ powers.T + jnp.mod(whole, 1.0)
    angle = (2 * jnp.pi) * (turns - jnp.round(turns)).astype(jnp.float32)
    pattern = jnp.matmul(strain.astype(jnp.complex64), powers.T.astype(np.complex64), precision=PRECISE)
    wave = pattern * jax.lax.complex(jnp.cos(angle), jnp.sin(angle))
    if transient is not None:
        middle = starts[:, None, None] + tsft / pieces * (np.arange(pieces, dtype=float)[None, :, None] + 0.5 + 0.5 * u)
        first = starts[:, None, None]
        low, high = (jnp.clip(middle + x * tsft / n, first, first + tsft) for x in (-0.5, 0.5))
        factor = transient.mean(low, high, epoch)
        wave = wave * factor.astype(jnp.complex64)
    window = window.astype(jnp.complex64)
    x = wave[..., :-1].reshape(len(starts), n) * window[None]
    last = wave[:, -1, -1] * window[-1]
    # trapezoidal rule: the Fourier kernel is the same at both ends of an SFT
    summed = jnp.fft.fft(x.at[:, 0].add(0.5 * (last - x[:, 0])))
    bins = np.arange(n_bins) - n_bins // 2
    waves = jnp.stack([x[:, 0], last], axis=-1).astype(jnp.complex128) * strength.astype(jnp.complex128)
    derivative = (
        np.vander([-1.0, 1.0], DEGREE, increasing=True)
        * np.arange(1.0, DEGREE + 1)
        @ powers_from_values(DEGREE + 1)[1:]
    )
    rates = 2 * pieces * jnp.stack([cycles[:, 0] @ derivative[0], cycles[:, -1] @ derivative[1]], axis=-1)
    ends = _Ends(central, waves, rates)
    computed = summed[:, bins].astype(jnp.complex128) * (strength * tsft / n).astype(jnp.complex128)
    return computed - _error_of_rule(ends, bins, tsft, n), ends


def _error_of_rule(ends: _Ends, bins: np.ndarray, tsft: jax.Array, n: int) -> jax.Array:
    """Return the trapezoidal rule's error for n samples of each SFT, by the first term of Euler and Maclaurin's series.

    It is h^2/12 times the difference of the integrand's slopes at the ends. What is left is a fraction of
    (pi k/n)^4/45 of the bin that is k bins away from the signal, at most 3e-5 with `OVERSAMPLING`.
    """
    slopes = ends.waves[..., None] * (ends.bins[..., None] - bins.astype(float)).astype(jnp.complex128)
    return (2j * jnp.pi / (12 * n**2)) * tsft.astype(jnp.complex128) * (slopes[:, 1] - slopes[:, 0])
