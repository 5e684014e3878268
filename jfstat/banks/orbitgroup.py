"""Templates in binaries, and the points of segments' own lattices that are nearest to them.

The lattices lie in the coordinates of `jfstat.banks.chart`, with times that count from the middle of the segment.
The phase is nearly linear in them, so that one metric serves all templates; it is nowhere smaller than the metrics at
some of them. All segments together tell the period better than one: in one segment many templates share a point.
"""

from __future__ import annotations

from functools import cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.banks.chart import CHUNK, FLAT_RADIUS, Chart, Elements, Place, coordinates, factors, jitted_elements
from jfstat.banks.comparison import Phases, filled, sampled
from jfstat.banks.lattice import LEAST, Lattice, largest_factor, middle_and_scale, thinnest_lattice, with_floor
from jfstat.banks.nearest import CELL, Group, Nearest, differences, distinct_points, nearest_integers, pieces_of
from jfstat.data.observation import Observation
from jfstat.geometry.nearby import phase_difference, sites
from jfstat.maths.vectors import angles, tangents
from jfstat.maths.zorder import z_order
from jfstat.signal.parameters import ORBIT_FIELDS, SKY, spin_name
from jfstat.signal.templates import Doppler, Orbit
from jfstat.signal.times import GPSTime
from jfstat.signal.values import columns as parameter_values
from jfstat.signal.values import with_fields

NODES = 64
"""Number of times of each detector in a segment at which phases are compared."""
SAMPLES = 4096
"""Number of templates of a group that give its extent in a segment's coordinates."""
AT_ONCE = 8192
"""Number of templates whose phases are computed together, so that they stay in a processor's caches."""


class OrbitGroup(Group):
    """Templates in binaries, whose nearest points in the lattices of several segments are wanted."""

    widest = FLAT_RADIUS

    @cached_property
    def columns(self) -> dict[str, np.ndarray]:
        """Parameters apart from the frequency, (m,) float64 each."""
        return {name: x for name, x in parameter_values(self.stack).items() if name != "freq"}

    @property
    def parameters(self) -> np.ndarray:
        """Columns, (p, m) float64."""
        return np.stack(list(self.columns.values()))

    @property
    def orbit(self) -> Orbit:
        """Orbits of the templates."""
        assert self.stack.orbit is not None
        return self.stack.orbit

    @cached_property
    def n_spins(self) -> int:
        """Number of derivatives of the frequency."""
        return self.stack.fkdot.shape[1] - 1

    @cached_property
    def varied(self) -> tuple[str, ...]:
        """Names of the columns whose values differ, and those that must vary with them.

        If the period differs, so does the phase in a segment; and a map of the sky has two coordinates.
        """
        wide = {name for name, x in self.columns.items() if np.ptp(x) > 0}
        wide |= {"tp"} if "period" in wide else set()
        wide |= set(SKY) if wide & set(SKY) else set()
        return tuple(name for name in self.columns if name in wide)

    @cached_property
    def sample(self) -> dict[str, np.ndarray]:
        """Columns of some templates, which fill the group's extent in all parameters."""
        every = np.linspace(0, len(self) - 1, min(len(self), SAMPLES)).astype(int)
        ends = [[int(np.argmin(x)), int(np.argmax(x))] for x in (self.columns[name] for name in self.varied)]
        rows = np.unique(np.concatenate([every, *ends]))
        return {name: np.maximum(x[rows], LEAST.get(name, -np.inf)) for name, x in self.columns.items()}

    @cached_property
    def origin(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, float]]:
        """First fields of `Place`: the map of the sky, and spin-downs and orbit in the middle of their ranges."""
        ends = {name: (float(x.min()), float(x.max())) for name, x in self.columns.items()}
        mean = {name: max(0.5 * (low + high), LEAST.get(name, -np.inf)) for name, (low, high) in ends.items()}
        spins = np.array([mean[spin_name(k)] for k in range(1, self.n_spins + 1)])
        orbit = {name: mean[name] if name in self.varied else ends[name][0] for name in ORBIT_FIELDS}
        if "ecc" in self.varied or "argp" in self.varied:  # whose coordinates are divided by the size
            orbit["asini"] = mean["asini"]
        return self.centre, tangents(self.centre), spins, orbit

    def nearest(self, segment: Observation, reftime: GPSTime, fmax: float, mismatch: float) -> Nearest:
        """Return the points of a segment's lattice that are nearest to the templates; see `nearest.Group`."""
        phases = _phases(segment)
        place = Place(*self.origin, phases.middle, reftime, fmax)
        chart, lattice = self._lattice(phases, place, mismatch, float(segment.tspan))
        names = tuple(self.columns)
        spins = any(spin_name(k) in self.varied for k in range(1, self.n_spins + 1))
        frequencies = partial(_frequencies, phases=phases, place=place, names=names, spins=spins)
        zero = lattice.coordinates(np.zeros((1, lattice.n_wide), np.int64))[0]
        found = [(_rounded(x, place, zero, lattice.matrix, chart, names), frequencies(x)) for x in self.pieces]
        points, index, moved = distinct_points(found, len(self), self.on_cpu)
        own = self._elements_at(chart, place, lattice.coordinates(points))
        orbit = with_fields(self.orbit, **dict(zip(ORBIT_FIELDS, own[3:8], strict=True)))
        stack = self.points(own.alpha, own.delta, own.spins, reftime, orbit)
        columns = OrbitGroup(stack, self.device).pieces
        of_points = np.concatenate([np.asarray(frequencies(x)) for x in columns], axis=1)[:, : len(points)]
        return Nearest(stack, index, differences(moved, of_points, index))

    def order(self, observation: Observation, reftime: GPSTime, fmax: float) -> np.ndarray:
        """Return the Z-order of the templates in coordinates in which the segments' mean metric is the identity."""
        phases = Phases.of(observation)
        place = Place(*self.origin, phases.middle, reftime, fmax)
        chart = Chart(self.varied, self.n_spins)
        if not chart.coordinates:
            return np.arange(len(self), dtype=np.int32)
        x = coordinates(chart, place, {name: self.columns[name] for name in chart.names})
        middle, scale = middle_and_scale(x)
        r = np.asarray(factors(phases, place, self._few(x), scale, chart))
        whitened = (x - middle) / scale @ r[len(r) // 2, 1:, 1:].T
        # in 32 bits, so that other processors round it to the same numbers
        return np.asarray(z_order(jnp.asarray(whitened.T.astype(np.float32), jnp.float64), CELL))

    def _lattice(self, phases: Phases, place: Place, mismatch: float, tspan: float) -> tuple[Chart, Lattice]:
        """Return the lattice of a segment, which lasts `tspan`, s, with the fewest points, and its coordinates."""
        charts = [Chart(self.varied, self.n_spins)]
        if charts[0].circle and "period" in self.varied and tspan < place.orbit["period"]:
            charts.append(Chart(self.varied, self.n_spins, short=True))
        found = [self._lattice_in(chart, phases, place, mismatch) for chart in charts]
        best = int(np.argmin([expected for _, expected in found]))
        return charts[best], found[best][0]

    def _lattice_in(self, chart: Chart, phases: Phases, place: Place, mismatch: float) -> tuple[Lattice, float]:
        """Return the lattice in some coordinates, and its expected number of points."""
        x = coordinates(chart, place, {name: self.sample[name] for name in chart.names})
        middle, scale = middle_and_scale(x)
        local = np.asarray(factors(phases, place, self._few(x), scale, chart))[:, 1:, 1:]
        return thinnest_lattice(middle, scale, largest_factor(with_floor(local, mismatch)), x, mismatch)

    def _few(self, x: np.ndarray) -> np.ndarray:
        """Return `CHUNK` of some coordinates, (k, n), the outermost in each first."""
        ends = np.concatenate([np.argmin(x, axis=0), np.argmax(x, axis=0)])[:CHUNK]
        others = np.linspace(0, len(x) - 1, CHUNK - len(ends)).astype(int)
        return x[np.concatenate([ends, others])]

    def _elements_at(self, chart: Chart, place: Place, x: np.ndarray) -> Elements:
        """Return the parameters at coordinates, (k, n), as NumPy arrays."""
        each = jax.device_get([jitted_elements(y.T, place, chart) for y in pieces_of(x.T, self.device)])
        return Elements(*(np.concatenate(own)[: len(x)] for own in zip(*each, strict=True)))


def _phases(segment: Observation) -> Phases:
    """Return what to compare in a segment: phases at `NODES` times of each detector, the last of them empty if few."""
    return Phases(segment, *filled(*sampled(*segment.phase_times(), NODES * len(segment.detectors)), NODES))


@partial(jax.jit, static_argnames=("chart", "names"))
def _rounded(
    columns: jax.Array,
    place: Place,
    zero: jax.Array,
    matrix: jax.Array,
    chart: Chart,
    names: tuple[str, ...],
) -> jax.Array:
    """Return integers of the lattice points nearest to templates, (k, size) int32.

    Parameters
    ----------
    columns : (p, size) float64
        Parameters called `names`.
    place : Place
    zero, matrix : (n,), (n, k) float64
        Coordinates of a lattice's point of zeros, and `Lattice.matrix`.
    """
    if not matrix.shape[1]:
        return jnp.zeros((0, columns.shape[1]), jnp.int32)
    at = {name: columns[i] for i, name in enumerate(names) if name in chart.names}
    return nearest_integers(coordinates(chart, place, at).T, zero, matrix)


@partial(jax.jit, static_argnames=("names", "spins"))
def _frequencies(columns: jax.Array, phases: Phases, place: Place, names: tuple[str, ...], spins: bool) -> jax.Array:
    """Return by how much the best frequency of a signal lies above the frequency of a template with no offset.

    The phase of each template relative to the middle of the group is fitted by a straight line. Two templates have the
    least mismatch where their frequencies differ by the difference of these slopes.

    Parameters
    ----------
    columns : (p, size) float64
        Parameters called `names`.
    phases : Phases
    place : Place
        Middle of the group, with the highest frequency of the band.
    spins : bool
        Whether spin-downs differ.

    Returns
    -------
    (2, size) float64
        Hz: a constant, of the spin-downs, and the rest, in proportion to the frequency, at the highest frequency.
    """
    observation = phases.observation
    alpha, delta = angles(place.up)
    fkdot = jnp.concatenate([jnp.reshape(place.frequency, 1), jnp.asarray(place.spins)])
    orbit = Orbit(*(place.orbit[name] for name in ORBIT_FIELDS))
    centre = observation.source(Doppler(alpha, delta, fkdot, place.reftime, orbit))
    at = jax.vmap(lambda own, t: sites(own, centre, t))(observation.trajectory, jnp.asarray(phases.time))
    tau = at.time + (at.to_ssb - at.across_orbit)
    share = jnp.asarray(phases.weight) / jnp.sum(jnp.asarray(phases.weight))
    tau = tau - jnp.sum(share * tau)
    kernel = share * tau / jnp.sum(share * tau * tau)

    def slope(own: dict[str, jax.Array], fkdot: jax.Array) -> jax.Array:
        orbit = Orbit(*(own[name] for name in ORBIT_FIELDS))
        other = observation.source(Doppler(own["alpha"], own["delta"], fkdot, place.reftime, orbit))
        return jnp.sum(kernel * jax.vmap(lambda x: phase_difference(x, centre, other))(at))

    def one(values: jax.Array) -> jax.Array:
        own = dict(zip(names, values, strict=True))
        still = slope(own, fkdot)
        if not spins:
            return jnp.stack([jnp.zeros_like(still), still])
        drifting = jnp.stack([fkdot[0], *(own[spin_name(k)] for k in range(1, len(fkdot)))])
        return jnp.stack([slope(own, drifting) - still, still])

    return jax.lax.map(one, columns.T, batch_size=min(AT_ONCE, columns.shape[1])).T
