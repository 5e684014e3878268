"""The metric of segments and lattices laid by it: means over segments, and random signals lose no more than asked."""

import cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial import KDTree

import jfstat
from jfstat.banks.comparison import Phases
from jfstat.maths.vectors import unit_vector
from jfstat.metrics.phasemetric import drift, factor, flat_metric
from jfstat.signal.values import replaced
from jfstat.statistic.total import shrinkage

START = 1_167_458_304
DAY = 86400


def observed(days, n, seed=1):
    """Segments of two detectors with gaps, without strain."""
    times = cases.random_timestamps(np.random.default_rng(seed), ("H1", "L1"), START, days * n, 0.8)
    edges = [(START + i * days * DAY, START + (i + 1) * days * DAY) for i in range(n)]
    parts = [{name: t[(t >= a) & (t < b)] for name, t in times.items()} for a, b in edges]
    floors = [2e-23 if i == 2 else 1e-23 for i in range(n)]
    each = [
        jfstat.observation(["H1", "L1"], timestamps=part, sqrt_sx=floor, reftime=START)
        for part, floor in zip(parts, floors, strict=True)
    ]
    return jax.tree.map(lambda *x: jnp.stack(x), *each)


@pytest.fixture(scope="module")
def segments():
    return observed(1, 8)


@pytest.mark.ci
def test_unequal_segments_count_by_their_signal():
    """Without noise the mean of 2F loses what mismatch and metric say: of two segments of 12 h and one of 1 h."""
    point = jfstat.Doppler(2.1, 0.47, [100.05, -1e-10], START)
    amplitude = jfstat.Amplitude(3e-23, 0.3, 0.4, 1.0)
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, 90000, 98.7, 101.4, sqrt_sx=0.0, signals=[(point, amplitude)])
    floors = {"H1": 4e-24, "L1": 6e-24}
    data = jfstat.prepare(sfts, 100.04, 100.06, sqrt_sx=floors, filters=False, segments=43200.0)
    assert data.n_segments == 3
    whole = jfstat.prepare(sfts, 100.04, 100.06, sqrt_sx=floors, filters=False, segments=2)
    twoF = jax.jit(jfstat.mean_twoF)
    losses = []
    for step in (3e-6, 6e-6, 9e-6):
        other = jfstat.Doppler(2.1, 0.47, [100.05 + step, -1e-10], START)
        losses.append(1 - float(twoF(data, other) / twoF(data, point)))
        assert float(jfstat.mismatch(data, point, other, amplitude=amplitude)) == pytest.approx(losses[-1], rel=0.01)
    g = float(jfstat.metric(data, point, ["freq"], amplitude=amplitude)[0, 0])
    assert g * 9e-12 == pytest.approx(losses[0], rel=0.06)  # the next order
    x = jfstat.whiten(data, point, ["freq"])
    assert float(x.matrix[0, 0]) ** -2 == pytest.approx(float(jfstat.metric(data, point, ["freq"])[0, 0]), rel=0.01)
    # phases alone: of a bank, and in the metric that is flat in the sky
    plain = float(jfstat.metric(data, point, ["freq"], phase_only=True)[0, 0])
    flat = flat_metric(data.observation, 1, data.observation.segment(0).reftime, 100.05)
    assert flat[0, 0] == pytest.approx(plain, rel=0.01)
    ask = dict(alpha=(2.0, 2.6), delta=(0.2, 0.6), f1dot=(-4e-9, 0.0), mismatch=0.2)
    sizes = [jfstat.bank_size(**ask, data=own) for own in (data, whole)]
    assert 0.85 < sizes[0] / sizes[1] < 1.2  # 1 h less, or a few minutes more in each of two


def test_segments_count_in_the_noise_by_their_metrics(segments):
    """Of one long and four short segments the long one has most of the curvature, and counts almost alone."""
    point = jfstat.Doppler(1.1, -0.35, [400.0, -1e-9], START + 3 * DAY)
    alike = jfstat.whiten(segments, point)
    assert float(alike.effective_segments) == pytest.approx(8, rel=0.05)
    assert float(jfstat.whiten(segments.segment(0), point).effective_segments) == pytest.approx(1)
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, 6 * DAY, 399.9, 400.1, sqrt_sx=None)
    cuts = [(START, START + 4 * DAY), *((START + k * DAY / 2, START + (k + 1) * DAY / 2) for k in range(8, 12))]
    own = jfstat.segment_observations(sfts, cuts, sqrt_sx=4e-24)
    each = np.array([float(jfstat.metric(own.segment(k), point, ["freq"])[0, 0]) for k in range(5)])
    circular = jfstat.Amplitude(1e-23, 1.0, 0.0)
    rho2 = [float(jfstat.predict_twoF(own.segment(k), point, circular)) - 4 for k in range(5)]
    expected = np.sum(each) / np.average(each, weights=rho2)
    found = float(jfstat.whiten(own, point, ["freq"]).effective_segments)
    assert found == pytest.approx(expected, rel=1e-3) and 1.4 < found < 1.7
    # of the gradient's variance, 4 g (rho^2 + 4) in each segment, and of the Hessian, -2 g rho^2
    total = 40.0
    rho2 = total * np.array(rho2) / np.sum(rho2)
    factor = np.sum(each * (rho2 + 4)) / np.sum(each * rho2)
    assert float(shrinkage(jnp.float64(total + 4 * 5), 5, jnp.float64(found))) == pytest.approx(1 / factor, rel=1e-3)


def test_metric_and_mismatch_are_means_over_segments(segments):
    point = jfstat.Doppler(1.1, -0.35, [400.0, -1e-9], START + 3 * DAY)
    other = jfstat.Doppler(1.1003, -0.3502, [400.000001, -1.0001e-9], START + 3 * DAY)
    # rho^2 of circular polarisation is proportional to A + B, as its mean over orientations
    circular = jfstat.Amplitude(1e-23, 1.0, 0.0)
    rho2 = [float(jfstat.predict_twoF(segments.segment(i), point, circular)) - 4 for i in range(8)]
    each = [jfstat.metric(segments.segment(i), point) for i in range(8)]
    np.testing.assert_allclose(jfstat.metric(segments, point), np.average(each, axis=0, weights=rho2), rtol=1e-9)
    losses = [jfstat.mismatch(segments.segment(i), point, other) for i in range(8)]
    expected = np.average(losses, weights=rho2)
    assert float(jfstat.mismatch(segments, point, other)) == pytest.approx(expected, rel=1e-9)
    rows = jfstat.metric(segments, point, ["f1dot", "alpha"])
    np.testing.assert_allclose(rows, jfstat.metric(segments, point)[1:3, 1:3], rtol=1e-10)
    bend = jax.hessian(lambda f: jfstat.mismatch(segments, point, jfstat.Doppler(1.1, -0.35, f, START + 3 * DAY)))
    np.testing.assert_allclose(0.5 * bend(point.fkdot), jfstat.metric(segments, point)[:2, :2], rtol=1e-4)


@pytest.mark.parametrize("away", [0, 365 * DAY])
def test_flat_metric_is_the_phase_metric_of_a_point(segments, away):
    reftime = jfstat.Doppler(0, 0, [1.0], START - away).reftime.common
    point = jfstat.Doppler(1.2, 0.4, [300.0, -1e-10, 0.0], reftime)
    g = np.asarray(jfstat.metric(segments, point, phase_only=True))
    step = 1e-6
    n = [unit_vector(1.2 + a, 0.4 + d) for a, d in ((step, 0), (-step, 0), (0, step), (0, -step))]
    slope = np.zeros((6, 5))
    slope[:3, :3] = np.eye(3)
    slope[3:, 3], slope[3:, 4] = (n[0] - n[1]) / (2 * step), (n[2] - n[3]) / (2 * step)
    # the flat metric leaves the travel time of light out of tau
    flat = slope.T @ flat_metric(segments, 2, reftime, 300.0) @ slope
    size = np.sqrt(np.diag(g))
    if away == 0:  # and what lattices of orbits are laid by
        compared = Phases.of(segments)
        matrix = compared.slopes(lambda x: replaced(point, ["freq", "f1dot"], point.fkdot[:2] + x), jnp.zeros(2))
        np.testing.assert_allclose(
            (matrix.T @ matrix) / np.outer(size[:2], size[:2]), (g / np.outer(size, size))[:2, :2], atol=5e-3
        )
    np.testing.assert_allclose(
        flat / np.outer(size, size), g / np.outer(size, size), atol=5e-3
    )  # light travel is left out of tau


def test_factor_of_one_segment_is_the_coherent_one(segments):
    one = jax.tree.map(lambda x: x[:1], segments)
    reftime = jfstat.Doppler(0, 0, [1.0], START - 100 * DAY).reftime.common
    expected = flat_metric(segments.segment(0), 2, reftime, 100.0)
    size = np.sqrt(np.diag(expected))
    found = flat_metric(one, 2, reftime, 100.0)
    np.testing.assert_allclose(found / np.outer(size, size), expected / np.outer(size, size), atol=1e-9)


@pytest.mark.parametrize(
    ("days", "n", "f", "alpha", "delta", "f1dot", "away"),
    [
        (1, 8, 60.0, (1.0, 2.2), (-0.5, 0.3), (-1e-9, 0.0), 0),
        (3, 5, 200.0, (4.0, 4.15), (0.4, 0.5), (-3e-10, 0.0), 200 * DAY),
        # near the ecliptic, and across it: seen from its poles, the directions in which the metric is smallest
        pytest.param(5, 20, 100.0, (1.2, 1.24), (0.4, 0.44), (-2e-11, 0.0), 0, marks=pytest.mark.ci),
        pytest.param(5, 30, 50.0, (1.2, 1.24), (0.36, 0.4), (-5e-12, 0.0), 0, marks=pytest.mark.slow),
    ],
)
def test_signals_lose_no_more_than_asked_of_the_sum(days, n, f, alpha, delta, f1dot, away):
    segments, mismatch, reftime = observed(days, n, seed=days), 0.2, START - away
    bank = jfstat.template_bank(
        alpha=alpha, delta=delta, f1dot=f1dot, data=segments, freq=f, mismatch=mismatch, reftime=reftime
    )
    coherent = jfstat.template_bank(
        alpha=alpha, delta=delta, f1dot=f1dot, data=segments.segment(0), freq=f, mismatch=mismatch, reftime=reftime
    )
    assert len(bank.alpha) > 3 * len(coherent.alpha)  # refinement
    rng = np.random.default_rng(5)
    k = 60
    signals = np.column_stack(
        [
            rng.uniform(*alpha, k),
            np.arcsin(rng.uniform(*np.sin(delta), k)),
            rng.uniform(*f1dot, k),
        ]
    )
    r = factor(segments, 1, bank.reftime.common, f)
    rows = np.column_stack([signals[:, 2], unit_vector(signals[:, 0], signals[:, 1])])
    templates = np.column_stack([bank.fkdot[:, 1], unit_vector(np.asarray(bank.alpha), np.asarray(bank.delta))])
    middle = rows.mean(axis=0)
    _, near = KDTree((templates - middle) @ r[1:, 1:].T).query((rows - middle) @ r[1:, 1:].T, k=2)

    @jax.jit
    @jax.vmap
    def loss(signal, template):
        here, there = (jfstat.Doppler(x[0], x[1], x[2:], reftime) for x in (signal, template))
        return jfstat.mismatch(segments, here, there)

    best = f - (templates[near] - rows[:, None]) @ drift(r, 1)[0]
    there = np.stack([bank.alpha[near], bank.delta[near], best, bank.fkdot[near, 1]], axis=-1)
    here = np.column_stack([signals[:, :2], np.full(k, f), signals[:, 2]])
    lost = np.min([loss(here, there[:, i]) for i in range(2)], axis=0)
    assert np.max(lost) < mismatch
    assert np.mean(lost) > 0.15 * mismatch  # no waste


def test_what_needs_one_segment_is_refused(segments):
    with pytest.raises(ValueError, match="segments have no natural steps"):
        jfstat.template_bank(1.0, 0.2, f1dot=(-1e-9, 0.0), data=segments)
    flat = jfstat.template_bank(1.0, 0.2, f1dot=(-1e-9, 0.0, 1e-10), data=segments)
    assert len(flat.alpha) == 11 and flat.reftime == START
    amplitude = jfstat.Amplitude(1e-25, 0.0, 0.0, 0.0)
    with pytest.raises(ValueError, match="has segments or is a stack"):
        jfstat.predict_twoF(segments, jfstat.Doppler(0.0, 0.0, [10.0]), amplitude)
