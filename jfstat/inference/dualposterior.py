"""Compute posteriors of a signal at a star's rotation frequency and at twice it: `dual_harmonic_posterior`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jfstat import kinds
from jfstat.data.checks import check_signal
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrowdata import NarrowData
from jfstat.display import Displayed
from jfstat.inference.amplitudeposterior import SAMPLES, key_and_number
from jfstat.inference.bstat import AtOrientation, at_orientation, unit_of_h0
from jfstat.inference.density import PosteriorDensity
from jfstat.inference.dualharmonic import (
    DualHarmonicAmplitude,
    DualHarmonicPrior,
    dual_amplitude_of,
    of_l2m1,
)
from jfstat.inference.joint import Part, joint_posterior
from jfstat.inference.orientations import TINY, grid_of
from jfstat.maths.arrays import any_traced
from jfstat.public import public
from jfstat.signal.templates import Doppler, template
from jfstat.signal.values import with_fields
from jfstat.statistic.likelihood import AmplitudeLikelihood, total_likelihood

OfHarmonic: TypeAlias = tuple[AmplitudeLikelihood, jax.Array]
"""The likelihood at one harmonic, and the unit of amplitudes without a prior."""

AGREEMENT = 1e-9
"""Largest relative deviation of the ratio of the two frequencies from 2."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False, eq=False)
class DualHarmonicPosterior(Displayed):
    """The posterior distribution of a signal at the rotation frequency and at twice it.

    Made by `dual_harmonic_posterior`.

    Attributes
    ----------
    log_bstat : () float64
        Logarithm of the Bayes factor of a signal with both harmonics against noise.
    samples : DualHarmonicAmplitude
        A stack of independent, equally probable amplitudes; psi lies in [-pi/4, pi/4] unless it has a prior of its own,
        the phases in [0, 2 pi).
    c21, c22 : PosteriorDensity
        Densities of the two amplitudes, with their limits and intervals.
    """

    log_bstat: jax.Array
    samples: DualHarmonicAmplitude
    c21: PosteriorDensity
    c22: PosteriorDensity


@public(point21=template, point22=template, prior=kinds.instance(DualHarmonicPrior, or_none=True))
def dual_harmonic_posterior(
    data21: FstatData | NarrowData,
    point21: Doppler,
    data22: FstatData | NarrowData,
    point22: Doppler,
    prior: DualHarmonicPrior | None = None,
    *,
    key: jax.Array | None = None,
    samples: int = SAMPLES,
) -> DualHarmonicPosterior:
    """Compute the posterior of a signal's amplitudes at a star's rotation frequency and at twice it, together.

    The two harmonics have cosi and psi in common, and amplitudes C21 and C22 and phases of their own (Jones 2010, Mon.
    Not. R. Astron. Soc. 402, 2503; Pitkin, Gill, Jones, Woan & Davies 2015, Mon. Not. R. Astron. Soc. 453, 4399). As
    for `amplitude_posterior`, which is for one harmonic, there is no chain.

    Pure; works under jit and vmap.

    Parameters
    ----------
    data21, data22 : FstatData or NarrowData
        Data around the rotation frequency, and around twice it.
    point21, point22 : Doppler or Row
        Templates, scalar fields, of equal reference times: from ``pulsar.doppler(harmonic=1)`` and
        ``pulsar.doppler(harmonic=2)``.
    prior : DualHarmonicPrior, optional
        By default isotropic orientations, and improper uniform priors of C21 and C22.
    key : jax.Array, optional
        Random key of the samples, by default ``jax.random.key(0)``.
    samples : int
        Number of samples.

    Returns
    -------
    DualHarmonicPosterior

    Raises
    ------
    TypeError
        If an argument is of another kind.
    ValueError
        If shapes are wrong, a template does not fit its data, a noise floor is not known, `samples` is out of range, or
        the templates are not of one star: reference times differ, or frequencies are not in the ratio of 1 to 2.

    Notes
    -----
    cosi and psi are summed on a grid over the part of their range in which the integrand counts, which resolves signals
    of 2F up to some 1e5 in either harmonic if the condition number of the antenna matrix is at most 30.

    Examples
    --------
    >>> half = jfstat.Doppler(point.alpha, point.delta, point.fkdot / 2, point.reftime)
    >>> jfstat.dual_harmonic_posterior(data, half, data, point)  # doctest: +SKIP
    """
    _check_pair(data21, point21, "21")
    _check_pair(data22, point22, "22")
    _check_star(point21, point22)
    key, n = key_and_number(key, samples)
    chosen = prior or DualHarmonicPrior()
    return _dual(data21.for_one_template, point21, data22.for_one_template, point22, chosen, key, n)


def _check_pair(data: FstatData | NarrowData, point: Doppler, which: str) -> None:
    """Raise the error of `check_signal`, with the names of the two arguments."""
    try:
        check_signal(data, point, name=f"point{which}")
    except (TypeError, ValueError) as error:
        raise type(error)(f"data{which} and point{which}: {error}") from None


def _check_star(point21: Doppler, point22: Doppler) -> None:
    """Raise a ValueError unless two templates are of the two harmonics of one star."""
    if any_traced((point21, point22)):
        return
    if point21.reftime != point22.reftime:
        raise ValueError("point21 and point22 have different reference times: propagate one to that of the other.")
    # With NumPy throughout: what is known stays known inside a function that is compiled.
    known = [np.asarray(x.fkdot) for x in (point21, point22)]
    low, high = (float(fkdot[0]) for fkdot in known)
    advice = "give pulsar.doppler(harmonic=1) and pulsar.doppler(harmonic=2)."
    if abs(high - 2 * low) > AGREEMENT * high:
        raise ValueError(
            f"point22 has a frequency of {high:.10g} Hz, which is not twice the {low:.10g} Hz of point21: {advice}"
        )
    n = max(map(len, known))
    spins = [np.pad(fkdot, (0, n - len(fkdot))) for fkdot in known]
    rest = [jax.tree.leaves(with_fields(x, fkdot=2 * spins[0])) for x in (point21, point22)]
    if not np.allclose(2 * spins[0], spins[1], rtol=AGREEMENT, atol=0.0):
        raise ValueError(f"point22 has derivatives of the frequency that are not twice those of point21: {advice}")
    if len(rest[0]) != len(rest[1]) or not all(
        np.allclose(x, y, rtol=AGREEMENT, atol=AGREEMENT) for x, y in zip(*rest, strict=True)
    ):
        raise ValueError(f"point21 and point22 have different positions or orbits: {advice}")


@jax.jit(static_argnames="n")
def _dual(
    data21: FstatData | NarrowData,
    point21: Doppler,
    data22: FstatData | NarrowData,
    point22: Doppler,
    prior: DualHarmonicPrior,
    key: jax.Array,
    n: int,
) -> DualHarmonicPosterior:
    of21 = total_likelihood(data21, point21), unit_of_h0(data21)
    of22 = total_likelihood(data22, point22), unit_of_h0(data22)
    return dual_posterior_of(of21, of22, prior, key, n)


def dual_posterior_of(
    of21: OfHarmonic, of22: OfHarmonic, prior: DualHarmonicPrior, key: jax.Array, n: int
) -> DualHarmonicPosterior:
    """Return the posterior for likelihoods and units of the two harmonics, with n samples, without any checks."""

    def parts(of21: OfHarmonic, of22: OfHarmonic, prior: DualHarmonicPrior) -> list[Part]:
        return [
            Part(partial(_at_l2m1, of21[0]), prior.c21, of21[1]),
            Part(partial(_at_l2m2, of22[0]), prior.c22, of22[1]),
        ]

    fixed = jax.tree.map(jax.lax.stop_gradient, (of21, of22, prior))

    def over_amplitudes(cosi: jax.Array, psi: jax.Array) -> jax.Array:
        return sum((part.over_h0(part.at(cosi, psi)) for part in parts(*fixed)), jnp.zeros_like(cosi))

    chosen = grid_of([own[0] for own in fixed[:2]], prior.orientation, over_amplitudes)
    found = joint_posterior(parts(of21, of22, prior), chosen, key, n)
    samples = dual_amplitude_of(*found.h0, found.cosi, found.psi, *found.phi0)
    return DualHarmonicPosterior(found.log_bstat, samples, *found.densities)


def _at_l2m1(likelihood: AmplitudeLikelihood, cosi: jax.Array, psi: jax.Array) -> AtOrientation:
    """Return the likelihood as a function of C21 and phi21."""
    scale, own_cosi = of_l2m1(cosi)
    own = at_orientation(likelihood, own_cosi, psi + 0.25 * np.pi)
    q = jnp.maximum(jnp.square(scale) * own.q, TINY)  # face on nothing is seen
    return AtOrientation(scale * own.z, q, own.phase - 0.5 * np.pi)


def _at_l2m2(likelihood: AmplitudeLikelihood, cosi: jax.Array, psi: jax.Array) -> AtOrientation:
    """Return the likelihood as a function of C22 and phi22; h0 is 2 C22."""
    own = at_orientation(likelihood, cosi, psi)
    return AtOrientation(2 * own.z, 4 * own.q, own.phase - np.pi)
