"""Multiply prepared data by a transient window, so that their 2F is the matched filter of the transient signal."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from jfstat import kinds
from jfstat.data.checks import check_data
from jfstat.data.fstatdata import FstatData
from jfstat.data.newseries import with_series
from jfstat.data.observation import Observation, weighted
from jfstat.data.slices import slice_moments
from jfstat.data.windowtimes import window_times
from jfstat.maths.arrays import any_traced, on_device
from jfstat.public import public
from jfstat.signal.transientwindow import TransientWindow


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
    # what the low-pass of earlier or later SFTs leaves in the window counts only beside a detector's own SFTs there
    factors = jnp.asarray(g * np.asarray(own.has_data)[:, None], jnp.float32)
    return replace(with_series(data, data.series * factors.astype(data.series.dtype)), observation=own)


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
    start, weight = np.asarray(observation.start), np.asarray(observation.weight)
    times = window_times(window, epoch, start, weight, tsft)
    if times is None:
        raise EmptyWindow("window holds no data: choose t0 and tau within the data's span.")
    each = slice_moments(observation, [np.asarray(times.edges)] * len(observation.detectors))[:, 1:-1]
    moments = np.einsum("dkij,k->dij", each, times.power)
    inverse = None if observation.sinv_tsft is None else float(observation.sinv_tsft) / tsft
    own = weighted(observation, list(weight * times.mean_power(start + 0.5 * tsft, tsft)), inverse)
    return replace(own, moments=on_device(moments), window=jax.device_put(times))


def _refuse_traced(tree: object) -> None:
    if any_traced(tree):
        raise ValueError("data and window must not be traced: noise weights follow from them on the host.")
