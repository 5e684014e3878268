"""Options that choose data, and reading what they name: SFT files around a band."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import numpy as np

from jfstat.commandline.options import gps, words
from jfstat.geometry.detector import Detector
from jfstat.geometry.detectors import DetectorLike
from jfstat.geometry.doppler import drift_range, largest_doppler_speed
from jfstat.sfts.container import SFTs
from jfstat.sfts.headers import scan_file
from jfstat.sfts.patterns import find_files
from jfstat.sfts.reading import read_sfts
from jfstat.signal.templates import Orbit
from jfstat.signal.times import TimeLike, gps_time

if TYPE_CHECKING:
    from astropy.table import QTable

    from jfstat.commandline.options import OptionGroup


def add_data_files(group: OptionGroup, required: bool = True) -> None:
    """Add the options that choose SFT files, detectors and times."""
    group.add_argument(
        "--DataFiles",
        "-D",
        metavar="PATTERN",
        required=required,
        help="SFT files: a name or glob, several joined by ';', or list:FILE",
    )
    add_detectors(group, "detectors; with --DataFiles, all by default")
    group.add_argument("--minStartTime", type=gps, metavar="GPS", help="use SFTs from this time on, GPS s or UTC")
    group.add_argument("--maxStartTime", type=gps, metavar="GPS", help="use SFTs before this time, GPS s or UTC")


def add_detectors(group: OptionGroup, meaning: str) -> None:
    """Add the options that name detectors and say where one's own stand."""
    group.add_argument("--IFOs", "-I", type=words, metavar="H1,L1", help=meaning)
    group.add_argument(
        "--detectorFiles",
        type=words,
        metavar="Z1=FILE,...",
        help="one's own detectors: for each its prefix in SFT files, and a file with latitude, longitude, xarm_azimuth "
        "and yarm_azimuth in degrees (azimuths from east through north) and elevation in m, as Bilby's .ifo files",
    )


def own_detectors(arguments: argparse.Namespace) -> dict[str, DetectorLike]:
    """The detectors of ``--detectorFiles`` by prefix.

    Raises
    ------
    ValueError
        If a word is not PREFIX=FILE, a prefix is given twice, or a file is malformed.
    """
    own: dict[str, DetectorLike] = {}
    for word in arguments.detectorFiles or ():
        prefix, equals, name = word.partition("=")
        if not equals or not name or prefix in own:
            raise ValueError(f"--detectorFiles has {word!r}: give PREFIX=FILE, each prefix once, such as Z1=mine.ifo.")
        try:
            own[prefix] = Detector.read(name, prefix)
        except (OSError, ValueError) as error:
            raise ValueError(f"--detectorFiles: {error}") from None
    return own


def chosen_detectors(arguments: argparse.Namespace) -> list[DetectorLike]:
    """The detectors of ``--IFOs``, the user's own among them."""
    own = own_detectors(arguments)
    unused = sorted(set(own) - set(arguments.IFOs))
    if unused:
        raise ValueError(f"--detectorFiles has {unused[0]}, which --IFOs does not name: add it there, or leave it out.")
    return list(({name: name for name in arguments.IFOs} | own).values())


def detectors_of_files(arguments: argparse.Namespace, table: np.ndarray) -> list[DetectorLike] | None:
    """The detectors to read from files with these headers; None for all, if none is the user's own."""
    if arguments.IFOs is not None:
        return chosen_detectors(arguments)
    own = own_detectors(arguments)
    present = sorted({name.decode() for name in np.unique(table["detector"])})
    unused = sorted(set(own) - set(present))
    if unused:
        raise ValueError(f"--detectorFiles has {unused[0]}, of which there are no SFTs, only of {', '.join(present)}.")
    return list(({name: name for name in present} | own).values()) if own else None


def detectors_to_read(arguments: argparse.Namespace) -> list[DetectorLike] | None:
    """The detectors to read from ``--DataFiles`` between the times that are given; None for all."""
    if arguments.detectorFiles is None:
        return arguments.IFOs
    return detectors_of_files(arguments, _between_times(arguments, headers_of(arguments.DataFiles, arguments)))


def _between_times(arguments: argparse.Namespace, table: np.ndarray) -> np.ndarray:
    """Headers of the SFTs between ``--minStartTime`` and ``--maxStartTime``."""
    low, high = arguments.minStartTime or -np.inf, arguments.maxStartTime or np.inf
    return table[(table["gps"] >= low) & (table["gps"] < high)]


def headers_of(pattern: str, arguments: argparse.Namespace) -> np.ndarray:
    """Headers of SFT files, of the user's own detectors too; see `scan_file`."""
    own = tuple(own_detectors(arguments))
    return np.concatenate([scan_file(path, own=own) for path in find_files(pattern)])


def read_band(
    arguments: argparse.Namespace,
    fmin: float,
    fmax: float,
    guard: float,
    orbit: Orbit | None = None,
    fdots: list[tuple[float, float]] | None = None,
    reftime: TimeLike | None = None,
    known: SFTs | None = None,
) -> SFTs:
    """Read the part of the SFT files that a search of a band needs.

    Parameters
    ----------
    arguments : Namespace
        With the options of `add_data_files`, and possibly that of `add_median_window`.
    fmin, fmax : float
        Band in the SSB, Hz.
    guard : float
        See `jfstat.prepare`; less at the ends of the files' band.
    orbit : Orbit, optional
        Widens the band by its Doppler shift.
    fdots, reftime : optional
        Ranges of f1dot, f2dot, ... at a GPS time, by default the files' first: widen the band by the drift they cause.
    known : SFTs, optional
        What was read of the same files for a band that may be a little narrower: returned if no more than a bin of the
        guard is missing on either side, because reading takes longer than a bin is worth.

    Raises
    ------
    ValueError
        If the files do not contain the band or cannot be read.
    """
    table = headers_of(arguments.DataFiles, arguments)
    speed = largest_doppler_speed(orbit)
    start, end = int(table["gps"].min()), float((table["gps"] + table["tsft"]).max())
    since = 0.0 if reftime is None else -float(gps_time(reftime, "reftime").since(start))
    drift = drift_range(fdots, since, since + end - start)
    # what the noise floor needs beyond the band: half of the running median's window, or the off-source bins
    window, left_out = getattr(arguments, "RngMedWindow", 0), getattr(arguments, "offSourceBins", None) or 0
    beyond = max(guard, (0.5 * window + left_out + 1) / float(table["tsft"].min()), 0.0)
    reach = speed * fmax + beyond + 4 / float(table["tsft"].min())
    low = float((table["first_bin"] / table["tsft"]).min())
    high = float(((table["first_bin"] + table["n_bins"]) / table["tsft"]).max())
    if fmin < low or fmax > high:
        raise ValueError(
            f"--DataFiles cover {low:.10g} to {high:.10g} Hz, not all of {fmin:.10g} to {fmax:.10g} Hz: choose other "
            "frequencies or name other files."
        )
    first, last = max(fmin + drift[0] - reach, low), min(fmax + drift[1] + reach, high)
    if known is not None:
        bin_width = 1 / known.tsft
        if known.frequencies[0] - bin_width <= first and last <= known.frequencies[-1] + 2 * bin_width:
            return known
    return read_sfts(
        arguments.DataFiles,
        detectors=detectors_of_files(arguments, _between_times(arguments, table)),
        start=arguments.minStartTime,
        end=arguments.maxStartTime,
        fmin=first,
        fmax=last,
    )


def add_lines(group: OptionGroup) -> None:
    """Add the option that names lists of known lines."""
    group.add_argument(
        "--linefiles",
        type=words,
        metavar="FILE,...",
        help="lists of known lines (Hz), one or more for a detector, whose names hold it, as in O3L1lines.csv; or "
        "L1:FILE. Formats of GWOSC, TDFstat and SFTclean. A column 'line' of .ecsv and .hdf5 files names those that a "
        "candidate crosses",
    )


def known_lines(files: list[str] | None) -> QTable | None:
    """The lines of ``--linefiles``; None if it is not given.

    Raises
    ------
    OSError, ValueError
        If a file cannot be read, or does not say whose lines it holds.
    """
    if files is None:
        return None
    from astropy.table import vstack

    from jfstat.lines.reading import DETECTORS, read_lines

    if not files:
        raise ValueError("--linefiles names no file: give at least one.")
    parts = []
    for file in files:
        detector, colon, path = file.partition(":")
        parts.append(read_lines(path, detector) if colon and detector in DETECTORS else read_lines(file))
    return vstack(parts, metadata_conflicts="silent")
