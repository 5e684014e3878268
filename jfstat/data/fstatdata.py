"""What `prepare` returns and every statistic takes: the band series of all detectors, as one pytree."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.core
import numpy as np

from jfstat.geometry.trajectory import Trajectory


def static(**kwargs: Any) -> Any:
    """A dataclass field that is part of the pytree's structure: compiled code depends on its value."""
    return field(metadata=dict(static=True), **kwargs)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Band:
    """Numbers that describe the band series; scalars, so that other data of the same times compile nothing anew.

    Attributes
    ----------
    start : () float64
        Time of the series' first sample, s since the epoch.
    dt : () float64
        Spacing of the series in detector time, s; that of `dtau` but for some 1e-5.
    dtau : () float64
        Spacing of the source-frame grid, s: ``tspan / n_fft``.
    heterodyne : () float64
        Frequency that the series' heterodyne moved to zero, Hz; its phase is zero at the epoch.
    fmin : () float64
        Frequency of the first bin of `FstatData.frequencies`, Hz.
    f_centre : () float64
        Frequency of the bin that the FFT puts at zero, Hz.
    pass_low, pass_high : () float64
        Edges of the flat part of the low-pass, in the detector's frame, Hz.
    slack : () float64
        How far beyond those edges a signal may lie, Hz.
    guard : () float64
        Guard found, Hz.
    expected_loss : () float64
        Fraction of rho^2 that the cut of the SFTs at the guard costs, about.
    middle : () float64
        Mid-time of the data, s since the epoch.
    reach : () float64
        How far from a sample of the series the interpolation bank reaches, samples: half, and what the Doppler shift
        moves in half a run.
    """

    start: jax.Array
    dt: jax.Array
    dtau: jax.Array
    heterodyne: jax.Array
    fmin: jax.Array
    f_centre: jax.Array
    pass_low: jax.Array
    pass_high: jax.Array
    slack: jax.Array
    guard: jax.Array
    expected_loss: jax.Array
    middle: jax.Array
    reach: jax.Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Layout:
    """Sizes, all static.

    Attributes
    ----------
    n_fft : int
        Samples of the source-frame grid that span the data exactly; a multiple of `block`.
    n_frequencies : int
        Length of `FstatData.frequencies`.
    block : int
        Samples of a block in which an isolated source's timing is a cubic.
    block_orbit : int
        The same for templates with an orbit; divides `block`.
    run, run_orbit : int
        Consecutive samples, a part of a block and of an orbit's block, that are interpolated from consecutive samples
        of the band series.
    n_blocks : int
        Blocks of `block` samples that cover the series in the source frame, whatever the delays.
    padding : int
        Zeros before and after each series in the bank, at least `run`.
    n_band : int
        Samples of the band series, N without what rounds it up to whole blocks.
    terms : int
        Length P of the interpolation bank.
    """

    n_fft: int = static()
    n_frequencies: int = static()
    block: int = static()
    block_orbit: int = static()
    run: int = static()
    run_orbit: int = static()
    n_blocks: int = static()
    padding: int = static()
    n_band: int = static()
    terms: int = static()


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Coverage:
    """When there are data, and how much they weigh: D detectors, S SFTs of the one that has most.

    Attributes
    ----------
    start : (D, S) float64
        Starts of the SFTs, s since the epoch; the last one's repeated where a detector has fewer.
    weight : (D, S) float64
        Noise weights, whose mean over SFTs is 1; zero where a detector has fewer.
    tsft : () float64
        Length of an SFT, s.
    """

    start: jax.Array
    weight: jax.Array
    tsft: jax.Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class FstatData:
    """Everything that the F-statistic needs of a data set; made by `jfstat.prepare`.

    A pytree: pass it to jitted functions as an argument, never close over it. D detectors, N samples, P terms.

    Attributes
    ----------
    series : (D, N) complex64
        Low-passed, decimated, heterodyned and whitened time series times the square root of the noise weight,
        in 1/sqrt(s); on a common grid, N a multiple of ``layout.block``.
    bank : tuple of D (P, 2, N') float32
        The interpolation bank of each series, real and imaginary parts, with zeros before and after; a tuple, because
        stacking would hold the largest array twice. Empty if it would take too much of the device's memory: `search`
        then takes the band in parts.
    trajectory : Trajectory
        Of the detectors, leading axis D.
    response : (D, 3, 3) float64
        Detector tensors.
    moments : (D, 5, 5) float64
        Weighted sums over SFTs of the mean products of the five sidereal harmonics: what A, B and C come from.
    coverage : Coverage
        Times and weights of the SFTs.
    sinv_tsft : () float64
        Tsft times the mean of 1/S over SFTs and detectors, s Hz/strain^2 (LALSuite's ``Sinv_Tsft``).
    band : Band
    layout : Layout
    detectors : tuple of str, static
    epoch : int, static
        GPS time from which all times count, s.
    reftime : int, static
        GPS reference time of templates that name none, s.
    ephemeris : str, static
        Name of the solar-system ephemeris.
    """

    series: jax.Array
    bank: tuple[jax.Array, ...]
    trajectory: Trajectory
    response: jax.Array
    moments: jax.Array
    coverage: Coverage
    sinv_tsft: jax.Array
    band: Band
    layout: Layout
    detectors: tuple[str, ...] = static()
    epoch: int = static()
    reftime: int = static()
    ephemeris: str = static()

    @property
    def tspan(self) -> Any:
        """From the start of the first SFT to the end of the last, s; a float, or traced inside a transformation."""
        return _plain(self.band.dtau) * self.layout.n_fft

    @property
    def frequencies(self) -> Any:
        """Frequencies of `twoF_band`, (n_frequencies,) float64, Hz; spacing ``1 / (2 tspan)``.

        A NumPy array, or traced inside a transformation.
        """
        return _plain(self.band.fmin) + np.arange(self.layout.n_frequencies, dtype=float) / (2 * self.tspan)

    @property
    def guard(self) -> Any:
        """SFT bins found beyond the searched band and its Doppler shifts, the smaller side, Hz."""
        return _plain(self.band.guard)

    @property
    def expected_loss(self) -> Any:
        """Fraction of rho^2 that the SFTs' cut at the guard costs, about; see `jfstat.data.plan.guard_loss`."""
        return _plain(self.band.expected_loss)

    def __repr__(self) -> str:
        start = f"FstatData({', '.join(self.detectors)}; GPS {self.epoch}"
        end = f"in {self.layout.n_frequencies} bins; reftime {self.reftime}; {self.ephemeris}"
        if not isinstance(_plain(self.band.dtau), float):  # traced, or a tree of shapes or axes
            return f"{start}; {end})"
        f = self.frequencies
        return (
            f"{start} to {self.epoch + self.tspan:.0f}; {f[0]:.6f} to {f[-1]:.6f} Hz {end}; guard {self.guard:.3g} Hz, "
            f"expected loss of rho^2 {self.expected_loss:.1e})"
        )


def _plain(x: Any) -> Any:
    """A Python float, unless the scalar is traced or no number at all."""
    concrete = isinstance(x, (jax.Array, np.ndarray, float)) and not isinstance(x, jax.core.Tracer)
    return float(x) if concrete and np.ndim(x) == 0 else x
