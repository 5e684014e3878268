"""The position of a detector in the solar system at any time, as piecewise polynomials.

Nothing here depends on the sky position; `barycenter` projects these vectors on the direction to a source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.display import Displayed
from jfstat.geometry.detector import Detector
from jfstat.geometry.einstein import einstein_delay
from jfstat.geometry.ephemeris import Tracks
from jfstat.geometry.rotation import detector_offset, leap_seconds, offset_of, sidereal_time
from jfstat.maths.arrays import any_traced, on_device
from jfstat.maths.chebyshev import horner, nodes, powers_from_values
from jfstat.maths.ladder import padded_size

SEGMENT = 7200.0
"""Length of a polynomial piece, s."""
DEGREE = 7
"""Degree of the pieces; they follow 7200 s of the Earth's rotation to 1e-13 s."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class State:
    """A detector's state at some times; every field has a leading shape (...).

    Attributes
    ----------
    position : (..., 3) float64
        Vector from the SSB to the detector, light-seconds, equatorial J2000 axes.
    einstein : (...) float64
        Einstein delay TDB - TDT, s.
    sidereal : (...) float64
        Greenwich mean sidereal time, rad, modulo 2 pi.
    sun : (..., 3) float64
        Vector from the Sun to the Earth's centre, light-seconds.
    """

    position: jax.Array
    einstein: jax.Array
    sidereal: jax.Array
    sun: jax.Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False, eq=False)
class Trajectory(Displayed):
    """Piecewise polynomials in time for the state of a detector.

    Attributes
    ----------
    coefficients : (DEGREE + 1, n_segments, 9) float64
        Coefficients of the powers of u in [-1, 1] over each piece: position (3), Einstein delay, sidereal time, vector
        from Sun to Earth (3) and the square of its length.
    start : () float64
        Start of the first piece, s since the observation's epoch, from which all times count.
    """

    coefficients: jax.Array
    start: jax.Array

    def piece(self, t: jax.Array) -> jax.Array:
        """Return the index of the piece for times `t` in s since the epoch, int32, shaped like `t`.

        Times outside the table get the first or last piece; they occur only in the first step of an iteration.
        """
        whole = jnp.floor((jax.lax.stop_gradient(t) - self.start) / SEGMENT)
        return jnp.clip(whole, 0, self.coefficients.shape[1] - 1).astype(jnp.int32)

    def within(self, t: jax.Array, piece: jax.Array) -> jax.Array:
        """Return positions u of the times `t` within their pieces, shaped like `t` and differentiable in it."""
        return 2.0 * ((t - self.start) / SEGMENT - piece.astype(jnp.float64)) - 1.0

    def __call__(self, t: jax.Array) -> State:
        """Return the state at times `t` in s since the epoch, any shape, float64; differentiable in `t`."""
        piece = self.piece(t)
        # all in a single gather
        coefficients = self.coefficients.at[:, piece, :8].get(mode="promise_in_bounds", wrap_negative_indices=False)
        value = horner(coefficients, self.within(t, piece)[..., None])
        return State(value[..., 0:3], value[..., 3], value[..., 4], value[..., 5:8])

    @property
    def positions(self) -> np.ndarray:
        """Vectors SSB to detector and Sun to Earth in the middle of each piece, (..., n_segments, 6) float64."""
        return np.asarray(self.coefficients)[..., 0, :, [0, 1, 2, 5, 6, 7]].transpose(
            *range(1, self.coefficients.ndim - 1), 0
        )

    def sidereal(self, t: jax.Array) -> jax.Array:
        """Return sidereal time alone, shaped like `t`, from a straight line in each piece, accurate to 2e-10 rad."""
        piece = self.piece(t)
        return horner_at_pieces(self.coefficients[:2, :, 4], piece, self.within(t, piece))


def at_pieces(values: jax.Array, piece: jax.Array) -> jax.Array:
    """Return values, given for all pieces (n_segments), at chosen pieces, shaped like `piece`."""
    return values.at[piece].get(mode="promise_in_bounds", wrap_negative_indices=False)


def horner_at_pieces(coefficients: jax.Array, piece: jax.Array, u: jax.Array) -> jax.Array:
    """Evaluate polynomials of pieces, coefficients (n_powers, n_segments), at positions u in them; shaped like both.

    Each coefficient is looked up where it is used: XLA's GPU code then stores none of them.
    """
    value = at_pieces(coefficients[-1], piece)
    for k in range(coefficients.shape[0] - 2, -1, -1):
        value = value * u + at_pieces(coefficients[k], piece)
    return value


def detector_trajectory(detector: Detector, tracks: Tracks, start: float, end: float) -> Trajectory:
    """Tabulate a detector's state between two times, on the device; see `host_trajectory`."""
    return jax.tree.map(on_device, host_trajectory(detector, tracks, start, end))


def host_trajectory(detector: Detector, tracks: Tracks, start: float, end: float) -> Trajectory:
    """Tabulate a detector's state between two times, with NumPy arrays as leaves.

    Parameters
    ----------
    detector : Detector
    tracks : Tracks
        Positions of Earth and Sun, which must cover ``start - SEGMENT`` to ``end + 2 SEGMENT``.
    start, end : float
        s since ``tracks.epoch``, from which the trajectory's times count as well.
    """
    epoch = tracks.epoch
    # at a leap second UTC, and so the rotation in LALSuite's model, jumps by a second: let two pieces meet there
    leaps = leap_seconds()[0] - epoch
    leaps = leaps[(leaps > start) & (leaps < end)]
    joint = float(leaps[0]) if len(leaps) else start
    first = joint - SEGMENT * np.ceil((joint - start) / SEGMENT)
    n = int(np.ceil((end - start) / SEGMENT)) + 1  # the same whether or not a leap second shifts the pieces

    centres = first + SEGMENT * (np.arange(n) + 0.5)
    t = (centres[:, None] + 0.5 * SEGMENT * nodes(DEGREE + 1)[None]).ravel()
    earth, sun = tracks.earth(t), tracks.sun(t)
    sidereal = sidereal_time(epoch, t).reshape(n, -1)
    sidereal -= 2 * np.pi * np.floor(sidereal[:, :1] / (2 * np.pi))
    columns = [earth + detector_offset(detector, epoch, t), einstein_delay(epoch, t)[:, None], sidereal.reshape(-1, 1)]
    apart = earth - sun
    columns += [apart, np.sum(apart**2, axis=1, keepdims=True)]
    values = np.concatenate(columns, axis=1).reshape(n, DEGREE + 1, -1)
    coefficients = np.einsum("pk,nkc->pnc", powers_from_values(DEGREE + 1), values)
    # repeat the last piece up to a common size; data and signals end before
    coefficients = np.pad(coefficients, ((0, 0), (0, padded_size(n) - n), (0, 0)), mode="edge")
    return Trajectory(coefficients, np.array(first))  # type: ignore[arg-type]


def displaced(trajectory: Trajectory, epoch: jax.Array | int, shift: jax.Array) -> Trajectory:
    """Return the trajectories of detectors that stand elsewhere; traceable, and linear in the shifts.

    Parameters
    ----------
    trajectory : Trajectory
        With leading axis D.
    epoch : () int64
        GPS time from which its times count, s.
    shift : (D, 3) float64
        Vectors by which the detectors move, in the Earth-fixed frame, m.
    """
    n, first = trajectory.coefficients.shape[2], trajectory.start[0]  # all detectors have the same times
    if not any_traced(epoch, first):
        epoch, first = int(epoch), np.asarray(first)
    centres = first + SEGMENT * (np.arange(n) + 0.5)
    t: Any = (centres[:, None] + 0.5 * SEGMENT * nodes(DEGREE + 1)[None]).reshape(-1)
    unit = jnp.stack([jnp.asarray(offset_of(axis, epoch, t)) for axis in np.eye(3)], axis=-1)
    unit = jnp.einsum("pk,nkij->pnij", jnp.asarray(powers_from_values(DEGREE + 1)), unit.reshape(n, DEGREE + 1, 3, 3))
    moved = jnp.einsum("pnij,dj->dpni", unit, shift)
    return Trajectory(trajectory.coefficients.at[..., :3].add(moved), trajectory.start)
