"""`jfstat merge`: the files of all units of a search merged into one."""

from __future__ import annotations

import argparse
import warnings
from typing import TYPE_CHECKING, Any

from jfstat.commandline.search import print_loudest
from jfstat.io.candidates import check_writable, read_candidates, write_candidates
from jfstat.searching.session.units import merge

if TYPE_CHECKING:
    from jfstat.commandline.options import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "merge",
        help="join the files of a search that was done in units",
        description="Join the files that jfstat search --unit 1/N to N/N wrote to the file that an undivided search "
        "writes, the same to the last digit.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="files of all units, .ecsv or .hdf5, in any order")
    parser.add_argument(
        "--outputFstat",
        required=True,
        metavar="FILE",
        help="candidates: .ecsv, .hdf5, or anything else for ComputeFstatistic_v2's text format",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Read, join, write and print the loudest."""
    check_writable(arguments.outputFstat)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        found: Any = merge([read_candidates(file) for file in arguments.files])
    for warning in caught:
        print(f"note: {warning.message}")
    path = write_candidates(found, arguments.outputFstat)
    print(f"{found.meta['n_twoF']} values of 2F for {found.meta['n_templates']} template(s)")
    print_loudest(found)
    print(f"wrote {len(found)} candidates to {path}")
