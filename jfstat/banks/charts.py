"""From a region of the sky and the metric to charts: facets small enough that one flat lattice serves each.

Wette 2014 (Phys. Rev. D 90, 122010) has the idea of lattices in the supersky metric.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np

from jfstat.banks.facets import RIM, Brim, Dome, Facet, around, icosahedron
from jfstat.banks.regions import Belt, Region
from jfstat.banks.spinlattice import PaddedBox
from jfstat.banks.wanted import Wanted, expected_points
from jfstat.maths.lattices import distance_to_box, flipped, lower_factor
from jfstat.metrics.phasemetric import drift, restricted

SKY_FLOOR = 1 / 0.12
"""Metric added for the sky, in mismatches per rad^2: no template covers more than 0.35 rad, however short the data."""
ONE_FACET = np.deg2rad(20)
"""Regions in a cap of this radius are one facet to begin with, rad."""
DEEPEST = 5
"""How often facets are divided."""
NEAR_ENOUGH = 1.3
"""Templates of a facet over the fewest there can be, below which it is not divided."""
BELTS = (0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8)
"""Heights of belts to try, see `_ways_to_cut`."""
WORTH_JOINING = 0.8
"""Templates expected with a `JointBox` over those without, below which it is used."""
WORTH_DIVIDING = 4
"""Templates found over the fewest there can be, above which facets are tried and divided."""
WORTH_IT = 0.98
"""Templates after dividing a facet over those before, below which it is done."""
MAX_TEMPLATES = 200_000_000


@dataclass(frozen=True)
class Part:
    """What a facet has of a region."""

    region: Region
    facet: Facet | Dome

    @cached_property
    def spacing(self) -> float:
        """Of points on sides and boundaries, rad."""
        return self.facet.size / 48

    @cached_property
    def interior(self) -> tuple[np.ndarray, np.ndarray]:
        """Points inside, (k, 3), and their areas, sr."""
        points, area = self.facet.samples
        inside = self.region.contains(points)
        return points[inside], area[inside]

    @cached_property
    def rim(self) -> tuple[np.ndarray, np.ndarray]:
        """Middles and vectors of short pieces, (k, 3) each, of the outline."""
        middles, pieces = [np.empty((0, 3))], [np.empty((0, 3))]
        lines: list[tuple[np.ndarray, Any]] = [(line, self.facet) for line in self.region.boundary(self.spacing)]
        for line, inside in [*lines, (self.facet.sides(self.spacing), self.region)]:
            middle = 0.5 * (line[1:] + line[:-1])
            middle /= np.linalg.norm(middle, axis=-1, keepdims=True)
            chosen = inside.contains(middle)
            middles.append(middle[chosen])
            pieces.append((line[1:] - line[:-1])[chosen])
        return np.concatenate(middles), np.concatenate(pieces)

    @cached_property
    def points(self) -> np.ndarray:
        """Points of interior and outline, (k, 3); none if the facet has nothing of the region."""
        return np.concatenate([self.interior[0], self.rim[0]])

    @cached_property
    def children(self) -> list[Part]:
        """Of the four smaller facets."""
        parts = [Part(self.region, facet) for facet in self.facet.split()]
        return [part for part in parts if len(part.points)]


class Chart(NamedTuple):
    """The lattice of one facet: coordinates y of its map, and of the spin-downs q = f^(k) + drift . n, highest first.

    Attributes
    ----------
    part : Part
    kept : list of int
        Orders of the spin-downs with a dimension.
    sky : (2, 2) float64
        Lower triangular factor of the metric in y, frequency and the spin-downs kept maximised over; stretched by what
        the map is steeper elsewhere.
    spins : (k, k) float64
        Lower triangular factor of the metric in q, frequency maximised over.
    drift : (k, 3) float64
    box : PaddedBox
    pad : float
        How far beyond the region spin-downs held push the templates, in mismatch's root.
    joint : JointBox or None
        If it spares templates.
    expected : float
        Number of templates, about.
    least : float
        The same for a map without stretch and a region without an edge.
    """

    part: Part
    kept: list[int]
    sky: np.ndarray
    spins: np.ndarray
    drift: np.ndarray
    box: PaddedBox
    pad: float
    joint: JointBox | None
    expected: float
    least: float


class JointBox(NamedTuple):
    """A box around what a facet has of the region and of the spin-downs, both at once.

    Where the sky is narrower than a template's ball, it bounds how far spin-downs can be made up for by the sky.

    Attributes
    ----------
    box : PaddedBox
        Of u = `turned` y, and of the spin-downs plus what the map's height above its plane adds, highest first.
    turned : (2, 2) float64
    lift : (k,) float64
        drift . up
    """

    box: PaddedBox
    turned: np.ndarray
    lift: np.ndarray

    def touched(self, facet: Facet | Dome, n: np.ndarray, spins: np.ndarray) -> np.ndarray:
        """Whether the balls of templates at positions (n, 3) with spin-downs (n, k), highest first, touch it: bool."""
        height = (n @ facet.up - 1)[:, None] * self.lift
        x = np.concatenate([facet.flat(n) @ self.turned.T, spins + height], axis=1)
        box = self.box
        return distance_to_box(x, box.low, box.high, box.factor) <= box.radius**2 * (1 + 1e-9)


def joint_box(
    part: Part, sky: np.ndarray, spins: np.ndarray, q_drift: np.ndarray, box: PaddedBox, pad: float
) -> JointBox:
    """The box of a facet's part of the region; arguments as `Chart` has them."""
    facet = part.facet
    y = facet.flat(part.points)
    slack = part.spacing  # what lies between the points
    white = y @ sky.T
    best, turned, ends = np.inf, sky, np.empty((2, 2))
    for angle in np.deg2rad(np.arange(0, 90, 5)):
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        u = white @ turn.T
        extra = pad + 0.5 * slack * np.linalg.norm(turn @ sky, axis=1)
        low, high = np.min(u, axis=0) - extra, np.max(u, axis=0) + extra
        size = float(np.prod(high - low + 2 * box.radius))
        if size < best:
            best, turned, ends = size, turn @ sky, np.stack([low, high])
    lift = q_drift @ facet.up
    height = part.points @ facet.up - 1
    more = slack * (float(np.max(np.linalg.norm(y, axis=1))) + slack)
    rise = np.sort(np.outer([np.min(height) - more, min(0.0, np.max(height) + more)], lift), axis=0)
    k = len(lift)
    matrix = np.eye(2 + k)
    matrix[2:, :2] = spins @ q_drift @ facet.axes.T @ np.linalg.inv(turned)
    matrix[2:, 2:] = spins
    low, high = (np.append(ends[i], x + rise[i]) for i, x in enumerate((box.low, box.high)))
    return JointBox(PaddedBox(low, high, matrix, box.radius), turned, lift)


def chart(wanted: Wanted, part: Part, kept: list[int], held: list[int]) -> Chart | None:
    """The lattice of a facet; None if the spin-downs held cost more than the mismatch."""
    facet, k = part.facet, len(kept)
    upper = restricted(wanted.factor, [0, *kept, *wanted.sky_columns])
    floor = np.sqrt(SKY_FLOOR * wanted.mismatch)
    sky3 = np.linalg.qr(np.concatenate([upper[1 + k :, 1 + k :], floor * np.eye(3)]))[1]
    sky = flipped(restricted(sky3 @ facet.axes.T, [1, 0]))
    along_up = 0.0
    if isinstance(facet, Brim):
        along_up = float(np.sum((sky3 @ facet.up) ** 2)) * facet.top**2
    else:
        sky = _stretched(part, sky3, sky, wanted.mismatch)

    corners = wanted.corners(held)
    first, y_columns, last = list(range(1 + k)), [1 + k, 2 + k], list(range(3 + k, 3 + k + len(held)))
    cost, pad, spin_pad, near = 0.0, 0.0, np.zeros(k), np.empty((0, k, k))
    for local in _local_factors(wanted, part, kept, held, sky):
        ordered = restricted(local, [*first, *y_columns, *last])
        cost = max(cost, float(np.max(np.sum((corners @ ordered[3 + k :, 3 + k :].T) ** 2, axis=1))))
        shift = corners @ drift(ordered, 3 + k).T
        pad = max(pad, float(np.max(np.linalg.norm(shift[:, 1 + k :] @ sky.T, axis=1))))
        spin_pad = np.maximum(spin_pad, np.max(np.abs(shift[:, 1 : 1 + k]), axis=0))
        near = np.concatenate([near, restricted(local, [0, *y_columns, *first[1:]])[None, 3:, 3:]])
    left = wanted.mismatch - cost
    q_drift = drift(upper, 1 + k)[1:]
    if isinstance(facet, Brim):
        # the sky cannot be relied upon to make up for what is held, and the two distances may point the same way
        alone = restricted(wanted.factor, [0, *kept, *held])[1 + k :, 1 + k :]
        cost = float(np.max(np.linalg.norm(corners @ alone.T, axis=1)))
        left = max(0.0, float(np.sqrt(wanted.mismatch)) - cost) ** 2
        spin_pad = spin_pad + np.abs(q_drift @ facet.up) * facet.top
    left -= along_up
    if left <= 0:
        return None
    radius = float(np.sqrt(left))
    box = wanted.spin_box(kept, _smaller(near), radius, spin_pad)
    spins = flipped(upper[1 : 1 + k, 1 : 1 + k])

    points, area = part.interior
    wide = radius + pad
    size = float(np.prod(np.diag(sky)) * np.sum(area * (points @ facet.up)))
    outline = float(np.sum(np.linalg.norm(facet.flat(part.rim[1]) @ sky.T, axis=1)))
    # the area element at n of a metric in three dimensions is the root of n . adj(g) n
    ideal = abs(np.prod(np.diag(sky3))) * np.linalg.norm(np.linalg.solve(sky3.T, points.T), axis=0) @ area
    expected, least = (
        expected_points(box, 2 + k, np.sum(np.log(np.diag(spins))), x)
        for x in (size + outline * wide + np.pi * wide**2, ideal)
    )
    joint = None
    if k and not isinstance(facet, Dome):
        joint = joint_box(part, sky, spins, q_drift[::-1], box, pad)
        joint_expected = expected_points(joint.box, 2 + k, np.sum(np.log(np.diag(joint.box.factor))))
        if joint_expected < WORTH_JOINING * expected:
            expected = max(joint_expected, least)
        else:
            joint = None
    return Chart(part, kept, sky, spins, q_drift[::-1], box, pad, joint, expected, least)


def _local_factors(
    wanted: Wanted, part: Part, kept: list[int], held: list[int], sky: np.ndarray
) -> Iterator[np.ndarray]:
    """Factors of the metric at some points of a facet, in frequency, the spin-downs kept, y and those held.

    With what makes them the lattice's own in y, which is nowhere smaller.
    """
    k, facet = len(kept), part.facet
    upper = restricted(wanted.factor, [0, *kept, *wanted.sky_columns, *held])
    slopes = facet.axes.T[None]
    if (kept or held) and not isinstance(facet, Brim):
        y = facet.flat(part.points[:: max(1, len(part.points) // 8)])
        axis, size, _ = np.linalg.svd(np.linalg.inv(sky))
        half = 0.5 * np.sqrt(wanted.mismatch) * size[0] * axis[:, 0]
        y = np.concatenate([y, y + half, y - half])
        slopes = facet.jacobian(y * np.minimum(RIM / np.maximum(np.linalg.norm(y, axis=1, keepdims=True), 1e-12), 1.0))
    for slope in slopes:
        local = np.concatenate([upper[:, : 1 + k], upper[:, 1 + k : 4 + k] @ slope, upper[:, 4 + k :]], axis=1)
        g = upper[1 + k : 4 + k, 1 + k : 4 + k] @ slope
        size, axes = np.linalg.eigh(sky.T @ sky - g.T @ g)
        extra = np.zeros((2, local.shape[1]))
        extra[:, 1 + k : 3 + k] = np.sqrt(np.maximum(size, 0.0))[:, None] * axes.T
        yield np.concatenate([local, extra])


def _smaller(factors: np.ndarray) -> np.ndarray:
    """A factor, (k, k), whose metric exceeds those of none of the factors (n, k, k), upper triangular."""
    first = factors[0]
    if not first.size:
        return first
    size = 1.0 / np.diag(first)
    ratio = (factors * size) @ np.linalg.inv(first * size)
    return first * float(np.min(np.linalg.svd(ratio, compute_uv=False)))


def _stretched(part: Part, sky3: np.ndarray, sky: np.ndarray, mismatch: float) -> np.ndarray:
    """A factor for the map, (2, 2) lower triangular, whose metric that of the sphere nowhere exceeds.

    The sphere's metric is that of the factor `sky3`, (3, 3), the map's in its middle that of `sky`, (2, 2). What is
    added is in proportion to the map's metric or the same in all directions, or its mean over the region is enlarged,
    whichever costs fewer templates.
    """
    facet, root = part.facet, np.sqrt(mismatch)
    y, rim = facet.flat(part.points), facet.flat(part.rim[1])
    size = float(np.sum(part.interior[1] * (part.interior[0] @ facet.up)))

    def cost(g: np.ndarray) -> float:
        outline = float(np.sum(np.sqrt(np.maximum(np.einsum("ni,ij,nj->n", rim, g, rim), 0.0))))
        return size * float(np.sqrt(np.linalg.det(g))) + outline * root + np.pi * mismatch

    flat = sky.T @ sky
    g, length = flat, 0.5 * root / np.sqrt(np.linalg.eigvalsh(flat)[0])
    best, least = flat, np.inf
    # a template and what it covers lie up to a radius apart: the slope between them is that half-way. What is added
    # makes radii shorter: lengths are tried that bear themselves out
    for _ in range(6):
        half = length * np.linalg.eigh(g)[1].T
        there = np.concatenate([y, *(y + x for x in (*half, *-half))])
        there = there * np.minimum(RIM / np.maximum(np.linalg.norm(there, axis=1, keepdims=True), 1e-12), 1.0)
        local = sky3 @ facet.jacobian(there)
        each = np.einsum("nij,nik->njk", local, local)
        mean = np.mean(each, axis=0)
        options = [
            (1 + max(0.0, _largest(local @ np.linalg.inv(sky), np.eye(2)))) * flat,
            flat + max(0.0, _largest(local, flat)) * np.eye(2),
            mean * (1 + _largest(local @ np.linalg.inv(np.linalg.cholesky(mean).T), np.eye(2))),
        ]
        own = [0.5 * root / np.sqrt(np.linalg.eigvalsh(x)[0]) for x in options]
        borne = [x for x, y_own in zip(options, own, strict=True) if y_own <= length * (1 + 1e-9)]
        better = [x for x in borne if cost(x) < least]
        if not better:
            break
        best = min(better, key=cost)
        least = cost(best)
        shortest = 0.5 * root / np.sqrt(np.linalg.eigvalsh(best)[0])
        if shortest > 0.9 * length:
            break
        length = np.sqrt(shortest * length)
    return lower_factor(best)


def _largest(local: np.ndarray, less: np.ndarray) -> float:
    """Largest eigenvalue of local^T local - less, for any of the (n, 3, 2) matrices."""
    g = np.einsum("nij,nik->jkn", local, local) - less[:, :, None]
    return float(np.max(0.5 * (g[0, 0] + g[1, 1]) + np.hypot(0.5 * (g[0, 0] - g[1, 1]), g[0, 1])))


def sky_charts(wanted: Wanted, region: Region) -> list[Chart]:
    """The lattices of all facets, with the facets and the choice of spin-downs that need fewest templates."""
    best: list[Chart] = []
    for kept, held in wanted.choices():
        for parts in _ways_to_cut(wanted, region, kept):
            charts = _complete([chart(wanted, part, kept, held) for part in parts])
            total = _total(best) if best else np.inf
            # what is hopeless, good already or refused anyway is not worth dividing
            if charts is None or sum(x.least for x in charts) > total:
                continue
            if max(WORTH_DIVIDING * sum(x.least for x in charts), 1.0) < min(total, MAX_TEMPLATES):
                charts = [fine for x in charts for fine in _divided(wanted, x, held, 0, patience=int(len(charts) == 1))]
            if _total(charts) < total:
                best = charts
    return best


def _ways_to_cut(wanted: Wanted, region: Region, kept: list[int]) -> Iterator[list[Part]]:
    """Sets of facets that hold the region.

    Seen from where the metric sees least, a map has hardly any stretch up to near its horizon (Wette & Prix 2013): two
    domes, or zones of them, serve most of the sky, their brims the belt between them.
    """
    upper = restricted(wanted.factor, [0, *kept, *wanted.sky_columns])[1 + len(kept) :, 1 + len(kept) :]
    pole = np.linalg.svd(upper)[2][-1]
    centre, radius = region.cap
    if radius < ONE_FACET:
        pole = pole * np.sign(pole @ centre)
        yield _parts(region, around(centre, radius))
        if pole @ centre > np.sin(1.5 * radius) + 0.25:
            yield _parts(region, around(centre, radius, pole))
        return
    for height, zones in product(BELTS, (False, True)):
        edges = [height, *(x for x in BELTS if zones and x > height), 1.0]
        parts = []
        for up, (low, high) in product((pole, -pole), pairwise(edges)):
            parts += _parts(Belt(region, pole, high), [Dome(up, low)])
        belt = Belt(region, pole, height)
        yield [*parts, *_parts(belt, [Brim(pole, 0.0, height), Brim(-pole, 0.0, height)])]
    yield _parts(region, icosahedron())


def _parts(region: Region, facets: Iterable[Facet | Dome]) -> list[Part]:
    """Of a region, in facets that have something of it."""
    return [part for part in (Part(region, facet) for facet in facets) if len(part.points)]


def _complete(charts: list[Chart | None]) -> list[Chart] | None:
    """The charts, if none is missing."""
    there = [x for x in charts if x is not None]
    return there if len(there) == len(charts) else None


def _total(charts: list[Chart]) -> float:
    return sum(x.expected for x in charts)


def _divided(wanted: Wanted, coarse: Chart, held: list[int], depth: int, patience: int) -> list[Chart]:
    """A facet's chart, or those of the facets that it is divided into if they need fewer templates.

    Where there are many more templates than there need be, a division that does not help may be the first of two that
    do, which `patience` allows.
    """
    if depth == DEEPEST or coarse.expected < NEAR_ENOUGH * coarse.least or isinstance(coarse.part.facet, Dome):
        return [coarse]
    smaller = _complete([chart(wanted, part, coarse.kept, held) for part in coarse.part.children])
    if smaller is None:
        return [coarse]
    if _total(smaller) >= WORTH_IT * coarse.expected:
        patience -= 1
        if patience < 0 or coarse.expected < WORTH_DIVIDING * coarse.least:
            return [coarse]
    finest = [fine for x in smaller for fine in _divided(wanted, x, held, depth + 1, patience)]
    return finest if _total(finest) < WORTH_IT * coarse.expected else [coarse]
