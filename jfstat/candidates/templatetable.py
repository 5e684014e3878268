"""Templates as a table, as `write_candidates` and `fstat_table` take it: `template_table`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from jfstat import kinds
from jfstat.candidates.tables import in_units
from jfstat.geometry.source import at_reftime
from jfstat.public import host
from jfstat.signal.parameters import ORBIT_FIELDS, SKY
from jfstat.signal.templates import Doppler, Orbit
from jfstat.signal.times import GPSTime, TimeLike, gps_time
from jfstat.signal.values import columns, with_fields
from jfstat.validation import float64_of, shown

if TYPE_CHECKING:
    from astropy.table import QTable
    from numpy.typing import ArrayLike

ISOLATED = dict(zip(ORBIT_FIELDS, (0.0, 1e6, 0.0, 0.0, 0.0), strict=True))
"""Orbit of isolated sources among binaries: asini = 0 means none."""


@host(reftime=kinds.time)
def template_table(
    points: Doppler | Sequence[Doppler], freq: ArrayLike | None = None, reftime: TimeLike | None = None
) -> QTable:
    """Make a table of templates, to be written to a file or given to `fstat_table`.

    Parameters
    ----------
    points : Doppler or sequence of Doppler
        A template or a stack, as from `template_bank`; or single templates, whose reference times, numbers of
        derivatives and kinds of source may differ.
    freq : array_like, optional
        Frequencies, Hz: a row for each template at each of them.
    reftime : float, str, Time or GPSTime, optional
        The table's reference time, to which templates with another are propagated, and which those without one have; by
        default the first one's.

    Returns
    -------
    QTable
        Columns ``freq`` (Hz), ``f1dot`` (Hz/s), ..., ``alpha``, ``delta`` (rad) and, if any template has them, proper
        motions and the fields of orbits, with asini = 0 for isolated sources. Meta: reftime, if it is known.

    Raises
    ------
    TypeError
        If `points` is neither.
    ValueError
        If only some of single templates have a reference time and `reftime` is None, one of them has a phase model, or
        `freq` holds no numbers.

    Examples
    --------
    >>> point = jfstat.Doppler(2.1, 0.47, [100.0, -1e-10], 1167458304)
    >>> jfstat.template_table(point, freq=[100.0, 100.1])["freq"].value.tolist()
    [100.0, 100.1]
    """
    when = None if reftime is None else gps_time(reftime, "reftime")
    if not isinstance(points, Doppler):
        listed = list(points) if isinstance(points, (list, tuple)) else []
        if not listed or not all(isinstance(x, Doppler) for x in listed):
            raise TypeError(f"points must be a jfstat.Doppler or a list of single ones, not {shown(points)}.")
        points, when = _together(points, when), points[0].reftime if when is None else when
    stack = jax.tree.map(lambda x: np.asarray(x).reshape(-1, *np.shape(x)[np.ndim(points.alpha) :]), points)
    if when is not None:
        stack = _moved(stack, when)
    if freq is not None:
        values, n = float64_of(freq, "freq", "Hz").reshape(-1), len(stack.alpha)
        if not len(values) or not np.all(np.isfinite(values)):
            raise ValueError(f"freq must hold finite numbers, at least one, not {shown(freq)}: give them in Hz.")
        stack = jax.tree.map(lambda x: np.repeat(x, len(values), axis=0), stack)
        fkdot = np.array(stack.fkdot)
        fkdot[:, 0] = np.tile(values, n)
        stack = with_fields(stack, fkdot=fkdot)
    return in_units(columns(stack), {} if stack.reftime is None else {"reftime": stack.reftime.common.plain})


def _moved(stack: Doppler, reftime: GPSTime) -> Doppler:
    """Return a stack with a reference time, propagated to it from its own if it has another."""
    own = reftime if stack.reftime is None else stack.reftime
    each = jax.tree.map(lambda x: np.broadcast_to(np.asarray(x).reshape(-1), len(stack.alpha)), own)
    stack, known = with_fields(stack, reftime=each), stack.reftime is not None
    return jax.tree.map(np.asarray, at_reftime(stack, reftime)) if known else stack


def _together(points: Sequence[Doppler], reftime: GPSTime | None) -> Doppler:
    """Return single templates as a stack, each with its reference time or, without one, the given."""
    if any(point.model is not None for point in points):
        raise ValueError("points hold a template with a phase model, which a list cannot: give one stack of templates.")
    times = [reftime if point.reftime is None else point.reftime for point in points]
    if any(x is None for x in times) and any(x is not None for x in times):
        raise ValueError("points are with and without a reference time: give reftime for those without.")
    n_spins = max(len(point.fkdot) for point in points)
    fkdot = np.stack([np.pad(np.asarray(point.fkdot), (0, n_spins - len(point.fkdot))) for point in points])
    orbit = None
    if any(point.orbit is not None for point in points):
        orbits = [point.orbit for point in points]
        orbit = Orbit(*(np.array([float(getattr(x, name, ISOLATED[name])) for x in orbits]) for name in ORBIT_FIELDS))
    alpha, delta = (np.array([float(getattr(point, name)) for point in points]) for name in SKY)
    motion = None
    if any(point.motion is not None for point in points):
        motion = np.stack([np.zeros(2) if point.motion is None else np.asarray(point.motion) for point in points])
    if times[0] is None:
        return Doppler(alpha, delta, fkdot, None, orbit, motion=motion)
    each = GPSTime(*(jnp.array([float(getattr(x, part)) for x in times]) for part in ("seconds", "nanoseconds")))
    return Doppler(alpha, delta, fkdot, each, orbit, motion=motion)
