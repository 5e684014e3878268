"""Signals in the whitened data of each segment, from which simulated tables of 2F get the data's correlations."""

from __future__ import annotations

from functools import reduce

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.fstatdata import FstatData
from jfstat.data.observation import Observation
from jfstat.geometry.trajectory import Trajectory
from jfstat.signal.templates import Doppler
from jfstat.statistic.combine import MAX_CONDITION


def orthonormal_signals(segments: FstatData, point: Doppler, canonical: np.ndarray | None, n: int) -> np.ndarray:
    """Return orthonormal signals of each segment in whitened data at frequency 0, (K, C, R, n).

    C is 2, for the two antenna patterns, or 1, for the signal with four given amplitudes. The time axis is periodic and
    as long as the inverse of the spacing of frequencies. R is the number of series of white noise: one for each
    detector, or two from which all sums over detectors and periods follow.
    """
    observed = segments.observation
    start, weight, tsft = (np.asarray(x) for x in (observed.start, observed.weight, observed.tsft))
    first = np.min(np.where(weight > 0, start, np.inf), axis=(1, 2))
    period, step = 1 / segments.dfreq, 1 / (segments.dfreq * n)
    begin = np.where(weight > 0, start - first[:, None, None], 0.0)
    n_periods = int(np.ceil(np.max(begin + tsft[:, None, None]) / period - 1e-9))

    def signals(i: int) -> np.ndarray:
        """Return both antenna patterns times the roots of the weights in a period, (K, 2, D, n)."""
        time = i * period + step * (0.5 + np.arange(n))
        patterns = np.asarray(_patterns(segments, point, jnp.asarray(first[:, None] + time)))  # (K, D, 2, n)
        # each SFT is divided among the samples that it overlaps
        edges = i * period + step * np.arange(n + 1)
        windows = np.zeros((*start.shape[:2], n))
        for k, d in np.ndindex(*start.shape[:2]):
            own = begin[k, d, :, None]
            windows[k, d] = weight[k, d] @ np.diff(np.clip(edges, own, own + tsft[k]), axis=1)
        return np.moveaxis(patterns, 2, 1) * np.sqrt(windows)[:, None]

    if n_periods * start.shape[1] <= 2:
        both = np.concatenate([signals(i) for i in range(n_periods)], axis=2)
    else:
        each = (signals(i) for i in range(n_periods))
        both = _roots(reduce(np.add, (np.einsum("kadn,kbdn->kabn", own, own) for own in each)))
    if canonical is not None:
        c = canonical[:2] - 1j * canonical[2:]
        both = np.einsum("c,kcdn->kdn", c, both)[:, None]
    gram = np.einsum("kcdn,kedn->kce", both, np.conj(both))
    values, vectors = np.linalg.eigh(gram)
    good = values * MAX_CONDITION > values[:, -1:]
    if canonical is None:
        good &= np.all(good, axis=1, keepdims=True)  # otherwise 2F is set to 4
    scale = np.where(good, 1 / np.sqrt(np.where(good, values, 1.0)), 0.0)
    return np.einsum("kce,kcdn->kedn", np.conj(vectors) * scale[:, None], both)


def _roots(products: np.ndarray) -> np.ndarray:
    """Return the lower triangular roots of products of the two patterns, (K, 2, 2, n), in the same order of axes."""
    roots = np.zeros_like(products)
    roots[:, 0, 0] = np.sqrt(products[:, 0, 0])
    roots[:, 1, 0] = products[:, 0, 1] / np.where(roots[:, 0, 0] > 0, roots[:, 0, 0], 1.0)
    roots[:, 1, 1] = np.sqrt(np.maximum(products[:, 1, 1] - roots[:, 1, 0] ** 2, 0.0))
    return roots


@jax.jit
def _patterns(segments: FstatData, point: Doppler, time: jax.Array) -> jax.Array:
    """Return a and b of each segment and detector at times (K, n), s since the epoch: (K, D, 2, n)."""

    def one(own: Observation, t: jax.Array) -> jax.Array:
        source = own.source(point)

        def of(detector: tuple[Trajectory, jax.Array]) -> jax.Array:
            trajectory, response = detector
            return jnp.stack(source.patterns(response, trajectory.sidereal(t)))

        return jax.lax.map(of, (own.trajectory, own.response))

    return jax.lax.map(lambda x: one(*x), (segments.observation, time))
