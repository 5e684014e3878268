"""Add a signal, or noise, to prepared data inside a trace: what `prepare` would make of it, without SFTs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp

from jfstat import kinds
from jfstat.data.band import series_of, taper
from jfstat.data.blocks import cubic, cubic_at, node_times, phase_cubic, phasor, within_blocks
from jfstat.data.checks import check_amplitude, check_data, check_key, check_point
from jfstat.data.direct import direct_block
from jfstat.data.fit import nan_unless_fit
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrowdata import NarrowData
from jfstat.data.narrowsignal import narrow_signal
from jfstat.data.sftmask import FINER, half_widths, mask, mean_power, tapered_fraction
from jfstat.geometry.source import Source
from jfstat.geometry.trajectory import Trajectory
from jfstat.public import public
from jfstat.signal.templates import Amplitude, Doppler, template_of_any


@public(point=template_of_any, window=kinds.text)
def add_signal(
    data: FstatData | NarrowData, point: Doppler, amplitude: Amplitude, *, window: str = "rectangular"
) -> FstatData | NarrowData:
    """Add a signal to prepared data, as if it had been in the SFTs; the given data are not changed.

    Pure; works under jit and vmap, over `data` too, and is differentiable in `point` and `amplitude`: for efficiency
    curves and simulation-based inference on a device. `inject` adds signals to SFTs.

    The result is what `prepare` makes of SFTs with the signal and a given noise floor (``sqrt_sx``), at the times and
    with the noise weights of the data: 2F of the signal differs by less than 1e-6 of rho^2 and what SFTs lose outside
    the guard, at most ``data.expected_loss``. Where the noise floor was estimated, a signal in SFTs is weaker in the
    data than the floor says, and the added one is weaker by the mean of that (`Observation.signal_response`). In one
    data set the two may still differ by some per cent of 2F. Give ``sqrt_sx`` to `prepare` if simulated and real data
    must agree better than that. 2F of the signal alone is `predict_twoF` less 4 for rectangular SFTs; with a window w,
    the fraction mean(w)^2/mean(w^2) of it, 2/3 for Hann.

    Of data from `windowed` it is the transient signal with this window that is added. What the guard loses of its
    sudden ends is not in it: rho^2 of such a signal in SFTs differs by up to 2 % for windows of ten minutes, and by up
    to 0.4 % for windows of an hour. Other transient signals are added by `inject`.

    Parameters
    ----------
    data : FstatData or NarrowData
        From `prepare`, whose filters are remade if it has any, or from `narrow`.
    point : Doppler or Row
        Template of the signal, scalar fields.
    amplitude : Amplitude
        Amplitude of one signal; phi0 is the phase at the template's reference time.
    window : str
        Window of the SFTs of all detectors, which data do not know: ``"rectangular"``, ``"hann"`` or
        ``"tukey:<beta>"``. With another one than that of the SFTs the signal is too strong or too weak.

    Returns
    -------
    FstatData or NarrowData
        Of the kind of `data`. For a traced template that does not fit the data, all samples are NaN, of `FstatData` all
        but the zeros with which the series ends.

    Raises
    ------
    TypeError
        If an argument is of another kind.
    ValueError
        If an argument is a stack, the template does not fit the data (see `twoF`) or the window is unknown.

    Notes
    -----
    Within an SFT the series is the analytic strain, heterodyned, over the noise floor; between SFTs it is zero; and the
    whole is low-passed. The strain is multiplied by that mask at twice the rate of the series, and the product
    low-passed by the filter that `prepare` used. Narrow data hold integrals over time of the whole, which need no
    filter.

    Examples
    --------
    >>> louder = jfstat.add_signal(data, point, jfstat.Amplitude(h0=1e-24, cosi=0.0))
    >>> float(jfstat.twoF(louder, point)) > float(jfstat.twoF(data, point))
    True
    >>> slope = jax.grad(lambda x: jfstat.twoF(jfstat.add_signal(data, point, x), point))(amplitude)
    >>> slope.h0.shape
    ()
    """
    check_data(data, or_narrow=True)
    check_point(data, point)
    check_amplitude(amplitude)
    tapered = tapered_fraction(window)
    if isinstance(data, NarrowData):
        return replace(data, samples=data.samples + narrow_signal(data, point, amplitude, tapered))
    return _added(data, signal_spectra(data, point, amplitude, tapered))


@public(window=kinds.text)
def noise_like(key: jax.Array, data: FstatData, *, window: str = "rectangular") -> FstatData:
    """Return data with Gaussian noise in place of what `data` hold, of the same times, weights and frequencies.

    Pure; works under jit and vmap, over keys too. The noise is what `prepare` makes of white noise, independent in all
    SFTs and detectors, at the data's noise floors, to within `data.expected_loss` and, at the edges of gaps, a sample.
    2F of it is chi-squared with 4 degrees of freedom and, once `add_signal` has added a signal, non-central by
    ``predict_twoF(...) - 4`` for rectangular SFTs; with a window w by the fraction mean(w)^2/mean(w^2) of that.

    Data with segments need a key for each: ``jax.vmap(jfstat.noise_like)(jax.random.split(key, data.n_segments),
    data)``.

    Parameters
    ----------
    key : jax.Array
        A random key, from ``jax.random.key(seed)``.
    data : FstatData
        From `prepare`; filters are made if it has any.
    window : str
        Window of the SFTs, see `add_signal`.

    Returns
    -------
    FstatData

    Raises
    ------
    TypeError
        If `data` or `key` is of another kind.
    ValueError
        If `key` holds several keys, `data` have segments, or the window is unknown.

    Examples
    --------
    >>> noise = jfstat.noise_like(jax.random.key(1), data)
    >>> noise.series.shape == data.series.shape
    True
    """
    check_data(data)
    check_key(key)
    spectra = noise_spectra(key, data, tapered_fraction(window))
    return _added(silent(data), spectra)


def silent(data: FstatData) -> FstatData:
    """Return data without strain, with the filters of none if they have any."""
    return replace(data, series=jnp.zeros_like(data.series), filters=tuple(jnp.zeros_like(x) for x in data.filters))


@jax.jit
def _added(data: FstatData, spectra: jax.Array) -> FstatData:
    """Return data with what has the given spectra, (D, n_band) complex128, added."""
    layout = data.layout
    if not data.filters:
        series = jnp.fft.ifft(spectra.astype(jnp.complex64))
        return replace(data, series=data.series.at[:, : layout.n_band].add(series))
    parts = [series_of(own, data.band.reach, layout.terms, layout.padding) for own in spectra]
    series = jnp.stack([own for own, _ in parts])
    filters = tuple(old + own for old, (_, own) in zip(data.filters, parts, strict=True))
    return replace(data, series=data.series.at[:, : layout.n_band].add(series), filters=filters)


def _band_spectrum(samples: jax.Array, data: FstatData) -> jax.Array:
    """Return the low-passed transform of samples at `FINER` times the rate: (n_band,) complex128, as `band` has it."""
    n_band = data.layout.n_band
    spectrum = jnp.fft.fft(samples)
    positive, negative = -(-n_band // 2), n_band // 2
    kept = jnp.concatenate([spectrum[:positive], spectrum[len(samples) - negative :]])
    frequency = jnp.fft.fftfreq(n_band) * (1 / data.band.dt)
    response = taper(frequency, *half_widths(data.band)) / FINER
    return kept.astype(jnp.complex128) * jnp.asarray(response).astype(jnp.complex128)


@partial(jax.jit, static_argnames="tapered")
def signal_spectra(data: FstatData, point: Doppler, amplitude: Amplitude, tapered: float) -> jax.Array:
    """Return the transforms of a signal's band series in all detectors, (D, n_band) complex128, without checks.

    They are NaN for a template that does not fit.
    """
    band, observation, n_band = data.band, data.observation, data.layout.n_band
    source = observation.source(point)
    level = jnp.sqrt(2 * observation.level_of(point, amplitude.canonical)) / observation.tsft
    canonical = amplitude.canonical * level * nan_unless_fit(data, point)
    block = FINER * direct_block(data.layout.block_of(point.orbit is not None))

    def one(detector: tuple[jax.Array, jax.Array, Trajectory, jax.Array]) -> jax.Array:
        start, weight, trajectory, response = detector
        wave = _wave(source, canonical, data, block, trajectory, response)
        seen = mask(start, weight, observation.tsft, band, n_band, tapered) * within.astype(jnp.float32)
        return _band_spectrum(wave * seen.astype(wave.dtype), data)

    weight, within = _weights(data)
    detectors = (observation.start, weight, observation.trajectory, observation.response)
    return jax.lax.map(one, jax.tree.map(jnp.asarray, detectors))


def _wave(
    source: Source, canonical: jax.Array, data: FstatData, block: int, trajectory: Trajectory, response: jax.Array
) -> jax.Array:
    """Return a signal's analytic strain in one detector, heterodyned as the series: (FINER * n_band,) complex64."""
    n, step = FINER * data.layout.n_band, data.band.dt / FINER
    t = node_times(data.band.start, step, block, -(-n // block))
    cycles = source.heterodyned_cycles(trajectory, t, data.band.heterodyne) + source.cycles_at_middle
    a, b = source.patterns(response, trajectory.sidereal(t))
    a1, a2, a3, a4 = canonical
    cos, sin = phasor(phase_cubic(cycles, block), block, block)  # of the phase's negative
    _, u = within_blocks(block, block)
    strain = (cubic_at(cubic(0.5 * x).astype(jnp.float32), u) for x in (a1 * a + a2 * b, -(a3 * a + a4 * b)))
    return (jax.lax.complex(*strain) * jax.lax.complex(cos, -sin)).reshape(-1)[:n]


@partial(jax.jit, static_argnames="tapered")
def noise_spectra(key: jax.Array, data: FstatData, tapered: float) -> jax.Array:
    """Return the transforms of noise's band series in all detectors, (D, n_band) complex128, without checks."""
    observation, n = data.observation, FINER * data.layout.n_band
    step = data.band.dt / FINER
    time = data.band.start + step * jnp.arange(n, dtype=jnp.float64)

    def one(detector: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        own, start, weight = detector
        # bins of whitened SFTs have unit power, so the spectral density of the whole is the weight over Tsft
        power = within * mean_power(time, step, start, weight, observation.tsft, tapered) / (observation.tsft * step)
        parts = jax.random.normal(own, (2, n), jnp.float32) * jnp.sqrt(0.5 * power).astype(jnp.float32)[None]
        return _band_spectrum(jax.lax.complex(parts[0], parts[1]), data)

    weights, within = _weights(data)
    keys = jax.random.split(key, len(observation.detectors))
    return jax.lax.map(one, (keys, jnp.asarray(observation.start), weights))


def _weights(data: FstatData) -> tuple[jax.Array, jax.Array]:
    """Return the noise weights of SFTs, (D, S) float64, and a factor of them over time, (FINER * n_band,) float64.

    The factor is 1 but for windowed data, where it is the square of the window: data are multiplied by the window, and
    so is the transient signal in them, as well as the amplitude of the noise.
    """
    n, step, window = FINER * data.layout.n_band, data.band.dt / FINER, data.observation.window
    if window is None:
        return jnp.asarray(data.observation.weight), jnp.ones(n)
    time = data.band.start + step * jnp.arange(n, dtype=jnp.float64)
    return jnp.asarray(window.weight), window.mean_power(time, step)
