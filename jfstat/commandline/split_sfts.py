"""`jfstat split-sfts`: SFT files cut into files of narrow bands."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jfstat
from jfstat.commandline.spellings import DATA, add, data_files
from jfstat.commandline.words import number

if TYPE_CHECKING:
    from jfstat.commandline.arguments import Arguments, Work


def add_parser(subparsers: Any) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "split-sfts",
        help="cut SFT files into files of narrow bands",
        description="Write SFTs as files of narrow bands, one for each detector and band, with the names of "
        "LIGO-T040164. Options are named as lalpulsar_splitSFTs's.",
    )
    data = parser.add_argument_group("data")
    add(data, "DataFiles", required=True)
    add(data, *DATA[1:])
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
    parser.set_defaults(plan=plan)


def plan(arguments: Arguments) -> Work:
    """Return the cutting that the options ask for."""
    chosen: Any = arguments.IFOs
    if arguments.detectorFiles is not None:
        chosen = [series.site for series in data_files(arguments).times]
    width = arguments.frequency_bandwidth, arguments.frequency_overlap
    band = dict(fmin=arguments.start_frequency, fmax=arguments.end_frequency)
    times = dict(start=arguments.minStartTime, end=arguments.maxStartTime)
    out: Any = dict(detectors=chosen, description=arguments.outLabel, **band, **times)
    return partial(_run, arguments.DataFiles, arguments.output_directory, width, out)


def _run(pattern: str, directory: str, width: tuple[float, float], out: dict[str, Any]) -> None:
    """Read and write band by band."""
    for path in jfstat.split_sfts(pattern, directory, *width, **out):
        print(f"wrote {path}")
