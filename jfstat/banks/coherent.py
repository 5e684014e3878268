"""The nearest template of a segment's own lattice to each template of a semi-coherent bank, by arithmetic alone.

The lattices are the A_n* of Weave's interpolating search (Wette et al. 2018, Phys. Rev. D 97, 123016), laid as by
`template_bank` on one map of a patch of the sky. A lattice is never enumerated: only its points nearest to templates
are needed, and they follow by rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.banks.patches import Patch, Shape, triangle_around
from jfstat.banks.patchmetric import map_factor
from jfstat.banks.regions import Disc
from jfstat.banks.space import ParameterSpace, Templates
from jfstat.data.memory import Device, default_device
from jfstat.data.observation import Observation
from jfstat.maths.ladder import padded_size
from jfstat.maths.lattices import covering_radius, lattice_points, nearest_points
from jfstat.maths.vectors import angles, unit_vector
from jfstat.metrics.phasemetric import drift, factor
from jfstat.signal.times import GPSTime

WIDEST = 0.6
"""Largest radius of a patch, rad, on which a single map is used."""
LEAST_RADIUS = 1e-6
"""Radius of the patch that contains a single position and others very close to it, rad."""
PIECE, LEAST_PIECE = 1 << 16, 1 << 10
"""Largest and smallest number of templates whose nearest points one call computes on a CPU, so that they stay in its
caches; numbers between them are powers of two."""
STEPS = 4
"""Padded numbers of templates per octave on other devices, where one call computes all."""
Array: TypeAlias = np.ndarray | jax.Array
DENSE = 8
"""Largest ratio of range to count for which integers are sorted by a table of the whole range."""


class Group:
    """Templates for which the nearest points in the lattices of several segments are wanted.

    Attributes
    ----------
    templates : Templates
        m templates.
    n : (m, 3) float64
        Unit vectors of their positions.
    centre, radius : (3,) float64, float
        Centre and radius of a cap that holds all positions, rad; see `cap_of`.
    device : Device or None
        Device that computes nearest points; by default JAX's default device.
    """

    def __init__(self, templates: Templates, device: Device | None = None):
        self.templates, self.device = templates, device
        self.n = unit_vector(templates.alpha, templates.delta)
        self.centre, self.radius = cap_of(self.n)

    @cached_property
    def on_cpu(self) -> bool:
        """Whether nearest points are computed on a CPU."""
        return (default_device() if self.device is None else self.device).platform == "cpu"

    @cached_property
    def one_position(self) -> bool:
        """Whether all templates are at the same position."""
        return bool(np.all(self.n == self.n[0]))

    @cached_property
    def pieces(self) -> list[jax.Array]:
        """Positions and spin-downs, (3 + s, size) float64 each, on the device, padded by repeating the last."""
        parameters = np.concatenate([self.n.T, self.templates.spins.T])
        m = parameters.shape[1]
        size = padded_size(max(LEAST_PIECE, min(m, PIECE) if self.on_cpu else m), 1 if self.on_cpu else STEPS)
        padded = np.pad(parameters, ((0, 0), (0, -m % size)), mode="edge")
        return [jax.device_put(x, self.device) for x in np.split(padded, padded.shape[1] // size, axis=1)]

    def nearest(self, segment: Observation, reftime: GPSTime, fmax: float, mismatch: float) -> Nearest:
        """Return the points of a segment's lattice that are nearest to the templates, maximised over frequency.

        Parameters
        ----------
        segment : Observation
            Observation of one segment.
        reftime : GPSTime
            Reference time at which the spin-downs hold.
        fmax : float
            Highest frequency to be searched, Hz.
        mismatch : float
            Largest fraction of rho^2 that the segment's 2F of a template loses at its nearest point, apart from the
            loss between bins of frequency.

        Raises
        ------
        ValueError
            If the templates are too far apart.
        """
        spins = self.templates.spins
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
        if self.on_cpu:
            m = len(self.n)
            integers, moved = (np.concatenate([np.asarray(x[i]) for x in found], axis=1)[:, :m] for i in range(2))
            points, index = _distinct(integers)
        else:
            integers, moved = found[0]
            points, index = _distinct_on_device(integers)
        n, own = lattice.parameters(points)
        # differences to the points after they were moved onto the map, not to the integers' points
        of_points = slopes @ np.concatenate([n, own], axis=1).T
        return Nearest(Templates(*angles(n), own), index, _differences(moved, of_points, index))


class Nearest(NamedTuple):
    """The points of a segment's lattice that are nearest to m templates.

    Attributes
    ----------
    templates : Templates
        Different points, n in all, in ascending order of their integers.
    index : (m,) int32 or int64
        Index of the nearest point for each template.
    shift : (2, m) float64
        Best frequency at the point minus the template's, Hz: a constant, and a part proportional to the frequency, at
        the highest frequency of the band.

    On a CPU, `index` and `shift` are NumPy arrays. On other devices they are JAX arrays with more than m columns,
    padded by repeating the last template.
    """

    templates: Templates
    index: Array
    shift: Array


def cap_of(n: np.ndarray) -> tuple[np.ndarray, float]:
    """Return centre, (3,), and radius, rad, of a cap that holds positions, (m, 3); pi if widely spread."""
    mean = np.mean(n, axis=0)
    size = np.linalg.norm(mean)
    if size < 0.1:
        return n[0], np.pi
    centre = mean / size
    return centre, float(2 * np.arcsin(min(1.0, 0.5 * np.max(np.linalg.norm(n - centre, axis=1)))))


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


def _lattice(space: ParameterSpace, group: Group) -> _Lattice:
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
    d, k = matrix.shape
    away = [x[i] - origin[i] for i in range(d)]
    # sums of products, since XLA computes products of matrices in lower precision on some devices
    place = [sum(own * matrix[i, j] for i, own in enumerate(away)) for j in range(k)]
    moved = [sum(own * slopes[j, i] for i, own in enumerate(x)) for j in range(2)]
    integers = nearest_points(jnp.stack(place, axis=-1)).T if k else jnp.zeros((0, x.shape[1]))
    return integers.astype(jnp.int32), jnp.stack(moved)


def _distinct(integers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the different columns of (k, m) integers, ascending, (n, k) int64, and the index of each column, (m,)."""
    points, index = np.empty((1, 0), np.int64), np.zeros(integers.shape[1], np.int64)
    for column in integers.astype(np.int64):
        low = int(column.min())
        extent = int(column.max()) - low + 1
        numbers, index = _sorted(index * extent + (column - low), len(points) * extent)
        points = np.concatenate([points[numbers // extent], low + numbers[:, None] % extent], axis=1)
    return points, index


def _distinct_on_device(integers: jax.Array) -> tuple[np.ndarray, jax.Array]:
    """Return the result of `_distinct` for integers on an accelerator, where sorting costs little."""
    if not len(integers):  # no coordinates: all are one point
        return np.empty((1, 0), np.int64), jnp.zeros(integers.shape[1], jnp.int32)
    low, extent, distinct, count, index = _numbered(integers)
    low, extent, n = np.asarray(low), np.asarray(extent), int(count)
    if np.prod(extent.astype(np.float64)) >= 2.0**63:  # the numbers would not fit into 64 bits
        points, own = _distinct(np.asarray(integers))
        return points, jax.device_put(own, integers.sharding)
    numbers = np.asarray(distinct[: min(padded_size(n, 1), len(distinct))])[:n]
    return low + np.stack(np.unravel_index(numbers, extent), axis=1).reshape(n, -1), index


@jax.jit
def _numbered(integers: jax.Array) -> tuple[jax.Array, ...]:
    """Number the columns of (k, m) integers by their different values, in ascending order.

    Return the least value and the range of each row, the different numbers in ascending order, (m,), padded, their
    count, and the index of each column's number.
    """
    low = jnp.min(integers, axis=1).astype(jnp.int64)
    extent = jnp.max(integers, axis=1).astype(jnp.int64) - low + 1
    number = jnp.zeros(integers.shape[1], jnp.int64)
    for i in range(len(integers)):
        number = number * extent[i] + integers[i].astype(jnp.int64) - low[i]
    ordered, column = jax.lax.sort((number, jnp.arange(len(number), dtype=jnp.int32)), num_keys=1, is_stable=False)
    rank = jnp.cumsum(jnp.concatenate([jnp.zeros(1, bool), ordered[1:] != ordered[:-1]]), dtype=jnp.int32)
    index = jnp.zeros_like(column).at[column].set(rank, unique_indices=True)
    return low, extent, jnp.zeros_like(ordered).at[rank].set(ordered), rank[-1] + 1, index


def _differences(moved: Array, of_points: np.ndarray, index: Array) -> Array:
    """Subtract from products for m templates, (2, m), the products for their nearest points, (2, n)."""
    if isinstance(moved, np.ndarray):
        moved -= np.take(of_points, index, axis=1)
        return moved
    n = of_points.shape[1]
    return _less(moved, np.pad(of_points, ((0, 0), (0, padded_size(n, 1) - n))), index)


@jax.jit
def _less(moved: jax.Array, of_points: jax.Array, index: jax.Array) -> jax.Array:
    return moved - of_points[:, index]


def _sorted(numbers: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return different numbers from 0 to `size` - 1 in ascending order, (n,), and the index of each number, (m,)."""
    if size > DENSE * len(numbers):
        return np.unique(numbers, return_inverse=True)
    present = np.zeros(size, bool)
    present[numbers] = True
    number = np.cumsum(present, dtype=np.int32)
    number -= 1
    return np.flatnonzero(present), number[numbers]


def _solved(factor: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return coordinates, (m, k), from whitened ones."""
    size = 1.0 / np.diag(factor)
    return (np.linalg.inv(factor * size) @ points.T).T * size if len(size) else points
