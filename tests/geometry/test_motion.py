"""Proper motion: alpha and delta hold at the reference time, in every function that takes a template."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from astropy import units as u

import jfstat
from jfstat.reference import direct_twoF
from jfstat.signal.values import with_fields

START = 1167458304
MOTION = (1.4e-10, -2.1e-10)
"""rad/s, so large that it matters within two days."""
AMPLITUDE = jfstat.Amplitude(4e-25, 0.3, 0.2, 1.0)


@pytest.fixture(scope="module")
def point():
    return jfstat.Doppler(2.1, -0.6, [437.0, -1e-9], START - 40000, motion=MOTION)


@pytest.fixture(scope="module")
def sfts(point):
    gaps = {"H1": START + 1800 * np.r_[0:40, 55:96], "L1": START + 1800 * np.r_[3:60, 70:90]}
    return jfstat.simulate_sfts(
        ["H1", "L1"], timestamps=gaps, fmin=435.8, fmax=438.2, sqrt_sx=4e-24, signals=[(point, AMPLITUDE)], seed=1
    )


@pytest.fixture(scope="module")
def data(sfts):
    return jfstat.prepare(sfts, 436.98, 437.02, START, 4e-24)


def unmoved(point, since):
    """The template without motion, at its place `since` seconds after the reference time."""
    alpha = point.alpha + since * MOTION[0] / jnp.cos(point.delta)
    return jfstat.Doppler(alpha, point.delta + since * MOTION[1], point.fkdot, point.reftime)


def test_a_moving_signal_is_found_where_it_moves_and_nowhere_else(data, point):
    expected = float(jfstat.predict_twoF(data, point, AMPLITUDE))
    assert float(jfstat.twoF(data, point)) == pytest.approx(expected, abs=5 * np.sqrt(4 * expected))
    assert float(jfstat.twoF(data, point)) > 200
    assert float(jfstat.twoF(data, unmoved(point, 0.0))) < 100


def test_one_position_is_as_good_for_as_long_as_the_motion_is_small(data, point):
    slow = with_fields(point, motion=1e-6 * point.motion)
    still = with_fields(point, motion=None)
    assert float(jfstat.twoF(data, slow)) == pytest.approx(float(jfstat.twoF(data, still)), rel=1e-4)


@pytest.mark.ci
def test_sums_bands_and_narrow_data_agree_with_the_direct_sum(data, point):
    f = np.asarray(data.frequencies)[5::977]
    direct = direct_twoF(data, with_fields(point, reftime=data.observation.reftime), f)
    same = with_fields(point, reftime=None)
    band = np.asarray(jfstat.twoF_band(data, same))[5::977]
    np.testing.assert_allclose(band, direct, rtol=0, atol=1e-5 * np.sqrt(np.mean(direct**2)) * 3)
    near = jfstat.narrow(data, point)
    beside = with_fields(point, fkdot=point.fkdot.at[0].add(2e-6), alpha=point.alpha + 1e-5)
    for p in (point, beside):
        full = float(jfstat.twoF(data, p))
        assert float(jfstat.twoF(near, p)) == pytest.approx(full, rel=1e-6)
    at = direct_twoF(data, point, np.array([437.0]))[0]
    assert float(jfstat.twoF(data, point)) == pytest.approx(at, rel=1e-6)


def test_its_gradient_is_that_of_differences(data, point):
    point = with_fields(point, fkdot=point.fkdot.at[0].add(2e-6))

    @jax.jit
    def value(motion):
        return jfstat.twoF(data, with_fields(point, motion=motion))

    slope = jax.grad(value)(point.motion)
    for k in range(2):
        d = jnp.zeros(2).at[k].set(1e-13)
        near, far = (value(point.motion + x * d) - value(point.motion - x * d) for x in (1, 2))
        assert float(slope[k]) == pytest.approx(float((8 * near - far) / (12 * 1e-13)), rel=1e-5)


@pytest.mark.ci
def test_tables_keep_it_and_refine_holds_or_fits_it(data, point):
    moved = unmoved(point, 0.0)
    bank = jfstat.Doppler(
        [moved.alpha, moved.alpha + 2e-5],
        [moved.delta] * 2,
        np.array([[437.0, -1e-9]] * 2),
        point.reftime,
        motion=MOTION,
    )
    found = jfstat.search(data, bank, top=3, progress=False)
    assert [found[name].unit for name in ("pmra", "pmdec")] == [u.rad / u.s] * 2
    assert found["pmra"][0].value == MOTION[0]
    assert found["twoF"][0] > 200
    first = jfstat.Doppler(
        found["alpha"][0],
        found["delta"][0],
        [found["freq"][0], found["f1dot"][0]],
        found.meta["reftime"],
        motion=(found["pmra"][0].to(u.mas / u.yr), found["pmdec"][0]),
    )
    assert float(jfstat.twoF(data, first)) == pytest.approx(found["twoF"][0], rel=1e-4)
    better = jfstat.refine(data, found[:1], progress=False)
    assert better["pmra"][0] == found["pmra"][0]
    assert better["twoF"][0] >= found["twoF"][0]
    free = jfstat.refine(data, found[:1], fit=jfstat.Fit(["freq", "f1dot", "pmra", "pmdec"]), progress=False)
    assert free["twoF"][0] >= better["twoF"][0] - 0.1
    assert abs(free["pmra"][0].value - MOTION[0]) < 5 * free["pmra_error"][0].value
    assert free["pmra_error"].unit == u.rad / u.s


def test_what_is_no_motion_is_refused(data, point):
    for motion in (3e-10, (1.0,), (1.0, 2.0, 3.0)):
        with pytest.raises(ValueError, match=r"^motion must be \(pmra, pmdec\)"):
            jfstat.Doppler(1.0, 0.2, [100.0], motion=motion)
    with pytest.raises(ValueError, match=r"^motion must be a number or an array of numbers, not 'fast'"):
        jfstat.Doppler(1.0, 0.2, [100.0], motion="fast")
    with pytest.raises(ValueError, match=r"^pmra must be convertible to rad / s"):
        jfstat.Doppler(1.0, 0.2, [100.0], motion=(3 * u.mas, 4 * u.mas / u.yr))
    with pytest.raises(ValueError, match=r"^motion must be finite"):
        jfstat.Doppler(1.0, 0.2, [100.0], motion=(np.nan, 0.0))
    with pytest.raises(ValueError, match="both have a motion, or none"):
        jfstat.twoF(jfstat.narrow(data, point), with_fields(point, motion=None))
    with pytest.raises(ValueError, match="proper motion, or none"):
        jfstat.mismatch(data, point, with_fields(point, motion=None))


def test_stacks_broadcast_it():
    stack = jfstat.Doppler([1.0, 2.0], 0.2, [100.0, 0.0], 5, jfstat.Orbit(1.0, 1e5, 3.0), motion=(1e-12, [0.0, 1e-12]))
    assert stack.motion.shape == (2, 2)
    assert stack.orbit.asini.shape == (2,)
    assert jax.vmap(lambda p: p.motion[1])(stack).tolist() == [0.0, 1e-12]
    again = jfstat.Doppler(stack.alpha, stack.delta, stack.fkdot, motion=stack.motion)
    np.testing.assert_array_equal(again.motion, stack.motion)


def test_another_reference_time_moves_the_position_too(data, point):
    from jfstat.geometry.source import at_reftime
    from jfstat.signal.times import gps_time

    stack = jfstat.Doppler([point.alpha], [point.delta], point.fkdot[None], point.reftime, motion=point.motion)
    later = at_reftime(stack, gps_time(START + 5e4, "reftime"))
    moved = jax.tree.map(lambda x: x[0], later)
    assert float(jfstat.twoF(data, moved)) == pytest.approx(float(jfstat.twoF(data, point)), rel=1e-5)
    assert abs(float(moved.alpha - point.alpha)) > 1e-5
