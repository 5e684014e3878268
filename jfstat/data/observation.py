"""Hold when and where detectors observed and the weights of SFTs: what predictions, metrics and banks need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jfstat import kinds
from jfstat.data.noise import (
    NO_BIAS,
    Noise,
    NoiseFloor,
    NoiseLike,
    noise_weights,
)
from jfstat.data.windowtimes import WindowTimes
from jfstat.display import Displayed, Facts, is_known, memory
from jfstat.geometry.antenna import harmonics_of, pattern_coefficients
from jfstat.geometry.barycenter import MAX_DELAY
from jfstat.geometry.detectors import DetectorLike, get_detectors
from jfstat.geometry.doppler import drift_during
from jfstat.geometry.ephemeris import Ephemeris, EphemerisLike, load_ephemeris, read_ephemeris
from jfstat.geometry.rotation import sidereal_time
from jfstat.geometry.source import Source, source
from jfstat.geometry.trajectory import SEGMENT, Trajectory, host_trajectory
from jfstat.maths.arrays import is_traced, on_device
from jfstat.maths.ladder import coarse_size, padded_size
from jfstat.public import host
from jfstat.sfts.container import SFTs, SFTSeries, check_sfts
from jfstat.sfts.timestamps import TimestampsLike, start_times
from jfstat.signal.showing import time_text
from jfstat.signal.templates import Doppler
from jfstat.signal.times import GPSTime, TimeLike, gps_time
from jfstat.validation import (
    DurationLike,
    FrequencyLike,
    frequency,
    sft_seconds,
)

Tree = TypeVar("Tree")
Array = TypeVar("Array", jax.Array, np.ndarray)
REACH = 2 * MAX_DELAY + SEGMENT
"""Time that a trajectory extends beyond the data on each side, s."""
LONGEST_TSFT = 14400.0
"""Longest SFTs whose 2F is right, to 1e-4: antenna patterns are taken at few times in each."""
FEW_SFTS = 8
"""Number of SFTs below which one time in each says too little of how the phase changes; see `phase_times`."""
LEAST_SIZE = 64
"""Least number of SFTs, and of pieces of their paths, in `Observation.in_few_sizes`."""
VARIES = 1.4
"""Power of a signal in an SFT, averaged over its power, over the mean: antenna patterns vary with the time of day. The
average over random sources is 1.6, and 1.4 stands for the curvature of what depends on it.
"""
DAY = 86400.0
MARGIN = 2 * SEGMENT
"""Time that the ephemeris must extend beyond the trajectory so that it covers every piece of it, s."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False, eq=False)
class Observation(Displayed):
    """When and where detectors observed, and the weights of SFTs, without strain; made by `jfstat.observation`.

    A pytree that `FstatData` and `NarrowData` hold. D detectors; S SFTs of the detector with most, rounded up to a
    common size. Observations with equally many detectors and nearly equally many SFTs have the same shapes, so they use
    the same compiled programs and can be stacked.

    Attributes
    ----------
    trajectory : Trajectory
        Trajectories of the detectors, leading axis D.
    response : (D, 3, 3) float64
        Detector tensors.
    moments : (D, 5, 5) float64
        Weighted sums over SFTs of the mean products of the five sidereal harmonics: A, B and C follow from them.
    start : (D, S) float64
        Starts of the SFTs, s since the epoch; the last one's repeated where a detector has fewer.
    weight : (D, S) float64
        Noise weights, whose mean over all SFTs of all detectors is 1; zero where a detector has fewer.
    tsft : () float64
        Length of an SFT, s.
    sinv_tsft : () float64 or None
        Tsft times the mean of 1/S over SFTs and detectors, s Hz/strain^2 (LALSuite's ``Sinv_Tsft``); None where no
        noise floor is known.
    signal_response : (3,) float64
        Mean amplitude of a weak signal in the data over what it should be by `sinv_tsft`, and how this grows for one
        that is loud in each SFT: 1, 0, 0 for given noise floors, see `Noise.signal_response` for estimated ones.
    middle : () float64
        Mid-time of the data, s since the epoch; of a segment, the middle of its span.
    tspan : () float64
        Time from the start of the first SFT to the end of the last, s; with segments, of the longest one.
    epoch : () int64
        GPS time from which all times count, s.
    reftime : GPSTime
        Reference time of templates without one.
    detectors : tuple of str, static
    ephemeris : str, static
        Name of the solar-system ephemeris.
    window : WindowTimes or None
        Of data from `windowed`: at which times they count. `weight` then has means over SFTs.
    """

    trajectory: Trajectory
    response: jax.Array
    moments: jax.Array
    start: jax.Array
    weight: jax.Array
    tsft: jax.Array
    sinv_tsft: jax.Array | None
    signal_response: jax.Array
    middle: jax.Array
    tspan: jax.Array
    epoch: jax.Array
    reftime: GPSTime
    detectors: tuple[str, ...] = field(metadata=dict(static=True))
    ephemeris: str = field(metadata=dict(static=True))
    window: WindowTimes | None = None

    @property
    def has_data(self) -> jax.Array:
        """Which detectors have SFTs of some weight, (D,) bool; (K, D) of K segments."""
        return jnp.any(self.weight > 0, axis=-1)

    def reference(self, point: Doppler) -> jax.Array:
        """Return the reference time of a template, s since the epoch, () float64."""
        reftime = self.reftime if point.reftime is None else point.reftime
        return reftime.since(self.epoch)

    def source(self, point: Doppler) -> Source:
        """Return a template as a source whose times count from the epoch."""
        return source(point, self.epoch, self.reference(point), self.middle)

    def pattern_coefficients(self, point: Doppler) -> tuple[jax.Array, jax.Array]:
        """Return the coefficients of the antenna patterns a and b of all detectors, (D, 5) float64."""
        return pattern_coefficients(self.response, point.alpha, point.delta)

    def level(self, rho2: jax.Array | float = 0.0) -> jax.Array:
        """Return Sinv_Tsft as a signal has it in the data, so that rho^2 is this times A^mu M_mu_nu A^nu.

        Where noise floors are estimated it is `sinv_tsft` times the square of the signals' response. That depends a
        little on the signal's power q in an SFT in units of the noise, where rho^2 = 2 q n in n SFTs. If a fraction s
        of it is in a bin, the probability that the bin is below the median of its neighbours falls from 1/2 by about
        2^-(q s): so say, to some per cent, noncentral chi-squared distributions with 2 and 4 degrees of freedom. Hence
        the f_j of `noise.signal_response` are 1 - 2^-(q s_j), with s_j = sinc^2 of the distance. Averages over all
        places between two bins are computed here by formulas that are right to 0.03 for q up to 5, and to 0.1 up to 10.

        Parameters
        ----------
        rho2 : () float64
            rho^2 of the signal; less than 0 counts as 0. By default the signal is weak in each SFT.
        """
        weak, by_own, by_all = jnp.moveaxis(jnp.asarray(self.signal_response), -1, 0)
        # moments begin with the sum of the weights, which is the number of SFTs
        n_sfts = jnp.sum(jnp.asarray(self.moments)[..., 0, 0], axis=-1)
        power = np.log(2) * VARIES * jnp.maximum(rho2, 0.0) / (2 * jnp.maximum(n_sfts, 1.0))
        own = 1 - (1 + 2 / 9 * power) ** -3
        in_all = power / (1 + power / (4 * np.log(2)))
        return self.sinv_tsft * (weak * jnp.exp(by_own * own + by_all * in_all)) ** 2  # type: ignore[operator]

    def level_of(self, point: Doppler, canonical: jax.Array) -> jax.Array:
        """Return `level` for a signal with four given amplitudes A^mu."""
        (a, b), (a1, a2, a3, a4) = self.pattern_coefficients(point), canonical
        wave = jax.lax.complex(a1 * a + a2 * b, a3 * a + a4 * b)
        power = jnp.einsum("dm,dmn,dn->", wave.conj(), self.moments.astype(wave.dtype), wave).real
        return self.level(self.level() * power)

    def drift(self, point: Doppler) -> tuple[jax.Array, jax.Array]:
        """Return the lowest and highest drift of a template's frequency during the data, Hz; see `drift_during`."""
        middle, half = self.middle - self.reference(point), 0.5 * self.tspan
        return drift_during(point.fkdot, middle - half, middle + half, point.model)

    @property
    def without_times(self) -> Observation:
        """Observation without the arrays whose shapes depend on its length: paths and times of SFTs.

        Observations of any length then share the programs that start from Fa and Fb.
        """
        none = np.zeros((*self.shape, len(self.detectors), 0))
        return replace(self, trajectory=Trajectory(none, none), start=none, weight=none, window=None)  # type: ignore

    @property
    def in_few_sizes(self) -> Observation:
        """Observation with the arrays of `without_times` padded to a power of four, on the host.

        Programs that run a few times then serve observations of many lengths. SFTs are added with weight zero, and the
        paths' last pieces are repeated.
        """
        n, pieces = self.start.shape[-1], self.trajectory.coefficients.shape[-2]
        if n < FEW_SFTS:  # which are treated otherwise
            return self
        more, beyond = (coarse_size(size, LEAST_SIZE) - size for size in (n, pieces))
        none = [(0, 0)] * (len(self.shape) + 1)
        coefficients = np.pad(np.asarray(self.trajectory.coefficients), [*none, (0, 0), (0, beyond), (0, 0)], "edge")
        return replace(
            self,
            trajectory=replace(self.trajectory, coefficients=coefficients),
            start=np.pad(np.asarray(self.start), [*none, (0, more)], "edge"),
            weight=np.pad(np.asarray(self.weight), [*none, (0, more)]),
            window=None if self.window is None else self.window.without_sfts,
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Leading axes of the arrays: none for one observation, (K,) for K segments, more for stacks of these."""
        return np.shape(self.epoch)

    @property
    def n_segments(self) -> int | None:
        """Length of the leading axis of segments; None without one."""
        return self.shape[0] if len(self.shape) == 1 else None

    def segment(self, i: int) -> Observation:
        """Return one segment of an observation with a leading axis of segments."""
        return one_segment(self, i)

    @property
    def gps_middle(self) -> np.ndarray:
        """GPS time of the middle of the data, () float64, or of each segment, (K,), s; not traced."""
        return np.asarray(self.epoch).astype(float) + np.asarray(self.middle)

    @property
    def segments(self) -> list[Observation]:
        """Observations of all segments; without segments, this one only."""
        return [self] if self.n_segments is None else [self.segment(i) for i in range(self.n_segments)]

    @property
    def sqrt_sx(self) -> np.ndarray:
        """Noise floor of each SFT, as given or estimated: (D, S) float64, 1/sqrt(Hz), NaN where there is no SFT.

        With segments (K, D, S).

        Raises
        ------
        ValueError
            If the noise floor is not known.
        """
        if self.sinv_tsft is None:
            raise ValueError("the noise floor of this observation is not known: give jfstat.observation sqrt_sx.")
        sinv, tsft = (np.asarray(x)[..., None, None] for x in (self.sinv_tsft, self.tsft))
        weight = self.weight if self.window is None else self.window.weight
        inverse = np.asarray(weight) * sinv / tsft
        return np.where(inverse > 0, 1 / np.sqrt(np.where(inverse > 0, inverse, 1.0)), np.nan)

    @property
    def unbiased_sqrt_sx(self) -> np.ndarray:
        """`sqrt_sx` without the bias of the mean of 1/S where floors are estimated; NaN for SFTs that a window leaves
        out, too."""
        counted = np.where(np.asarray(self.weight) > 0, self.sqrt_sx, np.nan)
        return counted / np.asarray(self.signal_response)[..., :1, None]

    @property
    def mean_sqrt_sx(self) -> list[float]:
        """Noise floor of each detector, 1/sqrt(Hz): the root of the harmonic mean of S over its SFTs.

        Without the bias of that mean where floors are estimated: the S that `predict_twoF` takes. `sqrt_sx` has
        LALSuite's. NaN for a detector without SFTs.
        """
        floors = self.unbiased_sqrt_sx
        each = floors if self.n_segments is None else np.moveaxis(floors, 0, 1).reshape(len(self.detectors), -1)
        known = (own[np.isfinite(own)] for own in each)
        return [float(1 / np.sqrt(np.mean(own**-2))) if len(own) else np.nan for own in known]

    @property
    def n_sfts(self) -> list[int]:
        """Number of SFTs of each detector, over all segments."""
        there = np.sum(np.asarray(self.weight) > 0, axis=-1)
        return (there if self.n_segments is None else there.sum(axis=0)).tolist()

    @property
    def ends(self) -> tuple[float, float]:
        """GPS times of the start of the first SFT and, to within a segment's gaps, the end of the last, s."""
        middle, half = np.asarray(self.epoch) + np.asarray(self.middle), 0.5 * np.asarray(self.tspan)
        return float(np.min(middle - half)), float(np.max(middle + half))

    def quadrature(self, n_nodes: int, every: int = 1) -> tuple[jax.Array, jax.Array]:
        """Return times within the SFTs, s since the epoch, and their weights in averages: (D, n) float64 each.

        Gauss-Legendre quadrature with `n_nodes` times in every SFT, or only in each `every`-th one. Of windowed data
        the times are those of the window's slices.
        """
        if self.window is not None:
            return jnp.asarray(self.window.time), jnp.asarray(self.window.share)
        return _quadrature(self.start, self.weight, self.tsft, n_nodes, every)

    def phase_times(self) -> tuple[np.ndarray, np.ndarray]:
        """Return times and weights as `quadrature` does, for averages of phases, without segments, not traced.

        These are the middles of the SFTs or, if there are fewer than `FEW_SFTS`, so many times in each that phases of
        all parameters differ at some. Of windowed data they are those of the window's slices.
        """
        if self.window is not None:
            return np.asarray(self.window.time), np.asarray(self.window.share)
        n = int(np.max(np.sum(np.asarray(self.weight) > 0, axis=-1)))
        n_nodes = 1 if n >= FEW_SFTS else -(-2 * FEW_SFTS // max(n, 1))
        # by NumPy: each of JAX's operations would be compiled for each number of SFTs
        start, weight, tsft = (np.asarray(x) for x in (self.start, self.weight, self.tsft))
        return _quadrature(start, weight, tsft, n_nodes, 1)

    def _facts(self) -> Facts:
        title = f"Observation of {', '.join(self.detectors)}"
        return Facts(title, [*span_rows(self), ("ephemeris", self.ephemeris), ("memory", memory(self))], many=True)


def _quadrature(start: Array, weight: Array, tsft: Array, n_nodes: int, every: int) -> tuple[Array, Array]:
    """Compute `Observation.quadrature`, by JAX or by NumPy as the arrays are."""
    nodes, node_weights = np.polynomial.legendre.leggauss(n_nodes)
    time = start[:, ::every, None] + 0.5 * tsft * (1 + nodes)[None, None]
    own = weight[:, ::every, None] * (0.5 * node_weights)[None, None]
    return time.reshape(len(time), -1), own.reshape(len(time), -1)


def span_rows(observation: Observation) -> list[tuple[str, str]]:
    """Return what there is to see of an observation's times; nothing of traced ones, or a tree of shapes or axes."""
    own = observation
    if not is_known(own.epoch, own.middle, own.tspan, own.weight, own.tsft) or len(own.shape) > 1:
        return []
    start, end = own.ends
    counts = ", ".join(f"{n} of {name}" for n, name in zip(own.n_sfts, own.detectors, strict=True))
    rows = [("span", f"GPS {start:.0f} to {end:.0f}, {(end - start) / DAY:.3g} d")]
    if own.n_segments is not None:
        rows.append(("segments", f"{own.n_segments} of {float(np.max(np.asarray(own.tspan))) / DAY:.3g} d"))
    rows.append(("SFTs", f"{counts}, {float(np.max(np.asarray(own.tsft))):g} s each"))
    return [*rows, ("reftime", time_text(own.reftime))]


def is_concrete(x: object) -> bool:
    """Return whether a scalar is a known number, not traced or a placeholder in a tree of shapes or axes."""
    return isinstance(x, (jax.Array, np.ndarray)) and not is_traced(x) and np.ndim(x) == 0


@host(start=kinds.time, reftime=kinds.time, ephemeris=kinds.ephemeris)
def observation(
    sfts: SFTs | DetectorLike | Sequence[DetectorLike],
    start: TimeLike | None = None,
    duration: DurationLike | None = None,
    *,
    timestamps: TimestampsLike | None = None,
    tsft: DurationLike = 1800.0,
    sqrt_sx: NoiseLike | None = None,
    reftime: TimeLike | None = None,
    ephemeris: EphemerisLike = "DE405",
    fmin: FrequencyLike | None = None,
    fmax: FrequencyLike | None = None,
) -> Observation:
    """Return when and where detectors observed: what `metric`, `mismatch`, `template_bank` and `predict_twoF` need.

    Parameters
    ----------
    sfts : SFTs, or detectors
        SFTs, which give the times and, without `sqrt_sx`, the noise; or detectors, such as ``["H1", "L1"]`` or one's
        own (`Detector`), that observe without gaps from `start` for `duration`, or at `timestamps`.
    start, duration : float, Time or Quantity, optional
        With names of detectors: GPS time of the first SFT and length of the data, s.
    timestamps : sequence or mapping, optional
        With names of detectors: start times of their SFTs, GPS s, or pairs (s, ns); one sequence for all detectors or
        a mapping from detectors to sequences.
    tsft : float or Quantity
        With names of detectors: length of an SFT, s.
    sqrt_sx : float, sequence, mapping or Noise, optional
        Noise floor in 1/sqrt(Hz), one for all detectors or one for each. None estimates it from the SFTs, by the
        running median of 101 bins; a `Noise` says how else. Without SFTs, None gives equal weights, and `predict_twoF`
        refuses the observation.
    reftime : float, str, Time or GPSTime, optional
        Reference time of templates without one, GPS s; None means the start of the data.
    ephemeris : str, two paths or Ephemeris
        See `load_ephemeris`.
    fmin, fmax : float or Quantity, optional
        With SFTs: the band in which the noise is estimated, Hz; None means the band of the SFTs.

    Returns
    -------
    Observation

    Raises
    ------
    ValueError
        If the times are missing or overlap, the noise floor cannot be estimated, or an argument is out of range.

    Examples
    --------
    >>> seen = jfstat.observation(['H1', 'L1'], start, 864000, sqrt_sx=4e-24)
    >>> float(seen.tspan), seen.detectors
    (864000.0, ('H1', 'L1'))
    """
    if isinstance(sfts, SFTs):
        check_sfts(sfts)
        if start is not None or duration is not None or timestamps is not None:
            raise ValueError("start, duration and timestamps go with names of detectors: SFTs have times of their own.")
        return observation_of_sfts(sfts, Noise.of(sqrt_sx), reftime, ephemeris, fmin, fmax)
    if timestamps is not None and (start is not None or duration is not None):
        raise ValueError("start and duration do not go with timestamps, which say when SFTs start: leave them out.")
    given = get_detectors(sfts, "sfts")
    names = tuple(site.prefix for site in given)
    noise = Noise.of(sqrt_sx)
    if noise.sqrt_sx is None and noise != Noise():
        raise ValueError("sqrt_sx says how to estimate the noise floor, and detectors have no SFTs: give the floor.")
    floor_of = dict(zip(names, noise.floors(names), strict=True))
    sites = sorted(given, key=lambda site: site.prefix)
    names = tuple(site.prefix for site in sites)
    length = sft_seconds(tsft)
    times = start_times(names, start, duration, timestamps, length)
    empty = [np.empty((len(times[name][0]), 0), np.complex64) for name in names]
    series = tuple(SFTSeries.of(s, *times[s.prefix], data) for s, data in zip(sites, empty, strict=True))
    shell = SFTs(series, length, 0)  # times without bins
    floors = [floor_of[name] for name in names]
    psd = [np.full(len(s), 1.0 if floor is None else floor**2) for s, floor in zip(series, floors, strict=True)]
    weights, mean_inverse = noise_weights(psd)
    known = None if None in floors else mean_inverse
    reference = reference_time(reftime, shell.start)
    return jax.device_put(observed(shell, weights, known, NO_BIAS, Span.of(shell), reference, ephemeris))


def observation_of_sfts(
    sfts: SFTs,
    noise: Noise,
    reftime: TimeLike | None,
    ephemeris: EphemerisLike,
    fmin: FrequencyLike | None,
    fmax: FrequencyLike | None,
    span: Span | None = None,
) -> Observation:
    """Return the observation of SFTs, as `observation` does, or of the SFTs of a segment with a given span."""
    f = sfts.frequencies
    low = f[0] if fmin is None else frequency(fmin, "fmin")
    high = f[-1] if fmax is None else frequency(fmax, "fmax")
    if not f[0] <= low <= high <= f[-1]:
        raise ValueError(f"fmin={low} and fmax={high} must lie in the SFTs' band of {f[0]} to {f[-1]} Hz, in order.")
    floors = noise.floors(sfts.detectors)
    if sfts.n_bins < noise.least_bins and None in floors:
        raise ValueError(
            f"the noise floor needs {noise.least_bins} bins and the SFTs hold {sfts.n_bins}: give sqrt_sx."
        )
    band = slice(int(np.searchsorted(f, low)), int(np.searchsorted(f, high, side="right")))
    band = slice(min(band.start, band.stop - 1), band.stop)
    each = [NoiseFloor(s, sfts.tsft, floor, band, band, noise) for s, floor in zip(sfts, floors, strict=True)]
    weights, mean_inverse = noise_weights([x.all_band_means() for x in each])
    response = noise.signal_response(band.stop - band.start)
    reference = reference_time(reftime, sfts.start)
    own = Span.of(sfts) if span is None else span
    return jax.device_put(observed(sfts, weights, mean_inverse, response, own, reference, ephemeris))


@dataclass(frozen=True)
class Span:
    """The time interval of the data or of a segment.

    Attributes
    ----------
    epoch : int
        GPS time from which times count, s.
    start, length : float
        Start, s since the epoch, and length, s.
    """

    epoch: int
    start: float
    length: float

    @classmethod
    def of(cls, sfts: SFTs) -> Span:
        """Return the span from the start of the first SFT to the end of the last."""
        epoch = sfts.start
        start = float(min(s.since(epoch)[0] for s in sfts if len(s)))
        end = float(max(s.since(epoch)[-1] for s in sfts if len(s))) + sfts.tsft
        return cls(epoch, start, end - start)

    @property
    def end(self) -> float:
        """End, s since the epoch."""
        return self.start + self.length


def ephemeris_for(ephemeris: EphemerisLike, spans: Sequence[Span]) -> Ephemeris:
    """Return the ephemeris that `observed` needs for some spans, read once; see `load_ephemeris` for errors."""
    starts, ends = zip(*((x.epoch + x.start, x.epoch + x.end) for x in spans), strict=True)
    return read_ephemeris(ephemeris, min(starts) - REACH - MARGIN, max(ends) + REACH + MARGIN)


def observed(
    sfts: SFTs,
    weights: Sequence[np.ndarray],
    mean_inverse: float | None,
    response: tuple[float, float, float],
    span: Span,
    reftime: GPSTime,
    ephemeris: EphemerisLike,
) -> Observation:
    """Return the observation of SFTs, given their weights, the mean of 1/S, and signals' response to these floors.

    The weights are (n_sfts,) float64 for each detector, and the response as in `Noise.signal_response`. All leaves
    are NumPy arrays, for `jax.device_put`: those of many segments are stacked before any of them goes to a device.
    """
    if not sfts.tsft <= LONGEST_TSFT:
        raise ValueError(
            f"SFTs of {sfts.tsft:g} s are too long, since 2F would be wrong by up to a per cent in 6 h and more in "
            f"longer ones: make some of at most {LONGEST_TSFT:g} s."
        )
    epoch = span.epoch
    start, end = span.start - REACH, span.end + REACH
    tables = load_ephemeris(ephemeris, epoch + start - MARGIN, epoch + end + MARGIN, epoch)
    sites = [s.site for s in sfts]
    trajectories = [host_trajectory(site, tables, start, end) for site in sites]
    # room for as many SFTs as the span can hold without gaps
    size = padded_size(max(int(span.length / sfts.tsft + 1e-6), *(len(w) for w in weights)))
    starts = [s.since(epoch) if len(s) else np.array([span.start]) for s in sfts]
    start_times = np.stack([np.pad(t, (0, size - len(t)), mode="edge") for t in starts])
    leaves: dict[str, Any] = _weight_fields(start_times, weights, mean_inverse, sfts.tsft, epoch) | {
        "signal_response": np.array(response),
        "trajectory": jax.tree.map(lambda *x: np.stack(x), *trajectories),
        "response": np.stack([site.response for site in sites]),
        "start": start_times,
        "tsft": np.array(sfts.tsft, np.float64),
        "middle": np.array(span.start + 0.5 * span.length),
        "tspan": np.array(span.length),
        "epoch": np.array(epoch, np.int64),
    }
    return Observation(
        **leaves,
        reftime=jax.tree.map(np.asarray, reftime),
        detectors=sfts.detectors,
        ephemeris=tables.name,
    )


def unweighted(sfts: SFTs, reftime: GPSTime, ephemeris: EphemerisLike) -> Observation:
    """Return the observation of SFTs of equal weights, whose noise floors are not known yet; see `weighted`."""
    weights = [np.ones(len(series)) for series in sfts]
    return jax.device_put(observed(sfts, weights, 1.0, NO_BIAS, Span.of(sfts), reftime, ephemeris))


def weighted(
    observation: Observation,
    weights: Sequence[np.ndarray],
    mean_inverse: float | None,
    response: tuple[float, float, float] | None = None,
) -> Observation:
    """Return the observation with other noise weights of its SFTs, (n_sfts,) float64 for each detector.

    Signals' response is left as it is unless these are weights by other floors; see `Noise.signal_response`.

    Raises
    ------
    ValueError
        If the observation is of windowed data.
    """
    refuse_windowed(observation)
    if response is not None:
        observation = replace(observation, signal_response=on_device(np.array(response)))
    starts, tsft, epoch = np.asarray(observation.start), float(observation.tsft), int(observation.epoch)
    return replace(observation, **jax.device_put(_weight_fields(starts, weights, mean_inverse, tsft, epoch)))


def refuse_windowed(observation: Observation) -> None:
    """Raise a ValueError for windowed data where times count anew."""
    if observation.window is not None:
        raise ValueError("data are windowed already: do this with the prepared data, before jfstat.windowed.")


def _weight_fields(
    starts: np.ndarray, weights: Sequence[np.ndarray], mean_inverse: float | None, tsft: float, epoch: int
) -> dict[str, Any]:
    """Return the fields of an Observation that depend on noise weights, NumPy arrays; `starts` are its (D, S) start
    times."""
    size = starts.shape[1]
    moments = [_moments(t[: len(w)], w, tsft, epoch) for t, w in zip(starts, weights, strict=True)]
    return {
        "moments": np.stack(moments),
        "weight": np.stack([np.pad(w, (0, size - len(w))) for w in weights]),
        "sinv_tsft": None if mean_inverse is None else np.array(tsft * mean_inverse),
    }


def reference_time(reftime: TimeLike | None, start: int) -> GPSTime:
    """Return the given reference time, or by default the start of the data."""
    return gps_time(start if reftime is None else reftime, "reftime")


def _moments(starts: np.ndarray, weights: np.ndarray, tsft: float, epoch: int) -> np.ndarray:
    """Return the weighted sum over SFTs of the mean of h h^T, h the five sidereal harmonics: (5, 5) float64.

    Three Gauss-Legendre nodes per SFT integrate the products, of up to four turns per day, to 1e-8 for 1800 s.
    """
    nodes, node_weights = np.polynomial.legendre.leggauss(3)
    t = starts[:, None] + 0.5 * tsft * (1 + nodes)
    h = np.stack(harmonics_of(np, sidereal_time(epoch, t)), axis=-1)
    weight = weights[:, None] * (0.5 * node_weights)
    return (h * weight[..., None]).reshape(-1, h.shape[-1]).T @ h.reshape(-1, h.shape[-1])


@jax.jit
def one_segment(tree: Tree, i: int | jax.Array) -> Tree:
    """Return one segment of all arrays of a pytree, by one program: array by array takes four times as long."""
    return jax.tree.map(lambda x: x[i], tree)
