"""Share what the statistics robust against lines have in common, and the sums over segments of each detector."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.candidates.details import Details
from jfstat.candidates.falsealarm import false_alarm
from jfstat.candidates.tables import Meta
from jfstat.data.bandseries import Layout
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import FLOAT32
from jfstat.engines.engine import Loudest
from jfstat.engines.reduction import histogram_of_means, loudest_means
from jfstat.engines.xla import Xla, two_f_each_in_order
from jfstat.searching.division import Division
from jfstat.searching.options import Keep
from jfstat.searching.statistic import Task
from jfstat.searching.statistics.band import XlaStatistic, where_counted
from jfstat.signal.templates import Doppler
from jfstat.statistic.linerobust import LineCut, LinePrior, log10_odds
from jfstat.validation import shown

Sums = TypeVar("Sums")


@dataclass(frozen=True)
class LineRobust(XlaStatistic):
    """A statistic that compares a signal with lines in one detector; XLA computes the transforms of each detector.

    Parameters
    ----------
    line_prior : LinePrior, optional

    Raises
    ------
    TypeError
        If `line_prior` is of another kind.
    """

    n_sums: ClassVar[int] = 1
    """Number of sums over segments that are kept of each detector."""

    line_prior: LinePrior = LinePrior()

    def __post_init__(self) -> None:
        if not isinstance(self.line_prior, LinePrior):
            raise TypeError(f"line_prior must be a jfstat.LinePrior, not {shown(self.line_prior)}.")

    def check(self, data: FstatData, stack: Doppler, keep: Keep, details: Details) -> None:
        """Raise a ValueError for data of one detector, another prior, or what the statistic does by itself."""
        if len(data.detectors) < 2:
            raise ValueError(f"{self.name} compares detectors, of which data have one: give data of two or more.")
        self.line_prior.odds(len(data.detectors))
        if details.line_prior not in (None, self.line_prior):
            raise ValueError(f"line_prior of Details differs from the one of {self.name}: leave it out of Details.")
        if keep.ranking != "F":
            raise ValueError(f"ranking {keep.ranking!r} does not go with {self.name}, which its table is sorted by.")

    def template_bytes(self, layout: Layout, n_detectors: int, orbit: bool) -> int:
        """Return the device memory per template, bytes: each detector's transforms of a segment, and running sums with
        copies."""
        return each_bytes(layout, n_detectors, orbit, self.n_sums)

    def reduced(self, data: FstatData, points: Doppler, bins: jax.Array, keep: int, same_source: bool) -> Loudest:
        """Return the largest values of a batch of templates, and tallies with a histogram of 2F or its mean."""
        odds, total = self.odds_and_sums(data, points, same_source)
        n_segments = data.n_segments or 1
        found = loudest_means(data.layout, where_counted(odds, bins), 1, keep)
        means = where_counted(total * np.float32(1 / n_segments), bins)
        return found._replace(histogram=histogram_of_means(means, n_segments))

    def values(self, data: FstatData, points: Doppler, bins: jax.Array, same_source: bool) -> jax.Array:
        """Return values at the frequencies of the band, (B, n_frequencies) float32; -inf where none counts."""
        odds, _ = self.odds_and_sums(data, points, same_source)
        return where_counted(odds, bins)

    @abstractmethod
    def odds_and_sums(self, data: FstatData, points: Doppler, same_source: bool) -> tuple[jax.Array, jax.Array]:
        """Return log10 of the odds and the sums over segments of 2F, (B, n_frequencies) float32 each."""

    def expected_in_noise(self, task: Task, n_values: float) -> float:
        """Return an upper bound: log10 of the odds is at least x only where 2F is at least 2 (x ln 10 + C)."""
        odds, least = self.line_prior.odds(len(task.data.detectors)), task.toplist.threshold
        n_segments = task.data.n_segments or 1
        if least is None or self.line_prior.fstar0 == -math.inf:
            return n_values
        twoF = 2 * (least * math.log(10) + self.line_prior.fstar0 - math.log1p(sum(odds)))
        return float(false_alarm(max(twoF, 0.0) / n_segments, 1, n_segments)) * n_values

    def meta(self, task: Task, division: Division) -> Meta:
        """Return the prior of lines, by ComputeFstatistic_v2's names."""
        return dict(self.line_prior.meta)

    @classmethod
    def loudness(cls, meta: Meta) -> str:
        """Return the name of the statistic's column."""
        return cls.quantity

    @classmethod
    def false_alarm(cls, columns: dict[str, np.ndarray], meta: Meta) -> float | None:
        """Return None: the distribution in noise is not known in closed form."""


def each_bytes(layout: Layout, n_detectors: int, orbit: bool, n_sums: int) -> int:
    """Return the device memory per template, bytes, of each detector's transforms and so many sums of each."""
    # with a cut by log10BSGL, XLA holds each detector's transforms too
    transforms = Xla(LineCut(0.0, 0.0, ())).template_bytes(layout, n_detectors, orbit)
    return transforms + (4 + (2 + 2 * n_sums) * n_detectors) * FLOAT32 * layout.n_frequencies


def summed_segments(
    data: FstatData,
    points: Doppler,
    same_source: bool,
    sums: Sums,
    add: Callable[[Sums, jax.Array], Sums],
) -> tuple[jax.Array, Sums]:
    """Add up the segments of each detector, one after the other, so that their values need not be kept; traceable.

    Parameters
    ----------
    data : FstatData
        With segments, or without as if it were one.
    points : Doppler
        Stack of B templates.
    same_source : bool
    sums : pytree of (B, D, n_frequencies) float32
        What to begin with.
    add : callable
        Returns the sums with those of a segment, (B, D, n_frequencies) float32: F of each detector, and -inf for a
        detector without data.

    Returns
    -------
    total : (B, n_frequencies) float32
        Sum over segments of 2F of all detectors.
    sums : pytree
    """

    def step(carried: tuple[jax.Array, Sums], own: FstatData) -> tuple[tuple[jax.Array, Sums], None]:
        total, before = carried
        twoF, each = two_f_each_in_order(own, points, same_source)
        there = own.observation.has_data[None, :, None]
        return (total + twoF, add(before, jnp.where(there, 0.5 * each, -jnp.inf))), None

    begin: Any = jnp.zeros((points.alpha.shape[0], data.layout.n_frequencies), jnp.float32), sums
    if data.n_segments is None:
        return step(begin, data)[0]
    return jax.lax.scan(step, begin, data)[0]


def persistent(sums: jax.Array, own: jax.Array) -> jax.Array:
    """Return sums of F of each detector with a segment's, in which a detector without data adds nothing."""
    return sums + jnp.where(own > -jnp.inf, own, 0.0)


def no_sums(data: FstatData, points: Doppler, value: float = 0.0) -> jax.Array:
    """Return sums of each detector to begin with, (B, D, n_frequencies) float32."""
    shape = points.alpha.shape[0], len(data.detectors), data.layout.n_frequencies
    return jnp.full(shape, value, jnp.float32)


def log10_bsgl_of_sums(total: jax.Array, each: jax.Array, prior: LinePrior | LineCut) -> jax.Array:
    """Return log10BSGL of sums over segments, (B, n_frequencies) float32.

    Parameters
    ----------
    total : (B, n_frequencies) float32
        Sum of 2F of all detectors.
    each : (B, D, n_frequencies) float32
        Sums of F of each detector.
    prior : LinePrior or LineCut
    """
    odds = prior.odds(each.shape[1]) if isinstance(prior, LinePrior) else prior.odds
    return log10_odds(total, [2 * each[:, d] for d in range(each.shape[1])], prior.fstar0, odds)
