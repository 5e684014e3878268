"""Look for LIGO's hardware injections in SFTs and compare them with what was injected: `check_hardware_injections`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import numpy as np

from jfstat import kinds
from jfstat.candidates.provenance import Provenance
from jfstat.candidates.tables import in_units
from jfstat.data.narrowsfts import narrow_sfts
from jfstat.data.noise import Noise, NoiseLike
from jfstat.data.observation import Observation, reference_time, unweighted
from jfstat.geometry.doppler import doppler_speed
from jfstat.geometry.ephemeris import EphemerisLike
from jfstat.public import host
from jfstat.pulsars.hardware import DETECTORS, RUNS, Injection, injections_of, run_between, run_of
from jfstat.searching.knownpulsars import moved_to, parts_of
from jfstat.searching.session.progress import progress_bar
from jfstat.searching.targeted import EDGE_BINS
from jfstat.sfts.container import SFTs
from jfstat.sfts.parts import Between, PartsOfSFTs
from jfstat.sfts.reading import SFTFiles
from jfstat.signal.parameters import ORBIT_FIELDS, SKY
from jfstat.signal.templates import Doppler
from jfstat.signal.times import GPSTime, TimeLike
from jfstat.statistic.likelihood import AmplitudeLikelihood, likelihood_of_each
from jfstat.validation import FrequencyLike, NumberLike, guard_band, plain_number
from jfstat.version import __version__

if TYPE_CHECKING:
    from astropy.table import QTable

OFF_SOURCE = 10
"""Bins on each side that the default noise floor leaves out: injections are loud in each SFT."""
DEVIATIONS = 4.0
"""Standard deviations of noise by which the amplitude of an injection may differ beyond the tolerance."""


@dataclass(frozen=True, eq=False)
class Recovered:
    """An injection as it is found in SFTs.

    Attributes
    ----------
    injection : Injection
    rho2 : (1 + D,) float64 ndarray
        Square of the expected signal-to-noise ratio, of all detectors together and of each.
    ratio : (1 + D,) complex128 ndarray
        <x|h>/<h|h>, the complex amplitude of the data along the injected signal: 1 if it is there as injected.
    twoF : (1 + D,) float64 ndarray
    """

    injection: Injection
    rho2: np.ndarray
    ratio: np.ndarray
    twoF: np.ndarray

    def agrees(self, tolerance: float) -> bool:
        """Return whether the complex amplitude is 1 within a tolerance and the noise."""
        return bool(abs(self.ratio[0] - 1) <= tolerance + DEVIATIONS / np.sqrt(self.rho2[0]))


@host(run=kinds.time, ephemeris=kinds.ephemeris, progress=kinds.flag)
def check_hardware_injections(
    sfts: SFTs | Sequence[SFTs] | SFTFiles | str | os.PathLike | Sequence[str | os.PathLike],
    run: str | TimeLike | None = None,
    *,
    sqrt_sx: NoiseLike | None = None,
    ephemeris: EphemerisLike | None = None,
    guard: FrequencyLike = 1.0,
    tolerance: NumberLike = 0.1,
    progress: bool = False,
) -> QTable:
    """Look for the hardware injections of a run in SFTs, and compare 2F, amplitude and phase with what was injected.

    The signals are known, so that the data are filtered with each of them. The result <x|h>/<h|h> is a complex number:
    its modulus is the found over the injected amplitude, its argument the found less the injected phase, both with a
    standard deviation of 1/rho in noise. Unlike h0, cosi, psi and phi0 by themselves it is not degenerate. In real data
    it also shows errors of the actuators and of the calibration: per cents of amplitude, and some degrees of phase.

    Parameters
    ----------
    sfts : SFTs, several SFTs, SFTFiles, or a pattern of files as for `read_sfts`
        SFTs, of which LIGO's detectors count; several SFTs are of different bands, as from `hardware_injection_sfts`.
        Files are read in parts as needed.
    run : str, float, Time or GPSTime, optional
        See `hardware_injections`; by default the run that holds all of the data.
    sqrt_sx : float, sequence, mapping or Noise, optional
        Noise floor; see `prepare`. By default it is estimated from 1001 bins that are more than ten bins away from the
        signal, or from fewer if the SFTs are narrower.
    ephemeris : str or two paths, optional
        See `load_ephemeris`; by default the one with which the run's signals were made.
    guard : float or Quantity
        Width of the SFTs to use on each side of a signal, Hz; less if the SFTs have less.
    tolerance : float
        Largest |<x|h>/<h|h> - 1| that is taken for an error of actuators and calibration.
    progress : bool
        Whether to show the rate and the time left.

    Returns
    -------
    QTable
        A row for each injection that the SFTs' bands hold. Columns: ``name``; the parameters of the template at
        ``meta["reftime"]``, the start of the data; ``expected_twoF``, 4 + rho^2, and its standard deviation
        ``expected_twoF_error``, sqrt(8 + 4 rho^2); ``twoF``; ``h0_injected``; ``h0``, the found amplitude with the
        injected orientation, and ``h0_error``; ``phase_difference`` and ``phase_difference_error``; ``pull_twoF``,
        ``pull_h0`` and ``pull_phase``, the differences from what was injected in standard deviations; ``agrees``,
        whether |<x|h>/<h|h> - 1| is at most `tolerance` + 4/rho. With several detectors also ``twoF_H1``, ``h0_H1``,
        ``h0_H1_error``, ``phase_difference_H1``, ... of each. meta: ``run``, ``tolerance``, and ``left_out``, the
        injections whose signal the SFTs do not hold.

    Raises
    ------
    OSError
        If a file cannot be read.
    TypeError
        If an argument is of another kind.
    ValueError
        If the data are of no run or detector with injections, hold no injection's signal, or an argument is out of
        range.

    Notes
    -----
    2F is non-central chi^2 with 4 degrees of freedom.

    Examples
    --------
    >>> row = jfstat.hardware_injections("O3")[3]
    >>> amplitude = jfstat.Amplitude(1e-23, row["cosi"], row["psi"], row["phi0"])
    >>> start, f = 1238166018, 108.857
    >>> noise = jfstat.simulate_sfts(["H1"], start, 36000, f - 0.5, f + 0.5, sqrt_sx=1e-23, seed=1)
    >>> loud = jfstat.inject(noise, [(jfstat.Doppler.from_row(row), amplitude)])
    >>> found = jfstat.check_hardware_injections(loud)  # as injected, but for h0
    >>> print(found["name"][0], found["agrees"][0], round(found["h0"][0] / 1e-23, 1))
    PULSAR03 False 1.0
    """
    width, allowed = guard_band(guard), float(plain_number(tolerance, "tolerance", "a part of the amplitude", ""))
    if not 0 <= allowed < np.inf:
        raise ValueError(f"tolerance must be at least 0 and finite, not {allowed:g}: give a part of the amplitude.")
    bands = [_of_ligo(parts) for parts in _bands(sfts)]
    start, end = _times(bands)
    name = the_run(run, start, end, "sfts")
    tables = RUNS[name].ephemeris if ephemeris is None else ephemeris
    reftime = reference_time(None, start)
    known = injections_of(name)
    places = [_place(x.point, bands, reftime, end) for x in known]
    held = [(x, place) for x, place in zip(known, places, strict=True) if place is not None]
    if not held:
        each = [(x.first_bin / x.times.tsft, (x.last_bin + 1) / x.times.tsft) for x in bands]
        words = " and ".join(f"{low:.10g} to {high:.10g}" for low, high in each)
        raise ValueError(f"sfts cover {words} Hz, which holds no hardware injection of {name}: give other SFTs.")
    found, observations = [], {}
    with progress_bar(len(held), progress, "search", "injections") as advance:
        for injection, place in held:
            parts = bands[place]
            noise = _noise(sqrt_sx, parts)
            if place not in observations:
                observations[place] = unweighted(parts.times, reftime, tables)
            found.append(_recovered(injection, parts, observations[place], noise, width))
            advance(1)
    origin = Provenance(
        version=__version__,
        reftime=reftime.plain,
        detectors=tuple(bands[0].times.detectors),
        ephemeris=tables if isinstance(tables, str) else str(getattr(tables, "name", "files")),
        start=start,
        tspan=end - start,
        parameters=("freq",),
        tsft=bands[0].times.tsft,
        n_sfts=tuple(len(series) for series in bands[0].times),
    )
    left_out = [x.name for x, place in zip(known, places, strict=True) if place is None]
    meta = origin.meta | {"run": name, "tolerance": allowed, "left_out": left_out}
    return _table(found, reftime, bands[0].times.detectors, allowed, meta)


def _bands(sfts: object) -> list[PartsOfSFTs]:
    """Return the SFTs that a user gave, those of each band."""
    if isinstance(sfts, (list, tuple)) and sfts and all(isinstance(x, SFTs) for x in sfts):
        return [parts_of(x) for x in sfts]
    return [parts_of(sfts)]


def _of_ligo(parts: PartsOfSFTs) -> PartsOfSFTs:
    """Return the SFTs of LIGO's detectors.

    Raises
    ------
    ValueError
        If there are none.
    """
    names = parts.times.detectors
    own = [name for name in names if name in DETECTORS]
    if not own:
        raise ValueError(
            f"sfts are of {' and '.join(names)}, and only {', '.join(DETECTORS)} have hardware injections: give other "
            "SFTs."
        )
    return parts if len(own) == len(names) else Between(parts, parts.times.select(detectors=own), dict.fromkeys(own, 0))


def _times(bands: list[PartsOfSFTs]) -> tuple[int, float]:
    """Return start and end of the data, GPS s, which all bands must share.

    Raises
    ------
    ValueError
        If they have different detectors or times.
    """
    first = bands[0].times
    for parts in bands[1:]:
        same = parts.times.detectors == first.detectors and parts.times.tsft == first.tsft
        if not same or any(not np.array_equal(a.gps, b.gps) for a, b in zip(parts.times, first, strict=True)):
            raise ValueError("sfts of several bands must have the same detectors and times: join others by join_sfts.")
    return first.start, first.end


def the_run(run: str | TimeLike | None, start: float, end: float, what: str) -> str:
    """Return the name of the run that a user gave, or of the one that holds data from start to end, GPS s.

    Raises
    ------
    ValueError
        If there is none; `what` is the argument with the data.
    """
    if run is not None:
        return run_of(run)
    found = run_between(start, end)
    if found is None:
        known = ", ".join(f"{name} ({own.start} to {own.end})" for name, own in RUNS.items())
        raise ValueError(
            f"{what} from GPS {start:.10g} to {end:.10g} do not lie in one run with known injections, {known}: select "
            "times in one, or name it as run."
        )
    return found


def edges(point: Doppler, reftime: GPSTime, end: float) -> tuple[float, float]:
    """Return the lowest and highest frequency at the detectors from `reftime` to `end`, GPS s, of a template."""
    moved = moved_to(point, reftime)
    f, drift = float(moved.fkdot[0]), float(moved.fkdot[1]) * (end - float(reftime))
    speed = float(doppler_speed(point.orbit)) * 1.001
    return (f + min(drift, 0.0)) * (1 - speed), (f + max(drift, 0.0)) * (1 + speed)


def _place(point: Doppler, bands: list[PartsOfSFTs], reftime: GPSTime, end: float) -> int | None:
    """Return the number of the band in which a signal lies furthest from the ends, None if it lies in none."""
    low, high = edges(point, reftime, end)
    rooms = []
    for parts in bands:
        tsft = parts.times.tsft
        room = min(low - parts.first_bin / tsft, (parts.last_bin + 1) / tsft - high)
        rooms.append(room * tsft)
    best = int(np.argmax(rooms))
    return best if rooms[best] >= EDGE_BINS else None


def _noise(sqrt_sx: NoiseLike | None, parts: PartsOfSFTs) -> Noise:
    """Return the noise floor that a user gave, or the default for SFTs with so many bins."""
    if sqrt_sx is not None:
        noise = Noise.of(sqrt_sx)
        noise.require_middle()
        return noise.by_detector(parts.times.detectors)
    return Noise.steady(parts.last_bin - parts.first_bin + 1, OFF_SOURCE)


def _recovered(
    injection: Injection, parts: PartsOfSFTs, observation: Observation, noise: Noise, guard: float
) -> Recovered:
    """Return an injection as it is found in SFTs."""
    point = injection.point
    try:
        near = narrow_sfts(parts, [point], observation, noise, guard)[0]
    except ValueError as error:
        raise ValueError(f"injection {injection.name}: {error}") from None
    each: AmplitudeLikelihood = jax.tree.map(lambda x: np.asarray(x)[0], _likelihood(near, point))
    both = jax.tree.map(lambda x: np.concatenate([[np.sum(x)], x]), each)
    a1, a2, a3, a4 = np.asarray(injection.amplitude.canonical)
    # <x|h> with the phase as a factor: the real part is the likelihood's linear term
    filtered = (a1 + 1j * a3) * both.xa + (a2 + 1j * a4) * both.xb
    A, B, C = both.fisher
    power = A * (a1**2 + a3**2) + B * (a2**2 + a4**2) + 2 * C * (a1 * a2 + a3 * a4)
    return Recovered(injection, power, filtered / power, np.asarray(both.twoF))


_likelihood = jax.jit(likelihood_of_each)


def _table(found: list[Recovered], reftime: GPSTime, detectors: Sequence[str], tolerance: float, meta: dict) -> QTable:
    """Return the table of `check_hardware_injections`."""
    points = [moved_to(x.injection.point, reftime) for x in found]
    values: dict[str, np.ndarray] = {
        name: np.array([float(x.fkdot[k]) for x in points]) for k, name in enumerate(("freq", "f1dot"))
    }
    values |= {name: np.array([float(getattr(x, name)) for x in points]) for name in SKY}
    if any(x.orbit is not None for x in points):
        for name in ORBIT_FIELDS:
            values[name] = np.array([0.0 if x.orbit is None else float(getattr(x.orbit, name)) for x in points])
    rho2, ratio, twoF = (np.stack([getattr(x, name) for x in found]) for name in ("rho2", "ratio", "twoF"))
    h0, rho = np.array([float(x.injection.amplitude.h0) for x in found]), np.sqrt(rho2)
    size, angle = np.abs(ratio), np.angle(ratio)
    deviation = np.sqrt(8 + 4 * rho2[:, 0])
    values |= {"expected_twoF": 4 + rho2[:, 0], "expected_twoF_error": deviation, "twoF": twoF[:, 0]}
    values |= {"h0_injected": h0, "h0": h0 * size[:, 0], "h0_error": h0 / rho[:, 0]}
    values |= {"phase_difference": angle[:, 0], "phase_difference_error": 1 / rho[:, 0]}
    values["pull_twoF"] = (twoF[:, 0] - values["expected_twoF"]) / deviation
    values |= {"pull_h0": (size[:, 0] - 1) * rho[:, 0], "pull_phase": angle[:, 0] * rho[:, 0]}
    values["agrees"] = np.array([x.agrees(tolerance) for x in found])
    for i, name in enumerate(detectors if len(detectors) > 1 else (), 1):
        values |= {f"twoF_{name}": twoF[:, i], f"h0_{name}": h0 * size[:, i], f"h0_{name}_error": h0 / rho[:, i]}
        values[f"phase_difference_{name}"] = angle[:, i]
    table = in_units(values, meta)
    table.add_column([x.injection.name for x in found], name="name", index=0)
    return table
