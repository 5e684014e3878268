"""From a table of candidates, or templates, to one Doppler a row and what is wrong with the rows that are none."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from jfstat.candidates.tables import plain_column
from jfstat.data.fstatdata import FstatData
from jfstat.parameters import USUALLY_FIXED, all_parameters, spin_name, spin_order, values
from jfstat.statistic.check import Fit, fit
from jfstat.templates import ORBIT_FIELDS, Doppler, Orbit
from jfstat.validation import gps_integer

HARMLESS = {"alpha": 0.0, "delta": 0.0, "asini": 0.0, "period": 1e6, "tp": 0.0, "ecc": 0.0, "argp": 0.0}
"""Values that stand for those of bad rows, which are not computed."""


class Candidates(NamedTuple):
    """The rows of a table; n of them.

    Attributes
    ----------
    points : Doppler
        A stack, NumPy leaves; harmless values in bad rows.
    given : dict of (n,) float64 ndarrays
        The parameters as they were, by name.
    problems : list of n str
        What is wrong with a row; empty where it is good.
    """

    points: Doppler
    given: dict[str, np.ndarray]
    problems: list[str]


def read_rows(data: FstatData, found: Any, reftime: Any = None) -> Candidates:
    """Candidates from what a user has.

    Parameters
    ----------
    data : FstatData
    found, reftime : table or Doppler, int or None
        As `refine` takes.

    Raises
    ------
    ValueError
        If it is no table, lacks a column, or one has a wrong unit.
    """
    if isinstance(found, Doppler):
        names = all_parameters(found)
        stack = np.atleast_2d(np.asarray(values(found, names)).reshape(-1, len(names)))
        given = {name: stack[:, i] for i, name in enumerate(names)}
        reftime = reftime if found.reftime is None else found.reftime
    else:
        if not hasattr(found, "colnames"):
            raise ValueError(
                f"found must be a table of candidates, as from jfstat.search, or a Doppler, not {type(found).__name__}."
            )
        given = columns_of(found)
        reftime = found.meta.get("reftime", reftime)
    reftime = data.reftime if reftime is None else gps_integer(reftime, "reftime")
    problems = impossible(given)
    good = np.array([not problem for problem in problems], bool)
    points = _doppler(_sound(data, given, good), reftime)
    for row, misfit in enumerate(misfits(data, points)):
        problems[row] = problems[row] or misfit
    good = np.array([not problem for problem in problems], bool)
    points = _doppler(_sound(data, given, good), reftime)
    return Candidates(points, given, problems)


def columns_of(found: Any) -> dict[str, np.ndarray]:
    """The parameters' columns, without units.

    Raises
    ------
    ValueError
        If a column is missing or has a wrong unit.
    """
    names = set(found.colnames)
    missing = [name for name in ("freq", "alpha", "delta") if name not in names]
    orbital = [name for name in ORBIT_FIELDS if name in names]
    if orbital:
        missing += [name for name in ("asini", "period", "tp") if name not in names]
    if missing:
        raise ValueError(
            f"found lacks the column {missing[0]!r}: candidates need freq, alpha, delta, and asini, period "
            "and tp if they have an orbit."
        )
    order = max(k for k in (spin_order(name) for name in names) if k is not None)
    columns = {spin_name(k): plain_column(found, spin_name(k)) for k in range(order + 1)}
    columns |= {name: plain_column(found, name) for name in ("alpha", "delta")}
    if orbital:
        zero = np.zeros(len(found))
        columns |= {name: plain_column(found, name) if name in names else zero for name in ORBIT_FIELDS}
    return columns


def usual_names(columns: dict[str, np.ndarray]) -> tuple[str, ...]:
    """Parameters to fit if told nothing: all but ecc and argp, and without what no candidate has.

    Text files have columns of derivatives and orbits that are all zero.
    """
    names = [name for name in columns if name not in USUALLY_FIXED]
    if "asini" in columns and not np.any(columns["asini"]):
        names = [name for name in names if name not in ORBIT_FIELDS]
    highest = max(k for k in map(spin_order, names) if k is not None and (k < 2 or np.any(columns[spin_name(k)])))
    return tuple(name for name in names if (spin_order(name) or 0) <= highest)


def _sound(data: FstatData, given: dict[str, np.ndarray], good: np.ndarray) -> dict[str, np.ndarray]:
    """The parameters with harmless values in bad rows, and for the orbits of isolated candidates."""
    sound = {}
    for name, x in given.items():
        harmless = HARMLESS.get(name, float(data.band.f_centre) if name == "freq" else 0.0)
        usable = good & (given["asini"] != 0) if name in ORBIT_FIELDS else good
        sound[name] = np.where(usable, x, harmless)
    return sound


def impossible(given: dict[str, np.ndarray]) -> list[str]:
    """For each row what makes it no template at all."""
    problems = [""] * len(given["freq"])
    isolated = given.get("asini", np.ones(len(problems))) == 0  # whatever else is said of the orbit
    rules = {
        "freq": (lambda x: x > 0, "is not positive"),
        "delta": (lambda x: abs(x) <= np.pi / 2 + 1e-12, "is beyond a pole"),
        "asini": (lambda x: x >= 0, "is negative"),
        "period": (lambda x: x > 0, "is not positive"),
        "ecc": (lambda x: (x >= 0) & (x < 1), "is not within [0, 1)"),
    }
    for name, x in given.items():
        rule, complaint = rules.get(name, (np.isfinite, ""))
        finite = np.isfinite(x)
        bad = ~finite | ~rule(np.where(finite, x, HARMLESS.get(name, 1.0)))
        if name in ORBIT_FIELDS:
            bad &= ~isolated
        for row in np.flatnonzero(bad):
            problems[row] = problems[row] or f"not refined: {name} {complaint if finite[row] else 'is not a number'}"
    if "asini" in given:
        with np.errstate(all="ignore"):
            speed = 2 * np.pi * given["asini"] / given["period"] / (1 - given["ecc"])
        for row in np.flatnonzero(speed >= 1):
            problems[row] = problems[row] or "not refined: the orbit is faster than light"
    return problems


def _doppler(columns: dict[str, np.ndarray], reftime: int) -> Doppler:
    order = max(k for k in (spin_order(name) for name in columns) if k is not None)
    fkdot = np.stack([columns[spin_name(k)] for k in range(order + 1)], axis=-1)
    orbit = Orbit(*(columns[name] for name in ORBIT_FIELDS)) if "asini" in columns else None
    return jax.tree.map(np.asarray, Doppler(columns["alpha"], columns["delta"], fkdot, reftime, orbit))


def misfits(data: FstatData, points: Doppler) -> list[str]:
    """For each of a stack of templates why it does not fit the data; empty if it does."""
    below, above, orbit, coarse = (np.asarray(x) for x in _fits(data, points))
    beyond = np.maximum(np.maximum(below, above), orbit)
    return [
        f"not refined: outside the data's band by {outside:.3g} Hz at some time"
        if outside > 0
        else "not refined: the orbit turns too fast for data prepared without orbit="
        if error > 0
        else ""
        for outside, error in zip(beyond, coarse, strict=True)
    ]


@jax.jit
def _fits(data: FstatData, points: Doppler) -> Fit:
    return jax.vmap(lambda point: fit(data, point, False))(points)
