"""Map 2F over the windows of a transient signal, with Doppler parameters maximised for each window."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.observation import Observation
from jfstat.geometry.nearby import phase_difference, sites
from jfstat.geometry.trajectory import Trajectory
from jfstat.maths.arrays import with_axes
from jfstat.signal.templates import Doppler
from jfstat.signal.transientwindow import Shape
from jfstat.signal.values import replaced, values
from jfstat.statistic.atoms import Atoms
from jfstat.statistic.combine import AntennaMatrix, quadratic_form
from jfstat.statistic.transients import Grid, window_sums

LEAST_INFORMATION = 1e-2
"""Smallest eigenvalue of the information on whitened parameters: it acts as a prior with a width of ten errors."""


class WindowMap(NamedTuple):
    """Likelihood over n start times and m time scales near a template, with p whitened parameters.

    At each window the logarithm of the likelihood, F, is a parabola in the parameters' offset from the template, with
    its maximum at `offset`, `gain` above its value at the template.

    Attributes
    ----------
    log_likelihood : (n, m) float64
        F at the template.
    gain : (n, m) float64
        F at the best parameters minus F at the template.
    offset : (n, m, p) float64
        Offset of the best parameters from the template, in whitened coordinates.
    covariance : (n, m, p, p) float64
        Covariance of the parameters for each window.
    """

    log_likelihood: jax.Array
    gain: jax.Array
    offset: jax.Array
    covariance: jax.Array

    @property
    def highest(self) -> jax.Array:
        """F at the best parameters of each window, (n, m) float64."""
        return self.log_likelihood + self.gain

    @property
    def log_posterior(self) -> jax.Array:
        """Logarithm of the posterior of windows, (n, m) float64, up to a constant.

        exp(F) is integrated over the parameters with flat priors, by Laplace's method.
        """
        if not self.offset.shape[-1]:
            return self.highest
        return self.highest + 0.5 * jnp.linalg.slogdet(self.covariance)[1]


def phase_slopes(observation: Observation, point: Doppler, names: tuple[str, ...], time: jax.Array) -> jax.Array:
    """Return derivatives of the phase with respect to parameters of a template, rad per unit, (D, K, p) float64.

    Parameters
    ----------
    observation : Observation
    point : Doppler
        One template.
    names : tuple of p str
    time : (K,) float64
        Times at the detectors, s since the epoch.
    """
    if not names:
        return jnp.zeros((len(observation.detectors), time.shape[0], 0))
    centre, x = observation.source(point), values(point, names)

    def one(trajectory: Trajectory) -> jax.Array:
        here = sites(trajectory, centre, time)
        return jax.jacfwd(lambda x: phase_difference(here, centre, observation.source(replaced(point, names, x))))(x)

    return 2 * jnp.pi * jax.vmap(one)(observation.trajectory)


def window_map(atoms: Atoms, slope: jax.Array, t0: jax.Array, tau: jax.Array, shape: Shape, end: float) -> WindowMap:
    """Return the likelihood over windows near the template of some atoms.

    F = y^H M^-1 y for y = (Fa, Fb) of the window and M = [[A, C], [C, B]]. Its gradient is exact. Minus its second
    derivatives are replaced by the Fisher information, which is never negative, with the amplitudes c = M^-1 y
    estimated in the same window: 2 (c^H M_ij c - c^H M_i M^-1 M_j c), where M_i and M_ij are M weighted with one and
    two derivatives of the phase. The antenna patterns are the template's.

    Parameters
    ----------
    atoms : Atoms
        Atoms of slices so short that the derivatives of the phase hardly change within one.
    slope : (D, K, p) float64
        Derivatives of the phase with respect to whitened parameters, rad.
    t0, tau : (n,), (m,) float64
        Start times, GPS s, and time scales, s.
    shape, end
        Shape and end of the windows; see `TransientWindow`.
    """
    p = slope.shape[-1]
    pairs = [(i, j) for i in range(p) for j in range(i, p)]
    one = jnp.ones((*slope.shape[:-1], 1))
    # factors of the sums: 1, the derivatives, and their products, of which only A, B and C are needed
    product = jnp.stack([slope[..., i] * slope[..., j] for i, j in pairs], axis=-1) if pairs else one[..., :0]
    first, every = (jnp.moveaxis(jnp.concatenate(x, axis=-1), -1, 0) for x in ((one, slope), (one, slope, product)))
    turned = first.astype(jnp.complex128) * np.array([1.0] + [-1j] * p, complex)[:, None, None]
    sums_a, sums_b = (jnp.sum(turned * x[None], axis=1) for x in (atoms.Fa, atoms.Fb))
    linear = jnp.stack([sums_a.real, sums_a.imag, sums_b.real, sums_b.imag], axis=1)
    linear = jnp.concatenate([linear, jnp.zeros((len(pairs), *linear.shape[1:]))])
    squared = jnp.stack([jnp.sum(every * x[None], axis=1) for x in (atoms.A, atoms.B, atoms.C)], axis=1)
    rows = jnp.concatenate([linear, squared], axis=1)
    since = t0 - atoms.epoch.astype(jnp.float64)
    sums = jax.vmap(lambda x: jnp.stack(window_sums(atoms, x, since, tau, shape, end, Grid(None, True))))(rows)

    *form, least = quadratic_form(AntennaMatrix(*sums[0, 4:]))
    b, a, c = (x.astype(jnp.complex128) for x in form)

    def inverted(y: jax.Array) -> jax.Array:
        """Return M^-1 y for vectors y, (..., 2, n, m)."""
        first, second = y[..., 0, :, :], y[..., 1, :, :]
        own_a, own_b, own_c = (with_axes(x, first.ndim) for x in (a, b, c))
        return 0.5 * jnp.stack([own_b * first - 0.5 * own_c * second, own_a * second - 0.5 * own_c * first], axis=-3)

    def times(matrix: jax.Array, x: jax.Array) -> jax.Array:
        """Return M_i x for A, B and C weighted with derivatives, (..., 3, n, m)."""
        A, B, C = (matrix[..., i, :, :].astype(jnp.complex128) for i in range(3))
        first, second = (with_axes(own, A.ndim) for own in x)
        return jnp.stack([A * first + C * second, C * first + B * second], axis=-3)

    def dot(x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.sum((jnp.conj(with_axes(x, y.ndim)) * y).real, axis=-3)

    y = jax.lax.complex(sums[: p + 1, 0:4:2], sums[: p + 1, 1:4:2])  # (1 + p, 2, n, m)
    amplitude = inverted(y[0])
    level = dot(amplitude, y[0]) + 0.5 * least
    if not p:
        none = jnp.zeros((*level.shape, 0))
        return WindowMap(level, jnp.zeros_like(level), none, jnp.zeros((*level.shape, 0, 0)))
    gradient = jnp.moveaxis(2 * dot(amplitude, y[1:]), 0, -1)
    weighted = times(sums[1 : p + 1, 4:], amplitude)  # (p, 2, n, m)
    removed = dot(weighted[:, None], inverted(weighted)[None])
    kept = dot(amplitude, times(sums[p + 1 :, 4:], amplitude))
    place = np.zeros((p, p), int)
    for k, (i, j) in enumerate(pairs):
        place[i, j] = place[j, i] = k
    information = jnp.moveaxis(2 * (kept[place] - removed), (0, 1), (-2, -1))
    size, axes = jnp.linalg.eigh(jnp.where(jnp.isfinite(information), information, 0.0))
    size = jnp.maximum(size, LEAST_INFORMATION)
    along = jnp.einsum("...ji,...j->...i", axes, gradient)
    return WindowMap(
        level,
        0.5 * jnp.sum(along**2 / size, axis=-1),
        jnp.einsum("...ij,...j->...i", axes, along / size),
        jnp.einsum("...ik,...k,...jk->...ij", axes, 1 / size, axes),
    )
