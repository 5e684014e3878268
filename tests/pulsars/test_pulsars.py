"""Timing solutions: what .par files and catalogues say, against LALSuite's reading of the same files."""

from math import factorial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from astropy import units as u
from astropy.coordinates import BarycentricTrueEcliptic, SkyCoord
from hypothesis import given, settings
from hypothesis import strategies as st
from lalsuite_tools import ephemeris

import jfstat
from jfstat.pulsars.entries import epoch, named
from jfstat.pulsars.pulsar import pulsar_of

FOLDER = Path(__file__).parents[1] / "pulsars"
FILES = sorted(FOLDER.glob("*.par"))
START, YEAR = 1238166018, 31_536_000
RELATIVISTIC = ("J0737-3039A", "J1537+1155", "J1915+1606")
"""Binaries whose periapsis advances by degrees a year: no Keplerian orbit follows them for a year."""
SOLUTION = {"NAME": "X", "RAJ": "1:2:3", "DECJ": "-4:5:6", "F0": "50", "F1": "-1D-14", "PEPOCH": "55000"}


def solved(**entries):
    return pulsar_of(named(SOLUTION | entries), "x.par")


def lal_delays(path, times):
    """Time of emission minus detector time by LALSuite, and its F0, F1, ... and PEPOCH."""
    lal, lalpulsar = pytest.importorskip("lal"), pytest.importorskip("lalpulsar")
    solution = lalpulsar.ReadTEMPOParFile(str(path))
    tables = ephemeris()
    vector = lalpulsar.CreateTimestampVector(len(times))
    for i, t in enumerate(times):
        vector.data[i] = lal.LIGOTimeGPS(int(t))
    site, original = lal.cached_detector_by_prefix["H1"], lalpulsar.TIMECORRECTION_ORIGINAL
    ssb = lalpulsar.HeterodynedPulsarGetSSBDelay(solution, vector, site, tables, None, original)
    across = lalpulsar.HeterodynedPulsarGetBSBDelay(solution, vector, ssb, tables)
    across = 0.0 if across is None else across.data
    spins = np.array(lalpulsar.PulsarGetREAL8VectorParam(solution, "F").data)
    return ssb.data + across, spins, lalpulsar.PulsarGetREAL8Param(solution, "PEPOCH")


@pytest.fixture(scope="module")
def observation():
    return jfstat.observation(["H1"], START, YEAR)


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_phases_over_a_year_are_lalsuites(path, observation):
    pulsar = jfstat.read_par(path)
    times = np.sort(np.random.default_rng(0).integers(START, START + YEAR, 300))
    theirs, spins, pepoch = lal_delays(path, times)
    source = observation.source(pulsar.doppler(START, START + YEAR))
    trajectory = jax.tree.map(lambda leaf: leaf[0], observation.trajectory)
    ours = np.asarray(source.heterodyned_cycles(trajectory, jnp.asarray(times - START, float), jnp.zeros(())))
    emitted = (times - np.longdouble(pepoch)) + theirs
    cycles = sum(2 * np.longdouble(f) * emitted ** (k + 1) / factorial(k + 1) for k, f in enumerate(spins))
    difference = ours - cycles
    difference = (difference - difference[0]).astype(float)
    difference -= np.round(difference)
    spread = 0.5 * np.ptp(difference)
    said = sum(pulsar.phase_error(START, START + YEAR).values())
    if pulsar.name in RELATIVISTIC:
        assert 1 < said < 10
        return
    assert spread < 1e-3
    # what is beyond rounding is what phase_error says
    assert spread < 1.1 * said + 6e-5


@pytest.mark.parametrize("name", RELATIVISTIC)
def test_delays_of_relativistic_binaries_are_lalsuites_and_a_day_of_them_is_keplerian(name, observation):
    pulsar = jfstat.read_par(FOLDER / f"{name}.par")
    times = np.arange(START, START + 86400, 300)
    theirs, _, _ = lal_delays(FOLDER / f"{name}.par", times)
    source = observation.source(pulsar.doppler(START, START + 86400))
    trajectory = jax.tree.map(lambda leaf: leaf[0], observation.trajectory)
    ours = np.asarray(source.delay(trajectory, jnp.asarray(times - START, float)))
    said = pulsar.phase_error(START, START + 86400)["binary"]
    assert 0.5 * np.ptp(ours - theirs) * 2 * pulsar.spins[0] < 1.2 * said + 1e-3
    assert said < 0.02


def test_epochs_are_exact_to_the_nanosecond():
    # 55000.123456789012 d: 0.123456789012 d is 10666.6665706368 s
    assert epoch({"T": "55000.123456789012"}, "T") == jfstat.GPSTime(
        jnp.asarray((55000.0 - 44244) * 86400 + 10615), jnp.asarray(482570637.0)
    )
    assert solved(PEPOCH="57000").epoch == jfstat.GPSTime(jnp.asarray(1102118348.0), jnp.asarray(816000000.0))


@given(st.floats(0, 359.9), st.floats(-89, 89), st.floats(-200, 200), st.floats(-200, 200))
@settings(deadline=None, max_examples=20)
def test_ecliptic_positions_and_motions_are_astropys(longitude, latitude, east, north):
    entries = {"NAME": "X", "F0": "50", "PEPOCH": "55000", "ELONG": repr(longitude), "ELAT": repr(latitude)}
    entries |= {"PMELONG": repr(east), "PMELAT": repr(north)}
    pulsar = pulsar_of(entries, "x")
    tilt = np.radians(84381.406 / 3600)
    n = SkyCoord(longitude, latitude, unit="deg").cartesian.xyz.value
    turn = np.array([[1, 0, 0], [0, np.cos(tilt), -np.sin(tilt)], [0, np.sin(tilt), np.cos(tilt)]])
    expected = SkyCoord(*(turn @ n), representation_type="cartesian").spherical
    separation = SkyCoord(pulsar.alpha, pulsar.delta, unit="rad").separation(SkyCoord(expected.lon, expected.lat))
    assert separation.rad < 1e-12
    assert np.hypot(*pulsar.motion) == pytest.approx((np.hypot(east, north) * u.mas / u.yr).to_value("rad/s"))
    # astropy's ecliptic of date at J2000 differs by some arcsec of frame tie and nutation
    frame = BarycentricTrueEcliptic(equinox="J2000", lon=longitude * u.deg, lat=latitude * u.deg)
    assert SkyCoord(frame).separation(SkyCoord(pulsar.alpha, pulsar.delta, unit="rad")).arcsec < 20


def test_tcb_becomes_tdb():
    tdb, tcb = solved(), solved(UNITS="TCB")
    rate = 1.55051979176e-8
    assert tcb.spins[0] / tdb.spins[0] - 1 == pytest.approx(rate, rel=1e-6)
    assert tcb.spins[1] / tdb.spins[1] - 1 == pytest.approx(2 * rate, rel=1e-6)
    assert float(tcb.epoch - tdb.epoch) == pytest.approx(-rate * (55000 - 43144.0003725) * 86400, rel=1e-6)


def test_laplace_parameters_and_those_of_a_small_eccentricity_are_one_orbit():
    node = solved(BINARY="ELL1", PB="1.5", A1="2", TASC="55000.1", EPS1="3e-4", EPS2="-4e-4")
    ecc, om = 5e-4, float(np.degrees(np.arctan2(3e-4, -4e-4)))
    t0 = 55000.1 + 1.5 * om / 360
    periapsis = solved(BINARY="DD", PB="1.5", A1="2", T0=f"{t0:.15f}", ECC=repr(ecc), OM=repr(om))
    first, second = (p.doppler(START, START + 86400).orbit for p in (node, periapsis))
    for name in ("asini", "period", "ecc", "argp"):
        assert float(getattr(first, name)) == pytest.approx(float(getattr(second, name)), rel=1e-9)
    turns = float(first.tp - second.tp) / float(first.period)
    assert abs(turns - round(turns)) < 1e-8
    assert abs(float(first.tp) - START) < 86400 + 0.5 * float(first.period)


def test_derivatives_of_the_orbit_are_taken_in_the_middle_of_the_data():
    binary = dict(BINARY="BT", A1="2", T0="55000", ECC="0.1", OM="30")
    day = 86400.0
    by_period = solved(**binary, PB="1.5", PBDOT="2e-9").doppler(START, START + day).orbit
    since = START + 0.5 * day - float(epoch({"T": "55000"}, "T"))
    assert float(by_period.period) == pytest.approx(1.5 * day + 2e-9 * since, rel=1e-9)
    by_frequency = solved(**binary, FB0=repr(1 / (1.5 * day)), FB1=repr(-2e-9 / (1.5 * day) ** 2))
    assert float(by_frequency.doppler(START, START + day).orbit.tp) == pytest.approx(float(by_period.tp), abs=1e-3)
    # in units of 1e-12 if large
    assert solved(**binary, PB="1.5", PBDOT="3.0").binary.frequencies[1] == pytest.approx(-3e-12 / (1.5 * day) ** 2)


def test_a_glitch_changes_the_template_and_forbids_one_for_both_sides():
    mjd = 58400.0
    glitch = dict(GLEP_1=repr(mjd), GLPH_1="0.1", GLF0_1="1e-6", GLF1_1="-2e-15", GLF0D_1="3e-7", GLTD_1="50")
    pulsar = solved(**glitch)
    at = float(epoch({"T": repr(mjd)}, "T"))
    before = pulsar.doppler(at - 2e6, at - 1e5)
    np.testing.assert_array_equal(before.fkdot, [100.0, -2e-14])
    after = pulsar.doppler(at + 1e5, at + 1e6)
    # the frequency in the middle of the data, by the glitch's own formula
    t = 0.5 * 1.1e6
    middle = jnp.asarray(at + t - float(pulsar.epoch))
    f = sum(float(x) * middle**k / factorial(k) for k, x in enumerate(after.fkdot))
    expected = 100 - 2e-14 * middle + 2 * (1e-6 - 2e-15 * t + 3e-7 * np.exp(-t / (50 * 86400)))
    assert float(f - expected) == pytest.approx(0, abs=2e-12)
    assert pulsar.phase_error(at + 1e5, at + 1e6)["glitch"] < 1e-3
    with pytest.raises(ValueError, match=r"^X has a glitch at GPS .* between start and end: search the data before"):
        pulsar.doppler(at - 10, at + 10)
    with pytest.raises(ValueError, match="has glitches, so say when it is observed"):
        pulsar.doppler()


def test_catalogues_are_read_row_by_row(tmp_path):
    table = tmp_path / "atnf.csv"
    table.write_text(
        "NAME;RAJ;DECJ;F0;F1;PEPOCH;BINARY;PB;A1;T0;ECC;OM;PMRA;DIST\n"
        ";(hms);(dms);(Hz);(s^-2);(MJD);;(days);(s);(MJD);;(deg);(mas/yr);(kpc)\n"
        "J0534+2200;05:34:31.97;+22:00:52.0;29.946923;-3.77535E-10;48442.5;*;*;*;*;*;*;-14.7;2.0\n"
        "J1012+5307;10:12:33.4;+53:07:02.5;190.2678376;-6.2E-16;55000.1234567890123;BT;0.604;0.58;50700.1;0;0;*;*\n"
    )
    crab, other = jfstat.read_pulsars(table)
    assert (crab.name, crab.binary, other.binary.model) == ("J0534+2200", None, "BT")
    assert crab.motion[0] == pytest.approx((-14.7 * u.mas / u.yr).to_value("rad/s"))
    assert crab.parallax == pytest.approx((0.5 * u.mas).to_value("rad"), rel=1e-6)
    assert other.epoch == epoch({"T": "55000.1234567890123"}, "T")
    both = jfstat.read_pulsars([FOLDER / "J0437-4715.par", table])
    assert [p.name for p in both] == ["J0437-4715", "J0534+2200", "J1012+5307"]
    assert len(jfstat.read_pulsars(FOLDER)) == len(jfstat.read_pulsars(str(FOLDER / "*.par"))) == 20
    with pytest.raises(ValueError, match=r"^paths hold the pulsar J0534\+2200 twice"):
        jfstat.read_pulsars([FOLDER / "J0534+2200.par", table])


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (dict(F0="fifty"), "F0 is 'fifty': give a number"),
        (dict(F0="nan1"), "F0 is 'nan1'"),
        (dict(F0="-3"), r"F0 is '-3': give a number from 0 to 10000 \(Hz\)"),
        (dict(F0="0"), "F0 is not positive"),
        (dict(F0="*"), "F0 is missing"),
        (dict(PEPOCH="*"), "PEPOCH is missing"),
        (dict(PEPOCH="yesterday"), "PEPOCH is 'yesterday': give an MJD"),
        (dict(RAJ="*"), "RAJ is missing: a position has RAJ beside DECJ"),
        (dict(DECJ="95:00:00"), "DECJ is beyond a pole"),
        (dict(F13="1"), "F13 is beyond F12"),
        (dict(BINARY="DDGR", A1="1", PB="1", T0="55000"), "BINARY is 'DDGR': the supported models are"),
        (dict(BINARY="BT", A1="1", PB="1"), "T0 is missing: a binary of the model BT needs it"),
        (dict(BINARY="ELL1", A1="1", TASC="55000"), "PB is missing"),
        (dict(BINARY="ELL1", A1="1", PB="0", TASC="55000"), "PB is '0': give a number from 0.0001"),
        (dict(BINARY="ELL1", A1="1", FB0="0", TASC="55000"), "FB0 is not positive"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(entries, message):
    with pytest.raises(ValueError, match=f"^x.par: {message}"):
        solved(**entries)


def test_files_that_are_none(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no\.par' cannot be read"):
        jfstat.read_par(tmp_path / "no.par")
    with pytest.raises(FileNotFoundError, match=r"^no \.par file matches"):
        jfstat.read_pulsars(str(tmp_path / "*.par"))
    (tmp_path / "x.par").write_bytes(bytes(range(128, 256)))
    with pytest.raises(ValueError, match=r"is not a \.par file: it is not text"):
        jfstat.read_par(tmp_path / "x.par")
    (tmp_path / "y.csv").write_text("F0,PEPOCH\n1,2\n")
    with pytest.raises(ValueError, match="row 1 has no name"):
        jfstat.read_pulsars(tmp_path / "y.csv")


def test_the_closest_orbit_does_not_depend_on_where_samples_fall():
    year = 365 * 86400
    for fraction in (1, 2, 3):  # periods that are multiples of an even sampling's step
        days = year / 2047 * fraction / 86400
        binary = dict(BINARY="DD", PB=repr(days), A1="2", T0="58000", ECC="0.2", OM="30", OMDOT="4")
        error = solved(**binary).phase_error(START, START + year)["binary"]
        assert 1 < error < 100


def test_errors_of_decaying_glitches_are_bounds():
    at = START - 5 * 86400
    mjd = repr(44244 + (at + 51.184) / 86400)
    for days in ("0.2", "5", "300"):
        pulsar = solved(GLEP_1=mjd, GLF0D_1="1e-7", GLTD_1=days)
        point = pulsar.doppler(START, START + YEAR)
        t = np.linspace(START, START + YEAR, 500)
        tau = float(days) * 86400
        left = 2 * 1e-7 * tau * (1 - np.exp(-(t - at) / tau))
        series = sum(
            float(f - g) * (t - float(pulsar.epoch)) ** (k + 1) / factorial(k + 1)
            for k, (f, g) in enumerate(zip(point.fkdot, [*solved().doppler().fkdot, 0, 0, 0], strict=False))
        )
        actual = np.ptp(left - series)
        said = pulsar.phase_error(START, START + YEAR)["glitch"]
        assert np.isfinite(said)
        assert actual < 2.1 * said + 1e-3


def test_a_catalogues_edot_is_no_eccentricity_and_bad_rows_are_left_out(tmp_path):
    table = tmp_path / "atnf.csv"
    head = "NAME,RAJ,DECJ,F0,PEPOCH,BINARY,PB,A1,T0,ECC,OM,EDOT\n"
    good = "J1,01:02:03,04:05:06,50,55000,BT,1,1,55000,0.1,20,2.2E33\n"
    table.write_text(head + good + "J2,01:02:03,04:05:06,50,*,*,*,*,*,*,*,1E30\n")
    with pytest.warns(UserWarning, match=r"^1 of 2 pulsars .* because of J2: PEPOCH is missing"):
        (pulsar,) = jfstat.read_pulsars(table)
    assert pulsar.binary.shape_dot[0] == 0
    table.write_text(head + "J2,01:02:03,04:05:06,50,*,*,*,*,*,*,*,1E30\n")
    with pytest.raises(ValueError, match="1 of 1 pulsars"):
        jfstat.read_pulsars(table)


def test_units_and_entries_of_other_programs():
    assert solved(UNITS="SI").spins == solved(UNITS="TCB").spins == solved(EPHVER="5").spins
    waves = solved(UNITS="TCB", WAVE1="0.3 0.4")
    assert waves.waves == pytest.approx(0.5, rel=1e-6)
    assert solved(WXSIN_0001="1e-3").waves == pytest.approx(1e-3)
    for entries, message in (
        (dict(UNITS="ET"), "UNITS is 'ET'"),
        (dict(UNITS="TCB", PEPOCH="soon"), "PEPOCH is 'soon'"),
        (dict(IFUNC1="55000"), "IFUNC1 is not understood"),
        (dict(BINARY="T2", A1="1", PB="1", T0="55000", A1_2="3"), "A1_2 is of a second companion"),
    ):
        with pytest.raises(ValueError, match=message):
            solved(**entries)
    circle = dict(BINARY="ELL1", PB="1.5", A1="2", TASC="55000.1")
    by_ecc = solved(**circle, ECC="5e-4", OM="30").doppler(START, START + 10).orbit
    assert (float(by_ecc.ecc), float(by_ecc.argp)) == pytest.approx((5e-4, np.radians(30)), rel=1e-6)
    recovered = solved(GLEP_1="58000", GLF0D_1="1e-7", GLTD_1="50", GLF0D2_1="2e-7", GLTD2_1="5")
    assert sorted(glitch.decaying for glitch in recovered.glitches) == [1e-7, 2e-7]
