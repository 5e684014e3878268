"""Errors of .par files: what is read, what they change in a template, and as priors of a model."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import jfstat
from jfstat.signal.reading import all_parameters
from jfstat.signal.values import values

START, DAY = 1_167_458_304, 86400
LINES = {
    "RAJ": "16:03:35.67751 1 0.02",
    "DECJ": "-00:00:00.05 1 0.1",
    "PMRA": "-2.47 1 0.1",
    "PX": "1.0 1 0.1",
    "POSEPOCH": "54500",
    "F0": "67.3765811408911 1 1e-8",
    "F1": "-7.0952D-17 1 2D-16",
    "PEPOCH": "54500",
    "BINARY": "ELL1",
    "PB": "6.3086296 1 1e-6",
    "A1": "6.8806577 1e-5",
    "TASC": "54500.123 1 1e-5",
    "EPS1": "1.6e-4 1 1e-6",
    "EPS2": "-9e-4 1 1e-6",
    "DM": "38.05 1 0.1",
}


def read(folder, **lines):
    path = folder / "star.par"
    path.write_text("PSRJ J1603+0000\n" + "".join(f"{k} {x}\n" for k, x in (LINES | lines).items() if x))
    return jfstat.read_par(path)


@pytest.fixture(scope="module")
def pulsar(tmp_path_factory):
    return read(tmp_path_factory.mktemp("par"))


@pytest.fixture(scope="module")
def errors(pulsar):
    return jfstat.timing_errors(pulsar, START, START + DAY)


def test_entries_with_an_error_that_change_the_template_are_taken(errors):
    assert errors.names == ("RAJ", "DECJ", "PMRA", "F0", "F1", "PB", "A1", "TASC", "EPS1", "EPS2")
    np.testing.assert_allclose(errors.errors, [0.02, 0.1, 0.1, 1e-8, 2e-16, 1e-6, 1e-5, 1e-5, 1e-6, 1e-6])
    assert "0.1 arcsec" in repr(errors)


MOVED = {
    "RAJ": "16:03:35.69751",
    "DECJ": "00:00:00.05",
    "PMRA": "-2.37",
    "F0": "67.3765811508911",
    "F1": "1.29048D-16",
    "PB": "6.3086306",
    "A1": "6.8806677",
    "TASC": "54500.12301",
    "EPS1": "1.61e-4",
    "EPS2": "-8.99e-4",
}
"""Entries one error larger."""


@pytest.mark.parametrize("name", MOVED)
def test_templates_are_those_of_files_with_other_entries(errors, tmp_path, name):
    other = read(tmp_path, **{name: MOVED[name]}).doppler(START, START + DAY)
    one = np.where(np.array(errors.names) == name, np.asarray(errors.errors), 0.0)
    own = errors.point(jnp.asarray(one))
    for low, high, found in zip(*map(numbers, (errors.centre, other, own)), strict=True):
        assert found - low == pytest.approx(high - low, rel=1e-4, abs=1e-13 * abs(low))
    np.testing.assert_allclose(delays(own) - delays(errors.centre), delays(other) - delays(errors.centre), atol=2e-8)


def numbers(point):
    """Parameters but those of the orbit."""
    names = [name for name in all_parameters(point) if name not in ("asini", "period", "tp", "ecc", "argp")]
    return np.asarray(values(point, names))


def delays(point):
    """Roemer delays of the orbit over a day, s."""
    orbit = jax.tree.map(np.asarray, point.orbit)
    t = START + np.linspace(0, DAY, 50)
    mean = 2 * np.pi * (t - orbit.tp) / orbit.period
    anomaly = mean
    for _ in range(60):
        anomaly = mean + orbit.ecc * np.sin(anomaly)
    x = np.sin(orbit.argp) * (np.cos(anomaly) - orbit.ecc)
    return orbit.asini * (x + np.cos(orbit.argp) * np.sqrt(1 - orbit.ecc**2) * np.sin(anomaly))


@pytest.mark.parametrize("eps", [(0.0, 0.0), (1e-7, 2e-6), (1e-4, 2e-4)])
@pytest.mark.parametrize("sign", [-2, 2])
def test_nearly_circular_orbits_have_errors_like_others(tmp_path, eps, sign):
    error = 1e-6 + max(eps)
    pulsar = read(tmp_path, EPS1=f"{eps[0]!r} 1 {error!r}", EPS2=f"{eps[1]!r} 1 {error!r}")
    errors = jfstat.timing_errors(pulsar, START, START + DAY)
    for name, value in zip(("EPS1", "EPS2"), eps, strict=True):
        other = read(tmp_path, **dict(EPS1=repr(eps[0]), EPS2=repr(eps[1])) | {name: repr(value + sign * error)})
        x = jnp.zeros(len(errors.names)).at[errors.names.index(name)].set(sign * error)
        expected = delays(other.doppler(START, START + DAY)) - delays(errors.centre)
        assert np.ptp(expected) > 1e-6
        # to second order of the eccentricity, and the rounding of times
        np.testing.assert_allclose(delays(errors.point(x)), delays(errors.centre) + expected, atol=3e-7)
    slopes = jax.jacfwd(lambda x: errors.point(x).orbit.asini + errors.point(x).orbit.period)(jnp.zeros_like(x))
    assert np.all(np.isfinite(slopes))


def test_large_errors_are_not_folded(tmp_path):
    """Steps are proportional to the errors, also where these are half a period or more."""
    wide = {"PB": (1e-9, 1e-5), "T0": (1e-6, 4.0), "OM": (1e-3, 190.0)}
    dd = {"BINARY": "DD", "TASC": None, "EPS1": None, "EPS2": None, "ECC": "0.1", "PB": "0.1", "A1": "0.1"}
    dd |= {"T0": "54500.1", "OM": "30"}
    for name, (small, large) in wide.items():
        found = [
            jfstat.timing_errors(read(tmp_path, **dd | {name: f"{dd[name]} 1 {error}"}), START, START + DAY)
            for error in (small, large)
        ]
        steps = [np.asarray(x.steps[x.names.index(name)]) for x in found]
        np.testing.assert_allclose(steps[1], steps[0] * (large / small), rtol=0.02)
        assert np.max(np.abs(steps[1])) > 0


def test_errors_are_read_where_they_stand(tmp_path):
    flags = read(tmp_path, F0="67.37 1", F1="-1e-15 2 1e-17", PB="6.3 1e-6  # fitted", A1="6.88 1 0", PMRA="1 0 0.5")
    found = jfstat.timing_errors(flags, START, START + DAY)
    known = dict(zip(found.names, np.asarray(found.errors), strict=True))
    assert "F0" not in known and "A1" not in known
    assert (known["F1"], known["PB"], known["PMRA"]) == (1e-17, 1e-6, 0.5)
    for line in ("67.37 # 3e-8 once", "67.37 # 5 sigma", "67.37 1 # -3 was wrong", "67.37 1.0", "67.37 2 0.0"):
        assert "F0" not in read(tmp_path, F0=line).entries.errors
    for word in ("-1e-9", "1e999", "inf", "NaN"):
        with pytest.raises(ValueError, match=rf"line \d+: F0 has the error '{word}': give a positive, finite one"):
            read(tmp_path, F0=f"67.37 1 {word}")
    without = {name: line.split()[0] for name, line in LINES.items()}
    for pulsar in (read(tmp_path, **without), read(tmp_path, **without | {"PX": "1.0 1 0.1"})):
        with pytest.raises(ValueError, match=r"J1603\+0000 has no errors that change its template: they are read from"):
            jfstat.timing_errors(pulsar, START, START + DAY)


def test_entries_of_zero_may_have_an_error(tmp_path):
    found = jfstat.timing_errors(read(tmp_path, PMRA="0 1 0.1", PMDEC="0"), START, START + DAY)
    assert found.centre.motion is not None
    x = jnp.where(jnp.array([name == "PMRA" for name in found.names]), 0.1, 0.0)
    assert float(found.point(x).motion[0]) == pytest.approx(0.1 / 3.6e6 * np.pi / 180 / (365.25 * DAY), rel=1e-3)


@pytest.mark.ci
def test_errors_are_priors_of_a_model(tmp_path):
    isolated = dict.fromkeys(("BINARY", "PB", "A1", "TASC", "EPS1", "EPS2", "PMRA", "PX"))
    fixed = {"RAJ": "16:03:35.67751", "DECJ": "-00:00:00.05", "PEPOCH": "57757", "F1": "-1e-15"}
    error = 2e-6
    pulsar = read(tmp_path, **isolated, **fixed, F0=f"67.37 1 {error}")
    point, truth = pulsar.doppler(), read(tmp_path, **isolated, **fixed, F0="67.3700015").doppler()
    signal = [(truth, jfstat.Amplitude(h0=6e-25, cosi=0.3, psi=0.2, phi0=1.0))]
    sfts = jfstat.simulate_sfts(["H1"], START, DAY, 133.7, 135.8, sqrt_sx=4e-24, signals=signal, seed=1)
    near = jfstat.narrow(jfstat.prepare(sfts, 134.73, 134.75, sqrt_sx=4e-24), point)
    errors = jfstat.timing_errors(pulsar)
    assert errors.names == ("F0",)
    np.testing.assert_array_equal(errors.centre.fkdot, point.fkdot)
    prior = jfstat.AmplitudePrior(h0=jfstat.HalfNormal(1e-24))
    model = jfstat.model(near, point, errors, prior)
    assert model.names == ("F0",)
    x = jnp.array([0.8 * error])
    at = jfstat.Doppler(point.alpha, point.delta, point.fkdot.at[0].add(2 * x[0]), point.reftime)
    assert float(model.log_likelihood(x)) == pytest.approx(float(jfstat.log_bstat(near, at, prior)), abs=1e-6)
    assert float(model.prior_transform(jnp.array([0.8413447]))[0]) == pytest.approx(error, rel=1e-5)
    grid = jnp.linspace(-4, 4, 801)[:, None] * error
    posterior = jax.jit(jax.vmap(model.log_posterior))(grid)
    weight = np.exp(posterior - logsumexp(posterior))
    mean = float(np.sum(weight * np.asarray(grid[:, 0])))
    spread = float(np.sqrt(np.sum(weight * (np.asarray(grid[:, 0]) - mean) ** 2)))
    assert spread < 0.5 * error
    assert abs(mean - 1.5e-6) < 4 * spread
    x, step = jnp.array([mean + 2 * spread]), 0.1 * spread
    slope = jax.grad(model.log_posterior)(x)
    expected = (model.log_posterior(x + step) - model.log_posterior(x - step)) / (2 * step)
    assert float(slope[0]) == pytest.approx(float(expected), rel=1e-2)
    # the same signal, of another reference time: errors of F0 and F1 would mean others
    later = jfstat.Doppler(
        point.alpha, point.delta, point.fkdot + jnp.array([2 * -1e-15 * 100.0, 0.0]), point.reftime + 100.0
    )
    with pytest.raises(ValueError, match="point is not the template whose errors are the priors"):
        jfstat.model(near, later, errors, prior)


@pytest.mark.parametrize("rate", ["0", "1e-23", "1e-21", "1e-20", "1e-18"])
@pytest.mark.parametrize(("name", "error"), [("FB1", 1e-19), ("FB2", 1e-27)])
def test_derivatives_of_the_orbital_frequency_may_have_any_size(tmp_path, name, error, rate):
    """Relative to a small value, a step would be less than times in float64 tell."""
    binary = {"PB": None, "FB0": "5.84e-05", "A1": "1.3433", "EPS1": "0", "EPS2": "0", "FB1": "0"}
    value = str(float(rate) * 1e-8) if name == "FB2" else rate
    pulsar = read(tmp_path, **binary | {name: f"{value} 1 {error}"})
    found = jfstat.timing_errors(pulsar, START, START + DAY)
    steps = dict(zip(found.coordinates, np.asarray(found.steps[found.names.index(name)]), strict=True))
    since = float(found.centre.orbit.tp - pulsar.binary.t0)
    n = int(name[2:]) + 1
    assert steps["ascending"] == pytest.approx(-error * since**n / math.factorial(n) / 5.84e-05, rel=2e-3)
