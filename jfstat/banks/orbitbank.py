"""Template banks with ranges of orbits: checks of users' arguments, and the lattice's templates as a stack."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jfstat.banks.chart import FLAT_RADIUS, Elements, charted_space, stack_of
from jfstat.banks.comparison import Comparison
from jfstat.banks.lattice import divided, expected_number, templates_of
from jfstat.banks.ranges import sky_box, sky_positions, within_ranges
from jfstat.maths.vectors import unit_vector
from jfstat.signal.parameters import spin_name
from jfstat.signal.templates import Doppler
from jfstat.signal.times import GPSTime

if TYPE_CHECKING:
    from collections.abc import Mapping

    from astropy.coordinates import SkyCoord

    from jfstat.banks.ranges import RangeLike

MOST_TEMPLATES = 2e7
"""Largest number of templates of a bank with ranges of orbits."""
MOST_RANGES = 6
"""Largest number of parameters with ranges."""
MOST_ECC = 0.8
"""Largest eccentricity of ranges."""


class OrbitRanges(NamedTuple):
    """Ranges of the parameters of templates in binaries.

    Attributes
    ----------
    sky : list of dict of str to (low, high)
        From `sky_limits`.
    spins : (s, 2) float64
        Of the derivatives of the frequency, Hz/s^k.
    orbit : mapping of str to (low, high)
        From `orbit_limits`.
    """

    sky: list[dict[str, tuple[float, float]]]
    spins: np.ndarray
    orbit: Mapping[str, tuple[float, float]]


class OrbitBank:
    """Lattices over ranges of orbits, sky positions and spin-downs, planned but not laid.

    Parameters
    ----------
    comparison : Comparison
        `Phases` or `Tracks` of the data.
    ranges : OrbitRanges
    reftime, mismatch
        As for `template_bank`.
    fmax : float
        Frequency at which the metric is taken, Hz.

    Raises
    ------
    ValueError
        If ranges are too wide or too many.
    """

    def __init__(self, comparison: Comparison, ranges: OrbitRanges, reftime: GPSTime, fmax: float, mismatch: float):
        spins, orbit = ranges.spins, ranges.orbit
        require_orbits(orbit)
        limits = {spin_name(k): (float(low), float(high)) for k, (low, high) in enumerate(spins, 1)} | dict(orbit)
        self.reftime, self.spins, self.lattices = reftime, spins, []
        for own in ranges.sky:
            all_ranges = own | limits
            wide = [name for name, (low, high) in all_ranges.items() if low < high]
            if len(wide) > MOST_RANGES:
                raise ValueError(
                    f"at most {MOST_RANGES} parameters may have ranges where an orbit has, not {', '.join(wide)}: fix "
                    "some."
                )
            space = charted_space(comparison, all_ranges, len(spins), reftime, fmax, mismatch)
            self.lattices.append((space, divided(space)))

    @property
    def expected(self) -> float:
        """Expected number of templates."""
        return sum(expected_number(boxes) for _, boxes in self.lattices)

    def templates(self, freq: float, strict: bool) -> Doppler:
        """Return the templates at a frequency, Hz; if `strict`, those whose spin-downs lie in their ranges.

        Raises
        ------
        ValueError
            If the bank would have too many templates.
        """
        require_bank_size(self.expected)
        found = [templates_of(space, boxes) for space, boxes in self.lattices]
        e = Elements(*(np.concatenate(x) for x in zip(*found, strict=True)))
        if strict:
            e = _inside(e, self.spins)
        return stack_of(e, self.lattices[0][0].place, (), freq)


def require_bank_size(expected: float) -> None:
    """Raise a ValueError if a bank would have too many templates."""
    if expected > MOST_TEMPLATES:
        raise ValueError(
            f"the bank would have about {expected:.3g} templates, more than {MOST_TEMPLATES:.3g}: narrow the ranges or "
            "raise the mismatch."
        )


def require_orbits(orbit: Mapping[str, tuple[float, float]]) -> None:
    """Raise a ValueError if ranges of orbits are too eccentric, or some have no effect."""
    if orbit["ecc"][1] > MOST_ECC:
        raise ValueError(
            f"orbit ecc must be at most {MOST_ECC} with a mismatch, not {orbit['ecc'][1]}: give less eccentric orbits."
        )
    idle = [name for name, (low, high) in orbit.items() if low < high]
    if idle and orbit["asini"][1] == 0:
        raise ValueError(f"orbit asini is 0, so that {idle[0]} has no effect: give a size of the orbit.")


def sky_limits(alpha: RangeLike | SkyCoord | None, delta: RangeLike | None) -> list[dict[str, tuple[float, float]]]:
    """Return ranges of alpha and delta: one box, or one for each position.

    Raises
    ------
    ValueError
        If a box is too large for orbits with ranges, or only one of them is a range.
    """
    if not isinstance(alpha, tuple) and not isinstance(delta, tuple):
        return [{"alpha": (a, a), "delta": (d, d)} for a, d in zip(*sky_positions(alpha, delta), strict=True)]
    if not (isinstance(alpha, tuple) and isinstance(delta, tuple)):
        raise ValueError("alpha and delta must both be ranges (low, high) or both be values: they make one box.")
    box = sky_box(alpha, delta)
    ends = (box.alpha, box.alpha + box.width), (box.south, box.north)
    centre = unit_vector(np.float64(np.mean(ends[0])), np.float64(np.mean(ends[1])))
    corners = unit_vector(np.array(ends[0])[:, None], np.array(ends[1]))
    if box.width > 2 * FLAT_RADIUS or np.min(corners @ centre) < np.cos(FLAT_RADIUS):
        raise ValueError(
            f"alpha and delta must span less than {2 * FLAT_RADIUS} rad in a lattice over orbits, over power along "
            "tracks or over any parameters: make a bank of each part."
        )
    return [{"alpha": ends[0], "delta": ends[1]}]


def _inside(e: Elements, spins: np.ndarray) -> Elements:
    """Return the templates whose spin-downs lie in their ranges, (s, 2)."""
    inside = within_ranges(np.asarray(e.spins), spins)
    return Elements(*(x[inside] for x in e))
