"""The background of a search: options that measure it at other sky positions, and judge the candidates by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jfstat
from jfstat.commandline.words import count
from jfstat.commandline.work import TABLES, Division

if TYPE_CHECKING:
    from jfstat.commandline.arguments import Arguments
    from jfstat.commandline.spellings import OptionGroup

FEWEST, MOST = 10, 10_000
"""Smallest and largest number of positions."""
WHOLE = ("unit", "distributed", "countTemplates")
"""Options with which a command does not have the whole search at hand."""


def add_background(group: OptionGroup) -> None:
    """Add the options of a measured background."""
    group.add_argument(
        "--backgroundPositions",
        type=count,
        metavar="N",
        help="search the bank at N other right ascensions, too, where no signal is, and add the false-alarm "
        "probability by the loudest values there: it holds in noise with lines and drifts, and the search takes N "
        "times as long. With --checkpoint, the positions that are done are kept in a file of that name and "
        ".background",
    )
    group.add_argument(
        "--outputBackground",
        metavar="FILE",
        help="loudest value of each sub-band at each of these positions: .ecsv or .hdf5",
    )


@dataclass(frozen=True)
class Background:
    """How a background is measured.

    Attributes
    ----------
    positions : int
    path : str or None
        File for the loudest values.
    """

    positions: int
    path: str | None

    def judged(self, division: Division, found: Any, searched: tuple[Any, Any, Any], keep: jfstat.Keep) -> Any:
        """Measure the background of a search, write it, and return the candidates with their false-alarm probabilities.

        Parameters
        ----------
        division : Division
        found : QTable
            The search's table.
        searched : (data, bank, statistic)
        keep : Keep
            Its lines are left out here if the search vetoed them.
        """
        lines = keep.lines if keep.veto_lines else None
        kept = None if division.checkpoint is None else f"{division.checkpoint}.background"
        measured: Any = jfstat.background(*searched, self.positions, kept, lines=lines, run=division.run)
        if self.path is not None:
            print(f"wrote the loudest values at {self.positions} positions to", end=" ")
            print(jfstat.write_candidates(measured, self.path))
        return jfstat.empirical_false_alarm(found, measured)


def background_of(arguments: Arguments) -> Background | None:
    """Return the background that the options ask for, if any.

    Raises
    ------
    ValueError
        If options contradict each other or are out of range.
    """
    positions, path = arguments.backgroundPositions, arguments.outputBackground
    if positions is None:
        if path is not None:
            raise ValueError("--outputBackground needs --backgroundPositions: give both.")
        return None
    if not FEWEST <= positions <= MOST:
        raise ValueError(f"--backgroundPositions must be {FEWEST} to {MOST}, not {positions}.")
    if path is not None and not path.endswith(TABLES):
        raise ValueError("--outputBackground must end with .ecsv or .hdf5: the text format is for candidates.")
    name = arguments.first_given(*WHOLE)
    if name is not None:
        raise ValueError(f"--backgroundPositions needs the whole search: leave --{name} out.")
    return Background(positions, path)
