"""What the maps of transient signals say at each template of a table."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.fstatdata import FstatData
from jfstat.data.slices import Pieces, Slices, regular_slices
from jfstat.maths.arrays import on_device
from jfstat.parameters import with_fields
from jfstat.statistic.atoms import atoms_of
from jfstat.statistic.transients import Grid, TransientMap, TransientRange, compiled_map, grid_of_times
from jfstat.templates import Doppler
from jfstat.transientwindow import Shape


def map_values(found: TransientMap, rho_max: float) -> jax.Array:
    """The values of `TRANSIENT_COLUMNS` of a map, (6,) float64."""
    best = found.best
    log10_bayes = found.log10_bayes_factor(rho_max)
    t0, tau = found.t0[jnp.argmax(found.posterior_t0)], found.tau[jnp.argmax(found.posterior_tau)]
    return jnp.stack([found.max_twoF, best.t0, best.tau, log10_bayes, t0, tau])


@partial(jax.jit, static_argnames=("shape", "end", "grid", "rho_max"))
def _values(
    data: FstatData,
    point: Doppler,
    slices: Slices,
    pieces: Pieces,
    t0: jax.Array,
    tau: jax.Array,
    shape: Shape,
    end: float,
    grid: Grid,
    rho_max: float,
) -> jax.Array:
    """The values at one template, from its atoms."""
    return map_values(compiled_map(atoms_of(data, point, slices, pieces), t0, tau, shape, end, grid), rho_max)


def transient_values(data: FstatData, points: Doppler, transient: TransientRange) -> Iterator[tuple[int, np.ndarray]]:
    """Each row of a stack of templates with NumPy leaves, and its values of `TRANSIENT_COLUMNS`.

    Raises
    ------
    ValueError
        If the atoms of the range are too short for the data.
    """
    isolated = np.ones(len(points.alpha), bool) if points.orbit is None else np.asarray(points.orbit.asini == 0)
    own = data.for_one_template
    for alone in (True, False):
        mine = with_fields(points, orbit=None) if alone else points
        rows = np.flatnonzero(isolated == alone)
        if not len(rows):
            continue
        first = jax.tree.map(lambda x, rows=rows: x[rows[0]], mine)
        slices, pieces = jax.tree.map(on_device, regular_slices(own, first, transient.duration))
        grid = Grid(None, True)
        if transient.shape == "rectangular":
            grid = grid_of_times(slices.start, slices.end, int(data.observation.epoch), transient.t0, transient.tau)
        for row in rows:
            point = jax.tree.map(lambda x, row=row: x[row], mine)
            found = _values(
                own, point, slices, pieces, transient.t0, transient.tau, transient.shape, transient.end, grid,
                transient.rho_max,
            )  # fmt: skip
            yield int(row), np.asarray(found)


def transient_meta(transient: TransientRange) -> dict[str, Any]:
    """What a table says of the range, as plain values."""
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
