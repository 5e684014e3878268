"""Give Bilby's samplers a signal model: `to_bilby`.

Bilby is no requirement of jfstat, so it is imported when it is used, and classes derived from Bilby's are made then.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache, partial
from importlib import import_module
from inspect import signature
from typing import Any

import jax
import numpy as np

from jfstat import kinds
from jfstat.inference.amplitudeprior import WIDTHS, AmplitudePrior
from jfstat.inference.distributions import KINDS, Distribution, Uniform
from jfstat.inference.model import Model
from jfstat.public import host
from jfstat.signal.parameters import AMPLITUDE_FIELDS

BY_NAME = {kind.__name__: kind for kind in KINDS}
CLASSES = ("DistributionPrior", "ModelLikelihood")
"""Names of the classes derived from Bilby's, which are attributes of this module once they are asked for."""


@host(model=kinds.instance(Model))
def to_bilby(model: Model) -> tuple[Any, Any]:
    """Make Bilby's likelihood and priors of a signal model, the arguments of ``bilby.run_sampler``.

    The likelihood is that of a signal over noise, so Bilby's evidence is the Bayes factor and its evidence of noise is
    1. Parameters have the names of the model. Results that Bilby writes can be read where jfstat is installed.

    Parameters
    ----------
    model : Model
        From `model`, with amplitudes integrated over or not.

    Returns
    -------
    likelihood : bilby.core.likelihood.Likelihood
    priors : bilby.core.prior.PriorDict

    Raises
    ------
    TypeError
        If the argument is no Model.
    ValueError
        If Bilby is not installed.
    """
    prior_of, likelihood_of = _classes()
    priors = {name: prior_of.of(prior, name) for name, prior in _distributions(model).items()}
    if not model.marginalised:
        priors["phi0"].boundary = "periodic"
    return likelihood_of(model), import_module("bilby.core.prior").PriorDict(priors)


def __getattr__(name: str) -> Any:
    """Return a class derived from Bilby's: pickle and Bilby's files look classes up in their module."""
    if name in CLASSES:
        return _classes()[CLASSES.index(name)]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _distributions(model: Model) -> dict[str, Distribution]:
    """Return the prior of each parameter, in the order of the model's names."""
    priors = {name: model.priors[name] for name in model.names if name in model.priors}
    return priors if model.marginalised else priors | _amplitude_distributions(model.amplitude)


def _amplitude_distributions(prior: AmplitudePrior) -> dict[str, Distribution]:
    own: dict[str, Any] = {name: getattr(prior, name) for name in AMPLITUDE_FIELDS if name != "phi0"}
    for name, width in WIDTHS.items():
        if own[name] is None:
            own[name] = Uniform(-0.5 * width, 0.5 * width)
    own["phi0"] = Uniform(0.0, 2 * np.pi)
    return own


@partial(jax.jit, static_argnames="method")
def _called(distribution: Distribution, method: str, x: jax.Array) -> jax.Array:
    return getattr(distribution, method)(x)


@jax.jit
def _log_likelihood(model: Model, x: jax.Array) -> jax.Array:
    return model.log_likelihood(x)


def _on_host(distribution: Distribution, method: str, x: Any) -> Any:
    """Return what a method of a distribution gives as NumPy's: a float for one value, an array for several."""
    values = np.asarray(_called(distribution, method, np.asarray(x, np.float64)))
    return values if values.ndim else float(values)


@cache
def _classes() -> tuple[Any, Any]:
    """Return the classes of priors and of likelihoods."""
    try:
        Prior = import_module("bilby.core.prior").Prior
        Likelihood = import_module("bilby.core.likelihood").Likelihood
    except ImportError:
        raise ValueError("to_bilby needs Bilby, which is not installed: run pip install bilby.") from None

    class DistributionPrior(Prior):
        """One of jfstat's distributions as a prior of Bilby.

        It is made of the distribution's name and numbers, since Bilby writes what its priors are made of to files.
        """

        def __init__(
            self,
            kind: str,
            numbers: Mapping[str, float],
            name: str | None = None,
            latex_label: str | None = None,
            unit: str | None = None,
            boundary: str | None = None,
        ):
            self.kind, self.numbers = kind, dict(numbers)
            self.distribution = BY_NAME[kind](**self.numbers)
            low, high = float(self.distribution.low), float(self.distribution.high)
            super().__init__(name, latex_label, unit, minimum=low, maximum=high, boundary=boundary)

        @classmethod
        def of(cls, distribution: Distribution, name: str) -> DistributionPrior:
            numbers = {x.name: float(getattr(distribution, x.name)) for x in dataclasses.fields(distribution)}  # type: ignore[arg-type]
            return cls(type(distribution).__name__, numbers, name)

        def rescale(self, val: Any) -> Any:
            return _on_host(self.distribution, "quantile", val)

        def prob(self, val: Any) -> Any:
            return np.exp(self.ln_prob(val))

        def ln_prob(self, val: Any) -> Any:
            return _on_host(self.distribution, "log_prob", val)

        def cdf(self, val: Any) -> Any:
            return _on_host(self.distribution, "cdf", val)

    class ModelLikelihood(Likelihood):
        """The likelihood of a signal model as one of Bilby."""

        def __init__(self, model: Model):
            self.model = model
            # before version 2.7 Bilby keeps parameters in the likelihood, and needs a dictionary there
            passes = "parameters" in signature(Likelihood.log_likelihood).parameters
            super().__init__(*(() if passes else ({},)))

        def log_likelihood(self, parameters: Mapping[str, float] | None = None) -> float:
            values = self.parameters if parameters is None else parameters
            x = np.array([values[name] for name in self.model.names], np.float64)
            return float(_log_likelihood(self.model, x))

        def noise_log_likelihood(self) -> float:
            return 0.0

    for made in (DistributionPrior, ModelLikelihood):
        made.__qualname__ = made.__name__
    return DistributionPrior, ModelLikelihood
