"""Compute power spectral densities and spectrograms of SFTs, as lalpulsar_ComputePSD does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jfstat import kinds
from jfstat.data.noise import MEDIAN_BINS, Noise, NoiseFloor, checked_median_bins
from jfstat.display import named_text
from jfstat.public import host
from jfstat.sfts.container import SFTs, check_sfts
from jfstat.validation import FrequencyLike, frequency, is_whole

if TYPE_CHECKING:
    from astropy.table import QTable

    from jfstat.sfts.container import SFTSeries

OPERATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "arithsum": lambda x: np.sum(x, axis=0),
    "arithmean": lambda x: np.mean(x, axis=0),
    "arithmedian": lambda x: np.median(x, axis=0),
    "harmsum": lambda x: 1 / np.sum(1 / x, axis=0),
    "harmmean": lambda x: len(x) / np.sum(1 / x, axis=0),
    "powerminus2sum": lambda x: np.sum(x**-2.0, axis=0) ** -0.5,
    "powerminus2mean": lambda x: np.mean(x**-2.0, axis=0) ** -0.5,
    "min": lambda x: np.min(x, axis=0),
    "max": lambda x: np.max(x, axis=0),
}
"""Operations that combine power spectral densities along the first axis, as XLALMathOpOverArray does;
lalpulsar_ComputePSD takes them as ``--PSDmthopSFTs`` and ``--PSDmthopIFOs``.
"""


class Spectrogram(NamedTuple):
    """Noise floors of one detector over time and frequency.

    Attributes
    ----------
    detector : str
    gps : (n_sfts,) float64 ndarray
        Starts of the SFTs, GPS s.
    tsft : float
        Length of the SFTs, s.
    frequencies : (n_bins,) float64 ndarray
        Hz.
    psd : (n_sfts, n_bins) float64 ndarray
        Single-sided power spectral density, 1/Hz.
    """

    detector: str
    gps: np.ndarray
    tsft: float
    frequencies: np.ndarray
    psd: np.ndarray

    def __repr__(self) -> str:
        return named_text(self)


@host
def spectrogram(
    sfts: SFTs,
    fmin: FrequencyLike | None = None,
    fmax: FrequencyLike | None = None,
    *,
    median_bins: int = MEDIAN_BINS,
) -> tuple[Spectrogram, ...]:
    """Compute the noise floor of each SFT at each frequency: the running median of its periodogram.

    Parameters
    ----------
    sfts : SFTs
    fmin, fmax : float or Quantity, optional
        The bins that cover [fmin, fmax), Hz; by default all of them. The SFTs should extend beyond by half of
        `median_bins`: closer to their ends the nearest full window gives the value.
    median_bins : int
        Width of the running median.

    Returns
    -------
    tuple of Spectrogram
        One for each detector.

    Raises
    ------
    TypeError
        If `sfts` are no SFTs.
    ValueError
        If the SFTs do not cover the band, have fewer bins than the running median, or bins that are not finite or all
        zero, or `median_bins` makes no sense.

    Examples
    --------
    >>> len(jfstat.spectrogram(sfts))
    2
    """
    kept = _columns(sfts, fmin, fmax, median_bins)
    return tuple(
        Spectrogram(
            series.detector,
            series.gps + 1e-9 * series.gps_ns,
            sfts.tsft,
            sfts.frequencies[kept],
            _floors(series, sfts.tsft, kept, median_bins),
        )
        for series in sfts
    )


@host(over_sfts=kinds.text, over_detectors=kinds.text, over_bins=kinds.text)
def psd(
    sfts: SFTs,
    fmin: FrequencyLike | None = None,
    fmax: FrequencyLike | None = None,
    *,
    median_bins: int = MEDIAN_BINS,
    over_sfts: str = "harmmean",
    over_detectors: str = "harmsum",
    bin_size: int = 1,
    over_bins: str = "arithmedian",
) -> QTable:
    """Compute the single-sided power spectral density of each detector's noise, and of all detectors together.

    Parameters
    ----------
    sfts, fmin, fmax, median_bins
        See `spectrogram`.
    over_sfts : str
        How to combine a detector's SFTs, one of the names in `OPERATIONS`. By default the harmonic mean, on which the
        sensitivity of a search depends.
    over_detectors : str
        How to combine the detectors. By default 1/sum(1/S), the noise of one detector as sensitive as all together.
    bin_size : int
        Number of neighbouring bins to combine to one row.
    over_bins : str
        How to combine the bins of a row.

    Returns
    -------
    QTable
        A row for each frequency, with columns ``freq`` (Hz), the lowest of the bins; ``psd`` (1/Hz) and its root
        ``sqrt_sx`` (1/sqrt(Hz)) of all detectors together; and ``psd_H1``, ``sqrt_sx_H1``, ... of each. Meta: version,
        detectors, n_sfts, start (GPS s), end, tsft, median_bins, over_sfts, over_detectors, bin_size, over_bins.

    Raises
    ------
    TypeError
        If `sfts` are no SFTs.
    ValueError
        As `spectrogram`, or if an operation is unknown or `bin_size` is not from 1 to the number of bins.

    Notes
    -----
    These are lalpulsar_ComputePSD's values (``PSDutils.c:XLALComputePSDandNormSFTPower`` and
    ``XLALWritePSDtoFilePointer``), with its defaults.

    Examples
    --------
    >>> jfstat.psd(sfts, fmin=99.9, fmax=100.1).colnames
    ['freq', 'psd', 'sqrt_sx', 'psd_H1', 'sqrt_sx_H1', 'psd_L1', 'sqrt_sx_L1']
    """
    from astropy.table import QTable
    from astropy.units import Quantity

    from jfstat.version import __version__

    operations = {"over_sfts": over_sfts, "over_detectors": over_detectors, "over_bins": over_bins}
    for name, value in operations.items():
        if value not in OPERATIONS:
            raise ValueError(f"{name} must be one of {', '.join(OPERATIONS)}, not {value!r}.")
    kept = _columns(sfts, fmin, fmax, median_bins)
    n_bins = kept.stop - kept.start
    if not is_whole(bin_size) or not 1 <= bin_size <= n_bins:
        raise ValueError(f"bin_size must be a whole number from 1 to the {n_bins} bins, not {bin_size!r}.")
    each = {series.detector: OPERATIONS[over_sfts](_floors(series, sfts.tsft, kept, median_bins)) for series in sfts}
    spectra = {"": OPERATIONS[over_detectors](np.stack(list(each.values())))}
    spectra |= {f"_{name}": own for name, own in each.items()}
    rows = n_bins // bin_size
    columns = {"freq": Quantity(sfts.frequencies[kept][: rows * bin_size : bin_size], "Hz")}
    for name, own in spectra.items():
        binned = OPERATIONS[over_bins](own[: rows * bin_size].reshape(rows, bin_size).T)
        columns[f"psd{name}"] = Quantity(binned, "1 / Hz")
        columns[f"sqrt_sx{name}"] = Quantity(np.sqrt(binned), "Hz(-1/2)")
    meta = {
        "version": __version__,
        "detectors": list(sfts.detectors),
        "n_sfts": [len(series) for series in sfts],
        "start": sfts.start,
        "end": sfts.end,
        "tsft": sfts.tsft,
        "median_bins": int(median_bins),
        "bin_size": int(bin_size),
    }
    return QTable(columns, meta=meta | operations)


def _columns(sfts: SFTs, fmin: FrequencyLike | None, fmax: FrequencyLike | None, median_bins: int) -> slice:
    """Return the columns of the SFTs that cover [fmin, fmax), after all arguments are checked."""
    check_sfts(sfts)
    window, f = checked_median_bins(median_bins), sfts.frequencies
    if sfts.n_bins < window:
        raise ValueError(
            f"the running median needs {window} bins and the SFTs hold {sfts.n_bins}: read a wider band or lower "
            "median_bins."
        )
    low = f[0] if fmin is None else frequency(fmin, "fmin")
    high = f[-1] + 1 / sfts.tsft if fmax is None else frequency(fmax, "fmax")
    slack = 1e-6  # of a bin, for frequencies that are rounded
    first = int(np.floor(low * sfts.tsft + slack)) - sfts.first_bin
    end = int(np.ceil(high * sfts.tsft - slack)) - sfts.first_bin
    if not 0 <= first < end <= sfts.n_bins:
        raise ValueError(
            f"fmin={low:.10g} and fmax={high:.10g} must be in order and within the SFTs' band of {f[0]:.10g} to "
            f"{f[-1] + 1 / sfts.tsft:.10g} Hz."
        )
    return slice(first, end)


def _floors(series: SFTSeries, tsft: float, kept: slice, median_bins: int) -> np.ndarray:
    """Return the noise floors of one detector's SFTs, (n_sfts, n_bins) float64, 1/Hz.

    Raises
    ------
    ValueError
        If bins are not finite, or all zero.
    """
    floor = NoiseFloor(series, tsft, None, kept, kept, Noise(median_bins=median_bins))
    floors = np.empty((len(series), kept.stop - kept.start))
    for rows, psds in floor.psds():
        floors[rows] = psds
    return floors
