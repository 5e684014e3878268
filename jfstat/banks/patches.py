"""Patches: parts of the sky for each of which one flat map is accurate enough.

A map is the orthographic projection of a hemisphere along a direction `up`: its coordinates y are the components of
the unit vector n along two axes at right angles to `up`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from jfstat.banks.regions import Region, arc, circle
from jfstat.maths.vectors import tangents

EDGE_STEP = 1e-3
"""Distance between points of a map's edge, rad."""
ROWS = 24
"""Rows of sample points in a shape, at which areas and metrics are evaluated."""
STEEPEST = 0.99
"""Distance from the middle of a map beyond which its slope, which diverges at the horizon, is not used."""


class Shape(ABC):
    """A part of the sphere and its map."""

    divisible: bool = False
    """Whether the shape can be divided into smaller shapes."""
    edge: float = STEEPEST
    """Largest |y| of templates."""
    grazing: bool = False
    """Whether the shape reaches the horizon of its map; see `Grazing`."""

    @property
    @abstractmethod
    def up(self) -> np.ndarray:
        """Direction along which the map is projected, (3,)."""

    @property
    @abstractmethod
    def walls(self) -> tuple[np.ndarray, np.ndarray]:
        """Unit normals, (w, 3), and heights, (w,), of the planes that bound the shape: n . normal >= height inside."""

    @property
    @abstractmethod
    def size(self) -> float:
        """Length scale of the shape, rad."""

    @abstractmethod
    def contains(self, n: np.ndarray) -> np.ndarray:
        """Return whether positions (..., 3) lie inside: (...) bool."""

    @abstractmethod
    def samples(self) -> tuple[np.ndarray, np.ndarray]:
        """Return points spread over the shape, (k, 3), and the area that each represents, sr, (k,)."""

    @abstractmethod
    def sides(self, step: float) -> np.ndarray:
        """Return points along the boundary, (k, 3), no further apart than `step` rad."""

    def divided(self) -> Sequence[Shape]:
        """Return the smaller shapes that make up the shape; none if it is not divisible."""
        return []

    @cached_property
    def axes(self) -> np.ndarray:
        """The map's two axes, (2, 3)."""
        return tangents(self.up)

    def project(self, n: np.ndarray) -> np.ndarray:
        """Return the map's coordinates, (..., 2), of positions or differences of positions (..., 3)."""
        return n @ self.axes.T

    def lift(self, y: np.ndarray) -> np.ndarray:
        """Return positions (..., 3) in the hemisphere about `up` from the map's coordinates (..., 2), |y| <= 1."""
        height = np.sqrt(np.maximum(1 - np.sum(y * y, axis=-1, keepdims=True), 0.0))
        return y @ self.axes + height * self.up

    def jacobian(self, y: np.ndarray) -> np.ndarray:
        """Return dn/dy, (..., 3, 2), at the map's coordinates (..., 2), |y| < 1."""
        height = np.sqrt(1 - np.sum(y * y, axis=-1))[..., None]
        return self.axes.T - self.up[:, None] * (y / height)[..., None, :]

    def bounded_jacobian(self, y: np.ndarray) -> np.ndarray:
        """Return dn/dy, (n, 3, 2), at the map's coordinates (n, 2), moved inwards where the map is too steep."""
        size = np.linalg.norm(y, axis=1, keepdims=True)
        return self.jacobian(y * np.minimum(STEEPEST / np.maximum(size, 1e-12), 1.0))

    def onto_map(self, y: np.ndarray, factor: np.ndarray) -> np.ndarray:
        """Return the map's coordinates, (n, 2), with points beyond its edge moved to the nearest point of the edge.

        This never increases the distance to any point of the map, because the map is convex.

        Parameters
        ----------
        y : (n, 2) float64
        factor : (2, 2) float64
            Factor of the metric on the map.
        """
        from scipy.spatial import KDTree  # takes 0.2 s to import

        off = np.sum(y * y, axis=1) > self.edge**2
        y = y.copy()
        if not off.any():
            return y
        edge = self.project(circle(self.up, np.sqrt(1 - self.edge**2), EDGE_STEP))
        near = edge[KDTree(edge @ factor.T).query(y[off] @ factor.T)[1]]
        fine = EDGE_STEP * np.linalg.norm(factor, ord=2) < 0.03
        y[off] = near if fine else _nearest_on_circle(y[off], near, factor)
        return y

    def reached(self, y: np.ndarray, inverse: np.ndarray, radius: float) -> np.ndarray:
        """Return whether balls about points of the map reach all half-spaces that bound the shape: (n,) bool.

        Parameters
        ----------
        y : (n, 2) float64
            Centres of the balls; balls with centres beyond the map's edge count as reaching.
        inverse : (2, 2) float64
            Inverse of a factor of the metric on the map.
        radius : float
        """
        normals, heights = self.walls
        reached = np.ones(len(y), dtype=bool)
        on = np.flatnonzero(np.sum(y * y, axis=1) <= self.edge**2)
        extent = radius * np.linalg.norm(np.einsum("nij,iw->njw", self.jacobian(y[on]) @ inverse, normals.T), axis=1)
        reached[on] = np.all(self.lift(y[on]) @ normals.T >= heights - extent, axis=1)
        return reached

    def boundary_on_map(self, step: float) -> list[np.ndarray]:
        """Return lines where the map, and so the region, ends: points (k, 3) no further apart than `step` rad."""
        return []


class Grazing(Shape):
    """A shape up to the horizon of its map, where the map's slope grows without bound.

    The metric on the map leaves out the direction `up`. `patchmetric.padding` allows for the differences along `up`
    between a template and the positions that it covers.
    """

    edge = 1.0
    grazing = True

    def bounded_jacobian(self, y: np.ndarray) -> np.ndarray:
        return self.axes.T[None]

    def reached(self, y: np.ndarray, inverse: np.ndarray, radius: float) -> np.ndarray:
        return np.ones(len(y), dtype=bool)


@dataclass(frozen=True)
class Cap(Shape):
    """A spherical cap: the positions with n . centre >= height."""

    centre: np.ndarray
    height: float

    @property
    def up(self) -> np.ndarray:
        return self.centre

    @property
    def walls(self) -> tuple[np.ndarray, np.ndarray]:
        return self.centre[None], np.array([self.height])

    @property
    def size(self) -> float:
        return 2.0

    def contains(self, n: np.ndarray) -> np.ndarray:
        return n @ self.centre >= self.height

    def samples(self) -> tuple[np.ndarray, np.ndarray]:
        # a spiral whose turns differ by the golden angle
        k = 4 * ROWS**2
        z = self.height + (1 - self.height) * (np.arange(k) + 0.5) / k
        turn = np.pi * (3 - np.sqrt(5)) * np.arange(k)
        y = np.sqrt(1 - z * z)[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=-1)
        return self.lift(y), np.full(k, 2 * np.pi * (1 - self.height) / k)

    def sides(self, step: float) -> np.ndarray:
        return circle(self.centre, self.height, step)


@dataclass(frozen=True)
class Hemisphere(Grazing, Cap):
    """The half of the sphere about `centre`; its `height` is 0."""

    def boundary_on_map(self, step: float) -> list[np.ndarray]:
        return [self.sides(step)]


@dataclass(frozen=True)
class Triangle(Shape):
    """A spherical triangle, `corners` (3, 3) counter-clockwise; projected along its centre or `seen_from`, (3,)."""

    corners: np.ndarray
    seen_from: np.ndarray | None = None

    divisible = True

    @property
    def up(self) -> np.ndarray:
        mean = np.mean(self.corners, axis=0)
        return mean / np.linalg.norm(mean) if self.seen_from is None else self.seen_from

    @property
    def walls(self) -> tuple[np.ndarray, np.ndarray]:
        normals = np.cross(self.corners, np.roll(self.corners, -1, axis=0))
        return normals / np.linalg.norm(normals, axis=-1, keepdims=True), np.zeros(3)

    @property
    def size(self) -> float:
        return float(np.linalg.norm(self.corners[0] - self.corners[1]))

    def contains(self, n: np.ndarray) -> np.ndarray:
        return np.all(n @ self.walls[0].T >= -1e-15, axis=-1)

    def samples(self) -> tuple[np.ndarray, np.ndarray]:
        i, j = np.nonzero(np.add.outer(np.arange(ROWS), np.arange(ROWS)) < ROWS)
        weights = (np.stack([i, j, ROWS - 1 - i - j], axis=-1) + 1 / 3) / ROWS
        flat = weights @ self.corners
        size = np.linalg.norm(flat, axis=-1)
        area = 1 / size**3
        return flat / size[:, None], area * (self.area / np.sum(area))

    @property
    def area(self) -> float:
        """Area, sr (van Oosterom & Strackee 1983)."""
        a, b, c = self.corners
        return float(2 * np.arctan2(np.dot(a, np.cross(b - a, c - a)), 1 + a @ b + b @ c + c @ a))

    def sides(self, step: float) -> np.ndarray:
        return np.concatenate(
            [arc(a, b, step) for a, b in zip(self.corners, np.roll(self.corners, -1, axis=0), strict=True)]
        )

    def divided(self) -> list[Triangle]:
        a, b, c = self.corners
        ab, bc, ca = ((x + y) / np.linalg.norm(x + y) for x, y in ((a, b), (b, c), (c, a)))
        return [
            Triangle(np.stack(corners), self.seen_from)
            for corners in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))
        ]


@dataclass(frozen=True)
class GrazingTriangle(Grazing, Triangle):
    """A spherical triangle for a region that ends at the horizon of `seen_from`."""

    divisible = False

    def divided(self) -> list[Triangle]:
        return []


def triangle_around(centre: np.ndarray, radius: float, seen_from: np.ndarray | None = None) -> Triangle:
    """Return a triangle whose inscribed circle bounds the cap of `radius` rad, less than pi/4, around `centre`."""
    to_corner = np.arctan(2 * np.tan(max(radius, 1e-9)))
    turn = 2 * np.pi * np.arange(3) / 3
    ring = np.stack([np.cos(turn), np.sin(turn)], axis=-1) @ tangents(centre)
    return Triangle(np.cos(to_corner) * centre + np.sin(to_corner) * ring, seen_from)


def icosahedron() -> list[Triangle]:
    """Return twenty equal triangles that make up the sphere."""
    golden = 0.5 * (1 + np.sqrt(5))
    base = [(0.0, i, j * golden) for i in (-1, 1) for j in (-1, 1)]
    corners = np.array([np.roll(x, shift) for shift in range(3) for x in base]) / np.hypot(1, golden)
    near = np.abs(corners @ corners.T - 1 / np.sqrt(5)) < 1e-9
    triangles = []
    for i, j, k in combinations(range(12), 3):
        if near[i, j] and near[j, k] and near[i, k]:
            a, b, c = corners[[i, j, k]]
            triangles.append(Triangle(np.stack([a, b, c] if np.dot(a, np.cross(b, c)) > 0 else [a, c, b])))
    return triangles


def _nearest_on_circle(y: np.ndarray, near: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Return the points of a circle about the origin nearest to y, (n, 2), by a metric, starting at points `near`."""
    radius, angle = np.linalg.norm(near[0]), np.arctan2(near[:, 1], near[:, 0])
    for _ in range(3):  # Newton
        out = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        along = np.stack([-out[:, 1], out[:, 0]], axis=-1)
        off = (radius * out - y) @ factor.T
        slope = np.sum((along @ factor.T) * off, axis=1)
        curvature = radius * np.sum((along @ factor.T) ** 2, axis=1) - np.sum((out @ factor.T) * off, axis=1)
        angle = angle - np.where(curvature > 0, slope / np.where(curvature > 0, curvature, 1.0), 0.0)
    return radius * np.stack([np.cos(angle), np.sin(angle)], axis=-1)


@dataclass(frozen=True)
class Patch:
    """The part of a region that lies in a shape."""

    region: Region
    shape: Shape

    @cached_property
    def spacing(self) -> float:
        """Distance between points of the outline, rad."""
        return self.shape.size / 48

    @cached_property
    def interior(self) -> tuple[np.ndarray, np.ndarray]:
        """Points inside, (k, 3), and the area that each represents, sr, (k,)."""
        points, area = self.shape.samples()
        inside = self.region.contains(points)
        return points[inside], area[inside]

    @cached_property
    def outline(self) -> tuple[np.ndarray, np.ndarray]:
        """Middles of short segments of the outline and the segments as vectors, (k, 3) each."""
        lines = [(line, self.shape.contains) for line in self.region.boundary(self.spacing)]
        lines.append((self.shape.sides(self.spacing), self.region.contains))
        middles, segments = [], []
        for line, inside in lines:
            middle = 0.5 * (line[1:] + line[:-1])
            middle /= np.linalg.norm(middle, axis=-1, keepdims=True)
            chosen = inside(middle)
            middles.append(middle[chosen])
            segments.append((line[1:] - line[:-1])[chosen])
        return np.concatenate(middles), np.concatenate(segments)

    @cached_property
    def points(self) -> np.ndarray:
        """Points of interior and outline, (k, 3); none if shape and region do not overlap."""
        return np.concatenate([self.interior[0], self.outline[0]])

    @cached_property
    def parts(self) -> list[Patch]:
        """The patches that result from dividing the shape."""
        return patches(self.region, self.shape.divided())

    def area_within(self, radius: float, factor: np.ndarray) -> float:
        """Return the area of the map within `radius` of the patch, by the metric of a lower triangular factor."""
        points, area = self.interior
        inside = np.prod(np.diag(factor)) * np.sum(area * (points @ self.shape.up))
        length = np.sum(np.linalg.norm(self.shape.project(self.outline[1]) @ factor.T, axis=1))
        return float(inside + length * radius + np.pi * radius**2)


def patches(region: Region, shapes: Sequence[Shape]) -> list[Patch]:
    """Return the patches into which shapes divide a region, without empty ones."""
    return [patch for patch in (Patch(region, shape) for shape in shapes) if len(patch.points)]
