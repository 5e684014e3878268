"""Search a narrow band of frequency and spin-down around each of some known pulsars."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from jfstat.candidates.details import Details
from jfstat.candidates.falsealarm import false_alarm
from jfstat.candidates.provenance import Provenance, joint_ephemeris
from jfstat.data.prepare import prepare
from jfstat.geometry.doppler import doppler_speed, drift_range
from jfstat.pulsars.pulsar import MOST_DERIVATIVES, Pulsar
from jfstat.searching.knownpulsars import PulsarBand, PulsarSearch, ephemeris_of, moved_to
from jfstat.searching.search import search
from jfstat.searching.session.progress import progress_bar
from jfstat.sfts.container import SFTs
from jfstat.signal.parameters import MOTION_FIELDS, ORBIT_FIELDS, SKY, is_parameter, spin_name, unit
from jfstat.signal.templates import Doppler

if TYPE_CHECKING:
    from astropy.table import QTable

    from jfstat.sfts.parts import PartsOfSFTs

PARAMETERS = (*(spin_name(k) for k in range(MOST_DERIVATIVES + 1)), *SKY, *MOTION_FIELDS, *ORBIT_FIELDS)
"""All parameters that a pulsar's template may have, in the order of columns."""


def banded(known: PulsarSearch) -> QTable:
    """Compute the table of `search_pulsars` for a band around each pulsar.

    Raises
    ------
    ValueError
        If a pulsar cannot be searched; the message names it.
    """
    times, noise = known.parts.times, known.noise
    estimated = None in noise.floors(times.detectors)
    around = max(known.guard, (noise.reach + 1) / times.tsft) if estimated else known.guard
    tables = []
    with progress_bar(len(known.pulsars), known.progress, "search", "pulsars") as advance:
        for pulsar in known.pulsars:
            try:
                tables.append(_found(pulsar, known, around))
            except ValueError as error:
                raise ValueError(f"pulsar {pulsar.name}: {error}") from None
            advance(1)
    return _together(tables, known.band)


def _found(pulsar: Pulsar, known: PulsarSearch, around: float) -> Any:
    """Return the loudest candidates of one pulsar's band, from data that extend `around`, Hz, beyond it."""
    from astropy import units

    band, times, reftime = known.band, known.parts.times, known.reftime
    width, spin_width = float(band.freq), float(band.f1dot)  # type: ignore[arg-type]
    point, errors = pulsar.doppler_and_error(times.start, times.end, band.harmonic)
    point = moved_to(point, reftime)
    f, spins = float(point.fkdot[0]), np.asarray(point.fkdot)
    f1dot = spins[1] if len(spins) > 1 else 0.0
    edges = f - 0.5 * width, f + 0.5 * width
    fdots = [(f1dot - 0.5 * spin_width, f1dot + 0.5 * spin_width), *((x, x) for x in spins[2:])]
    since = float(times.start - float(reftime))
    drift = drift_range(fdots, since, since + times.end - times.start)
    reach = float(doppler_speed(point.orbit)) * edges[1] + around + 4 / times.tsft
    sfts = _band_of(known.parts, edges[0] + drift[0] - reach, edges[1] + drift[1] + reach)
    tables = ephemeris_of(pulsar, known.ephemeris)
    data = prepare(sfts, *edges, reftime, known.noise, tables, known.guard, orbit=point.orbit, fdots=fdots)
    bank = _bank(point, f1dot, spin_width, float(data.tspan))
    details = Details(line_prior=known.line_prior if len(data.detectors) > 1 else None)
    found: Any = search(data, bank, top=band.top, progress=False, details=details)
    n = len(found)
    found.remove_column("template")  # the index into a bank that no user has
    found["false_alarm"] = np.asarray(false_alarm(found["twoF"], found.meta["n_twoF"]))
    found["n_twoF"] = np.full(n, found.meta["n_twoF"])
    found["phase_error"] = np.full(n, sum(errors.values())) * units.cycle
    found["start"], found["end"] = np.full(n, float(times.start)) * units.s, np.full(n, times.end) * units.s
    found["ephemeris"] = [found.meta["ephemeris"]] * n
    found.add_column([pulsar.name] * n, name="name", index=0)
    return found


def _bank(point: Doppler, f1dot: float, width: float, tspan: float) -> Doppler:
    """Return the pulsar's template at each f1dot of a flat grid centred on its own."""
    step = 1 / (2 * tspan**2)
    half = int(0.5 * width / step)
    f1dots = f1dot + step * np.arange(-half, half + 1)
    fkdot = np.tile(np.pad(np.asarray(point.fkdot), (0, max(0, 2 - len(point.fkdot)))), (len(f1dots), 1))
    fkdot[:, 1] = f1dots
    return Doppler(point.alpha, point.delta, fkdot, point.reftime, point.orbit, motion=point.motion)


def _band_of(parts: PartsOfSFTs, low: float, high: float) -> SFTs:
    """Return the SFTs within a band, as far as they cover it."""
    tsft = parts.times.tsft
    first, last = max(int(low * tsft), parts.first_bin), min(int(np.ceil(high * tsft)), parts.last_bin)
    if first > last:
        raise ValueError(f"the SFTs do not hold {low:.10g} to {high:.10g} Hz: name other files.")
    series = tuple(replace(s, data=parts.read(s.detector, slice(0, len(s)), first, last)) for s in parts.times)
    return SFTs(series, tsft, first)


def _together(tables: list[Any], band: PulsarBand) -> QTable:
    """Return one table of all pulsars, with equal columns: isolated pulsars beside binaries get an orbit of asini 0."""
    from astropy.table import vstack
    from astropy.units import Quantity

    # the widest set of parameters, then the columns of results
    parameters = [name for name in PARAMETERS if any(name in table.colnames for table in tables)]
    names = ["name", *parameters, *(x for x in tables[0].colnames if x != "name" and not is_parameter(x))]
    for table in tables:
        for name in names:
            if name not in table.colnames:
                table[name] = Quantity(np.zeros(len(table)), unit(name)) if unit(name) else np.zeros(len(table))
    origins = [Provenance.of(table, "ephemeris") for table in tables]
    together_from = replace(
        origins[0],
        ephemeris=joint_ephemeris([str(own.ephemeris) for own in origins]),
        parameters=("freq", "f1dot") if np.any(band.f1dot) else ("freq",),
        sqrt_sx=None,  # each band has its own
    )
    meta = together_from.meta | {
        "Fstar0": tables[0].meta["Fstar0"],
        "oLGX": tables[0].meta["oLGX"],
        "freq_band": band.freq,
        "f1dot_band": band.f1dot,
        "harmonic": band.harmonic,
        "n_twoF": sum(table.meta["n_twoF"] for table in tables),
    }
    together: Any = vstack([table[names] for table in tables], metadata_conflicts="silent")
    together.meta.clear()
    together.meta.update(meta)
    return together
