"""Divide SFTs by their noise floor, with the motions of their detectors: the data of power along tracks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jfstat import kinds
from jfstat.data.bandseries import STATIC, frequency_count
from jfstat.data.fstatdata import plain_number
from jfstat.data.noise import Noise, NoiseFloor, NoiseLike, noise_weights, refuse_loud
from jfstat.data.observation import Observation, reference_time, span_rows, unweighted, weighted
from jfstat.data.sftmask import tapered_fraction
from jfstat.display import Displayed, Facts, memory
from jfstat.geometry.doppler import EARTH_SPEED
from jfstat.geometry.ephemeris import EphemerisLike
from jfstat.geometry.frequencies import Motion, motion_of
from jfstat.maths.arrays import on_device
from jfstat.public import host
from jfstat.sfts.container import SFTs, check_sfts
from jfstat.validation import FrequencyLike, frequency, is_whole, shown

MOST_BINS = 16
"""Largest number of bins that give the amplitude at a frequency."""
TAPERED = 0.1
"""Largest tapered fraction of SFTs whose bins are joined as those with rectangular windows."""
SPARE = 2
"""Bins that the SFTs must hold beyond those of a track, so that frequencies may be computed in blocks."""
MOST_PER_BIN, EVEN = 64, 1e-6
"""Largest number of frequencies per bin, and how far from a whole number it may be given."""
SECTIONS = 32
"""Sub-bands are made of at most as many equal sections of the band."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class BandLayout:
    """Sizes of the band that is searched, and how power is computed, all static; compare `bandseries.Layout`.

    Attributes
    ----------
    n_frequencies : int
        Length of `NormalisedSFTs.frequencies`.
    per_bin : int
        Number of frequencies per bin of the SFTs.
    bins : int
        Number of bins that give the power at a frequency.
    """

    n_frequencies: int = field(metadata=STATIC)
    per_bin: int = field(metadata=STATIC)
    bins: int = field(metadata=STATIC)

    @property
    def n_fft(self) -> int:
        """Half the number of frequencies that are divided into equal sections; see `data.protocol.Sizes`."""
        return SECTIONS * -(-self.n_frequencies // (2 * SECTIONS))


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False, eq=False)
class NormalisedSFTs(Displayed):
    """SFTs divided by their noise floor, for power along tracks; made by `jfstat.normalise`.

    A pytree: pass it to jitted functions as an argument. D detectors with S SFTs of n_bins.

    Attributes
    ----------
    values : (D, S, n_bins) float32 or complex64
        Power of the bins, whose mean in noise is 1; or, if several bins give the power at a frequency, their
        amplitudes.
    first_bin : () int64
        Number of the first bin, from a frequency of zero on.
    motion : Motion
        Of the detectors in the middle of the SFTs, with times of shape (D, S).
    observation : Observation
        Its weight is zero where a detector has fewer SFTs.
    fmin, dfreq : () float64
        First of `frequencies`, and their spacing, Hz.
    layout : BandLayout
    """

    values: jax.Array
    first_bin: jax.Array
    motion: Motion
    observation: Observation
    fmin: jax.Array
    dfreq: jax.Array
    layout: BandLayout

    @property
    def detectors(self) -> tuple[str, ...]:
        """Names of the detectors."""
        return self.observation.detectors

    @property
    def ephemeris(self) -> str:
        """Name of the solar-system ephemeris."""
        return self.observation.ephemeris

    @property
    def n_segments(self) -> None:
        """None, because these data have no segments."""
        return None

    @property
    def tspan(self) -> float | jax.Array:
        """Time from the start of the first SFT to the end of the last, s; a float, or traced in a transformation."""
        return plain_number(self.observation.tspan)

    @property
    def samples(self) -> jax.Array:
        """The values that distinguish one data set from another."""
        return self.values

    @property
    def frequencies(self) -> np.ndarray | jax.Array:
        """Frequencies of a search, (n_frequencies,) float64, Hz, in the solar-system barycentre."""
        step = plain_number(self.dfreq)
        return plain_number(self.fmin) + np.arange(self.layout.n_frequencies, dtype=float) * step

    @property
    def edges(self) -> tuple[float, float]:
        """Lowest and highest frequency at a detector that the SFTs hold with all that is needed around it, Hz."""
        tsft, first = float(self.observation.tsft), int(self.first_bin)
        low, high = edge_bins(first, self.values.shape[-1], self.layout.bins)
        return low / tsft, high / tsft

    def _facts(self) -> Facts:
        rows, layout = span_rows(self.observation), self.layout
        if rows:
            band = "none for a search"
            if layout.n_frequencies:
                low, high = self.frequencies[[0, -1]]
                band = (
                    f"{low:.10g} to {high:.10g} Hz, {layout.n_frequencies} frequencies {float(self.dfreq):.4g} Hz apart"
                )
            rows.append(("band", band))
        rows += [("bins", str(layout.bins)), ("ephemeris", self.ephemeris), ("memory", memory(self))]
        return Facts(f"NormalisedSFTs of {', '.join(self.detectors)}", rows, many=True)


def edge_bins(first_bin: int, n_bins: int, bins: int) -> tuple[int, int]:
    """Return the lowest and highest number of a bin near which tracks have all bins that they need."""
    around = SPARE + bins // 2
    return first_bin + around, first_bin + n_bins - 1 - around


@host(sfts=kinds.instance(SFTs), ephemeris=kinds.ephemeris)
def normalise(
    sfts: SFTs,
    fmin: FrequencyLike | None = None,
    fmax: FrequencyLike | None = None,
    *,
    dfreq: FrequencyLike | None = None,
    bins: int = 1,
    sqrt_sx: NoiseLike | None = None,
    ephemeris: EphemerisLike = "DE405",
) -> NormalisedSFTs:
    """Divide SFTs by their noise floor, for power along tracks: for `track_power`, and `search` with `TrackPower`.

    Each SFT is weighted by the mean of its floor over all of its bins.

    Parameters
    ----------
    sfts : SFTs
        SFTs of a band that holds the tracks of all templates, with some bins more.
    fmin, fmax : float or Quantity, optional
        Band of a search, Hz, in the solar-system barycentre. By default the widest band that the SFTs hold for isolated
        sources at any sky position; there is none if they hold less than the Doppler shifts. `track_power` takes the
        frequencies of its templates instead.
    dfreq : float or Quantity, optional
        Spacing of the frequencies of a search, Hz: the width 1/Tsft of a bin, which is the default, divided by a whole
        number up to 64. With several `bins` half a bin is better: the default loses as much between two frequencies as
        the nearest bin does.
    bins : int
        Number of bins from which the power at a frequency follows. 1 takes the nearest bin: a signal half-way between
        two loses 59 % of its power there, and 23 % on average. An even number up to 16 adds the nearest bins with the
        phases that a signal has in them: 2 bins lose at most 19 %, 4 at most 10 %, 8 at most 5 %. This holds for
        rectangular windows and signals whose frequency hardly drifts within an SFT.
    sqrt_sx : float, sequence, mapping or Noise, optional
        Noise floor in 1/sqrt(Hz), as for `prepare`; None estimates it.
    ephemeris : str, two paths or Ephemeris
        See `load_ephemeris`.

    Returns
    -------
    NormalisedSFTs

    Raises
    ------
    TypeError
        If an argument is of another kind.
    ValueError
        If the SFTs do not hold the band, the noise floor cannot be estimated, `dfreq` is not a bin's width divided by a
        whole number, `bins` is neither 1 nor an even number up to 16, or more than one bin is wanted of SFTs with a
        window that is far from rectangular.

    Examples
    --------
    >>> jfstat.normalise(sfts, 100.0, 100.02).layout.n_frequencies
    37
    """
    check_sfts(sfts)
    if not is_whole(bins) or not (bins == 1 or (bins % 2 == 0 and 2 <= bins <= MOST_BINS)):
        raise ValueError(f"bins must be 1 or an even number up to {MOST_BINS}, not {shown(bins)}.")
    tapered = [s.window for s in sfts if s.window != "unknown" and tapered_fraction(s.window) > TAPERED]
    if bins > 1 and tapered:
        raise ValueError(f"bins={bins} is for SFTs with rectangular windows, and these have {tapered[0]!r}: give 1.")
    if bins + 1 > sfts.n_bins:
        raise ValueError(f"bins={bins} needs more bins than the {sfts.n_bins} of the SFTs: give SFTs of a wider band.")
    low, spacing, layout = _band(sfts, fmin, fmax, dfreq, int(bins))
    noise = Noise.of(sqrt_sx)
    seen, values = _divided(sfts, noise, ephemeris, bins == 1)
    return NormalisedSFTs(
        jnp.asarray(values),
        on_device(np.int64(sfts.first_bin)),
        _motions(seen),
        seen,
        on_device(low),
        on_device(spacing),
        layout,
    )


def _band(
    sfts: SFTs, fmin: FrequencyLike | None, fmax: FrequencyLike | None, dfreq: FrequencyLike | None, bins: int
) -> tuple[float, float, BandLayout]:
    """Return the first frequency of a band, the spacing of its frequencies, and its sizes.

    Raises
    ------
    ValueError
        If an argument makes no sense, or the SFTs do not hold the band.
    """
    lowest, highest = (x / sfts.tsft for x in edge_bins(sfts.first_bin, sfts.n_bins, bins))
    around = f"{SPARE + bins // 2} bins and the Doppler shift of the Earth's motion on either side"
    widest = lowest / (1 - EARTH_SPEED), highest / (1 + EARTH_SPEED)
    if widest[0] > widest[1]:
        if fmin is None and fmax is None and dfreq is None:  # for single templates
            return widest[0], 1 / sfts.tsft, BandLayout(0, 1, bins)
        held = sfts.frequencies
        raise ValueError(
            f"the SFTs hold {held[0]:.10g} to {held[-1]:.10g} Hz, and {around} are needed: give SFTs of a wider band."
        )
    low = widest[0] if fmin is None else frequency(fmin, "fmin")
    high = widest[1] if fmax is None else frequency(fmax, "fmax")
    if not 0 < low <= high:
        raise ValueError(f"fmin={low} and fmax={high} must be positive and ordered: give 0 < fmin <= fmax in Hz.")
    if low < widest[0] or high > widest[1]:
        raise ValueError(
            f"fmin={low:.10g} and fmax={high:.10g} must lie within {widest[0]:.10g} to {widest[1]:.10g} Hz, since "
            f"{around} are needed: give SFTs of a wider band."
        )
    per_bin = 1 if dfreq is None else 1 / (sfts.tsft * max(frequency(dfreq, "dfreq"), 1e-12))
    whole = round(per_bin)
    if not 1 <= whole <= MOST_PER_BIN or abs(per_bin - whole) > EVEN * whole:
        raise ValueError(
            f"dfreq must be the width of a bin, {1 / sfts.tsft:.10g} Hz, divided by a whole number up to "
            f"{MOST_PER_BIN}, not {shown(dfreq)}."
        )
    spacing = 1 / (sfts.tsft * whole)
    return low, spacing, BandLayout(frequency_count(low, high, spacing), whole, bins)


@jax.jit
def _motions(observation: Observation) -> Motion:
    axes: Any = 0, 1, 1, 0, 0, 1  # components of vectors stay in front of the detectors
    return jax.vmap(motion_of, out_axes=Motion(*axes))(
        observation.trajectory, observation.start + 0.5 * observation.tsft
    )


def _divided(sfts: SFTs, noise: Noise, ephemeris: EphemerisLike, power: bool) -> tuple[Observation, np.ndarray]:
    """Return the observation, weighted by the mean floors of SFTs over all bins, and `NormalisedSFTs.values`.

    Raises
    ------
    ValueError
        If the noise floor cannot be estimated.
    """
    floors = noise.floors(sfts.detectors)
    if sfts.n_bins < noise.least_bins and None in floors:
        raise ValueError(
            f"the noise floor needs {noise.least_bins} bins and the SFTs hold {sfts.n_bins}: give SFTs of a wider "
            "band, or sqrt_sx."
        )
    band = slice(0, sfts.n_bins)
    each = [NoiseFloor(s, sfts.tsft, floor, band, band, noise) for s, floor in zip(sfts, floors, strict=True)]
    seen = unweighted(sfts, reference_time(None, sfts.start), ephemeris)
    values = np.zeros((*seen.start.shape, sfts.n_bins), np.float32 if power else np.complex64)
    mean = [np.empty(len(s)) for s in sfts]
    for k, floor in enumerate(each):
        for rows, psds in floor.psds():
            mean[k][rows] = floor.band_means(psds)
            with np.errstate(over="ignore", invalid="ignore"):
                factors = np.sqrt(2 / (sfts.tsft * floor.whitened_power * psds)).astype(np.float32)
                own: Any = floor.series.data[rows] * factors
                refuse_loud(float(np.max([np.vdot(sft, sft).real for sft in own])), floor.series.detector)
            values[k, rows] = own.real**2 + own.imag**2 if power else own
    return weighted(seen, *noise_weights(mean), noise.signal_response(sfts.n_bins)), values
