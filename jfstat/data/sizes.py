"""Choose the sizes of a band series and its blocks, for a whole band and for a part of one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jfstat.data.band import terms_needed
from jfstat.data.bandseries import Layout
from jfstat.transforms import transform_length

TRANSITION = 0.02
"""Largest width of the low-pass's transition on each side, relative to its pass band."""
MIN_TRANSITION = 0.01
"""Least width of the low-pass's transition on each side, Hz, for narrow bands."""
RINGING = 12.0
"""Quiet time at both ends of the series, after which the filter's ringing has died out, in units of 1/transition."""
FILTER_TOLERANCE = 7e-5
"""Tolerance that the first omitted interpolation filter must meet at the edge of the band and of the filters' reach."""


class LowPass(NamedTuple):
    """The low-pass of a band series, and the transform that it leaves room for.

    Attributes
    ----------
    half_pass, half_stop : float
        Half widths of the pass and the stop band, Hz.
    n_fft : int
        Samples of the source-frame grid in a transform.
    dtau : float
        Spacing of these samples, s.
    """

    half_pass: float
    half_stop: float
    n_fft: int
    dtau: float

    @property
    def quiet(self) -> float:
        """Time that the filter rings beyond the data, s."""
        return ringing(self.half_pass, self.half_stop)


def ringing(half_pass: float, half_stop: float) -> float:
    """Return how long, s, a low-pass rings with these half widths, Hz, of pass and stop band."""
    return RINGING / (half_stop - half_pass)


def low_pass(half_pass: float, duration: float) -> LowPass:
    """Return the low-pass for a pass band and for transforms of a given duration.

    A wide transition takes bandwidth, a narrow one rings for long. With 2 h the pass band, w the transition and T the
    duration, about (2 h + 2 w) (T + `RINGING` / w) samples are computed, fewest where w^2 = `RINGING` h / T. The
    transition also takes up what the rounding of the length leaves.
    """
    fewest_samples = np.sqrt(RINGING * half_pass / duration)
    transition = min(fewest_samples, max(2 * half_pass * TRANSITION, MIN_TRANSITION))
    n_fft = transform_length(2 * (half_pass + transition) * duration)
    dtau = duration / n_fft
    return LowPass(half_pass, 0.5 / dtau, n_fft, dtau)


class Blocks(NamedTuple):
    """Lengths of blocks and runs in samples, for isolated sources and for orbits, and the filters' reach in samples."""

    block: int
    block_orbit: int
    run: int
    run_orbit: int
    reach: float


def layout_of(
    passed: LowPass, blocks: Blocks, n_band: int, length: float, n_frequencies: int, covered: float
) -> Layout:
    """Return all sizes of a band series.

    Parameters
    ----------
    passed : LowPass
    blocks : Blocks
    n_band : int
        Samples of the band series.
    length : float
        Time span of these samples, s.
    n_frequencies : int
    covered : float
        Time in the source frame that the blocks must cover, s.
    """
    angle = 2 * np.pi * passed.half_pass * length / n_band * blocks.reach
    return Layout(
        n_fft=passed.n_fft,
        n_frequencies=n_frequencies,
        block=blocks.block,
        block_orbit=blocks.block_orbit,
        run=blocks.run,
        run_orbit=blocks.run_orbit,
        n_blocks=max(passed.n_fft // blocks.block, int(np.ceil(covered / passed.dtau / blocks.block))),
        padding=blocks.run,
        n_band=n_band,
        terms=terms_needed(angle, FILTER_TOLERANCE),
    )
