"""From prepared data and a batch of templates to the batch's loudest values, all on the device.

2F itself is not stored: a first pass reduces it to the maxima of short rows of bins as it is computed, and only the
rows with the largest maxima are then computed again. The same pass takes a histogram and the maxima of sub-bands.
"""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import device_of
from jfstat.maths.lengths import largest_divisor
from jfstat.searching.driver.workers import ONE_THREAD
from jfstat.searching.reduce.tally import histogram_of, tops_of_entries, tops_of_parts
from jfstat.statistic.backends.triton import chain
from jfstat.statistic.check import covered_bins
from jfstat.statistic.combine import AntennaMatrix, antenna_matrix, total_matrix, two_f
from jfstat.statistic.resample import Resampled, resampled, spun_down, without_spin_down
from jfstat.statistic.spectrum import bin_numbers, spectra
from jfstat.templates import Doppler

ROW = 64
"""Entries of the spectrum whose maximum is kept first."""


class Method(Enum):
    """How the statistic is computed; results agree to rounding."""

    LIBRARY = "library"
    """By XLA and the platform's FFT library, on any platform."""
    FUSED = "fused"
    """By the fused kernels of `jfstat.statistic.backends.triton`, on NVIDIA GPUs."""
    INTERPRETED = "interpreted"
    """The same, interpreted; for tests on a CPU."""


class Loudest(NamedTuple):
    """Largest values of a batch, falling, and tallies of all its values.

    Attributes
    ----------
    twoF : (keep,) float32
        -inf where there are fewer; fewer numbers if the batch has fewer.
    template : (keep,) int32
        Place in the batch.
    frequency : (keep,) int32
        Index into ``data.frequencies``.
    histogram : (len(tally.HISTOGRAM_EDGES),) int32
        How many values lie in each bin of `tally.HISTOGRAM_EDGES`.
    subbands : (S,) float32
        Largest value in each sub-band of `tally.subband_edges`; -inf where no bin counts.
    """

    twoF: jax.Array
    template: jax.Array
    frequency: jax.Array
    histogram: jax.Array
    subbands: jax.Array


def method_for(data: FstatData) -> Method:
    """The fastest method where the data lie."""
    device = device_of(data)
    nvidia = device.platform in ("gpu", "cuda") and "nvidia" in device.device_kind.lower()
    # Pallas' Triton needs Ampere or later
    recent = nvidia and float(getattr(device, "compute_capability", 0)) >= 8
    return Method.FUSED if recent and chain.usable(data.layout) else Method.LIBRARY


@partial(jax.jit, static_argnames=("keep", "method", "same_source"), compiler_options=ONE_THREAD)
def loudest(
    data: FstatData,
    points: Doppler,
    n_valid: jax.Array | int,
    keep: int,
    method: Method,
    same_source: bool = False,
    first_bin: jax.Array | int = 0,
) -> Loudest:
    """The `keep` largest values of 2F of a batch of templates, exactly, and tallies of all.

    Parameters
    ----------
    data : FstatData
    points : Doppler
        A stack of B templates that fit the data.
    n_valid : int
        Templates from this one on are padding and do not count.
    keep : int
        Static.
    method : Method
        Static.
    same_source : bool
        Static. Whether all templates have the sky position, orbit and reference time of the first: the series is then
        resampled once, and only the spin-down taken off for each.
    first_bin : int
        Bins of the band before this one do not count.
    """
    return loudest_within(data, points, n_valid, keep, method, same_source, first_bin)


def loudest_within(
    data: FstatData,
    points: Doppler,
    n_valid: jax.Array | int,
    keep: int,
    method: Method,
    same_source: bool,
    first_bin: jax.Array | int,
) -> Loudest:
    """The same within a larger program, which is to be compiled with `workers.ONE_THREAD`."""
    bins = bins_that_count(data, points, n_valid, first_bin)
    if method is Method.LIBRARY:
        return _by_library(data, points, bins, keep, same_source)
    return _by_fused(data, points, bins, keep, same_source, method is Method.INTERPRETED)


def bins_that_count(
    data: FstatData, points: Doppler, n_valid: jax.Array | int, first_bin: jax.Array | int = 0
) -> jax.Array:
    """First and last bin that count of each template, (2, B) int32; arguments as for `loudest`."""
    first, last = jax.vmap(covered_bins, (None, 0))(data, points)
    last = jnp.where(jnp.arange(points.alpha.shape[0]) < n_valid, last, -1)
    return jnp.stack([jnp.maximum(first, first_bin).astype(jnp.int32), last])


def maxima(data: FstatData, points: Doppler, method: Method, same_source: bool = False) -> jax.Array:
    """Largest 2F over the band of each template of a stack, (B,) float32; arguments as for `loudest`."""
    n = points.alpha.shape[0]
    if method is Method.LIBRARY:
        spectrum = _spectra(data, points, same_source)
        return jnp.max(two_f_of_entries(data, points, spectrum, n), axis=(1, 2))
    bins = bins_that_count(data, points, n)
    found = _fused_maxima(data, points, bins, same_source, method is Method.INTERPRETED)
    return jnp.max(found.value, axis=(1, 3)).reshape(-1)


def first_without_spin_down(points: Doppler) -> Doppler:
    """The first template of a stack, without its spin-down."""
    return without_spin_down(jax.tree.map(lambda x: jnp.asarray(x)[0], points))


def _series(data: FstatData, points: Doppler) -> Resampled:
    return jax.vmap(spun_down, (None, 0, None))(data, points, resampled(data, first_without_spin_down(points)))


def _spectra(data: FstatData, points: Doppler, same_source: bool) -> jax.Array:
    """Fa and Fb of a batch, (B, 2, 2, n_fft) complex64."""
    series = _series(data, points) if same_source else jax.vmap(resampled, (None, 0))(data, points)
    return jax.vmap(lambda s: spectra(s, data.layout))(series)


def _matrices(data: FstatData, points: Doppler) -> AntennaMatrix:
    return jax.vmap(lambda point: total_matrix(antenna_matrix(data, point)))(points)


def two_f_of_entries(data: FstatData, points: Doppler, spectrum: jax.Array, n_valid: jax.Array | int) -> jax.Array:
    """2F at the entries of spectra, (B, 2, n_fft); -inf for those that do not count."""
    return _entries_in(data, points, spectrum, bins_that_count(data, points, n_valid))


def _entries_in(data: FstatData, points: Doppler, spectrum: jax.Array, bins: jax.Array) -> jax.Array:
    """The same for given `bins_that_count`."""
    entries = jnp.arange(data.layout.n_fft, dtype=jnp.int32)
    number = bin_numbers(data.layout, jnp.arange(2, dtype=jnp.int32)[:, None], entries)
    first, last = bins[:, :, None, None]
    values = jax.vmap(lambda s, m: two_f(s[0], s[1], m))(spectrum, _matrices(data, points))
    return jnp.where((number >= first) & (number <= last), values, -jnp.inf)


def _by_library(data: FstatData, points: Doppler, bins: jax.Array, keep: int, same_source: bool) -> Loudest:
    layout = data.layout
    n, row = points.alpha.shape[0], largest_divisor(layout.n_fft, ROW)
    n_rows = layout.n_fft // row
    spectrum = _spectra(data, points, same_source)
    values = _entries_in(data, points, spectrum, bins)
    tops = jnp.max(values.reshape(n, 2, n_rows, row), axis=-1)

    _, chosen = largest(tops.reshape(-1), min(keep, tops.size))
    chosen = chosen.astype(jnp.int32)
    template, odd, place = chosen // (2 * n_rows), chosen // n_rows % 2, chosen % n_rows
    entries = place[:, None] * row + jnp.arange(row, dtype=jnp.int32)
    fa, fb = (spectrum[template[:, None], i, odd[:, None], entries] for i in range(2))
    own = AntennaMatrix(*(x[template][:, None] for x in _matrices(data, points)))
    number = bin_numbers(layout, odd[:, None], entries)
    first, last = bins[:, template, None]
    counts = (number >= first) & (number <= last)
    best = _best(jnp.where(counts, two_f(fa, fb, own), -jnp.inf), template[:, None], number, keep)
    return Loudest(*best, histogram_of(values.reshape(-1, row)), tops_of_entries(layout, values))


def _fused_maxima(
    data: FstatData, points: Doppler, bins: jax.Array, same_source: bool, interpret: bool
) -> chain.Maxima:
    n = points.alpha.shape[0]
    lanes = chain.lanes_for(n)
    if same_source:
        one = jax.tree.map(lambda x: x[None], first_without_spin_down(points))
        series = chain.spun_down(data, points, chain.interpolated(data, one, 1, interpret), lanes, interpret)
    else:
        series = chain.interpolated(data, points, lanes, interpret)
    y = chain.transformed(data.layout, series, n, lanes, interpret)
    return chain.maxima_of(data, points, y, bins, lanes, interpret)


def _by_fused(
    data: FstatData, points: Doppler, bins: jax.Array, keep: int, same_source: bool, interpret: bool
) -> Loudest:
    found = _fused_maxima(data, points, bins, same_source, interpret)
    flat = found.value.reshape(-1)
    _, rows = largest(flat, min(keep, flat.size))
    value, template, number = chain.values_of(
        data, found, rows.astype(jnp.int32), chain.lanes_for(points.alpha.shape[0])
    )
    best = _best(jnp.where(value < 0, -jnp.inf, value), template, number, keep)
    return Loudest(*best, found.histogram, tops_of_parts(data.layout, found.parts))


def _best(
    value: jax.Array, template: jax.Array, number: jax.Array, keep: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The largest of the chosen rows' values, with their places: templates and bins."""
    top, place = jax.lax.top_k(value.reshape(-1), min(keep, value.size))
    return top, jnp.broadcast_to(template, value.shape).reshape(-1)[place], number.reshape(-1)[place]


@partial(jax.jit, static_argnames=("keep",))
def largest(values: jax.Array, keep: int) -> tuple[jax.Array, jax.Array]:
    """The `keep` largest values, falling, and where they are; of equal ones the first.

    The same as ``jax.lax.top_k``, but sorting fewer: the largest `keep` lie in the `keep` rows of largest maximum.

    Parameters
    ----------
    values : (n,) float32
    keep : int
        At most n.

    Returns
    -------
    values : (keep,) float32
    places : (keep,) int
    """
    n = values.shape[0]
    n_rows = -(-n // ROW)
    rows = jnp.pad(values, (0, n_rows * ROW - n), constant_values=-jnp.inf).reshape(n_rows, ROW)
    if keep >= n_rows:
        return jax.lax.top_k(values, keep)
    _, chosen = jax.lax.top_k(jnp.max(rows, axis=1), keep)
    chosen = jnp.sort(chosen)  # so that of equal values the first still comes first
    top, within = jax.lax.top_k(rows[chosen].reshape(-1), keep)
    return top, chosen[within // ROW] * ROW + within % ROW
