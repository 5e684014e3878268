"""`jfstat split-sfts`: SFT files cut into files of narrow bands."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from jfstat.commandline.inputs import add_data_files
from jfstat.commandline.options import number
from jfstat.sfts.split import split_sfts

if TYPE_CHECKING:
    from jfstat.commandline.options import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "split-sfts",
        help="cut SFT files into files of narrow bands",
        description="Write SFTs as files of narrow bands, one for each detector and band, with the names of "
        "LIGO-T040164. Options are named as lalpulsar_splitSFTs's.",
    )
    data = parser.add_argument_group("data")
    add_data_files(data)
    bands = parser.add_argument_group("bands")
    bands.add_argument(
        "--frequency-bandwidth", "-fb", type=number, required=True, metavar="HZ", help="width of a band, Hz"
    )
    bands.add_argument(
        "--frequency-overlap",
        "-fx",
        type=number,
        default=0.0,
        metavar="HZ",
        help="how far a band extends into the next one, Hz (default 0)",
    )
    bands.add_argument(
        "--start-frequency", "-fs", type=number, metavar="HZ", help="lowest frequency, Hz (default: the files')"
    )
    bands.add_argument(
        "--end-frequency", "-fe", type=number, metavar="HZ", help="end of the last band, Hz (default: the files')"
    )
    out = parser.add_argument_group("output")
    out.add_argument("--output-directory", "-n", required=True, metavar="DIR", help="where to write the SFT files")
    out.add_argument("--outLabel", default="", metavar="WORD", help="description in the files' names")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Read and write band by band."""
    files = split_sfts(
        arguments.DataFiles,
        arguments.output_directory,
        arguments.frequency_bandwidth,
        arguments.frequency_overlap,
        fmin=arguments.start_frequency,
        fmax=arguments.end_frequency,
        detectors=arguments.IFOs,
        start=arguments.minStartTime,
        end=arguments.maxStartTime,
        description=arguments.outLabel,
    )
    for path in files:
        print(f"wrote {path}")
