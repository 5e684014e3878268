"""From a candidate and the metric there to coordinates in which its peak is round: one unit is all of rho^2 lost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp

from jfstat.data.fstatdata import FstatData, static
from jfstat.data.timing import reference_offset
from jfstat.geometry.barycenter import sky_vector
from jfstat.metrics.metric import metric_along
from jfstat.metrics.quadrature import quadrature
from jfstat.parameters import (
    SKY,
    check_parameters,
    in_usual_order,
    replaced,
    spin_order,
    usual_parameters,
    values,
    with_fields,
)
from jfstat.statistic.check import check_data, check_point
from jfstat.templates import Doppler

SKY_CURVATURE = 0.3
"""Metric added for the sky, 1/rad^2: keeps a unit of a coordinate below 2 rad where short data hardly see the sky."""
ENOUGH_SFTS = 1000
"""SFTs a detector from which the metric is good enough to whiten by: each 2 h of 100 d."""
RELATIVE_CURVATURE = 1e-3
"""The same for an orbit's parameters, in units of their own size."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Coordinates:
    """Whitened coordinates x, (p,) float64, around a template; made by `whiten`.

    An offset x costs ``x @ x`` of rho^2, to second order and as far as the metric of the two amplitudes' average goes.
    The sky is a plane that touches the sphere at the centre, so that there are no poles; and where frequency and its
    derivatives vary as well, a step on the sky moves them such that the frequency at the detectors stays, in the mean:
    then a peak stays round when its sky position is uncertain by much.

    Attributes
    ----------
    centre : Doppler
        Where x = 0.
    matrix : (p, p) float64
        From x to steps: Hz, Hz/s, ..., at the data's mid-time and in the detectors' frame where frequencies are free;
        rad east and north on the plane of the sky; an orbit's parameters as they are. For errors of the parameters
        themselves use ``jax.jacfwd(coordinates.values)(x)``.
    drift : (q, 3) float64
        What a change of the unit vector to the source does to frequency and derivatives at the data's mid-time, per Hz.
    shift : (q, q) float64
        From frequency and derivatives at the mid-time to those at the reference time.
    names : tuple of str, static
        The parameters that vary.
    flat_sky : bool, static
        Whether the sky is a tangent plane.
    """

    centre: Doppler
    matrix: jax.Array
    drift: jax.Array
    shift: jax.Array
    names: tuple[str, ...] = static()
    flat_sky: bool = static()

    def point(self, x: jax.Array) -> Doppler:
        """The template at coordinates x, (p,) float64; differentiable."""
        return self.stepped(self.matrix @ x)

    def values(self, x: jax.Array) -> jax.Array:
        """The parameters `names` at coordinates x, (p,) float64."""
        return values(self.point(x), self.names)

    def stepped(self, step: jax.Array) -> Doppler:
        """The template after the steps of `matrix`, (p,): Hz, Hz/s, ..., rad, s."""
        names, centre = self.names, self.centre
        plain = [i for i, name in enumerate(names) if spin_order(name) is None and not (self.flat_sky and name in SKY)]
        spins = [i for i, name in enumerate(names) if spin_order(name) is not None]
        plain_names = [names[i] for i in plain]
        moved = replaced(centre, plain_names, values(centre, plain_names) + step[jnp.array(plain)]) if plain else centre
        turn = jnp.zeros(3)
        if self.flat_sky:
            n0 = sky_vector(centre.alpha, centre.delta)
            turn = _turned(centre, step[jnp.array([names.index(name) for name in SKY])])
            n = n0 + turn
            # the angles' differences, which keep their digits
            alpha = centre.alpha + jnp.arctan2(n0[0] * turn[1] - n0[1] * turn[0], n0[0] * n[0] + n0[1] * n[1])
            delta = jnp.arctan2(n[2], jnp.sqrt(n[0] ** 2 + n[1] ** 2))
            moved = with_fields(moved, alpha=alpha, delta=delta)
        if spins:
            change = self.shift @ (step[jnp.array(spins)] - centre.fkdot[0] * (self.drift @ turn))
            spin_names = [names[i] for i in spins]
            moved = replaced(moved, spin_names, values(centre, spin_names) + change)
        return moved

    def log_volume(self, x: jax.Array) -> jax.Array:
        """Log of the volume of parameters per volume of coordinates, but for a constant; () float64.

        Volume is flat in frequency, its derivatives and the orbit, and isotropic on the sky: the prior that
        `log_posterior` takes.
        """
        if self.flat_sky:
            step = self.matrix @ x
            return -1.5 * jnp.log1p(sum(step[self.names.index(name)] ** 2 for name in SKY))
        return jnp.log(jnp.cos(self.point(x).delta)) if "delta" in self.names else jnp.zeros(())


def whiten(
    data: FstatData, point: Doppler, parameters: Sequence[str] | None = None, *, bounded: Sequence[str] = ()
) -> Coordinates:
    """Coordinates around a template in which its peak of 2F is round, from the metric there.

    Parameters
    ----------
    data : FstatData
    point : Doppler
        One template, scalar fields: x = 0.
    parameters : sequence of str, optional
        The parameters that vary, in any order; all of the template's by default, but for an orbit's ``ecc`` and
        ``argp``.
    bounded : sequence of str, optional
        Parameters that shall be linear in x, because someone means to bound them. If a frequency or a sky position is
        among them, neither is straightened, and long peaks are less round.

    Returns
    -------
    Coordinates

    Raises
    ------
    ValueError
        As `metric`, or if the template does not fit the data.
    """
    check_data(data)
    check_point(data, point)
    names = usual_parameters(point) if parameters is None else check_parameters(point, parameters)
    limited = check_parameters(point, bounded) if len(bounded) else ()
    if not set(limited) <= set(names):
        raise ValueError(f"bounded must be among the parameters that vary, {', '.join(names)}, not {bounded!r}.")
    return whitened(data, point, in_usual_order(point, names), limited)


@partial(jax.jit, static_argnames=("names", "bounded"))
def whitened(data: FstatData, point: Doppler, names: tuple[str, ...], bounded: tuple[str, ...]) -> Coordinates:
    """`whiten` after all decisions; traceable."""
    flat_sky = all(name in names and name not in bounded for name in SKY)
    orders = [k for k in (spin_order(name) for name in names) if k is not None]
    free = not any(spin_order(name) is not None for name in bounded)
    q = len(orders)
    drift, shift = jnp.zeros((q, 3)), jnp.eye(q)
    if q and free and orders == list(range(q)):  # only then can frequencies make up for what the sky does
        if flat_sky:
            drift = _drift(data, q)
        shift = _taylor(reference_offset(data, point) - data.band.middle, q)
    own = Coordinates(point, jnp.eye(len(names)), drift, shift, names, flat_sky)
    zero = jnp.zeros(len(names))
    # the Earth turns slowly enough for a part of the SFTs to do; orbits may not
    every = max(1, data.coverage.start.shape[1] // ENOUGH_SFTS) if point.orbit is None else 1
    g = metric_along(data, point, own.stepped, zero, n_nodes=1, every=every)
    size = jnp.abs(values(point, names))
    for i, name in enumerate(names):
        extra = 0.0
        if name in SKY:
            extra = SKY_CURVATURE
        elif name in ("asini", "period"):
            extra = RELATIVE_CURVATURE / jnp.maximum(size[i], 1e-12) ** 2
        elif name == "tp" and point.orbit is not None:
            extra = RELATIVE_CURVATURE / point.orbit.period**2
        elif name in ("ecc", "argp"):
            extra = RELATIVE_CURVATURE
        g = g.at[i, i].add(extra)
    scale = 1.0 / jnp.sqrt(jnp.diagonal(g))
    size, axes = jnp.linalg.eigh(g * scale[:, None] * scale)
    matrix = scale[:, None] * axes / jnp.sqrt(jnp.maximum(size, 1e-12))
    return Coordinates(point, matrix, drift, shift, names, flat_sky)


def _drift(data: FstatData, q: int) -> jax.Array:
    """Mean velocity, acceleration, ... of the detectors over the data, q of them, (q, 3) float64, over c.

    From the polynomial of degree q in time that fits their position best, about the data's mid-time.
    """
    time, weight = quadrature(data, 1)
    position = jax.vmap(lambda trajectory, t: trajectory(t).position)(data.trajectory, time)
    half = 0.5 * data.band.dtau * data.layout.n_fft
    u = (time - data.band.middle) / half
    powers = jnp.stack([u**k for k in range(q + 1)], axis=-1)
    normal = jnp.einsum("dn,dni,dnj->ij", weight, powers, powers)
    fitted = jnp.linalg.solve(normal, jnp.einsum("dn,dni,dnc->ic", weight, powers, position))
    return jnp.stack([fitted[k] * (math.factorial(k) / half**k) for k in range(1, q + 1)])


def _taylor(later: jax.Array, q: int) -> jax.Array:
    """What takes a frequency and its derivatives, q in all, to a time `later` s later: (q, q) float64."""
    return jnp.stack(
        [
            jnp.stack([later ** (j - k) / math.factorial(j - k) if j >= k else jnp.zeros_like(later) for j in range(q)])
            for k in range(q)
        ]
    )


def _turned(centre: Doppler, step: jax.Array) -> jax.Array:
    """Change of the unit vector to the source, (3,), after a step (east, north) on the sphere's tangent plane."""
    sin_a, cos_a = jnp.sin(centre.alpha), jnp.cos(centre.alpha)
    sin_d, cos_d = jnp.sin(centre.delta), jnp.cos(centre.delta)
    east = jnp.stack([-sin_a, cos_a, jnp.zeros_like(sin_a)])
    north = jnp.stack([-sin_d * cos_a, -sin_d * sin_a, cos_d])
    square = jnp.sum(step * step)
    long = jnp.sqrt(1 + square)
    sideways = (step[0] * east + step[1] * north) / long
    return sideways - (square / (long * (1 + long))) * sky_vector(centre.alpha, centre.delta)
