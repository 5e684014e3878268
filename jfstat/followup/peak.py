"""Describe the peaks at which the climbs of a batch of candidates ended: errors and rivals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.compileroptions import NO_TRIALS, jit_with
from jfstat.followup.free import FreeParameters
from jfstat.followup.groups import in_groups
from jfstat.followup.look import parameter_limits
from jfstat.followup.neighbourhood import distance_across
from jfstat.maths.newton import CONVERGED, Limits, Maximum, free_steps, held, pushed_limits
from jfstat.metrics.coordinates import Coordinates

SIGMAS = 4.3
"""Number of standard deviations around each peak that the next stage of a follow-up covers: all but 1e-3 of a normal
distribution in four dimensions."""
LEAST_SHARE = 3e-3
"""Smallest probability of a peak that the next stage of a follow-up covers."""
SAME = 0.5
"""Largest squared distance between maxima that count as one, in units of a peak's width."""


class Known(NamedTuple):
    """Which numbers of a `Peak` are known, bool arrays with their shapes."""

    covariance: jax.Array
    spread: jax.Array
    rivals: jax.Array


class Peak(NamedTuple):
    """Peak at which a candidate ended, with p parameters: its errors, other peaks, and how the climbs went.

    Numbers that are not known are 0 on the device and NaN in `on_host`: JAX's setting ``jax_debug_nans`` stops at NaN.

    Attributes
    ----------
    covariance : (p, p) float64
        Covariance of the fitted parameters; not known where 2F has no maximum, and for parameters at their limits.
    spread : (p, p) float64
        Semi-axes, as steps of the parameters to first order, of the ellipsoid that the next stage of a follow-up covers
        around each peak; see `_semi_axes`.
    rivals : (c, p) float64
        Parameters at each peak that was climbed, this one first; not known for peaks with less than `LEAST_SHARE` of
        the probability.
    share : () float64
        Probability of this peak among all peaks that were climbed; see `peak_shares`.
    moved, across : () float64
        Distance from the start in whitened coordinates, and its part `across` the frequency.
    steps, status : () int32
        As in `Maximum`; steps are added over all climbs.
    at_limit : (m,) bool
        Which limits stopped the climb.
    known : Known
    """

    covariance: jax.Array
    spread: jax.Array
    rivals: jax.Array
    share: jax.Array
    moved: jax.Array
    across: jax.Array
    steps: jax.Array
    status: jax.Array
    at_limit: jax.Array
    known: Known


@jit_with(NO_TRIALS, kept=True, static_argnames="together")
def describe(
    coordinates: Coordinates,
    free: FreeParameters,
    climbs: Maximum,
    trust: jax.Array,
    n: int | jax.Array,
    together: int,
) -> Peak:
    """Describe the highest peak around each of the first n of N candidates.

    The data are no argument, so that all stages of a follow-up share this program.

    Parameters
    ----------
    coordinates : Coordinates
        Whitened coordinates from `survey`, stacked.
    free : FreeParameters
    climbs : Maximum
        From `climb`.
    trust : (N,) float64
        `shrinkage` of the 2F of each peak; see `PeakValues`.
    n : () int32
    together : int, static
        Number of candidates computed together, a divisor of N.

    Returns
    -------
    Peak
        Peaks with a leading axis N.
    """

    def one(own: tuple[Coordinates, Maximum, jax.Array]) -> Peak:
        coordinates, climbs, trust = own
        limits = parameter_limits(coordinates, free)
        end: Maximum = jax.tree.map(lambda x: x[0], climbs)

        def at_limits(at: Maximum) -> jax.Array:
            return jnp.zeros(0, bool) if limits is None else pushed_limits(at, limits, at.gradient)

        here = jax.vmap(lambda x: values_around(coordinates, x))(climbs.x)
        likelihoods = climbs._replace(
            value=trust * climbs.value, gradient=trust * climbs.gradient, hessian=trust * climbs.hessian
        )
        covariances = jax.vmap(lambda own, at: _peak_covariance(own, at, limits, at_limits(at)))(here, likelihoods)
        shares = peak_shares(likelihoods)
        held_at = {coordinates.names.index(name): at for name, at in zip(free.bounded, at_limits(end), strict=True)}
        numbers = Known(
            covariance=_together(here.values, covariances, shares, held_at),
            spread=here.slope[0] @ _semi_axes(likelihoods, shares, trust),
            rivals=jnp.where(shares[:, None] > LEAST_SHARE, here.values, jnp.nan),
        )
        known = Known(*map(jnp.isfinite, numbers))
        numbers = Known(*(jnp.where(*pair, 0.0) for pair in zip(known, numbers, strict=True)))
        return Peak(
            **numbers._asdict(),
            share=shares[0],
            moved=jnp.sqrt(jnp.sum(end.x**2)),
            across=distance_across(coordinates, end.x),
            steps=jnp.sum(climbs.steps),
            status=end.status,
            at_limit=at_limits(end),
            known=known,
        )

    return in_groups(jax.vmap(one), (coordinates, climbs, trust), together, n)


def on_host(peaks: Peak, n: int) -> Peak:
    """Return the first n of a stack of peaks as NumPy arrays, with NaN for numbers that are not known."""
    peaks = jax.tree.map(lambda x: np.asarray(x)[:n], peaks)
    shown = {name: np.where(own, getattr(peaks, name), np.nan) for name, own in peaks.known._asdict().items()}
    return peaks._replace(**shown)


def peak_shares(climbs: Maximum) -> jax.Array:
    """Return the probability of each of n peaks, highest first, (n,) float64, by Laplace's approximation.

    A peak that was climbed twice counts once, and no peak counts more than the first. If the first is no maximum, its
    probability is 1.
    """
    n = climbs.value.shape[0]
    _, log_volume = jnp.linalg.slogdet(-0.5 * climbs.hessian)
    apart = jnp.sum((climbs.x[:, None] - climbs.x[None]) ** 2, axis=-1) * climbs.value[0] > SAME
    again = jnp.any(~apart & (jnp.arange(n)[None] < jnp.arange(n)[:, None]), axis=1)
    log_share = 0.5 * (climbs.value - climbs.value[0]) - 0.5 * (log_volume - log_volume[0])
    usable = (climbs.status == CONVERGED) & ~again & jnp.isfinite(log_share)
    shares = jnp.where(usable, jnp.exp(jnp.minimum(log_share, 0.0)), 0.0).at[0].set(1.0)
    shares = jnp.where(climbs.status[0] == CONVERGED, shares, jnp.zeros(n).at[0].set(1.0))
    return shares / jnp.sum(shares)


def _together(
    places: jax.Array, covariances: jax.Array, shares: jax.Array, held_at: Mapping[int, jax.Array]
) -> jax.Array:
    """Return the second moments of the parameters about the highest peak, over all peaks climbed, (p, p) float64.

    They are NaN for parameters at their limits; errors of the other parameters are for these values.

    Parameters
    ----------
    places : (c, p) float64
        Parameters at each peak.
    covariances : (c, p, p) float64
    shares : (c,) float64
    held_at : mapping
        For parameters with limits, by their number, whether one was reached.
    """
    off = places - places[:1]
    each = covariances + off[:, :, None] * off[:, None, :]
    matrix = jnp.sum(jnp.where((shares > 0)[:, None, None], shares[:, None, None] * each, 0.0), axis=0)
    for k, at_limit in held_at.items():
        hidden = jnp.where(at_limit, jnp.nan, 0.0)
        matrix = matrix.at[k].add(hidden).at[:, k].add(hidden)
    return matrix


def _semi_axes(climbs: Maximum, shares: jax.Array, trust: jax.Array) -> jax.Array:
    """Return the semi-axes of the region of each peak, (p, p) float64, columns, in whitened coordinates.

    They are `SIGMAS` standard deviations of the mean of all peaks' covariances, weighted by their probabilities. Where
    noise dominates the sum over K segments, the signal may be further from the maximum than the curvature there
    suggests: at a mismatch m the sum is lower by rho^2 m, but noise changes it by sqrt(m (16 K + 4 rho^2)), K being the
    effective number of segments, and the number of templates grows with m. The axes are then longer by 1 + 4 K / rho^2,
    the inverse of `trust`, though this makes none longer than an axis of the metric's unit ball.
    """
    size, axes = jnp.linalg.eigh(-0.5 * climbs.hessian)
    each = (axes / jnp.where(size > 0, size, jnp.nan)[:, None]) @ jnp.swapaxes(axes, 1, 2)
    mean = jnp.sum(jnp.where((shares > 0)[:, None, None], shares[:, None, None] * each, 0.0), axis=0)
    size, axes = jnp.linalg.eigh(mean)
    radii = SIGMAS * jnp.sqrt(size)
    return axes * jnp.maximum(radii, jnp.minimum(radii / trust, 1.0))[None]


class ValuesAround(NamedTuple):
    """The p parameters at a place in whitened coordinates, (p,), with first and second derivatives.

    Attributes
    ----------
    values, slope, bend : (p,), (p, p), (p, p, p) float64
    """

    values: jax.Array
    slope: jax.Array
    bend: jax.Array


def values_around(coordinates: Coordinates, x: jax.Array) -> ValuesAround:
    """Return the parameters at whitened coordinates x, (p,), and how they change; in one pass, to trace less."""

    def with_values(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        values = coordinates.values(x)
        return values, values

    def with_slope(x: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        slope, values = jax.jacfwd(with_values, has_aux=True)(x)
        return slope, (values, slope)

    bend, (values, slope) = jax.jacfwd(with_slope, has_aux=True)(x)
    return ValuesAround(values, slope, bend)


def _peak_covariance(here: ValuesAround, at: Maximum, limits: Limits | None, at_limit: jax.Array) -> jax.Array:
    """Return the covariance of the parameters on a peak, (p, p) float64, with shrunk 2F as twice the log-likelihood
    ratio.

    In whitened coordinates the likelihood is taken as Gaussian, which it nearly is. Its covariance is transformed to
    the parameters to second order, because in short data they are curved functions of these coordinates. NaN where the
    Hessian is not negative definite.

    Parameters
    ----------
    here : ValuesAround
        Parameters at the peak.
    at : Maximum
    limits : Limits or None
    at_limit : (m,) bool
        Which limits stopped the climb; the covariance has no component across them.
    """
    kept, hessian = jnp.eye(len(at.x)), at.hessian
    if limits is not None:
        kept = free_steps(limits.matrix, at_limit)
        _, hessian = held(at.gradient, at.hessian, limits.matrix, at_limit)
    size, axes = jnp.linalg.eigh(-0.5 * hessian)
    spread = kept @ axes / jnp.sqrt(jnp.where(size > 0, size, jnp.nan))[None]  # (p, p), each column one sigma long
    slope = here.slope @ spread
    bend = jnp.einsum("iab,aj,bk->ijk", here.bend, spread, spread)
    return slope @ slope.T + 0.5 * jnp.einsum("ijk,ljk->il", bend, bend)
