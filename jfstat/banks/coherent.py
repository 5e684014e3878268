"""The nearest template of a segment's own lattice to each template of a semi-coherent bank, by arithmetic alone.

The lattices are the A_n* of Weave's interpolating search (Wette et al. 2018, Phys. Rev. D 97, 123016), laid as by
`template_bank` on one map of a patch of the sky. A lattice is never enumerated: only its points nearest to templates
are needed, and they follow by rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.banks.nearest import CELL, Group, Nearest, differences, distinct_points, nearest_integers
from jfstat.banks.patches import Patch, Shape, triangle_around
from jfstat.banks.patchmetric import map_factor
from jfstat.banks.regions import Disc
from jfstat.banks.space import ParameterSpace
from jfstat.data.observation import Observation
from jfstat.maths.lattices import covering_radius, lattice_points
from jfstat.maths.vectors import angles
from jfstat.maths.zorder import z_order
from jfstat.metrics.phasemetric import drift, factor
from jfstat.signal.times import GPSTime

WIDEST = 0.6
"""Largest radius of a patch, rad, on which a single map is used."""
LEAST_RADIUS = 1e-6
"""Radius of the patch that contains a single position and others very close to it, rad."""


class IsolatedGroup(Group):
    """Templates of isolated sources, whose nearest points in the lattices of several segments are wanted."""

    widest = WIDEST

    @cached_property
    def spins(self) -> np.ndarray:
        """Derivatives of the frequency, (m, s) float64, Hz/s^k."""
        return np.asarray(self.stack.fkdot)[:, 1:]

    @property
    def parameters(self) -> np.ndarray:
        """Positions and spin-downs, (3 + s, m) float64."""
        return np.concatenate([self.n.T, self.spins.T])

    @cached_property
    def one_position(self) -> bool:
        """Whether all templates are at the same position."""
        return bool(np.all(self.n == self.n[0]))

    def nearest(self, segment: Observation, reftime: GPSTime, fmax: float, mismatch: float) -> Nearest:
        """Return the points of a segment's lattice that are nearest to the templates; see `nearest.Group`.

        Raises
        ------
        ValueError
            If the templates are too far apart.
        """
        spins = self.spins
        r = factor(segment, spins.shape[1], reftime, fmax)
        space = ParameterSpace(r, spins.min(axis=0), spins.max(axis=0), mismatch)
        # all spin-downs are tiled: an offset on the sky would have to compensate for a fixed one
        *_, space = space.choices()
        lattice = _lattice(space, self)
        # changes of the best frequency with position, in proportion to the frequency, and with spin-down
        slopes = np.zeros((2, 3 + spins.shape[1]))
        slope = drift(r, 1)[0]
        slopes[0, 3:], slopes[1, :3] = slope[: spins.shape[1]], slope[spins.shape[1] :]
        found = [_rounded(x, lattice.origin, lattice.matrix, slopes) for x in self.pieces]
        points, index, moved = distinct_points(found, len(self), self.on_cpu)
        n, own = lattice.parameters(points)
        # differences to the points after they were moved onto the map, not to the integers' points
        of_points = slopes @ np.concatenate([n, own], axis=1).T
        return Nearest(self.points(*angles(n), own, reftime), index, differences(moved, of_points, index))

    def order(self, observation: Observation, reftime: GPSTime, fmax: float) -> np.ndarray:
        """Return the Z-order of the templates in coordinates in which the segments' metric is the identity."""
        r = factor(observation, self.spins.shape[1], reftime, fmax)
        # in 32 bits, so that other processors round it to the same numbers
        order = np.asarray(_ordered(self.pieces, r[1:, 1:].astype(np.float32).astype(np.float64)))
        return order[order < len(self)]


@dataclass(frozen=True)
class _Lattice:
    """A lattice A_n* over positions and spin-downs, or over spin-downs alone.

    Attributes
    ----------
    space : ParameterSpace
    sky : (2, 2) float64 or None
        Factor of the metric on the map of `shape`; None for a single position.
    shape : Shape or None
    position : (3,) float64
        Single position, or the middle of the map.
    """

    space: ParameterSpace
    sky: np.ndarray | None
    shape: Shape | None
    position: np.ndarray

    @property
    def scale(self) -> float:
        """Unit of length of `nearest_points` per unit of distance."""
        n = self.matrix_of_metric.shape[1]
        return covering_radius(n) / float(np.sqrt(self.space.mismatch)) if n else 1.0

    @property
    def origin(self) -> np.ndarray:
        """Position and spin-downs where all coordinates are 0, (3 + s,)."""
        return np.concatenate([self.position, self.space.centre])

    @property
    def matrix(self) -> np.ndarray:
        """Matrix, (3 + s, k), from offsets in position and spin-downs to coordinates in units of `nearest_points`."""
        return self.matrix_of_metric * self.scale

    @cached_property
    def matrix_of_metric(self) -> np.ndarray:
        """Matrix, (3 + s, k), from offsets in position and spin-downs to coordinates in the unit of the metric."""
        space = self.space
        s, k = len(space.low), len(space.spins)
        tiled = space.tiled_values(np.eye(s)).T  # (k, s)
        spins = np.concatenate([np.zeros((k, 3)), tiled], axis=1)
        if self.sky is None or self.shape is None:
            return (space.spins @ spins).T
        spins[:, :3] = space.drift
        sky = np.concatenate([self.sky @ self.shape.axes, np.zeros((2, s))], axis=1)
        return np.concatenate([sky, space.spins @ spins]).T

    def parameters(self, integers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions, (n, 3), and spin-downs, (n, s), of points, (n, k) int64."""
        space = self.space
        points = lattice_points(integers) / self.scale if integers.shape[1] else integers.astype(float)
        if self.sky is None or self.shape is None:
            n = np.tile(self.position, (len(points), 1))
            return n, space.with_fixed(space.tiled_centre + _solved(space.spins, points))
        y = _solved(self.sky, points[:, :2])
        n = self.shape.lift(self.shape.onto_map(y, self.sky))  # those beyond the map's edge are moved to it
        tiled = space.tiled_centre + _solved(space.spins, points[:, 2:]) - (n - self.position) @ space.drift.T
        return n, space.with_fixed(tiled)


def _lattice(space: ParameterSpace, group: IsolatedGroup) -> _Lattice:
    """Make the lattice over a group of templates; coordinates on the sky are as in `tilings.PatchTiling`."""
    if group.one_position:
        return _Lattice(space, None, None, group.n[0])
    if group.radius > WIDEST:
        raise ValueError(
            f"templates lie {group.radius:.2f} rad from their middle, and {WIDEST} is the most: divide them."
        )
    radius = max(group.radius, LEAST_RADIUS) * (1 + 1e-6)
    patch = Patch(Disc(group.centre, radius), triangle_around(group.centre, radius))
    return _Lattice(space, map_factor(space, patch), patch.shape, patch.shape.up)


@jax.jit
def _rounded(x: jax.Array, origin: jax.Array, matrix: jax.Array, slopes: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return integers of the lattice points nearest to templates, (k, m) int32, and products with `slopes`, (2, m).

    Parameters
    ----------
    x : (3 + s, m) float64
    origin, matrix : (3 + s,), (3 + s, k) float64
        See `_Lattice`.
    slopes : (2, 3 + s) float64
    """
    moved = [sum(own * slopes[j, i] for i, own in enumerate(x)) for j in range(2)]
    return nearest_integers(x, origin, matrix), jnp.stack(moved)


def _solved(factor: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return coordinates, (m, k), from whitened ones."""
    size = 1.0 / np.diag(factor)
    return (np.linalg.inv(factor * size) @ points.T).T * size if len(size) else points


@jax.jit
def _ordered(pieces: list[jax.Array], r: jax.Array) -> jax.Array:
    n, spins = jnp.split(jnp.concatenate(pieces, axis=1), [3])
    parameters = jnp.concatenate([spins, n])
    # sums of products, since XLA computes products of matrices in lower precision on some devices
    points = [sum(x * own for x, own in zip(parameters, row, strict=True)) for row in r]
    return z_order(jnp.stack(points), CELL)
