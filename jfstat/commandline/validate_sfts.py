"""`jfstat validate-sfts`: are SFT files valid?"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import jfstat

if TYPE_CHECKING:
    from jfstat.commandline.arguments import Arguments, Work


def add_parser(subparsers: Any) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "validate-sfts",
        help="check that SFT files are valid",
        description="Check headers, checksums and bins of SFT files, as lalpulsar_SFTvalidate does. Prints the names "
        "of valid files, and what is wrong with the others to stderr. Exit status 1 if one is not valid.",
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="SFT files (default: names on stdin, one a line)")
    parser.set_defaults(plan=plan)


def plan(arguments: Arguments) -> Work:
    """Return the check of the files that are named."""
    return partial(_run, arguments.files or [line.strip() for line in sys.stdin if line.strip()])


def _run(names: list[str]) -> None:
    """Print the names of valid files; raises SystemExit if one is not."""
    invalid = 0
    for name in names:
        try:
            jfstat.validate_sfts(name)
        except (ValueError, OSError) as error:
            invalid += 1
            print(" ".join(str(error).split()), file=sys.stderr)
        else:
            print(name)
    if invalid:
        raise SystemExit(1)
