"""Narrow-band searches: a small band of frequency and spin-down around each of some known pulsars."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from jfstat import kinds
from jfstat.candidates.details import Details
from jfstat.candidates.falsealarm import false_alarm
from jfstat.data.noise import MEDIAN_BINS, checked_off_source, floor_reach
from jfstat.data.prepare import prepare
from jfstat.geometry.detectors import DetectorLike
from jfstat.geometry.doppler import doppler_speed, drift_range
from jfstat.geometry.ephemeris import EphemerisLike
from jfstat.public import public
from jfstat.pulsars.pulsar import HARMONIC, MOST_DERIVATIVES, QUADRUPOLE, Pulsar
from jfstat.searching.search import search
from jfstat.searching.session.progress import progress_bar
from jfstat.searching.targeted import check_pulsars, ephemeris_of, moved_to, pulsar_parts, warn_of_ephemerides
from jfstat.sfts.container import SFTs
from jfstat.signal.parameters import MOTION_FIELDS, ORBIT_FIELDS, SKY, is_parameter, spin_name, unit
from jfstat.signal.templates import Doppler
from jfstat.signal.times import TimeLike, gps_time
from jfstat.statistic.linerobust import LinePrior
from jfstat.validation import (
    FrequencyLike,
    NoiseLike,
    NumberLike,
    frequency,
    guard_band,
    is_whole,
    plain_number,
    positive_number,
)

if TYPE_CHECKING:
    from astropy.table import QTable

    from jfstat.sfts.parts import PartsOfSFTs

PARAMETERS = (*(spin_name(k) for k in range(MOST_DERIVATIVES + 1)), *SKY, *MOTION_FIELDS, *ORBIT_FIELDS)
"""All parameters that a pulsar's template may have, in the order of columns."""


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
def search_pulsar_bands(
    sfts: SFTs | str | os.PathLike | Sequence[str | os.PathLike],
    pulsars: Pulsar | Iterable[Pulsar],
    freq_band: FrequencyLike,
    f1dot_band: NumberLike = 0.0,
    top: int = 1,
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
    """Search a band around each of some known pulsars: their signals may differ a little from their rotation.

    Position, orbit and higher derivatives are the pulsars'. f1dot lies on a flat grid centred on the pulsar's, with
    steps of 1/(2T^2); frequencies are 1/(2T) apart over the band about the pulsar's.

    Parameters
    ----------
    sfts, pulsars
        As for `search_pulsars`. Pulsars with a glitch during the data are refused: choose times by `start` and `end`.
    freq_band : float or Quantity
        Full width of the band in frequency, Hz.
    f1dot_band : float or Quantity
        Full width of the range of f1dot, Hz/s.
    top : int
        Rows of each pulsar: its loudest candidates.
    sqrt_sx, reftime, ephemeris, guard, harmonic, fstar0, olgx, detectors, start, end, check_crc, off_source, progress
        As for `search_pulsars`.

    Returns
    -------
    QTable
        The columns of `search`, and ``name``, ``false_alarm`` (of the row's 2F as the loudest of the pulsar's band),
        ``n_twoF`` (the number of values of 2F in that band), ``phase_error`` as in `search_pulsars`, ``ephemeris``.

    Raises
    ------
    OSError
        If a file cannot be read.
    TypeError
        If `sfts` or `pulsars` are of another kind.
    ValueError
        If an argument is out of range, or a pulsar cannot be searched; the message names it.
    """
    known = check_pulsars(pulsars)
    width, room = frequency(freq_band, "freq_band"), guard_band(guard)
    harmonic = positive_number(harmonic, "harmonic", HARMONIC)
    spin_width = plain_number(f1dot_band, "f1dot_band", "a width in Hz/s", "Hz/s")
    if not (width >= 0 and spin_width >= 0 and np.isfinite(spin_width)):
        raise ValueError("freq_band and f1dot_band must be finite and not negative: give full widths in Hz and Hz/s.")
    if not is_whole(top) or top < 1:
        raise ValueError(f"top must be a whole number of at least 1, not {top!r}.")
    left_out = checked_off_source(off_source, MEDIAN_BINS)
    parts = pulsar_parts(sfts, detectors, start, end)
    times = parts.times
    reference = gps_time(times.start if reftime is None else reftime, "reftime")
    around = room if sqrt_sx is not None else max(room, (floor_reach(MEDIAN_BINS, left_out) + 1) / times.tsft)
    from astropy import units

    warn_of_ephemerides(known, ephemeris)
    details, tables = Details(line_prior=LinePrior(fstar0, None if olgx is None else tuple(olgx))), []
    with progress_bar(len(known), progress, "search", "pulsars") as advance:
        for pulsar in known:
            try:
                point, errors = pulsar.doppler_and_error(times.start, times.end, harmonic)
                point = moved_to(point, reference)
                f, spins = float(point.fkdot[0]), np.asarray(point.fkdot)
                f1dot = spins[1] if len(spins) > 1 else 0.0
                edges = f - 0.5 * width, f + 0.5 * width
                fdots = [(f1dot - 0.5 * spin_width, f1dot + 0.5 * spin_width), *((x, x) for x in spins[2:])]
                since = float(times.start - float(reference))
                drift = drift_range(fdots, since, since + times.end - times.start)
                reach = float(doppler_speed(point.orbit)) * edges[1] + around + 4 / times.tsft
                own = _band_of(parts, edges[0] + drift[0] - reach, edges[1] + drift[1] + reach, check_crc)
                own_tables = ephemeris_of(pulsar, ephemeris)
                data = prepare(
                    own,
                    *edges,
                    reference,
                    sqrt_sx,
                    own_tables,
                    room,
                    orbit=point.orbit,
                    fdots=fdots,
                    off_source=left_out,
                )
                bank = _bank(point, f1dot, spin_width, float(data.tspan))
                found: Any = search(
                    data,
                    bank,
                    top=top,
                    progress=False,
                    details=details,
                )
            except ValueError as error:
                raise ValueError(f"pulsar {pulsar.name}: {error}") from None
            found["phase_error"] = np.full(len(found), sum(errors.values())) * units.cycle
            found["false_alarm"] = np.asarray(false_alarm(found["twoF"], found.meta["n_twoF"]))
            found["n_twoF"] = np.full(len(found), found.meta["n_twoF"])
            found["ephemeris"] = [found.meta["ephemeris"]] * len(found)
            found.add_column([pulsar.name] * len(found), name="name", index=0)
            tables.append(found)
            advance(1)
    return _together(tables, width, spin_width, harmonic)


def _bank(point: Doppler, f1dot: float, width: float, tspan: float) -> Doppler:
    """The pulsar's template at each f1dot of a flat grid about its own."""
    step = 1 / (2 * tspan**2)
    half = int(0.5 * width / step)
    f1dots = f1dot + step * np.arange(-half, half + 1)
    fkdot = np.tile(np.pad(np.asarray(point.fkdot), (0, max(0, 2 - len(point.fkdot)))), (len(f1dots), 1))
    fkdot[:, 1] = f1dots
    return Doppler(point.alpha, point.delta, fkdot, point.reftime, point.orbit, motion=point.motion)


def _band_of(parts: PartsOfSFTs, low: float, high: float, check_crc: bool) -> SFTs:
    """The SFTs over a band, as far as they go."""
    tsft = parts.times.tsft
    first, last = max(int(low * tsft), parts.first_bin), min(int(np.ceil(high * tsft)), parts.last_bin)
    if first > last:
        raise ValueError(f"the SFTs do not hold {low:.10g} to {high:.10g} Hz: name other files.")
    series = tuple(
        replace(s, data=parts.read(s.detector, slice(0, len(s)), first, last, check_crc)) for s in parts.times
    )
    return SFTs(series, tsft, first)


def _together(tables: list[Any], freq_band: float, f1dot_band: float, harmonic: float) -> QTable:
    """One table of all; isolated pulsars beside binaries get an orbit of asini 0, and all the same derivatives."""
    from astropy.table import vstack
    from astropy.units import Quantity

    # the widest set of parameters, then the columns of results
    parameters = [name for name in PARAMETERS if any(name in table.colnames for table in tables)]
    names = ["name", *parameters, *(x for x in tables[0].colnames if x != "name" and not is_parameter(x))]
    for table in tables:
        for name in names:
            if name not in table.colnames:
                table[name] = Quantity(np.zeros(len(table)), unit(name)) if unit(name) else np.zeros(len(table))
    kept = ("version", "reftime", "detectors", "start", "tspan", "tsft", "n_sfts", "Fstar0", "oLGX")
    meta = {name: tables[0].meta[name] for name in kept}
    ephemerides = {table.meta["ephemeris"] for table in tables}
    meta |= {
        "ephemeris": ephemerides.pop() if len(ephemerides) == 1 else "by row",
        "parameters": ["freq", "f1dot"] if f1dot_band else ["freq"],
        "freq_band": freq_band,
        "f1dot_band": f1dot_band,
        "harmonic": harmonic,
        "n_twoF": sum(table.meta["n_twoF"] for table in tables),
    }
    together: Any = vstack([table[names] for table in tables], metadata_conflicts="silent")
    together.meta.clear()
    together.meta.update(meta)
    return together
