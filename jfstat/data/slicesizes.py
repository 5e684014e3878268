"""Slices of time that are chosen beforehand, for data that are traced."""

from __future__ import annotations

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.bandseries import STATIC
from jfstat.data.checks import check_data, check_template
from jfstat.data.datatimes import Times
from jfstat.data.direct import Pieces
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrowdata import NODES, NarrowData
from jfstat.data.observation import Observation
from jfstat.data.slices import USUAL_DURATION, Slices, regular_cuts, times_traced
from jfstat.display import Displayed, Facts
from jfstat.geometry.antenna import harmonics
from jfstat.geometry.trajectory import Trajectory
from jfstat.maths.chebyshev import nodes
from jfstat.public import public
from jfstat.signal.templates import Doppler, template_of_any
from jfstat.validation import DurationLike, positive_seconds


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False, eq=False)
class AtomSizes(Displayed):
    """Slices of prepared data, for `atoms` of traced data; made by `jfstat.atom_sizes`.

    A pytree: pass it to jitted functions as an argument, or close over it. They suit all data with the same times and
    frequencies: other realisations of the noise, other weights.

    Attributes
    ----------
    edges : (K + 1,) float64
        Starts of the slices, and the end of the last, s since the epoch.
    cuts : (D, K - 1) float64
        Times at which each detector's data are cut, s since the epoch.
    pieces : Pieces
        Samples of each slice.
    times : Times
        Times of the data for which the slices were made.
    orbit : bool, static
        Whether the template has an orbit.
    block : int, static
        Samples of a timing block of such templates, which `pieces` count.
    """

    edges: jax.Array
    cuts: jax.Array
    pieces: Pieces
    times: Times
    orbit: bool = field(metadata=STATIC)
    block: int = field(metadata=STATIC)

    def _facts(self) -> Facts:
        rows = [
            ("slices", str(self.edges.shape[-1] - 1)),
            ("detectors", str(len(self.cuts))),
            ("orbit", str(self.orbit)),
        ]
        return Facts("AtomSizes", rows)


@public(point=template_of_any)
def atom_sizes(data: FstatData, point: Doppler, duration: DurationLike | None = None) -> AtomSizes:
    """Choose the slices of `atoms` beforehand, so that it works on traced data: under jit and vmap over data.

    Parameters
    ----------
    data : FstatData
        One of the data sets, or any with the same times and frequencies.
    point : Doppler
        Only whether it has an orbit matters.
    duration : float or Quantity, optional
        See `atoms`.

    Returns
    -------
    AtomSizes

    Raises
    ------
    TypeError
        If `data` or `point` is of another kind.
    ValueError
        If `data` are traced or `duration` is too short for the series.

    Examples
    --------
    >>> sizes = jfstat.atom_sizes(data, point, duration=3600)
    >>> jax.jit(jfstat.atoms)(data, point, sizes=sizes).cumulative_twoF.shape
    (12,)
    """
    check_data(data)
    check_template("point", point)
    seconds = USUAL_DURATION if duration is None else positive_seconds(duration, "duration")
    if times_traced(data):
        raise ValueError("data must not be traced: the number of slices follows from their times.")
    with jax.ensure_compile_time_eval():  # under an outer jit, constants stay constants
        edges, cuts, pieces = regular_cuts(data, point, seconds)
        orbit = point.orbit is not None
        block = data.layout.block_of(orbit)
        sizes = AtomSizes(edges, np.stack(cuts), pieces, Times.of(data), orbit, block)  # type: ignore[arg-type]
        return jax.tree.map(jnp.asarray, sizes)


def slices_of(observation: Observation, sizes: AtomSizes) -> Slices:
    """Return the slices that were chosen, with the weights of an observation; traceable."""
    return Slices(sizes.edges[:-1], sizes.edges[1:], traced_moments(observation, sizes.cuts))  # type: ignore[arg-type]


def traced_block_slices(data: NarrowData) -> Slices:
    """Return the blocks of narrow data as slices, as `slices.block_slices` does; traceable."""
    time, x = data.sites.time[0], nodes(NODES)
    half = (time[:, -1] - time[:, 0]) / (x[-1] - x[0])
    centre = 0.5 * (time[:, -1] + time[:, 0])
    end = jax.lax.cummax(centre + half)
    start = jnp.maximum(centre - half, jnp.append(-jnp.inf, end[:-1]))
    cuts = jnp.broadcast_to(end[:-1], (len(data.detectors), len(end) - 1))
    return Slices(start, end, traced_moments(data.observation, cuts))  # type: ignore[arg-type]


def traced_moments(observation: Observation, cuts: jax.Array) -> jax.Array:
    """Return moments of the sidereal harmonics between cuts, as `slices.slice_moments` does; traceable.

    Parameters
    ----------
    observation : Observation
    cuts : (D, K - 1) float64
        Ascending, s since the epoch.

    Returns
    -------
    (D, K, 5, 5) float64
    """
    tsft = observation.tsft
    x, node_weights = np.polynomial.legendre.leggauss(3)

    def one(detector: tuple[jax.Array, jax.Array, Trajectory, jax.Array]) -> jax.Array:
        start, weight, trajectory, cut = detector

        def moments(first: jax.Array, own: jax.Array, length: jax.Array) -> jax.Array:
            seen = harmonics(trajectory.sidereal(first[:, None] + 0.5 * length[:, None] * (1 + x)[None]))
            share = (own * length / tsft)[:, None] * (0.5 * node_weights)[None]
            return jnp.einsum("nqi,nqj,nq->nij", seen, seen, share)

        each = moments(start, weight, jnp.full_like(start, tsft))
        whole = jnp.concatenate([jnp.zeros((1, 5, 5)), jnp.cumsum(each, axis=0)])
        begun = jnp.searchsorted(start, cut, side="left")  # SFTs that start before the cut; the last of them may be cut
        # the last SFT is repeated, with weight zero, where other detectors have more: the first of them counts
        last = jnp.searchsorted(start, start[jnp.maximum(begun - 1, 0)], side="left")
        length = jnp.where(begun > 0, jnp.clip(cut - start[last], 0.0, tsft), 0.0)
        upto = whole[last] + moments(start[last], weight[last], length)
        return jnp.diff(jnp.concatenate([jnp.zeros((1, 5, 5)), upto, whole[-1:]]), axis=0)

    detectors = (observation.start, observation.weight, observation.trajectory, cuts)
    return jax.lax.map(one, jax.tree.map(jnp.asarray, detectors))
