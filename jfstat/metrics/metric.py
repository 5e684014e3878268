"""The parameter-space metric of the F-statistic at one template, by automatic differentiation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from jfstat.metrics.segmentpower import mean_loss
from jfstat.public import public
from jfstat.signal.reading import all_parameters
from jfstat.signal.templates import Amplitude, Doppler, template
from jfstat.signal.values import check_parameters, replaced, values
from jfstat.statistic.combine import MAX_CONDITION


@public(point=template, parameters=kinds.names, phase_only=kinds.flag)
def metric(
    data: Observation | FstatData | NarrowData,
    point: Doppler,
    parameters: Sequence[str] | None = None,
    *,
    amplitude: Amplitude | None = None,
    phase_only: bool = False,
) -> jax.Array:
    """Compute the parameter-space metric g: a template at an offset d from a signal loses the fraction d g d of rho^2.

    The metric holds to second order in d, and takes the actual times of the data, gaps, noise weights and antenna
    patterns into account. For data with segments it is the metric of `mean_twoF`: the mean of the segments' metrics
    (Wette & Prix 2013, Phys. Rev. D 88, 123005; Wette 2015, Phys. Rev. D 92, 082003), here weighted by the rho^2 that a
    signal has in each, so that it is the fraction of the summed rho^2 that is lost if segments are unequal, too.

    The function is pure and works under jit, vmap and grad.

    Parameters
    ----------
    data : Observation, FstatData or NarrowData
        Observation or data, which may have a leading axis of segments.
    point : Doppler or Row
        Template of the signal, with scalar fields.
    parameters : sequence of str, optional
        Parameters of the rows and columns; other parameters are fixed: ``freq``, ``f1dot``, ..., ``alpha``, ``delta``,
        ``asini``, ``period``, ``tp``, ``ecc``, ``argp``, and ``model.df``, ... of a `PhaseModel`. By default all
        parameters of the template, in this order. At ecc = 0 the metric is singular in ``tp`` and ``argp`` together.
    amplitude : Amplitude, optional
        Amplitude of the signal; only its cosi and psi matter. None averages over the space of the four amplitudes, as
        LALSuite's ``gFav_ij`` does (Prix 2007, Phys. Rev. D 75, 023004, erratum 75, 069901; equation 93 according to
        LALSuite).
    phase_only : bool
        Use the noise weights but neglect the antenna patterns, as LALSuite's ``g_ij`` does; accurate for data longer
        than some days.

    Returns
    -------
    (p, p) float64
        Metric in the inverse units of products of parameters; Hz, Hz/s, ..., rad, s.

    Raises
    ------
    TypeError
        If an argument is of another kind.
    ValueError
        If an argument is a stack, or a name is unknown.

    See Also
    --------
    mismatch : Loss between two templates at any distance; preferable for losses above a few per cent.

    Notes
    -----
    For a signal v(t) = (alpha a + beta b) exp(2 pi i phase), where alpha and beta depend on the amplitudes, g_ij is the
    real part of <P dv/di, P dv/dj> / <v, v>. Here <> is the weighted mean over the data, and P projects out a and b.
    Unlike LALSuite, this includes the derivatives of a and b.

    Examples
    --------
    >>> jfstat.metric(data, point, ('freq', 'f1dot')).shape
    (2, 2)
    """
    observation = observation_of(data, segments=True)
    check_template("point", point)
    if amplitude is not None:
        check_amplitude(amplitude)
    names = all_parameters(point) if parameters is None else check_parameters(point, parameters)
    if observation.n_segments is not None:
        return _mean_metric(observation, point, amplitude, names, bool(phase_only))
    return _metric(observation, point, amplitude, names, bool(phase_only))


@partial(jax.jit, static_argnames=("names", "phase_only"))
def _mean_metric(
    segments: Observation, point: Doppler, amplitude: Amplitude | None, names: tuple[str, ...], phase_only: bool
) -> jax.Array:
    """Return the weighted mean of the segments' metrics."""
    each = partial(_metric, point=point, amplitude=amplitude, names=names, phase_only=phase_only)
    return mean_loss(each, segments, point, amplitude, phase_only)


@partial(jax.jit, static_argnames=("names", "phase_only"))
def _metric(
    observation: Observation, point: Doppler, amplitude: Amplitude | None, names: tuple[str, ...], phase_only: bool
) -> jax.Array:
    return metric_along(
        observation, point, partial(replaced, point, names), values(point, names), amplitude, phase_only
    )


def metric_along(
    observation: Observation,
    point: Doppler,
    move: Callable[[jax.Array], Doppler],
    x: jax.Array,
    amplitude: Amplitude | None = None,
    phase_only: bool = False,
    n_nodes: int = 3,
    every: int = 1,
) -> jax.Array:
    """Compute the metric in any coordinates at `x`.

    `move` maps coordinates, (p,) float64, to templates, and `x` to `point`. The data are averaged over `n_nodes` times
    in each SFT, or in every `every`-th SFT.
    """
    time, weight = observation.quadrature(n_nodes, every)
    derivatives = jax.vmap(partial(_derivatives, observation, point, move, x))(
        time, observation.trajectory, observation.response
    )
    slope, a, b, a_slope, b_slope = derivatives  # (D, n, p), (D, n)
    slope = 2 * jnp.pi * slope
    if phase_only:
        weight = weight / jnp.sum(weight)
        spread = slope - jnp.einsum("dn,dni->i", weight, slope)[None, None]
        return jnp.einsum("dn,dni,dnj->ij", weight, spread, spread)
    patterns = jnp.stack([a, b])
    # the contribution of the phase is imaginary, the patterns' is real
    turned = jnp.einsum("cdn,dni->icdn", patterns, slope)
    grown = jnp.einsum("cdni->icdn", jnp.stack([a_slope, b_slope]))
    weighted = weight[None] * patterns
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
    """Return real and imaginary part of conj(c_c) c_e, (2, 2) each, for a signal (c . (a, b)) exp(2 pi i phase)."""
    a1, a2, a3, a4 = amplitude.canonical
    re, im = jnp.stack([a1, a2]), -jnp.stack([a3, a4])
    return jnp.outer(re, re) + jnp.outer(im, im), jnp.outer(re, im) - jnp.outer(im, re)


def inverse_of(matrix: jax.Array) -> jax.Array:
    """Return the pseudoinverse of a 2x2 antenna matrix, which is singular for a single SFT.

    It is written out, because an accelerator takes a millisecond for an eigenvalue problem, however small.
    """
    (a, c), (_, b) = matrix
    square = 0.25 * (a - b) ** 2 + c**2
    large = 0.5 * (a + b) + jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)
    size = jnp.where(large > 0, large, 1.0)
    determinant = a * b - c**2
    small = determinant / size
    regular = small > large / MAX_CONDITION
    inverse = jnp.array([[b, -c], [-c, a]]) / jnp.where(regular, determinant, 1.0)
    apart = jnp.where(regular, 1.0, (size - small) * size)
    along = (matrix - small * jnp.eye(2)) / apart  # the projection on the larger axis, over its eigenvalue
    return jnp.where(regular, inverse, jnp.where(large > 0, along, 0.0))


def _derivatives(
    observation: Observation,
    point: Doppler,
    move: Callable[[jax.Array], Doppler],
    x: jax.Array,
    time: jax.Array,
    trajectory: Trajectory,
    response: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]:
    """Return phase slopes (n, p) in cycles, a and b (n,), and their slopes (n, p), for a detector at times (n,)."""
    centre = observation.source(point)
    here = sites(trajectory, centre, time)

    def signal(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        moved = move(x)
        cycles = phase_difference(here, centre, observation.source(moved))
        a, b = (harmonic_sum(c, here.sidereal) for c in pattern_coefficients(response, moved.alpha, moved.delta))
        return cycles, a, b

    _, a, b = signal(x)
    slope, a_slope, b_slope = jax.jacfwd(signal)(x)
    return slope, a, b, a_slope, b_slope
