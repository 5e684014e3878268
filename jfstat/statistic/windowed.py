"""Multiply prepared data by a transient window, so that their 2F is the matched filter of the transient signal."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from jfstat import kinds
from jfstat.data.checks import check_data
from jfstat.data.fstatdata import FstatData
from jfstat.data.observation import weighted
from jfstat.data.slices import slice_moments
from jfstat.maths.arrays import on_device
from jfstat.public import public
from jfstat.signal.transientwindow import TransientWindow, window_mean

STEPS = 256
"""Number of slices of a window that is not constant, each of which has its mean square in the antenna matrix."""


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
        If `window` is a stack or holds no data, or if an argument is traced.
    """
    check_data(data)
    if any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves((data.observation, data.band, window))):
        raise ValueError("data and window must not be traced: noise weights follow from them on the host.")
    if np.ndim(window.t0):
        raise ValueError(f"window has shape {np.shape(window.t0)}, but one is wanted: take one of the stack.")
    observation = data.observation
    epoch, tsft = int(observation.epoch), float(observation.tsft)
    t = float(data.band.start) + float(data.band.dt) * np.arange(data.series.shape[-1])
    half = 0.5 * float(data.band.dt)
    g = np.asarray(window.mean(jnp.asarray(t - half), jnp.asarray(t + half), epoch))
    steps = 1 if window.shape == "rectangular" else STEPS
    edges = float(window.t0) - epoch + window.end * float(window.tau) * np.arange(steps + 1) / steps
    low = jnp.asarray(window.end * np.arange(steps) / steps)
    square = np.asarray(window_mean(window.shape, window.end, low, low + window.end / steps)) ** 2
    moments = slice_moments(observation, [edges] * len(data.detectors))[:, 1:-1]
    moments = np.einsum("dkij,k->dij", moments, square)
    if not np.any(moments):
        raise EmptyWindow("window holds no data: choose t0 and tau within the data's span.")
    starts = jnp.asarray(observation.start)
    covered = np.asarray(window.mean(starts, starts + tsft, epoch))
    # the mean square over an SFT; part of it may be outside a constant window
    weights = np.asarray(observation.weight) * (covered if steps == 1 else covered**2)
    inverse = None if observation.sinv_tsft is None else float(observation.sinv_tsft) / tsft
    own = replace(weighted(observation, list(weights), inverse), moments=on_device(moments))
    factor = jnp.asarray(g, jnp.float32)
    return replace(
        data,
        observation=own,
        series=data.series * factor.astype(data.series.dtype),
        filters=tuple(_times(x, factor, data.layout.padding) for x in data.filters),
    )


def _times(filtered: jax.Array, factor: jax.Array, padding: int) -> jax.Array:
    """Multiply a filtered series, (P, 2, N'), by a factor for each of the N samples between the padding."""
    n = min(filtered.shape[-1] - padding, factor.shape[0])
    whole = jnp.zeros(filtered.shape[-1], filtered.dtype).at[padding : padding + n].set(factor[:n])
    return filtered * whole
