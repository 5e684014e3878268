"""Signals and noise added to prepared data, against SFTs with them that are prepared; maps over data."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import make
from scipy import stats

import jfstat
from jfstat.data.addsignal import noise_spectra
from jfstat.data.sftmask import FINER, mask, mean_power, window_power, window_transform
from jfstat.reference import direct_twoF
from jfstat.sfts.windows import window_samples
from jfstat.signal.values import replaced, values

ORBIT = jfstat.Orbit(asini=1.2, period=40000.0, tp=1.1e9 + 0.25, ecc=0.3, argp=0.7)
SMALL = dict(half_band=0.02, guard=0.5)
KINDS = {
    "gaps, three detectors": (431.7, 2, dict(duty=0.5, days=1.5, detectors=("H1", "L1", "V1"), fkdot=(-1e-8, 1e-16))),
    "1900 Hz": (1900.0, 3, dict(detectors=("L1",), fkdot=(1e-9,))),
    "orbit": (60.3, 4, dict(orbit=ORBIT, reach=0.05)),
    "Tukey": (200.1, 5, dict(window="tukey:0.2", days=0.5, detectors=("H1",))),
}


def emptied(data):
    """Data without strain."""
    return replace(data, series=0 * data.series, filters=tuple(0 * x for x in data.filters))


def added(case, data=None, **kwargs):
    return jfstat.add_signal(emptied(case.data) if data is None else data, case.doppler, case.amplitude, **kwargs)


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    f0, seed, how = KINDS[request.param]
    return make(f0, seed, **SMALL, **how), how.get("window", "rectangular")


@pytest.fixture(scope="module")
def small():
    return make(100.3, 7, half_band=0.005, guard=0.3, noise=True, fkdot=(-1e-9,))


def test_the_series_is_what_prepare_makes_of_sfts_with_the_signal(kind):
    case, window = kind
    own, band = added(case, window=window), case.data.band
    prepared, loss = np.asarray(case.data.series), float(case.data.expected_loss)
    # nearly all that differs is what SFTs lose outside the guard: an impulse of 1/(2 pi^2 guard) times the difference
    # between the ends of an SFT, at both ends, of which the series has its own bandwidth
    lost = np.sqrt(1 / float(band.dtau) / 1800) / (np.pi**2 * float(band.guard))
    assert np.linalg.norm(own.series - prepared) < 2 * lost * np.linalg.norm(prepared)
    given, mine = (float(jfstat.twoF(x, case.doppler)) for x in (case.data, own))
    assert abs(mine - given) < (1.6 * loss + 2e-6) * case.rho2
    if window == "rectangular":
        assert abs(mine - case.rho2) < 2e-6 * case.rho2


def test_bands_of_added_signals():
    case = make(100.2, 1, **SMALL, detectors=("H1",), days=0.5)
    own, loss = added(case), float(case.data.expected_loss)
    bands = [np.asarray(jfstat.twoF_band(x, case.doppler)) for x in (case.data, own)]
    assert np.max(np.abs(bands[0] - bands[1])) < (1.6 * loss + 1e-5) * case.rho2
    direct = direct_twoF(own, case.doppler, own.frequencies[::50])
    np.testing.assert_allclose(bands[1][::50], direct, atol=2e-5 * case.rho2)


def test_amplitudes_and_phases_are_recovered(kind):
    case, window = kind
    estimate = jfstat.estimate_amplitude(added(case, window=window), case.doppler)
    level, tolerance = 1.0, 2e-5
    if window != "rectangular":
        samples = window_samples(window, 10001)  # of unit mean square
        level, tolerance = np.mean(samples), 2e-3  # estimates suppose that SFTs see all times equally
    atol = tolerance * float(case.amplitude.h0)
    np.testing.assert_allclose(estimate.canonical, level * case.amplitude.canonical, rtol=0, atol=atol)


def test_narrow_data_take_signals_themselves(kind):
    case, window = kind
    near = jfstat.narrow(emptied(case.data), case.doppler, max_block=7200.0)
    own = added(case, near, window=window)
    whole = added(case, window=window)
    off = replace(case.doppler, fkdot=case.doppler.fkdot.at[0].add(0.3 / case.data.tspan))
    for point in (case.doppler, off):
        np.testing.assert_allclose(jfstat.twoF(own, point), jfstat.twoF(whole, point), rtol=3e-6, atol=3e-6 * case.rho2)
    # signals beside the centre
    beside, expected = (jfstat.add_signal(x, off, case.amplitude, window=window) for x in (near, emptied(case.data)))
    np.testing.assert_allclose(jfstat.twoF(beside, off), jfstat.twoF(expected, off), rtol=3e-6)
    parts = jfstat.atoms(own, case.doppler), jfstat.atoms(jfstat.narrow(whole, case.doppler, max_block=7200.0), off)
    assert parts[0].Fa.shape == parts[1].Fa.shape
    np.testing.assert_allclose(jnp.sum(parts[0].Fa), jfstat.fstat(own, case.doppler).Fa, rtol=1e-9)


def test_signals_are_added_to_what_there_is(small):
    own, empty = added(small, small.data), added(small)
    scale = float(jnp.max(jnp.abs(own.series)))
    np.testing.assert_allclose(own.series, small.data.series + empty.series, atol=1e-6 * scale)
    for total, part, before in zip(own.filters, empty.filters, small.data.filters, strict=True):
        np.testing.assert_allclose(total, part + before, atol=1e-6 * scale)
    bare = added(small, replace(small.data, filters=()))
    np.testing.assert_allclose(bare.series, own.series, atol=1e-6 * scale)
    assert bare.filters == ()


@pytest.mark.ci
def test_segments_are_mapped_over():
    start = 1_100_000_000
    doppler = jfstat.Doppler(1.2, -0.4, [60.0, -1e-9], start + 1e4)
    amplitude = jfstat.Amplitude(1e-24, 0.4, 0.2, 1.1)
    silent = jfstat.simulate_sfts(["H1"], start, 86400, 59.4, 60.6, sqrt_sx=None)
    how = dict(fmin=59.99, fmax=60.01, sqrt_sx=4e-24, guard=0.4, segments=3)
    loud = jfstat.prepare(jfstat.inject(silent, [(doppler, amplitude)]), **how)
    own = jax.vmap(jfstat.add_signal, (0, None, None))(jfstat.prepare(silent, **how), doppler, amplitude)
    each = jax.vmap(jfstat.twoF, (0, None))
    np.testing.assert_allclose(each(own, doppler), each(loud, doppler), rtol=1e-3)
    assert abs(float(jfstat.mean_twoF(own, doppler) / jfstat.mean_twoF(loud, doppler)) - 1) < 5e-4


@pytest.mark.ci
def test_gradients_are_those_of_differences(small):
    data = replace(emptied(small.data), filters=())
    near = jfstat.narrow(data, small.doppler)
    other = replace(small.doppler, fkdot=small.doppler.fkdot.at[0].add(0.4 / small.data.tspan))
    names = ("freq", "f1dot", "alpha", "delta")
    steps = dict(freq=0.02 / small.data.tspan, f1dot=0.02 / small.data.tspan**2, alpha=4e-5, delta=4e-5)

    def of_point(data, x):
        return jfstat.twoF(jfstat.add_signal(data, replaced(small.doppler, names, x), small.amplitude), other)

    def of_amplitude(data, x):
        return jfstat.twoF(jfstat.add_signal(data, small.doppler, jfstat.Amplitude(*x)), small.doppler)

    amplitude = jnp.stack([getattr(small.amplitude, k) for k in ("h0", "cosi", "psi", "phi0")])
    cases = [
        (of_point, values(small.doppler, names), np.array([steps[k] for k in names])),
        (of_amplitude, amplitude, np.array([1e-3 * float(amplitude[0]), 1e-3, 1e-3, 1e-3])),
    ]
    for function, x, step in cases:
        both, sloping = jax.jit(function), jax.jit(jax.grad(function, argnums=1))
        for where in (data, near):
            slope = sloping(where, jnp.asarray(x))
            sides = [[both(where, jnp.asarray(x).at[i].add(s * step[i])) for s in (1, -1)] for i in range(len(x))]
            found = np.array([float(a - b) / (2 * h) for (a, b), h in zip(sides, step, strict=True)])
            # in units of the steps, relative to the largest; the series are in single precision
            assert np.max(np.abs((slope - found) * step)) < 2e-3 * np.max(np.abs(found * step))
            assert np.max(np.abs(found * step)) > 1e-3 * float(both(where, jnp.asarray(x)))


@pytest.mark.ci
def test_stacks_of_templates_and_amplitudes(small):
    data = replace(small.data, filters=())
    shifts = jnp.array([-0.3, 0.0, 0.4]) / small.data.tspan
    strengths = jnp.array([0.0, 1e-25, 3e-25])

    def one(data, shift, h0):
        point = replace(small.doppler, fkdot=small.doppler.fkdot.at[0].add(shift))
        return jfstat.twoF(jfstat.add_signal(data, point, replace(small.amplitude, h0=h0)), point)

    expected = [[float(one(data, f, h)) for h in strengths] for f in shifts]
    for where, tolerance in ((data, 1e-5), (jfstat.narrow(data, small.doppler), 1e-5)):
        inner = jax.vmap(one, (None, None, 0))
        found = jax.jit(jax.vmap(inner, (None, 0, None)))(where, shifts, strengths)
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=1e-4)


def test_templates_that_do_not_fit(small):
    outside = replace(small.doppler, fkdot=small.doppler.fkdot.at[0].add(0.5))
    near = jfstat.narrow(small.data, small.doppler)
    for data in (small.data, near):
        with pytest.raises(ValueError, match="point"):
            jfstat.add_signal(data, outside, small.amplitude)
        traced = jax.jit(lambda point, data=data: jfstat.add_signal(data, point, small.amplitude))(outside)
        assert np.isnan(jfstat.twoF(traced, small.doppler))
        n_band = data.layout.n_band if data is small.data else None
        assert np.all(np.isnan(traced.samples[:, :n_band]))


@pytest.mark.parametrize("window", ["rectangular", "hann", "tukey:0.3"])
def test_windows_are_those_of_sfts(window):
    tapered = {"rectangular": 0.0, "hann": 1.0, "tukey:0.3": 0.3}[window]
    n, tsft = 20001, 1800.0
    samples, u = window_samples(window, n), np.linspace(-0.5, 0.5, n)
    frequency = np.array([0.0, 0.3, 1.0, 1 / 0.3, 1.7, 5.2]) / tsft
    kernel = samples * np.exp(-2j * np.pi * frequency[:, None] * u * tsft)
    transform = np.trapezoid(kernel, u * tsft, axis=1)
    np.testing.assert_allclose(
        window_transform(jnp.asarray(frequency), jnp.asarray(tsft), tapered), transform, atol=0.3
    )
    power = np.concatenate([[0.0], np.cumsum(0.5 * (samples[1:] ** 2 + samples[:-1] ** 2))]) / (n - 1)
    np.testing.assert_allclose(window_power(jnp.asarray(u + 0.5), tapered), power, atol=2e-4)


@pytest.mark.ci
def test_the_mask_is_low_passed_and_keeps_its_integral(small):
    observation, band, n = small.data.observation, small.data.band, small.data.layout.n_band
    step = float(band.dt) / FINER
    time = float(band.start) + step * np.arange(FINER * n)
    for start, weight in zip(observation.start, observation.weight, strict=True):
        own = np.asarray(mask(start, weight, observation.tsft, band, n, 0.0), float)
        power = np.asarray(mean_power(jnp.asarray(time), jnp.asarray(step), start, weight, observation.tsft, 0.0))
        total = float(jnp.sum(weight) * observation.tsft)
        np.testing.assert_allclose([np.sum(x) * step for x in (own, power)], total, rtol=1e-5)
        inside = np.zeros(len(time))
        for s, w in zip(np.asarray(start), np.asarray(weight), strict=True):
            inside[(time >= s) & (time < s + 1800)] += w
        away = np.abs(power - inside) < 1e-9  # all but cells with an edge
        assert np.mean(away) > 0.98
        assert np.sqrt(np.mean((own - power) ** 2)) < 0.1


@pytest.mark.parametrize(
    "window", [pytest.param("rectangular", marks=pytest.mark.ci), pytest.param("hann", marks=pytest.mark.slow)]
)
def test_noise_has_the_distribution_of_noise(window, small):
    data, n = replace(small.data, filters=()), 200

    def one(key, data):
        noise = jfstat.noise_like(key, data, window=window)
        signal = jfstat.add_signal(noise, small.doppler, small.amplitude, window=window)
        return jfstat.twoF(noise, small.doppler), jfstat.twoF(signal, small.doppler)

    keys = jax.random.split(jax.random.key(3), n)
    noise, signal = jax.jit(lambda keys, data: jax.lax.map(lambda k: one(k, data), keys, batch_size=50))(keys, data)
    rho2 = float(jfstat.twoF(added(small, replace(emptied(data), filters=()), window=window), small.doppler))
    assert abs(np.mean(noise) - 4) < 4 * np.sqrt(8 / n)
    assert abs(np.mean(signal) - 4 - rho2) < 4 * np.sqrt((8 + 4 * rho2) / n)
    assert stats.kstest(noise, stats.chi2(4).cdf).pvalue > 1e-3
    assert stats.kstest(signal, stats.ncx2(4, rho2).cdf).pvalue > 1e-3


@pytest.mark.ci
def test_noise_has_the_power_of_prepared_noise():
    case = make(300.0, 8, half_band=0.05, guard=0.5, noise=True, h0=1e-30, duty=0.6)
    noise = jfstat.noise_like(jax.random.key(0), case.data)
    n = case.data.layout.n_band
    powers = [np.abs(np.fft.fft(np.asarray(x.series)[:, :n])) ** 2 for x in (noise, case.data)]
    folded = [p[:, : n // 16 * 16].reshape(2, 16, -1).mean(axis=2) for p in powers]
    bins = n // 16
    edge = 0.02 * np.max(folded[1])
    assert np.max(np.abs(folded[0] - folded[1]) / (folded[1] + edge)) < 6 * np.sqrt(2 / bins)
    # 2F of the band, from filters that were made anew, is that of single templates
    values, k = jfstat.twoF_band(noise, case.doppler), 37
    point = replace(case.doppler, fkdot=case.doppler.fkdot.at[0].set(noise.frequencies[k]))
    np.testing.assert_allclose(values[k], jfstat.twoF(noise, point), rtol=1e-3, atol=1e-3)
    assert np.abs(np.asarray(noise.series)[:, n:]).max(initial=0) == 0


def test_keys_and_detectors_have_independent_noise(small):
    keys = jax.random.split(jax.random.key(5), 2)
    spectra = [np.asarray(noise_spectra(key, small.data, 0.0)).ravel() for key in keys]
    again = np.asarray(noise_spectra(keys[0], small.data, 0.0)).ravel()
    np.testing.assert_array_equal(spectra[0], again)
    half = len(again) // 2
    for a, b in [spectra, (again[:half], again[half:])]:
        assert abs(np.vdot(a, b)) < 5 / np.sqrt(len(a)) * np.linalg.norm(a) * np.linalg.norm(b)
    old = jax.random.PRNGKey(1)
    assert jfstat.noise_like(old, small.data).series.shape == small.data.series.shape
    with pytest.raises(TypeError, match="key must be a random key"):
        jfstat.noise_like(3, small.data)
    with pytest.raises(ValueError, match=r"jax\.vmap"):
        jfstat.noise_like(keys, small.data)


def test_traced_signals_are_refused_by_inject(small):
    sfts = jfstat.simulate_sfts("H1", 1_100_000_000, 3600, 99, 101)

    def louder(h0):
        return jfstat.inject(sfts, [(small.doppler, replace(small.amplitude, h0=h0))]).start

    with pytest.raises(ValueError, match=r"use jfstat\.add_signal"):
        jax.jit(louder)(1e-24)


@pytest.fixture(scope="module")
def realisations(small):
    """Some realisations, as a list and as a stack on all of whose arrays there is a leading axis."""
    keys = jax.random.split(jax.random.key(9), 3)
    each = [jfstat.add_signal(jfstat.noise_like(key, small.data), small.doppler, small.amplitude) for key in keys]
    return each, jax.tree.map(lambda *x: jnp.stack(x), *each)


@pytest.mark.ci
def test_functions_of_data_map_over_realisations(small, realisations):
    each, stack = realisations
    point = small.doppler
    functions = [
        lambda data: jfstat.twoF(data, point),
        lambda data: jfstat.fstat(data, point).twoF_per_detector,
        lambda data: jfstat.twoF_band(data, point),
        lambda data: jfstat.estimate_amplitude(data, point).amplitude.cosi,
    ]
    for function in functions:
        expected = np.stack([np.asarray(function(data)) for data in each])
        np.testing.assert_allclose(jax.jit(jax.vmap(function))(stack), expected, rtol=2e-4, atol=1e-4)


@pytest.mark.ci
@pytest.mark.parametrize("traced_sizes", [False, True])
def test_atoms_map_over_realisations(small, realisations, traced_sizes):
    each, stack = realisations
    duration = 700.3 if traced_sizes else 3600.0
    sizes = jfstat.atom_sizes(small.data, small.doppler, duration)
    if traced_sizes:
        function = jax.vmap(lambda data, sizes: jfstat.atoms(data, small.doppler, sizes=sizes), (0, None))
        found = jax.jit(function)(stack, sizes)
    else:
        found = jax.jit(jax.vmap(lambda data: jfstat.atoms(data, small.doppler, sizes=sizes)))(stack)
    for i, data in enumerate(each):
        expected = jfstat.atoms(data, small.doppler, duration)
        for name in ("Fa", "Fb", "A", "B", "C", "start", "end"):
            value, mine = (np.asarray(getattr(x, name)) for x in (expected, found))
            np.testing.assert_allclose(mine[i], value, rtol=1e-9, atol=1e-9 * np.max(np.abs(value)))
        np.testing.assert_allclose(jax.vmap(lambda x: x.twoF)(found)[i], jfstat.twoF(data, small.doppler))


@pytest.mark.ci
@pytest.mark.parametrize("max_block", [None, 7200.0])
def test_narrow_maps_over_realisations(small, realisations, max_block):
    each, stack = realisations
    sizes = jfstat.narrow_sizes(small.data, small.doppler, max_block=max_block)
    near = jax.jit(jax.vmap(lambda data: jfstat.narrow(data, small.doppler, sizes=sizes)))(stack)
    found = jax.vmap(jfstat.twoF, (0, None))(near, small.doppler)
    parts = jax.jit(jax.vmap(lambda near: jfstat.atoms(near, small.doppler)))(near)
    for i, data in enumerate(each):
        expected = jfstat.narrow(data, small.doppler, max_block=max_block)
        scale = np.max(np.abs(expected.samples))
        np.testing.assert_allclose(near.samples[i], expected.samples, atol=1e-6 * scale)
        np.testing.assert_allclose(found[i], jfstat.twoF(data, small.doppler), rtol=1e-5)
        own = jfstat.atoms(expected, small.doppler)
        for name in ("Fa", "A", "C", "start", "end"):
            value, mine = (np.asarray(getattr(x, name)) for x in (own, parts))
            np.testing.assert_allclose(mine[i], value, rtol=1e-5, atol=1e-6 * np.max(np.abs(value)))


@pytest.mark.ci
def test_weights_of_realisations_may_differ():
    sfts = [
        jfstat.simulate_sfts(["H1", "L1"], 1_100_000_000, 43200, 99.2, 100.8, sqrt_sx=4e-24, seed=seed)
        for seed in (1, 2)
    ]
    each = [jfstat.prepare(x, 99.995, 100.005, guard=0.4, filters=False) for x in sfts]
    point = jfstat.Doppler(1.0, 0.3, [100.0], 1_100_000_000)
    assert np.any(each[0].observation.weight != each[1].observation.weight)
    stack = jax.tree.map(lambda *x: jnp.stack(x), *each)
    sizes, narrowed = jfstat.atom_sizes(each[0], point, 7200), jfstat.narrow_sizes(each[0], point)
    found = jax.jit(jax.vmap(lambda data: jfstat.atoms(data, point, sizes=sizes)))(stack)
    near = jax.jit(jax.vmap(lambda data: jfstat.twoF(jfstat.narrow(data, point, sizes=narrowed), point)))(stack)
    for i, data in enumerate(each):
        expected = jfstat.atoms(data, point, 7200)
        for name in ("Fa", "A", "B", "C"):
            value = np.asarray(getattr(expected, name))
            np.testing.assert_allclose(getattr(found, name)[i], value, rtol=1e-9, atol=1e-9 * np.max(np.abs(value)))
        np.testing.assert_allclose(near[i], jfstat.twoF(data, point), rtol=1e-5)


@pytest.mark.ci
def test_sizes_must_suit(small):
    other = make(100.3, 8, half_band=0.005, guard=0.3, noise=True, fkdot=(-1e-9,))
    atoms, narrow = jfstat.atom_sizes(other.data, small.doppler), jfstat.narrow_sizes(other.data, other.doppler)
    shifted = replace(small.data, band=replace(small.data.band, start=small.data.band.start + 1.0))
    own_atoms, own_narrow = (f(small.data, small.doppler) for f in (jfstat.atom_sizes, jfstat.narrow_sizes))
    bare = jax.jit(lambda data: jfstat.atoms(data, small.doppler, sizes=own_atoms).twoF)
    assert np.isfinite(bare(small.data)) and np.isnan(bare(shifted))
    near = jax.jit(lambda data: jfstat.narrow(data, small.doppler, sizes=own_narrow).samples)
    assert np.isfinite(near(small.data)).all() and np.isnan(near(shifted)).all()
    for call in (
        lambda: jfstat.atoms(small.data, small.doppler, sizes=atoms),
        lambda: jfstat.narrow(small.data, small.doppler, sizes=narrow),
        lambda: jfstat.narrow(shifted, small.doppler, sizes=own_narrow),
    ):
        with pytest.raises(ValueError, match="other times or frequencies"):
            call()
    with pytest.raises(ValueError, match="do not go with sizes"):
        jfstat.narrow(small.data, small.doppler, sizes=own_narrow, reach=1e-4)
    with pytest.raises(ValueError, match="does not go with sizes"):
        jfstat.atoms(small.data, small.doppler, 1800, sizes=own_atoms)
    with pytest.raises(ValueError, match=r"do not go with narrow"):
        jfstat.atoms(jfstat.narrow(small.data, small.doppler), small.doppler, sizes=own_atoms)
    with pytest.raises(TypeError, match="sizes must be"):
        jfstat.narrow(small.data, small.doppler, sizes=own_atoms)
    with pytest.raises(TypeError, match="sizes must be"):
        jfstat.atoms(small.data, small.doppler, sizes=own_narrow)
    binary = replace(small.doppler, orbit=replace(ORBIT, asini=1e-4))
    with pytest.raises(ValueError, match="with an orbit"):
        jfstat.narrow(small.data, binary, sizes=own_narrow)


def test_traced_data_without_sizes_are_refused_in_a_sentence(small):
    with pytest.raises(ValueError, match=r"sizes= from jfstat.atom_sizes"):
        jax.jit(lambda data: jfstat.atoms(data, small.doppler))(small.data)
    with pytest.raises(ValueError, match=r"sizes= from jfstat.narrow_sizes"):
        jax.jit(lambda data: jfstat.narrow(data, small.doppler))(small.data)
    with pytest.raises(ValueError, match="must not be traced"):
        jax.jit(lambda data: jfstat.atom_sizes(data, small.doppler))(small.data)


@pytest.mark.ci
def test_narrow_sizes_of_orbits():
    case = make(60.3, 11, half_band=0.01, guard=0.3, days=1.0, duty=1.0, orbit=ORBIT, reach=0.05)
    sizes = jfstat.narrow_sizes(case.data, case.doppler)
    function = jax.jit(lambda data, point: jfstat.twoF(jfstat.narrow(data, point, sizes=sizes), point))
    np.testing.assert_allclose(function(case.data, case.doppler), jfstat.twoF(case.data, case.doppler), rtol=1e-5)
    fast = replace(case.doppler, orbit=replace(ORBIT, period=1000.0))
    assert np.isnan(function(case.data, fast))


@pytest.mark.ci
def test_sizes_for_other_timing_blocks_are_refused(small):
    """Samples of slices are counted in blocks: sizes for others would be silently wrong."""
    sfts = jfstat.simulate_sfts("H1", 1_100_000_000, 43200, 28.9, 31.1, sqrt_sx=4e-24, seed=1)
    one, other = (jfstat.prepare(sfts, 29.9, 30.1, max_block=x) for x in (None, 200))
    point = jfstat.Doppler(1.0, 0.3, [30.0], 1_100_000_000)
    sizes = jfstat.atom_sizes(one, point, 3600)
    with pytest.raises(ValueError, match="timing blocks of another length"):
        jfstat.atoms(other, point, sizes=sizes)
    with pytest.raises(ValueError, match="timing blocks of another length"):
        jax.jit(jfstat.atoms)(other, point, sizes=sizes)
    own = jfstat.atoms(other, point, sizes=jfstat.atom_sizes(other, point, 3600)).twoF
    np.testing.assert_allclose(own, jfstat.twoF(other, point), rtol=1e-4)
