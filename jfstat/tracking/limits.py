"""Upper limits on wandering signals, by injections along random paths into the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from jfstat import kinds
from jfstat.data.addsignal import add_signal, silent
from jfstat.data.checks import check_filters, check_segments
from jfstat.data.fstatdata import FstatData
from jfstat.limits.analytic import checked_mismatch
from jfstat.limits.injections import NEVER, UpperLimit, check_enough, settled
from jfstat.limits.population import MOST_SIGNALS, Population
from jfstat.public import host
from jfstat.signal.templates import Amplitude, Doppler
from jfstat.signal.values import with_fields
from jfstat.statistic.combine import antenna_matrix, total_matrix, two_f
from jfstat.statistic.fstat import band_values, noise_level, optimal_power
from jfstat.tracking.transitions import TransitionsLike, plain_transitions
from jfstat.tracking.viterbi import viterbi
from jfstat.validation import NumberLike, positive_number, probability, whole

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

USUAL_POWER = 10.0
"""Value of rho^2 in a segment, on average, at the amplitude at which the table with a signal is computed."""
OCTAVES, BISECTIONS = range(-3, 12), 16
"""Powers of two of that amplitude between which the threshold is sought, and halvings of the interval found."""


LARGEST_THRESHOLD = 1e5
"""Largest log-likelihood up to which amplitudes are tried."""


@dataclass(frozen=True, repr=False, eq=False)
class PathUpperLimit(UpperLimit):
    """An upper limit on wandering signals and the injections behind it; see `jfstat.path_upper_limit`.

    Attributes
    ----------
    frequencies : (n, K) float64 ndarray
        Frequency of each injection in each segment, Hz, at the reference time. Other attributes are as for
        `UpperLimit`; `threshold` is one on the log-likelihood of the best path.
    """

    frequencies: np.ndarray


@host(population=kinds.instance(Population, or_none=True))
def path_upper_limit(
    segments: FstatData,
    threshold: NumberLike,
    transitions: TransitionsLike = 1,
    population: Population | None = None,
    *,
    confidence: NumberLike = 0.95,
    mismatch: ArrayLike = 0.0,
    injections: int = 200,
    seed: int = 0,
) -> PathUpperLimit:
    """Compute the h0 at which wandering signals injected into the data exceed a threshold with a given probability.

    This is `upper_limit` for searches with `BestPath` or `track` without a known amplitude (Suvorova et al. 2016, Phys.
    Rev. D 93, 123009). Each signal jumps from one segment to the next with the probabilities of `transitions`, begins
    anywhere in the band such that it stays there, at any offset from the frequencies of the data, and has another phase
    in each segment. 2F of every segment at every frequency is a quadratic function of h0, from the data, the signal
    alone, and both; the signal's leakage into neighbouring frequencies is included. The best path through these tables
    is found anew at each h0 that a bisection tries.

    Parameters
    ----------
    segments : FstatData
        Data with segments, with filters. The whole band is searched for paths: it should be that of one sub-band of
        the search.
    threshold : float
        Log-likelihood of the best path above which an injection counts as detected: ``log_likelihood`` of the search's
        loudest candidate, or the threshold of `viterbi_null` for a false-alarm probability.
    transitions : int or array_like
        See `viterbi`; of the search and of the signals.
    mismatch : float or array_like
        As for `upper_limit`, but of position, spin-downs and orbit alone: what frequencies between those of the data
        cost is in the injections.
    population, confidence, seed
        As for `upper_limit`. A frequency of the population is that in the first segment.
    injections : int
        Number of injections. Each takes three transforms of every segment and the best path through them 32 times:
        seconds for a hundred segments.

    Returns
    -------
    PathUpperLimit

    Raises
    ------
    TypeError
        If `segments` or `population` is of another kind.
    ValueError
        As `upper_limit`; or if the data have no segments, or the band is narrower than the paths of signals.

    Notes
    -----
    The search is that of one template: what other templates add to noise is in the threshold. SFTs are taken to be
    rectangular. For SFTs with a window w multiply h0 by rms(w)/mean(w), which is 1.22 for Hann. Other neglected effects
    are those of `upper_limit`.

    Examples
    --------
    >>> limit = jfstat.path_upper_limit(segments, 60.0, 1, injections=80)
    >>> 2e-25 < limit.h0 < 2e-24
    True
    """
    check_segments(segments)
    if not isinstance(segments, FstatData):
        raise TypeError("segments must be FstatData from jfstat.prepare(..., segments=), not narrow data.")
    check_filters(segments)
    least = positive_number(threshold, "threshold", "a log-likelihood")
    if least > LARGEST_THRESHOLD:
        raise ValueError(f"threshold={least:g} must be at most {LARGEST_THRESHOLD:g}: it is a log-likelihood.")
    jumps = np.asarray(plain_transitions(transitions))
    wanted = probability(confidence, "confidence", "give one such as 0.95")
    chosen = population or Population()
    n = whole(injections, "injections", 10, MOST_SIGNALS)
    check_enough(n, wanted)
    kept = np.sqrt(1 - checked_mismatch(mismatch, n, seed))
    paths = _drawn_paths(segments, jumps, chosen, n, seed)
    first = float(np.asarray(segments.frequencies).min())
    points, amplitudes = chosen.draw(n, seed, freq=first)
    points = with_fields(points, fkdot=jnp.asarray(points.fkdot).at[:, 0].set(paths[:, 0]))
    phases = np.random.default_rng([seed, 4]).uniform(0, 2 * np.pi, paths.shape)
    critical, loudest = _critical(segments, points, amplitudes, paths, phases, kept, least, jumps)
    critical, h0, error = settled(critical, loudest, wanted, least)
    return PathUpperLimit(h0, error, wanted, least, critical, points, amplitudes, paths)


def _drawn_paths(segments: FstatData, jumps: np.ndarray, population: Population, n: int, seed: int) -> np.ndarray:
    """Draw the frequencies of n signals in all segments, (n, K) float64, Hz."""
    rng = np.random.default_rng([whole(seed, "seed"), 3])
    frequencies, n_segments = np.asarray(segments.frequencies).reshape(-1), int(segments.n_segments or 0)
    share = np.exp(jumps - jumps.max())
    steps = rng.choice(np.arange(len(jumps)) - len(jumps) // 2, (n, n_segments - 1), p=share / share.sum())
    moved = np.concatenate([np.zeros((n, 1)), np.cumsum(steps, axis=1)], axis=1) * float(segments.dfreq)
    low, high = frequencies.min() - moved.min(axis=1), frequencies.max() - moved.max(axis=1)
    if np.any(low > high):
        raise ValueError("segments: the band is narrower than the paths of signals: prepare a wider one.")
    if population.freq is None:
        start = rng.uniform(low, high)
    else:
        start = np.asarray(population.draw(n, seed)[0].fkdot)[:, 0]
        outside = int(np.sum((start < low) | (start > high)))
        if outside:
            raise ValueError(f"population: {outside} of {n} paths leave the band: prepare a wider one.")
    return start[:, None] + moved


@jax.jit
def _critical(
    segments: FstatData,
    points: Doppler,
    amplitudes: Amplitude,
    paths: jax.Array,
    phases: jax.Array,
    kept: jax.Array,
    threshold: jax.Array,
    jumps: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Return the least h0 from which on each injection is detected, and the data's best log-likelihood: (n,) each."""

    def one(injection: tuple[Doppler, Amplitude, jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        point, amplitude, path, phase, kept = injection

        def power(own: FstatData) -> jax.Array:
            matrix = total_matrix(antenna_matrix(own.observation, point))
            return optimal_power(noise_level(own.observation), amplitude.canonical, matrix)

        unit = jnp.sqrt(USUAL_POWER / jnp.mean(jax.lax.map(power, segments)))

        def tables(rows: tuple[FstatData, jax.Array, jax.Array]) -> tuple[jax.Array, ...]:
            own, f, turn = rows
            signal = with_fields(point, fkdot=point.fkdot.at[0].set(f))
            weak = Amplitude(unit, amplitude.cosi, amplitude.psi, turn)
            each = own, add_signal(silent(own), signal, weak), add_signal(own, signal, weak)
            return tuple(band_values(x, point, two_f) for x in each)  # type: ignore[arg-type]

        nothing, alone, both = (x.astype(jnp.float64) for x in jax.lax.map(tables, (segments, path, phase)))
        cross, power_of = kept * (both - nothing - alone), kept**2 * alone

        def best(x: jax.Array) -> jax.Array:
            table = nothing + x * cross + x * x * power_of
            return viterbi(0.5 * table, jumps).log_likelihood

        steps = jnp.asarray([2.0**k for k in OCTAVES])
        loud = jax.lax.map(best, steps) > threshold
        index = jnp.max(jnp.where(loud, -1, jnp.arange(len(steps))))  # the last that is not detected
        low = jnp.where(index < 0, 0.0, steps[jnp.maximum(index, 0)])
        high = steps[jnp.minimum(index + 1, len(steps) - 1)]

        def halved(_: int, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            low, high = ends
            middle = 0.5 * (low + high)
            above = best(middle) > threshold
            return jnp.where(above, low, middle), jnp.where(above, middle, high)

        quiet = best(jnp.zeros(()))
        _, high = jax.lax.fori_loop(0, BISECTIONS, halved, (low, high))
        found = unit * jnp.where((index < 0) & (quiet > threshold), 0.0, high)
        return jnp.where(loud[-1], found, NEVER), quiet

    return jax.lax.map(one, (points, amplitudes, paths, phases, kept))
