"""Lay out the trial points of `refine` around a candidate: a lattice by the metric, each at many frequencies."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.compileroptions import NO_TRIALS, jit_with
from jfstat.data.eachsegment import each_segment
from jfstat.data.observation import Observation
from jfstat.followup.free import FreeParameters
from jfstat.followup.groups import in_groups
from jfstat.followup.neighbours import frequency_at, uneven_times
from jfstat.maths.ball import covering_ellipsoid, covering_points, ellipsoid_count
from jfstat.metrics.coordinates import Coordinates, whitened
from jfstat.signal.possible import physical
from jfstat.signal.templates import Doppler
from jfstat.signal.values import replaced
from jfstat.validation import is_number, shown

MISMATCH = 1.0
"""Default mismatch up to which the surroundings of a candidate are covered: the metric's unit ball."""
COVERING, COVERING_MANY, MANY = 0.3, 0.5, 5
"""Largest mismatch between a template and the nearest trial point: in few dimensions, and in `MANY` or more, where
points are many and most templates are much closer to one than the furthest."""
STEP = 1 / 3
"""Step in frequency of the trial points, in bins of 1/T: the loss of rho^2 is at most 9 %, and 5 % an eighth of a bin
off."""
SWINGS, LEAST_BINS, MOST_BINS = 2.0, 2.0, 32.0
"""Frequencies covered by default: as multiple of the swing of `Survey`, and fewest and most bins. The
response to a signal at a wrong sky position is a comb of lines, not much wider than the swing."""
MOST_TRIALS = 4096
"""Largest number of trial points around a candidate; of a region that needs more only the inner part is covered."""
TRIAL_SIZES = (256, 2 * MOST_TRIALS)
"""Padded numbers of trial points in a batch."""
REGION_BINS = (8.0, MOST_BINS)
"""Frequencies covered with an ellipsoid, in bins: the smallest sufficient one is used."""


class Neighbourhood(NamedTuple):
    """Region that is covered around a candidate.

    Attributes
    ----------
    mismatch : float
        Largest mismatch by the metric in all parameters except the frequency, for the best frequency.
    bins : float or None
        Largest offset of the frequency at the detectors, in units of 1/T. None chooses it by the covered sky positions
        and orbits.
    spread : (n, p, p) float64 ndarray or None
        Ellipsoids to cover in place of the ball of that mismatch, one for each of n candidates: the steps
        spread @ u of the parameters to fit, at the candidate and to first order, with u @ u <= 1.
    peaks : (n, c, p) float64 ndarray or None
        Parameters at the centres of ellipsoids; the first is the candidate, NaN where there are fewer.
    """

    mismatch: float = MISMATCH
    bins: float | None = None
    spread: np.ndarray | None = None
    peaks: np.ndarray | None = None

    @classmethod
    def checked(cls, mismatch: float, bins: float | None) -> Neighbourhood:
        """Return the neighbourhood that a user's arguments describe.

        Raises
        ------
        ValueError
            If `mismatch` or `bins` is no finite, non-negative number.
        """
        if not _is_size(mismatch):
            raise ValueError(f"mismatch must be a number from 0 on, not {shown(mismatch)}: 0 tries frequencies alone.")
        if bins is not None and not _is_size(bins):
            raise ValueError(f"bins must be None or a number from 0 on, not {shown(bins)}: give it in units of 1/T.")
        return cls(float(mismatch), None if bins is None else float(bins))

    @property
    def in_regions(self) -> bool:
        """Whether ellipsoids are covered, which a stage of a follow-up or a search for tracks left."""
        return self.spread is not None

    def check_size(self, n_across: int) -> None:
        """Raise a ValueError if a ball in a number of dimensions would need more than `MOST_TRIALS` points.

        Raises
        ------
        ValueError
        """
        if n_across == 0 or self.mismatch == 0:
            return
        count = ellipsoid_count(np.full(n_across, np.sqrt(self.mismatch)), _covering(n_across))
        if count > MOST_TRIALS:
            raise ValueError(
                f"mismatch={self.mismatch:g} would need {count:.1g} trial points in {n_across} parameters: give a "
                "smaller one, or mismatch=0, which tries other frequencies alone, or refine fewer parameters."
            )

    def in_ball(self, n_across: int) -> np.ndarray:
        """Return points that cover a ball in a number of dimensions, in whitened coordinates, (t, n_across) float64."""
        return covering_points(n_across, np.sqrt(self.mismatch), _covering(n_across))

    def trial_points(self, known: Survey) -> tuple[np.ndarray, np.ndarray]:
        """Return trial points around n candidates, and how much of each region they cover.

        Parameters
        ----------
        known : Survey
            Stacked, NumPy leaves.

        Returns
        -------
        points : (n, t, p) float64
            Trial points in whitened coordinates, the origin first; NaN where a candidate has fewer than others.
        covered : (n,) float64
            Factor by which the covered region is smaller in every direction than the wanted one; 1 if it is not
            smaller.
        """
        n, q, _ = known.basis.shape
        if self.spread is None:
            return np.einsum("tq,nqp->ntp", self.in_ball(q), known.basis), np.ones(n)
        distance, each, covered = _covering(q), [], []
        for axes, basis, offsets, present in zip(known.axes, known.basis, known.offsets, known.present, strict=True):
            centres = offsets[present]
            points, factor = covering_ellipsoid(axes, distance, MOST_TRIALS // len(centres))
            each.append((centres[:, None] + points @ basis).reshape(-1, centres.shape[1]))
            covered.append(factor)
        # few sizes need few compilations; unused points cost nothing
        size = max(map(len, each))
        size = next((own for own in TRIAL_SIZES if own >= size), size)
        filled = [np.pad(x, [(0, size - len(x)), (0, 0)], constant_values=np.nan) for x in each]
        return np.stack(filled), np.array(covered)

    def frequency_bins(self, swing: np.ndarray, along: np.ndarray, tspan: float) -> np.ndarray:
        """Return the largest frequency offsets covered, in bins, (n,): a power of two, unless given by the user.

        Parameters
        ----------
        swing, along : (n,) float64
            Swing and extent along the frequency of each candidate; see `Survey`.
        tspan : float
            Length of the data or of a segment, s.
        """
        if self.bins is not None:
            return np.full(swing.shape, float(self.bins))
        if self.spread is not None:
            # one point of the lattice is close enough to a signal to see its main line
            return np.where(LEAST_BINS + along * tspan <= REGION_BINS[0], *REGION_BINS)
        wanted = np.clip(LEAST_BINS + SWINGS * swing * tspan, LEAST_BINS, MOST_BINS)
        # all candidates get the largest number of bins, because each number needs a compilation, and bins are cheap
        return np.full(swing.shape, np.max(2.0 ** np.ceil(np.log2(wanted))))


def _covering(n_across: int) -> float:
    """Return the largest distance of a template from the nearest trial point in a number of dimensions."""
    return math.sqrt(COVERING if n_across < MANY else COVERING_MANY)


def _is_size(x: Any) -> bool:
    """Return whether a value is one finite, non-negative number."""
    return bool(is_number(x) and x >= 0)


def frequency_shifts(bins: float, tspan: float) -> np.ndarray:
    """Return the offsets of the frequency to try, Hz, (F,) float64, of which the middle one is zero."""
    n = int(np.ceil(bins / STEP))
    return np.arange(-n, n + 1) * (STEP / tspan)


class Survey(NamedTuple):
    """Coordinates and region of a candidate, needed before its data are narrowed; with a leading axis for a stack.

    Attributes
    ----------
    coordinates : Coordinates
    swing : () float64
        Largest deviation, Hz, over time, of the frequency at the detectors from the candidate's, for templates at the
        edge of the covered region. The coordinates keep the mean frequency.
    axes : (q, q) float64
        Semi-axes, in columns, of the ellipsoid to cover, in whitened coordinates across the frequency.
    basis : (q, p) float64
        Whitened coordinates of the basis in which `axes` are given.
    offsets : (c, p) float64
        Whitened coordinates of the centres of the regions to cover, of which the first is the origin.
    present : (c,) bool
        Whether there is such a centre: regions may have fewer, and the offsets of the others are 0.
    along : () float64
        Extent of the ellipsoid along the frequency, Hz; 0 for a ball, whose frequencies are chosen otherwise.
    """

    coordinates: Coordinates
    swing: jax.Array
    axes: jax.Array
    basis: jax.Array
    offsets: jax.Array
    present: jax.Array
    along: jax.Array


@jit_with(NO_TRIALS, kept=True, static_argnames="together")
def survey(
    observation: Observation,
    points: Doppler,
    free: FreeParameters,
    mismatch: jax.Array | float,
    regions: tuple[jax.Array, jax.Array] | None,
    n: int | jax.Array,
    together: int,
) -> Survey:
    """Return whitened coordinates of the first n of a stack of N templates that fit the data, and the regions to cover
    in them.

    Parameters
    ----------
    observation : Observation
    points : Doppler
        Stack of N templates.
    free : FreeParameters
    mismatch : float
    regions : pair of (N, p, p) and (N, c, p) float64, optional
        `spread` and `peaks` of `Neighbourhood`, restricted to the parameters of `free`.
    n : () int32
    together : int, static
        Number of templates to compute together, a divisor of N.
    """

    def one(pair: tuple[Doppler, tuple[jax.Array, jax.Array] | None]) -> Survey:
        point, region = pair
        coordinates = whitened(observation, point, free.names, free.bounded)
        q = len(free.names) - ("freq" in free.names)
        basis = across(coordinates, jnp.eye(q))
        axes, along = jnp.sqrt(mismatch) * jnp.eye(q), jnp.zeros(())
        offsets, present = jnp.zeros((1, len(free.names))), jnp.ones(1, bool)
        if region is not None:
            axes, along, offsets, present = _ellipsoids(coordinates, basis, *region)

        def swing(x: jax.Array) -> jax.Array:
            there = coordinates.point(x)
            change = each_segment(lambda own: frequency_change(own, point, there), observation)
            return jnp.where(physical(there), jnp.max(jnp.abs(change)), 0.0)

        edges = jnp.concatenate([axes.T, -axes.T, jnp.zeros((1, q))]) @ basis
        swings = jax.vmap(swing)((offsets[:, None] + edges[None]).reshape(-1, len(free.names)))
        largest = jnp.max(jnp.where(jnp.isfinite(swings), swings, 0.0), initial=0.0)
        return Survey(coordinates, largest, axes, basis, offsets, present, along)

    return in_groups(jax.vmap(one), (points, regions), together, n)


def _ellipsoids(
    coordinates: Coordinates, basis: jax.Array, spread: jax.Array, peaks: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Return `axes`, `along`, `offsets` and `present` of `Survey` for ellipsoids of steps, (p, p), around some
    parameters, (c, p), of which rows of NaN are absent."""
    scale = jnp.linalg.norm(spread, axis=1)
    semi_axes = jnp.linalg.solve(
        jax.jacfwd(coordinates.values)(jnp.zeros_like(scale)) / scale[:, None], spread / scale[:, None]
    )
    present = jnp.all(jnp.isfinite(peaks), axis=1)
    peaks = jnp.where(present[:, None], peaks, peaks[:1])
    steps = jax.vmap(lambda own: coordinates.step_to(replaced(coordinates.centre, coordinates.names, own)))(peaks)
    offsets = jnp.linalg.solve(coordinates.matrix / scale[:, None], (steps / scale[None]).T).T
    offsets = jnp.where(present[:, None], offsets, 0.0).at[0].set(0.0)
    turned, radii, _ = jnp.linalg.svd(basis @ semi_axes)
    axes = turned * radii[None]
    if "freq" not in coordinates.names:
        return axes, jnp.zeros(()), offsets, present
    unit = along_frequency(coordinates)
    return axes, jnp.linalg.norm(unit @ semi_axes) / (unit @ unit), offsets, present


def frequency_change(observation: Observation, point: Doppler, other: Doppler) -> jax.Array:
    """Return a template's frequency minus another's at the first detector at some times, (TIMES,) float64, Hz."""
    times, heterodyne = uneven_times(observation), point.fkdot[0]
    return frequency_at(observation, heterodyne, other, times) - frequency_at(observation, heterodyne, point, times)


def along_frequency(coordinates: Coordinates) -> jax.Array:
    """Return the change of the whitened coordinates per Hz of the frequency at the detectors, (p,) float64."""
    unit = jnp.zeros(len(coordinates.names)).at[coordinates.names.index("freq")].set(1.0)
    return jnp.linalg.solve(coordinates.matrix, unit)


def across(coordinates: Coordinates, points: jax.Array) -> jax.Array:
    """Return whitened coordinates, (..., p), of points given in an orthonormal basis of the space across the frequency.

    Parameters
    ----------
    coordinates : Coordinates
    points : (..., q) float64
        q is p - 1 if the frequency is among the parameters, and p otherwise, where the points are returned as they are.
    """
    if "freq" not in coordinates.names:
        return points
    # the columns of a reflection that takes the first axis to the frequency's, without that axis
    along = along_frequency(coordinates)
    along = along / jnp.linalg.norm(along)
    first = jnp.zeros_like(along).at[0].set(1.0)
    normal = along + jnp.where(along[0] < 0, -1.0, 1.0) * first
    reflection = jnp.eye(len(along)) - 2 * jnp.outer(normal, normal) / (normal @ normal)
    return points @ reflection[:, 1:].T


def distance_across(coordinates: Coordinates, x: jax.Array) -> jax.Array:
    """Return the distance of whitened coordinates, (p,), from the origin, for the best frequency if it is a
    parameter."""
    if "freq" not in coordinates.names:
        return jnp.linalg.norm(x)
    along = along_frequency(coordinates)
    return jnp.linalg.norm(x - (along @ x) / (along @ along) * along)
