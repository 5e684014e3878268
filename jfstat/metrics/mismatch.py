"""The mismatch: the loss of rho^2 between two templates at any distance."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from jfstat import kinds
from jfstat.data.checks import check_amplitude, check_template, observation_of
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrowdata import NarrowData
from jfstat.data.observation import Observation
from jfstat.geometry.antenna import harmonic_sum, pattern_coefficients
from jfstat.geometry.nearby import phase_difference, sites
from jfstat.geometry.trajectory import Trajectory
from jfstat.metrics.metric import amplitude_products, inverse_of
from jfstat.metrics.segmentpower import mean_loss
from jfstat.public import public
from jfstat.signal.templates import Amplitude, Doppler, template

NODES = 6
"""Times per SFT: enough, to 1e-6, for two templates whose phases drift apart by a cycle in an SFT."""


@public(point=template, other=template, phase_only=kinds.flag)
def mismatch(
    data: Observation | FstatData | NarrowData,
    point: Doppler,
    other: Doppler,
    *,
    amplitude: Amplitude | None = None,
    phase_only: bool = False,
) -> jax.Array:
    """Compute the loss of rho^2 between two templates: the fraction of a signal at one that the other misses.

    The actual times of the data, gaps, noise weights and the antenna patterns of both templates are taken into account.
    `metric` is the second order of the mismatch: half of its Hessian in `other` at ``other = point``. For data with
    segments it is the loss of the sum over segments: the mean of their losses, weighted by the rho^2 that a signal has
    in each.

    The function is pure and works under jit, vmap and grad.

    Parameters
    ----------
    data : Observation, FstatData or NarrowData
        Observation or data, which may have a leading axis of segments.
    point : Doppler or Row
        Template of the signal, with scalar fields.
    other : Doppler
        Template of the search, with scalar fields. It must have an orbit if `point` has one; reference time and number
        of spin-downs may differ.
    amplitude : Amplitude, optional
        Amplitude of the signal; only its cosi and psi matter. None averages over the space of the four amplitudes, as
        `metric` does.
    phase_only : bool
        Use the noise weights but neglect the antenna patterns.

    Returns
    -------
    () float64
        0 (identical) to 1 (no overlap), with a rounding error of some 1e-15. It agrees to 1e-4 with the loss of 2F in
        noise-free data (tests/metrics/test_mismatch.py). The mismatch is valid while the templates' frequencies at the
        detectors differ by less than 1/Tsft; beyond that, hardly any rho^2 is left and the value is not reliable.

    Raises
    ------
    TypeError
        If an argument is of another kind.
    ValueError
        If an argument is a stack, or only one template has an orbit or a proper motion.

    Notes
    -----
    Let Delta(t) be the phase difference in cycles, u = (a, b) at `point` and u' at `other`, <> the weighted mean over
    the data, M = <u u^T>, M' = <u' u'^T> and X = <u exp(2 pi i Delta) u'^T>. A signal (c . u) exp(2 pi i phase) has
    rho^2 ~ c^H M c. The template recovers its projection on the template's two filters, c^H X M'^-1 X^H c (Prix 2007,
    Phys. Rev. D 75, 023004). Averaged over amplitudes of equal rho^2 the recovered fraction is the mean of the
    eigenvalues, tr(M^-1 X M'^-1 X^H) / 2. For the phase alone it is |<exp(2 pi i Delta)>|^2.

    Examples
    --------
    >>> beside = jfstat.Doppler(2.1, 0.47, [100.01 + 1e-5, -1e-10], start)
    >>> round(float(jfstat.mismatch(data, point, beside)), 3)
    0.286
    """
    observation = observation_of(data, segments=True)
    for name, value in (("point", point), ("other", other)):
        check_template(name, value)
    if (point.orbit is None) != (other.orbit is None):
        raise ValueError("point and other must both have an orbit, or none: give the isolated one an orbit, asini=0.")
    if (point.motion is None) != (other.motion is None):
        raise ValueError("point and other must both have a proper motion, or none: give the other motion=(0, 0).")
    if amplitude is not None:
        check_amplitude(amplitude)
    if observation.n_segments is not None:
        return _mean_mismatch(observation, point, other, amplitude, bool(phase_only))
    return _mismatch(observation, point, other, amplitude, bool(phase_only))


@partial(jax.jit, static_argnames="phase_only")
def _mean_mismatch(
    segments: Observation, point: Doppler, other: Doppler, amplitude: Amplitude | None, phase_only: bool
) -> jax.Array:
    """Return the weighted mean of the segments' mismatches."""
    each = partial(_mismatch, point=point, other=other, amplitude=amplitude, phase_only=phase_only)
    return mean_loss(each, segments, point, amplitude, phase_only)


@partial(jax.jit, static_argnames="phase_only")
def _mismatch(
    observation: Observation, point: Doppler, other: Doppler, amplitude: Amplitude | None, phase_only: bool
) -> jax.Array:
    time, weight = observation.quadrature(NODES)
    cycles, here, there = jax.vmap(partial(_compared, observation, point, other))(
        time, observation.trajectory, observation.response
    )
    return loss(cycles, weight, here, there, amplitude, phase_only)


def loss(
    cycles: jax.Array,
    weight: jax.Array,
    here: jax.Array,
    there: jax.Array,
    amplitude: Amplitude | None = None,
    phase_only: bool = False,
) -> jax.Array:
    """Compute the loss of rho^2 from phases and antenna patterns at n times of each detector; see `mismatch`, Notes.

    Parameters
    ----------
    cycles : (D, n) float64
        Phase of the template minus phase of the signal.
    weight : (D, n) float64
    here, there : (D, 2, n) float64
        Antenna patterns a and b of the signal and of the template.
    amplitude : Amplitude or None
    phase_only : bool
    """
    angle = 2 * jnp.pi * cycles
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    if phase_only:
        weight = weight / jnp.sum(weight)
        return 1 - jnp.sum(weight * cos) ** 2 - jnp.sum(weight * sin) ** 2
    weighted = weight[:, None] * here
    matrix = jnp.einsum("dcn,den->ce", weighted, here)
    other_inverse = inverse_of(jnp.einsum("dcn,dn,den->ce", there, weight, there))
    real, imag = (jnp.einsum("dcn,dn,den->ce", weighted, x, there) for x in (cos, sin))
    # X M'^-1 X^H is Hermitian: a symmetric real part and a skew imaginary one
    found = real @ other_inverse @ real.T + imag @ other_inverse @ imag.T
    if amplitude is None:
        inverse = inverse_of(matrix)
        return 1 - jnp.sum(inverse * found) / jnp.sum(inverse * matrix)
    skew = imag @ other_inverse @ real.T - real @ other_inverse @ imag.T
    symmetric, turned = amplitude_products(amplitude)
    return 1 - (jnp.sum(found * symmetric) - jnp.sum(skew * turned)) / jnp.sum(symmetric * matrix)


def _compared(
    observation: Observation,
    point: Doppler,
    other: Doppler,
    time: jax.Array,
    trajectory: Trajectory,
    response: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Compare two templates for one detector at times (n,).

    Return the phase of `other` minus the phase of `point`, cycles (n,), and a and b of both, (2, n).
    """
    centre = observation.source(point)
    place = sites(trajectory, centre, time)
    cycles = phase_difference(place, centre, observation.source(other))
    here, there = (
        jnp.stack([harmonic_sum(c, place.sidereal) for c in pattern_coefficients(response, p.alpha, p.delta)])
        for p in (point, other)
    )
    return cycles, here, there
