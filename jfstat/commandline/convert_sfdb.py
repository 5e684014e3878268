"""`jfstat convert-sfdb`: SFT files of the Rome group's SFDBs."""

from __future__ import annotations

import sys
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import jfstat
from jfstat.commandline.overwriting import inputs_of
from jfstat.commandline.words import gps, number, words

if TYPE_CHECKING:
    from jfstat.commandline.arguments import Arguments, Work


def add_parser(subparsers: Any) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "convert-sfdb",
        help="make SFT files of the Rome group's SFDBs",
        description="Write a band of the short Fourier transforms in SFDB files (.SFDB09) as SFT files, as "
        "lalpulsar_WriteSFTsfromSFDBs does. Of transforms that overlap, the earliest is kept.",
    )
    data = parser.add_argument_group("SFDBs")
    data.add_argument(
        "--file-pattern",
        "-i",
        required=True,
        metavar="PATTERN",
        help="SFDB files: a name, folder or glob, several joined by ';', or list:FILE",
    )
    data.add_argument("--fmin", type=number, required=True, metavar="HZ", help="lowest frequency, Hz")
    data.add_argument("--fmax", type=number, required=True, metavar="HZ", help="end of the band, Hz")
    data.add_argument("--IFOs", "-I", type=words, metavar="H1,L1", help="detectors (default: all)")
    data.add_argument("--minStartTime", type=gps, metavar="GPS", help="keep what starts from here on, GPS s or UTC")
    data.add_argument("--maxStartTime", type=gps, metavar="GPS", help="keep what starts before this, GPS s or UTC")
    data.add_argument(
        "--segment-file",
        "-g",
        metavar="FILE",
        help="keep what lies in these science segments, lines of start and end in GPS s; for several detectors with "
        "segments of their own, convert one after the other",
    )
    data.add_argument(
        "--zeros",
        type=number,
        default=0.0,
        metavar="PART",
        help="keep transforms of which at most this part of the strain was missing and set to zero, 0 to 1 (default 0)",
    )
    out = parser.add_argument_group("output")
    out.add_argument("--outSFTdir", "-n", required=True, metavar="DIR", help="where to write the SFT files")
    out.add_argument("--outLabel", default="", metavar="WORD", help="description in the files' names")
    parser.set_defaults(plan=plan)


def plan(arguments: Arguments) -> Work:
    """Return the conversion that the options ask for."""
    segments = None if arguments.segment_file is None else jfstat.read_segments(arguments.segment_file)
    times = dict(start=arguments.minStartTime, end=arguments.maxStartTime, segments=segments)
    band = dict(fmin=arguments.fmin, fmax=arguments.fmax)
    read = partial(jfstat.read_sfdb, arguments.file_pattern, arguments.IFOs, zeros=arguments.zeros, **band, **times)
    out = dict(description=arguments.outLabel, comment="made by jfstat convert-sfdb", sources=inputs_of(arguments))
    return partial(_run, read, arguments.outSFTdir, out)


def _run(read: Any, directory: str, out: dict[str, Any]) -> None:
    """Read and write, and say how many were left out."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        sfts = read()
    for one in said:
        print(f"jfstat: note: {one.message}", file=sys.stderr)
    for path in jfstat.write_sfts(sfts, directory, **out):
        print(f"wrote {path}")
