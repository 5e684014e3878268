"""Errors of a timing solution as errors of a template: `timing_errors`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal

import jax
import jax.numpy as jnp
import numpy as np

from jfstat import kinds
from jfstat.display import Displayed, Facts
from jfstat.public import public
from jfstat.pulsars.entries import Entries
from jfstat.pulsars.pulsar import QUADRUPOLE, Pulsar, pulsar_of
from jfstat.signal.templates import Doppler
from jfstat.signal.times import TimeLike
from jfstat.signal.values import all_parameters, replaced, value, values

UNITS = {"RAJ": "s", "DECJ": "arcsec", "RAJD|DECJD|ELONG|ELAT|OM|KIN|KOM": "deg", "T0|TASC|GLEP_.*|PB|GLTD.*": "d"}
"""Units of entries and their errors, by patterns of names, where a reader may not expect them."""
LEAST_STEPS = {"RAJ": 1e-3, "DECJ": 1e-2, "T0|TASC|GLEP_.*": 1e-6}
"""Smallest steps of entries by which derivatives are taken, in the units of their errors, by patterns of names."""
RELATIVE_STEP = 1e-7
"""Smallest step of other entries, relative to their values."""
LEAST_EFFECT = 1e-20
"""Change of a template's parameter by one error, relative to its value, below which it is none."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False, eq=False)
class TimingErrors(Displayed):
    """Errors of n entries of a .par file, and what they change in p parameters of the pulsar's template.

    Made by `timing_errors`; `model` takes it for priors.

    Attributes
    ----------
    errors : (n,) float64
        Standard errors, in the units of the file; of RAJ in s, of DECJ in arcsec.
    steps : (n, p) float64
        Changes of the parameters by one error of each entry, Hz, Hz/s, ..., rad, s.
    names : tuple of str, static
        Names of the entries.
    parameters : tuple of str, static
        Names of the parameters.
    """

    errors: jax.Array
    steps: jax.Array
    names: tuple[str, ...] = field(metadata=dict(static=True))
    parameters: tuple[str, ...] = field(metadata=dict(static=True))

    def _facts(self) -> Facts:
        rows = [(name, _with_unit(name, float(x))) for name, x in zip(self.names, self.errors, strict=True)]
        return Facts("TimingErrors", rows, many=True)

    def point(self, centre: Doppler, x: jax.Array) -> Doppler:
        """Return a template for differences of the entries from those of the file, (n,), in their units; traceable.

        Parameters
        ----------
        centre : Doppler
            Template of the file.
        x : (n,) float64
        """
        moved = values(centre, self.parameters) + (x / self.errors) @ self.steps
        return replaced(centre, self.parameters, moved)


def _with_unit(name: str, error: float) -> str:
    unit = next((unit for pattern, unit in UNITS.items() if re.fullmatch(pattern, name)), "")
    return f"{error:.3g} {unit}".strip()


@public(pulsar=kinds.instance(Pulsar), start=kinds.time, end=kinds.time)
def timing_errors(
    pulsar: Pulsar, start: TimeLike | None = None, end: TimeLike | None = None, harmonic: float = QUADRUPOLE
) -> TimingErrors:
    """Compute what the errors of a .par file change in the template of a pulsar's signal.

    They are priors for `model`: independent normal distributions of the entries, and not of the template's parameters,
    which they may change together, as the time of ascending node and the eccentricity of an orbit of the model ELL1
    change its periapsis. Parameters change in proportion to the entries.

    Parameters
    ----------
    pulsar : Pulsar
        From `read_par`, whose lines are ``name value [fit flag] [error]``.
    start, end : float, str, Time or GPSTime, optional
        As for `Pulsar.doppler`.
    harmonic : float
        Frequency of the signal over the rotation frequency.

    Returns
    -------
    TimingErrors
        Of the entries that have an error and change the template; a parallax, for instance, does not.

    Raises
    ------
    TypeError
        If an argument is of another kind.
    ValueError
        As for `Pulsar.doppler`, and if no entry has an error.

    Notes
    -----
    Errors of .par files are not always those of independent entries: their correlations are not in the file.

    Examples
    --------
    >>> pulsar = jfstat.read_par("J0437-4715.par")  # doctest: +SKIP
    >>> errors = jfstat.timing_errors(pulsar)  # doctest: +SKIP
    >>> signal = jfstat.model(near, pulsar.doppler(), errors, prior)  # doctest: +SKIP
    """
    centre = pulsar.doppler(start, end, harmonic)
    entries = pulsar.entries
    advice = "a line of a .par file is: name, value, fit flag, error."
    if entries is None or not entries.errors:
        raise ValueError(f"pulsar {pulsar.name} has no errors in its timing solution: {advice}")

    def template(entries: Entries) -> dict[str, float]:
        point = pulsar_of(entries, pulsar.name).doppler(start, end, harmonic)
        point = jax.tree.map(np.asarray, point)  # or each value would be a small program
        return {name: float(value(point, name)) for name in all_parameters(point)}

    found = {name: _steps(name, entries, template, centre) for name in entries.errors}
    found = {name: own for name, own in found.items() if own}
    if not found:
        raise ValueError(f"pulsar {pulsar.name} has no errors that change its template: {advice}")
    changed = {parameter for own in found.values() for parameter in own}
    parameters = tuple(name for name in all_parameters(centre) if name in changed)
    lost = changed - set(parameters)
    if lost:
        raise ValueError(f"pulsar {pulsar.name} has errors of {', '.join(sorted(lost))}, but no value of it: give one.")
    steps = np.array([[own.get(name, 0.0) for name in parameters] for own in found.values()])
    errors = np.array([entries.errors[name] for name in found])
    return TimingErrors(jnp.asarray(errors), jnp.asarray(steps), tuple(found), parameters)


def _steps(
    name: str, entries: Entries, template: Callable[[Entries], dict[str, float]], centre: Doppler
) -> dict[str, float]:
    """Return the changes of a template's parameters by one error of an entry, those that are not zero."""
    error = entries.errors[name]
    least = next((x for pattern, x in LEAST_STEPS.items() if re.fullmatch(pattern, name)), None)
    step = max(error, RELATIVE_STEP * abs(_decimal(entries[name])) if least is None else least)
    at: dict[int, dict[str, float]] = {0: template(entries)}
    problem = None
    for side in (-1, 1):
        try:
            at[side] = template(_moved(entries, name, side * step))
        except ValueError as own:  # an eccentricity below zero, for instance
            problem = own
    if len(at) == 1 and problem is not None:
        raise problem
    low, high = min(at), max(at)
    period = float(centre.orbit.period) if centre.orbit is not None else np.inf
    turns = {"alpha": 2 * np.pi, "argp": 2 * np.pi, "tp": period}
    changes = {}
    for parameter in at[0] | at[low] | at[high]:
        change = at[high].get(parameter, 0.0) - at[low].get(parameter, 0.0)
        if parameter in turns and np.isfinite(turns[parameter]):
            change -= turns[parameter] * round(change / turns[parameter])
        changes[parameter] = change / (high - low) * error / step
    return {k: x for k, x in changes.items() if abs(x) > LEAST_EFFECT * abs(at[0].get(k, 0.0))}


def _decimal(word: str) -> float:
    return float(re.sub("[dD]", "e", word)) if ":" not in word else 0.0


def _moved(entries: Entries, name: str, step: float) -> Entries:
    """Return entries of which one is larger by a step, in s or arcsec where it is in hours or degrees."""
    moved, word = Entries(entries), entries[name]
    if ":" not in word:
        moved[name] = str(Decimal(re.sub("[dD]", "e", word)) + Decimal(step))
        return moved
    sign = -1 if word.startswith("-") else 1
    parts = [Decimal(x) for x in word.lstrip("+-").split(":")]
    total = sign * sum(x / 60**k for k, x in enumerate(parts)) * 3600 + Decimal(step)
    if name == "RAJ":
        total %= 86400
    whole = abs(total)
    moved[name] = f"{'-' if total < 0 else ''}{int(whole // 3600):02d}:{int(whole % 3600 // 60):02d}:{whole % 60:.12f}"
    return moved
