"""Whether a template fits the data: checked on concrete values, before anything is traced."""

from __future__ import annotations

from typing import Any

import jax
import jax.core
import numpy as np

from jfstat.data.fstatdata import FstatData
from jfstat.geometry.orbit import cubic_error, orbit_speed
from jfstat.templates import Doppler
from jfstat.validation import require_x64

COARSE = 1e-3
"""Phase error in cycles of an orbit's timing blocks at which a template is refused."""


def check_data(data: Any) -> None:
    """Raise a ValueError unless `data` is an FstatData and 64-bit mode is on."""
    require_x64()
    if not isinstance(data, FstatData):
        kind = type(data).__name__
        raise ValueError(f"data must be FstatData from jfstat.prepare, not {kind}: prepare the SFTs first.")


def check_point(data: FstatData, point: Any, band: bool = False) -> None:
    """Raise a ValueError if a template cannot belong to the data; tracers are not looked into.

    Parameters
    ----------
    data : FstatData
    point : Doppler
    band : bool
        For the whole band: the template's own frequency does not matter.
    """
    if not isinstance(point, Doppler):
        kind = type(point).__name__
        raise ValueError(f"point must be a jfstat.Doppler, not {kind}: build one from alpha, delta and fkdot.")
    leaves = [("alpha", point.alpha, 0), ("delta", point.delta, 0), ("fkdot", point.fkdot, 1)]
    if point.orbit is not None:
        leaves += [(n, getattr(point.orbit, n), 0) for n in ("asini", "period", "tp", "ecc", "argp")]
    for name, leaf, ndim in leaves:
        if np.ndim(leaf) != ndim:
            raise ValueError(
                f"point.{name} has shape {np.shape(leaf)}, but a single template is wanted: "
                "use jax.vmap(function, (None, 0))(data, points) for a stack."
            )
    if any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves((data.band, point))):
        return
    with jax.ensure_compile_time_eval():  # under an outer jit, constants stay constants
        _check_values(data, point, band)


def _check_values(data: FstatData, point: Doppler, band: bool) -> None:
    low, high = float(data.band.pass_low), float(data.band.pass_high)
    f = float(data.band.f_centre) if band else float(point.fkdot[0])
    if not low <= f <= high:
        raise ValueError(
            f"point.fkdot[0]={f} Hz lies outside the data's band of {low:.6f} to {high:.6f} Hz: prepare data around it."
        )
    if point.orbit is not None:
        reach = f * float(orbit_speed(point.orbit))
        if f - reach < low or f + reach > high:
            raise ValueError(
                f"the orbit's Doppler shift of {reach:.4g} Hz at {f:.6f} Hz leaves the data's band of {low:.6f} to "
                f"{high:.6f} Hz: prepare with orbit= or a wider fmin and fmax."
            )
        seconds = data.layout.block_orbit * float(data.band.dtau)
        if float(cubic_error(point.orbit, f, seconds)) > COARSE:
            raise ValueError(
                f"the orbit of period {float(point.orbit.period):.6g} s turns too fast for the data's timing blocks of "
                f"{seconds:.3g} s: prepare with orbit= this one."
            )
