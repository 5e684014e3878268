"""The nearest template of a segment's own lattice to each template of a semi-coherent bank, by arithmetic alone.

The lattices A_n* of Weave's interpolating search (Wette et al. 2018, Phys. Rev. D 97, 123016), laid as those of
`template_bank` on one map of a patch of the sky. A lattice is never enumerated: only its points that are nearest to
templates are needed, and these follow by rounding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jfstat.banks.patches import Patch, Shape, triangle_around
from jfstat.banks.patchmetric import map_factor
from jfstat.banks.regions import Disc
from jfstat.banks.space import ParameterSpace, Templates
from jfstat.data.observation import Observation
from jfstat.maths.lattices import covering_radius, lattice_points, nearest_points
from jfstat.maths.vectors import angles, unit_vector
from jfstat.metrics.phasemetric import drift, factor
from jfstat.times import GPSTime

WIDEST = 0.6
"""Radius of a patch, rad, up to which one map of it is used."""
LEAST_RADIUS = 1e-6
"""Radius of the patch of a single position with others about it, rad."""


class Nearest(NamedTuple):
    """The points of a segment's lattice that are nearest to m templates.

    Attributes
    ----------
    templates : Templates
        The n different points, in ascending order of their integers.
    index : (m,) int64
        For each template the point that is nearest.
    shift : (m, 2) float64
        By how much the point's best frequency exceeds the template's, Hz: a constant, and a part that is proportional
        to the frequency, at the highest frequency of the band.
    """

    templates: Templates
    index: np.ndarray
    shift: np.ndarray


def nearest_coherent(
    segment: Observation, templates: Templates, reftime: GPSTime, fmax: float, mismatch: float
) -> Nearest:
    """The nearest points of a segment's lattice to some templates, the frequency maximised over.

    Parameters
    ----------
    segment : Observation
        Of one segment.
    templates : Templates
        m templates within `WIDEST` of one position.
    reftime : GPSTime
        At which their spin-downs hold.
    fmax : float
        Highest frequency to be searched, Hz.
    mismatch : float
        Largest fraction of rho^2 that the segment's 2F of a template loses at its point, bins of frequency apart.

    Raises
    ------
    ValueError
        If the templates are too far apart.
    """
    spins = templates.spins
    r = factor(segment, spins.shape[1], reftime, fmax)
    space = ParameterSpace(r, spins.min(axis=0), spins.max(axis=0), mismatch)
    # all spin-downs are tiled: a fixed one would have to be compensated for by an offset on the sky
    *_, space = space.choices()
    n = unit_vector(templates.alpha, templates.delta)
    if np.all(n == n[0]):
        integers, points, positions = _on_spins(space, n, spins)
    else:
        integers, points, positions = _on_patch(space, n, spins)
    order = np.lexsort(integers.T[::-1]) if integers.shape[1] else np.arange(len(n))
    new = np.any(np.diff(integers[order], axis=0) != 0, axis=1)
    first = order[np.append(True, new)]
    index = np.empty(len(n), np.int64)
    index[order] = np.append(0, np.cumsum(new))
    own = Templates(*angles(positions[first]), points[first])
    # differences to the points as they are, not as the integers have them: a map has an edge
    slope = drift(r, 1)[0]
    s = spins.shape[1]
    moved = (own.spins[index] - spins) @ slope[:s], (positions[first][index] - n) @ slope[s:]
    return Nearest(own, index, -np.stack(moved, axis=-1))


def cap_of(n: np.ndarray) -> tuple[np.ndarray, float]:
    """Centre, (3,), and radius, rad, of a cap about positions, (m, 3); the radius is pi if they are all around."""
    mean = np.mean(n, axis=0)
    size = np.linalg.norm(mean)
    if size < 0.1:
        return n[0], np.pi
    centre = mean / size
    return centre, float(2 * np.arcsin(min(1.0, 0.5 * np.max(np.linalg.norm(n - centre, axis=1)))))


def _on_spins(space: ParameterSpace, n: np.ndarray, spins: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Integers, (m, k), all spin-downs, (m, s), and positions, (m, 3), of the nearest points at one sky position."""
    centre = space.tiled_centre
    integers, points = _rounded((space.tiled_values(spins) - centre) @ space.spins.T, float(np.sqrt(space.mismatch)))
    return integers, space.with_fixed(centre + _solved(space.spins, points)), n


def _on_patch(space: ParameterSpace, n: np.ndarray, spins: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same for templates at several positions; coordinates are those of `tilings.PatchTiling`."""
    centre, radius = cap_of(n)
    if radius > WIDEST:
        raise ValueError(f"templates lie {radius:.2f} rad from their middle, and {WIDEST} is the most: divide them.")
    radius = max(radius, LEAST_RADIUS) * (1 + 1e-6)
    patch = Patch(Disc(centre, radius), triangle_around(centre, radius))
    sky, shape, middle = map_factor(space, patch), patch.shape, space.tiled_centre
    white = np.concatenate(
        [
            shape.project(n) @ sky.T,
            (space.tiled_values(spins) - middle + (n - shape.up) @ space.drift.T) @ space.spins.T,
        ],
        axis=1,
    )
    integers, points = _rounded(white, float(np.sqrt(space.mismatch)))
    positions = _lifted(shape, _solved(sky, points[:, :2]), sky)
    tiled = middle + _solved(space.spins, points[:, 2:]) - (positions - shape.up) @ space.drift.T
    return integers, space.with_fixed(tiled), positions


def _lifted(shape: Shape, y: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Positions, (m, 3), of points of a map, (m, 2); those beyond its edge are moved to it."""
    return shape.lift(shape.onto_map(y, factor))


def _rounded(white: np.ndarray, radius: float) -> tuple[np.ndarray, np.ndarray]:
    """Integers and coordinates, (m, n), of the points of A_n* of a covering radius that are nearest to given ones."""
    n = white.shape[1]
    if n == 0:
        return np.empty((len(white), 0), np.int64), white
    scale = covering_radius(n) / radius
    integers = nearest_points(white * scale)
    return integers, lattice_points(integers) / scale


def _solved(factor: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Coordinates, (m, k), from whitened ones."""
    size = 1.0 / np.diag(factor)
    return (np.linalg.inv(factor * size) @ points.T).T * size if len(size) else points
