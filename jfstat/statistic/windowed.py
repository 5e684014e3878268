"""Multiply prepared data by a transient window, so that their 2F is the matched filter of the transient signal."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jfstat import kinds
from jfstat.data.checks import check_data
from jfstat.data.fstatdata import FstatData
from jfstat.data.observation import Observation, weighted
from jfstat.data.slices import slice_moments
from jfstat.data.windowtimes import window_times
from jfstat.maths.arrays import any_traced, on_device
from jfstat.public import public
from jfstat.signal.transientwindow import TransientWindow, tapered_mean, window_mean

STEPS = 256
"""Number of slices of a window that is not constant, each of which has its mean square in the antenna matrix."""
PARTS = 64
"""Number of parts of an SFT in each of which a window without taper counts as constant."""
TAPERED_STEPS = 1024
"""Number of slices of each part of a tapered window, of which it has three or five."""


class EmptyWindow(ValueError):
    """Error for a window that holds no data."""


@public(window=kinds.instance(TransientWindow))
def windowed(data: FstatData, window: TransientWindow) -> FstatData:
    """Return prepared data times a transient window, so that their 2F is the matched filter for this window.

    Each sample is multiplied by the window g and each noise weight by g^2: `twoF` of the result is `transient_twoF` of
    the data. `refine`, `estimate_amplitude`, `metric`, `predict_twoF` and all others then describe the transient
    signal: Doppler parameters as well as the window resolves them, and the amplitude during the window.

    Parameters
    ----------
    data : FstatData
        Not changed; without segments.
    window : TransientWindow
        One window.

    Returns
    -------
    FstatData
        With the time span, the mid-time and the frequencies of `data`.

    Raises
    ------
    TypeError
        If an argument is of another kind.
    ValueError
        If `window` is a stack or holds no data, if `data` are windowed already, or if an argument is traced.
    """
    check_data(data)
    _refuse_traced(data.band)
    own = observation_within(data.observation, window)
    epoch = int(own.epoch)
    t = float(data.band.start) + float(data.band.dt) * np.arange(data.series.shape[-1])
    half = 0.5 * float(data.band.dt)
    g = np.asarray(window.mean(jnp.asarray(t - half), jnp.asarray(t + half), epoch))
    factor = jnp.asarray(g, jnp.float32)
    return replace(
        data,
        observation=own,
        series=data.series * factor.astype(data.series.dtype)[None],
        filters=tuple(_times(x, factor, data.layout.padding) for x in data.filters),
    )


def observation_within(observation: Observation, window: TransientWindow) -> Observation:
    """Return an observation with the noise weights, and moments of these, of a transient signal; see `windowed`.

    Raises
    ------
    EmptyWindow
        If the window holds no data.
    ValueError
        If it is a stack, or an argument is traced.
    """
    _refuse_traced((observation, window))
    with jax.ensure_compile_time_eval():  # under an outer jit, constants stay constants
        return _observation_within(observation, window)


def _observation_within(observation: Observation, window: TransientWindow) -> Observation:
    if np.ndim(window.t0):
        raise ValueError(f"window has shape {np.shape(window.t0)}, but one is wanted: take one of the stack.")
    epoch, tsft = int(observation.epoch), float(observation.tsft)
    edges, square = _sharp_steps(window, epoch) if window.taper is None else _tapered_steps(window, epoch)
    moments = slice_moments(observation, [edges] * len(observation.detectors))[:, 1:-1]
    moments = np.einsum("dkij,k->dij", moments, square)
    if not np.any(moments):
        raise EmptyWindow("window holds no data: choose t0 and tau within the data's span.")
    start, weight = np.asarray(observation.start), np.asarray(observation.weight)
    inverse = None if observation.sinv_tsft is None else float(observation.sinv_tsft) / tsft
    own = weighted(observation, list(weight * _mean_square_of_sfts(window, start, tsft, epoch)), inverse)
    times = window_times(window, epoch, start, weight, tsft)
    return replace(own, moments=on_device(moments), window=jax.device_put(times))


def _mean_square_of_sfts(window: TransientWindow, start: np.ndarray, tsft: float, epoch: int) -> np.ndarray:
    """Return the mean square of a window over SFTs, parts of which may be outside, same shape as `start`."""
    if window.taper is not None:
        return _mean_square(window, start, start + tsft, epoch)
    if window.shape == "rectangular":  # whose square is itself
        return np.asarray(window.mean(jnp.asarray(start), jnp.asarray(start + tsft), epoch))
    edges = jnp.asarray(start[..., None] + tsft * np.arange(PARTS + 1) / PARTS)
    return np.mean(np.asarray(window.mean(edges[..., :-1], edges[..., 1:], epoch)) ** 2, axis=-1)


def _sharp_steps(window: TransientWindow, epoch: int) -> tuple[np.ndarray, np.ndarray]:
    """Return edges of slices, s since the epoch, and the square of the window's mean in each."""
    steps = 1 if window.shape == "rectangular" else STEPS
    edges = float(window.t0) - epoch + window.end * float(window.tau) * np.arange(steps + 1) / steps
    low = jnp.asarray(window.end * np.arange(steps) / steps)
    return edges, np.asarray(window_mean(window.shape, window.end, low, low + window.end / steps)) ** 2


def _tapered_steps(window: TransientWindow, epoch: int) -> tuple[np.ndarray, np.ndarray]:
    """Return edges of slices, s since the epoch, and the mean square of a tapered window in each."""
    breaks = np.asarray(window.breaks) - epoch
    # the mean square says all of a slice in which antenna patterns hardly vary
    parts = [np.linspace(a, b, TAPERED_STEPS, endpoint=False) for a, b in pairwise(breaks)]
    edges = np.concatenate([*parts, breaks[-1:]])
    return edges, _mean_square(window, edges[:-1], edges[1:], epoch)


def _mean_square(window: TransientWindow, low: ArrayLike, high: ArrayLike, epoch: int) -> np.ndarray:
    """Return the mean square of a tapered window over intervals, s since the epoch."""
    first, last = ((jnp.asarray(x) - (window.t0 - epoch)) / window.tau for x in (low, high))
    width = jnp.asarray(window.taper) / window.tau
    return np.asarray(tapered_mean(window.shape, window.end, width, first, last, power=2))


def _refuse_traced(tree: object) -> None:
    if any_traced(tree):
        raise ValueError("data and window must not be traced: noise weights follow from them on the host.")


def _times(filtered: jax.Array, factor: jax.Array, padding: int) -> jax.Array:
    """Multiply a filtered series, (P, 2, N'), by a factor for each of the N samples between the padding."""
    n = min(filtered.shape[-1] - padding, factor.shape[0])
    whole = jnp.zeros(filtered.shape[-1], filtered.dtype).at[padding : padding + n].set(factor[:n])
    return filtered * whole[None, None]
