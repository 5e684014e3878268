"""Coordinates, posteriors and climbs that begin at a pole of the sky, where alpha and delta have no derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jfstat

pytestmark = pytest.mark.ci

START = 1_238_770_800
SQRT_SX = [5e-24, 8e-24]
AMPLITUDE = jfstat.Amplitude(1e-24, 0.45, 0.3, 2.0)


def prepared(delta, days):
    point = jfstat.Doppler(1.0, delta, [100.0, -2e-10], START + 1234)
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"],
        START,
        days * 86400,
        fmin=98.4,
        fmax=101.6,
        sqrt_sx=SQRT_SX,
        signals=[(point, AMPLITUDE)],
        seed=1,
    )
    return jfstat.prepare(sfts, 99.99, 100.01, sqrt_sx=SQRT_SX, reftime=START)


@pytest.mark.parametrize("sign", [-1, 1])
def test_posteriors_about_a_pole_are_smooth(sign):
    data = prepared(sign * 0.5 * np.pi, 2)
    for away in (0.0, 1e-14, 1e-10, 1e-8):
        point = jfstat.Doppler(1.0, sign * (0.5 * np.pi - away), [100.0, -2e-10], START + 1234)
        near, coordinates = jfstat.narrow(data, point), jfstat.whiten(data, point)
        rho2 = float(jfstat.predict_twoF(data, point, AMPLITUDE)) - 4

        def density(x, near=near, coordinates=coordinates):
            return jfstat.log_posterior(near, coordinates, x)

        zero = jnp.zeros(4)
        assert float(density(zero)) == pytest.approx(0.5 * float(jfstat.twoF(near, point)), rel=0.02)
        hessian = np.asarray(jax.hessian(density)(zero))
        steps = 1e-4 * np.eye(4)
        change = [(jax.grad(density)(x) - jax.grad(density)(-x)) / 2e-4 for x in steps]
        np.testing.assert_allclose(hessian, np.array(change), atol=0.01 * rho2)
        # coordinates are whitened: rho^2 falls by x @ x, and ln L by half of it
        np.testing.assert_allclose(np.linalg.eigvalsh(hessian), -rho2, rtol=0.3)


@pytest.mark.parametrize("alpha", [0.0, 2.0, 4.0])
def test_climbs_begin_at_poles(alpha):
    data = prepared(-0.5 * np.pi + 0.002, 4)
    fit = jfstat.Fit(["freq", "f1dot", "alpha", "delta"])
    truth = jfstat.Doppler(1.0, -0.5 * np.pi + 0.002, [100.0, -2e-10], START + 1234)
    start = jfstat.Doppler(alpha, -0.5 * np.pi, [100.0, -2e-10], START + 1234)
    best, found = (jfstat.refine(data, point, fit=fit, progress=False) for point in (truth, start))
    assert found["converged"][0] and found["twoF"][0] == pytest.approx(best["twoF"][0], rel=1e-4)
