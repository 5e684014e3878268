"""Shapes in steps: data of other days and gaps run the programs that are compiled already, with the same results."""

import time

import cases
import jax
import numpy as np
import pytest
from compilations import counted_compilations
from hypothesis import given
from hypothesis import strategies as st

import jfstat
from jfstat.data import narrow as narrow_module
from jfstat.followup.band import CandidateBand
from jfstat.maths.ladder import padded_size
from jfstat.statistic import fstat as fstat_module

START, DAY = 1_167_458_304, 86400
SIZE = 0.05


def simulated(seed, day, duty):
    """Three days of two detectors with gaps at random, the first and the last SFT there; a signal and its template."""
    rng = np.random.default_rng(seed)
    start = START + day * DAY
    times = cases.random_timestamps(rng, ["H1", "L1"], start, 3, 1.0)
    for name in times:
        kept = np.sort(rng.choice(np.arange(1, 143), round(duty * 142), replace=False))
        times[name] = times[name][np.r_[0, kept, 143]]
    point = jfstat.Doppler(rng.uniform(0, 6.28), rng.uniform(-1, 1), [50.0, -1e-10], reftime=start)
    amplitude = jfstat.Amplitude(3e-25, 0.3, 0.1, 0.2)
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], timestamps=times, fmin=48.8, fmax=51.2, signals=[(point, amplitude)], seed=seed
    )
    return jfstat.prepare(sfts, 50 - SIZE, 50 + SIZE, start, sqrt_sx=4e-24), point


@given(st.integers(1, 10**9))
def test_the_ladder_holds_everything_and_wastes_little(n):
    size = padded_size(n)
    assert n <= size <= max(n + 1, 1.07 * n)
    assert padded_size(size) == size


def bank_around(point):
    offsets = np.linspace(-2e-3, 2e-3, 5)
    return jfstat.Doppler(
        np.asarray(point.alpha) + offsets, np.broadcast_to(point.delta, 5), np.tile(point.fkdot, (5, 1)), point.reftime
    )


@pytest.mark.ci
def test_another_day_with_other_gaps_compiles_nothing_anew():
    (first, point), (second, other) = simulated(1, 0, 0.8), simulated(2, 1, 0.65)
    shapes = [[(x.shape, x.dtype) for x in jax.tree.leaves(data)] for data in (first, second)]
    assert not any(x.weak_type for x in jax.tree.leaves((first, second)))
    assert shapes[0] == shapes[1]
    assert jax.tree.structure(first) == jax.tree.structure(second)

    jfstat.search(first, bank_around(point), top=5, progress=False)
    jfstat.twoF(first, point), jfstat.twoF_band(first, point)
    with counted_compilations() as compilations:
        jfstat.refine(first, point, progress=False)
    own = [
        name
        for name in compilations
        if any(x in name for x in ("survey", "focus", "look", "climb", "describe", "_mismatches"))
    ]
    assert len(own) == len(set(own)) == 6, own  # those that are compiled beforehand are those that run
    programs = [fstat_module._twoF, fstat_module.compiled_band, narrow_module.narrowed]
    before = [program._cache_size() for program in programs]

    with counted_compilations() as compilations:
        jfstat.search(second, bank_around(other), top=5, progress=False)
        jfstat.twoF(second, other), jfstat.twoF_band(second, other)
        began = time.perf_counter()
        better = jfstat.refine(second, other, progress=False)
        took = time.perf_counter() - began
    assert [program._cache_size() for program in programs] == before
    assert compilations == [], compilations
    assert took < 0.5  # where the first compiles for seconds
    assert bool(better["converged"][0])


def test_candidates_of_other_bands_share_sizes():
    """Sizes are those of some widths of the pass band, whatever the frequencies and spin-downs of the candidates."""
    sfts = jfstat.simulate_sfts(["H1"], START, 2 * DAY, 99.0, 101.6, sqrt_sx=4e-24, seed=4)
    rng, shapes = np.random.default_rng(5), []
    for width in (0.2, 0.21, 0.225):
        freq = rng.uniform(99.8, 100.4) + np.array([0, width])
        columns = {"freq": freq, "f1dot": rng.uniform(-1e-9, 1e-9, 2)}
        options = dict(noise=jfstat.Noise(4e-24), ephemeris="DE405", guard=0.15, segments=4, shortest=0.5 * DAY)
        data = CandidateBand.of(columns).prepared(sfts, START + DAY, **options)
        point = jfstat.Doppler(1.0, 0.3, [freq[0], 0.0], START + DAY)
        plan = narrow_module.narrow_plan(data, point, narrow_module.usual_reach(data, point))
        assert float(np.max(data.band.pass_high - data.band.pass_low)) >= width
        shapes.append((jax.tree.structure(data.for_one_template), data.series.shape, plan.fine, plan.per_block))
    assert len(set(shapes)) == 1
    # at the SFTs' edge there is no room
    edge = CandidateBand.of({"freq": np.array([99.03])}).prepared(sfts, START + DAY, **options)
    assert edge.series.shape[-1] < data.series.shape[-1]


@pytest.mark.ci
def test_padding_changes_nothing(monkeypatch):
    padded, point = simulated(3, 0, 0.7)
    for module in ("jfstat.data.prepare", "jfstat.data.observation", "jfstat.geometry.trajectory"):
        monkeypatch.setattr(f"{module}.padded_size", lambda n: n)
    plain, _ = simulated(3, 0, 0.7)
    assert plain.observation.start.shape[1] <= padded.observation.start.shape[1]
    assert plain.series.shape[1] < padded.series.shape[1]
    # narrow data reach to the edges of a candidate's peak, where its blocks end with the series
    off = jfstat.whiten(plain, point).point(np.array([0.6, -0.5, 0.4, 0.5]))
    near = [jfstat.narrow(data, point) for data in (padded, plain)]
    assert all(bool(jfstat.covers(one, off)) for one in near)
    np.testing.assert_allclose(jfstat.twoF(near[0], off), jfstat.twoF(near[1], off), rtol=1e-6)
    for function in (jfstat.twoF, jfstat.metric, lambda d, p: jfstat.twoF(jfstat.narrow(d, p), p)):
        np.testing.assert_allclose(function(padded, point), function(plain, point), rtol=1e-10)
    np.testing.assert_allclose(jfstat.twoF_band(padded, point), jfstat.twoF_band(plain, point), rtol=1e-5, atol=1e-5)


@pytest.mark.ci
def test_data_bound_to_a_device_compile_each_program_once():
    """Placeholders, from which programs are lowered beforehand, are bound as the arrays that then come."""
    data, point = simulated(3, 0, 0.5)
    bound = jax.device_put(data, jax.devices()[0])
    fit = jfstat.Fit(["freq", "f1dot"])
    with counted_compilations() as compilations:
        jfstat.refine(bound, point, fit=fit, progress=False)
    own = [name for name in compilations if any(x in name for x in ("focus", "look", "climb", "describe"))]
    assert len(own) == len(set(own)) == 4, own
