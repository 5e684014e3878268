"""From SFTs to FstatData: weights, wide series, band series, bank. Done once per data set, on the CPU, in float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.band import decimated_spectrum, interpolation_bank
from jfstat.data.fstatdata import Coverage, FstatData
from jfstat.data.memory import bank_bytes, total_bytes
from jfstat.data.noise import MEDIAN_BINS, NoiseFloor, noise_weights
from jfstat.data.plan import BandPlan, plan_band
from jfstat.data.series import heterodyned_series
from jfstat.geometry.antenna import harmonics
from jfstat.geometry.barycenter import MAX_DELAY
from jfstat.geometry.detectors import get_detector
from jfstat.geometry.ephemeris import load_ephemeris
from jfstat.geometry.rotation import sidereal_time
from jfstat.geometry.trajectory import SEGMENT, Trajectory, detector_trajectory, stack_trajectories
from jfstat.sfts.container import SFTs, SFTSeries
from jfstat.templates import Orbit
from jfstat.validation import derivative_unit, frequency, given_sqrt_sx, gps_integer, in_unit, require_x64

BANK_SHARE = 0.3
"""Part of a device's memory that the interpolation bank may take; beyond, it is made for parts of the band."""


def prepare(
    sfts: SFTs,
    fmin: Any,
    fmax: Any,
    reftime: Any = None,
    sqrt_sx: Any = None,
    ephemeris: Any = "DE405",
    guard: Any = 1.0,
    *,
    orbit: Orbit | None = None,
    fdots: Sequence[tuple[Any, Any]] | None = None,
    bank: bool = True,
) -> FstatData:
    """Prepare SFTs for computing 2F over a band: the step that is done once, whatever the number of templates.

    The SFTs are whitened and weighted by their noise floors, turned into one continuous series per detector (paper,
    section 3, steps i and ii), low-passed and decimated as a whole, and filtered into an interpolation bank.

    Parameters
    ----------
    sfts : SFTs
        From `read_sfts` or `simulate_sfts`.
    fmin, fmax : float or Quantity
        Band of the search at the reference time in the SSB, Hz.
    reftime : int or Time, optional
        GPS time of templates that name none; the start of the data if None, as in ComputeFstatistic_v2.
    sqrt_sx : float, sequence or mapping, optional
        Noise floor in 1/sqrt(Hz), one or one a detector in the order of ``sfts.detectors``. None estimates it from
        each SFT by a running median.
    ephemeris : str or two paths
        See `load_ephemeris`.
    guard : float or Quantity
        How far beyond the band and its Doppler shifts to read, on each side, Hz, as far as the SFTs go. A wider guard
        recovers more of a signal and costs nothing per template; `FstatData.guard` tells what was found.
    orbit : Orbit, optional
        The tightest and widest orbit that templates will have (stacks allowed: their extremes count). The pass band is
        widened by its Doppler shift, and the timing blocks suit its acceleration. Without it, orbits whose shift stays
        within the pass band, with periods from 2 h and eccentricities up to 0.5, still work, but their blocks are so
        short that they cost some fifty times the time and memory.
    fdots : sequence of (low, high), optional
        Ranges of f1dot, f2dot, ... that templates will have at `reftime`, Hz/s, Hz/s^2, ...: the band is widened by
        what they move the frequency during the data. None allows for |f1dot| up to 1e-9 Hz/s as long as that is less
        than 0.02 Hz.
    bank : bool
        Whether to make the interpolation bank that `resample`, `twoF_band` and `search` need; it is most of the memory.
        `twoF`, `narrow` and `refine` do without.

    Returns
    -------
    FstatData

    Raises
    ------
    ValueError
        If the band is not covered by the SFTs, the times not by the ephemeris, an argument is out of range, or 64-bit
        mode is off.
    """
    require_x64()
    if not isinstance(sfts, SFTs):
        raise ValueError(f"sfts must be SFTs from read_sfts or simulate_sfts, not {type(sfts).__name__}.")
    f_low, f_high, guard = frequency(fmin, "fmin"), frequency(fmax, "fmax"), frequency(guard, "guard")
    if not 0 < f_low < f_high:
        raise ValueError(f"fmin={f_low} and fmax={f_high} must be positive and ordered: give 0 < fmin < fmax in Hz.")
    if guard < 0:
        raise ValueError(f"guard must not be negative, not {guard}: give the guard band in Hz.")
    reference = sfts.start if reftime is None else gps_integer(reftime, "reftime")
    floors = given_sqrt_sx(sfts.detectors, sqrt_sx)
    # before any long work: a typing error in the name should not cost minutes
    if orbit is not None and not isinstance(orbit, Orbit):
        raise ValueError(f"orbit must be a jfstat.Orbit or None, not {orbit!r}: build one from asini, period and tp.")
    plan = plan_band(sfts, f_low, f_high, guard, orbit, None if fdots is None else _ranges(fdots), reference)
    if plan.n_bins < MEDIAN_BINS and None in floors:
        raise ValueError(
            f"the noise floor needs {MEDIAN_BINS} bins and the SFTs hold {plan.n_bins}: widen their band or give "
            "sqrt_sx."
        )
    trajectory, response, ephemeris_name = _geometry(sfts, plan, ephemeris)

    wide, weights, mean_inverse = _weighted_series(sfts, plan, floors)
    series, filters = [], []
    memory = total_bytes(jax.devices()[0])
    with_bank = bank and (memory is None or bank_bytes(plan.layout, len(sfts.detectors)) < BANK_SHARE * memory)
    while wide:  # popped one by one, so that memory holds one detector's intermediate results only
        spectrum = decimated_spectrum(
            wide.pop(0), plan.wide, plan.offset_bins, plan.n_band, plan.half_pass, plan.half_stop
        )
        if with_bank:
            samples, filtered = interpolation_bank(spectrum, plan.band.reach, plan.layout.terms, plan.layout.padding)
            filters.append(filtered.block_until_ready())  # or the next detector's work would begin beside this one's
        else:
            samples = jnp.fft.ifft(spectrum.astype(np.complex64))
        series.append(jnp.pad(samples, (0, -plan.n_band % plan.layout.block)))
    moments = [_moments(s, w, sfts.tsft, plan.wide.epoch) for s, w in zip(sfts, weights, strict=True)]
    return FstatData(
        series=jnp.stack(series),
        bank=tuple(filters),
        trajectory=trajectory,
        response=response,
        moments=jnp.asarray(np.stack(moments)),
        coverage=_coverage(sfts, weights, plan.wide.epoch),
        sinv_tsft=jnp.asarray(sfts.tsft * mean_inverse),
        band=plan.band,
        layout=plan.layout,
        detectors=sfts.detectors,
        epoch=plan.wide.epoch,
        reftime=reference,
        ephemeris=ephemeris_name,
    )


def _ranges(fdots: Sequence[tuple[Any, Any]]) -> list[tuple[float, float]]:
    """Ranges of frequency derivatives as floats."""
    try:
        ranges = [
            tuple(float(in_unit(x, f"fdots[{k}]", derivative_unit(k + 1))) for x in pair)
            for k, pair in enumerate(fdots)
        ]
    except TypeError:
        ranges = []
    good = all(len(pair) == 2 and np.isfinite(pair).all() and pair[0] <= pair[1] for pair in ranges)
    if not ranges or not good:
        raise ValueError(f"fdots must be ranges [(low, high), ...] of f1dot, f2dot, ..., low <= high, not {fdots!r}.")
    return ranges  # type: ignore[return-value]


def _weighted_series(
    sfts: SFTs, plan: BandPlan, floors: Sequence[float | None]
) -> tuple[list[np.ndarray], list[np.ndarray], float]:
    """Wide series of all detectors times the roots of their weights, the weights, and the mean of 1/S."""
    wide, means, places = [], [], []
    for series, floor in zip(sfts, floors, strict=True):
        noise = NoiseFloor(series, sfts.tsft, floor, plan.bins, plan.searched)
        samples, mean_psd, slices = heterodyned_series(noise, sfts.first_bin, plan.centre_bin, plan.wide)
        wide.append(samples)
        means.append(mean_psd)
        places.append(slices)
    weights, mean_inverse = noise_weights(means)
    for samples, slices, weight in zip(wide, places, weights, strict=True):
        for place, w in zip(slices, weight, strict=True):
            samples[place] *= np.float32(np.sqrt(w))
    return wide, weights, mean_inverse


def _geometry(sfts: SFTs, plan: BandPlan, ephemeris: Any) -> tuple[Trajectory, jax.Array, str]:
    """Trajectories of the detectors, their response tensors, and the ephemeris' name."""
    grid = plan.wide
    start, end = grid.start - 2 * MAX_DELAY, grid.start + grid.length + 2 * MAX_DELAY
    margin = 2 * SEGMENT  # the tables of Earth and Sun must hold a row beyond every piece of the trajectory
    tables = load_ephemeris(ephemeris, grid.epoch + start - margin, grid.epoch + end + margin, grid.epoch)
    detectors = [get_detector(name) for name in sfts.detectors]
    trajectory = stack_trajectories([detector_trajectory(d, tables, start, end) for d in detectors])
    return trajectory, jnp.asarray(np.stack([d.response for d in detectors])), tables.name


def _coverage(sfts: SFTs, weights: list[np.ndarray], epoch: int) -> Coverage:
    most = max(len(w) for w in weights)
    start = [np.pad(s.since(epoch), (0, most - len(s)), mode="edge") for s in sfts]
    weight = [np.pad(w, (0, most - len(w))) for w in weights]
    return Coverage(jnp.asarray(np.stack(start)), jnp.asarray(np.stack(weight)), jnp.asarray(sfts.tsft))


def _moments(series: SFTSeries, weights: np.ndarray, tsft: float, epoch: int) -> np.ndarray:
    """Weighted sum over SFTs of the mean of h h^T, h the five sidereal harmonics: (5, 5) float64.

    Three Gauss-Legendre nodes an SFT integrate the products, of up to four turns a day, to 1e-8 for 1800 s.
    """
    nodes, node_weights = np.polynomial.legendre.leggauss(3)
    t = series.since(epoch)[:, None] + 0.5 * tsft * (1 + nodes)
    h = np.asarray(jax.jit(harmonics)(sidereal_time(epoch, t)))
    return np.einsum("j,q,jqm,jqn->mn", weights, 0.5 * node_weights, h, h)
