"""Read the candidates to follow up from a table or templates, and find rows that cannot be followed up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat import kinds
from jfstat.candidates.provenance import Provenance, reftime_of
from jfstat.candidates.tables import AnyTable, parameter_columns, plain_column, points_from
from jfstat.data.eachsegment import each_segment
from jfstat.data.fit import Fit, fit_each
from jfstat.data.fstatdata import FstatData
from jfstat.followup.batches import table_size
from jfstat.signal.parameters import LIMITS, ORBIT_FIELDS, Limit, is_usually_fixed, speed_bound, spin_name, spin_order
from jfstat.signal.phasemodel import PhaseModel
from jfstat.signal.templates import Doppler
from jfstat.signal.times import GPSTime, TimeLike, gps_time
from jfstat.signal.values import check_parameters, columns, in_usual_order, varied_parameters
from jfstat.statistic.linerobust import LinePrior
from jfstat.validation import LARGEST

NEEDED = ("freq", "alpha", "delta")
"""Columns that a table of candidates must have."""
POSITIVE = Limit(lambda x: (x > 0) & (x <= LARGEST), "positive", "give it in Hz", "is not positive")
HARMLESS_PERIOD = 1e6
"""Orbital period, s, given to invalid rows and isolated candidates."""


class Candidates(NamedTuple):
    """Candidates from the n rows of a table.

    Attributes
    ----------
    points : Doppler
        Stack of templates, NumPy leaves; invalid rows hold harmless values.
    given : dict of (n,) float64 ndarrays
        Given parameters by name.
    problems : list of n str
        What is wrong with each row; empty for valid rows.
    reftime : GPSTime
        GPS time at which frequencies and derivatives hold.
    """

    points: Doppler
    given: dict[str, np.ndarray]
    problems: list[str]
    reftime: GPSTime

    @property
    def sound(self) -> np.ndarray:
        """Whether each candidate can be followed up, (n,) bool."""
        return np.array([not problem for problem in self.problems], bool)

    @property
    def isolated(self) -> np.ndarray:
        """Whether each candidate has no orbit, (n,) bool."""
        orbit = self.points.orbit
        return np.ones(len(self.problems), bool) if orbit is None else np.asarray(orbit.asini) == 0


class SearchedWith(NamedTuple):
    """What a table of candidates says about the search that found them.

    Attributes
    ----------
    parameters : tuple of str or None
        Names of the parameters that the search varied; None if the table does not say.
    n_twoF : int or None
        Number of values of 2F from which the candidates were chosen; None if the table does not say.
    line_prior : LinePrior
        Prior of lines for log10BSGL.
    bounds : dict of str to (float, float)
        Ranges of parameters that the search was meant to cover.
    """

    parameters: tuple[str, ...] | None
    n_twoF: int | None
    line_prior: LinePrior
    bounds: dict[str, tuple[float, float]]

    @classmethod
    def of(cls, found: AnyTable | Doppler, detectors: Sequence[str], name: str = "found") -> SearchedWith:
        """Read what a table says about its search; prior odds of lines are equal if the search had other detectors.

        `name` is for errors.

        Raises
        ------
        ValueError
            If the meta is of several tables, stacked in a way that joins their lists.
        """
        meta, origin = getattr(found, "meta", {}), Provenance.of(found, name=name)
        odds, names = meta.get("oLGX") or (), origin.detectors or ()
        bounds = meta.get("bounds") or {}
        if len(odds) not in (0, len(names)) or any(len(pair) != 2 for pair in bounds.values()):
            raise ValueError(
                f"{name} has meta of several tables in one: stack them by astropy's "
                "vstack(metadata_conflicts='silent') after emptying the meta of all but the first."
            )
        given: dict[str, float] = dict(zip(names, odds, strict=False))
        own = tuple(given[name] for name in detectors) if given and set(detectors) <= set(given) else None
        return cls(
            searched_names(found),
            int(meta["n_twoF"]) if meta.get("n_twoF") else None,
            LinePrior(float(meta.get("Fstar0") or 0), own),
            {name: (low, high) for name, (low, high) in bounds.items()},
        )


def searched_names(found: AnyTable | Doppler) -> tuple[str, ...] | None:
    """Return the names of the parameters that the search of some candidates varied; None if they do not say."""
    if isinstance(found, Doppler):
        return None if found.varied is None else varied_parameters(found)
    named = Provenance.of(found, name="found").parameters
    return None if named is None else tuple(dict.fromkeys(named))


def read_rows(
    data: FstatData,
    found: AnyTable | Doppler,
    reftime: TimeLike | None = None,
    model: PhaseModel | None = None,
    name: str = "found",
) -> Candidates:
    """Return the candidates in the table or the templates that a user gave.

    Parameters
    ----------
    data : FstatData
    found, reftime, model
        As for `refine`.
    name : str
        Name of the argument `found` in errors.

    Raises
    ------
    TypeError
        If `found` is no table or `model` no PhaseModel.
    ValueError
        If a column is missing or has a wrong unit, or a table is of templates with a phase model and `model` is None.
    """
    kinds.instance(PhaseModel, or_none=True)(model, "model")
    if isinstance(found, Doppler):
        if model is not None:
            raise ValueError("model goes with a table of candidates: templates have models of their own.")
        model = None if found.model is None else found.model.first(found.alpha.ndim)
        given = {name: x.reshape(-1) for name, x in columns(found).items()}
        reftime = reftime if found.reftime is None else found.reftime
    else:
        if not hasattr(found, "colnames"):
            raise TypeError(
                f"{name} must be a table of candidates, as from jfstat.search, or a Doppler, not "
                f"{type(found).__name__}."
            )
        of_model = "give jfstat.Doppler templates, which hold it, or refine's model=" if model is None else None
        given = parameter_columns(found, name, NEEDED, of_model)
        given |= {} if model is None else _model_columns(found, model)
        reftime = reftime_of(found, reftime)
    reftime = data.observation.reftime.common if reftime is None else gps_time(reftime, "reftime").common
    problems = impossible(given)
    good = np.array([not problem for problem in problems], bool)
    points = points_from(_sound(data, given, good), reftime, model)
    for row, misfit in enumerate(misfits(data, points)):
        problems[row] = problems[row] or misfit
    good = np.array([not problem for problem in problems], bool)
    points = points_from(_sound(data, given, good), reftime, model)
    return Candidates(points, given, problems, reftime)


def _model_columns(found: AnyTable, model: PhaseModel) -> dict[str, np.ndarray]:
    """Return the parameters of a phase model by name, from a table's columns, or the model's own where columns are
    missing."""
    return {
        name: plain_column(found, name) if name in found.colnames else np.full(len(found), float(model.value(name, 0)))
        for name in model.places(0)
    }


def usual_names(given: dict[str, np.ndarray], searched: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """Return the parameters to fit by default: the ones that the search varied, except ecc, argp and a phase model's.

    If these are unknown, all parameters count except ecc, argp, a phase model's, and derivatives and orbits that are
    zero in all rows: text files always have columns for them.
    """
    names = [name for name in given if not is_usually_fixed(name)]
    if searched is not None:
        return tuple(name for name in names if name in searched)
    if "asini" in given and not np.any(given["asini"]):
        names = [name for name in names if name not in ORBIT_FIELDS]
    highest = max(k for k in map(spin_order, names) if k is not None and (k < 2 or np.any(given[spin_name(k)])))
    return tuple(name for name in names if (spin_order(name) or 0) <= highest)


def fitted_names(
    points: Doppler, given: dict[str, np.ndarray], searched: SearchedWith, parameters: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the names of the parameters to refine, in the usual order: the user's, or else the ones from
    `usual_names`.

    Raises
    ------
    ValueError
        If the templates, whose columns are `given`, lack one of these parameters.
    """
    names = parameters if parameters is not None else usual_names(given, searched.parameters)
    return in_usual_order(points, check_parameters(points, names))


def with_harmless_orbits(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the parameters with harmless values in place of isolated candidates' orbits."""
    if "asini" not in given:
        return given
    isolated = given["asini"] == 0
    harmless = dict.fromkeys(ORBIT_FIELDS, 0.0) | {"period": HARMLESS_PERIOD}
    return {name: np.where(isolated, harmless[name], x) if name in harmless else x for name, x in given.items()}


def _sound(data: FstatData, given: dict[str, np.ndarray], good: np.ndarray) -> dict[str, np.ndarray]:
    """Return the parameters with harmless values in place of invalid rows and of isolated candidates' orbits."""
    harmless = {"freq": float(np.mean(np.asarray(data.band.f_centre))), "period": HARMLESS_PERIOD}
    return {name: np.where(good, x, harmless.get(name, 0.0)) for name, x in with_harmless_orbits(given).items()}


def impossible(given: dict[str, np.ndarray]) -> list[str]:
    """Return why each row is no possible template, whatever the data; empty for possible ones."""
    problems = [""] * len(given["freq"])
    isolated = given.get("asini", np.ones(len(problems))) == 0  # whatever the other columns of the orbit hold
    limits = LIMITS | {"freq": POSITIVE}  # unlike in a bank, which need not give the frequency
    for name, x in given.items():
        finite = np.isfinite(x)
        bad = ~finite | ~limits[name].holds(x) if name in limits else ~finite
        if name in ORBIT_FIELDS:
            bad &= ~isolated
        for row in np.flatnonzero(bad):
            problems[row] = problems[row] or (
                f"not refined: {name} {limits[name].otherwise if finite[row] else 'is not a number'}"
            )
    if "asini" in given:
        with np.errstate(all="ignore"):
            speed = speed_bound(given["asini"], given["period"], given["ecc"])
        for row in np.flatnonzero(speed >= 1):
            problems[row] = problems[row] or "not refined: the orbit is faster than light"
    return problems


def misfits(data: FstatData, points: Doppler) -> list[str]:
    """Return why each template of a stack does not fit the data; empty for templates that fit."""
    n = len(points.alpha)
    if not n:
        return []
    if points.model is not None:
        points.model.first(1).check()
    found = jax.tree.map(lambda x: np.asarray(x)[:n], _fits(*_fitting(data, points)))
    beyond = np.maximum(np.maximum(found.below, found.above), found.orbit)
    return [
        f"not refined: outside the data's band by {outside:.3g} Hz at some time"
        if outside > 0
        else "not refined: the orbit turns too fast for data prepared without orbit="
        if error > 0
        else "not refined: the phase model changes too fast for the data's timing blocks, or is not finite"
        if own > 0
        else ""
        for outside, error, own in zip(beyond, found.coarse, found.model, strict=True)
    ]


def program_of_misfits(data: FstatData, points: Doppler) -> jax.stages.Lowered:
    """Return the program that `misfits` runs."""
    return _fits.lower(*_fitting(data, points))


def _fitting(data: FstatData, points: Doppler) -> tuple[FstatData, Doppler]:
    """Return the arguments of `_fits`: the stack is filled up to one of few sizes, so that tables of other lengths use
    the same compiled program."""
    n = len(points.alpha)
    filled = np.minimum(np.arange(table_size(data, n)), n - 1)
    # indexed by NumPy, which compiles nothing
    return data.for_one_template, jax.tree.map(lambda x: np.asarray(x)[filled], points)


@jax.jit
def _fits(data: FstatData, points: Doppler) -> Fit:
    """Return how each template of a stack fits the segment that it fits worst."""
    each = each_segment(lambda own: fit_each(own, points, False), data)
    return jax.tree.map(lambda x: jnp.max(x, axis=0), each)
