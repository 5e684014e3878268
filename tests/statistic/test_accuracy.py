"""2F against the exact matched filter: the theory's rho^2, the direct float64 sum, and each path against the other."""

import jax
import numpy as np
import pytest
from cases import at_frequency, make, relative_l2

import jfstat
from jfstat.reference import antenna_integrals, direct_fa_fb, direct_twoF

CASES = [
    pytest.param(20.0, 1, ("H1",), 1.0, marks=pytest.mark.slow),
    pytest.param(100.0, 2, ("H1", "L1"), 0.6, marks=pytest.mark.slow),
    (437.0, 1, ("V1", "K1"), 0.7),
    pytest.param(1000.0, 1, ("H1",), 0.8, marks=pytest.mark.slow),
    (1900.0, 2, ("H1", "L1"), 0.65),
]


@pytest.mark.ci
@pytest.mark.parametrize(("f0", "days", "detectors", "duty"), CASES)
def test_against_theory_and_direct_sum(f0, days, detectors, duty):
    """Noise-free, the theory's rho^2; in noise, every bin of the band and `twoF` equal the direct float64 sum."""
    common = dict(seed=int(f0 + 10 * days), days=days, detectors=detectors, duty=duty)
    clean = make(f0, **common)
    assert 0.9995 < float(jfstat.twoF(clean.data, clean.doppler)) / clean.rho2 < 1.0003

    case = make(f0, **common, noise=True, h0=5e-25)
    f = case.data.frequencies
    rng = np.random.default_rng(0)
    bins = np.unique([0, 1, len(f) - 2, len(f) - 1, np.argmin(abs(f - f0)), *rng.integers(0, len(f), 40)])
    truth = direct_twoF(case.data, case.doppler, f[bins])
    band = np.asarray(jfstat.twoF_band(case.data, case.doppler))[bins]
    single = [float(jfstat.twoF(case.data, at_frequency(case.doppler, x))) for x in f[bins]]
    assert relative_l2(band, truth) < 5e-6
    assert relative_l2(single, truth) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("f0", [20.0, 100.0, 437.0, 1000.0, 1900.0])
@pytest.mark.parametrize(("detectors", "duty"), [(("H1",), 0.6), (("H1", "L1"), 0.8)])
def test_recovered_signal_power_over_ten_days(f0, detectors, duty):
    case = make(f0, seed=int(f0), days=10, detectors=detectors, duty=duty)
    assert 0.9995 < float(jfstat.twoF(case.data, case.doppler)) / case.rho2 < 1.0003


@pytest.mark.slow
def test_wider_guard_recovers_more_as_expected():
    cases = [make(100.0, 5, guard=guard) for guard in (0.1, 0.5, 2.0)]
    loss = [1 - float(jfstat.twoF(c.data, c.doppler)) / c.rho2 for c in cases]
    assert loss[0] > 2 * loss[1] > 4 * loss[2] > 0
    # right to a factor of three: it depends on where between two bins the signal lies
    for found, case in zip(loss, cases, strict=True):
        assert 1 / 3 < found / case.data.expected_loss < 3


ORBITS = [
    pytest.param(100.0, jfstat.Orbit(10.0, 7200.0, 1.1e9, 0.5, 1.0), True, marks=pytest.mark.slow),
    pytest.param(1900.0, jfstat.Orbit(0.3, 9000.0, 1.1e9 + 77, 0.3, 4.0), False, marks=pytest.mark.slow),
    (437.0, jfstat.Orbit(6.0, 20 * 86400.0, 1.1e9, 0.49, 2.5), True),
    pytest.param(20.0, jfstat.Orbit(1.4, 68000.0, 1.1e9, 0.0, 0.0), False, marks=pytest.mark.slow),
]


@pytest.mark.ci
@pytest.mark.parametrize(("f0", "orbit", "tell_orbit"), ORBITS)
def test_binary_recovered_with_half_hour_sfts(f0, orbit, tell_orbit):
    speed = 2 * np.pi / float(orbit.period) * float(orbit.asini)
    reach = f0 * speed * np.sqrt((1 + float(orbit.ecc)) / (1 - float(orbit.ecc)))
    case = make(f0, seed=int(f0), orbit=orbit, reach=reach, tell_orbit=tell_orbit)
    assert 0.9995 < float(jfstat.twoF(case.data, case.doppler)) / case.rho2 < 1.0003
    f = case.data.frequencies
    near = np.argsort(abs(f - f0))[:3]
    band = np.asarray(jfstat.twoF_band(case.data, case.doppler))
    np.testing.assert_allclose(band[near], direct_twoF(case.data, case.doppler, f[near]), rtol=3e-5)


@pytest.mark.slow
@pytest.mark.parametrize("f0", [100.0, 1900.0])
def test_hundred_days_equal_direct_sum(f0):
    case = make(f0, seed=100, days=100, duty=0.7, noise=True, h0=3e-26, half_band=0.05)
    f = case.data.frequencies
    bins = np.unique([np.argmin(abs(f - f0)), *np.random.default_rng(1).integers(0, len(f), 15)])
    truth = direct_twoF(case.data, case.doppler, f[bins])
    band = np.asarray(jfstat.twoF_band(case.data, case.doppler))[bins]
    assert relative_l2(band, truth) < 1e-5
    assert relative_l2([float(jfstat.twoF(case.data, at_frequency(case.doppler, x))) for x in f[bins]], truth) < 1e-6


@pytest.mark.ci
def test_fstat_agrees_with_reference_in_every_part():
    case = make(200.0, seed=3, detectors=("H1", "L1", "V1"), noise=True, h0=5e-25)
    found = jfstat.fstat(case.data, case.doppler)
    fa, fb = direct_fa_fb(case.data, case.doppler, np.asarray(case.doppler.fkdot)[:1])
    matrix = antenna_integrals(case.data, case.doppler)
    np.testing.assert_allclose([found.A, found.B, found.C], matrix.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(abs(np.array([found.Fa, found.Fb])), abs(np.array([fa.sum(), fb.sum()])), rtol=1e-5)
    np.testing.assert_allclose(np.angle(found.Fa / found.Fb), np.angle(fa.sum() / fb.sum()), atol=1e-5)
    A, B, C = matrix.T
    alone = 2 / (A * B - C**2) * (B * abs(fa[:, 0]) ** 2 + A * abs(fb[:, 0]) ** 2 - 2 * C * (fa * fb.conj())[:, 0].real)
    np.testing.assert_allclose(found.twoF_per_detector, alone, rtol=1e-5)
    np.testing.assert_allclose(found.twoF, jfstat.twoF(case.data, case.doppler), rtol=1e-12)


def test_mid_time_phase_of_fa_does_not_depend_on_reference_time():
    case = make(100.0, seed=4, fkdot=(-1e-9, 1e-17))
    p = case.doppler
    shift = 30_000
    f, f1, f2 = np.asarray(p.fkdot)
    moved = [f + f1 * shift + 0.5 * f2 * shift**2, f1 + f2 * shift, f2]
    q = jfstat.Doppler(p.alpha, p.delta, moved, p.reftime + shift)
    # f itself is only known to 1e-14 Hz in float64, times a million seconds of light travel and reference offset
    np.testing.assert_allclose(jfstat.fstat(case.data, p).Fa, jfstat.fstat(case.data, q).Fa, rtol=1e-6)


def test_windowed_sfts_keep_their_normalisation():
    tukey = make(100.0, seed=6, window="tukey:0.05", noise=True, h0=0.0)
    band = np.asarray(jfstat.twoF_band(tukey.data, tukey.doppler), float)
    assert abs(band.mean() - 4) < 5 * band.std() / np.sqrt(len(band) / 2)


def test_amplitudes_recovered_without_noise():
    for seed in range(2):
        case = make(100.0, seed=20 + seed)
        found, true = jfstat.estimate_amplitude(case.data, case.doppler).amplitude, case.amplitude
        assert abs(float(found.h0 / true.h0) - 1) < 1e-3
        assert abs(float(found.cosi - true.cosi)) < 2e-3
        # psi and phi0 are defined up to (psi + pi/2, phi0 + pi) only, and degenerate towards |cosi| = 1
        np.testing.assert_allclose(np.asarray(found.canonical), np.asarray(true.canonical), atol=1e-3 * float(true.h0))


@pytest.mark.slow
def test_amplitude_errors_match_scatter():
    """Pulls of the estimated amplitudes over independent noise have unit spread."""
    true = jfstat.Amplitude(h0=5e-25, cosi=0.2, psi=0.3, phi0=2.0)
    signals, start, pulls = [], 1_100_000_000, []
    rng = np.random.default_rng(8)
    for f in 100 + 0.01 * np.arange(-12, 13):
        signals.append((jfstat.Doppler(rng.uniform(0, 6), rng.uniform(-1, 1), [f], start), true))
    sfts = jfstat.simulate_sfts(["H1", "L1"], start, 86400, 99.4, 100.6, signals=signals)
    data = jfstat.prepare(sfts, 99.8, 100.2, sqrt_sx=4e-24)
    for doppler, _ in signals:
        found = jfstat.estimate_amplitude(data, doppler)
        for name in ("h0", "cosi"):
            pulls.append((getattr(found.amplitude, name) - getattr(true, name)) / getattr(found.errors, name))
    assert 0.7 < np.std(pulls) < 1.35


def test_jit_agrees_with_numpy_on_known_bad_reduction():
    """jax 0.10.2 gets the last row of this wrong (jax#39103); such releases must not pass unnoticed."""
    rng = np.random.default_rng(0)
    matrix, rows = rng.normal(size=(5, 5)), rng.normal(size=(16385, 5))
    found = jax.jit(jax.vmap(lambda row: ((matrix @ row) ** 2).sum()))(rows)
    np.testing.assert_allclose(found, ((rows @ matrix.T) ** 2).sum(axis=1), rtol=1e-12)


def test_noise_outside_the_searched_band_changes_nothing():
    """Wide SFTs with a loud wall far from the band give the weights and predictions of the quiet band."""
    start = 1_100_000_000
    doppler, amplitude = jfstat.Doppler(1.0, 0.5, [100.0], start), jfstat.Amplitude(2e-25, 0.3)
    quiet = jfstat.simulate_sfts(["H1", "L1"], start, 86400, fmin=96, fmax=102, signals=[(doppler, amplitude)])
    loud = quiet["H1"].data.copy()
    loud[:, :3000] *= 100
    series = jfstat.sfts.SFTSeries("H1", quiet["H1"].gps, quiet["H1"].gps_ns, loud)
    walled = jfstat.SFTs((series, quiet["L1"]), quiet.tsft, quiet.first_bin)
    a, b = (jfstat.prepare(x, 99.95, 100.05) for x in (quiet, walled))
    np.testing.assert_allclose(a.observation.sinv_tsft, b.observation.sinv_tsft, rtol=1e-12)
    np.testing.assert_allclose(jfstat.twoF(a, doppler), jfstat.twoF(b, doppler), rtol=1e-5)


def test_errors_of_degenerate_amplitudes_are_not_wrapped():
    case = make(100.0, seed=1)
    signal = jfstat.Amplitude(1e-24, 0.99999, 0.2, 1.0)
    start = int(case.data.observation.epoch)
    sfts = jfstat.simulate_sfts(
        ["H1"], start, 43200, fmin=98.7, fmax=101.3, sqrt_sx=None, signals=[(case.doppler, signal)]
    )
    data = jfstat.prepare(sfts, 99.95, 100.05, sqrt_sx=4e-24)
    errors = jfstat.estimate_amplitude(data, case.doppler).errors
    assert errors.phi0 > 2 * np.pi
    assert errors.psi > np.pi


def test_predictions_take_single_templates_only():
    case = make(100.0, seed=1)
    stack = jfstat.Amplitude(np.full(4, 1e-25), 0.1)
    with pytest.raises(ValueError, match="vmap"):
        jfstat.predict_twoF(case.data, case.doppler, stack)
    values = jax.vmap(jfstat.predict_twoF, (None, None, 0))(case.data, case.doppler, stack)
    one = jfstat.predict_twoF(case.data, case.doppler, jfstat.Amplitude(1e-25, 0.1))
    np.testing.assert_allclose(values, np.full(4, one))
