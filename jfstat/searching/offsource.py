"""Choose sky positions at which a bank sees nothing of a signal that it covers."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.banks.comparison import Comparison, compared
from jfstat.data.fstatdata import FstatData
from jfstat.data.normalised import NormalisedSFTs
from jfstat.data.observation import Observation
from jfstat.geometry.rotation import OBLIQUITY
from jfstat.maths.vectors import angles as angles_of
from jfstat.maths.vectors import tangents, unit_vector
from jfstat.signal.parameters import SKY
from jfstat.signal.templates import Doppler
from jfstat.signal.values import replaced, values, varied_parameters, with_fields
from jfstat.validation import is_whole, shown

APART, NEIGHBOURS = 25.0, 0.5
"""Least mismatch, by the metric, of a position from the bank's own, and of two positions from each other: phases differ
by 5 rad rms, so that little is seen of a signal, and by 0.7 rad. Noise at neighbours is then correlated by a half, but
lines, which are seen at some positions only, are seen at more: with 2 instead of 0.5, claims at 1 % in noise with lines
were false in 2.6 % of the searches of examples/false_alarms.py."""
USUAL, ENOUGH, FEWEST, MOST = 100, 30, 10, 10_000
"""Default number of positions; that for which a better axis is kept though it has no room for so many; the smallest and
the largest number."""
ECLIPTIC, EARTH = np.array([0.0, -math.sin(OBLIQUITY), math.cos(OBLIQUITY)]), np.array([0.0, 0.0, 1.0])
"""Poles of the ecliptic and of the Earth, ICRS."""
STEADY = 0.5
"""Least mean velocity, relative to its size, that has a direction to speak of: of data of half a year or less."""
MOMENT = 60.0
"""Half of the time over which a velocity is taken, s."""
MOST_TRIED = 20_000
"""Most steps of half a circle in which positions are looked for."""
INDISTINCT = 1e-6
"""Ratio of lengths below which a combination of parameters changes nothing that the data could show."""


class Turn(NamedTuple):
    """Rotations of a bank about an axis.

    Attributes
    ----------
    axis : str
        "velocity", "ecliptic" or "Earth".
    pole : (3,) float64 ndarray
        Unit vector of the axis, ICRS.
    angles : (n,) float64 ndarray
        Angles of the rotations, rad, the smallest first.
    """

    axis: str
    pole: np.ndarray
    angles: np.ndarray

    def about(self, n: np.ndarray, angle: float) -> np.ndarray:
        """Return directions, (n, 3), turned by an angle, rad, by Rodrigues' formula."""
        along = (n @ self.pole)[:, None] * self.pole * (1 - math.cos(angle))
        return n * math.cos(angle) + np.cross(self.pole, n) * math.sin(angle) + along

    def turned(self, bank: Doppler, angle: float) -> Doppler:
        """Return a bank turned by an angle, rad."""
        alpha, delta = angles_of(self.about(directions(bank), angle))
        return with_fields(bank, alpha=alpha, delta=delta)


def directions(bank: Doppler) -> np.ndarray:
    """Return the unit vectors of a bank's templates, (n, 3), ICRS."""
    return unit_vector(np.asarray(bank.alpha), np.asarray(bank.delta))


def turn_of(data: FstatData | NormalisedSFTs, bank: Doppler, positions: int | None) -> Turn:
    """Return the rotations by which `background` turns a bank.

    Raises
    ------
    ValueError
        If `positions` is no whole number from 10 to 10,000, or there is no room for so many.
    """
    if positions is not None and not (is_whole(positions) and FEWEST <= positions <= MOST):
        raise ValueError(f"positions must be a whole number from {FEWEST} to {MOST}, not {shown(positions)}, or None.")
    metric, turns = _sky_metric(data, bank), []
    wanted, enough = (USUAL, ENOUGH) if positions is None else (positions, positions)
    for axis, pole in _poles(data.observation).items():
        turn = Turn(axis, pole, np.zeros(0))
        turns.append(turn._replace(angles=_angles(turn, bank, metric, wanted)))
        if len(turns[-1].angles) >= enough:  # the first axis with room for so many
            return turns[-1]
    best = max(turns, key=lambda turn: len(turn.angles))
    most = len(best.angles)
    if most < FEWEST or positions is not None:
        asked = f"positions={positions}" if positions is not None else f"positions must be {FEWEST} or more"
        raise ValueError(
            f"{asked}, and there is room for {most} that these data tell apart: ask for fewer, or take longer data, a "
            "higher band, or a bank of fewer sky positions and spin-downs."
        )
    return best


def _angles(turn: Turn, bank: Doppler, metric: np.ndarray, n: int) -> np.ndarray:
    """Return up to `n` angles, the smallest first, at which a bank is apart from itself and from those before.

    Angles are tried from the smallest on, on both sides in turn, a small step further each time.

    Parameters
    ----------
    turn : Turn
        The axis.
    bank : Doppler
    metric : (3, 3) float64 ndarray
        See `_sky_metric`.
    n : int
    """
    root = np.linalg.cholesky(metric + np.trace(metric) * 1e-12 * np.eye(3))
    own, width = _edges(directions(bank), turn.pole)
    here = own @ root
    # the largest mismatch of a step, and a quarter of the square root of what neighbours need
    across = float(np.max(np.linalg.norm(np.cross(own, turn.pole), axis=1)))
    largest = math.sqrt(np.linalg.eigvalsh(metric)[-1]) * across
    step = max(0.25 * math.sqrt(NEIGHBOURS) / max(largest, 1e-300), math.pi / MOST_TRIED)
    found: list[float] = []
    places = np.zeros((0, 3))
    for k in range(1, math.floor(math.pi / step) + 1) if step < math.pi else ():
        for angle in (k * step, -k * step):
            turns = np.abs(np.mod(angle - np.array([0.0, *found]) + math.pi, 2 * math.pi) - math.pi)
            if turns.min() < width:  # the bank would search some of the same sky again
                continue
            there = turn.about(own, angle) @ root
            if _nearest(there, here) >= APART and (not found or _nearest(there, places) >= NEIGHBOURS):
                found.append(angle)
                places = np.concatenate([places, there])
                if len(found) == n:
                    return np.array(found)
    return np.array(found)


def _nearest(first: np.ndarray, second: np.ndarray) -> float:
    """Return the smallest squared distance between points of two sets, (n, 3) and (m, 3)."""
    return float(np.min(np.sum((first[:, None] - second) ** 2, axis=-1)))


def _edges(n: np.ndarray, pole: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the outermost of directions, (n, 3), in longitude and latitude about an axis, and how wide they lie."""
    east, north = tangents(pole)
    longitude, latitude = np.mod(np.arctan2(n @ north, n @ east), 2 * math.pi), n @ pole
    ordered = np.sort(longitude)
    gaps = np.diff(ordered, append=ordered[0] + 2 * math.pi)
    begin = ordered[(np.argmax(gaps) + 1) % len(n)]
    since = np.mod(longitude - begin, 2 * math.pi)
    chosen = {len(n) // 2, *(int(pick(x)) for x in (since, latitude) for pick in (np.argmin, np.argmax))}
    return n[sorted(chosen)], 2 * math.pi - float(gaps.max())


def _poles(observation: Observation) -> dict[str, np.ndarray]:
    """Return the poles of the axes that a bank may be turned about, ICRS, by name.

    About the detectors' mean velocity, positions keep the mean Doppler shift, and lines stay in their sub-bands; about
    the pole of the ecliptic they keep the range of Doppler shifts over a year; about the Earth's axis, that over a day.
    """
    parts = [observation] if observation.n_segments is None else map(observation.segment, range(observation.n_segments))
    velocity, weight = (np.concatenate(x) for x in zip(*(_velocities(part) for part in parts), strict=True))
    mean = weight @ velocity / weight.sum()
    size = np.sqrt(weight @ np.sum(velocity**2, axis=1) / weight.sum())
    speed = float(np.linalg.norm(mean))
    poles = {"velocity": mean / speed} if speed > STEADY * size else {}
    return poles | {"ecliptic": ECLIPTIC, "Earth": EARTH}


def _velocities(observation: Observation) -> tuple[np.ndarray, np.ndarray]:
    """Return the detectors' velocities in the middles of SFTs, (n, 3), in units of c, and the SFTs' weights, (n,)."""
    time = np.asarray(observation.start) + 0.5 * float(observation.tsft)
    ends = _positions(observation, jnp.stack([time - MOMENT, time + MOMENT], axis=-1))
    return (ends[..., 1, :] - ends[..., 0, :]).reshape(-1, 3) / (2 * MOMENT), np.asarray(observation.weight).ravel()


@jax.jit
def _positions(observation: Observation, time: jax.Array) -> jax.Array:
    """Return detectors' positions at times (D, ...) s since the epoch, (D, ..., 3) light-seconds."""
    return jax.vmap(lambda trajectory, t: trajectory(t).position)(observation.trajectory, time)


def _sky_metric(data: FstatData | NormalisedSFTs, bank: Doppler) -> np.ndarray:
    """Return the matrix m with the mismatch d.m.d of two templates whose directions differ by a vector d, (3, 3).

    It holds at the lowest frequency, and is the least over the frequency and all other parameters that the bank varies,
    but not its sky positions. Phases, and frequencies at the detectors, are linear in the direction, so that it holds
    for large differences as well.
    """
    names = tuple(name for name in varied_parameters(bank) if name not in SKY)
    point: Doppler = jax.tree.map(lambda x: x[len(bank.alpha) // 2], bank)
    if point.reftime is None:
        point = with_fields(point, reftime=data.observation.reftime.common)
    own = compared(data)
    others = np.asarray(_slopes(own, point, data.fmin, names))
    # the derivative along an axis is that along the sky at a right angle to it
    along_x, along_y = (
        np.asarray(_slopes(own, with_fields(point, alpha=np.float64(alpha), delta=np.float64(0.0)), data.fmin, SKY))
        for alpha in (0.5 * math.pi, 0.0)
    )
    sky = np.stack([-along_x[:, 0], along_y[:, 0], along_y[:, 1]], axis=1)
    others = others / np.maximum(np.linalg.norm(others, axis=0), np.finfo(float).tiny)
    # without what other parameters take up, by directions that the data tell apart
    basis, size, _ = np.linalg.svd(others, full_matrices=False)
    basis = basis[:, size > INDISTINCT * size[0]]
    left = sky - basis @ (basis.T @ sky)
    return left.T @ left


@partial(jax.jit, static_argnames="names")
def _slopes(comparison: Comparison, point: Doppler, freq: jax.Array, names: tuple[str, ...]) -> jax.Array:
    """Return the square root of the metric at a template with a frequency, a column for each parameter."""
    point = replaced(point, ["freq"], jnp.reshape(freq, 1))
    at = values(point, names)
    return comparison.slopes(lambda step: replaced(point, names, at + step), jnp.zeros_like(at))
