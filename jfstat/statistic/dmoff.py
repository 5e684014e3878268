"""Compute 2F without Doppler modulation, which is large for instrumental lines and small for signals."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.compileroptions import NO_EMITTERS, jit_with
from jfstat.data.checks import check_data, check_point
from jfstat.data.fstatdata import FstatData
from jfstat.geometry.trajectory import Trajectory
from jfstat.lines.doppler import detector_range, frequency_nodes
from jfstat.maths.arrays import any_traced
from jfstat.maths.lengths import smooth_length
from jfstat.public import public
from jfstat.signal.templates import Doppler, template
from jfstat.statistic.combine import AntennaMatrix, antenna_matrix, total_matrix, two_f

MARGIN = 2.0
"""Number of bins of 1/T beyond the template's frequencies in the detectors' frame that are searched too."""


@public(point=template)
def dm_off_twoF(data: FstatData, point: Doppler) -> jax.Array:
    """Compute the largest 2F near a template if neither Earth, source nor spin-down shifted the frequency.

    A line has a constant frequency in the detector's frame: with the Doppler modulation switched off the 2F of a line
    grows, while the 2F of a signal falls (Zhu, Papa & Walsh 2017, Phys. Rev. D 96, 124007, "DM-off"). Here the largest
    value is taken over all frequencies that the template has at the detectors during the data, and over all detectors
    together and each alone, since a line is usually in one. A candidate for which it exceeds 2F is likely a line; for
    weak candidates the result is the largest of as many values of noise as there are frequencies.

    Parameters
    ----------
    data : FstatData
        ``prepare(..., filters=False)`` is enough.
    point : Doppler or Row
        One template, scalar fields, concrete.

    Returns
    -------
    () float32

    Raises
    ------
    TypeError
        If `data` or `point` is of another kind.
    ValueError
        As `twoF`, or if an argument is traced.

    Examples
    --------
    >>> round(float(jfstat.dm_off_twoF(data, point)))
    31
    """
    check_data(data)
    check_point(data, point)
    if any_traced(data.observation, point):
        raise ValueError("data and point must not be traced: call dm_off_twoF outside of transformations.")
    nodes = jnp.asarray(np.linspace(0.0, 1.0, frequency_nodes(data.observation, point)))
    return _dm_off(data.for_one_template, point, nodes, smooth_length(2 * data.series.shape[-1]))


@jit_with(NO_EMITTERS, static_argnames="n_fft")
def _dm_off(data: FstatData, point: Doppler, nodes: jax.Array, n_fft: int) -> jax.Array:
    band, observation = data.band, data.observation
    source = observation.source(point)
    t = band.start + band.dt * jnp.arange(data.series.shape[-1], dtype=jnp.float64)

    def spectra(detector: tuple[jax.Array, Trajectory, jax.Array]) -> tuple[jax.Array, jax.Array]:
        series, trajectory, response = detector
        patterns = source.patterns(response, trajectory.sidereal(t))
        fa, fb = (jnp.fft.fft(series * (band.dt * x).astype(series.dtype), n_fft) for x in patterns)
        return fa, fb

    fa, fb = jax.lax.map(spectra, (data.series, observation.trajectory, observation.response))
    matrix = antenna_matrix(observation, point)
    each = two_f(fa, fb, AntennaMatrix(*(x[:, None] for x in matrix)))
    together = two_f(jnp.sum(fa, axis=0), jnp.sum(fb, axis=0), total_matrix(matrix))
    low, high = detector_range(observation, point, nodes)
    margin = MARGIN / observation.tspan
    frequency = band.heterodyne + jnp.asarray(np.fft.fftfreq(n_fft)) / band.dt
    inside = (frequency >= jnp.min(low) - margin) & (frequency <= jnp.max(high) + margin)
    largest = jnp.maximum(jnp.max(each, axis=0), together)
    return jnp.max(jnp.where(inside, largest, 0.0))
