"""noise_energy, and log_likelihood with it: Student's t by quadrature, energies of noise, wrong floors, messages."""

from dataclasses import replace

import cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_likelihood import direct

import jfstat

START = 1_167_458_304
FLOOR = 4e-24
POINT = jfstat.Doppler(1.7, 0.4, [83.0, -3e-10], START)
AMPLITUDE = jfstat.Amplitude(6e-25, 0.3, 0.2, 1.0)
FLOORS = {"H1": 3e-24, "L1": 4e-24, "V1": 9e-24}


@pytest.fixture(scope="module")
def case():
    return cases.make(100.0, 3, noise=True, h0=4e-25)


@pytest.fixture(scope="module")
def sfts():
    """Two days of two detectors with gaps and a signal, of which L1 has nothing for the second day."""
    hours = np.arange(START, START + 2 * 86400, 1800)
    times = {"H1": np.delete(hours, slice(10, 17)), "L1": hours[:48:2]}
    return jfstat.simulate_sfts(
        ["H1", "L1"], timestamps=times, fmin=81.8, fmax=84.2, sqrt_sx=FLOOR, signals=[(POINT, AMPLITUDE)], seed=2
    )


@pytest.fixture(scope="module")
def prepared(sfts):
    return [jfstat.prepare(sfts, 82.99, 83.01, sqrt_sx=FLOOR, filters=False, segments=n) for n in (None, 4)]


def over_factors(energy, samples):
    """Logarithm of the integral of Gaussian likelihoods over the factor of the noise power, Jeffreys' prior."""
    u = np.log(energy / samples) + np.linspace(-15, 15, 20001) / np.sqrt(samples)
    exponent = -samples * u - energy * np.exp(-u)
    return np.max(exponent) + np.log(np.sum(np.exp(exponent - np.max(exponent))))


def deviations(found):
    """By how many standard deviations the measured powers differ from the assumed ones."""
    return (np.asarray(found.factor) - 1) * np.sqrt(np.asarray(found.samples))


def test_it_is_the_integral_over_the_factor(case):
    data = case.data
    scale = float(data.observation.tsft) * float(data.band.dt)  # all floors and weights are equal
    energy = scale * np.sum(np.abs(np.asarray(data.series, np.complex128)) ** 2, axis=1)
    found = jfstat.noise_energy(data)
    np.testing.assert_allclose(found.energy, energy, rtol=1e-6)
    for amplitude in (case.amplitude, jfstat.Amplitude(3e-24, -0.7, 0.4, 5.0)):  # the second one is far too loud
        left = energy - direct(data, case.doppler, amplitude)
        n = np.asarray(found.samples)
        expected = [over_factors(left[d], n[d]) - over_factors(energy[d], n[d]) for d in range(2)]
        values = jfstat.log_likelihood(data, case.doppler, amplitude, per_detector=True, energy=found)
        np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-4)
        total = jfstat.log_likelihood(data, case.doppler, amplitude, energy=found)
        assert float(total) == pytest.approx(sum(expected), rel=1e-6, abs=1e-4)
    gaussian = float(jfstat.log_likelihood(data, case.doppler, amplitude))
    assert abs(float(total) / gaussian - 1) > 0.05  # the two likelihoods are not the same


def test_the_signal_takes_its_energy_away(case):
    """Of the series itself: the signal's, prepared without noise, is subtracted sample by sample."""
    signal = cases.make(100.0, 3, h0=4e-25).data.series
    data = case.data
    rest = jfstat.noise_energy(replace(data, series=data.series - signal))
    expected = np.asarray(jfstat.noise_energy(data).energy - rest.energy)
    found = np.asarray(jfstat.log_likelihood(data, case.doppler, case.amplitude, per_detector=True))
    # a template has no gaps, whose edges bring some of the signal out of the band
    np.testing.assert_allclose(found, expected, rtol=0.02)


def test_many_samples_are_a_known_floor():
    many = jfstat.NoiseEnergy(jnp.full(2, 2e10), jnp.full(2, 1e10), ("H1", "L1"))
    np.testing.assert_allclose(many.marginalised(jnp.asarray([[30.0, -5.0]])), [[15.0, -2.5]], rtol=1e-7)


@pytest.mark.parametrize("floors", [FLOORS, None], ids=["given", "estimated"])
def test_noise_has_the_energy_of_its_samples(floors):
    rng = np.random.default_rng(1)
    times = cases.random_timestamps(rng, list(FLOORS), START, 2.0, 0.7)
    sfts = jfstat.simulate_sfts(list(FLOORS), timestamps=times, fmin=81, fmax=85, sqrt_sx=FLOORS, seed=4)
    found = jfstat.noise_energy(jfstat.prepare(sfts, 82.6, 83.4, sqrt_sx=floors, filters=False))
    assert np.max(np.abs(deviations(found))) < 4
    assert abs(float(jnp.sum(found.energy) / jnp.sum(found.samples)) - 1) < 4e-3  # three standard deviations
    expected = [0.84 * 1800 * len(times[name]) for name in FLOORS]  # with Doppler shifts and the low-pass's transition
    np.testing.assert_allclose(found.samples, expected, rtol=0.02)


@pytest.fixture(scope="module")
def short():
    """Data of SFTs so short and so far apart that the low-pass spreads some per cent of their energy into the gaps."""
    times = np.arange(START, START + 86400, 300)
    sfts = jfstat.simulate_sfts(["H1", "L1"], timestamps=times, tsft=60, fmin=82, fmax=84, sqrt_sx=FLOOR, seed=1)
    return jfstat.prepare(sfts, 83.0, 83.0, sqrt_sx=FLOOR, filters=False)


def unequal(data):
    """Data with weights that differ between detectors and from one SFT to the next."""
    levels = np.where(np.arange(data.observation.weight.shape[1]) % 2, 1.3, 0.7) * np.array([[1.0], [0.3]])
    weight = data.observation.weight * levels
    return replace(data, observation=replace(data.observation, weight=weight))


def within(shape):
    return lambda data: jfstat.windowed(data, jfstat.TransientWindow(shape, START + 3000, 40000.0))


CHANGES = {
    "whole": lambda data: data,
    "unequal weights": unequal,
    "left out": lambda data: jfstat.leave_out(data, [(START + 20000, START + 40000)]),
    "rectangular window": within("rectangular"),
    "exponential window": within("exponential"),
}


@pytest.mark.parametrize("kind", list(CHANGES))
def test_energies_have_no_bias(short, kind):
    changed = CHANGES[kind](short)
    # the window of the samples, where there is one, and whatever `leave_out` sets to zero
    ones = replace(short, series=jnp.ones_like(short.series))
    factor = CHANGES[kind](ones).series
    drawn = changed if kind == "unequal weights" else short

    def one(key):
        noise = jfstat.noise_like(key, drawn)
        return jfstat.noise_energy(replace(changed, series=noise.series * factor)).factor

    draws = 60
    found = np.asarray(jax.jit(lambda keys: jax.lax.map(one, keys))(jax.random.split(jax.random.key(3), draws)))
    samples = float(jfstat.noise_energy(changed).samples[0])
    assert abs(found.mean() - 1) < 4 / np.sqrt(2 * draws * samples)
    # in so narrow a band the low-pass passes a part of many more samples
    assert 0.75 < found.std() * np.sqrt(samples) < 1.1


@pytest.mark.parametrize("wrong", [(1.2, 1.2), (1.2, 0.8)], ids=["alike", "each its own"])
def test_a_wrong_floor_does_not_matter(sfts, prepared, wrong):
    right, _ = prepared
    other = jfstat.prepare(sfts, 82.99, 83.01, sqrt_sx=[FLOOR * x for x in wrong], filters=False)
    found, values, gaussian = [], [], []
    for data in (right, other):
        found.append(jfstat.noise_energy(data))
        values.append(jfstat.log_likelihood(data, POINT, AMPLITUDE, per_detector=True, energy=found[-1]))
        gaussian.append(jfstat.log_likelihood(data, POINT, AMPLITUDE, per_detector=True))
    np.testing.assert_allclose(values[1], values[0], rtol=1e-5)
    np.testing.assert_allclose(values[0], gaussian[0], rtol=0.05)
    np.testing.assert_allclose(gaussian[1] * np.square(wrong), gaussian[0], rtol=1e-5)
    np.testing.assert_allclose(found[1].factor * np.square(wrong), found[0].factor, rtol=1e-5)


def test_each_segment_has_a_factor(prepared):
    _, segments = prepared
    found = jfstat.noise_energy(segments)
    assert found.energy.shape == (4, 2)
    assert np.array_equal(np.asarray(found.samples > 0), [[1, 1], [1, 1], [1, 0], [1, 0]])
    phases = jnp.asarray([1.0, 2.0, 3.0, 4.0])
    own = jfstat.Amplitude(AMPLITUDE.h0, AMPLITUDE.cosi, AMPLITUDE.psi, phases)
    each = [
        jfstat.log_likelihood(segments[k], POINT, own[k], per_detector=True, energy=jfstat.noise_energy(segments[k]))
        for k in range(4)
    ]
    values = jfstat.log_likelihood(segments, POINT, own, per_detector=True, energy=found)
    np.testing.assert_allclose(values, np.sum(each, axis=0), rtol=1e-9)
    assert float(each[2][1]) == 0.0
    slope = jax.grad(jfstat.log_likelihood, argnums=2)(segments, POINT, own, energy=found)
    assert np.all(np.isfinite(slope.phi0))


def test_derivatives_are_differences(case):
    near, found = jfstat.narrow(case.data, case.doppler), jfstat.noise_energy(case.data)
    whole = jfstat.log_likelihood(case.data, case.doppler, case.amplitude, energy=found)
    assert float(jfstat.log_likelihood(near, case.doppler, case.amplitude, energy=found)) == pytest.approx(
        float(whole), rel=2e-5
    )

    def value(x):
        own = case.amplitude
        doppler = jfstat.Doppler(
            case.doppler.alpha + 1e-5 * x[0], case.doppler.delta,
            jnp.stack([case.doppler.fkdot[0] + 1e-6 * x[1], case.doppler.fkdot[1]]), case.doppler.reftime,
        )  # fmt: skip
        amplitude = jfstat.Amplitude(own.h0 * (1 + 0.3 * x[2]), own.cosi + 0.1 * x[3], own.psi, own.phi0 + 0.1 * x[4])
        return jfstat.log_likelihood(near, doppler, amplitude, energy=found)

    value, x = jax.jit(value), jnp.full(5, 0.3)
    slopes, step = np.asarray(jax.grad(value)(x)), 1e-2 * np.eye(5)
    ends = np.array([[float(value(x + k * step[i])) for k in (-2, -1, 1, 2)] for i in range(5)])
    differences = (ends @ np.array([1, -8, 8, -1])) / 12e-2
    np.testing.assert_allclose(slopes, differences, rtol=1e-3, atol=1e-3 * np.abs(slopes).max())
    many = jax.vmap(value)(jnp.stack([x, 0 * x]))
    np.testing.assert_allclose(many, [float(value(x)), float(value(0 * x))], rtol=1e-9)


def test_data_without_noise_are_finite():
    quiet = cases.make(100.0, 3, h0=1e-23)
    found = jfstat.noise_energy(quiet.data)
    value, slope = jax.value_and_grad(jfstat.log_likelihood, argnums=2)(
        quiet.data, quiet.doppler, jfstat.estimate_amplitude(quiet.data, quiet.doppler).amplitude, energy=found
    )
    assert np.isfinite(float(value))
    assert np.isfinite(float(slope.h0))
    certain = jfstat.NoiseEnergy(jnp.ones((1,)), jnp.full((1,), 10.0), ("H1",))
    assert float(certain.marginalised(jnp.ones((1, 1)))[0, 0]) == pytest.approx(10 * np.log(1e6), rel=1e-6)


def test_templates_beyond_the_band_are_nan_in_traces(prepared):
    whole, _ = prepared
    found = jfstat.noise_energy(whole)
    far = jax.jit(lambda f: jfstat.log_likelihood(whole, jfstat.Doppler(1.7, 0.4, [f], START), AMPLITUDE, energy=found))
    assert np.isnan(float(far(90.0)))


def test_mistakes_are_said(prepared):
    whole, segments = prepared
    found = jfstat.noise_energy(whole)
    assert "noise power" in repr(found)
    with pytest.raises(ValueError, match=r"energy has shape \(2,\), but \(4, 2\) is wanted"):
        jfstat.log_likelihood(segments, POINT, AMPLITUDE, energy=found)
    with pytest.raises(ValueError, match=r"energy is of L1, H1, and data of H1, L1: make it by jfstat\.noise_energy"):
        other = jfstat.NoiseEnergy(found.energy, found.samples, ("L1", "H1"))
        jfstat.log_likelihood(whole, POINT, AMPLITUDE, energy=other)
    with pytest.raises(TypeError, match=r"energy must be a jfstat\.NoiseEnergy or None"):
        jfstat.log_likelihood(whole, POINT, AMPLITUDE, energy="marginalised")
    with pytest.raises(TypeError, match=r"data must be FstatData from jfstat\.prepare, not NarrowData"):
        jfstat.noise_energy(jfstat.narrow(whole, POINT))
