"""Whitened coordinates around a candidate: the metric is the identity, so that the candidate's peak of 2F is round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jfstat import kinds
from jfstat.data.checks import check_point, check_template, observation_of
from jfstat.data.eachsegment import each_segment
from jfstat.data.fstatdata import FstatData
from jfstat.data.observation import FEW_SFTS, Observation
from jfstat.display import Displayed
from jfstat.maths.vectors import unit_vector
from jfstat.metrics.metric import metric_along
from jfstat.metrics.segmentpower import losses
from jfstat.public import public
from jfstat.signal.parameters import MOTION_FIELDS, SKY, is_of_model, spin_order
from jfstat.signal.templates import Doppler, template
from jfstat.signal.values import (
    check_parameters,
    in_usual_order,
    replaced,
    usual_parameters,
    values,
    with_fields,
)
from jfstat.validation import as_float64

HIGHEST = 0.5 * math.pi - 1e-7
"""Largest declination of a centre, rad: rounding puts 1e-16/cos^2(delta) into second derivatives."""
SKY_CURVATURE = 0.3
"""Constant added to the metric of the sky, 1/rad^2, to keep a unit of a coordinate below 2 rad for short data."""
ENOUGH_SFTS = 1000
"""Number of SFTs per detector that is enough for whitening: one every 2 h in 100 d."""
RELATIVE_CURVATURE = 1e-3
"""Constant added to the metric of an orbit's parameters, relative to the inverse square of their size."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False, eq=False)
class Coordinates(Displayed):
    """Whitened coordinates x, (p,) float64, around a template; see `whiten`.

    An offset x loses, to second order, the fraction ``x @ x`` of rho^2, averaged over amplitudes; for data with
    segments, of the summed rho^2. The sky is a plane tangent to the sphere at the centre, without poles. If frequency
    and derivatives vary too, a step on the sky changes them such that the mean frequency at the detectors stays the
    same. A peak is then round even if its sky position is very uncertain.

    Attributes
    ----------
    centre : Doppler
        Template at x = 0.
    matrix : (p, p) float64
        Matrix from x to steps: Hz, Hz/s, ..., at the data's mid-time and in the detectors' frame if frequencies are not
        bounded; rad east and north on the plane of the sky; differences of an orbit's parameters. For errors of the
        parameters themselves use ``jax.jacfwd(coordinates.values)(x)``.
    drift : (q, 3) float64
        Change of frequency and derivatives at the data's mid-time per change of the unit vector to the source and Hz.
    shift : (q, q) float64
        Matrix that propagates frequency and derivatives from the mid-time to the reference time.
    effective_segments : () float64
        Effective number of segments, for the noise of a sum over them: the sum of their metrics over their mean
        weighted by rho^2, averaged over the coordinates. It is the number of segments if all are alike, and 1 without.
    names : tuple of str, static
        Names of the parameters that vary.
    flat_sky : bool, static
        Whether the sky is a tangent plane.
    """

    centre: Doppler
    matrix: jax.Array
    drift: jax.Array
    shift: jax.Array
    effective_segments: jax.Array
    names: tuple[str, ...] = field(metadata=dict(static=True))
    flat_sky: bool = field(metadata=dict(static=True))

    def point(self, x: jax.Array) -> Doppler:
        """Return the template at coordinates x, (p,) float64; differentiable.

        Raises
        ------
        ValueError
            If x has another length.
        """
        x = as_float64(x, "x")
        if x.shape != (len(self.names),):
            raise ValueError(f"x must have the shape {(len(self.names),)} of {', '.join(self.names)}, not {x.shape}.")
        return self.stepped(self.matrix @ x)

    def values(self, x: jax.Array) -> jax.Array:
        """Return the parameters `names` at coordinates x, (p,) float64."""
        return values(self.point(x), self.names)

    @jax.jit  # programs that call this share one trace
    def stepped(self, step: jax.Array) -> Doppler:
        """Return the template after a step, (p,), in the units of `matrix`: Hz, Hz/s, ..., rad, s."""
        names, centre = self.names, self.centre
        plain = [i for i, name in enumerate(names) if spin_order(name) is None and not (self.flat_sky and name in SKY)]
        spins = [i for i, name in enumerate(names) if spin_order(name) is not None]
        plain_names = [names[i] for i in plain]
        moved = replaced(centre, plain_names, values(centre, plain_names) + step[jnp.array(plain)]) if plain else centre
        turn = jnp.zeros(3)
        if self.flat_sky:
            sky = step[jnp.array([names.index(name) for name in SKY])]
            turn = _turned(centre, sky)
            sin, cos = jnp.sin(centre.delta), jnp.cos(centre.delta)
            outwards = cos - sin * sky[1]  # from the Earth's axis, in the plane of the centre's meridian
            alpha = centre.alpha + jnp.arctan2(sky[0], outwards)
            delta = jnp.arctan2(sin + cos * sky[1], jnp.sqrt(sky[0] ** 2 + outwards**2))
            moved = with_fields(moved, alpha=alpha, delta=delta)
        if spins:
            change = self.shift @ (step[jnp.array(spins)] - centre.fkdot[0] * (self.drift @ turn))
            spin_names = [names[i] for i in spins]
            moved = replaced(moved, spin_names, values(centre, spin_names) + change)
        return moved

    def step_to(self, point: Doppler) -> jax.Array:
        """Return the step, (p,) float64, that `stepped` takes to a template less than a quarter of a circle away."""
        names, centre = self.names, self.centre
        step = values(point, names) - values(centre, names)
        turn = jnp.zeros(3)
        if self.flat_sky:
            n0, n = unit_vector(centre.alpha, centre.delta), unit_vector(point.alpha, point.delta)
            turn = n - n0
            tangents = jax.jacfwd(lambda step: _turned(centre, step))(jnp.zeros(2))
            step = step.at[jnp.array([names.index(name) for name in SKY])].set(turn @ tangents / (n0 @ n))
        spins = jnp.array([i for i, name in enumerate(names) if spin_order(name) is not None], int)
        if len(spins):
            change = jnp.linalg.solve(self.shift, step[spins])
            step = step.at[spins].set(change + centre.fkdot[0] * (self.drift @ turn))
        return step

    def log_volume(self, x: jax.Array) -> jax.Array:
        """Return the log of the parameter volume per coordinate volume, up to a constant; () float64.

        Parameter volume is measured by the prior of `log_posterior`: flat in frequency, its derivatives and the orbit,
        and isotropic on the sky.
        """
        if self.flat_sky:
            step = self.matrix @ x
            return -1.5 * jnp.log1p(sum(step[self.names.index(name)] ** 2 for name in SKY))
        return jnp.log(jnp.cos(self.point(x).delta)) if "delta" in self.names else jnp.zeros(())


@public(point=template, parameters=kinds.names, bounded=kinds.names)
def whiten(
    data: Observation | FstatData,
    point: Doppler,
    parameters: Sequence[str] | None = None,
    *,
    bounded: Sequence[str] = (),
) -> Coordinates:
    """Compute coordinates around a template in which its peak of 2F is round, from the metric there.

    Parameters
    ----------
    data : Observation or FstatData
        Observation or data, which may have a leading axis of segments. Data must contain the template.
    point : Doppler or Row
        One template with scalar fields, the centre x = 0. One within 1e-7 rad of a pole is moved to that distance if
        the whole position varies, since derivatives with respect to alpha and delta have no meaning at a pole.
    parameters : sequence of str, optional
        Parameters that vary, in any order; by default all parameters of the template except an orbit's ``ecc`` and
        ``argp``, proper motion and those of a `PhaseModel` (``model.df``, ...).
    bounded : sequence of str, optional
        Parameters to keep linear in x, so that they can be bounded. If a frequency or a sky position is among them,
        steps on the sky and in frequency are independent, and extended peaks are less round.

    Returns
    -------
    Coordinates

    Raises
    ------
    TypeError, ValueError
        See `metric`; also if the template does not fit the data.

    Examples
    --------
    >>> coordinates = jfstat.whiten(data, point)
    >>> beside = coordinates.point(jnp.array([0.2, 0.0, 0.0, 0.0]))
    >>> round(float(jfstat.mismatch(data, point, beside)), 3)
    0.031
    """
    observation = observation_of(data, segments=True)
    check_template("point", point)
    if isinstance(data, FstatData):
        check_point(data, point)
    names = usual_parameters(point) if parameters is None else check_parameters(point, parameters)
    limited = check_parameters(point, bounded) if len(bounded) else ()
    if not set(limited) <= set(names):
        raise ValueError(f"bounded must be among the parameters that vary, {', '.join(names)}, not {bounded!r}.")
    return whitened(observation, point, in_usual_order(point, names), limited)


@partial(jax.jit, static_argnames=("names", "bounded"))
def whitened(observation: Observation, point: Doppler, names: tuple[str, ...], bounded: tuple[str, ...]) -> Coordinates:
    """Compute `whiten` for given names; traceable."""
    flat_sky = _is_flat(names, bounded)
    if flat_sky:
        point = with_fields(point, delta=jnp.clip(point.delta, -HIGHEST, HIGHEST))
    orders = [k for k in (spin_order(name) for name in names) if k is not None]
    free = not any(spin_order(name) is not None for name in bounded)
    q = len(orders)
    drift, shift = jnp.zeros((q, 3)), jnp.eye(q)
    # middles of the segments, from the reference time
    middles = each_segment(lambda own: own.middle - own.reference(point), observation)
    middle = jnp.mean(middles)
    half = 0.5 * jnp.max(observation.tspan) + jnp.max(jnp.abs(middles - middle))
    if q and free and orders == list(range(q)):  # only then can frequencies compensate steps on the sky
        if flat_sky:
            drift = _drift(observation, point, q, middle, half)
        shift = _taylor(-middle, q)
    own = Coordinates(point, jnp.eye(len(names)), drift, shift, jnp.ones(()), names, flat_sky)
    zero = jnp.zeros(len(names))
    # the Earth turns slowly enough for a part of the SFTs to be enough; orbits may not
    every = max(1, observation.start.shape[-1] // ENOUGH_SFTS) if point.orbit is None else 1
    how: Any = dict(n_nodes=_nodes(observation), every=every)
    each, shares = losses(lambda part: metric_along(part, point, own.stepped, zero, **how), observation, point)
    g = measured = jnp.tensordot(shares, each, 1)
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
        elif name in MOTION_FIELDS:
            extra = SKY_CURVATURE * (2 * half) ** 2
        elif is_of_model(name):  # a parameter that the data do not constrain
            extra = jnp.where(g[i, i] > 0, 0.0, 1.0)
        g = g.at[i, i].add(extra)
    scale = 1.0 / jnp.sqrt(jnp.diagonal(g))
    size, axes = jnp.linalg.eigh(g * scale[:, None] * scale[None])
    matrix = scale[:, None] * axes / jnp.sqrt(jnp.maximum(size, 1e-12))[None]
    total, mean = (jnp.sum(matrix * (x @ matrix)) for x in (jnp.sum(each, axis=0), measured))
    effective = jnp.where(mean > 0, total, 1.0) / jnp.where(mean > 0, mean, 1.0)
    return Coordinates(point, matrix, drift, shift, effective, names, flat_sky)


def placeholders(points: Doppler, names: tuple[str, ...], bounded: tuple[str, ...]) -> Coordinates:
    """Return what stands for the stacked coordinates around n templates, of `whitened`, where a program is lowered."""
    n, p, q = len(points.alpha), len(names), sum(spin_order(name) is not None for name in names)
    centre = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), points)
    arrays = (jax.ShapeDtypeStruct((n, *own), jnp.float64) for own in ((p, p), (q, 3), (q, q), ()))
    like: Any = Coordinates  # whose arrays these are not
    return like(centre, *arrays, names, _is_flat(names, bounded))


def _is_flat(names: tuple[str, ...], bounded: tuple[str, ...]) -> bool:
    """Return whether steps on the sky are on a plane: if the whole position varies, without bounds."""
    return all(name in names and name not in bounded for name in SKY)


def _nodes(observation: Observation) -> int:
    """Return at how many times in each SFT phases are taken: more than one of few SFTs."""
    return 1 if observation.start.shape[-1] >= FEW_SFTS else FEW_SFTS


def _drift(observation: Observation, point: Doppler, q: int, middle: jax.Array, half: jax.Array) -> jax.Array:
    """Return the detectors' mean velocity, acceleration, ... over the data, q of them, (q, 3) float64, over c.

    They are derivatives, at the data's mid-time, of the polynomial of degree q in time that best fits the positions.
    The constant is free in each segment, as the initial phase is.

    Parameters
    ----------
    observation : Observation
    point : Doppler
    q : int
    middle, half : () float64
        Mid-time of the data, from the reference time, and half of their length, s.
    """

    def products(own: Observation) -> tuple[jax.Array, jax.Array]:
        time, weight = own.quadrature(_nodes(own))
        position = jax.vmap(lambda trajectory, t: trajectory(t).position)(own.trajectory, time)
        u = (time - own.reference(point) - middle) / half
        powers = jnp.stack([u**k for k in range(1, q + 1)], axis=-1)
        mean = lambda x: (jnp.einsum("dn,dni->i", weight, x) / jnp.sum(weight))[None, None]  # noqa: E731
        powers, position = powers - mean(powers), position - mean(position)
        normal = jnp.einsum("dn,dni,dnj->ij", weight, powers, powers)
        return normal, jnp.einsum("dn,dni,dnc->ic", weight, powers, position)

    normal, right = (jnp.sum(x, axis=0) for x in each_segment(products, observation))
    fitted = jnp.linalg.solve(normal, right)
    return jnp.stack([fitted[k - 1] * (math.factorial(k) / half**k) for k in range(1, q + 1)])


def _taylor(later: jax.Array, q: int) -> jax.Array:
    """Return the matrix that propagates a frequency and its derivatives, q in all, by `later` s: (q, q) float64."""
    return jnp.stack(
        [
            jnp.stack([later ** (j - k) / math.factorial(j - k) if j >= k else jnp.zeros_like(later) for j in range(q)])
            for k in range(q)
        ]
    )


def _turned(centre: Doppler, step: jax.Array) -> jax.Array:
    """Return the change of the unit vector to the source, (3,), after a step (east, north) on its tangent plane."""
    sin_a, cos_a = jnp.sin(centre.alpha), jnp.cos(centre.alpha)
    sin_d, cos_d = jnp.sin(centre.delta), jnp.cos(centre.delta)
    east = jnp.stack([-sin_a, cos_a, jnp.zeros_like(sin_a)])
    north = jnp.stack([-sin_d * cos_a, -sin_d * sin_a, cos_d])
    square = step @ step
    long = jnp.sqrt(1 + square)
    back = square / (1 + long)
    return (jnp.stack([east, north], axis=1) @ step - back * unit_vector(centre.alpha, centre.delta)) / long
