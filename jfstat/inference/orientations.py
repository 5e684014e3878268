"""Choose the orientations, cosi and psi, at which a likelihood is summed for an integral over a prior.

A direction of the four amplitudes without its size and phase is a point on the Poincare sphere: cosi is a function of
its height, and 4 psi is its longitude. In amplitudes whitened by the Fisher matrix the points form a sphere again, on
which the likelihood depends only on the angle theta from the best orientation: maximised over h0 and phi0 its logarithm
is F cos^2(theta/2). The density of the prior diverges, integrably, at the two points of circular polarisation. Around
each of these three points polar angles with a logarithmic radius make the integrand smooth however narrow the peak is
and however differently the two polarisations are measured, so that equally spaced sums converge exponentially. Each
sum has the share of the integrand that the distances from the three points give it.

With a prior of cosi or psi the integrand is summed on a grid over the part of the prior's range in which it counts. The
part is found by looking at coarse grids, each of which lies in the part that counted in the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from jfstat.inference.amplitudeprior import (
    OF_ORIENTATION,
    PERIOD,
    WIDTHS,
    AmplitudePrior,
    cut_beyond_a_period,
    cuts,
    is_distribution,
)
from jfstat.inference.distributions import SIGMAS, Distribution, Normal
from jfstat.statistic.combine import AntennaMatrix
from jfstat.statistic.likelihood import AmplitudeLikelihood

AZIMUTHS = 20
"""Number of azimuths around each of the three points."""
RADII = 48
"""Number of radii around each of the three points."""
FARTHEST = 6.0
"""Logarithm of the largest tan(theta/2): beyond it lies 1e-5 of the sphere's area."""
PEAK_START = 5.5
"""Where radii around the peak begin, in logarithms below its width: 1e-5 of its integral lies within."""
NEAR = 2.5
"""Where the integrand around a circular polarisation becomes a power of the radius, in logarithms below the width of
the peak; or one below the distance to the other circular polarisation."""
POLE_START = 3.0
"""Where radii around circular polarisations begin, in steps of x below that; see `OnSphere.at`."""
SOFTENING = 4.0
"""Inverse of the distance from the peak, in its widths, within which circular polarisations have the larger share."""
SHARE_POWER = 4
"""Power of the inverse distance that sets the shares of the three points: it takes the singularity of each out of the
sums around the others."""
GRID = 96
"""Number of values of cosi, and of psi, where the prior of either is not isotropic."""
FINER_GRID = 192
"""Number of values of cosi where it has no prior and psi has one: evenly spaced in inclination, few lie near zero."""
CELLS, LOOKS = 32, 5
"""Number of cells, in cosi and in psi, in which one looks where the integrand counts, and how often."""
COUNTS = 40.0
"""Logarithm of the largest value of the integrand over the least that counts."""
WHOLE = ((0.0, 1.0), (0.0, 1.0))
"""The whole ranges of cosi and psi, as fractions."""
WRAPPED = 8
"""Periods of psi on each side that a normal prior reaches, if its standard deviation is less than one."""
LEAST_EIGENVALUE = 1e-12
"""Least eigenvalue of a Fisher matrix, over its largest: smaller ones, of polarisations not seen, are replaced."""
LEAST_FISHER = 1e-100
"""Least eigenvalue that a Fisher matrix is taken to have; those of data are some 1e45."""
NOWHERE = -1e300
"""Where radii around the peak begin to shrink exponentially: they do not."""
TINY = float(np.finfo(np.float64).tiny)


class Orientations(NamedTuple):
    """Orientations with their shares of the prior.

    Attributes
    ----------
    cosi, psi : (n,) float64
    log_weight : (n,) float64
        Logarithm of the prior probability that each stands for.
    """

    cosi: jax.Array
    psi: jax.Array
    log_weight: jax.Array


class OnSphere(NamedTuple):
    """Orientations for an isotropic prior: around the best one (0) and the two circular polarisations (1 and 2).

    Attributes
    ----------
    centres, across : (3, 2) complex128
        Unit vectors of whitened amplitudes at the three points, and vectors at right angles to them.
    right, left : (2,) complex128
        Rows such that right.v and left.v are h0 (1 + cosi)^2/4 and h0 (1 - cosi)^2/4 of whitened amplitudes v, times
        phase factors whose phases differ by 4 psi. At point 1 left.v is zero, at point 2 right.v.
    log_determinant : () float64
        Logarithm of the square of the determinant of these two rows.
    softening : (3,) float64
        Distances below which a point has no larger share.
    first, step, bend : (3,) float64
        First x, step of x and where the radius begins to shrink exponentially with x; see `at`.
    """

    centres: jax.Array
    across: jax.Array
    right: jax.Array
    left: jax.Array
    log_determinant: jax.Array
    softening: jax.Array
    first: jax.Array
    step: jax.Array
    bend: jax.Array

    @property
    def nodes(self) -> Orientations:
        """The orientations of the sum, (3 * RADII * AZIMUTHS,)."""
        return self._at_indices(jnp.arange(3 * RADII * AZIMUTHS), jnp.float64(0.0), jnp.float64(0.0))

    def near(self, key: jax.Array, indices: jax.Array) -> Orientations:
        """Return random orientations in the cells of given nodes, with the weight of a cell of the density there."""
        x, azimuth = jax.random.uniform(key, (2, *indices.shape), jnp.float64, -0.5, 0.5)
        return self._at_indices(indices, x, azimuth)

    def _at_indices(self, indices: jax.Array, x: jax.Array, azimuth: jax.Array) -> Orientations:
        k, own = indices // (RADII * AZIMUTHS), indices % (RADII * AZIMUTHS)
        radius, around = (part.astype(jnp.float64) for part in (own // AZIMUTHS, own % AZIMUTHS))
        x = self.first[k] + self.step[k] * (radius + x)
        return self.at(k, x, 2 * np.pi / AZIMUTHS * (around + azimuth))

    def at(self, k: jax.Array, x: jax.Array, azimuth: jax.Array) -> Orientations:
        """Return orientations around the k-th point, (n,) all; weights are those of cells of one step and one azimuth.

        The logarithm of tan(theta/2) is x - exp(bend - x): around circular polarisations the integrand falls only with
        the root of the radius, and few steps reach far.
        """
        stretch = jnp.exp(self.bend[k] - x)
        radius = x - stretch
        log_cos = -0.5 * jnp.logaddexp(0.0, 2 * radius)  # of theta/2
        cos = jnp.exp(log_cos).astype(jnp.complex128)
        sin = jnp.exp(jax.lax.complex(log_cos + radius, azimuth))

        def along(row: jax.Array, vanishes: int | None) -> jax.Array:
            """Return row.v; the row vanishes at one of the three points."""
            at_centre, at_right_angle = self.centres @ row, self.across @ row
            if vanishes is not None:
                at_centre = at_centre.at[vanishes].set(0.0)  # but for rounding
            return cos * at_centre[k] + sin * at_right_angle[k]

        distances = jnp.stack([jnp.abs(along(self.across[j].conj(), j)) for j in range(3)])
        squares = jnp.square(distances) + jnp.square(self.softening)[:, None] + TINY
        inverse = -0.5 * SHARE_POWER * jnp.log(squares)
        log_share = jnp.take_along_axis(inverse, k[None], axis=0)[0] - logsumexp(inverse, axis=0)
        right, left = along(self.right, 2), along(self.left, 1)
        strong, weak = (jnp.sqrt(jnp.maximum(jnp.abs(value), TINY)) for value in (right, left))
        log_density = self.log_determinant - np.log(16 * np.pi)
        log_density = log_density - 3 * jnp.log(strong * weak) - 2 * jnp.log(strong + weak)
        log_area = 2 * (np.log(2.0) + radius + 2 * log_cos) + jnp.log1p(stretch)
        log_cell = jnp.log(self.step[k]) + np.log(2 * np.pi / AZIMUTHS)
        return Orientations(
            cosi=(strong - weak) / (strong + weak),
            psi=0.25 * jnp.angle(right * left.conj()),
            log_weight=log_share + log_density + log_area + log_cell,
        )


class OnGrid(NamedTuple):
    """Orientations for a prior that is not isotropic: nodes of Gauss and Legendre between the ends of the prior.

    Attributes
    ----------
    prior : AmplitudePrior
    sigmas : () float64
        Standard deviations to which normal priors reach.
    box : (2, 2) float64
        Between which fractions of the ranges of cosi and psi the nodes lie.
    """

    prior: AmplitudePrior
    sigmas: jax.Array | float = SIGMAS
    box: jax.Array | tuple[tuple[float, float], ...] = WHOLE

    @property
    def nodes(self) -> Orientations:
        """The orientations of the sum, (n,): some values of each parameter, or the known one."""
        (u, share_u), (v, share_v) = (legendre(n) for n in self._counts)
        grid = np.meshgrid(u, v, indexing="ij"), np.meshgrid(np.log(share_u), np.log(share_v), indexing="ij")
        return self._at(*(jnp.asarray(x.reshape(-1)) for pair in grid for x in pair))

    def near(self, key: jax.Array, indices: jax.Array) -> Orientations:
        """Return random orientations in the cells of given nodes, with the weight of a cell of the density there."""
        own = indices // self._counts[1], indices % self._counts[1]
        random = jax.random.uniform(key, (2, *indices.shape), jnp.float64)
        parts = []
        for count, index, u in zip(self._counts, own, random, strict=True):
            edges = jnp.asarray(np.append(0.0, np.cumsum(legendre(count)[1])))
            parts.append((edges[index] + u * (edges[index + 1] - edges[index]), edges[index + 1] - edges[index]))
        (u, share_u), (v, share_v) = parts
        return self._at(u, v, jnp.log(share_u), jnp.log(share_v))

    @property
    def _counts(self) -> tuple[int, int]:
        """Numbers of values of cosi and psi: one if they are known."""
        known = [not (x is None or is_distribution(x)) for x in (self.prior.cosi, self.prior.psi)]
        of_cosi = FINER_GRID if self.prior.cosi is None and self.prior.psi is not None else GRID
        return 1 if known[0] else of_cosi, 1 if known[1] else GRID

    def _at(self, u: jax.Array, v: jax.Array, share_u: jax.Array, share_v: jax.Array) -> Orientations:
        """Return orientations at fractions of the ranges, (n,), of cells with given logarithms of their fractions."""
        # isotropic: in the inclination, in which amplitudes that go to zero face on are smooth, too
        known, box = (self.prior.cosi, self.prior.psi), jnp.asarray(self.box)
        low, width = box[:, 0], box[:, 1] - box[:, 0]
        u, v = low[0] + u * width[0], jnp.mod(low[1] + v * width[1], 1.0)
        cosi, of_cosi = _between(known[0], u, self.sigmas) if known[0] is not None else _isotropic(u)
        psi, of_psi = (
            _within_a_period(known[1], v, self.sigmas)
            if known[1] is not None
            else (WIDTHS["psi"] * (v - 0.5), jnp.zeros_like(v))
        )
        return Orientations(cosi, psi, of_cosi + of_psi + share_u + share_v + jnp.sum(jnp.log(width)))

    def where_it_counts(self, over_amplitudes: Callable[[jax.Array, jax.Array], jax.Array]) -> OnGrid:
        """Return nodes in the part of the range in which the integrand counts.

        Parameters
        ----------
        over_amplitudes : callable
            Logarithm of the integral over the amplitudes at cosi and psi, (n,) each.
        """
        counts = [1 if n == 1 else CELLS for n in self._counts]
        centres = np.meshgrid(*((np.arange(n) + 0.5) / n for n in counts), indexing="ij")
        u, v = (jnp.asarray(x.reshape(-1)) for x in centres)

        def closer(k: jax.Array, box: jax.Array) -> jax.Array:
            nodes = self._replace(box=box)._at(u, v, jnp.zeros_like(u), jnp.zeros_like(v))
            values = (nodes.log_weight + over_amplitudes(nodes.cosi, nodes.psi)).reshape(counts)
            values = jnp.where(jnp.isnan(values), -jnp.inf, values)
            top, best = jnp.max(values), jnp.unravel_index(jnp.argmax(values), counts)
            # a peak half a cell away is higher by an eighth of the second difference, in each direction
            beside = [
                values[tuple(jnp.clip(x + step * (axis == a), 0, counts[a] - 1) for a, x in enumerate(best))]
                for axis in (0, 1)
                for step in (-1, 1)
            ]
            drops = jnp.where(jnp.isfinite(jnp.stack(beside)), top - jnp.stack(beside), 0.0)
            kept = values >= top - COUNTS - 0.5 * (jnp.max(drops[:2]) + jnp.max(drops[2:]))
            edges = []
            for axis, n in enumerate(counts):
                some = jnp.any(kept, axis=1 - axis)
                first, last = jnp.argmax(some) - 1, n + 1 - jnp.argmax(some[::-1])
                edges.append(jnp.clip(jnp.stack([first, last]).astype(jnp.float64) / n, 0.0, 1.0))
            around = box[:, :1] + (box[:, 1:] - box[:, :1]) * jnp.stack(edges)
            # signals repeat in psi: at first their peak is moved to the middle
            middle = (best[1].astype(jnp.float64) + 0.5) / counts[1]
            turned = jnp.stack([middle - 0.5, middle + 0.5]) if counts[1] > 1 else box[1]
            return around.at[1].set(jnp.where(_repeats(self.prior.psi, self.sigmas) & (k == 0), turned, around[1]))

        return self._replace(box=jax.lax.fori_loop(0, LOOKS, closer, jnp.asarray(self.box)))


def legendre(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes of Gauss and Legendre between 0 and 1 and their weights, (n,) each."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    return 0.5 * (nodes + 1), 0.5 * weights


def _isotropic(u: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return cosi at fractions u of the inclinations and the logarithms of isotropic densities in u, (n,) each."""
    return -jnp.cos(np.pi * u), jnp.log(0.5 * np.pi * jnp.sin(np.pi * u))


def _between(prior: Distribution | jax.Array, u: jax.Array, sigmas: jax.Array | float) -> tuple[jax.Array, jax.Array]:
    """Return values at fractions u of a prior's range and the logarithms of their densities in u, (n,) each.

    A known value is the same at all u.
    """
    if not isinstance(prior, OF_ORIENTATION):
        return jnp.broadcast_to(jnp.asarray(prior), u.shape), jnp.zeros_like(u)
    low, high = prior.range(sigmas)
    values = low + u * (high - low)
    return values, prior.log_prob(values) + jnp.log(high - low)


class PsiRange(NamedTuple):
    """Range of a normal prior of psi that counts.

    Attributes
    ----------
    low, high : () float64
        Ends of the range; of a prior that is cut, within a period of the cut.
    wrapped : () bool
        Whether it covers a period, over which the prior is then wrapped.
    """

    low: jax.Array
    high: jax.Array
    wrapped: jax.Array


def _range_of_psi(prior: Normal, sigmas: jax.Array | float) -> PsiRange:
    (low, high), (cut_below, cut_above) = prior.range(sigmas), cuts(prior)
    wrapped = (high - low > PERIOD) & ~cut_below & ~cut_above
    # what lies further from a cut is a signal with a psi whose prior is higher
    first = jnp.where(cut_above & ~cut_below, jnp.maximum(low, high - PERIOD), low)
    last = jnp.where(cut_below, jnp.minimum(high, low + PERIOD), high)
    return PsiRange(first, last, wrapped)


def _repeats(prior: Distribution | jax.Array | None, sigmas: jax.Array | float) -> jax.Array:
    """Return whether a prior of psi covers one period, at whose ends signals and their densities are the same."""
    if isinstance(prior, Normal):
        return _range_of_psi(prior, sigmas).wrapped
    if not isinstance(prior, OF_ORIENTATION):
        return jnp.bool_(prior is None)
    return jnp.abs(prior.high - prior.low - PERIOD) < 1e-9 * PERIOD


def _within_a_period(
    prior: Distribution | jax.Array, u: jax.Array, sigmas: jax.Array | float
) -> tuple[jax.Array, jax.Array]:
    """Return `_between` for psi: a normal prior that is wider than the period of psi is wrapped around it."""
    if not isinstance(prior, Normal):
        return _between(prior, u, sigmas)
    low, high, wide = _range_of_psi(prior, sigmas)
    values = low + u * (high - low)
    around = prior.mu + PERIOD * (u - 0.5)
    turns = PERIOD * np.arange(-WRAPPED, WRAPPED + 1.0)
    wrapped = logsumexp(prior.log_prob(around[:, None] + turns), axis=1)
    # still wider ones are uniform to 1e-8
    wrapped = jnp.where(prior.sigma < PERIOD, wrapped, -np.log(PERIOD)) + np.log(PERIOD)
    log_density = jnp.where(wide, wrapped, prior.log_prob(values) + jnp.log(high - low))
    log_density = jnp.where(cut_beyond_a_period(prior), jnp.nan, log_density)
    return jnp.where(wide, around, values), log_density


def orientations(
    likelihood: AmplitudeLikelihood,
    prior: AmplitudePrior,
    over_amplitudes: Callable[[jax.Array, jax.Array], jax.Array] | None = None,
) -> OnSphere | OnGrid:
    """Return orientations that resolve the likelihood at one template, times the prior.

    They have no derivatives by the likelihood: an integral does not depend on where its integrand is sampled.

    Parameters
    ----------
    likelihood : AmplitudeLikelihood
    prior : AmplitudePrior
    over_amplitudes : callable, optional
        As in `OnGrid.where_it_counts`, without derivatives. Without it a grid covers the whole prior, as amplitudes
        need it that are far below the best one.
    """
    fixed = jax.tree.map(jax.lax.stop_gradient, likelihood)
    if prior.cosi is None and prior.psi is None:
        return jax.tree.map(jax.lax.stop_gradient, _on_sphere(fixed))
    return OnGrid(prior) if over_amplitudes is None else grid_of([fixed], prior, over_amplitudes)


def grid_of(
    likelihoods: Sequence[AmplitudeLikelihood],
    prior: AmplitudePrior,
    over_amplitudes: Callable[[jax.Array, jax.Array], jax.Array],
) -> OnGrid:
    """Return the nodes of a grid that resolve a product of likelihoods without derivatives, times the prior."""
    squares = [jnp.sum(jnp.square(jnp.abs(_whitened(own)[1]))) for own in likelihoods]
    # beyond the likelihood cannot make up for what the prior loses
    sigmas = jnp.sqrt(SIGMAS**2 + sum(squares))
    fixed = jax.tree.map(jax.lax.stop_gradient, prior)
    box = OnGrid(fixed, sigmas).where_it_counts(over_amplitudes).box
    return OnGrid(prior, sigmas, box)


def _whitened(likelihood: AmplitudeLikelihood) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
    """Return the rows (2,) that make amplitudes of a and b of whitened ones, and the data as such, (2,) complex128,
    whose squares add up to 2F."""
    values, vectors = _eigen(likelihood.fisher)
    first, second = vectors / jnp.sqrt(values)[None]
    xa, xb = likelihood.xa, likelihood.xb
    data = jax.lax.complex(first * xa.real + second * xb.real, first * xa.imag + second * xb.imag)
    return (first, second), data


def _on_sphere(likelihood: AmplitudeLikelihood) -> OnSphere:
    """Return orientations for an isotropic prior."""
    values, _ = _eigen(likelihood.fisher)
    (first, second), data = _whitened(likelihood)
    right, left = 0.5 * jax.lax.complex(first, second), 0.5 * jax.lax.complex(first, -second)
    rho = jnp.sqrt(jnp.sum(data.real**2 + data.imag**2))  # the root of 2F
    peak = jnp.where(rho > 0, _unit(data), jnp.asarray([1.0 + 0j, 0j]))
    centres = jnp.stack([peak, _unit(_across(left)), _unit(_across(right))])
    across = jax.vmap(_across)(centres.conj())
    log_width = -jnp.log1p(rho)
    apart = jnp.log(jnp.abs(jnp.sum(across[1].conj() * centres[2])))
    bend = jnp.minimum(apart - 1, log_width - NEAR)
    first_x = jnp.stack([log_width - PEAK_START, bend - POLE_START, bend - POLE_START])
    return OnSphere(
        centres,
        across,
        right,
        left,
        log_determinant=-jnp.log(4 * values[0] * values[1]),
        softening=jnp.stack([jnp.exp(log_width) / SOFTENING, jnp.float64(0.0), jnp.float64(0.0)]),
        first=first_x,
        step=(FARTHEST - first_x) / (RADII - 1),
        bend=jnp.stack([jnp.float64(NOWHERE), bend, bend]),
    )


def _eigen(fisher: AntennaMatrix) -> tuple[jax.Array, jax.Array]:
    """Return the eigenvalues of [[A, C], [C, B]], (2,), the smaller one not too small, and eigenvectors, (2, 2)."""
    A, B, C = fisher
    middle, half = 0.5 * (A + B), 0.5 * (A - B)
    angle = 0.5 * jnp.arctan2(C, half)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    large = jnp.maximum(middle + jnp.hypot(half, C), LEAST_FISHER)  # zero without data
    small = jnp.maximum((A * B - C * C) / large, LEAST_EIGENVALUE * large)
    return jnp.stack([large, small]), jnp.stack([jnp.stack([cos, -sin]), jnp.stack([sin, cos])])


def _across(row: jax.Array) -> jax.Array:
    """Return a vector, (2,), of the same length, on which a row vanishes."""
    return jnp.stack([-row[1], row[0]])


def _unit(x: jax.Array) -> jax.Array:
    return x / jnp.sqrt(jnp.sum(x.real**2 + x.imag**2)).astype(jnp.complex128)
