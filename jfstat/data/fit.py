"""Check whether a template fits prepared data: raise an error for concrete values, return a flag for traced ones."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.compileroptions import NO_TRIALS, jit_with
from jfstat.data.bandseries import STATIC, Band
from jfstat.data.blocks import NODES, cubic
from jfstat.data.observation import Observation
from jfstat.data.protocol import Prepared
from jfstat.geometry.doppler import EARTH_SPEED, at_detector, doppler_speed
from jfstat.geometry.orbit import cubic_error
from jfstat.geometry.trajectory import Trajectory
from jfstat.maths.arrays import LEAST, any_traced
from jfstat.maths.chebyshev import nodes
from jfstat.signal.phasemodel import PhaseModel
from jfstat.signal.possible import check_possible, physical
from jfstat.signal.templates import Doppler

COARSE = 1e-3
"""Phase error in cycles of the timing blocks of an orbit or a phase model above which a template is refused; 2F is then
about 4e-5 too low.
"""
CHECKED = np.array([-0.98, -0.71, -0.5, -0.17, 0.13, 0.55, 0.77, 1.0])
"""Positions u in [-1, 1] of a block, away from the nodes, at which its cubic is compared with a phase model."""
MOST_BLOCKS = 8192
"""Largest number of blocks that are checked, spread over the data."""


class Fit(NamedTuple):
    """Amounts by which a template fails to fit the data, each () and positive, or at most 0 if it fits.

    Attributes
    ----------
    below, above : float64
        How far the signal at any time lies beyond the low and the high edge of the band, Hz.
    orbit : float64
        How far the signal, with the orbit's Doppler shift, lies beyond the band, Hz; for a whole band, at its central
        frequency.
    coarse : float64
        Phase error of the orbit's timing blocks beyond what is allowed, cycles.
    model : float64
        Phase error of the timing blocks from the user's phase model beyond what is allowed, cycles, root mean square
        over the data; infinite if the model is.
    impossible : float64
        1 if no signal can have the template's parameters, see `possible.physical`, and 0 otherwise.
    """

    below: jax.Array
    above: jax.Array
    orbit: jax.Array
    coarse: jax.Array
    model: jax.Array
    impossible: jax.Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class _Allowed:
    """Limits that decide whether templates fit data, without sizes: data of all lengths and detectors share programs.

    Attributes
    ----------
    band : Band
    observation : Observation
        Without detectors and times of SFTs.
    spacings : () int64
        Number of spacings between the band's first and last frequency.
    samples : () int64
        Samples of a timing block of the templates.
    n_blocks : int, static
        Blocks at which a phase model is checked; 0 for templates without one.
    """

    band: Band
    observation: Observation
    spacings: np.int64
    samples: np.int64
    n_blocks: int = field(metadata=STATIC)

    @property
    def width(self) -> jax.Array:
        """Width of the band from its first to its last frequency, Hz."""
        return self.band.dfreq * jnp.asarray(self.spacings).astype(jnp.float64)

    @property
    def block(self) -> jax.Array:
        """Length of the templates' timing blocks, s."""
        return self.band.dtau * jnp.asarray(self.samples).astype(jnp.float64)


def _allowed(data: Prepared, points: Doppler) -> _Allowed:
    """Return what the data allow templates like `points`, one or a stack."""
    layout, samples = data.layout, data.layout.block_of(points.orbit is not None)
    none = np.zeros(0)
    bare = replace(
        data.observation,
        trajectory=Trajectory(none, none),  # type: ignore[arg-type]
        start=none,  # type: ignore[arg-type]
        weight=none,
        response=none,
        moments=none,
        detectors=(),
        ephemeris="",
    )
    n_blocks = 0 if points.model is None else data.series.shape[-1] // samples
    return _Allowed(data.band, bare, np.int64(layout.n_frequencies - 1), np.int64(samples), n_blocks)


def fit(data: Prepared, point: Doppler, band: bool) -> Fit:
    """Return how a template fits the data, at its own frequency or, with `band`, at all frequencies of the band.

    The pass band has room for the Earth's Doppler shifts at any sky position.
    """
    return _fit(_allowed(data, point), point, band)


def fit_each(data: Prepared, points: Doppler, band: bool) -> Fit:
    """Return how each of a stack of templates fits the data, as `fit` does for one; fields (n,)."""
    return _fit_each(_allowed(data, points), points, band)


def beyond_band(data: Prepared, points: Doppler) -> jax.Array:
    """Return how far each of a stack of templates lies beyond what the data allow at all frequencies of the band.

    The result, (n,), is not positive for a template that fits.
    """
    return _beyond_band(_allowed(data, points), points)


def fits(data: Prepared, point: Doppler, band: bool = False) -> jax.Array:
    """Return whether a template fits the data at its own frequency or, with `band`, at all of the band's; () bool."""
    return jnp.max(jnp.stack(fit(data, point, band))) <= 0


def nan_unless_fit(data: Prepared, point: Doppler, band: bool = False) -> jax.Array:
    """Return 1, or NaN for a template that does not fit: a factor that makes results and gradients NaN; () float64."""
    return jnp.where(fits(data, point, band), 1.0, jnp.nan)


@jit_with(NO_TRIALS)
def _beyond_band(allowed: _Allowed, points: Doppler) -> jax.Array:
    return jnp.max(jnp.stack(_fit_each(allowed, points, True)), axis=0)


@partial(jax.jit, static_argnames="band")
def _fit_each(allowed: _Allowed, points: Doppler, band: bool) -> Fit:
    """Return how each of a stack of templates fits; phase models, which take memory, are checked in turn."""
    if points.model is None:
        return jax.vmap(lambda point: _fit(allowed, point, band))(points)
    return jax.lax.map(lambda point: _fit(allowed, point, band), points)


@partial(jax.jit, static_argnames="band")
def _fit(allowed: _Allowed, point: Doppler, band: bool) -> Fit:
    numbers, observation = allowed.band, allowed.observation
    low = numbers.fmin if band else point.fkdot[0]
    high = low + allowed.width if band else low
    drift_low, drift_high = observation.drift(point)
    edge_low, edge_high = numbers.pass_low - numbers.slack, numbers.pass_high + numbers.slack
    lowest, highest = at_detector(low + drift_low, high + drift_high, EARTH_SPEED)
    below, above = edge_low - lowest, highest - edge_high
    impossible = 1.0 - physical(point, ("freq",) if band else ()).astype(jnp.float64)
    none = jnp.full_like(below, LEAST)
    own = none if point.model is None else _model_error(allowed, point, point.model) - COARSE
    if point.orbit is None:
        return Fit(below, above, none, none, own, impossible)
    centre = 0.5 * (low + high)
    lowest, highest = at_detector(centre + drift_low, centre + drift_high, doppler_speed(point.orbit))
    error = cubic_error(point.orbit, high, allowed.block)
    return Fit(below, above, jnp.maximum(edge_low - lowest, highest - edge_high), error - COARSE, own, impossible)


def _model_error(allowed: _Allowed, point: Doppler, model: PhaseModel) -> jax.Array:
    """Return the root mean square error over the data of the cubics that follow the phase model, () float64 cycles.

    The cubics pass through the model at the blocks' nodes, and are compared with it at other places of the blocks.
    """
    observation, model = allowed.observation, jax.lax.stop_gradient(model)
    length, n_blocks = allowed.block, allowed.n_blocks
    start = observation.middle - 0.5 * observation.tspan
    first = start + length * jnp.arange(0, n_blocks, -(-n_blocks // MOST_BLOCKS), dtype=jnp.float64)
    centres = first[:, None] + 0.5 * length - observation.reference(point)
    found = cubic(model.cycles(centres + 0.5 * length * nodes(NODES)[None])) @ jnp.stack(
        [CHECKED**k for k in range(NODES)]
    )
    error = found - model.cycles(centres + 0.5 * length * CHECKED[None])
    inside = (first < start + observation.tspan)[:, None]
    square = jnp.sum(jnp.where(inside, error**2, 0.0)) / (len(CHECKED) * jnp.sum(inside.astype(jnp.float64)))
    return jnp.where(jnp.isfinite(square), jnp.sqrt(square), jnp.inf)


def check_fit(data: Prepared, point: Doppler, band: bool = False) -> None:
    """Raise a ValueError if a template does not fit the data; traced values are not checked, see `fits`."""
    if any_traced(data.band, data.observation, point):
        return
    with jax.ensure_compile_time_eval():  # under an outer jit, constants stay constants
        below, above, orbit, coarse, model, impossible = (float(x) for x in fit(data, point, band))
        if impossible:
            check_possible(point)
    if model > 0:
        seconds = data.layout.block_of(point.orbit is not None) * float(data.band.dtau)
        raise ValueError(
            "the phase model changes too fast, or is not finite: cubics over the data's timing blocks of "
            f"{seconds:.3g} s miss it by {model + COARSE:.2g} cycles (rms), and {COARSE:g} is allowed: prepare with a "
            "shorter max_block, or smooth the model."
        )
    if max(below, above, orbit, coarse) <= 0:
        return
    if point.model is not None and not np.isfinite(below + above):
        raise ValueError(
            "the phase model has a derivative by time that is not finite, such as that of a square root at 0: define "
            "it so that its slope is finite at all times."
        )
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
