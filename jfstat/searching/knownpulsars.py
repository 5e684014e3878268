"""Hold the known pulsars, SFTs and options that targeted and narrow-band searches share."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from jfstat.data.noise import Noise, NoiseLike
from jfstat.data.observation import reference_time
from jfstat.geometry.ephemeris import EphemerisLike, installed_ephemerides
from jfstat.pulsars.glitch import taylor_shifted
from jfstat.pulsars.pulsar import HARMONIC, QUADRUPOLE, Pulsar
from jfstat.sfts.container import SFTs
from jfstat.sfts.parts import InMemory, PartsOfSFTs
from jfstat.sfts.reading import SFTFiles, find_sfts
from jfstat.signal.templates import Doppler
from jfstat.signal.times import GPSTime, TimeLike, gps_time
from jfstat.signal.values import with_fields
from jfstat.statistic.linerobust import LinePrior, checked_prior
from jfstat.validation import (
    FrequencyLike,
    NumberLike,
    frequency,
    guard_band,
    is_whole,
    plain_number,
    positive_number,
    shown,
)

DEFAULT_EPHEMERIS = "DE405"


@dataclass(frozen=True)
class PulsarBand:
    """Frequencies that are searched around each known pulsar.

    Parameters
    ----------
    freq, f1dot : float or Quantity
        Full widths of the band around the pulsar, in frequency, Hz, and in f1dot, Hz/s. f1dot lies on a flat grid
        with steps of 1/(2T^2), frequencies are 1/(2T) apart; position, orbit and higher derivatives are the pulsar's.
        With widths of 0 there is one template, the pulsar's own.
    top : int
        Number of rows for each pulsar: the loudest candidates of its band.
    harmonic : float
        Ratio of the signals' frequency to the pulsars' rotation frequency.
    reftime : float, str, Time or GPSTime, optional
        Reference time of the table's frequencies and positions, GPS s, at which bands are centred on the pulsars'
        frequencies; by default the start of the data.

    Raises
    ------
    ValueError
        If a width is negative or not finite, `top` is no whole number from 1 on, or more than 1 without a band, or
        `harmonic` is not positive.

    Examples
    --------
    >>> jfstat.PulsarBand(freq=1e-3, top=5)
    PulsarBand(freq=0.001, f1dot=0.0, top=5, harmonic=2.0, reftime=None)
    """

    freq: FrequencyLike = 0.0
    f1dot: NumberLike = 0.0
    top: int = 1
    harmonic: float = QUADRUPOLE
    reftime: TimeLike | None = None

    def __post_init__(self) -> None:
        width, spin = frequency(self.freq, "freq"), plain_number(self.f1dot, "f1dot", "a width in Hz/s", "Hz/s")
        if not (width >= 0 and spin >= 0 and np.isfinite(spin)):
            raise ValueError("freq and f1dot must be finite and not negative: give full widths in Hz and Hz/s.")
        if not is_whole(self.top) or self.top < 1:
            raise ValueError(f"top must be a whole number of at least 1, not {shown(self.top)}.")
        if self.top > 1 and not (width or spin):
            raise ValueError(f"top={self.top} needs a band: without, each pulsar has one template.")
        object.__setattr__(self, "freq", width)
        object.__setattr__(self, "f1dot", spin)
        object.__setattr__(self, "harmonic", positive_number(self.harmonic, "harmonic", HARMONIC))
        if self.reftime is not None:
            object.__setattr__(self, "reftime", gps_time(self.reftime, "reftime"))

    @property
    def wide(self) -> bool:
        """Whether more than the pulsars' own templates are searched."""
        return (self.freq, self.f1dot) != (0.0, 0.0)


@dataclass(frozen=True, eq=False)
class PulsarSearch:
    """Known pulsars with the SFTs and options of their search.

    Attributes
    ----------
    parts : PartsOfSFTs
    pulsars : list of Pulsar
    band : PulsarBand
    reftime : GPSTime
        Reference time of the table.
    noise : Noise
    ephemeris : str, two paths, Ephemeris or None
        Ephemeris; None for the one of each timing solution.
    guard : float
        Width of the SFTs used on each side of a signal, Hz.
    line_prior : LinePrior
    progress : bool
        Whether to show progress.
    """

    parts: PartsOfSFTs
    pulsars: list[Pulsar]
    band: PulsarBand
    reftime: GPSTime
    noise: Noise
    ephemeris: EphemerisLike | None
    guard: float
    line_prior: LinePrior
    progress: bool


def pulsar_search(
    sfts: object,
    pulsars: list[Pulsar],
    band: PulsarBand,
    sqrt_sx: NoiseLike | None,
    ephemeris: EphemerisLike | None,
    guard: FrequencyLike,
    line_prior: LinePrior | None,
    progress: bool,
) -> PulsarSearch:
    """Return the search that users' arguments ask for; see `search_pulsars`.

    Raises
    ------
    TypeError, ValueError
        If an argument is of another kind or out of range.
    """
    width, noise = guard_band(guard), Noise.of(sqrt_sx)
    parts = parts_of(sfts)
    detectors = parts.times.detectors
    prior = checked_prior(line_prior, len(detectors))
    reftime, noise = reference_time(band.reftime, parts.times.start), noise.by_detector(detectors)
    return PulsarSearch(parts, pulsars, band, reftime, noise, ephemeris, width, prior, progress)


def parts_of(sfts: object) -> PartsOfSFTs:
    """Return the SFTs that a user gave, in memory or in files, to be read in parts.

    Raises
    ------
    TypeError
        If they are neither SFTs nor names of files.
    """
    if isinstance(sfts, SFTs):
        return InMemory(sfts)
    if isinstance(sfts, SFTFiles):
        return sfts
    if not isinstance(sfts, (str, os.PathLike, Sequence)):
        raise TypeError(f"sfts must be SFTs or the names of SFT files, not {type(sfts).__name__}.")
    return find_sfts(sfts)  # type: ignore[arg-type]


def check_pulsars(pulsars: Pulsar | Iterable[Pulsar]) -> list[Pulsar]:
    """Return the pulsars that a user gave; raise a TypeError for other objects and a ValueError if there are none."""
    known = [pulsars] if isinstance(pulsars, Pulsar) else list(pulsars)
    if not all(isinstance(pulsar, Pulsar) for pulsar in known):
        raise TypeError("pulsars must be Pulsars from jfstat.read_par or jfstat.read_pulsars: read .par files first.")
    if not known:
        raise ValueError("pulsars is empty: give at least one.")
    return known


def ephemeris_of(pulsar: Pulsar, ephemeris: EphemerisLike | None) -> EphemerisLike:
    """Return the given ephemeris, or the timing solution's, or DE405 where it is not installed."""
    named = (pulsar.ephemeris or "").upper()
    choices = (named, named.rstrip("ST"))  # shorter and longer versions of one ephemeris
    installed = installed_ephemerides()
    own = next((name for name in choices if name in installed), None)
    return ephemeris or own or DEFAULT_EPHEMERIS


def warn_of_ephemerides(pulsars: list[Pulsar], ephemeris: EphemerisLike | None) -> None:
    """Warn if the ephemeris of a timing solution is not installed and another is used."""
    if ephemeris is not None:
        return
    other = [p for p in pulsars if p.ephemeris and str(ephemeris_of(p, None)) not in p.ephemeris.upper()]
    if other:
        names = ", ".join(f"{p.name} ({p.ephemeris})" for p in other[:5]) + (" and others" if len(other) > 5 else "")
        warnings.warn(f"the ephemerides of {names} are not installed: {DEFAULT_EPHEMERIS} is used.", stacklevel=3)


def moved_to(point: Doppler, reference: GPSTime) -> Doppler:
    """Return a template moved to another reference time."""
    since = float(reference - (reference if point.reftime is None else point.reftime))
    fkdot = taylor_shifted(np.asarray(point.fkdot), since, len(point.fkdot))
    alpha, delta = np.asarray(point.alpha), np.asarray(point.delta)
    if point.motion is not None:
        motion = np.asarray(point.motion)
        alpha, delta = alpha + since * motion[0] / np.cos(delta), delta + since * motion[1]
    return with_fields(point, alpha=alpha, delta=delta, fkdot=fkdot, reftime=reference)
