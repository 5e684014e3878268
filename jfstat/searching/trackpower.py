"""Compute the power of SFTs along the tracks of many templates in time and frequency: `track_power`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat import kinds
from jfstat.data.normalised import NormalisedSFTs, normalise
from jfstat.geometry.orbit import orbit_speed
from jfstat.maths.arrays import on_device
from jfstat.maths.kepler import STEPS, steps_for
from jfstat.maths.ladder import padded_size
from jfstat.public import host
from jfstat.searching.bank import check_all_possible, stacked_bank
from jfstat.searching.session.progress import progress_bar
from jfstat.sfts.container import SFTs
from jfstat.signal.templates import Doppler
from jfstat.statistic.trackpower import NormalisedPower, power_sums, sky_position, track
from jfstat.validation import shown

if TYPE_CHECKING:
    from astropy.table import QTable

AT_ONCE = 1 << 14
"""Most templates of one call of the compiled program, of all sky positions."""
VALUES = 1 << 25
"""Values, of templates times SFTs, that a GPU computes together; a CPU takes one template after the other."""


@host(points=kinds.row_as_table, progress=kinds.flag)
def track_power(data: NormalisedSFTs | SFTs, points: Doppler | QTable, *, progress: bool = True) -> NormalisedPower:
    """Compute the power of SFTs along the tracks of templates in time and frequency.

    The track of a template is its frequency at the detectors in the middle of each SFT. The normalised powers there are
    averaged with the weights that are best for signals of random orientation (Krishnan & Sintes 2007, LIGO-T070124)::

        power = sum_k w_k 2 |x_k|^2 / (Tsft S_k) / sum_k w_k,    w_k = (a_k^2 + b_k^2) / S_k

    over the SFTs k of all detectors, with the single-sided noise floor S and the antenna patterns a and b. In Gaussian
    noise the mean is 1 and the variance sum w^2 / (sum w)^2. A signal adds h0^2 Tsft (a^2 + b^2) / (5 S) to the power
    of an SFT, on average over its orientation, if its frequency is that of a bin and the SFT has no window; a window w
    leaves mean(w)^2 / mean(w^2) of that.

    No phase is followed from one SFT to the next. Templates may therefore lie far apart, and signals of binaries can be
    searched for over the whole sky (Tenorio, Merou & Sintes 2024, arXiv:2411.18370). `search` with `TrackPower`
    computes all frequencies of a band, in a fraction of the time for each.

    Parameters
    ----------
    data : NormalisedSFTs or SFTs
        From `normalise`, which says how the power at a frequency is computed and how the noise floor is estimated; SFTs
        are normalised with its defaults. Their band must hold all tracks.
    points : Doppler or table
        Templates, (...): isolated, in binaries, with a proper motion or with a phase model. A table has a row for each.
        Without a reference time of their own, theirs is the start of the SFTs.
    progress : bool
        Whether to show progress, with more templates than are computed at a time.

    Returns
    -------
    NormalisedPower

    Raises
    ------
    TypeError
        If an argument is of another kind.
    ValueError
        If a track leaves the band of the SFTs, or the noise floor of SFTs cannot be estimated.

    Examples
    --------
    >>> power = jfstat.track_power(jfstat.normalise(sfts), point)
    >>> power.critical_ratio.shape
    ()
    """
    if isinstance(data, SFTs):
        data = normalise(data)
    if not isinstance(data, NormalisedSFTs):
        raise TypeError(f"data must be NormalisedSFTs from jfstat.normalise, or SFTs, not {shown(data)}.")
    stack = stacked_bank(points, "points")
    check_all_possible(stack, "points")
    sums = sums_of(data, stack, progress).of_all
    outside = np.flatnonzero(np.isnan(sums.power))
    if len(outside):
        first, (low, high) = outside[0], data.edges
        ends = _ends(data, jax.tree.map(lambda x: x[first], stack))
        raise ValueError(
            f"points has {len(outside)} of {len(stack.alpha)} templates whose tracks leave the SFTs' band, in which "
            f"they may go from {low:.10g} to {high:.10g} Hz: number {first} goes from {ends[0]:.10g} to "
            f"{ends[1]:.10g} Hz. Give SFTs of a wider band."
        )
    shape = np.shape(points.alpha) if isinstance(points, Doppler) else np.shape(sums.power)
    return NormalisedPower(on_device(sums.mean.reshape(shape)), on_device(sums.deviation.reshape(shape)))


def _ends(data: NormalisedSFTs, point: Doppler) -> tuple[float, float]:
    """Return the lowest and highest frequency of a template's track, Hz."""
    frequency = np.asarray(track(data, sky_position(data, point), point, STEPS)[0])
    own = frequency[np.asarray(data.observation.weight) > 0]
    return own.min(), own.max()


class Sums(NamedTuple):
    """Sums over SFTs for n templates, (n, D) float64 ndarrays: of w times the power, of w, and of its square."""

    power: np.ndarray
    weight: np.ndarray
    weight2: np.ndarray

    @property
    def of_all(self) -> Sums:
        """Sums over the SFTs of all detectors, (n,) each."""
        return Sums(*(x.sum(axis=-1) for x in self))

    @property
    def mean(self) -> np.ndarray:
        """Weighted mean of the normalised power."""
        return self.power / self.weight

    @property
    def deviation(self) -> np.ndarray:
        """Its standard deviation in noise."""
        return np.sqrt(self.weight2) / self.weight


def kepler_steps(stack: Doppler) -> int:
    """Return the number of steps in which Kepler's equation is solved for all templates of a stack."""
    orbit = stack.orbit
    return 1 if orbit is None else steps_for(float(np.max(np.maximum(orbit.ecc, orbit_speed(orbit)))))


@partial(jax.jit, static_argnames=("steps", "batches"))
def _sums_at(
    columns: jax.Array, data: NormalisedSFTs, points: Doppler, steps: int, batches: Sequence[int | None]
) -> Sums:
    """Return the sums of templates at some sky positions, (positions, templates, D)."""

    def at(own: Doppler) -> Sums:
        sky = sky_position(data, jax.tree.map(lambda x: x[0], own))
        power = jax.lax.map(lambda point: power_sums(columns, data, sky, point, steps), own, batch_size=batches[1])
        weight, weight2 = jnp.sum(sky.weight, axis=-1), jnp.sum(sky.weight * sky.weight, axis=-1)
        return Sums(power, *(jnp.broadcast_to(x, power.shape) for x in (weight, weight2)))  # type: ignore[arg-type]

    return jax.lax.map(at, points, batch_size=batches[0])


def sums_of(data: NormalisedSFTs, stack: Doppler, progress: bool = False) -> Sums:
    """Return the sums of all templates of a stack. Templates at one sky position share what depends on it."""
    if not len(stack.alpha):
        return Sums(*(np.empty((0, len(data.detectors))) for _ in Sums._fields))
    rows = _by_sky(stack)
    n_values, many = data.motion.time.size, rows.shape[1]
    batches: tuple[int | None, int | None] = None, None  # a CPU takes one template after the other
    if next(iter(data.values.devices())).platform != "cpu":
        inner = max(1, min(many, VALUES // n_values))
        batches = max(1, VALUES // (n_values * inner)), inner
    steps, columns = kepler_steps(stack), jnp.moveaxis(data.values, -1, 0)
    bare = replace(data, values=jnp.zeros((0, 0, 0), data.values.dtype))
    n, at_once = len(stack.alpha), max(1, min(padded_size(len(rows), 1), AT_ONCE // many))
    found = Sums(*(np.empty((n, len(data.detectors))) for _ in Sums._fields))
    with progress_bar(len(rows) * many, progress and len(rows) > at_once, "tracks", "templates") as advance:
        for low in range(0, len(rows), at_once):
            # the last ones are repeated, so that one program serves all
            own = rows[np.minimum(np.arange(low, low + at_once), len(rows) - 1)]
            sums = _sums_at(columns, bare, jax.tree.map(lambda x, own=own: x[own], stack), steps, batches)
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
