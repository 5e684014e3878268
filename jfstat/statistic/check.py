"""Whether a template fits the data: said in a ValueError for concrete values, and by NaN where they are traced."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from jfstat.data.fstatdata import FstatData
from jfstat.data.narrowdata import NarrowData
from jfstat.data.nearby import covers
from jfstat.data.timing import reference_offset
from jfstat.geometry.barycenter import DOPPLER
from jfstat.geometry.orbit import cubic_error, orbit_speed
from jfstat.geometry.source import spin_drift
from jfstat.statistic.resample import Resampled, block_and_run
from jfstat.templates import AMPLITUDE_FIELDS, ORBIT_FIELDS, Amplitude, Doppler
from jfstat.validation import require_x64

COARSE = 1e-3
"""Phase error in cycles of an orbit's timing blocks at which a template is refused."""


class Fit(NamedTuple):
    """How a template lies in the data; each () and positive, or at most 0 where it fits.

    Attributes
    ----------
    below, above : float64
        How far the signal goes beyond the low and the high edge of the band at some time of the data, Hz.
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
    """How a template lies in the data; for the frequency of the template, or for all of the band's.

    Whatever the sky position, the pass band has room for the Earth's Doppler shifts.
    """
    numbers = data.band
    low = numbers.fmin if band else point.fkdot[0]
    high = low + (data.layout.n_frequencies - 1) / (2 * numbers.dtau * data.layout.n_fft) if band else low
    half = 0.5 * numbers.dtau * data.layout.n_fft
    times = jnp.stack([numbers.middle - half, numbers.middle, numbers.middle + half]) - reference_offset(data, point)
    drift = spin_drift(point.fkdot, times)
    f_low, f_high = low + jnp.min(drift), high + jnp.max(drift)
    edge_low, edge_high = numbers.pass_low - numbers.slack, numbers.pass_high + numbers.slack
    below, above = edge_low - f_low * (1 - DOPPLER), f_high * (1 + DOPPLER) - edge_high
    if point.orbit is None:
        return Fit(below, above, jnp.full_like(below, -jnp.inf), jnp.full_like(below, -jnp.inf))
    speed = orbit_speed(point.orbit)
    centre = 0.5 * (low + high)
    first, last = centre + jnp.min(drift), centre + jnp.max(drift)
    reach = jnp.maximum(edge_low - first * (1 - DOPPLER - speed), last * (1 + DOPPLER + speed) - edge_high)
    error = cubic_error(point.orbit, high, data.layout.block_orbit * numbers.dtau)
    return Fit(below, above, reach, error - COARSE)


def nan_unless_fit(data: FstatData | NarrowData, point: Doppler, band: bool = False) -> jax.Array:
    """1, or NaN for a template that does not fit, to multiply results with: their gradients are then NaN as well."""
    if isinstance(data, NarrowData):  # whose Fa and Fb are NaN themselves
        return jnp.ones(())
    return jnp.where(jnp.max(jnp.stack(fit(data, point, band))) <= 0, 1.0, jnp.nan)


def covered_bins(data: FstatData, point: Doppler) -> tuple[jax.Array, jax.Array]:
    """First and last bin of the band that a template leaves inside the pass band, () int32; all without an orbit."""
    last_bin = data.layout.n_frequencies - 1
    if point.orbit is None:
        return jnp.asarray(0, jnp.int32), jnp.asarray(last_bin, jnp.int32)
    numbers = data.band
    spacing = 0.5 / (numbers.dtau * data.layout.n_fft)
    speed = orbit_speed(point.orbit)
    low = (numbers.pass_low - numbers.slack) / (1 - DOPPLER - speed)
    high = (numbers.pass_high + numbers.slack) / (1 + DOPPLER + speed)
    first, last = jnp.ceil((low - numbers.fmin) / spacing), jnp.floor((high - numbers.fmin) / spacing)
    return jnp.clip(first, 0, last_bin + 1).astype(jnp.int32), jnp.clip(last, -1, last_bin).astype(jnp.int32)


def check_data(data: Any, or_narrow: bool = False) -> None:
    """Raise a ValueError unless `data` is an FstatData, or NarrowData where they will do, and 64-bit mode is on."""
    require_x64()
    if or_narrow and isinstance(data, NarrowData):
        return
    if not isinstance(data, FstatData):
        kind = type(data).__name__
        raise ValueError(f"data must be FstatData from jfstat.prepare, not {kind}: prepare the SFTs first.")


def check_bank(data: FstatData) -> None:
    """Raise a ValueError unless the data hold the interpolation bank that resampling needs."""
    if not data.bank:
        raise ValueError(
            "data holds no interpolation bank, left out or too large for the device's memory: use jfstat.search, which "
            "takes the band in parts, or prepare with one, or a narrower band."
        )


def check_series(data: FstatData, point: Doppler, series: Any) -> None:
    """Raise a ValueError unless a resampled series is of this data and this kind of template."""
    if not isinstance(series, Resampled):
        raise ValueError(f"series must come from jfstat.resample, not {type(series).__name__}.")
    block, run = block_and_run(data.layout, point)
    shape = (data.layout.n_blocks * data.layout.block // block, block // run, run)
    if any(np.shape(x) != shape for x in series):
        raise ValueError(
            f"series has shape {np.shape(series.a)}, but this template needs {shape}: resample the same data at the "
            "same sky position and orbit."
        )


def check_scalars(kind: type, name: str, value: Any, fields: dict[str, int]) -> None:
    """Raise a ValueError unless a template is of its kind and single; `fields` has the dimensions of each."""
    if not isinstance(value, kind):
        raise ValueError(f"{name} must be a jfstat.{kind.__name__}, not {type(value).__name__}: build one first.")
    for field, ndim in fields.items():
        leaf = getattr(value, field)
        if np.ndim(leaf) != ndim:
            raise ValueError(
                f"{name}.{field} has shape {np.shape(leaf)}, but a single template is wanted: "
                "use jax.vmap(function, (None, 0))(data, points) for a stack."
            )


def check_template(name: str, value: Any) -> None:
    """Raise a ValueError unless a value is one template, with scalar fields."""
    check_scalars(Doppler, name, value, {"alpha": 0, "delta": 0, "fkdot": 1})
    if value.orbit is not None:
        check_scalars(type(value.orbit), f"{name}.orbit", value.orbit, dict.fromkeys(ORBIT_FIELDS, 0))


def check_amplitude(value: Any) -> None:
    """Raise a ValueError unless a value is one signal's amplitude, with scalar fields."""
    check_scalars(Amplitude, "amplitude", value, dict.fromkeys(AMPLITUDE_FIELDS, 0))


def check_point(data: FstatData | NarrowData, point: Any, band: bool = False) -> None:
    """Raise a ValueError if a template cannot belong to the data; traced values are left to `nan_unless_fit`.

    Parameters
    ----------
    data : FstatData or NarrowData
    point : Doppler
    band : bool
        For the whole band: the template's own frequency does not matter.
    """
    check_template("point", point)
    if isinstance(data, NarrowData):
        _check_reach(data, point)
        return
    if any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves((data.band, point))):
        return
    with jax.ensure_compile_time_eval():  # under an outer jit, constants stay constants
        below, above, orbit, coarse = (float(x) for x in fit(data, point, band))
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


def _check_reach(data: NarrowData, point: Doppler) -> None:
    """Raise a ValueError if a template cannot belong to narrow data."""
    if (point.orbit is None) != (data.centre.orbit is None):
        raise ValueError("point and the centre of the narrow data must both have an orbit, or none: make others.")
    if any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves((data, point))):
        return
    with jax.ensure_compile_time_eval():
        covered = bool(covers(data, point))
    if not covered:
        raise ValueError(
            f"point lies out of reach of the narrow data: its frequency leaves the centre's by more than some "
            f"{float(data.reach):.3g} Hz; call jfstat.narrow around it, or with a larger reach."
        )
