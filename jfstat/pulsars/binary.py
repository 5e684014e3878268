"""Orbits of binary pulsars in the models of timing programs, and the closest Keplerian orbit."""

from __future__ import annotations

import re
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.geometry.orbit import orbit_delay_at_arrival
from jfstat.maths.arrays import module_for
from jfstat.maths.kepler import kepler
from jfstat.pulsars.entries import Entries, epoch, number, scaled
from jfstat.signal.constants import DAY, JULIAN_YEAR
from jfstat.signal.templates import Orbit
from jfstat.signal.times import GPSTime
from jfstat.signal.values import with_fields

MODELS = ("BT", "BTX", "DD", "DDS", "DDH", "DDK", "MSS", "T2", "ELL1", "ELL1H", "ELL1+")
"""Supported values of ``BINARY``; of models with additional effects, the parts that all models share are used."""
SUN = 4.925490947e-6
"""Mass of the Sun as a time, G M_sun/c^3, s."""
SAMPLES = 2048
"""Number of times at which a model and an orbit are compared."""
GOOD = 1e-7
"""Largest difference of delays, s, below which an orbit needs no fit: a tenth of a millicycle at 1 kHz."""
STEPS = 8
"""Largest number of steps of the fit, which converges in two or three."""


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
        Change of `shape`, 1/s or rad/s.
    gamma : float
        Amplitude of the Einstein delay, s.
    shapiro : (float, float)
        Range G M2/c^3 in s and shape sin(i) of the Shapiro delay.
    laplace : bool
        Whether the model is ELL1 (Lange et al. 2001), for nearly circular orbits, or BT (Blandford & Teukolsky 1976) or
        DD (Damour & Deruelle 1986).
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
        period = 1 / (self.frequencies[0] + rate)
        first, second = (x + dot * since for x, dot in zip(self.shape, self.shape_dot, strict=True))
        ecc, argp = (np.hypot(first, second), np.arctan2(first, second)) if self.laplace else (first, second)
        if self.laplace:  # from the ascending node to periapsis
            cycles = cycles - argp / (2 * np.pi)
        asini = self.asini + self.xdot * since
        parts = (asini, period, since - cycles * period, ecc, argp)
        return with_fields(_NO_ORBIT, **dict(zip(("asini", "period", "tp", "ecc", "argp"), parts, strict=True)))

    def delay(self, since: np.ndarray) -> np.ndarray:
        """Return SSB time minus time of emission at SSB times in s since `t0`, (n,) float64, s.

        The delay is the sum of Roemer, Einstein and Shapiro delays.
        """
        # in BT periapsis advances evenly, in DD with the true anomaly
        precession = 0.0 if self.laplace or self.model.startswith("BT") else self.shape_dot[1]
        return np.asarray(_full_delay(self.elements(since), since, precession, self.gamma, self.shapiro))

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

    Raises
    ------
    ValueError
        If the model is not supported, or an entry is missing or not a number.
    """
    model = entries.get("BINARY", "")
    if not model and "A1" not in entries:
        return None
    laplace = model.startswith("ELL1") or ("TASC" in entries and "T0" not in entries)
    model = (model or ("ELL1" if laplace else "BT")).upper()
    if model not in MODELS:
        raise ValueError(f"BINARY is {model!r}: the supported models are {', '.join(MODELS)}.")
    zero = "TASC" if laplace else "T0"
    for name in (zero, "A1"):
        if name not in entries:
            raise ValueError(f"{name} is missing: a binary of the model {model} needs it.")
    second = next((name for name in entries if re.fullmatch(r"(A1|PB|T0|TASC)_\d+", name)), None)
    if second is not None:
        raise ValueError(f"{second} is of a second companion, which a template cannot have.")
    degrees = number(entries, "OM"), number(entries, "OMDOT") / JULIAN_YEAR
    if laplace:
        shape = number(entries, "EPS1"), number(entries, "EPS2")
        if "EPS1" not in entries and "EPS2" not in entries:
            ecc, angle = number(entries, "ECC"), np.radians(degrees[0])
            shape = float(ecc * np.sin(angle)), float(ecc * np.cos(angle))
        shape_dot = scaled(entries, "EPS1DOT"), scaled(entries, "EPS2DOT")
    else:
        shape = number(entries, "ECC"), float(np.radians(degrees[0]))
        shape_dot = scaled(entries, "EDOT"), float(np.radians(degrees[1]))
    return Binary(
        model,
        epoch(entries, zero),
        number(entries, "A1"),
        _frequencies(entries),
        shape,
        scaled(entries, "XDOT"),
        shape_dot,
        number(entries, "GAMMA"),
        _shapiro(entries),
        laplace,
    )


def _frequencies(entries: Entries) -> tuple[float, ...]:
    """Return the orbital frequency and its derivatives, from FB0, FB1, ..., or PB and PBDOT."""
    orders = sorted(int(name[2:]) for name in entries if re.fullmatch(r"FB\d+", name))
    if orders and orders[0] == 0:
        frequencies = tuple(number(entries, f"FB{k}") for k in range(orders[-1] + 1))
    elif "PB" in entries:
        period = number(entries, "PB") * DAY
        rate = scaled(entries, "PBDOT") + scaled(entries, "XPBDOT")
        frequencies = (1 / period, -rate / period**2) if period > 0 else (0.0,)
    else:
        raise ValueError("PB is missing: a binary needs PB or FB0.")
    if not frequencies[0] > 0:
        raise ValueError("PB or FB0 is not positive: give the period in days, or the frequency in Hz.")
    return frequencies


def _shapiro(entries: Entries) -> tuple[float, float]:
    """Return range and shape of the Shapiro delay, from M2 and SINI, or H3 and STIG.

    See Freire & Wex 2010, eq. 20 and 22.
    """
    if "M2" in entries and "SINI" in entries and entries["SINI"].upper() != "KIN":
        return SUN * number(entries, "M2"), number(entries, "SINI")
    if "M2" in entries and "KIN" in entries:
        return SUN * number(entries, "M2"), float(np.sin(np.radians(number(entries, "KIN"))))
    if "M2" in entries and "SHAPMAX" in entries:  # DDS
        return SUN * number(entries, "M2"), 1 - float(np.exp(-number(entries, "SHAPMAX")))
    ratio = number(entries, "STIG", number(entries, "STIGMA"))
    if "H3" in entries and "H4" in entries and not ratio and number(entries, "H3"):
        ratio = number(entries, "H4") / number(entries, "H3")
    if "H3" in entries and ratio > 0:
        return number(entries, "H3") / ratio**3, 2 * ratio / (1 + ratio**2)
    return 0.0, 0.0


@jax.jit
def _full_delay(
    orbit: Orbit, since: jax.Array, precession: float, gamma: float, shapiro: tuple[float, float]
) -> jax.Array:
    """Return the delay of osculating orbits, including Einstein and Shapiro delays.

    See Damour & Deruelle 1986, eq. 46 to 52.
    """
    rate, root = 2 * jnp.pi / orbit.period, jnp.sqrt(1 - orbit.ecc**2)

    def amplitudes(argp: jax.Array) -> tuple[jax.Array, jax.Array]:
        return orbit.asini * jnp.sin(argp), orbit.asini * jnp.cos(argp) * root

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
    bent = -2 * shapiro[0] * jnp.log(1 - orbit.ecc * jnp.cos(e) - shapiro[1] * sideways)
    return p * (jnp.cos(e) - orbit.ecc) + (q + gamma) * jnp.sin(e) + bent


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
