"""Compute Bayes factors of signals of any polarisation: `log_polarisation_bstat` and `polarisation_table`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from jfstat import kinds
from jfstat.candidates.provenance import Provenance
from jfstat.candidates.tables import in_units, point_in
from jfstat.data.checks import check_signal
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrowdata import NarrowData
from jfstat.geometry.polarisations import POLARISATIONS, hypothesis_kind, polarisations_of
from jfstat.inference.amplitudeprior import check_strain_prior, is_distribution
from jfstat.inference.distributions import Distribution, FermiDirac, HalfNormal, LogUniform, Uniform
from jfstat.public import host, public
from jfstat.signal.templates import Doppler, template
from jfstat.signal.values import columns, varied_parameters
from jfstat.statistic.polarisations import (
    PolarisationLikelihood,
    polarisation_fstat_from,
    total_polarisation_likelihood,
)
from jfstat.validation import NumberLike, as_float64, require, shown

if TYPE_CHECKING:
    from astropy.table import QTable

ALL = tuple(name for own in POLARISATIONS.values() for name in own)
"""Polarisations of all hypotheses."""
NODES = 256
"""Number of values of the amplitudes' scale over which the Bayes factor is averaged."""


def _checked_scale(scale: Any) -> Distribution | jax.Array:
    """Return the scale of amplitudes as a number or a distribution.

    Raises
    ------
    TypeError, ValueError
        If it is neither, or not positive.
    """
    if is_distribution(scale):
        check_strain_prior(scale, "scale")
        return scale
    if scale is None:
        raise TypeError("scale must be a number or a distribution, not None: it has no default.")
    value = as_float64(scale, "scale")
    if value.ndim:
        raise ValueError(f"scale must be one number or a distribution, not {shown(scale)}: use jax.vmap for stacks.")
    require(value, "scale", lambda v: (v > 0) & (v < np.inf), "positive", "it is a standard deviation")
    return value


@public(point=template, hypothesis=hypothesis_kind)
def log_polarisation_bstat(
    data: FstatData | NarrowData,
    point: Doppler,
    scale: NumberLike | Uniform | HalfNormal | LogUniform | FermiDirac,
    hypothesis: str = "vector",
) -> jax.Array:
    """Compute the logarithm of the Bayes factor of a signal of given polarisations against Gaussian noise.

    The likelihood ratio of `polarisation_fstat` is averaged over a prior of the amplitudes. Real and imaginary parts of
    the amplitude of each polarisation are independent and normally distributed around zero with the same standard
    deviation, `scale`, in all hypotheses. This is the isotropic prior of the quadratures (Isi 2022, arXiv:2208.03372):
    it is the same for all polarisation angles psi, and phases are uniform. For the scale s there is a closed form::

        ln B = x* (G + 1/s^2)^-1 x / 2 - ln det(1 + s^2 G)

    with the Fisher matrix G and the part x of the likelihood that is linear in the data. It is averaged over
    the distribution of the scale if that is not known.

    The difference of two hypotheses is the logarithm of the Bayes factor between them, because their priors have norms.
    Isi, Pitkin & Weinstein 2017 (Phys. Rev. D 96, 042001) compare the same hypotheses, with priors of each |A_p|. The
    hypothesis "tensor" has free amplitudes of plus and cross, as their H_t. For the waves of a star that rotates about
    a principal axis, take `log_bstat` with a prior of h0 instead.

    Pure; works under jit, vmap and grad, and is differentiable in `point` and `scale`.

    Parameters
    ----------
    data : FstatData or NarrowData
        As for `polarisation_fstat`.
    point : Doppler or Row
        One template, scalar fields; use ``vmap`` for stacks.
    scale : float, Uniform, HalfNormal, LogUniform or FermiDirac
        Scale of the amplitudes (strain), or its distribution. A signal of random orientation has a root mean square of
        the four quadratures of 0.45 h0.
    hypothesis : str
        As for `polarisation_fstat`; static.

    Returns
    -------
    () float64
        NaN for a traced template that does not fit the data, see `twoF`.

    Raises
    ------
    TypeError
        If an argument is of another kind.
    ValueError
        If shapes are wrong, the template does not fit the data, the data's noise floor is not known, the hypothesis is
        not known, or the scale is not positive.

    Notes
    -----
    A distribution of the scale is summed at its quantiles, with errors below 1e-3 unless the amplitudes lie among the
    smallest 1e-4 of the distribution, or far beyond all of it.

    Examples
    --------
    >>> scale = jfstat.LogUniform(1e-26, 1e-23)
    >>> tensor, vector = (jfstat.log_polarisation_bstat(data, point, scale, x) for x in ("tensor", "vector"))
    >>> bool(tensor > 20), bool(tensor > vector)
    (True, True)
    """
    check_signal(data, point)
    return _log_bstat(data.for_one_template, point, _checked_scale(scale), polarisations_of(hypothesis))


@partial(jax.jit, static_argnames="polarisations")
def _log_bstat(
    data: FstatData | NarrowData, point: Doppler, scale: Distribution | jax.Array, polarisations: tuple[str, ...]
) -> jax.Array:
    return log_polarisation_bstat_of(total_polarisation_likelihood(data, point, polarisations), scale)


def log_polarisation_bstat_of(own: PolarisationLikelihood, scale: Distribution | jax.Array) -> jax.Array:
    """Compute `log_polarisation_bstat` from the likelihood at one template, () float64, without any checks."""
    if not is_distribution(scale):
        return _log_bstat_at(own, scale)  # type: ignore[arg-type]
    nodes, shares = (jnp.asarray(x) for x in np.polynomial.legendre.leggauss(NODES))
    u = 0.5 * (nodes + 1)
    # at quantiles that are dense at both ends, since amplitudes may be much smaller than the prior allows
    values = jax.vmap(partial(_log_bstat_at, own))(scale.quantile(u * u * (3 - 2 * u)))
    return logsumexp(values + jnp.log(3 * u * (1 - u) * shares))


def _log_bstat_at(own: PolarisationLikelihood, scale: jax.Array) -> jax.Array:
    """Return the logarithm of the Bayes factor for a known scale of amplitudes, () float64."""
    matrix = jnp.eye(len(own.x), dtype=own.fisher.dtype) + scale**2 * own.fisher
    root = jnp.linalg.cholesky(matrix)
    x = scale * jnp.stack([own.x.real, own.x.imag], axis=-1)
    white = jax.scipy.linalg.solve_triangular(root, x, lower=True)
    return 0.5 * jnp.sum(white**2) - 2 * jnp.sum(jnp.log(jnp.diagonal(root)))


@host("use jfstat.log_polarisation_bstat there", points=kinds.instance(Doppler))
def polarisation_table(
    data: FstatData | NarrowData,
    points: Doppler,
    scale: NumberLike | Uniform | HalfNormal | LogUniform | FermiDirac,
) -> QTable:
    """Compare the tensor, vector and scalar hypotheses at templates: known pulsars, or candidates.

    Parameters
    ----------
    data : FstatData or NarrowData
        As for `polarisation_fstat`.
    points : Doppler
        A template or a stack.
    scale : float, Uniform, HalfNormal, LogUniform or FermiDirac
        Scale of the amplitudes of all three, as for `log_polarisation_bstat`.

    Returns
    -------
    QTable
        A row for each template. Columns: the template's parameters, as in tables of `search`; ``twoF_of_tensor``,
        ``twoF_of_vector`` and ``twoF_of_scalar`` of `polarisation_fstat`; ``log_bstat_of_tensor``, ... of
        `log_polarisation_bstat`, each against noise, whose differences are the logarithms of Bayes factors between the
        hypotheses; the size ``h_plus``, ``h_cross``, ``h_x``, ``h_y`` and ``h_breathing`` of each amplitude (strain),
        its error ``h_plus_error``, ... and its phase ``phase_plus``, ... (rad, at the reference time).

    Raises
    ------
    TypeError, ValueError
        As for `log_polarisation_bstat`. No row is left out.

    Examples
    --------
    >>> table = jfstat.polarisation_table(data, point, jfstat.LogUniform(1e-26, 1e-23))
    >>> odds = table["log_bstat_of_vector"] - table["log_bstat_of_tensor"]
    >>> bool(odds[0] < 0)
    True
    """
    known, reftime = _checked_scale(scale), points.reftime
    if not np.size(points.alpha):
        raise ValueError("points is an empty stack: give at least one template.")
    stack = jax.tree.map(lambda x: np.asarray(x).reshape(-1, *np.shape(x)[np.ndim(points.alpha) :]), points)
    found = []
    for i in range(len(stack.alpha)):
        point = point_in(stack, i)
        check_signal(data, point, name="points")
        found.append(jax.device_get(_comparison(data.for_one_template, point, known)))
    twoF, bayes, amplitude, error = (np.stack(x, axis=-1) for x in zip(*found, strict=True))
    own = {f"twoF_of_{spin}": x for spin, x in zip(POLARISATIONS, twoF, strict=True)}
    own |= {f"log_bstat_of_{spin}": x for spin, x in zip(POLARISATIONS, bayes, strict=True)}
    for i, name in enumerate(ALL):
        own |= {f"h_{name}": np.abs(amplitude[i]), f"h_{name}_error": error[i], f"phase_{name}": np.angle(amplitude[i])}
    time = data.observation.reftime.common if reftime is None else reftime.common
    meta = Provenance.from_observation(data.observation, time, varied_parameters(stack)).meta
    return in_units(columns(stack) | own, meta)


@jax.jit
def _comparison(
    data: FstatData | NarrowData, point: Doppler, scale: Distribution | jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Return 2F and the Bayes factor of each hypothesis, (3,), and the amplitudes with errors, (5,)."""
    whole = total_polarisation_likelihood(data, point, ALL)
    each = [whole.only([ALL.index(name) for name in own]) for own in POLARISATIONS.values()]
    found = [polarisation_fstat_from(x, own) for x, own in zip(each, POLARISATIONS.values(), strict=True)]
    return (
        jnp.stack([x.twoF for x in found]),
        jnp.stack([log_polarisation_bstat_of(x, scale) for x in each]),
        jnp.concatenate([x.amplitude for x in found]),
        jnp.concatenate([x.errors for x in found]),
    )
