"""Flag candidates that a known line may explain: `flag_lines`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from jfstat import kinds
from jfstat.candidates.provenance import reftime_of
from jfstat.candidates.tables import AnyTable, Meta, parameter_columns, points_from
from jfstat.data.checks import observation_of
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrowdata import NarrowData
from jfstat.data.observation import Observation
from jfstat.lines.doppler import checked_lines, detector_range, hertz, line_bands, lines_near
from jfstat.public import host
from jfstat.signal.templates import Doppler

if TYPE_CHECKING:
    from astropy.table import QTable


@host(found=kinds.table)
def flag_lines(data: Observation | FstatData | NarrowData, found: AnyTable, lines: QTable) -> QTable:
    """Add a column to a table of candidates that names the known lines crossed by each candidate.

    A candidate crosses a line if, at any time between the first and the last SFT of the line's detector, its
    instantaneous frequency in the frame of that detector is within the line's band, or if it moves from one side of it
    to the other during a gap. The frequency follows from the candidate's spin-down, orbit and sky position: the
    detector's motion with the Earth around the Sun and about its axis.

    Parameters
    ----------
    data : Observation, FstatData or NarrowData
        Data whose times and detectors count; segments are taken as one span with gaps.
    found : QTable or Table
        Candidates, as for `refine`.
    lines : QTable
        Lines from `read_lines`.

    Returns
    -------
    QTable
        A copy with the column ``line``: detector, frequency and name of each line that is crossed, such as
        ``"L1 60 Hz (mains)"``, joined by ``"; "``, and empty if there is none. A line that is a single frequency counts
        as a band of no width.

    Raises
    ------
    TypeError, ValueError
        If a table is of the wrong kind or lacks a column.
    """
    observation = observation_of(data, segments=True)
    table: Any = found.copy() if hasattr(found, "copy") else found  # type: ignore[attr-defined]
    own = checked_lines(lines)
    if len(found) == 0:
        table["line"] = np.empty(0, dtype="U1")
        return table
    columns = parameter_columns(found, "found", ("freq", "alpha", "delta"))
    points = points_from(columns, reftime_of(found))
    table["line"] = crossed_lines(observation, points, own)
    return table


def crossed_lines(observation: Observation, points: Doppler, lines: QTable) -> np.ndarray:
    """Return the column ``line`` for a stack of templates with NumPy leaves, (k,) str."""
    k = len(points.alpha)
    if k == 0:
        return np.empty(0, dtype="U1")
    frequencies = points.fkdot[:, 0]
    near = lines_near(lines, observation, points, float(np.min(frequencies)), float(np.max(frequencies)))
    if len(near) == 0:
        return np.full(k, "", dtype="U1")
    nodes = line_bands(near, observation, points).nodes
    low, high = zip(*(_ranges(own, points, nodes) for own in observation.segments), strict=True)
    low, high = np.min(low, axis=0), np.max(high, axis=0)
    place = np.array([observation.detectors.index(name) for name in near["detector"]])
    crossed = (low[:, place] <= hertz(near["fmax"])) & (high[:, place] >= hertz(near["fmin"]))
    names = [line_name(row) for row in near]
    return np.array(["; ".join(names[i] for i in np.flatnonzero(row)) for row in crossed], dtype=str)


def lines_meta(lines: QTable) -> list[list[Any]]:
    """Return lines as plain values for a table's meta: detector, fmin, fmax (Hz) and name of each."""
    detectors, names = (np.asarray(lines[name]).tolist() for name in ("detector", "name"))
    low, high = (hertz(lines[name]).tolist() for name in ("fmin", "fmax"))
    return [list(row) for row in zip(detectors, low, high, names, strict=True)]


def lines_from_meta(meta: Meta) -> QTable | None:
    """Return the lines that a table of candidates names in its meta; None if there are none."""
    from astropy.table import QTable
    from astropy.units import Quantity

    if meta.get("lines") is None:
        return None
    rows = meta["lines"]
    low, high = (Quantity(np.array([row[i] for row in rows], np.float64), "Hz") for i in (1, 2))
    names = {"detector": np.array([row[0] for row in rows], dtype="U2"), "fmin": low, "fmax": high}
    return QTable(names | {"name": np.array([row[3] for row in rows], dtype=str)})


def line_name(row: Any) -> str:
    """Return detector, frequency and name of a line as the text of a table."""
    low, high = (float(getattr(row[x], "value", row[x])) for x in ("fmin", "fmax"))
    middle = float(getattr(row["freq"], "value", row["freq"])) if "freq" in row.colnames else 0.5 * (low + high)
    name = " ".join(str(row["name"]).replace(";", ",").split())
    return f"{row['detector']} {middle:.10g} Hz" + (f" ({name})" if name else "")


@jax.jit
def _ranges(observation: Observation, points: Doppler, nodes: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the lowest and highest frequencies of a stack of templates in the detectors' frames, Hz, (k, D) each."""
    return jax.lax.map(lambda point: detector_range(observation, point, nodes), jax.tree.map(jnp.asarray, points))
