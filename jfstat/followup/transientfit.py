"""Start time and time scale of a transient signal, with errors, at a refined candidate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.candidates.tables import parameter_columns, point_in, points_from
from jfstat.candidates.transienttable import window_problem, windows_in
from jfstat.data.fstatdata import FstatData
from jfstat.data.slices import Pieces, Slices, regular_slices
from jfstat.maths.arrays import on_device
from jfstat.parameters import WINDOW_COLUMNS
from jfstat.searching.session.progress import progress_bar
from jfstat.statistic.atoms import atoms_of
from jfstat.statistic.transients import Grid, compiled_map
from jfstat.statistic.windowed import EmptyWindow, windowed
from jfstat.templates import Doppler
from jfstat.transientwindow import Shape, TransientWindow, end_of

if TYPE_CHECKING:
    from astropy.table import QTable

ROUNDS = 3
"""How often Doppler parameters and windows are fitted in turns: a search with wrong parameters finds a short window."""
SLICES = 4096
"""Atoms of the whole data; windows that end within one are right to a part of its duration."""
NODES = 49
"""Start times and time scales of a map; an odd number, so that the middle of a map is one of its windows."""
ZOOMS = 3
"""Maps, each of what the one before leaves. One more is between the windows around the best of these."""
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
) -> tuple[jax.Array, jax.Array]:
    """t0 and tau of the largest 2F, and how far from these they may be, one sigma: (2,) float64 each.

    The second is the root-mean-square distance by the posterior exp(F). The prior is flat for windows that begin within
    the data and, if rectangular, end within them: further ones cannot be told from these.

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

    def windows(middle: jax.Array, width: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        t0, tau = middle[0] + width[0] * nodes, middle[1] + width[1] * nodes
        positive = tau > step
        found = compiled_map(own, t0, jnp.where(positive, tau, step), shape, end, Grid(None, True))
        inside = positive & ((t0 >= first) & (t0 <= last))[:, None]
        if shape == "rectangular":
            inside &= t0[:, None] + tau <= last
        return t0, tau, jnp.where(inside, 0.5 * found.twoF, -jnp.inf)

    def highest(t0: jax.Array, tau: jax.Array, log: jax.Array) -> jax.Array:
        place = jnp.argmax(log)
        return jnp.stack([t0[place // NODES], tau[place % NODES]])

    def zoom(
        before: tuple[jax.Array, jax.Array], _: None
    ) -> tuple[tuple[jax.Array, jax.Array], tuple[jax.Array, jax.Array, jax.Array]]:
        middle, width = before
        t0, tau, log = windows(middle, width)
        top, steps = jnp.max(log), 2 * width / (NODES - 1)
        weight = jnp.exp(log - top)
        weight = weight / jnp.sum(weight)
        each = jnp.sum(weight, axis=1), jnp.sum(weight, axis=0)
        mean = jnp.stack([p @ x for p, x in zip(each, (t0, tau), strict=True)])
        spread = jnp.stack([p @ (x - m) ** 2 for p, x, m in zip(each, (t0, tau), mean, strict=True)])
        # what a map and slices cannot resolve
        spread = spread + steps**2 / 12 + step**2 / 12
        return (mean, jnp.minimum(WIDE * jnp.sqrt(spread), 2 * width)), (highest(t0, tau, log), steps, top)

    (mean, width), (best, steps, top) = jax.lax.scan(zoom, (start, jnp.stack([start[1], start[1]])), None, ZOOMS)
    loudest = jnp.argmax(top)
    peak = highest(*windows(best[loudest], steps[loudest]))
    return peak, jnp.hypot(width / WIDE, mean - peak)


def refined_with_windows(
    data: FstatData,
    found: Any,
    window: tuple[Shape, float],
    refined: Callable[[FstatData, Any, Any, str], QTable],
    progress: bool,
) -> QTable:
    """The table of `refine` for transient signals: each candidate in data times its own window.

    Doppler parameters are climbed to the highest 2F of the data times the window, and then the window is fitted to the
    atoms there, in turns. The last climb is within the last window, which is that of the row: all columns belong to it,
    apart from ``start_twoF``, which is 2F of the candidate as it was given, within its own window.

    Parameters
    ----------
    data : FstatData
    found : table
        With columns ``t0`` and ``tau``.
    window : (Shape, float)
        From `window_of_table`.
    refined : callable
        Refines a table of one row, the second argument, in given data. The third is the row of `found`, with which the
        result is compared, and the fourth says why it cannot be refined, if it cannot.
    progress : bool
        Whether to show progress.
    """
    from astropy.table import vstack

    shape, end = window
    searched = getattr(found, "meta", {})
    # none in the meta of a refined table, whose n_twoF counts the windows
    n_windows = searched.get("transient", {}).get("n_windows", 1)
    counted = dict(searched)
    if "n_twoF" in searched:
        counted["n_twoF"] = searched["n_twoF"] * n_windows
    duration = max(2.0 * float(data.band.dt), float(data.tspan) / SLICES)
    tables: list[Any] = []
    windows = np.full((len(found), 4), np.nan)
    with progress_bar(len(found), progress, "refine", "candidates") as advance:
        for row, start in enumerate(windows_in(found)):
            given: Any = found[row : row + 1]
            given.meta = counted
            table: Any = given
            error, before = np.full(2, np.nan), []
            for fits in range(ROUNDS + 1):
                own, problem = _in_window(data, start, window)
                table = refined(own, table, given, problem)
                windows[row] = *start, *error
                before.append(table)
                if not np.isfinite(float(table["twoF"][0])):
                    windows[row, 2:] = np.nan
                    break
                if fits < ROUNDS:
                    start, error = _fitted(data, table, start, duration, window)
            table["start_twoF"] = before[0]["start_twoF"]
            for name in ("moved", "steps"):
                table[name] = np.sum([np.asarray(x[name]) for x in before], axis=0)
            tables.append(table)
            advance(1)
    if not tables:
        none: Any = found[:0]
        none.meta = counted
        tables = [refined(data, none, none, "")]
    joined: Any = vstack(tables, metadata_conflicts="silent") if len(tables) > 1 else tables[0]
    about = {key: x for key, x in searched.get("transient", {}).items() if key != "n_windows"}
    about |= {"window": shape if isinstance(shape, str) else "own", "end": end}
    joined.meta = dict(tables[0].meta) | {"transient": about}
    for name, column in zip((*WINDOW_COLUMNS, *(f"{name}_error" for name in WINDOW_COLUMNS)), windows.T, strict=True):
        joined[name] = column
        joined[name].unit = "s"
    return joined


def _in_window(data: FstatData, start: np.ndarray, window: tuple[Shape, float]) -> tuple[FstatData, str]:
    """Data times a candidate's window, or the data as they are and why the candidate cannot be refined."""
    problem, (shape, end) = window_problem(start), window
    if problem:
        return data, f"not refined: {problem}"
    try:
        return windowed(data, TransientWindow(shape, *start, end=end_of(shape, end))), ""
    except EmptyWindow:
        return data, "not refined: the window holds no data"


def _fitted(
    data: FstatData, table: Any, start: np.ndarray, duration: float, window: tuple[Shape, float]
) -> tuple[np.ndarray, np.ndarray]:
    """`fitted_window` at the template of a table's only row."""
    values = parameter_columns(table, "found", ("freq", "alpha", "delta"))
    point = point_in(points_from(values, table.meta["reftime"]), 0)
    own = data.for_one_template
    slices, pieces = jax.tree.map(on_device, regular_slices(own, point, duration))
    best, error = map(np.asarray, fitted_window(own, point, slices, pieces, jnp.asarray(start), *window))
    return best, error
