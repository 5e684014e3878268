"""Checks of `twoF_band`, `resample` and searches that data and templates suit the resampled band."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.fstatdata import FstatData
from jfstat.signal.templates import Doppler
from jfstat.statistic.resample import Resampled, block_and_run


def nan_unless_fit(data: FstatData, point: Doppler) -> jax.Array:
    """1, or NaN for a template whose band does not fit; a factor that makes results and their gradients NaN."""
    return jnp.where(data.fits(point, band=True), 1.0, jnp.nan)


def check_filters(data: FstatData) -> None:
    """Raise a ValueError unless the data hold the interpolation filters that resampling needs."""
    if not data.filters:
        raise ValueError(
            "data hold no interpolation filters, left out or too large for the device's memory: use jfstat.search, "
            "which takes the band in parts, or prepare with filters, or a narrower band."
        )


def check_series(data: FstatData, point: Doppler, series: object) -> None:
    """Raise an error unless a resampled series suits the data and the template."""
    if not isinstance(series, Resampled):
        raise TypeError(f"series must come from jfstat.resample, not {type(series).__name__}.")
    block, run = block_and_run(data.layout, point)
    shape = (data.layout.n_blocks * data.layout.block // block, block // run, run)
    if any(np.shape(x) != shape for x in series):
        raise ValueError(
            f"series has shape {np.shape(series.a)}, but this template needs {shape}: resample the same data at the "
            "same sky position and orbit."
        )
