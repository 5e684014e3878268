"""What a GPU computes against what the CPU beside it computes, function by function: the same to single precision.

    XLA_FLAGS= python -m pytest -o addopts= -m gpu tests/package/test_devices_agree.py

Skipped where JAX's default device is the CPU.
"""

import jax
import numpy as np
import pytest

import jfstat

pytestmark = pytest.mark.gpu
START = 1167458304
POINT = jfstat.Doppler(1.5, 0.2, [50.0123, -1e-9], reftime=START)
NEAR = jfstat.Doppler(1.5002, 0.2, [50.0123, -1e-9], reftime=START)
AMPLITUDE = jfstat.Amplitude(2e-25, 0.3, 0.2, 1.0)
SIMULATED = dict(detectors=["H1", "L1"], start=START, fmin=48.9, fmax=51.2)
TOLERANCE = 3e-6
"""Largest difference, in units of a result's largest value; with TensorFloat-32 it was up to 2e-4."""


def noise(days=3, **more):
    signals = [(POINT, AMPLITUDE)]
    return jfstat.simulate_sfts(**SIMULATED, duration=days * 86400, sqrt_sx=4e-24, signals=signals, seed=1, **more)


def prepared(**more):
    return jfstat.prepare(noise(), 49.99, 50.03, START, fdots=[(-3e-9, 1e-9)], **more)


def bank(data):
    return jfstat.template_bank((1.49, 1.51), (0.19, 0.21), (-2e-9, 0.0), mismatch=0.5, data=data)


def found(data):
    table = jfstat.search(data, bank(data), top=2, progress=False)
    return [table[name] for name in ("twoF", "twoF_H1", "twoF_L1", "log10BSGL", "h0", "cosi", "psi")]


def refined(data):
    table = jfstat.refine(data, NEAR, progress=False)
    names = ("twoF", "twoF_H1", "twoF_L1", "start_twoF", "start_mismatch", "h0", "freq_error", "alpha_error")
    return [table[name] for name in names]


def narrow(data):
    near = jfstat.narrow(data, NEAR)
    prior = jfstat.AmplitudePrior(h0=jfstat.HalfNormal(1e-24))
    value, slope = jax.value_and_grad(jfstat.twoF, argnums=1)(near, POINT)
    return (
        value,
        slope.alpha,
        slope.delta,
        *slope.fkdot,
        jfstat.log_likelihood(near, POINT, AMPLITUDE),
        jfstat.log_bstat(near, POINT, prior),
    )


def without_units(metric):
    scale = np.sqrt(np.diag(metric))
    return np.asarray(metric) / np.outer(scale, scale), *scale


def transients(data):
    atoms = jfstat.atoms(data, POINT)
    return atoms.Fa, atoms.Fb, jfstat.transient_map(atoms, "exp", [START, START + 86400], [86400, 172800])


def followed_up():
    table = jfstat.follow_up(noise(), NEAR, (3, 1), progress=False)
    # errors over segments of a day, where position and frequency are degenerate, amplify rounding to 0.3 %
    return [table[name] for name in ("mean_twoF", "mean_twoF_H1", "start_mismatch", "h0")]


def pulsar(folder):
    path = folder / "a.par"
    path.write_text("RAJ 05:43:46.5\nDECJ 11:27:33\nF0 25.00615\nF1 -5e-10\nPEPOCH 57756.25\nUNITS TDB\n")
    return jfstat.read_par(path)


def pulsars(folder):
    table = jfstat.search_pulsars(noise(), [pulsar(folder)], progress=False)
    return [table[name] for name in ("twoF", "twoF_H1", "twoF_L1", "h0", "cosi", "psi")]


def posteriors(folder):
    prior = jfstat.AmplitudePrior(h0=jfstat.HalfNormal(1e-24))
    table = jfstat.pulsar_posteriors(noise(), pulsar(folder), prior, progress=False).table
    return [table[name] for name in ("twoF", "log_bstat", "h0", "h0_limit")]


def simulated():
    made = jfstat.simulate_sfts(**SIMULATED, duration=86400, signals=[(POINT, AMPLITUDE)])
    return [1e24 * series.data for series in made]


FUNCTIONS = {
    "simulated signal": lambda _: simulated(),
    "twoF": lambda _: jfstat.twoF(prepared(), POINT),
    "fstat": lambda _: jfstat.fstat(prepared(), POINT),
    "twoF_band": lambda _: jfstat.twoF_band(prepared(), POINT),
    "twoF_band at coarse frequencies": lambda _: jfstat.twoF_band(prepared(dfreq=1 / 1200), POINT),
    "narrow data": lambda _: narrow(prepared()),
    "atoms and transient_map": lambda _: transients(prepared()),
    "estimate_amplitude": lambda _: jfstat.estimate_amplitude(prepared(), POINT).columns,
    "metric": lambda _: without_units(jfstat.metric(prepared(), POINT)),
    "mean_twoF": lambda _: jfstat.mean_twoF(prepared(segments=6), POINT),
    "search": lambda _: found(prepared()),
    "refine": lambda _: refined(prepared()),
    "follow_up": lambda _: followed_up(),
    "search_pulsars": pulsars,
    "pulsar_posteriors": posteriors,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gpu_and_cpu_agree(name, tmp_path):
    if jax.devices()[0].platform == "cpu":
        pytest.skip("needs an accelerator as JAX's default device")
    results = []
    for device in (jax.devices()[0], jax.devices("cpu")[0]):
        with jax.default_device(device):
            results.append(jax.tree.map(np.asarray, jax.tree.leaves(FUNCTIONS[name](tmp_path))))
    assert len(results[0]) == len(results[1]) > 0
    for here, there in zip(*results, strict=True):
        if np.issubdtype(there.dtype, np.inexact):
            assert np.isfinite(there).any()
            scale = float(np.nanmax(np.abs(there)))
            np.testing.assert_allclose(here, there, rtol=0, atol=TOLERANCE * scale, equal_nan=True)
