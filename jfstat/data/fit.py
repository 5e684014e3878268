"""Checks whether a template fits prepared data: raises an error for concrete values, returns a flag for traced ones."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.core
import jax.numpy as jnp

from jfstat.geometry.doppler import EARTH_SPEED, at_detector, doppler_speed
from jfstat.geometry.orbit import cubic_error
from jfstat.templates import Doppler

if TYPE_CHECKING:
    from jfstat.data.fstatdata import FstatData

COARSE = 1e-3
"""Phase error in cycles of an orbit's timing blocks at which a template is refused."""


class Fit(NamedTuple):
    """By how much a template fails to fit the data; each () and positive, or at most 0 if it fits.

    Attributes
    ----------
    below, above : float64
        How far the signal at any time lies beyond the low and the high edge of the band, Hz.
    orbit : float64
        The same with the orbit's Doppler shift; for a whole band, of its central frequency.
    coarse : float64
        Phase error of the orbit's timing blocks beyond what is allowed, cycles.
    """

    below: jax.Array
    above: jax.Array
    orbit: jax.Array
    coarse: jax.Array


@partial(jax.jit, static_argnames="band")
def fit(data: FstatData, point: Doppler, band: bool) -> Fit:
    """How a template fits the data, at its own frequency or, with `band`, at all frequencies of the band.

    The pass band has room for the Earth's Doppler shifts at any sky position.
    """
    numbers, observation = data.band, data.observation
    low = numbers.fmin if band else point.fkdot[0]
    high = low + (data.layout.n_frequencies - 1) * numbers.dfreq if band else low
    drift_low, drift_high = observation.drift(point)
    edge_low, edge_high = numbers.pass_low - numbers.slack, numbers.pass_high + numbers.slack
    lowest, highest = at_detector(low + drift_low, high + drift_high, EARTH_SPEED)
    below, above = edge_low - lowest, highest - edge_high
    if point.orbit is None:
        return Fit(below, above, jnp.full_like(below, -jnp.inf), jnp.full_like(below, -jnp.inf))
    centre = 0.5 * (low + high)
    lowest, highest = at_detector(centre + drift_low, centre + drift_high, doppler_speed(point.orbit))
    error = cubic_error(point.orbit, high, data.layout.block_orbit * numbers.dtau)
    return Fit(below, above, jnp.maximum(edge_low - lowest, highest - edge_high), error - COARSE)


def check_fit(data: FstatData, point: Doppler, band: bool) -> None:
    """Raise a ValueError if a template does not fit the data; traced values are not checked, see `FstatData.fits`."""
    if any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves((data.band, data.observation, point))):
        return
    own = data if band else data.for_one_template
    with jax.ensure_compile_time_eval():  # under an outer jit, constants stay constants
        below, above, orbit, coarse = (float(x) for x in fit(own, point, band))
    if max(below, above, orbit, coarse) <= 0:
        return
    edges = f"{float(data.band.pass_low):.6f} to {float(data.band.pass_high):.6f} Hz"
    what = "the band" if band else f"point.fkdot[0]={float(point.fkdot[0])} Hz"
    if max(below, above) > 0:
        raise ValueError(
            f"{what}, with the spin-down during the data and the Earth's Doppler shifts, lies outside the data's band "
            f"of {edges} by {max(below, above):.3g} Hz: prepare with a wider band, fdots= or this reference time."
        )
    if orbit > 0:
        raise ValueError(
            f"the orbit's Doppler shift leaves the data's band of {edges} by {orbit:.3g} Hz: prepare with orbit= "
            "or a wider fmin and fmax."
        )
    seconds = data.layout.block_orbit * float(data.band.dtau)
    raise ValueError(
        f"the orbit turns too fast for the data's timing blocks of {seconds:.3g} s, by {coarse:.2g} cycles: prepare "
        "with orbit= this one."
    )
