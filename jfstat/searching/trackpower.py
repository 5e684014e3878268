"""Compute the power of SFTs along the tracks of many templates in time and frequency: `track_power`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import jax
import numpy as np

from jfstat import kinds
from jfstat.data.noise import Noise, NoiseLike
from jfstat.data.normalised import NormalisedSFTs, normalised
from jfstat.data.sftmask import tapered_fraction
from jfstat.geometry.ephemeris import EphemerisLike
from jfstat.maths.arrays import on_device
from jfstat.maths.kepler import STEPS, steps_for
from jfstat.maths.ladder import padded_size
from jfstat.public import host
from jfstat.searching.bank import stacked_bank
from jfstat.sfts.container import SFTs
from jfstat.signal.templates import Doppler
from jfstat.statistic.trackpower import PowerSums, TrackPower, power_sums, track
from jfstat.validation import is_whole, shown

if TYPE_CHECKING:
    from astropy.table import QTable

MOST_BINS = 16
"""Largest number of bins that give the amplitude at a frequency."""
TAPERED = 0.1
"""Largest tapered fraction of SFTs whose bins are joined as those with rectangular windows."""
AT_ONCE = 1024
"""Most templates of one call of the compiled program."""
VALUES = 1 << 22
"""Values, of templates times SFTs, that a GPU computes together; a CPU takes one template after the other."""


@host(sfts=kinds.instance(SFTs), points=kinds.row_as_table, ephemeris=kinds.ephemeris)
def track_power(
    sfts: SFTs,
    points: Doppler | QTable,
    *,
    bins: int = 1,
    sqrt_sx: NoiseLike | None = None,
    ephemeris: EphemerisLike = "DE405",
) -> TrackPower:
    """Compute the power of SFTs along the tracks of templates in time and frequency.

    The track of a template is its frequency at the detectors in the middle of each SFT. The normalised powers there are
    averaged with the weights that are best for signals of random orientation (Krishnan & Sintes 2007, LIGO-T070124)::

        power = sum_k w_k 2 |x_k|^2 / (Tsft S_k) / sum_k w_k,    w_k = (a_k^2 + b_k^2) / S_k

    over the SFTs k of all detectors, with the single-sided noise floor S and the antenna patterns a and b. In Gaussian
    noise the mean is 1 and the variance sum w^2 / (sum w)^2. A signal adds h0^2 Tsft (a^2 + b^2) / (5 S) to the power
    of an SFT, on average over its orientation, if its frequency is that of a bin.

    No phase is followed from one SFT to the next. Templates may therefore lie far apart, and signals of binaries can be
    searched for over the whole sky (Tenorio, Merou & Sintes 2024, arXiv:2411.18370).

    Parameters
    ----------
    sfts : SFTs
        SFTs whose band holds all tracks.
    points : Doppler or table
        Templates, (...): isolated, in binaries, with a proper motion or with a phase model. A table has a row for each.
    bins : int
        Number of bins from which the power at the template's frequency follows. 1 takes the nearest bin: a signal
        half-way between two loses 59 % of its power there, and 23 % on average. An even number up to 16 adds the
        nearest bins with the phases that a signal has in them: 2 bins lose at most 19 %, 4 at most 10 %, 8 at most 5 %.
        This holds for rectangular windows and signals whose frequency hardly drifts within an SFT.
    sqrt_sx : float, sequence, mapping or Noise, optional
        Noise floor in 1/sqrt(Hz), as for `prepare`; None estimates it. Each SFT is weighted by the mean of its floor
        over the band of the SFTs.
    ephemeris : str, two paths or Ephemeris
        See `load_ephemeris`.

    Returns
    -------
    TrackPower

    Raises
    ------
    TypeError
        If an argument is of another kind.
    ValueError
        If a track leaves the band of the SFTs, the noise floor cannot be estimated, `bins` is neither 1 nor an even
        number up to 16, or more than one bin is wanted of SFTs with a window that is far from rectangular.

    Examples
    --------
    >>> bool(jfstat.track_power(sfts, point).critical_ratio > 5)
    True
    """
    if not is_whole(bins) or not (bins == 1 or (bins % 2 == 0 and 2 <= bins <= MOST_BINS)):
        raise ValueError(f"bins must be 1 or an even number up to {MOST_BINS}, not {shown(bins)}.")
    tapered = [s.window for s in sfts if s.window != "unknown" and tapered_fraction(s.window) > TAPERED]
    if bins > 1 and tapered:
        raise ValueError(f"bins={bins} is for SFTs with rectangular windows, and these have {tapered[0]!r}: give 1.")
    if bins + 1 > sfts.n_bins:
        raise ValueError(f"bins={bins} needs more bins than the {sfts.n_bins} of the SFTs: give SFTs of a wider band.")
    stack = stacked_bank(points, "points")
    data = normalised(sfts, Noise.of(sqrt_sx), ephemeris, power=bins == 1)
    sums = sums_of(data, stack, int(bins))
    outside = np.flatnonzero(np.isnan(sums.power))
    if len(outside):
        first, held = outside[0], sfts.frequencies
        low, high = _ends(data, jax.tree.map(lambda x: x[first], stack))
        raise ValueError(
            f"points has {len(outside)} of {len(stack.alpha)} templates whose tracks leave the SFTs' band of "
            f"{held[0]:.10g} to {held[-1]:.10g} Hz, or come within {bins // 2} bins of its ends: number {first} goes "
            f"from {low:.10g} to {high:.10g} Hz. Give SFTs of a wider band."
        )
    shape = np.shape(points.alpha) if isinstance(points, Doppler) else np.shape(sums.power)
    power, deviation = sums.power / sums.weight, np.sqrt(sums.weight2) / sums.weight
    return TrackPower(on_device(power.reshape(shape)), on_device(deviation.reshape(shape)))


def _ends(data: NormalisedSFTs, point: Doppler) -> tuple[float, float]:
    """Return the lowest and highest frequency of a template's track, Hz."""
    frequency = np.asarray(track(data, point, STEPS))[np.asarray(data.observation.weight) > 0]
    return frequency.min(), frequency.max()


@partial(jax.jit, static_argnames=("bins", "steps", "batch"))
def _sums_at(data: NormalisedSFTs, points: Doppler, bins: int, steps: int, batch: int | None) -> PowerSums:
    return jax.lax.map(lambda point: power_sums(data, point, bins, steps), points, batch_size=batch)


def sums_of(data: NormalisedSFTs, stack: Doppler, bins: int) -> PowerSums:
    """Return the sums of all templates of a stack, (n,) ndarrays."""
    n, here = len(stack.alpha), next(iter(data.bins.devices())).platform
    size = min(padded_size(n, 1), AT_ONCE)
    batch = None if here == "cpu" else max(1, min(size, VALUES // data.motion.time.size))
    steps = 1 if stack.orbit is None else steps_for(float(np.max(stack.orbit.ecc)))
    parts = []
    for low in range(0, n, size):
        rows = np.minimum(np.arange(low, low + size), n - 1)  # the last one repeated: one program for all
        own = _sums_at(data, jax.tree.map(lambda x, rows=rows: x[rows], stack), bins, steps, batch)
        parts.append(jax.tree.map(np.asarray, own))
    return jax.tree.map(lambda *x: np.concatenate(x)[:n], *parts)
