"""Glitches of pulsars, and the Taylor series of the spin between them."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, expm1, factorial

import numpy as np

from jfstat.pulsars.entries import Entries, epoch, number
from jfstat.signal.constants import DAY
from jfstat.signal.times import GPSTime

DECAYS = {"GLF0D": "GLTD", "GLF0D2": "GLTD2", "GLF0D3": "GLTD3"}
"""Time of decay of each decaying part."""
SHORTEST = 1e-3
"""Shortest time of decay, days."""
KEYS = ("GLEP", "GLPH", "GLF0", "GLF1", "GLF2", *DECAYS, *DECAYS.values())
"""Names of a glitch's entries, before ``_`` and its number."""


@dataclass(frozen=True)
class Glitch:
    """A sudden change of a pulsar's spin, parts of which may decay.

    A glitch adds the phase ``phase + sum_k steps[k] t^(k+1)/(k+1)! + decaying tau (1 - exp(-t/tau))`` cycles at a time
    t after `time` (TEMPO2; LALSuite: XLALHeterodynedPulsarGetGlitchPhase).

    Attributes
    ----------
    time : GPSTime
        Time of the glitch in the SSB.
    phase : float
        Step of the phase, cycles.
    steps : (float, float, float)
        Steps of the frequency and its first two derivatives, Hz, Hz/s, Hz/s^2.
    decaying : float
        Part of the frequency's step that decays, Hz.
    tau : float
        Time constant of the decay, s; 0 without one.
    """

    time: GPSTime
    phase: float
    steps: tuple[float, float, float]
    decaying: float
    tau: float

    def spins(self, at: GPSTime, n: int) -> np.ndarray:
        """Return changes of frequency and derivatives at a time after the glitch, (n,) float64: Hz, Hz/s, ..."""
        since = float(at - self.time)
        spins = taylor_shifted(self.steps, since, n)
        if self.tau > 0:
            left = self.decaying * exp(-since / self.tau)
            spins += [left * (-1 / self.tau) ** k for k in range(n)]
        return spins

    def cycles(self, at: GPSTime) -> float:
        """Return the phase that the glitch has added up to a time after it, in cycles of the rotation."""
        since = float(at - self.time)
        cycles = self.phase + cycles_since(self.steps, since)
        if self.tau > 0:
            cycles -= self.decaying * self.tau * expm1(-since / self.tau)
        return cycles


def glitches_of(entries: Entries) -> tuple[Glitch, ...]:
    """Return the glitches of a timing solution in the order of time: ``GLEP_1``, ``GLPH_1``, ``GLF0_1``, ...

    Raises
    ------
    ValueError
        If an entry is not a number, or is without its epoch, or without its time of decay or amplitude.
    """
    found = []
    for count in sorted({count for key in KEYS for count in entries.numbered(f"{key}_#")}):
        own = {key: f"{key}_{count}" for key in KEYS}
        values = {key: number(entries, name) for key, name in own.items() if key != "GLEP"}
        if own["GLEP"] not in entries:
            if any(values.values()):
                given = next(own[key] for key, value in values.items() if value)
                raise ValueError(f"{own['GLEP']} is missing: give the epoch of the glitch of {given}, an MJD.")
            continue
        time = epoch(entries, own["GLEP"])
        steps = values["GLF0"], values["GLF1"], values["GLF2"]
        decays = []
        for part, scale in DECAYS.items():
            if (values[part] and not values[scale]) or (values[scale] and own[part] not in entries):
                missing, given = (scale, part) if values[part] else (part, scale)
                raise ValueError(f"{own[missing]} is missing or 0: {own[given]} needs it, or remove it.")
            if 0 < values[scale] < SHORTEST:
                raise ValueError(f"{own[scale]} is below {SHORTEST} d: give the time of decay in days.")
            if values[part]:
                decays.append((values[part], values[scale] * DAY))
        found.append(Glitch(time, values["GLPH"], steps, *(decays[0] if decays else (0.0, 0.0))))
        found += [Glitch(time, 0.0, (0.0, 0.0, 0.0), *decay) for decay in decays[1:]]
    return tuple(sorted(found, key=lambda glitch: float(glitch.time)))


def taylor_shifted(spins: tuple[float, ...] | np.ndarray, since: float, n: int) -> np.ndarray:
    """Return the frequency and its derivatives `since` seconds later, the first n of them, (n,) float64."""
    later = np.zeros(n)
    for k in range(min(n, len(spins))):
        later[k] = sum(spins[j] * since ** (j - k) / factorial(j - k) for j in range(k, len(spins)))
    return later


def cycles_since(spins: tuple[float, ...] | np.ndarray, since: float) -> float:
    """Return the phase after `since` seconds, in cycles, of a frequency with given derivatives."""
    return float(sum(x * since ** (k + 1) / factorial(k + 1) for k, x in enumerate(spins)))
