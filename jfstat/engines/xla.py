"""Compute 2F by XLA and the platform's FFT library, on any device; the reference for the other engines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp

from jfstat.data.bandseries import Layout
from jfstat.data.fstatdata import FstatData
from jfstat.engines.engine import (
    Device,
    InBand,
    Loudest,
    Stage,
    StageBytes,
    first_without_spin_down,
    nodes_per_template,
)
from jfstat.engines.reduction import (
    ROW,
    histogram_of,
    largest,
    largest_of_rows,
    largest_of_sections,
)
from jfstat.maths.lengths import largest_divisor
from jfstat.signal.templates import Doppler
from jfstat.statistic.bins import counted_bins, counts
from jfstat.statistic.combine import AntennaMatrix, antenna_matrix, total_matrix, two_f
from jfstat.statistic.linerobust import LineCut, log10_odds
from jfstat.statistic.resample import (
    BlockCubics,
    Resampled,
    interpolated,
    resampled,
    resampled_each,
    spun_down,
    timing,
)
from jfstat.statistic.spectrum import bin_numbers, folded, in_order, spectra, spectra_of_batch

NODE_BYTES = 5000
"""Memory for each node of the timing, measured, bytes."""


class OnAnyDevice(InBand):
    """Base of all that XLA computes: takes the data as they are, on any device."""

    name: ClassVar[str] = "xla"
    needs: ClassVar[str] = "nothing but JAX"

    def usable(self, layout: Layout, device: Device) -> bool:
        """Return True: any device can be used."""
        return True

    def unavailable(self) -> None:
        """Return None: nothing prevents the engine from running."""

    def filter_bytes(self, layout: Layout, n_detectors: int) -> int:
        """Return 0: the engine takes the data's filters."""
        return 0

    def ready(self, data: FstatData) -> FstatData:
        """Return the data as they are."""
        return data


@dataclass(frozen=True)
class Xla(OnAnyDevice):
    """Engine that computes 2F by XLA and the platform's FFT library; see `engine.Engine`.

    Attributes
    ----------
    lines : LineCut or None
        Cut that drops values that a line explains better; it needs the transforms of each detector.
    """

    lines: LineCut | None = None

    def template_bytes(self, layout: Layout, n_detectors: int, orbit: bool) -> int:
        """Return an upper limit of the device memory per template of a batch.

        Each sample takes 8 bytes of interpolated series for each detector, 32 of four folded series, 32 of their
        transforms, and 32 of the FFT library's work space.
        """
        per_sample = 8 * n_detectors + 96 * (1 if self.lines is None else 1 + n_detectors)
        nodes = nodes_per_template(layout, n_detectors, orbit)
        return layout.n_blocks * layout.block * per_sample + nodes * NODE_BYTES

    def largest_batch(self, layout: Layout) -> int:
        """Return the number of templates whose rows of values can be indexed with 32 bits."""
        return (2**31 - 1) // (2 * layout.n_fft // _row(layout))

    def reduced(self, data: FstatData, points: Doppler, bins: jax.Array, keep: int, same_source: bool) -> Loudest:
        """Return the loudest values: first the maxima of rows of bins, then all values of the loudest rows."""
        layout = data.layout
        n, row = points.alpha.shape[0], _row(layout)
        n_rows = layout.n_fft // row
        if self.lines is None:
            spectrum = _spectra(data, points, same_source)
            values = kept = _two_f_of_entries(data, points, spectrum, bins)
        else:
            each = _spectra_each(data, points, same_source)
            spectrum = jnp.sum(each, axis=1)
            values = _two_f_of_entries(data, points, spectrum, bins)
            kept = jnp.where(
                _log10_odds(data, points, values, each, self.lines) >= self.lines.threshold, values, -jnp.inf
            )
        tops = jnp.max(kept.reshape(n, 2, n_rows, row), axis=-1)

        _, chosen = largest(tops.reshape(-1), min(keep, tops.size))
        chosen = chosen.astype(jnp.int32)
        template, odd, place = chosen // (2 * n_rows), chosen // n_rows % 2, chosen % n_rows
        entries = place[:, None] * row + jnp.arange(row, dtype=jnp.int32)[None]
        fa, fb = (spectrum[template[:, None], i, odd[:, None], entries] for i in range(2))
        own = AntennaMatrix(*(x[template][:, None] for x in _matrices(data, points)))
        number = bin_numbers(layout, odd[:, None], entries)
        own_kept = counts(number, *bins[:, template, None])
        if self.lines is not None:
            own_kept &= kept[template[:, None], odd[:, None], entries] > -jnp.inf
        value = jnp.where(own_kept, two_f(fa, fb, own), -jnp.inf)
        best = largest_of_rows(value, template[:, None], number, keep)
        return Loudest(*best, histogram_of(values.reshape(-1, row)), largest_of_sections(layout, values))

    def maxima(self, data: FstatData, points: Doppler, same_source: bool) -> jax.Array:
        """Return the largest 2F over the band of each template, (B,) float32."""
        return _maxima(data, points, _spectra(data, points, same_source))

    def stages(self, data: FstatData, points: Doppler, same_source: bool) -> tuple[Stage, ...]:
        """Return the stages: geometry, interpolation, spin-down for templates of one source, folding, FFT, and 2F."""
        batch, size = points.alpha.shape[0], StageBytes(data)
        resampling = (
            (
                Stage("geometry", _geometry_once, size.cubics),
                Stage("interpolation", _interpolation_once, size.filtered + size.cubics + size.series),
                Stage("spin-down", _spin_down, (1 + batch) * size.series),
            )
            if same_source
            else (
                Stage("geometry", _geometry, batch * size.cubics),
                Stage("interpolation", _interpolation, size.filtered + batch * (size.cubics + size.series)),
            )
        )
        return (
            *resampling,
            Stage("folding", _folding, batch * (size.series + size.transforms)),
            Stage("fft", _fft, batch * 2 * size.transforms),
            Stage("2F and maxima", _maxima, batch * size.searched),
        )


def _row(layout: Layout) -> int:
    """Return the number of neighbouring entries of a spectrum whose maximum is taken first."""
    return largest_divisor(layout.n_fft, ROW)


def _spectra(data: FstatData, points: Doppler, same_source: bool) -> jax.Array:
    """Compute Fa and Fb of a batch, (B, 2, 2, n_fft) complex64."""
    if same_source:
        one = resampled(data, first_without_spin_down(points))
        return spectra_of_batch(lambda point: spun_down(data, point, one), data.layout, points)
    with jax.named_scope("geometry"):
        cubics = jax.vmap(timing, (None, 0))(data, points)
    return spectra_of_batch(partial(interpolated, data), data.layout, points, cubics)


def two_f_in_order(data: FstatData, points: Doppler, same_source: bool) -> jax.Array:
    """Compute 2F of a batch at the frequencies of the band, (B, n_frequencies) float32, as `twoF_band`; traceable."""
    return values_in_order(two_f, data, points, same_source)


def two_f_each_in_order(data: FstatData, points: Doppler, same_source: bool) -> tuple[jax.Array, jax.Array]:
    """Return 2F of a batch in the order of the band's frequencies, of all detectors and of each; traceable.

    Returns
    -------
    twoF : (B, n_frequencies) float32
    each : (B, D, n_frequencies) float32
    """
    spectrum = _spectra_each(data, points, same_source)
    matrices = jax.vmap(lambda point: antenna_matrix(data.observation, point))(points)

    def of(own: jax.Array, matrix: AntennaMatrix) -> jax.Array:
        return in_order(two_f(own[0], own[1], matrix), data.layout)

    total = jax.vmap(lambda s, m: of(jnp.sum(s, axis=0), total_matrix(m)))(spectrum, matrices)
    return total, jax.vmap(jax.vmap(of))(spectrum, matrices)


def values_in_order(
    value: Callable[[jax.Array, jax.Array, AntennaMatrix], jax.Array],
    data: FstatData,
    points: Doppler,
    same_source: bool,
) -> jax.Array:
    """Compute a function of Fa, Fb and the antenna matrix in the band's order, (B, n_frequencies) float32."""
    spectrum, matrices = _spectra(data, points, same_source), _matrices(data, points)
    return jax.vmap(lambda s, m: in_order(value(s[0], s[1], m), data.layout))(spectrum, matrices)


def _spectra_each(data: FstatData, points: Doppler, same_source: bool) -> jax.Array:
    """Compute Fa and Fb of a batch for each detector, (B, D, 2, 2, n_fft) complex64."""
    if same_source:
        one = resampled_each(data, first_without_spin_down(points))
        spun = jax.vmap(spun_down, (None, None, 0))
        return spectra_of_batch(lambda point: spun(data, point, one), data.layout, points)
    return spectra_of_batch(partial(resampled_each, data), data.layout, points)


def _log10_odds(data: FstatData, points: Doppler, values: jax.Array, each: jax.Array, lines: LineCut) -> jax.Array:
    """Compute log10BSGL at the entries of spectra, (B, 2, n_fft)."""
    matrices = jax.vmap(lambda point: antenna_matrix(data.observation, point))(points)
    own = [
        jax.vmap(lambda s, m: two_f(s[0], s[1], m))(each[:, d], jax.tree.map(lambda x, d=d: x[:, d], matrices))
        for d in range(each.shape[1])
    ]
    return log10_odds(values, own, lines.fstar0, lines.odds)


def _matrices(data: FstatData, points: Doppler) -> AntennaMatrix:
    return jax.vmap(lambda point: total_matrix(antenna_matrix(data.observation, point)))(points)


def _two_f_of_entries(data: FstatData, points: Doppler, spectrum: jax.Array, bins: jax.Array) -> jax.Array:
    """Compute 2F at the entries of spectra, (B, 2, n_fft); -inf for entries that do not count."""
    entries = jnp.arange(data.layout.n_fft, dtype=jnp.int32)
    number = bin_numbers(data.layout, jnp.arange(2, dtype=jnp.int32)[:, None], entries[None])
    values = jax.vmap(lambda s, m: two_f(s[0], s[1], m))(spectrum, _matrices(data, points))
    return jnp.where(counts(number, *bins[:, :, None, None]), values, -jnp.inf)


@jax.jit
def _geometry(data: FstatData, points: Doppler, _: None) -> BlockCubics:
    return jax.vmap(timing, (None, 0))(data, points)


@jax.jit
def _interpolation(data: FstatData, points: Doppler, cubics: BlockCubics) -> Resampled:
    return jax.vmap(interpolated, (None, 0, 0))(data, points, cubics)


@jax.jit
def _geometry_once(data: FstatData, points: Doppler, _: None) -> BlockCubics:
    return timing(data, first_without_spin_down(points))


@jax.jit
def _interpolation_once(data: FstatData, points: Doppler, cubics: BlockCubics) -> Resampled:
    return interpolated(data, first_without_spin_down(points), cubics)


@jax.jit
def _spin_down(data: FstatData, points: Doppler, series: Resampled) -> Resampled:
    return jax.vmap(spun_down, (None, 0, None))(data, points, series)


@jax.jit
def _folding(data: FstatData, points: Doppler, series: Resampled) -> jax.Array:
    return jax.vmap(lambda z: folded(z, data.layout))(series)


@jax.jit
def _fft(data: FstatData, points: Doppler, z: jax.Array) -> jax.Array:
    return spectra(z, data.layout)


@jax.jit
def _maxima(data: FstatData, points: Doppler, spectrum: jax.Array) -> jax.Array:
    bins = counted_bins(data, points, points.alpha.shape[0])
    return jnp.max(_two_f_of_entries(data, points, spectrum, bins), axis=(1, 2))
