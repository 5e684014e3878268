"""Measure known pulsars in SFTs: their likelihoods at one frequency of their signals, and rows of a table.

A glitch parts the data, for a template holds between two glitches. The parts of a pulsar are added up, with the phases
that the timing solution has in each.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.narrowdata import NarrowData
from jfstat.data.observation import Observation
from jfstat.geometry.nearby import phase_difference, sites
from jfstat.inference.bstat import unit_of_h0
from jfstat.pulsars.timingerrors import TimingErrors, errors_of, frequency_spread, moved_errors, phase_steps, with_room
from jfstat.searching.knownpulsars import PulsarSearch
from jfstat.searching.targeted import Stretch, alike, narrowed, row_of, stretches_of, table_of
from jfstat.signal.templates import Doppler
from jfstat.statistic.likelihood import AmplitudeLikelihood, likelihood_of_each

if TYPE_CHECKING:
    from astropy.table import QTable

DRAWN = 64
"""Number of solutions, drawn from the errors, over which the loss of rho^2 is averaged."""
AT_ONCE = 8
"""Number of templates whose values are computed together."""
NODES = 2
"""Times per SFT at which phases of templates are compared."""
SIZES = 1.0, 0.37
"""Parts of an error by which an entry is changed: by one a phase may change by whole cycles, which would not count."""
SPREADS = 5.0
"""Reach of the data of a pulsar in standard deviations of the frequency."""
FAINT = 10.0
"""2F from which a loss is counted: noise alone has some 4."""
LEAST_LOSS = 1e-4
"""Mean loss of the logarithm of the likelihood at one harmonic below which its data are not kept."""


class OfStretch(NamedTuple):
    """What the SFTs between two glitches say of a pulsar.

    Attributes
    ----------
    stretch : Stretch
    data : NarrowData
    errors : TimingErrors or None
        Of the stretch's template.
    phase_steps : dict of str to float
        Changes of the stretch's phase, cycles, by one error of entries of glitches.
    """

    stretch: Stretch
    data: NarrowData
    errors: TimingErrors | None
    phase_steps: dict[str, float]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the entries whose errors change the signal."""
        own = () if self.errors is None else self.errors.names
        return tuple(dict.fromkeys((*own, *self.phase_steps)))

    def templates(self, names: tuple[str, ...], z: np.ndarray) -> Doppler:
        """Return a stack of templates for differences of named entries in standard errors, (n, d)."""
        if self.errors is None:
            return jax.tree.map(lambda x: np.broadcast_to(x, (len(z), *np.shape(x))), self.stretch.point)
        zero = np.zeros(len(z))
        own = [z[:, names.index(name)] if name in names else zero for name in self.errors.names]
        return _templates(self.errors, jnp.asarray(np.stack(own, axis=-1)))

    def cycles(self, names: tuple[str, ...], z: np.ndarray) -> np.ndarray:
        """Return the changes of the phase for such differences, (n,), cycles."""
        own = (x * z[:, names.index(name)] for name, x in self.phase_steps.items() if name in names)
        return sum(own, np.zeros(len(z)))


@dataclass(frozen=True, eq=False)
class OfPulsar:
    """What the SFTs say of a pulsar at one harmonic.

    Attributes
    ----------
    stretch : Stretch
        The pulsar's template, which is that before the first glitch, and the times of its first and last SFT.
    parts : list of OfStretch
        Empty if the errors of the solution do not matter at this harmonic.
    row : (m,) ndarray
        Numbers of `row_of`.
    likelihood : AmplitudeLikelihood
        At the template of the solution.
    unit : () float64
        Unit of amplitudes without a prior.
    mismatch : float
        The fraction of rho^2 that is lost by the errors of the solution, on average; 0 without errors.
    """

    stretch: Stretch
    parts: list[OfStretch]
    row: np.ndarray
    likelihood: AmplitudeLikelihood
    unit: jax.Array
    mismatch: float

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the entries whose errors change the signal."""
        return names_of(self.parts)

    def log_loss(self, mismatch: float | np.ndarray) -> float | np.ndarray:
        """Return the loss of the logarithm of the likelihood by a mismatch."""
        return 0.5 * mismatch * max(float(self.row[0]), FAINT)

    def losses(self, names: tuple[str, ...]) -> np.ndarray:
        """Return the largest loss of the logarithm of the likelihood by some parts of an error of each entry, (d,)."""
        z = np.concatenate([size * np.eye(len(names)) for size in SIZES])
        return np.asarray(self.log_loss(_mismatches(self.parts, names, z))).reshape(len(SIZES), -1).max(axis=0)

    def likelihoods(self, names: tuple[str, ...], z: np.ndarray) -> tuple[AmplitudeLikelihood, np.ndarray]:
        """Return the likelihoods for differences of entries in standard errors, (n, d), and which the data reach, (n,).

        The amplitudes are those of the first part's template.
        """
        if not self.parts:
            return jax.tree.map(lambda x: jnp.full(len(z), x), self.likelihood), np.ones(len(z), bool)
        first = self.parts[0]
        found = [_likelihoods(x.data, x.templates(names, z)) for x in self.parts]
        phases = [
            x.stretch.cycles - first.stretch.cycles + x.cycles(names, z) - first.cycles(names, z) for x in self.parts
        ]
        turns = [turned(own, cycles) for (own, _), cycles in zip(found, phases, strict=True)]
        return jax.tree.map(lambda *x: sum(x[1:], x[0]), *turns), np.all([fits for _, fits in found], axis=0)


@dataclass(frozen=True, eq=False)
class Measured:
    """What the SFTs say of pulsars at one harmonic.

    Attributes
    ----------
    search : PulsarSearch
    pulsars : list of OfPulsar
    """

    search: PulsarSearch
    pulsars: list[OfPulsar]

    @property
    def table(self) -> QTable:
        """The table of `search_pulsars`, with a row for each pulsar."""
        rows = {i: x.row for i, x in enumerate(self.pulsars)}
        return table_of([replace(x.stretch, place=i) for i, x in enumerate(self.pulsars)], rows, self.search)


def measured(search: PulsarSearch) -> Measured:
    """Measure pulsars in SFTs.

    Raises
    ------
    ValueError
        As for `stretches_of` and `narrowed`.

    Warns
    -----
    UserWarning
        If some pulsars are left out.
    """
    stretches = stretches_of(search, in_phase=True)
    harmonic = search.band.harmonic
    errors = [errors_of(x.pulsar, x.start, x.end, harmonic, x.orbit_times) for x in stretches]
    pairs = zip(stretches, errors, strict=True)
    stretches = alike([x if own is None else replace(x, point=with_room(x.point, own)) for x, own in pairs])
    epochs = [float(search.reftime - x.pulsar.epoch) for x in stretches]
    errors = [
        None if own is None else moved_errors(own, since, x.point)
        for x, own, since in zip(stretches, errors, epochs, strict=True)
    ]
    stretches = [
        x if own is None else replace(x, least_reach=_reach_of(own, x, float(search.reftime)))
        for x, own in zip(stretches, errors, strict=True)
    ]
    stars = _by_pulsar(stretches)
    star_of = {x.place: i for i, own in enumerate(stars) for x in own}
    parts: dict[int, list[OfStretch]] = {i: [] for i in range(len(stars))}
    found: dict[int, OfPulsar] = {}
    for x, data in narrowed(stretches, search):
        own, star = errors[x.place], star_of[x.place]
        steps = phase_steps(x.pulsar, x.start, x.end, harmonic, search.reftime)
        parts[star].append(OfStretch(x, data, own, steps))
        if len(parts[star]) == len(stars[star]):  # narrow data of many pulsars would fill the memory
            found[star] = _together(sorted(parts.pop(star), key=lambda x: x.stretch.start), search)
    return Measured(search, [found[i] for i in range(len(stars))])


def _reach_of(errors: TimingErrors, x: Stretch, reftime: float) -> float:
    """Return how far the errors of a solution reach in frequency, Hz."""
    return SPREADS * frequency_spread(errors, (x.start - reftime, x.end - reftime))


def common(measured: list[Measured]) -> list[Measured]:
    """Return what there is of the pulsars that were measured at all harmonics.

    Raises
    ------
    ValueError
        If there are none.
    """
    keys = [_key(x.stretch) for x in measured[-1].pulsars]
    found = [{_key(x.stretch): x for x in one.pulsars} for one in measured]
    keys = [key for key in keys if all(key in one for one in found)]
    if not keys:
        raise ValueError(
            "the SFTs hold no pulsar at both harmonics: give SFTs around the rotation frequency and twice it."
        )
    return [Measured(one.search, [own[key] for key in keys]) for one, own in zip(measured, found, strict=True)]


def turned(likelihood: AmplitudeLikelihood, cycles: float | np.ndarray) -> AmplitudeLikelihood:
    """Return a likelihood, or a stack (n,), for amplitudes of a signal whose phase is behind by some cycles."""
    factor = jnp.asarray(np.exp(-2j * np.pi * cycles))
    return likelihood._replace(xa=likelihood.xa * factor, xb=likelihood.xb * factor)


def _key(x: Stretch) -> tuple[int, float]:
    return id(x.pulsar), x.start


def _by_pulsar(stretches: list[Stretch]) -> list[list[Stretch]]:
    """Return the parts of each pulsar, in order; a pulsar that is given twice stays two."""
    stars: list[list[Stretch]] = []
    for x in stretches:
        if stars and stars[-1][-1].pulsar is x.pulsar and stars[-1][-1].end <= x.start:
            stars[-1].append(x)
        else:
            stars.append([x])
    return stars


def _together(parts: list[OfStretch], search: PulsarSearch) -> OfPulsar:
    """Return what the parts of a pulsar say together."""
    first = parts[0].stretch
    each, units = zip(*(_likelihood_and_unit(x.data) for x in parts), strict=True)
    if len(parts) == 1:
        total, row, whole = each[0], row_of(parts[0].data, search), first
    else:
        names = search.parts.times.detectors
        turns = [turned(own, x.stretch.cycles - first.cycles) for own, x in zip(each, parts, strict=True)]
        placed = [_placed(own, x.data.detectors, names) for own, x in zip(turns, parts, strict=True)]
        total = jax.tree.map(lambda *x: jnp.sum(jnp.stack(x), axis=0), *placed)
        sums = _summed(total)
        row = np.array(jnp.concatenate([sums.twoF[None], total.twoF, sums.estimate.columns]))
        present = np.isin(names, [name for x in parts for name in x.data.detectors])
        row[1 : 1 + len(names)][~present] = np.nan
        error = max(x.stretch.phase_error for x in parts)
        whole = replace(first, end=parts[-1].stretch.end, phase_error=error)
    unit = jnp.sum(jnp.stack([x**-2 for x in units])) ** -0.5
    names = names_of(parts)
    z = _standard_draws(len(names))
    lost = float(np.nanmean(_mismatches(parts, names, z))) if names else 0.0  # some may be impossible
    found = OfPulsar(whole, parts, row, _summed(total), unit, lost)
    return found if found.log_loss(lost) > LEAST_LOSS else replace(found, parts=[])


def _standard_draws(n: int) -> np.ndarray:
    """Return `DRAWN` draws of n independent standard normal variables, with means 0 and second moments 1 to rounding,
    so that a loss that is small, and so quadratic, has its exact mean."""
    z = np.random.default_rng(0).normal(size=(DRAWN, n))
    columns, _ = np.linalg.qr(z - z.mean(axis=0))
    return columns * np.sqrt(DRAWN)


def _placed(likelihood: AmplitudeLikelihood, own: tuple[str, ...], names: tuple[str, ...]) -> AmplitudeLikelihood:
    """Return the likelihood of all detectors, (D,), given that of some."""
    places = np.array([names.index(name) for name in own])
    return jax.tree.map(lambda x: jnp.zeros(len(names), x.dtype).at[places].set(x), likelihood)


def names_of(parts: Iterable[OfStretch | OfPulsar]) -> tuple[str, ...]:
    """Return names of the entries whose errors change the signal in any of some parts, or at any harmonic."""
    return tuple(dict.fromkeys(name for x in parts for name in x.names))


def _mismatches(parts: list[OfStretch], names: tuple[str, ...], z: np.ndarray) -> np.ndarray:
    """Return the fractions of rho^2 that are lost by differences of entries in standard errors, (n, d): (n,).

    They are those of the phase: antenna patterns are neglected. Phases of the parts count, too.
    """
    n = len(z)
    z = np.pad(z, ((0, -n % DRAWN), (0, 0)))  # a program for all
    overlaps = []
    for x in parts:
        own = [
            _overlaps(x.data.observation, x.templates(names, some), x.stretch.point)
            for some in np.split(z, len(z) // DRAWN)
        ]
        overlaps.append(np.concatenate(own) * np.exp(2j * np.pi * x.cycles(names, z)))
    weights = [float(jnp.sum(x.data.observation.weight)) for x in parts]
    return (1 - np.abs(np.average(overlaps, axis=0, weights=weights)) ** 2)[:n]


def _summed(likelihood: AmplitudeLikelihood) -> AmplitudeLikelihood:
    return jax.tree.map(jnp.sum, likelihood)


@jax.jit
def _templates(errors: TimingErrors, z: jax.Array) -> Doppler:
    return jax.vmap(errors.point)(z * errors.errors)


@jax.jit
def _overlaps(observation: Observation, points: Doppler, centre: Doppler) -> jax.Array:
    """Return means over the data of exp(2 pi i (phase of each point - phase of centre)), (n,) complex128.

    Phases are zero at the templates' reference time.
    """
    time, weight = observation.quadrature(NODES)
    here = observation.source(centre)
    place = jax.vmap(lambda trajectory, t: sites(trajectory, here, t))(observation.trajectory, time)

    def one(point: Doppler) -> jax.Array:
        there = observation.source(point)
        cycles = jax.vmap(lambda x: phase_difference(x, here, there))(place)
        angle = 2 * jnp.pi * (cycles + there.cycles_at_middle - here.cycles_at_middle)
        cos, sin = (jnp.sum(weight * x) / jnp.sum(weight) for x in (jnp.cos(angle), jnp.sin(angle)))
        return jax.lax.complex(cos, sin)

    return jax.lax.map(one, points, batch_size=AT_ONCE)


@jax.jit
def _likelihoods(data: NarrowData, points: Doppler) -> tuple[AmplitudeLikelihood, jax.Array]:
    """Return the likelihoods at templates, (n,), and which of these the data reach, (n,) bool."""

    def one(point: Doppler) -> tuple[AmplitudeLikelihood, jax.Array]:
        return _summed(likelihood_of_each(data, point)), data.fits(point)

    return jax.lax.map(one, points, batch_size=AT_ONCE)


@jax.jit
def _likelihood_and_unit(data: NarrowData) -> tuple[AmplitudeLikelihood, jax.Array]:
    return jax.tree.map(lambda x: jnp.sum(x, axis=0), likelihood_of_each(data, data.centre)), unit_of_h0(data)
