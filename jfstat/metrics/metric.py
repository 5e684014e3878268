"""From the times of the data and one template to the parameter-space metric there, by automatic differentiation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jfstat.data.fstatdata import FstatData
from jfstat.data.timing import reference_offset
from jfstat.geometry.antenna import harmonic_sum, pattern_coefficients
from jfstat.geometry.nearby import phase_difference, sites
from jfstat.geometry.trajectory import Trajectory
from jfstat.metrics.quadrature import quadrature
from jfstat.parameters import all_parameters, check_parameters, replaced, values
from jfstat.statistic.check import check_amplitude, check_data, check_template
from jfstat.statistic.combine import MAX_CONDITION
from jfstat.templates import Amplitude, Doppler


def metric(
    data: FstatData,
    point: Doppler,
    parameters: Sequence[str] | None = None,
    *,
    amplitude: Amplitude | None = None,
    phase_only: bool = False,
) -> jax.Array:
    """The parameter-space metric: g such that an offset d from a signal's template loses d g d of its rho^2.

    To second order in the offset, with the real times of the data, gaps, noise weights and antenna patterns.

    Pure; works under jit, vmap and grad.

    Parameters
    ----------
    data : FstatData
    point : Doppler
        One template, scalar fields: where the signal is.
    parameters : sequence of str, optional
        Which rows and columns to give, others being held fixed: names of a table's columns, ``freq``, ``f1dot``, ...,
        ``alpha``, ``delta``, ``asini``, ``period``, ``tp``, ``ecc``, ``argp``. All that the template has by default, in
        that order. At ecc = 0 the metric is singular in ``tp`` and ``argp`` together.
    amplitude : Amplitude, optional
        Of the signal: its cosi and psi count. None averages over the space of the four amplitudes, as LALSuite's
        ``gFav_ij`` does (Prix 2007, Phys. Rev. D 75, 023004, erratum 75, 069901; equation 93 there, says LALSuite).
    phase_only : bool
        Neglect the antenna patterns but for the noise weights, as LALSuite's ``g_ij`` does; right for data longer than
        some days.

    Returns
    -------
    (p, p) float64
        Units: those of the parameters' product, inverted; Hz, Hz/s, ..., rad, s.

    Raises
    ------
    ValueError
        If an argument is of another kind, a stack, or a name is unknown.

    See Also
    --------
    mismatch : the loss between two templates at any distance; to be preferred beyond a few per cent of loss.

    Notes
    -----
    For a signal v(t) = (alpha a + beta b) exp(2 pi i phase), where alpha and beta hold the amplitudes, g_ij is the real
    part of <P dv/di, P dv/dj> / <v, v>: P takes off what a and b can make up for, <> is the weighted mean over the
    data. LALSuite leaves the derivatives of a and b out; here they count.
    """
    check_data(data)
    check_template("point", point)
    if amplitude is not None:
        check_amplitude(amplitude)
    names = all_parameters(point) if parameters is None else check_parameters(point, parameters)
    return _metric(data, point, amplitude, names, bool(phase_only))


@partial(jax.jit, static_argnames=("names", "phase_only"))
def _metric(
    data: FstatData, point: Doppler, amplitude: Amplitude | None, names: tuple[str, ...], phase_only: bool
) -> jax.Array:
    return metric_along(data, point, partial(replaced, point, names), values(point, names), amplitude, phase_only)


def metric_along(
    data: FstatData,
    point: Doppler,
    move: Callable[[jax.Array], Doppler],
    x: jax.Array,
    amplitude: Amplitude | None = None,
    phase_only: bool = False,
    n_nodes: int = 3,
    every: int = 1,
) -> jax.Array:
    """The metric in any coordinates: `move` goes from them, (p,) float64, to templates, and from `x` to `point`.

    From `n_nodes` times in each SFT, or in every second, third, ... one.
    """
    time, weight = quadrature(data, n_nodes, every)
    derivatives = jax.vmap(partial(_derivatives, data, point, move, x))(time, data.trajectory, data.response)
    slope, a, b, a_slope, b_slope = derivatives  # (D, n, p), (D, n)
    slope = 2 * jnp.pi * slope
    if phase_only:
        weight = weight / jnp.sum(weight)
        spread = slope - jnp.einsum("dn,dni->i", weight, slope)
        return jnp.einsum("dn,dni,dnj->ij", weight, spread, spread)
    patterns = jnp.stack([a, b])
    # the phase's part is imaginary, the patterns' real
    turned = jnp.einsum("cdn,dni->icdn", patterns, slope)
    grown = jnp.einsum("cdni->icdn", jnp.stack([a_slope, b_slope]))
    weighted = weight * patterns
    matrix = jnp.einsum("cdn,edn->ce", weighted, patterns)
    inverse = inverse_of(matrix)
    found_turned, found_grown = (jnp.einsum("icdn,edn->ice", x, weighted) for x in (turned, grown))
    # <P u_ic, P u_je>, real part and imaginary part
    real = sum(
        jnp.einsum("icdn,dn,jedn->icje", x, weight, x) - jnp.einsum("icg,gh,jeh->icje", y, inverse, y)
        for x, y in ((turned, found_turned), (grown, found_grown))
    )
    if amplitude is None:
        return 0.5 * jnp.einsum("icje,ce->ij", real, inverse)
    cross = jnp.einsum("icdn,dn,jedn->icje", grown, weight, turned)
    cross = cross - jnp.einsum("icg,gh,jeh->icje", found_grown, inverse, found_turned)
    imag = cross - jnp.einsum("icje->jeic", cross)
    symmetric, skew = amplitude_products(amplitude)
    total = jnp.einsum("icje,ce->ij", real, symmetric) - jnp.einsum("icje,ce->ij", imag, skew)
    return total / jnp.sum(symmetric * matrix)


def amplitude_products(amplitude: Amplitude) -> tuple[jax.Array, jax.Array]:
    """Real and imaginary part of conj(c_c) c_e, (2, 2) each, for a signal (c . (a, b)) exp(2 pi i phase)."""
    a1, a2, a3, a4 = amplitude.canonical
    re, im = jnp.stack([a1, a2]), -jnp.stack([a3, a4])
    return jnp.outer(re, re) + jnp.outer(im, im), jnp.outer(re, im) - jnp.outer(im, re)


def inverse_of(matrix: jax.Array) -> jax.Array:
    """Of a 2x2 antenna matrix, as far as it has one: what one SFT sees has one pattern only."""
    return jnp.linalg.pinv(matrix, rtol=1.0 / MAX_CONDITION, hermitian=True)


def _derivatives(
    data: FstatData,
    point: Doppler,
    move: Callable[[jax.Array], Doppler],
    x: jax.Array,
    time: jax.Array,
    trajectory: Trajectory,
    response: jax.Array,
) -> Any:
    """Of one detector at times (n,): phase slopes (n, p) in cycles, a and b (n,), their slopes (n, p)."""
    here = sites(trajectory, point, time)
    reference = reference_offset(data, point)

    def signal(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        moved = move(x)
        cycles = phase_difference(here, point, moved, reference, reference, data.epoch)
        a, b = (harmonic_sum(c, here.sidereal) for c in pattern_coefficients(response, moved.alpha, moved.delta))
        return cycles, a, b

    _, a, b = signal(x)
    slope, a_slope, b_slope = jax.jacfwd(signal)(x)
    return slope, a, b, a_slope, b_slope
