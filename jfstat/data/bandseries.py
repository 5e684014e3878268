"""Describe the time series of all detectors: sample times, frequencies and block sizes."""

from __future__ import annotations

from dataclasses import dataclass, field

import jax
import numpy as np

from jfstat.display import Displayed

STATIC = dict(static=True)
"""Field metadata that makes the field part of the pytree's structure: compiled code depends on its value."""


def frequency_count(fmin: float, fmax: float, dfreq: float) -> int:
    """Return the number of frequencies ``fmin + k dfreq`` up to `fmax`.

    A band that is a whole number of spacings, up to the rounding of its edges, keeps its last frequency.
    """
    return int((fmax - fmin + 2 * np.spacing(fmax)) / dfreq * (1 + 1e-12)) + 1


@dataclass(frozen=True)
class Grid:
    """Regular sample times that all detectors share: sample n is at ``start + n * dt``.

    Attributes
    ----------
    epoch : int
        GPS time from which times count, s.
    start : float
        Time of sample 0, s since `epoch`.
    dt : float
        Spacing, s.
    n : int
        Number of samples. The filters treat the series as periodic, so it must vanish at both ends.
    """

    epoch: int
    start: float
    dt: float
    n: int

    @property
    def length(self) -> float:
        """Duration of the grid, s."""
        return self.n * self.dt


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False, eq=False)
class Band(Displayed):
    """Times and frequencies of the band series, as scalar arrays: data of equal sizes share compiled programs.

    Attributes
    ----------
    start : () float64
        Time of the series' first sample, s since the epoch.
    dt : () float64
        Spacing of the series in detector time, s; equal to `dtau` to within about 1e-5.
    dtau : () float64
        Spacing of the source-frame grid, s: ``1 / (2 dfreq n_fft)``.
    heterodyne : () float64
        Frequency that the heterodyne moved to zero, Hz; its phase is zero at the epoch.
    fmin : () float64
        Frequency of the first bin of `FstatData.frequencies`, Hz.
    dfreq : () float64
        Spacing of `FstatData.frequencies`, Hz.
    f_centre : () float64
        Frequency of the FFT's bin 0, Hz.
    pass_low, pass_high : () float64
        Edges of the flat part of the low-pass, in the detector's frame, Hz.
    slack : () float64
        How far beyond `pass_low` and `pass_high` a signal may lie, Hz.
    guard : () float64
        Available guard, Hz; see `FstatData.guard`.
    expected_loss : () float64
        Approximate fraction of rho^2 lost because SFTs are cut at the guard.
    reach : () float64
        How far from a sample of the series the interpolation filters reach, samples: half a sample plus the distance
        by which the Doppler shift moves the position during half a run.
    """

    start: jax.Array
    dt: jax.Array
    dtau: jax.Array
    heterodyne: jax.Array
    fmin: jax.Array
    dfreq: jax.Array
    f_centre: jax.Array
    pass_low: jax.Array
    pass_high: jax.Array
    slack: jax.Array
    guard: jax.Array
    expected_loss: jax.Array
    reach: jax.Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Layout:
    """Sizes of the band series and its blocks, all static.

    Attributes
    ----------
    n_fft : int
        Samples of the source-frame grid in a transform, which takes the time ``1 / (2 dfreq)``, by default the span of
        the data; a multiple of `block`.
    n_frequencies : int
        Length of `FstatData.frequencies`.
    block : int
        Samples of a block, in which the timing of an isolated source is a cubic.
    block_orbit : int
        Samples of a block for templates with an orbit; divides `block`.
    run, run_orbit : int
        Samples of a run: a part of a block, or of an orbit's block, interpolated from consecutive band samples.
    n_blocks : int
        Blocks of `block` samples that cover the series in the source frame for all delays.
    padding : int
        Zeros before and after each filtered series, at least `run`.
    n_band : int
        Samples of the band series before padding to N, whole blocks.
    terms : int
        Number P of interpolation filters.
    """

    n_fft: int = field(metadata=STATIC)
    n_frequencies: int = field(metadata=STATIC)
    block: int = field(metadata=STATIC)
    block_orbit: int = field(metadata=STATIC)
    run: int = field(metadata=STATIC)
    run_orbit: int = field(metadata=STATIC)
    n_blocks: int = field(metadata=STATIC)
    padding: int = field(metadata=STATIC)
    n_band: int = field(metadata=STATIC)
    terms: int = field(metadata=STATIC)

    def block_of(self, orbit: bool) -> int:
        """Return the number of samples of a timing block, for templates with an orbit or without one."""
        return self.block_orbit if orbit else self.block
