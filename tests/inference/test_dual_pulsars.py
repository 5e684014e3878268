"""pulsar_posteriors with a DualHarmonicPrior: from a .par file and SFTs to limits of both amplitudes."""

from dataclasses import replace

import jax
import numpy as np
import pytest

import jfstat

pytestmark = pytest.mark.ci
START, SPAN = 1_167_458_304, 86400
NOISE = 4e-24
PAR = """PSRJ J1234-0010
RAJ 12:34:05.5
DECJ -00:10:20.1
F0 21.234567
F1 -3e-12
PEPOCH 57000
PX 2.0
EPHEM DE405
UNITS TDB
"""
TRUTH = jfstat.DualHarmonicAmplitude(c21=1.1e-24, c22=5e-25, cosi=0.3, psi=0.2, phi21=1.0, phi22=2.0)


@pytest.fixture(scope="module")
def pulsar(tmp_path_factory):
    path = tmp_path_factory.mktemp("par") / "star.par"
    path.write_text(PAR)
    return jfstat.read_par(path)


@pytest.fixture(scope="module")
def sfts(pulsar):
    signals = [(pulsar.doppler(harmonic=k), TRUTH.at_harmonic(k)) for k in (1, 2)]
    return jfstat.simulate_sfts(["H1", "L1"], START, SPAN, 19.5, 44.5, sqrt_sx=NOISE, signals=signals, seed=1)


@pytest.fixture(scope="module")
def found(sfts, pulsar):
    prior = jfstat.DualHarmonicPrior(c21=jfstat.Uniform(0, 1e-22), c22=jfstat.Uniform(0, 1e-22))
    return jfstat.pulsar_posteriors(sfts, pulsar, prior, sqrt_sx=NOISE, progress=False)


def test_both_amplitudes_and_their_phases_are_found(found, pulsar):
    row, posterior = found.table[0], found.posteriors[0]
    for name in ("c21", "c22"):
        density = getattr(posterior, name)
        truth = float(getattr(TRUTH, name))
        assert float(density.quantile(0.001)) < truth < float(density.quantile(0.999))
        assert float(row[f"{name}_limit"]) == pytest.approx(float(density.limit()))
        assert float(row[f"{name}_low"]) < truth < float(row[f"{name}_high"])
    assert float(row["h0_limit"]) == 2 * float(row["c22_limit"])
    assert float(row["twoF_21"]) > 40 and float(row["twoF"]) > 40
    shift = float(found.table.meta["reftime"]) - float(pulsar.epoch)
    assert float(row["freq"].value) == pytest.approx(2 * (21.234567 - 3e-12 * shift), rel=1e-12)
    # phases hold at the table's reference time
    phi = 2 * np.pi * np.polyval([-1.5e-12, 21.234567, 0.0], shift)
    samples = posterior.samples
    for k, name in ((1, "phi21"), (2, "phi22")):
        off = np.angle(np.exp(1j * (np.asarray(getattr(samples, name)) - float(getattr(TRUTH, name)) - k * phi)))
        assert abs(np.mean(off)) < 4 * np.std(off)
        assert np.std(off) < 0.6
    assert float(row["ellipticity_limit"]) > 0


def test_one_pulsar_is_that_of_its_narrow_data(found, sfts, pulsar):
    of = {}
    for k in (1, 2):
        point = pulsar.doppler(harmonic=k)
        data = jfstat.prepare(sfts, 21.234 * k - 0.01, 21.235 * k + 0.01, sqrt_sx=NOISE, ephemeris="DE405")
        of[k] = jfstat.narrow(data, point), point
    prior = jfstat.DualHarmonicPrior(c21=jfstat.Uniform(0, 1e-22), c22=jfstat.Uniform(0, 1e-22))
    own = jfstat.dual_harmonic_posterior(*of[1], *of[2], prior, key=jax.random.key(1))
    assert float(own.log_bstat) == pytest.approx(float(found.posteriors[0].log_bstat), abs=0.1)
    assert float(own.c21.limit()) == pytest.approx(float(found.table["c21_limit"][0]), rel=5e-3)
    with pytest.raises(ValueError, match="not twice the"):
        jfstat.dual_harmonic_posterior(*of[2], *of[2])
    right = of[2][1]
    for message, alpha, factor in (
        ("derivatives of the frequency that are not twice", 0.0, 1 + 1e-6),
        ("different positions or orbits", 1e-7, 1.0),
    ):
        wrong = jfstat.Doppler(right.alpha + alpha, right.delta, right.fkdot * np.array([1.0, factor]), pulsar.epoch)
        with pytest.raises(ValueError, match=message):
            jfstat.dual_harmonic_posterior(*of[1], of[2][0], wrong)
    with pytest.raises(ValueError, match="cosi=1 has no signal at the rotation frequency"):
        jfstat.DualHarmonicPrior(cosi=1.0)
    with pytest.raises(ValueError, match="harmonic is 3, but there are two parts"):
        TRUTH.at_harmonic(3)


def test_pulsars_outside_the_band_are_said(sfts, pulsar):
    prior = jfstat.DualHarmonicPrior()
    with pytest.raises(TypeError, match=r"prior must be a jfstat\.AmplitudePrior or a jfstat\.DualHarmonicPrior"):
        jfstat.pulsar_posteriors(sfts, pulsar, "flat")
    with pytest.raises(ValueError, match="prior has priors of one harmonic and of two"):
        jfstat.pulsar_posteriors(
            sfts, [pulsar, replace(pulsar, name="J0")], {pulsar.name: prior, "J0": jfstat.AmplitudePrior()}
        )
