"""Covering of a sky region: the patches and the tiled spin-downs that need the fewest templates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, product

import numpy as np

from jfstat.banks.patches import (
    Cap,
    GrazingTriangle,
    Hemisphere,
    Patch,
    icosahedron,
    patches,
    triangle_around,
)
from jfstat.banks.regions import Region, Zone
from jfstat.banks.space import MAX_TEMPLATES, ParameterSpace, Templates
from jfstat.banks.tilings import PatchTiling, Tiling, tile_patch, tile_positions
from jfstat.maths.vectors import unit_vector

ONE_PATCH = np.deg2rad(20)
"""Largest radius of a cap, rad, for which the region in it starts as one patch."""
DEEPEST = 5
"""Largest number of successive divisions of a patch."""
NEAR_ENOUGH = 1.3
"""Ratio of a patch's templates to the fewest possible below which it is not divided."""
ZONES = (0.15, 0.2, 0.3, 0.4, 0.6, 0.8)
"""Heights of zones to try; see `_divisions`."""
WORTH_DIVIDING = 4
"""Ratio of a patch's templates to the fewest possible above which it is divided again even if one division does not
help."""
WORTH_IT = 0.98
"""Ratio of templates after and before dividing a patch below which the division is kept."""
SAME, SAME_SPINS = 1e-7, 1e-3
"""Differences of position, rad, and of spin-downs, by the metric, up to which templates at a horizon count as equal."""


def cover_positions(space: ParameterSpace, positions: np.ndarray) -> Sequence[Tiling]:
    """Return tilings of the spin-downs at each of some positions, (n, 3)."""
    tiling = tile_positions(space, positions, np.zeros((1, 3)))
    return [] if tiling is None else [tiling]


def cover_region(space: ParameterSpace, region: Region) -> Sequence[Tiling]:
    """Return tilings of a region of the sky and the spin-downs."""
    tilings = _tile_region(space, region)
    centre, radius = region.cap
    if radius < ONE_PATCH:
        points = Patch(region, triangle_around(centre, radius)).points
        alone = tile_positions(space, centre[None], points - centre)
        if alone is not None and alone.expected < _expected(tilings):
            return [alone]
    return tilings


def all_templates(tilings: Sequence[Tiling], mismatch: float) -> Templates:
    """Return the templates of all tilings, in their order.

    Raises
    ------
    ValueError
        If there would be more than `MAX_TEMPLATES` templates.
    """
    expected = _expected(tilings)
    if expected > MAX_TEMPLATES:
        raise ValueError(
            f"mismatch must be larger, not {mismatch:g}: the bank would have about {expected:.2g} templates and the "
            f"most is {MAX_TEMPLATES:.0g}; or narrow the ranges."
        )
    found = [Templates(*map(np.concatenate, zip(*tiling.templates(), strict=True))) for tiling in tilings]
    templates = Templates(*map(np.concatenate, zip(*found, strict=True)))
    again = _there_twice(tilings, found)
    return Templates(*(np.delete(x, again, axis=0) for x in templates)) if len(again) else templates


def _there_twice(tilings: Sequence[Tiling], found: Sequence[Templates]) -> np.ndarray:
    """Return the indices of templates at the horizons of maps that are equal to others.

    All templates beyond a horizon are moved to it, and two maps may meet there.
    """
    rows, indices, first = [], [], 0
    for tiling, own in zip(tilings, found, strict=True):
        if isinstance(tiling, PatchTiling) and tiling.patch.shape.grazing:
            n = unit_vector(own.alpha, own.delta)
            at = np.flatnonzero(np.abs(n @ tiling.patch.shape.up) < SAME)
            spins = tiling.space.tiled_values(own.spins[at]) @ tiling.space.spins.T
            rows.append(np.rint(np.concatenate([n[at] / SAME, spins / SAME_SPINS], axis=1)))
            indices.append(first + at)
        first += len(own.alpha)
    if not rows:
        return np.empty(0, np.int64)
    index = np.concatenate(indices)
    return np.delete(index, np.unique(np.concatenate(rows), axis=0, return_index=True)[1])


def _expected(tilings: Sequence[Tiling]) -> float:
    return sum(tiling.expected for tiling in tilings)


def _tile_region(space: ParameterSpace, region: Region) -> list[PatchTiling]:
    """Return the tilings for the division into patches and the tiled spin-downs that need the fewest templates."""
    best: list[PatchTiling] = []
    for choice in space.choices():
        for division in _divisions(choice, region):
            tilings = _tile_patches(choice, division)
            total = _expected(best) if best else np.inf
            least = np.inf if tilings is None else sum(x.least for x in tilings)
            if tilings is None or least > total:
                continue
            # dividing pays if there are many more templates than the fewest possible, unless they are few anyway, or
            # the fewest possible come close to the best tiling or the limit
            if max(WORTH_DIVIDING * least, 1.0) < min(total, MAX_TEMPLATES):
                patience = int(len(tilings) == 1)
                tilings = [fine for coarse in tilings for fine in _divided(coarse, 0, patience)]
            if _expected(tilings) < total:
                best = tilings
    return best


def _tile_patches(space: ParameterSpace, division: Sequence[Patch]) -> list[PatchTiling] | None:
    """Return the tilings of all patches; None if one of them cannot be tiled."""
    tilings = [tiling for patch in division if (tiling := tile_patch(space, patch)) is not None]
    return tilings if len(tilings) == len(division) else None


def _divided(coarse: PatchTiling, depth: int, patience: int) -> list[PatchTiling]:
    """Return a patch's tiling, or the tilings of the patches into which it is divided if they need fewer templates.

    If there are many more templates than the fewest possible, a division that does not help may be followed by one that
    does. `patience` is the number of such divisions allowed.
    """
    parts = coarse.patch.parts if depth < DEEPEST and coarse.expected >= NEAR_ENOUGH * coarse.least else []
    finer = _tile_patches(coarse.space, parts)
    if not finer:
        return [coarse]
    if _expected(finer) >= WORTH_IT * coarse.expected:
        patience -= 1
        if patience < 0 or coarse.expected < WORTH_DIVIDING * coarse.least:
            return [coarse]
    finest = [x for fine in finer for x in _divided(fine, depth + 1, patience)]
    return finest if _expected(finest) < WORTH_IT * coarse.expected else [coarse]


def _divisions(space: ParameterSpace, region: Region) -> Iterator[list[Patch]]:
    """Yield divisions of a region into patches.

    A map projected along the direction in which the metric is smallest is hardly stretched except near its horizon
    (Wette & Prix 2013). Two caps around that direction and its opposite, whole or in zones, therefore cover most of the
    sky, and two hemispheres cover the zone between them. A small region is projected along this direction too:
    projected along its own centre, a region near the horizon would need many more templates, because the metric along
    the sky changes strongly there.
    """
    pole = space.least_seen_direction
    centre, radius = region.cap
    if radius < ONE_PATCH:
        pole = pole if pole @ centre >= 0 else -pole
        yield patches(region, [triangle_around(centre, radius)])
        if pole @ centre > np.sin(1.5 * radius) + 0.25:
            yield patches(region, [triangle_around(centre, radius, pole)])
        else:
            yield from _near_horizon(region, pole)
        return
    for height, in_zones in product(ZONES, (False, True)):
        edges = [height, *(x for x in ZONES if in_zones and x > height), 1.0]
        division = []
        for up, (low, high) in product((pole, -pole), pairwise(edges)):
            division += patches(Zone(region, pole, -high, high), [Cap(up, low)])
        hemispheres = [Hemisphere(up, 0.0) for up in (pole, -pole)]
        yield division + patches(Zone(region, pole, -height, height), hemispheres)
    yield patches(region, icosahedron())


def _near_horizon(region: Region, pole: np.ndarray) -> Iterator[list[Patch]]:
    """Yield divisions of a small region near the horizon of a direction, seen from it and from the opposite one."""
    centre, radius = region.cap
    heights = np.concatenate([*region.boundary(radius / 400), centre[None]]) @ pole
    for zone in ZONES:
        division, complete = [], True
        for sign, (low, high) in product((1, -1), ((0.0, zone), (zone, 1.0))):
            shape = triangle_around(centre, radius, sign * pole)
            part = patches(
                Zone(region, sign * pole, low, high),
                [shape if low else GrazingTriangle(shape.corners, shape.seen_from)],
            )
            # points of a patch may miss a sliver
            complete &= bool(part) or not np.any((sign * heights >= low) & (sign * heights <= high))
            division += part
        if complete:
            yield division
        if zone > np.max(heights):  # the whole region is grazing
            break
