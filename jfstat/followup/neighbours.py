"""Group templates that are so close to one another that they share narrow data."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.fstatdata import FstatData
from jfstat.data.narrow import NarrowPlan, narrow_plan
from jfstat.data.narrowdata import NODES
from jfstat.data.observation import Observation
from jfstat.followup.batches import too_many_nodes
from jfstat.signal.templates import Doppler

TIMES, AT_ONCE = 64, 1024
"""Times at which the frequencies of templates are compared, and number of templates computed at a time."""
WIDER = 4.0
"""Ratio of successive reaches that are tried."""
LEAST_FINE = 4
"""Smallest number of samples of a fine block: with fewer, narrow data are as large as the data themselves."""
SAMPLE, FINE_BLOCK, TEMPLATE, NODE = 10.0, 2000.0, 15000.0, 50.0
"""Time to narrow the data, for each sample and each fine block, and to compute 2F and amplitudes at a template, for
each template and each node of the narrow data: in ns on one core, of which only the ratios matter."""


class Group(NamedTuple):
    """Templates whose 2F is computed from the same narrow data.

    Attributes
    ----------
    centre : int
        Row of the template around which the data are narrowed, one of `rows`.
    rows : (n,) int64 ndarray
        Rows of all templates of the group.
    reach : float
        Reach of the narrow data, Hz.
    """

    centre: int
    rows: np.ndarray
    reach: float


def neighbours(data: FstatData, points: Doppler, rows: np.ndarray, least: float) -> list[Group]:
    """Return groups of templates, for the reach at which all of them together cost least.

    A wider reach makes fewer groups, and so fewer passes over the data, but larger narrow data. Templates belong to a
    group if their frequencies at the first detector are within its reach of the centre's at some times; whether this
    holds at all times and detectors shows only with the narrow data.

    Parameters
    ----------
    data : FstatData
    points : Doppler
        Stack of templates, NumPy leaves, all isolated or all with orbits.
    rows : (n,) int64 ndarray
        Which templates.
    least : float
        Smallest reach, Hz.
    """
    own = jax.tree.map(lambda x: x[rows], points)
    first = jax.tree.map(lambda x: x[0], own)
    seen = frequencies_seen(data, own)
    best, used, lowest, reach = _groups(seen, least), least, np.inf, least
    while len(best) > 1 or lowest == np.inf:
        plan, groups = narrow_plan(data, first, reach), _groups(seen, reach)
        cost = len(groups) * narrowing_cost(data, plan) + len(rows) * template_cost(data, plan)
        if cost >= lowest or too_many_nodes(data, np.array([reach]))[0] or plan.fine < LEAST_FINE:
            break
        best, used, lowest, reach = groups, reach, cost, WIDER * reach
    # a lone template needs no more than the smallest reach
    return [Group(int(rows[c]), rows[m], used if len(m) > 1 else least) for c, m in best]


def narrowing_cost(data: FstatData, plan: NarrowPlan) -> float:
    """Return the approximate time to narrow the data, ns."""
    return data.series.size * (SAMPLE + FINE_BLOCK / plan.fine)


def template_cost(data: FstatData, plan: NarrowPlan) -> float:
    """Return the approximate time to compute 2F and amplitudes at a template from narrow data, ns."""
    return TEMPLATE + NODE * len(data.detectors) * len(plan.first) * NODES


def frequencies_seen(data: FstatData, points: Doppler) -> np.ndarray:
    """Return the frequencies of n templates at the first detector at some times, (n, TIMES) float64, Hz.

    They are relative to the heterodyne frequency.
    """
    return np.asarray(_frequencies(data.for_one_template, points))


@jax.jit
def _frequencies(data: FstatData, points: Doppler) -> jax.Array:
    times = uneven_times(data.observation)
    heterodyne = data.band.heterodyne
    return jax.lax.map(
        lambda point: frequency_at(data.observation, heterodyne, point, times), points, batch_size=AT_ONCE
    )


def uneven_times(observation: Observation) -> jax.Array:
    """Return times during the data, s since the epoch, (TIMES,) float64.

    They are spaced unevenly, so that they do not always fall on the same phase of a daily motion or of an orbit.
    """
    number = np.arange(TIMES)
    places = (number + (number * 0.5 * (1 + np.sqrt(5))) % 1) / TIMES - 0.5
    return observation.middle + observation.tspan * places


def frequency_at(observation: Observation, heterodyne: jax.Array, point: Doppler, times: jax.Array) -> jax.Array:
    """Return the frequency of a template at the first detector at some times, relative to a heterodyne's, Hz;
    traceable."""
    trajectory = jax.tree.map(lambda x: x[0], observation.trajectory)
    source = observation.source(point)
    cycles = lambda t: source.heterodyned_cycles(trajectory, t, heterodyne)  # noqa: E731
    return jax.jvp(cycles, (times,), (jnp.ones_like(times),))[1]


def _groups(seen: np.ndarray, reach: float) -> list[tuple[int, np.ndarray]]:
    """Yield centre and members of each group, indices into `seen`, (n, TIMES), whose rows differ by at most `reach`.

    The remaining template with the lowest mean frequency is in the next group, and the centre is a template within
    reach of it, about as far above it in frequency as the reach allows.
    """
    mean = seen.mean(axis=1)
    order = np.argsort(mean, kind="stable")
    seen, mean = seen[order], mean[order]
    left = np.ones(len(mean), bool)
    groups = []
    for start in range(len(mean)):
        if not left[start]:
            continue
        ahead = start + np.flatnonzero(left[start : np.searchsorted(mean, mean[start] + reach, side="right")])
        ahead = ahead[np.max(np.abs(seen[ahead] - seen[start]), axis=1) <= reach]
        centre = ahead[-1]
        low, high = np.searchsorted(mean, [mean[centre] - reach, mean[centre] + reach], side="right")
        near = low + np.flatnonzero(left[low:high])
        near = near[np.max(np.abs(seen[near] - seen[centre]), axis=1) <= reach]
        near = np.union1d(near, [start, centre])
        left[near] = False
        groups.append((int(order[centre]), order[near]))
    return groups
