"""Compute the logarithm of the likelihood ratio of a signal with given amplitudes: `log_likelihood`."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jfstat import kinds
from jfstat.data.checks import check_amplitude, check_signal
from jfstat.data.eachsegment import each_segment
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrowdata import NarrowData
from jfstat.data.observation import Observation
from jfstat.data.protocol import HasFaFb
from jfstat.public import public
from jfstat.signal.templates import Amplitude, Doppler, template
from jfstat.statistic.combine import AntennaMatrix, antenna_matrix, total_matrix, two_f
from jfstat.statistic.fstat import AmplitudeEstimate, estimate_from_sums, noise_level, optimal_power
from jfstat.statistic.noiseenergy import NoiseEnergy
from jfstat.statistic.total import AT_ONCE

HALF = 0.5**0.5
"""Fa and Fb in units of a noise level of 1, over `xa` and `xb`."""


class AmplitudeLikelihood(NamedTuple):
    """The logarithm of the likelihood ratio at one template, as a function of the amplitudes A^mu.

    It is A.x - A.G.A/2: linear in the data and, with the Fisher matrix G, quadratic in the amplitudes. Independent data
    (detectors, segments) add up.

    Attributes
    ----------
    xa, xb : (...) complex128
        sqrt(2 Sinv_Tsft) times Fa and Fb with phase zero at the reference time, so that
        A.x = A1 Re xa + A2 Re xb - A3 Im xa - A4 Im xb.
    fisher : AntennaMatrix
        Sinv_Tsft times A, B and C, each (...) float64.
    """

    xa: jax.Array
    xb: jax.Array
    fisher: AntennaMatrix

    def at(self, canonical: jax.Array) -> jax.Array:
        """Return the value at the four amplitudes A^mu, (4, ...): (...) float64."""
        a1, a2, a3, a4 = canonical
        linear = a1 * self.xa.real + a2 * self.xb.real - a3 * self.xa.imag - a4 * self.xb.imag
        return linear - 0.5 * optimal_power(jnp.float64(1.0), canonical, self.fisher)

    @property
    def twoF(self) -> jax.Array:
        """2F: twice the largest value, (...) float64."""
        # not half of the result, which is 4 for a degenerate matrix
        return two_f(HALF * self.xa, HALF * self.xb, self.fisher)

    @property
    def estimate(self) -> AmplitudeEstimate:
        """The amplitudes at which the value is largest, with their errors, of a single likelihood."""
        return estimate_from_sums(HALF * self.xa, HALF * self.xb, self.fisher, jnp.float64(1.0))


def amplitude_likelihood(data: HasFaFb, point: Doppler) -> AmplitudeLikelihood:
    """Return the likelihood of each detector at one template, (D,), without any checks."""
    observation = data.observation
    fa, fb = data.fa_fb(point)
    matrix = antenna_matrix(observation, point)
    level = noise_level(observation, two_f(jnp.sum(fa), jnp.sum(fb), total_matrix(matrix)) - 4)
    factor = reference_factor(observation, point, level)
    return AmplitudeLikelihood(factor * fa, factor * fb, AntennaMatrix(*(level * x for x in matrix)))


def reference_factor(observation: Observation, point: Doppler, level: jax.Array) -> jax.Array:
    """Return what turns matched filters into `xa` and `xb` of `AmplitudeLikelihood`, given Sinv_Tsft: () complex128."""
    angle = -2 * jnp.pi * observation.source(point).cycles_at_middle
    size = jnp.sqrt(2 * level)
    return jax.lax.complex(size * jnp.cos(angle), size * jnp.sin(angle))


def likelihood_of_each(data: FstatData | NarrowData, point: Doppler) -> AmplitudeLikelihood:
    """Return the likelihood of each segment and detector, (K, D), without any checks; K is 1 without segments."""
    return each_segment(lambda own: amplitude_likelihood(own, point), data, AT_ONCE)


def total_likelihood(data: FstatData | NarrowData, point: Doppler) -> AmplitudeLikelihood:
    """Return the likelihood of all segments and detectors with one amplitude, without any checks."""
    return jax.tree.map(jnp.sum, likelihood_of_each(data, point))


@public(doppler=template, per_detector=kinds.flag, energy=kinds.instance(NoiseEnergy, or_none=True))
def log_likelihood(
    data: FstatData | NarrowData,
    doppler: Doppler,
    amplitude: Amplitude,
    *,
    per_detector: bool = False,
    energy: NoiseEnergy | None = None,
) -> jax.Array:
    """Compute the logarithm of the likelihood ratio of a signal with given amplitudes against noise.

    ln Lambda = A.x - A.M.A/2 in Gaussian noise of known floor (Jaranowski, Krolak & Schutz 1998, Phys. Rev. D 58,
    063001; Prix & Krishnan 2009, Class. Quantum Grav. 26, 204013). Its maximum over the amplitudes is F = 2F/2, at
    those of `estimate_amplitude`, unless the antenna matrix is so degenerate that 2F is set to 4.

    With `energy` the noise floor is known only up to a factor of each detector, and of each segment, whose power has
    Jeffreys' prior and is integrated over. If whitened data have n independent complex samples x and the signal is s,
    the result is Student's t likelihood (Dupuis & Woan 2005, Phys. Rev. D 72, 102002; Pitkin et al. 2017,
    arXiv:1705.08978)

        -n ln(sum |x - s|^2 / sum |x|^2) = -n ln(1 - ln Lambda / E),        E = sum |x|^2,

    with ln Lambda of the assumed floor, summed over detectors and segments. It tends to ln Lambda n/E for large n, and
    is the same for any factor of the assumed floor.

    Pure; works under jit, vmap and grad, and is differentiable in every field of `doppler` and `amplitude`.

    Parameters
    ----------
    data : FstatData or NarrowData
        Data of the band; narrow data are faster. From `windowed` for a transient signal. With segments, whose values
        are added up: the phase of the signal may then be different in each.
    doppler : Doppler or Row
        One template, scalar fields.
    amplitude : Amplitude
        Amplitudes at the template's reference time. Scalar fields are the same in all segments; fields of shape
        (n_segments,), such as `phi0` alone, are of each.
    per_detector : bool
        Return the values of single detectors, whose sum is the whole.
    energy : NoiseEnergy, optional
        E and n, from `noise_energy` of the prepared data, for a floor that is integrated over. None takes the floor as
        known. Only names of detectors and the number of segments are compared with those of `data`.

    Returns
    -------
    () float64, or (D,) float64
        NaN for a traced template that does not fit the data, see `twoF`.

    Raises
    ------
    TypeError
        If an argument is of another kind.
    ValueError
        If shapes are wrong, the template does not fit the data, the data's noise floor is not known, or `energy` is of
        other detectors or segments.

    Notes
    -----
    SFTs are assumed to have rectangular windows, as for `estimate_amplitude`. Data without noise, of which a signal
    would leave nothing, count as if it left a millionth of E.

    Examples
    --------
    >>> best = jfstat.estimate_amplitude(data, point).amplitude
    >>> bool(jnp.isclose(2 * jfstat.log_likelihood(data, point, best), jfstat.twoF(data, point), rtol=1e-9))
    True
    """
    check_signal(data, doppler, name="doppler")
    check_amplitude(amplitude, data.n_segments)
    if energy is not None:
        energy.check(data)
    values = _log_likelihood(data.for_one_template, doppler, amplitude, energy)
    return values if per_detector else jnp.sum(values)


def log_likelihood_of(
    data: FstatData | NarrowData, doppler: Doppler, amplitude: Amplitude, energy: NoiseEnergy | None
) -> jax.Array:
    """Return the log-likelihood of each detector, summed over segments, (D,) float64, without any checks."""
    canonical = jnp.moveaxis(amplitude.canonical, -1, 0).reshape(4, -1, 1)  # of all segments, or of each
    values = likelihood_of_each(data, doppler).at(canonical)
    return jnp.sum(values if energy is None else energy.marginalised(values), axis=0)


_log_likelihood = jax.jit(log_likelihood_of)
