"""Which SFTs of files users ask for: detectors, times and band, as readers of all formats take them."""

from __future__ import annotations

import math
from collections.abc import Iterable

from jfstat.geometry.detector import Detector
from jfstat.geometry.detectors import DetectorLike, get_detectors
from jfstat.signal.times import TimeLike
from jfstat.validation import FrequencyLike, frequency, gps_seconds


def sites_of(detectors: DetectorLike | Iterable[DetectorLike] | None) -> dict[str, Detector]:
    """Return the detectors to keep by their prefixes; an empty mapping keeps all."""
    return {} if detectors is None else {site.prefix: site for site in get_detectors(detectors)}


def time_range(start: TimeLike | None, end: TimeLike | None) -> tuple[int | None, int | None]:
    """Return the limits in GPS nanoseconds, which compare exactly with the files' times."""
    limits = []
    for time, name in ((start, "start"), (end, "end")):
        seconds = None if time is None else gps_seconds(time, name)
        limits.append(None if seconds is None else math.floor(seconds) * 10**9 + round(seconds % 1 * 1e9))
    since, until = limits
    if since is not None and until is not None and since >= until:
        raise ValueError(f"start must be before end, not start={start!s} and end={end!s}: correct them.")
    return since, until


def band_limits(fmin: FrequencyLike | None, fmax: FrequencyLike | None) -> tuple[float | None, float | None]:
    """Return the limits of the band in Hz; None stands for that of the files."""
    low = None if fmin is None else frequency(fmin, "fmin")
    high = None if fmax is None else frequency(fmax, "fmax")
    if (low is not None and low < 0) or (high is not None and high <= (low or 0.0)):
        raise ValueError(f"the band must have 0 <= fmin < fmax, not fmin={low} and fmax={high} Hz: correct it.")
    return low, high


def require_present(wanted: Iterable[str], present: list[str], what: str) -> None:
    """Raise a ValueError unless all wanted detectors are among those of the SFTs (`what`) in files and times."""
    absent = [name for name in wanted if name not in present]
    if absent:
        raise ValueError(
            f"detectors: there are no {what} of {', '.join(absent)} among the files and times asked for, only of "
            f"{', '.join(present)}; add files or leave detectors out."
        )
