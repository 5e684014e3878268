"""Errors of .par files: what is read, what they change in a template, and as priors of a model."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import jfstat

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


@pytest.mark.parametrize(
    ("name", "moved"),
    [
        ("RAJ", "16:03:35.69751"),
        ("DECJ", "00:00:00.05"),
        ("PMRA", "-2.37"),
        ("F0", "67.3765811508911"),
        ("F1", "1.29048D-16"),
        ("PB", "6.3086306"),
        ("A1", "6.8806677"),
        ("TASC", "54500.12301"),
        ("EPS1", "1.61e-4"),
        ("EPS2", "-8.99e-4"),
    ],
)
def test_templates_are_those_of_files_with_other_entries(errors, pulsar, tmp_path, name, moved):
    centre = pulsar.doppler(START, START + DAY)
    other = read(tmp_path, **{name: moved}).doppler(START, START + DAY)
    one = np.where(np.array(errors.names) == name, np.asarray(errors.errors), 0.0)
    own = errors.point(centre, jnp.asarray(one))
    for parameter, low, high, found in zip(
        jfstat.signal.values.all_parameters(centre), *map(leaves, (centre, other, own)), strict=True
    ):
        step = high - low
        turn = {"argp": 2 * np.pi, "tp": float(centre.orbit.period)}.get(parameter, np.inf)
        step = step - turn * np.round(step / turn) if np.isfinite(turn) else step
        # an ELL1 orbit's periapsis is not linear in EPS1 and EPS2; times have 2e-7 s of rounding
        assert found - low == pytest.approx(step, rel=2e-2, abs=1e-12 * abs(low) + (3e-7 if parameter == "tp" else 0))


def leaves(point):
    names = jfstat.signal.values.all_parameters(point)
    return np.asarray(jfstat.signal.values.values(point, names))


def test_an_orbit_without_periapsis_keeps_its_phase(errors, pulsar):
    """EPS1 changes periapsis and time of periapsis together: at the time of ascending node nothing moves."""
    centre = pulsar.doppler(START, START + DAY)
    for name in ("EPS1", "EPS2"):
        row = dict(zip(errors.parameters, np.asarray(errors.steps[errors.names.index(name)]), strict=True))
        period = float(centre.orbit.period)
        # to first order of the eccentricity the mean longitude, argp + 2 pi (t - tp)/P, stays
        assert row["argp"] * period / (2 * np.pi) == pytest.approx(row["tp"], rel=1e-3)
        assert abs(row["argp"]) > 1e-4


def test_errors_are_read_where_they_stand(tmp_path):
    flags = read(tmp_path, F0="67.37 1", F1="-1e-15 2 1e-17", PB="6.3 1e-6  # fitted", A1="6.88 1 0", PMRA="1 0 0.5")
    found = jfstat.timing_errors(flags, START, START + DAY)
    known = dict(zip(found.names, np.asarray(found.errors), strict=True))
    assert "F0" not in known and "A1" not in known
    assert (known["F1"], known["PB"], known["PMRA"]) == (1e-17, 1e-6, 0.5)
    with pytest.raises(ValueError, match=r"line 7: F0 has the error '-1e-9': give a positive one"):
        read(tmp_path, F0="67.37 1 -1e-9")
    without = read(tmp_path, **{name: line.split()[0] for name, line in LINES.items()})
    with pytest.raises(ValueError, match=r"J1603\+0000 has no errors in its timing solution: a line of a .par"):
        jfstat.timing_errors(without, START, START + DAY)
    only_px = read(tmp_path, **{name: line.split()[0] for name, line in LINES.items() if name != "PX"})
    with pytest.raises(ValueError, match="no errors that change its template"):
        jfstat.timing_errors(only_px, START, START + DAY)
    still = read(tmp_path, PMRA="0 1 0.1")
    with pytest.raises(ValueError, match="has errors of pmra, but no value of it"):
        jfstat.timing_errors(still, START, START + DAY)


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
