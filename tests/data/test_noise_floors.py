"""Noise floors from off-source bins: what they depend on, and 2F of loud signals and of noise with them."""

import sys
from pathlib import Path

import numpy as np
import pytest

import jfstat
from jfstat.commandline import main
from jfstat.data.noise import off_source_power, off_source_psd, running_median_psd, side_bins

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import noise_floors

TSFT = 1800.0


def noise(n, seed=1):
    return np.random.default_rng(seed).standard_normal((n, 2)) @ [1, 1j]


@pytest.mark.parametrize(("bins", "off"), [(101, 0), (101, 10), (7, 3), (30, 2)])
def test_a_floor_depends_on_the_bins_on_both_sides_only(bins, off):
    n, side = 500, side_bins(bins)
    sft = noise(n)
    loud, none = sft.copy(), sft.copy()
    loud[250], none[250] = 1e6, 0
    differs = np.flatnonzero(off_source_psd(loud, TSFT, bins, off) != off_source_psd(none, TSFT, bins, off))
    distance = np.abs(differs - 250)
    assert distance.min() > off
    assert distance.max() <= jfstat.Noise(None, bins, off).reach == off + side
    floors = off_source_psd(sft, TSFT, bins, off)
    # by hand, at some bins: the harmonic mean of both medians, and near the ends the inner one
    power = np.abs(sft) ** 2
    unit = 2 / TSFT / sum((-1.0) ** (k + 1) / k for k in range(1, side + 1))
    for k in (0, off + side - 1, off + side, 222, n - 1):
        medians = [
            np.median(x) for x in (power[k - off - side : k - off], power[k + off + 1 :][:side]) if len(x) == side
        ]
        medians = medians[-1:] if k < off + side else medians
        assert floors[k] == pytest.approx(unit / np.mean(1 / np.array(medians)), rel=1e-12)


@pytest.mark.parametrize("bins", [21, 101])
def test_noise_divided_by_it_has_the_power_that_is_stated(bins):
    x = noise(400_000)
    ratio = 2 * np.abs(x) ** 2 / TSFT / off_source_psd(x, TSFT, bins, 5)
    assert np.mean(ratio) == pytest.approx(off_source_power(side_bins(bins)), rel=0.006)


def test_a_slope_does_not_matter_and_a_line_on_one_side_little():
    n = 4001
    flat = off_source_psd(noise(n), TSFT, 101, 10)
    slope = 1 + 0.5 * np.arange(n) / n  # as steep as O3's floor at 30 Hz: 50 % in 2 Hz
    np.testing.assert_allclose(off_source_psd(noise(n) * np.sqrt(slope), TSFT, 101, 10), flat * slope, rtol=0.01)
    loud = noise(n)
    loud[2000:2060] *= 1e3  # broader than the bins on one side
    assert np.all(off_source_psd(loud, TSFT, 101, 10)[1900:1989] < 3 * flat[1900:1989])  # twice that of the other side
    assert running_median_psd(loud, TSFT)[2030] > 1e5 * flat[2030]


@pytest.mark.parametrize("signals", [1, pytest.param(6, marks=pytest.mark.slow)])
def test_loud_signals_have_the_2f_of_the_known_floor(signals):
    """The running median of 101 bins, as LALSuite's, takes some 5 % of them."""
    rng = np.random.default_rng(8)
    ways = {name: noise_floors.WAYS[name] for name in ("101 bins", "1001 bins, off_source=10")}
    cases = [noise_floors.case(rng, 1.0, 20000.0, ways) for _ in range(signals)]
    usual, off = ([case[name] for case in cases] for name in ways)
    assert np.mean(usual) < 0.97
    assert abs(np.mean(off) - 1) < 0.01 / np.sqrt(signals)


@pytest.mark.parametrize(("days", "off"), [(0.5, 0.06), pytest.param(6.0, 0.02, marks=pytest.mark.slow)])
def test_the_mean_of_2f_in_noise_stays_4(days, off):
    means = noise_floors.noise_mean(np.random.default_rng(5), days)
    assert max(abs(mean - 4) for mean in means.values()) < off, means


@pytest.fixture(scope="module")
def sfts():
    return jfstat.simulate_sfts(["H1"], 1_167_458_304, 7200, 99.8, 100.2, sqrt_sx=4e-24, seed=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"off_source": -1}, "off_source must be"),
        ({"off_source": 1.5}, "off_source must be"),
        ({"off_source": True}, "off_source must be"),
        ({"off_source": 10, "median_bins": 5}, "median_bins must be at least 7 with off_source"),
        ({"sqrt_sx": 4e-24, "off_source": 10}, "sqrt_sx gives the noise floor"),
        ({"sqrt_sx": 4e-24, "median_bins": 51}, "sqrt_sx gives the noise floor"),
        ({"off_source": 400}, r"needs 903 bins and the SFTs hold 720.*off_source"),
    ],
)
def test_what_makes_no_sense_is_refused(options, message, sfts):
    with pytest.raises(ValueError, match=message):
        jfstat.prepare(sfts, 100.0, 100.001, sqrt_sx=jfstat.Noise(**options))


def test_everything_that_estimates_a_floor_takes_it(sfts):
    point = jfstat.Doppler(1.0, 0.3, [100.0], 1_167_458_304)
    beside = jfstat.Noise(off_source=10)
    data = jfstat.prepare(sfts, 99.995, 100.005, sqrt_sx=beside)
    floors = np.asarray(data.observation.sqrt_sx)
    assert not np.array_equal(floors, np.asarray(jfstat.prepare(sfts, 99.995, 100.005).observation.sqrt_sx))
    observed = jfstat.observation(sfts, fmin=99.995, fmax=100.005, sqrt_sx=beside)
    np.testing.assert_allclose(np.asarray(observed.sqrt_sx), floors, rtol=0.05)
    segments = jfstat.prepare(sfts, 100.0, 100.0, segments=2, sqrt_sx=beside)
    assert np.isfinite(jfstat.mean_twoF(segments, point))
    row = floors_of_one(sfts)
    assert len(row) == sfts.n_bins
    assert jfstat.Noise().least_bins == 101
    assert jfstat.Noise(4e-24) == jfstat.Noise(sqrt_sx=4e-24)
    with pytest.raises(ValueError, match="sqrt_sx says how to estimate the noise floor, and detectors have no SFTs"):
        jfstat.observation(["H1"], 1_167_458_304, 7200, sqrt_sx=beside)


@pytest.mark.ci
def test_known_pulsars_have_it_without_a_series(tmp_path, capsys):
    """A signal as loud as a hardware injection: 2F of some thousands in a day."""
    start = 1_167_458_304
    (tmp_path / "J1.par").write_text("PSRJ J1\nRAJ 08:10:00\nDECJ 17:40:00\nF0 35\nPEPOCH 57758\n")
    pulsar = jfstat.read_par(tmp_path / "J1.par")
    point = pulsar.doppler(start, start + 86400)
    signal = (point, jfstat.Amplitude(6e-24, 0.4, 0.2, 1.0))
    sfts = jfstat.simulate_sfts(["H1", "L1"], start, 86400, 69.0, 71.0, sqrt_sx=4e-24, signals=[signal], seed=5)
    floors = {off: jfstat.Noise(off_source=off) for off in (None, 10)}
    table = {off: jfstat.search_pulsars(sfts, pulsar, sqrt_sx=own, progress=False) for off, own in floors.items()}
    known = jfstat.search_pulsars(sfts, pulsar, sqrt_sx=4e-24, progress=False)
    lost = {off: 1 - float(found["twoF"][0] / known["twoF"][0]) for off, found in table.items()}
    assert known["twoF"][0] > 2e4
    assert lost[None] > 0.05
    assert abs(lost[10]) < 0.02  # as much as the floor errs in 48 SFTs
    # as in a series, whose frequency is that of the pulsar at the data's start
    for off, found in table.items():
        f = float(point.fkdot[0])
        data = jfstat.prepare(sfts, f, f, reftime=point.reftime, sqrt_sx=floors[off], guard=0.9)
        assert float(found["twoF"][0]) == pytest.approx(float(jfstat.twoF(data, point)), rel=2e-3)
    assert table[10]["h0"][0] == pytest.approx(6e-24, rel=0.02)
    band = jfstat.search_pulsars(sfts, pulsar, jfstat.PulsarBand(1e-5), sqrt_sx=floors[10], progress=False)
    assert float(band["twoF"][0]) == pytest.approx(float(table[10]["twoF"][0]), rel=0.02)
    with pytest.raises(ValueError, match="noise floor needs 10103 bins"):
        jfstat.search_pulsars(sfts, pulsar, sqrt_sx=jfstat.Noise(off_source=5000))
    # on the command line, for pulsars and for a single template
    jfstat.write_sfts(sfts, tmp_path)
    files, path = f"--DataFiles={tmp_path}/*.sft", tmp_path / "found.ecsv"
    assert (
        main(["search-pulsars", files, f"--par={tmp_path}/J1.par", "--offSourceBins=10", f"--outputFstat={path}"]) == 0
    )
    assert float(jfstat.read_candidates(path)["twoF"][0]) == pytest.approx(float(table[10]["twoF"][0]), rel=1e-6)
    alone = [
        f"--Alpha={float(point.alpha)!r}",
        f"--Delta={float(point.delta)!r}",
        f"--Freq={f!r}",
        "--offSourceBins=10",
    ]
    assert main(["search", files, *alone, f"--refTime={float(point.reftime)!r}", f"--outputFstat={path}"]) == 0
    found = jfstat.read_candidates(path)
    assert found.meta["engine"] == "narrow"
    assert float(found["twoF"][0]) == pytest.approx(float(table[10]["twoF"][0]), rel=1e-3)


def floors_of_one(sfts):
    return running_median_psd(sfts["H1"].data[0] / 1e-24, TSFT)


@pytest.mark.parametrize("bins", [51, 100])
@pytest.mark.parametrize("n", [100, 101, 300])
def test_floors_of_many_sfts_are_the_same_bits_as_of_each(bins, n):
    sfts = np.stack([noise(n) * 10.0**-k for k in range(5)]).astype(np.complex64)
    together = running_median_psd(sfts, TSFT, bins)
    np.testing.assert_array_equal(together, [running_median_psd(sft, TSFT, bins) for sft in sfts])


@pytest.mark.parametrize(("value", "message"), [(np.nan, "bins that are not finite"), (0.0, "all-zero bins")])
@pytest.mark.parametrize("together", [1, 700, 1 << 20])
def test_the_first_bad_sft_is_named(monkeypatch, value, message, together):
    monkeypatch.setattr("jfstat.data.noise.TOGETHER", together)
    sfts = jfstat.simulate_sfts(["H1"], 1_100_000_000, 10 * 1800, 49.9, 50.1, sqrt_sx=1e-23)
    sfts["H1"].data[[6, 8]] = value
    with pytest.raises(ValueError, match=f"H1 at GPS {1_100_000_000 + 6 * 1800} has {message}"):
        jfstat.prepare(sfts, 49.99, 50.01, guard=0.01)


def test_a_detector_may_lack_sfts_in_a_segment():
    sfts = jfstat.simulate_sfts(["H1", "L1"], 1_100_000_000, 20 * 1800, 49.9, 50.1, sqrt_sx=1e-23)
    first = sfts.select(detectors="L1", end=1_100_000_000 + 10 * 1800)
    some = jfstat.join_sfts([sfts.select(detectors="H1"), first])
    observed = jfstat.segment_observations(some, 2)
    np.testing.assert_array_equal(observed.has_data, [[True, True], [True, False]])
    np.testing.assert_array_equal(
        jfstat.prepare(some, 49.99, 50.01, segments=2, guard=0.01).observation.has_data, observed.has_data
    )


@pytest.mark.parametrize(("value", "message"), [(np.nan, "bins that are not finite"), (0.0, "all-zero bins")])
def test_spectra_name_bad_sfts_too(value, message):
    sfts = jfstat.simulate_sfts(["H1"], 1_100_000_000, 10 * 1800, 49.9, 50.1, sqrt_sx=1e-23)
    sfts["H1"].data[[6, 8]] = value
    for spectrum in (jfstat.psd, jfstat.spectrogram):
        with pytest.raises(ValueError, match=f"H1 at GPS {1_100_000_000 + 6 * 1800} has {message}"):
            spectrum(sfts)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("sqrt_sx", [None, 1e-23])
def test_data_of_single_templates_name_bad_sfts_too(tmp_path, value, sqrt_sx):
    sfts = jfstat.simulate_sfts(["H1"], 1_100_000_000, 10 * 1800, 98.9, 101.1, sqrt_sx=1e-23)
    sfts["H1"].data[6, 2000] = value
    (tmp_path / "a.par").write_text("PSRJ A\nRAJ 1:0:0\nDECJ 2:0:0\nF0 50.0\nPEPOCH 55600\n")
    with pytest.raises(ValueError, match=f"H1 at GPS {1_100_000_000 + 6 * 1800} has bins that are not finite"):
        jfstat.search_pulsars(sfts, jfstat.read_par(tmp_path / "a.par"), sqrt_sx=sqrt_sx, progress=False)
