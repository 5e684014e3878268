"""Butterworth filters that run over the samples forwards and backwards, so that they leave phases unchanged."""

from __future__ import annotations

import numpy as np

ORDER = 10
"""Order of lalpulsar_MakeSFTs's high-pass filter."""
ATTENUATION = 0.5
"""Amplitude of lalpulsar_MakeSFTs's high-pass filter at the knee frequency."""
PASSED = 10
"""Frequency over the knee's above which the high-pass filter changes nothing in double precision."""
BAND_ORDER = 4
"""Order of the band-pass filters."""


def high_passed(x: np.ndarray, rate: float, knee: float) -> np.ndarray:
    """Return samples after the high-pass filter of lalpulsar_MakeSFTs.

    This is a Butterworth filter of order 10 whose amplitude, after one pass each way, is 1/2 at the knee frequency
    (LALSuite: ``ButterworthTimeSeries.c:XLALButterworthREAL8TimeSeries`` with ``nMax = 10``, ``a2 = 0.5``). As in
    LALSuite, each pair of poles filters forwards and then backwards before the next pair does, and starts from zero
    each time.

    Parameters
    ----------
    x : (n,) float64 ndarray
    rate : float
        Samples per second.
    knee : float
        Knee frequency, Hz, above 0 and below rate/2.

    Returns
    -------
    (n,) float64 ndarray
    """
    from scipy.signal import bilinear_zpk, sosfilt, zpk2sos  # takes 0.2 s to import

    # in LALSuite's w-plane, w = tan(pi f / rate); two passes square the filter: each attenuates by sqrt(ATTENUATION)
    power = np.sqrt(ATTENUATION)
    corner = np.tan(np.pi * knee / rate) * (1 / power - 1) ** (0.5 / ORDER)
    for pair in range(ORDER // 2):
        pole = corner * 1j * np.exp(1j * np.pi * (pair + 0.5) / ORDER)
        zeros, poles, gain = bilinear_zpk([0.0, 0.0], [pole, np.conj(pole)], 1.0, 0.5)
        section = zpk2sos(zeros, poles, gain)
        x = np.asarray(sosfilt(section, x))
        x = np.asarray(sosfilt(section, x[::-1]))[::-1]
    return x


def high_passed_by_fft(x: np.ndarray, rate: float, knee: float) -> np.ndarray:
    """Return samples after the filter of `high_passed`, by Fourier transforms: several times as fast.

    The two differ near the ends, as far as the filter rings: here the samples are taken to be periodic, there to be
    zero before and after.

    Parameters
    ----------
    x, rate, knee
        As for `high_passed`.

    Returns
    -------
    (n,) float64 ndarray
    """
    from scipy.fft import irfft, rfft

    bins = rfft(x)
    changed = bins[: int(PASSED * knee * len(x) / rate) + 1]
    # in LALSuite's w-plane the amplitude is w^(2 n)/(w^(2 n) + 1) after both passes
    w = np.tan(np.pi * np.arange(len(changed)) / max(len(x), 2 * len(changed)))
    w /= np.tan(np.pi * knee / rate) * (1 / np.sqrt(ATTENUATION) - 1) ** (0.5 / ORDER)
    power = w ** (2 * ORDER)
    changed *= power / (power + 1)
    return np.asarray(irfft(bins, len(x), overwrite_x=True))


def band_passed(x: np.ndarray, rate: float, low: float, high: float) -> np.ndarray:
    """Return samples after a Butterworth band-pass of order 4, forwards and backwards.

    See `scipy.signal.sosfiltfilt`.

    Parameters
    ----------
    x : (n,) float64 ndarray
    rate : float
        Samples per second.
    low, high : float
        Band, Hz; a `high` of at least rate/2 makes it a high-pass.

    Returns
    -------
    (n,) float64 ndarray
    """
    from scipy.signal import butter, sosfiltfilt

    if high < 0.5 * rate:
        sections = np.asarray(butter(BAND_ORDER, (low, high), "bandpass", fs=rate, output="sos"))
    else:
        sections = np.asarray(butter(BAND_ORDER, low, "highpass", fs=rate, output="sos"))
    return sosfiltfilt(sections, x, padlen=min(3 * (2 * len(sections) + 1), len(x) - 1))
