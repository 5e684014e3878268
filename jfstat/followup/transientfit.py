"""Fit start time and time scale of a transient signal, with errors, at a refined candidate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.candidates.tables import point_in
from jfstat.candidates.transienttable import window_problem, windows_in
from jfstat.data.direct import Pieces
from jfstat.data.fstatdata import FstatData
from jfstat.data.slices import Slices, regular_slices
from jfstat.followup.candidates import read_rows
from jfstat.followup.windowmap import WindowMap, phase_slopes, window_map
from jfstat.maths.arrays import on_device
from jfstat.searching.session.progress import progress_bar
from jfstat.signal.parameters import WINDOW_COLUMNS
from jfstat.signal.phasemodel import PhaseModel
from jfstat.signal.templates import Doppler
from jfstat.signal.transientwindow import Shape, TransientWindow, end_of
from jfstat.statistic.atoms import atoms_of
from jfstat.statistic.windowed import EmptyWindow, windowed

if TYPE_CHECKING:
    from astropy.table import QTable

TURNS = 6
"""Largest number of turns in which Doppler parameters and then windows are fitted: a search with wrong parameters finds
a short window."""
HELD = 1
"""Number of first turns in which windows are fitted with Doppler parameters held, since these are too far off at
first."""
SETTLED = 0.05
"""Largest move of a window, in units of its error, at which it counts as found."""
SLICES = 4096
"""Number of atoms of the whole data; windows that end within an atom are right to a fraction of its duration."""
NODES = 49
"""Number of start times and of time scales of a map, odd so that the middle of a map is one of its windows."""
ZOOMS = 3
"""Number of successive maps, each of the region that the one before leaves. A last map lies between the windows around
the best one."""
WIDE = 6.0
"""Half-width of a map in standard deviations of the one before."""


class WindowFit(NamedTuple):
    """A window fitted to data near a template, with p whitened Doppler parameters.

    Attributes
    ----------
    best : (2,) float64
        t0, GPS s, and tau, s, of the largest 2F.
    mean, spread : (2,) float64
        Mean and standard deviation of t0 and tau, s, by the posterior.
    offset : (p,) float64
        Mean of the parameters by the posterior, relative to the template.
    covariance : (p, p) float64
        Contribution of the unknown window to the covariance of the parameters, besides their covariance within the best
        window.
    """

    best: jax.Array
    mean: jax.Array
    spread: jax.Array
    offset: jax.Array
    covariance: jax.Array

    @property
    def sound(self) -> bool:
        """Whether any window was within the data and long enough for the slices."""
        return bool(np.isfinite(self.mean).all() and np.isfinite(self.covariance).all())

    def error(self, window: np.ndarray) -> np.ndarray:
        """Return the root-mean-square distance of t0 and tau from a given window's, s."""
        return np.hypot(self.spread, self.mean - window)


@partial(jax.jit, static_argnames=("names", "window"))
def fitted_window(
    data: FstatData,
    point: Doppler,
    slices: Slices,
    pieces: Pieces,
    start: jax.Array,
    unwhitened: jax.Array,
    names: tuple[str, ...],
    window: tuple[Shape, float],
) -> WindowFit:
    """Return the window of the largest 2F, and the posterior of windows and Doppler parameters.

    For each window 2F is maximised over the Doppler parameters, see `window_map`, and the posterior is integrated over
    them. The prior is flat in these parameters, and in t0 and tau for windows that begin within the data and, if
    rectangular, end within them: windows beyond could not be distinguished from these.

    Parameters
    ----------
    data, point, slices, pieces
        Arguments of `atoms_of`.
    start : (2,) float64
        Approximate t0, GPS s, and tau, s, to about tau.
    unwhitened : (p, p) float64
        Parameters, in their units, from whitened ones, in which an error is about 1.
    names : tuple of p str
        Parameters that are maximised in each window; if empty, the template's hold in all windows.
    window : (Shape, float), static
        Shape and end of the windows, see `TransientWindow`.
    """
    shape, end = window
    own = atoms_of(data, point, slices, pieces)
    slope = phase_slopes(data.observation, point, names, 0.5 * (own.start + own.end)) @ unwhitened
    first, last = own.gps[0], own.end[-1] + own.epoch.astype(jnp.float64)
    step = jnp.min(own.end - own.start)
    nodes = jnp.linspace(-1.0, 1.0, NODES)

    def windows(middle: jax.Array, width: jax.Array) -> tuple[jax.Array, jax.Array, WindowMap, jax.Array]:
        t0, tau = middle[0] + width[0] * nodes, middle[1] + width[1] * nodes
        positive = tau > step
        found = window_map(own, slope, t0, jnp.where(positive, tau, step), shape, end)
        inside = positive[None] & ((t0 >= first) & (t0 <= last))[:, None]
        if shape == "rectangular":
            inside &= t0[:, None] + tau[None] <= last
        return t0, tau, found, inside

    def zoom(before: _Zoom, final: jax.Array) -> tuple[_Zoom, tuple[jax.Array, ...]]:
        # the final map is between the windows around the best of all
        middle, width = jnp.where(final, before.best, before.middle), jnp.where(final, before.steps, before.width)
        t0, tau, found, inside = windows(middle, width)
        log, steps = jnp.where(inside, found.log_posterior, -jnp.inf), 2 * width / (NODES - 1)
        weight = jax.nn.softmax(log.reshape(-1)).reshape(log.shape)
        each = jnp.sum(weight, axis=1), jnp.sum(weight, axis=0)
        mean = jnp.stack([p @ x for p, x in zip(each, (t0, tau), strict=True)])
        spread = jnp.stack([p @ (x - m) ** 2 for p, x, m in zip(each, (t0, tau), mean, strict=True)])
        # differences that a map and slices cannot resolve
        spread = jnp.sqrt(spread + steps**2 / 12 + step**2 / 12)
        highest = jnp.where(inside, found.highest, -jnp.inf)
        place = jnp.argmax(highest)
        i, j = place // NODES, place % NODES
        offset = jnp.einsum("nm,nmi->i", weight, found.offset)
        apart = found.offset - offset[None, None]
        between = jnp.einsum("nm,nmi,nmj->ij", weight, apart, apart)
        within = jnp.einsum("nm,nmij->ij", weight, found.covariance) - found.covariance[i, j]
        top, best = highest[i, j], jnp.stack([t0[i], tau[j]])
        higher = ~(top <= before.top)
        after = _Zoom(
            middle=mean,
            width=jnp.minimum(WIDE * spread, 2 * width),
            top=jnp.where(higher, top, before.top),
            best=jnp.where(higher, best, before.best),
            steps=jnp.where(higher, steps, before.steps),
        )
        return after, (mean, spread, offset, between + _positive(within))

    width = jnp.stack([start[1], start[1]])
    final = jnp.arange(ZOOMS + 1) == ZOOMS
    found, moments = jax.lax.scan(zoom, _Zoom(start, width, jnp.asarray(-jnp.inf), start, width), final)
    return WindowFit(found.best, *(x[ZOOMS - 1] for x in moments))


class _Zoom(NamedTuple):
    """Middle and half-width of the next map, with the largest value of all earlier maps, its window and their steps."""

    middle: jax.Array
    width: jax.Array
    top: jax.Array
    best: jax.Array
    steps: jax.Array


def _positive(matrix: jax.Array) -> jax.Array:
    """Return a symmetric matrix without its negative eigenvalues: an unknown window gives no more information than a
    known one."""
    size, axes = jnp.linalg.eigh(matrix)
    return (axes * jnp.maximum(size, 0.0)[None]) @ axes.T


def refined_with_windows(
    data: FstatData,
    found: Any,
    window: tuple[Shape, float],
    refined: Callable[[FstatData, Any, Any, str], QTable],
    progress: bool,
    model: PhaseModel | None,
) -> QTable:
    """Return the table of `refine` for transient signals, with each candidate in data times its own window.

    In turns, Doppler parameters are climbed to the highest 2F of the data times the window, and the window is fitted to
    the atoms there, until the window stays or after `TURNS` turns. The row is from the turn with the largest 2F: all
    columns belong to its window, except ``start_twoF``, which is 2F of the candidate as it was given, within its own
    window. Errors and the covariance of the fitted parameters allow for the window's errors, and vice versa; a window
    that is too short for the slices has no errors, and the parameters' errors are then for this window. The message
    says so, and says where a window had not settled after `TURNS` turns.

    Parameters
    ----------
    data : FstatData
    found : table
        Candidates with columns ``t0`` and ``tau``.
    window : (Shape, float)
        Shape and end of the windows, from `window_of_table`.
    refined : callable
        Function that refines a table of one row, its second argument, in the data of the first. The third argument is
        the row of `found` with which the result is compared, and the fourth says why it cannot be refined, if it
        cannot.
    progress : bool
        Whether to show progress.
    model : PhaseModel or None
        Phase model of the templates.
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
            best, doubt = (-np.inf, table, start, None), ""
            for turn in range(TURNS):
                own, problem = _in_window(data, start, window)
                table = refined(own, table, given, problem)
                before.append(table)
                twoF = float(table["twoF"][0])
                if not np.isfinite(twoF):
                    break
                fit = _fitted(data, table, start, duration, window, model, turn >= HELD)
                best = max(best, (twoF, table, start, fit if turn >= HELD else None), key=lambda x: x[0])
                if not fit.sound:
                    break
                if turn >= HELD and np.all(np.abs(fit.best - start) < SETTLED * fit.error(start)):
                    break
                start = np.asarray(fit.best)
            else:
                doubt = f"the window still moved after {TURNS} turns"
            if np.isfinite(best[0]):
                _, table, start, fit = best
                if fit is None:  # with parameters held
                    fit = _fitted(data, table, start, duration, window, model)
                if fit.sound:
                    error = fit.error(start)
                    _add_errors(table, fit)
                else:
                    doubt = "the window is too short for its errors to be known"
            if doubt:
                table["message"] = [f"{table['message'][0]}; {doubt}"]
            windows[row] = *start, *error
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
    """Return data times a candidate's window, or the data unchanged and why the candidate cannot be refined."""
    problem, (shape, end) = window_problem(start), window
    if problem:
        return data, f"not refined: {problem}"
    try:
        return windowed(data, TransientWindow(shape, *start, end=end_of(shape, end))), ""
    except EmptyWindow:
        return data, "not refined: the window holds no data"


def _fitted(
    data: FstatData,
    table: Any,
    start: np.ndarray,
    duration: float,
    window: tuple[Shape, float],
    model: PhaseModel | None,
    follow: bool = True,
) -> WindowFit:
    """Return `fitted_window` at the template of a table's only row, NumPy arrays; `follow` says whether parameters are
    fitted."""
    point = point_in(read_rows(data, table, None, model).points, 0)
    own = data.for_one_template
    slices, pieces = jax.tree.map(on_device, regular_slices(own, point, duration))
    fitted, unwhitened = _whitened(table)
    names = tuple(name for name, of in zip(table.meta["parameters"], fitted, strict=True) if of)
    fit = fitted_window(own, point, slices, pieces, jnp.asarray(start), jnp.asarray(follow * unwhitened), names, window)
    return jax.tree.map(np.asarray, fit)


def _whitened(table: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return which parameters of a table's only row have errors, (p,) bool, and L with their covariance L L^T."""
    covariance = np.asarray(table["covariance"])[0]
    fitted = np.diagonal(covariance) > 0
    own = covariance[np.ix_(fitted, fitted)]
    size = np.sqrt(np.diagonal(own))
    try:
        return fitted, size[:, None] * np.linalg.cholesky(own / np.outer(size, size))
    except np.linalg.LinAlgError:
        return np.zeros_like(fitted), np.zeros((0, 0))


def _add_errors(table: Any, fit: WindowFit) -> None:
    """Add the contribution of the unknown window to the errors of a table's only row."""
    fitted, unwhitened = _whitened(table)
    covariance = np.array(table["covariance"])
    more = fit.covariance + np.outer(fit.offset, fit.offset)
    covariance[0][np.ix_(fitted, fitted)] += unwhitened @ more @ unwhitened.T
    table["covariance"] = covariance
    for i, name in enumerate(table.meta["parameters"]):
        unit = table[f"{name}_error"].unit
        table[f"{name}_error"] = np.sqrt(covariance[:, i, i])
        table[f"{name}_error"].unit = unit
