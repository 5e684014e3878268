"""`jfstat dump-sfts`: headers, bins or timestamps of SFT files as text."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jfstat
from jfstat.commandline.words import count

if TYPE_CHECKING:
    from jfstat.commandline.arguments import Arguments, Work

CONTENTS = {"headerOnly": "headers", "dataOnly": "bins", "timestampsOnly": "timestamps"}
"""What each option asks `jfstat.dump_sfts` for."""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "dump-sfts",
        help="print headers, bins or timestamps of SFT files",
        description="Print the SFTs of some files by time, detector and band, in the format of lalpulsar_dumpSFT: "
        "frequencies in Hz, bins in strain/Hz, times in GPS s and ns.",
    )
    parser.add_argument(
        "--SFTfiles",
        "-i",
        required=True,
        metavar="PATTERN",
        help="SFT files: a name or glob, several joined by ';', or list:FILE",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--headerOnly", "-H", action="store_true", help="print headers only")
    what.add_argument("--dataOnly", "-d", action="store_true", help="print bins only")
    what.add_argument(
        "--timestampsOnly", "-t", action="store_true", help="print start times only, as files of timestamps hold them"
    )
    parser.add_argument("--Nmax", "-N", type=count, metavar="N", help="print this many SFTs at most (default: all)")
    parser.set_defaults(plan=plan)


def plan(arguments: Arguments) -> Work:
    """Return the printing that the options ask for."""
    chosen = [what for option, what in CONTENTS.items() if getattr(arguments, option)]
    return partial(_run, arguments.SFTfiles, *(chosen or ["all"]), arguments.Nmax)


def _run(pattern: str, what: str, most: int | None) -> None:
    """Print SFT by SFT."""
    for text in jfstat.dump_sfts(pattern, what, most):
        print(text)
