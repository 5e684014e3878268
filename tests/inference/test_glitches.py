"""pulsar_posteriors of pulsars that glitch during the data: the parts are added up with the solution's phases."""

from math import factorial

import astropy.units as u
import numpy as np
import pytest

import jfstat

START, DAY = 1_167_458_304, 86400
NOISE = 4e-24
F0, F1 = 21.25, -3e-11
STEPS = {"GLPH": 0.31, "GLF0": 4e-6, "GLF1": -2e-12}
PAR = """PSRJ J1000+1000
RAJ 10:00:00
DECJ 10:00:00
F0 {F0}
F1 {F1}
PEPOCH 57750.0
PX 1.0
GLEP_1 57757.1
GLPH_1 {GLPH}
GLF0_1 {GLF0}
GLF1_1 {GLF1}
"""
AMPLITUDE = jfstat.Amplitude(h0=8e-25, cosi=0.4, psi=0.3, phi0=1.0)


def pulsar_of(folder, **changes):
    path = folder / "glitching.par"
    path.write_text(PAR.format(F0=F0, F1=F1, **STEPS | changes))
    return jfstat.read_par(path)


def phase(spins, since):
    """Cycles after a time in which the frequency has given derivatives."""
    return sum(f * since ** (k + 1) / factorial(k + 1) for k, f in enumerate(spins))


@pytest.fixture(scope="module")
def pulsar(tmp_path_factory):
    return pulsar_of(tmp_path_factory.mktemp("par"))


def templates(pulsar, harmonic):
    """The templates before and after the glitch, and the phases at their reference times, in rad.

    The phase is followed from the epoch to the glitch, where it steps by GLPH.
    """
    epoch, glitch = pulsar.epoch, pulsar.glitches[0].time
    since = float(glitch - epoch)
    after = [F0 + F1 * since + STEPS["GLF0"], F1 + STEPS["GLF1"]]
    before = jfstat.Doppler(pulsar.alpha, pulsar.delta, [harmonic * F0, harmonic * F1], epoch)
    jumped = jfstat.Doppler(pulsar.alpha, pulsar.delta, [harmonic * x for x in after], glitch)
    return before, jumped, 2 * np.pi * harmonic * ((phase([F0, F1], since) + STEPS["GLPH"]) % 1)


def simulated(pulsar, amplitudes, fmin, fmax):
    """SFTs before and after the glitch, with signals of given amplitudes by their harmonics."""
    glitch = float(pulsar.glitches[0].time)
    parts = []
    for i, (first, last) in enumerate(((START, glitch - 1000), (glitch + 1000, START + 2 * DAY))):
        signals = []
        for harmonic, own in amplitudes.items():
            *points, angle = templates(pulsar, harmonic)
            signals.append((points[i], jfstat.Amplitude(own.h0, own.cosi, own.psi, own.phi0 + i * angle)))
        times = int(first), (last - first) // 1800 * 1800
        parts.append(jfstat.simulate_sfts(["H1", "L1"], *times, fmin, fmax, sqrt_sx=NOISE, signals=signals, seed=i))
    return jfstat.join_sfts(parts)


@pytest.fixture(scope="module")
def sfts(pulsar):
    return simulated(pulsar, {2: AMPLITUDE}, 2 * F0 - 1.3, 2 * F0 + 1.3)


@pytest.fixture(scope="module")
def found(pulsar, sfts):
    return jfstat.pulsar_posteriors(sfts, pulsar, sqrt_sx=NOISE, progress=False)


def test_parts_add_up_in_phase(found, pulsar, sfts):
    row, (posterior,) = found.table[0], found.posteriors
    each = jfstat.search_pulsars(sfts, pulsar, sqrt_sx=NOISE, progress=False)
    assert (len(found.table), len(each)) == (1, 2)
    # the rest is noise: of eight degrees of freedom in two parts, four in one
    assert float(row["twoF"]) == pytest.approx(float(np.sum(each["twoF"])) - 4, abs=12)
    for name in ("H1", "L1"):
        assert float(row[f"twoF_{name}"]) == pytest.approx(float(np.sum(each[f"twoF_{name}"])) - 4, abs=12)
    assert (row["start"], row["end"]) == (each["start"][0], each["end"][1])
    assert row["freq"] == each["freq"][0]
    assert row["h0_error"] < 0.8 * min(each["h0_error"])
    for name, unit in (("h0", ""), ("cosi", ""), ("psi", "rad")):
        value, error = (u.Quantity(row[column]).to_value(unit) for column in (name, f"{name}_error"))
        assert abs(value - float(getattr(AMPLITUDE, name))) < 4 * error
    assert float(posterior.h0_quantile(1e-4)) < float(AMPLITUDE.h0) < float(posterior.h0_quantile(1 - 1e-4))
    assert float(row["log_bstat"]) > 0.5 * float(row["twoF"]) - 15


def test_the_phase_is_that_before_the_glitch(found, pulsar):
    before, _, _ = templates(pulsar, 2)
    row = found.table[0]
    # phi0 of the table holds at its reference time
    cycles = phase([2 * F0, 2 * F1], float(found.table.meta["reftime"]) - float(before.reftime))
    expected = float(AMPLITUDE.phi0) + 2 * np.pi * (cycles % 1)
    off = (row["phi0"].to_value("rad") - expected + np.pi) % (2 * np.pi) - np.pi
    assert abs(off) < 4 * row["phi0_error"].to_value("rad")


def test_another_step_of_the_phase_loses_the_signal(found, sfts, tmp_path):
    other = pulsar_of(tmp_path, GLPH=STEPS["GLPH"] + 0.25)  # half a cycle at twice the frequency
    lost = jfstat.pulsar_posteriors(sfts, other, sqrt_sx=NOISE, progress=False)
    assert float(lost.table["twoF"][0]) < 0.5 * float(found.table["twoF"][0])


@pytest.mark.slow
def test_an_error_of_the_step_frees_the_phase(found, sfts, tmp_path):
    wrong = pulsar_of(tmp_path, GLPH=f"{STEPS['GLPH'] + 0.25} 1 0.5")
    free = jfstat.pulsar_posteriors(sfts, wrong, sqrt_sx=NOISE, progress=False)
    row, known = free.table[0], found.table[0]
    assert float(row["twoF"]) < 0.5 * float(known["twoF"])  # at the template of the file
    assert float(row["timing_mismatch"]) == pytest.approx(0.5, abs=0.1)  # of parts of equal length
    assert float(row["h0_limit"]) == pytest.approx(float(known["h0_limit"]), rel=0.05)
    # a phase of which two parts in 2 pi are right, at half the standard error from the file's
    assert float(known["log_bstat"]) - 6 < float(row["log_bstat"]) < float(known["log_bstat"])


@pytest.mark.slow
def test_both_harmonics_add_up_in_phase(pulsar):
    truth = jfstat.DualHarmonicAmplitude(c21=4e-25, c22=1.5e-25, cosi=0.3, psi=0.2, phi21=1.0, phi22=2.0)
    sfts = simulated(pulsar, {k: truth.at_harmonic(k) for k in (1, 2)}, F0 - 1.3, 2 * F0 + 1.3)
    prior = jfstat.DualHarmonicPrior(c21=jfstat.Uniform(0, 1e-22), c22=jfstat.Uniform(0, 1e-22))
    found = jfstat.pulsar_posteriors(sfts, pulsar, prior, sqrt_sx=NOISE, progress=False)
    (row,), (posterior,) = found.table, found.posteriors
    band = jfstat.PulsarBand(harmonic=1)
    each = jfstat.search_pulsars(sfts, pulsar, band, sqrt_sx=NOISE, progress=False)
    assert float(row["twoF_21"]) == pytest.approx(float(np.sum(each["twoF"])) - 4, abs=12)
    for name in ("c21", "c22"):
        density = getattr(posterior, name)
        assert float(density.quantile(1e-4)) < float(getattr(truth, name)) < float(density.quantile(1 - 1e-4))
    cycles = phase([F0, F1], float(found.table.meta["reftime"]) - float(pulsar.epoch))
    for k, name in ((1, "phi21"), (2, "phi22")):
        off = getattr(posterior.samples, name) - float(getattr(truth, name)) - 2 * np.pi * ((k * cycles) % 1)
        off = np.angle(np.exp(1j * np.asarray(off)))
        assert abs(np.mean(off)) < 4 * np.std(off)
        assert np.std(off) < 0.6


@pytest.mark.ci
def test_a_pulsar_given_twice_and_a_population(found, pulsar, sfts):
    twice = jfstat.pulsar_posteriors(sfts, [pulsar, pulsar], sqrt_sx=NOISE, progress=False)
    np.testing.assert_allclose(twice.table["twoF"], float(found.table["twoF"][0]), rtol=1e-6)
    stars = jfstat.ellipticity_likelihoods(found)
    assert stars.names == (pulsar.name,)
    with pytest.raises(ValueError, match="J1000\\+1000 has several rows: give each pulsar once"):
        jfstat.ellipticity_likelihoods(twice)


def test_phases_of_glitches_are_integrals_of_the_frequency(tmp_path):
    path = tmp_path / "decaying.par"
    path.write_text(PAR.format(F0=F0, F1=F1, **STEPS) + "GLF0D_1 3e-6\nGLTD_1 0.4\n")
    pulsar = jfstat.read_par(path)
    glitch = pulsar.glitches[0].time
    start, end = glitch + 0.2 * DAY, glitch + 0.3 * DAY
    point = pulsar.doppler(start, end, harmonic=1)
    at = START + 100.0
    cycles = pulsar.glitch_cycles(start, end, jfstat.GPSTime(at, 0.0))
    # the template's phase is zero at `at`; the solution's is followed from the epoch through the glitch
    t = float(start - glitch) + 3000.0
    decay = 3e-6 * 0.4 * DAY * (1 - np.exp(-t / (0.4 * DAY)))
    solution = STEPS["GLPH"] + STEPS["GLF0"] * t + 0.5 * STEPS["GLF1"] * t**2 + decay
    fkdot = np.asarray(point.fkdot) - np.pad([F0, F1], (0, len(point.fkdot) - 2))
    template = phase(fkdot, float(glitch - pulsar.epoch) + t) - phase(fkdot, at - float(pulsar.epoch))
    assert template + cycles == pytest.approx(solution, abs=2e-6)
