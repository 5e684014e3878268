"""From the times of the data and two templates to the part of rho^2 that one loses of the other's signal."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jfstat.data.fstatdata import FstatData
from jfstat.data.timing import reference_offset
from jfstat.geometry.antenna import harmonic_sum, pattern_coefficients
from jfstat.geometry.nearby import phase_difference, sites
from jfstat.geometry.trajectory import Trajectory
from jfstat.metrics.metric import amplitude_products, inverse_of
from jfstat.metrics.quadrature import quadrature
from jfstat.statistic.check import check_amplitude, check_data, check_template
from jfstat.templates import Amplitude, Doppler

NODES = 6
"""Times in an SFT: enough for a phase that one template gains on the other by a cycle in it, to 1e-6."""


def mismatch(
    data: FstatData,
    point: Doppler,
    other: Doppler,
    *,
    amplitude: Amplitude | None = None,
    phase_only: bool = False,
) -> jax.Array:
    """The part of rho^2 that a signal at one template loses in another, however far apart they are.

    With the real times of the data, gaps, noise weights and antenna patterns of both templates. `metric` is its second
    order: half of its Hessian in `other` at ``other = point``.

    Pure; works under jit, vmap and grad.

    Parameters
    ----------
    data : FstatData
    point : Doppler
        One template, scalar fields: where the signal is.
    other : Doppler
        One template: where it is looked for. With an orbit if `point` has one; of another reference time or number of
        spin-downs if need be.
    amplitude : Amplitude, optional
        Of the signal: its cosi and psi count. None averages over the space of the four amplitudes, as `metric` does.
    phase_only : bool
        Neglect the antenna patterns but for the noise weights.

    Returns
    -------
    () float64
        0 (the same) to 1 (all is lost), with a rounding error of some 1e-15. That of 2F of noise-free data within 1e-4
        (tests/test_mismatch.py). Good as long as the templates' frequencies at the detectors differ by less than
        1/Tsft; beyond, where hardly anything is left, what is left is not to be relied upon.

    Raises
    ------
    ValueError
        If an argument is of another kind or a stack, or only one template has an orbit.

    Notes
    -----
    With Delta(t) the phase difference in cycles, u = (a, b) at `point` and u' at `other`, and <> the weighted mean over
    the data: M = <u u^T>, M' = <u' u'^T>, X = <u exp(2 pi i Delta) u'^T>. A signal (c . u) exp(2 pi i phase) has
    rho^2 ~ c^H M c, of which the template finds the projection on its own two filters, c^H X M'^-1 X^H c (Prix 2007,
    Phys. Rev. D 75, 023004). The mean over amplitudes of equal rho^2 is that of the eigenvalues,
    tr(M^-1 X M'^-1 X^H) / 2. Of the phase alone |<exp(2 pi i Delta)>|^2 is left.
    """
    check_data(data)
    for name, value in (("point", point), ("other", other)):
        check_template(name, value)
    if (point.orbit is None) != (other.orbit is None):
        raise ValueError("point and other must both have an orbit, or none: give the isolated one an orbit, asini=0.")
    if amplitude is not None:
        check_amplitude(amplitude)
    return _mismatch(data, point, other, amplitude, bool(phase_only))


@partial(jax.jit, static_argnames="phase_only")
def _mismatch(
    data: FstatData, point: Doppler, other: Doppler, amplitude: Amplitude | None, phase_only: bool
) -> jax.Array:
    time, weight = quadrature(data, NODES)
    cycles, here, there = jax.vmap(partial(_compared, data, point, other))(time, data.trajectory, data.response)
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
    data: FstatData, point: Doppler, other: Doppler, time: jax.Array, trajectory: Trajectory, response: jax.Array
) -> Any:
    """Of one detector at times (n,): phase of `other` less that of `point`, cycles (n,); a and b of each, (2, n)."""
    place = sites(trajectory, point, time)
    references = reference_offset(data, other), reference_offset(data, point)
    cycles = phase_difference(place, point, other, *references, data.epoch)
    patterns = (
        jnp.stack([harmonic_sum(c, place.sidereal) for c in pattern_coefficients(response, p.alpha, p.delta)])
        for p in (point, other)
    )
    return cycles, *patterns
