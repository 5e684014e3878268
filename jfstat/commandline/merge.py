"""`jfstat merge`: the files of all units of a search merged into one."""

from __future__ import annotations

import re
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import jfstat
from jfstat.commandline.spellings import add
from jfstat.commandline.work import check_outputs

if TYPE_CHECKING:
    from jfstat.commandline.arguments import Arguments, Work


def add_parser(subparsers: Any) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "merge",
        help="join the files of a search that was done in units",
        description="Join the files that jfstat search --unit 1/N to N/N wrote to the file that an undivided search "
        "writes, the same to the last digit.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="files of all units, .ecsv or .hdf5, in any order")
    add(parser, "outputFstat", required=True)
    parser.set_defaults(plan=plan)


def plan(arguments: Arguments) -> Work:
    """Return the merging that the options ask for."""
    check_outputs([arguments.outputFstat])
    return partial(_run, arguments.files, arguments.outputFstat)


def _run(files: list[str], output: str) -> None:
    """Read, join, write and print the loudest."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        tables = [jfstat.read_candidates(file) for file in files]
        try:
            found: Any = jfstat.merge(tables)
        except ValueError as error:  # which counts tables
            raise ValueError(re.sub(r"tables\[(\d+)\]", lambda found: files[int(found[1])], str(error))) from None
    for warning in caught:
        print(f"note: {warning.message}")
    path = jfstat.write_candidates(found, output)
    print(f"{found.meta['n_twoF']} values of 2F for {found.meta['n_templates']} template(s)")
    print(jfstat.summary(found))
    print(f"wrote {len(found)} candidates to {path}")
