"""Ranges of any parameters, and coordinates in which the metric is nearly constant.

The sky is a flat map. A proper motion and the parameters of a phase model are their own coordinates, and so are
spin-downs, plus what compensates for a step on the sky: the reduced supersky coordinates of Wette & Prix 2013 (Phys.
Rev. D 88, 123005).

The delay across a nearly circular orbit, with t counted from the middle of the data, is

    A sin(Omega t) + B cos(Omega t) + C sin(2 Omega t) + D cos(2 Omega t),

and the phase is linear in A, B, C and D. For a known period they are therefore coordinates in which the metric is
constant, however many orbits the data span. With psi = Omega (t_middle - t_asc), t_asc = tp - argp/Omega, kappa = ecc
cos(argp) and eta = ecc sin(argp), A + iB = asini exp(i psi) and C + iD = asini/2 (kappa - i eta) exp(2 i psi). This is
the expansion of the phase by Leaci & Prix 2015 (Phys. Rev. D 91, 102003), to first order in the eccentricity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.banks.comparison import Comparison
from jfstat.maths.arrays import module_for
from jfstat.maths.ladder import padded_size
from jfstat.maths.vectors import angles, tangents, unit_vector
from jfstat.signal.parameters import (
    MOTION_FIELDS,
    ORBIT_FIELDS,
    SKY,
    is_of_model,
    is_parameter,
    spin_name,
    spin_order,
)
from jfstat.signal.templates import Doppler, Orbit
from jfstat.signal.times import GPSTime
from jfstat.signal.values import replaced, with_fields

Bound = Callable[[Mapping[str, np.ndarray]], Any]
"""Function from parameters by name to an end of a range."""
CHUNK = 16
"""Number of metrics computed by one call of the compiled program."""
FLOOR = 1e-3
"""Least metric in each coordinate, in mismatches per squared half width: no template covers more than thirty widths."""
SKY_REACH, SKY_FLOOR = 0.2, 0.25
"""Largest distance of positions that a template covers if spin-downs compensate for steps on the sky, rad; and least
metric of positions if it would be larger, as `FLOOR`: a template may cover two half widths."""
LEAST_TEMPLATES = 1024
"""Least number of templates that are made at a time, in one of few sizes, which need few compilations."""
LARGEST_ECC = 0.95
"""Largest eccentricity of templates, which may lie beyond the ranges."""
FLAT_RADIUS = 0.5
"""Largest distance of positions from their middle, rad, so that they fit on one flat map."""
EDGE = 0.99
"""Largest distance of templates from the middle of the sky's map."""


@dataclass(frozen=True)
class Chart:
    """The parameters that vary, and the coordinates of the lattice.

    Attributes
    ----------
    names : tuple of str
        Parameters that vary: ``alpha``, ``delta``, ``f1dot``, ..., ``asini``, ``period``, ``tp``, ``ecc``, ``argp``;
        ``phase``, the angle psi, replaces ``tp`` if the time of periapsis is unknown. Those of a proper motion or a
        phase model, ``pmra``, ``pmdec``, ``model.df``, ..., are `others`.
    n_spins : int
        Number of derivatives of the frequency.
    short : bool
        Whether A and B are multiplied by Omega^3 and Omega^2: data much shorter than a period constrain these products,
        jerk and acceleration.
    """

    names: tuple[str, ...]
    n_spins: int
    short: bool = False

    @property
    def when(self) -> bool:
        """Whether the time of the orbit varies."""
        return "tp" in self.names or "phase" in self.names

    @property
    def circle(self) -> bool:
        """Whether A and B are coordinates."""
        return "asini" in self.names and self.when

    @property
    def harmonic(self) -> bool:
        """Whether C and D are coordinates."""
        return self.when and "ecc" in self.names and "argp" in self.names

    @property
    def others(self) -> tuple[str, ...]:
        """Parameters of a proper motion or a phase model, which are their own coordinates."""
        return tuple(name for name in self.names if name in MOTION_FIELDS or is_of_model(name))

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Names of the lattice's coordinates."""
        sky = ("east", "north") if any(name in self.names for name in SKY) else ()
        spins = tuple(name for name in self.names if spin_order(name))
        first = ("A", "B") if self.circle else ("asini",) if "asini" in self.names else ("phase",) if self.when else ()
        second = ("C", "D") if self.harmonic else tuple(name for name in ("ecc", "argp") if name in self.names)
        return (*sky, *spins, *first, *(("rate",) if "period" in self.names else ()), *second, *self.others)


class Place(NamedTuple):
    """The origin of the coordinates, and the parameters that do not vary; a pytree.

    Attributes
    ----------
    up, axes : (3,), (2, 3) float64
        Middle of the orthographic map of the sky, and its axes.
    spins : (s,) float64
        Values of f1dot, ..., Hz/s^k.
    orbit : dict of str to float
        Parameters of the orbit; for varying parameters the middle of their range.
    middle : float
        Mid-time of the data, GPS s.
    reftime : GPSTime
    frequency : float
        Frequency of templates, Hz.
    point : Doppler, optional
        A template with the proper motion and the phase model of all, if there are any.
    drift : (s, 3) float64, optional
        Change of each spin-down coordinate with the unit vector to the source, Hz/s^k; by default none.
    """

    up: np.ndarray
    axes: np.ndarray
    spins: np.ndarray
    orbit: dict[str, float]
    middle: float
    reftime: GPSTime
    frequency: float
    point: Doppler | None = None
    drift: np.ndarray | None = None


class Elements(NamedTuple):
    """Parameters of templates, arrays of one shape; `spins` and `others` have one more axis."""

    alpha: jax.Array | np.ndarray
    delta: jax.Array | np.ndarray
    spins: jax.Array | np.ndarray
    asini: jax.Array | np.ndarray
    period: jax.Array | np.ndarray
    tp: jax.Array | np.ndarray
    ecc: jax.Array | np.ndarray
    argp: jax.Array | np.ndarray
    others: jax.Array | np.ndarray


def elements(chart: Chart, place: Place, x: jax.Array) -> Elements:
    """Return the parameters at coordinates x, (..., n) float64; traceable."""
    at = {name: x[..., i] for i, name in enumerate(chart.coordinates)}
    zero = jnp.zeros(x.shape[:-1])
    n = jnp.broadcast_to(jnp.asarray(place.up), (*x.shape[:-1], 3))
    if "east" in at:
        y = jnp.stack([at["east"], at["north"]], axis=-1)
        size = jnp.sqrt(jnp.sum(y * y, axis=-1, keepdims=True) + 1e-300)
        y = y * jnp.minimum(1.0, EDGE / size)
        n = y @ place.axes + jnp.sqrt(1 - jnp.sum(y * y, axis=-1, keepdims=True)) * n
    spins = [at[spin_name(k)] if spin_name(k) in at else zero + place.spins[k - 1] for k in range(1, chart.n_spins + 1)]
    if place.drift is not None:
        spins = [own - (n @ turn - place.up @ turn) for own, turn in zip(spins, place.drift, strict=True)]
    own = {name: zero + value for name, value in place.orbit.items()}
    rate = at.get("rate", 2 * jnp.pi / own["period"])
    asini, phase = jnp.maximum(at.get("asini", own["asini"]), 0.0), at.get("phase", zero)
    if chart.circle:
        a, b = (at["A"] / rate**3, at["B"] / rate**2) if chart.short else (at["A"], at["B"])
        asini, phase = jnp.sqrt(a * a + b * b + 1e-24), jnp.arctan2(b, a)
    ecc, argp = at.get("ecc", own["ecc"]), at.get("argp", own["argp"])
    if chart.harmonic:
        # 2 (C + iD)/asini exp(-2i psi) = kappa - i eta
        cos, sin = jnp.cos(2 * phase), jnp.sin(2 * phase)
        kappa = 2 * (at["C"] * cos + at["D"] * sin) / asini
        eta = -2 * (at["D"] * cos - at["C"] * sin) / asini
        ecc, argp = jnp.sqrt(kappa * kappa + eta * eta + 1e-24), jnp.arctan2(eta, kappa)
        # within half a turn of the middle of its range
        argp = argp - jax.lax.stop_gradient(jnp.round((argp - own["argp"]) / (2 * jnp.pi))) * (2 * jnp.pi)
    tp = own["tp"]
    if chart.when:
        tp = place.middle - (phase - argp) / rate
        # the periapsis nearest to the middle of its range
        tp = tp + jax.lax.stop_gradient(jnp.round((own["tp"] - tp) * rate / (2 * jnp.pi))) * (2 * jnp.pi / rate)
    alpha, delta = angles(n)
    ecc = jnp.clip(ecc, 0.0, LARGEST_ECC)
    spins, others = (jnp.stack([*own, zero], -1)[..., :-1] for own in (spins, [at[name] for name in chart.others]))
    return Elements(alpha, delta, spins, asini, 2 * jnp.pi / rate, tp, ecc, argp, others)


def template_at(chart: Chart, place: Place, x: jax.Array, frequency: jax.Array) -> Doppler:
    """Return the template at coordinates x, (n,) float64, and a frequency, Hz; traceable."""
    e = elements(chart, place, x)
    fkdot = jnp.concatenate([jnp.reshape(frequency, 1), jnp.asarray(e.spins)])
    orbit = Orbit(e.asini, e.period, e.tp, e.ecc, e.argp)
    if place.point is None:
        return Doppler(e.alpha, e.delta, fkdot, place.reftime, orbit)
    own = with_fields(place.point, alpha=e.alpha, delta=e.delta, fkdot=fkdot, orbit=orbit)
    return replaced(own, chart.others, jnp.asarray(e.others))


def coordinates(chart: Chart, place: Place, at: Mapping[str, Any]) -> Any:
    """Return coordinates, (k, n), of the parameters that vary, (k,) each; inverse to `elements`.

    The time of the orbit is ``phase``, the angle psi, or follows from ``tp``, ``period`` and ``argp``.
    """
    if not chart.coordinates:
        return np.zeros((1, 0))  # all templates are one
    xp = module_for(*at.values())
    n = len(next(iter(at.values())))
    own = {name: at.get(name, xp.full(n, place.orbit[name])) for name in ORBIT_FIELDS}
    rate = 2 * np.pi / own["period"]
    phase = at.get("phase", rate * (place.middle - own["tp"]) + own["argp"])
    x = {name: at[name] for name in chart.names if name in chart.coordinates} | {"rate": rate, "phase": phase}
    if "east" in chart.coordinates:
        alpha, delta = angles(place.up)
        position = unit_vector(at.get("alpha", alpha), at.get("delta", delta))
        x["east"], x["north"] = (position @ axis for axis in place.axes)
        if place.drift is not None:
            for name in chart.names:
                if k := spin_order(name):
                    x[name] = x[name] + (position @ place.drift[k - 1] - place.up @ place.drift[k - 1])
    x["A"], x["B"] = own["asini"] * xp.cos(phase), own["asini"] * xp.sin(phase)
    if chart.short:
        x["A"], x["B"] = x["A"] * rate**3, x["B"] * rate**2
    size, angle = 0.5 * own["asini"] * own["ecc"], 2 * phase - own["argp"]
    x["C"], x["D"] = size * xp.cos(angle), size * xp.sin(angle)
    return xp.stack([x[name] for name in chart.coordinates], axis=-1)


def stack_of(e: Elements, place: Place, others: tuple[str, ...], frequency: float) -> Doppler:
    """Return templates at a frequency, Hz, as a stack; `others` are the names of the parameters in ``e.others``."""
    n = len(e.alpha)
    fkdot = np.concatenate([np.full((n, 1), frequency), e.spins], axis=1)
    orbit = Orbit(e.asini, e.period, e.tp, e.ecc, e.argp)
    point = place.point
    if point is None:
        return Doppler(e.alpha, e.delta, fkdot, place.reftime, orbit)
    motion, own = point.motion, dict(zip(others, np.asarray(e.others).T, strict=True))
    if motion is not None:
        motion = np.stack([own.pop(name, np.full(n, x)) for name, x in zip(MOTION_FIELDS, motion, strict=True)], -1)
    model = None if point.model is None else point.model.repeated(n).replaced(own, 1)
    return Doppler(e.alpha, e.delta, fkdot, place.reftime, orbit, motion=motion, model=model)


def with_sign(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the largest value that places beyond ranges may have if they are to keep their sign.

    A range that does not contain 0 is left by at most half the value nearest to 0: a time scale, say, remains positive.
    """
    return np.where(low > 0, 0.5 * low, -np.inf), np.where(high < 0, 0.5 * high, np.inf)


@dataclass(frozen=True, eq=False)
class Domain:
    """The image of a box: parameters as functions of the box's axes.

    Attributes
    ----------
    axes : tuple of str
        Names of the box's axes, most of them parameters.
    bounds : mapping of str to (callable, callable)
        Functions for the ends of an axis that depend on what comes before it. In the box such an axis goes from 0 to 1.
    derived : mapping of str to callable
        Functions for parameters that follow from what comes before them.
    order : tuple of str
        Names of the axes and of `derived`; each function is given the values of all names before its own.
    """

    axes: tuple[str, ...]
    bounds: Mapping[str, tuple[Bound, Bound]] = field(default_factory=dict, kw_only=True)
    derived: Mapping[str, Bound] = field(default_factory=dict, kw_only=True)
    order: tuple[str, ...]

    def values(self, u: np.ndarray) -> dict[str, np.ndarray]:
        """Return the values of all names, (k,) each, at places in the box, (k, d)."""
        along = dict(zip(self.axes, u.T, strict=True))
        at: dict[str, np.ndarray] = {}
        for name in self.order:
            if name in self.derived:
                x = np.broadcast_to(self.derived[name](at), len(u))
            elif name in self.bounds:
                low, high = (bound(at) for bound in self.bounds[name])
                x = low + along[name] * (high - low)
            else:
                x = along[name]
            at[name] = x
        return at


@dataclass(frozen=True, eq=False)
class ChartedSpace:
    """Ranges of parameters, and the metric over them.

    Attributes
    ----------
    chart : Chart
    place : Place
    domain : Domain
        What leads from places in the box to the parameters ``chart.names``.
    low, high : (d,) float64
        Ends of the box.
    comparison : Comparison
        What the metric measures.
    mismatch : float
    """

    chart: Chart
    place: Place
    domain: Domain
    low: np.ndarray
    high: np.ndarray
    comparison: Comparison
    mismatch: float

    @property
    def bent(self) -> list[int]:
        """Numbers of the axes along which the metric may change: all but spin-downs that nothing else follows."""
        followed = any(not spin_order(name) for name in (*self.domain.derived, *self.domain.bounds))
        return [i for i, name in enumerate(self.domain.axes) if followed or not spin_order(name)]

    def floors(self, scale: np.ndarray) -> np.ndarray:
        """Return the least metric in each coordinate divided by `scale`, (n,), in mismatches.

        Where spin-downs compensate for steps on the sky, its metric alone would let templates lie where the map ends.
        """
        on_sky = [self.place.drift is not None and name in ("east", "north") for name in self.chart.coordinates]
        return np.where(on_sky, np.clip((scale / SKY_REACH) ** 2, FLOOR, SKY_FLOOR), FLOOR)

    @property
    def possible(self) -> tuple[np.ndarray, np.ndarray]:
        """Least and largest values of `Chart.others` of templates, (q,) each; see `with_sign`."""
        ends = {name: (low, high) for name, low, high in zip(self.domain.axes, self.low, self.high, strict=True)}
        low, high = np.array([ends.get(name, (0.0, 0.0)) for name in self.chart.others]).reshape(-1, 2).T
        return with_sign(low, high)

    def coordinates(self, u: np.ndarray) -> np.ndarray:
        """Return coordinates, (k, n), at places in the box, (k, d)."""
        return np.asarray(coordinates(self.chart, self.place, self.domain.values(u)))

    def factors(self, x: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Return upper triangular factors of the metric at coordinates x, (k, n), maximised over frequency: (k, n, n).

        The metric holds for the coordinates divided by `scale`, (n,).
        """
        found = [np.empty((0, 1 + len(scale), 1 + len(scale)))]
        for start in range(0, len(x), CHUNK):
            some = x[np.minimum(np.arange(start, start + CHUNK), len(x) - 1)]
            found.append(np.asarray(factors(self.comparison, self.place, some, scale, self.chart)))
        metrics = np.concatenate(found)[: len(x), 1:, 1:]
        if not np.isfinite(metrics).all():
            raise ValueError(
                "ranges must lead to finite phases, and the phase model is not finite in, or just beyond, them: narrow "
                "them."
            )
        return metrics

    def templates(self, x: np.ndarray) -> Elements:
        """Return the templates at coordinates x, (k, n), as NumPy arrays."""
        size = padded_size(max(len(x), LEAST_TEMPLATES), 1)
        padded = np.pad(x, [(0, size - len(x)), (0, 0)], mode="edge")
        found = Elements(*(np.asarray(y)[: len(x)] for y in jitted_elements(padded, self.place, self.chart)))
        return found._replace(others=np.clip(found.others, *self.possible))


@partial(jax.jit, static_argnames="chart")
def jitted_elements(x: jax.Array, place: Place, chart: Chart) -> Elements:
    """Compute `elements`."""
    return elements(chart, place, x)


@partial(jax.jit, static_argnames="chart")
def factors(comparison: Comparison, place: Place, x: jax.Array, scale: jax.Array, chart: Chart) -> jax.Array:
    """Return upper triangular factors of the metric in frequency and coordinates divided by `scale`, (k, 1+n, 1+n)."""

    def one(x: jax.Array) -> jax.Array:
        def move(step: jax.Array) -> Doppler:
            return template_at(chart, place, x + scale * step[1:], place.frequency + step[0])

        slope = comparison.slopes(move, jnp.zeros(1 + len(scale)))
        slope = jnp.pad(slope, ((0, max(0, slope.shape[1] - slope.shape[0])), (0, 0)))  # of fewer times than parameters
        size = jnp.maximum(jnp.sqrt(jnp.sum(slope * slope, axis=0, keepdims=True)), 1e-300)
        return jnp.linalg.qr(slope / size, mode="r") * size

    return jax.lax.map(one, x)


def charted_space(
    comparison: Comparison,
    limits: Mapping[str, tuple[float, float]],
    n_spins: int,
    reftime: GPSTime,
    frequency: float,
    mismatch: float,
    point: Doppler | None = None,
    domain: Domain | None = None,
) -> ChartedSpace:
    """Make the parameter space of given ranges.

    Parameters
    ----------
    comparison : Comparison
        `Phases` or `Tracks` of the data.
    limits : mapping of str to (low, high)
        Ranges of ``alpha``, ``delta``, ``f1dot``, ... and all parameters of an orbit; with equal ends for parameters
        that do not vary. Also of a proper motion and a phase model, if they vary, and of a domain's other axes.
    n_spins : int
    reftime : GPSTime
    frequency : float
        Frequency at which the metric is taken, Hz.
    mismatch : float
    point : Doppler, optional
        See `Place`.
    domain : Domain, optional
        By default all that vary are axes.
    """
    middle = comparison.middle
    limits = dict(limits)
    low, high = limits["tp"]
    longest = limits["period"][1] * (1 - 1e-9)  # GPS times are rounded
    # the uncertainty of the period adds up over the orbits between the periapsis and the data
    orbits = abs(middle - 0.5 * (low + high)) / limits["period"][0]
    if high - low >= longest:
        limits["tp"] = low, low + longest
    if high > low and high - low + orbits * (limits["period"][1] - limits["period"][0]) >= longest:
        limits = {"phase" if name == "tp" else name: x for name, x in limits.items()}
        limits["phase"] = 0.0, 2 * np.pi
    if limits["argp"][1] - limits["argp"][0] > 2 * np.pi:
        limits["argp"] = limits["argp"][0], limits["argp"][0] + 2 * np.pi
    names = tuple(name for name, (low, high) in limits.items() if high > low)
    mean = {name: 0.5 * (low + high) for name, (low, high) in limits.items()} | {"tp": 0.5 * (low + high)}
    up = unit_vector(np.float64(mean["alpha"]), np.float64(mean["delta"]))
    place = Place(
        up=up,
        axes=tangents(up),
        spins=np.array([mean[spin_name(k)] for k in range(1, n_spins + 1)]),
        orbit={name: mean[name] for name in ORBIT_FIELDS},
        middle=middle,
        reftime=reftime,
        frequency=frequency,
        point=point,
    )
    if domain is None:
        domain = Domain(names, names)
    else:
        axes, order = (
            tuple("phase" if x == "tp" and "phase" in limits else x for x in own) for own in (domain.axes, domain.order)
        )
        domain = replace(domain, axes=axes, order=order)
        # sorted, so that one program serves all orders
        names = tuple(sorted(name for name in order if is_parameter(name) or name == "phase"))
    ends = np.array([limits[name] for name in domain.axes]).reshape(-1, 2)
    chart = Chart(names, n_spins)
    space = ChartedSpace(chart, place, domain, ends[:, 0], ends[:, 1], comparison, mismatch)
    return replace(space, place=place._replace(drift=_drift(space)))


def _drift(space: ChartedSpace) -> np.ndarray | None:
    """Return the change of spin-downs that compensates for steps on the sky, see `Place`; None unless both vary.

    The phase is linear in the unit vector to the source. Its derivative along this vector is taken at a position a
    quarter of a circle away, where it is the derivative along the sky.
    """
    chart, place = space.chart, space.place
    spins = [k for k in range(1, chart.n_spins + 1) if spin_name(k) in chart.names]
    if "east" not in chart.coordinates or not spins:
        return None
    sky = [1 + chart.coordinates.index(name) for name in ("east", "north")]
    free = [0, *(1 + chart.coordinates.index(spin_name(k)) for k in spins)]
    x = np.tile(space.coordinates(0.5 * (space.low + space.high)[None]), (CHUNK, 1))
    x[:, np.array(sky) - 1] = 0.0
    east, north = place.axes
    slopes = []
    for up, axes in ((place.up, place.axes), (east, np.stack([north, place.up]))):
        own = place._replace(up=up, axes=axes, drift=np.zeros((chart.n_spins, 3)))
        r = np.asarray(factors(space.comparison, own, x, np.ones(x.shape[1]), chart))[0]
        size = np.linalg.norm(r[:, free], axis=0)
        slopes.append((np.linalg.lstsq(r[:, free] / size, r[:, sky])[0].T / size).T[1:])
    (along_east, along_north), (_, along_up) = (own.T for own in slopes)
    drift = np.zeros((chart.n_spins, 3))
    each = np.stack([along_east, along_north, along_up], axis=-1)
    drift[np.array(spins) - 1] = each @ np.stack([east, north, place.up])
    return drift
