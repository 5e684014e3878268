"""Simulated SFTs against sums written out, and injections against simulations."""

import numpy as np
import pytest
from compilations import counted_compilations

import jfstat
from jfstat.geometry.barycenter import Direction, ssb_delay
from jfstat.geometry.detectors import get_detector
from jfstat.geometry.ephemeris import load_ephemeris
from jfstat.geometry.orbit import emission_time
from jfstat.geometry.trajectory import detector_trajectory
from jfstat.maths.vectors import unit_vector
from jfstat.reference import patterns_by_definition
from jfstat.signal.values import with_fields

START = 1_167_458_304
DOPPLER = dict(alpha=2.0, delta=-0.7, fkdot=[50.02, -3e-9, 1e-17], reftime=START - 5000)
AMPLITUDE = jfstat.Amplitude(2e-24, -0.4, 0.3, 1.0)


@pytest.mark.ci
@pytest.mark.parametrize("orbit", [None, jfstat.Orbit(2.0, 9000.0, START + 50.5, 0.4, 2.0)], ids=["isolated", "binary"])
@pytest.mark.parametrize("window", ["rectangular", "hann", "tukey:0.5"])
def test_bins_equal_the_fourier_integral_of_the_strain(orbit, window):
    """The strain as a real series at 512 Hz, negative frequencies and all, summed against each bin's exponential."""
    doppler = jfstat.Doppler(**DOPPLER, orbit=orbit)
    tsft, rate = 600, 512
    sfts = jfstat.simulate_sfts(
        "L1",
        START + 7000,
        tsft,
        fmin=49.0,
        fmax=51.0,
        tsft=tsft,
        sqrt_sx=None,
        signals=[(doppler, AMPLITUDE)],
        window=window,
    )
    epoch = START + 7000
    tables = load_ephemeris("DE405", epoch - 20000, epoch + 20000, epoch)
    trajectory = detector_trajectory(get_detector("L1"), tables, -1000.0, 2000.0)
    t = np.arange(tsft * rate) / rate
    state = trajectory(t)
    tau = t + np.asarray(ssb_delay(state, t, Direction(unit_vector(doppler.alpha, doppler.delta), None, 0.0)))
    if orbit is not None:
        tau = np.asarray(emission_time(with_fields(orbit, tp=orbit.tp - epoch), tau))
    since = tau + epoch - doppler.reftime
    f, f1, f2 = DOPPLER["fkdot"]
    phase = f * since + f1 * since**2 / 2 + f2 * since**3 / 6
    cos, sin = np.cos(2 * np.pi * np.mod(phase, 1)), np.sin(2 * np.pi * np.mod(phase, 1))
    a, b = patterns_by_definition(get_detector("L1").response, np.asarray(state.sidereal), 2.0, -0.7)
    a1, a2, a3, a4 = np.asarray(AMPLITUDE.canonical)
    strain = a1 * a * cos + a2 * b * cos + a3 * a * sin + a4 * b * sin
    x = np.linspace(0, np.pi, len(t))
    if window == "hann":
        strain = strain * np.sin(x) ** 2 / np.sqrt(3 / 8)
    elif window.startswith("tukey"):
        taper = np.where(x < np.pi / 4, np.sin(2 * x) ** 2, np.where(x > 3 * np.pi / 4, np.sin(2 * x) ** 2, 1.0))
        strain = strain * taper / np.sqrt(np.mean(taper**2))
    bins = np.fft.rfft(strain)[49 * tsft : 51 * tsft] / rate
    error = np.linalg.norm(sfts["L1"].data[0] - bins) / np.linalg.norm(bins)
    # what is left is the leakage from negative frequencies, 1/(4 pi f tsft) of the signal, and the tails' 1 %
    assert error < 3e-4


def test_injected_equals_simulated_and_leaves_its_input_alone():
    signal = (jfstat.Doppler(**DOPPLER), AMPLITUDE)
    noise = jfstat.simulate_sfts(["H1", "V1"], START, 7200, fmin=49, fmax=51, seed=4)
    before = noise["H1"].data.copy()
    both = jfstat.simulate_sfts(["H1", "V1"], START, 7200, fmin=49, fmax=51, seed=4, signals=[signal])
    injected = jfstat.inject(noise, [signal])
    for name in ("H1", "V1"):
        np.testing.assert_array_equal(injected[name].data, both[name].data)
    np.testing.assert_array_equal(noise["H1"].data, before)
    assert not np.array_equal(injected["H1"].data, before)


@pytest.mark.parametrize("window", ["rectangular", "hann", "tukey:0.1"])
def test_noise_level_whatever_the_window(window):
    sfts = jfstat.simulate_sfts("H1", START, 40 * 1800, fmin=50, fmax=51, sqrt_sx=3e-23, window=window)
    power = np.mean(np.abs(sfts["H1"].data.astype(complex)) ** 2)
    np.testing.assert_allclose(power, 1800 * (3e-23) ** 2 / 2, rtol=0.03)


def test_noise_of_a_detector_does_not_depend_on_the_others_nor_repeat():
    both = jfstat.simulate_sfts(["L1", "H1"], START, 7200, fmin=50, fmax=50.1, seed=1)
    alone = jfstat.simulate_sfts("L1", START, 7200, fmin=50, fmax=50.1, seed=1)
    other = jfstat.simulate_sfts("L1", START, 7200, fmin=50, fmax=50.1, seed=2)
    assert both.detectors == ("H1", "L1")
    np.testing.assert_array_equal(both["L1"].data, alone["L1"].data)
    assert not np.array_equal(both["H1"].data, both["L1"].data)
    assert not np.array_equal(alone["L1"].data, other["L1"].data)


def test_band_and_times():
    stamps = {"H1": [START, START + 5000.25], "L1": [START + 10]}
    sfts = jfstat.simulate_sfts(["H1", "L1"], timestamps=stamps, fmin=50, fmax=50.5, sqrt_sx={"H1": 1e-23, "L1": 2e-23})
    assert sfts.first_bin == 90000
    assert sfts.n_bins == 900
    np.testing.assert_array_equal(sfts["H1"].gps, [START, START + 5000])
    np.testing.assert_array_equal(sfts["H1"].gps_ns, [0, 250_000_000])
    assert len(sfts) == 3
    assert sfts.end == START + 5000.25 + 1800


def test_noise_floors_belong_to_the_detectors_as_given():
    sfts = jfstat.simulate_sfts(["L1", "H1"], START, 7200, fmin=50, fmax=51, sqrt_sx=[1e-23, 1e-24])
    power = {s.detector: np.mean(np.abs(s.data.astype(complex)) ** 2) for s in sfts}
    np.testing.assert_allclose([power["L1"] / power["H1"]], [100], rtol=0.1)


def test_a_signal_out_of_band_during_the_data_is_refused_wherever_it_is_at_its_reference_time():
    drifting = jfstat.Doppler(1.0, 0.5, [50.5, -1e-6], START - 1_000_000)
    with pytest.raises(ValueError, match="during the data"):
        jfstat.simulate_sfts("H1", START, 7200, fmin=50, fmax=51, signals=[(drifting, AMPLITUDE)])
    arriving = jfstat.Doppler(1.0, 0.5, [51.5, -1e-6], START - 1_000_000)
    jfstat.simulate_sfts("H1", START, 7200, fmin=50, fmax=51, signals=[(arriving, AMPLITUDE)])


def test_nanoseconds_are_exact():
    stamps = np.array([[START, 123_456_789], [START + 1800, 123_456_789]])
    sfts = jfstat.simulate_sfts("H1", timestamps=stamps, fmin=50, fmax=50.1)
    np.testing.assert_array_equal(sfts["H1"].gps_ns, stamps[:, 1])


def test_signals_at_other_frequencies_are_not_compiled_again():
    def injected(f):
        sfts = jfstat.simulate_sfts("H1", START, 3600, fmin=f - 0.2, fmax=f + 0.2, tsft=1800, sqrt_sx=4e-24)
        jfstat.inject(sfts, [(jfstat.Doppler(2.0, -0.7, [f, -3e-9], START), AMPLITUDE)])

    injected(50.0)
    with counted_compilations() as compiled:
        injected(137.31)
    assert compiled == []
