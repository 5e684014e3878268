"""`jfstat dump-sfts`: headers, bins or timestamps of SFT files as text."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jfstat.sfts.blocks import read_batches
from jfstat.sfts.headers import scan_file, start_ns
from jfstat.sfts.patterns import find_files
from jfstat.sfts.validate import read_comment
from jfstat.sfts.windows import window_name

if TYPE_CHECKING:
    from jfstat.commandline.options import Subparsers


def add_parser(subparsers: Subparsers) -> None:
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
    parser.add_argument("--Nmax", "-N", type=int, metavar="N", help="print this many SFTs at most (default: all)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Print SFT by SFT."""
    if arguments.Nmax is not None and arguments.Nmax < 1:
        raise ValueError(f"--Nmax must be at least 1, not {arguments.Nmax}: say how many SFTs to print.")
    files = find_files(arguments.SFTfiles)
    table = np.concatenate([scan_file(path, i) for i, path in enumerate(files)])
    table = table[np.lexsort([table["first_bin"], table["detector"], start_ns(table)])][: arguments.Nmax]
    if arguments.timestampsOnly:
        print("%% Timestamps: seconds nano-seconds")
        for sft in table:
            print(f"{sft['gps']:10d} {sft['gps_ns']:09d}")
        return
    for i, sft in enumerate(table):
        if not arguments.dataOnly:
            print("\n".join(_header_lines(files[sft["file"]], sft, arguments.headerOnly)))
        if not arguments.headerOnly:
            print("\n".join(_data_lines(files, table[i : i + 1])))


def _header_lines(path: Path, sft: Any, header_only: bool) -> list[str]:
    """What the header of an SFT says, with the names of lalpulsar_dumpSFT."""
    tsft = float(sft["tsft"])
    window, _, parameter = window_name(int(sft["window"])).partition(":")
    comment = read_comment(path, sft)
    lines = [
        "%% ----- Header:",
        f"Name:        '{sft['detector'].decode()}'",
        f"epoch:       [{sft['gps']}, {sft['gps_ns']}]",
        f"f0:          {sft['first_bin'] / tsft:.9f}",
        f"deltaF:      {1 / tsft:.9g}",
        *([] if header_only else [f"numBins:     {sft['n_bins']}"]),
        "%% ----- Descriptor:",
        f"Locator:     '{path} : {sft['offset']}'",
        f"SFT version: {int(sft['version'])}",
        f"numBins:     {sft['n_bins']}",
        f"crc64:       {sft['crc']}",
        f"window:      {window}({float(parameter or 0):.10g})",
    ]
    if "\n" in comment:
        return [*lines, "comment: ==========", comment, "end comment: ------"]
    return [*lines, f"comment:     {comment or '<none>'}"]


def _data_lines(files: list[Path], sft: np.ndarray) -> list[str]:
    """Frequency in Hz, and real and imaginary part in strain/Hz, of each bin of one SFT."""
    first, n_bins, tsft = int(sft["first_bin"][0]), int(sft["n_bins"][0]), float(sft["tsft"][0])
    ((_, _, values),) = read_batches(files, sft, first, first + n_bins - 1, check_crc=True)
    frequencies = (first + np.arange(n_bins)) / tsft
    lines = ["%% ----- Data x(f):", "%% Frequency f[Hz]     Real(x)           Imag(x) "]
    for f, x in zip(frequencies.tolist(), values[0].tolist(), strict=True):
        lines.append(f"{f:.9f}      {x.real: .6e}  {x.imag: .6e}  ")
    return lines
