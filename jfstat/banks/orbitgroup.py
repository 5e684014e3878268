"""Templates in binaries, and the points of segments' own lattices that are nearest to them.

The lattices lie in the coordinates of `jfstat.banks.orbitspace`, with times that count from the middle of the segment.
The phase is nearly linear in them, so that one metric serves all templates; it is nowhere smaller than the metrics at
some of them. All segments together tell the period better than one: in one segment many templates share a point.
"""

from __future__ import annotations

from functools import cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.banks.coherent import CELL, cap_of
from jfstat.banks.nearest import Nearest, computed_on_cpu, differences, distinct_points, gap_in, pieces_of
from jfstat.banks.orbitlattice import LEAST, Lattice, largest_factor, thinnest_lattice, with_floor
from jfstat.banks.orbitmetric import Phases, sampled
from jfstat.banks.orbitspace import CHUNK, Chart, Elements, Place, coordinates, elements, factors
from jfstat.data.memory import Device
from jfstat.data.observation import Observation
from jfstat.geometry.nearby import phase_difference, sites
from jfstat.maths.lattices import nearest_points
from jfstat.maths.vectors import angles, tangents, unit_vector
from jfstat.maths.zorder import z_order
from jfstat.signal.parameters import ORBIT_FIELDS, SKY, spin_name
from jfstat.signal.templates import Doppler, Orbit
from jfstat.signal.times import GPSTime
from jfstat.signal.values import with_fields

WIDEST = 0.5
"""Largest radius of a group on the sky, rad, so that it fits on one flat map."""
NODES = 64
"""Number of times of each detector in a segment at which phases are compared."""
SAMPLES = 4096
"""Number of templates of a group that give its extent in a segment's coordinates."""
AT_ONCE = 8192
"""Number of templates whose phases are computed together, so that they stay in a processor's caches."""


class OrbitGroup:
    """Templates in binaries, whose nearest points in the lattices of several segments are wanted.

    Attributes
    ----------
    stack : Doppler
        m templates, NumPy leaves.
    device : Device or None
        Device that computes nearest points; by default JAX's default device.
    columns : dict of str to (m,) float64
        Parameters apart from the frequency.
    """

    def __init__(self, stack: Doppler, device: Device | None = None):
        assert stack.orbit is not None
        self.stack, self.orbit, self.device = stack, stack.orbit, device
        spins = {spin_name(k): stack.fkdot[:, k] for k in range(1, stack.fkdot.shape[1])}
        orbit = {name: getattr(self.orbit, name) for name in ORBIT_FIELDS}
        given = {"alpha": stack.alpha, "delta": stack.delta} | spins | orbit
        self.columns = {name: np.asarray(x, np.float64) for name, x in given.items()}

    def __len__(self) -> int:
        return len(self.columns["alpha"])

    @property
    def on_cpu(self) -> bool:
        """Whether nearest points are computed on a CPU."""
        return computed_on_cpu(self.device)

    @property
    def gap(self) -> int | None:
        """Number of the template before which to divide the group, which is too wide for one lattice; None if not."""
        n = unit_vector(self.columns["alpha"], self.columns["delta"])
        return gap_in(n) if cap_of(n)[1] > WIDEST else None

    @property
    def pieces(self) -> list[jax.Array]:
        """Columns, (p, size) float64 each, on the device; see `nearest.pieces_of`."""
        return self._pieces

    @cached_property
    def _pieces(self) -> list[jax.Array]:
        return pieces_of(np.stack(list(self.columns.values())), self.device)

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

    def place(self, middle: float, reftime: GPSTime, frequency: float) -> Place:
        """Return the origin of coordinates whose times count from `middle`, GPS s; see `Place`."""
        ends = {name: (float(x.min()), float(x.max())) for name, x in self.columns.items()}
        mean = {name: max(0.5 * (low + high), LEAST.get(name, -np.inf)) for name, (low, high) in ends.items()}
        up = cap_of(unit_vector(self.columns["alpha"], self.columns["delta"]))[0]
        spins = np.array([mean[spin_name(k)] for k in range(1, self.n_spins + 1)])
        orbit = {name: mean[name] if name in self.varied else ends[name][0] for name in ORBIT_FIELDS}
        if "ecc" in self.varied or "argp" in self.varied:  # whose coordinates are divided by the size
            orbit["asini"] = mean["asini"]
        return Place(up, tangents(up), spins, orbit, middle, reftime, frequency)

    def nearest(self, segment: Observation, reftime: GPSTime, fmax: float, mismatch: float) -> Nearest:
        """Return the points of a segment's lattice that are nearest to the templates; see `nearest.Group`."""
        phases = _phases(segment)
        place = self.place(phases.middle, reftime, fmax)
        chart, lattice = self._lattice(phases, place, mismatch, float(segment.tspan))
        spins = any(spin_name(k) in self.varied for k in range(1, self.n_spins + 1))
        names = tuple(self.columns)
        found = [
            (
                _rounded(x, place, lattice.middle, lattice.matrix, _offset(lattice), chart, names),
                _frequencies(x, phases, place, names, spins),
            )
            for x in self.pieces
        ]
        points, index, moved = distinct_points(found, len(self), self.on_cpu)
        own = self._elements_at(chart, place, lattice.coordinates(points))
        columns = np.concatenate([own.alpha[None], own.delta[None], own.spins.T, np.stack(own[3:])])
        each = [np.asarray(_frequencies(x, phases, place, names, spins)) for x in pieces_of(columns, self.device)]
        of_points = np.concatenate(each, axis=1)[:, : len(points)]
        fkdot = np.column_stack([np.full(len(points), np.asarray(self.stack.fkdot)[0, 0]), own.spins])
        orbit = with_fields(self.orbit, **dict(zip(ORBIT_FIELDS, own[3:], strict=True)))
        each_reftime = jax.tree.map(lambda x: np.full(len(points), x), reftime)
        fields = dict(alpha=own.alpha, delta=own.delta, fkdot=fkdot, reftime=each_reftime, orbit=orbit)
        return Nearest(with_fields(self.stack, **fields), index, differences(moved, of_points, index))

    def order(self, observation: Observation, reftime: GPSTime, fmax: float) -> np.ndarray:
        """Return the Z-order of the templates in coordinates in which the segments' mean metric is the identity."""
        phases = Phases.of(observation)
        place = self.place(phases.middle, reftime, fmax)
        chart = Chart(self.varied, self.n_spins)
        if not chart.coordinates:
            return np.arange(len(self), dtype=np.int32)
        x = coordinates(chart, place, {name: self.columns[name] for name in chart.names})
        middle, scale = _middle_and_scale(x)
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
        middle, scale = _middle_and_scale(x)
        local = np.asarray(factors(phases, place, self._few(x), scale, chart))[:, 1:, 1:]
        return thinnest_lattice(middle, scale, largest_factor(with_floor(local, mismatch)), x, mismatch)

    def _few(self, x: np.ndarray) -> np.ndarray:
        """Return `CHUNK` of some coordinates, (k, n), the outermost in each first."""
        ends = np.concatenate([np.argmin(x, axis=0), np.argmax(x, axis=0)])[:CHUNK]
        others = np.linspace(0, len(x) - 1, CHUNK - len(ends)).astype(int)
        return x[np.concatenate([ends, others])]

    def _elements_at(self, chart: Chart, place: Place, x: np.ndarray) -> Elements:
        """Return the parameters at coordinates, (k, n), as NumPy arrays."""
        each = jax.device_get([_elements(y.T, place, chart) for y in pieces_of(x.T, self.device)])
        return Elements(*(np.concatenate(own)[: len(x)] for own in zip(*each, strict=True)))


def _phases(segment: Observation) -> Phases:
    """Return what to compare in a segment: phases at `NODES` times of each detector, the last of them empty if few."""
    time, weight = sampled(*segment.phase_times(), NODES * len(segment.detectors))
    more = [(0, 0), (0, NODES - time.shape[1])]
    return Phases(segment, np.pad(time, more, mode="edge"), np.pad(weight, more))


def _middle_and_scale(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return middle and half width of coordinates, (k, n): (n,) float64 each, the latter never 0."""
    low, high = x.min(axis=0), x.max(axis=0)
    middle = 0.5 * (low + high)
    return middle, np.maximum(0.5 * (high - low), 1e-12 * np.abs(middle) + 1e-300)


def _offset(lattice: Lattice) -> np.ndarray:
    return lattice.offset[: lattice.n_wide] * lattice.unit


@partial(jax.jit, static_argnames="chart")
def _elements(x: jax.Array, place: Place, chart: Chart) -> Elements:
    return elements(chart, place, x)


@partial(jax.jit, static_argnames=("chart", "names"))
def _rounded(
    columns: jax.Array,
    place: Place,
    middle: jax.Array,
    matrix: jax.Array,
    offset: jax.Array,
    chart: Chart,
    names: tuple[str, ...],
) -> jax.Array:
    """Return integers of the lattice points nearest to templates, (k, size) int32.

    Parameters
    ----------
    columns : (p, size) float64
        Parameters called `names`.
    place : Place
    middle, matrix, offset : (n,), (n, k), (k,) float64
        See `Lattice`.
    """
    d, k = matrix.shape
    if not k:
        return jnp.zeros((0, columns.shape[1]), jnp.int32)
    at = {name: columns[i] for i, name in enumerate(names) if name in chart.names}
    x = coordinates(chart, place, at).T
    away = [x[i] - middle[i] for i in range(d)]
    # sums of products, since XLA computes products of matrices in lower precision on some devices
    spot = [sum(own * matrix[i, j] for i, own in enumerate(away)) - offset[j] for j in range(k)]
    return nearest_points(jnp.stack(spot, axis=-1)).T.astype(jnp.int32)


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
