"""Antenna patterns of all polarisations that a metric theory of gravity allows, as sums of sidereal harmonics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from jfstat import kinds
from jfstat.geometry.antenna import harmonics_of
from jfstat.geometry.detectors import DetectorLike, get_detectors
from jfstat.geometry.rotation import sidereal_time
from jfstat.maths.vectors import unit_vector
from jfstat.public import host
from jfstat.signal.templates import Doppler, template_of_any
from jfstat.validation import float64_of, shown

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

POLARISATIONS = {"tensor": ("plus", "cross"), "vector": ("x", "y"), "scalar": ("breathing",)}
"""Polarisations of each spin. A scalar's longitudinal one is the breathing one times -1 for detectors that are short
against the wave."""


def polarisations_of(hypothesis: str) -> tuple[str, ...]:
    """Return the polarisations of a hypothesis, such as "vector" or "scalar-tensor", in the order of `POLARISATIONS`.

    Raises
    ------
    ValueError
        If it names anything else.
    """
    spins = hypothesis.split("-")
    if len(set(spins)) < len(spins) or not set(spins) <= set(POLARISATIONS):
        raise ValueError(
            f"hypothesis must be 'tensor', 'vector' or 'scalar', or some of them joined as in 'scalar-tensor', not "
            f"{shown(hypothesis)}."
        )
    return tuple(name for spin, own in POLARISATIONS.items() if spin in spins for name in own)


def hypothesis_kind(x: Any, name: str) -> None:
    """Require the name of a hypothesis; see `jfstat.kinds`."""
    if not isinstance(x, str):
        raise TypeError(f"{name} must be a string such as 'vector', not {shown(x)}.")
    polarisations_of(x)


def wave_tensors(alpha: jax.Array, delta: jax.Array, polarisations: tuple[str, ...]) -> jax.Array:
    """Return the tensors of a wave of unit amplitude in each polarisation, (m, 3, 3) float64, at psi = 0.

    With xi and eta of `pattern_coefficients` and the direction n to the source they are (Nishizawa et al. 2009, Phys.
    Rev. D 79, 082002)::

        plus: xi xi - eta eta    x: xi n + n xi     breathing: xi xi + eta eta
        cross: xi eta + eta xi   y: eta n + n eta

    The wave's axes of LALSuite (XLALComputeDetAMResponseExtraModes) are -xi, -eta and -n, so that signs agree.

    Parameters
    ----------
    alpha, delta : () float64
        Sky position, rad.
    polarisations : tuple of m str
        Of `POLARISATIONS`.
    """
    xi = unit_vector(alpha + 0.5 * jnp.pi, jnp.zeros_like(delta))
    eta, n = unit_vector(alpha, delta - 0.5 * jnp.pi), unit_vector(alpha, delta)

    def product(u: jax.Array, v: jax.Array) -> jax.Array:
        return u[:, None] * v[None]

    tensors = {
        "plus": product(xi, xi) - product(eta, eta),
        "cross": product(xi, eta) + product(eta, xi),
        "x": product(xi, n) + product(n, xi),
        "y": product(eta, n) + product(n, eta),
        "breathing": product(xi, xi) + product(eta, eta),
    }
    return jnp.stack([tensors[name] for name in polarisations])


def harmonics_of_tensors(response: jax.Array, waves: jax.Array) -> jax.Array:
    """Return the coefficients of antenna patterns in the harmonics of sidereal time.

    A pattern is the product D_ij e_ij of the detector tensor, which turns with the Earth, and the wave's.

    Parameters
    ----------
    response : (D, 3, 3) float64
        Detector tensors in the Earth-fixed frame.
    waves : (m, 3, 3) float64
        Tensors of `wave_tensors`.

    Returns
    -------
    (D, m, 5) float64
        Coefficients c such that a pattern is ``c @ harmonics(sidereal_time(t))``.
    """
    d, e = jnp.moveaxis(response, 0, -1)[..., None], jnp.moveaxis(waves, 0, -1)[..., None, :]
    sum_d, difference_d = d[0, 0] + d[1, 1], d[0, 0] - d[1, 1]
    sum_e, difference_e = e[0, 0] + e[1, 1], e[0, 0] - e[1, 1]
    return jnp.stack(
        [
            0.5 * sum_d * sum_e + d[2, 2] * e[2, 2],
            2 * (d[0, 2] * e[0, 2] + d[1, 2] * e[1, 2]),
            2 * (d[0, 2] * e[1, 2] - d[1, 2] * e[0, 2]),
            0.5 * difference_d * difference_e + 2 * d[0, 1] * e[0, 1],
            difference_d * e[0, 1] - d[0, 1] * difference_e,
        ],
        axis=-1,
    )


@host(detectors=kinds.detectors, point=template_of_any, hypothesis=hypothesis_kind)
def antenna_patterns(
    detectors: DetectorLike | Sequence[DetectorLike],
    point: Doppler,
    times: ArrayLike,
    hypothesis: str = "tensor",
) -> np.ndarray:
    """Compute the antenna patterns of detectors for waves from a sky position, in each polarisation.

    Each polarisation p adds the strain F_p h_p to what a detector measures. The patterns F_p are those at psi = 0, with
    the signs and norms of LALSuite (XLALComputeDetAMResponseExtraModes; Nishizawa et al. 2009, Phys. Rev. D 79,
    082002). For a polarisation angle psi the waves' axes turn: x and y by psi, plus and cross by 2 psi. A longitudinal
    wave has the pattern of a breathing one times -1, for detectors that are short against the wave.

    Parameters
    ----------
    detectors : str, Detector or sequence of them
    point : Doppler or Row
        One template, of which only the sky position matters.
    times : (n,) array_like
        GPS times, s.
    hypothesis : str
        "tensor" (plus and cross), "vector" (x and y) or "scalar" (breathing), or some of them joined, such as
        "scalar-vector-tensor"; polarisations are always in this order: plus, cross, x, y, breathing.

    Returns
    -------
    (D, m, n) float64 ndarray
        For D detectors and m polarisations.

    Raises
    ------
    TypeError
        If an argument is of another kind.
    ValueError
        If a detector or hypothesis is not known, or times are no finite numbers.

    Examples
    --------
    >>> jfstat.antenna_patterns(["H1", "L1"], point, [start, start + 3600, start + 7200], "vector").shape
    (2, 2, 3)
    """
    if not isinstance(point, Doppler):
        raise TypeError(f"point must be a jfstat.Doppler, not {shown(point)}: build one first.")
    if np.ndim(point.alpha):
        raise ValueError("point is a stack, but one template is wanted: call antenna_patterns for each.")
    gps = float64_of(times, "times", "s")
    if gps.ndim != 1 or not np.all(np.isfinite(gps)):
        raise ValueError(f"times must be a row of finite GPS times in s, not {shown(times)}.")
    response = np.stack([site.response for site in get_detectors(detectors)])
    waves = wave_tensors(point.alpha, point.delta, polarisations_of(hypothesis))
    sidereal = np.stack(harmonics_of(np, sidereal_time(0, gps)))
    return np.asarray(harmonics_of_tensors(jnp.asarray(response), waves)) @ sidereal
