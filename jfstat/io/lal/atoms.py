"""Read and write files of atoms in the format of ComputeFstatistic_v2's ``--outputFstatAtoms``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from jfstat import kinds
from jfstat.atomic import written_to
from jfstat.data.slices import MOST_SLICES
from jfstat.files import text_of_named
from jfstat.public import host
from jfstat.signal.templates import Doppler
from jfstat.signal.times import gps_time
from jfstat.statistic.atoms import Atoms, check_atoms
from jfstat.validation import DurationLike, detector_names, positive_seconds

HEADER = "%% tGPS    a2       b2        ab        Fa_re     Fa_im     Fb_re     Fb_im"
"""Header of a file of atoms (LALSuite: write_MultiFstatAtoms_to_fp)."""
N_COLUMNS = 8
DETECTORS, DURATION = "%% detectors:", "%% duration:"
"""Comments found in files of jfstat only."""


@host(path=kinds.path)
def write_atoms(atoms: Atoms, path: str | os.PathLike) -> Path:
    """Write atoms as ComputeFstatistic_v2 does with ``--outputFstatAtoms``.

    The file has a line for each slice in which a detector has data, one detector after the other: GPS time of the
    slice's start, s, antenna matrix A, B, C, and real and imaginary parts of Fa and Fb. Numbers have 15 digits, where
    LALSuite writes six decimals. Comments name the detectors and the duration of slices, which LALSuite's files lack.

    Parameters
    ----------
    atoms : Atoms
    path : str or path

    Returns
    -------
    Path
        The file. It is written under a temporary name first, so that it is never incomplete.

    Raises
    ------
    OSError
        If the file cannot be written.
    TypeError
        If `atoms` are no Atoms.
    """
    check_atoms(atoms)
    lengths = np.asarray(atoms.end - atoms.start)
    lines = [f"{DETECTORS} {' '.join(atoms.detectors)}", f"{DURATION} {np.max(lengths, initial=0.0):.15g}", HEADER]
    gps = np.asarray(atoms.gps)
    for d in range(len(atoms.detectors)):
        own = [np.asarray(x[d]) for x in (atoms.A, atoms.B, atoms.C, atoms.Fa, atoms.Fb)]
        for k in np.flatnonzero((own[0] + own[1] > 0) | (own[3] != 0) | (own[4] != 0)):
            a2, b2, ab, fa, fb = (x[k] for x in own)
            values = (a2, b2, ab, fa.real, fa.imag, fb.real, fb.imag)
            lines.append(" ".join([f"{gps[k]:10.15g}", *(f"{x: .15g}" for x in values)]))
    return written_to(Path(path), "\n".join([*lines, ""]).encode())


@host(path=kinds.path, detectors=kinds.detectors)
def read_atoms(
    path: str | os.PathLike, *, detectors: Sequence[str] | str | None = None, duration: DurationLike | None = None
) -> Atoms:
    """Read atoms from a file that `write_atoms` or ComputeFstatistic_v2's ``--outputFstatAtoms`` wrote.

    Slices form a regular grid that starts at the first time; atoms that begin in the same slice are added, as in
    LALSuite's XLALmergeMultiFstatAtomsBinned.

    Parameters
    ----------
    path : str or path
    detectors : str or sequence of str, optional
        Names of the detectors in the order of the file, which in LALSuite is alphabetical. By default the names in the
        file, or ``X1``, ``X2``, ... for files of LALSuite, where each step back in time begins another detector.
    duration : float or Quantity, optional
        Duration of a slice, s. By default the file's, or else the shortest time between two atoms.

    Returns
    -------
    Atoms

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If the file holds no atoms, or `detectors` differ in number from the file's.
    """
    text = text_of_named(path, "is no file of atoms, not even text: name another file.")
    words = [line.split() for line in text.splitlines() if line.strip() and line.lstrip()[0] not in "%#"]
    if not words or any(len(row) != N_COLUMNS for row in words):
        raise ValueError(f"path {str(path)!r} is no file of atoms: it must have lines of {N_COLUMNS} numbers.")
    try:
        table = np.array(words, np.float64)
    except ValueError:
        raise ValueError(f"path {str(path)!r} is no file of atoms: its columns must be numbers.") from None
    if not np.isfinite(table).all():
        raise ValueError(f"path {str(path)!r} has atoms that are not finite: leave them out.")
    begins = np.flatnonzero(np.diff(table[:, 0], prepend=np.inf) <= 0)
    said = _said(text, DETECTORS)
    names = tuple(said) if detectors is None and said else None
    if detectors is not None:
        names = detector_names(detectors)
    if names is None:
        names = tuple(f"X{i + 1}" for i in range(len(begins)))
    if len(names) != len(begins):
        raise ValueError(f"detectors must be {len(begins)} names, as many as {str(path)!r} has, not {len(names)}.")
    if duration is None:
        steps = np.diff(np.unique(table[:, 0]))
        own = " ".join(_said(text, DURATION)[:1])
        try:
            length = float(own) if own else float(np.min(steps, initial=np.inf))
        except ValueError:
            length = np.nan
        if own and not 0 < length < np.inf:
            raise ValueError(f"path {str(path)!r} has slices of {own[:40]!r} s: give duration.")
        if not np.isfinite(length):
            raise ValueError(f"path {str(path)!r} has atoms of one time only: give duration.")
    else:
        length = positive_seconds(duration, "duration")
    epoch = int(np.floor(table[:, 0].min()))
    time = table[:, 0] - epoch
    first = time.min()
    if not (time.max() - first) / length < MOST_SLICES:
        raise ValueError(f"duration of {length:g} s makes more than {MOST_SLICES} slices of {str(path)!r}.")
    place = np.floor((time - first) / length + 1e-6).astype(int)
    sums = np.zeros((len(names), int(place.max()) + 1, N_COLUMNS - 1))
    which = np.searchsorted(begins, np.arange(len(table)), side="right") - 1
    np.add.at(sums, (which, place), table[:, 1:])
    a2, b2, ab, fa_re, fa_im, fb_re, fb_im = np.moveaxis(sums, -1, 0)
    start = first + length * np.arange(sums.shape[1])
    return Atoms(
        *(jnp.asarray(x) for x in (fa_re + 1j * fa_im, fb_re + 1j * fb_im, a2, b2, ab, start, start + length)),
        epoch=jnp.asarray(epoch, jnp.int64),
        detectors=names,
    )


def _said(text: str, comment: str) -> list[str]:
    """Return the words after a comment of a file; none if there is no such comment."""
    line = next((line for line in text.splitlines() if line.startswith(comment)), "")
    return line.removeprefix(comment).split()


def doppler_string(point: Doppler) -> str:
    """Return reference time, position and spins for the name of a file (LALSuite: XLALPulsarDopplerParams2String).

    An orbit, which LALSuite leaves out, is appended.
    """
    reftime = 0 if point.reftime is None else gps_time(point.reftime, "reftime").plain
    text = f"tRef{int(reftime):09d}_RA{float(point.alpha):.9g}"
    text += f"_DEC{float(point.delta):.9g}_Freq{float(point.fkdot[0]):.15g}"
    text += "".join(f"_f{k}dot{float(f):.7g}" for k, f in enumerate(point.fkdot) if k and f)
    if point.orbit is not None:
        names = ("asini", "period", "tp", "ecc", "argp")
        text += "".join(f"_{name}{float(getattr(point.orbit, name)):.12g}" for name in names)
    return text
