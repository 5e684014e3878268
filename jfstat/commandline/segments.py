"""Options that cut the data into segments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jfstat.commandline.options import number
from jfstat.io.lal.times import read_segments

if TYPE_CHECKING:
    import argparse

    from jfstat.commandline.options import OptionGroup
    from jfstat.data.segments import SegmentsLike

NAMES = ("segments", "segmentDuration", "segmentList")
"""Options of which one may be given."""


def add_segments(group: OptionGroup) -> None:
    """Add the options that cut the data into segments."""
    group.add_argument(
        "--segments", type=int, metavar="N", help="semi-coherent: cut the data into N segments and take the mean 2F"
    )
    group.add_argument(
        "--segmentDuration", type=number, metavar="S", help="semi-coherent: cut the data into segments of so many s"
    )
    group.add_argument(
        "--segmentList",
        metavar="FILE",
        help="semi-coherent: segments from a file with a line 'start end' for each, GPS s, as Weave's --segment-list",
    )


def segments_option(arguments: argparse.Namespace) -> str | None:
    """The option that asks for segments, as users write it; None if there is none.

    Raises
    ------
    ValueError
        If several are given.
    """
    given = [f"--{name}" for name in NAMES if getattr(arguments, name) is not None]
    if len(given) > 1:
        raise ValueError(f"{given[0]} and {given[1]} are two ways to give segments: give one.")
    return given[0] if given else None


def given_segments(arguments: argparse.Namespace) -> SegmentsLike | None:
    """The segments that these options ask for, as `prepare` takes them.

    Raises
    ------
    ValueError
        If several options are given.
    """
    if segments_option(arguments) is None:
        return None
    if arguments.segmentList is not None:
        return read_segments(arguments.segmentList)
    return arguments.segments if arguments.segments is not None else float(arguments.segmentDuration)
