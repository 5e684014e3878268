"""Put other samples into prepared data."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp

from jfstat.data.band import filtered_series
from jfstat.data.fstatdata import FstatData


def with_series(data: FstatData, series: jax.Array) -> FstatData:
    """Return data of one segment with other samples, and with their filters if the data have any.

    Parameters
    ----------
    data : FstatData
    series : (D, N) complex64
        As ``data.series``; not traced.
    """
    layout = data.layout
    if not data.filters:
        return replace(data, series=series)
    # the program with which `prepare` made the filters
    spectra = (jnp.fft.fft(own[: layout.n_band].astype(jnp.complex128)) for own in series)
    made = [filtered_series(own, data.band.reach, layout.terms, layout.padding)[1] for own in spectra]
    return replace(data, series=series, filters=tuple(made))
