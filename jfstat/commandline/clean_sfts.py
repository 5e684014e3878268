"""`jfstat clean-sfts`: known lines in SFT files replaced by noise."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from jfstat.commandline.inputs import known_lines
from jfstat.commandline.options import number, words
from jfstat.lines.cleaning import WINDOW, clean
from jfstat.sfts.reading import read_sfts
from jfstat.sfts.writing import write_sfts

if TYPE_CHECKING:
    from jfstat.commandline.options import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "clean-sfts",
        help="replace known lines in SFT files by noise",
        description="Replace the bins of known lines by Gaussian noise of the level of the neighbouring bins, and "
        "write new SFT files. Options are named as lalpulsar_SFTclean's.",
    )
    data = parser.add_argument_group("data")
    data.add_argument(
        "--sftDir",
        "-i",
        required=True,
        metavar="PATTERN",
        help="SFT files: a name or glob, several joined by ';', or list:FILE",
    )
    data.add_argument("--fMin", type=number, metavar="HZ", help="lowest frequency, Hz (default: the files')")
    data.add_argument("--fMax", type=number, metavar="HZ", help="end of the band, Hz (default: the files')")
    lines = parser.add_argument_group("lines")
    lines.add_argument(
        "--linefiles",
        type=words,
        required=True,
        metavar="FILE,...",
        help="lists of known lines (Hz), one or more for a detector, whose names hold it, as in O3L1lines.csv; or "
        "L1:FILE. Formats of GWOSC, TDFstat and SFTclean",
    )
    lines.add_argument(
        "--window",
        "-w",
        type=int,
        default=WINDOW,
        metavar="BINS",
        help=f"bins on each side of a line from which the noise level is taken (default {WINDOW})",
    )
    lines.add_argument(
        "--maxBins",
        "-m",
        type=int,
        metavar="BINS",
        help="clean at most this many bins on each side of a line (default: all; SFTclean's is 20)",
    )
    lines.add_argument("--randSeed", type=int, default=0, metavar="N", help="seed of the noise (default 0, a seed too)")
    out = parser.add_argument_group("output")
    out.add_argument("--outDir", "-o", required=True, metavar="DIR", help="where to write the SFT files")
    out.add_argument("--outLabel", default="cleaned", metavar="WORD", help="description in the files' names")
    out.add_argument(
        "--outSingleSFT", "-s", action="store_true", help="write one file for each detector instead of one for each SFT"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Read, clean and write."""
    lines = known_lines(arguments.linefiles)
    sfts = read_sfts(arguments.sftDir, fmin=arguments.fMin, fmax=arguments.fMax)
    cleaned = clean(sfts, lines, seed=arguments.randSeed, window=arguments.window, max_bins=arguments.maxBins)  # type: ignore[arg-type]
    files = write_sfts(
        cleaned,
        arguments.outDir,
        merge=arguments.outSingleSFT,
        comment="cleaned by jfstat",
        description=arguments.outLabel,
    )
    print(cleaned)
    for old, new in zip(sfts, cleaned, strict=True):
        n_cleaned = int((old.data != new.data).any(axis=0).sum())
        print(f"  {old.detector}: {n_cleaned} of {old.data.shape[1]} bins replaced in {len(old)} SFTs")
    print(f"wrote {len(files)} file(s) to {arguments.outDir}")
