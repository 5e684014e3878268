"""The metric on the map of a patch, constant and nowhere smaller than the metric on the sphere.

Lattice tilings in the supersky metric are described by Wette (2014, Phys. Rev. D 90, 122010). Here a flat metric
replaces the metric on a curved patch of the sphere. Because the flat metric is nowhere smaller, no signal loses more
than it predicts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from jfstat.banks.patches import Patch
from jfstat.banks.space import SKY_FLOOR, ParameterSpace
from jfstat.maths.lattices import flipped, lower_factor
from jfstat.metrics.phasemetric import drift, restricted

DIRECTIONS = 48
"""Number of directions on the map in which a ball's extent is evaluated."""
HALVINGS = 12
"""Number of bisections in the search for a ball's radius."""


class Padding(NamedTuple):
    """Allowances of a lattice for fixed spin-downs and for the curvature of the sky.

    Attributes
    ----------
    mismatch : float
        Mismatch that remains for the lattice itself.
    sky : float
        Distance beyond the patch to which templates are needed, by the metric on the map.
    spins : (k,) float64
        Distances beyond the ranges of the tiled spin-downs, highest order first, Hz/s^j.
    spin_factor : (k, k) float64
        Lower triangular factor of a metric in the tiled spin-downs, maximised over frequency and sky, that is nowhere
        larger than the true one.
    """

    mismatch: float
    sky: float
    spins: np.ndarray
    spin_factor: np.ndarray


def map_factor(space: ParameterSpace, patch: Patch) -> np.ndarray:
    """Return a lower triangular factor, (2, 2), of a metric on a patch's map.

    The metric is maximised over frequency and tiled spin-downs.
    """
    shape = patch.shape
    flat = flipped(restricted(space.sky @ shape.axes.T, [1, 0]))
    return flat if shape.grazing else _enlarged(patch, space, flat)


def _enlarged(patch: Patch, space: ParameterSpace, flat: np.ndarray) -> np.ndarray:
    """Return a factor, like `flat`, whose metric is nowhere smaller on the patch than the metric on the sphere.

    A template lies up to a radius away from a position that it covers, and the relevant slope of the map is half-way
    between them. The metric must therefore be large enough up to half the longest radius beyond the patch. As this
    radius shrinks when the metric grows, shorter lengths are tried as long as they give fewer templates.
    """
    shape, radius = patch.shape, np.sqrt(space.mismatch)
    y = shape.project(patch.points)
    start = flat.T @ flat
    best, least, length = start, np.inf, _longest(start, radius)
    axes = np.linalg.eigh(start)[1].T
    for _ in range(6):
        half = length * axes
        local = space.sky @ shape.bounded_jacobian(np.concatenate([y, *(y + x for x in (*half, *-half))]))
        fitting = [x for x in _upper_bounds(local, flat) if _longest(x, radius) <= length * (1 + 1e-9)]
        areas = [patch.area_within(radius, lower_factor(x)) for x in fitting]
        if min(areas, default=np.inf) >= least:
            break
        least = min(areas)
        best = fitting[areas.index(least)]
        shortest = _longest(best, radius)
        if shortest > 0.9 * length:
            break
        length = np.sqrt(shortest * length)
    return lower_factor(best)


def _longest(g: np.ndarray, radius: float) -> float:
    """Return half the longest radius on the map of a ball of `radius` by the metric g, (2, 2)."""
    return 0.5 * radius / np.sqrt(np.linalg.eigvalsh(g)[0])


def _upper_bounds(local: np.ndarray, flat: np.ndarray) -> list[np.ndarray]:
    """Return metrics, (2, 2), none smaller than any local^T local of the factors, (n, 3, 2), in any direction.

    They are the metric in the middle of the map, with factor `flat`, multiplied by a number; this metric plus a
    multiple of the identity; and the mean of the local metrics multiplied by a number.
    """
    middle = flat.T @ flat
    x, y = np.moveaxis(local, 2, 0)
    xx, xy, yy = (np.sum(own) / len(local) for own in (x * x, x * y, y * y))
    mean = np.array([[xx, xy], [xy, yy]])
    identity = np.eye(2)
    return [
        (1 + max(0.0, _largest_excess(local @ np.linalg.inv(flat), identity))) * middle,
        middle + max(0.0, _largest_excess(local, middle)) * identity,
        mean * (1 + _largest_excess(local @ np.linalg.inv(np.linalg.cholesky(mean).T), identity)),
    ]


def _largest_excess(local: np.ndarray, g: np.ndarray) -> float:
    """Return the largest eigenvalue of local^T local - g over all factors, (n, 3, 2)."""
    x, y = np.moveaxis(local, 2, 0)
    xx, xy, yy = np.sum(x * x, axis=1) - g[0, 0], np.sum(x * y, axis=1) - g[0, 1], np.sum(y * y, axis=1) - g[1, 1]
    return float(np.max(0.5 * (xx + yy) + np.hypot(0.5 * (xx - yy), xy)))


def padding(space: ParameterSpace, patch: Patch, factor: np.ndarray) -> Padding | None:
    """Return the padding of a patch whose map has the metric of `factor`, (2, 2); None if the mismatch is too small."""
    k, corners = len(space.tiled), space.corners
    spins, y, fixed = list(range(1, 1 + k)), [1 + k, 2 + k], list(range(3 + k, 3 + k + len(space.fixed)))
    cost, sky_padding, spin_padding, spin_factors = 0.0, 0.0, np.zeros(k), []
    for local in _local_factors(space, patch, factor):
        ordered = restricted(local, [0, *spins, *y, *fixed])
        cost = max(cost, float(np.max(np.sum((corners @ ordered[3 + k :, 3 + k :].T) ** 2, axis=1))))
        shift = corners @ drift(ordered, 3 + k).T
        sky_padding = max(sky_padding, float(np.max(np.linalg.norm(shift[:, 1 + k :] @ factor.T, axis=1))))
        spin_padding = np.maximum(spin_padding, np.max(np.abs(shift[:, 1 : 1 + k]), axis=0)[::-1])
        spin_factors.append(restricted(local, [0, *y, *spins])[3:, 3:])
    left = space.mismatch - cost
    if patch.shape.grazing:
        # the sky may not compensate for the fixed spin-downs
        alone = restricted(space.factor, [0, *space.tiled, *space.fixed])[1 + k :, 1 + k :]
        distance = float(np.max(np.linalg.norm(corners @ alone.T, axis=1)))
        left, thickness = _grazing(space, patch, factor, max(0.0, np.sqrt(space.mismatch) - distance), sky_padding)
        spin_padding = spin_padding + np.abs(space.drift @ patch.shape.up) * thickness
    return Padding(left, sky_padding, spin_padding, flipped(_lower_bound(spin_factors))) if left > 0 else None


def _grazing(
    space: ParameterSpace, patch: Patch, factor: np.ndarray, radius: float, further: float
) -> tuple[float, float]:
    """Return the mismatch of a lattice on the map of a grazing shape, and the differences of templates along `up`.

    A template at a distance r on the map from a position loses r^2, plus a loss from their difference along `up`, which
    depends on r. The sum may be `radius` squared. Templates may be up to `further` further away.
    """
    shape, points = patch.shape, patch.points
    weight, widest = float(np.sum((space.seen_sky @ shape.up) ** 2)), SKY_FLOOR**-0.5
    turn = np.linspace(0, 2 * np.pi, DIRECTIONS, endpoint=False)
    directions = np.stack([np.cos(turn), np.sin(turn)], axis=-1) @ np.linalg.inv(factor).T
    start, heights = shape.project(points)[:, None], (points @ shape.up)[:, None]

    def thickness(r: float) -> float:
        y = start + (r + further) * directions
        there = np.sqrt(np.maximum(1 - np.sum(y * y, axis=-1), 0.0))  # templates beyond the horizon are moved to it
        return float(np.max(np.abs(there - heights)))

    low, high = 0.0, radius
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        apart = thickness(middle)
        # `widest` is the limit from the least metric on the sky, which the weight does not include
        fits = middle**2 + weight * apart**2 <= radius**2 and apart <= widest
        low, high = (middle, high) if fits else (low, middle)
    return low**2, thickness(low)


def _local_factors(space: ParameterSpace, patch: Patch, factor: np.ndarray) -> Iterator[np.ndarray]:
    """Yield factors of the metric in frequency, tiled spin-downs, y and fixed spin-downs, at points of a patch.

    Each is enlarged in y to the lattice's metric there, given by `factor`.
    """
    k, shape, upper = len(space.tiled), patch.shape, space.ordered_factor
    slopes = shape.axes.T[None]
    if space.tiled or space.fixed:
        y = shape.project(patch.points[:: max(1, len(patch.points) // 8)])
        axes, size, _ = np.linalg.svd(np.linalg.inv(factor))
        half = 0.5 * np.sqrt(space.mismatch) * size[0] * axes[:, 0]
        slopes = shape.bounded_jacobian(np.concatenate([y, y + half, y - half]))
    for slope in slopes:
        local = np.concatenate([upper[:, : 1 + k], upper[:, 1 + k : 4 + k] @ slope, upper[:, 4 + k :]], axis=1)
        g = upper[1 + k : 4 + k, 1 + k : 4 + k] @ slope
        size, axes = np.linalg.eigh(factor.T @ factor - g.T @ g)
        extra = np.zeros((2, local.shape[1]))
        extra[:, 1 + k : 3 + k] = np.sqrt(np.maximum(size, 0.0))[:, None] * axes.T
        yield np.concatenate([local, extra])


def _lower_bound(factors: list[np.ndarray]) -> np.ndarray:
    """Return a factor, (k, k), whose metric is nowhere larger than for any of the upper triangular factors."""
    first = factors[0]
    if not first.size:
        return first
    size = 1.0 / np.diag(first)
    ratio = (np.stack(factors) * size) @ np.linalg.inv(first * size)
    return first * float(np.min(np.linalg.svd(ratio, compute_uv=False)))
