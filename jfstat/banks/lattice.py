"""Lattices over ranges of any parameters: A_n* in the coordinates of `jfstat.banks.chart`.

The ranges are divided into boxes. The lattice of each box has a constant metric that is nowhere smaller than the true
one; in whitened coordinates distances are Euclidean. Directions in which the box is thin need no lattice dimension:
templates lie in the middle, and their loss is subtracted from the mismatch. Templates are the lattice points nearest to
the points of the box.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import gamma, pi

import numpy as np

from jfstat.banks.chart import FLOOR, ChartedSpace, Elements, with_sign
from jfstat.maths.lattices import covering_lattice, covering_radius, lattice_points, log_determinant, nearest_points
from jfstat.signal.parameters import is_parameter

METRICS = 81
"""Largest number of points of a box at which the metric is computed, apart from its corners and its middle."""
SAMPLES = 1024
"""Number of points of a box that give its extent in whitened coordinates; a power of two."""
SAFETY = 1.02
"""Safety factor on the extent of a box from sampled points."""
WORTH_IT = 0.95
"""Ratio of templates after and before dividing a box below which the division is kept."""
FLAT = 1.15
"""Ratio of templates to the number that the true metric needs below which dividing is not tried."""
FEWEST = 6
"""Number of templates of a box below which it is not divided."""
DEEPEST, MOST_BOXES = 8, 64
"""Largest number of successive divisions, and of boxes."""
FINE = 0.2
"""Spacing of the points on the faces of a box for which the nearest template is found, in covering radii."""
MOST_POINTS = 15_000_000
"""Largest number of points of a box for which the nearest template is found."""
CHECKED, ROUNDS = 16384, 20
"""Number of random points of a box whose distance from the templates is checked at a time, and largest number of
repetitions, which end when no point is too far away."""
MOST_THIN = 6
"""Largest number of coordinates whose combinations are tried as thin ones."""
LEAST = {"asini": 1e-6, "ecc": 1e-4}
"""Least values at which the metric is computed, because the coordinates have no derivatives at 0."""
PIECE = 200_000
"""Number of points for which the nearest template is found at a time."""


@dataclass(frozen=True)
class Lattice:
    """A lattice in coordinates with a constant metric, with no dimension for directions in which its region is thin.

    Attributes
    ----------
    middle, scale : (n,) float64
        Middle and scale of the coordinates x; whitened coordinates are ``factor @ ((x - middle) / scale)``.
    factor : (n, n) float64
    wide, thin : (n, k), (n, n - k) float64
        Orthonormal axes in whitened coordinates, with and without a lattice dimension.
    offset : (n,) float64
        Middle of the region along `wide`, then along `thin`.
    radius : float
        Radius of the balls about templates.
    """

    middle: np.ndarray
    scale: np.ndarray
    factor: np.ndarray
    wide: np.ndarray
    thin: np.ndarray
    offset: np.ndarray
    radius: float

    @property
    def n_wide(self) -> int:
        """Number of dimensions of the lattice, k."""
        return self.wide.shape[1]

    @property
    def unit(self) -> float:
        """Unit of length of `nearest_points` per unit of distance."""
        return covering_radius(self.n_wide) / self.radius if self.n_wide else 0.0

    @property
    def matrix(self) -> np.ndarray:
        """Matrix, (n, k), from offsets to `middle` to places among the lattice points; see `place`."""
        return (self.factor / self.scale).T @ self.wide * self.unit

    def place(self, x: np.ndarray) -> np.ndarray:
        """Return the place of coordinates, (m, n), among the lattice points, (m, k), in units of `nearest_points`."""
        return (x - self.middle) @ self.matrix - self.offset[: self.n_wide] * self.unit

    def coordinates(self, integers: np.ndarray) -> np.ndarray:
        """Return coordinates x, (m, n), of lattice points."""
        k = self.n_wide
        along = lattice_points(integers) / self.unit if k else np.zeros((len(integers), 0))
        z = (along + self.offset[:k]) @ self.wide.T + self.thin @ self.offset[k:]
        return self.middle + self.scale * np.linalg.solve(self.factor, z.T).T


@dataclass(frozen=True)
class Box:
    """A part of the ranges, and the lattice planned for it.

    Attributes
    ----------
    space : ChartedSpace
    low, high : (d,) float64
    lattice : Lattice
    expected : float
        Number of templates.
    flat : float
        Ratio of the box's volume by the constant metric to its volume by the true one.
    """

    space: ChartedSpace
    low: np.ndarray
    high: np.ndarray
    lattice: Lattice
    expected: float
    flat: float

    def place(self, u: np.ndarray) -> np.ndarray:
        """Return the place of parameters, (k, d), among the lattice points, in the units of `nearest_points`."""
        return self.lattice.place(self.space.coordinates(u))


def templates_of(space: ChartedSpace, boxes: list[Box]) -> Elements:
    """Return the templates of the lattices over all ranges, which are divided into boxes."""
    if not boxes:
        return space.templates(space.coordinates(np.empty((1, 0))))
    return boxes[0].space.templates(np.concatenate([_points(box) for box in boxes]))


def expected_number(boxes: list[Box]) -> float:
    """Return the expected number of templates of boxes, or of the one template without ranges."""
    return sum(box.expected for box in boxes) if boxes else 1.0


def divided(space: ChartedSpace) -> list[Box]:
    """Find the boxes that need the fewest templates by successive halving, in both kinds of coordinates.

    Without ranges there is none, and one template.
    """
    if not space.domain.axes:
        return []
    kinds = [space]
    if space.chart.circle and "period" in space.chart.names:
        kinds.append(replace(space, chart=replace(space.chart, short=True)))
    wholes = [_planned(kind, space.low, space.high) for kind in kinds]
    whole = min(wholes, key=lambda box: box.expected)
    done: list[Box] = []
    waiting = [(whole, 0)]
    while waiting:
        box, depth = waiting.pop()
        parts = [] if depth >= DEEPEST or len(done) + len(waiting) >= MOST_BOXES else _parts(box)
        if parts:
            waiting += [(part, depth + 1) for part in parts]
        else:
            done.append(box)
    return done


def _parts(box: Box) -> list[Box]:
    """Return the parts of a box that need the fewest templates; none if the box is best not divided."""
    if box.expected < FEWEST or (box.flat < FLAT and box.lattice.n_wide <= len(box.low)):
        return []
    bent = box.space.bent
    best = min((_halves(box, i) for i in bent), key=_total, default=[])
    if not best or _total(best) < WORTH_IT * box.expected:
        return best
    # one division may not help where two or more do
    quarters = [half for part in best for half in min((_halves(part, i) for i in bent), key=_total)]
    return quarters if _total(quarters) < WORTH_IT * box.expected else []


def _total(boxes: list[Box]) -> float:
    return sum(box.expected for box in boxes)


def _halves(box: Box, i: int) -> list[Box]:
    middle = 0.5 * (box.low[i] + box.high[i])
    ends = [(box.low[i], middle), (middle, box.high[i])]
    halves = []
    for low, high in ends:
        lows, highs = box.low.copy(), box.high.copy()
        lows[i], highs[i] = low, high
        halves.append(_planned(box.space, lows, highs))
    return halves


def _planned(space: ChartedSpace, low: np.ndarray, high: np.ndarray) -> Box:
    """Plan the lattice for a box of the ranges."""
    x = space.coordinates(points_filling(low, high))
    middle, scale = middle_and_scale(x)
    few = _spread(space, low, high)
    local = with_floor(space.factors(space.coordinates(few), scale), space.mismatch, space.floors(scale))
    factor = largest_factor(local)
    # the relevant metric is half-way between a signal and a template, which may lie beyond the box
    half = _half_extents(space, factor, scale, 0.5 * (low + high), high - low)
    wider = _spread(space, *_allowed(space, low - half, high + half, low, high))
    local = np.concatenate(
        [local, with_floor(space.factors(space.coordinates(wider), scale), space.mismatch, space.floors(scale))]
    )
    factor = largest_factor(local)
    volumes = np.prod(np.abs(np.diagonal(local, axis1=1, axis2=2)), axis=1)
    flat = float(abs(np.linalg.det(factor)) / np.mean(volumes))
    edges = _edges(space, factor, scale, low, high)
    lattice, expected = thinnest_lattice(middle, scale, factor, x, space.mismatch, edges)
    return Box(space, low, high, lattice, expected, flat)


def middle_and_scale(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return middle and half width of coordinates, (k, n): (n,) float64 each, the latter never 0."""
    low, high = x.min(axis=0), x.max(axis=0)
    middle = 0.5 * (low + high)
    return middle, np.maximum(0.5 * (high - low), 1e-12 * np.abs(middle) + 1e-300)


def thinnest_lattice(
    middle: np.ndarray,
    scale: np.ndarray,
    factor: np.ndarray,
    x: np.ndarray,
    mismatch: float,
    edges: np.ndarray | None = None,
) -> tuple[Lattice, float]:
    """Return the lattice that covers a region with the fewest points, and their expected number.

    Parameters
    ----------
    middle, scale, factor
        See `Lattice`.
    x : (m, n) float64
        Coordinates of points that fill the region.
    mismatch : float
        Largest square of the distance of a point of the region from the nearest point of the lattice.
    edges : (n, d) float64, optional
        Edges of the region in whitened coordinates; by default of a box that just holds the points.
    """
    whitened = (x - middle) / scale @ factor.T
    best: tuple[float, np.ndarray, np.ndarray, float] | None = None
    for axes, n_thin in _frames(factor, whitened, mismatch):
        thin, wide = axes[:, :n_thin], axes[:, n_thin:]
        along = whitened @ thin
        centre = 0.5 * (along.min(axis=0) + along.max(axis=0))
        cost = SAFETY * float(np.max(np.sum((along - centre) ** 2, axis=1))) if n_thin else 0.0
        if cost >= 0.98 * mismatch:
            continue
        radius = float(np.sqrt(mismatch - cost))
        own = np.diag(np.ptp(whitened @ wide, axis=0)) if edges is None else wide.T @ edges
        expected = _expected(own, radius)
        if best is None or expected < best[0]:
            best = expected, wide, thin, radius
    assert best is not None  # without thin directions the cost is zero
    expected, wide, thin, radius = best
    ends = whitened @ np.concatenate([wide, thin], axis=1)
    offset = 0.5 * (ends.min(axis=0) + ends.max(axis=0)) if len(scale) else np.empty(0)
    return Lattice(middle, scale, factor, wide, thin, offset, radius), expected


def _filling(d: int, n: int) -> np.ndarray:
    """Return points that fill the unit cube evenly, (n, d)."""
    from scipy.stats import qmc  # takes most of a second to import

    return qmc.Sobol(d, rng=0).random(n) if d else np.empty((1, 0))


def points_filling(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return points that fill a box, (k, d), with its corners and its middle."""
    many = low + (high - low) * _filling(len(low), SAMPLES)
    return np.concatenate([many, _corners(low, high)])


def _corners(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the corners, (2^d, d), of a box, and its middle."""
    ends = np.array(list(product(*zip(low, high, strict=True)))).reshape(2 ** len(low), len(low))
    return np.concatenate([ends, [0.5 * (low + high)]])


def _spread(space: ChartedSpace, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return points of a box, (k, d), at which the metric is computed: a grid over the parameters that matter."""
    bent, names = space.bent, space.domain.axes
    u = 0.5 * (low + high)
    if 3 ** len(bent) <= METRICS:
        # five points of the phase, which may go all round, and three of the other parameters
        steps = [5 if names[i] == "phase" else 3 for i in bent]
        grid = np.array(list(product(*(np.linspace(low[i], high[i], n) for i, n in zip(bent, steps, strict=True)))))
    else:
        unit = np.concatenate([_filling(len(bent), 64), _corners(np.zeros(len(bent)), np.ones(len(bent)))])
        grid = low[bent] + (high - low)[bent] * unit
    points = np.tile(u, (max(1, len(grid)), 1))
    if bent:
        points[:, bent] = grid
    for i, name in enumerate(names):
        if name in LEAST:  # where angles are defined
            points[:, i] = np.maximum(points[:, i], LEAST[name])
    return points


def with_floor(factors: np.ndarray, mismatch: float, floors: np.ndarray | float = FLOOR) -> np.ndarray:
    """Return factors of metrics, (k, n, n), to which the least metric in each coordinate was added; see `FLOOR`."""
    floor = np.broadcast_to(np.sqrt(floors * mismatch) * np.eye(factors.shape[-1]), factors.shape)
    return np.asarray(np.linalg.qr(np.concatenate([factors, floor], axis=1), mode="r"))


def largest_factor(local: np.ndarray) -> np.ndarray:
    """Return a factor whose metric is nowhere smaller than the metrics of the factors, (k, n, n)."""
    factor = local[len(local) // 2]
    for own in local:
        # both metrics are diagonal in the axes of this decomposition, where the larger one of each pair is taken
        _, size, axes = np.linalg.svd(own @ np.linalg.inv(factor))
        if size.max(initial=0.0) > 1:
            factor = np.asarray(np.linalg.qr(np.maximum(size, 1.0)[:, None] * (axes @ factor), mode="r"))
    return factor


def _steps(space: ChartedSpace, scale: np.ndarray, u: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Return derivatives of the coordinates, divided by `scale`, by the parameters, divided by `width`.

    The shape is (k, n, d) for parameters (k, d).
    """
    columns = []
    for i in range(u.shape[1]):
        step = np.zeros(u.shape[1])
        step[i] = 1e-4 * width[i]
        columns.append((space.coordinates(u + step) - space.coordinates(u - step)) / (2e-4 * scale))
    return np.stack(columns, axis=-1) if columns else np.empty((len(u), len(scale), 0))


def _half_extents(
    space: ChartedSpace, factor: np.ndarray, scale: np.ndarray, u: np.ndarray, width: np.ndarray
) -> np.ndarray:
    """Return half the extent of a ball in each parameter, (d,), at most half the box's width."""
    slope = factor @ _steps(space, scale, u[None], width)[0]
    size = np.sqrt(np.abs(np.diagonal(np.linalg.pinv(slope.T @ slope))))
    return width * np.minimum(0.5 * np.sqrt(space.mismatch) * size, 0.5)


def _allowed(
    space: ChartedSpace, low: np.ndarray, high: np.ndarray, inner_low: np.ndarray, inner_high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Cut a box to possible values."""
    for i, name in enumerate(space.domain.axes):
        if name in ("asini", "ecc"):
            low[i] = max(low[i], min(0.0, inner_low[i]))
        if name == "ecc":
            high[i] = min(high[i], 0.9)
        if name == "period" or name in space.chart.others or not is_parameter(name):
            least, largest = with_sign(inner_low[i], inner_high[i])
            low[i], high[i] = max(low[i], least), min(high[i], largest)
    return low, high


def _edges(space: ChartedSpace, factor: np.ndarray, scale: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the box's edges in whitened coordinates, (n, d): directions in its middle, mean lengths."""
    d, width = len(low), high - low
    points = low + width * _filling(d, 32)
    slopes = np.einsum("ij,kjd->kid", factor, _steps(space, scale, points, width))
    length = np.mean(np.linalg.norm(slopes, axis=1), axis=0)
    middle = factor @ _steps(space, scale, 0.5 * (low + high)[None], width)[0]
    return middle * (length / np.maximum(np.linalg.norm(middle, axis=0), 1e-300))


def _frames(factor: np.ndarray, whitened: np.ndarray, mismatch: float) -> Iterator[tuple[np.ndarray, int]]:
    """Yield orthonormal axes, (n, n), in whitened coordinates, and the number of thin ones, which come first."""
    n = len(factor)
    # principal axes of the box, thinnest first
    centred = whitened - whitened.mean(axis=0)
    axes = np.linalg.eigh(centred.T @ centred)[1]
    widths = np.ptp(whitened @ axes, axis=0)
    axes = axes[:, np.argsort(widths)]
    for n_thin in range(n + 1):
        yield axes, n_thin
    # coordinates that cost little, even when the others compensate for them, may be thin
    alone = 1 / np.linalg.norm(np.linalg.inv(factor), axis=1)
    candidates = np.flatnonzero(alone**2 < mismatch)
    candidates = candidates[np.argsort(alone[candidates])[:MOST_THIN]]
    for n_thin in range(1, len(candidates) + 1):
        for some in combinations(candidates, n_thin):
            others = [i for i in range(n) if i not in some]
            q = np.linalg.qr(np.concatenate([factor[:, others], factor[:, list(some)]], axis=1))[0]
            yield np.concatenate([q[:, len(others) :], q[:, : len(others)]], axis=1), n_thin


def _expected(edges: np.ndarray, radius: float) -> float:
    """Return the expected number of templates of a box with edges, (k, d), whose balls have a radius.

    The points needed are those whose cells touch the box. Their number is the volume of the box enlarged by a cell,
    divided by the volume of a cell. The cell is replaced by a ball of equal volume, and the enlarged volume follows
    from Steiner's formula for zonotopes.
    """
    k, d = edges.shape
    if k == 0:
        return 1.0
    log_cell = k * np.log(radius) + log_determinant(covering_lattice(k))
    ball = [pi ** (0.5 * j) / gamma(0.5 * j + 1) for j in range(k + 1)]
    own = np.exp((log_cell - np.log(ball[k])) / k)
    gram = edges.T @ edges
    total = 0.0
    for j in range(min(k, d) + 1):
        faces = sum(
            np.sqrt(max(0.0, float(np.linalg.det(gram[np.ix_(some, some)])))) for some in combinations(range(d), j)
        )
        total += ball[k - j] * own ** (k - j) * (faces if j else 1.0)
    return float(total * np.exp(-log_cell))


def _points(box: Box) -> np.ndarray:
    """Return coordinates of the templates of a box, (m, n): the lattice points nearest to its points."""
    from scipy.spatial import KDTree  # takes 0.2 s to import

    k, d = box.lattice.n_wide, len(box.low)
    if k == 0:
        return box.lattice.coordinates(np.zeros((1, 0), np.int64))
    radius, width = covering_radius(k), box.high - box.low
    u = box.low + width * _filling(d, 64)
    # largest distance in the lattice's units that each parameter moves a point over the box
    moves = np.abs(np.stack([_move(box, u, i, width) for i in range(d)], axis=-1)).reshape(len(u), d).max(axis=0)
    packing = 0.5 * np.sqrt(k / (k + 1))
    # spacings at which no cell is missed: for points inside, and on the edges, where only small parts of cells may lie
    inside, fine = 1.8 * packing / np.sqrt(k), FINE * radius
    while True:
        jobs = list(_jobs(moves, k, inside, fine))
        total = sum(float(np.prod(counts.astype(float))) for counts, _ in jobs)
        if total <= MOST_POINTS:
            break
        if fine > radius:
            raise ValueError(
                f"finding the lattice over these ranges would take {total:.3g} nearest points: narrow the ranges or "
                "raise the mismatch."
            )
        inside, fine = inside * (1.0 if fine < 0.6 * radius else 1.25), fine * 1.25
    kept = np.empty((0, k), np.int64)
    for counts, first in jobs:
        start = np.where(first, box.high, box.low)
        stop = np.where(counts > 1, box.high, start)
        kept = np.unique(np.concatenate([kept, _looked_up(box, _grid(start, stop, counts))]), axis=0)
    # find cells that the grids missed with random points inside, on faces, edges and corners
    rng, tree, added = np.random.default_rng(1), KDTree(lattice_points(kept)), np.empty((0, k), np.int64)
    for _ in range(ROUNDS):
        unit = rng.uniform(size=(CHECKED, d))
        ends = rng.uniform(size=unit.shape) < rng.integers(d + 1, size=(CHECKED, 1)) / d
        place = box.place(box.low + width * np.where(ends, np.round(unit), unit))
        off = tree.query(place)[0] > radius * (1 + 1e-9)
        known = len(added)
        added = np.unique(np.concatenate([added, nearest_points(place[off])]), axis=0)
        if len(added) == known:
            break
    kept = np.concatenate([kept, added])
    return box.lattice.coordinates(kept)


def _jobs(moves: np.ndarray, k: int, inside: float, fine: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield grids over a box's faces that find all templates: numbers of points, (d,), and their starts, (d,).

    The projection of a box with d edges to k dimensions is made up of its k-dimensional faces, and bounded by faces
    with one dimension less. A box with fewer than k edges is sampled as finely as a boundary.
    """
    d = len(moves)
    kinds = [(d, fine)] if d < k else [(k, inside), (k - 1, fine)]
    for size, spacing in kinds:
        number = np.ceil(moves / spacing).astype(np.int64) + 1
        for some in combinations(range(d), size):
            counts = np.ones(d, np.int64)
            counts[list(some)] = np.maximum(number[list(some)], 2)
            others = [i for i in range(d) if i not in some]
            for ends in product((False, True), repeat=len(others)):
                high = np.zeros(d, bool)
                high[others] = ends
                yield counts, high


def _move(box: Box, u: np.ndarray, i: int, width: np.ndarray) -> np.ndarray:
    """Return the distance, (k,), that a parameter moves points in the lattice over the box, at its rate at u."""
    step = np.zeros(len(width))
    step[i] = 1e-4 * width[i]
    return np.linalg.norm(box.place(u + step) - box.place(u - step), axis=1) / 2e-4


def _grid(low: np.ndarray, high: np.ndarray, counts: np.ndarray) -> Iterator[np.ndarray]:
    """Yield a grid over a box, ends included, in pieces, (k, d)."""
    total = int(np.prod(counts.astype(np.int64)))
    step = (high - low) / np.maximum(counts - 1, 1)
    for start in range(0, total, PIECE):
        index = np.stack(np.unravel_index(np.arange(start, min(start + PIECE, total)), tuple(counts)), axis=-1)
        yield low + index * step


def _looked_up(box: Box, pieces: Iterator[np.ndarray]) -> np.ndarray:
    """Return the lattice points nearest to given points, as integers, each once."""
    found = [np.unique(nearest_points(box.place(u)), axis=0) for u in pieces]
    return np.unique(np.concatenate(found), axis=0)
