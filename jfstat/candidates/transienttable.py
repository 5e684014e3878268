"""Compute columns of a table from the maps of transient signals at its templates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.candidates.tables import AnyTable, by_orbits, plain_column
from jfstat.compileroptions import SAME_BITS, jit_with
from jfstat.data.direct import Pieces
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import device_of
from jfstat.data.slices import Slices, regular_slices
from jfstat.data.workers import in_order, workers_for
from jfstat.maths.arrays import on_device
from jfstat.signal.parameters import WINDOW_COLUMNS
from jfstat.signal.templates import Doppler
from jfstat.signal.transientwindow import Shape, shape_and_end
from jfstat.statistic.atoms import atoms_of
from jfstat.statistic.transients import TransientMap, TransientRange, Windows, compiled_map

ATOM_BYTES = 400
"""Largest memory that the atoms of a template take per sample of the data, bytes."""
MOST_BYTES = 1 << 30
"""Memory for the atoms of templates computed at a time, bytes, unless a single template needs more."""


def map_values(found: TransientMap, rho_max: float) -> jax.Array:
    """Return the values of `TRANSIENT_COLUMNS` of a map, (6,) float64."""
    best = found.best
    log10_bayes = found.log10_bayes_factor(rho_max)
    t0, tau = found.t0[jnp.argmax(found.posterior_t0)], found.tau[jnp.argmax(found.posterior_tau)]
    return jnp.stack([found.max_twoF, best.t0, best.tau, log10_bayes, t0, tau])


@jit_with(SAME_BITS, kept=True, static_argnames="rho_max")
def _values(
    data: FstatData, point: Doppler, slices: Slices, pieces: Pieces, windows: Windows, rho_max: float
) -> jax.Array:
    """Return 2F of all data and the values of the map at one template, (7,) float64, from its atoms."""
    own = atoms_of(data, point, slices, pieces)
    return jnp.append(own.twoF, map_values(compiled_map(own, windows), rho_max))


@jit_with(SAME_BITS, kept=True)
def _map(data: FstatData, point: Doppler, slices: Slices, pieces: Pieces, windows: Windows) -> jax.Array:
    """Return 2F of all windows at one template, (n, m) float64, from its atoms."""
    return compiled_map(atoms_of(data, point, slices, pieces), windows).twoF


def transient_values(data: FstatData, points: Doppler, transient: TransientRange) -> Iterator[tuple[int, np.ndarray]]:
    """Return 2F of all data and the values of `TRANSIENT_COLUMNS` for each template of a stack with NumPy leaves.

    Values do not depend, to the last bit, on the other templates in the stack. A CPU's cores share the templates.

    Raises
    ------
    ValueError
        If the atoms of the range are too short for the data.
    """
    return _of_each(partial(_values, rho_max=transient.rho_max), data, points, transient)


def transient_maps(data: FstatData, points: Doppler, transient: TransientRange) -> Iterator[tuple[int, np.ndarray]]:
    """Return 2F by start time and time scale, (n, m) float64, for each template of a stack, as `transient_values`."""
    return _of_each(_map, data, points, transient)


def _of_each(
    program: Callable[..., jax.Array], data: FstatData, points: Doppler, transient: TransientRange
) -> Iterator[tuple[int, np.ndarray]]:
    """Return what a program gives for each template, of the data, the template, its slices and pieces, and windows."""
    own = data.for_one_template
    for rows, mine in by_orbits(points):
        first = jax.tree.map(lambda x, rows=rows: x[rows[0]], mine)
        slices, pieces = jax.tree.map(on_device, regular_slices(own, first, transient.duration))
        windows = Windows(transient.t0, transient.tau, transient.shape, transient.end)
        windows = windows.on(slices.start, slices.end, data.observation.epoch)
        arguments = (slices, pieces, windows)

        def values(row: int, stack: Doppler = mine, rest: tuple[Any, ...] = arguments) -> np.ndarray:
            return np.asarray(program(own, jax.tree.map(lambda x: x[row], stack), *rest))

        workers = min(len(rows), workers_for(device_of(data)), max(1, MOST_BYTES // (ATOM_BYTES * data.series.size)))
        yield from zip(rows.tolist(), in_order(values, rows.tolist(), workers), strict=True)


def transient_meta(transient: TransientRange) -> dict[str, Any]:
    """Return the range of windows as plain values for a table's meta."""
    t0, tau = np.asarray(transient.t0), np.asarray(transient.tau)
    return {
        "window": transient.shape if isinstance(transient.shape, str) else "own",
        "end": transient.end,
        "t0": [float(t0.min()), float(t0.max())],
        "tau": [float(tau.min()), float(tau.max())],
        "n_windows": int(t0.size * tau.size),
        "duration": transient.duration,
        "rho_max": transient.rho_max,
    }


def windows_in(found: AnyTable) -> np.ndarray:
    """Return t0, GPS s, and tau, s, of each row, (n, 2) float64; see `window_problem`.

    Raises
    ------
    ValueError
        If a column is missing, or has another unit or too few digits.
    """
    return np.stack([plain_column(found, name) for name in WINDOW_COLUMNS], axis=-1)


def window_problem(window: np.ndarray) -> str:
    """Return why no window can have a row's t0 and tau, (2,); empty if one can."""
    for name, x in zip(WINDOW_COLUMNS, window, strict=True):
        if not np.isfinite(x):
            return f"{name} is not a number"
    return "" if window[1] > 0 else "tau must be positive"


def window_of_table(data: FstatData, found: object, shape: Shape | None) -> tuple[Shape, float] | None:
    """Return shape and end of the windows that go with a table of candidates; None for persistent signals.

    Parameters
    ----------
    data : FstatData
    found : table or Doppler
    shape : str, callable or None
        Shape as the user gave it; None takes the table's.

    Raises
    ------
    TypeError
        If `shape` is neither a name nor a function.
    ValueError
        If the shape is unknown, the table lacks the columns ``t0`` and ``tau``, or the data have segments.
    """
    meta = getattr(found, "meta", {}).get("transient")
    if shape is None:
        if meta is None:
            return None
        if meta["window"] == "own":
            raise ValueError("transient is missing: found is of windows of your own, so give their function.")
        shape = meta["window"]
    window = shape_and_end(shape, None if isinstance(shape, str) or meta is None else meta["end"], "transient")
    missing = [name for name in WINDOW_COLUMNS if name not in getattr(found, "colnames", ())]
    if missing:
        raise ValueError(f"found lacks the column {missing[0]!r}: transient is for tables of search(transient=).")
    if data.n_segments is not None:
        raise ValueError("transient is for data without segments: prepare without segments=.")
    return window
