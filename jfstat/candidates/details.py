"""From the candidates that a search keeps to what is told of each: every detector's own 2F, and the amplitude."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.fstatdata import FstatData
from jfstat.data.narrow import NarrowPlan, narrow_plan, narrowed, usual_reach
from jfstat.searching.driver.workers import ONE_THREAD
from jfstat.statistic.check import nan_unless_fit
from jfstat.statistic.fstat import estimate_amplitude, fstat
from jfstat.templates import AMPLITUDE_FIELDS, Doppler

UNDER_WAY = 16
"""Candidates handed to the device before the first one's values are waited for."""


def kept_columns(data: FstatData, found: Doppler, amplitudes: bool) -> dict[str, np.ndarray]:
    """Columns for a table of candidates, from the data narrowed around each.

    A candidate's values are the same to the last bit whatever others are in the table and wherever it stands, so that
    the parts of a divided search add up to the same table: one compiled program computes one candidate at a time.
    Several at once would hardly be faster on a CPU and take as many times the memory: 24 bytes a sample of the data, up
    to some 400 with an orbit.

    Parameters
    ----------
    data : FstatData
    found : Doppler
        Stack of k candidates, NumPy leaves (k, ...); k may be 0.
    amplitudes : bool
        Whether to estimate amplitudes too.

    Returns
    -------
    dict of str to (k,) float64 ndarray
        ``twoF_H1``, ... for each detector, also where there is only one: 2F from `fstat`, NaN for a candidate that
        does not fit the data. With `amplitudes`, ``h0``, ``cosi``, ``psi``, ``phi0`` (rad, at the candidates' reference
        time) and their errors ``h0_error``, ..., from `estimate_amplitude`.
    """
    names = [f"twoF_{name}" for name in data.detectors]
    if amplitudes:
        names += [*AMPLITUDE_FIELDS, *(f"{name}_error" for name in AMPLITUDE_FIELDS)]
    k = len(found.alpha)
    values = np.empty((k, len(names)))
    for start in range(0, k, UNDER_WAY):
        rows = range(start, min(start + UNDER_WAY, k))
        # all are started before the first is waited for
        each = [_values(data, *_focus(data, found, row), amplitudes) for row in rows]
        values[rows.start : rows.stop] = jax.device_get(each)
    return {name: values[:, i].copy() for i, name in enumerate(names)}


def _focus(data: FstatData, found: Doppler, row: int) -> tuple[Doppler, float, NarrowPlan]:
    """A candidate, and how to narrow the data around it, whatever the others are."""
    point = jax.tree.map(lambda x: x[row], found)
    reach = usual_reach(data, point)
    return point, reach, narrow_plan(data, point, reach)


@partial(jax.jit, static_argnames="amplitudes", compiler_options=ONE_THREAD)
def _values(data: FstatData, point: Doppler, reach: float, plan: NarrowPlan, amplitudes: bool) -> jax.Array:
    """The columns' values for one candidate, (n_columns,) float64."""
    own = narrowed(data, point, reach, plan)
    # a template that does not fit the data has no values, as in `twoF`
    per_detector = fstat(own, point).twoF_per_detector * nan_unless_fit(data, point)
    if not amplitudes:
        return per_detector
    # the same sums over the data: compiled together, they are computed once
    amplitude = estimate_amplitude(own, point)
    both = [getattr(part, name) for part in (amplitude, amplitude.errors) for name in AMPLITUDE_FIELDS]
    return jnp.concatenate([per_detector, jnp.stack(both)])
