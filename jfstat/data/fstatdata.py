"""Define the data that `prepare` returns and every statistic takes: the band series of all detectors, as one pytree."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import jax
import numpy as np

from jfstat.data import direct, fit
from jfstat.data.bandseries import Band, Layout
from jfstat.data.observation import Observation, one_segment, span_rows
from jfstat.display import Displayed, Facts, memory
from jfstat.maths.arrays import is_traced
from jfstat.signal.templates import Doppler
from jfstat.signal.times import GPSTime
from jfstat.validation import shown


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False, eq=False)
class FstatData(Displayed):
    """The data for the F-statistic; made by `jfstat.prepare`.

    A pytree: give it to jitted functions as an argument. One that closes over it holds the data as a constant of its
    program, and is compiled again for each data set. D detectors, N samples, P filters. Data prepared with
    ``segments=`` have a leading axis of segments on every array: ``jax.vmap(f, (0, None))(data, point)`` applies a
    function of one segment to each, and ``data[i]`` is one of them.

    Attributes
    ----------
    observation : Observation
        When and where the detectors observed, and the noise weights.
    series : (D, N) complex64
        Low-passed, decimated, heterodyned and whitened time series times the square root of the noise weight,
        in 1/sqrt(s); on a common grid, N a multiple of ``layout.block``.
    filters : tuple of D (P, 2, N') float32
        Outputs of the P interpolation filters for each series, real and imaginary parts, with zeros before and after; a
        tuple, because stacking would need the memory of the largest array twice. Empty if it would take too much of the
        device's memory: `search` then takes the band in parts.
    band : Band
    layout : Layout
    """

    observation: Observation
    series: jax.Array
    filters: tuple[jax.Array, ...]
    band: Band
    layout: Layout

    @property
    def detectors(self) -> tuple[str, ...]:
        """Names of the detectors."""
        return self.observation.detectors

    @property
    def ephemeris(self) -> str:
        """Name of the solar-system ephemeris."""
        return self.observation.ephemeris

    @property
    def reftime(self) -> int | float | GPSTime:
        """Reference time of templates without one, GPS s; a GPSTime if traced or stacked."""
        return plain_time(self.observation.reftime)

    @property
    def samples(self) -> jax.Array:
        """The values that distinguish one data set from another: the series."""
        return self.series

    @property
    def n_segments(self) -> int | None:
        """Length of the leading axis of segments; None for data without one."""
        return self.observation.n_segments

    def __getitem__(self, segment: int | jax.Array) -> FstatData:
        """Return one segment of data prepared with ``segments=``."""
        if self.n_segments is None:
            raise TypeError("these data have no segments: prepare with segments= to index them.")
        if not is_traced(segment):
            segment = _segment_number(segment)
            if not -self.n_segments <= segment < self.n_segments:
                raise IndexError(f"segment {segment} is out of range: there are {self.n_segments}.")
            segment %= self.n_segments
        return one_segment(self, segment)

    @property
    def tspan(self) -> float | jax.Array:
        """Time from the start of the first SFT to the end of the last, s; for segments, of the longest one.

        A float, or traced inside a transformation.
        """
        return plain_number(self.observation.tspan)

    @property
    def frequencies(self) -> np.ndarray | jax.Array:
        """Frequencies of `twoF_band`, (n_frequencies,) float64, Hz, with spacing `dfreq`.

        A NumPy array, or traced inside a transformation.
        """
        return plain_number(self.band.fmin) + np.arange(self.layout.n_frequencies, dtype=float) * self.dfreq

    @property
    def fmin(self) -> float | jax.Array:
        """Lowest of `frequencies`, Hz: the lower edge of the band given to `prepare`."""
        return plain_number(self.band.fmin)

    @property
    def fmax(self) -> float | jax.Array:
        """Highest of `frequencies`, Hz: the upper edge of the band given to `prepare`, or less than `dfreq` below it.

        Data hold more than the band from `fmin` to `fmax`, for its Doppler shifts and the `guard`.
        """
        return self.fmin + (self.layout.n_frequencies - 1) * self.dfreq

    @property
    def dfreq(self) -> float | jax.Array:
        """Spacing of `frequencies`, Hz: as given to `prepare`, ``1 / (2 tspan)`` by default."""
        return plain_number(self.band.dfreq)

    @property
    def guard(self) -> float | jax.Array:
        """Width of the SFTs beyond the searched band and its Doppler shifts, on the smaller side, Hz.

        For data with segments, the smallest of their guards.
        """
        return plain_number(self.band.guard, np.min)

    @property
    def expected_loss(self) -> float | jax.Array:
        """Approximate fraction of rho^2 lost because SFTs are cut at the guard; see `jfstat.data.plan.guard_loss`."""
        return plain_number(self.band.expected_loss)

    def fa_fb(self, point: Doppler, many: bool = False) -> tuple[jax.Array, jax.Array]:
        """Compute Fa and Fb of each detector at ``point.fkdot``, (D,) complex128, by a direct sum over the series.

        The template's phase is zero at the data's mid-time. The results are NaN for a template that does not fit the
        data. With `many` values take less time and gradients more.
        """
        return direct.fa_fb(self, point, many)

    def harmonic_sums(self, point: Doppler) -> jax.Array:
        """Compute the matched filters with the five sidereal harmonics, (D, 5) complex128; see `fa_fb`.

        The matched filter with any antenna pattern is a sum of these.
        """
        return direct.harmonic_sums(self, point)

    def fits(self, point: Doppler) -> jax.Array:
        """Return whether a template fits the data at its own frequency, () bool."""
        return fit.fits(self, point)

    def check(self, point: Doppler) -> None:
        """Raise a ValueError if a template does not fit the data; traced values are not checked."""
        fit.check_fit(self, point)

    @property
    def for_one_template(self) -> FstatData:
        """Data without the parts that only transforms need, so that more data share compiled programs."""
        sizes = {f.name: 0 for f in fields(Layout)} | {
            "block": self.layout.block,
            "block_orbit": self.layout.block_orbit,
        }
        return replace(self, filters=(), layout=Layout(**sizes))

    def _facts(self) -> Facts:
        rows, n = span_rows(self.observation), self.layout.n_frequencies
        if rows:  # otherwise traced, stacked, or a tree of shapes or axes
            band = f"{self.fmin:.10g} to {self.fmax:.10g} Hz, {n} frequencies {self.dfreq:.4g} Hz apart"
            guard = f"{self.guard:.3g} Hz, expected loss of rho^2 {self.expected_loss:.1e}"
            rows += [("band", band), ("guard", guard)]
        else:
            rows = [("band", f"{n} frequencies")]
        held = memory(self) if self.filters else f"{memory(self)}, without filters"
        title = f"FstatData of {', '.join(self.detectors)}"
        return Facts(title, [*rows, ("ephemeris", self.ephemeris), ("memory", held)], many=True)


def _segment_number(segment: object) -> int:
    """Return the number of a segment as an int; raise a TypeError for slices, masks and anything else."""
    try:
        if isinstance(segment, (bool, np.bool_)):
            raise TypeError
        return operator.index(segment)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            f"data[...] takes the number of one segment, not {shown(segment)}: prepare the segments that are wanted, "
            "or take them one by one."
        ) from None


def plain_time(time: GPSTime) -> int | float | GPSTime:
    """Return a time as one number, unless it is traced or a placeholder in a tree of shapes or axes."""
    known = all(isinstance(x, (jax.Array, np.ndarray)) for x in (time.seconds, time.nanoseconds)) and time.concrete
    return time.plain if known else time


def plain_number(x: jax.Array, reduce: Callable[[np.ndarray], np.floating] = np.max) -> float | jax.Array:
    """Return a float, by default the largest of all segments; traced values and placeholders are returned unchanged."""
    if is_traced(x) or not isinstance(x, (jax.Array, np.ndarray, float)):
        return x
    return float(reduce(np.asarray(x)))
