"""Public functions of the F-statistic: twoF, fstat, resample, twoF_band, predict_twoF and estimate_amplitude."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from jfstat import kinds
from jfstat.data.checks import (
    check_amplitude,
    check_data,
    check_filters,
    check_point,
    check_sky,
    observation_of,
)
from jfstat.data.fit import nan_unless_fit
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrowdata import NarrowData
from jfstat.data.observation import Observation
from jfstat.data.protocol import HasFaFb
from jfstat.display import Displayed
from jfstat.public import public
from jfstat.signal.parameters import AMPLITUDE_FIELDS
from jfstat.signal.templates import Amplitude, Doppler, template, template_of_any
from jfstat.signal.transientwindow import TransientWindow
from jfstat.statistic.amplitude import amplitude_from_vector, amplitude_vector
from jfstat.statistic.bins import counts, covered_bins
from jfstat.statistic.combine import AntennaMatrix, antenna_matrix, total_matrix, two_f
from jfstat.statistic.resample import Resampled, resampled, spun_down, without_spin_down
from jfstat.statistic.spectrum import folded, in_order, spectra
from jfstat.statistic.windowed import EmptyWindow, observation_within


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False, eq=False)
class Fstat(Displayed):
    """The F-statistic at one template.

    Attributes
    ----------
    twoF : () float64
        2F of all detectors together.
    Fa, Fb : () complex128
        The two matched filters, phases referred to the mid-time of the data as in LALSuite.
    A, B, C : () float64
        Antenna matrix.
    twoF_per_detector : (D,) float64
        2F of each detector alone, in the order of ``data.detectors``.
    """

    twoF: jax.Array
    Fa: jax.Array
    Fb: jax.Array
    A: jax.Array
    B: jax.Array
    C: jax.Array
    twoF_per_detector: jax.Array


@public(point=template)
def twoF(data: FstatData | NarrowData, point: Doppler) -> jax.Array:
    """Compute 2F at one template, by a direct sum over the band series or over narrow data.

    Pure; works under jit, vmap and grad, and is differentiable to any order in every field of `point`.

    Parameters
    ----------
    data : FstatData or NarrowData
    point : Doppler or Row
        One template, scalar fields; ``vmap(twoF, (None, 0))`` takes stacks. Or a row of a table of candidates, see
        `Doppler.from_row`, unless it is of a transient signal.

    Returns
    -------
    () float64
        Traced values cannot be checked beforehand: a template that does not fit the data then gives NaN, with NaN
        gradients. Samplers that call their model outside jit, such as NumPyro when it looks for a start, need
        ``jax.jit(jfstat.twoF)``, which traces everything; `log_posterior` is -inf instead.

    Raises
    ------
    TypeError
        If `data` or `point` is of another kind.
    ValueError
        If shapes are wrong or, for concrete values, the template does not fit the data: it lies outside the band, its
        spin-down or orbit moves it there, its orbit is too fast, or it is out of reach of the narrow data.

    Examples
    --------
    >>> round(float(jfstat.twoF(data, point)))
    82
    >>> slope = jax.grad(jfstat.twoF, argnums=1)(data, point)
    >>> slope.fkdot.shape
    (2,)
    """
    check_data(data, or_narrow=True)
    check_point(data, point)
    return _twoF(data.for_one_template, point)


def twoF_of(data: HasFaFb, point: Doppler) -> jax.Array:
    """Compute 2F at one template without any checks, for use inside larger programs."""
    fa, fb = data.fa_fb(point)
    return two_f(jnp.sum(fa), jnp.sum(fb), total_matrix(antenna_matrix(data.observation, point)))


def turned_twoF(data: NarrowData, point: Doppler, turns: jax.Array) -> jax.Array:
    """Compute 2F at one template with shifted frequencies at the detectors, (F,) float32, without checks."""
    return two_f(*data.turned_fa_fb(point, turns), total_matrix(antenna_matrix(data.observation, point)))


_twoF = jax.jit(twoF_of)


@public(point=template)
def fstat(data: FstatData | NarrowData, point: Doppler) -> Fstat:
    """Compute 2F, Fa, Fb and the antenna matrix at one template; see `twoF` for arguments and errors.

    Returns
    -------
    Fstat

    Examples
    --------
    >>> result = jfstat.fstat(data, point)
    >>> [round(float(x), 1) for x in result.twoF_per_detector]
    [50.3, 37.3]
    """
    check_data(data, or_narrow=True)
    check_point(data, point)
    return _fstat(data.for_one_template, point)


def fstat_of(data: HasFaFb, point: Doppler) -> Fstat:
    """Compute the F-statistic at one template without any checks, for use inside larger programs."""
    return fstat_from(antenna_matrix(data.observation, point), *data.fa_fb(point))


def fstat_from(matrix: AntennaMatrix, fa: jax.Array, fb: jax.Array) -> Fstat:
    """Return the F-statistic for an antenna matrix and Fa and Fb of each detector, (D,) complex128."""
    total = total_matrix(matrix)
    sum_a, sum_b = jnp.sum(fa), jnp.sum(fb)
    return Fstat(
        twoF=two_f(sum_a, sum_b, total),
        Fa=sum_a,
        Fb=sum_b,
        A=total.A,
        B=total.B,
        C=total.C,
        twoF_per_detector=two_f(fa, fb, matrix),
    )


_fstat = jax.jit(fstat_of)


@public(point=template)
def resample(data: FstatData, point: Doppler) -> Resampled:
    """Resample and demodulate the data to the source's frame for a sky position and orbit, without spin-down.

    ``twoF_band(data, point, series=resample(data, point))`` equals ``twoF_band(data, point)``; many spin-downs at one
    sky position can share the series:

        series = jfstat.resample(data, point)
        jax.vmap(lambda p: jfstat.twoF_band(data, p, series=series))(points)

    Pure; works under jit, vmap, jvp and grad. The paper's section 3, steps iii to v.

    Parameters
    ----------
    data : FstatData
    point : Doppler or Row
        One template, scalar fields; ``fkdot`` and `model` are ignored.

    Returns
    -------
    Resampled
        A pytree of two series, times the antenna patterns a and b.

    Raises
    ------
    TypeError
        If `data` or `point` is of another kind.
    ValueError
        If the shapes are wrong.

    Examples
    --------
    >>> series = jfstat.resample(data, point)
    >>> jfstat.twoF_band(data, point, series=series).shape
    (1729,)
    """
    check_data(data)
    check_filters(data)
    check_sky("point", point)
    return _resample(data, point)


@jax.jit
def _resample(data: FstatData, point: Doppler) -> Resampled:
    return resampled(data, without_spin_down(point))


@jax.jit
def compiled_band(data: FstatData, point: Doppler, series: Resampled | None = None) -> jax.Array:
    """Compute `engines.band.twoF_band` by XLA, without any checks."""
    return band_values(data, point, two_f, series)


def band_values(
    data: FstatData,
    point: Doppler,
    value: Callable[[jax.Array, jax.Array, AntennaMatrix], jax.Array],
    series: Resampled | None = None,
) -> jax.Array:
    """Compute a function of Fa, Fb and the antenna matrix at the band's frequencies, (n_frequencies,) float32.

    The template is not checked; values are NaN where `twoF_band` is.
    """
    own = resampled(data, point) if series is None else spun_down(data, point, series)
    fa, fb = spectra(folded(own, data.layout), data.layout)
    with jax.named_scope("2F"):
        values = in_order(value(fa, fb, total_matrix(antenna_matrix(data.observation, point))), data.layout)
        return nan_beyond(data, point, values)


def nan_beyond(data: FstatData, point: Doppler, values: jax.Array) -> jax.Array:
    """Return values at the band's frequencies, NaN where the data do not hold the template's signal."""
    if point.orbit is not None:
        first, last = covered_bins(data, point)
        bins = jnp.arange(data.layout.n_frequencies, dtype=jnp.int32)
        values = jnp.where(counts(bins, first, last), values, jnp.nan)
    return values * nan_unless_fit(data, point, band=True).astype(values.dtype)


def require_noise_floor(observation: Observation) -> None:
    """Raise a ValueError if the noise floor of an observation is not known."""
    if observation.sinv_tsft is None:
        raise ValueError("data is an observation without a noise floor: give jfstat.observation sqrt_sx.")


def noise_level(observation: Observation, rho2: jax.Array | float = 0.0) -> jax.Array:
    """Return `Observation.level`: Sinv_Tsft as a signal of this rho^2 has it in the data.

    Raises
    ------
    ValueError
        If the noise floor is not known.
    """
    require_noise_floor(observation)
    return observation.level(rho2)


@public(doppler=template_of_any, window=kinds.instance(TransientWindow, or_none=True))
def predict_twoF(
    data: Observation | FstatData | NarrowData,
    doppler: Doppler,
    amplitude: Amplitude,
    window: TransientWindow | None = None,
) -> jax.Array:
    """Compute the expected 2F at the true template of a signal: 4 + rho^2.

    rho^2 = Sinv_Tsft A^mu M_mu_nu A^nu (LALSuite: XLALComputeOptimalSNR2FromMmunu). As there, SFTs are assumed to have
    rectangular windows: with a window w, the fraction mean(w)^2/mean(w^2) of rho^2 is recovered, 2/3 for Hann.

    Parameters
    ----------
    data : Observation, FstatData or NarrowData
        An observation must know its noise floor.
    doppler : Doppler or Row
        Only its sky position matters.
    amplitude : Amplitude
        Amplitude of one signal; use ``vmap`` for stacks.
    window : TransientWindow, optional
        Window of a transient signal, whose 2F in this window is predicted: 4 if it holds no data. Not traced, and not
        with segments.

    Returns
    -------
    () float64

    Raises
    ------
    TypeError
        If an argument is of another kind.
    ValueError
        If an argument is a stack, or the noise floor is not known.

    Examples
    --------
    >>> round(float(jfstat.predict_twoF(data, point, amplitude)))
    74
    """
    observation = observation_of(data)
    check_sky("doppler", doppler)
    check_amplitude(amplitude)
    require_noise_floor(observation)
    if window is not None:
        try:
            observation = observation_within(observation, window)
        except EmptyWindow:
            return jnp.float64(4.0)
    return _predict_twoF(observation, doppler, amplitude)


@jax.jit
def _predict_twoF(observation: Observation, doppler: Doppler, amplitude: Amplitude) -> jax.Array:
    matrix = total_matrix(antenna_matrix(observation, doppler))
    power = optimal_power(noise_level(observation), amplitude.canonical, matrix)
    return 4 + optimal_power(noise_level(observation, power), amplitude.canonical, matrix)


def optimal_power(level: jax.Array, canonical: jax.Array, matrix: AntennaMatrix) -> jax.Array:
    """Compute rho^2 of a signal with four given amplitudes, from Sinv_Tsft and the antenna matrix."""
    a1, a2, a3, a4 = canonical
    A, B, C = matrix
    return level * (A * (a1**2 + a3**2) + B * (a2**2 + a4**2) + 2 * C * (a1 * a2 + a3 * a4))


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False, eq=False)
class AmplitudeEstimate(Displayed):
    """Maximum-likelihood amplitude parameters of a signal.

    Attributes
    ----------
    amplitude : Amplitude
        h0, cosi, psi in [-pi/4, pi/4] rad and phi0 in [0, 2 pi) rad, at the template's reference time.
    errors : Amplitude
        One-sigma errors of the parameters, which may exceed their range.
    covariance : (4, 4) float64
        Covariance of h0, cosi, psi and phi0, in this order.
    canonical : (4,) float64
        The four amplitudes A^mu.
    canonical_covariance : (4, 4) float64
        Covariance of the four amplitudes A^mu.
    """

    amplitude: Amplitude
    errors: Amplitude
    covariance: jax.Array
    canonical: jax.Array
    canonical_covariance: jax.Array

    @property
    def columns(self) -> jax.Array:
        """Values of `parameters.AMPLITUDE_COLUMNS`, (8,) float64."""
        return jnp.stack([getattr(x, name) for x in (self.amplitude, self.errors) for name in AMPLITUDE_FIELDS])


@public(point=template)
def estimate_amplitude(data: FstatData | NarrowData, point: Doppler) -> AmplitudeEstimate:
    """Estimate the maximum-likelihood amplitude parameters at one template, with their errors and covariance.

    The estimate follows XLALEstimatePulsarAmplitudeParams in LALSuite, whose errors are sqrt(2) larger where the
    antenna matrix has C = 0, and by other factors about that elsewhere, since it counts C half. The errors here are the
    Cramer-Rao bounds. They diverge towards |cosi| = 1, where psi and phi0 are degenerate, and are then not meaningful.
    SFTs are assumed to have rectangular windows: with a window w, h0 is the true one times mean(w)/rms(w).

    Parameters
    ----------
    data : FstatData or NarrowData
    point : Doppler or Row
        One template; phi0 is given at its reference time.

    Returns
    -------
    AmplitudeEstimate

    Raises
    ------
    TypeError, ValueError
        See `twoF`.

    Examples
    --------
    >>> estimate = jfstat.estimate_amplitude(data, point)
    >>> float(abs(estimate.amplitude.h0 - 4e-25) / estimate.errors.h0) < 3
    True
    """
    check_data(data, or_narrow=True)
    check_point(data, point)
    return _estimate_amplitude(data.for_one_template, point)


def estimate_amplitude_of(data: HasFaFb, point: Doppler) -> AmplitudeEstimate:
    """Estimate the amplitude parameters at one template without any checks, for use inside larger programs."""
    return estimate_amplitude_from(data.observation, point, antenna_matrix(data.observation, point), *data.fa_fb(point))


def estimate_amplitude_from(
    observation: Observation, point: Doppler, matrix: AntennaMatrix, fa: jax.Array, fb: jax.Array
) -> AmplitudeEstimate:
    """Estimate the amplitude parameters from the antenna matrix and Fa and Fb of each detector, (D,) complex128."""
    angle = -2 * jnp.pi * observation.source(point).cycles_at_middle
    to_reference = jax.lax.complex(jnp.cos(angle), jnp.sin(angle))
    fa, fb = (jnp.sum(x) * to_reference for x in (fa, fb))
    total = total_matrix(matrix)
    return estimate_from_sums(fa, fb, total, noise_level(observation, two_f(fa, fb, total) - 4))


def estimate_from_sums(fa: jax.Array, fb: jax.Array, matrix: AntennaMatrix, level: jax.Array) -> AmplitudeEstimate:
    """Estimate the amplitude parameters from all detectors' Fa, Fb, antenna matrix and Sinv_Tsft.

    Phases are those at the template's reference time.
    """
    vector, covariance = amplitude_vector(fa, fb, matrix, level)
    return AmplitudeEstimate(*amplitude_from_vector(vector, covariance), vector, covariance)


_estimate_amplitude = jax.jit(estimate_amplitude_of)


def values_of(data: HasFaFb, point: Doppler) -> jax.Array:
    """Compute 2F, 2F of each detector, and the amplitudes with errors as in tables, (1 + D + 8,) float64; traceable."""
    return values_from(data.observation, point, *data.fa_fb(point))


def values_from(observation: Observation, point: Doppler, fa: jax.Array, fb: jax.Array) -> jax.Array:
    """Return 2F, 2F of each detector and the amplitudes with errors from Fa and Fb of each, (D,) complex128."""
    matrix = antenna_matrix(observation, point)
    own = fstat_from(matrix, fa, fb)
    amplitude = estimate_amplitude_from(observation, point, matrix, fa, fb)
    return jnp.concatenate([own.twoF[None], own.twoF_per_detector, amplitude.columns])


compiled_values = jax.jit(values_of)


@jax.jit
def central_values(data: NarrowData) -> jax.Array:
    """Return the numbers of `values_of` at the central template of narrow data, by a smaller program."""
    return values_from(data.observation, data.centre, *data.central_fa_fb)
