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
from jfstat.sfts.container import SFTSeries
from jfstat.signal.values import with_fields

START = 1_167_458_304
DOPPLER = dict(alpha=2.0, delta=-0.7, fkdot=[50.02, -3e-9, 1e-17], reftime=START - 5000)
AMPLITUDE = jfstat.Amplitude(2e-24, -0.4, 0.3, 1.0)


def received(doppler, amplitude, epoch, t):
    """Phase at L1, cycles, at times in s after an epoch, and the strain's factors of its cosine and sine."""
    tables = load_ephemeris("DE405", epoch - 20000, epoch + 20000, epoch)
    state = detector_trajectory(get_detector("L1"), tables, -1000.0, t[-1] + 1000.0)(t)
    tau = t + np.asarray(ssb_delay(state, t, Direction(unit_vector(doppler.alpha, doppler.delta), None, 0.0)))
    orbit = doppler.orbit
    if orbit is not None:
        tau = np.asarray(emission_time(with_fields(orbit, tp=orbit.tp - epoch), tau))
    since = tau + float(epoch - DOPPLER["reftime"])
    f, f1, f2 = np.asarray(doppler.fkdot)
    cycles = np.mod(f * since, 1) + f1 * since**2 / 2 + f2 * since**3 / 6
    alpha, delta = float(doppler.alpha), float(doppler.delta)
    a, b = patterns_by_definition(get_detector("L1").response, np.asarray(state.sidereal), alpha, delta)
    a1, a2, a3, a4 = np.asarray(amplitude.canonical)
    return cycles, (a1 * a + a2 * b, a3 * a + a4 * b)


def fourier_integrals(doppler, amplitude, epoch, tsft, frequencies):
    """The signal's part at positive frequencies, integrated by Gauss's rule with 16 times in each 1/8 s."""
    places, weights = np.polynomial.legendre.leggauss(16)
    n = 8 * tsft
    t = (np.arange(n)[:, None] / 8 + (places + 1) / 16).ravel()
    cycles, (cos, sin) = received(doppler, amplitude, epoch, t)
    wave = 0.5 * (cos - 1j * sin) * np.exp(2j * np.pi * cycles) * np.tile(weights / 16, n)
    return np.array([np.sum(wave * np.exp(-2j * np.pi * np.mod(f * t, 1))) for f in frequencies])


ORBITS = {
    "isolated": None,
    "wide": jfstat.Orbit(20.0, 8e5, START + 30, 0.3, 0.0),
    "eccentric": jfstat.Orbit(0.4, 9000.0, START + 50.5, 0.4, 2.0),
    "close": jfstat.Orbit(0.05, 6000.0, START + 30, 0.0, 0.0),
}


@pytest.mark.parametrize("orbit", ORBITS)
@pytest.mark.parametrize("tsft", [300, 1800])
def test_bins_far_from_a_signal_are_its_fourier_integrals_too(orbit, tsft):
    """Each bin to 2e-4 of itself, near the signal and some Hz away, where it is 1e-4 of the loudest."""
    rng = np.random.default_rng([tsft, *orbit.encode()])
    f = rng.uniform(30, 1900)
    sky = rng.uniform(0, 2 * np.pi), np.arcsin(rng.uniform(-1, 1))
    doppler = jfstat.Doppler(*sky, [f, -3e-9, 1e-17], DOPPLER["reftime"], ORBITS[orbit])
    amplitude = jfstat.Amplitude(2e-24, *rng.uniform(-1, 1, 3))
    low = f - rng.uniform(1.5, 3)
    sfts = jfstat.simulate_sfts(
        "L1", START, 3 * tsft, low, low + 5, tsft=tsft, sqrt_sx=None, signals=[(doppler, amplitude)]
    )
    powers = np.abs(sfts["L1"].data[-1])
    near = np.argmax(powers) + np.arange(-150, 150, 10)
    chosen = np.unique(np.concatenate([near, np.linspace(0, sfts.n_bins - 1, 40).astype(int)]))
    expected = fourier_integrals(doppler, amplitude, START + 2 * tsft, tsft, sfts.frequencies[chosen])
    np.testing.assert_array_less(np.abs(sfts["L1"].data[-1][chosen] - expected), 2e-4 * np.abs(expected))


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
    t = np.arange(tsft * rate) / rate
    cycles, (plus_cos, plus_sin) = received(doppler, AMPLITUDE, START + 7000, t)
    strain = plus_cos * np.cos(2 * np.pi * cycles) + plus_sin * np.sin(2 * np.pi * cycles)
    x = np.linspace(0, np.pi, len(t))
    if window == "hann":
        strain = strain * np.sin(x) ** 2 / np.sqrt(3 / 8)
    elif window.startswith("tukey"):
        taper = np.where(x < np.pi / 4, np.sin(2 * x) ** 2, np.where(x > 3 * np.pi / 4, np.sin(2 * x) ** 2, 1.0))
        strain = strain * taper / np.sqrt(np.mean(taper**2))
    bins = np.fft.rfft(strain)[49 * tsft : 51 * tsft] / rate
    error = np.linalg.norm(sfts["L1"].data[0] - bins) / np.linalg.norm(bins)
    # what is left is the sum's own: it counts the first sample whole and the end of the SFT not at all
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


@pytest.mark.parametrize("window", [("rect", START - 4000, 3999), ("rect", START + 7200, 60), ("exp", START - 90, 30)])
def test_a_signal_whose_window_is_beyond_the_data_is_refused(window):
    always = jfstat.Doppler(1.0, 0.5, [50.5], START), AMPLITUDE
    signals = [always, (*always, jfstat.TransientWindow(*window))]
    with pytest.raises(ValueError, match=r"^signals\[1\]: the window, from GPS .* holds no part of the SFTs"):
        jfstat.simulate_sfts("H1", START, 7200, fmin=50, fmax=51, signals=signals)
    tapered = jfstat.TransientWindow("rect", START - 4000, 3999, taper=600)  # falls during the data
    quiet = jfstat.simulate_sfts("H1", START, 7200, fmin=50, fmax=51, sqrt_sx=None)
    assert jfstat.inject(quiet, [(*always, tapered)])["H1"].data[0].any()


@pytest.mark.parametrize("f", [999.969, 999.999, 999.949, 999.02, 999.001])
@pytest.mark.parametrize("alpha", [0.2, 3.3])
def test_signals_may_leave_the_band_at_the_detector(f, alpha):
    """Their frequency at the source is within the band, and the Earth moves it by up to 1e-4."""
    signal = jfstat.Doppler(alpha, -0.2, [f], START), AMPLITUDE
    given = dict(start=START, duration=3600, sqrt_sx=None, signals=[signal])
    narrow = jfstat.simulate_sfts("H1", fmin=999.0, fmax=1000.0, **given)
    wide = jfstat.simulate_sfts("H1", fmin=998.0, fmax=1001.0, **given)
    np.testing.assert_allclose(narrow["H1"].data, wide["H1"].data[:, 1800:3600], rtol=1e-3)


def test_a_detector_may_have_no_sfts():
    sfts = jfstat.simulate_sfts("H1", START, 3600, 49.5, 50.5, sqrt_sx=None)
    none = jfstat.simulate_sfts("L1", START, 3600, 49.5, 50.5, sqrt_sx=None)["L1"]
    empty = SFTSeries.of(none.site, none.gps[:0], none.gps_ns[:0], none.data[:0], none.window)
    both = jfstat.SFTs((sfts["H1"], empty), sfts.tsft, sfts.first_bin)
    found = jfstat.inject(both, [(jfstat.Doppler(2.0, -0.7, [50.0], START), AMPLITUDE)])
    assert len(found["L1"]) == 0 and np.any(found["H1"].data)


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


def test_noise_of_artefacts_is_another_one_in_each_band_and_beside_other_noise():
    line, times = jfstat.BroadLine(50.1, 10.0, 4e-24), dict(start=START, duration=7200)
    empty = [jfstat.simulate_sfts("H1", **times, fmin=f, fmax=f + 0.2, sqrt_sx=None) for f in (50.0, 50.1)]
    noise = jfstat.simulate_sfts("H1", **times, fmin=50.0, fmax=50.2)
    first, beside = (jfstat.inject_artefacts(sfts, [line]) for sfts in empty)
    for a, b in ((first, beside), (first, noise)):
        a, b = (x["H1"].data.ravel() for x in (a, b))
        assert abs(np.vdot(a, b)) < 4 * np.linalg.norm(a) * np.linalg.norm(b) / np.sqrt(len(a))


def test_times_that_contradict_each_other_are_refused():
    band = dict(fmin=50, fmax=50.2)
    within = jfstat.simulate_sfts("H1", START, 7200, timestamps={"H1": [START, START + 5400]}, **band)
    assert list(within["H1"].gps) == [START, START + 5400]
    for wrong in ({"H1": [START - 1]}, [START + 5401], {"H1": [START, START + 7200]}):
        with pytest.raises(ValueError, match="H1 have SFTs that are not between start and start"):
            jfstat.simulate_sfts("H1", START, 7200, timestamps=wrong, **band)
    assert len(jfstat.simulate_sfts("H1", duration=1800, timestamps=[[START, 500_000_000]], **band)) == 1
    with pytest.raises(ValueError, match="H1 have SFTs that are not between start and start"):
        jfstat.simulate_sfts("H1", duration=3600, timestamps=[START, START + 1801], **band)


def test_bins_that_are_not_finite_are_not_blamed_on_signals():
    sfts = jfstat.simulate_sfts("L1", START, 7200, 49.9, 50.1)
    sfts["L1"].data[2, 7] = np.nan
    for add in (
        lambda: jfstat.inject(sfts, [(jfstat.Doppler(**DOPPLER), AMPLITUDE)]),
        lambda: jfstat.inject_artefacts(sfts, [jfstat.Artefact(50.0, 1e-24)]),
    ):
        with pytest.raises(ValueError, match=f"the SFT of L1 at GPS {START + 3600} has bins that are not finite"):
            add()
