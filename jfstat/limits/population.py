"""A population of signals: the distribution of their parameters, and draws from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import jax
import numpy as np

from jfstat import kinds
from jfstat.signal.parameters import LIMITS, spin_name, unit
from jfstat.signal.templates import Amplitude, Doppler, Orbit
from jfstat.validation import LARGEST, NumberLike, float64_of, in_unit, require_x64, shown, whole

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

QUARTER = np.pi / 4
MOST_SIGNALS = 10**7
"""Largest number of draws at a time, to limit the memory."""


@dataclass(frozen=True, init=False, eq=False)
class Population:
    """A population of signals: the distribution of all parameters except h0.

    Each parameter is a number, which all signals share; a range ``(low, high)``, in which it is uniformly distributed;
    or an array of three or more values from which each signal draws one, for any other distribution. Parameters
    are independent of each other. The initial phase is always uniform.

    Parameters
    ----------
    alpha : number, (low, high) or array
        Right ascension, within [-pi, 3 pi], rad.
    delta : number, (low, high) or array, optional
        Declination, rad. In a range sin(delta) is uniform, so that positions are uniform on the sphere. By default the
        whole sphere.
    cosi : number, (low, high) or array
        Cosine of the inclination; by default isotropic orientations.
    psi : number, (low, high) or array
        Polarisation angle, rad.
    freq : number, (low, high) or array, optional
        Frequency at the data's reference time, Hz. By default uniform over the band of the data. Only `upper_limit`
        needs it. If frequency and position are single numbers, the upper limit is conditional on one realisation of the
        noise.
    fdots : sequence of number, (low, high) or array
        f1dot, f2dot, ..., Hz/s, Hz/s^2, ....
    orbit : Orbit, optional
        Orbit of all signals.

    Raises
    ------
    TypeError
        If `orbit` is not an Orbit.
    ValueError
        If a parameter is not numeric or outside its range.

    Examples
    --------
    >>> pulsar = jfstat.Population(alpha=2.1, delta=0.47, cosi=0.3)
    >>> pulsar.draw(1000, seed=1, freq=100.0)[0].fkdot.shape
    (1000, 1)
    """

    alpha: np.ndarray
    delta: np.ndarray
    cosi: np.ndarray
    psi: np.ndarray
    freq: np.ndarray | None
    fdots: tuple[np.ndarray, ...]
    orbit: Orbit | None = field(default=None)

    def __init__(
        self,
        alpha: NumberLike | Sequence[NumberLike] | ArrayLike = (0.0, 2 * np.pi),
        delta: NumberLike | Sequence[NumberLike] | ArrayLike | None = None,
        cosi: NumberLike | Sequence[NumberLike] | ArrayLike = (-1.0, 1.0),
        psi: NumberLike | Sequence[NumberLike] | ArrayLike = (-QUARTER, QUARTER),
        freq: NumberLike | Sequence[NumberLike] | ArrayLike | None = None,
        fdots: Sequence[NumberLike | Sequence[NumberLike] | ArrayLike] = (),
        orbit: Orbit | None = None,
    ):
        require_x64()
        kinds.instance(Orbit, or_none=True)(orbit, "orbit")
        if not isinstance(fdots, (list, tuple)):
            raise TypeError(f"fdots must be a sequence with an entry for f1dot, f2dot, ..., not {shown(fdots)}.")
        given = {
            "alpha": _values(alpha, "alpha", "rad"),
            "delta": _values((-np.pi / 2, np.pi / 2) if delta is None else delta, "delta", "rad"),
            "cosi": _values(cosi, "cosi", ""),
            "psi": _values(psi, "psi", "rad"),
            "freq": None if freq is None else _values(freq, "freq", "Hz"),
            "fdots": tuple(_values(x, f"fdots[{k}]", unit(spin_name(k + 1))) for k, x in enumerate(fdots)),
            "orbit": orbit,
        }
        for name in ("alpha", "delta", "cosi"):
            if not np.all(LIMITS[name].holds(given[name])):
                limit, own = LIMITS[name], given[name]
                raise ValueError(f"{name} must be {limit.must_be}, not {shown(own.tolist())}: {limit.hint}.")
        for name, value in given.items():
            object.__setattr__(self, name, value)

    def draw(
        self, n: int, seed: int = 0, freq: NumberLike | Sequence[NumberLike] | None = None
    ) -> tuple[Doppler, Amplitude]:
        """Draw templates and amplitudes of n signals with h0 = 1, each a stack of n.

        Parameters
        ----------
        n : int
            Number of signals, 1 or more.
        seed : int
            Seed of the draws.
        freq : number, (low, high) or array, optional
            Frequency, Hz, if the population does not have its own.

        Returns
        -------
        Doppler
            Templates without reference time: the data's reference time applies.
        Amplitude

        Raises
        ------
        ValueError
            If `n` is less than 1, or no frequency is known.
        """
        n = whole(n, "n", 1, MOST_SIGNALS)
        own = self.freq
        if own is None:
            if freq is None:
                raise ValueError("freq is missing: give it here or to the Population, in Hz.")
            own = _values(freq, "freq", "Hz")
        rng = np.random.default_rng(whole(seed, "seed"))
        sines = np.sin(self.delta) if self.delta.size == 2 else None
        delta = _drawn(rng, self.delta, n) if sines is None else np.arcsin(_drawn(rng, sines, n))
        spins = np.stack([_drawn(rng, x, n) for x in (own, *self.fdots)], axis=-1)
        orbit = None if self.orbit is None else jax.tree.map(lambda x: np.full(n, x), self.orbit)
        point = Doppler(_drawn(rng, self.alpha, n), delta, spins, orbit=orbit)
        cosi, psi = _drawn(rng, self.cosi, n), _drawn(rng, self.psi, n)
        return point, Amplitude(np.ones(n), cosi, psi, rng.uniform(0, 2 * np.pi, n))


def _values(x: object, name: str, unit: str) -> np.ndarray:
    """Return a number, the ends of a range or a sample as a one-dimensional array, in a unit."""
    given = [in_unit(value, name, unit) for value in x] if isinstance(x, (list, tuple)) else x
    values = np.atleast_1d(float64_of(given, name, unit))
    if values.ndim != 1 or values.size == 0 or not np.isfinite(values).all():
        raise ValueError(f"{name} must be a number, (low, high) or a sequence of values, all finite, not {shown(x)}.")
    if np.abs(values).max() > LARGEST:
        raise ValueError(f"{name} must be at most {LARGEST:g}, not {shown(x)}: give it in {unit or 'no unit'}.")
    if values.size == 2 and values[0] > values[1]:
        raise ValueError(f"{name} is a range from {values[0]:g} to {values[1]:g}: give (low, high) with low <= high.")
    return values


def _drawn(rng: np.random.Generator, values: np.ndarray, n: int) -> np.ndarray:
    """Draw n values: constant, uniform in a range, or from a sample."""
    return rng.uniform(values[0], values[1], n) if values.size == 2 else rng.choice(values, n)
