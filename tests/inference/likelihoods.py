"""Likelihoods of simulated amplitudes, without data: for tests of integrals over amplitudes."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

import jfstat
from jfstat.statistic.combine import AntennaMatrix
from jfstat.statistic.likelihood import AmplitudeLikelihood


def fisher_matrices(rng, conditions):
    """Fisher matrices [[A, C], [C, B]] with given condition numbers and the larger eigenvalue 1, (n, 2, 2)."""
    conditions = np.atleast_1d(conditions)
    angle = rng.uniform(0, np.pi, conditions.shape)
    turn = np.moveaxis(np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]), -1, 0)
    return np.einsum("nij,nj,nkj->nik", turn, np.stack([np.ones_like(conditions), 1 / conditions], axis=-1), turn)


def likelihoods(fisher, amplitude, rng=None):
    """The likelihoods of a stack of n signals, in noise of unit variance if there is a generator."""
    a1, a2, a3, a4 = np.moveaxis(np.asarray(amplitude.canonical), -1, 0)
    x = np.einsum("nij,nj->ni", fisher, np.stack([a1 - 1j * a3, a2 - 1j * a4], axis=-1))
    if rng is not None:
        noise = rng.normal(size=x.shape) + 1j * rng.normal(size=x.shape)
        x = x + np.einsum("nij,nj->ni", np.linalg.cholesky(fisher), noise)
    matrix = AntennaMatrix(*(jnp.asarray(x) for x in (fisher[:, 0, 0], fisher[:, 1, 1], fisher[:, 0, 1])))
    return AmplitudeLikelihood(jnp.asarray(x[:, 0]), jnp.asarray(x[:, 1]), matrix)


def one_of_power(rng, twoF, condition, cosi):
    """The likelihood of one signal without noise, with a given 2F, condition number and cosi."""
    fisher = fisher_matrices(rng, [condition])
    shape = jfstat.Amplitude([1.0], [cosi], rng.uniform(-0.7, 0.7, 1), rng.uniform(0, 6, 1))
    power = float(likelihoods(fisher, shape).twoF[0])
    amplitude = jfstat.Amplitude(shape.h0 * np.sqrt(twoF / power), shape.cosi, shape.psi, shape.phi0)
    return one(likelihoods(fisher, amplitude), 0), amplitude[0]


def one(stack, k):
    return AmplitudeLikelihood(stack.xa[k], stack.xb[k], AntennaMatrix(*(x[k] for x in stack.fisher)))


def at_orientations(likelihood, cosi, psi):
    """z and q at orientations by their definition: h0 z is the part linear in the data at the best phase."""
    A, B, C = (float(x) for x in likelihood.fisher)
    plus, cross = 0.5 * (1 + cosi**2), cosi
    ua = plus * np.cos(2 * psi) + 1j * cross * np.sin(2 * psi)
    ub = plus * np.sin(2 * psi) - 1j * cross * np.cos(2 * psi)
    q = A * np.abs(ua) ** 2 + B * np.abs(ub) ** 2 + 2 * C * np.real(ua * np.conj(ub))
    return np.abs(np.conj(ua) * complex(likelihood.xa) + np.conj(ub) * complex(likelihood.xb)), q
