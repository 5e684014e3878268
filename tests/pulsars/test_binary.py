"""Delays of binaries against the definitions of their parameters, evaluated apart; and entries that are impossible."""

import numpy as np
import pytest
from scipy.optimize import brentq
from solutions import ORBITS, solved

DAY = 86400.0
YEAR = 365.25 * DAY
MAS = np.radians(1e-3 / 3600) / YEAR
SUN = 4.925490947e-6
RNG = np.random.default_rng(0)


def uniform(low, high):
    return float(RNG.uniform(low, high))


def angles(since, asini, period, ecc, argp):
    """Eccentric anomaly and longitude of the true anomaly at times since periapsis, by bisection."""

    def roemer(e):
        return asini * (np.sin(argp) * (np.cos(e) - ecc) + np.cos(argp) * np.sqrt(1 - ecc**2) * np.sin(e))

    def equation(e, t):
        return e - ecc * np.sin(e) - 2 * np.pi * (t - roemer(e)) / period

    turns = [2 * np.pi * t / period for t in since]
    e = np.array([brentq(equation, x - 2, x + 2, args=(t,), xtol=1e-13) for t, x in zip(since, turns, strict=True)])
    return e, argp + 2 * np.arctan2(np.sqrt(1 + ecc) * np.sin(e / 2), np.sqrt(1 - ecc) * np.cos(e / 2)), roemer(e)


def times(days=30.0):
    return np.sort(RNG.uniform(0, days * DAY, 100))


@pytest.mark.parametrize("trial", range(4))
def test_deformation_and_aberration(trial):
    asini, days, ecc, om = uniform(0.5, 5), uniform(0.5, 3), uniform(0.05, 0.8), uniform(-180, 360)
    dr, dth, a0, b0 = uniform(-1e-3, 1e-3), uniform(-1e-3, 1e-3), uniform(-1e-3, 1e-3), uniform(-1e-3, 1e-3)
    orbit = dict(BINARY="DD", A1=repr(asini), PB=repr(days), T0="55000", ECC=repr(ecc), OM=repr(om))
    since, argp = times(), np.radians(om)
    e, seen, roemer = angles(since, asini, days * DAY, ecc, argp)
    np.testing.assert_allclose(solved(**orbit).binary.delay(since), roemer, atol=1e-9)
    aberration = a0 * (np.sin(seen) + ecc * np.sin(argp)) + b0 * (np.cos(seen) + ecc * np.cos(argp))
    own = solved(**orbit, A0=repr(a0), B0=repr(b0)).binary.delay(since)
    np.testing.assert_allclose(own - roemer, aberration, atol=1e-9)
    deformed = asini * np.sin(argp) * (np.cos(e) - ecc * (1 + dr))
    deformed += asini * np.cos(argp) * np.sqrt(1 - (ecc * (1 + dth)) ** 2) * np.sin(e)
    own = solved(**orbit, DR=repr(dr), DTH=repr(dth)).binary.delay(since)
    # the anomaly itself moves a little with DTH
    np.testing.assert_allclose(own, deformed, atol=3e-3 * 2 * np.pi * asini**2 / (days * DAY) / (1 - ecc))
    assert np.ptp(deformed - roemer) > 1e-5


@pytest.mark.parametrize("trial", range(3))
def test_harmonics_of_the_shapiro_delay(trial):
    h3, ratio, asini, days = uniform(1e-7, 1e-6), uniform(0.1, 0.9), uniform(0.5, 5), uniform(0.5, 3)
    orbit = dict(BINARY="ELL1H", A1=repr(asini), PB=repr(days), TASC="55000", EPS1="0", EPS2="0")
    since = times()
    _, phi, roemer = angles(since, asini, days * DAY, 0.0, 0.0)
    # Freire & Wex 2010, eq. 29, 28 and the first term of 19
    log = np.log(1 + ratio**2 - 2 * ratio * np.sin(phi))
    whole = -2 * h3 / ratio**3 * log
    rest = -2 * h3 / ratio**3 * (log + 2 * ratio * np.sin(phi) - ratio**2 * np.cos(2 * phi))
    for entries, wanted, most in (
        (dict(H3=repr(h3), STIG=repr(ratio)), whole, 1e-10),
        (dict(H3=repr(h3), STIGMA=repr(ratio)), whole, 1e-10),
        (dict(H3=repr(h3), H4=repr(h3 * ratio), NHARMS="60"), rest, 1e-9 + 10 * h3 * ratio**50),
        (dict(H3=repr(h3), H4=repr(h3 * ratio)), rest, 1e-9 + 3 * h3 * ratio**5),
        (dict(H3=repr(h3)), -4 / 3 * h3 * np.sin(3 * phi), 1e-9),
    ):
        own = solved(**orbit, **entries).binary.delay(since) - roemer
        assert np.ptp(own - wanted) < 2 * most
    assert np.ptp(whole) > h3


@pytest.mark.parametrize("model", ["ELL1", "DD", "BT"])
@pytest.mark.parametrize("trial", range(2))
def test_waves_of_the_orbit(model, trial):
    days, rate, n = uniform(0.3, 2), uniform(1e-8, 1e-7), 3
    pairs = RNG.uniform(-0.1, 0.1, (n, 2))
    entries = {"ORBWAVE_OM": repr(rate), "ORBWAVE_EPOCH": "55011.5", "PB": repr(days)}
    for k, (c, s) in enumerate(pairs):
        entries |= {f"ORBWAVEC{k}": repr(float(c)), f"ORBWAVES{k}": repr(float(s))}
    binary, plain = solved(model, **entries).binary, solved(model, PB=repr(days)).binary
    since = times(2000)
    t = since - 11.5 * DAY
    turns = sum(c * np.cos((k + 1) * rate * t) + s * np.sin((k + 1) * rate * t) for k, (c, s) in enumerate(pairs))
    # the same phase of the orbit as without waves at another time, but for the small change of the period
    np.testing.assert_allclose(binary.delay(since), plain.delay(since + turns * days * DAY), atol=1e-6)
    assert np.ptp(binary.delay(since) - plain.delay(since)) > 0.1
    # a template follows the mean phase for some days, and the error for a year is said
    pulsar = solved(model, **entries)
    start = float(binary.t0)
    assert pulsar.phase_error(start, start + YEAR)["binary"] > 1
    assert pulsar.phase_error(start, start + DAY)["binary"] < 0.05


@pytest.mark.parametrize("trial", range(3))
def test_a_small_eccentricity_turns_and_grows(trial):
    ecc, om, growth, turn = uniform(1e-5, 1e-3), uniform(0, 360), uniform(-0.1, 0.1), uniform(-60, 60)
    shape = dict(EPS1=repr(float(ecc * np.sin(np.radians(om)))), EPS2=repr(float(ecc * np.cos(np.radians(om)))))
    binary = solved("ELL1", **shape, BINARY="ELL1k", LNEDOT=repr(growth), OMDOT=repr(turn)).binary
    for years in (-2.0, 0.5, 4.0):
        own = binary.elements(np.array([years * YEAR]))
        assert own.ecc[0] == pytest.approx(ecc * (1 + growth * years), rel=1e-9)
        assert np.exp(1j * own.argp[0]) == pytest.approx(np.exp(1j * np.radians(om + turn * years)), abs=1e-9)


@pytest.mark.parametrize("coordinates", ["RA", "ELONG"])
@pytest.mark.parametrize("model", ["DDK", "T2"])
def test_proper_motion_turns_the_orbit(model, coordinates):
    """The orbit stands in space, and the line of sight turns (Kopeikin 1996)."""
    i, node = np.radians([uniform(20, 160), uniform(0, 360)])
    east, north = uniform(-300, 300), uniform(-300, 300)
    asini, days, om = uniform(1, 30), uniform(2, 60), uniform(0, 360)
    # angles of Damour & Taylor, from the east towards the north; the IAU's from the north, and from behind
    kin, kom = np.degrees([i, node]) if model == "DDK" else np.degrees([np.pi - i, np.pi / 2 - node])
    entries = dict(BINARY=model, A1=repr(asini), PB=repr(days), T0="55000", ECC="0.2", OM=repr(om))
    entries |= dict(KIN=repr(float(kin)), KOM=repr(float((kom + 360) % 360)))
    if coordinates == "RA":
        entries |= dict(PMRA=repr(east), PMDEC=repr(north))
    else:
        entries |= dict(RAJ="*", DECJ="*", ELONG="20", ELAT="30", PMELONG=repr(east), PMELAT=repr(north))
    since = times(3000)
    sight = np.array([0, 0, 1]) + np.outer(MAS * since, [east, north, 0])  # east, north, away
    ascending = np.array([np.cos(node), np.sin(node), 0])
    ahead = np.array([-np.cos(i) * np.sin(node), np.cos(i) * np.cos(node), np.sin(i)])
    argp = np.radians(om)
    e, _, _ = angles(since, asini, days * DAY, 0.2, argp)
    x, y = np.cos(e) - 0.2, np.sqrt(1 - 0.2**2) * np.sin(e)
    along, across = x * np.cos(argp) - y * np.sin(argp), x * np.sin(argp) + y * np.cos(argp)
    place = asini / np.sin(i) * (along[:, None] * ascending + across[:, None] * ahead)
    wanted = np.sum(place * sight, axis=1)
    difference = solved(**entries).binary.delay(since) - wanted
    still = solved(**entries, K96="0").binary.delay(since)
    assert np.max(np.abs(difference)) < 0.02 * np.max(np.abs(still - wanted))
    assert np.max(np.abs(still - wanted)) > 1e-6
    # as the orbit is, without and with the annual parallax that a template cannot follow
    error = solved(**entries, PX="2").phase_error(1e9, 1e9 + DAY)["parallax"]
    assert error > solved(PX="2").phase_error(1e9, 1e9 + DAY)["parallax"]


@pytest.mark.parametrize("model", ["BT", "DD", "ELL1"])
@pytest.mark.parametrize("trial", range(2))
def test_derivatives_of_the_orbital_frequency_beside_a_period(model, trial):
    days, fb1 = uniform(0.3, 3), uniform(-1e-19, 1e-19)
    entries = {"PB": repr(days), "FB1": repr(fb1)}
    assert solved(model, **entries).binary.frequencies == (1 / (days * DAY), fb1)
    both = solved(model, **entries, FB0=repr(1 / (days * DAY)))
    assert both.binary.frequencies == pytest.approx((1 / (days * DAY), fb1), rel=1e-12)
    for wrong, message in (
        (dict(FB0=repr(1.1 / (days * DAY))), "PB contradicts FB0"),
        (dict(PBDOT="1e-12"), "PBDOT is beside FB0 or FB1: leave it out"),
        (dict(FB13="1e-30"), "FB13 is beyond FB12"),
    ):
        with pytest.raises(ValueError, match=f"^x.par: {message}"):
            solved(model, **entries, **wrong)


@pytest.mark.parametrize(
    ("model", "entries", "message"),
    [
        *(("DD", {"M2": "0.3", "SINI": word}, "SINI is .*: give a number from 0 to 1") for word in ("1.2", "-1")),
        *(("DDH", {"H3": "1e-7", name: word}, f"STIG is '{word}': give a number from 0 to 1")
          for name in ("STIG", "STIGMA", "VARSIGMA") for word in ("-0.2", "1.5")),
        ("DDH", {"H3": "1e-7", "STIG": "0"}, "STIG is not positive"),
        ("DDH", {"H3": "1e-7"}, "STIG is missing: H3 needs it in a binary of the model DDH"),
        ("ELL1H", {"H3": "1e-7", "H4": "1e-8", "STIG": "0.3"}, "H4 is beside STIG"),
        ("ELL1H", {"H4": "1e-8"}, "H3 is missing or smaller than H4"),
        ("ELL1H", {"H4": "1e-8", "H3": "-1e-300"}, "H3 is missing or smaller than H4"),
        ("DD", {"M2": "0.3", "H3": "1e-7", "STIG": "0.4"}, "H3 and M2 give the Shapiro delay twice"),
        ("DDK", {"SINI": "0.5", "M2": "0.2"}, "SINI contradicts KIN"),
        ("DDK", {"KOM": "*"}, "KOM is missing"),
        ("DDK", {"KIN": "0"}, "KIN must be between 0 and 180 degrees"),
        ("DDK", {"K96": "maybe"}, "K96 is 'MAYBE': give 1 or 0"),
        ("DD", {"ECC": "1"}, "ECC must be below 1"),
        ("DD", {"ECC": "-0.1"}, "ECC is '-0.1'"),
        ("ELL1", {"EPS1": "0.9", "EPS2": "0.9"}, "ECC must be below 1"),
        ("ELL1", {"OM": "30"}, "OM contradicts EPS1 and EPS2"),
        ("ELL1", {"ECC": "1e-3"}, "ECC contradicts EPS1 and EPS2"),
        ("DD", {"A1": "9e4"}, "A1 is too large for an orbit of this period"),
        ("DD", {"A1": "-2"}, "A1 is '-2': give a number from 0"),
        ("BT", {"ORBWAVEC0": "0.1"}, "ORBWAVE_OM is missing: the orbit's waves need it"),
        ("BT", {"ORBWAVEC0": "0.1", "ORBWAVE_OM": "1e-8", "ORBWAVE_EPOCH": "55000"}, "ORBWAVES0 is missing"),
        ("BT", {"ORBWAVEC1": "1", "ORBWAVES1": "1", "ORBWAVE_OM": "1", "ORBWAVE_EPOCH": "5"}, "ORBWAVEC0 is missing"),
    ],
)  # fmt: skip
def test_impossible_orbits_are_refused(model, entries, message):
    with pytest.raises(ValueError, match=f"^x.par: {message}"):
        solved(model, **entries)


def test_orbits_that_change_until_there_is_none():
    for entries in ({"EDOT": "5e-8"}, {"XDOT": "-9e-8"}, {"FB1": "-1e-13"}):
        pulsar = solved("BT", **entries)
        start = float(pulsar.binary.t0)
        pulsar.doppler(start, start + DAY)
        with pytest.raises(ValueError, match="the orbit changes so much"):
            pulsar.doppler(start + 90 * YEAR, start + 91 * YEAR)


@pytest.mark.parametrize("name", ["GLPH", "GLF0", "GLF1", "GLF2", "GLF0D", "GLF0D2", "GLTD"])
def test_glitches_without_an_epoch(name):
    for number in ("1", "2", "17", "003"):
        key = f"{name}_{int(number)}"
        with pytest.raises(
            ValueError, match=f"^x.par: GLEP_{int(number)} is missing: give the epoch of the glitch of {key}"
        ):
            solved(**{f"{name}_{number}": "1e-7"})
    assert solved(**{f"{name}_1": "0.0"}) == solved()


@pytest.mark.parametrize("part", ["D", "D2", "D3"])
def test_decays_without_time_or_amplitude(part):
    f0d, gltd = f"GLF0{part}_4", f"GLTD{part[1:]}_4"
    for entries, missing, given in (
        ({f0d: "1e-7"}, gltd, f0d),
        ({f0d: "1e-7", gltd: "0"}, gltd, f0d),
        ({gltd: "20"}, f0d, gltd),
    ):
        with pytest.raises(ValueError, match=f"^x.par: {missing} is missing or 0: {given} needs it, or remove it"):
            solved(GLEP_4="55100", **entries)
    with pytest.raises(ValueError, match=f"^x.par: {gltd} is below 0.001 d: give the time of decay in days"):
        solved(GLEP_4="55100", **{f0d: "1e-7", gltd: "1e-300"})
    plain = solved(GLEP_4="55100")
    assert solved(GLEP_04="55100", **{f0d: "0", gltd: "20"}).glitches == plain.glitches
    (glitch, *rest) = solved(GLEP_4="55100", **{f0d: "1e-7", gltd: "20"}).glitches
    assert (glitch.decaying, glitch.tau, rest) == (1e-7, 20 * DAY, [])


def test_models_and_their_entries_are_all_tried():
    for model in ORBITS:
        assert solved(model).binary.model == model
