"""Detectors, delays to the SSB, orbits and antenna patterns against LALSuite."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lalsuite_tools import OLD_SITES, ephemeris, gps_vector, lal, lalpulsar, random_sky, site, sky

from jfstat.geometry.antenna import harmonics, pattern_coefficients
from jfstat.geometry.barycenter import SUN_RADIUS, Direction, ssb_delay
from jfstat.geometry.detectors import DETECTORS, get_detector
from jfstat.geometry.ephemeris import ephemeris_files, load_ephemeris
from jfstat.geometry.orbit import emission_time, orbit_speed
from jfstat.geometry.trajectory import detector_trajectory
from jfstat.maths.vectors import unit_vector
from jfstat.signal.templates import Orbit
from jfstat.signal.values import with_fields

GROUND = ["H1", "L1", "V1", "K1", "G1"]
FIRST, LAST = 662688018, 1892800000  # 2001 to 2039: the ephemerides' tables cover 2000 to 2039
# LALSuite's second-order Taylor expansion from the nearest row of the Earth's table (2 h) errs by up to 3.1e-8 s; its
# nearest row is the only thing in which it differs from a smooth interpolation
TAYLOR = 3.1e-8
# what float64 leaves of 500 s, and of the sidereal time since 2000 (2e5 rad) times the Earth's radius (0.02 s)
ARITHMETIC = 5e-12
SIDEREAL = 1e-10  # rad


@cache
def earth_and_sun(name, epoch):
    return load_ephemeris(name, epoch - 40000, epoch + 140000, epoch)


@pytest.mark.parametrize("prefix", [prefix for prefix in DETECTORS if prefix not in ("C2", "C4")])
def test_detectors_are_lalsuites(prefix):
    if prefix == "I1" and OLD_SITES:
        pytest.skip("this LALSuite has it elsewhere")
    detector = get_detector(prefix)
    theirs = next(d for d in lal.CachedDetectors if d.frDetector.name == detector.name)
    np.testing.assert_array_equal(detector.location, theirs.location)
    # LALSuite computes the tensor from float32 angles (of up to 5.8 rad, 2.4e-7) and keeps it in float32
    np.testing.assert_allclose(detector.response, theirs.response, rtol=0, atol=3e-7)


def lal_delay(time, alpha, delta, prefix, tables):
    """SSB delay and geocentre of LALSuite at a pair (s, ns)."""
    gps = lal.LIGOTimeGPS(*time)
    earth, source, emission = lalpulsar.EarthState(), lalpulsar.BarycenterInput(), lalpulsar.EmissionTime()
    lalpulsar.BarycenterEarth(earth, gps, tables)
    source.tgps, source.alpha, source.delta, source.dInv = gps, alpha, delta, 0.0
    source.site = lal.Detector()
    source.site.location = np.array(site(prefix).location) / lal.C_SI
    lalpulsar.Barycenter(emission, source, earth)
    return emission.deltaT, np.array(earth.posNow), np.array(earth.gmstRad)


def check_delays(rows):
    delay, without_taylor, sidereal = np.abs(rows).max(axis=0)
    assert delay < TAYLOR
    assert without_taylor < ARITHMETIC
    assert sidereal < SIDEREAL


def compare_delays(name, epoch, prefix, times, skies):
    """Difference of the delays, the same with LALSuite's Earth in place of ours, and that of sidereal time: (n, 3)."""
    tables = earth_and_sun(name, epoch)
    trajectory = detector_trajectory(get_detector(prefix), tables, -9000.0, 100000.0)
    seconds = np.array([s + 1e-9 * ns for s, ns in times])
    state = trajectory(jnp.asarray(seconds))
    rows = []
    for i, ((s, ns), direction) in enumerate(zip(times, skies, strict=True)):
        n = unit_vector(*jnp.asarray(direction))
        ours = float(ssb_delay(jax.tree.map(lambda x, i=i: x[i], state), seconds[i], Direction(n, None, 0.0)))
        theirs, earth, gmst = lal_delay((epoch + s, ns), *direction, prefix, ephemeris(name))
        taylor = (earth - tables.earth(seconds[i])) @ np.asarray(n)
        turn = np.angle(np.exp(1j * (float(state.sidereal[i]) - gmst)))
        rows.append([ours - theirs, ours + taylor - theirs, turn])
    return np.array(rows)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("DE200", marks=pytest.mark.slow),
        pytest.param("DE405", marks=pytest.mark.ci),
        pytest.param("DE440", marks=pytest.mark.ci),
    ],
)
def test_delays_to_the_ssb_are_lalsuites(name):
    try:
        ephemeris_files(name)
    except ValueError:
        pytest.skip("these ephemerides came with solar_system_ephemerides 1.1")
    rng = np.random.default_rng([1, *name.encode()])
    rows = []
    for epoch in rng.integers(FIRST, LAST, 6):
        for prefix in GROUND:
            times = [(int(rng.integers(0, 90000)), int(rng.integers(0, 10**9))) for _ in range(4)]
            rows.append(compare_delays(name, int(epoch), prefix, times, [random_sky(rng) for _ in times]))
    check_delays(np.concatenate(rows))


@pytest.mark.parametrize("leap", [820108814, 1025136016, 1167264018])
def test_delays_across_leap_seconds_are_lalsuites(leap):
    epoch = leap - 30000
    times = [(30000 + int(np.floor(t)), int(t % 1 * 1e9)) for t in (-2e4, -7199.5, -1.5, 0, 0.5, 1, 5000, 9e3)]
    rng = np.random.default_rng(leap)
    check_delays(compare_delays("DE405", epoch, "L1", times, [random_sky(rng) for _ in times]))
    # 23:59:60 itself: LALSuite turns the Earth back by a second at its start, jfstat at its end
    within = compare_delays("DE405", epoch, "L1", [(29999, 5 * 10**8)], [(1.0, 0.5)])
    assert abs(within[0, 0]) < 2e-6


@pytest.mark.parametrize("impact", [0.02, 0.3, 0.7, 0.98, 1.02, 1.5, 30.0])
@pytest.mark.parametrize("gps", [700000000, 1187000000, 1850000000])
def test_shapiro_delay_through_and_around_the_sun_is_lalsuites(gps, impact):
    tables = earth_and_sun("DE405", gps)
    sun = (tables.sun(50000.0) - tables.earth(50000.0)).ravel()
    distance = np.linalg.norm(sun)
    aside = np.cross(sun, [0.3, -0.5, 0.8])
    n = sun / distance + aside / np.linalg.norm(aside) * impact * SUN_RADIUS / distance
    n /= np.linalg.norm(n)
    direction = (float(np.arctan2(n[1], n[0])), float(np.arcsin(n[2])))
    behind = (float(np.arctan2(-n[1], -n[0])), float(np.arcsin(-n[2])))
    check_delays(compare_delays("DE405", gps, "H1", [(50000, 0)] * 2, [direction, behind]))


def ssb_times(prefix, times, direction, reference):
    """SSBtimes of LALSuite at detector times, without orbit."""
    states = lalpulsar.GetDetectorStates(gps_vector(times), site(prefix), ephemeris(), 0.0)
    return lalpulsar.GetSSBtimes(states, sky(*direction), lal.LIGOTimeGPS(reference), lalpulsar.SSBPREC_RELATIVISTIC)


@pytest.mark.parametrize("asini", [0.01, 1.44, 40.0])
@pytest.mark.parametrize("period", [7200.0, 68023.7, 3e6])
@pytest.mark.parametrize("ecc", [0.0, 0.35, 0.8])
def test_emission_times_from_orbits_are_lalsuites(asini, period, ecc):
    rng = np.random.default_rng(int(1000 * asini + period + 10 * ecc))
    reference = 1100000000
    single = ssb_times("L1", [(reference + 3571 * k, 0) for k in range(200)], random_sky(rng), reference)
    tp, argp = reference + float(round(rng.uniform(-period, period))), rng.uniform(0, 2 * np.pi)
    doppler = lalpulsar.PulsarDopplerParams()
    doppler.asini, doppler.period, doppler.ecc, doppler.argp = asini, period, ecc, argp
    doppler.tp = lal.LIGOTimeGPS(tp)
    # the higher the frequency, the closer LALSuite solves Kepler's equation: 1e-3/(f period) rad
    f = 1e9 / period
    fkdot = doppler.fkdot
    fkdot[0] = f
    doppler.fkdot = fkdot
    binary = lalpulsar.AddBinaryTimes(single, doppler)
    t_ssb = np.array(single.DeltaT.data)
    orbit = Orbit(asini, period, tp, ecc, argp)
    ours = emission_time(with_fields(orbit, tp=orbit.tp - reference), jnp.asarray(t_ssb))
    # the rounding of 7e5 s, and of LALSuite's GPS times in one float64 (2.4e-7 s) times the speed over c at periapsis
    tolerance = 2e-10 + 2.4e-7 * float(orbit_speed(orbit))
    np.testing.assert_allclose(ours, binary.DeltaT.data, rtol=0, atol=tolerance)


@pytest.mark.parametrize("prefix", GROUND)
def test_antenna_patterns_are_lalsuites(prefix):
    rng = np.random.default_rng([2, *prefix.encode()])
    detector = get_detector(prefix)
    exact, table = 0.0, 0.0
    for epoch in rng.integers(FIRST, LAST, 4):
        trajectory = detector_trajectory(detector, earth_and_sun("DE405", int(epoch)), -9000.0, 100000.0)
        offsets = rng.integers(0, 86400, 20)
        times = gps_vector([(epoch + s, 0) for s in offsets])
        states = lalpulsar.GetDetectorStates(times, site(prefix), ephemeris(), 0.0)
        h = np.asarray(harmonics(trajectory(jnp.asarray(offsets, float)).sidereal))
        for alpha, delta in [random_sky(rng) for _ in range(10)] + [(0.0, np.pi / 2), (1.0, -np.pi / 2)]:
            ours = np.stack([h @ x for x in pattern_coefficients(jnp.asarray(detector.response), alpha, delta)])
            coefficients = lalpulsar.ComputeAMCoeffs(states, sky(alpha, delta))
            table = max(table, np.abs(ours - [coefficients.a.data, coefficients.b.data]).max())
            theirs = [
                lalpulsar.ComputeAntennaPatternCoeffs(sky(alpha, delta), t, site(prefix), ephemeris())
                for t in times.data
            ]
            exact = max(exact, np.abs(ours.T - theirs).max())
    # in float64, but from the float32 detector tensor
    assert exact < 5e-7
    # in float32, with sines and cosines from a table (XLALSinCosLUT)
    assert table < 1e-5
