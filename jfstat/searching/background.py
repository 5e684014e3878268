"""Measure the background of a search: its loudest values at sky positions where the signal cannot be: `background`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jfstat import kinds
from jfstat.atomic import replacing
from jfstat.candidates.details import Details
from jfstat.candidates.tables import Meta, in_units
from jfstat.data.fstatdata import FstatData
from jfstat.data.normalised import NormalisedSFTs
from jfstat.public import host
from jfstat.searching.bank import stacked_bank
from jfstat.searching.driver.mesh import spans_processes
from jfstat.searching.offsource import Turn, turn_of
from jfstat.searching.options import Keep, Run
from jfstat.searching.plan import SearchPlan, plan_search
from jfstat.searching.session.checkpoint import (
    checked,
    checkpoint_bytes,
    checkpoint_path,
    of_another,
    unwritable_checkpoint,
    with_checksum,
    written_path,
)
from jfstat.searching.session.identity import Identity, differences
from jfstat.searching.session.lock import held
from jfstat.searching.session.progress import progress_bar
from jfstat.searching.statistic import Statistic
from jfstat.searching.statistics import statistic_for
from jfstat.signal.templates import Doppler
from jfstat.signal.values import columns as parameter_values

if TYPE_CHECKING:
    from astropy.table import QTable

OF_CANDIDATES = ("top", "threshold", "bsgl_threshold", "cluster", "bounds")
"""Keys of the meta of a search that concern its candidates, which a background has not."""


@host("jax.vmap jfstat.twoF_band there", progress=kinds.flag)
def background(
    data: FstatData | NormalisedSFTs,
    bank: Doppler | QTable,
    statistic: Statistic | None = None,
    positions: int | None = None,
    checkpoint: str | os.PathLike | None = None,
    progress: bool = True,
    *,
    lines: QTable | None = None,
    run: Run | None = None,
) -> QTable:
    """Search the same data with the same bank at other sky positions, and return the loudest values there.

    Where the noise is not Gaussian, because of instrumental lines or a drifting floor, the probability of loud values
    is not what formulas say. It is measured at positions where the signal cannot be ("off-sourcing": Isi et al. 2020,
    Phys. Rev. D 102, 123027). `empirical_false_alarm` and `empirical_thresholds` take the table that this returns.

    All templates are turned together about the detectors' mean velocity: Doppler shifts then stay on average, and a
    line stays in its sub-band. Of data of more than half a year, or where this circle has no room for so many
    positions (or for 30), they are turned about the pole of the ecliptic, so that the range of Doppler shifts over a
    year stays, or else about the Earth's axis. The angles are as small as they may be, so that lines look as they do at
    the source. By the metric of the data at the lowest frequency, the least over the frequency and all that the bank
    varies but the position, each position differs from the bank's own by 25 or more, and from all others by 0.5: phases
    by 5 rad rms and by 0.7. The time is that of a search for each position.

    A loud signal is seen at other positions, too: in data of two days with up to a quarter of its rho^2, or nearly half
    with one detector and a wide range of spin-downs; in ten days with 2 %. If its 2F is some hundreds, subtract it from
    the data for the background alone: ``add_signal(data, point, amplitude)`` with the candidate's refined template and
    amplitude, and pi added to ``phi0``.

    Parameters
    ----------
    data : FstatData or NormalisedSFTs
        Data of the search.
    bank : Doppler or QTable
        Its bank. Its sky positions must leave room for others around one of these axes: the background of a search of
        the whole sky cannot be measured in this way.
    statistic : Statistic, optional
        Its statistic; by default as for `search`.
    positions : int, optional
        Number of positions, 10 to 10,000; by default 100, or as many as there is room for if these are fewer. A
        false-alarm probability of p in a sub-band whose maxima have no known distribution needs 1/p of them; in all
        others it is extrapolated.
    checkpoint : path, optional
        File that holds the positions that are done. If it exists, the work continues from there.
    progress : bool
        Whether to show the progress and the time left.
    lines : QTable, optional
        Known lines that were vetoed in the search, by ``Keep(lines=lines, veto_lines=True)``.
    run : Run, optional
        How each search is run; not a unit of it.

    Returns
    -------
    QTable
        A row for each position and sub-band. Columns: ``position``, a number from 0; ``rotation``, the angle by which
        the bank was turned, rad; ``fmin`` and ``fmax``, the ends of the sub-band, Hz; and the loudest value in it,
        named as the statistic's column, such as ``twoF``. Meta: that of the search, with ``positions``, their number,
        and ``axis``, "velocity", "ecliptic" or "Earth"; and ``bank``, the ranges of the bank's parameters.

    Raises
    ------
    OSError
        If the checkpoint cannot be read or written.
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If an argument is out of range, there is no room for so many positions, `search` would refuse the arguments, or
        the checkpoint is of another background.

    Examples
    --------
    >>> bank = jfstat.Doppler(alpha=2.0, delta=0.47, fkdot=[100.0, -1e-10])
    >>> measured = jfstat.background(data, bank, positions=10, progress=False)
    >>> measured.colnames
    ['position', 'rotation', 'fmin', 'fmax', 'twoF']
    """
    if run is not None and isinstance(run, Run) and run.unit is not None:
        raise ValueError("run has a unit, which is a part of a search: leave it out, since a background needs all.")
    if run is not None and isinstance(run, Run) and spans_processes(run.mesh):
        raise ValueError("run has a mesh of several processes: give one of this process alone.")
    stack = stacked_bank(bank)
    keep = Keep() if lines is None else Keep(lines=lines, veto_lines=True)

    def plan(turned: Doppler) -> SearchPlan:
        how: Any = dict(keep=keep, details=Details(False, False), run=run)
        return plan_search(data, turned, statistic, progress=False, **how)

    first = plan(stack)  # checks all arguments
    with _Finished.at(checkpoint, first, positions) as done:
        turn = done.turn = done.turn or turn_of(data, stack, positions)
        angles = turn.angles
        with progress_bar(len(angles), progress, "background", "positions", len(done.loudest)) as advance:
            for angle in angles[len(done.loudest) :]:
                done.add(*plan(turn.turned(stack, float(angle))).loudest())
                advance(1)
        loudest, meta = done.loudest, done.meta
    n = [len(each["start"]) for each in loudest]
    columns = {
        "position": np.repeat(np.arange(len(angles)), n),
        "rotation": np.repeat(angles, n),
        "fmin": np.concatenate([each["start"] for each in loudest]),
        "fmax": np.concatenate([each["stop"] for each in loudest]),
        type(first.statistic).loudness(meta): first.statistic.as_column(np.concatenate([x["twoF"] for x in loudest])),
    }
    ranges = {name: [float(x.min()), float(x.max())] for name, x in parameter_values(stack).items() if name != "freq"}
    own = {"positions": len(angles), "axis": turn.axis, "bank": ranges}
    left_out = "loudest_per_subband", "twoF_edges", "twoF_histogram", *OF_CANDIDATES
    return in_units(columns, {key: x for key, x in meta.items() if key not in left_out} | own)


@host
def background_positions(
    data: FstatData | NormalisedSFTs, bank: Doppler | QTable, positions: int | None = None
) -> QTable:
    """Return the positions at which `background` would measure the background of a search, without measuring it.

    Parameters
    ----------
    data, bank, positions
        As for `background`.

    Returns
    -------
    QTable
        A row for each: ``position``, ``rotation`` (rad), and ``alpha`` and ``delta`` of the template in the middle of
        the bank, turned (rad). Meta: ``positions`` and ``axis``.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If an argument is out of range, or there is no room for so many positions.

    Examples
    --------
    >>> bank = jfstat.Doppler(alpha=2.0, delta=0.47, fkdot=[100.0, -1e-10])
    >>> places = jfstat.background_positions(data, bank, 10)
    >>> len(places), places.meta["positions"]
    (10, 10)
    """
    statistic_for(data)
    stack = stacked_bank(bank)
    turn = turn_of(data, stack, positions)
    middle = jax.tree.map(lambda x: x[len(stack.alpha) // 2 :][:1], stack)
    there = [turn.turned(middle, float(angle)) for angle in turn.angles]
    columns = {
        "position": np.arange(len(there)),
        "rotation": turn.angles,
        "alpha": np.array([float(x.alpha[0]) for x in there]),
        "delta": np.array([float(x.delta[0]) for x in there]),
    }
    return in_units(columns, {"positions": len(there), "axis": turn.axis})


class _Finished:
    """Loudest values of positions that are done, in a checkpoint if there is one.

    Attributes
    ----------
    loudest : list of dict
    meta : dict
        Meta of the search at the first position.
    turn : Turn or None
        The positions; None if none is done.
    """

    def __init__(self, path: Path | None, own: Identity) -> None:
        self._path, self._own = path, own
        self.loudest: list[dict[str, list[float]]] = []
        self.meta: Meta = {}
        self.turn: Turn | None = None

    @classmethod
    @contextmanager
    def at(cls, checkpoint: str | os.PathLike | None, plan: SearchPlan, positions: int | None) -> Iterator[_Finished]:
        """Read what a checkpoint holds, if there is one, and keep others from using it within the ``with`` block.

        The positions are those in the file: other processors would find others, by rounding.

        Raises
        ------
        OSError
            If the file cannot be read, or nothing can be written there.
        ValueError
            If it is no checkpoint of a background, of another one, or in use.
        """
        if checkpoint is None:
            yield cls(None, {})
            return
        path = checkpoint_path(checkpoint)
        done = cls(path, plan.identity() | {"number of positions": positions})
        with held(written_path(path)):
            content = checkpoint_bytes(path)
            if content is not None:
                done._read(path, content)
            yield done

    def _read(self, path: Path, content: bytes) -> None:
        """Take what the content of a checkpoint says."""
        try:
            stored = json.loads(checked(content))
            theirs, loudest, meta = (stored[key] for key in ("background", "loudest", "meta"))
            turn = Turn(stored["axis"], np.array(stored["pole"]), np.array(stored["angles"]))
        except (ValueError, KeyError, TypeError):
            raise ValueError(
                f"checkpoint {str(path)!r} is no checkpoint of a background, or damaged: name another file."
            ) from None
        if differing := differences(theirs, self._own):
            raise of_another(path, "background", differing)
        self.loudest, self.meta, self.turn = loudest, meta, turn

    def add(self, loudest: dict[str, list[float]], meta: Meta) -> None:
        """Add a position.

        Raises
        ------
        OSError
            If the file cannot be written; it keeps what it held.
        """
        self.loudest.append(loudest)
        self.meta = self.meta or meta
        if self._path is None or self.turn is None:
            return
        own = {"axis": self.turn.axis, "pole": self.turn.pole.tolist(), "angles": self.turn.angles.tolist()}
        content = json.dumps({"background": self._own, "meta": self.meta, "loudest": self.loudest, **own})
        try:
            with replacing(self._path) as file:
                file.write(with_checksum(content.encode()))
        except OSError as error:
            raise unwritable_checkpoint(self._path, error) from error
