"""The background of a search: options that measure it at other sky positions, and judge the candidates by it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import jfstat
from jfstat.commandline.words import natural
from jfstat.commandline.work import TABLES, Division, write_all

if TYPE_CHECKING:
    from jfstat.commandline.arguments import Arguments
    from jfstat.commandline.spellings import OptionGroup

WHOLE = ("unit", "distributed", "countTemplates")
"""Options with which a command does not have the whole search at hand."""


def add_background(group: OptionGroup) -> None:
    """Add the options of a measured background."""
    group.add_argument(
        "--backgroundPositions",
        type=natural,
        metavar="N",
        help="search the bank at N other sky positions, too, where no signal is, and add the false-alarm probability "
        "by the loudest values there: it holds in noise with lines and drifts, and the search takes N times as long "
        "(10 to 10000; 0: as many as there is room for, at most 100). With --checkpoint, the positions that are done "
        "are kept in a file of that name and .background",
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
    positions : int or None
    table, path : str or None
        Files for the candidates and for the loudest values.
    """

    positions: int | None
    table: str | None
    path: str | None

    def check_room(self, data: Any, bank: jfstat.Doppler) -> None:
        """Raise a ValueError if there is no room for so many positions, before the search begins."""
        jfstat.background_positions(data, bank, self.positions)

    def judged(self, division: Division, found: Any, searched: tuple[Any, Any, Any], keep: jfstat.Keep) -> Any:
        """Measure the background of a search, write it, and return the candidates with their false-alarm probabilities.

        The candidates are written before, since the background takes much longer.

        Parameters
        ----------
        division : Division
        found : QTable
            The search's table.
        searched : (data, bank, statistic)
        keep : Keep
            Its lines are left out here if the search vetoed them.
        """
        write = partial(jfstat.write_candidates, found)
        words = f"{len(found)} candidates, whose background is now measured,"
        said = write_all((self.table, write, words))
        print("".join(f"{line}\n" for line in said), end="", flush=True)
        kept = None if division.checkpoint is None else f"{division.checkpoint}.background"
        lines = keep.lines if keep.veto_lines else None
        measured: Any = jfstat.background(*searched, self.positions, kept, lines=lines, run=division.run)
        number = measured.meta["positions"]
        write = partial(jfstat.write_candidates, measured)
        said = write_all((self.path, write, f"the loudest values at {number} positions"))
        print("".join(f"{line}\n" for line in said), end="")
        return jfstat.empirical_false_alarm(found, measured)


def background_of(arguments: Arguments) -> Background | None:
    """Return the background that the options ask for, if any.

    Raises
    ------
    ValueError
        If options contradict each other or are out of range.
    """
    positions, path, table = arguments.backgroundPositions, arguments.outputBackground, arguments.outputFstat
    if positions is None:
        if path is not None:
            raise ValueError("--outputBackground needs --backgroundPositions: give both.")
        return None
    if path is not None and not path.endswith(TABLES):
        raise ValueError("--outputBackground must end with .ecsv or .hdf5: the text format is for candidates.")
    if table is not None and not table.endswith(TABLES):
        raise ValueError(
            "--backgroundPositions needs --outputFstat with .ecsv or .hdf5: the text format has no false alarms."
        )
    name = arguments.first_given(*WHOLE)
    if name is not None:
        raise ValueError(f"--backgroundPositions needs the whole search: leave {name} out.")
    return Background(positions or None, table, path)
