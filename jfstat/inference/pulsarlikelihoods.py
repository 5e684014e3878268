"""Measure known pulsars in SFTs: their likelihoods at one frequency of their signals, and rows of a table.

A glitch parts the data, for a template holds between two glitches. The parts of a pulsar are added up, with the phases
that the timing solution has in each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.narrowdata import NarrowData
from jfstat.inference.bstat import unit_of_h0
from jfstat.inference.pulsarsignals import OfHarmonic
from jfstat.inference.timingmismatch import timing_mismatch
from jfstat.searching.knownpulsars import PulsarSearch
from jfstat.searching.targeted import Stretch, narrowed, row_of, stretches_of, table_of
from jfstat.statistic.likelihood import AmplitudeLikelihood, likelihood_of_each

if TYPE_CHECKING:
    from astropy.table import QTable


@dataclass(frozen=True, eq=False)
class Measured:
    """What the SFTs say of n pulsars at one harmonic.

    Attributes
    ----------
    search : PulsarSearch
    stretches : list of Stretch
        Each pulsar with its template, which is that before the first glitch, and the times of its first and last SFT.
    rows : list of (m,) ndarray
        Numbers of `row_of` for each.
    likelihoods : list of pairs
        The likelihood of each, and the unit of amplitudes without a prior.
    mismatches : list of float
        What the errors of each solution cost, see `timing_mismatch`; after a glitch if they cost more there.
    """

    search: PulsarSearch
    stretches: list[Stretch]
    rows: list[np.ndarray]
    likelihoods: list[OfHarmonic]
    mismatches: list[float]

    @property
    def table(self) -> QTable:
        """The table of `search_pulsars`, with a row for each pulsar."""
        return table_of(self.stretches, dict(enumerate(self.rows)), self.search)

    def only(self, keys: list[tuple[int, float]]) -> Measured:
        """Return what there is of given pulsars, in that order."""
        place = {key: i for i, key in enumerate(map(_key, self.stretches))}
        order = [place[key] for key in keys]
        stretches = [replace(self.stretches[i], place=j) for j, i in enumerate(order)]
        rows, likelihoods = [self.rows[i] for i in order], [self.likelihoods[i] for i in order]
        return Measured(self.search, stretches, rows, likelihoods, [self.mismatches[i] for i in order])


class OfStretch(NamedTuple):
    """What the SFTs between two glitches say of a pulsar.

    Attributes
    ----------
    stretch : Stretch
    row : (m,) ndarray
        Numbers of `row_of`.
    detectors : tuple of str
    likelihood : AmplitudeLikelihood
        Of each of these detectors, (D,).
    unit : () float64
        Unit of amplitudes without a prior.
    mismatch : float
        From `timing_mismatch`.
    """

    stretch: Stretch
    row: np.ndarray
    detectors: tuple[str, ...]
    likelihood: AmplitudeLikelihood
    unit: jax.Array
    mismatch: float


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
    found = {}
    for x, data in narrowed(stretches, search):
        lost = timing_mismatch(x.pulsar, data.observation, x.start, x.end, search.band.harmonic)
        likelihood, unit = _likelihood_and_unit(data)
        found[x.place] = OfStretch(x, row_of(data, search), data.detectors, likelihood, unit, lost)
    stars = [[found[x.place] for x in own] for own in _by_pulsar(stretches)]
    whole = [_together(parts, search) for parts in stars]
    return Measured(
        search,
        [replace(x, place=i) for i, (x, _, _) in enumerate(whole)],
        [row for _, row, _ in whole],
        [own for _, _, own in whole],
        [max(x.mismatch for x in parts) for parts in stars],
    )


def common(measured: list[Measured]) -> list[Measured]:
    """Return what there is of the pulsars that were measured at all harmonics.

    Raises
    ------
    ValueError
        If there are none.
    """
    keys = [_key(x) for x in measured[-1].stretches]
    for other in measured[:-1]:
        present = {_key(x) for x in other.stretches}
        keys = [key for key in keys if key in present]
    if not keys:
        raise ValueError(
            "the SFTs hold no pulsar at both harmonics: give SFTs around the rotation frequency and twice it."
        )
    return [one.only(keys) for one in measured]


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


def _together(parts: list[OfStretch], search: PulsarSearch) -> tuple[Stretch, np.ndarray, OfHarmonic]:
    """Return a pulsar's template and times, its numbers for a table, and its likelihood."""
    first = parts[0]
    if len(parts) == 1:
        return first.stretch, first.row, (_summed(first.likelihood), first.unit)
    names = search.parts.times.detectors
    each = jax.tree.map(lambda *x: jnp.sum(jnp.stack(x), axis=0), *(_in_phase(x, first, names) for x in parts))
    total = _summed(each)
    row = np.array(jnp.concatenate([total.twoF[None], each.twoF, total.estimate.columns]))
    present = np.isin(names, [name for x in parts for name in x.detectors])
    row[1 : 1 + len(names)][~present] = np.nan
    whole = replace(first.stretch, end=parts[-1].stretch.end, phase_error=max(x.stretch.phase_error for x in parts))
    unit = jnp.sum(jnp.stack([x.unit**-2 for x in parts])) ** -0.5
    return whole, row, (total, unit)


def _in_phase(part: OfStretch, first: OfStretch, names: tuple[str, ...]) -> AmplitudeLikelihood:
    """Return a part's likelihood for amplitudes of the first part's template, of all detectors, (D,)."""
    angle = -2 * np.pi * (part.stretch.cycles - first.stretch.cycles)
    own = part.likelihood
    turned = own._replace(xa=own.xa * np.exp(1j * angle), xb=own.xb * np.exp(1j * angle))
    places = np.array([names.index(name) for name in part.detectors])
    return jax.tree.map(lambda x: jnp.zeros(len(names), x.dtype).at[places].set(x), turned)


def _summed(likelihood: AmplitudeLikelihood) -> AmplitudeLikelihood:
    return jax.tree.map(jnp.sum, likelihood)


@jax.jit
def _likelihood_and_unit(data: NarrowData) -> tuple[AmplitudeLikelihood, jax.Array]:
    return jax.tree.map(lambda x: jnp.sum(x, axis=0), likelihood_of_each(data, data.centre)), unit_of_h0(data)
