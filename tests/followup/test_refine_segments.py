"""`refine` of data with segments climbs the mean of 2F over these."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2

import jfstat
from jfstat.candidates.falsealarm import false_alarm
from jfstat.candidates.linerobust import log10_bsgl

START, DAY = 1_167_458_304, 86400
REFTIME = START + 7 * DAY
N_SEGMENTS = 6
NAMES = ("freq", "f1dot", "alpha", "delta")


def simulated(point, amplitude, seed=4):
    """Six segments of 12 h of H1 and L1, a day apart, L1 missing in one, with gaps, a signal in noise."""
    rng = np.random.default_rng(seed)
    starts = START + np.concatenate([i * DAY + 1800 * np.arange(24) for i in range(N_SEGMENTS)])
    times = {name: np.sort(rng.choice(starts, int(0.8 * len(starts)), replace=False)) for name in ("H1", "L1")}
    third = START + 2 * DAY
    times["L1"] = times["L1"][(times["L1"] < third) | (times["L1"] >= third + DAY)]
    freq = float(point.fkdot[0])
    return jfstat.simulate_sfts(
        ["H1", "L1"],
        timestamps=times,
        fmin=freq - 1.0,
        fmax=freq + 1.0,
        signals=[(point, amplitude)],
        seed=seed,
    )


def prepared(sfts, freq):
    pairs = [(START + i * DAY, START + i * DAY + DAY // 2) for i in range(N_SEGMENTS)]
    return jfstat.prepare(
        sfts, freq - 0.05, freq + 0.05, REFTIME, sqrt_sx=4e-24, segments=pairs, filters=False, fdots=[(-5e-9, 5e-9)]
    )


@pytest.fixture(scope="module")
def signal():
    return jfstat.Doppler(4.1, -0.7, [612.3, -8e-10], REFTIME), jfstat.Amplitude(h0=3.5e-25, cosi=-0.4, psi=0.3, phi0=2)


@pytest.fixture(scope="module")
def segments(signal):
    return prepared(simulated(*signal), 612.3)


def starts_around(segments, point, losses, seed):
    """Templates in random directions of the parameters, each where the mean mismatch first reaches its loss."""
    g = np.asarray(jfstat.metric(segments, point, NAMES))
    rng = np.random.default_rng(seed)
    scales = np.geomspace(1e-3, 3, 150)
    size = np.sqrt(np.diag(g))
    lower = np.linalg.cholesky(np.linalg.inv(g / np.outer(size, size)))
    own = jnp.array([*point.fkdot, point.alpha, point.delta])

    def template(x):
        return jfstat.Doppler(x[2], x[3], x[:2], point.reftime)

    lost = jax.jit(lambda data, x: jax.lax.map(lambda y: jfstat.mismatch(data, point, template(y)), x))
    found = []
    for loss in losses:
        x = rng.normal(size=4)
        step = lower @ (x / np.linalg.norm(x)) / size
        tried = own + scales[:, None] * step
        found.append(template(tried[np.argmax(np.asarray(lost(segments.observation, tried)) >= loss)]))
    return jax.tree.map(lambda *x: jnp.stack(x), *found)


@pytest.fixture(scope="module")
def refined(segments, signal):
    starts = starts_around(segments, signal[0], (0.2, 0.4, 0.5, 0.7), 1)
    return starts, jfstat.refine(segments, starts, progress=False)


def at(table, row):
    freq, f1dot, alpha, delta = (float(getattr(table[name], "value", table[name])[row]) for name in NAMES)
    return jfstat.Doppler(alpha, delta, [freq, f1dot], table.meta["reftime"])


@pytest.mark.slow
def test_all_starts_end_on_the_signals_peak(segments, signal, refined):
    starts, table = refined
    truth = float(jfstat.mean_twoF(segments, signal[0]))
    best = table["mean_twoF"].max()
    assert truth <= best < truth + chi2.isf(1e-4, 4) / N_SEGMENTS * best / (best - 4)
    np.testing.assert_allclose(table["mean_twoF"], best, rtol=1e-6)
    assert all(table["converged"])
    assert all(message.startswith("converged") for message in table["message"])
    np.testing.assert_allclose(
        table["start_mean_twoF"],
        [float(jfstat.mean_twoF(segments, jax.tree.map(lambda x, i=i: x[i], starts))) for i in range(4)],
        rtol=1e-5,
    )
    assert np.all((table["start_mismatch"] > 0.05) & (table["start_mismatch"] < 0.85))
    for i in range(4):
        loss = float(jfstat.mismatch(segments, at(table, i), jax.tree.map(lambda x, i=i: x[i], starts)))
        assert table["start_mismatch"][i] == pytest.approx(loss, abs=1e-9)


@pytest.mark.ci
def test_columns_are_those_of_the_statistic_at_the_peak(segments, refined):
    table = refined[1]
    assert table.meta["n_segments"] == N_SEGMENTS
    assert table.meta["tspan"] == pytest.approx(5.5 * DAY, abs=3 * 3600)
    assert "twoF" not in table.colnames and "phi0" not in table.colnames
    point = at(table, 0)
    found = jfstat.semicoherent_fstat(segments, point)
    assert table["mean_twoF"][0] == pytest.approx(float(found.mean_twoF), rel=1e-6)
    each = [table[f"mean_twoF_{name}"][0] for name in ("H1", "L1")]
    np.testing.assert_allclose(each, found.mean_twoF_per_detector, rtol=1e-6)
    sums = np.asarray(found.sum_twoF_per_detector)[None]
    robust = log10_bsgl(found.sum_twoF[None], sums, jfstat.LinePrior())[0]
    assert table["log10BSGL"][0] == pytest.approx(robust, abs=1e-3)
    amplitude = jfstat.semicoherent_amplitude(segments, point)
    for name in ("h0", "cosi", "psi", "h0_error", "cosi_error", "psi_error"):
        value = float(getattr(table[name], "value", table[name])[0])
        assert value == pytest.approx(float(getattr(amplitude, name)), rel=1e-4)
    assert table["noise_chance"][0] >= false_alarm(table["mean_twoF"][0], 1, N_SEGMENTS)
    assert len(jfstat.refine(segments, table, merge=True, progress=False)) == 1


@pytest.mark.ci
def test_errors_are_the_curvature_of_the_shrunk_sum(segments, refined):
    table = refined[1]
    point = at(table, 0)
    coordinates = jfstat.whiten(segments, point)
    near = jfstat.narrow(segments, point)
    hessian = jax.hessian(lambda x: jfstat.sum_twoF(near, coordinates.point(x)))(jnp.zeros(4))
    shrunk = 1 - 4 / table["mean_twoF"][0]
    covariance = np.linalg.inv(-0.5 * shrunk * np.asarray(hessian))
    drawn = np.random.default_rng(1).multivariate_normal(np.zeros(4), covariance, 20_000)
    spread = np.std(jax.vmap(coordinates.values)(drawn), axis=0)
    errors = [float(getattr(table[f"{name}_error"], "value", table[f"{name}_error"])[0]) for name in coordinates.names]
    assert table["peak_probability"][0] > 0.999  # errors allow for other peaks
    np.testing.assert_allclose(errors, spread, rtol=0.03)


def test_mean_of_2F_falls_as_the_whitened_coordinates_say(segments, signal):
    coordinates = jfstat.whiten(segments, signal[0])
    for direction in np.eye(4):
        other = coordinates.point(jnp.asarray(0.1 * direction))
        assert float(jfstat.mismatch(segments, signal[0], other)) == pytest.approx(0.01, rel=0.05)


def test_a_start_outside_the_data_says_so(segments, signal):
    point = jfstat.Doppler(4.1, -0.7, [615.0, -8e-10], REFTIME)
    table = jfstat.refine(segments, point, progress=False)
    assert not table["converged"][0]
    assert table["message"][0].startswith("not refined: outside the data's band")
    assert np.isnan(table["mean_twoF"][0])
