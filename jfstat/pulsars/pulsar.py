"""A known pulsar: its timing solution, and the template of its signal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import factorial, hypot

import numpy as np

from jfstat import kinds
from jfstat.maths.vectors import angles, unit_vector
from jfstat.public import public
from jfstat.pulsars.binary import Binary, binary_of
from jfstat.pulsars.entries import Entries, epoch, in_tdb, number, short, to_decimal
from jfstat.pulsars.glitch import Glitch, cycles_since, glitches_of, taylor_shifted
from jfstat.signal.constants import ARCSEC, ASTRONOMICAL_UNIT, MAS_PER_YEAR, PARSEC, SPEED_OF_LIGHT
from jfstat.signal.templates import Doppler, Orbit
from jfstat.signal.times import GPSTime, TimeLike, gps_time
from jfstat.validation import positive_number

QUADRUPOLE = 2.0
"""Ratio of the frequency of gravitational waves from a deformed, rotating star to its rotation frequency."""
HARMONIC = "the signal's frequency over the rotation's, 2 as a rule"
"""Description of the argument `harmonic`, for error messages."""
MOST_HARMONICS = 1000
OBLIQUITY = {"IERS2010": 84381.406, "IERS2003": 84381.4059, "IERS1992": 84381.412, "DE405": 84381.40578}
"""Obliquity of the ecliptic in arcsec by the name in ``ECL``."""
MOST_DERIVATIVES = 12
ROUNDED = 0.51
"""Largest error of a rounded number, in units of its last digit."""
AGREEMENT = (1e-3, 0.2)
"""Largest relative differences of F0 and F1 from what P0 and P1 say, however few digits are written."""
SAME = 1e-12
"""Largest relative difference of numbers that are the same but for the rounding of float64."""
POSITIONS = {"RAJ": "DECJ", "RAJD": "DECJD", "ELONG": "ELAT"}
"""Second coordinate of each kind of position."""
SINGLE = re.compile(r"WX(SIN|COS)_\d+|WAVE_(SIN|COS)\d+|(EXPDIP|CHROMGAUSS_)AMP_\d+")
"""Amplitudes of timing noise and of events, s, but those of ``WAVE1``, ..., which are pairs."""
LARGE_PHASE_ERROR = 0.03
"""Largest error of a template's phase, in cycles, that costs no more of a signal than could be seen."""
DECAY_ORDERS = 4
"""Number of derivatives that follow the decay of a glitch."""


@dataclass(frozen=True)
class Pulsar:
    """The timing solution of a pulsar; see `read_par` and `read_pulsars`.

    Attributes
    ----------
    name : str
    spins : tuple of float
        Rotation frequency and its derivatives at `epoch`, Hz, Hz/s, ...
    epoch : GPSTime
        Epoch ``PEPOCH`` as a GPS time in the SSB, exact to the nanosecond.
    alpha, delta : float
        Position at `position_epoch`, equatorial J2000, rad.
    motion : (float, float)
        Proper motion in right ascension times cos(delta), and in declination, rad/s.
    position_epoch : GPSTime
    parallax : float
        Parallax, rad; 0 if unknown.
    binary : Binary or None
    glitches : tuple of Glitch
        Glitches in the order of time.
    waves : float
        Sum of the amplitudes of ``WAVE1``, ..., the sines that follow timing noise, and of events, s; 0 without any.
    ephemeris : str or None
        Solar-system ephemeris of the solution.
    entries : Entries or None
        Entries of a .par file, with their errors; see `timing_errors`. Pulsars that differ in them alone are equal.
    """

    name: str
    spins: tuple[float, ...]
    epoch: GPSTime
    alpha: float
    delta: float
    motion: tuple[float, float]
    position_epoch: GPSTime
    parallax: float
    binary: Binary | None
    glitches: tuple[Glitch, ...]
    waves: float
    ephemeris: str | None
    entries: Entries | None = field(default=None, repr=False, compare=False)

    @public(start=kinds.time, end=kinds.time)
    def doppler(
        self, start: TimeLike | None = None, end: TimeLike | None = None, harmonic: float = QUADRUPOLE
    ) -> Doppler:
        """Return the template of the pulsar's signal.

        Frequency, position and proper motion hold at the pulsar's `epoch`, so that phases agree with the solution. The
        orbit is the Keplerian orbit closest to the solution during the data: with post-Keplerian parameters no
        Keplerian orbit is exact, and `phase_error` gives the error.

        Parameters
        ----------
        start, end : float, str, Time or GPSTime, optional
            GPS times between which the template will be used, s. They are needed for pulsars with glitches or with
            orbits that change; other pulsars have the same template at all times.
        harmonic : float
            Frequency of the signal over the rotation frequency.

        Returns
        -------
        Doppler

        Raises
        ------
        ValueError
            If there is a glitch between `start` and `end`, or the pulsar has glitches and `start` and `end` are not
            given.
        """
        return self.doppler_and_error(start, end, harmonic)[0]

    @public(start=kinds.time, end=kinds.time)
    def phase_error(self, start: TimeLike, end: TimeLike, harmonic: float = QUADRUPOLE) -> dict[str, float]:
        """Return the largest errors of the phase of `doppler` between two times, in cycles, by their causes.

        A cause is a part of the solution that a template does not have: ``binary`` (secular changes and relativistic
        delays, less what the closest Keplerian orbit follows), ``parallax`` (the orbit's annual one too), ``waves``
        (of timing noise, and events) and ``glitch`` (its decay beyond the template's derivatives). A
        constant phase does not count, because the initial phase is free.
        """
        return self.doppler_and_error(start, end, harmonic)[1]

    def doppler_and_error(
        self,
        start: TimeLike | None,
        end: TimeLike | None,
        harmonic: float,
        orbit_times: tuple[float, float] | None = None,
    ) -> tuple[Doppler, dict[str, float]]:
        """Return the results of `doppler` and `phase_error`, with a single fit of the orbit.

        With `orbit_times` the orbit is the closest one between two other times: templates of parts of the data then
        have one orbit.
        """
        first, last = self._span(start, end)
        harmonic = positive_number(harmonic, "harmonic", HARMONIC)
        if harmonic > MOST_HARMONICS:
            raise ValueError(f"harmonic must be at most {MOST_HARMONICS}, not {harmonic:g}: it is {HARMONIC}.")
        during = (first, last) if orbit_times is None else self._span(*orbit_times)
        orbit, difference = (None, 0.0) if self.binary is None else self._orbit(*during)
        motion = self.motion if any(self.motion) else None
        point = Doppler(*self._position(), harmonic * self._spins(first, last), self.epoch, orbit, motion=motion)
        frequency = harmonic * self.spins[0]
        causes = {} if orbit is None else {"binary": frequency * difference}
        if self.parallax:  # negative ones are measured, too
            swing = 0.0 if self.binary is None else self.binary.swing
            causes["parallax"] = frequency * (0.25 * ASTRONOMICAL_UNIT / SPEED_OF_LIGHT + swing) * abs(self.parallax)
        if self.waves:
            causes["waves"] = frequency * self.waves
        half = 0.5 * float(last - first)
        decays = [glitch for glitch in self._before(first, last) if glitch.tau > 0]
        if decays:
            middle = first + half
            ages = [float(middle - glitch.time) / glitch.tau for glitch in decays]
            causes["glitch"] = harmonic * sum(
                abs(g.decaying) * g.tau * _rest(half / g.tau, age) for g, age in zip(decays, ages, strict=True)
            )
        return point, causes

    def _span(self, start: TimeLike | None, end: TimeLike | None) -> tuple[GPSTime, GPSTime]:
        if (start is None) != (end is None):
            raise ValueError("start and end of the data go together: give both, or neither.")
        if start is None or end is None:
            if self.glitches:
                raise ValueError(f"start and end are missing: {self.name} has glitches, so say when it is observed.")
            return self.epoch, self.epoch
        first, last = gps_time(start, "start"), gps_time(end, "end")
        if float(last - first) < 0:
            raise ValueError(f"start={first} must be before end={last}: correct them.")
        return first, last

    def _position(self) -> tuple[float, float]:
        """Return right ascension and declination at `epoch`, rad."""
        n, velocity = unit_vector(self.alpha, self.delta), _velocity(self.alpha, self.delta, self.motion)
        alpha, delta = angles(n + velocity * float(self.epoch - self.position_epoch))
        return float(alpha), float(delta)

    def _before(self, first: GPSTime, last: GPSTime) -> list[Glitch]:
        """Return the glitches before the data."""
        for glitch in self.glitches:
            if float(first) < float(glitch.time) < float(last):
                raise ValueError(
                    f"{self.name} has a glitch at GPS {glitch.time} between start and end: search the data before and "
                    "after it apart."
                )
        return [glitch for glitch in self.glitches if float(glitch.time) <= float(first)]

    def glitch_cycles(self, start: TimeLike, end: TimeLike, at: GPSTime) -> float:
        """Return the phase that glitches before the data add to the solution, in cycles of the rotation.

        It is extrapolated from the data, between `start` and `end`, to the time `at`, and is that of the solution where
        the template's phase would be as without glitches.
        """
        first, last = self._span(start, end)
        glitches = self._before(first, last)
        if not glitches:
            return 0.0
        middle, added = self._added(glitches, first, last)
        return sum(glitch.cycles(middle) for glitch in glitches) + cycles_since(added, float(at - middle))

    def _added(self, glitches: list[Glitch], first: GPSTime, last: GPSTime) -> tuple[GPSTime, np.ndarray]:
        """Return the middle of the data, and what glitches add there to the frequency and its derivatives, (n,)."""
        n = max(len(self.spins), 3, DECAY_ORDERS if any(glitch.tau > 0 for glitch in glitches) else 0)
        middle = first + 0.5 * float(last - first)
        return middle, sum((glitch.spins(middle, n) for glitch in glitches), np.zeros(n))

    def _spins(self, first: GPSTime, last: GPSTime) -> np.ndarray:
        """Return the rotation frequency and its derivatives at `epoch` that hold between two times."""
        glitches = self._before(first, last)
        if not glitches:
            return np.array(self.spins)
        # a decay is expanded at the middle of the data, and the series is propagated back to the epoch
        middle, added = self._added(glitches, first, last)
        n = len(added)
        spins = np.pad(np.array(self.spins), (0, n - len(self.spins)))
        return spins + taylor_shifted(added, float(self.epoch - middle), n)

    def _orbit(self, first: GPSTime, last: GPSTime) -> tuple[Orbit, float]:
        """Return the closest Keplerian orbit and the largest difference of delays."""
        binary = self.binary
        if binary is None:
            raise ValueError(f"{self.name} is isolated.")
        start, end = (float(time - binary.t0) for time in (first, last))
        return binary.orbit(start, end)


def pulsar_of(entries: Mapping[str, str], where: str) -> Pulsar:
    """Return the pulsar of a timing solution.

    Parameters
    ----------
    entries : dict of str to str
        Entries of a .par file or a row of a catalogue, by TEMPO2's names.
    where : str
        Name of the source of the entries, for error messages.

    Raises
    ------
    ValueError
        If an entry is missing, malformed or not understood.
    """
    try:
        known = in_tdb(entries)
        pulsar = _pulsar(known, where)
        known.require_all_taken(pulsar.binary.model if pulsar.binary else None)
        return replace(pulsar, entries=entries) if isinstance(entries, Entries) else pulsar
    except ValueError as error:
        raise ValueError(_told(str(error), entries, where)) from None


def pulsar_as_read(entries: Mapping[str, str], where: str) -> Pulsar:
    """Return the pulsar of a timing solution that was just read: as `pulsar_of`, without contradictions."""
    pulsar = pulsar_of(entries, where)
    refuse_contradictions(entries, where)
    return pulsar


def _told(message: str, entries: Mapping[str, str], where: str) -> str:
    """Return a message with its place, and with the names of entries as the user wrote them."""
    return f"{where}: {entries.as_written(message) if isinstance(entries, Entries) else message}"


def _pulsar(entries: Entries, where: str) -> Pulsar:
    window = entries.get("TRANSIENTWINDOWTYPE", "NONE")
    if window.upper() != "NONE":
        raise ValueError(
            f"TRANSIENTWINDOWTYPE is {short(window)}, of a signal that is there for a part of the data, and a pulsar's "
            "is taken to be there for all: give a solution without it, or its template to jfstat.transient_map."
        )
    spins = _spin_frequencies(entries)
    alpha, delta, motion = _sky(entries)
    needs = "POSEPOCH" if len(spins) == 1 and "PEPOCH" not in entries else "PEPOCH"
    if needs not in entries:
        raise ValueError("PEPOCH is missing: give the epoch of the frequency, an MJD in TDB.")
    own = epoch(entries, needs)
    return Pulsar(
        name=entries.get("NAME", re.sub(r"\.par$", "", where)),
        spins=spins,
        epoch=own,
        alpha=alpha,
        delta=delta,
        motion=motion,
        position_epoch=epoch(entries, "POSEPOCH") if "POSEPOCH" in entries else own,
        parallax=_parallax(entries),
        binary=binary_of(entries),
        glitches=glitches_of(entries),
        waves=_waves(entries),
        ephemeris=entries.get("EPHEM"),
    )


def _spin_frequencies(entries: Entries) -> tuple[float, ...]:
    """Return the rotation frequency and its derivatives, from F0, F1, ... or P0, P1."""
    orders = entries.numbered("F#")
    if orders and orders[-1] > MOST_DERIVATIVES:
        raise ValueError(f"F{orders[-1]} is beyond F{MOST_DERIVATIVES}, the highest derivative that is understood.")
    spins = [number(entries, f"F{k}") for k in range(max(orders, default=0) + 1)]
    for order, value in _from_period(entries, spins[0]):
        if f"F{order}" not in entries:
            spins += [0.0] * (order + 1 - len(spins))
            spins[order] = value
    if "F0" not in entries and "P0" not in entries:
        raise ValueError("F0 is missing: give the frequency of rotation in Hz, or P0 in s.")
    if not spins[0] > 0:
        raise ValueError("F0 is not positive: give the frequency in Hz.")
    return tuple(spins)


def _from_period(entries: Mapping[str, str], frequency: float) -> list[tuple[int, float]]:
    """Return the derivatives of the frequency that P0 and P1 give, with their orders.

    Parameters
    ----------
    entries : Entries
    frequency : float
        F0, if it is given, Hz.
    """
    found = []
    if "P0" in entries:
        found.append((0, 1 / number(entries, "P0")))
        frequency = frequency or found[0][1]
    if "P1" in entries:
        found.append((1, -_rate(entries) * frequency**2))
    return found


def _rate(entries: Mapping[str, str]) -> float:
    """Return P1, which is in units of 1e-15 where it is large, as in TEMPO."""
    rate = number(entries, "P1")
    return 1e-15 * rate if abs(rate) > 1e-7 else rate


def refuse_contradictions(entries: Mapping[str, str], where: str) -> None:
    """Raise a ValueError if P0 or P1 contradicts F0 or F1: they must agree to the digits that are written.

    Errors of a solution change one entry and not the other, so that this is asked of what is read only.
    """
    known = _from_period(entries, number(entries, "F0"))
    frequency = number(entries, "F0") or next((value for order, value in known if order == 0), 0.0)
    scale = _rate(entries) / (number(entries, "P1") or 1.0)
    for order, value in known:
        name, other = f"F{order}", f"P{order}"
        if name not in entries:
            continue
        rounding = frequency**2 * _rounding(entries, other) * (scale if order else 1.0)
        if order:
            given = "F0" in entries
            relative = _rounding(entries, "F0") / frequency if given else _rounding(entries, "P0") * frequency
            rounding += 2 * abs(value) * relative
        allowed = min(rounding + _rounding(entries, name), AGREEMENT[order] * abs(number(entries, name)))
        if abs(value - number(entries, name)) > allowed + SAME * abs(value):
            said = f"{other} contradicts {name}, of which it must be {value + 0.0:.9g}: leave one of them out."
            raise ValueError(_told(said, entries, where))


def _rounding(entries: Mapping[str, str], name: str) -> float:
    """Return the largest error of an entry that was rounded to the digits that are written; zeros are exact."""
    value = to_decimal(entries[name])
    return ROUNDED * 10.0 ** int(value.as_tuple().exponent) if value else 0.0


def _sky(entries: Entries) -> tuple[float, float, tuple[float, float]]:
    """Return right ascension, declination, rad, and proper motion, rad/s, from equatorial or ecliptic coordinates."""
    halves = [pair for pair in POSITIONS.items() if any(name in entries for name in pair)]
    if not any(all(name in entries for name in pair) for pair in halves):
        for first, second in halves:
            missing, given = (second, first) if first in entries else (first, second)
            raise ValueError(f"{missing} is missing: a position has {missing} beside {given}.")
    if "RAJ" in entries and "DECJ" in entries:
        alpha, delta = _radians(entries, "RAJ", "hours"), _radians(entries, "DECJ", "degrees")
        motion = number(entries, "PMRA") * MAS_PER_YEAR, number(entries, "PMDEC") * MAS_PER_YEAR
        return alpha, _declination(delta), motion
    if "RAJD" in entries and "DECJD" in entries:  # degrees, in catalogues
        motion = number(entries, "PMRA") * MAS_PER_YEAR, number(entries, "PMDEC") * MAS_PER_YEAR
        return np.radians(number(entries, "RAJD")), _declination(np.radians(number(entries, "DECJD"))), motion
    if "ELONG" in entries and "ELAT" in entries:
        longitude, latitude = np.radians(number(entries, "ELONG")), np.radians(number(entries, "ELAT"))
        motion = number(entries, "PMELONG") * MAS_PER_YEAR, number(entries, "PMELAT") * MAS_PER_YEAR
        name = entries.get("ECL", "IERS2010").upper()
        if name not in OBLIQUITY:
            raise ValueError(f"ECL is {short(name)}: the known obliquities are {', '.join(OBLIQUITY)}.")
        tilt = OBLIQUITY[name] * ARCSEC
        turn = np.array([[1, 0, 0], [0, np.cos(tilt), -np.sin(tilt)], [0, np.sin(tilt), np.cos(tilt)]])
        alpha, delta = (float(x) for x in angles(turn @ unit_vector(longitude, latitude)))
        velocity = turn @ _velocity(longitude, latitude, motion)
        east, north = _axes(alpha, delta)
        return alpha, delta, (float(velocity @ east), float(velocity @ north))
    raise ValueError("RAJ and DECJ are missing: give the position, or ELONG and ELAT.")


def _radians(entries: Entries, name: str, unit: str) -> float:
    """Convert hours or degrees, minutes and seconds to rad; missing seconds are zero.

    Astropy's Angle does the same, but its import takes a second, a quarter of a targeted search.
    """
    found = re.fullmatch(r"([+-]?)(\d{1,3}):(\d{1,2}(?:\.\d*)?)(?::(\d{1,2}(?:\.\d*)?))?", entries[name], re.ASCII)
    if not found:
        raise ValueError(f"{name} is {short(entries[name])}: write {unit}:minutes:seconds.")
    whole, minutes, seconds = (float(part or 0) for part in found.groups()[1:])
    if minutes >= 60 or seconds > 60:
        raise ValueError(f"{name} is {short(entries[name])}: minutes and seconds must be below 60.")
    if unit == "hours" and (whole >= 24 or found[1] == "-"):
        raise ValueError(f"{name} is {short(entries[name])}: hours must be from 0 to 24.")
    size = np.radians(whole + minutes / 60 + seconds / 3600) * (15 if unit == "hours" else 1)
    return float(-size if found[1] == "-" else size)


def _declination(delta: float) -> float:
    if not abs(delta) <= np.pi / 2:
        raise ValueError("DECJ is beyond a pole: give degrees:minutes:seconds.")
    return delta


def _axes(alpha: float, delta: float) -> tuple[np.ndarray, np.ndarray]:
    """Return unit vectors to the east and to the north of a position, (3,) float64 each."""
    return np.array([-np.sin(alpha), np.cos(alpha), 0.0]), unit_vector(alpha, delta + np.pi / 2)


def _velocity(alpha: float, delta: float, motion: tuple[float, float]) -> np.ndarray:
    """Return the rate of change of the direction, (3,) float64, 1/s."""
    east, north = _axes(alpha, delta)
    return motion[0] * east + motion[1] * north


def _parallax(entries: Entries) -> float:
    """Return the parallax in rad, or without a positive one that of a catalogue's distance in kpc; 0 without either.

    A parallax that was measured may be negative, if its error is large.
    """
    parallax, distance = number(entries, "PX") * 1e-3 * ARCSEC, number(entries, "DIST")
    return ASTRONOMICAL_UNIT / (1e3 * PARSEC * distance) if distance > 0 >= parallax else parallax


def _waves(entries: Entries) -> float:
    """Return a bound on the delays of timing noise, s: TEMPO2's WAVE, PINT's WX, and events that decay.

    Events of the interstellar medium count too, because some of those in solutions are of the star (J1713+0747).
    """
    pairs = [entries[name].split() for name in entries if re.fullmatch(r"WAVE\d+", name)]
    waves = sum(hypot(*(number({"WAVE": word}, "WAVE") for word in pair)) for pair in pairs)
    waves += sum(abs(number(entries, name)) for name in entries if SINGLE.fullmatch(name))
    return waves + sum(10 ** number(entries, name) for name in entries if name.startswith("CHROMGAUSS_LOGAMP_"))


def _rest(x: float, age: float) -> float:
    """Return the largest error, within -x to x about `age` >= x, of the Taylor series of exp(-age - t).

    The series has as many derivatives as a template. The largest error is at -x, where all terms are positive.
    """
    series = sum(x**k / factorial(k) for k in range(DECAY_ORDERS + 1))
    return float(max(np.exp(x - age) - np.exp(-age) * series, 0.0))
