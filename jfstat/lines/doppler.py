"""The frequencies of a template that lines affect, given the Doppler shifts of the detectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.observation import Observation
from jfstat.geometry.doppler import largest_doppler_speed
from jfstat.geometry.orbit import periapsis_rate
from jfstat.geometry.source import Source, spin_drift
from jfstat.geometry.trajectory import Trajectory
from jfstat.signal.columns import plain
from jfstat.signal.templates import Doppler

if TYPE_CHECKING:
    from astropy.table import QTable

COLUMNS = ("detector", "fmin", "fmax", "name")
"""Columns that a table of lines must have."""
NODES, MOST_NODES = 3, 33
"""Times in each SFT at which frequencies are computed, and their largest number, for fast orbits."""
STEP = 0.2
"""Largest angle that an orbit turns at periapsis between two times at which frequencies are computed, rad."""
LADDER = 4
"""Numbers of lines are rounded up to this times a power of two, so that bands share compiled programs."""


class LineBands(NamedTuple):
    """Frequency bands of lines, with their detectors, as a pytree for compiled programs.

    Attributes
    ----------
    detector : (L,) int32
        Index into the observation's detectors.
    fmin, fmax : (L,) float64
        Ends of the bands in the detector's frame, Hz. Padding entries have fmin > fmax.
    nodes : (n,) float64
        Times at which frequencies are computed, as fractions of an SFT, from 0 to 1.
    """

    detector: jax.Array
    fmin: jax.Array
    fmax: jax.Array
    nodes: jax.Array


def checked_lines(lines: object) -> QTable:
    """Check a user's table of lines and return it.

    Raises
    ------
    TypeError
        If `lines` is not a table.
    ValueError
        If a column is missing, or a band has its ends in the wrong order.
    """
    if not hasattr(lines, "colnames"):
        raise TypeError(f"lines must be a table from jfstat.read_lines, not {type(lines).__name__}.")
    table: Any = lines
    missing = [name for name in COLUMNS if name not in table.colnames]
    if missing:
        raise ValueError(
            f"lines lacks the column {missing[0]!r}: it needs {', '.join(COLUMNS)}, see jfstat.read_lines."
        )
    low, high = (hertz(table[name]) for name in ("fmin", "fmax"))
    if not np.all(low <= high):
        raise ValueError("lines must have fmin <= fmax in every row: correct the table.")
    return table


def hertz(column: Any) -> np.ndarray:
    """Return a column of frequencies in Hz, with or without a unit."""
    return plain(column, "Hz")


def widened(lines: QTable, margin: float) -> QTable:
    """Return lines whose bands reach further by `margin`, Hz, on either side."""
    wider: Any = lines.copy()
    for name, step in (("fmin", -margin), ("fmax", margin)):
        wider[name] = hertz(lines[name]) + step
    return wider


def lines_near(lines: QTable, observation: Observation, points: Doppler, low: float, high: float) -> QTable:
    """Return the lines that could affect any of a stack of templates with frequencies from `low` to `high`, Hz.

    Parameters
    ----------
    lines : QTable
    observation : Observation
        Observation, which may have a leading axis of segments.
    points : Doppler
        Stack of templates with NumPy leaves.
    low, high : float
        Range of frequencies at the templates' reference time, Hz.
    """
    drifts = [jax.vmap(own.drift)(points) for own in observation.segments]
    drift_low, drift_high = (np.stack(x) for x in zip(*drifts, strict=True))
    speed = largest_doppler_speed(points.orbit)
    first, last = low + float(drift_low.min()), high + float(drift_high.max())
    table: Any = lines
    near = np.isin(np.asarray(table["detector"]), observation.detectors)
    near &= (hertz(lines["fmax"]) >= first - speed * abs(first)) & (hertz(lines["fmin"]) <= last + speed * abs(last))
    return table[near]


def line_bands(lines: QTable, observation: Observation, points: Doppler) -> LineBands:
    """Return lines as arrays, with overlapping bands of a detector joined."""
    bands: list[tuple[int, float, float]] = []
    for d, name in enumerate(observation.detectors):
        own = lines[np.asarray(lines["detector"]) == name]
        for low, high in sorted(zip(hertz(own["fmin"]).tolist(), hertz(own["fmax"]).tolist(), strict=True)):
            if bands and bands[-1][0] == d and low <= bands[-1][2]:
                bands[-1] = d, bands[-1][1], max(high, bands[-1][2])
            else:
                bands.append((d, low, high))
    size = LADDER << max(0, (-(-len(bands) // LADDER) - 1).bit_length())
    bands += [(0, 1.0, 0.0)] * (size - len(bands))
    detector, low, high = zip(*bands, strict=True)
    nodes = jnp.linspace(0.0, 1.0, frequency_nodes(observation, points))
    return LineBands(jnp.asarray(detector, jnp.int32), jnp.asarray(low), jnp.asarray(high), nodes)


def frequency_nodes(observation: Observation, points: Doppler) -> int:
    """Return the number of times in each SFT at which frequencies are computed."""
    if points.orbit is None:
        return NODES
    turn = float(np.max(periapsis_rate(points.orbit))) * float(np.max(observation.tsft))
    return min(max(NODES, int(np.ceil(turn / STEP)) + 1), MOST_NODES)


def _shifts(observation: Observation, point: Doppler, nodes: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return dtau/dt, and the frequency drift since the reference time in Hz, at times in all SFTs: (D, S, n) each.

    The frequency of a template in a detector's frame is (f + drift) dtau/dt, where tau is the time at the source.
    """
    own: Source = observation.source(point)
    times = observation.start[:, :, None] + observation.tsft * nodes[None, None]

    def at_detector(trajectory: Trajectory, t: jax.Array) -> tuple[jax.Array, jax.Array]:
        delay, slope = jax.jvp(lambda x: own.delay(trajectory, x), (t,), (jnp.ones_like(t),))
        drift = own.evolution[0] + spin_drift(own.evolution, t + delay - own.middle)
        if own.model is not None:
            drift = drift + own.model.frequency(t + delay)
        return 1.0 + slope, drift

    return jax.vmap(at_detector)(observation.trajectory, times)


def _extremes(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the lowest and highest value over SFTs of a quantity sampled in each SFT, (..., S, n): (...) each.

    Between two samples the quantity may exceed both by an eighth of its second difference, which is added.
    """
    beyond = jnp.max(jnp.abs(x[..., 2:] - 2 * x[..., 1:-1] + x[..., :-2]), axis=-1) / 8
    low, high = jnp.min(x, axis=-1) - beyond, jnp.max(x, axis=-1) + beyond
    return jnp.min(low, axis=-1), jnp.max(high, axis=-1)


def detector_range(observation: Observation, point: Doppler, nodes: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return a template's lowest and highest frequency in each detector's frame during its SFTs, Hz: (D,) each.

    Traceable.
    """
    rate, drift = _shifts(observation, point, nodes)
    return _extremes((point.fkdot[0] + drift) * rate)


def affected_range(observation: Observation, point: Doppler, bands: LineBands) -> tuple[jax.Array, jax.Array]:
    """Return the lowest and highest frequency, Hz, at which each line affects a template: (L,) each.

    Frequencies hold at the reference time. Traceable.

    A template with frequency f crosses a line from l to h at a time when l <= (f + drift) dtau/dt <= h. ``fkdot[0]``
    of the template is ignored.
    """
    rate, drift = _shifts(observation, point, bands.nodes)

    def one(d: jax.Array, low: jax.Array, high: jax.Array) -> tuple[jax.Array, jax.Array]:
        lowest, _ = _extremes(low / rate[d] - drift[d])
        _, highest = _extremes(high / rate[d] - drift[d])
        empty = low > high
        return jnp.where(empty, jnp.inf, lowest), jnp.where(empty, -jnp.inf, highest)

    return jax.lax.map(lambda band: one(*band), (bands.detector, bands.fmin, bands.fmax))
