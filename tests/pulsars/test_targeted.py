"""Targeted searches: narrow data straight from SFTs, and tables of pulsars, against full data and injections."""

import subprocess
import sys

import jax
import numpy as np
import pytest
from astropy import units as u
from cases import random_timestamps
from scipy.special import spherical_jn

import jfstat
from jfstat.data.moments import Pooled, integrals, moments
from jfstat.data.narrowsfts import narrow_sfts
from jfstat.data.noise import off_source_power, off_source_psd, running_median_psd, side_bins
from jfstat.data.whitening import Whitened, whitened
from jfstat.pulsars.entries import named
from jfstat.pulsars.pulsar import pulsar_of
from jfstat.sfts.parts import InMemory

START = 1167458304
DAY = 86400


def mjd(gps):
    """MJD in TDB of a GPS time in the SSB, as a word."""
    from decimal import Decimal

    return str(44244 + (Decimal(gps) + Decimal("51.184")) / 86400)


def signal(seed, f0, days=2, orbit=None, window="rectangular", noise=None, detectors=("H1", "L1")):
    rng = np.random.default_rng(seed)
    point = jfstat.Doppler(
        rng.uniform(0, 6.28), np.arcsin(rng.uniform(-1, 1)), [f0, -3e-10], START + int(rng.integers(-9e5, 9e5)), orbit
    )
    amplitude = jfstat.Amplitude(3e-25, rng.uniform(-1, 1), rng.uniform(0, 1), rng.uniform(0, 6))
    reach = 1.15 + 1.1e-4 * f0 + (0 if orbit is None else 2 * np.pi * float(orbit.asini / orbit.period) * f0 * 1.5)
    sfts = jfstat.simulate_sfts(
        list(detectors),
        timestamps=random_timestamps(rng, detectors, START, days, 0.7),
        fmin=f0 - reach,
        fmax=f0 + reach,
        sqrt_sx=noise,
        signals=[(point, amplitude)],
        window=window,
        seed=seed,
    )
    return sfts, point, amplitude


def narrowed(sfts, point, sqrt_sx=None):
    observation = jfstat.observation(sfts, sqrt_sx=4e-24)
    return narrow_sfts(InMemory(sfts), [point], observation, jfstat.Noise(sqrt_sx), 1.0)[0]


ORBITS = {
    "isolated": None,
    "wide": jfstat.Orbit(30.0, 5e6, START + 5e5, 0.6, 2.0),
    "Sco X-1": jfstat.Orbit(1.44, 68023.7, START, 0.0, 0.0),
    "tight": jfstat.Orbit(0.1, 9000.0, START, 0.1, 1.0),
}


@pytest.mark.ci
@pytest.mark.parametrize(
    ("f0", "name"), [(20.0, "isolated"), (437.0, "Sco X-1"), (1100.0, "wide"), (1900.0, "isolated"), (300.0, "tight")]
)
def test_all_of_a_signal_is_recovered(f0, name):
    sfts, point, amplitude = signal(int(f0), f0, orbit=ORBITS[name])
    near = narrowed(sfts, point, 4e-24)
    expected = float(jfstat.predict_twoF(near, point, amplitude)) - 4
    # what leaks beyond the guard of 1 Hz is lost, and no more
    assert 0.9997 < float(jfstat.twoF(near, point)) / expected < 1.00005
    estimate = jfstat.estimate_amplitude(near, point)
    # h0 is nearly degenerate with cosi, and so the loss is not that of rho: compare the signal's amplitudes
    np.testing.assert_allclose(estimate.canonical, amplitude.canonical, rtol=0, atol=3e-4 * float(amplitude.h0))


@pytest.mark.parametrize("alpha", [0.3, 2.1, 4.4])
def test_an_SFT_with_a_leap_second(alpha):
    # in LALSuite's model the Earth's rotation jumps back by a second then
    leap = 1167264017
    point = jfstat.Doppler(alpha, 0.1, [1900.0, -1e-9], leap)
    amplitude = jfstat.Amplitude(3e-25, 0.4, 0.3, 1.0)
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"],
        start=leap - 2700,
        duration=9000,
        fmin=1898.6,
        fmax=1901.4,
        sqrt_sx=None,
        signals=[(point, amplitude)],
    )
    near = narrowed(sfts, point, 4e-24)
    expected = float(jfstat.predict_twoF(near, point, amplitude)) - 4
    assert 0.9997 < float(jfstat.twoF(near, point)) / expected < 1.00005


@pytest.mark.ci
@pytest.mark.parametrize(
    ("f0", "name", "sqrt_sx"), [(100.0, "isolated", 4e-24), (437.0, "tight", 4e-24), (437.0, "Sco X-1", None)]
)
def test_it_is_2F_of_the_prepared_data_in_noise(f0, name, sqrt_sx):
    orbit = ORBITS[name]
    sfts, point, _ = signal(5, f0, days=2, orbit=orbit, noise=4e-24)
    data = jfstat.prepare(sfts, f0 - 1e-3, f0 + 1e-3, START, sqrt_sx, orbit=orbit)
    near, rng = narrowed(sfts, point, sqrt_sx), np.random.default_rng(0)
    for _ in range(4):
        beside = jfstat.Doppler(
            point.alpha + rng.normal(0, 1e-3),
            point.delta + rng.normal(0, 1e-3),
            np.asarray(point.fkdot) + np.r_[rng.normal(0, 2 / data.tspan), 0],
            point.reftime,
            orbit,
        )
        full, own = (jfstat.fstat(x, beside) for x in (data, near))
        scale = np.sqrt(float(full.twoF) + 4)
        # bins at the edges of the guard differ; an estimated floor is that of other windows
        assert abs(float(own.twoF - full.twoF)) < (0.03 if sqrt_sx else 0.15) * scale
        np.testing.assert_allclose(own.A, full.A, rtol=1e-12 if sqrt_sx else 0.02)


@pytest.mark.parametrize(("n_moments", "reach"), [(8, 5), (24, 1803), (104, 60), (320, 400)])
def test_integrals_of_legendre_polynomials(n_moments, reach):
    n, order = np.arange(-reach, reach + 1)[:, None], np.arange(n_moments)
    expected = spherical_jn(order, np.pi * np.abs(n)) * (-1.0) ** n * np.where(n < 0, (-1.0) ** order, 1.0)
    np.testing.assert_allclose(integrals(n_moments, reach), expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("reach", [3, 21, 40, 62, 63, 64, 100, 127, 128, 300])
def test_moments_are_sums_over_the_bins_within_reach(reach):
    """Wherever the centre is in its cell, and although there are more bins than are wanted."""
    rng = np.random.default_rng(reach)
    real, imag = rng.normal(size=(2, 1, 700)).astype(np.float32)
    own = Pooled.of(Whitened(real, imag, np.ones((1, 1)), 0, 0, np.zeros(1, int), np.ones((1, 1)), 1.0))
    for centre in range(310, 376):
        wanted = (real + 1j * imag)[:, centre - reach : centre + reach + 1] @ integrals(16, reach)
        np.testing.assert_allclose(moments(own, np.array([centre]), 16, reach), wanted, rtol=0, atol=2e-6)


def test_small_guards_lose_little():
    """It was up to a quarter of 2F where the noise floor is estimated, whose windows need more bins than the guard."""
    sfts, point, _ = signal(5, 100.02, noise=4e-24)
    pulsar = pulsar_of(solution("J", point), "x")
    wide, *narrow = (
        jfstat.search_pulsars(sfts, pulsar, guard=guard, progress=False)[0] for guard in (0.5, 0.01, 0.002, 0.0)
    )
    for row in narrow:
        assert abs(row["twoF"] / wide["twoF"] - 1) < 0.06
        assert abs(row["h0"] / wide["h0"] - 1) < 0.04


@pytest.mark.parametrize(("n", "n_bins", "wide"), [(1, 1000, 101), (7, 333, 101), (3, 101, 101), (2, 1200, 1001)])
def test_the_running_median_is_that_of_prepare(n, n_bins, wide):
    rng = np.random.default_rng(n)
    tilted = 1e-23 * np.linspace(1, 3, n_bins)
    bins = (tilted * (rng.normal(size=(n, n_bins)) + 1j * rng.normal(size=(n, n_bins)))).astype(np.complex64)
    at = np.unique(rng.integers(500, 500 + n_bins, 20))
    own = whitened(bins, 500, 1800.0, None, at, "H1", np.arange(n), jfstat.Noise(median_bins=wide))
    expected = [running_median_psd(sft, 1800.0, wide)[at - 500] for sft in bins]
    np.testing.assert_allclose(own.estimates, expected, rtol=1e-5)
    # whitened bins have unit power in noise
    assert np.mean(own.real**2 + own.imag**2) == pytest.approx(1, abs=5 / np.sqrt(n * n_bins) + 0.1)


@pytest.mark.parametrize(
    ("n", "n_bins", "left_out", "wide"), [(1, 1000, 10, 101), (7, 333, 0, 101), (3, 123, 10, 101), (2, 900, 5, 501)]
)
def test_floors_from_off_source_bins_are_those_of_prepare(n, n_bins, left_out, wide):
    rng = np.random.default_rng(n)
    bins = (1e-23 * rng.normal(size=(n, n_bins, 2)) @ [1, 1j]).astype(np.complex64)
    at = np.arange(500, 500 + n_bins)
    own = whitened(bins, 500, 1800.0, None, at, "H1", np.arange(n), jfstat.Noise(None, wide, left_out))
    expected = np.array([off_source_psd(sft, 1800.0, wide, left_out) for sft in bins])
    np.testing.assert_allclose(own.estimates, expected, rtol=1e-5)
    each = rng.integers(0, n_bins, n)  # a bin of each SFT, with the columns far from it
    psd, relative = own.floors(each + 500.0, at[::7])
    np.testing.assert_allclose(psd, np.mean(expected[:, ::7], axis=1), rtol=1e-5)
    x = np.hypot(own.real, own.imag)[np.arange(n), each] * relative
    power = 2 * np.abs(bins[np.arange(n), each].astype(complex)) ** 2 / 1800 / expected[np.arange(n), each]
    np.testing.assert_allclose(x**2, power / off_source_power(side_bins(wide)), rtol=1e-4)


@pytest.mark.parametrize("side", [-1, 1])
def test_near_the_ends_of_the_SFTs_the_nearest_full_window_gives_the_floor(side):
    edges = (60.0, 61.5) if side < 0 else (58.5, 60.0)
    sfts = jfstat.simulate_sfts(["H1"], START, 12 * 3600, *edges, sqrt_sx=4e-24, seed=1)
    point = jfstat.Doppler(1.0, 0.3, [60.0 - side * 0.05], START)
    noise, guard = jfstat.Noise(median_bins=1001), 0.03  # fewer bins within the guard than in the window
    near = narrow_sfts(InMemory(sfts), [point], jfstat.observation(sfts, sqrt_sx=noise), noise, guard)[0]
    # the floor is that of the last full window of each SFT
    bins = sfts["H1"].data[:, :1001] if side < 0 else sfts["H1"].data[:, -1001:]
    expected = [running_median_psd(sft, 1800.0, 1001)[0] for sft in bins]
    weights = np.asarray(near.observation.weight)[0, : len(bins)]
    np.testing.assert_allclose(weights, np.mean(1 / np.array(expected)) ** -1 / expected, rtol=1e-5)


@pytest.mark.ci
def test_many_rows_many_templates_and_windows_in_one_pass():
    sfts, point, amplitude = signal(3, 60.0, days=16, window="tukey:0.01")
    assert len(sfts["H1"]) > 384
    far = jfstat.Doppler(1.0, 0.3, [60.3, -1e-10], START)
    observation = jfstat.observation(sfts, sqrt_sx=4e-24)
    one, two = narrow_sfts(InMemory(sfts), [far, point], observation, jfstat.Noise(4e-24), 1.0)
    alone = narrowed(sfts, point, 4e-24)
    np.testing.assert_allclose(two.samples, alone.samples, rtol=0, atol=1e-6 * np.abs(alone.samples).max())
    assert float(jfstat.twoF(two, point)) > 0.99 * (float(jfstat.predict_twoF(alone, point, amplitude)) - 4)
    assert float(jfstat.twoF(one, far)) < 5


def solution(name, point, motion=(0.0, 0.0), **entries):
    """The timing solution of a signal."""
    from astropy.coordinates import Angle

    f = np.asarray(point.fkdot) / 2
    entries = {
        "NAME": name,
        "RAJ": Angle(float(point.alpha), unit="rad").to_string(unit="hourangle", sep=":", precision=11),
        "DECJ": Angle(float(point.delta), unit="rad").to_string(unit="deg", sep=":", precision=10),
        "F0": repr(float(f[0])),
        "F1": repr(float(f[1])),
        "PEPOCH": mjd(int(point.reftime)),
        "EPHEM": "DE405",
    } | entries
    if point.orbit is not None:
        o = point.orbit
        entries |= dict(BINARY="BT", A1=repr(float(o.asini)), PB=repr(float(o.period) / DAY), T0=mjd(float(o.tp)))
        entries |= dict(ECC=repr(float(o.ecc)), OM=repr(float(np.degrees(o.argp))))
    return named(entries)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """SFT files with the signals of an isolated pulsar and of one in a binary, and their .par files."""
    folder = tmp_path_factory.mktemp("pulsars")
    first = jfstat.Doppler(1.2, 0.4, [100.02, -1e-11], START - 5e6)
    second = jfstat.Doppler(4.0, -0.9, [100.31, 0.0], START + 1e6, ORBITS["Sco X-1"])
    amplitudes = [jfstat.Amplitude(1.5e-25, 0.3, 0.2, 1.0), jfstat.Amplitude(2e-25, -0.7, 0.5, 4.0)]
    signals = list(zip((first, second), amplitudes, strict=True))
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], start=START, duration=3 * DAY, fmin=98.9, fmax=101.4, sqrt_sx=4e-24, signals=signals, seed=1
    )
    jfstat.write_sfts(sfts, folder)
    for name, (point, _) in zip(("J0001", "J0002"), signals, strict=True):
        lines = [f"{key} {word}" for key, word in solution(name, point).items()]
        (folder / f"{name}.par").write_text("\n".join(lines))
    return folder, sfts, signals


@pytest.mark.ci
def test_a_table_of_pulsars_has_every_column_at_its_own_template(two):
    folder, sfts, signals = two
    pulsars = jfstat.read_pulsars(folder)
    found = jfstat.search_pulsars(str(folder / "*.sft"), pulsars, sqrt_sx=4e-24, progress=False)
    assert list(found["name"]) == ["J0001", "J0002"]
    data = jfstat.prepare(sfts, 100.0, 100.4, sqrt_sx=4e-24, orbit=ORBITS["Sco X-1"])
    for row, (point, amplitude) in zip(found, signals, strict=True):
        orbit = None
        if row["asini"] > 0:
            names = ("asini", "period", "tp", "ecc", "argp")
            orbit = jfstat.Orbit(*(u.Quantity(row[name]).value for name in names))
        at = jfstat.Doppler(row["alpha"], row["delta"], [row["freq"], row["f1dot"]], found.meta["reftime"], orbit)
        full = jfstat.fstat(data, at)
        assert row["twoF"] == pytest.approx(float(full.twoF), rel=2e-3)
        own = [float(row["twoF_H1"]), float(row["twoF_L1"])]
        np.testing.assert_allclose(own, full.twoF_per_detector, rtol=5e-3)
        estimate = jfstat.estimate_amplitude(data, at)
        for name in ("h0", "cosi", "psi"):
            expected = float(getattr(estimate.amplitude, name))
            assert u.Quantity(row[name]).value == pytest.approx(expected, rel=0.02, abs=0.02 if name != "h0" else 0), (
                name
            )
        assert abs(row["h0"] - float(amplitude.h0)) < 5 * row["h0_error"]
        expected = float(jfstat.predict_twoF(data, point, amplitude))
        assert abs(row["twoF"] - expected) < 5 * np.sqrt(4 * expected)
        assert row["false_alarm"] < 1e-9
        assert row["phase_error"] < 1e-5 * u.cycle
        assert (row["start"], row["end"]) == (START * u.s, (START + 3 * DAY) * u.s)
    assert found["log10BSGL"].min() > 2
    assert found["freq"].unit == u.Hz
    # the same from memory, and the rows belong to their pulsars whatever the order
    again = jfstat.search_pulsars(sfts, pulsars[::-1], sqrt_sx=4e-24, progress=False)
    np.testing.assert_allclose(again["twoF"][::-1], found["twoF"], rtol=1e-6)
    # the table is one of candidates
    better = jfstat.refine(data, found, progress=False)
    np.testing.assert_array_equal(better["alpha"].value, found["alpha"].value)
    assert "false_alarm" not in better.colnames
    assert np.all(np.asarray(better["twoF"]) > np.asarray(found["twoF"]) - 0.5)


@pytest.mark.ci
def test_bands_around_pulsars(two):
    folder, sfts, _ = two
    pulsars = jfstat.read_pulsars(folder)
    found = jfstat.search_pulsars(sfts, pulsars, jfstat.PulsarBand(2e-4, 1e-11, top=2), sqrt_sx=4e-24, progress=False)
    assert list(found["name"]) == ["J0001", "J0001", "J0002", "J0002"]
    single = jfstat.search_pulsars(sfts, pulsars, sqrt_sx=4e-24, progress=False)
    for i in range(2):
        assert found["twoF"][2 * i] > 0.85 * single["twoF"][i]
        assert abs(found["freq"][2 * i] - single["freq"][i]) < 3e-6 * u.Hz
    assert found["n_twoF"][0] > 90
    assert found["asini"][0] == 0
    assert single.colnames == found.colnames
    assert found["false_alarm"][0] == pytest.approx(0, abs=1e-9)


@pytest.mark.ci
def test_a_glitch_makes_two_rows():
    at = START + 2 * DAY + 700
    before = jfstat.Doppler(2.0, 0.5, [80.0, -1e-11], START)
    after = jfstat.Doppler(2.0, 0.5, [80.0 + 4e-5, -1e-11 - 2e-13], START)
    amplitude = jfstat.Amplitude(2e-25, 0.2, 0.3, 0.1)
    common = dict(fmin=78.9, fmax=81.1, sqrt_sx=2e-24)
    parts = [
        jfstat.simulate_sfts(["H1"], start=START, duration=2 * DAY, signals=[(before, amplitude)], seed=1, **common),
        jfstat.simulate_sfts(
            ["H1"], start=START + 2 * DAY + 3600, duration=2 * DAY, signals=[(after, amplitude)], seed=2, **common
        ),
    ]
    sfts = jfstat.join_sfts(parts)
    since = START - at
    # about the glitch's epoch the step of the frequency is that about START plus the drift since
    steps = dict(GLEP_1=mjd(at), GLF0_1=repr(0.5 * (4e-5 - 2e-13 * -since)), GLF1_1="-1e-13")
    pulsar = pulsar_of(solution("J", before, **steps), "x")
    found = jfstat.search_pulsars(sfts, pulsar, sqrt_sx=2e-24, progress=False)
    assert list(found["name"]) == ["J", "J"]
    assert found["end"][0] <= at * u.s <= found["start"][1]
    for row, part, point in zip(found, parts, (before, after), strict=True):
        expected = float(jfstat.predict_twoF(jfstat.observation(part, sqrt_sx=2e-24), point, amplitude))
        assert abs(row["twoF"] - expected) < 5 * np.sqrt(4 * expected)
        assert row["twoF"] > 40
    assert found["freq"][1].value == pytest.approx(80.0 + 4e-5, abs=1e-9)
    with pytest.raises(ValueError, match=r"^pulsar J: J has a glitch at GPS"):
        jfstat.search_pulsars(sfts, pulsar, jfstat.PulsarBand(1e-4), progress=False)


@pytest.mark.ci
def test_detectors_that_miss_a_stretch_have_no_value_there():
    at = START + DAY
    point = jfstat.Doppler(2.0, 0.5, [80.0, -1e-11], START)
    amplitude = jfstat.Amplitude(3e-25, 0.2, 0.3, 0.1)
    times = {"H1": START + 1800 * np.arange(40), "L1": START + DAY + 1800 * np.arange(1, 40)}
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], timestamps=times, fmin=78.9, fmax=81.1, sqrt_sx=[4e-24, 2e-24], signals=[(point, amplitude)]
    )
    pulsar = pulsar_of(solution("J", point, GLEP_1=mjd(at), GLF0_1="0"), "x")
    found = jfstat.search_pulsars(sfts, pulsar, sqrt_sx={"H1": 4e-24, "L1": 2e-24}, progress=False)
    assert np.isnan(found["twoF_L1"]).tolist() == np.isnan(found["twoF_H1"][::-1]).tolist() == [True, False]
    for row, name in zip(found, ("H1", "L1"), strict=True):
        alone = jfstat.search_pulsars(
            sfts.select(detectors=name), pulsar, sqrt_sx=4e-24 if name == "H1" else 2e-24, progress=False
        )
        assert row["twoF"] == pytest.approx(row[f"twoF_{name}"]) == pytest.approx(alone["twoF"][0])


def test_faint_noise_short_sfts_and_small_guards():
    point = jfstat.Doppler(2.0, 0.5, [80.0, 0.0], START)
    for tsft, floor, guard in ((60, 4e-24, 1.0), (1800, 3e-25, 1.0), (1800, 4e-24, 0.02)):
        sfts = jfstat.simulate_sfts(
            "H1", START, 20 * tsft, fmin=78.5, fmax=81.5, tsft=tsft, sqrt_sx=floor, signals=[], seed=4
        )
        pulsar = pulsar_of(solution("J", point), "x")
        found = jfstat.search_pulsars(sfts, pulsar, guard=guard, progress=False)
        assert 0 < found["twoF"][0] < 30
        assert 0.3 * floor < found["h0_error"][0] * np.sqrt(20 * tsft) < 300 * floor


def test_pulsars_out_of_the_band_are_left_out_and_named(two):
    folder, sfts, _ = two
    pulsars = jfstat.read_pulsars(folder)
    other = pulsar_of(solution("J9", jfstat.Doppler(1.0, 0.0, [300.0, 0.0], START)), "x")
    with pytest.warns(UserWarning, match=r"^of J9 \(300 Hz\) the SFTs' band of 98\.9 to .* left out"):
        found = jfstat.search_pulsars(sfts, [*pulsars, other], sqrt_sx=4e-24, progress=False)
    assert len(found) == 2
    with pytest.raises(ValueError, match=r"^of J9 \(300 Hz\) the SFTs' band .*: name other files"):
        jfstat.search_pulsars(sfts, other, progress=False)


def test_a_pulsar_too_fast_for_the_sfts_is_named(two):
    """Of two in one group, the second: its companion passes within minutes."""
    folder, sfts, _ = two
    pulsar = jfstat.read_par(folder / "J0001.par")
    orbit = jfstat.Orbit(5.0, 1e5, START, 0.97, 0.3)
    fast = pulsar_of(solution("J9", jfstat.Doppler(1.0, 0.0, [100.05, 0.0], START, orbit)), "x")
    with pytest.raises(ValueError, match=r"^pulsar J9: point's frequency changes by .* make shorter SFTs"):
        jfstat.search_pulsars(sfts, [pulsar, fast], sqrt_sx=4e-24, progress=False)


def test_bad_arguments(two):
    folder, sfts, _ = two
    pulsars = jfstat.read_pulsars(folder)
    with pytest.raises(TypeError, match=r"^pulsars must be Pulsars"):
        jfstat.search_pulsars(sfts, ["J0001.par"])
    with pytest.raises(ValueError, match=r"^pulsars is empty"):
        jfstat.search_pulsars(sfts, [])
    with pytest.raises(TypeError, match=r"^sfts must be SFTs or the names"):
        jfstat.search_pulsars(3, pulsars)
    with pytest.raises(ValueError, match=r"^guard must not be negative"):
        jfstat.search_pulsars(sfts, pulsars, guard=-1)
    with pytest.raises(ValueError, match=r"^top must be"):
        jfstat.PulsarBand(1e-4, top=0)
    with pytest.raises(ValueError, match=r"^freq and f1dot must be finite"):
        jfstat.PulsarBand(-1e-4)
    with pytest.raises(ValueError, match=r"^top=2 needs a band"):
        jfstat.PulsarBand(top=2)
    with pytest.raises(TypeError, match=r"^band must be a jfstat.PulsarBand"):
        jfstat.search_pulsars(sfts, pulsars, 1e-4)
    with pytest.raises(ValueError, match="sqrt_sx has median_bins=50, which must be odd for single templates: give 51"):
        jfstat.search_pulsars(sfts, pulsars, sqrt_sx=jfstat.Noise(median_bins=50), progress=False)
    broken = jax.tree.map(lambda x: x, sfts["H1"].data.copy())
    broken[5, 1800] = np.nan
    series = (jfstat.sfts.SFTSeries("H1", sfts["H1"].gps, sfts["H1"].gps_ns, broken),)
    with pytest.raises(ValueError, match=r"the SFT of H1 at GPS \d+ has bins that are not finite"):
        jfstat.search_pulsars(jfstat.SFTs(series, 1800.0, sfts.first_bin), pulsars, progress=False)


@pytest.mark.ci
def test_the_command(two, tmp_path):
    folder, _, _ = two
    out = tmp_path / "out.ecsv"
    command = [
        sys.executable,
        "-m",
        "jfstat",
        "search-pulsars",
        "--DataFiles",
        f"{folder}/*.sft",
        "--par",
        f"{folder}/*.par",
    ]
    done = subprocess.run([*command, "--outputFstat", out], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    table = jfstat.read_candidates(out)
    assert list(table["name"]) == ["J0001", "J0002"]
    assert "J0002" in done.stdout
    assert f"wrote 2 pulsars to {out}" in done.stdout
    for wrong, message in (
        (["--Freq", "3"], "unknown option --Freq: did you mean --FreqBand?"),
        (["--Alpha", "3"], "unknown option --Alpha: it is none of this command's"),
        (["--outputFstat", "x.txt"], "search-pulsars needs --outputFstat with .ecsv or .hdf5"),
        (["--f1dotBand", "1e-10"], "--f1dotBand needs --FreqBand"),
    ):
        done = subprocess.run([*command, *wrong], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert message in done.stderr
