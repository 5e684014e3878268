"""Write all that is known of the loudest candidate, in the format of ComputeFstatistic_v2's ``--outputLoudest``."""

from __future__ import annotations

import os
from pathlib import Path

import jax
import numpy as np

from jfstat import kinds
from jfstat.atomic import written_to
from jfstat.candidates.linerobust import log10_bsgl
from jfstat.candidates.provenance import reftime_of
from jfstat.candidates.tables import AnyTable, parameter_columns, points_from
from jfstat.data.checks import check_data
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrowdata import NarrowData
from jfstat.io.lal.candidates import comment_lines
from jfstat.public import host
from jfstat.signal.parameters import spin_name
from jfstat.signal.templates import Doppler
from jfstat.signal.times import gps_time
from jfstat.statistic.fstat import AmplitudeEstimate, estimate_amplitude, fstat, noise_level
from jfstat.statistic.linerobust import LinePrior

ORBIT_LINES = (
    ("orbitPeriod", "period"),
    ("orbitasini", "asini"),
    ("orbitTp", "tp"),
    ("orbitArgp", "argp"),
    ("orbitEcc", "ecc"),
)
"""Names in the file and the corresponding fields of an Orbit, in ComputeFstatistic_v2's order."""


@host(found=kinds.table, path=kinds.path)
def write_loudest(data: FstatData | NarrowData, found: AnyTable, path: str | os.PathLike) -> Path:
    """Write the first candidate of a table in the format of ComputeFstatistic_v2's ``--outputLoudest``.

    The file has lines ``name = value;``, complex numbers as ``1.2 -3.4i``, and comments that start with ``%%``. All
    values belong to the candidate's template:

    - ``refTime`` (GPS s), ``Alpha``, ``Delta`` (rad), ``Freq`` (Hz), ``f1dot`` (Hz/s), ...; ``orbitPeriod`` (s),
      ``orbitasini`` (light-s), ``orbitTp`` (GPS s), ``orbitArgp`` (rad), ``orbitEcc`` for a binary;
    - ``aPlus``, ``aCross``, ``phi0``, ``psi``, ``h0``, ``cosi`` from `estimate_amplitude` and their errors ``daPlus``,
      ..., one sigma;
    - ``Ad``, ``Bd``, ``Cd``, ``Ed`` = 0, ``Sinv_Tsft``: antenna matrix and noise, s Hz/strain^2;
    - ``Fa``, ``Fb`` at mid-time, ``twoF``, and ``twoF0``, ``twoF1``, ... of each detector with ``log10BSGL`` if there
      are several;
    - ``AmpFisher``, the Fisher matrix of (aPlus/n, aCross/n, phi0, psi) with n = sqrt(2/Sinv_Tsft): the inverse of
      their covariance. ComputeFstatistic_v2's (``XLALEstimatePulsarAmplitudeParams``) differs, and so do its errors: it
      takes the inverse antenna matrix without its lower half, so that its Fisher matrix is not symmetric, and without
      the factor 1/2 of the covariance in these units.

    Parameters
    ----------
    data : FstatData or NarrowData
        The data that were searched.
    found : QTable or Table
        Table from `search` or `refine`, the loudest first. An empty table gives a file with comments only.
    path : str or path

    Returns
    -------
    Path
        The file. It is written under a temporary name first, so that it is never incomplete.

    Raises
    ------
    OSError
        If the file cannot be written.
    TypeError, ValueError
        If `data` are of the wrong kind, or the table lacks a column or does not fit the data.
    """
    check_data(data, or_narrow=True)
    return written_to(Path(path), loudest_text(data, found).encode())


def loudest_text(data: FstatData | NarrowData, found: AnyTable) -> str:
    """Return the content of the file that `write_loudest` writes."""
    comments = comment_lines(found.meta)
    if len(found) == 0:
        return "\n".join([*comments, "%% no candidate", ""])
    columns = parameter_columns(found, "found", ("freq", "alpha", "delta"))
    stack = points_from(columns, reftime_of(found))
    point = jax.tree.map(lambda x: x[0] if np.ndim(x) else x, stack)
    blocks = [_amplitude_lines(data, point), _doppler_lines(data, point), _fstat_lines(data, found, point)]
    reftime = data.observation.reftime if point.reftime is None else point.reftime
    lines = [*comments, "", f"refTime  = {gps_time(reftime, 'reftime').plain};"]
    for block in blocks:
        lines += ["", *block]
    return "\n".join([*lines, ""])


def _line(name: str, value: float | jax.Array, digits: int = 9) -> str:
    return f"{name:8s} = {float(value): .{digits}g};"


def _amplitude_lines(data: FstatData | NarrowData, point: Doppler) -> list[str]:
    estimate = estimate_amplitude(data, point)
    own, errors, h0, cosi = (
        estimate.amplitude,
        estimate.errors,
        float(estimate.amplitude.h0),
        float(estimate.amplitude.cosi),
    )
    polarisations = np.sqrt(np.diagonal(_polarisation_covariance(estimate))[:2])
    lines = [_line("aPlus", 0.5 * h0 * (1 + cosi**2)), _line("daPlus", polarisations[0])]
    lines += [_line("aCross", h0 * cosi), _line("daCross", polarisations[1])]
    for name in ("phi0", "psi", "h0", "cosi"):
        lines += [_line(name, getattr(own, name)), _line(f"d{name}", getattr(errors, name))]
    return lines


def _doppler_lines(data: FstatData | NarrowData, point: Doppler) -> list[str]:
    spins = [float(x) for x in np.asarray(point.fkdot)]
    spins += [0.0] * (4 - len(spins))
    lines = [_line("Alpha", point.alpha, 16), _line("Delta", point.delta, 16), _line("Freq", spins[0], 16)]
    lines += [_line(spin_name(k), spins[k], 16) for k in range(1, len(spins))]
    if point.orbit is not None:
        lines += ["", *(_line(name, getattr(point.orbit, field), 16) for name, field in ORBIT_LINES)]
    return lines


def _fstat_lines(data: FstatData | NarrowData, found: AnyTable, point: Doppler) -> list[str]:
    result = fstat(data, point)
    # not LALSuite's where floors are estimated, but what amplitudes and Fa and Fb agree with
    sinv_tsft = float(jax.jit(noise_level)(data.observation, result.twoF - 4))
    lines = [_line("Ad", result.A), _line("Bd", result.B), _line("Cd", result.C), _line("Ed", 0.0)]
    lines += [_line("Sinv_Tsft", sinv_tsft), ""]
    for name, value in (("Fa", complex(result.Fa)), ("Fb", complex(result.Fb))):
        lines.append(f"{name:8s} = {value.real: .9g}  {value.imag:+.9g}i;")
    lines.append(_line("twoF", result.twoF))
    each = np.asarray(result.twoF_per_detector)
    if len(each) > 1:
        lines += [_line(f"twoF{i}", x) for i, x in enumerate(each)]
        prior = LinePrior(found.meta.get("Fstar0", 0.0), found.meta.get("oLGX"))
        bsgl = log10_bsgl(float(result.twoF), each, prior)
        lines.append(_line("log10BSGL", float(bsgl)))
    rows = [
        ", ".join(f"{x:.9g}" for x in row) + ";" for row in fisher_matrix(estimate_amplitude(data, point), sinv_tsft)
    ]
    return [*lines, "", "AmpFisher =  [ ", *rows, " ];"]


def fisher_matrix(estimate: AmplitudeEstimate, sinv_tsft: float) -> np.ndarray:
    """Return the Fisher matrix of aPlus/n, aCross/n, phi0 and psi, (4, 4), with n = sqrt(2/Sinv_Tsft)."""
    n = np.sqrt(2 / sinv_tsft)
    scale = np.array([n, n, 1.0, 1.0])
    inverse = np.linalg.inv(_polarisation_covariance(estimate) / np.outer(scale, scale))
    return 0.5 * (inverse + inverse.T)


def _polarisation_covariance(estimate: AmplitudeEstimate) -> np.ndarray:
    """Return the covariance of aPlus, aCross, phi0 and psi, (4, 4), given the covariance of h0, cosi, psi and phi0."""
    h0, cosi = float(estimate.amplitude.h0), float(estimate.amplitude.cosi)
    slopes = np.array(
        [[0.5 * (1 + cosi**2), h0 * cosi, 0.0, 0.0], [cosi, h0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0]]
    )
    return slopes @ np.asarray(estimate.covariance) @ slopes.T
