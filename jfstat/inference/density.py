"""A posterior density of one amplitude on a grid, with its quantiles, limits and intervals: `PosteriorDensity`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from jfstat.display import Displayed
from jfstat.validation import as_float64, probability, require

if TYPE_CHECKING:
    from jax.typing import ArrayLike


FINER = 4
"""Number of points of an average over those of one density: a few densities may have most of the weight."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False, eq=False)
class PosteriorDensity(Displayed):
    """The posterior probability density of an amplitude.

    Attributes
    ----------
    values : (n,) float64
        Amplitudes (strain), in order, at which the density is known.
    density : (n,) float64
        Probability density, averaged over the other parameters by quadrature, not from samples.
    """

    values: jax.Array
    density: jax.Array

    def quantile(self, p: ArrayLike) -> jax.Array:
        """Return the amplitude below which the signal's lies with given probabilities, (...) float64; traceable.

        Raises
        ------
        ValueError
            If this is a stack of posteriors, as are those of `limit` and `interval`, or `p` is not from 0 to 1.
        """
        if jnp.ndim(self.values) != 1:
            raise ValueError("the posterior is a stack of several: use jax.vmap(lambda x: x.h0_limit())(posteriors).")
        share = as_float64(p, "p")
        require(share, "p", lambda x: (x >= 0) & (x <= 1), "from 0 to 1", "it is a probability")
        below = integral_below(self.values, self.density)
        return jnp.interp(share, below / below[-1], self.values)

    def limit(self, credibility: float = 0.95) -> jax.Array:
        """Return the upper limit: the amplitude is smaller with this probability, () float64.

        Raises
        ------
        ValueError
            If `credibility` is no probability.
        """
        return self.quantile(probability(credibility, "credibility", "give one such as 0.95"))

    def interval(self, credibility: float = 0.95) -> jax.Array:
        """Return the equal-tailed credible interval, (2,) float64.

        It leaves out as much probability on either side, so its lower end is above zero even without a signal.

        Raises
        ------
        ValueError
            If `credibility` is no probability.
        """
        outside = 0.5 * (1 - probability(credibility, "credibility", "give one such as 0.95"))
        return self.quantile(jnp.asarray([outside, 1 - outside]))


def integral_below(x: jax.Array, density: jax.Array) -> jax.Array:
    """Return the integral of a density up to each of some values in order, by the trapezoidal rule, (n,) float64."""
    steps = 0.5 * (density[1:] + density[:-1]) * jnp.diff(x)
    return jnp.concatenate([jnp.zeros(1), jnp.cumsum(steps)])


def averaged(densities: PosteriorDensity, log_weight: jax.Array) -> PosteriorDensity:
    """Return the average of densities, a stack (J, n), whose weights have given logarithms up to a constant, (J,)."""
    n = FINER * densities.values.shape[-1]
    together = jnp.sort(densities.values.reshape(-1))
    values = together[jnp.linspace(0, len(together) - 1, n).round().astype(int)]
    each = jax.vmap(lambda x, density: jnp.interp(values, x, density, left=0.0, right=0.0))(
        densities.values, densities.density
    )
    return PosteriorDensity(values, jax.nn.softmax(log_weight) @ each)
