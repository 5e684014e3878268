"""Narrow data around one template straight from SFT files: `narrow_files`."""

from __future__ import annotations

import numpy as np

from jfstat import kinds
from jfstat.data.checks import check_template
from jfstat.data.narrowdata import NarrowData
from jfstat.data.narrowsfts import narrow_sfts
from jfstat.data.noise import Noise, NoiseLike
from jfstat.data.observation import reference_time, unweighted
from jfstat.data.plan import Search
from jfstat.geometry.ephemeris import EphemerisLike
from jfstat.public import host
from jfstat.sfts.reading import SFTFiles
from jfstat.signal.templates import Doppler, template_of_any
from jfstat.validation import FrequencyLike, guard_band


@host(files=kinds.instance(SFTFiles), point=template_of_any, ephemeris=kinds.ephemeris)
def narrow_files(
    files: SFTFiles,
    point: Doppler,
    *,
    sqrt_sx: NoiseLike | None = None,
    ephemeris: EphemerisLike = "DE405",
    guard: FrequencyLike = 1.0,
) -> NarrowData:
    """Reduce SFT files to narrow data around a template, without a series of a whole band.

    Only the bins around the template are read, so that years of SFTs take seconds and little memory.

    Parameters
    ----------
    files : SFTFiles
        From `find_sfts`.
    point : Doppler or Row
        One template, scalar fields; its frequency counts.
    sqrt_sx, ephemeris
        As for `prepare`; the running median has an odd number of bins.
    guard : float or Quantity
        How far from the signal bins count, Hz; less if the files have less.

    Returns
    -------
    NarrowData

    Raises
    ------
    OSError
        If a file cannot be read.
    TypeError
        If an argument is of another kind.
    ValueError
        If the files do not hold the signal's band, it moves too fast, or the noise floor cannot be estimated: then
        `prepare` is the way, or says what is wrong.

    Examples
    --------
    >>> files = jfstat.find_sfts([str(path) for path in jfstat.write_sfts(sfts, 'data')])
    >>> point = jfstat.Doppler(2.1, 0.47, [100.0, -1e-10], start)
    >>> near = jfstat.narrow_files(files, point, sqrt_sx=4e-24)
    >>> near.detectors == files.times.detectors
    True
    """
    check_template("point", point)
    width, noise, times = guard_band(guard), Noise.of(sqrt_sx), files.times
    noise.floors(times.detectors)
    reference = reference_time(point.reftime, times.start)
    since = float(reference.since(times.start))
    freq, *fdots = (float(x) for x in np.asarray(point.fkdot))
    search = Search(freq, freq, width, point.orbit, [(x, x) for x in fdots], None)
    low, high = search.pass_band(-since, times.end - times.start - since)
    if low < files.first_bin / times.tsft or high > files.last_bin / times.tsft:
        first, last = files.band
        raise ValueError(
            f"the SFTs cover {first:.10g} to {last:.10g} Hz, not all of {low:.10g} to {high:.10g} Hz that the signal "
            "needs: name other files."
        )
    width = min(width, files.band[1] - files.band[0])  # there are no bins beyond
    return narrow_sfts(files, [point], unweighted(times, reference, ephemeris), noise, width)[0]
