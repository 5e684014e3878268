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
from jfstat.signal.phasemodel import PhaseModel
from jfstat.signal.templates import Amplitude
from jfstat.signal.transientwindow import TransientWindow
from jfstat.simulate.farbins import Bins, Ends, near_bins, with_far_bins

OVERSAMPLING = 8
"""Rate at which signals are sampled, in units of the width of the bins that are computed from the samples."""
DEGREE = 9
"""Degree of the polynomials for phase and amplitude over a piece of an SFT."""
PIECE_ANGLE = 0.6
"""Largest angle in rad that the orbit turns at periapsis during a piece; polynomials are then exact to 1e-8 cycles."""
MODEL_CYCLES, MOST_PIECES = 1e-6, 64
"""Largest error of polynomials for a user's phase model, cycles, and largest number of pieces of an SFT."""
MODEL_TIMES = 4096
"""Number of times at which a phase model is computed together, which compiles one program."""
MAX_SAMPLES, MAX_SFTS = 4_000_000, 64
"""Largest numbers of samples and of SFTs computed at once."""


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
    near = near_bins(source, bins) if transient is None else None
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
        out[mine] = (computed if ends is None else with_far_bins(computed, ends, bins))[: len(chunk)]
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
    """Return a phase model's cycles at any number of times, `MODEL_TIMES` together, so that one program serves all."""
    times = t.reshape(-1)
    padded = np.pad(times, (0, -len(times) % MODEL_TIMES), mode="edge").reshape(-1, MODEL_TIMES)
    return np.concatenate([_cycles(source.model, some) for some in padded])[: len(times)].reshape(t.shape)


@jax.jit
def _cycles(model: PhaseModel, t: jax.Array) -> jax.Array:
    return model.cycles(t)


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
        least = -(-max(OVERSAMPLING * self.n_bins, 256) // self.pieces)
        return self.pieces * int(next_fast_len(least))  # type: ignore[arg-type]


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
) -> tuple[jax.Array, Ends | None]:
    n_bins, pieces, follows = sampling
    n = window.shape[0]
    within = tsft / pieces * (np.arange(pieces, dtype=float)[None, :, None] + 0.5 + 0.5 * nodes(DEGREE + 1))
    cycles, amplitude = _at_nodes(received, starts, within)
    frequency = received.source.frequency
    central = jnp.broadcast_to(centre, starts.shape)
    if follows:
        start, end = (_at_ends(cycles, 0, pieces)[:, k] for k in (0, 1))
        central = jnp.round(frequency * tsft + end - start)
    cycles = cycles + (frequency - central / tsft)[:, None, None] * within
    strength = jnp.maximum(jnp.max(jnp.abs(received.amplitude.canonical)), 1e-300)
    amplitude = amplitude / strength.astype(jnp.complex128)  # strains near 1e-38 would underflow

    # then at every sample, including the end of the SFT; for a phase reduced to one turn, single precision is accurate
    # to 1e-7, like the SFTs themselves
    u = np.linspace(-1, 1, n // pieces + 1)
    powers = np.vander(u, DEGREE + 1, increasing=True) @ powers_from_values(DEGREE + 1)
    turns = cycles @ powers.T
    angle = (2 * jnp.pi) * (turns - jnp.round(turns)).astype(jnp.float32)
    pattern = jnp.matmul(amplitude.astype(jnp.complex64), powers.T.astype(np.complex64), precision=PRECISE)
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

    # trapezoidal rule: the Fourier kernel is the same at both ends of an SFT; see `_slopes` for its error
    bins = np.arange(n_bins) - n_bins // 2
    summed = jnp.fft.fft(x.at[:, 0].add(0.5 * (last - x[:, 0])))[:, bins].astype(jnp.complex128) / n
    slopes = _slopes(jnp.stack([x[:, 0], last], axis=-1), _at_ends(cycles, 1, pieces), bins.astype(float))
    summed = summed - (slopes[:, 1] - slopes[:, 0]) / (12 * n**2)
    ends = _ends(central, cycles, amplitude * strength.astype(jnp.complex128), pieces) if follows else None
    return summed * (strength * tsft).astype(jnp.complex128), ends


def _at_nodes(received: _Received, starts: jax.Array, within: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return phase, cycles, and complex amplitude of a signal at some times in pieces of SFTs, (n_sfts, pieces, n).

    The phase lacks whole cycles, and its frequency at the reference time times the time since the start of the SFT.
    """
    trajectory, response, source, amplitude = received
    t = starts[:, None, None] + within
    delay = source.delay(trajectory, t)
    since = delay + (starts[:, None, None] - source.middle)
    cycles = source.frequency * since + source.spin_down_cycles(t + delay) + source.cycles_at_middle
    a, b = source.patterns(response, trajectory.sidereal(t))
    a1, a2, a3, a4 = amplitude.canonical
    strain = 0.5 * jax.lax.complex(a1 * a + a2 * b, -(a3 * a + a4 * b))
    return cycles - jnp.round(cycles[:, :1, :1]), strain


def _at_ends(values: jax.Array, order: int, pieces: int) -> jax.Array:
    """Return a derivative, times in units of Tsft, at the start and end of SFTs, (n_sfts, 2), of values at nodes."""
    rows = np.eye(DEGREE + 1)
    ends = [np.polynomial.polynomial.polyval([-1.0, 1.0], np.polynomial.polynomial.polyder(x, order)) for x in rows]
    start, end = (2 * pieces) ** order * np.transpose(ends) @ powers_from_values(DEGREE + 1)
    return jnp.stack([values[:, 0] @ start.astype(values.dtype), values[:, -1] @ end.astype(values.dtype)], axis=-1)


def _ends(central: jax.Array, cycles: jax.Array, amplitude: jax.Array, pieces: int) -> Ends:
    """Return a signal at the ends of SFTs from phase and amplitude at the nodes of their pieces."""
    angle = 2 * jnp.pi * _at_ends(cycles, 0, pieces)
    strain, slope = (_at_ends(amplitude, k, pieces) * jax.lax.complex(jnp.cos(angle), jnp.sin(angle)) for k in (0, 1))
    return Ends(central, strain, slope, *(_at_ends(cycles, k, pieces) for k in (1, 2)))


def _slopes(wave: jax.Array, frequency: jax.Array, bins: np.ndarray) -> jax.Array:
    """Return the derivatives of integrands at the ends of SFTs, times in units of Tsft: (n_sfts, 2, n_bins).

    The trapezoidal rule with a step h is too large by h^2/12 times their difference (Euler and Maclaurin). What is left
    is a fraction (pi k/n)^4/45 of the bin that is k bins away from the signal: at most 3e-5 with `OVERSAMPLING`.
    """
    offset = frequency[..., None] - bins[None, None]
    return jax.lax.complex(jnp.zeros_like(offset), 2 * jnp.pi * offset) * wave[..., None].astype(jnp.complex128)
