"""Compute 2F and amplitudes at the peaks at which the climbs of a batch of candidates ended."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jfstat.compileroptions import NO_TRIALS, jit_with
from jfstat.data.narrowdata import NarrowData
from jfstat.data.observation import Observation
from jfstat.followup.groups import in_groups
from jfstat.followup.look import LOOKED_POINTS, Looked, Surroundings, further_shifts, trial_places
from jfstat.maths.arrays import LEAST
from jfstat.maths.newton import Maximum
from jfstat.metrics.coordinates import Coordinates
from jfstat.signal.templates import Doppler
from jfstat.statistic.total import found_at, shrinkage

OWN = 1.5
"""Distance in whitened coordinates up to which trial points belong to the peak that was climbed."""


class PeakValues(NamedTuple):
    """Values of D detectors' data at the highest peak around a candidate, and elsewhere.

    Attributes
    ----------
    point : Doppler
        Template of the peak.
    twoF, start_twoF : () float64
        2F at the peak and at the start; with segments, these and all other values are sums over segments.
    twoF_per_detector : (D,) float64
    shrinkage : () float64
        Factor that multiplies 2F in probabilities and errors; see `jfstat.statistic.total.shrinkage`.
    amplitude : (n,) float64
        Amplitudes estimated at the peak, with errors; see `amplitude_columns`.
    other_freq, other_twoF : () float64
        Frequency, Hz, and value of the highest 2F away from this peak, right to a few per cent, at all trial points and
        up to `LOOKED_BINS` from some of them; `arrays.LEAST` if there is none.
    tried : () int32
        Number of trial points within the data's reach, the limits and the widest shift, at frequencies a bin apart.
    """

    point: Doppler
    twoF: jax.Array
    start_twoF: jax.Array
    twoF_per_detector: jax.Array
    shrinkage: jax.Array
    amplitude: jax.Array
    other_freq: jax.Array
    other_twoF: jax.Array
    tried: jax.Array


@jit_with(NO_TRIALS, kept=True, static_argnames="together")
def measure(
    observation: Observation,
    near: NarrowData,
    surroundings: Surroundings,
    looked: Looked,
    climbs: Maximum,
    n: int | jax.Array,
    together: int,
) -> PeakValues:
    """Compute 2F and amplitudes at the highest peak around each of the first n of N candidates.

    Parameters
    ----------
    observation : Observation
    near : NarrowData
        Narrow data from `focus`.
    surroundings : Surroundings
    looked : Looked
        From `look`.
    climbs : Maximum
        From `climb`.
    n : () int32
    together : int, static
        Number of candidates computed together, a divisor of N.

    Returns
    -------
    PeakValues
        With a leading axis N.
    """
    shifts = jnp.asarray(surroundings.shifts)

    def one(own: tuple[NarrowData, Coordinates, jax.Array, Looked, jax.Array]) -> PeakValues:
        near, coordinates, trials, looked, end = own
        near = replace(near, observation=observation)
        places = [trial_places(coordinates, trials, shifts)]
        far = further_shifts(observation, coordinates)
        places += [trial_places(coordinates, trials[:LOOKED_POINTS], far)]
        heights = jnp.concatenate([looked.near.reshape(-1), looked.further.reshape(-1)]).astype(jnp.float64)
        place = jnp.concatenate(places)
        elsewhere = jnp.where(jnp.sum((place - end[None]) ** 2, axis=1) > OWN**2, heights, LEAST)
        best = jnp.argmax(elsewhere)
        # the peak, the candidate itself, and the highest place elsewhere
        points = jax.vmap(coordinates.point)(jnp.stack([end, jnp.zeros_like(end), place[best]]))
        both = jax.vmap(lambda point: found_at(near, point))(jax.tree.map(lambda x: x[:2], points))
        point, found = jax.tree.map(lambda x: x[0], (points, both))
        return PeakValues(
            point=point,
            twoF=found.twoF,
            start_twoF=both.twoF[1],
            twoF_per_detector=found.twoF_per_detector,
            shrinkage=shrinkage(found.twoF, near.n_segments, coordinates.effective_segments),
            amplitude=found.amplitude,
            other_freq=points.fkdot[2, 0],
            other_twoF=elsewhere[best],
            tried=looked.tried,
        )

    ends, trials = climbs.x[:, 0], jnp.asarray(surroundings.trials)
    return in_groups(jax.vmap(one), (near, surroundings.coordinates, trials, looked, ends), together, n)
