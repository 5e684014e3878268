"""Prepare data for the band around candidates, with room for climbs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jfstat.data.plan import Search
from jfstat.data.prepare import prepared_for
from jfstat.geometry.doppler import drift_range, largest_doppler_speed
from jfstat.signal.parameters import ORBIT_FIELDS, spin_order
from jfstat.signal.templates import Orbit
from jfstat.signal.times import TimeLike, gps_time

if TYPE_CHECKING:
    from jfstat.data.fstatdata import FstatData
    from jfstat.data.noise import Noise
    from jfstat.data.segments import SegmentsLike
    from jfstat.geometry.ephemeris import EphemerisLike
    from jfstat.sfts.container import SFTs

WIDEST = 1.0
"""Largest span of frequencies, Hz, of candidates that share prepared data."""
MARGIN_HZ, MARGIN_SKY, MARGIN_BINS = 0.01, 1e-4, 20.0
"""Margins around candidates: in frequency, Hz; relative to the frequency, for wrong sky positions in short data; and in
the k-th derivative, in units of 1/T^(k+1)."""


class CandidateBand(NamedTuple):
    """Ranges of some candidates' parameters.

    Attributes
    ----------
    low, high : float
        Lowest and highest frequency, Hz.
    orbit : Orbit or None
        Orbits of the candidates in binaries, stacked.
    fdots : list of (float, float)
        Ranges of the derivatives, in Hz/s, Hz/s^2, ....
    """

    low: float
    high: float
    orbit: Orbit | None
    fdots: list[tuple[float, float]]

    @classmethod
    def of(cls, columns: dict[str, np.ndarray], width: float = 0.0) -> CandidateBand:
        """Return the ranges of columns as from `parameter_columns`, of valid rows; frequencies span at least `width`
        Hz."""
        low, high = float(columns["freq"].min()), float(columns["freq"].max())
        wider = 0.5 * max(width - (high - low), 0.0)
        binaries = np.flatnonzero(columns.get("asini", np.zeros(1)))  # asini = 0 is no orbit
        orbit = Orbit(*(columns[name][binaries] for name in ORBIT_FIELDS)) if len(binaries) else None
        spins = [columns[name] for name in columns if (spin_order(name) or 0) > 0]
        return cls(low - wider, high + wider, orbit, [(float(x.min()), float(x.max())) for x in spins])

    @property
    def margin(self) -> float:
        """Margin of the band on each side, Hz."""
        return MARGIN_HZ + MARGIN_SKY * self.high

    def prepared(
        self,
        sfts: SFTs,
        reftime: TimeLike | None,
        noise: Noise,
        ephemeris: EphemerisLike,
        guard: float,
        segments: SegmentsLike | None = None,
        shortest: float | None = None,
    ) -> FstatData:
        """Return data prepared for the band with margins on both sides, as far as the SFTs allow.

        Parameters
        ----------
        sfts : SFTs
        reftime : number, GPSTime or None
            GPS time at which the frequencies hold, s.
        noise, ephemeris, guard, segments
            See `jfstat.prepare`.
        shortest : float, optional
            Length of the segments in which the candidates were found, s, for the margins of the derivatives; by default
            the data's.
        """
        span = sfts.end - sfts.start
        per_bin = 1 / (span if shortest is None else shortest)
        fdots = [
            (first - MARGIN_BINS * per_bin / span**k, last + MARGIN_BINS * per_bin / span**k)
            for k, (first, last) in enumerate(self.fdots, 1)
        ]
        since = 0.0 if reftime is None else -float(gps_time(reftime, "reftime").since(sfts.start))
        drift_low, drift_high = drift_range(fdots or None, since, since + span)
        low, high, margin = self.low, self.high, self.margin
        shift = largest_doppler_speed(self.orbit) * (high + margin)
        first, last = float(sfts.frequencies[0]), float(sfts.frequencies[-1])
        search = Search(
            fmin=min(low, max(low - margin, first + shift - drift_low)),
            fmax=max(high + 0.25 / span, min(high + margin, last - shift - drift_high)),
            guard=guard,
            orbit=self.orbit,
            fdots=fdots or None,
            rounded=True,
        )
        return prepared_for(sfts, search, reftime, noise, ephemeris, segments, False)


def sharing_data(frequencies: np.ndarray, sound: np.ndarray) -> list[np.ndarray]:
    """Return valid rows in groups that span less than `WIDEST` in frequency."""
    groups: list[list[int]] = []
    for row in np.argsort(frequencies, kind="stable"):
        if not sound[row]:
            continue
        if groups and frequencies[row] - frequencies[groups[-1][0]] < WIDEST:
            groups[-1].append(int(row))
        else:
            groups.append([int(row)])
    return [np.array(group) for group in groups]
