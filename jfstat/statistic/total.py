"""Compute 2F of data, or its sum over their segments, which a follow-up maximises, and the values at the peak."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jfstat.data.eachsegment import each_segment
from jfstat.data.narrowdata import NarrowData
from jfstat.signal.parameters import AMPLITUDE_COLUMNS
from jfstat.signal.templates import Doppler
from jfstat.statistic.combine import antenna_matrix
from jfstat.statistic.fstat import estimate_amplitude_from, fstat_from, turned_twoF, twoF_of
from jfstat.statistic.semicoherent import amplitude_from, semicoherent_terms

AT_ONCE = 16
"""Largest number of segments of narrow data that are computed together."""
SEGMENT_AMPLITUDES = tuple(name for name in AMPLITUDE_COLUMNS if not name.startswith("phi0"))
"""Columns of amplitudes of data with segments, in which the initial phase is free."""


class Found(NamedTuple):
    """A template's 2F in the data of D detectors.

    Attributes
    ----------
    twoF : () float64
        Summed over segments.
    twoF_per_detector : (D,) float64
        2F of each detector, summed over the segments in which it has data.
    amplitude : (n,) float64
        Estimated amplitudes and errors, see `amplitude_columns`.
    """

    twoF: jax.Array
    twoF_per_detector: jax.Array
    amplitude: jax.Array


def amplitude_columns(n_segments: int | None) -> tuple[str, ...]:
    """Return the names of the amplitudes that are estimated, and of their errors."""
    return AMPLITUDE_COLUMNS if n_segments is None else SEGMENT_AMPLITUDES


def total_twoF(data: NarrowData, point: Doppler) -> jax.Array:
    """Compute 2F at one template, summed over segments: () float64, unchecked and differentiable."""
    return jnp.sum(each_segment(lambda own: twoF_of(own, point), data, AT_ONCE))


def total_shifted_twoF(
    data: NarrowData, point: Callable[[jax.Array], Doppler], x: jax.Array, shifts: jax.Array, at_once: int
) -> jax.Array:
    """Compute 2F, summed over segments, at many templates with shifted frequencies: (t, F) float32, unchecked.

    Parameters
    ----------
    data : NarrowData
    point : callable
        From coordinates, (p,) float64, to a template.
    x : (t, p) float64
        Rows of NaN at the end cost nothing.
    shifts : (F,) float64
        Hz.
    at_once : int
        Most templates to compute together.
    """

    size = min(at_once, len(x))
    n_parts = -(-jnp.sum(jnp.isfinite(x[:, 0])) // size)

    def of_segment(own: NarrowData) -> jax.Array:
        turns = own.turns(shifts)

        def with_part(i: jax.Array, heights: jax.Array) -> jax.Array:
            # the last part may begin earlier, and then repeats some templates of the previous one
            part = jax.lax.dynamic_slice_in_dim(x, i * size, size)
            values = jax.vmap(lambda at: turned_twoF(own, point(at), turns))(part)
            return jax.lax.dynamic_update_slice_in_dim(heights, values.astype(jnp.float32), i * size, 0)

        return jax.lax.fori_loop(0, n_parts, with_part, jnp.full((len(x), len(shifts)), jnp.nan, jnp.float32))

    return jnp.sum(each_segment(of_segment, data), axis=0)


def found_at(data: NarrowData, point: Doppler) -> Found:
    """Compute 2F, 2F of each detector, and amplitudes at one template, unchecked."""
    if data.n_segments is None:
        matrix, terms = antenna_matrix(data.observation, point), data.fa_fb(point)
        own = fstat_from(matrix, *terms)
        columns = estimate_amplitude_from(data.observation, point, matrix, *terms).columns
        return Found(own.twoF, own.twoF_per_detector, columns)
    total, y, whole = semicoherent_terms(data, point)
    estimate = amplitude_from(y, whole)
    amplitude = jnp.stack([getattr(estimate, name) for name in SEGMENT_AMPLITUDES])
    return Found(total.sum_twoF, total.sum_twoF_per_detector, amplitude)


def shrinkage(twoF: jax.Array, n_segments: int | None, effective_segments: jax.Array) -> jax.Array:
    """Return the factor, 0 to 1, that scales a sum of F over segments to the log-likelihood ratio; () float64.

    2F/2 is the logarithm of the likelihood ratio maximised over the four amplitudes. Where they are free in each of K
    segments and rho^2 of a segment is not large against 4, this follows the noise: near a peak the gradient of the sum
    has the variance 4 sum_k g_k (rho_k^2 + 4), g_k being the metric of a segment, not 4 sum_k g_k rho_k^2, as its
    Hessian -2 sum_k g_k rho_k^2 suggests. The ratio of the two is (rho^2 + 4 K_e) / rho^2, with the number K_e of
    `Coordinates.effective_segments`, which is K if all segments are alike. With amplitudes that are as large on average
    as 2F says, normally distributed, instead of free ones, the logarithm of the likelihood ratio is the inverse of this
    times the sum of F, up to a constant. Its curvature and that gradient give the same errors. rho^2 is estimated by
    the sum less 4 K.

    For data without segments it is 1, as the four amplitudes of a candidate are well determined.
    """
    if n_segments is None:
        return jnp.ones_like(twoF)
    rho2 = jnp.maximum(twoF - 4 * n_segments, 0.0)
    return rho2 / (rho2 + 4 * effective_segments)
