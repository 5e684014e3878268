"""Kinds of signals of a known pulsar, at one harmonic of its rotation frequency or at two, with their posteriors."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import jax
import numpy as np

from jfstat.inference.amplitudeposterior import SAMPLES, AmplitudePosterior, amplitude_posterior_of
from jfstat.inference.amplitudeprior import AmplitudePrior
from jfstat.inference.density import PosteriorDensity
from jfstat.inference.dualharmonic import HARMONICS, DualHarmonicPrior
from jfstat.inference.dualposterior import DualHarmonicPosterior, dual_posterior_of
from jfstat.statistic.likelihood import AmplitudeLikelihood

OfHarmonic: TypeAlias = tuple[AmplitudeLikelihood, jax.Array]
"""The likelihood at one harmonic, and the unit of amplitudes without a prior."""

LOUDEST = 1000.0
"""2F up to which the sum over orientations of two harmonics is exact."""


class PulsarSignal(Protocol):
    """A kind of signal of a known pulsar, chosen by the kind of its prior.

    Attributes
    ----------
    harmonics : tuple of int
        Frequencies over the rotation frequency at which the SFTs are measured; the table is that of the last.
    prior : type
        Kind of its priors, whose constructor without arguments makes the default.
    """

    harmonics: tuple[int, ...]
    prior: type

    def posterior(self, measured: Sequence[OfHarmonic], prior: Any, key: jax.Array) -> Any:
        """Return the posterior, given what was measured at each harmonic."""
        ...

    def add_columns(self, table: Any, posteriors: list[Any], twoF: list[np.ndarray], credibility: float) -> None:
        """Add columns of limits, among them those of h0, to a table, given 2F at each harmonic."""
        ...


class SingleHarmonic:
    """A signal at twice the rotation frequency."""

    harmonics: tuple[int, ...] = (2,)
    prior: type = AmplitudePrior

    def posterior(self, measured: Sequence[OfHarmonic], prior: AmplitudePrior, key: jax.Array) -> AmplitudePosterior:
        return _single(measured[0], prior, key)

    def add_columns(
        self, table: Any, posteriors: list[AmplitudePosterior], twoF: list[np.ndarray], credibility: float
    ) -> None:
        add_limits(table, "h0", [x.of_h0 for x in posteriors], credibility)


class DualHarmonic:
    """A signal at the rotation frequency and at twice it; h0 is 2 C22."""

    harmonics: tuple[int, ...] = HARMONICS
    prior: type = DualHarmonicPrior

    def posterior(
        self, measured: Sequence[OfHarmonic], prior: DualHarmonicPrior, key: jax.Array
    ) -> DualHarmonicPosterior:
        return _dual(*measured, prior, key)

    def add_columns(
        self, table: Any, posteriors: list[DualHarmonicPosterior], twoF: list[np.ndarray], credibility: float
    ) -> None:
        loud = np.max(twoF, axis=0) > LOUDEST
        if np.any(loud):
            names = ", ".join(str(name) for name in np.asarray(table["name"])[loud])
            text = f"of {names} 2F is above {LOUDEST:g}: limits of two harmonics together may be off by some per cent."
            warnings.warn(text, stacklevel=4)
        table["twoF_21"] = twoF[0]
        for name in ("c21", "c22"):
            add_limits(table, name, [getattr(x, name) for x in posteriors], credibility)
        for end in ("limit", "low", "high"):
            table[f"h0_{end}"] = 2 * table[f"c22_{end}"]


SIGNALS: dict[type, PulsarSignal] = {kind.prior: kind for kind in (SingleHarmonic(), DualHarmonic())}
"""Kinds of signals by the kinds of their priors."""


@jax.jit
def _single(of22: OfHarmonic, prior: AmplitudePrior, key: jax.Array) -> AmplitudePosterior:
    likelihood, unit = of22
    return amplitude_posterior_of(likelihood, prior, unit, key, SAMPLES)


@jax.jit
def _dual(
    of21: OfHarmonic,
    of22: OfHarmonic,
    prior: DualHarmonicPrior,
    key: jax.Array,
) -> DualHarmonicPosterior:
    return dual_posterior_of(of21, of22, prior, key, SAMPLES)


def add_limits(table: Any, name: str, densities: Sequence[PosteriorDensity], credibility: float) -> None:
    """Add columns with the limit and the ends of the interval of one amplitude."""
    outside = 0.5 * (1 - credibility)
    levels = np.array([credibility, outside, 1 - outside])
    at = np.array([np.asarray(x.quantile(levels)) for x in densities])
    for i, end in enumerate(("limit", "low", "high")):
        table[f"{name}_{end}"] = at[:, i]
