"""Template banks for young remnants, whose frequency falls by a braking index: piecewise phases along such tracks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from jfstat.banks.lattice_bank import Bound, lattice_bank
from jfstat.banks.ranges import number_limits
from jfstat.data.checks import check_template, observation_of
from jfstat.data.fstatdata import FstatData
from jfstat.data.observation import Observation
from jfstat.public import host
from jfstat.signal.piecewise import evolved, piecewise_model
from jfstat.signal.templates import Doppler, Orbit, template
from jfstat.signal.times import gps_time
from jfstat.signal.values import with_fields
from jfstat.validation import as_float64, plain_number, probability, shown

if TYPE_CHECKING:
    from jfstat.banks.ranges import Number
    from jfstat.validation import NumberLike

FIRST = "first_freq"
"""Name of the range of frequencies at the first knot."""
LONGEST_DELAY = 600.0
"""More than the light takes between the Earth and the SSB, s."""
MISSED = 0.05
"""Largest distance of the piecewise model from a track, in units of the bank's: the root of the ratio of the losses."""
MOST_PIECES = 64
"""Largest number of pieces that are tried."""
MOST_INDICES = 6
"""Largest number of pieces with braking indices of their own."""
TIMES = 2000
"""Number of times at which the model is compared with tracks."""
EXPONENT = 0.2
"""Power of a cubic's error in a piece with which the density of knots goes: the phase is off as its fifth power."""


@host(point=template)
def remnant_bank(
    data: Observation | FstatData,
    point: Doppler,
    f1dot: tuple[Number, Number],
    braking_index: tuple[Number, Number],
    mismatch: float,
    *,
    band: tuple[Number, Number] | None = None,
    change: float = 0.0,
    knots: NumberLike | None = None,
) -> Doppler:
    """Make a bank for a young remnant of known position, whose frequency falls by a power law: d(freq)/dt = -k freq^n.

    The templates have piecewise phases (`piecewise_model`) that follow the ranges of spin-down and braking index. The
    frequency falls along all of the data, however far; Taylor series would need many terms.

    Parameters
    ----------
    data : Observation or FstatData
        Data to be searched, which may have segments.
    point : Doppler or Row
        Position, the highest frequency to be searched, ``fkdot=[freq]``, and the reference time: the time of the first
        knot, at which the frequency and `f1dot` hold. It must lie before the data by what the light takes, by default
        it does by 600 s. The point may have an orbit.
    f1dot : (low, high)
        Range of the derivative of the frequency at the first knot, Hz/s, at most 0.
    braking_index : (low, high)
        Range of the braking index n, within 1 and 20: 3 for a magnetic dipole, 5 for gravitational waves, 7 for
        r-modes.
    mismatch : float
        Between 0 and 1: the largest fraction of rho^2 that a remnant in the ranges may lose at the template nearest to
        it, maximised over frequency.
    band : (low, high), optional
        Frequencies at the first knot to be searched, Hz, at most the point's; by default the data's band, or the
        point's frequency alone for an Observation. Tracks of equal f1dot and n depend on the frequency.
    change : float
        Largest change of the braking index from one piece to the next; by default it is constant. Each piece then adds
        a dimension to the bank; there may be 6.
    knots : (K,) float, optional
        Times of the knots, s since the reference time, the first of them 0. By default the fewest that follow the
        tracks.

    Returns
    -------
    Doppler
        A stack of n templates, see `lattice_bank`. To search them, `prepare` the band of `point`, or `band`, with the
        most negative f1dot, ``fdots=[(f1dot, 0.0)]``, so that the data hold the falling frequency. To refine what
        is found, give ``model=bank[0].model`` and the parameters to fit, ``Fit(["freq", *bank.varied])``.

    Raises
    ------
    TypeError
        If an argument is of another kind.
    ValueError
        If a range is not ordered or impossible, the data begin before the first knot, or given knots are too far apart.

    Notes
    -----
    The model is that of Grace, Wette, Scott & Sun 2023 (Phys. Rev. D 108, 123045) with the frequency and its derivative
    at the knots, but the bank is laid differently: theirs bounds the parameters of each knot by those of the one
    before; here the ranges are the braking indices and the spin-down themselves, whose image in the model's parameters
    is thin in most directions. The metric in these parameters is constant.

    Where the knots are chosen, the piecewise model differs from the tracks by less than 0.05 of the distance that
    `mismatch` stands for, and the lattice is so much denser.

    Examples
    --------
    >>> point = jfstat.Doppler(2.1, 0.47, [100.02], start - 600)
    >>> bank = jfstat.remnant_bank(data, point, (-1.01e-5, -1e-5), (3.0, 5.0), 0.2)
    >>> bank.varied
    ('model.f1dot[0]', 'model.drift[1]', 'model.f1dot[1]')
    """
    return lattice_bank(data, *_lattice(data, point, f1dot, braking_index, mismatch, band, change, knots))


def _lattice(
    data: Observation | FstatData,
    point: Doppler,
    f1dot: tuple[Number, Number],
    braking_index: tuple[Number, Number],
    mismatch: float,
    band: tuple[Number, Number] | None = None,
    change: float = 0.0,
    knots: NumberLike | None = None,
) -> tuple[Doppler, Mapping[str, Any], float]:
    """Return point, ranges and mismatch for `lattice_bank`; arguments as for `remnant_bank`."""
    allowed = probability(mismatch, "mismatch", "try 0.2")
    observation = observation_of(data, segments=True)
    check_template("point", point)
    if point.model is not None or point.fkdot.shape != (1,):
        raise ValueError("point must have a frequency alone, fkdot=[freq], and no model: the bank gives both.")
    slopes, indices = number_limits(f1dot, "f1dot"), number_limits(braking_index, "braking_index")
    if slopes[1] > 0:
        raise ValueError(f"f1dot must be at most 0, since remnants slow down, not up to {slopes[1]:g} Hz/s.")
    if slopes[0] == 0:
        raise ValueError("f1dot must reach below 0: without spin-down there is no braking index.")
    if not 1 <= indices[0] <= indices[1] <= 20:
        raise ValueError(f"braking_index must be (low, high) within 1 and 20, not {shown(braking_index)}.")
    freq = float(point.fkdot[0])
    if band is None:
        whole = data.frequencies[[0, -1]] if isinstance(data, FstatData) else (freq, freq)
        band = float(whole[0]), float(whole[1])
    lowest, highest = number_limits(band, "band", "Hz")
    if not 0 < lowest <= highest <= freq:
        raise ValueError(f"band must lie above 0 and at most at the point's frequency, {freq:g} Hz, not {shown(band)}.")
    wander = plain_number(change, "change", "the change of the braking index from piece to piece")
    if not 0 <= wander <= 20:
        raise ValueError(f"change must be within 0 and 20, not {wander:g}.")
    start, end = _ends(observation, point.orbit)
    if point.reftime is None:
        point = with_fields(point, reftime=gps_time(math.floor(start), "reftime"))
    assert point.reftime is not None
    since = float(point.reftime.since(0))
    if start < since:
        raise ValueError(
            f"point has the reference time {since:.0f}, the time of the first knot, and the data begin at "
            f"{start:.0f} if the light is as early as it can be: give that or an earlier one."
        )
    tracks = [(first, slope, n) for first in (lowest, highest) for slope in slopes for n in indices]
    error = MISSED**2 * allowed
    at = _knots(tracks, end - since, error) if knots is None else _given(tracks, knots, error)
    if at[-1] < end - since:
        raise ValueError(
            f"knots must reach the end of the data, {end - since:.0f} s after the reference time: add one."
        )
    if wander and len(at) == 2:
        raise ValueError("change has no effect on one piece: give knots of several, or leave it out.")
    if wander and len(at) - 1 > MOST_INDICES:
        raise ValueError(
            f"change must be 0 for {len(at) - 1} pieces, since the bank would have as many more dimensions and at most "
            f"{MOST_INDICES} are possible: search shorter data."
        )
    zeros = np.zeros(len(at))
    own = with_fields(point, model=piecewise_model(at, zeros, zeros))
    ranges = {FIRST: (lowest, highest), "model.f1dot[0]": slopes, "braking_index[0]": indices}
    return own, ranges | _following(at, indices, wander), (1 - MISSED) ** 2 * allowed


def _ends(observation: Observation, orbit: Orbit | None) -> tuple[float, float]:
    """Return the earliest and the latest GPS time at the source during data, s: less or more than all delays."""
    late = LONGEST_DELAY + (0.0 if orbit is None else float(orbit.asini * (1 + orbit.ecc)))
    middle, half = observation.gps_middle, 0.5 * np.asarray(observation.tspan)
    return float(np.min(middle - half)) - late, float(np.max(middle + half)) + late


def _knots(tracks: list[tuple[float, float, float]], length: float, error: float) -> np.ndarray:
    """Return the fewest knots from 0 to `length`, s, with which the piecewise model loses less than `error`."""
    fine = np.linspace(0.0, length, TIMES)
    freq, slope, n = max(tracks, key=lambda track: (-track[1], track[2]))
    drift, _, _ = evolved(freq, slope, n, fine)
    density = (1 + drift / freq) ** (EXPONENT * (4 * n - 3))  # of the fourth derivative
    share = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))])
    for pieces in range(1, MOST_PIECES + 1):
        knots = np.interp(np.linspace(0.0, share[-1], pieces + 1), share, fine)
        if _missed(tracks, knots) < error:
            return knots
    raise ValueError(
        f"mismatch is too small for frequencies that fall so fast, which {MOST_PIECES} pieces do not follow: raise it, "
        "or search shorter data."
    )


def _given(tracks: list[tuple[float, float, float]], knots: NumberLike, error: float) -> np.ndarray:
    """Return a user's knots, or raise a ValueError if they do not follow the tracks."""
    at = np.asarray(as_float64(knots, "knots", "s"))
    if at.ndim != 1 or len(at) < 2 or at[0] != 0 or not (np.all(np.diff(at) > 0) and np.isfinite(at[-1])):
        raise ValueError(
            "knots must be two or more ascending times, in s since the reference time, the first of them 0."
        )
    missed = _missed(tracks, at)
    if missed > error:
        raise ValueError(
            f"knots are too far apart: with them the model loses {missed:.2g} of rho^2, and {error:.2g} is allowed: "
            "give more knots, or leave them out."
        )
    return at


def _missed(tracks: list[tuple[float, float, float]], knots: np.ndarray) -> float:
    """Return the largest loss, for the best frequency, of cubics that agree with the tracks at the knots."""
    from scipy.interpolate import CubicHermiteSpline  # takes 0.2 s to import

    t = np.linspace(knots[0], knots[-1], TIMES)
    losses = []
    for freq, slope, n in tracks:
        there = evolved(freq, slope, n, knots)
        off = CubicHermiteSpline(knots, *there[:2])(t) - evolved(freq, slope, n, t)[0]
        phase = 2 * np.pi * (t[1] - t[0]) * np.cumsum(off)
        losses.append(np.var(phase - np.polynomial.Polynomial.fit(t, phase, 1)(t)))
    return float(max(losses))


def _following(knots: np.ndarray, indices: tuple[float, float], change: float) -> dict[str, Any]:
    """Return what follows at the knots, for `lattice_bank`, and the braking indices of later pieces if they change."""
    index = "braking_index[0]"
    ranges: dict[str, Any] = {}
    for k in range(1, len(knots)):
        if change and k > 1:
            before, index = index, f"braking_index[{k - 1}]"
            ranges[index] = _shifted(before, -change, indices), _shifted(before, change, indices)
        length = float(knots[k] - knots[k - 1])
        ranges[f"model.drift[{k}]"], ranges[f"model.f1dot[{k}]"] = _next(k, index, length)
    return ranges


def _shifted(name: str, by: float, ends: tuple[float, float]) -> Bound:
    return lambda at: np.clip(at[name] + by, *ends)


def _next(k: int, index: str, length: float) -> tuple[Bound, Bound]:
    """Return functions for the drift and f1dot at knot k, from those at the knot before and a braking index."""
    before, slope = f"model.drift[{k - 1}]", f"model.f1dot[{k - 1}]"

    def values(at: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        return evolved(at[FIRST] + at[before], at[slope], at[index], length)

    return lambda at: at[before] + values(at)[0], lambda at: values(at)[1]
