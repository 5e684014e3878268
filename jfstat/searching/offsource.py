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
from jfstat.signal.parameters import SKY
from jfstat.signal.templates import Doppler
from jfstat.signal.values import replaced, values, varied_parameters, with_fields
from jfstat.validation import is_whole, shown

APART, NEIGHBOURS = 25.0, 1.0
"""Mismatch, by the metric, of a position from the bank's own, and of two positions from each other: phases differ by 5
rad rms, so that little is seen of a signal, and by 1 rad, so that the noise is another."""
USUAL, ENOUGH, FEWEST, MOST = 100, 50, 10, 10_000
"""Default number of positions; that for which a better axis is kept though it has no room for so many; the smallest and
the largest number."""
ECLIPTIC, EARTH = np.array([0.0, -math.sin(OBLIQUITY), math.cos(OBLIQUITY)]), np.array([0.0, 0.0, 1.0])
"""Poles of the ecliptic and of the Earth, ICRS."""
STEADY = 0.5
"""Least mean velocity, relative to its size, that has a direction to speak of: of data of half a year or less."""
MOMENT = 60.0
"""Half of the time over which a velocity is taken, s."""
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

    def turned(self, bank: Doppler, angle: float) -> Doppler:
        """Return a bank turned by an angle, rad."""
        n = directions(bank)
        # Rodrigues' formula
        along = (n @ self.pole)[:, None] * self.pole * (1 - math.cos(angle))
        n = n * math.cos(angle) + np.cross(self.pole, n) * math.sin(angle) + along
        alpha = np.mod(np.arctan2(n[:, 1], n[:, 0]), 2 * math.pi)
        return with_fields(bank, alpha=alpha, delta=np.arcsin(np.clip(n[:, 2], -1.0, 1.0)))


def directions(bank: Doppler) -> np.ndarray:
    """Return the unit vectors of a bank's templates, (n, 3), ICRS."""
    alpha, delta = np.asarray(bank.alpha), np.asarray(bank.delta)
    return np.stack([np.cos(delta) * np.cos(alpha), np.cos(delta) * np.sin(alpha), np.sin(delta)], axis=-1)


def turn_of(data: FstatData | NormalisedSFTs, bank: Doppler, positions: int | None) -> Turn:
    """Return the rotations by which `background` turns a bank.

    Raises
    ------
    ValueError
        If `positions` is no whole number from 10 to 10,000, or there is no room for so many.
    """
    if positions is not None and not (is_whole(positions) and FEWEST <= positions <= MOST):
        raise ValueError(f"positions must be a whole number from {FEWEST} to {MOST}, not {shown(positions)}, or None.")
    metric = _sky_metric(data, bank)
    poles = _poles(data.observation)
    found = [_room(bank, pole, metric) for pole in poles.values()]
    wanted = ENOUGH if positions is None else positions
    # the first with room for so many
    best = next((i for i, (most, _, _) in enumerate(found) if most >= wanted), int(np.argmax([x[0] for x in found])))
    most, nearest, (least, usual) = found[best]
    n = min(USUAL, most) if positions is None else positions
    if n > most or n < FEWEST:
        few = f"{most} positions" if most else "no position"
        raise ValueError(
            f"positions must be {FEWEST} or more, and for this bank and these data {few} can be told apart: take "
            "longer data, a higher band, a smaller range of positions in the bank, or ask for fewer."
        )
    step = max(least, min(usual, 2 * (math.pi - nearest) / (n - 1)))
    k = np.arange(n)
    angles = np.where(k % 2 == 0, 1.0, -1.0) * (nearest + step * (k // 2))
    return Turn(list(poles)[best], list(poles.values())[best], angles)


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


def _room(bank: Doppler, pole: np.ndarray, metric: np.ndarray) -> tuple[int, float, tuple[float, float]]:
    """Return how many positions there is room for about an axis, the smallest angle, and the smallest and usual step,
    rad.

    Parameters
    ----------
    bank : Doppler
    pole : (3,) float64 ndarray
    metric : (3, 3) float64 ndarray
        Mismatch in the directions of the sky, with that of the bank's middle as the last row and column.
    """
    n = directions(bank)
    east = np.cross(pole, np.eye(3)[np.argmin(np.abs(pole))])
    east /= np.linalg.norm(east)
    longitude = np.sort(np.arctan2(n @ np.cross(pole, east), n @ east))
    width = 2 * math.pi - float(np.max(np.diff(longitude, append=longitude[0] + 2 * math.pi)))
    along = np.cross(pole, n[len(n) // 2])
    loss = float(along @ metric @ along)
    nearest, least, usual = (width + _angle(mismatch, loss) for mismatch in (APART, NEIGHBOURS, APART))
    room = 2 * (math.pi - nearest)
    return math.floor(room / least) + 1 if room > 0 else 0, nearest, (least, usual)


def _sky_metric(data: FstatData | NormalisedSFTs, bank: Doppler) -> np.ndarray:
    """Return the mismatch of a small step s on the sky as a matrix m, s.m.s, (3, 3), in the middle of a bank at the
    lowest frequency.

    It is the least over the frequency and all other parameters that the bank varies, but not its sky positions.
    """
    names = (*(name for name in varied_parameters(bank) if name not in SKY), *SKY)
    point: Doppler = jax.tree.map(lambda x: x[len(bank.alpha) // 2], bank)
    if point.reftime is None:
        point = with_fields(point, reftime=data.observation.reftime.common)
    slopes = np.asarray(_slopes(compared(data), point, data.fmin, names))
    others = slopes[:, :-2] / np.maximum(np.linalg.norm(slopes[:, :-2], axis=0), np.finfo(float).tiny)
    # without what other parameters take up, by directions that the data tell apart
    basis, size, _ = np.linalg.svd(others, full_matrices=False)
    basis = basis[:, size > INDISTINCT * size[0]]
    left = slopes[:, -2:] - basis @ (basis.T @ slopes[:, -2:])
    alpha, delta = float(point.alpha), float(point.delta)
    east = np.array([-math.sin(alpha), math.cos(alpha), 0.0]) / max(math.cos(delta), 1e-6)
    north = [-math.sin(delta) * math.cos(alpha), -math.sin(delta) * math.sin(alpha), math.cos(delta)]
    on_sky = left @ np.stack([east, north])
    return on_sky.T @ on_sky


@partial(jax.jit, static_argnames="names")
def _slopes(comparison: Comparison, point: Doppler, freq: jax.Array, names: tuple[str, ...]) -> jax.Array:
    """Return the square root of the metric at a template with a frequency, a column for each parameter."""
    point = replaced(point, ["freq"], jnp.reshape(freq, 1))
    at = values(point, names)
    return comparison.slopes(lambda step: replaced(point, names, at + step), jnp.zeros_like(at))


def _angle(mismatch: float, loss: float) -> float:
    """Return the angle of a turn with a mismatch, rad; at most a full turn, for data that no turn changes as much.

    The metric holds for chords: the positions of a detector and the Earth project on directions, not on angles.
    """
    half = 0.5 * math.sqrt(mismatch / loss) if loss > 0 else math.inf
    return 2 * math.asin(half) if half < 1 else 2 * math.pi
