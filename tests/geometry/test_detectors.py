"""A user's own detector wherever a name is taken, against LALSuite with the same detector registered."""

from types import SimpleNamespace

import astropy.units as u
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from astropy.coordinates import EarthLocation
from hypothesis import given, settings
from hypothesis import strategies as st
from lalsuite_tools import OLD_SITES, compute_fstatistic, ephemeris, lal, lalpulsar, random_sky, run, sky

import jfstat
from jfstat.commandline import main
from jfstat.geometry.antenna import harmonics, pattern_coefficients
from jfstat.geometry.barycenter import Direction, ssb_delay
from jfstat.geometry.detectors import DETECTORS, get_detector
from jfstat.geometry.ephemeris import load_ephemeris
from jfstat.geometry.trajectory import detector_trajectory
from jfstat.maths.vectors import unit_vector

START = 1167458304
# LALSuite rounds azimuths and tilts to float32 (of up to 6.3 rad, 2.4e-7) and keeps the tensor in float32
FLOAT32 = 1e-6
TAYLOR = 3.1e-8  # see test_lalsuite_geometry


def random_frame(rng, opening):
    """Geodetic position, azimuths and tilts of a detector anywhere, by its numbers in LALSuite's FrDetector."""
    azimuth = rng.uniform(0, 2 * np.pi)
    return SimpleNamespace(
        longitude=rng.uniform(-np.pi, np.pi),
        latitude=np.arcsin(rng.uniform(-1, 1)),
        height=rng.uniform(-100, 4000),
        azimuths=[azimuth, azimuth + opening],
        tilts=rng.uniform(-0.01, 0.01, 2).tolist(),
    )


def lal_detector(frame, prefix="Z7"):
    """LALSuite's detector from the same numbers."""
    own = lal.FrDetector()
    own.name, own.prefix = "mine", prefix
    own.vertexLongitudeRadians, own.vertexLatitudeRadians = frame.longitude, frame.latitude
    own.vertexElevation = frame.height
    own.xArmAzimuthRadians, own.yArmAzimuthRadians = frame.azimuths
    own.xArmAltitudeRadians, own.yArmAltitudeRadians = frame.tilts
    detector = lal.Detector()
    lal.CreateDetector(detector, own, lal.LALDETECTORTYPE_IFODIFF)
    return detector


def own_detector(frame, prefix="Z7"):
    return jfstat.Detector.from_geodetic(
        prefix, frame.longitude, frame.latitude, frame.height, frame.azimuths, frame.tilts
    )


@pytest.mark.parametrize("opening", [np.pi / 2, np.pi / 3, -2.0])
def test_positions_patterns_and_delays_are_lalsuites(opening):
    rng = np.random.default_rng([11, int(100 * abs(opening))])
    epoch = int(rng.integers(700_000_000, 1_700_000_000))
    tables = load_ephemeris("DE405", epoch - 40000, epoch + 140000, epoch)
    times = rng.uniform(0, 86400, 8).round(6)
    for _ in range(3):
        frame = random_frame(rng, opening)
        theirs, ours = lal_detector(frame), own_detector(frame)
        np.testing.assert_allclose(ours.location, theirs.location, rtol=0, atol=1e-3)  # the height is a float32
        np.testing.assert_allclose(ours.response, theirs.response, rtol=0, atol=FLOAT32)
        trajectory = detector_trajectory(ours, tables, -9000.0, 100000.0)
        state = trajectory(jnp.asarray(times))
        h = np.asarray(harmonics(state.sidereal))
        for t, row, i in zip(times, h, range(len(times)), strict=True):
            alpha, delta = random_sky(rng)
            gps = lal.LIGOTimeGPS(int(epoch + t // 1), round(t % 1 * 1e9))
            patterns = [row @ x for x in pattern_coefficients(jnp.asarray(ours.response), alpha, delta)]
            expected = lalpulsar.ComputeAntennaPatternCoeffs(sky(alpha, delta), gps, theirs, ephemeris())
            np.testing.assert_allclose(patterns, expected, rtol=0, atol=2 * FLOAT32)
            earth, source, emission = lalpulsar.EarthState(), lalpulsar.BarycenterInput(), lalpulsar.EmissionTime()
            lalpulsar.BarycenterEarth(earth, gps, ephemeris())
            source.tgps, source.alpha, source.delta, source.dInv = gps, alpha, delta, 0.0
            source.site = lal.Detector()
            source.site.location = np.array(theirs.location) / lal.C_SI
            lalpulsar.Barycenter(emission, source, earth)
            here = jax.tree.map(lambda x, i=i: x[i], state)
            assert (
                abs(
                    float(ssb_delay(here, jnp.asarray(t), Direction(unit_vector(alpha, delta), None, 0.0)))
                    - emission.deltaT
                )
                < TAYLOR
            )


@settings(deadline=None, max_examples=25)
@given(st.floats(-3.1, 3.1), st.floats(-1.5, 1.5), st.floats(0, 3000), st.floats(0, 6.2), st.floats(0.3, 2.8))
def test_every_way_to_give_a_detector_is_the_same(longitude, latitude, height, azimuth, opening):
    azimuths = [azimuth, azimuth + opening]
    first = jfstat.Detector.from_geodetic("Z1", longitude, latitude, height, azimuths)
    place = EarthLocation.from_geodetic(longitude * u.rad, latitude * u.rad, height * u.m)
    degrees = [np.degrees(x) * u.deg for x in azimuths]
    second = jfstat.Detector.from_earth_location("Z1", place, degrees)
    third = jfstat.Detector("Z1", place, 4000 * np.array(first.arms))
    fourth = jfstat.Detector("Z1", np.array(first.location) / 1e3 * u.km, first.arms)
    for other in (second, third, fourth):
        np.testing.assert_allclose(other.location, first.location, rtol=0, atol=1e-6)
        np.testing.assert_allclose(other.arms, first.arms, rtol=0, atol=1e-12)
    cosine = np.dot(*first.arms)
    np.testing.assert_allclose(cosine, np.cos(opening), atol=1e-12)
    np.testing.assert_allclose(np.trace(first.response), 0, atol=1e-15)


def test_einstein_telescope_is_a_triangle_and_cosmic_explorer_stands_where_the_field_puts_it():
    corners = [get_detector(name) for name in ("E1", "E2", "E3")]
    for detector in corners:
        np.testing.assert_allclose(np.arccos(np.dot(*detector.arms)), np.pi / 3, atol=1e-6)
    sides = [np.subtract(a.location, b.location) for a, b in zip(corners, corners[1:] + corners[:1], strict=True)]
    np.testing.assert_allclose(np.linalg.norm(sides, axis=1), 1e4, rtol=1e-4)
    # the three responses of a closed triangle add up to zero
    np.testing.assert_allclose(sum(d.response for d in corners), 0, atol=2e-6)
    for name, where, azimuths in (("C4", (-125, 46), (190, 100)), ("C2", (-94, 29), (250, 160))):
        theirs = jfstat.Detector.from_geodetic(name, *np.radians(where), 0.0, np.radians(azimuths))
        np.testing.assert_allclose(get_detector(name).location, theirs.location, rtol=0, atol=1e-4)
        np.testing.assert_allclose(get_detector(name).response, theirs.response, atol=1e-12)


IFO = """# anywhere
name = 'MINE'
power_spectral_density = PowerSpectralDensity(psd_file='x.txt')
length = 4
latitude = -(31 + 21. / 60 + 27.56 / 3600)
longitude = 115 + 42. / 60
elevation = 10.5
xarm_azimuth = 20
yarm_azimuth = 80.
yarm_tilt = -1e-4
"""
DOPPLER = jfstat.Doppler(1.2, -0.4, [60.02, -1e-10], START)
AMPLITUDE = jfstat.Amplitude(7e-25, 0.4, 0.3, 1.0)


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    path = tmp_path_factory.mktemp("ifo") / "mine.ifo"
    path.write_text(IFO)
    return SimpleNamespace(path=path, detector=jfstat.Detector.read(path, "Z3"))


@pytest.fixture(scope="module")
def sfts(mine):
    return jfstat.simulate_sfts(
        [mine.detector, "H1"], START, 43200, fmin=58.9, fmax=61.1, signals=[(DOPPLER, AMPLITUDE)], seed=3,
        sqrt_sx={"H1": 5e-24, "Z3": 4e-24},
    )  # fmt: skip


def test_files_of_detectors_are_those_of_bilby(mine):
    frame = SimpleNamespace(
        longitude=np.radians(115.7), latitude=-np.radians(31 + 21 / 60 + 27.56 / 3600), height=10.5,
        azimuths=np.radians([70, 10]), tilts=[0, -1e-4],
    )  # fmt: skip
    np.testing.assert_allclose(mine.detector.location, lal_detector(frame).location, rtol=0, atol=1e-3)
    np.testing.assert_allclose(mine.detector.response, lal_detector(frame).response, atol=FLOAT32)
    assert (mine.detector.prefix, mine.detector.name) == ("Z3", "MINE")


def test_two_f_is_lalsuites_for_the_same_detector(mine, sfts, tmp_path):
    jfstat.write_sfts(sfts, tmp_path)
    special = lal.Detector()
    special.frDetector.name, special.frDetector.prefix = "mine", "Z3"
    theirs = lal_detector(
        SimpleNamespace(
            longitude=np.radians(115.7), latitude=-np.radians(31 + 21 / 60 + 27.56 / 3600), height=10.5,
            azimuths=np.radians([70, 10]), tilts=[0, -1e-4],
        ),
        "Z3",
    )  # fmt: skip
    assert lalpulsar.RegisterSpecialCWDetector(theirs) == 0
    options = lalpulsar.FstatOptionalArgs(lalpulsar.FstatOptionalArgsDefaults)
    floors = lalpulsar.MultiNoiseFloor()
    floors.length, floors.sqrtSn = 2, [5e-24, 4e-24] + [0] * (len(floors.sqrtSn) - 2)
    options.assumeSqrtSX, options.Dterms, options.FstatMethod = floors, 300, lalpulsar.FMETHOD_DEMOD_GENERIC
    catalog = lalpulsar.SFTdataFind(f"{tmp_path}/*.sft", lalpulsar.SFTConstraints())
    source = lalpulsar.CreateFstatInput(catalog, 59.95, 60.1, 1e-6, ephemeris(), options)
    point = lalpulsar.PulsarDopplerParams()
    point.Alpha, point.Delta, point.refTime = 1.2, -0.4, lal.LIGOTimeGPS(START)
    fkdot = point.fkdot
    fkdot[0], fkdot[1] = 60.02, -1e-10
    point.fkdot = fkdot
    found = lalpulsar.FstatResults()
    wanted = lalpulsar.FSTATQ_2F + lalpulsar.FSTATQ_2F_PER_DET
    lalpulsar.ComputeFstat(found, source, point, 1, wanted)
    read = jfstat.read_sfts(tmp_path, detectors=["H1", mine.detector])
    data = jfstat.prepare(read, 60.0, 60.04, sqrt_sx={"H1": 5e-24, "Z3": 4e-24})
    ours = jfstat.fstat(data, DOPPLER)
    assert found.twoF[0] == pytest.approx(float(ours.twoF), rel=0.02)
    each = [found.twoFPerDet(d)[0] for d in range(2)]
    np.testing.assert_allclose(each, ours.twoF_per_detector, rtol=0.02)
    # a detector elsewhere, or turned, has another 2F
    expected = float(jfstat.predict_twoF(data, DOPPLER, AMPLITUDE))
    assert abs(float(ours.twoF) - expected) < 4 * np.sqrt(4 * expected)
    assert ours.twoF_per_detector[1] > 40
    here = jfstat.read_sfts(
        tmp_path, detectors=jfstat.Detector("Z3", get_detector("L1").location, [(1, 0, 0), (0, 1, 0)])
    )
    wrong = jfstat.prepare(here, 60.0, 60.04, sqrt_sx=4e-24)
    assert float(jfstat.twoF(wrong, DOPPLER)) < 0.5 * float(ours.twoF_per_detector[1])


@pytest.mark.ci
def test_a_detector_travels_from_simulation_to_refined_candidates(mine, sfts, tmp_path):
    assert [series.site.prefix for series in sfts] == ["H1", "Z3"]
    assert sfts["Z3"].site == mine.detector
    files = jfstat.write_sfts(sfts, tmp_path)
    assert [path.name[:5] for path in files] == ["H-24_", "Z-24_"]
    read = jfstat.read_sfts(tmp_path, detectors=[mine.detector, "H1"], fmin=59, fmax=61)
    np.testing.assert_array_equal(read["Z3"].data, sfts["Z3"].data[:, 180:-180])
    parts = [read.select(end=START + 20000), read.select(start=START + 20000)]
    again = jfstat.join_sfts(parts)
    assert again["Z3"].site == mine.detector
    assert again.select(detectors="Z3").series[0].site == mine.detector
    data = jfstat.prepare(again, 60.01, 60.03, sqrt_sx=4e-24)
    observed = jfstat.observation([mine.detector, "H1"], START, 43200, sqrt_sx=4e-24)
    for one in (jfstat.observation(read, sqrt_sx=4e-24), observed):
        np.testing.assert_allclose(
            jfstat.predict_twoF(one, DOPPLER, AMPLITUDE), jfstat.predict_twoF(data, DOPPLER, AMPLITUDE), rtol=1e-6
        )
        np.testing.assert_array_equal(one.response, data.observation.response)
    np.testing.assert_allclose(jfstat.metric(observed, DOPPLER), jfstat.metric(data, DOPPLER), rtol=1e-6)
    bank = jfstat.template_bank(1.2, -0.4, (-1e-9, 1e-9), data=observed, mismatch=0.3, freq=60.03)
    found = jfstat.search(data, bank, top=50, progress=False, keep=jfstat.Keep(cluster=1.0))
    assert found["twoF"][0] > 100
    assert found["twoF_Z3"][0] > 40
    assert found.meta["detectors"] == ["H1", "Z3"]
    best = jfstat.refine(data, found[:1], progress=False)
    assert abs(best["freq"][0].to_value("Hz") - 60.02) < 5 * best["freq_error"][0].to_value("Hz")
    assert best["converged"][0]
    louder = jfstat.inject(read, [(DOPPLER, jfstat.Amplitude(7e-24, 0.4, 0.3, 1.0))])
    assert louder["Z3"].site == mine.detector


def test_strain_of_ones_own_detector(mine):
    noise = np.random.default_rng(0).standard_normal(256 * 1800)
    sfts = jfstat.sfts_from_strain((noise, START, 1 / 256), mine.detector, fmin=50, fmax=60)
    assert sfts.detectors == ("Z3",)
    assert sfts["Z3"].site == mine.detector


def test_a_known_prefix_may_mean_ones_own_detector(mine, tmp_path):
    moved = jfstat.Detector("H1", mine.detector.location, mine.detector.arms)
    sfts = jfstat.simulate_sfts([moved], START, 3600, fmin=60, fmax=61)
    jfstat.write_sfts(sfts, tmp_path)
    assert jfstat.read_sfts(tmp_path)["H1"].site == DETECTORS["H1"]
    again = jfstat.read_sfts(tmp_path, detectors=moved)
    assert again["H1"].site == moved
    with pytest.raises(ValueError, match="sfts of H1 are of detectors at different sites"):
        jfstat.join_sfts([again, jfstat.simulate_sfts(["H1"], START + 7200, 3600, fmin=60, fmax=61)])


def test_checkpoints_know_the_arms(sfts, mine, tmp_path):
    turned = jfstat.Detector("Z3", mine.detector.location, mine.detector.arms[::-1])
    series = [jfstat.sfts.SFTSeries.of(turned, x.gps, x.gps_ns, x.data) if x.detector == "Z3" else x for x in sfts]
    again = jfstat.sfts.SFTs(tuple(series), sfts.tsft, sfts.first_bin)
    bank, path = jax.tree.map(lambda x: x[None], DOPPLER), tmp_path / "state"
    jfstat.search(jfstat.prepare(sfts, 60.0, 60.02, sqrt_sx=4e-24), bank, checkpoint=path, progress=False)
    with pytest.raises(ValueError, match="the sites of the detectors"):
        jfstat.search(jfstat.prepare(again, 60.0, 60.02, sqrt_sx=4e-24), bank, checkpoint=path, progress=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Z", (6.37e6, 0, 0), [(1, 0, 0)]), "prefix must be a capital letter and a digit, not 'Z'"),
        (("Z1", (6371, 0, 0), [(1, 0, 0)]), "location lies 6371 m from the Earth's centre"),
        (("Z1", (6.37e6, 0), [(1, 0, 0)]), "location must be three numbers in m"),
        (("Z1", "here", [(1, 0, 0)]), "location must be numbers"),
        (("Z1", [6.37e6, 0, 0] * u.s, [(1, 0, 0)]), "location must be convertible to m"),
        (("Z1", (6.37e6, 0, np.nan), [(1, 0, 0)]), "location must be finite"),
        (("Z1", (6.37e6, 0, 0), [(0, 0, 0), (0, 1, 0)]), "arms must be one or two vectors"),
        (("Z1", (6.37e6, 0, 0), [(0, 1, 0), (0, -3, 0)]), "arms are parallel"),
    ],
)
def test_a_malformed_detector_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        jfstat.Detector(*arguments)


def test_malformed_angles_places_and_names_are_refused(mine, tmp_path):
    with pytest.raises(ValueError, match="azimuths must be one or two angles"):
        jfstat.Detector.from_geodetic("Z1", 0.1, 0.2, 0.0, [0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match="latitude must be within"):
        jfstat.Detector.from_geodetic("Z1", 0.1, 47.0, 0.0, [0.1, 0.2])
    with pytest.raises(TypeError, match="location must be an astropy EarthLocation, not tuple"):
        jfstat.Detector.from_earth_location("Z1", (1, 2, 3), [0.1, 0.2])
    for names in ([mine.detector, "Z3"], [mine.detector, 3], []):
        with pytest.raises(ValueError, match="detectors must be different prefixes"):
            jfstat.simulate_sfts(names, START, 3600, fmin=60, fmax=61)
    with pytest.raises(ValueError, match=r"detector .Z3. is unknown: use one of A1.*or give a jfstat.Detector"):
        jfstat.observation(["Z3"], START, 3600)
    jfstat.write_sfts(jfstat.simulate_sfts([mine.detector], START, 3600, fmin=60, fmax=61), tmp_path)
    with pytest.raises(ValueError, match=r"the detector is none of A1.*no Detector is given by its prefix"):
        jfstat.read_sfts(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("latitude = 3\n", "has no line longitude"),
        (IFO.replace("10.5", "high"), "has the line 'elevation = high'"),
        (IFO.replace("10.5", "1/0"), "has the line 'elevation = 1/0'"),
        (IFO + "shape = 'Triangle'\n", "a triangle of three detectors"),
        (IFO + "nonsense\n", "'nonsense', which is not key = value"),
        (IFO.replace("10.5", "(1).__class__"), "elevation"),
        (IFO + "yarm_tlit = 1e-4\n", "'yarm_tlit = 1e-4', whose key is not known"),
        (IFO + "length = 3\n", "'length = 3' and another with length"),
        (IFO.replace("10.5", "1e400"), "'elevation = 1e400', which is not elevation = a possible value"),
        (IFO.replace("= 20", "= 500"), "'xarm_azimuth = 500', which is not"),
        (IFO + "= 3\n", "'= 3', which is not key = value"),
        (IFO.replace("10.5", "-" * 5000 + "1"), "elevation"),
        ("\xff", "is not a text file"),
    ],
)
def test_a_malformed_file_is_refused(tmp_path, text, message):
    path = tmp_path / "bad.ifo"
    path.write_bytes(text.encode("latin1"))
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        jfstat.Detector.read(path, "Z1")
    with pytest.raises(OSError, match="cannot be read"):
        jfstat.Detector.read(tmp_path / "absent.ifo", "Z1")
    with pytest.raises(ValueError, match="prefix must be"):
        (tmp_path / "good.ifo").write_text(IFO)
        jfstat.Detector.read(tmp_path / "good.ifo")


def test_the_program_takes_files_of_detectors(mine, tmp_path, capsys):
    own = f"--detectorFiles=Z3={mine.path}"
    signal = [
        "--Alpha=1.2",
        "--Delta=-0.4",
        "--Freq=60.02",
        "--f1dot=-1e-10",
        f"--refTime={START}",
        "--h0=9e-25",
        "--cosi=0.4",
    ]
    simulate = ["simulate", f"--outSFTdir={tmp_path}/sfts", f"--startTime={START}", "--duration=43200", "--fmin=58.9",
                "--Band=2.2", "--sqrtSX=4e-24", *signal]  # fmt: skip
    assert main([*simulate, "--IFOs=H1,Z3", own]) == 0
    search = [
        "search",
        f"--DataFiles={tmp_path}/sfts/*.sft",
        "--Alpha=1.2",
        "--Delta=-0.4",
        "--Freq=60.01",
        "--FreqBand=0.02",
    ]
    table = tmp_path / "found.ecsv"
    assert main([*search, own, f"--outputFstat={table}"]) == 0
    found = jfstat.read_candidates(table)
    assert [name for name in found.colnames if name.startswith("twoF_")] == ["twoF_H1", "twoF_Z3"]
    assert abs(found["freq"][0].to_value("Hz") - 60.02) < 2e-5
    predict = ["predict", "--Alpha=1.2", "--Delta=-0.4", "--h0=9e-25", "--cosi=0.4", "--assumeSqrtSX=4e-24"]
    capsys.readouterr()
    assert main([*predict, "--IFOs=Z3", own, f"--minStartTime={START}", "--duration=43200"]) == 0
    from_times = capsys.readouterr().out
    assert main([*predict, "--IFOs=Z3", own, f"--DataFiles={tmp_path}/sfts/*.sft", "--Freq=60.02"]) == 0
    assert capsys.readouterr().out == from_times
    noise = ["simulate", f"--outSFTdir={tmp_path}/more", f"--noiseSFTs={tmp_path}/sfts/*.sft", *signal]
    assert main([*noise, own]) == 0
    capsys.readouterr()
    for argv, message in (
        (noise, "the detector is none of"),
        ([*search, "--detectorFiles=Z3"], "--detectorFiles has 'Z3': give PREFIX=FILE"),
        ([*search, "--detectorFiles=Z3=absent.ifo"], "--detectorFiles: absent.ifo cannot be read"),
        ([*search, own + f",Z4={mine.path}"], "--detectorFiles has Z4, of which there are no SFTs, only of H1, Z3"),
        ([*simulate, "--IFOs=H1", own], "--detectorFiles has Z3, which --IFOs does not name"),
    ):
        assert main(argv) == 1
        assert message in capsys.readouterr().err


def test_files_of_the_einstein_telescope_that_lalsuite_wrote(tmp_path):
    """Two corners of the triangle; as built in and as one's own detectors from LALSuite's numbers."""
    if OLD_SITES:
        pytest.skip("this LALSuite has it elsewhere")
    fields = {
        "Alpha": 1.2,
        "Delta": -0.4,
        "Freq": 60.02,
        "f1dot": -1e-10,
        "refTime": START,
        "h0": 9e-25,
        "cosi": 0.4,
        "psi": 0.3,
    }
    run(
        "Makefakedata_v5", IFOs="E2,E3", startTime=START, duration=43200, fmin=58.9, Band=2.2, Tsft=1800.0,
        sqrtSX="4e-24,4e-24", randSeed=7, outSFTdir=tmp_path, outSingleSFT="true",
        injectionSources="{" + "; ".join(f"{key} = {value!r}" for key, value in fields.items()) + "}",
    )  # fmt: skip
    found = compute_fstatistic(tmp_path, DOPPLER, 0.0, 1e-6, "DemodGeneric", Dterms=300, assumeSqrtSX="4e-24,4e-24")
    own = [
        jfstat.Detector.from_geodetic(
            name,
            *(getattr(lal, f"ET{name[1]}_DETECTOR_{x}") for x in ("LONGITUDE_RAD", "LATITUDE_RAD", "ELEVATION_SI")),
            [getattr(lal, f"ET{name[1]}_DETECTOR_ARM_{arm}_AZIMUTH_RAD") for arm in "XY"],
            [getattr(lal, f"ET{name[1]}_DETECTOR_ARM_{arm}_ALTITUDE_RAD") for arm in "XY"],
        )
        for name in ("E2", "E3")
    ]
    values = []
    for detectors in (None, own):
        sfts = jfstat.read_sfts(tmp_path, detectors=detectors)
        values.append(float(jfstat.twoF(jfstat.prepare(sfts, 60.0, 60.04, sqrt_sx=4e-24), DOPPLER)))
    assert values[0] > 80
    assert values[0] == pytest.approx(found[0, 1], rel=0.02)
    assert values[1] == pytest.approx(values[0], rel=1e-6)
