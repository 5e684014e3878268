"""Name the parameters of a signal, with their order, units and limits."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import jax
import numpy as np

from jfstat.validation import LARGEST

SHORTEST_PERIOD = 1e-6
"""Shortest period of an orbit, s, whose inverse and its powers are finite."""
Number = TypeVar("Number", float, np.ndarray, jax.Array)

SKY = ("alpha", "delta")
ORBIT_FIELDS = ("asini", "period", "tp", "ecc", "argp")
"""Fields of an Orbit, all scalars of a template."""
MOTION_FIELDS = ("pmra", "pmdec")
"""Proper motion of a Doppler, named as in pulsar catalogues: motion in right ascension is multiplied by cos(delta)."""
ORBIT_REQUIRED = ("asini", "period", "tp")
"""Fields that every orbit must be given; the others are zero by default."""
PRECISE = ("freq", "period", "tp")
"""Parameters that need more than the 7 digits of float32: a phase has 1e9 cycles, and GPS times 1e9 s."""
AMPLITUDE_FIELDS = ("h0", "cosi", "psi", "phi0")
"""Fields of an Amplitude apart from its errors, all scalars of a signal."""
AMPLITUDE_COLUMNS = (*AMPLITUDE_FIELDS, *(f"{name}_error" for name in AMPLITUDE_FIELDS))
"""Columns of a table for an estimated amplitude: the parameters and their errors."""
WINDOW_COLUMNS = ("t0", "tau")
"""Columns of a table for the window of a transient signal."""
TRANSIENT_COLUMNS = ("max_twoF", "t0", "tau", "log10BtSG", "t0_MP", "tau_MP")
"""Columns of a table for transient signals: the largest 2F, its window, the Bayes factor, the most probable times."""
MODEL = "model"
"""First word of the names of the parameters of a `PhaseModel`, such as ``model.df``."""
USUALLY_FIXED = ("ecc", "argp", *MOTION_FIELDS)
"""Parameters that a follow-up fits only on request: at small eccentricities ``ecc`` and ``argp`` are degenerate with
``tp``, and a proper motion is known if there is one.
"""
UNITS = {"alpha": "rad", "delta": "rad", "asini": "s", "period": "s", "tp": "s", "argp": "rad"}
UNITS |= {"psi": "rad", "phi0": "rad", "pmra": "rad / s", "pmdec": "rad / s"}
UNITS |= {"t0": "s", "tau": "s", "phi21": "rad", "phi22": "rad"}
"""Units of the parameters that have one, apart from the frequency and its derivatives; see `unit`."""


class Limit(NamedTuple):
    """The condition that the values of a parameter must fulfil.

    Attributes
    ----------
    holds : callable
        The condition, elementwise, for NumPy or JAX arrays; False for NaN.
    must_be, hint : str
        Phrases for the error that refuses an argument.
    otherwise : str
        What is wrong with a value that does not fulfil it, such as "is negative".
    """

    holds: Callable[[jax.Array | np.ndarray], jax.Array | np.ndarray]
    must_be: str
    hint: str
    otherwise: str


LIMITS = {
    "alpha": Limit(
        lambda x: abs(x - np.pi) <= 2 * np.pi + 1e-12,
        "within [-pi, 3 pi]",
        "give it in rad, not in hours or degrees, less any full turns",
        "is not within [-pi, 3 pi]",
    ),
    "delta": Limit(lambda x: abs(x) <= np.pi / 2 + 1e-12, "within [-pi/2, pi/2]", "give it in rad", "is beyond a pole"),
    "asini": Limit(
        lambda x: (x >= 0) & (x <= LARGEST),
        f"non-negative, of at most {LARGEST:g}",
        "turn argp by pi instead of a sign",
        f"is negative or beyond {LARGEST:g} s",
    ),
    "period": Limit(
        lambda x: (x >= SHORTEST_PERIOD) & (x <= LARGEST),
        f"positive, from {SHORTEST_PERIOD:g} to {LARGEST:g}",
        "give it in s",
        f"is not positive, from {SHORTEST_PERIOD:g} to {LARGEST:g} s",
    ),
    "tp": Limit(lambda x: abs(x) <= LARGEST, f"at most {LARGEST:g}", "give GPS s", f"is beyond {LARGEST:g} s"),
    "ecc": Limit(
        lambda x: (x >= 0) & (x < 1), "at least 0 and below 1", "orbits must be bound", "is not within [0, 1)"
    ),
    "h0": Limit(lambda x: x >= 0, "non-negative", "shift phi0 by pi instead", "is negative"),
    "cosi": Limit(lambda x: abs(x) <= 1, "within [-1, 1]", "it is the cosine of an angle", "is not within [-1, 1]"),
}
LIMITS |= {"c21": LIMITS["h0"], "c22": LIMITS["h0"]}
"""Limits of single parameters, all of which must be finite too. An orbit's `speed_bound` must be below 1.

A right ascension may lie half a turn beyond [0, 2 pi] on either side, as ranges through 0 need; 10 is taken for hours.
"""


def speed_bound(asini: Number, period: Number, ecc: Number) -> Number:
    """Return an upper bound on the speed of an orbit, 2 pi a/(P (1 - e)), in units of the speed of light."""
    return 2 * np.pi * asini / period / (1 - ecc)


def unit(name: str) -> str:
    """Return the unit of a parameter or of its error (``h0_error``) in astropy's spelling; "" if it has none."""
    name = name.removesuffix("_error")
    k = spin_order(name)
    return UNITS.get(name, "") if k is None else ("Hz" if k == 0 else "Hz / s" if k == 1 else f"Hz / s{k}")


def spin_order(name: str) -> int | None:
    """Return k for the k-th derivative of the frequency, at most the 99th, 0 for ``freq``; None for other names."""
    if name == "freq":
        return 0
    found = re.fullmatch(r"f([1-9][0-9]?)dot", name)
    return int(found[1]) if found else None


def spin_name(k: int) -> str:
    """Return the name of the k-th derivative of the frequency: ``freq``, ``f1dot``, ..."""
    return "freq" if k == 0 else f"f{k}dot"


def spin_names(names: Sequence[str]) -> list[str]:
    """Return ``freq`` and the names of all derivatives up to the highest among some names."""
    return [spin_name(k) for k in range(1 + max((spin_order(name) or 0 for name in names), default=0))]


def is_parameter(name: str) -> bool:
    """Return whether a column holds a parameter of templates."""
    return spin_order(name) is not None or name in (*SKY, *MOTION_FIELDS, *ORBIT_FIELDS) or is_of_model(name)


def is_of_model(name: str) -> bool:
    """Return whether a column holds a parameter of a user's `PhaseModel`."""
    return re.match(rf"{MODEL}\b(?!_)", name) is not None and not name.endswith("_error")


def is_usually_fixed(name: str) -> bool:
    """Return whether a follow-up fits a parameter only on request."""
    return name in USUALLY_FIXED or is_of_model(name)
