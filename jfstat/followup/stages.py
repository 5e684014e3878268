"""Choose the stages of a follow-up: how many segments each has, and where they begin and end."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat import kinds
from jfstat.candidates.provenance import Provenance
from jfstat.compileroptions import NO_TRIALS, jit_with
from jfstat.data.observation import Observation, reference_time, unweighted
from jfstat.followup.groups import in_groups
from jfstat.followup.neighbourhood import COVERING, COVERING_MANY, MANY, MOST_BINS, MOST_TRIALS, along_frequency
from jfstat.geometry.nearby import phase_difference, sites
from jfstat.geometry.trajectory import Trajectory
from jfstat.maths.ball import ellipsoid_count
from jfstat.metrics.coordinates import Coordinates, whitened
from jfstat.public import host
from jfstat.sfts.container import CLOSE, SFTs, check_sfts
from jfstat.signal.templates import Doppler, template
from jfstat.signal.values import check_parameters, in_usual_order, usual_parameters
from jfstat.validation import is_whole, shown, whole

if TYPE_CHECKING:
    from jfstat.geometry.ephemeris import EphemerisLike

NODES = 2
"""Times in each SFT at which phases are compared: the least for the phase's change within an SFT."""
RIDGE = 1e-10
"""Added to metrics of whitened coordinates, for directions that the data do not constrain."""
LEAST_SFTS = 4
"""Least length of segments after a search for power along tracks, in SFTs."""
TRIALS = 1000
"""Default largest number of trial points of a stage of `follow_up_stages`."""
SAME = 1.0
"""Largest difference of the longest segments of two divisions of the data that may be the same, s."""


@host(point=template, parameters=kinds.names, ephemeris=kinds.ephemeris)
def follow_up_stages(
    sfts: SFTs,
    point: Doppler,
    n_segments: int | None,
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

    After a search for power along tracks (`TrackPower`) the metric of tracks takes the place of the first stage's. It
    is the mean over SFTs of the phase's metric in each. The first stage is then the fewest segments that can follow it,
    or up to a tenth more where a number has more divisors.

    Parameters
    ----------
    sfts : SFTs
    point : Doppler or Row
        One template, at which the metric is computed.
    n_segments : int or None
        Number of equal segments into which the search that found the candidates cut the span of the SFTs, with those
        that hold no SFT: the first stage. None after a search for power along tracks: then it is chosen among segments
        of at least four SFTs.
    parameters : sequence of str, optional
        Parameters that will be refined; by default all of the template's except an orbit's ``ecc`` and ``argp``.
    most_trials : int
        Largest number of trial points of a stage.
    ephemeris : str, two paths or Ephemeris
        See `load_ephemeris`.

    Returns
    -------
    tuple of int
        Numbers of segments, the first `n_segments` if given, the last 1.

    Raises
    ------
    TypeError, ValueError
        If an argument is of another kind or out of range, or power along tracks leaves too much open.
    """
    check_sfts(sfts)
    most_trials = whole(most_trials, "most_trials", 1)
    if n_segments is not None:
        check_n_segments(sfts, n_segments)
    if not isinstance(point, Doppler) or np.ndim(point.alpha):
        raise TypeError("point must be one jfstat.Doppler with scalar fields: give the template of a candidate.")
    names = usual_parameters(point) if parameters is None else check_parameters(point, parameters)
    steps = Steps.of(sfts, point, names, ephemeris)
    first = steps.first_after_tracks(most_trials) if n_segments is None else int(n_segments)
    if first is None:
        raise ValueError(
            f"n_segments must be a number here, not None: power along tracks leaves so much open in {', '.join(names)} "
            f"that {steps.most} segments would need more than {most_trials} trial points; give fewer parameters or "
            "a larger most_trials."
        )
    return steps.stages(first, most_trials)


def check_n_segments(sfts: SFTs, n_segments: int) -> None:
    """Raise a ValueError if SFTs cannot be cut into so many segments."""
    if whole(n_segments, "n_segments", 1) > len(sfts):
        raise ValueError(f"n_segments must be at most the number of SFTs, {len(sfts)}, not {n_segments}.")


class Steps(NamedTuple):
    """Sums of phase changes at a template, from which the metric for any number of segments follows fast.

    Attributes
    ----------
    of_tracks : (p, p) float64
        Metric of power along tracks, in whitened coordinates.
    along : (p,) float64
        Direction in which the frequency alone changes, zero if it is held.
    time : (n,) float64
        Middles of the SFTs, `NODES` times each, s since the data start, in order.
    sums : (n + 1, 1 + p + p^2) float64
        Sums of the weights of the phase changes before each of these times, in cycles per coordinate, of weighted
        changes, and of their products.
    tspan : float
        Length of the data, s.
    most : int
        Largest number of segments after a search for power along tracks.
    """

    of_tracks: np.ndarray
    along: np.ndarray
    time: np.ndarray
    sums: np.ndarray
    tspan: float
    most: int

    @classmethod
    def of(cls, sfts: SFTs, point: Doppler, names: tuple[str, ...], ephemeris: EphemerisLike) -> Steps:
        """Return the phase changes for some parameters of a template."""
        observation = unweighted(sfts, reference_time(None, sfts.start), ephemeris)
        found = _whitened_slopes.quickly(observation, point, in_usual_order(point, names))
        slopes, along, time, weight = map(np.asarray, found)
        since = np.repeat(time.reshape(-1, NODES).mean(axis=1), NODES) + int(observation.epoch) - sfts.start
        order, tspan = np.argsort(since, kind="stable"), sfts.end - sfts.start
        x, w = slopes[order] - weight @ slopes / weight.sum(), weight[order][:, None]
        each = np.concatenate([w, w * x, (w[:, None] * x[:, :, None] * x[:, None]).reshape(len(x), -1)], axis=1)
        sums = np.concatenate([np.zeros((1, each.shape[1])), np.cumsum(each, axis=0)])
        of_tracks = _tracks_metric(slopes, weight)
        return cls(of_tracks, along, since[order], sums, tspan, max(1, int(tspan / (LEAST_SFTS * sfts.tsft))))

    def metric(self, n: int) -> np.ndarray:
        """Return the mean over n segments of the phase metrics, weighted by their noise weights, (p, p)."""
        at = np.searchsorted(self.time, np.linspace(0.0, self.tspan, n + 1)[1:-1])
        own = np.diff(self.sums[np.concatenate([[0], at, [len(self.time)]])], axis=0)
        own = own[own[:, 0] > 0]
        p = len(self.along)
        weight, first, second = own[:, :1], own[:, 1 : 1 + p], own[:, 1 + p :].reshape(-1, p, p)
        spread = second - first[:, :, None] * first[:, None] / weight[:, None]
        return (2 * np.pi) ** 2 * np.sum(spread, axis=0) / np.sum(weight)

    def trials(self, before: np.ndarray, n: int) -> float:
        """Return about how many trial points by the metric of n segments cover the unit ball of another metric."""
        return _trial_points(before, self.metric(n), self.along)

    def bins(self, before: np.ndarray, n: int) -> float:
        """Return how far the unit ball of another metric extends in frequency, in bins of n segments."""
        if not np.any(self.along):
            return 0.0
        inverse = np.linalg.inv(before + RIDGE * np.eye(len(before)))
        return float(np.sqrt(self.along @ inverse @ self.along) / (self.along @ self.along) * self.tspan / n)

    def small(self, before: np.ndarray, n: int, most_trials: int = MOST_TRIALS) -> bool:
        """Return whether n segments can follow another metric: with at most so many trial points, and in as many
        frequencies as are ever tried."""
        return self.bins(before, n) <= MOST_BINS and self.trials(before, n) <= most_trials

    def stages(self, first: int, most_trials: int) -> tuple[int, ...]:
        """Return numbers of segments from the first on to 1, each as small as the one before it allows."""
        numbers = [first]
        while numbers[-1] > 1:
            last = numbers[-1]
            before = self.metric(last)
            divisors = [n for n in range(1, last) if last % n == 0]
            fewest = next((n for n in divisors if self.small(before, n, most_trials)), None)
            if fewest is None:  # every number that nests is too large a step
                fewest = next((n for n in range(1, last) if self.small(before, n, most_trials)), last - 1)
            numbers.append(fewest)
        return tuple(numbers)

    def covers_tracks(self, n: int, mismatch: float, bins: float | None) -> bool:
        """Return whether n segments can follow all within a mismatch by the metric of tracks, in so many bins of
        frequency."""
        region = self.of_tracks / mismatch
        return self.small(region, n) and (bins is None or self.bins(region, n) <= bins)

    def first_after_tracks(self, most_trials: int) -> int | None:
        """Return the fewest segments that need at most so many trial points after a search for power along tracks, or
        up to a tenth more with more divisors; None if `most` segments are too few."""
        numbers = range(1, self.most + 1)
        at = bisect_left(numbers, True, key=lambda n: self.small(self.of_tracks, n, most_trials))
        if at == len(numbers):
            return None
        fewest = numbers[at]
        near = range(fewest, min(fewest * 11 // 10, self.most) + 1)
        fitting = [n for n in near if self.small(self.of_tracks, n, most_trials)]
        return max(fitting, key=lambda n: (sum(n % k == 0 for k in range(1, n + 1)), -n))


class Slopes(NamedTuple):
    """Changes of the phase with p coordinates, at `NODES` times in each SFT, n in all.

    Attributes
    ----------
    slopes : (n, p) float64
        Cycles per coordinate.
    along : (p,) float64
        Direction in which the frequency alone changes; zero if it is held.
    time, weight : (n,) float64
        Times, s from the observation's epoch, and their weights.
    """

    slopes: jax.Array
    along: jax.Array
    time: jax.Array
    weight: jax.Array


@jit_with(NO_TRIALS, kept=True, static_argnames="names")
def _whitened_slopes(observation: Observation, point: Doppler, names: tuple[str, ...]) -> Slopes:
    """Return the `_phase_slopes` per whitened coordinate for some parameters of a template; in one program."""
    return _phase_slopes(observation, point, whitened(observation, point, names, ()))


def _phase_slopes(observation: Observation, point: Doppler, coordinates: Coordinates) -> Slopes:
    """Return how the phase changes with each of the coordinates that whiten all data together."""
    names = coordinates.names
    time, weight = observation.quadrature(NODES)
    zero = jnp.zeros(len(names))

    def of_detector(time: jax.Array, trajectory: Trajectory) -> jax.Array:
        centre = observation.source(point)
        here = sites(trajectory, centre, time)
        return jax.jacfwd(lambda x: phase_difference(here, centre, observation.source(coordinates.point(x))))(zero)

    slopes = jax.vmap(of_detector)(time, observation.trajectory)
    along = along_frequency(coordinates) if "freq" in names else zero
    return Slopes(slopes.reshape(-1, len(names)), along, time.reshape(-1), weight.reshape(-1))


def _tracks_metric(slopes: Any, weight: Any) -> Any:
    """Return the mean over SFTs of the phase metrics, (p, p): the metric of power along tracks.

    With two Gauss-Legendre nodes the mean square of a phase that changes evenly, about its mean, is that of the nodes.
    """
    present = (weight[::NODES] > 0).astype(np.float64)
    change = np.pi * (slopes[::NODES] - slopes[1::NODES]) * present[:, None]
    return change.T @ change / present.sum()


@jit_with(NO_TRIALS, kept=True, static_argnames=("names", "together"))
def tracks_regions(
    observation: Observation, points: Doppler, names: tuple[str, ...], n: int | jax.Array, together: int
) -> jax.Array:
    """Return the unit ball of the metric of tracks at the first n of N templates, as a `Neighbourhood`'s spread:
    (N, p, p).

    Parameters
    ----------
    observation : Observation
        Without segments.
    points : Doppler
        Stack of N templates.
    names : tuple of p str, static
    n : () int32
    together : int, static
        Number of templates to compute together, a divisor of N.
    """

    def one(point: Doppler) -> jax.Array:
        coordinates = whitened(observation, point, names, ())
        slopes, _, _, weight = _phase_slopes(observation, point, coordinates)
        factor = jnp.linalg.cholesky(_tracks_metric(slopes, weight) + RIDGE * jnp.eye(len(names)))
        return jax.jacfwd(coordinates.values)(jnp.zeros(len(names))) @ jnp.linalg.inv(factor).T

    return in_groups(jax.vmap(one), points, together, n)


def _trial_points(before: np.ndarray, now: np.ndarray, along: np.ndarray) -> float:
    """Return about how many trial points by one metric cover the unit ball of another, across the frequency."""
    ridge = RIDGE * np.eye(len(now))
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
    starts = _starts(sfts)
    cuts, edges = np.linspace(sfts.start, sfts.end, stages[0] + 1), []
    for n in stages:
        last = len(cuts) - 1
        cuts = cuts[:: last // n] if last % n == 0 else np.linspace(sfts.start, sfts.end, n + 1)
        counts = np.diff(np.searchsorted(starts, cuts))
        pairs = [(float(a), float(b)) for a, b, count in zip(cuts[:-1], cuts[1:], counts, strict=True) if count]
        edges.append(pairs if len(pairs) > 1 else None)
    return edges


def possible_divisions(sfts: SFTs, found: Provenance) -> tuple[int, ...]:
    """Return the numbers of equal segments into which the search of some candidates may have cut the span of the SFTs.

    The search's table says how many segments hold SFTs, and how long the longest is. Few numbers agree with both, and
    the smallest is nearly always the search's. None does after a search of segments of clearly unequal lengths; 1 does
    after a coherent search.

    Parameters
    ----------
    sfts : SFTs
    found : Provenance
        Of the candidates.
    """
    held, longest = found.n_segments, found.segment_tspan
    if held is None or longest is None:
        return (held or 1,)
    starts, span = _starts(sfts), sfts.end - sfts.start
    numbers = []
    # an SFT belongs to the segment in which it starts
    for n in range(held, int(span / max(longest - sfts.tsft, span / len(starts))) + 2):
        at = np.searchsorted(starts, np.linspace(sfts.start, sfts.end, n + 1) - CLOSE)
        first, last = at[:-1][np.diff(at) > 0], at[1:][np.diff(at) > 0] - 1
        if len(first) == held and abs(np.max(starts[last] - starts[first]) + sfts.tsft - longest) < SAME:
            numbers.append(n)
    return tuple(numbers)


def _starts(sfts: SFTs) -> np.ndarray:
    """Return the start times of all detectors' SFTs, GPS s, in order."""
    return np.sort(np.concatenate([series.gps + 1e-9 * series.gps_ns for series in sfts]))


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
