"""Semi-coherent statistics: sums over segments, the direct sum, LALSuite's numbers, the distribution in noise."""

import cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import jfstat
from jfstat.reference import direct_twoF
from jfstat.statistic.semicoherent import amplitude_from

START = 1_167_458_304
DAY = 86400
REFTIME = START + 30 * DAY
DAYS = [(START + i * DAY, START + (i + 1) * DAY) for i in range(4)]


@pytest.fixture(scope="module")
def signal():
    doppler = jfstat.Doppler(1.7, 0.4, [183.0, -3e-10], REFTIME)
    return doppler, jfstat.Amplitude(h0=2.5e-25, cosi=0.3, psi=0.2, phi0=1.0)


@pytest.fixture(scope="module")
def sfts(signal):
    """Gaps, and no L1 in the third segment of four."""
    times = cases.random_timestamps(np.random.default_rng(1), ("H1", "L1", "V1"), START, 4, 0.7)
    times["L1"] = times["L1"][(times["L1"] < START + 1.9 * DAY) | (times["L1"] > START + 3.05 * DAY)]
    return jfstat.simulate_sfts(list(times), timestamps=times, fmin=181.8, fmax=184.2, signals=[signal], seed=2)


@pytest.fixture(scope="module")
def segments(sfts):
    return jfstat.prepare(sfts, 182.95, 183.05, REFTIME, sqrt_sx=4e-24, segments=DAYS, filters=False)


def off(point, **changes):
    values = {"alpha": point.alpha, "delta": point.delta, "fkdot": point.fkdot} | changes
    return jfstat.Doppler(**values, reftime=point.reftime)


@pytest.mark.ci
def test_sums_are_those_of_the_segments(segments, signal):
    point, _ = signal
    each = [jfstat.fstat(segments[i], point) for i in range(4)]
    found = jfstat.semicoherent_fstat(segments, point)
    twoF = np.array([float(x.twoF) for x in each])
    rounding = 1e-11  # phases of 1e8 cycles are rounded to 1e-8; each program rounds in other places
    np.testing.assert_allclose(found.twoF, twoF, rtol=rounding)
    np.testing.assert_allclose(found.twoF_per_detector, [x.twoF_per_detector for x in each], rtol=rounding)
    assert float(jfstat.sum_twoF(segments, point)) == pytest.approx(twoF.sum(), rel=rounding)
    assert float(jfstat.mean_twoF(segments, point)) == pytest.approx(twoF.mean(), rel=rounding)
    assert twoF.mean() > 30
    np.testing.assert_array_equal(found.has_data, [[1, 1, 1], [1, 1, 1], [1, 0, 1], [1, 1, 1]])
    own = np.array(found.twoF_per_detector)
    own[2, 1] = np.nan
    np.testing.assert_allclose(found.mean_twoF_per_detector, np.nanmean(own, axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.sum_twoF_per_detector, np.nansum(own, axis=0), rtol=1e-12)
    assert int(found.number_count(np.median(twoF))) == 2
    np.testing.assert_array_equal(found.number_count_per_detector(3.9), np.sum(own > 3.9, axis=0))


@pytest.mark.ci
def test_is_the_direct_sum_of_every_sample(segments, signal):
    point, _ = signal
    exact = [direct_twoF(segments[i], point, np.array([183.0]))[0] for i in range(4)]
    assert float(jfstat.mean_twoF(segments, point)) == pytest.approx(np.mean(exact), rel=1e-6)


@pytest.mark.ci
def test_stacks_and_narrow_data(segments, signal):
    point, _ = signal
    rng = np.random.default_rng(3)
    points = jfstat.Doppler(
        1.7 + 1e-4 * rng.normal(size=5),
        0.4 + 1e-4 * rng.normal(size=5),
        183.0 + 1e-6 * rng.normal(size=(5, 1)),
        REFTIME,
    )
    one_by_one = [float(jfstat.mean_twoF(segments, jax.tree.map(lambda x, i=i: x[i], points))) for i in range(5)]
    found = jax.jit(jax.vmap(jfstat.mean_twoF, (None, 0)))(segments, points)
    np.testing.assert_allclose(found, one_by_one, rtol=1e-9)
    near = [jfstat.narrow(segments[i], point) for i in range(4)]
    if len({x.samples.shape for x in near}) == 1:
        stacked = jax.tree.map(lambda *x: jnp.stack(x), *near)
        assert float(jfstat.mean_twoF(stacked, point)) == pytest.approx(
            float(jfstat.mean_twoF(segments, point)), rel=1e-6
        )


@pytest.mark.ci
def test_gradients_are_finite_differences(segments, signal):
    point, _ = signal
    start = off(point, alpha=1.70003, delta=0.40002)

    def value(x):
        return jfstat.mean_twoF(segments, off(point, alpha=x[0], delta=x[1], fkdot=x[2:]))

    x = jnp.array([start.alpha, start.delta, *start.fkdot])
    gradient = jax.grad(value)(x)
    for i, step in enumerate([1e-7, 1e-7, 1e-9, 1e-15]):
        h = np.zeros(4)
        h[i] = step
        numeric = (float(value(x + h)) - float(value(x - h))) / (2 * step)
        assert float(gradient[i]) == pytest.approx(numeric, rel=2e-4)


def lalsuite_robust(found, fstar0sc, olgx, transient):
    """log10BSGL or log10BSGLtL of LALSuite from the sums of a statistic."""
    lalpulsar = pytest.importorskip("lalpulsar")

    def padded(x):
        return np.pad(np.asarray(x, np.float32), (0, 10 - len(x)))

    n = len(found.detectors)
    odds = np.full(n, 1 / n) if olgx is None else np.asarray(olgx)
    setup = lalpulsar.CreateBSGLSetup(n, fstar0sc, padded(odds), not transient, len(found.twoF))
    sums = padded(found.sum_twoF_per_detector)
    if transient:
        highest = padded(found.max_twoF_per_detector)
        return lalpulsar.ComputeBSGLtL(np.float32(found.sum_twoF), sums, highest, setup)
    return lalpulsar.ComputeBSGL(np.float32(found.sum_twoF), sums, setup)


@pytest.mark.parametrize("fstar0sc", [0.0, 12.0, 300.0])
@pytest.mark.parametrize("olgx", [None, (0.1, 2.0, 0.0)])
def test_line_robust_statistics_are_those_of_lalsuite(segments, signal, fstar0sc, olgx):
    rng = np.random.default_rng(4)
    detectors = segments.detectors
    loud = [np.ones((4, 3)), np.array([[1, 30, 1]] * 4), np.where(np.arange(4)[:, None] == 1, [1, 40, 1], 1)]
    some = [
        jfstat.SemicoherentFstat(
            jnp.asarray(rng.chisquare(4, 4) + rng.uniform(0, 100, 4)),
            jnp.asarray(rng.chisquare(4, (4, 3)) * x),
            jnp.ones((4, 3), bool),
            detectors,
        )
        for x in loud
    ]
    prior = jfstat.LinePrior(fstar0sc, olgx)
    for found in [jfstat.semicoherent_fstat(segments, signal[0]), *some]:
        theirs = lalsuite_robust(found, fstar0sc, olgx, False)
        assert float(found.log10BSGL(prior)) == pytest.approx(theirs, rel=1e-5, abs=1e-5)
        theirs = lalsuite_robust(found, fstar0sc, olgx, True)
        leading = float(found.log10BSGLtL(prior, leading_term=True))
        assert leading == pytest.approx(theirs, rel=1e-5, abs=1e-5)
        assert leading - np.log10(1 + 3 + 12) <= float(found.log10BSGLtL(prior)) <= leading
    # a line in one segment of one detector is one: with four segments only odds against persistent ones are high
    transient = some[2]
    assert float(transient.log10BSGLtL()) < float(transient.log10BSGL()) + 1


@pytest.mark.ci
def test_line_robust_statistics_have_gradients_and_refuse_one_detector(segments, signal):
    def value(f):
        point = off(signal[0], fkdot=jnp.stack([f, -3e-10]))
        return jfstat.semicoherent_fstat(segments, point).log10BSGLtL(jfstat.LinePrior(2.0))

    slope = jax.grad(value)(183.000001)
    numeric = (value(183.000001 + 1e-9) - value(183.000001 - 1e-9)) / 2e-9
    assert float(slope) == pytest.approx(float(numeric), rel=1e-4)
    one = jfstat.SemicoherentFstat(jnp.ones(2), jnp.ones((2, 1)), jnp.ones((2, 1), bool), ("H1",))
    with pytest.raises(ValueError, match="give two or more"):
        one.log10BSGL()


@pytest.mark.ci
def test_noise_is_chi_squared_with_4_degrees_a_segment():
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, 3 * DAY, 99.0, 103.0, seed=8)
    segments = jfstat.prepare(sfts, 100.0, 102.0, REFTIME, sqrt_sx=4e-24, segments=6, guard=0.5)
    rng = np.random.default_rng(5)
    bands = jax.vmap(jfstat.twoF_band, (0, None))
    twoF = []
    for _ in range(4):
        point = jfstat.Doppler(rng.uniform(0, 6.28), np.arcsin(rng.uniform(-1, 1)), [100.0, 0.0], REFTIME)
        twoF.append(6 * np.mean(bands(segments, point), axis=0)[::4])  # apart by 2/T: independent
    assert stats.kstest(np.concatenate(twoF), stats.chi2(24).cdf).pvalue > 1e-3
    assert np.mean(np.concatenate(twoF)) == pytest.approx(24, abs=0.15)


@pytest.mark.ci
def test_amplitudes_of_a_signal_without_a_common_phase():
    """With templates whose phases slip by a cycle from the first to the last segment."""
    truth = np.array([2.5e-25, 0.4, -0.3])
    pulls = []
    for seed in range(2):
        signal = (jfstat.Doppler(1.7 + seed, 0.4, [60.0, 0.0], START), jfstat.Amplitude(*truth, 1.0))
        sfts = jfstat.simulate_sfts(["H1", "L1"], START, 6 * DAY, 59.3, 60.7, signals=[signal], seed=seed)
        segments = jfstat.prepare(sfts, 59.98, 60.02, START, sqrt_sx=4e-24, segments=12, filters=False)
        point = off(signal[0], fkdot=[60.0 + 1 / (6 * DAY), 0.0])
        found = jfstat.semicoherent_amplitude(segments, point)
        values = np.array([found.h0, found.cosi, found.psi])
        errors = np.array([found.h0_error, found.cosi_error, found.psi_error])
        assert np.all(np.isfinite(errors)) and 0 < errors[0] < 0.3 * truth[0]
        np.testing.assert_allclose(np.sqrt(np.diag(found.covariance)), errors)
        apart = values - truth
        apart[2] = (apart[2] + np.pi / 4) % (np.pi / 2) - np.pi / 4
        pulls.append(apart / errors)
    pulls = np.array(pulls)
    assert stats.chi2.sf(np.sum(pulls**2), pulls.size) > 1e-4


@pytest.mark.ci
def test_errors_of_amplitudes_are_calibrated_for_many_weak_segments():
    """200 segments of rho^2 = 5: hardly any bias of h0, and pulls of the right size."""
    rng = np.random.default_rng(6)
    n, k, h0 = 100, 200, 1e-25
    truth = np.stack([np.full(n, h0), rng.uniform(-0.7, 0.7, n), rng.uniform(-np.pi / 4, np.pi / 4, n)])
    canonical = np.asarray(jfstat.Amplitude(*truth, np.zeros(n)).canonical)
    c = canonical[:, :2] - 1j * canonical[:, 2:]
    factors = rng.normal(size=(n, k, 2, 2))
    matrices = np.einsum("nkij,nklj->nkil", factors, factors) + 0.5 * np.eye(2)
    rho2 = np.einsum("ni,nkij,nj->n", c.conj(), matrices, c).real / k
    matrices *= (5 / rho2)[:, None, None, None]
    noise = rng.normal(size=(n, k, 2)) + 1j * rng.normal(size=(n, k, 2))
    phase = np.exp(2j * np.pi * rng.uniform(size=(n, k, 1)))
    y = phase * np.einsum("nkij,nj->nki", matrices, c)
    y = y + np.einsum("nkij,nkj->nki", np.linalg.cholesky(matrices), noise)
    found = jax.jit(jax.vmap(amplitude_from))(y, np.sum(matrices, axis=1))
    pulls = np.stack([found.h0 - truth[0], found.cosi - truth[1], found.psi - truth[2]])
    pulls[2] = (pulls[2] + np.pi / 4) % (np.pi / 2) - np.pi / 4
    pulls /= np.stack([found.h0_error, found.cosi_error, found.psi_error])
    assert np.mean(np.abs(pulls) < 1) == pytest.approx(0.683, abs=0.08)
    assert np.all(np.abs(np.mean(np.clip(pulls, -5, 5), axis=1)) < 0.4)


@pytest.mark.ci
def test_amplitude_of_one_loud_segment_is_the_coherent_one():
    signal = (jfstat.Doppler(2.7, -0.4, [60.0, 0.0], START), jfstat.Amplitude(2e-24, -0.5, 0.6, 2.0))
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, DAY, 59.3, 60.7, signals=[signal], seed=3)
    segments = jfstat.prepare(sfts, 59.98, 60.02, START, sqrt_sx=4e-24, segments=1, filters=False)
    own = jfstat.semicoherent_amplitude(segments, signal[0])
    coherent = jfstat.estimate_amplitude(segments[0], signal[0])
    for name in ("h0", "cosi", "psi"):
        error = float(getattr(coherent.errors, name))
        assert abs(float(getattr(own, name)) - float(getattr(coherent.amplitude, name))) < 0.02 * error
        assert float(getattr(own, f"{name}_error")) == pytest.approx(error, rel=0.01)


def test_wrong_data_and_templates_are_refused(segments, signal):
    narrow = jfstat.narrow(segments[0], signal[0])
    for stack in (
        jax.tree.map(lambda x: jnp.stack([x, x]), segments[1]),  # of data sets
        jax.tree.map(lambda x: jnp.stack([x, x]), narrow),  # of templates
    ):
        for function in (jfstat.mean_twoF, jfstat.sum_twoF, jfstat.semicoherent_fstat, jfstat.semicoherent_amplitude):
            with pytest.raises(ValueError, match=r"segments overlap in time.* use jax\.vmap, or"):
                function(stack, signal[0])
    with pytest.raises(ValueError, match="segments have 2 leading axes"):
        jfstat.mean_twoF(jax.tree.map(lambda x: jnp.stack([x, x]), segments), signal[0])
    with pytest.raises(ValueError, match="segments has no segments: give"):
        jfstat.mean_twoF(segments[0], signal[0])
    with pytest.raises(TypeError, match="segments must be FstatData"):
        jfstat.semicoherent_fstat(segments.observation, signal[0])
    with pytest.raises(ValueError, match=r"segment 0: point.fkdot\[0\]=190.0 Hz"):
        jfstat.sum_twoF(segments, off(signal[0], fkdot=[190.0, 0.0]))
    with pytest.raises(ValueError, match="a single template is wanted"):
        jfstat.mean_twoF(segments, jax.tree.map(lambda x: jnp.stack([x, x]), signal[0]))
    beyond = jax.jit(jfstat.mean_twoF)(segments, off(signal[0], fkdot=[190.0, 0.0]))
    assert np.isnan(float(beyond))
