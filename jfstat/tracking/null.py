"""Distribution of the best path's log-likelihood in noise: thresholds and false-alarm probabilities by simulation.

The noise of a segment is white; its product with the antenna patterns is transformed to 2F at frequencies spaced as
finely as the data's, so that values are as correlated as in the data. A fraction of the tables holds a weak signal on a
random path; the forward algorithm gives the ratio of a table's probabilities with and without a signal, by which
`statistic.null` weights it.

Simulated tables have a fixed number of frequencies, whose ends are joined. In a wider table as many independent paths
are loud as its width tells; of a narrower one only its own frequencies count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.checks import check_amplitude, check_segments, check_sky
from jfstat.data.fstatdata import FstatData
from jfstat.data.observation import Observation
from jfstat.maths.arrays import PRECISE
from jfstat.public import host
from jfstat.signal.templates import Amplitude, Doppler, template_of_any
from jfstat.statistic.combine import antenna_matrix, total_matrix
from jfstat.statistic.fstat import noise_level
from jfstat.statistic.null import NullDistribution
from jfstat.tracking.emission import optimal_power
from jfstat.tracking.nullpaths import Paths
from jfstat.tracking.nulltemplates import orthonormal_signals
from jfstat.tracking.transitions import (
    FLOOR,
    Jump,
    Lattice,
    Model,
    TransitionsLike,
    check_reach,
    log_probabilities,
    refuse_scores,
)
from jfstat.validation import is_whole, shown, whole

BINS = 256
"""Number of frequencies of a simulated table, whose ends are joined."""
LEAST_PER_JUMP = 8
"""Least number of frequencies of a simulated table for each bin of the largest jump."""
TABLES = 512
"""Number of simulated tables of each strength, a multiple of `TOGETHER`."""
FURTHER = (1.5, 5.0, 11.0, 22.0)
"""Strengths of signals, as minus the logarithm of the probability of similar tables in noise."""
TRIED = (0.0, 0.06, 0.15, 0.35, 0.7)
"""Strengths that are tried in order to find the strengths of `FURTHER`, as many; see `_tables`."""
MOST_VALUES = 1 << 22
"""Largest number of values of 2F of a simulated table."""
TOGETHER = 16
"""Number of tables that are computed side by side."""
ALL_TABLES = TOGETHER + TABLES
"""Number of simulated tables of each strength, with those from which the strengths are found."""


@host(point=template_of_any)
def viterbi_null(
    segments: FstatData | int,
    point: Doppler | None = None,
    transitions: TransitionsLike = 1,
    *,
    n_frequencies: int | None = None,
    amplitude: Amplitude | None = None,
    seed: int = 0,
) -> NullDistribution:
    """Estimate the distribution of the best path's log-likelihood in Gaussian noise, from simulated tables.

    The simulated tables have the gaps, noise weights and antenna patterns of the data, because values of 2F are
    correlated between neighbouring frequencies and between frequencies that differ by multiples of the sidereal
    frequency.

    Parameters
    ----------
    segments : FstatData or int
        Data of the search. Or a number of segments, for tables whose frequencies are spaced by half the inverse of a
        segment's length, without gaps, and with constant antenna patterns in each segment.
    point : Doppler or Row, optional
        Template, needed with data, and without meaning for a number of segments; only its sky position matters.
    transitions : int or array_like
        Log-probabilities of jumps; see `viterbi`.
    n_frequencies : int, optional
        Number of frequencies of the table; by default the data's.
    amplitude : Amplitude, optional
        Amplitude of a signal, with data, to use its log-likelihood; by default half of 2F is used.
    seed : int
        Seed of the random numbers; equal seeds give equal distributions.

    Returns
    -------
    NullDistribution
        Distribution of the log-likelihood. Probabilities from 0.5 to 1e-5 are accurate to about 10 per cent, smaller
        ones to a factor that grows. In tables of a few hundred frequencies that a path may cross they are up to a fifth
        too large.

    Raises
    ------
    TypeError
        If an argument is of another kind.
    ValueError
        If an argument is missing or makes no sense, or transitions are of f1dot too, or wider than the data's band, or
        lead all paths out of it.
    """
    return null_of_paths(segments, point, transitions, n_frequencies, amplitude, seed)


def null_of_paths(
    segments: FstatData | int,
    point: Doppler | None,
    transitions: TransitionsLike,
    n_frequencies: int | None,
    amplitude: Amplitude | None,
    seed: int = 0,
    advance: Callable[[int], object] = lambda n: None,
    within: bool = True,
) -> NullDistribution:
    """Return the distribution of `viterbi_null`; `advance` is called with how many more of `ALL_TABLES` are done.

    With `within` False only the ends of paths lie within the `n_frequencies`, which are a part of a wider table.
    """
    weights = np.asarray(log_probabilities(transitions))
    refuse_scores(transitions)
    if weights.shape[1] > 1:
        raise ValueError("transitions must be of frequency alone: the distribution with f1dots is not known.")
    seed = whole(seed, "seed")
    width = _width(segments, point, amplitude, n_frequencies)
    if within:
        check_reach(transitions, width)
    n = _table_width(weights.shape[0], width)
    strength = None
    if isinstance(segments, FstatData) and point is not None:
        if amplitude is not None:
            strength = np.asarray(_signal_strengths(segments, point, amplitude))
        templates = orthonormal_signals(
            segments, point, None if amplitude is None else np.asarray(amplitude.canonical), n
        )
    else:
        n_segments = whole(segments, "segments", 1)
        if n_segments * n > MOST_VALUES:
            raise ValueError(f"segments must be at most {MOST_VALUES // n} with these transitions, not {segments}.")
        one = np.where(np.arange(n) < n // 2, np.sqrt(2 / n), 0.0)
        templates = np.tile(np.eye(2)[:, :, None] * one, (n_segments, 1, 1, 1))
    paths = Paths.of(weights[:, 0], len(templates), n, width, within)
    return _null(templates, weights[:, 0], paths, max(1.0, width / n), strength, seed, advance)


def _width(
    segments: FstatData | int, point: Doppler | None, amplitude: Amplitude | None, n_frequencies: int | None
) -> int:
    """Return the number of frequencies of the table, after a check of the arguments that belong together."""
    if isinstance(segments, FstatData):
        if point is None:
            raise ValueError(
                "point is missing: neighbouring values of 2F are correlated by the antenna patterns there."
            )
        check_segments(segments)
        check_sky("point", point)
        if amplitude is not None:
            check_amplitude(amplitude)
        n_frequencies = segments.layout.n_frequencies if n_frequencies is None else n_frequencies
    else:
        if not is_whole(segments):
            raise TypeError(f"segments must be FstatData, or their number, not {shown(segments)}.")
        for name, given in (("point", point), ("amplitude", amplitude)):
            if given is not None:
                raise ValueError(f"{name} needs data: give segments from jfstat.prepare in place of their number.")
        if n_frequencies is None:
            raise ValueError("n_frequencies is missing: give the number of frequencies of the table.")
    return whole(n_frequencies, "n_frequencies", 1)


def _table_width(n_jumps: int, width: int) -> int:
    """Return the number of frequencies of a simulated table for one of a given width: no path crosses what is left."""
    reach = n_jumps // 2
    n = max(BINS, 1 << (LEAST_PER_JUMP * reach - 1).bit_length())
    return 2 * n if n - reach < width <= n else n


@jax.jit
def _signal_strengths(segments: FstatData, point: Doppler, amplitude: Amplitude) -> jax.Array:
    """Return rho of the signal in each segment, (K,)."""

    def one(own: Observation) -> jax.Array:
        matrix = total_matrix(antenna_matrix(own, point))
        return jnp.sqrt(optimal_power(noise_level(own), amplitude.canonical, matrix))

    return jax.lax.map(one, segments.observation)


class Simulation(NamedTuple):
    """Quantities that all simulated tables share.

    Attributes
    ----------
    templates : (K, C, R, n) complex64
        Signals from `orthonormal_signals`; a value of the statistic is made of C complex numbers.
    weights : (J,) float32
        Log-probabilities of the jumps from -w to w, as the user gave them.
    prior : (J,) float32
        Normalised log-probabilities of the jumps.
    barred, last : (n,) float32
        0 at the frequencies where paths may be, and may end; `FLOOR` elsewhere.
    log_share : () float32
        See `Paths`.
    strength : (K,) float32 or None
        rho of the known amplitude in each segment.
    """

    templates: jax.Array
    weights: jax.Array
    prior: jax.Array
    barred: jax.Array
    last: jax.Array
    log_share: jax.Array
    strength: jax.Array | None

    @property
    def model(self) -> Model:
        """Hidden Markov model of a table whose ends are joined."""
        w = len(self.weights) // 2
        lattice = Lattice(Jump(w, 0), (0,), True)
        return Model(lattice, jnp.maximum(self.weights[np.array(lattice.jumps)[:, 0] + w], FLOOR))

    def log_ratio(self, log_likelihood: jax.Array) -> jax.Array:
        """Return the log of a table's likelihood averaged over all paths, () float32, by the forward algorithm.

        Probabilities are scaled in each segment, which is faster than `log_sum` and loses values below 1e-38.
        """
        probabilities, w, n = jnp.exp(self.prior), len(self.prior) // 2, log_likelihood.shape[1]

        def seen(alpha: jax.Array, total: jax.Array, own: jax.Array) -> tuple[jax.Array, jax.Array]:
            own = own + self.barred
            top = jnp.max(own)
            alpha = alpha * jnp.exp(own - top)
            scale = jnp.sum(alpha)
            return alpha / scale, total + top + jnp.log(scale)

        def forwards(carry: tuple[jax.Array, jax.Array], own: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
            alpha, total = carry
            wide = jnp.pad(alpha, (w, w), mode="wrap")
            jumps = (p * wide[2 * w - j : 2 * w - j + n] for j, p in enumerate(probabilities))
            moved = sum(jumps, jnp.zeros_like(alpha))
            return seen(moved, total, own), None

        anywhere = (self.barred == 0).astype(jnp.float32)
        start = seen(anywhere / jnp.sum(anywhere), jnp.zeros((), jnp.float32), log_likelihood[0])
        alpha, total = jax.lax.scan(forwards, start, log_likelihood[1:])[0]
        return total + jnp.log(jnp.sum(jnp.where(self.last == 0, alpha, 0.0))) - self.log_share

    def emission(self, power: jax.Array) -> jax.Array:
        """Return the log-likelihood from half the sum of the squares, (K, n)."""
        if self.strength is None:  # 2F is 4 where the antenna matrix is degenerate
            return jnp.where(jnp.any(self.templates != 0, axis=(1, 2, 3))[:, None], power, 2.0)
        size = self.strength[:, None] * jnp.sqrt(2 * power)
        return jnp.log(jax.scipy.special.i0e(size)) + size - 0.5 * self.strength[:, None] ** 2


def _null(
    templates: np.ndarray,
    weights: np.ndarray,
    paths: Paths,
    n_simulations: float,
    strength: np.ndarray | None,
    seed: int,
    advance: Callable[[int], object],
) -> NullDistribution:
    """The distribution from simulated tables; see `Simulation` for the arguments, and `null_of_paths`."""
    known = None if strength is None else jnp.asarray(strength, jnp.float32)
    barred, last = (np.where(x, 0.0, FLOOR) for x in (paths.allowed, paths.last))
    own = Simulation(
        templates=jnp.asarray(templates, jnp.complex64),
        weights=jnp.asarray(weights, jnp.float32),
        prior=jnp.asarray(paths.prior, jnp.float32),
        barred=jnp.asarray(barred, jnp.float32),
        last=jnp.asarray(last, jnp.float32),
        log_share=jnp.asarray(paths.log_share, jnp.float32),
        strength=known,
    )
    random = np.random.default_rng(seed)
    # the mean ratio of probabilities says how rare tables of a strength are in noise
    _, ratios = _tables(own, _drawn(random, paths, templates.shape), jnp.asarray(TRIED, jnp.float32))
    mean = np.mean(np.diagonal(np.asarray(ratios, np.float64), axis1=1, axis2=2), axis=0)
    advance(TOGETHER)
    strengths = jnp.asarray([0.0, *np.interp(FURTHER, np.maximum.accumulate(mean), TRIED)], jnp.float32)
    draws = (_drawn(random, paths, templates.shape) for _ in range(TABLES // TOGETHER))
    drawn: list[tuple[jax.Array, jax.Array]] = []
    for draw in draws:
        drawn.append(_tables(own, draw, strengths))
        if len(drawn) > 1:  # while these are computed the next are drawn
            jax.block_until_ready(drawn[-2])
            advance(TOGETHER)
    values = np.concatenate([np.asarray(x, np.float64).ravel() for x, _ in drawn])
    ratios = np.concatenate([np.asarray(x, np.float64).reshape(-1, len(strengths)) for _, x in drawn])
    advance(TOGETHER)
    return NullDistribution.of_mixture("log_likelihood", values, ratios, n_simulations)


class Draw(NamedTuple):
    """Random numbers for some simulated tables.

    Attributes
    ----------
    noise : (B, K, R, n) complex64
        Whitened data.
    signal : (B, S, K, C) complex64
        Amplitudes of S signals.
    path : (B, S, K) int32
        Frequency bins of the signals.
    """

    noise: jax.Array
    signal: jax.Array
    path: jax.Array


def _drawn(random: np.random.Generator, paths: Paths, shape: tuple[int, ...]) -> Draw:
    """Draw random numbers for templates of a shape (K, C, R, n)."""
    n_segments, n_terms, n_series, n = shape
    signals = (TOGETHER, len(TRIED))

    def normal(*shape: int) -> np.ndarray:
        return random.standard_normal((*shape, 2), np.float32).view(np.complex64)[..., 0]

    path = paths.drawn(random, signals).astype(np.int32)
    noise = normal(TOGETHER, n_segments, n_series, n)
    amplitudes = normal(*signals, n_segments, n_terms)
    return Draw(*(jnp.asarray(x) for x in (noise, amplitudes, path)))


@jax.jit
def _tables(own: Simulation, draw: Draw, strengths: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Compute the best path's log-likelihood of tables, and their log-probability ratios of signals to noise.

    Parameters
    ----------
    own : Simulation
    draw : Draw
    strengths : (S,) float32
        Strengths t = s/(1 + s), where s is the mean square of a signal over the mean square of noise in a table's
        value; 0 for noise alone.

    Returns
    -------
    best : (B, S) float32
        Log-likelihood of the best path.
    ratio : (B, S, S) float32
        Log-probability of each table with signals of the strengths of the last axis, minus log-probability in noise.
    """
    n_segments, n_terms, _, n = own.templates.shape
    model, templates = own.model, own.templates
    # signals change nothing in segments where 2F is 4 whatever the data
    n_known = jnp.sum(jnp.any(templates != 0, axis=(1, 2, 3)).astype(jnp.float32))
    spectra = jnp.fft.fft(jnp.einsum("kcdn,bkdn->bkcn", jnp.conj(templates), draw.noise, precision=PRECISE))
    response = jnp.fft.fft(jnp.einsum("kcdn,kedn->kcen", jnp.conj(templates), templates, precision=PRECISE))
    segment, bins = jnp.arange(n_segments)[:, None], jnp.arange(n, dtype=jnp.int32)[None]

    def one(spectra: jax.Array, path: jax.Array, signals: jax.Array, t: jax.Array) -> tuple[jax.Array, jax.Array]:
        tones = response[segment, :, :, (bins - path[:, None]) % n]  # (K, n, C, C)
        amplitude = jnp.sqrt(t / (1 - t)).astype(jnp.complex64) * signals
        x = spectra + jnp.einsum("knce,ke->kcn", tones, amplitude, precision=PRECISE)
        power = 0.5 * jnp.sum(x.real**2 + x.imag**2, axis=1)

        def forwards(delta: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
            return x + model.largest_predecessors(delta), None

        rows = (own.emission(power) + own.barred[None])[:, None]
        final, _ = jax.lax.scan(forwards, rows[0], rows[1:])

        def ratio(t: jax.Array) -> jax.Array:
            return own.log_ratio(t * power) + n_known * n_terms * jnp.log1p(-t)

        return jnp.max(final + own.last[None]), jax.vmap(ratio)(strengths)

    return jax.vmap(jax.vmap(one, (None, 0, 0, 0)), (0, 0, 0, None))(spectra, draw.path, draw.signal, strengths)
