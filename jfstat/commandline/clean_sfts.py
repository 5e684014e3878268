"""`jfstat clean-sfts`: known lines in SFT files replaced by noise."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jfstat
from jfstat.commandline.overwriting import inputs_of
from jfstat.commandline.spellings import add, known_lines
from jfstat.commandline.words import count, natural, number

if TYPE_CHECKING:
    from jfstat.commandline.arguments import Arguments, Work


def add_parser(subparsers: Any) -> None:
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
    add(
        lines,
        "linefiles",
        required=True,
        help="lists of known lines (Hz), one or more for a detector, whose names hold it, as in O3L1lines.csv; or "
        "L1:FILE. Formats of GWOSC, TDFstat and SFTclean",
    )
    lines.add_argument(
        "--window",
        "-w",
        type=count,
        metavar="BINS",
        help="bins on each side of a line from which the noise level is taken (default 100)",
    )
    lines.add_argument(
        "--maxBins",
        "-m",
        type=natural,
        metavar="BINS",
        help="clean at most this many bins on each side of a line (default: all; SFTclean's is 20)",
    )
    add(lines, "randSeed")
    out = parser.add_argument_group("output")
    out.add_argument("--outDir", "-o", required=True, metavar="DIR", help="where to write the SFT files")
    out.add_argument("--outLabel", default="cleaned", metavar="WORD", help="description in the files' names")
    out.add_argument(
        "--outSingleSFT", "-s", action="store_true", help="write one file for each detector instead of one for each SFT"
    )
    parser.set_defaults(plan=plan)


def plan(arguments: Arguments) -> Work:
    """Return the cleaning that the options ask for."""
    how: Any = dict(seed=arguments.randSeed, max_bins=arguments.maxBins)
    how |= {} if arguments.window is None else {"window": arguments.window}
    band = dict(fmin=arguments.fMin, fmax=arguments.fMax)
    out = dict(merge=arguments.outSingleSFT, description=arguments.outLabel, sources=inputs_of(arguments))
    return partial(_run, arguments.sftDir, band, known_lines(arguments.linefiles), how, arguments.outDir, out)


def _run(
    pattern: str, band: dict[str, Any], lines: Any, how: dict[str, Any], directory: str, out: dict[str, Any]
) -> None:
    """Read, clean and write."""
    sfts = jfstat.read_sfts(pattern, **band)
    cleaned = jfstat.clean(sfts, lines, **how)
    files = jfstat.write_sfts(cleaned, directory, comment="cleaned by jfstat", **out)
    print(cleaned)
    for old, new in zip(sfts, cleaned, strict=True):
        n_cleaned = int((old.data != new.data).any(axis=0).sum())
        print(f"  {old.detector}: {n_cleaned} of {old.data.shape[1]} bins replaced in {len(old)} SFTs")
    print(f"wrote {len(files)} file(s) to {directory}")
