"""Regions much smaller than a template's ball, down to single positions."""

import numpy as np
import pytest

import jfstat
from jfstat.banks.regions import Disc, Zone
from jfstat.maths.vectors import unit_vector

START = 1_167_458_304
CENTRE = unit_vector(1.0, 0.3)
"""A position near the ecliptic, where patches are cut along a plane that most of them do not touch."""


@pytest.fixture(scope="module")
def observed():
    return jfstat.observation(["H1", "L1"], start=START, duration=5 * 86400, sqrt_sx=4e-24)


@pytest.mark.parametrize("width", [1e-3, 1e-5, 1e-9, 0.0])
def test_one_template_covers_a_small_box(observed, width):
    box = dict(alpha=(1.0, 1.0 + width), delta=(0.3, 0.3 + width), freq=100.0, reftime=START)
    bank = jfstat.template_bank(**box, mismatch=0.3, data=observed)
    assert len(bank.alpha) == 1
    assert abs(bank.alpha[0] - 1) < 0.1 and abs(bank.delta[0] - 0.3) < 0.1


@pytest.mark.parametrize("radius", [1e-3, 1e-6, 1e-9])
def test_boundaries_have_the_points_that_cross_the_region(radius):
    axis = unit_vector(2.0, -0.9)
    height = CENTRE @ axis
    step = min(radius / 400, 9e-5)
    *edges, chord = Zone(Disc(CENTRE, radius), axis, height, 1.0).boundary(step)
    assert sum(map(len, edges)) + len(chord) < 4000
    assert np.all(np.abs(chord @ axis - height) < 1e-15)
    # the plane goes through the centre: half the circle, in pieces, and its diameter
    around = sum(np.linalg.norm(np.diff(edge, axis=0), axis=1).sum() for edge in edges)
    np.testing.assert_allclose([np.linalg.norm(chord[0] - chord[-1]), around], [2 * radius, np.pi * radius], rtol=0.02)
