"""Orbits of binary pulsars in the models of timing programs, and the closest Keplerian orbit."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.geometry.orbit import orbit_delay_at_arrival
from jfstat.maths.arrays import module_for
from jfstat.maths.kepler import kepler
from jfstat.pulsars.entries import Entries, epoch, number, scaled, short
from jfstat.pulsars.names import FLAGS, SECOND
from jfstat.signal.constants import DAY, JULIAN_YEAR, MAS_PER_YEAR
from jfstat.signal.templates import Orbit
from jfstat.signal.times import GPSTime
from jfstat.signal.values import with_fields

MODELS = ("BT", "BTX", "DD", "DDS", "DDH", "DDK", "MSS", "T2", "ELL1", "ELL1H", "ELL1+", "ELL1K")
"""Supported values of ``BINARY``; of models with additional effects, the parts that all models share are used."""
MOST_DERIVATIVES = 12
FASTEST = 0.5
"""Largest speed of a pulsar in its orbit, over that of light."""
ROUNDED = 0.02
"""Largest relative difference of ECC and OM from EPS1 and EPS2 where all are given."""
SAME_PERIOD = 1e-6
"""Largest relative difference of FB0 and 1/PB where both are given."""
HARMONICS = 7
"""Highest harmonic of a Shapiro delay with H4, as in PINT."""
SUN = 4.925490947e-6
"""Mass of the Sun as a time, G M_sun/c^3, s."""
SAMPLES = 2048
"""Number of times at which a model and an orbit are compared."""
GOOD = 1e-7
"""Largest difference of delays, s, below which an orbit needs no fit: a tenth of a millicycle at 1 kHz."""
STEPS = 8
"""Largest number of steps of the fit, which converges in two or three."""


@dataclass(frozen=True)
class OrbitalWaves:
    """Sines and cosines that the phase of an orbit varies by: sum_k c_k cos(k w t) + s_k sin(k w t), in orbits.

    See PINT's ORBWAVE and Susobhanan et al. 2018.

    Attributes
    ----------
    rate : float
        Angular frequency w of the first, rad/s.
    epoch : float
        Time t = 0, s since the binary's `t0`.
    amplitudes : tuple of (float, float)
        c_k and s_k from k = 1 on.
    """

    rate: float
    epoch: float
    amplitudes: tuple[tuple[float, float], ...]

    def cycles(self, since: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the variation of the phase in orbits, and its rate in Hz, at times in s since the binary's `t0`."""
        cycles, rate = np.zeros_like(since), np.zeros_like(since)
        for k, (c, s) in enumerate(self.amplitudes, 1):
            cos, sin = (f(k * self.rate * (since - self.epoch)) for f in (np.cos, np.sin))
            cycles = cycles + c * cos + s * sin
            rate = rate + k * self.rate * (s * cos - c * sin)
        return cycles, rate


@dataclass(frozen=True)
class Binary:
    """An orbit with the secular changes and relativistic delays of the timing models BT, DD and ELL1.

    All rates hold at `t0`.

    Attributes
    ----------
    model : str
        Value of ``BINARY`` in the .par file.
    t0 : GPSTime
        Time of periapsis, or of the ascending node if `laplace`, in the SSB.
    asini : float
        Projected semi-major axis over c, s.
    frequencies : tuple of float
        Orbital frequency and its derivatives, Hz, Hz/s, ...
    shape : (float, float)
        Eccentricity and argument of periapsis in rad; or e sin(argp) and e cos(argp) if `laplace`.
    xdot : float
        Change of `asini`, s/s.
    shape_dot : (float, float)
        Change of `shape`, 1/s or rad/s; of the model ELL1K that of the logarithm of e in 1/s, and of argp in rad/s.
    gamma : float
        Amplitude of the Einstein delay, s.
    shapiro : (float, float)
        Range G M2/c^3 in s and shape sin(i) of the Shapiro delay.
    harmonics : (float, float, int)
        H3 in s, its ratio to H4, and the highest harmonic of a Shapiro delay whose first two harmonics are part of the
        orbit, as in ELL1H without STIGMA (Freire & Wex 2010, eq. 19); H3 is 0 otherwise.
    deformation : (float, float)
        Relativistic deformations of the orbit, DR and DTH.
    aberration : (float, float)
        Amplitudes of the aberration delay, A0 and B0, s.
    waves : OrbitalWaves or None
        Variation of the orbital phase.
    swing : float
        Change of the delay over the parallax, s/rad, at most, by which the Earth's motion changes the view of the orbit
        (Kopeikin 1995); 0 if the ascending node is not known.
    laplace : bool
        Whether the model is ELL1 (Lange et al. 2001; ELL1K: Susobhanan et al. 2018, eq. 15), for nearly circular
        orbits, or BT (Blandford & Teukolsky 1976) or DD (Damour & Deruelle 1986).
    """

    model: str
    t0: GPSTime
    asini: float
    frequencies: tuple[float, ...]
    shape: tuple[float, float]
    xdot: float
    shape_dot: tuple[float, float]
    gamma: float
    shapiro: tuple[float, float]
    harmonics: tuple[float, float, int]
    deformation: tuple[float, float]
    aberration: tuple[float, float]
    waves: OrbitalWaves | None
    swing: float
    laplace: bool

    def elements(self, since: np.ndarray) -> Orbit:
        """Return osculating orbits at times in s since `t0`, with arrays like `since` as fields.

        Their ``tp`` counts from `t0` too.
        """
        cycles, rate = np.zeros_like(since), np.zeros_like(since)
        for k in range(len(self.frequencies) - 1, -1, -1):
            cycles = (cycles + self.frequencies[k]) * since / (k + 1)
        for k in range(len(self.frequencies) - 1, 0, -1):
            rate = (rate + self.frequencies[k]) * since / k
        if self.waves is not None:
            cycles, rate = (x + wave for x, wave in zip((cycles, rate), self.waves.cycles(since), strict=True))
        period = 1 / (self.frequencies[0] + rate)
        if self.model == "ELL1K":
            growth, turn = 1 + self.shape_dot[0] * since, self.shape_dot[1] * since
            first, second = self.shape
            first, second = (
                growth * (first * np.cos(turn) + second * np.sin(turn)),
                growth * (second * np.cos(turn) - first * np.sin(turn)),
            )
        else:
            first, second = (x + dot * since for x, dot in zip(self.shape, self.shape_dot, strict=True))
        ecc, argp = (np.hypot(first, second), np.arctan2(first, second)) if self.laplace else (first, second)
        if self.laplace:  # from the ascending node to periapsis
            cycles = cycles - argp / (2 * np.pi)
        asini = self.asini + self.xdot * since
        parts = (asini, period, since - cycles * period, ecc, argp)
        return with_fields(_NO_ORBIT, **dict(zip(("asini", "period", "tp", "ecc", "argp"), parts, strict=True)))

    def delay(self, since: np.ndarray) -> np.ndarray:
        """Return SSB time minus time of emission at SSB times in s since `t0`, (n,) float64, s.

        The delay is the sum of Roemer, Einstein, Shapiro and aberration delays.
        """
        # in BT periapsis advances evenly, in DD with the true anomaly
        precession = 0.0 if self.laplace or self.model.startswith("BT") else self.shape_dot[1]
        orbit = self.elements(since)
        relativity = self.gamma, *self.shapiro, *self.deformation, *self.aberration
        delay = np.asarray(_full_delay(orbit, since, precession, relativity))
        h3, ratio, highest = self.harmonics
        if h3:
            longitude = 2 * np.pi * (since - orbit.tp) / orbit.period + orbit.argp
            for k in range(3, highest + 1):  # eq. 13: (-1)^((k+1)/2) sin(k phi) for odd k, (-1)^((k+2)/2) cos(k phi)
                wave = np.sin(k * longitude) if k % 2 else np.cos(k * longitude)
                delay = delay - 4 * h3 / k * (-1) ** ((k + 2) // 2) * ratio ** (k - 3) * wave
        return delay

    def orbit(self, start: float, end: float) -> tuple[Orbit, float]:
        """Return the Keplerian orbit closest to the model between two times, and the largest difference of delays.

        Parameters
        ----------
        start, end : float
            s since `t0`.

        Returns
        -------
        orbit : Orbit
            Closest orbit; its ``tp`` is a GPS time.
        difference : float
            Largest difference of delays, s, apart from a constant, which does not matter.
        """
        middle = 0.5 * (start + end)
        # irregular times: regular ones may sample only a few phases of the orbit
        times = np.sort(np.r_[start, end, np.random.default_rng(0).uniform(start, end, SAMPLES - 2)])
        orbits = self.elements(times)
        speed = 2 * np.pi * np.abs(orbits.asini / orbits.period)
        if not np.all((orbits.asini >= 0) & (orbits.period > 0) & (speed < FASTEST * (1 - orbits.ecc))):
            raise ValueError("the orbit changes so much (PBDOT, FB1, XDOT, EDOT, ...) that it is none at these times.")
        orbit, wanted = self.elements(np.array(middle)), self.delay(times)
        difference = _spread(wanted, orbit, times)
        if difference > GOOD:
            fitted = _fitted(orbit, times, wanted, middle)
            own = _spread(wanted, fitted, times)
            if own < difference:
                orbit, difference = fitted, own
        turns = np.round((middle - orbit.tp) / orbit.period)
        tp = float(self.t0) + float(orbit.tp + turns * orbit.period)
        argp = float(np.mod(orbit.argp, 2 * np.pi))
        return Orbit(float(orbit.asini), float(orbit.period), tp, float(orbit.ecc), argp), difference


_NO_ORBIT = object.__new__(Orbit)


def binary_of(entries: Entries) -> Binary | None:
    """Return the binary of a timing solution; None for an isolated pulsar.

    Only the entries are taken that the model has.

    Raises
    ------
    ValueError
        If the model is not supported, or an entry is missing, not a number or impossible.
    """
    model = entries.get("BINARY", "").upper()
    if not model and "A1" not in entries:
        return None
    nodal = "TASC" in entries and "T0" not in entries
    model = model or ("ELL1" if nodal else "BT")
    if model not in MODELS:
        raise ValueError(f"BINARY is {short(model)}: the supported models are {', '.join(MODELS)}.")
    laplace = model.startswith("ELL1") or (nodal and model == "T2")
    zero = "TASC" if laplace else "T0"
    for name in (zero, "A1"):
        if name not in entries:
            raise ValueError(f"{name} is missing: a binary of the model {model} needs it.")
    second = next((name for name in entries if SECOND.fullmatch(name)), None)
    if second is not None:
        raise ValueError(f"{second} is of a second companion, which a template cannot have.")
    t0, asini = epoch(entries, zero), number(entries, "A1")
    bends = not model.startswith("BT")  # BT has no Shapiro delay and no deformation
    xdot, turn, swing = _proper_motion(entries, model, asini)
    if laplace:
        shape, shape_dot = _laplace_shape(entries, model)
    else:
        shape = number(entries, "ECC"), float(np.radians(number(entries, "OM")))
        shape_dot = scaled(entries, "EDOT"), float(np.radians(number(entries, "OMDOT"))) / JULIAN_YEAR + turn
    ecc = np.hypot(*shape) if laplace else shape[0]
    if not ecc < 1:
        raise ValueError("ECC must be below 1: a pulsar's orbit is an ellipse.")
    frequencies = _frequencies(entries)
    if not 2 * np.pi * asini * frequencies[0] < FASTEST * (1 - ecc):
        raise ValueError("A1 is too large for an orbit of this period: half the speed of light is the limit.")
    return Binary(
        model,
        t0,
        asini,
        frequencies,
        shape,
        scaled(entries, "XDOT") + xdot,
        shape_dot,
        0.0 if laplace else number(entries, "GAMMA"),
        _shapiro(entries, model) if bends else (0.0, 0.0),
        _harmonics(entries, model),
        (number(entries, "DR"), number(entries, "DTH")) if bends and not laplace else (0.0, 0.0),
        (number(entries, "A0"), number(entries, "B0")) if bends and not laplace else (0.0, 0.0),
        _orbital_waves(entries, t0),
        swing,
        laplace,
    )


def _laplace_shape(entries: Entries, model: str) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return e sin(argp), e cos(argp) and their changes, from EPS1 and EPS2, or ECC and OM; see `Binary.shape_dot`."""
    if model == "ELL1K":
        dots = number(entries, "LNEDOT") / JULIAN_YEAR, float(np.radians(number(entries, "OMDOT"))) / JULIAN_YEAR
    else:
        dots = scaled(entries, "EPS1DOT"), scaled(entries, "EPS2DOT")
    ecc, angle = number(entries, "ECC"), np.radians(number(entries, "OM"))
    if "EPS1" not in entries and "EPS2" not in entries:
        return (float(ecc * np.sin(angle)), float(ecc * np.cos(angle))), dots
    first, second = number(entries, "EPS1"), number(entries, "EPS2")
    size = np.hypot(first, second)
    if "ECC" in entries and not abs(ecc - size) <= ROUNDED * size:
        raise ValueError(f"ECC contradicts EPS1 and EPS2, of which it must be {size:.6g}: leave it out.")
    if "OM" in entries and not abs(np.exp(1j * angle) * size - (second + 1j * first)) <= ROUNDED * size:
        raise ValueError("OM contradicts EPS1 and EPS2, whose ratio is its tangent: leave it out.")
    return (first, second), dots


def _frequencies(entries: Entries) -> tuple[float, ...]:
    """Return the orbital frequency and its derivatives, from FB0, FB1, ..., or PB and PBDOT, or PB, FB1, ..."""
    orders = entries.numbered("FB#")
    if orders and orders[-1] > MOST_DERIVATIVES:
        raise ValueError(f"FB{orders[-1]} is beyond FB{MOST_DERIVATIVES}, the highest derivative that is understood.")
    frequencies = [number(entries, f"FB{k}") for k in range(max(orders, default=0) + 1)]
    period, rate = number(entries, "PB") * DAY, scaled(entries, "PBDOT") + scaled(entries, "XPBDOT")
    if orders and rate:
        raise ValueError("PBDOT is beside FB0 or FB1: leave it out, or give PB instead of orbital frequencies.")
    if "FB0" in entries and "PB" in entries and not abs(period * frequencies[0] - 1) < SAME_PERIOD:
        raise ValueError("PB contradicts FB0: leave one of them out.")
    if "FB0" not in entries:
        if "PB" not in entries:
            raise ValueError("PB is missing: a binary needs PB or FB0.")
        frequencies[0] = 1 / period
        frequencies += [-rate / period**2] if rate else []
    if not frequencies[0] > 0:
        raise ValueError("FB0 is not positive: give the orbital frequency in Hz, or PB in days.")
    return tuple(frequencies)


def _shapiro(entries: Entries, model: str) -> tuple[float, float]:
    """Return range and shape of the Shapiro delay, from M2 and SINI, KIN or SHAPMAX, or H3 and STIG.

    See Freire & Wex 2010, eq. 20 and 22.
    """
    if "M2" in entries and "H3" in entries and number(entries, "M2") and number(entries, "H3"):
        raise ValueError("H3 and M2 give the Shapiro delay twice: leave one of them out.")
    if "STIG" in entries and number(entries, "H3"):
        ratio = number(entries, "STIG")
        if not ratio > 0:
            raise ValueError("STIG is not positive: give the ratio of H4 to H3, above 0 and up to 1.")
        return number(entries, "H3") / ratio**3, 2 * ratio / (1 + ratio**2)
    if number(entries, "H3"):  # see _harmonics
        if not model.startswith("ELL1"):
            raise ValueError(f"STIG is missing: H3 needs it in a binary of the model {model}.")
        return 0.0, 0.0
    number(entries, "STIG")  # without H3 of no effect
    reach, shape = SUN * number(entries, "M2"), 0.0
    if "KIN" in entries:
        shape = float(np.sin(np.radians(number(entries, "KIN"))))
        if entries.get("SINI", "KIN").upper() != "KIN" and not abs(number(entries, "SINI") - shape) < 0.01:
            raise ValueError(f"SINI contradicts KIN, the sine of which is {shape:.6g}: leave one of them out.")
    elif "SHAPMAX" in entries:  # DDS
        shape = 1 - float(np.exp(-number(entries, "SHAPMAX")))
    elif "SINI" in entries:
        shape = number(entries, "SINI")
    return reach, shape


def _harmonics(entries: Entries, model: str) -> tuple[float, float, int]:
    """Return H3, H4 over H3 and the highest harmonic of a Shapiro delay that begins with the third one."""
    h3, h4, highest = number(entries, "H3"), number(entries, "H4"), number(entries, "NHARMS", HARMONICS)
    if "STIG" in entries or not model.startswith("ELL1"):
        if h4:
            raise ValueError("H4 is beside STIG, or not of the model ELL1H: leave it out.")
        return 0.0, 0.0, 0
    if abs(h4) > abs(h3):
        raise ValueError("H3 is missing or smaller than H4, of which it is the larger one.")
    return h3, h4 / h3 if h4 else 0.0, int(highest) if h4 else 3


def _proper_motion(entries: Entries, model: str, asini: float) -> tuple[float, float, float]:
    """Return what proper motion changes, asini in s/s and argp in rad/s, and `Binary.swing` (Kopeikin 1995, 1996).

    K96 0 leaves the terms of proper motion out. DDK's angles are those of Damour & Taylor (1992), T2's the IAU's.
    """
    if model not in ("DDK", "T2"):
        return 0.0, 0.0, 0.0
    flag = entries.get("K96", "1").upper()
    if flag not in FLAGS:
        raise ValueError(f"K96 is {short(flag)}: give 1 or 0.")
    missing = next((name for name in ("KIN", "KOM") if name not in entries), None)
    if missing:
        if model == "DDK" or "KOM" in entries:
            raise ValueError(f"{missing} is missing: a binary of the model {model} with KIN or KOM needs both.")
        return 0.0, 0.0, 0.0
    inclination, node = np.radians(number(entries, "KIN")), np.radians(number(entries, "KOM"))
    if model == "T2":
        inclination, node = np.pi - inclination, np.pi / 2 - node
    sine = np.sin(inclination)
    if not sine > 1e-6:
        raise ValueError("KIN must be between 0 and 180 degrees: the orbit cannot be seen from its pole.")
    slant = np.cos(inclination) / sine
    # of the coordinates that the position is given in
    east, north = (number(entries, f"PM{a}") + number(entries, f"PM{b}") for a, b in (("RA", "ELONG"), ("DEC", "ELAT")))
    scale = MAS_PER_YEAR * FLAGS[flag]
    xdot = asini * slant * scale * (north * np.cos(node) - east * np.sin(node))
    turn = scale * (east * np.cos(node) + north * np.sin(node)) / sine
    return float(xdot), float(turn), float(asini * (abs(slant) + 1 / sine))


def _orbital_waves(entries: Entries, t0: GPSTime) -> OrbitalWaves | None:
    """Return the variation of the orbital phase, ORBWAVEC0, ORBWAVES0, ...; None without it."""
    orders = sorted({*entries.numbered("ORBWAVEC#"), *entries.numbered("ORBWAVES#")})
    if not orders:
        return None
    for name in ("ORBWAVE_OM", "ORBWAVE_EPOCH", *(f"ORBWAVE{kind}{k}" for k in range(len(orders)) for kind in "CS")):
        if name not in entries:
            raise ValueError(f"{name} is missing: the orbit's waves need it, as ORBWAVE{{C,S}}{orders[-1]} are given.")
    pairs = tuple((number(entries, f"ORBWAVEC{k}"), number(entries, f"ORBWAVES{k}")) for k in orders)
    return OrbitalWaves(number(entries, "ORBWAVE_OM"), float(epoch(entries, "ORBWAVE_EPOCH") - t0), pairs)


@jax.jit
def _full_delay(orbit: Orbit, since: jax.Array, precession: float, relativity: tuple[float, ...]) -> jax.Array:
    """Return the delay of osculating orbits with all of Damour & Deruelle 1986, eq. 27 and 46 to 52.

    `relativity` are the amplitude of the Einstein delay, range and shape of the Shapiro delay, DR, DTH, A0, B0.
    """
    gamma, reach, shape, dr, dth, a0, b0 = relativity
    rate, root = 2 * jnp.pi / orbit.period, jnp.sqrt(1 - orbit.ecc**2)

    def amplitudes(argp: jax.Array) -> tuple[jax.Array, jax.Array]:
        deformed = jnp.sqrt(1 - (orbit.ecc * (1 + dth)) ** 2)
        return orbit.asini * jnp.sin(argp), orbit.asini * jnp.cos(argp) * deformed

    def anomaly(argp: jax.Array) -> jax.Array:
        p, q = amplitudes(argp)
        return kepler(rate * (since - orbit.tp), orbit.ecc, rate * p, rate * q)

    e = anomaly(orbit.argp)
    true = 2 * jnp.arctan2(jnp.sqrt(1 + orbit.ecc) * jnp.sin(e / 2), jnp.sqrt(1 - orbit.ecc) * jnp.cos(e / 2))
    ahead = true - (e - orbit.ecc * jnp.sin(e))  # periapsis advances with the true anomaly, not the mean one
    ahead = jnp.mod(ahead + jnp.pi, 2 * jnp.pi) - jnp.pi
    argp = orbit.argp + precession / rate * ahead
    e = anomaly(argp)
    p, q = amplitudes(argp)
    sideways = jnp.sin(argp) * (jnp.cos(e) - orbit.ecc) + root * jnp.cos(argp) * jnp.sin(e)
    bent = -2 * reach * jnp.log(1 - orbit.ecc * jnp.cos(e) - shape * sideways)
    seen = argp + true
    aberration = a0 * (jnp.sin(seen) + orbit.ecc * jnp.sin(argp)) + b0 * (jnp.cos(seen) + orbit.ecc * jnp.cos(argp))
    return p * (jnp.cos(e) - orbit.ecc * (1 + dr)) + (q + gamma) * jnp.sin(e) + bent + aberration


def _spread(wanted: np.ndarray, orbit: Orbit, times: np.ndarray) -> float:
    """Return the largest deviation of the difference of delays from its mid-range, s."""
    difference = wanted - np.asarray(_delay(orbit, times))
    return 0.5 * float(np.ptp(difference))


_delay = jax.jit(orbit_delay_at_arrival)


@jax.jit
def _of_vector(x: jax.Array, times: jax.Array, middle: jax.Array) -> jax.Array:
    return orbit_delay_at_arrival(_orbit_of(x, middle), times) + x[5]


def _orbit_of(x: jax.Array | np.ndarray, middle: jax.Array | float) -> Orbit:
    """Return the orbit of asini, frequency, longitude at `middle` in rad, e sin(argp), e cos(argp)."""
    xp, (asini, rate, longitude, first, second) = module_for(x), x[:5]
    ecc = xp.sqrt(first**2 + second**2 + 1e-30)  # differentiable at 0
    argp = xp.arctan2(first + 1e-30, second)
    period = 1 / rate
    tp = middle - (longitude - argp) / (2 * np.pi) * period
    return with_fields(_NO_ORBIT, asini=asini, period=period, tp=tp, ecc=ecc, argp=argp)


_jacobian = jax.jit(jax.jacfwd(_of_vector))


def _fitted(orbit: Orbit, times: np.ndarray, wanted: np.ndarray, middle: float) -> Orbit:
    """Fit an orbit to wanted delays at some times, by the Gauss-Newton method."""
    ecc, argp = float(orbit.ecc), float(orbit.argp)
    longitude = 2 * np.pi * (middle - float(orbit.tp)) / float(orbit.period) + argp
    x = np.array([float(orbit.asini), 1 / float(orbit.period), longitude, ecc * np.sin(argp), ecc * np.cos(argp), 0.0])
    for _ in range(STEPS):
        rest = wanted - np.asarray(_of_vector(x, times, middle))
        slopes = np.asarray(_jacobian(x, times, middle))
        size = np.sqrt(np.sum(slopes**2, axis=0)) + 1e-300
        step = np.linalg.lstsq(slopes / size, rest, rcond=1e-10)[0] / size
        x = x + step
        if np.hypot(x[3], x[4]) >= 1 or np.max(np.abs(slopes @ step)) < 0.01 * GOOD:
            break
    return orbit if np.hypot(x[3], x[4]) >= 1 else _orbit_of(x, middle)
