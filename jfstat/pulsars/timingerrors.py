"""Errors of a timing solution as errors of a template: `timing_errors`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from math import factorial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jfstat import kinds
from jfstat.display import Displayed, Facts, is_known
from jfstat.geometry.orbit import orbit_speed, periapsis_rate
from jfstat.public import host
from jfstat.pulsars.entries import Entries, to_decimal, to_float
from jfstat.pulsars.glitch import taylor_shifted
from jfstat.pulsars.pulsar import QUADRUPOLE, Pulsar, pulsar_of
from jfstat.signal.parameters import MOTION_FIELDS, ORBIT_FIELDS, SKY, spin_name, spin_order
from jfstat.signal.reading import all_parameters, value
from jfstat.signal.templates import Doppler
from jfstat.signal.times import GPSTime, TimeLike
from jfstat.signal.values import replaced, values, with_fields

UNITS = {
    "RAJ": "s",
    "DECJ": "arcsec",
    "RAJD|DECJD|ELONG|ELAT|OM|KIN|KOM": "deg",
    "T0|TASC|GLEP_.*|PB|GLTD.*": "d",
    "PM.*": "mas/yr",
    "OMDOT": "deg/yr",
    "A1": "light-seconds",
}
"""Units of entries and their errors, by patterns of names, where they are not Hz, Hz/s, ... or plain numbers."""
SMALL_STEPS = {"RAJ": 1e-3, "DECJ": 1e-2, "RAJD|DECJD|ELONG|ELAT": 1e-6, "T0|TASC|GLEP_.*": 1e-6, "OM|KIN|KOM": 1e-3}
"""Steps of entries by which derivatives are taken, in the units of their errors, by patterns of names."""
RELATIVE_STEP = 1e-7
"""Smallest step of other entries, relative to their values; that of periods, of which many pass since the epoch."""
EARTH_SPEED = 1.06e-4
"""Largest speed of a detector around the Sun and with the Earth, in units of the speed of light."""
PERIODS = re.compile(r"PB|FB0")
DERIVATIVES = re.compile(r"FB([1-9]\d*)")
SMALL_TURN = 1e-3
"""Largest change of the orbit's phase, in turns since its epoch, by a step of a derivative of its frequency: more might
be taken for less by whole turns, and times in float64 tell changes of 1e-10."""
ORBIT = ("asini", "period", "ascending", "ecosw", "esinw")
"""Coordinates of an orbit that are smooth at any eccentricity: with the time at which the mean longitude is zero, GPS
s, and the two components of the eccentricity."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False, eq=False)
class TimingErrors(Displayed):
    """Errors of n entries of a .par file, and what they change in the pulsar's template; made by `timing_errors`.

    `model` takes it for priors.

    Attributes
    ----------
    centre : Doppler
        Template of the file, with a proper motion and derivatives of the frequency if an error is of one.
    errors : (n,) float64
        Standard errors, in the units of the file; of RAJ in s, of DECJ in arcsec.
    steps : (n, p) float64
        Changes by one error of each entry, of the parameters and the coordinates of the orbit named in `coordinates`.
    names : tuple of str, static
        Names of the entries.
    coordinates : tuple of str, static
    """

    centre: Doppler
    errors: jax.Array
    steps: jax.Array
    names: tuple[str, ...] = field(metadata=dict(static=True))
    coordinates: tuple[str, ...] = field(metadata=dict(static=True))

    def _facts(self) -> Facts:
        known = is_known(self.errors) and np.shape(self.errors) == (len(self.names),)
        sizes = [_with_unit(*x) for x in zip(self.names, np.asarray(self.errors), strict=True)] if known else []
        return Facts("TimingErrors", list(zip(self.names, sizes or self.names, strict=True)), many=True)

    def point(self, x: jax.Array) -> Doppler:
        """Return the template for differences of the entries from the file's, (n,) in their units; traceable."""
        return _moved_template(self.centre, self.coordinates, (x / self.errors) @ self.steps)


def _with_unit(name: str, error: float) -> str:
    unit = next((unit for pattern, unit in UNITS.items() if re.fullmatch(pattern, name)), "")
    return f"{error:.3g} {unit}".strip()


def _moved_template(centre: Doppler, coordinates: tuple[str, ...], change: jax.Array) -> Doppler:
    """Return a template after changes of parameters and coordinates of the orbit, (p,)."""
    plain = [i for i, name in enumerate(coordinates) if name not in ORBIT]
    names = [coordinates[i] for i in plain]
    moved = replaced(centre, names, values(centre, names) + change[jnp.array(plain)]) if plain else centre
    if len(plain) == len(coordinates):
        return moved
    own = {name: change[coordinates.index(name)] for name in ORBIT if name in coordinates}
    before = _smooth(*(value(centre, name) for name in ORBIT_FIELDS))
    asini, period, ascending, ecosw, esinw = (x + own.get(name, 0.0) for name, x in zip(ORBIT, before, strict=True))
    round_orbit = (ecosw == 0) & (esinw == 0)  # where the angle has no derivative
    cos, sin = jnp.where(round_orbit, 1.0, ecosw), jnp.where(round_orbit, 0.0, esinw)
    argp = jnp.arctan2(sin, cos)
    tp = ascending + period * argp / (2 * np.pi)
    ecc = jnp.where(round_orbit, 0.0, jnp.hypot(cos, sin))
    by_name = {"asini": asini, "period": period, "tp": tp, "ecc": ecc, "argp": argp}
    return replaced(moved, ORBIT_FIELDS, jnp.stack([by_name[name] for name in ORBIT_FIELDS]))


def _smooth(asini: Any, period: Any, tp: Any, ecc: Any, argp: Any) -> list[Any]:
    """Return the coordinates `ORBIT` of an orbit, each () float64."""
    return [asini, period, tp - period * argp / (2 * np.pi), ecc * jnp.cos(argp), ecc * jnp.sin(argp)]


@host(pulsar=kinds.instance(Pulsar), start=kinds.time, end=kinds.time)
def timing_errors(
    pulsar: Pulsar, start: TimeLike | None = None, end: TimeLike | None = None, harmonic: float = QUADRUPOLE
) -> TimingErrors:
    """Compute what the errors of a .par file change in the template of a pulsar's signal.

    They are priors for `model`: independent normal distributions of the entries, and not of the template's parameters,
    which an entry may change together. Positions, spins and motions change in proportion to the entries, and so do the
    components e cos(argp) and e sin(argp) of an eccentricity and the time at which the mean longitude is zero, so that
    nearly circular orbits have errors like others.

    Parameters
    ----------
    pulsar : Pulsar
        From `read_par`, whose lines are ``name value [fit flag] [error]``. Errors count whatever the flag: one of 0
        only says that an entry was held in the last fit.
    start, end : float, str, Time or GPSTime, optional
        As for `Pulsar.doppler`.
    harmonic : float
        Frequency of the signal over the rotation frequency.

    Returns
    -------
    TimingErrors
        Of the entries that have an error and change the template; a parallax, for instance, does not. Its ``centre`` is
        the template for `model`, and for `narrow`.

    Raises
    ------
    TypeError
        If an argument is of another kind.
    ValueError
        As for `Pulsar.doppler`, and if no entry has an error.

    Notes
    -----
    Correlations are not in a .par file. Those of T0 and OM matter: in nearly circular orbits both are hardly known, but
    together they say when the star passes its ascending node. A solution with TASC, EPS1 and EPS2 (ELL1) has no such
    pair.

    Examples
    --------
    >>> pulsar = jfstat.read_par("J0437-4715.par")  # doctest: +SKIP
    >>> errors = jfstat.timing_errors(pulsar)  # doctest: +SKIP
    >>> near = jfstat.narrow(data, errors.centre)  # doctest: +SKIP
    >>> signal = jfstat.model(near, errors.centre, errors, prior)  # doctest: +SKIP
    """
    found = errors_of(pulsar, start, end, harmonic)
    if found is None:
        advice = "they are read from .par files, whose lines are name, value, fit flag and error."
        raise ValueError(f"pulsar {pulsar.name} has no errors that change its template: {advice}")
    return found


def errors_of(
    pulsar: Pulsar,
    start: TimeLike | None,
    end: TimeLike | None,
    harmonic: float,
    orbit_times: tuple[float, float] | None = None,
) -> TimingErrors | None:
    """Compute `timing_errors`; None without any. `orbit_times` are as for `Pulsar.doppler_and_error`."""
    centre, entries = pulsar.doppler_and_error(start, end, harmonic, orbit_times)[0], pulsar.entries
    if entries is None or not entries.errors:
        return None

    def template(entries: Entries) -> dict[str, float]:
        own = pulsar_of(entries, pulsar.name)
        return _coordinates(own.doppler_and_error(start, end, harmonic, orbit_times)[0])

    known = _coordinates(centre)
    since = 0.0 if pulsar.binary is None else known["ascending"] - float(pulsar.binary.t0)
    found = {name: _steps(name, entries, template, known, since) for name in entries.errors}
    found = {name: own for name, own in found.items() if own}
    if not found:
        return None
    coordinates = tuple(dict.fromkeys(coordinate for own in found.values() for coordinate in own))
    orders = [order for order in map(spin_order, coordinates) if order is not None]
    n = max(len(centre.fkdot), *(order + 1 for order in orders)) if orders else len(centre.fkdot)
    centre = with_fields(centre, fkdot=jnp.asarray(np.pad(centre.fkdot, (0, n - len(centre.fkdot)))))
    if centre.motion is None and any(name in MOTION_FIELDS for name in coordinates):
        centre = with_fields(centre, motion=jnp.zeros(len(MOTION_FIELDS)))
    steps = np.array([[own.get(name, 0.0) for name in coordinates] for own in found.values()])
    errors = np.array([entries.errors[name] for name in found])
    return TimingErrors(centre, jnp.asarray(errors), jnp.asarray(steps), tuple(found), coordinates)


def with_room(point: Doppler, errors: TimingErrors) -> Doppler:
    """Return a template with as many derivatives of the frequency as errors change, and a proper motion if they do."""
    n = max(len(point.fkdot), len(errors.centre.fkdot))
    motion = point.motion
    if motion is None and errors.centre.motion is not None:
        motion = np.zeros(len(MOTION_FIELDS))
    return with_fields(point, fkdot=np.pad(point.fkdot, (0, n - len(point.fkdot))), motion=motion)


def moved_errors(errors: TimingErrors, since: float, centre: Doppler) -> TimingErrors:
    """Return errors as changes of a template's parameters at another reference time, `since` seconds later.

    Parameters
    ----------
    errors : TimingErrors
    since : float
    centre : Doppler
        The template at that time, `with_room`.
    """
    n = len(centre.fkdot)
    names = [*(spin_name(k) for k in range(n)), *SKY, *(() if centre.motion is None else MOTION_FIELDS)]
    names += [name for name in errors.coordinates if name not in names]
    before = np.zeros((len(errors.names), len(names)))
    before[:, [names.index(name) for name in errors.coordinates]] = errors.steps
    steps = before.copy()
    steps[:, :n] = np.stack([taylor_shifted(x, since, n) for x in before[:, :n]])
    if centre.motion is not None:
        along = (1 / np.cos(float(centre.delta)), 1.0)
        for name, rate, scale in zip(SKY, MOTION_FIELDS, along, strict=True):
            steps[:, names.index(name)] += since * scale * before[:, names.index(rate)]
    known = jax.tree.map(jnp.asarray, centre)
    return TimingErrors(known, errors.errors, jnp.asarray(steps), errors.names, tuple(names))


def frequency_spread(errors: TimingErrors, since: tuple[float, float]) -> float:
    """Return a bound on the standard deviation of a signal's frequency at detectors, Hz, over the errors.

    Parameters
    ----------
    errors : TimingErrors
        At the template's reference time, see `moved_errors`.
    since : two floats
        Start and end of the data, s since that time.
    """
    point, total = errors.centre, 0.0
    f, span, far = float(point.fkdot[0]), since[1] - since[0], max(map(abs, since))
    if point.orbit is not None:
        asini, period, ecc = (float(x) for x in (point.orbit.asini, point.orbit.period, point.orbit.ecc))
        per_asini = float(orbit_speed(with_fields(point.orbit, asini=np.float64(1))))
        rate = float(periapsis_rate(point.orbit))
    for row in np.abs(np.asarray(errors.steps)):
        own = dict(zip(errors.coordinates, row, strict=True))
        size = sum(own.get(spin_name(k), 0.0) * far**k / factorial(k) for k in range(len(point.fkdot)))
        across = own.get("alpha", 0.0) * np.cos(float(point.delta)) + own.get("delta", 0.0)
        size += f * EARTH_SPEED * (across + far * sum(own.get(name, 0.0) for name in MOTION_FIELDS))
        if point.orbit is not None:
            late = own.get("ascending", 0.0) + own.get("period", 0.0) / period * (span + period)
            bent = own.get("ecosw", 0.0) + own.get("esinw", 0.0)
            size += f * per_asini * (own.get("asini", 0.0) + asini * (rate * late + 2 * bent / (1 - ecc)))
        total += size * size
    return float(np.sqrt(total))


def phase_steps(pulsar: Pulsar, start: TimeLike, end: TimeLike, harmonic: float, at: GPSTime) -> dict[str, float]:
    """Return changes of the phase that glitches add, cycles, by one error of each entry that changes it.

    The phase is that of `Pulsar.glitch_cycles`, times `harmonic`.
    """
    if pulsar.entries is None or not pulsar.glitches:
        return {}

    def phase(entries: Entries) -> dict[str, float]:
        return {"cycles": harmonic * pulsar_of(entries, pulsar.name).glitch_cycles(start, end, at)}

    known = phase(pulsar.entries)
    found = {name: _steps(name, pulsar.entries, phase, known) for name in pulsar.entries.errors}
    return {name: own["cycles"] for name, own in found.items() if own}


def _coordinates(point: Doppler) -> dict[str, float]:
    """Return the parameters of a template by name, of an orbit the coordinates `ORBIT`."""
    point = jax.tree.map(np.asarray, point)  # or each value would be a small program
    found = {name: float(value(point, name)) for name in all_parameters(point) if name not in ORBIT_FIELDS}
    if point.orbit is not None:
        orbit = _smooth(*(np.asarray(value(point, name)) for name in ORBIT_FIELDS))
        found |= dict(zip(ORBIT, map(float, orbit), strict=True))
    return found


def _steps(
    name: str,
    entries: Entries,
    template: Callable[[Entries], dict[str, float]],
    known: Mapping[str, float],
    since: float = 0.0,
) -> dict[str, float]:
    """Return the changes of a template's coordinates by one error of an entry, those that are not zero.

    Parameters
    ----------
    name : str
        Of the entry.
    entries : Entries
    template : callable
        The coordinates for entries.
    known : mapping
        The coordinates for these.
    since : float
        Time since the orbit's epoch at which they hold, s.
    """
    error, size = entries.errors[name], entries[name]
    step = next((x for pattern, x in SMALL_STEPS.items() if re.fullmatch(pattern, name)), None)
    if step is None:
        least = RELATIVE_STEP * abs(to_float(size))
        step = least if PERIODS.fullmatch(name) and least else max(error, least)
        order = DERIVATIVES.fullmatch(name)
        if order and since:
            n = int(order[1]) + 1
            step = min(step, SMALL_TURN * factorial(n) / abs(since) ** n)
    at, problem = {0: known}, None
    for side in (-1, 1):
        try:
            at[side] = template(_moved(entries, name, side * step))
        except ValueError as own:  # an eccentricity below zero, for instance
            problem = own
    if len(at) == 1:
        raise ValueError(f"the error of {name} is not understood: {problem}")
    low, high = min(at), max(at)
    turns = {"alpha": 2 * np.pi, "ascending": known.get("period", np.inf)}
    changes = {}
    for coordinate in {**at[low], **at[high]}:
        change = at[high].get(coordinate, 0.0) - at[low].get(coordinate, 0.0)
        if coordinate in turns:
            change -= turns[coordinate] * round(change / turns[coordinate])
        changes[coordinate] = change / (high - low) * (error / step)
    return {coordinate: x for coordinate, x in changes.items() if x}


def _moved(entries: Entries, name: str, step: float) -> Entries:
    """Return entries of which one is larger by a step, in s or arcsec where it is in hours or degrees."""
    moved, word = Entries(entries), entries[name]
    if ":" not in word:
        moved[name] = str(to_decimal(word) + Decimal(step))
        return moved
    sign = -1 if word.startswith("-") else 1
    parts = [Decimal(x) for x in word.lstrip("+-").split(":")]
    total = sign * sum(x / 60**k for k, x in enumerate(parts)) * 3600 + Decimal(step)
    if name == "RAJ":
        total %= 86400
    whole = abs(total)
    moved[name] = f"{'-' if total < 0 else ''}{int(whole // 3600):02d}:{int(whole % 3600 // 60):02d}:{whole % 60:.12f}"
    return moved
