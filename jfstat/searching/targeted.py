"""Compute 2F and amplitudes at the templates of known pulsars, in one table."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import jax
import numpy as np

from jfstat.candidates.falsealarm import false_alarm
from jfstat.candidates.linerobust import bsgl_column
from jfstat.candidates.provenance import Provenance, joint_ephemeris
from jfstat.candidates.tables import in_units
from jfstat.data.narrowdata import NarrowData
from jfstat.data.narrowsfts import narrow_sfts
from jfstat.data.observation import unweighted
from jfstat.data.targets import MovesTooFast
from jfstat.geometry.doppler import doppler_speed
from jfstat.geometry.ephemeris import EphemerisLike
from jfstat.pulsars.pulsar import Pulsar
from jfstat.searching.knownpulsars import PulsarSearch, ephemeris_of, moved_to
from jfstat.searching.session.progress import progress_bar
from jfstat.sfts.parts import PartsOfSFTs, between
from jfstat.signal.parameters import AMPLITUDE_COLUMNS, MOTION_FIELDS
from jfstat.signal.reading import all_parameters
from jfstat.signal.templates import Doppler
from jfstat.signal.values import columns, with_fields
from jfstat.statistic.fstat import central_values
from jfstat.version import __version__

if TYPE_CHECKING:
    from astropy.table import QTable

EARTH_DELAY = 510.0
"""Largest difference of times at the SSB and at a detector, s."""
MOST_WIDTH = 4.0
"""Widest band that is read at once for several pulsars, Hz, without the guard."""
EDGE_BINS = 8
"""Smallest number of bins beyond a signal that a file must hold."""
MOST_AT_ONCE = 32
"""Largest number of pulsars that share a pass over the SFTs, which bounds the memory for their samples."""


@dataclass(frozen=True, eq=False)
class Stretch:
    """A pulsar and a part of the data in which it has no glitch.

    Attributes
    ----------
    place : int
        Position in the table.
    pulsar : Pulsar
    point : Doppler
        Template of the pulsar at the table's reference time.
    phase_error : float
        Sum of the largest errors of the template's phase, cycles.
    ephemeris : str or two paths
    start, end : float
        GPS times between which the SFTs lie, s.
    cycles : float
        Phase of the signal that glitches add, in cycles, where the template's phase is as without them.
    orbit_times : tuple of float, or None
        GPS times between which the template's orbit is fitted, if these are not `start` and `end`.
    least_reach : float
        Difference in frequency from the template, Hz, that the narrow data reach at least.
    """

    place: int
    pulsar: Pulsar
    point: Doppler
    phase_error: float
    ephemeris: EphemerisLike
    start: float
    end: float
    cycles: float
    orbit_times: tuple[float, float] | None
    least_reach: float = 0.0


def targeted(search: PulsarSearch) -> QTable:
    """Compute the table of `search_pulsars` for the pulsars' own templates.

    Raises
    ------
    ValueError
        See `stretches_of` and `narrowed`.

    Warns
    -----
    UserWarning
        If some pulsars are left out.
    """
    stretches = stretches_of(search)
    rows = {x.place: row_of(data, search) for x, data in narrowed(stretches, search)}
    return table_of(stretches, rows, search)


def stretches_of(search: PulsarSearch, *, in_phase: bool = False) -> list[Stretch]:
    """Return the pulsars' parts of the data, in the order of the table.

    With `in_phase` a pulsar has one orbit in all of them: a fit of an orbit leaves a constant delay free, and phases of
    parts would not agree.

    Raises
    ------
    ValueError
        If the SFTs hold no pulsar's signal, or the running median has an even number of bins.

    Warns
    -----
    UserWarning
        If some pulsars are left out.
    """
    known = search.pulsars
    search.noise.require_middle()
    by_pulsar = [_stretches(p, search, in_phase) for p in known]
    lost = [p.name for p, own in zip(known, by_pulsar, strict=True) if not own]
    if lost:
        text = f"no SFT lies wholly before or after the glitches of {', '.join(lost)}"
        if len(lost) == len(known):
            raise ValueError(f"{text}: give other data.")
        warnings.warn(f"{text}: left out.", stacklevel=4)
    return _inside(alike([x for own in by_pulsar for x in own]), search.parts)


def narrowed(stretches: list[Stretch], search: PulsarSearch) -> Iterator[tuple[Stretch, NarrowData]]:
    """Yield the pulsars with narrow data around their templates, in an order in which few SFTs are read twice.

    Raises
    ------
    ValueError
        If a pulsar's orbit is too fast.
    """
    times = search.parts.times
    with progress_bar(len(stretches), search.progress, "search", "pulsars") as advance:
        shared, own, observation = None, search.parts, None
        for group in _groups(stretches, search.guard, times.tsft):
            key = group[0].start, group[0].end, str(group[0].ephemeris)
            if key != shared or observation is None:  # groups are in this order
                shared, own = key, between(search.parts, *key[:2])
                observation = unweighted(own.times, search.reftime, group[0].ephemeris)
            try:
                points, reaches = [x.point for x in group], [x.least_reach for x in group]
                near = narrow_sfts(own, points, observation, search.noise, search.guard, reaches)
            except MovesTooFast as error:
                name = next(x.pulsar.name for x in group if x.point is error.point)
                raise ValueError(f"pulsar {name}: {error}") from None
            except ValueError as error:
                others = f" and {len(group) - 1} others" if len(group) > 1 else ""
                raise ValueError(f"pulsar {group[0].pulsar.name}{others}: {error}") from None
            yield from zip(group, near, strict=True)
            advance(len(group))


def row_of(data: NarrowData, search: PulsarSearch) -> np.ndarray:
    """Return the numbers of `central_values` of narrow data; NaN for detectors without data."""
    detectors = search.parts.times.detectors
    row, n = np.asarray(central_values(data)), len(data.detectors)
    each = np.full(len(detectors), np.nan)
    each[[detectors.index(name) for name in data.detectors]] = row[1 : 1 + n]
    return np.concatenate([row[:1], each, row[1 + n :]])


def _stretches(pulsar: Pulsar, search: PulsarSearch, in_phase: bool) -> list[Stretch]:
    """Return the parts of the data between a pulsar's glitches."""
    times = search.parts.times
    first, last = float(times.start), times.end
    inside = [float(glitch.time) for glitch in pulsar.glitches if first < float(glitch.time) < last]
    # times at the star and at the detector differ by up to 510 s and, in a binary, by the orbit's light travel time:
    # SFTs that may hold the glitch are left out
    margin = EARTH_DELAY + (0.0 if pulsar.binary is None else 2 * pulsar.binary.asini) if inside else 0.0
    edges = [first - margin, *inside, last + margin]
    tables, harmonic = ephemeris_of(pulsar, search.ephemeris), search.band.harmonic
    whole = (first, last) if inside and in_phase else None
    found = []
    for low, high in pairwise(edges):
        own = (low + margin, high - margin)
        if not any(len(s.between(own[0], own[1] - times.tsft + 1e-3)) for s in times):
            continue
        try:
            point, errors = pulsar.doppler_and_error(*own, harmonic, whole)
        except ValueError as problem:
            raise ValueError(f"pulsar {pulsar.name}: {problem}") from None
        cycles = harmonic * pulsar.glitch_cycles(*own, search.reftime)
        moved = moved_to(point, search.reftime)
        found.append(Stretch(0, pulsar, moved, sum(errors.values()), tables, *own, cycles, whole))
    return found


def alike(stretches: list[Stretch]) -> list[Stretch]:
    """Return stretches whose templates are padded to equally many spins, so that they share compiled programs."""
    n = max(2, *(len(x.point.fkdot) for x in stretches))
    moving = any(x.point.motion is not None for x in stretches)
    alike = []
    for x in stretches:
        point = with_fields(x.point, fkdot=np.pad(x.point.fkdot, (0, n - len(x.point.fkdot))))
        if moving and point.motion is None:
            point = with_fields(point, motion=np.zeros(len(MOTION_FIELDS)))
        alike.append(replace(x, point=point))
    return alike


def _inside(stretches: list[Stretch], parts: PartsOfSFTs) -> list[Stretch]:
    """Return the stretches whose signals lie in the SFTs' band; a warning names the pulsars left out."""
    tsft = parts.times.tsft
    low, high = parts.first_bin / tsft, (parts.last_bin + 1) / tsft
    inside, outside = [], []
    for x in stretches:
        speed = float(doppler_speed(x.point.orbit)) * 1.001  # spin-down during the data is far less
        f = float(x.point.fkdot[0])
        if f * (1 - speed) - EDGE_BINS / tsft >= low and f * (1 + speed) + EDGE_BINS / tsft <= high:
            inside.append(replace(x, place=len(inside)))
        else:
            outside.append(f"{x.pulsar.name} ({f:.6g} Hz)")
    if outside:
        text = f"of {', '.join(outside)} the SFTs' band of {low:.10g} to {high:.10g} Hz does not hold the signal"
        if not inside:
            raise ValueError(f"{text}: name other files.")
        warnings.warn(f"{text}: left out.", stacklevel=4)
    return inside


def _groups(stretches: list[Stretch], guard: float, tsft: float) -> list[list[Stretch]]:
    """Return groups of stretches with equal SFTs and ephemeris and overlapping bands, which share a pass over the
    files."""
    groups: list[list[Stretch]] = []

    def key(x: Stretch) -> tuple:
        return x.start, x.end, str(x.ephemeris), float(x.point.fkdot[0])

    for x in sorted(stretches, key=key):
        last = groups[-1] if groups else []
        f = key(x)[3]
        together = (
            last
            and key(x)[:3] == key(last[0])[:3]
            and f - key(last[-1])[3] < 2 * guard + 1 / tsft
            and f - key(last[0])[3] < MOST_WIDTH
            and len(last) < MOST_AT_ONCE
        )
        if together:
            last.append(x)
        else:
            groups.append([x])
    return groups


def _name_of(ephemeris: EphemerisLike) -> str:
    return ephemeris if isinstance(ephemeris, str) else str(getattr(ephemeris, "name", "files"))


def table_of(stretches: list[Stretch], by_place: Mapping[int, np.ndarray], search: PulsarSearch) -> QTable:
    """Return the table of 2F and amplitudes, given the numbers of `row_of` for each stretch, by its place."""
    times, prior = search.parts.times, search.line_prior
    rows = np.stack([by_place[x.place] for x in stretches])
    detectors = times.detectors
    n = 1 + len(detectors)
    own = [columns(jax.tree.map(lambda leaf: np.asarray(leaf)[None], x.point)) for x in stretches]
    names = max((all_parameters(x.point) for x in stretches), key=len)
    values = {name: np.concatenate([each.get(name, np.zeros(1)) for each in own]) for name in names}
    values["twoF"] = rows[:, 0]
    values |= {f"twoF_{name}": rows[:, 1 + i] for i, name in enumerate(detectors)}
    values |= bsgl_column(rows[:, 0], rows[:, 1:n], prior)
    values |= {name: rows[:, n + i] for i, name in enumerate(AMPLITUDE_COLUMNS)}
    values["false_alarm"] = np.asarray(false_alarm(rows[:, 0], 1))
    values["n_twoF"] = np.ones(len(rows), int)
    values |= {name: np.array([getattr(x, name) for x in stretches]) for name in ("phase_error", "start", "end")}
    tables = [_name_of(x.ephemeris) for x in stretches]
    origin = Provenance(
        version=__version__,
        reftime=search.reftime.plain,
        detectors=tuple(detectors),
        ephemeris=joint_ephemeris(tables),
        start=times.start,
        tspan=times.end - times.start,
        parameters=("freq",),  # parameters that a follow-up fits by default: a known pulsar's position is known
        tsft=times.tsft,
        sqrt_sx=tuple(search.noise.floors(detectors)),
        n_sfts=tuple(len(series) for series in times),
    )
    meta = origin.meta | {"freq_band": 0.0, "f1dot_band": 0.0, "harmonic": search.band.harmonic}
    meta |= {"n_twoF": len(stretches)} | prior.meta
    table = in_units(values, meta)
    table["ephemeris"] = tables
    table.add_column([x.pulsar.name for x in stretches], name="name", index=0)
    return table
