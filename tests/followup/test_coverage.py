"""Candidates that programs are shared by: on accelerators all, as long as to compile takes longer than to compute."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from astropy.table import QTable
from cases import make
from hypothesis import given, settings
from hypothesis import strategies as st

import jfstat
from jfstat.followup import batches
from jfstat.followup.candidates import read_rows
from jfstat.followup.coverage import coverages, usual
from jfstat.followup.foreseen import programs_of_next_stage
from jfstat.followup.free import FreeParameters
from jfstat.followup.method import NEWTON
from jfstat.followup.neighbourhood import REGION_BINS, Neighbourhood
from jfstat.followup.programs import foresee
from jfstat.followup.refine import Refining
from jfstat.signal.times import gps_time

NAMES = ("freq", "f1dot", "alpha", "delta")
SIGMAS = (1e-7, 2e-11, 1e-3, 1e-3)
"""About the semi-axes of a region, in the order of NAMES."""


@pytest.fixture(scope="module")
def case():
    return make(150.0, seed=23, days=2.0, noise=True, h0=3.2e-25, half_band=0.05, guard=0.3)


@pytest.fixture
def accelerator(monkeypatch):
    """Follow candidates up as on an accelerator, in batches of 4 or 16."""
    monkeypatch.setattr(batches, "_on_cpu", lambda data: False)
    monkeypatch.setattr(batches, "DEVICE_SIZES", (1, 4, 16))


def region(scale):
    """A region of a follow-up around n candidates, as large as given for each."""
    spread = np.asarray(scale)[:, None, None] * np.diag(SIGMAS)
    return Neighbourhood(spread=spread, peaks=np.zeros((len(scale), 1, 4)))


def covered(case, swing, around):
    """Coverages of candidates whose frequencies deviate so much, in bins of 1/T."""
    points = jax.tree.map(lambda x: np.repeat(np.asarray(x)[None], len(swing), axis=0), case.doppler)
    bins = np.asarray(swing) / float(case.data.tspan)
    return coverages(case.data, points, NAMES, bins, np.zeros(len(swing)), around)


@settings(max_examples=30, deadline=None)
@given(swing=st.lists(st.floats(0, 300), min_size=1, max_size=8))
def test_all_that_is_wanted_is_covered(case, swing):
    for around in (Neighbourhood.checked(1.0, None), region(np.ones(len(swing)))):
        with pytest.MonkeyPatch.context() as patch:
            apart = covered(case, swing, around)
            patch.setattr(batches, "_on_cpu", lambda data: False)
            together = covered(case, swing, around)
        for deviation, own, shared in zip(swing, apart, together, strict=True):
            assert own.bins == shared.bins == own.shared.bins <= shared.shared.bins
            assert own.fewer == shared.fewer
            needed = (deviation + own.bins) / float(case.data.tspan)
            assert own.fewer or min(own.shared.reach, shared.shared.reach) >= needed
        assert len({x.shared for x in together}) == 1


def test_programs_are_shared_by_few_candidates_on_accelerators(case, accelerator, monkeypatch):
    swing = np.geomspace(1, 200, 5)
    around = region(np.ones(5))
    assert len({x.shared for x in covered(case, swing, around)}) == 1
    assert {x.shared.bins for x in covered(case, swing, around)} == {REGION_BINS[-1]}
    monkeypatch.setattr(batches, "MANY", 4)
    assert len({x.shared.reach for x in covered(case, swing, around)}) > 1


def test_regions_of_all_sizes_share_programs_on_accelerators(case, accelerator):
    """Whether few or many follow: what the next stage needs is known before it begins."""
    least = batches.reaches(case.data, jax.tree.map(lambda x: np.asarray(x)[None], case.doppler))
    expected = usual(case.data, least, NAMES, Neighbourhood(), in_regions=True)
    for swing in ([0.0], [0.0, 1.0, 3.0], [0.1, 200.0]):
        assert {x.shared for x in covered(case, swing, region(np.ones(len(swing))))} == {expected}
    without = usual(case.data, least, NAMES[1:], Neighbourhood(), in_regions=True)
    assert without is not None and without.bins == 0.0


@pytest.mark.parametrize(
    ("names", "kinds"),
    [pytest.param(("asini",), 1, marks=pytest.mark.ci), pytest.param(("freq", "asini"), 2, marks=pytest.mark.slow)],
)
def test_programs_of_the_next_stage_are_of_candidates_that_have_parameters(
    case, accelerator, monkeypatch, names, kinds
):
    """Isolated candidates have none where orbits alone are refined; and nothing is foreseen on a CPU."""
    row = {name: np.full(2, float(x)) for name, x in zip(NAMES[:2], case.doppler.fkdot, strict=True)}
    row |= {name: np.full(2, float(getattr(case.doppler, name))) for name in NAMES[2:]}
    orbits = {"asini": np.array([0.0, 1e-3]), "period": np.full(2, 9e4), "tp": np.full(2, 1.2e9)}
    candidates = read_rows(case.data, QTable(row | orbits), gps_time(case.doppler.reftime.common, "reftime"))
    assert candidates.sound.tolist() == [True, True]
    program = "survey", "focus", "climb", "look", "measure", "describe"
    how = Refining(FreeParameters.within(names, None), Neighbourhood())
    lowered = [own.as_text() for own in programs_of_next_stage(case.data, candidates, how, 3)]
    found = [
        next(name for name in ("_fits", "_mismatches", *program) if f"@jit_{name}" in own[:400]) for own in lowered
    ]
    assert sorted(found) == sorted(["_fits", "_mismatches", *kinds * program])
    monkeypatch.setattr(batches, "_on_cpu", lambda data: True)
    assert not list(programs_of_next_stage(case.data, candidates, how, 3))


def test_balls_over_segments_need_what_is_foreseen(case, accelerator):
    """Programs are lowered while those that survey candidates compile, so they must not depend on what these find."""
    sfts = jfstat.simulate_sfts(["H1", "L1"], 1167458304, 172800, 148.9, 151.1, sqrt_sx=1e-23, seed=1)
    data = jfstat.prepare(sfts, 149.99, 150.01, segments=4)
    points = jax.tree.map(lambda x: np.repeat(np.asarray(x)[None], 3, axis=0), case.doppler)
    free, around = FreeParameters.within(NAMES, None), Neighbourhood()
    foreseen = foresee(data, points, free, around, False, NEWTON)
    assert foreseen is not None
    for most, served in ((1.0, True), (3.0, True), (9.0, False)):
        swing = np.array([0.0, 0.5, most])
        found = coverages(data, points, NAMES, swing / float(data.tspan), np.zeros(3), around)
        assert foreseen.serve(found[0].shared, foreseen.n_trials) == served
        assert len({own.shared for own in found}) == 1
    # what is covered around others differs too much
    assert foresee(case.data, points, free, around, False, NEWTON) is None
    assert foresee(data, points, FreeParameters.within(NAMES[2:], None), around, False, NEWTON) is None


def test_narrow_data_are_widened_only_as_far_as_they_stay_small(case, accelerator, monkeypatch):
    """Of segments, which have many nodes: the others still share the largest reach among them."""
    least = covered(case, [0.0], Neighbourhood.checked(1.0, 2.0))[0].shared.reach
    most = 20 * batches.narrow_nodes(case.data, least)
    monkeypatch.setattr(batches, "SMALL_NODES", most)
    swing = least * float(case.data.tspan) * np.array([0.1, 2.0, 10.0, 50.0])
    reach = [x.shared.reach / least for x in covered(case, swing, region(np.ones(4)))]
    assert reach == [16.0, 16.0, 16.0, 64.0]


@pytest.mark.parametrize(
    ("n", "reach", "on_cpu", "size"),
    [(1, 1.0, False, 1), (2, 1.0, False, 4), (9, 1.0, False, 4), (1, 1e-5, False, 16), (9, 1.0, True, 16)],
)
def test_few_large_data_are_in_memory_at_a_time(case, accelerator, monkeypatch, n, reach, on_cpu, size):
    monkeypatch.setattr(batches, "_on_cpu", lambda data: on_cpu)
    found = list(
        batches.batches(np.arange(n), np.zeros(n, int), lambda _, n: batches.narrow_batch_size(case.data, reach, n, 16))
    )
    assert {len(batch.places) for batch in found} == {size}
    assert np.concatenate([batch.rows for batch in found]).tolist() == list(range(n))


def test_narrow_data_that_would_be_too_large_are_left_out(case, accelerator):
    swing = np.array([1.0, 40.0, 3e6])
    few, some, most = covered(case, swing, Neighbourhood.checked(1.0, 8.0))
    assert few.shared == some.shared != most.shared
    assert most.fewer and not few.fewer and most.shared.reach < some.shared.reach
