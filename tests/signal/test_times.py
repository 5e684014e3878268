"""Exact GPS times: reference times to the nanosecond, leaves of templates and data."""

import cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from astropy import units
from astropy.time import Time
from hypothesis import given, settings
from hypothesis import strategies as st

import jfstat
from jfstat.signal.times import GPSTime, gps_time

seconds = st.integers(0, 2_000_000_000)
nanoseconds = st.integers(0, 10**9 - 1)


@given(seconds, nanoseconds)
def test_text_is_exact(s, ns):
    time = gps_time(f"{s}.{ns:09d}", "t")
    assert (float(time.seconds), float(time.nanoseconds)) == (s, ns)


@given(seconds, nanoseconds, st.integers(-100, 100))
@settings(deadline=None)
def test_differences_are_exact_to_a_tenth_of_a_nanosecond(s, ns, apart):
    time = gps_time(f"{s}.{ns:09d}", "t")
    assert float(time.since(s + apart)) == pytest.approx(-apart + ns * 1e-9, abs=1e-10)


@given(seconds, st.floats(0, 1, exclude_max=True))
def test_numbers_are_rounded_to_the_nanosecond(s, rest):
    time = gps_time(s + rest, "t")
    assert 0 <= float(time.nanoseconds) < 1e9
    assert float(time.since(s)) == pytest.approx((s + rest) - s, abs=1e-9)


def test_astropy_times_keep_their_nanoseconds():
    epoch = Time(54400, 0.123456789012, format="mjd", scale="utc")
    time = gps_time(epoch, "t")
    assert float(time.since(int(time))) == pytest.approx(epoch.gps - int(time), abs=3e-7)
    exact = gps_time(Time(1_000_000_000, 0.123456789, format="gps"), "t")
    assert float(exact.nanoseconds) == 123456789


def test_epochs_of_pulsars_are_times_at_the_barycentre():
    """In TDB, which LALSuite reads as TT: 51.184 s of TT - GPS and nothing periodic besides."""
    for day in (53000, 54400, 57900):
        tdb, tt = (gps_time(Time(day, 0.123456789012, format="mjd", scale=scale), "t") for scale in ("tdb", "tt"))
        assert float(tdb - tt) == 0
        assert float(tdb.since(0)) == pytest.approx((day - 44244 + 0.123456789012) * 86400 - 51.184, abs=1e-6)


def test_a_gps_time_of_plain_numbers_is_a_reference_time():
    time = jfstat.GPSTime(1_167_264_018, 500)
    point = jfstat.Doppler([1.0, 2.0], 0.3, [[20.0], [20.0]], time)
    assert point.reftime.seconds.shape == (2,) and float(point.reftime.nanoseconds[1]) == 500
    assert point.reftime.common == time


@pytest.mark.parametrize("bad", ["12a", "-3", float("nan"), "1.2.3", object()])
def test_what_is_no_time_is_refused(bad):
    with pytest.raises(ValueError, match="reftime must be a GPS time"):
        jfstat.Doppler(0.1, 0.2, [20.0], bad)


@pytest.mark.compiled
def test_templates_of_different_reference_times_stack_and_vmap():
    data = cases.make(20.0, 3, days=0.5, detectors=("H1",)).data
    start = data.reftime
    f, f1dot = 20.0, -1e-9
    points = [jfstat.Doppler(1.0, 0.5, [f + f1dot * dt, f1dot], start + dt) for dt in (0, 0.25, 1000, -86400)]
    stack = jax.tree.map(lambda *x: jnp.stack(x), *points)
    each = np.array([float(jfstat.twoF(data, point)) for point in points])
    np.testing.assert_allclose(jax.vmap(jfstat.twoF, (None, 0))(data, stack), each, rtol=1e-12)
    np.testing.assert_allclose(each, each[0], rtol=1e-6)  # one and the same signal


@pytest.mark.ci
def test_gradients_pass_by_reference_times():
    case = cases.make(20.0, 4, days=0.5, detectors=("H1",))
    slope = jax.grad(jfstat.twoF, argnums=1)(case.data, case.doppler)
    assert isinstance(slope.reftime, GPSTime)
    assert float(slope.reftime.seconds) == 0 and float(slope.reftime.nanoseconds) == 0
    assert np.isfinite(float(slope.alpha)) and float(slope.alpha) != 0


def test_tables_have_one_reference_time():
    points = jfstat.Doppler([0.1, 0.2], [0.1, 0.1], [[20.0], [20.0]], [1_000_000_000, 1_000_000_001])
    with pytest.raises(ValueError, match="reftime differs"):
        _ = points.reftime.plain
    assert gps_time("1000000000.5", "t").plain == 1_000_000_000.5
    assert isinstance(gps_time(1_000_000_000.0, "t").plain, int)


def test_a_known_time_inside_a_trace_stays_known():
    def later(x):
        known = jfstat.GPSTime(1_000_000_005, 500_000_000)
        return x + known.since(1_000_000_000)

    assert float(jax.jit(later)(1.0)) == 6.5
    assert float(jax.grad(later)(1.0)) == 1.0


def test_times_in_single_precision_are_refused():
    """A GPS time in float32 is rounded to up to a minute."""
    sfts = jfstat.simulate_sfts("H1", 1_167_458_304, 86400, 98.9, 101.1)
    for rounded in (np.float32(1_167_458_365), jnp.float32(1_167_458_365)):
        for use in (
            lambda t: jfstat.Doppler(1.0, 0.2, [100.0], reftime=t),
            lambda t: jfstat.prepare(sfts, 99.99, 100.01, t),
            lambda t: jfstat.prepare(sfts, 99.99, 100.01, segments=[(t, 1_167_500_000)]),
            lambda t: jfstat.observation("H1", t, 86400),
            lambda t: jfstat.simulate_sfts("H1", timestamps=[t], fmin=50, fmax=51),
            lambda t: jfstat.simulate_sfts("H1", timestamps=[t, 1_167_468_304], fmin=50, fmax=51),
            lambda t: jfstat.Doppler([1.0, 2.0], 0.2, [100.0], reftime=[t, t]),
            lambda t: jfstat.simulate_sfts("H1", timestamps=np.array([t]), fmin=50, fmax=51),
            lambda t: jax.jit(lambda x: jfstat.Doppler(1.0, 0.2, [100.0], reftime=x))(t),
            sfts.select,
        ):
            with pytest.raises(ValueError, match="must be float64, not float32, which keeps too few digits"):
                use(rounded)
    later = jfstat.Doppler(1.0, 0.2, [100.0], reftime=1_167_458_365).reftime + jnp.float32(0.5)
    assert str(later) == "1167458365.5"
    assert str(later + units.Quantity(2, "min", dtype=np.float32)) == "1167458485.5"


def test_times_are_compared_also_where_64_bits_are_off():
    time = jfstat.GPSTime(np.int64(1_167_458_304), np.int64(0))
    with jax.enable_x64(False):
        assert time == 1_167_458_304 and time == time and time != 1_167_458_305
        assert time != "no time"
    two, three = (jfstat.Doppler(0.1, 0.2, [[20.0]] * n, [1e9] * n).reftime for n in (2, 3))
    assert two == two and two != three
