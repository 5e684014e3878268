"""From a chart to its templates: the points of its lattice whose balls touch the region."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from jfstat.banks.charts import Chart
from jfstat.banks.facets import Brim
from jfstat.banks.regions import angles
from jfstat.banks.spinlattice import spin_points
from jfstat.banks.wanted import Templates, Wanted, generator_of
from jfstat.maths.lattices import covering_lattice, integers_between

CHUNK = 1_000_000
"""Candidates for lattice points that are looked at together."""


def chart_templates(wanted: Wanted, chart: Chart) -> Iterator[Templates]:
    """The templates of a facet, in pieces; those of one sky position follow one another."""
    facet, k, box = chart.part.facet, len(chart.kept), chart.box
    lattice = box.radius * covering_lattice(2 + k)
    to_y = generator_of(chart.sky, lattice[:2, :2])
    to_q = generator_of(chart.spins, lattice[2:]) if k else np.empty((0, 2))
    needed = Needed(chart)
    low, high = needed.bounds
    columns = np.arange(np.ceil(low[0] / to_y[0, 0]), np.floor(high[0] / to_y[0, 0]) + 1)
    per_position = int(np.prod((box.high - box.low + 2 * box.reach) / np.diag(to_q[:, 2:]) + 1))
    per_column = max(1.0, (high[1] - low[1]) / to_y[1, 1])
    for some in np.array_split(columns, max(1, int(len(columns) * per_column / CHUNK))):
        start = some * to_y[1, 0]
        which, second = integers_between((low[1] - start) / to_y[1, 1], (high[1] - start) / to_y[1, 1])
        integers = np.stack([some[which], second.astype(float)], axis=-1)
        y = integers @ to_y.T
        keep = needed(y)
        y, integers = y[keep], integers[keep]
        y = facet.pulled(y, chart.sky)
        for rows in np.array_split(np.arange(len(y)), 1 + len(y) * per_position // CHUNK):
            n = facet.lifted(y[rows])
            offset = wanted.centre[[i - 1 for i in chart.kept[::-1]]] + integers[rows] @ to_q[:, :2].T
            offset = offset - (n - facet.up) @ chart.drift.T
            which, points = spin_points(box, to_q[:, 2:], offset)
            if chart.joint is not None:
                near = chart.joint.touched(facet, n[which], points)
                which, points = which[near], points[near]
            alpha, delta = angles(n)
            yield Templates(alpha[which], delta[which], wanted.filled(points, chart.kept))


class Needed:
    """Whether the balls of lattice points touch a facet's part of the region; made once a chart.

    Attributes
    ----------
    bounds : (2,), (2,) float64
        Lowest and highest y that can be.
    """

    def __init__(self, chart: Chart):
        from scipy.spatial import KDTree  # takes 0.2 s to import

        self.chart = chart
        part = chart.part
        self.reach = chart.box.radius + chart.pad
        self.inverse = np.linalg.inv(chart.sky)
        y = part.facet.flat(part.points)
        extent = self.reach * np.linalg.norm(self.inverse, axis=1) + 2 * part.spacing
        self.bounds = np.min(y, axis=0) - extent, np.max(y, axis=0) + extent
        # fine enough that a distance to the nearest point is one to the line
        step = float(0.1 * self.reach / np.linalg.norm(chart.sky, ord=2))
        lines = part.region.boundary(step)
        if isinstance(part.facet, Brim):
            lines.append(part.facet.sides(step))
        rim = np.concatenate(lines) if lines else np.empty((0, 3))
        y = part.facet.flat(rim[rim @ part.facet.up > -1e-9])
        low, high = self.bounds
        y = y[np.all((y >= low - extent) & (y <= high + extent), axis=1)]
        self.rim = KDTree(y @ chart.sky.T) if len(y) else None

    def __call__(self, y: np.ndarray) -> np.ndarray:
        """For points (n, 2) of the map: (n,) bool."""
        facet = self.chart.part.facet
        square = np.sum(y * y, axis=1)
        beyond = square > facet.edge**2
        keep = np.ones(len(y), dtype=bool)
        if not isinstance(facet, Brim):
            on = np.flatnonzero(~beyond)
            support = np.einsum("nij,iw->njw", facet.jacobian(y[on]) @ self.inverse, facet.walls.T)
            room = facet.heights - self.reach * np.linalg.norm(support, axis=1)
            keep[on] = np.all(facet.lifted(y[on]) @ facet.walls.T >= room, axis=1)
        index = np.flatnonzero(keep)
        outside = index[~self.chart.part.region.contains(facet.lifted(y[index])) | beyond[index]]
        if len(outside):
            keep[outside] = False
            if self.rim is not None:
                far, _ = self.rim.query(y[outside] @ self.chart.sky.T, distance_upper_bound=1.01 * self.reach)
                keep[outside] = np.isfinite(far)
        return keep
