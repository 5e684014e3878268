"""A slow and simple reference: 2F as a direct float64 sum over samples, each with its exact time and phase.

Unlike the fast paths it uses no blocks, polynomials, interpolation, FFT or single precision. The tests compare
`twoF` and `twoF_band` with it. Delays come from `jfstat.geometry`, which is tested against LALSuite.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.fstatdata import FstatData
from jfstat.geometry.antenna import harmonics
from jfstat.geometry.barycenter import Direction, ssb_delay
from jfstat.geometry.orbit import emission_time
from jfstat.maths.vectors import unit_vector
from jfstat.signal.templates import Doppler
from jfstat.signal.values import with_fields


def patterns_by_definition(
    response: np.ndarray, sidereal: np.ndarray, alpha: float, delta: float
) -> tuple[np.ndarray, np.ndarray]:
    """Compute a and b by their definition, from the detector tensor rotating with the Earth and the wave's tensors.

    For a the detector tensor is contracted with xi xi - eta eta, for b with xi eta + eta xi (LALSuite:
    XLALComputeAMCoeffs).

    Parameters
    ----------
    response : (3, 3) float64
    sidereal : (n,) float64
        Sidereal time, rad.
    alpha, delta : float
        Right ascension and declination, rad.

    Returns
    -------
    a, b : (n,) float64 ndarrays.
    """
    cos, sin, zero = np.cos(sidereal), np.sin(sidereal), np.zeros_like(sidereal)
    turn = np.array([[cos, -sin, zero], [sin, cos, zero], [zero, zero, zero + 1]])
    tensor = np.einsum("ian,ab,jbn->nij", turn, response, turn)
    xi = np.array([-np.sin(alpha), np.cos(alpha), 0.0])
    eta = np.array([np.sin(delta) * np.cos(alpha), np.sin(delta) * np.sin(alpha), -np.cos(delta)])
    a = np.einsum("nij,ij->n", tensor, np.outer(xi, xi) - np.outer(eta, eta))
    b = np.einsum("nij,ij->n", tensor, np.outer(xi, eta) + np.outer(eta, xi))
    return a, b


def antenna_integrals(data: FstatData, point: Doppler) -> np.ndarray:
    """Compute A, B, C of each detector from the harmonics' moments, (D, 3) float64.

    The harmonics of a and b come from their definitions at five sidereal times.
    """
    angles = 2 * np.pi * np.arange(5) / 5
    to_harmonics = np.linalg.inv(np.asarray(harmonics(jnp.asarray(angles))))
    rows = []
    for response, moments in zip(
        np.asarray(data.observation.response), np.asarray(data.observation.moments), strict=True
    ):
        a, b = patterns_by_definition(response, angles, float(point.alpha), float(point.delta))
        a, b = to_harmonics @ a, to_harmonics @ b
        rows.append([a @ moments @ a, b @ moments @ b, a @ moments @ b])
    return np.array(rows)


def _direction(point: Doppler, reference: float) -> Direction:
    """Return the direction to a template; its proper motion by differences on the sphere."""
    n = unit_vector(point.alpha, point.delta)
    if point.motion is None:
        return Direction(n, None, jnp.asarray(reference))
    hours = 1e4
    alpha = point.alpha + hours * point.motion[0] / jnp.cos(point.delta)
    later = unit_vector(alpha, point.delta + hours * point.motion[1])
    return Direction(n, (later - n) / hours, jnp.asarray(reference))


def direct_fa_fb(data: FstatData, point: Doppler, frequencies: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute Fa and Fb of each detector at given frequencies, by the direct sum: (D, n) complex128 each.

    Fa(f) = sum over samples of x a exp(-2 pi i phase) dt, the paper's equation 3, with phase 0 at the reference time
    and the template's other parameters.
    """
    start, dt, heterodyne = float(data.band.start), float(data.band.dt), float(data.band.heterodyne)
    observation = data.observation
    epoch, reference = int(observation.epoch), float(observation.reference(point))
    fkdot = np.asarray(point.fkdot)
    out_a, out_b = [], []
    for d, series in enumerate(data.series):
        x = np.asarray(series, np.complex128)
        t = start + dt * np.arange(len(x))
        state = jax.tree.map(lambda leaf, d=d: leaf[d], observation.trajectory)(jnp.asarray(t))
        tau = t + np.asarray(ssb_delay(state, jnp.asarray(t), _direction(point, reference)))
        if point.orbit is not None:
            orbit = with_fields(point.orbit, tp=point.orbit.tp - epoch)
            tau = np.asarray(emission_time(orbit, jnp.asarray(tau)))
        since = tau - reference
        a, b = patterns_by_definition(
            np.asarray(observation.response[d]), np.asarray(state.sidereal), float(point.alpha), float(point.delta)
        )
        spin = np.zeros_like(since)
        for k in range(len(fkdot) - 1, 0, -1):
            spin = (spin + fkdot[k]) * since / (k + 1)
        spin = spin * since
        if point.model is not None:
            spin = spin + np.asarray(point.model.cycles(jnp.asarray(since)))
        fa, fb = [], []
        for f in frequencies:
            phase = f * (since - t) + (f - heterodyne) * t + spin
            demodulated = x * np.exp(-2j * np.pi * (phase - np.round(phase)))
            fa.append(dt * np.sum(demodulated * a))
            fb.append(dt * np.sum(demodulated * b))
        out_a.append(fa)
        out_b.append(fb)
    return np.array(out_a), np.array(out_b)


def direct_twoF(data: FstatData, point: Doppler, frequencies: np.ndarray) -> np.ndarray:
    """Compute 2F of all detectors at given frequencies, by the direct sum.

    Parameters
    ----------
    data : FstatData
    point : Doppler
        One template with concrete values; ``fkdot[0]`` is ignored.
    frequencies : (n,) array
        Hz.

    Returns
    -------
    (n,) float64 ndarray.
    """
    fa, fb = (x.sum(axis=0) for x in direct_fa_fb(data, point, np.atleast_1d(frequencies)))
    A, B, C = antenna_integrals(data, point).sum(axis=0)
    power = B * np.abs(fa) ** 2 + A * np.abs(fb) ** 2 - 2 * C * np.real(fa * np.conj(fb))
    return 2 / (A * B - C * C) * power
