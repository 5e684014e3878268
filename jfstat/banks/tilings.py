"""Tilings: lattices of templates that cover a patch of the sky, or given positions, and ranges of spin-down."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from jfstat.banks.patches import Patch, Shape
from jfstat.banks.patchmetric import map_factor, padding
from jfstat.banks.space import ParameterSpace, Templates
from jfstat.maths.boxes import MetricBox
from jfstat.maths.lattices import (
    covering_lattice,
    expected_points,
    integers_between,
    lattice_generator,
    log_determinant,
)
from jfstat.maths.vectors import angles
from jfstat.metrics.phasemetric import drift

if TYPE_CHECKING:
    from scipy.spatial import KDTree

CHUNK = 1_000_000
"""Number of lattice points tested together."""
WORTH_JOINING = 0.8
"""Ratio of expected templates with and without `JointBounds` below which they are used."""


@dataclass(frozen=True)
class SpinTiling:
    """A lattice of spin-downs that is the same at each of some sky positions.

    Attributes
    ----------
    space : ParameterSpace
    positions : (n, 3) float64
    box : MetricBox
        Box of the tiled spin-downs, highest first.
    """

    space: ParameterSpace
    positions: np.ndarray
    box: MetricBox

    @cached_property
    def expected(self) -> float:
        """Approximate number of templates."""
        log_volume = self.box.log_volume + log_determinant(self.box.factor)
        return len(self.positions) * expected_points(log_volume, len(self.space.tiled), self.box.radius)

    def templates(self) -> Iterator[Templates]:
        """Yield the templates, in pieces."""
        k = len(self.space.tiled)
        points = np.empty((1, 0))
        if k:
            generator = lattice_generator(self.box.factor, self.box.radius * covering_lattice(k))
            _, points = self.box.lattice_points(generator, 0.5 * (self.box.low + self.box.high)[None])
        spins = self.space.with_fixed(points)
        alpha, delta = (np.repeat(x, len(spins)) for x in angles(self.positions))
        yield Templates(alpha, delta, np.tile(spins, (len(self.positions), 1)))


def tile_positions(space: ParameterSpace, positions: np.ndarray, offsets: np.ndarray) -> SpinTiling | None:
    """Find the smallest tiling that covers the spin-downs at each of some positions.

    Parameters
    ----------
    space : ParameterSpace
    positions : (n, 3) float64
    offsets : (m, 3) float64
        Offsets on the sky that the templates of a position must cover.

    Returns
    -------
    SpinTiling or None
        Tiling, or None if the offsets lose more than the mismatch.
    """
    tilings = [_spin_tiling(choice, positions, offsets) for choice in space.choices()]
    return min((x for x in tilings if x is not None), key=lambda tiling: tiling.expected, default=None)


def _spin_tiling(space: ParameterSpace, positions: np.ndarray, offsets: np.ndarray) -> SpinTiling | None:
    """Make the tiling with the tiled spin-downs of `space`; see `tile_positions` for other arguments."""
    n, upper, corners = 1 + len(space.tiled), space.ordered_factor, space.corners
    offsets = np.concatenate([np.repeat(offsets, len(corners), axis=0), np.tile(corners, (len(offsets), 1))], axis=1)
    left = space.mismatch - np.max(np.sum((offsets @ upper[n:, n:].T) ** 2, axis=1))
    if left <= 0:
        return None
    shift = np.max(np.abs(offsets @ drift(upper, n)[1:].T), axis=0)
    return SpinTiling(space, positions, space.tiled_box(space.spins, float(np.sqrt(left)), shift[::-1]))


@dataclass(frozen=True)
class PatchTiling:
    """A lattice over a patch of the sky and spin-downs.

    Its coordinates are y on the map of the patch and f^(k) + drift . (n - up) for each tiled spin-down, highest first.
    In these coordinates the metric is block diagonal.

    Attributes
    ----------
    space : ParameterSpace
    patch : Patch
    sky : (2, 2) float64
        Lower triangular factor of the metric in y, maximised over frequency and tiled spin-downs.
    box : MetricBox
        Box of the tiled spin-downs, highest first.
    padding : float
        Distance beyond the patch, by the metric in y, to which templates are needed because spin-downs are fixed.
    """

    space: ParameterSpace
    patch: Patch
    sky: np.ndarray
    box: MetricBox
    padding: float

    @property
    def reach(self) -> float:
        """Largest distance of templates outside the patch, by the metric in y."""
        return self.box.radius + self.padding

    @cached_property
    def expected(self) -> float:
        """Approximate number of templates."""
        return self._expected_by_ranges if self.joint is None else max(self.joint.expected, self.least)

    @cached_property
    def least(self) -> float:
        """Number of templates if the patch were flat and had no edge."""
        points, area = self.patch.interior
        sphere = self.space.sky
        # the area element at n of a metric g in three dimensions is the root of n . adj(g) n
        element = abs(np.prod(np.diag(sphere))) * np.linalg.norm(np.linalg.solve(sphere.T, points.T), axis=0)
        return self._points_per_area * float(element @ area)

    @cached_property
    def _points_per_area(self) -> float:
        log_volume = self.box.log_volume + log_determinant(self.space.spins)
        return expected_points(log_volume, 2 + len(self.space.tiled), self.box.radius)

    @cached_property
    def _expected_by_ranges(self) -> float:
        return self._points_per_area * self.patch.area_within(self.reach, self.sky)

    @cached_property
    def joint(self) -> JointBounds | None:
        """Bounds on sky and spin-downs together, if they save templates."""
        if not self.space.tiled or not self.patch.shape.divisible:
            return None
        bounds = _joint_bounds(self)
        return bounds if bounds.expected < WORTH_JOINING * self._expected_by_ranges else None

    def templates(self) -> Iterator[Templates]:
        """Yield the templates, in pieces."""
        space, box, k = self.space, self.box, len(self.space.tiled)
        lattice = box.radius * covering_lattice(2 + k)
        generator = lattice_generator(space.spins, lattice[2:]) if k else np.empty((0, 2))
        per_position = int(np.prod((box.high - box.low + 2 * box.ball_extent) / np.diag(generator[:, 2:]) + 1))
        for integers, y in self._sky_points(lattice_generator(self.sky, lattice[:2, :2])):
            for rows in np.array_split(np.arange(len(y)), 1 + len(y) * per_position // CHUNK):
                n = self.patch.shape.lift(y[rows])
                offset = space.tiled_centre + integers[rows] @ generator[:, :2].T
                offset = offset - (n - self.patch.shape.up) @ space.drift.T
                which, points = box.lattice_points(generator[:, 2:], offset)
                if self.joint is not None:
                    near = self.joint.touched(self.patch.shape, n[which], points)
                    which, points = which[near], points[near]
                alpha, delta = angles(n)
                yield Templates(alpha[which], delta[which], space.with_fixed(points))

    def _sky_points(self, generator: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield points of a lattice on the map whose balls touch the patch, in pieces: integers and y, (n, 2) each."""
        low, high = self._map_bounds()
        boundary = self._boundary(low, high)
        columns = np.arange(np.ceil(low[0] / generator[0, 0]), np.floor(high[0] / generator[0, 0]) + 1)
        per_column = max(1.0, (high[1] - low[1]) / generator[1, 1])
        for some in np.array_split(columns, max(1, int(len(columns) * per_column / CHUNK))):
            start = some * generator[1, 0]
            which, second = integers_between((low[1] - start) / generator[1, 1], (high[1] - start) / generator[1, 1])
            integers = np.stack([some[which], second.astype(float)], axis=-1)
            y = integers @ generator.T
            keep = self._touching(y, boundary)
            yield integers[keep], self.patch.shape.onto_map(y[keep], self.sky)

    def _map_bounds(self) -> np.ndarray:
        """Return lowest and highest y of templates, (2, 2)."""
        y = self.patch.shape.project(self.patch.points)
        extent = self._extent
        return np.stack([np.min(y, axis=0) - extent, np.max(y, axis=0) + extent])

    @property
    def _extent(self) -> np.ndarray:
        """Largest distance of templates outside the patch in each y, (2,)."""
        return self.reach * np.linalg.norm(np.linalg.inv(self.sky), axis=1) + 2 * self.patch.spacing

    def _boundary(self, low: np.ndarray, high: np.ndarray) -> KDTree | None:
        """Return points of the region's boundary near the patch, dense enough for distances; None if there are none.

        Their coordinates are such that the metric on the map is the identity.
        """
        from scipy.spatial import KDTree  # takes 0.2 s to import

        shape = self.patch.shape
        step = float(0.1 * self.reach / np.linalg.norm(self.sky, ord=2))
        lines = self.patch.region.boundary(step) + shape.boundary_on_map(step)
        n = np.concatenate(lines) if lines else np.empty((0, 3))
        y = shape.project(n[n @ shape.up > -1e-9])
        y = y[np.all((y >= low - self._extent) & (y <= high + self._extent), axis=1)]
        return KDTree(y @ self.sky.T) if len(y) else None

    def _touching(self, y: np.ndarray, boundary: KDTree | None) -> np.ndarray:
        """Return whether balls about points y, (n, 2), touch the patch: (n,) bool."""
        shape = self.patch.shape
        touching = shape.reached(y, np.linalg.inv(self.sky), self.reach)
        index = np.flatnonzero(touching)
        beyond = np.sum(y[index] ** 2, axis=1) > shape.edge**2
        outside = index[beyond | ~self.patch.region.contains(shape.lift(y[index]))]
        touching[outside] = False
        if len(outside) and boundary is not None:
            distance, _ = boundary.query(y[outside] @ self.sky.T, distance_upper_bound=1.01 * self.reach)
            touching[outside] = np.isfinite(distance)
        return touching


Tiling: TypeAlias = SpinTiling | PatchTiling


def tile_patch(space: ParameterSpace, patch: Patch) -> PatchTiling | None:
    """Make the tiling of a patch with the tiled spin-downs of `space`.

    The result is None if the other spin-downs lose more than the mismatch.
    """
    factor = map_factor(space, patch)
    pad = padding(space, patch, factor)
    if pad is None:
        return None
    box = space.tiled_box(pad.spin_factor, float(np.sqrt(pad.mismatch)), pad.spins)
    return PatchTiling(space, patch, factor, box, pad.sky)


class JointBounds(NamedTuple):
    """A box in sky and spin-downs together that contains the patch and the ranges of spin-down.

    If a patch is narrower than a template's ball, this box excludes templates whose spin-downs would have to be
    compensated by a position outside the patch.

    Attributes
    ----------
    box : MetricBox
        Box in u = rotation @ y and the tiled spin-downs plus (n . up - 1) lift, highest first.
    rotation : (2, 2) float64
        Matrix from y to coordinates in which the metric is the identity and the patch fills most of a rectangle.
    lift : (k,) float64
        Drift of the tiled spin-downs along `up`.
    """

    box: MetricBox
    rotation: np.ndarray
    lift: np.ndarray

    @property
    def expected(self) -> float:
        """Approximate number of templates whose balls touch the box."""
        log_volume = self.box.log_volume + log_determinant(self.box.factor)
        return expected_points(log_volume, len(self.box.low), self.box.radius)

    def touched(self, shape: Shape, n: np.ndarray, spins: np.ndarray) -> np.ndarray:
        """Return whether balls of templates, positions (n, 3) and tiled spin-downs (n, k), touch the box: (n,) bool."""
        height = (n @ shape.up - 1)[:, None] * self.lift
        return self.box.is_near(np.concatenate([shape.project(n) @ self.rotation.T, spins + height], axis=1))


def _joint_bounds(tiling: PatchTiling) -> JointBounds:
    """Return the bounds of a tiling with tiled spin-downs."""
    shape, space, box, spacing = tiling.patch.shape, tiling.space, tiling.box, tiling.patch.spacing
    rotation, rectangle = _narrowest_rectangle(tiling)
    lift = space.drift @ shape.up
    # heights above the map between the points of the patch may exceed those at the points
    height = tiling.patch.points @ shape.up - 1
    slope = float(np.max(np.linalg.norm(shape.project(tiling.patch.points), axis=1))) + spacing
    heights = [np.min(height) - spacing * slope, min(0.0, np.max(height) + spacing * slope)]
    low, high = np.sort(np.outer(heights, lift), axis=0)
    k = len(lift)
    factor = np.eye(2 + k)
    factor[2:, :2] = space.spins @ space.drift @ shape.axes.T @ np.linalg.inv(rotation)
    factor[2:, 2:] = space.spins
    ends = np.append(rectangle[0], box.low + low), np.append(rectangle[1], box.high + high)
    return JointBounds(MetricBox(*ends, factor, box.radius), rotation, lift)


def _narrowest_rectangle(tiling: PatchTiling) -> tuple[np.ndarray, np.ndarray]:
    """Return the rotation of `JointBounds` and the rectangle's lowest and highest u, (2, 2) each."""
    whitened = tiling.patch.shape.project(tiling.patch.points) @ tiling.sky.T
    least, best, rectangle = np.inf, tiling.sky, np.empty((2, 2))
    for angle in np.deg2rad(np.arange(0, 90, 5)):
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        u = whitened @ turn.T
        # the patch may extend beyond its points by half their spacing
        extra = tiling.padding + 0.5 * tiling.patch.spacing * np.linalg.norm(turn @ tiling.sky, axis=1)
        low, high = np.min(u, axis=0) - extra, np.max(u, axis=0) + extra
        area = float(np.prod(high - low + 2 * tiling.box.radius))
        if area < least:
            least, best, rectangle = area, turn @ tiling.sky, np.stack([low, high])
    return best, rectangle
