"""A signal model with proper priors for samplers: `model` gives its log-densities and prior transform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np

from jfstat import kinds
from jfstat.data.checks import check_data, check_point
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrowdata import NarrowData
from jfstat.display import Displayed, Facts
from jfstat.inference.amplitudeprior import AmplitudePrior, is_distribution
from jfstat.inference.bstat import log_bstat_of, unit_of_h0
from jfstat.inference.distributions import KINDS, Distribution, Normal, from_normal
from jfstat.maths.arrays import any_traced
from jfstat.public import public
from jfstat.pulsars.timingerrors import TimingErrors
from jfstat.signal.parameters import AMPLITUDE_FIELDS
from jfstat.signal.templates import Amplitude, Doppler, template
from jfstat.signal.values import check_parameters, in_usual_order, replaced
from jfstat.statistic.amplitude import amplitude_of
from jfstat.statistic.likelihood import log_likelihood_of, total_likelihood
from jfstat.statistic.noiseenergy import NoiseEnergy
from jfstat.validation import as_float64, shown

EDGE = 1e-4
"""Probability beyond which a prior may lie outside of what the data hold."""
BETWEEN = (1e-300, 1 - 1e-16)
"""Least and largest probability at which quantiles are taken: those at 0 and 1 may be infinite."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False, eq=False)
class Model(Displayed):
    """A signal model with priors of its parameters; made by `model`.

    Its methods are pure functions of a vector of parameter values x, (p,) float64 in the order of `names`; they work
    under jit, vmap and grad. A sampler that wants values from a cube of unit size takes `prior_transform`; one that
    wants all real numbers takes `log_density_normal` and `from_normal`.

    Attributes
    ----------
    data : FstatData or NarrowData
    centre : Doppler
        Template with the values of parameters that have no prior.
    priors : dict of str to distribution
        Priors of Doppler parameters, or of differences of a .par file's entries from their values, by their names.
    timing : TimingErrors or None
        What the entries of a .par file change, if priors are of these.
    amplitude : AmplitudePrior
    energy : NoiseEnergy or None
        What the data say of their noise floor, if it is integrated over.
    marginalised : bool, static
        Whether the amplitudes are integrated over, and not among the parameters.
    names : tuple of str, static
        Names of the parameters: those with priors, and unless marginalised h0, cosi, psi and phi0.
    """

    data: FstatData | NarrowData
    centre: Doppler
    priors: dict[str, Distribution]
    timing: TimingErrors | None
    amplitude: AmplitudePrior
    energy: NoiseEnergy | None
    marginalised: bool = field(metadata=dict(static=True))
    names: tuple[str, ...] = field(metadata=dict(static=True))

    def _facts(self) -> Facts:
        what = "marginalised" if self.marginalised else "parameters"
        rows = [(name, repr(prior)) for name, prior in self.priors.items()] + [("amplitudes", what)]
        return Facts("Model", rows, many=True)

    def prior_transform(self, u: jax.Array) -> jax.Array:
        """Return the parameters at which the cumulative priors have given values between 0 and 1, (p,) float64."""
        return _prior_transform(self, self._vector(u, "u"))

    def log_prior(self, x: jax.Array) -> jax.Array:
        """Return the logarithm of the prior density, () float64; -inf outside the priors' ranges."""
        return _log_prior(self, self._vector(x, "x"))

    def log_likelihood(self, x: jax.Array) -> jax.Array:
        """Return the logarithm of the likelihood ratio of a signal against noise, () float64.

        It is `log_bstat`, or `log_likelihood` where the amplitudes are parameters; -inf, with zero gradient, for
        templates that do not fit the data.
        """
        return _log_likelihood(self, self._vector(x, "x"))

    def log_posterior(self, x: jax.Array) -> jax.Array:
        """Return log prior plus log likelihood, () float64: its integral is the Bayes factor of a signal."""
        return self.log_prior(x) + self.log_likelihood(x)

    def from_normal(self, z: jax.Array) -> jax.Array:
        """Return the parameters for numbers whose prior is a standard normal distribution, (p,) float64."""
        return _from_normal(self, self._vector(z, "z"))

    def log_density_normal(self, z: jax.Array) -> jax.Array:
        """Return the log-posterior of numbers whose prior is a standard normal distribution, () float64.

        ``from_normal(z)`` are the parameters, whose own prior is thus taken into account, for samplers such as NUTS.
        """
        return _log_density_normal(self, self._vector(z, "z"))

    def _vector(self, x: object, name: str) -> jax.Array:
        """Return the values of all parameters, (p,) float64; raise a ValueError for another shape."""
        values = as_float64(x, name)
        if values.shape != (len(self.names),):
            wanted = f"{len(self.names)} values are wanted, of {', '.join(self.names)}"
            raise ValueError(f"{name} has shape {values.shape}, but {wanted}: use jax.vmap for stacks.")
        return values

    def point(self, x: jax.Array) -> Doppler:
        """Return the template with given parameters."""
        names = self._dopplers
        own = self._vector(x, "x")[: len(names)]
        if self.timing is not None:
            return self.timing.point(own)
        return replaced(self.centre, names, own) if names else self.centre

    def amplitudes(self, x: jax.Array) -> Amplitude:
        """Return the amplitudes among given parameters.

        Raises
        ------
        ValueError
            If they are integrated over.
        """
        if self.marginalised:
            raise ValueError("the amplitudes are integrated over: jfstat.amplitude_posterior gives them at a template.")
        return self._amplitude(self._vector(x, "x"))

    def _amplitude(self, x: jax.Array) -> Amplitude:
        return amplitude_of(*x[len(self.priors) :])

    @property
    def _dopplers(self) -> tuple[str, ...]:
        return self.names[: len(self.priors)]

    @property
    def _ordered(self) -> list[Distribution]:
        return [self.priors[name] for name in self._dopplers]


@jax.jit
def _prior_transform(model: Model, u: jax.Array) -> jax.Array:
    u = jnp.clip(u, *BETWEEN)
    doppler = [prior.quantile(u[i]) for i, prior in enumerate(model._ordered)]
    amplitudes = None if model.marginalised else model.amplitude.quantiles(u[len(doppler) :])
    return _parameters(doppler, amplitudes)


def _parameters(doppler: list[jax.Array], amplitudes: Amplitude | None) -> jax.Array:
    """Return the values of all parameters, (p,) float64."""
    others = [] if amplitudes is None else [getattr(amplitudes, name) for name in AMPLITUDE_FIELDS]
    return jnp.stack([*doppler, *others])


@jax.jit
def _log_prior(model: Model, x: jax.Array) -> jax.Array:
    total = sum((prior.log_prob(x[i]) for i, prior in enumerate(model._ordered)), jnp.float64(0.0))
    return total if model.marginalised else total + model.amplitude.log_prob(model._amplitude(x))


@jax.jit
def _log_likelihood(model: Model, x: jax.Array) -> jax.Array:
    point = model.point(x)
    inside = model.data.fits(point)
    # otherwise NaN outside would spread to gradients
    safe = jax.tree.map(lambda a, b: jnp.where(inside, a, b), point, model.centre)
    if model.marginalised:
        value = log_bstat_of(total_likelihood(model.data, safe), model.amplitude, unit_of_h0(model.data))
    else:
        value = jnp.sum(log_likelihood_of(model.data, safe, model._amplitude(x), model.energy))
    return jnp.where(inside, value, -jnp.inf)


@jax.jit
def _from_normal(model: Model, z: jax.Array) -> jax.Array:
    doppler = [from_normal(prior, z[i]) for i, prior in enumerate(model._ordered)]
    amplitudes = None if model.marginalised else model.amplitude.from_normal(z[len(doppler) :])
    return _parameters(doppler, amplitudes)


@jax.jit
def _log_density_normal(model: Model, z: jax.Array) -> jax.Array:
    log_prior = -0.5 * jnp.sum(z * z) - 0.5 * len(model.names) * np.log(2 * np.pi)
    return log_prior + _log_likelihood(model, _from_normal(model, z))


@public(
    point=template,
    amplitude=kinds.instance(AmplitudePrior, or_none=True),
    marginalised=kinds.flag,
    energy=kinds.instance(NoiseEnergy, or_none=True),
)
def model(
    data: FstatData | NarrowData,
    point: Doppler,
    priors: Mapping[str, Distribution] | TimingErrors,
    amplitude: AmplitudePrior | None = None,
    *,
    marginalised: bool = True,
    energy: NoiseEnergy | None = None,
) -> Model:
    """Make a signal model with proper priors: log-densities and a prior transform, for any sampler.

    Parameters
    ----------
    data : FstatData or NarrowData
        Data of the band, without segments; narrow data are faster, but must reach as far as the priors do.
    point : Doppler or Row
        Template with the values of all parameters that have no prior.
    priors : mapping of names to distributions, or TimingErrors
        Priors of Doppler parameters by their names in tables (``freq``, ``f1dot``, ``alpha``, ``asini``, ..., and
        ``model.df``, ... of a `PhaseModel`), such as ``{"freq": jfstat.Uniform(99.9, 100.1), "delta":
        jfstat.Cosine()}``; empty for amplitudes alone. Or the errors of a pulsar's timing solution from
        `timing_errors`: the parameters are then differences from the .par file, named as its entries and in its units
        (of RAJ in s, of DECJ in arcsec), with normal priors, and `point` is the ``centre`` of the errors.
    amplitude : AmplitudePrior, optional
        Prior of the amplitudes. By default isotropic orientations and an improper uniform prior of h0, with which
        evidences are known up to a factor.
    marginalised : bool
        Whether the four amplitudes are integrated over, as by `log_bstat`. With False they are parameters, and need a
        prior of h0; a marginal likelihood has fewer and milder parameters. `amplitude_posterior` at its samples gives
        amplitudes afterwards.
    energy : NoiseEnergy, optional
        From `noise_energy`: the noise floor is integrated over, as by `log_likelihood`. Amplitudes must be parameters.

    Returns
    -------
    Model

    Raises
    ------
    TypeError
        If an argument is of another kind.
    ValueError
        If a name is unknown, there are no parameters, `point` is not the template of the timing errors, the data's
        noise floor is not known, or a template does not fit the data at an end of a prior, the other parameters in the
        middle of theirs. Further out the likelihood is zero.

    Examples
    --------
    >>> near = jfstat.narrow(data, point)
    >>> width = 1e-6
    >>> prior = jfstat.Uniform(point.fkdot[0] - width, point.fkdot[0] + width)
    >>> signal = jfstat.model(near, point, {"freq": prior}, jfstat.AmplitudePrior(h0=jfstat.HalfNormal(1e-24)))
    >>> x = signal.prior_transform(jnp.array([0.5]))
    >>> bool(abs(signal.log_likelihood(x) - jfstat.log_bstat(near, point, signal.amplitude)) < 1e-3)
    True
    """
    check_data(data, or_narrow=True)
    check_point(data, point)
    own, timing = _priors(point, priors)
    names = tuple(own)
    chosen = amplitude or AmplitudePrior()
    if not marginalised:
        chosen.require_norm()
    if energy is not None:
        if marginalised:
            raise ValueError("energy is for amplitudes that are parameters: give marginalised=False, or leave it out.")
        energy.check(data)
    if not names and marginalised:
        raise ValueError("priors is empty and the amplitudes are marginalised: no parameter is left.")
    orientation = {"cosi": chosen.cosi, "psi": chosen.psi}
    given = [name for name, x in orientation.items() if x is not None and not is_distribution(x)]
    if given and not marginalised:
        raise ValueError(f"amplitude has a known {given[0]}, so the amplitudes must be marginalised: or give a Normal.")
    amplitudes = () if marginalised else AMPLITUDE_FIELDS
    made = Model(data.for_one_template, point, own, timing, chosen, energy, marginalised, (*names, *amplitudes))
    unit_of_h0(data)  # raises an error without a noise floor
    _check_reach(made)
    return made


def _priors(point: Doppler, priors: object) -> tuple[dict[str, Distribution], TimingErrors | None]:
    """Return priors by their names, in order, and the errors of a timing solution if they are of its entries.

    Raises
    ------
    TypeError
        If they are neither.
    ValueError
        If the template lacks a parameter.
    """
    if isinstance(priors, TimingErrors):
        if not _same(point, priors.centre):
            raise ValueError("point is not the template whose errors are the priors: give that in their field centre.")
        return {name: Normal(0.0, x) for name, x in zip(priors.names, priors.errors, strict=True)}, priors
    if not isinstance(priors, Mapping):
        raise TypeError(f"priors must be a mapping of names to distributions, or TimingErrors, not {shown(priors)}.")
    names = in_usual_order(point, check_parameters(point, priors, "priors")) if priors else ()
    for name in priors:
        if not isinstance(priors[name], KINDS):
            raise TypeError(
                f"priors[{name!r}] must be a distribution such as jfstat.Uniform, not {shown(priors[name])}."
            )
    return {name: priors[name] for name in names}, None


def _same(point: Doppler, other: Doppler) -> bool:
    """Return whether two templates are the same; so are traced ones of the same structure."""
    if jax.tree.structure(point) != jax.tree.structure(other):
        return False
    pairs = list(zip(jax.tree.leaves(point), jax.tree.leaves(other), strict=True))
    return all(np.shape(x) == np.shape(y) and (any_traced((x, y)) or np.array_equal(x, y)) for x, y in pairs)


def _check_reach(made: Model) -> None:
    """Raise a ValueError if a template at an end of a prior, the others in the middle, does not fit the data."""
    if any_traced(made):
        return
    middle = np.full(len(made.names), 0.5)
    for i, name in enumerate(made._dopplers):
        for edge in (EDGE, 1 - EDGE):
            u = middle.copy()
            u[i] = edge
            try:
                made.data.check(made.point(made.prior_transform(jnp.asarray(u))))
            except ValueError as error:
                raise ValueError(f"priors[{name!r}] reaches beyond the data: {error}") from None
