"""log_likelihood: the direct float64 sum, its maximum, segments, transient windows, derivatives, messages."""

import cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jfstat
from jfstat.reference import antenna_integrals, direct_fa_fb

CASES = {
    "100 Hz": lambda: cases.make(100.0, 3, noise=True),
    "1900 Hz, three detectors": lambda: cases.make(1900.0, 5, detectors=("H1", "L1", "V1"), noise=True),
}


@pytest.fixture(scope="module", params=list(CASES))
def case(request):
    return CASES[request.param]()


def direct(data, point, amplitude):
    """A.x - A.M.A/2 of each detector, from sums over samples in float64, (D,)."""
    level = float(data.observation.sinv_tsft)
    fa, fb = (x[:, 0] for x in direct_fa_fb(data, point, np.asarray(point.fkdot[:1])))
    a1, a2, a3, a4 = np.asarray(amplitude.canonical)
    linear = np.sqrt(2 * level) * (a1 * fa.real + a2 * fb.real - a3 * fa.imag - a4 * fb.imag)
    A, B, C = antenna_integrals(data, point).T
    return linear - 0.5 * level * (A * (a1**2 + a3**2) + B * (a2**2 + a4**2) + 2 * C * (a1 * a2 + a3 * a4))


def test_it_is_a_direct_sum(case):
    for amplitude in (case.amplitude, jfstat.Amplitude(1e-25, -0.7, 0.4, 5.0)):
        expected = direct(case.data, case.doppler, amplitude)
        found = jfstat.log_likelihood(case.data, case.doppler, amplitude, per_detector=True)
        scale = float(jfstat.predict_twoF(case.data, case.doppler, amplitude))
        # samples are complex64: 1e-9 to 2e-8 of 4 + rho^2
        np.testing.assert_allclose(found, expected, atol=1e-7 * scale, rtol=0)
        assert float(jfstat.log_likelihood(case.data, case.doppler, amplitude)) == pytest.approx(float(np.sum(found)))


def test_fa_and_fb_of_fstat_are_turned_as_the_guide_says(case):
    point, seen = case.doppler, case.data.observation
    found, level = jfstat.fstat(case.data, point), float(seen.sinv_tsft)
    dt = int(seen.epoch) + float(seen.middle) - float(point.reftime.seconds) - 1e-9 * float(point.reftime.nanoseconds)
    f, f1dot = np.asarray(point.fkdot)[:2]
    turn = np.exp(-2j * np.pi * (f * dt + f1dot * dt**2 / 2))
    fa, fb = complex(found.Fa) * turn, complex(found.Fb) * turn
    x = np.sqrt(2 * level) * np.array([fa.real, fb.real, -fa.imag, -fb.imag])
    half = level * np.array([[found.A, found.C], [found.C, found.B]])
    own = np.asarray(case.amplitude.canonical)
    value = own @ x - 0.5 * own @ np.kron(np.eye(2), half) @ own
    assert value == pytest.approx(float(jfstat.log_likelihood(case.data, point, case.amplitude)), rel=1e-5)


def test_its_maximum_is_f(case):
    best = jfstat.estimate_amplitude(case.data, case.doppler).amplitude
    top = 2 * float(jfstat.log_likelihood(case.data, case.doppler, best))
    assert top == pytest.approx(float(jfstat.twoF(case.data, case.doppler)), rel=1e-9)
    slopes = jax.grad(jfstat.log_likelihood, argnums=2)(case.data, case.doppler, best)
    assert abs(float(slopes.h0 * best.h0)) < 1e-6 * top
    assert max(abs(float(getattr(slopes, name))) for name in ("cosi", "psi", "phi0")) < 1e-6 * top


def test_narrow_data_give_the_same(case):
    near = jfstat.narrow(case.data, case.doppler)
    found = [float(jfstat.log_likelihood(data, case.doppler, case.amplitude)) for data in (case.data, near)]
    assert found[1] == pytest.approx(found[0], rel=2e-5)


def test_derivatives_are_differences():
    case = CASES["100 Hz"]()
    near = jfstat.narrow(case.data, case.doppler)

    def value(x):
        doppler = jfstat.Doppler(
            case.doppler.alpha + 1e-5 * x[0],
            case.doppler.delta + 1e-5 * x[1],
            jnp.stack([case.doppler.fkdot[0] + 1e-6 * x[2], case.doppler.fkdot[1] + 1e-11 * x[3]]),
            case.doppler.reftime,
        )
        own = case.amplitude
        amplitude = jfstat.Amplitude(
            own.h0 * (1 + 0.1 * x[4]), own.cosi + 0.1 * x[5], own.psi + 0.1 * x[6], own.phi0 + 0.1 * x[7]
        )
        return jfstat.log_likelihood(near, doppler, amplitude)

    value, x = jax.jit(value), jnp.full(8, 0.3)
    slopes = np.asarray(jax.grad(value)(x))
    step = 1e-2 * np.eye(8)
    # of five points, so that the differences have no error of second order
    ends = np.array([[float(value(x + k * step[i])) for k in (-2, -1, 1, 2)] for i in range(8)])
    differences = (ends @ np.array([1, -8, 8, -1])) / 12e-2
    np.testing.assert_allclose(slopes, differences, rtol=1e-3, atol=1e-3 * np.abs(slopes).max())


@pytest.fixture(scope="module")
def whole_and_segments():
    point = jfstat.Doppler(1.7, 0.4, [83.0, -3e-10], 1_167_458_304)
    amplitude = jfstat.Amplitude(4e-25, 0.3, 0.2, 1.0)
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], 1_167_458_304, 86400, 81.8, 84.2, sqrt_sx=4e-24, signals=[(point, amplitude)], seed=2
    )
    made = [jfstat.prepare(sfts, 82.99, 83.01, sqrt_sx=4e-24, filters=False, segments=n) for n in (None, 4)]
    return *made, point, amplitude


def test_segments_add_up_and_may_have_a_phase_each(whole_and_segments):
    whole, segments, point, amplitude = whole_and_segments
    each = [float(jfstat.log_likelihood(segments[k], point, amplitude)) for k in range(4)]
    together = float(jfstat.log_likelihood(segments, point, amplitude))
    assert together == pytest.approx(sum(each), rel=1e-9)
    assert together == pytest.approx(float(jfstat.log_likelihood(whole, point, amplitude)), rel=3e-3)
    phases = jnp.asarray([1.0, 2.0, 3.0, 4.0])
    own = jfstat.Amplitude(amplitude.h0, amplitude.cosi, amplitude.psi, phases)
    each = [float(jfstat.log_likelihood(segments[k], point, own[k])) for k in range(4)]
    assert float(jfstat.log_likelihood(segments, point, own)) == pytest.approx(sum(each), rel=1e-9)
    assert jfstat.log_likelihood(segments, point, own, per_detector=True).shape == (2,)


def test_a_transient_is_known_by_its_window(whole_and_segments):
    whole, _, point, _ = whole_and_segments
    window = jfstat.TransientWindow("exponential", 1_167_458_304 + 10000, 30000.0)
    data = jfstat.windowed(whole, window)
    best = jfstat.estimate_amplitude(data, point).amplitude
    top = 2 * float(jfstat.log_likelihood(data, point, best))
    assert top == pytest.approx(float(jfstat.twoF(data, point)), rel=1e-9)
    assert top == pytest.approx(float(jfstat.transient_twoF(whole, point, window)), rel=1e-4)


def test_mistakes_are_said(whole_and_segments):
    whole, segments, point, amplitude = whole_and_segments
    with pytest.raises(ValueError, match=r"amplitude is of 3 segments, but the data have 4"):
        jfstat.log_likelihood(segments, point, jfstat.Amplitude(jnp.ones(3) * 1e-25, 0.1))
    with pytest.raises(ValueError, match=r"amplitude\.h0 has shape \(3,\), but a single template is wanted"):
        jfstat.log_likelihood(whole, point, jfstat.Amplitude(jnp.ones(3) * 1e-25, 0.1))
    with pytest.raises(TypeError, match=r"doppler must be a jfstat\.Doppler"):
        jfstat.log_likelihood(whole, amplitude, amplitude)
    with pytest.raises(TypeError, match="per_detector must be True or False"):
        jfstat.log_likelihood(whole, point, amplitude, per_detector=2)


def test_templates_beyond_the_band_are_nan_in_traces(whole_and_segments):
    whole, _, point, amplitude = whole_and_segments
    far = jax.jit(lambda f: jfstat.log_likelihood(whole, jfstat.Doppler(1.7, 0.4, [f], point.reftime), amplitude))
    assert np.isnan(float(far(90.0)))
