"""Choose the stages of a follow-up: how many segments each has, and where they begin and end."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from jfstat import kinds
from jfstat.data.observation import Observation, reference_time, unweighted
from jfstat.followup.neighbourhood import COVERING, COVERING_MANY, MANY, along_frequency
from jfstat.geometry.nearby import phase_difference, sites
from jfstat.geometry.trajectory import Trajectory
from jfstat.maths.ball import ellipsoid_count
from jfstat.metrics.coordinates import Coordinates, whitened
from jfstat.public import host
from jfstat.sfts.container import SFTs, check_sfts
from jfstat.signal.templates import Doppler, template
from jfstat.signal.values import check_parameters, in_usual_order, usual_parameters
from jfstat.validation import is_whole, shown, whole

if TYPE_CHECKING:
    from jfstat.geometry.ephemeris import EphemerisLike

TRIALS = 1000
"""Default largest number of trial points of a stage of `follow_up_stages`."""


@host(point=template, parameters=kinds.names, ephemeris=kinds.ephemeris)
def follow_up_stages(
    sfts: SFTs,
    point: Doppler,
    n_segments: int,
    *,
    parameters: Sequence[str] | None = None,
    most_trials: int = TRIALS,
    ephemeris: EphemerisLike = "DE405",
) -> tuple[int, ...]:
    """Return numbers of segments for the stages of `follow_up`, each as small as the one before it allows.

    A stage must try as many templates as its own metric distinguishes within the region that the stage before left open
    (Ashton & Prix 2018, Phys. Rev. D 97, 103020, section IV, who bound the same number). That region is taken as the
    unit ball of the earlier stage's metric: four sigma of a candidate with 2F just above threshold. Stages nest where
    possible, so that each number divides the one before.

    Parameters
    ----------
    sfts : SFTs
    point : Doppler or Row
        One template, at which the metric is computed.
    n_segments : int
        Number of segments of the search that found the candidates: the first stage.
    parameters : sequence of str, optional
        Parameters that will be refined; by default all of the template's except an orbit's ``ecc`` and ``argp``.
    most_trials : int
        Largest number of trial points of a stage.
    ephemeris : str, two paths or Ephemeris
        See `load_ephemeris`.

    Returns
    -------
    tuple of int
        Numbers of segments, the first `n_segments`, the last 1.

    Raises
    ------
    TypeError, ValueError
        If an argument is of another kind or out of range.
    """
    check_sfts(sfts)
    n_segments, most_trials = whole(n_segments, "n_segments", 1), whole(most_trials, "most_trials", 1)
    if n_segments > len(sfts):
        raise ValueError(f"n_segments must be at most the number of SFTs, {len(sfts)}, not {n_segments}.")
    if not isinstance(point, Doppler) or np.ndim(point.alpha):
        raise TypeError("point must be one jfstat.Doppler with scalar fields: give the template of a candidate.")
    names = usual_parameters(point) if parameters is None else check_parameters(point, parameters)
    observation = unweighted(sfts, reference_time(None, sfts.start), ephemeris)
    names = in_usual_order(point, names)
    coordinates = whitened(observation, point, names, ())
    slopes, along, time, weight = (np.asarray(x) for x in _phase_slopes(observation, point, coordinates))

    def metric(n: int) -> np.ndarray:
        cuts = np.linspace(sfts.start, sfts.end, n + 1) - int(observation.epoch)
        return _mean_metric(slopes, weight, np.searchsorted(cuts, time, side="right"))

    def trials(before: np.ndarray, n: int) -> float:
        return _trial_points(before, metric(n), along)

    stages = [n_segments]
    while stages[-1] > 1:
        last = stages[-1]
        before = metric(last)
        divisors = [n for n in range(1, last) if last % n == 0]
        fewest = next((n for n in divisors if trials(before, n) <= most_trials), None)
        if fewest is None:  # every number that nests is too large a step
            fewest = next((n for n in range(1, last) if trials(before, n) <= most_trials), last - 1)
        stages.append(fewest)
    return tuple(stages)


@jax.jit  # op by op each call would compile a hundred small programs, ten seconds on a GPU
def _phase_slopes(
    observation: Observation, point: Doppler, coordinates: Coordinates
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Return phase changes per coordinate that whitens all data together, cycles, at the middle of each SFT, (n, p).

    The direction in which the frequency alone changes, (p,), zero if it is held, and the middles of the SFTs and their
    weights, (n,), are returned too.
    """
    names = coordinates.names
    time, weight = observation.quadrature(1)
    zero = jnp.zeros(len(names))

    def of_detector(time: jax.Array, trajectory: Trajectory) -> jax.Array:
        centre = observation.source(point)
        here = sites(trajectory, centre, time)
        return jax.jacfwd(lambda x: phase_difference(here, centre, observation.source(coordinates.point(x))))(zero)

    slopes = jax.vmap(of_detector)(time, observation.trajectory)
    along = along_frequency(coordinates) if "freq" in names else zero
    return slopes.reshape(-1, len(names)), along, time.reshape(-1), weight.reshape(-1)


def _mean_metric(slopes: np.ndarray, weight: np.ndarray, segment: np.ndarray) -> np.ndarray:
    """Return the mean over segments of the phase metrics, (p, p); `segment` holds the segment of each SFT."""
    metrics = []
    for k in np.unique(segment[weight > 0]):
        own, share = 2 * np.pi * slopes[segment == k], weight[segment == k] / np.sum(weight[segment == k])
        off = own - share @ own
        metrics.append(off.T @ (share[:, None] * off))
    return np.mean(metrics, axis=0)


def _trial_points(before: np.ndarray, now: np.ndarray, along: np.ndarray) -> float:
    """Return about how many trial points by one metric cover the unit ball of another, across the frequency."""
    ridge = 1e-10 * np.eye(len(now))  # directions that the data do not constrain
    factor = np.linalg.cholesky(now + ridge).T
    matrix = factor @ np.linalg.inv(before + ridge) @ factor.T
    q = len(now)
    if np.any(along):
        q -= 1
        across = np.linalg.svd((factor @ along)[None])[2][1:]
        matrix = across @ matrix @ across.T
    distance = np.sqrt(COVERING if q < MANY else COVERING_MANY)
    return ellipsoid_count(np.sqrt(np.maximum(np.linalg.eigvalsh(matrix), 0.0)), distance)


def stage_edges(sfts: SFTs, stages: Sequence[int]) -> list[list[tuple[float, float]] | None]:
    """Return starts and ends of each stage's segments, GPS s; None for a single segment.

    All segments of a stage have equal length and lie between the start and the end of the data. Segments without SFTs
    are left out. A stage whose number divides the number of the stage before joins that stage's segments.
    """
    starts = np.sort(np.concatenate([series.gps + 1e-9 * series.gps_ns for series in sfts]))
    cuts, edges = np.linspace(sfts.start, sfts.end, stages[0] + 1), []
    for n in stages:
        last = len(cuts) - 1
        cuts = cuts[:: last // n] if last % n == 0 else np.linspace(sfts.start, sfts.end, n + 1)
        counts = np.diff(np.searchsorted(starts, cuts))
        pairs = [(float(a), float(b)) for a, b, count in zip(cuts[:-1], cuts[1:], counts, strict=True) if count]
        edges.append(pairs if len(pairs) > 1 else None)
    return edges


def checked_stages(stages: object, n_sfts: int) -> tuple[int, ...]:
    """Return the numbers of segments that a user gave.

    Raises
    ------
    ValueError
        If they are no decreasing whole numbers from 1 to the number of SFTs.
    """
    try:
        given = tuple(stages)  # type: ignore[arg-type]
    except Exception:  # whatever a foreign object raises
        given = ()
    whole = bool(given) and all(is_whole(n) and 1 <= int(n) <= n_sfts for n in given)
    if not whole or any(int(b) >= int(a) for a, b in pairwise(given)):
        raise ValueError(
            f"stages must be falling numbers of segments from {n_sfts}, the number of SFTs, to 1, such as (50, 10, 1), "
            f"not {shown(stages)}."
        )
    return tuple(int(n) for n in given)
