"""Glitches of pulsars, and the Taylor series of the spin between them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import exp, factorial

import numpy as np

from jfstat.pulsars.entries import Entries, epoch, number
from jfstat.signal.constants import DAY
from jfstat.signal.times import GPSTime


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


def glitches_of(entries: Entries) -> tuple[Glitch, ...]:
    """Return the glitches of a timing solution in the order of time: ``GLEP_1``, ``GLPH_1``, ``GLF0_1``, ...

    Raises
    ------
    ValueError
        If an entry is not a number.
    """
    found = []
    for name in entries:
        if numbered := re.fullmatch(r"GLEP_(\d+)", name):
            own = {key: f"{key}_{numbered[1]}" for key in ("GLPH", "GLF0", "GLF1", "GLF2", "GLF0D", "GLTD")}
            steps = number(entries, own["GLF0"]), number(entries, own["GLF1"]), number(entries, own["GLF2"])
            decay = number(entries, own["GLF0D"]), number(entries, own["GLTD"]) * DAY
            found.append(Glitch(epoch(entries, name), number(entries, own["GLPH"]), steps, *decay))
            for key in (f"GLF0D{k}_{numbered[1]}" for k in (2, 3)):  # further parts that decay
                if key in entries:
                    tau = number(entries, key.replace("GLF0D", "GLTD")) * DAY
                    found.append(Glitch(epoch(entries, name), 0.0, (0.0, 0.0, 0.0), number(entries, key), tau))
    return tuple(sorted(found, key=lambda glitch: float(glitch.time)))


def taylor_shifted(spins: tuple[float, ...] | np.ndarray, since: float, n: int) -> np.ndarray:
    """Return the frequency and its derivatives `since` seconds later, the first n of them, (n,) float64."""
    later = np.zeros(n)
    for k in range(min(n, len(spins))):
        later[k] = sum(spins[j] * since ** (j - k) / factorial(j - k) for j in range(k, len(spins)))
    return later
