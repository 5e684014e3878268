"""From a region of the sky, ranges of spin-down and a mismatch to templates: lattices laid by the phase metric."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from jfstat.banks.chartpoints import chart_templates
from jfstat.banks.charts import MAX_TEMPLATES, ONE_FACET, Chart, sky_charts
from jfstat.banks.regions import Region, angles
from jfstat.banks.spinlattice import PaddedBox, spin_points
from jfstat.banks.wanted import Templates, Wanted, expected_points, generator_of
from jfstat.maths.lattices import covering_lattice
from jfstat.metrics.phasemetric import drift, restricted


class SpinPlan(NamedTuple):
    """Templates of one sky position that stands for all of a small region, or for itself.

    Attributes
    ----------
    kept : list of int
        Orders of the spin-downs with a lattice dimension.
    box : PaddedBox
    expected : float
        Number of templates, about.
    """

    kept: list[int]
    box: PaddedBox
    expected: float


def spin_plan(wanted: Wanted, around_it: np.ndarray) -> SpinPlan | None:
    """The plan of fewest templates for one position; None if it cannot stand for all the positions `around_it`.

    Parameters
    ----------
    wanted : Wanted
    around_it : (n, 3) float64
        Positions to cover less the template's.
    """
    plans = []
    for kept, held in wanted.choices():
        k = len(kept)
        upper = restricted(wanted.factor, [0, *kept, *wanted.sky_columns, *held])
        corners = wanted.corners(held)
        offsets = np.concatenate(
            [np.repeat(around_it, len(corners), axis=0), np.tile(corners, (len(around_it), 1))], axis=1
        )
        left = wanted.mismatch - np.max(np.sum((offsets @ upper[1 + k :, 1 + k :].T) ** 2, axis=1))
        if left <= 0:
            continue
        shift = offsets @ drift(upper, 1 + k)[1:].T
        box = wanted.spin_box(kept, upper[1 : 1 + k, 1 : 1 + k], float(np.sqrt(left)), np.max(np.abs(shift), axis=0))
        plans.append(SpinPlan(kept, box, expected_points(box, k, np.sum(np.log(np.diag(box.factor))))))
    return min(plans, key=lambda plan: plan.expected, default=None)


def spin_templates(wanted: Wanted, plan: SpinPlan) -> np.ndarray:
    """Spin-downs (n, s) of a plan for one position."""
    k = len(plan.kept)
    if not k:
        return wanted.centre[None]
    generator = generator_of(plan.box.factor, plan.box.radius * covering_lattice(k))
    _, points = spin_points(plan.box, generator, 0.5 * (plan.box.low + plan.box.high)[None])
    return wanted.filled(points, plan.kept)


@dataclass(frozen=True)
class Cover:
    """How a region is to be covered: by one sky position or by charts.

    Attributes
    ----------
    wanted : Wanted
    positions : (n, 3) float64
        Sky positions that have all spin-downs of `plan`; none if there are charts.
    plan : SpinPlan or None
    charts : list of Chart
    """

    wanted: Wanted
    positions: np.ndarray
    plan: SpinPlan | None
    charts: list[Chart]

    @property
    def expected_size(self) -> float:
        """Number of templates, about."""
        if self.plan is not None:
            return len(self.positions) * self.plan.expected
        return sum(chart.expected for chart in self.charts)

    def templates(self) -> Templates:
        """All of them.

        Raises
        ------
        ValueError
            If there would be more than `MAX_TEMPLATES`.
        """
        if self.expected_size > MAX_TEMPLATES:
            raise ValueError(
                f"mismatch must be larger, not {self.wanted.mismatch:g}: the bank would have about "
                f"{self.expected_size:.2g} templates and the most is {MAX_TEMPLATES:.0g}; or narrow the ranges."
            )
        if self.plan is None:
            return joined(piece for chart in self.charts for piece in chart_templates(self.wanted, chart))
        spins = spin_templates(self.wanted, self.plan)
        alpha, delta = (np.repeat(x, len(spins)) for x in angles(self.positions))
        return Templates(alpha, delta, np.tile(spins, (len(self.positions), 1)))


def cover_positions(wanted: Wanted, positions: np.ndarray) -> Cover:
    """Spin-downs at each of the positions, (n, 3) unit vectors."""
    return Cover(wanted, positions, spin_plan(wanted, np.zeros((1, 3))), [])


def cover_region(wanted: Wanted, region: Region) -> Cover:
    """A region of the sky and spin-downs."""
    charts = sky_charts(wanted, region)
    centre, radius = region.cap
    if radius < ONE_FACET:
        plan = spin_plan(wanted, charts[0].part.points - centre)
        if plan is not None and plan.expected < sum(chart.expected for chart in charts):
            return Cover(wanted, centre[None], plan, [])
    return Cover(wanted, np.empty((0, 3)), None, charts)


def joined(pieces: Iterable[Templates]) -> Templates:
    """All templates of several pieces, in their order."""
    alpha, delta, spins = zip(*pieces, strict=True)
    return Templates(np.concatenate(alpha), np.concatenate(delta), np.concatenate(spins))
