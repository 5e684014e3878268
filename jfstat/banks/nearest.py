"""The points of a segment's own lattice that are nearest to templates of a bank: what all groups of templates share.

A lattice is never enumerated. Its points nearest to templates follow by rounding, and points that several templates
share are kept once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.memory import Device, default_device
from jfstat.data.observation import Observation
from jfstat.maths.ladder import padded_size
from jfstat.maths.lattices import nearest_points
from jfstat.maths.vectors import unit_vector
from jfstat.signal.templates import Doppler, Orbit
from jfstat.signal.times import GPSTime
from jfstat.signal.values import with_fields

PIECE, LEAST_PIECE = 1 << 16, 1 << 10
"""Largest and smallest number of templates whose nearest points one call computes on a CPU, so that they stay in its
caches; numbers between them are powers of two."""
STEPS = 4
"""Padded numbers of templates per octave on other devices, where one call computes all."""
CELL = 0.5
"""Width of the cells of `zorder.z_order`: a signal half a cell away loses less than a tenth of rho^2."""
DENSE = 8
"""Largest ratio of range to count for which integers are sorted by a table of the whole range."""
Array: TypeAlias = np.ndarray | jax.Array


class Nearest(NamedTuple):
    """The points of a segment's lattice that are nearest to m templates.

    Attributes
    ----------
    templates : Doppler
        Different points, a stack of n with NumPy leaves, in ascending order of their integers.
    index : (m,) int32 or int64
        Index of the nearest point for each template.
    shift : (2, m) float64
        Best frequency at the point minus the template's, Hz: a constant, and a part proportional to the frequency, at
        the highest frequency of the band.

    On a CPU, `index` and `shift` are NumPy arrays. On other devices they are JAX arrays with more than m columns,
    padded by repeating the last template.
    """

    templates: Doppler
    index: Array
    shift: Array


class Group(ABC):
    """Templates of a bank, for which the nearest points in the lattices of several segments are wanted.

    `coherent.IsolatedGroup` and `orbitgroup.OrbitGroup` are such groups.

    Attributes
    ----------
    stack : Doppler
        m templates, NumPy leaves.
    device : Device or None
        Device that computes nearest points; by default JAX's default device.
    n : (m, 3) float64
        Unit vectors of their positions.
    centre, radius : (3,) float64, float
        Centre and radius of a cap that holds all positions, rad; see `cap_of`.
    """

    widest: ClassVar[float]
    """Largest radius, rad, for which one lattice serves."""

    def __init__(self, stack: Doppler, device: Device | None = None):
        self.stack, self.device = stack, device
        self.n = unit_vector(np.asarray(stack.alpha), np.asarray(stack.delta))
        self.centre, self.radius = cap_of(self.n)

    def __len__(self) -> int:
        return len(self.n)

    @property
    def on_cpu(self) -> bool:
        """Whether nearest points are computed on a CPU."""
        return computed_on_cpu(self.device)

    @property
    def gap(self) -> int | None:
        """Number of the template before which to divide the group, which is too wide for one lattice; None if not."""
        return gap_in(self.n) if self.radius > self.widest else None

    @property
    @abstractmethod
    def parameters(self) -> np.ndarray:
        """What `nearest` computes with, (p, m) float64."""

    @cached_property
    def pieces(self) -> list[jax.Array]:
        """Parameters on the device; see `pieces_of`."""
        return pieces_of(self.parameters, self.device)

    @abstractmethod
    def nearest(self, segment: Observation, reftime: GPSTime, fmax: float, mismatch: float) -> Nearest:
        """Return the points of a segment's lattice that are nearest to the templates, maximised over frequency.

        Parameters
        ----------
        segment : Observation
            Observation of one segment.
        reftime : GPSTime
            Reference time of the templates.
        fmax : float
            Highest frequency to be searched, Hz.
        mismatch : float
            Largest fraction of rho^2 that the segment's 2F of a template loses at its nearest point, apart from the
            loss between bins of frequency.
        """

    @abstractmethod
    def order(self, observation: Observation, reftime: GPSTime, fmax: float) -> np.ndarray:
        """Return an order of the templates, (m,) int32, in which neighbours have many nearest points in common.

        The arguments are those of `nearest`, with the observation of all segments.
        """

    def points(self, alpha: Array, delta: Array, spins: Array, reftime: GPSTime, orbit: Orbit | None = None) -> Doppler:
        """Return points of a lattice as a stack, NumPy leaves, at the frequency of the group's templates."""
        k = len(alpha)
        fkdot = np.column_stack([np.full(k, np.asarray(self.stack.fkdot)[0, 0]), spins])
        each = jax.tree.map(lambda x: np.full(k, x), reftime)
        return with_fields(self.stack, alpha=alpha, delta=delta, fkdot=fkdot, reftime=each, orbit=orbit)


def computed_on_cpu(device: Device | None) -> bool:
    """Return whether a device, by default JAX's default device, is a CPU."""
    return (default_device() if device is None else device).platform == "cpu"


def cap_of(n: np.ndarray) -> tuple[np.ndarray, float]:
    """Return centre, (3,), and radius, rad, of a cap that holds positions, (m, 3); pi if widely spread."""
    mean = np.mean(n, axis=0)
    size = np.linalg.norm(mean)
    if size < 0.1:
        return n[0], np.pi
    centre = mean / size
    return centre, float(2 * np.arcsin(min(1.0, 0.5 * np.max(np.linalg.norm(n - centre, axis=1)))))


def nearest_integers(x: Sequence[jax.Array] | jax.Array, origin: jax.Array, matrix: jax.Array) -> jax.Array:
    """Return integers of the lattice points nearest to m templates, (k, m) int32; traceable.

    Parameters
    ----------
    x : (d, m) float64
        Coordinates of the templates.
    origin, matrix : (d,), (d, k) float64
        Coordinates of the origin, and the matrix from offsets to places in units of `nearest_points`.
    """
    d, k = matrix.shape
    if not k:
        return jnp.zeros((0, x[0].shape[0]), jnp.int32)
    away = [x[i] - origin[i] for i in range(d)]
    # sums of products, since XLA computes products of matrices in lower precision on some devices
    place = [sum(own * matrix[i, j] for i, own in enumerate(away)) for j in range(k)]
    return nearest_points(jnp.stack(place, axis=-1)).T.astype(jnp.int32)


def pieces_of(parameters: np.ndarray, device: Device | None) -> list[jax.Array]:
    """Return parameters of m templates, (p, m) float64, on a device, in pieces padded by repeating the last."""
    m, on_cpu = parameters.shape[1], computed_on_cpu(device)
    size = padded_size(max(LEAST_PIECE, min(m, PIECE) if on_cpu else m), 1 if on_cpu else STEPS)
    padded = np.pad(parameters, ((0, 0), (0, -m % size)), mode="edge")
    return [jax.device_put(x, device) for x in np.split(padded, padded.shape[1] // size, axis=1)]


def gap_in(n: np.ndarray) -> int:
    """Return the number of the position, in the middle half of (m, 3), that is furthest from its predecessor."""
    m = len(n)
    first, last = max(1, m // 4), max(1, 3 * m // 4)
    steps = np.sum(np.diff(n[first - 1 : last + 1], axis=0) ** 2, axis=1)
    return first + int(np.argmax(steps))


def distinct_points(found: list[tuple[jax.Array, jax.Array]], m: int, on_cpu: bool) -> tuple[np.ndarray, Array, Array]:
    """Return the different points nearest to m templates, and each template's index among them.

    Parameters
    ----------
    found : list of ((k, size) int32, (2, size) float64)
        For each piece of templates the integers of their nearest points, and sums that `differences` needs.
    m : int
    on_cpu : bool

    Returns
    -------
    points : (n, k) int64
        Ascending.
    index : (m,) int64, or more on other devices
    moved : (2, m) float64, or more on other devices
    """
    if on_cpu:
        integers, moved = (np.concatenate([np.asarray(x[i]) for x in found], axis=1)[:, :m] for i in range(2))
        points, index = _distinct(integers)
        return points, index, moved
    integers, moved = found[0]
    points, index = _distinct_on_device(integers)
    return points, index, moved


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


def differences(moved: Array, of_points: np.ndarray, index: Array) -> Array:
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
