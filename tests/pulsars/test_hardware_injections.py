"""The table of LIGO's hardware injections, and simulated SFTs with these injections against it."""

import jax
import numpy as np
import pytest

import jfstat
from jfstat.pulsars.hardware import RUNS, injections_of
from jfstat.searching.hardware import edges
from jfstat.signal.times import gps_time

START, HOURS = 1_250_000_000, 12
O2_PULSAR04 = """\
PSRJ    JPULSAR04
F0      701.5816655
F1      -1.27e-08
RA      18:39:57.0428284445
DEC     -12:27:59.8485847268
PEPOCH  52944.0007428703684126958
UNITS   TDB
EPHEM   DE405
H0      4.61484802903957e-24
IOTA    1.28979208946
PSI     0.9228572097948966
PHI0    0.84420367320510348
"""
O3_PULSAR17 = """\
PSRJ    JPULSAR17
F0      445.0615
F1      0.0
RA      07:19:54.9990796061
DEC     -15:38:24.9910999368
PEPOCH  58484.00080074074504
UNITS   TDB
EPHEM   DE405
H0      8.393684758058924e-26
IOTA    0.7675866198953613
PSI     0.9424073464102065
PHI0    0.0
BINARY  BT
PB      0.9715416666666666
ECC     0.0
A1      2.35
OM      122.301279117445
T0      58484.50080074074504
"""


@pytest.mark.parametrize(("run", "name", "text"), [("O2", "PULSAR04", O2_PULSAR04), ("O3", "PULSAR17", O3_PULSAR17)])
def test_rows_are_as_in_the_par_files(run, name, text, tmp_path):
    (tmp_path / "a.par").write_text(text)
    pulsar, words = jfstat.read_par(tmp_path / "a.par"), dict(line.split() for line in text.splitlines())
    table = jfstat.hardware_injections(run)
    (row,) = table[table["name"] == name]
    expected, point = pulsar.doppler(), jfstat.Doppler.from_row(row)
    for one, other in zip(
        jax.tree.leaves((point.alpha, point.delta, point.fkdot)),
        jax.tree.leaves((expected.alpha, expected.delta, expected.fkdot)),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-14)
    # GPS seconds, of which the .par files' MJD are rounded
    assert abs(float(point.reftime - expected.reftime)) < 1e-6 and float(point.reftime) % 1 == 0
    assert (point.orbit is None) == (expected.orbit is None)
    if point.orbit is not None:
        assert abs((float(point.orbit.tp - expected.orbit.tp) / 83941.2 + 0.5) % 1 - 0.5) < 1e-10
        for field in ("asini", "period", "ecc", "argp"):
            np.testing.assert_allclose(getattr(point.orbit, field), getattr(expected.orbit, field), rtol=1e-12)
    np.testing.assert_allclose(row["cosi"], np.cos(float(words["IOTA"])), rtol=0, atol=1e-11)
    assert row["h0"] == float(words["H0"]) and row["psi"].value == float(words["PSI"])
    assert row["phi0"].value == pytest.approx(2 * float(words["PHI0"]), abs=1e-12)  # of the wave, not of the rotation


def test_published_values_of_ligo():
    """Pulsar 3 of S5 to O4, as gwosc.org and the papers give it."""
    for run, number in {"S5": 10, "S6": 10, "O1": 15, "O2": 15, "O3": 18, "O4a": 18}.items():
        table = jfstat.hardware_injections(run)
        assert len(table) == number and list(table["name"]) == [f"PULSAR{k:02d}" for k in range(number)]
        row = table[3]
        assert row["freq"].value == 108.8571594 and row["f1dot"].value == -1.46e-17
        assert row["alpha"].value == pytest.approx(3.113188712, abs=1e-9)
        assert row["delta"].value == pytest.approx(-0.583578803, abs=1e-9)
        assert row["reftime"].value == 751680013 and row["phi0"].value == 5.53
        assert ("asini" in table.colnames) == (number == 18)
        assert np.all(np.abs(table["cosi"]) <= 1) and np.all(table["h0"] > 0)


def test_runs_are_found_by_name_and_by_time():
    assert jfstat.hardware_injections("o3B").meta["run"] == "O3b"
    assert jfstat.hardware_injections(1187000000).meta["run"] == "O2"
    assert jfstat.hardware_injections("1187000000.5").meta["run"] == "O2"
    for run in RUNS.values():
        assert RUNS[jfstat.hardware_injections(run.start).meta["run"]].amplitudes == run.amplitudes
    with pytest.raises(ValueError, match=r"^run must be one of S5, S6, .* or a GPS time, not 'O9'\.$"):
        jfstat.hardware_injections("O9")
    with pytest.raises(ValueError, match=r"^run is GPS 1000000000, which is in no run"):
        jfstat.hardware_injections(1e9)


def test_a_table_with_times_of_its_own_is_no_bank():
    with pytest.raises(ValueError, match="a time for each row"):
        jfstat.bank_from_table(jfstat.hardware_injections("O1"))


def simulated(run, name, start=START, hours=HOURS, rho=40.0, seed=0, detectors=("H1", "L1"), **changes):
    """Noise with one injection, of a floor that makes it so loud."""
    (own,) = [x for x in injections_of(run) if x.name == name]
    low, high = edges(own.point, gps_time(start, "start"), start + 3600.0 * hours)
    amplitude = jfstat.Amplitude(*(changes.get(x, getattr(own.amplitude, x)) for x in ("h0", "cosi", "psi", "phi0")))
    how = dict(fmin=low - 0.6, fmax=high + 0.6)
    unit = jfstat.observation(list(detectors), start, hours * 3600, sqrt_sx=float(own.amplitude.h0))
    floor = float(own.amplitude.h0) * np.sqrt(float(jfstat.predict_twoF(unit, own.point, own.amplitude)) - 4) / rho
    return jfstat.simulate_sfts(
        list(detectors), start, hours * 3600, **how, sqrt_sx=floor, seed=seed, signals=[(own.point, amplitude)],
        ephemeris=RUNS[run].ephemeris,
    )  # fmt: skip


NAMES = ("PULSAR00", "PULSAR04", "PULSAR10", "PULSAR14", "PULSAR16")


@pytest.mark.ci
def test_injections_are_found_as_injected():
    pulls = []
    for seed, (run, start) in enumerate((("O3", START), ("O4a", 1_380_000_000))):
        for name in NAMES:
            found = jfstat.check_hardware_injections(simulated(run, name, start, seed=seed))
            assert list(found["name"]) == [name] and found.meta["run"] == run and found["agrees"][0]
            assert found["expected_twoF"][0] == pytest.approx(1604, rel=0.05)
            assert found["h0_error"][0] / found["h0_injected"][0] == pytest.approx(1 / 40, rel=0.03)
            pulls.append([found[f"pull_{x}"][0] for x in ("twoF", "h0", "phase")])
            each = [found[f"h0_{x}"][0] / found[f"h0_{x}_error"][0] for x in ("H1", "L1")]
            assert np.hypot(*each) == pytest.approx(40, abs=4)
    pulls = np.array(pulls)
    assert np.abs(pulls).max() < 4
    assert np.all(np.abs(pulls.mean(axis=0)) < 4 / np.sqrt(len(pulls)))
    assert np.all((pulls.std(axis=0) > 0.5) & (pulls.std(axis=0) < 1.6))


def test_wrong_amplitudes_and_phases_are_told():
    (own,) = [x for x in injections_of("O3") if x.name == "PULSAR00"]
    h0, phi0 = float(own.amplitude.h0), float(own.amplitude.phi0)
    found = jfstat.check_hardware_injections(simulated("O3", "PULSAR00", h0=1.4 * h0, phi0=phi0 + 0.3))
    assert found["h0"][0] / h0 == pytest.approx(1.4, abs=0.1)
    assert found["phase_difference"][0].value == pytest.approx(0.3, abs=0.1)
    assert not found["agrees"][0] and found["pull_h0"][0] > 10
    tolerant = jfstat.check_hardware_injections(simulated("O3", "PULSAR00", h0=1.4 * h0, phi0=phi0 + 0.3), tolerance=1)
    assert tolerant["agrees"][0]
    silent = jfstat.check_hardware_injections(simulated("O3", "PULSAR00", h0=0.0))
    assert not silent["agrees"][0] and silent["twoF"][0] < 40


def test_files_bands_and_detectors(tmp_path):
    sfts = simulated("O3", "PULSAR03", hours=3, detectors=("H1", "L1", "V1"))
    jfstat.write_sfts(sfts, tmp_path)
    one = jfstat.check_hardware_injections(f"{tmp_path}/*.sft")
    other = jfstat.check_hardware_injections(sfts.select(detectors=["H1", "L1"]), "O3a")
    assert one.meta["detectors"] == ["H1", "L1"] and one.meta["left_out"] == other.meta["left_out"]
    for name in ("twoF", "expected_twoF", "h0", "phase_difference", "twoF_L1"):
        np.testing.assert_array_equal(one[name], other[name])
    both = [sfts, simulated("O3", "PULSAR16", hours=3, detectors=("H1", "L1", "V1"))]
    assert list(jfstat.check_hardware_injections(both)["name"]) == ["PULSAR03", "PULSAR16"]
    with pytest.raises(ValueError, match=r"^sfts are of V1, and only H1, H2, L1 have hardware injections"):
        jfstat.check_hardware_injections(sfts.select(detectors=["V1"]))
    with pytest.raises(ValueError, match=r"^sfts of several bands must have the same detectors and times"):
        jfstat.check_hardware_injections([both[0], both[1].select(detectors=["H1"])])
    with pytest.raises(ValueError, match=r"^sfts cover .* Hz, which holds no hardware injection of O3"):
        jfstat.check_hardware_injections(jfstat.simulate_sfts(["H1"], START, 3600, 70, 71, sqrt_sx=1e-23))
    with pytest.raises(ValueError, match=r"^sfts from GPS 1100000000 to 1100003600 do not lie in one run"):
        jfstat.check_hardware_injections(jfstat.simulate_sfts(["H1"], 1_100_000_000, 3600, 108, 109, sqrt_sx=1e-23))
    with pytest.raises(ValueError, match=r"^tolerance must be at least 0"):
        jfstat.check_hardware_injections(sfts, tolerance=-1)


THEIRS = {
    "PULSAR02": dict(
        Freq=575.163573, f1dot=-1.37e-13, Alpha=3.75692884, Delta=0.060108958, refTime=751680013, psi=-0.221788475,
        phi0=4.03, cosi=-0.92857603700942348, h0=7.591844081675615e-26,
    ),
    "PULSAR04": dict(
        Freq=1403.163331, f1dot=-2.54e-08, Alpha=4.886706854, Delta=-0.217583646, refTime=751680013, psi=-0.647939117,
        phi0=4.83, cosi=0.27732063680264524, h0=1.0676021638766947e-24,
    ),
    "PULSAR17": dict(
        Freq=890.123, Alpha=1.9194985, Delta=-0.2729743, refTime=1230336018, psi=4.084, phi0=0.0, h0=8.3936848e-26,
        cosi=0.71958861621541, orbitasini=2.35, orbitPeriod=83941.2, orbitTp=1230379218, orbitArgp=2.13456,
    ),
}  # fmt: skip
"""What LALSuite would be given: the signal's own frequency, and the angles that CWInPy's comments name."""


@pytest.mark.ci
@pytest.mark.parametrize("name", THEIRS)
def test_signals_of_lalsuite_are_found_as_injected(name, tmp_path):
    """In amplitude and in phase, over as many years as lie between the reference time and O3."""
    tools = pytest.importorskip("lalsuite_tools")
    (own,) = [x for x in injections_of("O3") if x.name == name]
    low, _ = edges(own.point, gps_time(START, "start"), START + 36000.0)
    source = "; ".join(f"{key}={value!r}" for key, value in THEIRS[name].items())
    tools.run(
        "Makefakedata_v5", outSFTdir=tmp_path, IFOs="H1,L1", startTime=START, duration=36000, Tsft=1800.0,
        fmin=round(low) - 1, Band=3, injectionSources=f"{{{source}}}",
        ephemEarth="earth00-40-DE405.dat.gz", ephemSun="sun00-40-DE405.dat.gz",
    )  # fmt: skip
    sfts = jfstat.read_sfts(tmp_path)
    found = jfstat.check_hardware_injections(sfts, sqrt_sx=1e-25)
    assert list(found["name"]) == [name]
    assert found["h0"][0] / found["h0_injected"][0] == pytest.approx(1, abs=0.01)
    assert found["twoF"][0] == pytest.approx(found["expected_twoF"][0], rel=0.02)
    assert abs(found["phase_difference"][0].value) < 0.05
