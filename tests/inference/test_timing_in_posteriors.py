"""pulsar_posteriors integrate over the errors of .par files: beside sums over the parameters themselves."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import logsumexp
from scipy.stats import norm

import jfstat
from jfstat.inference.pulsarlikelihoods import measured
from jfstat.inference.timingdraws import timing_draws
from jfstat.pulsars.timingerrors import errors_of, moved_errors, phase_steps, with_room
from jfstat.searching.knownpulsars import PulsarBand, moved_to, pulsar_search
from jfstat.signal.reading import all_parameters, value
from jfstat.signal.times import GPSTime

START, DAY = 1_167_458_304, 86400
SPAN = 2 * DAY
NOISE = 4e-24
SOLUTION = {
    "PSRJ": "J1000+1000",
    "RAJ": "10:00:00",
    "DECJ": "10:00:00",
    "F0": "21.25",
    "F1": "-3e-11",
    "PEPOCH": "57700.0",
    "PX": "1.0",
}
AMPLITUDE = jfstat.Amplitude(h0=2.5e-25, cosi=0.4, psi=0.3, phi0=1.0)
ERROR = 1.5e-6
"""Of F0 in files, Hz, which loses 0.4 of rho^2 on average."""


def read(folder, **entries):
    path = folder / "star.par"
    path.write_text("\n".join(f"{name} {x}" for name, x in (SOLUTION | entries).items()))
    return jfstat.read_par(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("par")


@pytest.fixture(scope="module")
def truth(folder):
    return read(folder)


@pytest.fixture(scope="module")
def centre(truth):
    return truth.doppler(START, START + SPAN)


def simulated(centre, amplitude, seed=1):
    return jfstat.simulate_sfts(
        ["H1", "L1"], START, SPAN, 41.2, 43.8, sqrt_sx=NOISE, signals=[(centre, amplitude)], seed=seed
    )


@partial(jax.jit, compiler_options={"xla_backend_optimization_level": 2})
def log_bstats(near, points, prior):
    """Compiled as users do, since it runs for longer than it is compiled."""
    return jax.lax.map(lambda own: jfstat.log_bstat(near, own, prior), points, batch_size=8)


def terms_over_frequency(sfts, pulsar, priors, x, error=ERROR):
    """Logarithms of Bayes factors for each of several priors, by sums over F0 at x errors from the file's."""
    point = pulsar.doppler(START, START + SPAN)
    data = jfstat.prepare(sfts, 42.4, 42.6, sqrt_sx=NOISE)
    near = jfstat.narrow(data, point, reach=max(2e-4, 12 * error))
    log_weight = norm.logpdf(x) + np.log(x[1] - x[0])
    fkdot = jnp.stack([point.fkdot.at[0].add(2 * error * y) for y in x])
    sky = (jnp.full(len(x), jnp.float64(y)) for y in (point.alpha, point.delta))
    points = jfstat.Doppler(*sky, fkdot, point.reftime)
    return [float(logsumexp(log_weight + log_bstats(near, points, prior))) for prior in priors]


@pytest.mark.slow
@pytest.mark.parametrize(("h0", "low", "high"), [(0.0, -4.0, 4.0), (8e-25, -1.6, -0.8)])
def test_errors_of_the_frequency_beside_a_sum(centre, folder, h0, low, high):
    sfts = simulated(centre, jfstat.Amplitude(h0, 0.4, 0.3, 1.0))
    pulsar = read(folder, F0=f"{21.25 + 1.2 * ERROR!r} 1 {ERROR}")
    found = jfstat.pulsar_posteriors(sfts, pulsar, sqrt_sx=NOISE, progress=False)
    (row,), (posterior,) = found.table, found.posteriors
    limit = float(row["h0_limit"])
    flat = [jfstat.AmplitudePrior(h0=jfstat.Uniform(0.0, high)) for high in (limit, 10 * limit)]
    log_bstat, *below = terms_over_frequency(sfts, pulsar, [jfstat.AmplitudePrior(), *flat], np.linspace(low, high, 24))
    assert float(row["log_bstat"]) == pytest.approx(log_bstat, abs=0.15)
    # the probability below the limit: the integral of the likelihood up to it, over that of all
    assert np.exp(below[0] - below[1]) / 10 == pytest.approx(0.95, abs=0.01)
    assert np.mean(posterior.samples.h0 < limit) == pytest.approx(0.95, abs=0.02)
    assert posterior.samples.h0.shape == (4096,)
    assert 0.2 < float(row["timing_mismatch"]) < 0.6


@pytest.mark.slow
def test_errors_beyond_the_usual_reach_are_integrated_over(centre, folder):
    error = 3e-5  # of a frequency that twice its rotation's; two days tell 3e-6 Hz apart
    sfts = simulated(centre, jfstat.Amplitude(0.0, 0.4, 0.3, 1.0))
    pulsar = read(folder, F0=f"21.25 1 {error}")
    (row,) = jfstat.pulsar_posteriors(sfts, pulsar, sqrt_sx=NOISE, progress=False).table
    limit = float(row["h0_limit"])
    flat = [jfstat.AmplitudePrior(h0=jfstat.Uniform(0.0, high)) for high in (limit, 10 * limit)]
    x = np.linspace(-4.5, 4.5, 240)  # two fifths of what two days tell apart
    log_bstat, *below = terms_over_frequency(sfts, pulsar, [jfstat.AmplitudePrior(), *flat], x, error)
    assert float(row["log_bstat"]) == pytest.approx(log_bstat, abs=0.3)
    assert np.exp(below[0] - below[1]) / 10 == pytest.approx(0.95, abs=0.02)


def test_solutions_whose_errors_hardly_matter_are_exact(centre, folder):
    sfts = simulated(centre, AMPLITUDE)
    exact, near = (
        jfstat.pulsar_posteriors(sfts, pulsar, sqrt_sx=NOISE, progress=False)
        for pulsar in (read(folder), read(folder, F0="21.25 1 1e-9", PX="1.0 1 0.2"))
    )
    assert 0 < float(near.table["timing_mismatch"][0]) < 1e-5
    np.testing.assert_array_equal(near.posteriors[0].density, exact.posteriors[0].density)


@pytest.mark.ci
def test_solutions_that_are_hardly_known_are_said(centre, folder):
    sfts = simulated(centre, AMPLITUDE)
    with pytest.warns(
        UserWarning,
        match=r"the timing errors of J1000\+1000 are too large to be integrated over .*its limits are too low",
    ):
        found = jfstat.pulsar_posteriors(sfts, read(folder, F0="21.25 1 0.4"), sqrt_sx=NOISE, progress=False)
    assert len(found.likelihoods[0].log_weight) == 1


@pytest.mark.slow
def test_two_harmonics_share_a_solution(folder, truth):
    """The frequency is off by 1.5 of its errors: the limits are those of the right one."""
    signal = jfstat.DualHarmonicAmplitude(c21=4e-25, c22=1.5e-25, cosi=0.3, psi=0.2, phi21=1.0, phi22=2.0)
    points = [(truth.doppler(harmonic=k), signal.at_harmonic(k)) for k in (1, 2)]
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, SPAN, 20.0, 43.8, sqrt_sx=NOISE, signals=points, seed=1)
    prior = jfstat.DualHarmonicPrior(c21=jfstat.Uniform(0, 1e-22), c22=jfstat.Uniform(0, 1e-22))
    pulsars = [truth, read(folder, F0=f"{21.25 + 1.5 * ERROR!r} 1 {ERROR}")]
    exact, off = (jfstat.pulsar_posteriors(sfts, x, prior, sqrt_sx=NOISE, progress=False) for x in pulsars)
    for name in ("c21_limit", "c22_limit", "h0_limit"):
        assert float(off.table[name][0]) == pytest.approx(float(exact.table[name][0]), rel=0.05)
    assert float(off.table["twoF_21"][0]) < 0.9 * float(exact.table["twoF_21"][0])
    assert float(off.table["log_bstat"][0]) > float(exact.table["log_bstat"][0]) - 5


def test_changes_of_a_solution_at_another_reference_time(folder):
    known = {
        "RAJ": "10:00:00.5 1 0.01",
        "DECJ": "-10:00:00.5 1 0.1",
        "PMRA": "0 1 3.0",
        "F0": "21.25 1 1e-9",
        "F1": "-3e-11 1 1e-16",
        "F2": "1e-21 1 1e-23",
        "BINARY": "ELL1",
        "PB": "1.5 1 1e-7",
        "A1": "3.0 1 1e-5",
        "TASC": "57700.1 1 1e-6",
        "EPS1": "1e-4 1 1e-6",
        "EPS2": "2e-4",
    }
    pulsar = read(folder, **known)
    times, reference = (START, START + SPAN), GPSTime(START + 12345, 500_000_000)
    errors = errors_of(pulsar, *times, 2)
    centre = moved_to(with_room(pulsar.doppler(*times), errors), reference)
    moved = moved_errors(errors, float(reference - pulsar.epoch), centre)
    for name in errors.names:
        word, _, error = known[name].split()
        if ":" in word:
            step = float(error) * (1 if name == "RAJ" else -1)  # south of the equator a larger number is further south
            first, last = word.rsplit(":", 1)
            changed = f"{first}:{float(last) + step:.12f}"
        else:
            changed = repr(float(word) + float(error))
        other = read(folder, **known | {name: changed}).doppler(*times)
        wanted = moved_to(with_room(other, errors), reference)
        found = moved.point(jnp.asarray([float(error) * (x == name) for x in errors.names]))
        for parameter in all_parameters(centre):
            at = float(value(centre, parameter))
            step = float(value(wanted, parameter)) - at
            rounding = 1e-13 * abs(at) + 1e-5 * (parameter == "tp") + 1e-9 * (parameter == "argp")
            own = float(value(found, parameter)) - at
            assert own == pytest.approx(step, rel=2e-3, abs=rounding + 1e-30), (name, parameter)


def test_phases_of_glitches_change_with_their_entries(folder):
    pulsar = read(folder, GLEP_1="57710.25 1 0.001", GLPH_1="0.3 1 0.05", GLF0_1="3e-6 1 1e-8", GLF1_1="-2e-13")
    times, at = (START, START + SPAN), GPSTime(START, 0)
    since = float(at - pulsar.glitches[0].time)
    found = phase_steps(pulsar, *times, 2, at)
    assert set(found) == {"GLEP_1", "GLPH_1", "GLF0_1"}
    assert found["GLPH_1"] == pytest.approx(2 * 0.05, rel=1e-6)
    assert found["GLF0_1"] == pytest.approx(2 * 1e-8 * since, rel=1e-6)
    assert found["GLEP_1"] == pytest.approx(-2 * 0.001 * DAY * (3e-6 - 2e-13 * since), rel=1e-3)
    assert phase_steps(read(folder), *times, 2, at) == {}


@pytest.mark.parametrize(
    "precisions", [(1.0, 1.0), (400.0, 100.0), (400.0, 100.0, 10.0, 1.0, 0.0, 0.0), (1e5, 1e3, 10.0)]
)
def test_draws_give_means_over_the_errors(precisions):
    rng, d = np.random.default_rng(3), len(precisions)
    axes = np.linalg.qr(rng.normal(size=(d, d)))[0]
    inverse, best = (axes * precisions) @ axes.T, rng.normal(size=d)

    def log_likelihood(z):
        return -0.5 * np.einsum("ni,ij,nj->n", z - best, inverse, z - best)

    posterior = inverse + np.eye(d)
    centre = np.linalg.solve(posterior, inverse @ best)
    wanted = -0.5 * np.linalg.slogdet(posterior)[1] - 0.5 * (best @ inverse @ best - centre @ posterior @ centre)
    found = timing_draws(log_likelihood, d)
    assert float(logsumexp(log_likelihood(found.z) + found.log_weight)) == pytest.approx(wanted, abs=0.15)
    assert found.effective > 300
    # for a likelihood of 1, that of no signal, the mean is 1
    assert float(logsumexp(found.log_weight)) == pytest.approx(0.0, abs=0.3)
    share = np.exp(log_likelihood(found.z) + found.log_weight - wanted)
    off = (share @ found.z / np.sum(share) - centre) @ np.linalg.cholesky(posterior)
    assert np.all(np.abs(off) < 5 * np.sqrt(np.sum(share**2)) / np.sum(share))


@pytest.mark.slow
def test_draws_of_many_errors_end():
    found = timing_draws(lambda z: -50 * z[:, 0] ** 2, 150)
    assert found.z.shape == (64, 150)


def measured_of(sfts, pulsar):
    search = pulsar_search(sfts, [pulsar], PulsarBand(harmonic=2), NOISE, None, 1.0, None, False)
    (found,) = measured(search).pulsars
    return found


def test_phases_between_parts_count(centre, folder):
    """A star with a glitch of next to nothing loses as much as without it."""
    sfts = simulated(centre, AMPLITUDE)
    known = {"F0": "21.25 1 3e-7", "RAJ": "10:00:00 1 0.02"}
    glitch = {"GLEP_1": "57757.25", "GLF0_1": "1e-14"}
    whole, parted = (measured_of(sfts, read(folder, **known | own)) for own in ({}, glitch))
    assert len(parted.parts) == 2
    assert parted.mismatch == pytest.approx(whole.mismatch, rel=0.1)
    z = np.eye(2)
    own = [x.likelihoods(x.names, z)[0].twoF for x in (whole, parted)]
    np.testing.assert_allclose(own[1], own[0], rtol=0.1)  # some SFTs are left out at the glitch


def test_orbits_change_alike_in_both_parts(centre, folder):
    """An error of the period changes the one orbit of both parts, as it does in another file."""
    orbit = {"BINARY": "ELL1", "PB": "1.5 1 1e-4", "A1": "3.0", "TASC": "57753.1", "EPS1": "0", "EPS2": "0"}
    glitch = {"GLEP_1": "57757.25", "GLF0_1": "1e-14"}
    sfts = simulated(centre, AMPLITUDE)
    found, other = (measured_of(sfts, read(folder, **orbit | glitch | own)) for own in ({}, {"PB": "1.5001 1 1e-4"}))
    names = found.names
    z = np.asarray([[float(name == "PB") for name in names]])
    for part, wanted in zip(found.parts, other.parts, strict=True):
        moved = jax.tree.map(lambda x: x[0], part.templates(names, z))
        assert float(moved.orbit.tp) == pytest.approx(float(wanted.stretch.point.orbit.tp), abs=1e-3)
        assert float(moved.orbit.period) == pytest.approx(float(wanted.stretch.point.orbit.period), rel=1e-9)


def test_a_template_that_leaves_out_much_of_the_solution_is_warned_of(folder):
    sfts = jfstat.simulate_sfts(["H1"], START, 20000, 41.8, 43.2, sqrt_sx=NOISE, seed=1)
    waves = dict(WAVEEPOCH="57700", WAVE_OM="0.01")  # of 42.5 Hz, 7e-4 s are 0.03 cycles
    small, large = (
        read(folder, PSRJ=name, WAVE1=f"{seconds} 0", **waves) for name, seconds in (("J1", 6e-4), ("J2", 2e-3))
    )
    with pytest.warns(UserWarning, match=r"limits of h0 may be too low: .* cycles: J2 \(0\.085\)\. Analyse") as said:
        found = jfstat.pulsar_posteriors(sfts, [small, large], sqrt_sx=NOISE, progress=False)
    assert len(said) == 1 and said[0].filename == __file__
    np.testing.assert_allclose(found.table["phase_error"].value, [0.0255, 0.085], rtol=0.01)
