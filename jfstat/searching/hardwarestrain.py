"""SFTs of strain in the bands around LIGO's hardware injections: `hardware_injection_sfts`."""

from __future__ import annotations

from collections.abc import Sequence

from jfstat import kinds
from jfstat.data.workers import cores
from jfstat.public import host
from jfstat.pulsars.hardware import DETECTORS, injections_of
from jfstat.searching.hardware import edges, the_run
from jfstat.sfts.container import SFTs, join_sfts
from jfstat.sfts.patterns import Pattern
from jfstat.signal.times import TimeLike, gps_time
from jfstat.strain.files import DataQuality, FilesOfStrain, detectors_in, find_strain, with_cw_injections
from jfstat.strain.making import Conditioning, Making, sfts_of_bands
from jfstat.strain.strainfile import GWOSC_RATE, GWOSC_VALID
from jfstat.validation import DurationLike, sft_seconds

THREADS = 2
"""SFTs that are made at a time, each with some copies of its strain in memory."""
ROOM, ROOM_BINS = 0.35, 70
"""Widths of the bands on each side of a signal, Hz and bins, of which the larger counts."""
HIGH_PASS = 7.0
"""Knee frequency of the default high-pass filter, Hz."""


@host(paths=kinds.paths, run=kinds.time, detectors=kinds.names, channel=kinds.text)
def hardware_injection_sfts(
    paths: Pattern,
    run: str | TimeLike | None = None,
    *,
    detectors: str | Sequence[str] | None = None,
    channel: str | None = None,
    tsft: DurationLike = 1800,
    quality: DataQuality | None = None,
    conditioning: Conditioning | None = None,
) -> list[SFTs]:
    """Make SFTs of strain in the bands around the hardware injections of a run, for `check_hardware_injections`.

    Some 1.2 Hz around each injection are kept: 0.3 MB of each 1800 s and detector, 5 GB of a year. Seconds with GWOSC's
    bit ``NO_CW_HW_INJ``, in which nothing was injected, are left out.

    Parameters
    ----------
    paths, channel, tsft
        As for `sfts_from_frames`.
    run : str, float, Time or GPSTime, optional
        See `hardware_injections`; by default the run that holds all of the strain.
    detectors : str or sequence of str, optional
        Prefixes of LIGO's detectors; by default all of them that the files are of.
    quality : DataQuality, optional
        Which times are good; by default those with GWOSC's bit ``DATA``.
    conditioning : Conditioning, optional
        By default a high-pass filter at 7 Hz.

    Returns
    -------
    list of SFTs
        The SFTs of each injection's band. Injections above 1600 Hz are left out of strain at 4096 Hz, which is not
        valid there, as are those beyond the Nyquist frequency of other strain.

    Raises
    ------
    OSError
        If a file cannot be read.
    TypeError
        If an argument is of another kind.
    ValueError
        If the strain is of no run or detector with injections, nothing was injected into it, or as for
        `sfts_from_frames`.

    Notes
    -----
    The high-pass filter is that of `sfts_from_frames`, computed by Fourier transforms; SFTs differ from those of
    `sfts_from_frames` only by what rings at their ends.

    Examples
    --------
    >>> bands = jfstat.hardware_injection_sfts("H-H1_GWOSC_O3a_4KHZ_R1-*.hdf5")  # doctest: +SKIP
    >>> jfstat.check_hardware_injections(bands)  # doctest: +SKIP
    """
    how = Conditioning(highpass=HIGH_PASS) if conditioning is None else conditioning
    length = sft_seconds(tsft)
    strains = _strains(paths, detectors, channel, quality)
    # of the good seconds: files at the ends of a run reach beyond it
    start = min(strain.origin + strain.stretches[0][0] // strain.rate for strain in strains)
    end = max(strain.origin - (-strain.stretches[-1][1] // strain.rate) for strain in strains)
    name = the_run(run, start, end, "paths")
    room, top = max(ROOM, ROOM_BINS / length), min(_valid(strain.rate) for strain in strains)
    reftime = gps_time(start, "start")
    around = [edges(x.point, reftime, float(end)) for x in injections_of(name)]
    bands = [(low - room, high + room) for low, high in around if high + room < top and low > room]
    if not bands:
        raise ValueError(
            f"paths hold strain up to {top:g} Hz, and with tsft={length:g} bands reach {room:g} Hz beyond the hardware "
            f"injections of {name}, none of which fits: give another rate, or a longer tsft."
        )
    low, high = min(x for x, _ in bands), max(x for _, x in bands)
    made = [
        sfts_of_bands(strain, Making.of(strain.rate, length, low, high, how), bands, min(THREADS, cores()))
        for strain in strains
    ]
    return [join_sfts(own) for own in zip(*made, strict=True)]


def _strains(
    paths: Pattern, detectors: str | Sequence[str] | None, channel: str | None, quality: DataQuality | None
) -> list[FilesOfStrain]:
    """Return the strain of each detector in seconds with injections.

    Raises
    ------
    ValueError
        If there is none, or a detector has no injections.
    """
    there = detectors_in(paths, channel)
    wanted = there if detectors is None else [detectors] if isinstance(detectors, str) else list(detectors)
    names = [name for name in wanted if name in DETECTORS]
    if not names or (detectors is not None and len(names) < len(wanted)):
        of = "paths hold strain" if detectors is None else "detectors are"
        raise ValueError(
            f"{of} of {' and '.join(wanted)}, and only {', '.join(DETECTORS)} have hardware injections: give others."
        )
    return [with_cw_injections(find_strain(paths, channel, name, quality)) for name in names]


def _valid(rate: int) -> float:
    """Return the frequency up to which strain of a rate is valid, Hz."""
    return GWOSC_VALID if rate == GWOSC_RATE else 0.5 * rate
