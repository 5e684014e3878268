"""Compute what a signal adds to narrow data."""

from __future__ import annotations

from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.narrowdata import NODES, NarrowData
from jfstat.data.sftmask import mean_square
from jfstat.geometry.antenna import harmonics
from jfstat.geometry.nearby import phase_difference
from jfstat.maths.chebyshev import nodes, series_from_values
from jfstat.maths.turns import turn64
from jfstat.signal.templates import Amplitude, Doppler

TIMES = 8
"""Times in each SFT: integrals are exact to 1e-9 if the template's phase changes by less than a turn, relative to the
centre's, during an SFT."""


@lru_cache
def window_quadrature(tapered: float) -> tuple[np.ndarray, np.ndarray]:
    """Return places in an SFT, 0 to 1, and weights for means of the window times a function, (TIMES,) float64 each.

    Polynomials up to degree ``TIMES - 1`` are integrated exactly with Tukey's window of unit mean square.
    """
    x, plain = np.polynomial.legendre.leggauss(TIMES)
    if not tapered:
        return 0.5 * (1 + x), 0.5 * plain
    edge = 0.5 * tapered
    fine, own = np.polynomial.legendre.leggauss(40)
    moments = np.zeros(TIMES)
    for low, high in ((0.0, edge), (edge, 1 - edge), (1 - edge, 1.0)):
        y = low + 0.5 * (high - low) * (1 + fine)
        w = np.sin(0.5 * np.pi * np.minimum(1.0, np.minimum(y, 1 - y) / edge)) ** 2
        moments += np.polynomial.legendre.legvander(2 * y - 1, TIMES - 1).T @ (0.5 * (high - low) * own * w)
    weights = np.linalg.solve(np.polynomial.legendre.legvander(x, TIMES - 1).T, moments)
    return 0.5 * (1 + x), weights / np.sqrt(mean_square(tapered))


@partial(jax.jit, static_argnames="tapered")
def narrow_signal(data: NarrowData, doppler: Doppler, amplitude: Amplitude, tapered: float) -> jax.Array:
    """Return the samples of a signal in narrow data, (D, 5, B, NODES) complex128; NaN for one that does not fit.

    The signal's phase relative to the centre's is interpolated from the blocks' nodes to some times in each SFT, and
    its product with the antenna patterns integrated there against the nodes' Lagrange polynomials.

    Parameters
    ----------
    data : NarrowData
    doppler : Doppler
    amplitude : Amplitude
    tapered : float
        Tapered fraction of the SFTs' window, see `sftmask.tapered_fraction`.
    """
    observation = data.observation
    centre, other = observation.source(data.centre), observation.source(doppler)
    cycles = phase_difference(data.sites, centre, other) + other.cycles_at_middle
    relative = jax.lax.complex(*turn64(cycles))
    inside = jnp.where(data.fits(doppler), 1.0, jnp.nan)
    level = jnp.sqrt(2 * observation.level_of(doppler, amplitude.canonical)) / observation.tsft
    a1, a2, a3, a4 = amplitude.canonical * (0.5 * level)
    a, b = observation.pattern_coefficients(doppler)
    pattern = jax.lax.complex(a1 * a + a2 * b, -(a3 * a + a4 * b))

    def one(detector: tuple) -> jax.Array:  # type: ignore[type-arg]
        relative, pattern, time, trajectory, start, weight = detector
        n_blocks = time.shape[0]
        x = nodes(NODES)
        half = (time[:, -1] - time[:, 0]) / (x[-1] - x[0])
        middle = 0.5 * (time[:, -1] + time[:, 0])

        def add(samples: jax.Array, quadrature: jax.Array) -> tuple[jax.Array, None]:
            place, share = quadrature  # one time in each SFT, so that memory holds few of them
            t = start + observation.tsft * place
            # the last block may be repeated, or overlap with the one before: of several the first one holds the data
            block = jnp.minimum(jnp.searchsorted(middle + half, t, side="right"), n_blocks - 1)
            u = jnp.clip((t - middle[block]) / half[block], -1.0, 1.0)
            spread = jnp.cos(jnp.arccos(u)[:, None] * np.arange(float(NODES))[None]) @ jnp.asarray(
                series_from_values(NODES)
            )
            seen = harmonics(trajectory.sidereal(t))
            strain = jnp.sum(relative[block] * spread.astype(relative.dtype), axis=1)
            strain = strain * (seen.astype(pattern.dtype) @ pattern)
            strain = strain * (weight * (observation.tsft * share)).astype(strain.dtype)
            each = strain[:, None, None] * (seen[:, :, None] * spread[:, None, :]).astype(strain.dtype)
            return samples + jax.ops.segment_sum(each, block, n_blocks), None

        empty = jnp.zeros((n_blocks, 5, NODES), relative.dtype)
        return jnp.moveaxis(jax.lax.scan(add, empty, jnp.stack(quadrature, axis=1))[0], 1, 0)

    places, shares = (jnp.asarray(x) for x in window_quadrature(tapered))
    if (seen := observation.window) is None:
        times, weights, quadrature = observation.start, observation.weight, (places, shares)
    else:  # its slices stand for SFTs, whose own window has its mean
        times, weights, quadrature = seen.time, seen.share, (jnp.zeros(1), jnp.sum(shares)[None])
    detectors = (relative, pattern, data.sites.time, observation.trajectory, times, weights)
    samples = jax.lax.map(one, jax.tree.map(jnp.asarray, detectors))
    return samples * inside.astype(samples.dtype)  # also where no SFT lies
