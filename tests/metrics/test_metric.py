"""The parameter-space metric against measured losses of 2F, its own definitions, and LALSuite's metrics."""

import re
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import make

import jfstat
from jfstat.signal.reading import all_parameters
from jfstat.signal.values import replaced, values

SMALL = dict(half_band=0.02, guard=1.0)
ORBIT = jfstat.Orbit(asini=1.2, period=40000.0, tp=1.2e9 + 0.25, ecc=0.3, argp=0.7)
CASES = {
    "isolated": (100.0, dict(days=2, duty=0.7)),
    "one detector, 1900 Hz": (1900.0, dict(days=1, detectors=("V1",), duty=0.9)),
    "binary": (437.0, dict(days=1, detectors=("H1", "L1", "V1"), orbit=ORBIT, reach=0.2)),
}


@jax.jit
def stacked_two_f(data, points):
    return jax.vmap(jfstat.twoF, (None, 0))(data, points)


@pytest.fixture(
    scope="module", params=["binary", *(pytest.param(k, marks=pytest.mark.slow) for k in CASES if k != "binary")]
)
def case(request):
    """Without noise, where 2F is rho^2."""
    f0, options = CASES[request.param]
    return make(f0, seed=40 + len(request.param), **SMALL, **options)


def losses(data, point, points):
    """Fraction of rho^2 lost at templates, of noise-free data."""
    peak = float(jfstat.twoF(data, point))
    return 1 - np.asarray(stacked_two_f(data, points)) / peak


def measured(case, directions, names):
    """Mean loss at +d and -d, which cancels the third order, for steps in the parameters, (n, p)."""
    x = np.asarray(values(case.doppler, names))
    move = jax.vmap(partial(replaced, case.doppler, names))
    plus, minus = (losses(case.data, case.doppler, move(jnp.asarray(x + s * directions))) for s in (1, -1))
    return 0.5 * (plus + minus)


def rescaled(directions, g, mismatch):
    """Steps along directions, (n, p), for which the metric predicts a mismatch."""
    return directions * np.sqrt(mismatch / np.einsum("ni,ij,nj->n", directions, g, directions))[:, None]


@pytest.mark.parametrize(
    ("mismatch", "tolerance"), [(0.003, 0.01), pytest.param(0.01, 0.03, marks=pytest.mark.slow), (0.1, 0.1)]
)
def test_predicted_mismatch_is_the_measured_loss(case, mismatch, tolerance):
    """Along each parameter of the phase's own, and along random mixtures of them."""
    names = tuple(n for n in all_parameters(case.doppler) if n not in ("alpha", "delta"))
    g = np.asarray(jfstat.metric(case.data, case.doppler, names, amplitude=case.amplitude))
    rng = np.random.default_rng(0)
    mixed = rng.normal(size=(30, len(names))) / np.sqrt(np.diagonal(g))
    steps = rescaled(np.concatenate([np.diag(1 / np.sqrt(np.diagonal(g))), mixed]), g, mismatch)
    found = measured(case, steps, names)
    # the loss of a phase error, 1 - |<exp(i phi)>|^2, is below the variance of phi from the next order on
    np.testing.assert_allclose(found, mismatch, rtol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize(("mismatch", "tolerance"), [(0.003, 0.03), (0.03, 0.1)])
def test_predicted_mismatch_with_the_sky_in_whitened_coordinates(case, mismatch, tolerance):
    """The sky too: the metric along the curves of whitened coordinates, on which frequencies follow the sky."""
    data, point = case.data, case.doppler
    coordinates = jfstat.whiten(data, point)
    size = len(coordinates.names)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, size))
    ends = jax.vmap(coordinates.point)
    slope = np.asarray(jax.jacfwd(coordinates.values)(jnp.zeros(size)))
    g = slope.T @ np.asarray(jfstat.metric(data, point, coordinates.names, amplitude=case.amplitude)) @ slope
    # directions that short data see: not those that the sky's added curvature shortens
    seen, axes = np.linalg.eigh(slope.T @ np.asarray(jfstat.metric(data, point, coordinates.names)) @ slope)
    assert seen.max() < 1.02  # from one time an SFT instead of three
    x = x @ (axes * (seen > 0.9)).T
    x = rescaled(x, g, mismatch)
    loss = 0.5 * sum(losses(data, point, ends(jnp.asarray(s * x))) for s in (1, -1))
    np.testing.assert_allclose(loss, mismatch, rtol=tolerance)


@pytest.mark.slow
def test_average_over_amplitudes_is_round_in_whitened_coordinates(case):
    coordinates = jfstat.whiten(case.data, case.doppler)
    slope = np.asarray(jax.jacfwd(coordinates.values)(jnp.zeros(len(coordinates.names))))
    g = slope.T @ np.asarray(jfstat.metric(case.data, case.doppler, coordinates.names)) @ slope
    assert np.linalg.eigvalsh(g).max() < 1.02  # from one time an SFT instead of three
    np.testing.assert_allclose(np.asarray(coordinates.values(jnp.zeros(len(coordinates.names)))),
                               values(case.doppler, coordinates.names), rtol=1e-14)  # fmt: skip
    plain = jfstat.whiten(case.data, case.doppler, ("freq", "f1dot"))
    slope = np.asarray(jax.jacfwd(plain.values)(jnp.zeros(2)))
    g = np.asarray(jfstat.metric(case.data, case.doppler, plain.names))
    np.testing.assert_allclose(slope.T @ g @ slope, np.eye(2), atol=0.02)


def correlation(g):
    """The metric with a diagonal of ones."""
    size = np.sqrt(np.diagonal(g))
    return g / np.outer(size, size)


@pytest.mark.parametrize("kind", ["average", "amplitude", "phase"])
def test_symmetric_semidefinite_and_made_of_its_parts(case, kind):
    options = dict(average={}, amplitude=dict(amplitude=case.amplitude), phase=dict(phase_only=True))[kind]
    names = all_parameters(case.doppler)
    g = np.asarray(jfstat.metric(case.data, case.doppler, **options))
    assert g.shape == (len(names), len(names)) and g.dtype == np.float64
    scaled = correlation(g)
    np.testing.assert_allclose(scaled, scaled.T, atol=1e-12)
    assert np.linalg.eigvalsh(scaled).min() > -1e-9
    subset = ("argp" if case.doppler.orbit is not None else "f1dot", "delta", "freq")
    if kind == "average":
        rows = [names.index(n) for n in subset]
        part = np.asarray(jfstat.metric(case.data, case.doppler, subset))
        size = np.sqrt(np.diagonal(g)[rows])
        np.testing.assert_allclose(part / np.outer(size, size), scaled[np.ix_(rows, rows)], atol=1e-10)
        np.testing.assert_allclose(jfstat.metric(case.data, case.doppler, "freq"), [[g[0, 0]]], rtol=1e-10)


def test_average_is_that_over_amplitudes_of_equal_rho2(case):
    """The mean over the sphere of equal rho^2 in the space of the four amplitudes."""
    data, point = case.data, case.doppler
    found = jfstat.fstat(data, point)
    matrix = np.array([[found.A, found.C], [found.C, found.B]])
    # the columns of any orthonormal basis average quadratic forms exactly; rho^2 makes of it an ellipsoid
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(4, 4)))[0]
    vectors = turn @ np.kron(np.eye(2), np.linalg.inv(np.linalg.cholesky(matrix)))
    np.testing.assert_allclose(vectors @ np.kron(np.eye(2), matrix) @ vectors.T, np.eye(4), atol=1e-12)
    amplitudes = [amplitude_of(v) for v in vectors]
    each = [np.asarray(jfstat.metric(data, point, amplitude=a)) for a in amplitudes]
    average = np.asarray(jfstat.metric(data, point))
    size = np.sqrt(np.diagonal(average))
    np.testing.assert_allclose(np.mean(each, axis=0) / np.outer(size, size), correlation(average), atol=1e-9)
    # single amplitudes scatter about it, by at most a factor of four above
    assert max(np.max(np.diagonal(g) / np.diagonal(average)) for g in each) < 4 + 1e-9


def amplitude_of(vector):
    """Amplitude with given (a1, a2, a3, a4), from its two circular parts."""
    a1, a2, a3, a4 = vector
    one, other = complex(a1 + a4, a2 - a3), complex(a1 - a4, a2 + a3)  # (A+ +- Ax) exp(i (2 psi +- phi0))
    plus, cross = 0.5 * (abs(one) + abs(other)), 0.5 * (abs(one) - abs(other))
    h0 = plus + np.sqrt(plus**2 - cross**2)
    psi, phi0 = 0.25 * (np.angle(one) + np.angle(other)), 0.5 * (np.angle(one) - np.angle(other))
    amplitude = jfstat.Amplitude(h0, cross / h0, psi, phi0)
    np.testing.assert_allclose(amplitude.canonical, vector, atol=1e-9 * h0)
    return amplitude


def test_amplitudes_scale_and_initial_phase_do_not_matter(case):
    a = case.amplitude
    g = np.asarray(jfstat.metric(case.data, case.doppler, amplitude=a))
    other = jfstat.Amplitude(h0=7 * float(a.h0), cosi=a.cosi, psi=a.psi, phi0=float(a.phi0) / 2 + 0.4)
    found = np.asarray(jfstat.metric(case.data, case.doppler, amplitude=other))
    size = np.sqrt(np.diagonal(g))
    np.testing.assert_allclose(found / np.outer(size, size), correlation(g), atol=1e-10)


@pytest.mark.ci
def test_under_jit_vmap_and_grad(case):
    names = ("freq", "alpha", "delta")
    x = values(case.doppler, names)
    points = jax.vmap(partial(replaced, case.doppler, names))(
        x + jnp.outer(jnp.arange(3.0), jnp.array([1e-6, 0.1, 0.1]))
    )
    stack = jax.jit(jax.vmap(lambda p: jfstat.metric(case.data, p, names)))(points)
    assert stack.shape == (3, 3, 3)
    for k in (0, 2):
        one = jfstat.metric(case.data, jax.tree.map(lambda leaf, k=k: leaf[k], points), names)
        np.testing.assert_allclose(stack[k], one, rtol=1e-7)
    amplitudes = jfstat.Amplitude(1e-25, np.array([0.1, 0.9]), 0.2, 0.3)
    both = jax.vmap(lambda a: jfstat.metric(case.data, case.doppler, names, amplitude=a))(amplitudes)
    one = jfstat.metric(case.data, case.doppler, names, amplitude=jfstat.Amplitude(1e-25, 0.9, 0.2, 0.3))
    np.testing.assert_allclose(both[1], one, rtol=1e-7)
    volume = jax.grad(lambda p: jnp.linalg.slogdet(jfstat.metric(case.data, p, ("freq", "f1dot")))[1])(case.doppler)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(volume))


@pytest.mark.slow
def test_scales_as_theory_says():
    """Even times without gaps: pi^2 T^2 / 3 in frequency and pi^2 T^4 / 180 in its derivative."""
    case = make(20.0, seed=3, days=1, detectors=("H1",), duty=1.0, **SMALL)
    p = case.doppler
    middle = int(case.data.observation.epoch) + round(case.data.tspan / 2)
    point = jfstat.Doppler(p.alpha, p.delta, p.fkdot, middle)
    g, t = np.asarray(jfstat.metric(case.data, point, ("freq", "f1dot"), phase_only=True)), case.data.tspan
    np.testing.assert_allclose(np.diagonal(g), [np.pi**2 * t**2 / 3, np.pi**2 * t**4 / 180], rtol=1e-3)
    # 300 s of light travel against a reference in the SSB leave a slight correlation
    assert abs(correlation(g)[0, 1]) < 0.05


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        (("freq", "f7dot"), "f7dot"),
        (("Freq",), "Freq"),
        (("period",), "period"),
        (("freq", "freq"), "twice"),
        ((), "empty"),
    ],
)
def test_names_that_a_template_lacks_are_errors(case, parameters, match):
    p = case.doppler
    with pytest.raises(ValueError, match=match) as error:
        jfstat.metric(case.data, jfstat.Doppler(p.alpha, p.delta, p.fkdot, p.reftime), parameters)
    assert "alpha" in str(error.value)


def test_arguments_of_other_kinds_are_errors(case):
    stack = jax.tree.map(lambda x: jnp.stack([x, x]), case.doppler)
    with pytest.raises(ValueError, match="vmap"):
        jfstat.metric(case.data, stack)
    with pytest.raises(ValueError, match="vmap"):
        jfstat.metric(case.data, case.doppler, amplitude=jfstat.Amplitude(np.full(2, 1e-25), 0.1))
    with pytest.raises(TypeError, match="Amplitude"):
        jfstat.metric(case.data, case.doppler, amplitude=(1e-25, 0.1))
    with pytest.raises(TypeError, match="Doppler"):
        jfstat.metric(case.data, (1.0, 0.5))
    with pytest.raises(TypeError, match="prepare"):
        jfstat.metric(case.data.series, case.doppler)


def lal_metrics(tmp_path, point, names, detectors, start, seconds, amplitude):
    """LALSuite's phase metric, F-metric and average F-metric, by lalpulsar_FstatMetric_v2."""
    from lalsuite_tools import ephemeris_files, run

    output = Path(tmp_path) / "metric.txt"
    options = dict(Alpha=float(point.alpha), Delta=float(point.delta), refTime=int(point.reftime))
    options |= dict(zip(("Freq", "f1dot", "f2dot"), map(float, point.fkdot), strict=False))
    if (orbit := point.orbit) is not None:
        options |= dict(orbitasini=float(orbit.asini), orbitPeriod=float(orbit.period), orbitTp=float(orbit.tp))
        options |= dict(orbitEcc=float(orbit.ecc), orbitArgp=float(orbit.argp))
    options |= {k: float(getattr(amplitude, k)) for k in ("h0", "cosi", "psi", "phi0")}
    earth, sun = ephemeris_files("DE405")[1:]
    run("FstatMetric_v2", IFOs=",".join(detectors), startTime=start, duration=float(seconds), metricType=2,
        coords=",".join(names), outputMetric=output, ephemEarth=earth, ephemSun=sun, **options)  # fmt: skip
    found = []
    for name in ("g_ij", "gF_ij", "gFav_ij"):
        block = re.search(rf"^{name} =\s*\[(.*?)\]", output.read_text(), re.S | re.M)[1]
        found.append(np.array([[float(x) for x in row.split(",")] for row in block.split(";") if row.strip()]))
    return found


SPIN_AND_SKY = ("freq", "f1dot", "alpha", "delta")


@pytest.mark.parametrize(
    ("detectors", "days", "f0"),
    [
        (("H1",), 1.5, 100.0),
        pytest.param(("H1", "L1"), 3.0, 437.0, marks=pytest.mark.slow),
        pytest.param(("V1",), 20.0, 50.0, marks=pytest.mark.slow),
    ],
)
def test_metrics_are_those_of_lalsuite(tmp_path, detectors, days, f0):
    pytest.importorskip("lalpulsar")
    case = make(f0, seed=int(f0), days=days, detectors=detectors, duty=1.0, **SMALL)
    p, seconds = case.doppler, case.data.tspan
    point = jfstat.Doppler(p.alpha, p.delta, p.fkdot, int(case.data.observation.epoch) + round(seconds / 2))
    phase, one, average = lal_metrics(
        tmp_path, point, SPIN_AND_SKY, detectors, int(case.data.observation.epoch), seconds, case.amplitude
    )
    ours = partial(jfstat.metric, case.data, point, SPIN_AND_SKY)
    for found, theirs, tolerance in (
        (ours(phase_only=True), phase, 1e-3),
        # LALSuite leaves the derivatives of a and b out, which count on the sky where the phase hardly does
        (ours(amplitude=case.amplitude), one, 3e-3),
        (ours(), average, 3e-3),
    ):
        size = np.sqrt(np.diagonal(theirs))
        np.testing.assert_allclose(np.asarray(found) / np.outer(size, size), correlation(theirs), atol=tolerance)


@pytest.mark.ci
def test_metric_of_a_binary_is_that_of_lalsuite(tmp_path):
    """LALSuite's: to first order in the eccentricity, at fixed time of ascension, orbit at detector time."""
    pytest.importorskip("lalpulsar")
    middle = 1.2e9
    ecc, argp, period = 1e-3, 0.8, 30000.0
    orbit = jfstat.Orbit(2.0, period, middle, ecc, argp)
    case = make(100.0, seed=9, days=2, detectors=("H1",), duty=1.0, orbit=orbit, reach=0.1, **SMALL)
    p, seconds = case.doppler, case.data.tspan
    middle = int(case.data.observation.epoch) + round(seconds / 2)
    point = jfstat.Doppler(p.alpha, p.delta, p.fkdot, middle, jfstat.Orbit(2.0, period, middle + 5000.0, ecc, argp))
    # they see the orbit at the detector's time, not in the SSB
    later = float(roemer(case.data, point, middle))
    seen = jfstat.Doppler(
        p.alpha, p.delta, p.fkdot, middle, jfstat.Orbit(2.0, period, middle + 5000.0 - later, ecc, argp)
    )
    names = ("freq", "f1dot", "asini", "porb", "tasc", "kappa", "eta")
    phase, _, average = lal_metrics(
        tmp_path, seen, names, ("H1",), int(case.data.observation.epoch), seconds, case.amplitude
    )

    def theirs(x):
        """Their parameters from ours."""
        freq, f1dot, asini, period, tp, ecc, argp = x
        # their period's derivative is at fixed time of ascension of the orbit's first
        return jnp.stack([freq, f1dot, asini, period, tp - argp * period / (2 * jnp.pi), ecc * jnp.cos(argp),
                          ecc * jnp.sin(argp)])  # fmt: skip

    ours = ("freq", "f1dot", "asini", "period", "tp", "ecc", "argp")
    jacobian = np.asarray(jax.jacfwd(theirs)(values(seen, ours)))
    for found, them in (
        (jfstat.metric(case.data, point, ours, phase_only=True), phase),
        (jfstat.metric(case.data, point, ours), average),
    ):
        them = jacobian.T @ them @ jacobian
        # at small eccentricity tp and argp are one direction; it is theirs to first order too
        size = np.sqrt(np.diagonal(them))
        np.testing.assert_allclose(np.asarray(found) / np.outer(size, size), correlation(them), atol=1e-2)


def roemer(data, point, gps):
    """SSB time minus detector time at a GPS time of the first detector."""
    from jfstat.geometry.nearby import sites

    trajectory = jax.tree.map(lambda leaf: leaf[0], data.observation.trajectory)
    return sites(
        trajectory, data.observation.source(point), jnp.array([float(gps - int(data.observation.epoch))])
    ).to_ssb[0]
