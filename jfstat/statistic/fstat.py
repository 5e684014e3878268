"""The statistic as users call it: twoF, fstat, twoF_band, predict_twoF and estimate_amplitude."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from jfstat.data import direct, nearby
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrowdata import NarrowData
from jfstat.data.timing import reference_offset
from jfstat.geometry.source import spin_phase
from jfstat.statistic.amplitude import amplitude_from_vector, amplitude_vector
from jfstat.statistic.check import (
    check_amplitude,
    check_bank,
    check_data,
    check_point,
    check_scalars,
    check_series,
    covered_bins,
    nan_unless_fit,
)
from jfstat.statistic.combine import antenna_matrix, total_matrix, two_f
from jfstat.statistic.resample import Resampled, resampled, spun_down, without_spin_down
from jfstat.statistic.spectrum import in_order, spectra
from jfstat.templates import Amplitude, Doppler


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Fstat:
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


def twoF(data: FstatData | NarrowData, point: Doppler) -> jax.Array:
    """2F at one template, by a direct sum over the band series, or over narrow data.

    Pure; works under jit, vmap and grad, and is differentiable in every field of `point` to any order.

    Parameters
    ----------
    data : FstatData or NarrowData
    point : Doppler
        One template, scalar fields; ``vmap(twoF, (None, 0))`` takes stacks.

    Returns
    -------
    () float64. Where values are traced and so cannot be checked beforehand, NaN, with NaN gradients, for a template
    that does not fit the data.

    Raises
    ------
    ValueError
        If the shapes are wrong, or, for concrete values, the template does not fit the data: it lies outside the band,
        its spin-down or orbit takes it there, its orbit turns too fast, or it is out of reach of the narrow data.
    """
    check_data(data, or_narrow=True)
    check_point(data, point)
    return _twoF(data, point)


def _fa_fb(data: FstatData | NarrowData, point: Doppler) -> tuple[jax.Array, jax.Array]:
    return nearby.fa_fb(data, point) if isinstance(data, NarrowData) else direct.fa_fb(data, point)


@jax.jit
def _twoF(data: FstatData | NarrowData, point: Doppler) -> jax.Array:
    fa, fb = _fa_fb(data, point)
    value = two_f(jnp.sum(fa), jnp.sum(fb), total_matrix(antenna_matrix(data, point)))
    return value * nan_unless_fit(data, point)


def fstat(data: FstatData | NarrowData, point: Doppler) -> Fstat:
    """2F at one template with all that belongs to it; see `twoF` for arguments and errors.

    Returns
    -------
    Fstat
    """
    check_data(data, or_narrow=True)
    check_point(data, point)
    return _fstat(data, point)


@jax.jit
def _fstat(data: FstatData | NarrowData, point: Doppler) -> Fstat:
    fa, fb = _fa_fb(data, point)
    matrix = antenna_matrix(data, point)
    total = total_matrix(matrix)
    middle = data.middle if isinstance(data, NarrowData) else data.band.middle
    since = middle - reference_offset(data, point)
    angle = 2 * jnp.pi * jnp.mod(spin_phase(point.fkdot, since), 1.0)
    fits = nan_unless_fit(data, point)
    turn = jax.lax.complex(jnp.cos(angle), jnp.sin(angle)) * _as_complex(fits)
    sum_a, sum_b = jnp.sum(fa), jnp.sum(fb)
    return Fstat(
        twoF=two_f(sum_a, sum_b, total) * fits,
        Fa=sum_a * turn,
        Fb=sum_b * turn,
        A=total.A,
        B=total.B,
        C=total.C,
        twoF_per_detector=two_f(fa, fb, matrix) * fits,
    )


def resample(data: FstatData, point: Doppler) -> Resampled:
    """The data as they look from the source: resampled and demodulated for a sky position and orbit, no spin-down.

    ``twoF_band(data, point, series=resample(data, point))`` equals ``twoF_band(data, point)``; many spin-downs at one
    sky position can share the series:

        series = jfstat.resample(data, point)
        jax.vmap(lambda p: jfstat.twoF_band(data, p, series=series))(points)

    Pure; works under jit, vmap, jvp and grad. The paper's section 3, steps iii to v.

    Parameters
    ----------
    data : FstatData
    point : Doppler
        One template, scalar fields; ``fkdot`` is ignored.

    Returns
    -------
    Resampled
        A pytree of two series, times the antenna patterns a and b.

    Raises
    ------
    ValueError
        If the shapes are wrong.
    """
    check_data(data)
    check_bank(data)
    check_scalars(Doppler, "point", point, {"alpha": 0, "delta": 0, "fkdot": 1})
    return _resample(data, point)


@jax.jit
def _resample(data: FstatData, point: Doppler) -> Resampled:
    return resampled(data, without_spin_down(point))


def twoF_band(data: FstatData, point: Doppler, *, series: Resampled | None = None) -> jax.Array:
    """2F at all frequencies of the band for one sky position, spin-down and orbit, by resampling and FFT.

    Pure; works under jit, vmap, jvp and grad.

    Parameters
    ----------
    data : FstatData
    point : Doppler
        One template, scalar fields; ``fkdot[0]`` is ignored.
    series : Resampled, optional
        From `resample` at the template's sky position, orbit and reference time, whatever the spin-down: saves
        resampling again.

    Returns
    -------
    (n_frequencies,) float32
        2F at ``data.frequencies``, which are those at the template's reference time; all NaN where values are traced
        and the template does not fit. 0 for bins that an orbit takes out of the prepared band, which happens close to
        its edges if `prepare` was not told of the orbit.

    Raises
    ------
    ValueError
        If the shapes are wrong, or, for concrete values, the template does not fit the data: its spin-down takes the
        band's edges, or its orbit the band's centre, out of the prepared band, or its orbit turns too fast.
    """
    check_data(data)
    check_bank(data)
    check_point(data, point, band=True)
    if series is not None:
        check_series(data, point, series)
    return _twoF_band(data, point, series)


@jax.jit
def _twoF_band(data: FstatData, point: Doppler, series: Resampled | None) -> jax.Array:
    own = resampled(data, point) if series is None else spun_down(data, point, series)
    fa, fb = spectra(own, data.layout)
    with jax.named_scope("2F"):
        value = in_order(two_f(fa, fb, total_matrix(antenna_matrix(data, point))), data.layout)
        if point.orbit is not None:
            first, last = covered_bins(data, point)
            bins = jnp.arange(data.layout.n_frequencies, dtype=jnp.int32)
            value = jnp.where((bins >= first) & (bins <= last), value, jnp.zeros_like(value))
        return value * nan_unless_fit(data, point, band=True).astype(value.dtype)


def predict_twoF(data: FstatData | NarrowData, doppler: Doppler, amplitude: Amplitude) -> jax.Array:
    """Expected 2F at the true template of a signal: 4 + rho^2.

    rho^2 = Sinv_Tsft A^mu M_mu_nu A^nu (LALSuite: XLALComputeOptimalSNR2FromMmunu). As there, SFTs are taken to have
    rectangular windows: of a signal in windowed ones mean(w)^2/mean(w^2) of rho^2 is found, 2/3 for Hann.

    Parameters
    ----------
    data : FstatData or NarrowData
    doppler : Doppler
        Only its sky position matters.
    amplitude : Amplitude
        One of each; ``vmap`` takes stacks.

    Returns
    -------
    () float64.

    Raises
    ------
    ValueError
        If an argument is of another kind or a stack.
    """
    check_data(data, or_narrow=True)
    check_scalars(Doppler, "doppler", doppler, {"alpha": 0, "delta": 0, "fkdot": 1})
    check_amplitude(amplitude)
    return _predict_twoF(data, doppler, amplitude)


@jax.jit
def _predict_twoF(data: FstatData | NarrowData, doppler: Doppler, amplitude: Amplitude) -> jax.Array:
    A, B, C = total_matrix(antenna_matrix(data, doppler))
    a1, a2, a3, a4 = amplitude.canonical
    return 4 + data.sinv_tsft * (A * (a1**2 + a3**2) + B * (a2**2 + a4**2) + 2 * C * (a1 * a2 + a3 * a4))


def estimate_amplitude(data: FstatData | NarrowData, point: Doppler) -> Amplitude:
    """Maximum-likelihood amplitude parameters at one template, with their errors.

    LALSuite: XLALEstimatePulsarAmplitudeParams, which gives errors of psi and phi0 that are sqrt(2) larger. The errors
    here are the Cramer-Rao bounds; they grow without limit towards |cosi| = 1, where psi and phi0 degenerate, and are
    then no guide. Windowed SFTs are taken for rectangular: h0 comes out mean(w)/rms(w) too small.

    Parameters
    ----------
    data : FstatData or NarrowData
    point : Doppler
        One template; phi0 is given at its reference time.

    Returns
    -------
    Amplitude
        With `errors`. psi in [-pi/4, pi/4], phi0 in [0, 2 pi).

    Raises
    ------
    ValueError
        As `twoF`.
    """
    check_data(data, or_narrow=True)
    check_point(data, point)
    return _estimate_amplitude(data, point)


@jax.jit
def _estimate_amplitude(data: FstatData | NarrowData, point: Doppler) -> Amplitude:
    fa, fb = _fa_fb(data, point)
    fits = _as_complex(nan_unless_fit(data, point))
    total = total_matrix(antenna_matrix(data, point))
    vector, covariance = amplitude_vector(jnp.sum(fa) * fits, jnp.sum(fb) * fits, total, data.sinv_tsft)
    return amplitude_from_vector(vector, covariance)


def _as_complex(x: jax.Array) -> jax.Array:
    return x.astype(jnp.complex128)
