"""Targeted searches: 2F and amplitudes at the templates of known pulsars, in one table: `search_pulsars`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import jax
import numpy as np

from jfstat import kinds
from jfstat.candidates.falsealarm import false_alarm
from jfstat.candidates.linerobust import log10_bsgl
from jfstat.candidates.tables import in_units
from jfstat.data.narrowsfts import narrow_sfts
from jfstat.data.noise import MEDIAN_BINS, checked_off_source
from jfstat.data.observation import reference_time, unweighted
from jfstat.geometry.detectors import DetectorLike, get_detectors
from jfstat.geometry.doppler import doppler_speed
from jfstat.geometry.ephemeris import EphemerisLike, installed_ephemerides
from jfstat.public import public
from jfstat.pulsars.glitch import taylor_shifted
from jfstat.pulsars.pulsar import HARMONIC, QUADRUPOLE, Pulsar
from jfstat.searching.session.progress import progress_bar
from jfstat.sfts.container import SFTs
from jfstat.sfts.parts import InMemory, PartsOfSFTs, between
from jfstat.sfts.reading import find_sfts
from jfstat.signal.parameters import AMPLITUDE_COLUMNS, MOTION_FIELDS, all_parameters, columns, with_fields
from jfstat.signal.templates import Doppler
from jfstat.signal.times import GPSTime, TimeLike
from jfstat.statistic.fstat import central_values
from jfstat.statistic.linerobust import checked_odds, plain_odds
from jfstat.validation import FrequencyLike, NoiseLike, given_sqrt_sx, guard_band, positive_number

if TYPE_CHECKING:
    from astropy.table import QTable

DEFAULT_EPHEMERIS = "DE405"
MOST_WIDTH = 4.0
"""Widest band that is read at once for several pulsars, Hz, the guard apart."""
EDGE_BINS = 8
"""Bins beyond a signal that a file must hold at least."""
MOST_AT_ONCE = 32
"""Pulsars of overlapping bands that share one pass over the SFTs; it bounds the memory for their samples."""


@dataclass(frozen=True, eq=False)
class _Stretch:
    """A pulsar and a part of the data without a glitch of its.

    Attributes
    ----------
    place : int
        In the table.
    pulsar : Pulsar
    point : Doppler
        Its template, at the table's reference time.
    phase_error : float
        Sum of the largest errors of its phase, cycles.
    ephemeris : str or two paths
    start, end : float
        GPS times between which the SFTs lie, s.
    """

    place: int
    pulsar: Pulsar
    point: Doppler
    phase_error: float
    ephemeris: EphemerisLike
    start: float
    end: float


@public(
    reftime=kinds.time,
    start=kinds.time,
    end=kinds.time,
    pulsars=kinds.pulsars,
    ephemeris=kinds.ephemeris,
    detectors=kinds.detectors,
    check_crc=kinds.flag,
    progress=kinds.flag,
)
def search_pulsars(
    sfts: SFTs | str | os.PathLike | Sequence[str | os.PathLike],
    pulsars: Pulsar | Iterable[Pulsar],
    *,
    sqrt_sx: NoiseLike | None = None,
    reftime: TimeLike | None = None,
    ephemeris: EphemerisLike | None = None,
    guard: FrequencyLike = 1.0,
    harmonic: float = QUADRUPOLE,
    fstar0: float = 0.0,
    olgx: Sequence[float] | None = None,
    detectors: DetectorLike | Iterable[DetectorLike] | None = None,
    start: TimeLike | None = None,
    end: TimeLike | None = None,
    check_crc: bool = False,
    off_source: int | None = None,
    progress: bool = True,
) -> QTable:
    """2F and the amplitudes of known pulsars' signals: a row for each.

    The data are not prepared for a band: each SFT is reduced to what it holds of each signal, in one pass for all
    pulsars whose bands overlap, so that years of SFTs take seconds and little memory.

    Parameters
    ----------
    sfts : SFTs, or a pattern of files as for `read_sfts`
        Of files, parts are read as they are needed.
    pulsars : Pulsar or several
        From `read_par` and `read_pulsars`. A pulsar with a glitch during the data gets a row for the SFTs before it and
        one for those after it.
    sqrt_sx : float, sequence or mapping, optional
        Noise floor in 1/sqrt(Hz), one for all detectors or one for each. None estimates it from each SFT by the running
        median of 101 bins, or as `off_source` says.
    reftime : float, str, Time or GPSTime, optional
        Reference time of the table, GPS s; by default the start of the data. Frequencies and positions are taken there.
    ephemeris : str or two paths, optional
        See `load_ephemeris`. By default that of each timing solution (``EPHEM``), or DE405 where it is not installed.
    guard : float or Quantity
        Width of the SFTs to use on each side of a signal, Hz; less if the SFTs have less.
    harmonic : float
        Frequency of the signals over that of the pulsars' rotation.
    fstar0, olgx : optional
        For ``log10BSGL``; see `search`.
    detectors, start, end : optional
        Which SFTs of the files to use; see `read_sfts`.
    check_crc : bool
        Whether to check the files' checksums. As in LALSuite's searches, they are not by default.
    off_source : int, optional
        Estimate the noise floor of each signal from bins further away than this on both sides of it, as in `prepare`:
        for signals that are loud in each SFT, such as hardware injections.
    progress : bool
        Whether to show the rate and the time left.

    Returns
    -------
    QTable
        Columns: ``name``; the parameters of the template at ``meta["reftime"]``, with an orbit's zero for isolated
        pulsars in a table with binaries, and the proper motion ``pmra``, ``pmdec`` (rad/s) if there is one; ``twoF``
        and ``twoF_H1``, ... as from `fstat`; with several detectors ``log10BSGL``; ``h0``, ``cosi``, ``psi``, ``phi0``
        and their errors from `estimate_amplitude`; ``false_alarm``, the probability of this 2F in Gaussian noise;
        ``phase_error``, the largest error of the template's phase in cycles (`Pulsar.phase_error`); ``start`` and
        ``end`` of the SFTs (GPS s); ``ephemeris``.

    Raises
    ------
    OSError
        If a file cannot be read.
    TypeError
        If `sfts` or `pulsars` are of another kind.
    ValueError
        If there are no pulsars, an argument is out of range, the SFTs hold no pulsar's signal, or the orbit of one is
        too fast for this method.

    Warns
    -----
    UserWarning
        If the SFTs' band does not hold the signals of some pulsars, which are left out.
    """
    known = check_pulsars(pulsars)
    width = guard_band(guard)
    harmonic = positive_number(harmonic, "harmonic", HARMONIC)
    left_out = checked_off_source(off_source, MEDIAN_BINS)
    parts = pulsar_parts(sfts, detectors, start, end)
    times = parts.times
    scale, odds = plain_odds(fstar0, olgx)
    if len(times.detectors) > 1:
        checked_odds(len(times.detectors), scale, odds)
    floors = given_sqrt_sx(times.detectors, sqrt_sx)
    reference = reference_time(reftime, times.start)
    by_pulsar = [_stretches(p, times, reference, ephemeris, harmonic) for p in known]
    lost = [p.name for p, own in zip(known, by_pulsar, strict=True) if not own]
    if lost:
        text = f"no SFT lies wholly before or after the glitches of {', '.join(lost)}"
        if len(lost) == len(known):
            raise ValueError(f"{text}: give other data.")
        warnings.warn(f"{text}: left out.", stacklevel=2)
    stretches = [x for own in by_pulsar for x in own]
    warn_of_ephemerides(known, ephemeris)
    stretches = _inside(_alike(stretches), parts)
    rows: list[np.ndarray] = [np.empty(0)] * len(stretches)
    with progress_bar(len(stretches), progress, "search", "pulsars") as advance:
        shared, own, observation = None, parts, None
        for group in _groups(stretches, width, times.tsft):
            key = group[0].start, group[0].end, str(group[0].ephemeris)
            if key != shared or observation is None:  # groups are in this order
                shared, own = key, between(parts, *key[:2])
                observation = unweighted(own.times, reference, group[0].ephemeris)
            present = [times.detectors.index(name) for name in own.times.detectors]
            own_floors = [floors[i] for i in present]
            try:
                near = narrow_sfts(own, [x.point for x in group], observation, own_floors, width, check_crc, left_out)
            except ValueError as error:
                others = f" and {len(group) - 1} others" if len(group) > 1 else ""
                raise ValueError(f"pulsar {group[0].pulsar.name}{others}: {error}") from None
            for x, data in zip(group, near, strict=True):
                row, n = np.asarray(central_values(data)), len(present)
                each = np.full(len(times.detectors), np.nan)
                each[present] = row[1 : 1 + n]
                rows[x.place] = np.concatenate([row[:1], each, row[1 + n :]])
            advance(len(group))
    return _table(stretches, np.stack(rows), times, reference, floors, scale, odds, harmonic)


def check_pulsars(pulsars: Pulsar | Iterable[Pulsar]) -> list[Pulsar]:
    """The pulsars that a user gave; a TypeError if they are none, a ValueError if there are none."""
    known = [pulsars] if isinstance(pulsars, Pulsar) else list(pulsars)
    if not all(isinstance(pulsar, Pulsar) for pulsar in known):
        raise TypeError("pulsars must be Pulsars from jfstat.read_par or jfstat.read_pulsars: read .par files first.")
    if not known:
        raise ValueError("pulsars is empty: give at least one.")
    return known


def ephemeris_of(pulsar: Pulsar, ephemeris: EphemerisLike | None) -> EphemerisLike:
    """The given ephemeris, or that of the timing solution, or DE405 where it is not installed."""
    named = (pulsar.ephemeris or "").upper()
    choices = (named, named.rstrip("ST"))  # shorter and longer versions of the same
    installed = installed_ephemerides()
    own = next((name for name in choices if name in installed), None)
    return ephemeris or own or DEFAULT_EPHEMERIS


def warn_of_ephemerides(pulsars: list[Pulsar], ephemeris: EphemerisLike | None) -> None:
    """Warn if the ephemeris of a timing solution is not installed and another is used."""
    if ephemeris is not None:
        return
    other = [p for p in pulsars if p.ephemeris and str(ephemeris_of(p, None)) not in p.ephemeris.upper()]
    if other:
        names = ", ".join(f"{p.name} ({p.ephemeris})" for p in other[:5]) + (" and others" if len(other) > 5 else "")
        warnings.warn(f"the ephemerides of {names} are not installed: {DEFAULT_EPHEMERIS} is used.", stacklevel=3)


def pulsar_parts(
    sfts: object,
    detectors: DetectorLike | Iterable[DetectorLike] | None,
    start: TimeLike | None,
    end: TimeLike | None,
) -> PartsOfSFTs:
    """The SFTs that a user gave, in memory or in files, of some detectors and times.

    Raises
    ------
    TypeError
        If they are neither SFTs nor names of files.
    """
    if isinstance(sfts, SFTs):
        given = any(x is not None for x in (detectors, start, end))
        names = None if detectors is None else [site.prefix for site in get_detectors(detectors)]
        return InMemory(sfts.select(start, end, names) if given else sfts)
    if not isinstance(sfts, (str, os.PathLike, Sequence)):
        raise TypeError(f"sfts must be SFTs or the names of SFT files, not {type(sfts).__name__}.")
    return find_sfts(sfts, detectors, start, end)  # type: ignore[arg-type]


def _stretches(
    pulsar: Pulsar, times: SFTs, reference: GPSTime, ephemeris: EphemerisLike | None, harmonic: float
) -> list[_Stretch]:
    """The parts of the data between a pulsar's glitches."""
    first, last = float(times.start), times.end
    inside = [float(glitch.time) for glitch in pulsar.glitches if first < float(glitch.time) < last]
    # times at the SSB and at the detector differ by up to 510 s: SFTs that may hold the glitch are left out
    margin = 510.0 if inside else 0.0
    edges = [first - margin, *inside, last + margin]
    tables = ephemeris_of(pulsar, ephemeris)
    found = []
    for low, high in pairwise(edges):
        own = (low + margin, high - margin)
        if not any(len(s.between(own[0], own[1] - times.tsft + 1e-3)) for s in times):
            continue
        try:
            point, errors = pulsar.doppler_and_error(*own, harmonic)
        except ValueError as problem:
            raise ValueError(f"pulsar {pulsar.name}: {problem}") from None
        found.append(_Stretch(0, pulsar, moved_to(point, reference), sum(errors.values()), tables, *own))
    return found


def moved_to(point: Doppler, reference: GPSTime) -> Doppler:
    """The same template at another reference time."""
    since = float(reference - (reference if point.reftime is None else point.reftime))
    fkdot = taylor_shifted(np.asarray(point.fkdot), since, len(point.fkdot))
    alpha, delta = np.asarray(point.alpha), np.asarray(point.delta)
    if point.motion is not None:
        motion = np.asarray(point.motion)
        alpha, delta = alpha + since * motion[0] / np.cos(delta), delta + since * motion[1]
    return with_fields(point, alpha=alpha, delta=delta, fkdot=fkdot, reftime=reference)


def _alike(stretches: list[_Stretch]) -> list[_Stretch]:
    """The stretches with templates of equal structure, so that they share compiled programs: equally many spins."""
    n = max(2, *(len(x.point.fkdot) for x in stretches))
    moving = any(x.point.motion is not None for x in stretches)
    alike = []
    for x in stretches:
        point = with_fields(x.point, fkdot=np.pad(x.point.fkdot, (0, n - len(x.point.fkdot))))
        if moving and point.motion is None:
            point = with_fields(point, motion=np.zeros(len(MOTION_FIELDS)))
        alike.append(replace(x, point=point))
    return alike


def _inside(stretches: list[_Stretch], parts: PartsOfSFTs) -> list[_Stretch]:
    """The stretches whose signals lie in the SFTs' band; a warning names those of others."""
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
        warnings.warn(f"{text}: left out.", stacklevel=3)
    return inside


def _groups(stretches: list[_Stretch], guard: float, tsft: float) -> list[list[_Stretch]]:
    """Stretches of the same SFTs and ephemeris whose bands overlap, which share a pass over the files."""
    groups: list[list[_Stretch]] = []

    def key(x: _Stretch) -> tuple:
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


def _table(
    stretches: list[_Stretch],
    rows: np.ndarray,
    times: SFTs,
    reference: GPSTime,
    floors: Sequence[float | None],
    fstar0: float,
    olgx: Sequence[float] | None,
    harmonic: float,
) -> QTable:
    from jfstat.version import __version__

    detectors = times.detectors
    n = 1 + len(detectors)
    own = [columns(jax.tree.map(lambda leaf: np.asarray(leaf)[None], x.point)) for x in stretches]
    names = max((all_parameters(x.point) for x in stretches), key=len)
    values = {name: np.concatenate([each.get(name, np.zeros(1)) for each in own]) for name in names}
    values["twoF"] = rows[:, 0]
    values |= {f"twoF_{name}": rows[:, 1 + i] for i, name in enumerate(detectors)}
    if len(detectors) > 1:
        values["log10BSGL"] = log10_bsgl(rows[:, 0], rows[:, 1:n], fstar0, olgx)
    values |= {name: rows[:, n + i] for i, name in enumerate(AMPLITUDE_COLUMNS)}
    values["false_alarm"] = np.asarray(false_alarm(rows[:, 0], 1))
    values["phase_error"] = np.array([x.phase_error for x in stretches])
    tables = [_name_of(x.ephemeris) for x in stretches]
    meta = {
        "version": __version__,
        "reftime": reference.plain,
        "detectors": list(detectors),
        "ephemeris": tables[0] if len(set(tables)) == 1 else "by row",
        "start": times.start,
        "tspan": times.end - times.start,
        "parameters": ["freq"],  # what a follow-up fits by default: a known pulsar's position is no unknown
        "harmonic": harmonic,
        "n_twoF": len(stretches),
        "tsft": times.tsft,
        "n_sfts": [len(series) for series in times],
        "sqrt_sx": list(floors),
        "Fstar0": fstar0,
        "oLGX": None if olgx is None else list(olgx),
    }
    table = in_units(values, meta)
    from astropy import units

    table["start"] = [x.start for x in stretches] * units.s
    table["end"] = [x.end for x in stretches] * units.s
    table["phase_error"] = values["phase_error"] * units.cycle
    table["ephemeris"] = tables
    table.add_column([x.pulsar.name for x in stretches], name="name", index=0)
    return table
