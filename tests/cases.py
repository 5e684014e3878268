"""Data sets for the tests: random skies, start times, gaps and amplitudes, so that no case is chosen to pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import jfstat


@dataclass(frozen=True)
class Case:
    """One simulated data set and the signal in it."""

    data: jfstat.FstatData
    doppler: jfstat.Doppler
    amplitude: jfstat.Amplitude

    @property
    def rho2(self) -> float:
        return float(jfstat.predict_twoF(self.data, self.doppler, self.amplitude)) - 4


def random_timestamps(rng, detectors, start, days, duty):
    """Start times with SFTs missing at random and, where there are gaps, an arbitrary offset after each."""
    n = int(48 * days)
    times = {}
    for name in detectors:
        slots = np.sort(rng.choice(n, round(duty * n), replace=False))
        extra = np.cumsum(np.where(np.diff(slots, prepend=0) > 1, rng.integers(0, 300, len(slots)), 0))
        times[name] = start + 1800 * slots + (extra if duty < 1 else 0)
    return times


def make(
    f0,
    seed,
    days=1.0,
    detectors=("H1", "L1"),
    duty=0.8,
    noise=False,
    h0=2e-25,
    orbit=None,
    half_band=0.1,
    guard=1.0,
    reach=0.0,
    fkdot=(-1e-9,),
    tell_orbit=True,
    window="rectangular",
):
    """Simulate a signal at a random place, with or without noise, and prepare a band around it.

    `reach` widens the SFTs' band for the orbit's Doppler shift; with ``tell_orbit=False`` it widens the searched band
    instead, as a user would who does not name the orbit to prepare.
    """
    rng = np.random.default_rng(seed)
    start = int(rng.integers(700_000_000, 1_500_000_000))
    doppler = jfstat.Doppler(
        alpha=rng.uniform(0, 2 * np.pi),
        delta=np.arcsin(rng.uniform(-1, 1)),
        fkdot=[f0, *fkdot],
        reftime=start + int(rng.integers(0, 86400)),
        orbit=orbit,
    )
    amplitude = jfstat.Amplitude(
        h0=h0, cosi=rng.uniform(-1, 1), psi=rng.uniform(-0.7, 0.7), phi0=rng.uniform(0, 2 * np.pi)
    )
    searched = half_band + (0.0 if tell_orbit else reach)
    margin = half_band + reach + 1.1e-4 * f0 + guard + 0.02
    sfts = jfstat.simulate_sfts(
        list(detectors),
        timestamps=random_timestamps(rng, detectors, start, days, duty),
        fmin=f0 - margin,
        fmax=f0 + margin,
        sqrt_sx=4e-24 if noise else None,
        signals=[(doppler, amplitude)],
        seed=seed,
        window=window,
    )
    data = jfstat.prepare(
        sfts,
        fmin=f0 - searched,
        fmax=f0 + searched,
        sqrt_sx=4e-24,
        guard=guard,
        orbit=orbit if tell_orbit else None,
    )
    return Case(data, doppler, amplitude)


def at_frequency(doppler, f):
    """The same template at another frequency."""
    return jfstat.Doppler(
        doppler.alpha, doppler.delta, np.append(f, np.asarray(doppler.fkdot)[1:]), doppler.reftime, doppler.orbit
    )


def relative_l2(x, reference):
    x, reference = np.asarray(x, float), np.asarray(reference, float)
    return np.sqrt(np.sum((x - reference) ** 2) / np.sum(reference**2))
