"""Compute the power of SFTs along the tracks of many templates in time and frequency: `track_power`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat import kinds
from jfstat.data.noise import Noise, NoiseLike
from jfstat.data.normalised import NormalisedSFTs, normalised
from jfstat.data.sftmask import tapered_fraction
from jfstat.geometry.ephemeris import EphemerisLike
from jfstat.geometry.orbit import orbit_speed
from jfstat.maths.arrays import on_device
from jfstat.maths.kepler import STEPS, steps_for
from jfstat.maths.ladder import padded_size
from jfstat.public import host
from jfstat.searching.bank import check_all_possible, stacked_bank
from jfstat.searching.session.progress import progress_bar
from jfstat.sfts.container import SFTs, check_sfts
from jfstat.signal.templates import Doppler
from jfstat.statistic.trackpower import TrackPower, power_sum, sky_position, track
from jfstat.validation import is_whole, shown

if TYPE_CHECKING:
    from astropy.table import QTable

MOST_BINS = 16
"""Largest number of bins that give the amplitude at a frequency."""
TAPERED = 0.1
"""Largest tapered fraction of SFTs whose bins are joined as those with rectangular windows."""
AT_ONCE = 1 << 14
"""Most templates of one call of the compiled program, of all sky positions."""
VALUES = 1 << 25
"""Values, of templates times SFTs, that a GPU computes together; a CPU takes one template after the other."""


@host(sfts=kinds.instance(SFTs), points=kinds.row_as_table, ephemeris=kinds.ephemeris, progress=kinds.flag)
def track_power(
    sfts: SFTs,
    points: Doppler | QTable,
    *,
    bins: int = 1,
    sqrt_sx: NoiseLike | None = None,
    ephemeris: EphemerisLike = "DE405",
    progress: bool = True,
) -> TrackPower:
    """Compute the power of SFTs along the tracks of templates in time and frequency.

    The track of a template is its frequency at the detectors in the middle of each SFT. The normalised powers there are
    averaged with the weights that are best for signals of random orientation (Krishnan & Sintes 2007, LIGO-T070124)::

        power = sum_k w_k 2 |x_k|^2 / (Tsft S_k) / sum_k w_k,    w_k = (a_k^2 + b_k^2) / S_k

    over the SFTs k of all detectors, with the single-sided noise floor S and the antenna patterns a and b. In Gaussian
    noise the mean is 1 and the variance sum w^2 / (sum w)^2. A signal adds h0^2 Tsft (a^2 + b^2) / (5 S) to the power
    of an SFT, on average over its orientation, if its frequency is that of a bin and the SFT has no window; a window w
    leaves mean(w)^2 / mean(w^2) of that.

    No phase is followed from one SFT to the next. Templates may therefore lie far apart, and signals of binaries can be
    searched for over the whole sky (Tenorio, Merou & Sintes 2024, arXiv:2411.18370).

    Parameters
    ----------
    sfts : SFTs
        SFTs whose band holds all tracks.
    points : Doppler or table
        Templates, (...): isolated, in binaries, with a proper motion or with a phase model. A table has a row for each.
        Without a reference time of their own, theirs is the start of the SFTs.
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
    progress : bool
        Whether to show progress, with more templates than are computed at a time.

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
    check_sfts(sfts)
    if not is_whole(bins) or not (bins == 1 or (bins % 2 == 0 and 2 <= bins <= MOST_BINS)):
        raise ValueError(f"bins must be 1 or an even number up to {MOST_BINS}, not {shown(bins)}.")
    tapered = [s.window for s in sfts if s.window != "unknown" and tapered_fraction(s.window) > TAPERED]
    if bins > 1 and tapered:
        raise ValueError(f"bins={bins} is for SFTs with rectangular windows, and these have {tapered[0]!r}: give 1.")
    if bins + 1 > sfts.n_bins:
        raise ValueError(f"bins={bins} needs more bins than the {sfts.n_bins} of the SFTs: give SFTs of a wider band.")
    stack = stacked_bank(points, "points")
    check_all_possible(stack, "points")
    data = normalised(sfts, Noise.of(sqrt_sx), ephemeris, power=bins == 1)
    sums = sums_of(data, stack, int(bins), progress)
    outside = np.flatnonzero(np.isnan(sums.power))
    if len(outside):
        first, held = outside[0], sfts.frequencies
        low, high = _ends(data, jax.tree.map(lambda x: x[first], stack))
        near = f", or come within {bins // 2} bins of its ends" if bins > 1 else ""
        raise ValueError(
            f"points has {len(outside)} of {len(stack.alpha)} templates whose tracks leave the SFTs' band of "
            f"{held[0]:.10g} to {held[-1]:.10g} Hz{near}: number {first} goes from {low:.10g} to {high:.10g} Hz. Give "
            "SFTs of a wider band."
        )
    shape = np.shape(points.alpha) if isinstance(points, Doppler) else np.shape(sums.power)
    power, deviation = sums.power / sums.weight, np.sqrt(sums.weight2) / sums.weight
    return TrackPower(on_device(power.reshape(shape)), on_device(deviation.reshape(shape)))


def _ends(data: NormalisedSFTs, point: Doppler) -> tuple[float, float]:
    """Return the lowest and highest frequency of a template's track, Hz."""
    frequency = np.asarray(track(data, sky_position(data, point), point, STEPS))
    own = frequency[np.asarray(data.observation.weight) > 0]
    return own.min(), own.max()


class Sums(NamedTuple):
    """Sums over SFTs for n templates, (n,) float64 ndarrays: of w times the power, of w, and of its square."""

    power: np.ndarray
    weight: np.ndarray
    weight2: np.ndarray


@partial(jax.jit, static_argnames=("bins", "steps", "batches"))
def _sums_at(data: NormalisedSFTs, points: Doppler, bins: int, steps: int, batches: Sequence[int | None]) -> Sums:
    """Return the sums of templates at some sky positions, (positions, templates)."""

    def at(own: Doppler) -> Sums:
        sky = sky_position(data, jax.tree.map(lambda x: x[0], own))
        power = jax.lax.map(lambda point: power_sum(data, sky, point, bins, steps), own, batch_size=batches[1])
        weight, weight2 = jnp.sum(sky.weight), jnp.sum(sky.weight * sky.weight)
        return Sums(power, jnp.full(power.shape, weight), jnp.full(power.shape, weight2))  # type: ignore[arg-type]

    return jax.lax.map(at, points, batch_size=batches[0])


def sums_of(data: NormalisedSFTs, stack: Doppler, bins: int, progress: bool = False) -> Sums:
    """Return the sums of all templates of a stack. Templates at one sky position share what depends on it."""
    rows = _by_sky(stack)
    n_values, many = data.motion.time.size, rows.shape[1]
    batches: tuple[int | None, int | None] = None, None  # a CPU takes one template after the other
    if next(iter(data.bins.devices())).platform != "cpu":
        inner = max(1, min(many, VALUES // n_values))
        batches = max(1, VALUES // (n_values * inner)), inner
    steps = 1
    if stack.orbit is not None:
        steps = steps_for(float(np.max(np.maximum(stack.orbit.ecc, orbit_speed(stack.orbit)))))
    n, at_once = len(stack.alpha), max(1, min(padded_size(len(rows), 1), AT_ONCE // many))
    found = Sums(*(np.empty(n) for _ in Sums._fields))
    with progress_bar(len(rows) * many, progress and len(rows) > at_once, "tracks", "templates") as advance:
        for low in range(0, len(rows), at_once):
            # the last ones are repeated, so that one program serves all
            own = rows[np.minimum(np.arange(low, low + at_once), len(rows) - 1)]
            sums = _sums_at(data, jax.tree.map(lambda x, own=own: x[own], stack), bins, steps, batches)
            for whole, part in zip(found, sums, strict=True):
                whole[own] = part
            advance(many * min(at_once, len(rows) - low))
    return found


def _by_sky(stack: Doppler) -> np.ndarray:
    """Return the numbers of the templates, by sky position in rows of equal length, (positions, templates) int.

    Positions with many templates have several rows; rows are filled with their last template.
    """
    sky = np.stack([stack.alpha, stack.delta, *(() if stack.motion is None else np.asarray(stack.motion).T)])
    order = np.lexsort(sky)
    first = np.flatnonzero(np.append(True, np.any(np.diff(sky[:, order], axis=1) != 0, axis=0)))
    count = np.diff(np.append(first, order.size))
    many = min(padded_size(int(np.median(count)), 1), AT_ONCE)
    rows = -(-count // many)
    end = np.repeat(first + count, rows)
    start = np.repeat(first, rows) + many * (np.arange(rows.sum()) - np.repeat(np.cumsum(rows) - rows, rows))
    return order[np.minimum(start[:, None] + np.arange(many), end[:, None] - 1)]
