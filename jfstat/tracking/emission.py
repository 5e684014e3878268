"""Tables of segments and frequencies for one template: 2F, and the log-likelihood of a signal of known amplitude."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from jfstat.data.checks import check_amplitude, check_filters, check_point, check_segments
from jfstat.data.fstatdata import FstatData
from jfstat.maths.arrays import is_traced
from jfstat.public import public
from jfstat.signal.templates import Amplitude, Doppler, template
from jfstat.signal.times import GPSTime
from jfstat.signal.values import with_fields
from jfstat.statistic.combine import AntennaMatrix, two_f
from jfstat.statistic.fstat import band_values, noise_level, optimal_power
from jfstat.validation import NumberLike, as_float64

_TINY = 1e-30
"""Constant added to the square of a modulus, so that its root has a derivative at zero."""


@public(point=template)
def twoF_by_segment(segments: FstatData, point: Doppler, *, f1dot: NumberLike | None = None) -> jax.Array:
    """Compute 2F of each segment at all frequencies of the band, for one sky position, spin-down and orbit.

    The function is pure and works under jit, vmap, jvp and grad. Half of 2F is the log-likelihood that `viterbi` takes,
    for a signal whose amplitude and phase are free in each segment (Suvorova et al. 2016, Phys. Rev. D 93, 123009,
    equation 17).

    Parameters
    ----------
    segments : FstatData
        Data with a leading axis of K segments.
    point : Doppler or Row
        One template with scalar fields; ``fkdot[0]`` is ignored.
    f1dot : (M,) array_like, optional
        Values of the spin-down in Hz/s, which replace the template's own and become the table's last axis. Frequencies
        and spin-downs then hold at the middle of each segment, because a wandering signal has its own state in each
        segment.

    Returns
    -------
    (K, n_frequencies) or (K, n_frequencies, M) float32
        2F at ``segments.frequencies``, which all segments share and which hold at the template's reference time: a
        signal that follows the template stays in one column. See `twoF_band` for NaN.

    Raises
    ------
    TypeError
        If an argument is of another kind.
    ValueError
        If `segments` has no segments, or shapes are wrong, or the template does not fit the data.

    Examples
    --------
    >>> jfstat.twoF_by_segment(segments, point).shape == (3, segments.frequencies.size)
    True
    """
    return _checked(segments, point, None, f1dot)


@public(point=template)
def log_likelihood_by_segment(
    segments: FstatData, point: Doppler, amplitude: Amplitude, *, f1dot: NumberLike | None = None
) -> jax.Array:
    """Compute the log-likelihood ratio of a signal of known amplitude by segment, at all frequencies of the band.

    The table is like the one of `twoF_by_segment`, for a signal with given h0, cosi and psi. Its initial phase is
    unknown in each segment and marginalised with a uniform prior, which gives ln I0(|c^H y|) - rho^2/2, with c and y
    from `semicoherent_amplitude` and rho^2 from `predict_twoF`.

    Parameters
    ----------
    segments, point, f1dot
        See `twoF_by_segment`.
    amplitude : Amplitude
        Amplitude of one signal; its `phi0` does not matter.

    Returns
    -------
    (K, n_frequencies) or (K, n_frequencies, M) float32

    Raises
    ------
    TypeError, ValueError
        See `twoF_by_segment`.
    """
    check_amplitude(amplitude)
    return _checked(segments, point, amplitude, f1dot)


def _checked(segments: FstatData, point: Doppler, amplitude: Amplitude | None, f1dot: NumberLike | None) -> jax.Array:
    """Check the arguments and compute the table."""
    check_band_of_segments(segments, point)
    if f1dot is None:
        return emission(segments, point, amplitude)
    values = as_float64(f1dot, "f1dot", "Hz/s")
    if values.ndim != 1 or not values.size:
        raise ValueError(f"f1dot must be a sequence of spin-downs in Hz/s, not of shape {values.shape}.")
    if point.fkdot.shape[0] > 2:
        raise ValueError("f1dot is for templates without f2dot, which would change it from segment to segment.")
    if not is_traced(values):
        for extreme in (jnp.min(values), jnp.max(values)):
            try:
                check_point(segments, with_fields(point, fkdot=jnp.stack([point.fkdot[0], extreme])), True)
            except ValueError as error:
                raise ValueError(f"f1dot {float(extreme):g} does not fit: {error}") from None
    return emission_of_f1dots(segments, point, amplitude, values)


def check_band_of_segments(segments: FstatData, point: Doppler) -> None:
    """Raise an error unless `segments` are prepared data with segments and filters that contain the template's band.

    Raises
    ------
    TypeError
        If an argument is of another kind.
    ValueError
        If `segments` has no segments or no filters, or the template does not fit the data.
    """
    check_segments(segments)
    if not isinstance(segments, FstatData):
        raise TypeError("segments must be FstatData from jfstat.prepare(..., segments=), not narrow data.")
    check_filters(segments)
    check_point(segments, point, band=True)


@jax.jit
def emission(segments: FstatData, point: Doppler, amplitude: Amplitude | None) -> jax.Array:
    """Compute 2F, or with an amplitude its log-likelihood, without checks: (K, n_frequencies) float32."""
    return jax.lax.map(partial(_of_segment, point=point, amplitude=amplitude), segments)


@jax.jit
def emission_of_f1dots(segments: FstatData, point: Doppler, amplitude: Amplitude | None, f1dot: jax.Array) -> jax.Array:
    """Compute `emission` for M spin-downs at the middle of each segment: (K, n_frequencies, M) float32."""

    def one(own: FstatData) -> jax.Array:
        epoch, since = own.observation.epoch.astype(jnp.float64), own.observation.middle
        middle = GPSTime(epoch + jnp.floor(since), jnp.round(1e9 * (since - jnp.floor(since))))

        def of(value: jax.Array) -> jax.Array:
            fkdot = jnp.stack([point.fkdot[0], value])
            return _of_segment(own, with_fields(point, fkdot=fkdot, reftime=middle), amplitude)

        return jax.lax.map(of, f1dot).T

    return jax.lax.map(one, segments)


def _of_segment(data: FstatData, point: Doppler, amplitude: Amplitude | None) -> jax.Array:
    """Compute 2F or log-likelihood of one segment, (n_frequencies,) float32."""
    if amplitude is None:
        return band_values(data, point, two_f)
    return band_values(data, point, partial(known_amplitude, noise_level(data.observation), amplitude.canonical))


def known_amplitude(
    level: jax.Array, canonical: jax.Array, fa: jax.Array, fb: jax.Array, matrix: AntennaMatrix
) -> jax.Array:
    """Compute the log-likelihood ln I0(|c^H y|) - rho^2/2, (...) real, of a signal of known amplitude.

    See the notes of `semicoherent_amplitude`. The arguments are Sinv_Tsft, the four amplitudes, Fa, Fb and the antenna
    matrix.
    """
    kind = fa.real.dtype
    a1, a2, a3, a4 = (jnp.sqrt(2 * level) * x for x in canonical)  # c = (a1 - i a3, a2 - i a4)
    re = a1.astype(kind) * fa.real - a3.astype(kind) * fa.imag + a2.astype(kind) * fb.real - a4.astype(kind) * fb.imag
    im = a1.astype(kind) * fa.imag + a3.astype(kind) * fa.real + a2.astype(kind) * fb.imag + a4.astype(kind) * fb.real
    size = jnp.sqrt(re**2 + im**2 + _TINY)
    return jnp.log(jax.scipy.special.i0e(size)) + size - (0.5 * optimal_power(level, canonical, matrix)).astype(kind)
