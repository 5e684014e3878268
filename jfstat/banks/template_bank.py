"""Template banks: products of ranges of parameters, and lattices laid by the metric, as stacks of templates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jfstat import kinds
from jfstat.banks.braking import Braking, BrakingRegion
from jfstat.banks.comparison import compared
from jfstat.banks.covering import all_templates, cover_positions, cover_region
from jfstat.banks.orbitbank import OrbitBank, OrbitRanges, sky_limits
from jfstat.banks.ranges import (
    asked_ranges,
    axis,
    fixed_limits,
    is_range,
    natural_step,
    orbit_limits,
    orbits,
    require_few,
    sky_box,
    sky_positions,
    sky_region,
    spin_limits,
    within_ranges,
)
from jfstat.banks.regions import Region
from jfstat.banks.space import ParameterSpace, Templates
from jfstat.data.checks import observation_of
from jfstat.data.fstatdata import FstatData
from jfstat.data.normalised import NormalisedSFTs
from jfstat.data.observation import Observation
from jfstat.maths.lattices import integers_between
from jfstat.maths.vectors import unit_vector
from jfstat.metrics.phasemetric import factor, restricted
from jfstat.public import host
from jfstat.signal.parameters import ORBIT_FIELDS, SKY, spin_name, unit
from jfstat.signal.templates import Doppler, Orbit
from jfstat.signal.times import gps_time
from jfstat.signal.values import with_fields
from jfstat.validation import frequency, probability, shown, signal_frequency

if TYPE_CHECKING:
    from astropy.coordinates import SkyCoord

    from jfstat.banks.ranges import RangeLike, RegionLike
    from jfstat.signal.times import TimeLike
    from jfstat.validation import FrequencyLike


SPINS = tuple(spin_name(k) for k in (1, 2, 3))
"""Names of the derivatives of the frequency that a bank may have."""


@host(reftime=kinds.time, strict=kinds.flag)
def template_bank(
    alpha: RangeLike | SkyCoord | None = None,
    delta: RangeLike | None = None,
    f1dot: RangeLike | Braking = 0.0,
    f2dot: RangeLike | None = None,
    f3dot: RangeLike | None = None,
    *,
    orbit: Orbit | Mapping[str, RangeLike] | None = None,
    reftime: TimeLike | None = None,
    data: Observation | FstatData | NormalisedSFTs | None = None,
    freq: FrequencyLike | tuple[FrequencyLike, FrequencyLike] | None = None,
    mismatch: float | None = None,
    region: RegionLike | None = None,
    strict: bool = False,
) -> Doppler:
    """Make a bank of templates: a product of ranges in sky position, orbit and spin-down, or a lattice by the metric.

    A bank is an array in memory, and a lattice has at most 2e8 templates. `bank_size` counts larger ones; divide their
    region into patches with a bank and a search each.

    Without `mismatch`, each parameter is one of the following:

    - a number or a scalar Quantity or Angle;
    - a tuple ``(low, high, step)``: low, low + step, ... up to and, if the steps end there, including high; the step is
      a distance in the parameter, not a mismatch;
    - a tuple ``(low, high)``, for spin-downs and with `data` only: the step of f^(k) is then 1/(2 T^(k+1)), where T is
      the time that the data span;
    - a list or an array of values, or a Quantity that holds one.

    With `mismatch`, the metric of `data` sets all distances: `alpha` and `delta` are both values or both ranges
    ``(low, high)``, and spin-downs are numbers or ranges ``(low, high)``.

    Parameters
    ----------
    alpha, delta : see above
        Right ascension and declination, rad; or as `alpha` alone a SkyCoord, one position or a list of them.
    f1dot, f2dot, f3dot : see above
        Derivatives of the frequency at the reference time, Hz/s, Hz/s^2, Hz/s^3. Templates have those up to the highest
        given, and always f1dot. A `Braking` as `f1dot` stands for the ranges of f1dot and f2dot that follow from an age
        and a braking index; without `mismatch`, for a flat grid with natural steps, every point of the ranges within
        half a step of a template.
    orbit : Orbit or mapping, optional
        One orbit or a stack of orbits; or a mapping from names of `Orbit`'s fields to parameters in these forms, whose
        product is taken, also with a mismatch. With a mismatch, fields may instead be ranges ``(low, high)``: the
        lattice then extends over them, together with ranges of `alpha`, `delta` and spin-downs. A range of ``tp`` of at
        least one period covers the whole orbit.
    reftime : float, str, Time or GPSTime, optional
        GPS time in the SSB at which the spin-downs hold, s; by default the data's reference time. A lattice extends
        beyond its ranges by up to a cell. If the reference time is far from the data, this shifts frequencies so much
        that `prepare` must be given the range of the bank's own spin-downs, by ``fdots=``.
    data : Observation, FstatData or NormalisedSFTs, optional
        Data to be searched: they determine natural steps, the metric, and, unless it is an Observation, the frequency
        of the templates. With segments the metric is that of `mean_twoF`, see `metric`, and
        there are no natural steps. With NormalisedSFTs the metric is that of the power along tracks, see Notes.
    freq : float, Quantity or (low, high), optional
        Frequency or band to be searched, Hz, by default the data's band; required with `mismatch` or a `Braking` for an
        Observation, which has no band. The metric is taken at the highest frequency. ``fkdot[..., 0]``, which
        `twoF_band` and `search` ignore, is the centre of the band, or 0 without one. A single number is written there,
        and the band remains the band of the data if they have one.
    mismatch : float, optional
        Between 0 and 1: the largest fraction of rho^2 that a signal may lose at the template nearest to it, maximised
        over frequency; of its power, for NormalisedSFTs. The spacing of frequencies, 1/(2T), loses up to 0.19 more, and
        0.065 on average.
    region : "all", (SkyCoord, radius) or SkyCoord, optional
        With `mismatch`, instead of `alpha` and `delta`: the whole sky; a disc, its radius in rad; or a polygon of three
        or more vertices, whose sides are great circles and which fits in half the sky.
    strict : bool
        With `mismatch`: leave out the templates whose spin-downs lie outside their ranges, like ComputeFstatistic_v2's
        strictSpindownBounds. A lattice extends beyond its ranges because templates outside may be nearest to signals at
        the edges; without these templates, signals within a cell of an edge may lose more than the mismatch.

    Returns
    -------
    Doppler
        A stack of n templates, with fields of shape (n,) and ``fkdot`` of (n, 1 + number of derivatives), ready for
        ``jax.vmap(twoF_band, (None, 0))``; ``varied`` names the parameters with ranges, and ``asked`` holds
        these. A lattice reaches beyond them, by up to a cell on every side, because the template nearest to a signal at
        an edge may lie outside: the bank's display says how far, and `strict` leaves out what is outside in spin-down.
        A table of candidates may hold some from outside, too; ``Keep(bounds=)`` marks them. In a product alpha
        varies slowest, then delta, the orbit, ..., f2dot, and f1dot fastest; in a lattice the sky position slowest,
        then the orbit, and the spin-downs fastest.

    Raises
    ------
    TypeError
        If `data` or `orbit` is of another kind.
    ValueError
        If a parameter is missing, empty or out of range, a step is missing or not positive and finite, or a lattice
        would have more than 2e8 templates, or 2e7 with ranges of orbits.

    Notes
    -----
    The lattices are A_n* (Conway & Sloane 1999) in the metric of the phase (`metric` with ``phase_only=True``) at the
    highest frequency, with the unit vector to the source as coordinates of the sky (Wette & Prix 2013, Phys.
    Rev. D 88, 123005; Wette 2014, Phys. Rev. D 90, 122010). A spin-down whose range loses less than the mismatch may be
    fixed at the middle of its range.

    With ranges of orbits the lattice lies in coordinates in which the phase of a nearly circular orbit is linear (see
    `jfstat.banks.chart`; Leaci & Prix 2015, Phys. Rev. D 91, 102003, expand the phase in the same way), and the
    metric of the exact phase is computed by automatic differentiation.

    For NormalisedSFTs the metric is the fraction of its power that a signal loses on average along a template's track:
    the mean square of the distance between the tracks in bins, for the best frequency, times pi^2/3, or times 2.095 if
    the power is that of the nearest bins. A spacing of frequencies of 1/Tsft then loses up to 0.42 more, and 0.15 on
    average; with several bins up to 0.59, and 0.23 on average. The lattice is that of ranges of orbits, even without
    an orbit.

    The metric of the phase neglects antenna patterns. For a day of data and more it still bounds the loss of 2F: in
    banks for 1 to 100 d, none of 500 to 2000 random signals lost more than `mismatch` (examples/bank_coverage.py).
    For shorter data the antenna patterns change between templates: in a bank of the whole sky for 6 h with a mismatch
    of 0.1, 0.05 % of signals lost more, up to 0.114.

    Examples
    --------
    >>> bank = jfstat.template_bank((2.0, 2.2, 0.1), 0.47, f1dot=[-1e-10], data=data)
    >>> bank.alpha.shape
    (3,)
    """
    asked = _Asked(alpha, delta, (f1dot, f2dot, f3dot), orbit, reftime, data, freq, mismatch, region)
    plan = _planned(asked)
    return with_fields(plan.templates(strict), varied=_asked_to_vary(asked), asked=plan.ranges)


@host(reftime=kinds.time)
def bank_size(
    data: Observation | FstatData | NormalisedSFTs,
    mismatch: float,
    alpha: RangeLike | SkyCoord | None = None,
    delta: RangeLike | None = None,
    f1dot: RangeLike | Braking = 0.0,
    f2dot: RangeLike | None = None,
    f3dot: RangeLike | None = None,
    *,
    freq: FrequencyLike | tuple[FrequencyLike, FrequencyLike] | None = None,
    orbit: Orbit | Mapping[str, RangeLike] | None = None,
    region: RegionLike | None = None,
    reftime: TimeLike | None = None,
) -> float:
    """Return the expected number of templates of a lattice by the metric, without laying it.

    Unlike banks themselves, the number has no limit, so that it tells what a search would cost.

    Parameters
    ----------
    data, mismatch, alpha, delta, f1dot, f2dot, f3dot, freq, orbit, region, reftime
        As for `template_bank`.

    Returns
    -------
    float
        A bank of wide ranges has as many templates to a few per cent, with ranges of orbits to 20 %. Where ranges are
        hardly wider than the spacing of templates, the number is less certain.

    Raises
    ------
    TypeError
        If an argument is of another kind.
    ValueError
        As `template_bank`, except for banks that are too large.

    Examples
    --------
    >>> seen = jfstat.observation(["H1", "L1"], start, 864000, sqrt_sx=4e-24)
    >>> n = jfstat.bank_size(seen, 0.2, freq=100.0, region="all", f1dot=(-1e-9, 0.0))
    >>> bool(1e6 < n < 2e6)
    True
    """
    allowed = probability(mismatch, "mismatch", "try 0.1")
    return _planned(_Asked(alpha, delta, (f1dot, f2dot, f3dot), orbit, reftime, data, freq, allowed, region)).expected


class _Asked(NamedTuple):
    """Arguments of `template_bank`; `spins` are f1dot, f2dot and f3dot."""

    alpha: RangeLike | SkyCoord | None
    delta: RangeLike | None
    spins: tuple[RangeLike | Braking | None, ...]
    orbit: Orbit | Mapping[str, RangeLike] | None
    reftime: TimeLike | None
    data: Observation | FstatData | NormalisedSFTs | None
    freq: FrequencyLike | tuple[FrequencyLike, FrequencyLike] | None
    mismatch: float | None
    region: RegionLike | None


class _Plan(NamedTuple):
    """A bank that can be made.

    Attributes
    ----------
    expected : float
        Expected number of templates.
    templates : callable
        Function that makes the templates, given whether to leave out those with spin-downs beyond their ranges.
    ranges : tuple
        Ranges asked for; see `asked_ranges`.
    """

    expected: float
    templates: Callable[[bool], Doppler]
    ranges: Any


def _planned(asked: _Asked) -> _Plan:
    """Return the plan of a bank, after all checks."""
    alpha, delta, _, orbit, reftime, data, freq, mismatch, region = asked
    given: list[Any] = list(asked.spins)
    tracks = data if isinstance(data, NormalisedSFTs) else None
    observation = data.observation if isinstance(data, NormalisedSFTs) else _observation(data)
    if observation is not None and reftime is None:
        reftime = observation.reftime.common
    limited = None if mismatch is None else orbit_limits(orbit)
    if tracks is not None:
        if not tracks.layout.n_frequencies:
            raise ValueError("data have no band, since the SFTs hold too few bins: give SFTs of a wider band.")
        if mismatch is None and any(isinstance(x, tuple) and len(x) == 2 for x in given):
            raise ValueError(
                "f1dot, ... have no natural steps for NormalisedSFTs: give (low, high, step), or a mismatch."
            )
        if mismatch is not None and limited is None:
            limited = fixed_limits(orbit)
    stack = None if limited is not None else orbits(orbit)
    f, band = _band(freq, data)
    braking = None
    if isinstance(given[0], Braking):
        if tracks is not None:
            raise ValueError("f1dot cannot be a Braking for NormalisedSFTs: give ranges of f1dot and f2dot.")
        if band is None:
            raise ValueError("freq must be given with an age, not None: f1dot grows with the frequency.")
        braking = BrakingRegion.of(given[0], *band)
        given = _spins_by_age(braking, given[1], given[2], observation, mismatch)
    spins = given[: max((k for k, value in enumerate(given, 1) if value is not None), default=1)]
    fixed_sky = region is None and not isinstance(alpha, tuple) and not isinstance(delta, tuple)
    if mismatch is None and region is None:
        positions = sky_positions(alpha, delta)
        if braking is None:
            own = _product(positions, spins, None if tracks else observation)
        else:
            own = _by_age(positions, braking, spins[2:], observation)
        ranges = asked_ranges(alpha, delta, spins, orbit)
        return _Plan(len(own.alpha), lambda _: _stacked(own, stack, f, reftime), ranges)
    limits = np.array([spin_limits(value, k) for k, value in enumerate(spins, 1)])
    space = _parameter_space(limits, reftime, observation, mismatch, band)
    if limited is not None:
        assert observation is not None and band is not None and reftime is not None  # for the space
        if region is not None:
            raise ValueError(
                "region cannot go with ranges of orbits, or with NormalisedSFTs: give alpha and delta, as values or "
                "ranges."
            )
        wide = OrbitRanges(sky_limits(alpha, delta), limits, limited)
        reference = gps_time(reftime, "reftime")  # the data's, if none is given
        bank = OrbitBank(compared(data), wide, reference, band[1], space.mismatch)

        def of_orbits(strict: bool) -> Doppler:
            found = bank.templates(f, strict)
            return with_fields(found, orbit=None) if orbit is None else found

        return _Plan(bank.expected, of_orbits, asked_ranges(alpha, delta, spins, orbit))
    if fixed_sky:
        tilings = cover_positions(space, unit_vector(*sky_positions(alpha, delta)))
    else:
        tilings = cover_region(space, _region(alpha, delta, region))

    def of_tilings(strict: bool) -> Doppler:
        templates = all_templates(tilings, space.mismatch)
        if braking is not None:
            templates = _near(templates, braking, space, fixed_sky, strict)
        elif strict:
            templates = _inside(templates, limits)
        return _stacked(templates, stack, f, reftime)

    n_orbits = 1 if stack is None else np.size(stack.period)
    expected = n_orbits * sum(tiling.expected for tiling in tilings)
    return _Plan(expected, of_tilings, asked_ranges(alpha, delta, spins, orbit))


def _observation(data: Observation | FstatData | None) -> Observation | None:
    """Return the observation of data, if there are any."""
    return None if data is None else observation_of(data, segments=True)


def _asked_to_vary(asked: _Asked) -> tuple[str, ...]:
    """Return the names of the parameters with ranges."""
    given: dict[str, Any] = {"alpha": asked.alpha, "delta": asked.delta}
    given |= dict(zip(SPINS, asked.spins, strict=True))
    given |= asked.orbit if isinstance(asked.orbit, Mapping) else {}
    names = {name for name, value in given.items() if is_range(value)}
    names |= set() if asked.region is None else set(SKY)
    names |= {spin_name(1), spin_name(2)} if isinstance(asked.spins[0], Braking) else set()
    return tuple(name for name in given if name in names)


def _inside(templates: Templates, limits: np.ndarray) -> Templates:
    """Return the templates whose spin-downs lie in their ranges, (s, 2)."""
    inside = within_ranges(templates.spins, limits)
    return Templates(*(x[inside] for x in templates))


def _band(
    freq: FrequencyLike | tuple[FrequencyLike, FrequencyLike] | None,
    data: Observation | FstatData | NormalisedSFTs | None,
) -> tuple[float, tuple[float, float] | None]:
    """Return the frequency of the templates and the band to be searched, Hz; arguments as `template_bank`."""
    band, f = None, 0.0
    if isinstance(data, (FstatData, NormalisedSFTs)):
        low, high = data.frequencies[[0, -1]]
        band, f = (float(low), float(high)), 0.5 * float(low + high)
    if isinstance(data, FstatData):
        f = float(np.max(data.band.f_centre))  # segments share it
    if freq is None:
        return f, band
    if not isinstance(freq, (tuple, list)):
        f = frequency(freq, "freq")
        return f, (f, f) if band is None else band
    if len(freq) != 2:
        raise ValueError(f"freq must be a frequency or a band (low, high) in Hz, not {shown(freq)}.")
    low, high = checked_band(*freq)
    return 0.5 * (low + high), (low, high)


def checked_band(low: FrequencyLike, high: FrequencyLike) -> tuple[float, float]:
    """Return the ends of a band, Hz; raise a ValueError if they are no frequencies or not ordered."""
    ends = signal_frequency(low, "freq"), signal_frequency(high, "freq")
    if ends[0] > ends[1]:
        raise ValueError(f"freq=({ends[0]}, {ends[1]}) must be ordered: give the lowest frequency first.")
    return ends


def _spins_by_age(
    braking: BrakingRegion,
    f2dot: RangeLike | None,
    f3dot: RangeLike | None,
    observation: Observation | None,
    mismatch: float | None,
) -> list[RangeLike | None]:
    """Return the smallest ranges of f1dot and f2dot for an age and a braking index, with `f3dot` unchanged."""
    if f2dot is not None:
        raise ValueError("f2dot does not go with a Braking, which sets it: leave it out.")
    if isinstance(f3dot, tuple):
        raise ValueError("f3dot must be a number with a Braking, not a range: this sets f1dot and f2dot.")
    if mismatch is None and observation is None:
        raise ValueError("data must be given with an age, not None: it sets the steps in f1dot and f2dot.")
    first, second = ((float(low), float(high)) for low, high in braking.limits)
    return [first, second, f3dot]


def _by_age(
    sky: tuple[np.ndarray, np.ndarray],
    braking: BrakingRegion,
    others: list[RangeLike | None],
    observation: Observation | None,
) -> Templates:
    """Return the product of sky positions, (n,) each, and a flat grid of f1dot and f2dot by age, with any f3dot."""
    tspan = _whole_span(observation)
    spins = braking.grid(natural_step(1, tspan), natural_step(2, tspan))
    for k, value in enumerate(others, 3):
        spins = np.concatenate([spins, np.full((len(spins), 1), spin_limits(value, k)[0])], axis=1)
    alpha, delta = (np.repeat(x, len(spins)) for x in sky)
    return Templates(alpha, delta, np.tile(spins, (len(sky[0]), 1)))


def _whole_span(observation: Observation | None) -> float:
    """Return the time that data without segments span, s.

    Raises
    ------
    ValueError
        If the data have segments.
    """
    if observation is None or observation.n_segments is not None:
        raise ValueError("data with segments have no natural steps of spin-downs: give their steps, or a mismatch.")
    return float(observation.tspan)


def _near(
    templates: Templates, braking: BrakingRegion, space: ParameterSpace, fixed_sky: bool, strict: bool
) -> Templates:
    """Return the templates that may be nearest to a signal of an age and a braking index; if `strict`, those inside.

    A template is left out if it is further from the region than the mismatch, maximised over frequency and, unless it
    is known, sky position.
    """
    spins, s = templates.spins[:, :2], len(space.low)
    before = [0] if fixed_sky else [0, s + 1, s + 2, s + 3]
    metric = restricted(space.factor, [*before, 1, 2])[len(before) :, len(before) :]
    near = braking.contains(spins) if strict else braking.is_near(spins, metric, float(np.sqrt(space.mismatch)))
    if not near.any():
        raise ValueError("strict leaves no template within the ranges: widen them, or allow templates beyond them.")
    return Templates(*(x[near] for x in templates))


def _product(
    sky: tuple[np.ndarray, np.ndarray], spins: list[RangeLike | None], observation: Observation | None
) -> Templates:
    """Return the product of sky positions, (n,) each, and spin-downs, f1dot varying fastest."""
    axes = []
    for k, value in enumerate(spins, 1):
        step = None
        if isinstance(value, tuple) and len(value) == 2 and observation is not None:
            step = natural_step(k, _whole_span(observation))
        axes.append(axis(0.0 if value is None else value, spin_name(k), unit(spin_name(k)), step))
    require_few(len(sky[0]) * math.prod(map(len, axes)))
    product = np.stack([x.reshape(-1) for x in np.meshgrid(*axes[::-1], indexing="ij")[::-1]], axis=-1)
    alpha, delta = (np.repeat(x, len(product)) for x in sky)
    return Templates(alpha, delta, np.tile(product, (len(sky[0]), 1)))


def _parameter_space(
    limits: np.ndarray,
    reftime: TimeLike | None,
    observation: Observation | None,
    mismatch: float | None,
    band: tuple[float, float] | None,
) -> ParameterSpace:
    """Make the space with spin-downs in `limits`, (s, 2), under the metric; see `template_bank` for other arguments."""
    if mismatch is None:
        raise ValueError("mismatch must be given with a region, not None: try 0.1.")
    allowed = probability(mismatch, "mismatch", "try 0.1")
    if observation is None:
        raise ValueError("data must be given with a mismatch, not None: the metric depends on when there are data.")
    if band is None:
        raise ValueError("freq must be given with a mismatch and an observation, not None: the metric grows with it.")
    reference = observation.reftime if reftime is None else gps_time(reftime, "reftime")
    r = factor(observation, len(limits), reference, signal_frequency(band[1], "freq"))
    return ParameterSpace(r, limits[:, 0], limits[:, 1], allowed)


def _region(alpha: RangeLike | SkyCoord | None, delta: RangeLike | None, region: RegionLike | None) -> Region:
    """Return the region to be covered; see `template_bank` for the arguments."""
    if region is None:
        if not (isinstance(alpha, tuple) and isinstance(delta, tuple)):
            raise ValueError("alpha and delta must both be ranges (low, high) or both be values: they make one box.")
        return sky_box(alpha, delta)
    if alpha is not None or delta is not None:
        raise ValueError("region must stand alone, without alpha and delta: give one or the other.")
    return sky_region(region)


def _stacked(templates: Templates, orbits: Orbit | None, f: float, reftime: TimeLike | None) -> Doppler:
    """Return templates at frequency f, Hz, as a stack; at each sky position one orbit follows the other."""
    alpha, delta, spins = templates
    fkdot = np.concatenate([np.full((len(spins), 1), f), spins], axis=1)
    if orbits is None:
        return Doppler(alpha=alpha, delta=delta, fkdot=fkdot, reftime=reftime)
    n = orbits.period.shape[0]
    require_few(n * len(alpha))
    first = np.flatnonzero((np.diff(alpha, prepend=np.nan) != 0) | (np.diff(delta, prepend=np.nan) != 0))
    last = np.append(first[1:], len(alpha)) - 1
    block, index = integers_between(np.repeat(first, n), np.repeat(last, n))
    return Doppler(
        alpha=alpha[index],
        delta=delta[index],
        fkdot=fkdot[index],
        reftime=reftime,
        orbit=Orbit(*(np.asarray(getattr(orbits, name))[block % n] for name in ORBIT_FIELDS)),
    )
