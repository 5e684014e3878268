"""Measure the background of a search: its loudest values at sky positions where the signal cannot be: `background`."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from jfstat import kinds
from jfstat.atomic import replacing
from jfstat.banks.comparison import Comparison, compared
from jfstat.candidates.details import Details
from jfstat.candidates.tables import Meta, in_units
from jfstat.data.fstatdata import FstatData
from jfstat.data.normalised import NormalisedSFTs
from jfstat.public import host
from jfstat.searching.bank import stacked_bank
from jfstat.searching.driver.mesh import spans_processes
from jfstat.searching.options import Keep, Run
from jfstat.searching.plan import SearchPlan, plan_search
from jfstat.searching.session.checkpoint import (
    checked,
    checkpoint_bytes,
    checkpoint_path,
    unwritable_checkpoint,
    with_checksum,
    written_path,
)
from jfstat.searching.session.identity import Identity, differences, digest
from jfstat.searching.session.lock import held
from jfstat.searching.session.progress import progress_bar
from jfstat.searching.statistic import Statistic
from jfstat.signal.templates import Doppler
from jfstat.signal.values import replaced, values, varied_parameters, with_fields
from jfstat.validation import is_whole, shown

if TYPE_CHECKING:
    from astropy.table import QTable

APART, NEIGHBOURS = 25.0, 1.0
"""Mismatch, by the metric, of a position from the bank's own: the phases differ by 5 rad rms, so that a signal shows some
per cents of its rho^2 at most; and of two positions from each other, so that noise differs."""
USUAL, FEWEST, MOST = 100, 10, 10_000
"""Default, smallest and largest number of positions."""
INDISTINCT = 1e-6
"""Ratio of lengths below which a combination of parameters changes nothing that the data could show."""
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
    """Search the same data with the same bank turned to other right ascensions, and return the loudest values there.

    Where the noise is not Gaussian, because of instrumental lines or a drifting floor, the probability of loud values is
    not what formulas say. It is measured at positions where the signal cannot be ("off-sourcing": Isi et al. 2020, Phys.
    Rev. D 102, 123027). `empirical_false_alarm` and `empirical_thresholds` take the table that this returns.

    All templates are turned about the Earth's axis by the same angle, so that declinations, and thus the detectors'
    antenna patterns over a day, stay. The angles are as small as they may be: lines, whose width in the search depends
    on the position, then look as they do at the source. By the metric of the data at the lowest frequency, maximised
    over the frequency and all that the bank varies, each position is 5 rad rms of phase from the bank's own, and at
    least 1 rad from the others; a signal shows some per cents of its rho^2 at most there. The time is that of a search
    for each position.

    Parameters
    ----------
    data : FstatData or NormalisedSFTs
        Data of the search.
    bank : Doppler or QTable
        Its bank. With a range of sky positions it must leave room for others around the Earth's axis: the background of
        a search of the whole sky cannot be measured in this way.
    statistic : Statistic, optional
        Its statistic; by default as for `search`.
    positions : int, optional
        Number of positions; by default 100, or as many as there is room for if these are fewer. A false-alarm
        probability of p in a sub-band whose maxima have no known distribution needs 1/p of them; in all others it is
        extrapolated.
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
        the bank was turned, rad; ``fmin`` and ``fmax``, the ends of the sub-band, Hz; and the loudest value in it, named
        as the statistic's column, such as ``twoF``. Meta: that of the search, with ``positions``.

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
    angles = rotations(data, stack, positions)
    with _Finished.at(checkpoint, first, angles) as done:
        with progress_bar(len(angles), progress, "background", "positions", len(done.loudest)) as advance:
            for angle in angles[len(done.loudest) :]:
                done.add(*plan(turned_by(stack, float(angle))).loudest())
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
    left_out = "loudest_per_subband", "twoF_edges", "twoF_histogram", *OF_CANDIDATES
    return in_units(columns, {key: x for key, x in meta.items() if key not in left_out} | {"positions": len(angles)})


def turned_by(bank: Doppler, angle: float) -> Doppler:
    """Return a bank turned about the Earth's axis by an angle, rad."""
    return with_fields(bank, alpha=np.mod(bank.alpha + angle, 2 * math.pi))


def rotations(data: FstatData | NormalisedSFTs, bank: Doppler, positions: int | None) -> np.ndarray:
    """Return the angles by which `background` turns a bank, rad, the smallest first: (n,).

    Raises
    ------
    ValueError
        If `positions` is no whole number from 10 to 10,000, or there is no room for so many.
    """
    if positions is not None and not (is_whole(positions) and FEWEST <= positions <= MOST):
        raise ValueError(f"positions must be a whole number from {FEWEST} to {MOST}, not {shown(positions)}, or None.")
    alpha = np.sort(np.mod(bank.alpha, 2 * math.pi))
    width = 2 * math.pi - float(np.max(np.diff(alpha, append=alpha[0] + 2 * math.pi)))
    loss = _loss(data, bank)
    nearest, least, usual = (width + _angle(mismatch, loss) for mismatch in (APART, NEIGHBOURS, APART))
    room = 2 * (math.pi - nearest)
    most = math.floor(room / least) + 1 if room > 0 else 0
    n = min(USUAL, most) if positions is None else positions
    if n > most or n < FEWEST:
        few = f"{most} positions" if most else "no position"
        raise ValueError(
            f"positions must be {FEWEST} or more, and for this bank and these data {few} can be told apart at its "
            "declinations: take longer data, a higher band, a smaller range of right ascension, or fewer positions."
        )
    step = min(usual, room / (n - 1))
    k = np.arange(n)
    return np.where(k % 2 == 0, 1.0, -1.0) * (nearest + step * (k // 2))


def _loss(data: FstatData | NormalisedSFTs, bank: Doppler) -> float:
    """Return the mismatch for each square of a small angle by which a bank is turned, rad^-2.

    It holds in the middle of the bank at the lowest frequency, and is the least over frequency and all other parameters
    that the bank varies.
    """
    names = (*(name for name in varied_parameters(bank) if name != "alpha"), "alpha")
    point: Doppler = jax.tree.map(lambda x: x[len(bank.alpha) // 2], bank)
    if point.reftime is None:
        point = with_fields(point, reftime=data.observation.reftime.common)
    slopes = np.asarray(_slopes(compared(data), point, data.fmin, names))
    others = slopes[:, :-1] / np.maximum(np.linalg.norm(slopes[:, :-1], axis=0), np.finfo(float).tiny)
    # without what other parameters take up, by directions that the data tell apart
    basis, size, _ = np.linalg.svd(others, full_matrices=False)
    basis = basis[:, size > INDISTINCT * size[0]]
    left = slopes[:, -1] - basis @ (basis.T @ slopes[:, -1])
    return float(left @ left)


@partial(jax.jit, static_argnames="names")
def _slopes(comparison: Comparison, point: Doppler, freq: jax.Array, names: tuple[str, ...]) -> jax.Array:
    """Return the square root of the metric at a template with a frequency, a column for each parameter."""
    point = replaced(point, ["freq"], jnp.reshape(freq, 1))
    at = values(point, names)
    return comparison.slopes(lambda step: replaced(point, names, at + step), jnp.zeros_like(at))


def _angle(mismatch: float, loss: float) -> float:
    """Return the angle of a turn with a mismatch, rad; at most a full turn, for data that no turn changes as much.

    The metric holds for chords: the positions of a detector and the Earth project on directions, not on angles.
    """
    half = 0.5 * math.sqrt(mismatch / loss) if loss > 0 else math.inf
    return 2 * math.asin(half) if half < 1 else 2 * math.pi


class _Finished:
    """Loudest values of positions that are done, in a checkpoint if there is one.

    Attributes
    ----------
    loudest : list of dict
    meta : dict
        Meta of the search at the first position.
    """

    def __init__(self, path: Path | None, own: Identity, loudest: list[dict[str, list[float]]], meta: Meta) -> None:
        self._path, self._own, self.loudest, self.meta = path, own, loudest, meta

    @classmethod
    @contextmanager
    def at(cls, checkpoint: str | os.PathLike | None, plan: SearchPlan, angles: np.ndarray) -> Iterator[_Finished]:
        """Read what a checkpoint holds, if there is one, and keep others from using it within the ``with`` block.

        Raises
        ------
        OSError
            If the file cannot be read, or nothing can be written there.
        ValueError
            If it is no checkpoint of a background, of another one, or in use.
        """
        if checkpoint is None:
            yield cls(None, {}, [], {})
            return
        path = checkpoint_path(checkpoint)
        own = plan.identity() | {"rotations": digest(angles)}
        with held(written_path(path)):
            content = checkpoint_bytes(path)
            if content is None:
                yield cls(path, own, [], {})
                return
            try:
                stored = json.loads(checked(content))
                theirs, loudest, meta = (stored[key] for key in ("background", "loudest", "meta"))
            except (ValueError, KeyError, TypeError):
                raise ValueError(
                    f"checkpoint {str(path)!r} is no checkpoint of a background, or damaged: name another file."
                ) from None
            if differing := differences(theirs, own):
                raise ValueError(
                    f"checkpoint {str(path)!r} is of another background: what differs is {differing}; name another "
                    "file."
                )
            yield cls(path, own, loudest, meta)

    def add(self, loudest: dict[str, list[float]], meta: Meta) -> None:
        """Add a position.

        Raises
        ------
        OSError
            If the file cannot be written; it keeps what it held.
        """
        self.loudest.append(loudest)
        self.meta = self.meta or meta
        if self._path is None:
            return
        content = json.dumps({"background": self._own, "meta": self.meta, "loudest": self.loudest})
        try:
            with replacing(self._path) as file:
                file.write(with_checksum(content.encode()))
        except OSError as error:
            raise unwritable_checkpoint(self._path, error) from error
