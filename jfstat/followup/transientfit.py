"""Start time and time scale of a transient signal, with errors, at a refined candidate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.candidates.tables import parameter_columns, points_from
from jfstat.data.fstatdata import FstatData
from jfstat.data.slices import Pieces, Slices, regular_slices
from jfstat.maths.arrays import on_device
from jfstat.parameters import with_fields
from jfstat.searching.session.progress import progress_bar
from jfstat.statistic.atoms import atoms_of
from jfstat.statistic.transients import Grid, compiled_map
from jfstat.statistic.windowed import windowed
from jfstat.templates import Doppler
from jfstat.transientwindow import Shape, TransientWindow

if TYPE_CHECKING:
    from astropy.table import QTable

ROUNDS = 3
"""How often Doppler parameters and windows are fitted in turns: a search with wrong parameters finds a short window."""
SLICES = 4096
"""Atoms of the whole data; windows that end within one are right to a part of its duration."""
NODES = 48
"""Start times and time scales of a map."""
ZOOMS = 3
"""Maps, each of what the one before leaves."""
WIDE = 6.0
"""Half-width of a map in standard deviations of the one before."""


@partial(jax.jit, static_argnames=("shape", "end"))
def fitted_window(
    data: FstatData,
    point: Doppler,
    slices: Slices,
    pieces: Pieces,
    start: jax.Array,
    shape: Shape,
    end: float,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """t0 and tau of the largest 2F, and their mean and standard deviation by the posterior exp(F): (2,) float64 each.

    The prior is flat for windows that begin within the data and, if rectangular, end within them: further ones cannot
    be told from these.

    Parameters
    ----------
    data, point, slices, pieces
        As for `atoms_of`.
    start : (2,) float64
        Approximate t0, GPS s, and tau, s, to about tau.
    shape, end
        Of the windows, see `TransientWindow`.
    """
    own = atoms_of(data, point, slices, pieces)
    first, last = own.gps[0], own.end[-1] + own.epoch.astype(jnp.float64)
    step = jnp.min(own.end - own.start)
    nodes = jnp.linspace(-1.0, 1.0, NODES)

    def zoom(before: tuple[jax.Array, jax.Array], _: None) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        middle, width = before
        t0, tau = middle[0] + width[0] * nodes, middle[1] + width[1] * nodes
        positive = tau > step
        found = compiled_map(own, t0, jnp.where(positive, tau, step), shape, end, Grid(None, True))
        inside = positive & ((t0 >= first) & (t0 <= last))[:, None]
        if shape == "rectangular":
            inside &= t0[:, None] + tau <= last
        log = jnp.where(inside, 0.5 * found.twoF, -jnp.inf)
        weight = jnp.exp(log - jnp.max(log))
        weight = weight / jnp.sum(weight)
        each = jnp.sum(weight, axis=1), jnp.sum(weight, axis=0)
        mean = jnp.stack([p @ x for p, x in zip(each, (t0, tau), strict=True)])
        spread = jnp.stack([p @ (x - m) ** 2 for p, x, m in zip(each, (t0, tau), mean, strict=True)])
        # what a map and slices cannot resolve
        spread = spread + (2 * width / (NODES - 1)) ** 2 / 12 + step**2 / 12
        place = jnp.argmax(weight)
        best = jnp.stack([t0[place // NODES], tau[place % NODES]])
        return (mean, jnp.minimum(WIDE * jnp.sqrt(spread), 2 * width)), best

    (mean, width), best = jax.lax.scan(zoom, (start, jnp.stack([start[1], start[1]])), None, ZOOMS)
    return best[-1], mean, width / WIDE


def refined_with_windows(
    data: FstatData,
    found: Any,
    window: tuple[Shape, float],
    refined: Callable[[FstatData, Any], QTable],
    progress: bool,
) -> QTable:
    """The table of `refine` for transient signals: each candidate in data times its own window.

    Doppler parameters are climbed to the highest 2F of the data times the window, and then the window is fitted to the
    atoms there, in turns.

    Parameters
    ----------
    data : FstatData
    found : table
        With columns ``t0`` and ``tau``.
    window : (Shape, float)
        From `window_of_table`.
    refined : callable
        Refines a table of one row in given data.
    progress : bool
        Whether to show progress.
    """
    from astropy.table import vstack

    shape, end = window
    searched = getattr(found, "meta", {})
    n_windows = searched.get("transient", {}).get("n_windows", 1)
    times = [np.asarray(getattr(found[name], "value", found[name]), np.float64) for name in ("t0", "tau")]
    duration = max(2.0 * float(data.band.dt), float(data.tspan) / SLICES)
    tables, fits = [], np.full((len(found), 4), np.nan)
    with progress_bar(len(found), progress, "refine", "candidates") as advance:
        for row, start in enumerate(np.stack(times, axis=-1)):
            table: Any = found[row : row + 1]
            if "n_twoF" in searched:
                table.meta = dict(searched) | {"n_twoF": searched["n_twoF"] * n_windows}
            for _ in range(ROUNDS):
                own = TransientWindow(shape, *start, end=None if isinstance(shape, str) else end)
                table = refined(windowed(data, own), table)
                if not np.isfinite(float(table["twoF"][0])):
                    break
                start, mean, error = _fitted(data, table, start, duration, window)
                fits[row] = *mean, *error
            tables.append(table)
            advance(1)
    joined: Any = vstack(tables, metadata_conflicts="silent") if len(tables) > 1 else tables[0]
    name = shape if isinstance(shape, str) else "own"
    joined.meta = dict(tables[0].meta) | {"transient": searched.get("transient", {}) | {"window": name, "end": end}}
    for name, column in zip(("t0", "tau", "t0_error", "tau_error"), fits.T, strict=True):
        joined[name] = column
        joined[name].unit = "s"
    return joined


def _fitted(
    data: FstatData, table: Any, start: np.ndarray, duration: float, window: tuple[Shape, float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`fitted_window` at the template of a table's only row."""
    values = parameter_columns(table, "found", ("freq", "alpha", "delta"))
    point = jax.tree.map(lambda x: x[0], points_from(values, table.meta["reftime"]))
    if point.orbit is not None and not point.orbit.asini:
        point = with_fields(point, orbit=None)
    own = data.for_one_template
    slices, pieces = jax.tree.map(on_device, regular_slices(own, point, duration))
    best, mean, error = map(np.asarray, fitted_window(own, point, slices, pieces, jnp.asarray(start), *window))
    return best, mean, error
