"""How much of prepared data counts at each time once they are multiplied by a transient window; see `windowed`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.maths.arrays import module_for
from jfstat.signal.transientwindow import TransientWindow

Array = TypeVar("Array", jax.Array, np.ndarray)

LEAST_SLICES, MOST_SLICES = 256, 4096
"""Least and largest number of slices."""
PER_SFT = 4
"""Number of slices for each SFT of a detector, within the limits above: the same for all windows of the same data."""
LEAST_SHARE = 16
"""Each part of a window, its tapers and what is between them, has at least this fraction of the slices."""
WITHIN = 8
"""Number of pieces of a slice, in each of which the window counts as constant."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class WindowTimes:
    """The square of a transient window in slices of time, and the data's times and weights in these.

    Averages over SFTs are too coarse for windows of a few SFTs, or that cut an SFT.

    Attributes
    ----------
    edges : (n + 1,) float64
        Edges of the slices, s since the epoch: the window's ends, or one SFT beyond the data's.
    power : (n,) float64
        Mean square of the window in each slice.
    weight : (D, S) float64
        Noise weights of the SFTs without the window.
    time, share : (D, n) float64
        Mean time of the data in each slice, s since the epoch, and the sum of the noise weights there times the
        window's square and the covered fractions of the SFTs.
    """

    edges: jax.Array
    power: jax.Array
    weight: jax.Array
    time: jax.Array
    share: jax.Array

    @property
    def without_sfts(self) -> WindowTimes:
        """The same without the weights of SFTs, whose number is the data's."""
        return replace(self, weight=np.zeros((*np.shape(self.weight)[:-1], 0)))  # type: ignore[arg-type]

    def mean_power(self, time: Array, step: jax.Array | float) -> Array:
        """Return the mean square of the window over intervals of a length `step` around times, same shape, float64."""
        xp: Any = module_for(time, self.edges, self.power)
        upto = xp.append(0.0, xp.cumsum(self.power * xp.diff(self.edges)))
        low, high = (xp.interp(time + x * step, self.edges, upto) for x in (-0.5, 0.5))
        return (high - low) / step


def window_times(
    window: TransientWindow, epoch: int, start: np.ndarray, weight: np.ndarray, tsft: float
) -> WindowTimes | None:
    """Return how much of data counts at each time with a window, NumPy arrays; None if the window holds no data.

    Parameters
    ----------
    window : TransientWindow
        One window, concrete.
    epoch : int
        GPS time from which times count, s.
    start, weight : (D, S) float64
        SFTs' start times, s since the epoch, and noise weights, as an `Observation` has them.
    tsft : float
        Length of an SFT, s.
    """
    fine = _pieces(np.asarray(window.breaks) - epoch, start[weight > 0], tsft, start.shape[-1])
    if fine is None:
        return None
    square = np.asarray(window.mean(jnp.asarray(fine[:-1]), jnp.asarray(fine[1:]), epoch)) ** 2
    middle = 0.5 * (fine[1:] + fine[:-1]).reshape(-1, WITHIN)
    held = np.stack([np.diff(_weight_until(fine, *own, tsft)) * square for own in zip(start, weight, strict=True)])
    held = held.reshape(len(start), *middle.shape)
    share = np.sum(held, axis=-1)
    if not np.any(share):
        return None
    time = np.sum(held * middle, axis=-1) / np.where(share > 0, share, 1.0)
    return WindowTimes(
        edges=fine[::WITHIN],  # type: ignore[arg-type]
        power=np.mean(square.reshape(middle.shape), axis=-1),  # type: ignore[arg-type]
        weight=weight,  # type: ignore[arg-type]
        time=np.where(share > 0, time, np.mean(middle, axis=-1)),  # type: ignore[arg-type]
        share=share,  # type: ignore[arg-type]
    )


def _pieces(breaks: np.ndarray, there: np.ndarray, tsft: float, n_sfts: int) -> np.ndarray | None:
    """Return edges of the pieces of slices, ascending, for SFTs that start at times `there`; None outside of these.

    Data ring a little beyond the SFTs, so that the slices reach one SFT farther.
    """
    if not there.size:
        return None
    ends = np.unique(np.clip(breaks, np.min(there) - tsft, np.max(there) + 2 * tsft))
    if len(ends) < 2:
        return None
    n = int(np.clip(2 ** np.ceil(np.log2(PER_SFT * n_sfts)), LEAST_SLICES, MOST_SLICES))
    length = np.diff(ends)
    numbers = np.maximum(n * length / np.sum(length), n // LEAST_SHARE).astype(int)
    numbers[np.argmax(numbers)] += n - np.sum(numbers)
    parts = [np.linspace(*own, WITHIN * number + 1)[:-1] for own, number in zip(pairwise(ends), numbers, strict=True)]
    return np.concatenate([*parts, ends[-1:]])


def _weight_until(time: np.ndarray, start: np.ndarray, weight: np.ndarray, tsft: float) -> np.ndarray:
    """Return the sum of the weights of one detector's SFTs up to some times, an SFT in part by its fraction."""
    start, weight = start[weight > 0], weight[weight > 0]
    if not len(start):
        return np.zeros(len(time))
    known = np.stack([start, start + tsft], axis=-1).reshape(-1)
    total = np.cumsum(weight)
    return np.interp(time, known, np.stack([total - weight, total], axis=-1).reshape(-1))
