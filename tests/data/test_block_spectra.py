"""Fa and Fb from the transforms of a series' blocks are those of the direct sum."""

from __future__ import annotations

import logging
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jfstat
from jfstat.candidates.details import column_programs, kept_columns
from jfstat.candidates.semicoherent import semicoherent_columns, semicoherent_programs
from jfstat.data.blockspectra import LEAST_BLOCK, BlockSpectra, spectra_or_data
from jfstat.data.workers import compile_together

START, DAY = 1_167_458_304, 86400


def simulated(detectors, days, freq, width, seed, missing=0.2):
    rng = np.random.default_rng(seed)
    starts = START + 1800 * np.arange(48 * days)
    times = {name: np.sort(rng.choice(starts, int((1 - missing) * len(starts)), replace=False)) for name in detectors}
    return jfstat.simulate_sfts(detectors, timestamps=times, fmin=freq - 1.3, fmax=freq + width + 1.3, seed=seed)


def some_templates(freq, width, seed, n=16):
    """Random ones, two of them at the edges of the band."""
    rng = np.random.default_rng(seed)
    f = np.append(rng.uniform(freq, freq + width, n - 2), [freq, freq + width])
    fkdot = np.stack([f, rng.uniform(-1e-9, 1e-10, n), rng.uniform(-1e-16, 1e-16, n)], axis=1)
    return jfstat.Doppler(rng.uniform(0, 2 * np.pi, n), np.arcsin(rng.uniform(-1, 1, n)), fkdot, START + DAY)


@jax.jit
def sums(data, points):
    return jax.lax.map(lambda point: jnp.stack(data.fa_fb(point)), points)


@pytest.mark.parametrize(
    ("detectors", "days", "freq", "width"),
    [(["H1", "L1"], 5, 100.0, 0.14), (["V1"], 1, 1900.0, 0.1), (["H1"], 3, 700.0, 0.01), (["L1", "K1"], 2, 20.0, 0.3)],
)
def test_they_are_those_of_the_direct_sum(detectors, days, freq, width):
    data = jfstat.prepare(simulated(detectors, days, freq, width, 3), freq, freq + width, START, sqrt_sx=4e-24)
    points = some_templates(freq, width, 4)
    own = spectra_or_data(data, points)
    assert isinstance(own, BlockSpectra) and own.block >= LEAST_BLOCK
    expected, found = np.asarray(sums(data.for_one_template, points)), np.asarray(sums(own, points))
    assert np.all(np.isfinite(expected))
    assert np.max(np.abs(found - expected)) < 1e-6 * np.sqrt(np.mean(np.abs(expected) ** 2))


def test_blocks_have_small_prime_factors_unless_that_makes_them_short():
    """NVIDIA's library compiles kernels for transforms of other lengths."""
    data = jfstat.prepare(simulated(["H1"], 1, 100.0, 0.2, 6), 100, 100.2, START, sqrt_sx=4e-24, filters=False)
    point = jfstat.Doppler(1.0, 0.2, [100.1], START)

    def block(n):
        shapes = jnp.zeros((1, n), jnp.complex64)
        return spectra_or_data(replace(data, series=shapes), point).block

    assert block(2**11 * 17) == 512  # not 544
    assert block(2**6 * 17 * 31) == 544  # not 64


def test_orbits_and_phase_models_take_the_direct_sum():
    data = jfstat.prepare(simulated(["H1"], 1, 50.0, 0.1, 5), 50, 50.1, START, sqrt_sx=4e-24)
    orbit = jfstat.Orbit(asini=0.1, period=80_000.0, tp=START)
    model = jfstat.PhaseModel(lambda values, t: values["a"] * t, {"a": jnp.float64(1e-6)})
    for point in (
        jfstat.Doppler(1.0, 0.2, [50.05], START, orbit=orbit),
        jfstat.Doppler(1.0, 0.2, [50.05], START, model=model),
    ):
        assert isinstance(spectra_or_data(data, point), jfstat.FstatData)


def test_templates_that_do_not_fit_give_nan():
    data = jfstat.prepare(simulated(["H1"], 1, 50.0, 0.1, 5), 50, 50.1, START, sqrt_sx=4e-24)
    own = spectra_or_data(data, jfstat.Doppler(1.0, 0.2, [50.05], START))
    at = jax.jit(lambda x: jnp.stack(own.fa_fb(jfstat.Doppler(1.0, x[1], x[:1], START))))
    for freq, delta, good in ((50.05, 0.2, True), (50.2, 0.2, False), (50.05, np.nan, False), (50.05, 2.0, False)):
        assert np.all(np.isfinite(np.asarray(at(jnp.array([freq, delta])))) == good)


@pytest.mark.parametrize("orbit", [None, jfstat.Orbit(0.1, 30000.0, START)])
def test_details_of_segments_compiled_ahead_are_not_compiled_again(orbit, caplog):
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, 86400, 98.8, 101.3, 1800, 4e-24, seed=1)
    edges = [(START, START + 43200), (START + 43200, START + 86400)]
    data = jfstat.prepare(sfts, 100.0, 100.01, sqrt_sx=4e-24, segments=edges, orbit=orbit)
    orbit = None if orbit is None else jax.tree.map(lambda x: np.full(2, x), orbit)
    points = jfstat.Doppler(np.array([1.0, 2.0]), np.array([0.1, -0.3]), np.full((2, 1), 100.0), START, orbit)
    points = jax.tree.map(np.asarray, points)
    compile_together(semicoherent_programs(data, points, amplitudes=True))
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        found = semicoherent_columns(data, points, amplitudes=True)
    assert np.isfinite(found["mean_twoF"]).all()
    assert "compilation of jit(_terms)" not in caplog.text
    assert "compilation of jit(_values)" not in caplog.text


@pytest.mark.parametrize("bound", [False, True])
def test_details_compiled_ahead_are_not_compiled_again(bound, caplog):
    """Of data that are bound to a device or not."""
    sfts = jfstat.simulate_sfts(["H1"], START, 43200, 98.8, 101.3, 1800, 4e-24, seed=1)
    data = jfstat.prepare(sfts, 100.0, 100.02 + 0.01 * bound, sqrt_sx=4e-24)
    if bound:
        data = jax.device_put(data, jax.devices()[0])
    points = jfstat.Doppler(np.array([1.0, 2.0]), np.array([0.1, -0.3]), np.full((2, 1), 100.0), START)
    compile_together(column_programs(data, points, amplitudes=True))
    jax.config.update("jax_log_compiles", True)  # in threads as well, unlike the context manager
    try:
        with caplog.at_level(logging.WARNING):
            found = kept_columns(data, jax.tree.map(np.asarray, points), amplitudes=True)
            assert "XLA compilation" not in caplog.text
            kept_columns(data, jax.tree.map(np.asarray, points), amplitudes=False)
            assert "compilation of jit(_values)" in caplog.text  # what is compiled is told
    finally:
        jax.config.update("jax_log_compiles", False)
    assert np.isfinite(found["twoF_H1"]).all()
