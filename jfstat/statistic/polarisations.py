"""Compute the maximised statistic and amplitudes of signals of any polarisation: `polarisation_fstat`."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.checks import check_signal
from jfstat.data.eachsegment import each_segment
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrowdata import NarrowData
from jfstat.data.protocol import Data
from jfstat.display import Displayed
from jfstat.geometry.polarisations import harmonics_of_tensors, hypothesis_kind, polarisations_of, wave_tensors
from jfstat.public import public
from jfstat.signal.templates import Doppler, template
from jfstat.statistic.combine import MAX_CONDITION
from jfstat.statistic.fstat import noise_level
from jfstat.statistic.likelihood import reference_factor
from jfstat.statistic.total import AT_ONCE


class PolarisationLikelihood(NamedTuple):
    """The logarithm of the likelihood ratio at one template, as a function of the amplitudes of m polarisations.

    It is Re(A* x) - A* G A/2 for complex amplitudes A, of which the strain is the sum of Re(A exp(i phase)) times the
    antenna patterns. Independent data (detectors, segments) add up.

    Attributes
    ----------
    x : (m,) complex128
        sqrt(2 Sinv_Tsft) times the matched filters with the antenna patterns, with phase zero at the reference time.
    fisher : (m, m) float64
        Sinv_Tsft times the weighted sums over SFTs of products of antenna patterns.
    """

    x: jax.Array
    fisher: jax.Array

    def only(self, places: list[int]) -> PolarisationLikelihood:
        """Return the likelihood of some of the polarisations, where the amplitudes of the others are zero."""
        i = np.array(places)
        return PolarisationLikelihood(self.x[i], self.fisher[i[:, None], i[None]])

    @property
    def good(self) -> jax.Array:
        """Whether the data tell the polarisations apart: `fisher` has a condition number below `MAX_CONDITION`."""
        eigenvalues = jnp.linalg.eigvalsh(jax.lax.stop_gradient(self.fisher))
        # not the other way round: a matrix of NaN is not degenerate, and its statistic is NaN
        return ~(eigenvalues[0] * MAX_CONDITION <= eigenvalues[-1])


def polarisation_likelihood(data: Data, point: Doppler, polarisations: tuple[str, ...]) -> PolarisationLikelihood:
    """Return the likelihood of all detectors of data without segments, without any checks.

    Where noise floors are estimated, Sinv_Tsft is that of signals that are weak in each SFT; see `Observation.level`.
    """
    observation = data.observation
    waves = wave_tensors(point.alpha, point.delta, polarisations)
    patterns = harmonics_of_tensors(observation.response, waves)
    filters = jnp.einsum("dmh,dh->m", patterns.astype(jnp.complex128), data.harmonic_sums(point))
    matrix = jnp.einsum("dmh,dhk,dnk->mn", patterns, observation.moments, patterns)
    level = noise_level(observation)
    return PolarisationLikelihood(reference_factor(observation, point, level) * filters, level * matrix)


def total_polarisation_likelihood(
    data: FstatData | NarrowData, point: Doppler, polarisations: tuple[str, ...]
) -> PolarisationLikelihood:
    """Return the likelihood of all segments and detectors with one set of amplitudes, without any checks."""
    each = each_segment(lambda own: polarisation_likelihood(own, point, polarisations), data, AT_ONCE)
    return jax.tree.map(partial(jnp.sum, axis=0), each)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False, eq=False)
class PolarisationFstat(Displayed):
    """The maximised statistic of a signal of given polarisations, and its amplitudes.

    The strain of a signal of phase phi is the sum over polarisations of F_p |A_p| cos(phi + arg A_p), with the antenna
    patterns F_p at psi = 0.

    Attributes
    ----------
    twoF : () float64
        Twice the logarithm of the likelihood ratio, maximised over m complex amplitudes: chi^2 with 2 m degrees of
        freedom in noise.
    amplitude : (m,) complex128
        Estimated amplitudes A_p (strain), with phases at the template's reference time.
    covariance : (m, m) float64
        Covariance of their real parts, which is also that of their imaginary parts; the two are independent.
    polarisations : tuple of m str, static
        "plus", "cross", "x", "y", "breathing".
    """

    twoF: jax.Array
    amplitude: jax.Array
    covariance: jax.Array
    polarisations: tuple[str, ...] = field(metadata=dict(static=True))

    @property
    def errors(self) -> jax.Array:
        """Standard deviations of the real and of the imaginary parts of the amplitudes, (m,) float64."""
        return jnp.sqrt(jnp.diagonal(self.covariance, axis1=-2, axis2=-1))


@public(point=template, hypothesis=hypothesis_kind)
def polarisation_fstat(data: FstatData | NarrowData, point: Doppler, hypothesis: str = "vector") -> PolarisationFstat:
    """Compute the maximised statistic and the amplitudes of a signal with polarisations beyond general relativity.

    Metric theories of gravity allow waves of spin 2 (tensor: plus and cross), 1 (vector: x and y) and 0 (scalar:
    breathing; a longitudinal wave looks the same to detectors that are short against it). Each polarisation p adds the
    strain F_p Re(A_p exp(i phase)) with its antenna pattern F_p (Nishizawa et al. 2009, Phys. Rev. D 79, 082002; Isi,
    Weinstein, Mead & Pitkin 2015, Phys. Rev. D 91, 082002). The likelihood ratio is maximised over all A_p, as the
    F-statistic does for the tensor and Verma 2021 (arXiv:2105.06781) for the scalar::

        2F = 2 y* M^-1 y,    y_p = integral of x F_p exp(-i phase),    M_pq = weighted mean of F_p F_q

    with the whitened and weighted data x. In noise it is chi^2 with two degrees of freedom for each polarisation: 4 for
    tensor and vector, 2 for scalar.

    Pure; works under jit, vmap and grad, and is differentiable in every field of `point`.

    Parameters
    ----------
    data : FstatData or NarrowData
        Data of the band; narrow data are faster. With segments, the signal has one phase in all of them.
    point : Doppler or Row
        One template, scalar fields. The scalar and vector waves of a pulsar may be at its rotation frequency rather
        than at twice it.
    hypothesis : str
        "tensor", "vector" or "scalar", or some of them joined, such as "scalar-tensor"; static.

    Returns
    -------
    PolarisationFstat
        Where the data cannot tell the polarisations apart, because the condition number of M exceeds 1e4, twoF is its
        mean in noise, as in `fstat`, and the amplitudes are NaN. All is NaN for a traced template that does not fit.

    Raises
    ------
    TypeError
        If an argument is of another kind.
    ValueError
        If shapes are wrong, the template does not fit the data, the data's noise floor is not known, or the hypothesis
        is not known.

    Notes
    -----
    SFTs are assumed to have rectangular windows, as for `estimate_amplitude`.

    Examples
    --------
    >>> found = jfstat.polarisation_fstat(data, point, "tensor")
    >>> bool(jnp.isclose(found.twoF, jfstat.twoF(data, point), rtol=1e-9))
    True
    >>> jfstat.polarisation_fstat(data, point, "vector").polarisations
    ('x', 'y')
    """
    check_signal(data, point)
    return _polarisation_fstat(data.for_one_template, point, polarisations_of(hypothesis))


@partial(jax.jit, static_argnames="polarisations")
def _polarisation_fstat(
    data: FstatData | NarrowData, point: Doppler, polarisations: tuple[str, ...]
) -> PolarisationFstat:
    return polarisation_fstat_from(total_polarisation_likelihood(data, point, polarisations), polarisations)


def polarisation_fstat_from(own: PolarisationLikelihood, polarisations: tuple[str, ...]) -> PolarisationFstat:
    """Return the maximised statistic and the amplitudes for the likelihood at one template."""
    good, n = own.good, len(polarisations)
    covariance = jnp.linalg.inv(jnp.where(good, own.fisher, jnp.eye(n, dtype=own.fisher.dtype)))
    amplitude = covariance.astype(own.x.dtype) @ own.x
    twoF = jnp.sum(own.x.real * amplitude.real + own.x.imag * amplitude.imag)
    known = jnp.where(good, 1.0, jnp.nan)
    return PolarisationFstat(
        twoF=jnp.where(good, twoF, 2.0 * n),
        amplitude=known.astype(own.x.dtype) * amplitude,
        covariance=known * covariance,
        polarisations=polarisations,
    )
