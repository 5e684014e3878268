"""From a cap or the whole sky to facets, spherical triangles and domes, each with a flat map.

A map is orthographic: its coordinates y are the components of the unit vector n along two axes, at right angles to the
direction from which it is seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from jfstat.banks.regions import arc, circle, tangents

SAMPLES = 24
"""Rows of points in a facet at which areas and metrics are looked at."""
RIM = 0.99
"""Distance from the middle of a map beyond which it is too steep."""


class Map:
    """What is seen from above the direction `up`, (3,)."""

    up: np.ndarray

    @cached_property
    def axes(self) -> np.ndarray:
        """The map's two axes, (2, 3)."""
        return tangents(self.up)

    def flat(self, n: np.ndarray) -> np.ndarray:
        """The map's coordinates of positions (..., 3) of the half sky about `up`: (..., 2)."""
        return n @ self.axes.T

    def lifted(self, y: np.ndarray) -> np.ndarray:
        """Positions (..., 3) from the map's coordinates (..., 2) inside the unit circle."""
        height = np.sqrt(np.maximum(1 - np.sum(y * y, axis=-1, keepdims=True), 0.0))
        return y @ self.axes + height * self.up

    def jacobian(self, y: np.ndarray) -> np.ndarray:
        """dn/dy, (..., 3, 2), at the map's coordinates (..., 2)."""
        height = np.sqrt(1 - np.sum(y * y, axis=-1))[..., None]
        return self.axes.T - self.up[:, None] * (y / height)[..., None, :]

    @property
    def edge(self) -> float:
        """Largest |y| of templates, beyond which the map is too steep."""
        return RIM

    def pulled(self, y: np.ndarray, sky: np.ndarray) -> np.ndarray:
        """The map's coordinates, (n, 2), those off the map put to the point of its edge that a metric finds nearest.

        To all that is on the map that is no further, since the map is convex.

        Parameters
        ----------
        sky : (2, 2) float64
            Factor of the metric.
        """
        from scipy.spatial import KDTree  # takes 0.2 s to import

        off = np.sum(y * y, axis=1) > self.edge**2
        y = y.copy()
        if not off.any():
            return y
        edge = self.flat(circle(self.up, np.sqrt(1 - self.edge**2), 1e-3))
        y[off] = edge[KDTree(edge @ sky.T).query(y[off] @ sky.T)[1]]
        return y


@dataclass(frozen=True)
class Dome(Map):
    """The positions higher than `height` above the plane at right angles to `up`: n . up >= height."""

    up: np.ndarray
    height: float

    @property
    def walls(self) -> np.ndarray:
        """Normal of its plane, (1, 3)."""
        return self.up[None]

    @property
    def heights(self) -> np.ndarray:
        """Of the plane above the origin, (1,)."""
        return np.array([self.height])

    @property
    def size(self) -> float:
        """Length scale, rad."""
        return 2.0

    def contains(self, n: np.ndarray) -> np.ndarray:
        """Whether positions (..., 3) lie inside: (...) bool."""
        return n @ self.up >= self.height

    @cached_property
    def samples(self) -> tuple[np.ndarray, np.ndarray]:
        """Points spread over it, (k, 3), and the area of each, sr, (k,): a spiral."""
        k = 4 * SAMPLES**2
        z = self.height + (1 - self.height) * (np.arange(k) + 0.5) / k
        turn = np.pi * (3 - np.sqrt(5)) * np.arange(k)
        y = np.sqrt(1 - z * z)[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=-1)
        return self.lifted(y), np.full(k, 2 * np.pi * (1 - self.height) / k)

    def sides(self, step: float) -> np.ndarray:
        """Points of its circle, (k, 3), no further apart than `step` rad."""
        return circle(self.up, self.height, step)

    def split(self) -> list[Facet]:
        """None: a dome stays whole."""
        return []


@dataclass(frozen=True)
class Brim(Dome):
    """The half sky around `up`, of which only what is lower than `top` above its horizon is wanted.

    The map is too steep there for its slopes to say anything. What a template and what it covers differ by along `up`
    is at most `top`.
    """

    top: float

    @property
    def edge(self) -> float:
        """Largest |y| of templates."""
        return 1.0


@dataclass(frozen=True)
class Facet(Map):
    """A spherical triangle, `corners` (3, 3) counter-clockwise; seen from above its centre or `seen_from`, (3,)."""

    corners: np.ndarray
    seen_from: np.ndarray | None = None

    @cached_property
    def up(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Where it is seen from, (3,)."""
        mean = np.mean(self.corners, axis=0)
        return mean / np.linalg.norm(mean) if self.seen_from is None else self.seen_from

    @cached_property
    def walls(self) -> np.ndarray:
        """Inward normals of the planes through the sides, (3, 3)."""
        normals = np.cross(self.corners, np.roll(self.corners, -1, axis=0))
        return normals / np.linalg.norm(normals, axis=-1, keepdims=True)

    @property
    def heights(self) -> np.ndarray:
        """Of the planes above the origin, (3,)."""
        return np.zeros(3)

    @property
    def size(self) -> float:
        """Length scale, rad."""
        return float(np.linalg.norm(self.corners[0] - self.corners[1]))

    def contains(self, n: np.ndarray) -> np.ndarray:
        """Whether positions (..., 3) lie inside: (...) bool."""
        return np.all(n @ self.walls.T >= -1e-15, axis=-1)

    @cached_property
    def samples(self) -> tuple[np.ndarray, np.ndarray]:
        """Points spread over the facet, (k, 3), and the area of each, sr, (k,)."""
        i, j = np.nonzero(np.add.outer(np.arange(SAMPLES), np.arange(SAMPLES)) < SAMPLES)
        weights = (np.stack([i, j, SAMPLES - 1 - i - j], axis=-1) + 1 / 3) / SAMPLES
        flat = weights @ self.corners
        size = np.linalg.norm(flat, axis=-1)
        area = 1 / size**3
        return flat / size[:, None], area * (self.area / np.sum(area))

    @cached_property
    def area(self) -> float:
        """Of the triangle, sr (van Oosterom & Strackee 1983)."""
        a, b, c = self.corners
        return float(2 * np.arctan2(np.dot(a, np.cross(b - a, c - a)), 1 + a @ b + b @ c + c @ a))

    def sides(self, step: float) -> np.ndarray:
        """Points of the three sides, (k, 3), no further apart than `step` rad; each side begins where one ends."""
        return np.concatenate(
            [arc(a, b, step) for a, b in zip(self.corners, np.roll(self.corners, -1, axis=0), strict=True)]
        )

    def split(self) -> list[Facet]:
        """Four smaller ones, through the middles of the sides."""
        a, b, c = self.corners
        ab, bc, ca = ((x + y) / np.linalg.norm(x + y) for x, y in ((a, b), (b, c), (c, a)))
        return [
            Facet(np.stack(corners), self.seen_from)
            for corners in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))
        ]


def around(centre: np.ndarray, radius: float, seen_from: np.ndarray | None = None) -> list[Facet]:
    """One facet whose inscribed circle is that of a cap, of `radius` rad less than pi/4."""
    reach = np.arctan(2 * np.tan(max(radius, 1e-9)))
    turn = 2 * np.pi * np.arange(3) / 3
    ring = np.stack([np.cos(turn), np.sin(turn)], axis=-1) @ tangents(centre)
    return [Facet(np.cos(reach) * centre + np.sin(reach) * ring, seen_from)]


def icosahedron() -> list[Facet]:
    """Twenty facets that make up the sphere."""
    golden = 0.5 * (1 + np.sqrt(5))
    base = [(0.0, i, j * golden) for i in (-1, 1) for j in (-1, 1)]
    corners = np.array([np.roll(x, shift) for shift in range(3) for x in base]) / np.hypot(1, golden)
    near = np.abs(corners @ corners.T - 1 / np.sqrt(5)) < 1e-9
    facets = []
    for i, j, k in combinations(range(12), 3):
        if near[i, j] and near[j, k] and near[i, k]:
            a, b, c = corners[[i, j, k]]
            facets.append(Facet(np.stack([a, b, c] if np.dot(a, np.cross(b, c)) > 0 else [a, c, b])))
    return facets
