"""Prepare SFTs for 2F, once per data set and in float64: weights, wide series, band series, filters."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jfstat import kinds
from jfstat.data.band import LONG, band_series, decimated_spectrum, filtered_series
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import default_device, filter_bytes, total_bytes
from jfstat.data.noise import Noise, NoiseFloor, NoiseLike, noise_weights, refuse_loud
from jfstat.data.observation import ephemeris_for, observed, reference_time
from jfstat.data.plan import BandPlan, Search, plan_bands
from jfstat.data.segments import SegmentsLike, equal_spans, segments_of
from jfstat.data.series import heterodyned_series
from jfstat.data.workers import cores, in_background, in_order
from jfstat.geometry.ephemeris import EphemerisLike
from jfstat.maths.ladder import padded_size
from jfstat.public import host
from jfstat.sfts.container import SFTs, check_sfts
from jfstat.signal.parameters import spin_name, unit
from jfstat.signal.templates import Orbit
from jfstat.signal.times import GPSTime, TimeLike
from jfstat.validation import (
    LARGEST,
    DurationLike,
    FrequencyLike,
    NumberLike,
    frequency,
    guard_band,
    in_unit,
    positive_seconds,
    shown,
)

FINEST, COARSEST = 1e-10, 1 / 120
"""Smallest and largest spacing of frequencies, Hz; with the largest, transforms and so timing blocks last a minute."""
SMALL = 1 << 20
"""Largest size of filters, bytes, that are copied to the host to be stacked."""
AT_A_TIME = 4
"""Largest number of segments that are prepared at a time: the running medians hold Python's lock."""
FILTER_SHARE = 0.3
"""Largest fraction of a device's memory for the filtered series; beyond it, `search` takes the band in parts."""


@host(reftime=kinds.time, ephemeris=kinds.ephemeris, filters=kinds.flag)
def prepare(
    sfts: SFTs,
    fmin: FrequencyLike,
    fmax: FrequencyLike,
    reftime: TimeLike | None = None,
    sqrt_sx: NoiseLike | None = None,
    ephemeris: EphemerisLike = "DE405",
    guard: FrequencyLike = 1.0,
    segments: SegmentsLike | None = None,
    *,
    orbit: Orbit | None = None,
    fdots: Sequence[tuple[NumberLike, NumberLike]] | None = None,
    filters: bool = True,
    dfreq: FrequencyLike | None = None,
    max_block: DurationLike | None = None,
) -> FstatData:
    """Prepare SFTs for computing 2F over a band: done once, for any number of templates.

    The SFTs are whitened and weighted by their noise floors, turned into one continuous series per detector (paper,
    section 3, steps i and ii), low-passed and decimated as a whole, and passed through the interpolation filters.

    Parameters
    ----------
    sfts : SFTs
        From `read_sfts` or `simulate_sfts`.
    fmin, fmax : float or Quantity
        Band of the search at the reference time in the SSB, Hz. Equal values are a band of one frequency.
    reftime : float, str, Time or GPSTime, optional
        Reference time of templates without one, GPS s; None means the start of the data, as in ComputeFstatistic_v2.
    sqrt_sx : float, sequence, mapping or Noise, optional
        Noise floor in 1/sqrt(Hz), one for all detectors or one for each in the order of ``sfts.detectors``. None
        estimates it from each SFT by the running median of 101 bins; a `Noise` says how else.
        ``data.observation.sqrt_sx`` holds the floors.
    ephemeris : str, two paths or Ephemeris
        See `load_ephemeris`.
    guard : float or Quantity
        Width of the SFTs to use beyond the band and its Doppler shifts, on each side, Hz; less if the SFTs have less. A
        wider guard recovers more of a signal and costs nothing per template. `FstatData.guard` is the width found.
    orbit : Orbit, optional
        The most extreme orbit of the templates, or a stack of orbits that includes it. The pass band is widened by its
        Doppler shift, and the timing blocks suit its acceleration. Without it, orbits with periods from 2 h and
        eccentricities up to 0.5 whose shift stays within the pass band still work, but their blocks are so short that
        they take some fifty times the time and memory.
    fdots : sequence of (low, high), optional
        Ranges of f1dot, f2dot, ... of the templates at `reftime`, Hz/s, Hz/s^2, ...: the band is widened by the
        resulting drift of the frequency during the data. None allows for |f1dot| up to 1e-9 Hz/s, but at most for a
        drift of 0.02 Hz.
    segments : int, float, Quantity or sequence of (start, end), optional
        Cut the data into segments for semi-coherent statistics: a number (an int) of segments of equal length, a
        duration in s (a float or a Quantity), counted from the start of the data, or pairs of GPS times. An SFT belongs
        to the segment in which it starts. The arrays of the result then have a leading axis of segments, all with one
        layout and the frequencies of the longest segment; ``jax.vmap(jfstat.twoF, (0, None))(data, point)`` is 2F of
        each.
    filters : bool
        Whether to make the interpolation filters, which take most of the memory. `resample` and `twoF_band` need them;
        `twoF`, `narrow` and `refine` do not.
    dfreq : float or Quantity, optional
        Spacing of the frequencies of `twoF_band` and `search`, Hz, finer or coarser than the default, 1/(2T): they are
        ``fmin + k * dfreq`` up to `fmax`. A transform takes the time 1/(2 dfreq), so it costs less or more in
        proportion. From 1e-10 to 1/120 Hz.
    max_block : float or Quantity, optional
        Longest time over which a template's phase is followed by one cubic, s: for templates with a `PhaseModel` that
        changes fast. By default at most 1800 s, as the Earth's rotation allows.

    Returns
    -------
    FstatData

    Raises
    ------
    TypeError
        If `sfts` are no SFTs, or `orbit` is no Orbit.
    ValueError
        If the SFTs do not cover the band or the ephemeris the times, an argument is out of range, a segment given by
        its ends has no SFT, or 64-bit mode is off.

    Warns
    -----
    UserWarning
        If segments given by number or duration have no SFT and are left out. The warning lists them.

    Examples
    --------
    >>> jfstat.prepare(sfts, fmin=100.0, fmax=100.02, guard=0.3)
    FstatData of H1, L1
      span       GPS 1167458304 to 1167501504, 0.5 d
      SFTs       24 of H1, 24 of L1, 1800 s each
      reftime    GPS 1167458304
      band       100 to 100.02 Hz, 1729 frequencies 1.157e-05 Hz apart
      ...
    """
    check_sfts(sfts)
    search = _search(fmin, fmax, guard, orbit, fdots, dfreq)
    if max_block is not None:
        search = replace(search, max_block=positive_seconds(max_block, "max_block"))
    return prepared_for(sfts, search, reftime, Noise.of(sqrt_sx), ephemeris, segments, filters)


def prepared_for(
    sfts: SFTs,
    search: Search,
    reftime: TimeLike | None,
    noise: Noise,
    ephemeris: EphemerisLike,
    segments: SegmentsLike | None,
    filters: bool,
) -> FstatData:
    """Prepare SFTs for the templates of a `Search`, as `prepare` does."""
    reference = reference_time(reftime, sfts.start)
    floors = noise.floors(sfts.detectors)
    parts = [sfts] if segments is None else segments_of(sfts, segments)
    spans = equal_spans(parts)
    plans = plan_bands(sfts, search, reference, spans)
    if sfts.n_bins < noise.least_bins and None in floors:
        raise ValueError(
            f"the noise floor needs {noise.least_bins} bins and the SFTs hold {sfts.n_bins}: widen their band, give "
            "sqrt_sx or lower median_bins or off_source."
        )
    memory = total_bytes(default_device())
    # stacking holds one array of all segments twice
    copies = len(parts) * (1 if len(parts) == 1 else 1 + 1 / len(sfts.detectors))
    needed = filter_bytes(plans[0].layout, len(sfts.detectors)) * copies
    with_filters = filters and (memory is None or needed < FILTER_SHARE * memory)
    compiling = _compiling_filters(plans[0]) if with_filters else None
    tables = ephemeris_for(ephemeris, spans)

    def of_part(own: tuple[SFTs, BandPlan]) -> FstatData:
        return _prepared(*own, floors, reference, tables, compiling, noise)

    jobs, workers = zip(parts, plans, strict=True), min(len(parts), _at_a_time(plans[0]))
    prepared = list(map(of_part, jobs) if workers == 1 else in_order(of_part, jobs, workers))
    return jax.device_put(prepared[0] if segments is None else _stacked(prepared))


def _at_a_time(plan: BandPlan) -> int:
    """Return the number of segments to prepare at a time; of long ones each transform may take much of the memory."""
    return 1 if plan.wide.n >= LONG else min(cores(), AT_A_TIME)


def _stacked(prepared: list[FstatData]) -> FstatData:
    """Return the data of all segments with a leading axis; stacked parts are dropped from the list, to save memory."""
    tree = jax.tree.structure(prepared[0])
    leaves = [jax.tree.leaves(data) for data in prepared]
    prepared.clear()
    return jax.tree.unflatten(tree, [_stack([own.pop(0) for own in leaves]) for _ in range(tree.num_leaves)])


def _stack(parts: list[Any]) -> np.ndarray | jax.Array:
    """Return arrays of equal shapes with a leading axis; small ones by NumPy, which compiles nothing."""
    if isinstance(parts[0], jax.Array) and parts[0].nbytes > SMALL:
        return jnp.stack(parts)
    return np.stack([np.asarray(x) for x in parts])


def _search(
    fmin: FrequencyLike,
    fmax: FrequencyLike,
    guard: FrequencyLike,
    orbit: Orbit | None,
    fdots: Sequence[tuple[NumberLike, NumberLike]] | None,
    dfreq: FrequencyLike | None,
) -> Search:
    """Return the templates to search for, from the arguments of `prepare`."""
    low, high, room = frequency(fmin, "fmin"), frequency(fmax, "fmax"), guard_band(guard)
    if not 0 < low <= high:
        raise ValueError(f"fmin={low} and fmax={high} must be positive and ordered: give 0 < fmin <= fmax in Hz.")
    if orbit is not None and not isinstance(orbit, Orbit):
        raise TypeError(f"orbit must be a jfstat.Orbit or None, not {orbit!r}: build one from asini, period and tp.")
    spacing = None if dfreq is None else frequency(dfreq, "dfreq")
    if spacing is not None and not FINEST <= spacing <= COARSEST:
        raise ValueError(
            f"dfreq must be within {FINEST:g} to {COARSEST:.3g} Hz, not {spacing}: transforms last 1/(2 dfreq), "
            "a minute at least; give a spacing in Hz, None for 1/(2T), or single frequencies to jfstat.fstat_table "
            "(jfstat points)."
        )
    return Search(low, high, room, orbit, None if fdots is None else _ranges(fdots), spacing)


def _compiling_filters(plan: BandPlan) -> Future[Any]:
    """Start compiling `filtered_series` for a plan, which takes XLA as long as the work that precedes it."""
    spectrum = jax.ShapeDtypeStruct((plan.n_band,), np.complex128)
    program = filtered_series.lower(spectrum, plan.band.reach, plan.layout.terms, plan.layout.padding)
    return in_background(program.compile)


def _prepared(
    sfts: SFTs,
    plan: BandPlan,
    floors: Sequence[float | None],
    reftime: GPSTime,
    ephemeris: EphemerisLike,
    compiling: Future[Any] | None,
    noise: Noise,
) -> FstatData:
    """Return the data of one span, with filters if their program is being compiled.

    Only the filters are on a device, the other leaves are NumPy arrays.
    """
    wide, weights, mean_inverse = _weighted_series(sfts, plan, floors, noise)
    layout, searched = plan.layout, plan.edges.searched
    response = noise.signal_response(searched.stop - searched.start)
    observation = observed(sfts, weights, mean_inverse, response, plan.span, reftime, ephemeris)

    def spectrum_of(_: int) -> jax.Array | np.ndarray:
        # detectors come in order; popped, so that memory holds the intermediate results of one only
        spectrum = decimated_spectrum(
            wide.pop(0), plan.wide, plan.offset_bins, plan.n_band, plan.half_pass, plan.half_stop
        )
        if compiling is not None:
            wait([compiling])  # an error is raised again by the call
        return spectrum

    shape = len(wide), layout.block * padded_size(-(-plan.n_band // layout.block))
    series, filters = band_series(spectrum_of, shape, plan.band.reach, layout, compiling is not None)
    return FstatData(observation, series, filters, plan.band, layout)  # type: ignore[arg-type]


def _ranges(fdots: Sequence[tuple[NumberLike, NumberLike]]) -> list[tuple[float, float]]:
    """Return ranges of frequency derivatives as floats."""
    try:
        ranges = [
            tuple(float(in_unit(x, f"fdots[{k}]", unit(spin_name(k + 1)))) for x in pair)
            for k, pair in enumerate(fdots)
        ]
    except Exception:  # whatever a foreign object raises
        ranges = []
    good = all(len(pair) == 2 and np.all(np.abs(pair) <= LARGEST) and pair[0] <= pair[1] for pair in ranges)
    if not ranges or not good:
        raise ValueError(
            f"fdots must be ranges [(low, high), ...] of f1dot, f2dot, ..., low <= high, not {shown(fdots)}."
        )
    return ranges  # type: ignore[return-value]


def _weighted_series(
    sfts: SFTs, plan: BandPlan, floors: Sequence[float | None], noise: Noise
) -> tuple[list[np.ndarray], list[np.ndarray], float]:
    """Return wide series of all detectors times the roots of their weights, the weights, and the mean of 1/S."""
    wide, means, places = [], [], []
    for series, floor in zip(sfts, floors, strict=True):
        edges = plan.edges
        own = NoiseFloor(series, sfts.tsft, floor, edges.bins, edges.searched, noise)
        with np.errstate(over="ignore", invalid="ignore"):
            samples, mean_psd, slices = heterodyned_series(own, sfts.first_bin, plan.edges.centre_bin, plan.wide)
            power = float(np.vdot(samples, samples).real)
        refuse_loud(power, series.detector)
        wide.append(samples)
        means.append(mean_psd)
        places.append(slices)
    weights, mean_inverse = noise_weights(means)
    for samples, slices, weight in zip(wide, places, weights, strict=True):
        for place, w in zip(slices, weight, strict=True):
            samples[place] *= np.float32(np.sqrt(w))
    return wide, weights, mean_inverse
